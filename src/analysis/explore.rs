//! Walks every path of one function on (block, worlds), evaluating what is known of each variable.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashSet, VecDeque};
use std::rc::Rc;

use super::Analyzer;
use super::flow::{self, Flow};
use super::impls::Objects;
use super::lifted::{Lifted, Observed};
use super::probe::Probe;
use super::shapes::{self, Tri};
use super::state::{State, Val};
use super::summary::{
    Carry, Freed, Held, Key, Leaving, MAX_OUTCOMES, MAX_STATES, Outcome, Passed, Status, Summary, Went,
};
use crate::ir::{
    BlockId, EdgeKind, Exit, Function, FunctionId, Guard, Op, OpKind, OpRef, Operand, Rvalue, Shape, Site, UnaryOp,
    Use, Value, Var,
};
use crate::source::Span;

/// Exploration of one function.
pub(super) struct Explorer<'a, 'p> {
    pub(super) a: &'a Analyzer<'p>,
    pub(super) id: FunctionId,
    pub(super) f: &'p Function,
    pub(super) flow: Rc<Flow>,
    /// Acquisitions met, by index.
    pub(super) held: Vec<Rc<Held>>,
    /// Releases met that concern callers, by index.
    pub(super) freed: Vec<Rc<Freed>>,
    outcomes: Vec<Outcome>,
    pub(super) incomplete: bool,
    /// Acquisition, whether it is lost, and the block passed.
    passed: BTreeSet<(u16, bool, FunctionId, BlockId)>,
    /// Acquisition, its world, the block entered, the arm that led there, whether another one is held, proven.
    went: BTreeSet<(u16, Status, BlockId, Option<Span>, bool, bool)>,
    /// Blocks entered without any acquisition, behind an arm that found nothing to acquire with.
    untried: BTreeSet<(BlockId, Span)>,
    /// Effects noted so far, and the circumstances: a block is walked once for each state, but they are seldom new.
    pub(super) observed: RefCell<Observed>,
    /// What callees' summaries say, in this function's terms.
    pub(super) lifted: Lifted,
    /// Objects whose methods have several implementations.
    pub(super) objects: Objects,
    /// A question asked of this exploration alone.
    pub(super) probe: Option<Probe>,
}

impl<'a, 'p> Explorer<'a, 'p> {
    /// Explores the function of `key` and returns what it does for callers; observations go to the analyzer's log.
    pub(super) fn run(a: &'a Analyzer<'p>, key: &Key) -> Summary {
        let mut explorer = Explorer::new(a, key.function);
        let f = explorer.f;
        let mut start = State::default();
        for (var, shape) in f.params.iter().chain(&f.captures).zip(&key.known) {
            start.set(*var, Val::of(shape.clone()));
        }
        let seen = a.log.borrow().observations.len();
        explorer.walk(start);
        explorer.note_passed();
        let mut outcomes = std::mem::take(&mut explorer.outcomes);
        explorer.told(&mut outcomes, seen);
        Summary { outcomes, incomplete: explorer.incomplete }
    }

    pub(super) fn new(a: &'a Analyzer<'p>, id: FunctionId) -> Self {
        Explorer {
            a,
            id,
            f: a.program.function(id),
            flow: a.flow(id),
            held: Vec::new(),
            freed: Vec::new(),
            outcomes: Vec::new(),
            incomplete: false,
            passed: BTreeSet::new(),
            went: BTreeSet::new(),
            untried: BTreeSet::new(),
            observed: RefCell::default(),
            lifted: Lifted::default(),
            objects: Objects::default(),
            probe: None,
        }
    }

    pub(super) fn walk(&mut self, start: State) {
        let mut seen: HashSet<(BlockId, State)> = HashSet::new();
        let mut work: VecDeque<(BlockId, State)> = VecDeque::from([(BlockId(0), start)]);
        while let Some((block, mut state)) = work.pop_front() {
            if self.f.blocks.get(block.0 as usize).is_none() {
                continue;
            }
            state.keep(&self.flow.live[block.0 as usize]);
            if !seen.insert((block, state.clone())) {
                continue;
            }
            self.pass(self.id, block, &state);
            self.note_way(block, &state);
            if seen.len() > MAX_STATES || self.outcomes.len() > MAX_OUTCOMES * 4 {
                self.incomplete = true;
                break;
            }
            let mut states = vec![state];
            for (index, op) in self.f.block(block).ops.iter().enumerate() {
                let at = OpRef { block, index: index as u32 };
                states = states.into_iter().flat_map(|s| self.step(at, op, s)).collect();
                states.sort();
                states.dedup();
                if states.len() > 64 {
                    self.incomplete = true;
                    states.truncate(64);
                }
            }
            for state in states {
                self.leave(block, state, &mut work);
            }
        }
        self.outcomes.truncate(MAX_OUTCOMES);
    }

    /// Remembers that a block, or a closure by its first one, runs in this state.
    pub(super) fn pass(&mut self, id: FunctionId, block: BlockId, state: &State) {
        let here = |lock: &u16, status: &Status| !state.stale.contains(lock) || *status == Status::Held;
        for (lock, status) in state.locks.iter().filter(|(lock, status)| here(lock, status)) {
            match status {
                Status::Failed => {}
                status => {
                    self.passed.insert((*lock, *status == Status::Lost, id, block));
                }
            }
        }
    }

    fn note_way(&mut self, block: BlockId, state: &State) {
        if let (Some(arm), true, true) = (state.arm, state.locks.is_empty(), state.proven) {
            self.untried.insert((block, arm));
        }
        for (lock, status) in state.locks.iter().filter(|(lock, _)| !state.stale.contains(lock)) {
            if matches!(status, Status::Held | Status::Lost | Status::Failed) {
                let other = state.locks.iter().any(|(l, s)| l != lock && *s == Status::Held);
                self.went.insert((*lock, *status, block, state.arm, other, state.proven));
            }
        }
    }

    fn note_passed(&mut self) {
        let mut log = self.a.log.borrow_mut();
        if !self.held.is_empty() {
            log.untried.extend(self.untried.iter().map(|(block, arm)| (self.id, *block, *arm)));
        }
        for (index, held) in self.held.iter().enumerate() {
            let pick = |lost: bool| {
                let own = self.passed.iter().filter(|(l, was_lost, ..)| *l as usize == index && *was_lost == lost);
                own.map(|(_, _, id, block)| (*id, *block)).collect()
            };
            let own = self.went.iter().filter(|(l, ..)| *l as usize == index);
            log.went.extend(own.map(|(_, status, block, arm, other, proven)| Went {
                function: self.id,
                lock: held.clone(),
                status: *status,
                block: *block,
                arm: *arm,
                other: *other,
                proven: *proven,
            }));
            log.passed.push(Passed { function: self.id, lock: held.clone(), won: pick(false), lost: pick(true) });
        }
    }

    /// Follows the edges of `block`.
    fn leave(&mut self, block: BlockId, mut state: State, work: &mut VecDeque<(BlockId, State)>) {
        let edges = &self.f.block(block).edges;
        for edge in edges.iter().filter(|e| e.kind == EdgeKind::Cancel) {
            work.push_back((edge.to, state.clone()));
        }
        let mut last_tested: Option<Val> = None;
        for (number, edge) in edges.iter().enumerate().filter(|(_, e)| e.kind != EdgeKind::Cancel) {
            let mut binds = Vec::new();
            let tested = flow::tested(&edge.guard).map(|x| self.operand(&state, x));
            last_tested = tested.clone().or(last_tested);
            let mut answer = match (&edge.guard, &tested) {
                (Guard::Always, _) | (_, None) => Tri::Yes,
                (Guard::True(_), Some(val)) => shapes::truth(&val.shape),
                (Guard::False(_), Some(val)) => shapes::truth(&val.shape).negate(),
                (Guard::Matches(_, pattern), Some(val)) => shapes::matches(&val.shape, pattern, &mut binds),
            };
            let condition = self.flow.condition(block, number);
            if answer == Tri::Maybe
                && let Some((c, positive)) = condition
                && let Some(known) = state.assumed.get(&c)
            {
                answer = if *known == positive { Tri::Yes } else { Tri::No };
            }
            if answer == Tri::No {
                continue;
            }
            let mut next = state.clone();
            if answer == Tri::Maybe {
                if tested.as_ref().is_some_and(Val::spoils) {
                    next.proven = false;
                    state.proven = false;
                }
                if let Some((c, positive)) = condition {
                    next.assumed.insert(c, positive);
                    state.assumed.insert(c, !positive);
                }
            }
            if tested.as_ref().or(last_tested.as_ref()).is_some_and(|v| v.reply)
                && edge.kind != EdgeKind::Question
                && next.locks.values().any(|s| matches!(s, Status::Failed | Status::Lost))
                && (next.arm.is_none() || tested.as_ref().is_none_or(|v| shapes::shows_failure(&v.shape)))
            {
                next.arm = Some(edge.span);
            }
            if next.locks.is_empty() && edge.kind == EdgeKind::Plain && flow::finds_nothing(self.f, block, number) {
                next.arm = Some(edge.span);
            }
            if let (Some(val), Guard::Matches(operand, _)) = (&tested, &edge.guard) {
                let moved = matches!(operand, Operand::Var(_, Use::Move)) || !val.carries.is_empty();
                for (var, shape) in binds {
                    self.assign(&mut next, var, val.with(shape));
                }
                if moved && let Operand::Var(var, _) = operand {
                    next.unburden(*var);
                }
            }
            if edge.kind == EdgeKind::Back {
                // What the next round does is not let through by an arm of this one.
                next.arm = None;
                self.over_the_back_edge(block, edge.to, &mut next);
            }
            work.push_back((edge.to, next));
            if answer == Tri::Yes {
                return;
            }
        }
    }

    /// Sets a variable and forgets conditions that hung on its old value.
    pub(super) fn assign(&self, state: &mut State, var: Var, val: Val) {
        for condition in self.flow.resets(var) {
            state.assumed.remove(condition);
        }
        state.set(var, val);
    }

    /// What is known of an operand, without moving it.
    pub(super) fn operand(&self, state: &State, operand: &Operand) -> Val {
        match operand {
            Operand::Var(var, _) => state.get(*var),
            Operand::Lit(lit) => Val::of(shapes::literal(lit)),
            Operand::Path(path) => {
                let shape = shapes::path(path);
                if shape != Shape::Unknown || path.rsplit("::").next().is_none_or(|n| n != n.to_uppercase()) {
                    return Val::of(shape);
                }
                match self.a.program.value(self.id, operand) {
                    Value::Const(lit) => Val::of(shapes::literal(&lit)),
                    _ => Val::unknown(),
                }
            }
        }
    }

    /// What is known of an operand; a moved variable gives its burden away.
    pub(super) fn consume(&self, state: &mut State, operand: &Operand) -> Val {
        let val = self.operand(state, operand);
        if let Operand::Var(var, Use::Move) = operand {
            state.unburden(*var);
            val
        } else {
            Val { carries: Vec::new(), ..val }
        }
    }

    fn step(&mut self, at: OpRef, op: &'p Op, mut state: State) -> Vec<State> {
        match &op.kind {
            OpKind::Let(Rvalue::Await(x)) if self.future_of(&state, x).is_some() => {
                let future = self.future_of(&state, x).into_iter().collect::<Vec<_>>();
                self.enter(at, op.dst, &super::reach::closure_call(), &future, &[], state)
            }
            OpKind::Let(rvalue) => {
                let val = self.rvalue(&mut state, rvalue);
                if let Some(dst) = op.dst {
                    self.assign(&mut state, dst, val);
                }
                vec![state]
            }
            OpKind::Call(call) => match self.answer(at, op, &mut state) {
                true => vec![state],
                false => {
                    let states = self.call(at, op, call, state);
                    self.note_write(at, states)
                }
            },
            OpKind::Drop(var) => {
                self.drop_var(at, *var, &mut state);
                vec![state]
            }
            OpKind::Store(_, _, value) => {
                let val = self.consume(&mut state, value);
                state.settle(&val.carries, Status::Escaped);
                vec![state]
            }
            OpKind::Return(value, exit) => {
                let val = self.consume(&mut state, value);
                self.finish(at, val, *exit, state);
                Vec::new()
            }
        }
    }

    /// Records a way to end.
    fn finish(&mut self, at: OpRef, val: Val, exit: Exit, state: State) {
        if exit == Exit::Diverge {
            return;
        }
        if self.probe.is_some() {
            return self.note_exit(at, &val, exit, &state);
        }
        for (lock, status) in &state.locks {
            let carry = val.carries.iter().find(|(l, _)| l == lock).map(|(_, c)| *c);
            self.a.log.borrow_mut().leavings.push(Leaving {
                function: self.id,
                at: Some(at),
                exit,
                ret: val.shape.clone(),
                lock: self.held[*lock as usize].clone(),
                status: *status,
                carried: carry.is_some(),
                carry,
                proven: state.proven,
            });
        }
        let acquired = state
            .locks
            .iter()
            .filter(|(_, status)| **status != Status::Released)
            .map(|(lock, status)| {
                let carry = val.carries.iter().find(|(l, _)| l == lock).map(|(_, c)| *c);
                (self.held[*lock as usize].clone(), *status, carry)
            })
            .collect();
        let outcome = Outcome {
            ret: if val.reply && val.shape == Shape::Unknown { Shape::Tainted } else { val.shape },
            exit,
            acquired,
            freed: state.freed.iter().map(|i| self.freed[*i as usize].clone()).collect(),
            proven: state.proven,
            at: Some(at),
            kinds: self.assumed_kinds(&state),
            arm: state.arm,
        };
        let same = |o: &Outcome| {
            o.ret == outcome.ret
                && o.exit == outcome.exit
                && o.acquired == outcome.acquired
                && o.freed == outcome.freed
                && (o.arm == outcome.arm || !o.acquired.is_empty())
        };
        if let Some(old) = self.outcomes.iter_mut().find(|o| same(o)) {
            old.proven |= outcome.proven;
            old.widen(&outcome.kinds);
        } else {
            self.outcomes.push(outcome);
        }
    }

    fn rvalue(&mut self, state: &mut State, rvalue: &Rvalue) -> Val {
        match rvalue {
            Rvalue::Use(x) | Rvalue::Await(x) => {
                // An awaited future, and a copy of a temporary, is the value itself.
                let mut val = self.operand(state, x);
                if let Operand::Var(var, mode) = x {
                    if *mode == Use::Move || matches!(rvalue, Rvalue::Await(_)) || self.f.var(*var).name.is_none() {
                        state.unburden(*var);
                    } else {
                        val.carries.clear();
                    }
                }
                val
            }
            Rvalue::Cast(x, _) => {
                let val = self.operand(state, x);
                match val.shape {
                    Shape::Bool(b) => val.with(Shape::Int(i64::from(b))),
                    _ => val,
                }
            }
            Rvalue::Field(x, name) => {
                let val = self.operand(state, x);
                let shape = shapes::field(&val.shape, name);
                Val { shape, reply: val.reply, carries: Vec::new() }
            }
            Rvalue::Unary(op, x) => {
                let val = self.operand(state, x);
                let shape = match (op, shapes::truth(&val.shape), &val.shape) {
                    (UnaryOp::Not, Tri::Yes, _) => Shape::Bool(false),
                    (UnaryOp::Not, Tri::No, _) => Shape::Bool(true),
                    (UnaryOp::Neg, _, Shape::Int(n)) => Shape::Int(n.wrapping_neg()),
                    _ => return Val { carries: Vec::new(), ..val.blurred() },
                };
                Val { shape, reply: val.reply, carries: Vec::new() }
            }
            Rvalue::Binary(op, x, y) => {
                let (a, b) = (self.operand(state, x), self.operand(state, y));
                let reply = a.reply || b.reply;
                let shape = match shapes::binary(*op, &a.shape, &b.shape) {
                    Shape::Unknown if reply => Shape::Tainted,
                    shape => shape,
                };
                Val { shape, reply, carries: Vec::new() }
            }
            Rvalue::Matches(x, pattern) => {
                let val = self.operand(state, x);
                let shape = match shapes::matches(&val.shape, pattern, &mut Vec::new()) {
                    Tri::Yes => Shape::Bool(true),
                    Tri::No => Shape::Bool(false),
                    Tri::Maybe if val.spoils() => Shape::Tainted,
                    Tri::Maybe => Shape::Unknown,
                };
                Val { shape, reply: val.reply, carries: Vec::new() }
            }
            Rvalue::Tuple(list) => {
                let parts: Vec<Val> = list.iter().map(|x| self.consume(state, x)).collect();
                if parts.is_empty() {
                    return Val::of(Shape::Unit);
                }
                gather(&parts, Shape::Tuple)
            }
            Rvalue::Variant(path, list) => {
                let parts: Vec<Val> = list.iter().map(|x| self.consume(state, x)).collect();
                gather(&parts, |mut list| match (shapes::last(path), list.len()) {
                    ("Ok", 1) => list.swap_remove(0).ok(),
                    ("Err", 1) => Shape::Err(Box::new(list.swap_remove(0))),
                    ("Some", 1) => list.swap_remove(0).some(),
                    _ => Shape::Variant(path.clone(), list),
                })
            }
            Rvalue::Struct(path, fields, _) => {
                let parts: Vec<Val> = fields.iter().map(|(_, x)| self.consume(state, x)).collect();
                let mut val = gather(&parts, |list| {
                    Shape::Struct(path.clone(), fields.iter().map(|(n, _)| n.clone()).zip(list).collect())
                });
                if let Some(carry) = self.a.carry_of(path) {
                    self.burden(state, &mut val, carry);
                }
                val
            }
            Rvalue::Array(list) | Rvalue::Unknown(list) => {
                let parts: Vec<Val> = list.iter().map(|x| self.consume(state, x)).collect();
                let spoilt = parts.iter().any(Val::spoils);
                gather(&parts, |_| if spoilt { Shape::Tainted } else { Shape::Unknown })
            }
            Rvalue::Closure(id, captures) => {
                let parts: Vec<Val> = captures.iter().map(|x| self.consume(state, x)).collect();
                let mut val = gather(&parts, |_| Shape::Closure(*id));
                val.reply = false;
                val
            }
            Rvalue::Format(_) | Rvalue::IncludeStr(_) => Val::unknown(),
            Rvalue::Index(x, _) => Val { carries: Vec::new(), ..self.operand(state, x).blurred() },
        }
    }

    /// A guard or lock object made while locks are held stands for those that nothing else stands for yet.
    pub(super) fn burden(&self, state: &State, val: &mut Val, carry: Carry) {
        for (lock, status) in &state.locks {
            if *status == Status::Held && !val.carries.iter().any(|(l, _)| l == lock) {
                val.carries.push((*lock, carry));
            }
        }
        for entry in &mut val.carries {
            entry.1 = entry.1.min(carry);
        }
    }

    /// The site of an op of this function.
    pub(super) fn site(&self, at: OpRef) -> Site {
        Site { function: self.id, at }
    }
}

/// Builds a compound value: burdens and origins add up.
fn gather(parts: &[Val], shape: impl FnOnce(Vec<Shape>) -> Shape) -> Val {
    let mut carries: Vec<(u16, Carry)> = parts.iter().flat_map(|p| p.carries.iter().copied()).collect();
    carries.sort();
    carries.dedup_by_key(|(lock, _)| *lock);
    Val { shape: shape(parts.iter().map(|p| p.shape.clone()).collect()), reply: parts.iter().any(|p| p.reply), carries }
}
