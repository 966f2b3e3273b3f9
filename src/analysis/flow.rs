//! Facts about one function's control flow that do not depend on locks: live variables, and conditions that are tested
//! more than once.

use std::collections::{BTreeMap, BTreeSet};

use crate::ir::{
    BlockId, Call, Callee, EdgeKind, EffectKind, Function, Guard, Op, OpKind, Operand, Pattern, Rvalue, UnaryOp, Var,
};

/// Live-in variables per block, and correlated conditions.
#[derive(Debug, Default)]
pub struct Flow {
    /// Variables whose value matters at the start of each block.
    pub live: Vec<BTreeSet<Var>>,
    /// Conditions that at least two blocks test: guard operand -> (condition number, polarity).
    conditions: BTreeMap<(BlockId, usize), (u32, bool)>,
    /// Conditions that no longer hold when a variable is assigned anew.
    resets: BTreeMap<Var, Vec<u32>>,
    /// Futures that are only made here: a task runs them.
    spawned: BTreeSet<Var>,
}

impl Flow {
    /// Computes the facts of `f`.
    pub fn of(f: &Function) -> Flow {
        let mut flow = Flow { live: liveness(f), spawned: spawned(f), ..Flow::default() };
        flow.correlate(f);
        flow
    }

    /// The conditions to forget when `var` is assigned.
    pub fn resets(&self, var: Var) -> &[u32] {
        self.resets.get(&var).map_or(&[], Vec::as_slice)
    }

    /// Whether a future is handed to a task and not awaited here.
    pub fn spawned(&self, future: Var) -> bool {
        self.spawned.contains(&future)
    }

    /// The condition that edge number `edge` of `block` tests, and whether the edge is taken when it is true.
    pub fn condition(&self, block: BlockId, edge: usize) -> Option<(u32, bool)> {
        self.conditions.get(&(block, edge)).copied()
    }
}

/// Variables that end up as operand of a call that starts a task, themselves or in what keeps the future a future.
fn spawned(f: &Function) -> BTreeSet<Var> {
    const KEEPS: &[&str] = &[
        "instrument",
        "in_current_span",
        "with_subscriber",
        "with_current_subscriber",
        "boxed",
        "boxed_local",
        "pin",
        "new",
        "map",
        "unwrap_or_else",
        "catch_unwind",
        "run_until_cancelled_owned",
    ];
    let starts = |call: &Call| {
        let named = call.name().starts_with("spawn") && !call.name().starts_with("spawn_blocking");
        named || call.effect.iter().any(|t| t.effects.iter().any(|e| matches!(e.kind, EffectKind::Spawn(_))))
    };
    let mut found = BTreeSet::new();
    // The future is made before the task is started: backwards, one pass is enough.
    for op in f.blocks.iter().rev().flat_map(|block| block.ops.iter().rev()) {
        let passes = |found: &BTreeSet<Var>| op.dst.is_some_and(|dst| found.contains(&dst));
        let given: &[Operand] = match &op.kind {
            OpKind::Call(call) if starts(call) => &call.args,
            OpKind::Call(call) if passes(&found) && KEEPS.contains(&call.name()) => &call.args,
            OpKind::Let(Rvalue::Use(x)) if passes(&found) => std::slice::from_ref(x),
            _ => continue,
        };
        found.extend(given.iter().filter_map(|x| if let Operand::Var(var, _) = x { Some(*var) } else { None }));
    }
    found
}

/// Calls `visit` with each operand that an op reads.
pub fn reads<'a>(op: &'a Op, mut visit: impl FnMut(&'a Operand)) {
    match &op.kind {
        OpKind::Let(rvalue) => rvalue_reads(rvalue, &mut visit),
        OpKind::Call(call) => {
            if let Callee::Value(operand) = &call.callee {
                visit(operand);
            }
            call.args.iter().for_each(visit);
        }
        OpKind::Store(base, _, value) => {
            visit(base);
            visit(value);
        }
        OpKind::Return(value, _) => visit(value),
        OpKind::Drop(_) => {}
    }
}

fn rvalue_reads<'a>(rvalue: &'a Rvalue, visit: &mut impl FnMut(&'a Operand)) {
    match rvalue {
        Rvalue::Use(x)
        | Rvalue::Field(x, _)
        | Rvalue::Unary(_, x)
        | Rvalue::Cast(x, _)
        | Rvalue::Await(x)
        | Rvalue::Matches(x, _) => visit(x),
        Rvalue::Binary(_, a, b) | Rvalue::Index(a, b) => {
            visit(a);
            visit(b);
        }
        Rvalue::Tuple(list) | Rvalue::Array(list) | Rvalue::Variant(_, list) | Rvalue::Unknown(list) => {
            list.iter().for_each(visit);
        }
        Rvalue::Struct(_, fields, rest) => {
            fields.iter().for_each(|(_, x)| visit(x));
            if let Some(x) = rest {
                visit(x);
            }
        }
        Rvalue::Format(pieces) => {
            for piece in pieces {
                if let crate::ir::FormatPiece::Hole(x) = piece {
                    visit(x);
                }
            }
        }
        Rvalue::Closure(_, captures) => captures.iter().for_each(visit),
        Rvalue::IncludeStr(_) => {}
    }
}

/// Variables that a pattern binds.
pub fn bound(pattern: &Pattern, vars: &mut Vec<Var>) {
    match pattern {
        Pattern::Bind(var, sub) => {
            vars.push(*var);
            if let Some(sub) = sub {
                bound(sub, vars);
            }
        }
        Pattern::Variant(_, list, _) | Pattern::Tuple(list, _) | Pattern::Or(list) => {
            list.iter().for_each(|p| bound(p, vars));
        }
        Pattern::Struct(_, fields) => fields.iter().for_each(|(_, p)| bound(p, vars)),
        Pattern::Opaque(list) => vars.extend(list),
        Pattern::Wild | Pattern::Lit(_) | Pattern::Path(_) => {}
    }
}

/// The operand that a guard tests.
pub fn tested(guard: &Guard) -> Option<&Operand> {
    match guard {
        Guard::Always => None,
        Guard::True(x) | Guard::False(x) | Guard::Matches(x, _) => Some(x),
    }
}

fn liveness(f: &Function) -> Vec<BTreeSet<Var>> {
    let mut live: Vec<BTreeSet<Var>> = vec![BTreeSet::new(); f.blocks.len()];
    let read_var = |operand: &Operand| match operand {
        Operand::Var(v, _) => Some(*v),
        _ => None,
    };
    let mut changed = true;
    while changed {
        changed = false;
        for (b, block) in f.blocks.iter().enumerate().rev() {
            let mut set = BTreeSet::new();
            for edge in &block.edges {
                let mut own = Vec::new();
                if let Guard::Matches(_, pattern) = &edge.guard {
                    bound(pattern, &mut own);
                }
                set.extend(live[edge.to.0 as usize].iter().filter(|v| !own.contains(v)));
                set.extend(tested(&edge.guard).and_then(read_var));
            }
            for op in block.ops.iter().rev() {
                if let Some(dst) = op.dst {
                    set.remove(&dst);
                }
                reads(op, |operand| set.extend(read_var(operand)));
                if let OpKind::Drop(v) = op.kind {
                    set.insert(v);
                }
            }
            if set != live[b] {
                live[b] = set;
                changed = true;
            }
        }
    }
    live
}

/// Definitions of each variable: (place of the op or `None` for a parameter, capture or pattern).
fn definition_counts(f: &Function) -> Vec<u32> {
    let mut counts = vec![0; f.vars.len()];
    let mut add = |v: Var| counts[v.0 as usize] += 1;
    f.params.iter().chain(&f.captures).for_each(|v| add(*v));
    for block in &f.blocks {
        block.ops.iter().filter_map(|op| op.dst).for_each(&mut add);
        for edge in &block.edges {
            if let Guard::Matches(_, pattern) = &edge.guard {
                let mut vars = Vec::new();
                bound(pattern, &mut vars);
                vars.into_iter().for_each(&mut add);
            }
        }
    }
    counts
}

impl Flow {
    /// Two tests of one unchanging thing (`if cfg.locked { .. } .. if cfg.locked { .. }`) go the same way.
    fn correlate(&mut self, f: &Function) {
        let names = Names::of(f);
        type Place = (BlockId, usize, bool);
        let mut places: BTreeMap<(String, Option<Var>), Vec<Place>> = BTreeMap::new();
        for (b, block) in f.blocks.iter().enumerate() {
            for (e, edge) in block.edges.iter().enumerate() {
                let named = match &edge.guard {
                    Guard::Always => None,
                    Guard::True(x) => names.name(x, 0),
                    Guard::False(x) => names.name(x, 0).map(Named::negate),
                    Guard::Matches(x, pattern) => test_name(pattern).and_then(|(test, positive)| {
                        names.name(x, 0).map(|n| Named { text: format!("{test} {}", n.text), positive, ..n })
                    }),
                };
                if let Some(n) = named {
                    places.entry((n.text, n.base)).or_default().push((BlockId(b as u32), e, n.positive));
                }
            }
        }
        for (number, ((_, base), list)) in places.into_iter().enumerate() {
            let blocks: BTreeSet<BlockId> = list.iter().map(|(b, ..)| *b).collect();
            if blocks.len() < 2 {
                continue;
            }
            if let Some(base) = base {
                self.resets.entry(base).or_default().push(number as u32);
            }
            self.conditions.extend(list.into_iter().map(|(b, e, positive)| ((b, e), (number as u32, positive))));
        }
    }
}

fn test_name(pattern: &Pattern) -> Option<(&'static str, bool)> {
    match pattern {
        Pattern::Variant(path, ..) => match super::shapes::last(path) {
            "Some" => Some(("some", true)),
            "Ok" => Some(("ok", true)),
            "Err" => Some(("ok", false)),
            _ => None,
        },
        Pattern::Path(path) if super::shapes::last(path) == "None" => Some(("some", false)),
        _ => None,
    }
}

/// The name of a tested thing: equal for two operands only if they have the same value whenever both are evaluated.
struct Named {
    text: String,
    positive: bool,
    /// The variable it hangs on.
    base: Option<Var>,
}

impl Named {
    fn negate(self) -> Named {
        Named { positive: !self.positive, ..self }
    }
}

struct Names<'f> {
    defs: BTreeMap<Var, &'f Op>,
    counts: Vec<u32>,
}

impl<'f> Names<'f> {
    fn of(f: &'f Function) -> Self {
        let defs = f.ops().filter_map(|(_, op)| op.dst.map(|dst| (dst, op))).collect();
        Names { defs, counts: definition_counts(f) }
    }

    fn name(&self, operand: &Operand, depth: u32) -> Option<Named> {
        let plain = |text: String, base| Some(Named { text, positive: true, base });
        let Operand::Var(var, _) = operand else {
            return match operand {
                Operand::Path(path) => plain(path.clone(), None),
                _ => None,
            };
        };
        if depth > 8 || self.counts[var.0 as usize] != 1 {
            return None;
        }
        let own = || plain(format!("v{}", var.0), Some(*var));
        let Some(op) = self.defs.get(var) else { return own() };
        match &op.kind {
            OpKind::Let(Rvalue::Use(x)) => self.name(x, depth + 1),
            OpKind::Let(Rvalue::Unary(UnaryOp::Not, x)) => self.name(x, depth + 1).map(Named::negate),
            OpKind::Let(Rvalue::Field(x, field)) => self
                .name(x, depth + 1)
                .filter(|n| n.positive)
                .map(|n| Named { text: format!("{}.{field}", n.text), ..n }),
            OpKind::Call(call) if call.args.len() == 1 => match &call.callee {
                Callee::Method(m) => {
                    let (test, positive) = match m.as_str() {
                        "is_some" => ("some ", true),
                        "is_none" => ("some ", false),
                        "is_ok" => ("ok ", true),
                        "is_err" => ("ok ", false),
                        "is_empty" => ("empty ", true),
                        "as_ref" | "as_mut" | "as_deref" | "clone" | "deref" => {
                            return self.name(&call.args[0], depth + 1);
                        }
                        _ => return own(),
                    };
                    self.name(&call.args[0], depth + 1).map(|n| Named {
                        text: format!("{test}{}", n.text),
                        positive,
                        ..n
                    })
                }
                _ => own(),
            },
            _ => own(),
        }
    }
}

/// Whether an edge is taken because a value is an error or missing: `Err(_) =>`, `None =>`, the `else` of `if let Ok(x)`,
/// `if x.is_none()`.
pub fn finds_nothing(f: &Function, block: BlockId, number: usize) -> bool {
    let edges = &f.block(block).edges;
    let Some(edge) = edges.get(number) else { return false };
    let asked = |x: &Operand, names: [&str; 2]| {
        f.block(block).ops.iter().any(|op| match (&op.kind, x) {
            (OpKind::Call(call), Operand::Var(var, _)) => op.dst == Some(*var) && names.contains(&call.name()),
            _ => false,
        })
    };
    match &edge.guard {
        Guard::Matches(_, pattern) => names_variant(pattern, &["Err", "None"]),
        Guard::True(x) => asked(x, ["is_none", "is_err"]),
        Guard::False(x) => asked(x, ["is_some", "is_ok"]),
        Guard::Always => edges[..number].iter().any(|before| match &before.guard {
            Guard::Matches(_, pattern) => names_variant(pattern, &["Ok", "Some"]),
            _ => false,
        }),
    }
}

/// Blocks that are only entered where something failed or was not there: `Err(e) =>`, `let Some(x) = .. else`. The end of a
/// loop over what there was is none of these.
pub fn behind_failure(f: &Function) -> BTreeSet<BlockId> {
    let heads: BTreeSet<BlockId> =
        f.blocks.iter().flat_map(|b| &b.edges).filter(|e| e.kind == EdgeKind::Back).map(|e| e.to).collect();
    let mut open = BTreeSet::from([BlockId(0)]);
    let mut work = vec![BlockId(0)];
    while let Some(block) = work.pop() {
        for (number, edge) in f.block(block).edges.iter().enumerate() {
            let fails = !heads.contains(&block) && finds_nothing(f, block, number);
            if !fails && edge.kind != EdgeKind::Question && open.insert(edge.to) {
                work.push(edge.to);
            }
        }
    }
    (0..f.blocks.len() as u32).map(BlockId).filter(|b| !open.contains(b)).collect()
}

fn names_variant(pattern: &Pattern, names: &[&str]) -> bool {
    match pattern {
        Pattern::Variant(path, ..) | Pattern::Path(path) => names.contains(&super::shapes::last(path)),
        _ => false,
    }
}
