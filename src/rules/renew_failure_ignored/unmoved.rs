//! Loops in which an error of the renewal changes nothing: what an earlier answer allowed goes on.

use std::collections::BTreeSet;

use crate::analysis::fate;
use crate::analysis::flow_tested;
use crate::analysis::lock::Use;
use crate::analysis::slice::Slice;
use crate::ir::{
    BlockId, Callee, EdgeKind, EffectKind, Function, FunctionId, Guard, Lit, Op, OpKind, OpRef, Operand, Pattern,
    Rvalue, Site, Ty, Var,
};
use crate::rule::Context;
use crate::rule::context::proven_held;
use crate::rule::loops::Loop;
use crate::source::Span;

/// A renewal whose error changes nothing.
pub struct Unmoved {
    /// The call in the loop.
    pub site: Site,
    /// What goes on: where the good answer is kept, or the work of the same loop.
    pub on: Span,
    /// It is an answer that is kept.
    pub kept: bool,
}

/// The loops around a renewal, or around the call of a helper that leads to it, which an error leaves as they are.
pub fn found(cx: &Context<'_>, lock: usize, renewal: &Use) -> Vec<Unmoved> {
    let mut out = Vec::new();
    for round in cx.rounds(renewal) {
        let id = round.site.function;
        if !cx.judged(id) || cx.watches_time(id, &round.around) {
            continue;
        }
        let f = cx.program.function(id);
        let Some(ways) = ways(f, round.site.at, &round.around) else { continue };
        let Some(quiet) = quiet(cx, f, &round.around, &ways) else { continue };
        let kept = keeps_answer(cx, round.site, &round.around, &ways, &quiet);
        let works = || works_on(cx, lock, round.site, &round.around, &ways);
        if let Some(on) = kept.or_else(works) {
            out.push(Unmoved { site: round.site, on, kept: kept.is_some() });
        }
    }
    out
}

/// Where control goes on from the test of an answer.
struct Ways {
    /// After an error.
    bad: BlockId,
    /// Blocks of the same round that an answer leads to.
    good: BTreeSet<BlockId>,
}

/// The test in the loop that tells an error of the call from an answer.
fn ways(f: &Function, at: OpRef, around: &Loop) -> Option<Ways> {
    let whole = whole(f, f.op(at).dst?);
    let tells = |x: &Operand| matches!(x, Operand::Var(v, _) if whole.contains(v));
    for block in &around.blocks {
        let edges: Vec<_> = f.block(*block).edges.iter().filter(|e| e.kind != EdgeKind::Cancel).collect();
        if !edges.iter().any(|e| flow_tested(&e.guard).is_some_and(tells)) {
            continue;
        }
        let mut bad = None;
        let mut good = Vec::new();
        for edge in edges {
            let (error, answer) = match &edge.guard {
                Guard::Matches(x, pattern) if tells(x) => takes(pattern)?,
                Guard::Always => (true, true),
                _ => return None,
            };
            if error && bad.is_none() {
                bad = Some(edge.to);
            }
            if answer {
                good.push(edge.to);
            }
        }
        let bad = bad?;
        let good = good.into_iter().filter(|to| *to != bad).flat_map(|to| round(f, around, to)).collect();
        return Some(Ways { bad, good });
    }
    None
}

/// The variables that hold the whole result of a call.
fn whole(f: &Function, dst: Var) -> BTreeSet<Var> {
    let mut out = BTreeSet::from([dst]);
    let mut grown = true;
    while grown {
        grown = false;
        for (_, op) in f.ops() {
            let same = |x: &Operand| matches!(x, Operand::Var(v, _) if out.contains(v));
            let holds = match &op.kind {
                OpKind::Let(Rvalue::Use(x) | Rvalue::Await(x)) => same(x),
                OpKind::Call(call) => {
                    matches!(&call.callee, Callee::Method(name) if matches!(name.as_str(), "map_err" | "context" | "with_context" | "inspect_err"))
                        && call.args.first().is_some_and(same)
                }
                _ => false,
            };
            if let Some(var) = op.dst.filter(|_| holds) {
                grown |= out.insert(var);
            }
        }
    }
    out
}

/// Whether a pattern takes an error, and whether it takes an answer.
fn takes(pattern: &Pattern) -> Option<(bool, bool)> {
    match pattern {
        Pattern::Wild | Pattern::Bind(_, None) => Some((true, true)),
        Pattern::Bind(_, Some(inner)) => takes(inner),
        Pattern::Variant(path, ..) => match path.rsplit("::").next() {
            Some("Err") => Some((true, false)),
            Some("Ok") => Some((false, true)),
            _ => None,
        },
        Pattern::Or(list) => {
            let all: Option<Vec<_>> = list.iter().map(takes).collect();
            all.map(|all| (all.iter().any(|t| t.0), all.iter().any(|t| t.1)))
        }
        _ => None,
    }
}

/// The blocks of the loop that control comes to from `from` before the next round.
fn round(f: &Function, around: &Loop, from: BlockId) -> BTreeSet<BlockId> {
    let mut seen = BTreeSet::new();
    let mut work = vec![from];
    while let Some(block) = work.pop() {
        if block != around.head && around.blocks.contains(&block) && seen.insert(block) {
            work.extend(f.block(block).edges.iter().filter(|e| e.kind != EdgeKind::Cancel).map(|e| e.to));
        }
    }
    seen
}

/// The blocks behind an error up to where an answer leads as well, or to the next round, if nothing but logging and waiting
/// happens in them.
fn quiet(cx: &Context<'_>, f: &Function, around: &Loop, ways: &Ways) -> Option<BTreeSet<BlockId>> {
    let mut seen = BTreeSet::new();
    let mut work = vec![ways.bad];
    while let Some(block) = work.pop() {
        if block == around.head || ways.good.contains(&block) {
            continue;
        }
        if !around.blocks.contains(&block) || !f.block(block).ops.iter().all(|op| is_quiet(cx, f, op)) {
            return None;
        }
        if seen.insert(block) {
            work.extend(f.block(block).edges.iter().filter(|e| e.kind != EdgeKind::Cancel).map(|e| e.to));
        }
    }
    Some(seen)
}

fn is_quiet(cx: &Context<'_>, f: &Function, op: &Op) -> bool {
    match &op.kind {
        OpKind::Call(call) => match &call.effect {
            Some(trip) => trip.effects.iter().all(|e| matches!(e.kind, EffectKind::Sleep(_) | EffectKind::Observe(_))),
            None => {
                fate::looks_only(call)
                    || matches!(&call.callee, Callee::Path(path) if path.contains("Duration::from_"))
                    || matches!(&call.callee, Callee::Method(name) if matches!(name.as_str(), "increment" | "inc"))
                    || !call.targets.is_empty() && call.targets.iter().all(|t| only_looks(cx, *t))
            }
        },
        OpKind::Store(..) | OpKind::Return(..) => false,
        OpKind::Let(Rvalue::Use(Operand::Lit(Lit::Unit))) | OpKind::Drop(_) => true,
        OpKind::Let(_) => op.dst.is_none_or(|dst| f.var(dst).name.is_none()),
    }
}

/// Whether a helper does nothing but log.
fn only_looks(cx: &Context<'_>, id: FunctionId) -> bool {
    cx.program.function(id).ops().all(|(_, op)| match &op.kind {
        OpKind::Call(call) => fate::looks_only(call),
        OpKind::Store(..) => false,
        _ => true,
    })
}

/// Where an answer is kept for later rounds or other tasks, in a way that an error does not go.
fn keeps_answer(cx: &Context<'_>, site: Site, around: &Loop, ways: &Ways, quiet: &BTreeSet<BlockId>) -> Option<Span> {
    let f = cx.program.function(site.function);
    let dst = f.op(site.at).dst?;
    let slice = Slice::of(f);
    let yes = |x: &Operand| match x {
        Operand::Lit(Lit::Bool(yes)) => *yes,
        // The answer itself, not the time at which it came.
        Operand::Var(..) => is_bool(&cx.program.ty(site.function, x)) && slice.sources(x).contains(&dst),
        _ => false,
    };
    let after_error = quiet.iter().flat_map(|b| f.block(*b).edges.iter().map(|e| e.to)).collect::<BTreeSet<_>>();
    let joins: BTreeSet<BlockId> =
        after_error.into_iter().chain([ways.bad]).filter(|b| ways.good.contains(b)).collect();
    let own = ways.good.iter().filter(|b| !joins.iter().any(|j| j == *b || reaches(f, ways, *j, **b)));
    own.flat_map(|b| &f.block(*b).ops).find_map(|op| match &op.kind {
        OpKind::Call(call) => {
            let tells = call.effect.as_ref().is_some_and(|t| {
                t.effects.iter().any(|e| {
                    matches!(e.kind, EffectKind::Signal(_)) && matches!(&*e.command, "store" | "send" | "swap")
                })
            });
            (tells && call.args.iter().skip(1).any(yes)).then_some(op.span)
        }
        OpKind::Store(_, _, value) => yes(value).then_some(op.span),
        OpKind::Let(Rvalue::Use(value)) => {
            let var = op.dst?;
            // Set before the loop, and by nothing else in it.
            let mut others = f.ops().filter(|(at, o)| o.dst == Some(var) && !ways.good.contains(&at.block)).peekable();
            let older = others.peek().is_some() && others.all(|(at, _)| !around.contains(at));
            (f.var(var).name.is_some() && older && yes(value)).then_some(op.span)
        }
        _ => None,
    })
}

fn reaches(f: &Function, ways: &Ways, from: BlockId, to: BlockId) -> bool {
    let mut seen = BTreeSet::new();
    let mut work = vec![from];
    while let Some(block) = work.pop() {
        if block == to {
            return true;
        }
        if ways.good.contains(&block) && seen.insert(block) {
            work.extend(f.block(block).edges.iter().filter(|e| e.kind != EdgeKind::Cancel).map(|e| e.to));
        }
    }
    false
}

fn is_bool(ty: &Ty) -> bool {
    ty.is_unknown() || ty.last() == "bool"
}

/// What the loop itself does under the lock between an error and the next renewal.
fn works_on(cx: &Context<'_>, lock: usize, site: Site, around: &Loop, ways: &Ways) -> Option<Span> {
    let f = cx.program.function(site.function);
    let mut seen = BTreeSet::new();
    let mut work = vec![ways.bad];
    while let Some(block) = work.pop() {
        if block != site.at.block && around.blocks.contains(&block) && seen.insert(block) {
            work.extend(f.block(block).edges.iter().filter(|e| e.kind != EdgeKind::Cancel).map(|e| e.to));
        }
    }
    let done = |k: &EffectKind| matches!(k, EffectKind::Write(_) | EffectKind::External(_));
    let observed = cx.observed(lock, |o| proven_held(o) && o.via[0].function == site.function && done(&o.effect.kind));
    let between = |at: OpRef| seen.contains(&at.block) || at.block == site.at.block && at.index < site.at.index;
    let on = observed.iter().find(|o| between(o.via[0].at));
    on.map(|o| cx.op_span(o.via[0]))
}
