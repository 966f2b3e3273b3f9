//! Calls: wire effects, workspace functions by their summaries, std combinators, closures, tasks.

use std::rc::Rc;

use super::combinators::{self, Combined};
use super::explore::Explorer;
use super::shapes;
use super::state::{State, Val};
use super::summary::{Carry, Freed, Held, Key, Origin, Outcome, Status, Summary};
use crate::ir::{
    BlockId, Call, Callee, EffectKind, FunctionId, FunctionKind, LockKind, Op, OpRef, Operand, Rvalue, Shape, Use, Var,
};

impl<'p> Explorer<'_, 'p> {
    pub(super) fn call(&mut self, at: OpRef, op: &'p Op, call: &'p Call, state: State) -> Vec<State> {
        if let Some(trip) = &call.effect {
            return self.round_trip(at, op, call, trip, state);
        }
        if let Callee::Value(callee) = &call.callee {
            let shape = self.operand(&state, callee).shape;
            if let Shape::Closure(id) = shape {
                return self.enter(at, op.dst, call, &[id], &call.args, state);
            }
            return vec![self.opaque(op.dst, &call.args, state)];
        }
        if let Some(states) = self.combinator(at, op, call, &state) {
            return states;
        }
        if op.dst.is_some_and(|dst| self.flow.spawned(dst))
            && call.targets.iter().any(|t| self.a.program.function(*t).is_async)
        {
            return vec![self.task(at, op.dst, call, state)];
        }
        if !call.targets.is_empty() {
            return self.enter(at, op.dst, call, &call.targets, &call.args, state);
        }
        vec![self.opaque(op.dst, &call.args, state)]
    }

    /// A call that nothing is known of: what moves into it escapes; its result is spoilt if an argument was.
    fn opaque(&self, dst: Option<Var>, args: &[Operand], mut state: State) -> State {
        let mut reply = false;
        let mut closures = Vec::new();
        for (i, arg) in args.iter().enumerate() {
            let val = self.consume(&mut state, arg);
            state.settle(&val.carries, Status::Escaped);
            // A method on an object does not hand its reply on unless the receiver itself is the reply.
            reply |= val.spoils() && !(i == 0 && matches!(val.shape, Shape::Struct(..)));
            if let Shape::Closure(id) = val.shape {
                closures.push(id);
            }
        }
        for id in closures {
            self.background(id, &mut state);
        }
        if let Some(dst) = dst {
            let shape = if reply { Shape::Tainted } else { Shape::Unknown };
            self.assign(&mut state, dst, Val { shape, reply, carries: Vec::new() });
        }
        state
    }

    /// A call that makes the future of a task: what it does is not done here, unless it is given the claims it works under.
    fn task(&mut self, at: OpRef, dst: Option<Var>, call: &Call, mut state: State) -> State {
        if let Some(own) = self.claims_among(&call.args, &state) {
            self.observe_reached(at, call, &call.targets, &own);
        }
        for target in &call.targets {
            self.background(*target, &mut state);
        }
        self.opaque(dst, &call.args, state)
    }

    /// A closure or task handed to unknown code: if it gives a lock back, the lock is in its hands.
    pub(super) fn background(&self, id: FunctionId, state: &mut State) {
        let releases = self.a.releases(id);
        if releases.is_empty() {
            return;
        }
        for (lock, status) in &mut state.locks {
            let key = &self.held[*lock as usize].acquire.key;
            if *status == Status::Held && releases.iter().any(|r| self.a.relate(&r.release.key, key).possible()) {
                *status = Status::Escaped;
            }
        }
    }

    /// `map`, `is_some`, `unwrap_or` and kin on a known receiver.
    fn combinator(&mut self, at: OpRef, op: &'p Op, call: &'p Call, state: &State) -> Option<Vec<State>> {
        let (name, args) = match &call.callee {
            Callee::Method(name) => (name.as_str(), &call.args[..]),
            Callee::Path(path) => (shapes::last(path), &call.args[..]),
            _ => return None,
        };
        let (recv, rest) = args.split_first()?;
        if !call.targets.is_empty() && !matches!(call.callee, Callee::Method(_)) {
            return None;
        }
        if let Callee::Path(path) = &call.callee {
            return self.read_as(path, op, call, state).or_else(|| self.see_through(path, op, recv, rest, state));
        }
        let receiver = self.operand(state, recv);
        if receiver.shape == Shape::Unknown && receiver.carries.is_empty() && !receiver.reply {
            return None;
        }
        let shapes: Vec<Shape> = rest.iter().map(|x| self.operand(state, x).shape).collect();
        let mut state = state.clone();
        match combinators::method(name, &receiver.shape, &shapes) {
            Combined::No => {
                // Borrowing adapters on an opaque guard keep its burden.
                if receiver.carries.is_empty() || !call.targets.is_empty() {
                    return None;
                }
                None
            }
            Combined::Diverges => Some(Vec::new()),
            Combined::Done(shape) => {
                if name.starts_with("unwrap_or") && receiver.reply && shapes::truth(&shape) == shapes::Tri::Yes {
                    // `unwrap_or(true)`: an error counts as success.
                    state.arm = Some(op.span);
                }
                let carries = self.carried_on(&mut state, recv, &shape, &receiver);
                if let Some(dst) = op.dst {
                    self.assign(&mut state, dst, Val { shape, reply: receiver.reply, carries });
                }
                Some(vec![state])
            }
            Combined::CallThen(index, payload, wrap) => {
                let Some(Shape::Closure(id)) = shapes.get(index) else {
                    let shape = match rest.get(index) {
                        // `map(Ok)`, `map(Some)`, `unwrap_or_else(Default::default)`.
                        Some(Operand::Path(p)) if shapes::last(p) == "Ok" => {
                            wrap.apply(payload.clone().ok(), &receiver.shape)
                        }
                        Some(Operand::Path(p)) if shapes::last(p) == "Some" => {
                            wrap.apply(payload.clone().some(), &receiver.shape)
                        }
                        Some(Operand::Path(p)) if shapes::last(p) == "Err" => Shape::err(),
                        _ => {
                            let inner = if receiver.spoils() { Shape::Tainted } else { Shape::Unknown };
                            wrap.apply(inner, &receiver.shape)
                        }
                    };
                    let carries = self.carried_on(&mut state, recv, &shape, &receiver);
                    if let Some(dst) = op.dst {
                        self.assign(&mut state, dst, Val { shape, reply: receiver.reply, carries });
                    }
                    return Some(vec![state]);
                };
                let given = receiver.with(payload);
                if let Operand::Var(var, _) = recv {
                    state.unburden(*var);
                }
                let mut states = self.run_closure(at, op.dst, call, *id, given, state);
                if let Some(dst) = op.dst {
                    for s in &mut states {
                        let val = s.get(dst);
                        let shape = wrap.apply(val.shape.clone(), &receiver.shape);
                        s.set(dst, Val { reply: val.reply || receiver.reply, ..val.with(shape) });
                    }
                }
                Some(states)
            }
        }
    }

    /// Burden after a consuming adapter: goes to the result as long as that can hold it.
    fn carried_on(&self, state: &mut State, recv: &Operand, result: &Shape, val: &Val) -> Vec<(u16, Carry)> {
        if matches!(result, Shape::Bool(_) | Shape::None | Shape::Nil) || val.carries.is_empty() {
            return Vec::new();
        }
        match recv {
            Operand::Var(var, mode) if *mode == Use::Move || self.f.var(*var).name.is_none() => {
                state.unburden(*var);
                val.carries.clone()
            }
            _ => Vec::new(),
        }
    }

    /// Std wrappers called by path that keep the value: `Box::pin(x)`, `Arc::new(x)`, `Option::is_some(&x)`.
    fn see_through(
        &mut self,
        path: &str,
        op: &Op,
        recv: &Operand,
        rest: &[Operand],
        state: &State,
    ) -> Option<Vec<State>> {
        let short: Vec<&str> = path.rsplit("::").take(2).collect();
        let keeps = matches!(
            short.as_slice(),
            ["new" | "pin" | "from", "Box" | "Arc" | "Rc" | "Mutex" | "RwLock" | "Cell" | "RefCell"]
                | ["pin", ..]
                | ["from", "Option"]
        ) || path == "tokio::pin";
        let mut state = state.clone();
        if keeps {
            let val = self.consume(&mut state, recv);
            if let Some(dst) = op.dst {
                self.assign(&mut state, dst, val);
            }
            return Some(vec![state]);
        }
        if let [name, "Option" | "Result" | "bool"] = short.as_slice() {
            let val = self.operand(&state, recv);
            let list: Vec<Shape> = rest.iter().map(|x| self.operand(&state, x).shape).collect();
            if let Combined::Done(shape) = combinators::method(name, &val.shape, &list) {
                if let Some(dst) = op.dst {
                    self.assign(&mut state, dst, Val { shape, reply: val.reply, carries: Vec::new() });
                }
                return Some(vec![state]);
            }
        }
        None
    }

    /// Runs a closure of this function with one argument.
    fn run_closure(
        &mut self,
        at: OpRef,
        dst: Option<Var>,
        call: &Call,
        id: FunctionId,
        given: Val,
        state: State,
    ) -> Vec<State> {
        let closure = self.a.program.function(id);
        self.pass(id, BlockId(0), &state);
        let mut known: Vec<Shape> = vec![Shape::Unknown; closure.params.len()];
        if let Some(first) = known.first_mut() {
            *first = if given.reply && given.shape == Shape::Unknown { Shape::Tainted } else { given.shape.clone() };
        }
        known.extend(self.capture_shapes(id, &state));
        let mut states = self.apply(at, dst, call, id, known, state);
        if let Some(dst) = dst {
            for s in &mut states {
                let mut val = s.get(dst);
                val.reply |= given.reply;
                // A closure that hands its argument on hands its burden on.
                if !matches!(val.shape, Shape::Bool(_) | Shape::Unit | Shape::None | Shape::Err(_)) {
                    val.carries.extend(given.carries.iter().copied());
                }
                s.set(dst, val);
            }
        }
        states
    }

    /// Shapes of what a closure of this function captured.
    fn capture_shapes(&self, id: FunctionId, state: &State) -> Vec<Shape> {
        let made = self.f.ops().find_map(|(_, op)| match &op.kind {
            crate::ir::OpKind::Let(Rvalue::Closure(made, captures)) if *made == id => Some(captures),
            _ => None,
        });
        made.map_or_else(Vec::new, |captures| captures.iter().map(|x| self.operand(state, x).shape).collect())
    }

    /// Enters workspace functions or closures: all their outcomes, joined over `targets`.
    pub(super) fn enter(
        &mut self,
        at: OpRef,
        dst: Option<Var>,
        call: &Call,
        targets: &[FunctionId],
        args: &[Operand],
        state: State,
    ) -> Vec<State> {
        let ways = self.by_implementation(call, targets, state);
        ways.into_iter().flat_map(|(targets, state)| self.enter_each(at, dst, call, &targets, args, state)).collect()
    }

    fn enter_each(
        &mut self,
        at: OpRef,
        dst: Option<Var>,
        call: &Call,
        targets: &[FunctionId],
        args: &[Operand],
        state: State,
    ) -> Vec<State> {
        let vals: Vec<Val> = args.iter().map(|x| self.operand(&state, x)).collect();
        let informed = vals.iter().any(|v| shapes::informative(&v.shape) || v.reply);
        let live: Vec<FunctionId> = targets
            .iter()
            .copied()
            .filter(|t| if self.a.relevant(*t) { self.a.worth(*t) } else { informed && self.a.small(*t) })
            .collect();
        self.observe_reached(at, call, targets, &state);
        let mut out = Vec::new();
        if live.len() < targets.len() || live.is_empty() {
            let mut after = self.neutral(dst, targets, args, state.clone());
            for target in targets {
                self.constructed(*target, dst, &mut after);
            }
            out.push(after);
        }
        for target in live {
            let f = self.a.program.function(target);
            let mut known: Vec<Shape> = vals
                .iter()
                .map(|v| if v.reply && v.shape == Shape::Unknown { Shape::Tainted } else { v.shape.clone() })
                .collect();
            known.resize(f.params.len(), Shape::Unknown);
            known.extend(self.capture_shapes(target, &state));
            let mut own = state.clone();
            let moved = self.hand_over(f, args, &mut own);
            let mut states = self.apply(at, dst, call, target, known, own);
            for s in &mut states {
                self.arrive(f, &moved, dst, s);
                self.constructed(target, dst, s);
            }
            out.extend(states);
        }
        out
    }

    /// A workspace call without lock effects.
    fn neutral(&self, dst: Option<Var>, targets: &[FunctionId], args: &[Operand], mut state: State) -> State {
        let mut moved = Vec::new();
        if let Some(target) = targets.first() {
            moved = self.hand_over(self.a.program.function(*target), args, &mut state);
        }
        let reply = args.iter().skip(1).any(|x| self.operand(&state, x).reply)
            || args.first().is_some_and(|x| self.operand(&state, x).spoils());
        if let Some(dst) = dst {
            let shape = if reply { Shape::Tainted } else { Shape::Unknown };
            self.assign(&mut state, dst, Val { shape, reply, carries: Vec::new() });
        }
        if let Some(target) = targets.first() {
            self.arrive(self.a.program.function(*target), &moved, dst, &mut state);
        }
        state
    }

    /// Applies the outcomes of one function.
    fn apply(
        &mut self,
        at: OpRef,
        dst: Option<Var>,
        call: &Call,
        target: FunctionId,
        known: Vec<Shape>,
        state: State,
    ) -> Vec<State> {
        let summary = self.a.summary(Key { function: target, known });
        let mut states = Vec::new();
        for (outcome, state) in self.agreeing(&summary, call, target, &state) {
            let mut after = self.outcome(at, dst, call, target, outcome, state);
            if outcome.freed.is_empty() {
                // The helper found that there is nothing to give back, or could not: giving back is its part.
                let tried = self.tried_release(target, &summary, outcome);
                self.free(at, call, target, &tried, &mut after);
            }
            states.push(after);
        }
        if summary.incomplete {
            let mut s = state;
            s.proven = false;
            if let Some(dst) = dst {
                self.assign(&mut s, dst, Val { shape: Shape::Tainted, reply: true, carries: Vec::new() });
            }
            states.push(s);
        }
        states
    }

    /// What a helper gives back that does nothing else, for those of its ways on which it does not.
    fn tried_release(&self, target: FunctionId, summary: &Summary, own: &Outcome) -> Vec<Rc<Freed>> {
        let gives = |o: &&Outcome| !o.freed.is_empty() && o.compatible(own);
        let Some(outcome) = summary.outcomes.iter().find(gives) else { return Vec::new() };
        let releases: Vec<Origin> = outcome.freed.iter().map(|f| f.origin).collect();
        let works = |r: &super::summary::Reached| match r.effect.kind {
            EffectKind::Acquire(_) => true,
            // What is written in the very step of the release is part of it.
            EffectKind::Write(_) | EffectKind::External(_) => !releases.iter().any(|o| o.site == r.origin.site),
            _ => false,
        };
        if self.a.reached(target).iter().any(works) { Vec::new() } else { outcome.freed.clone() }
    }

    fn free(&mut self, at: OpRef, call: &Call, target: FunctionId, freed: &[Rc<Freed>], state: &mut State) {
        for freed in freed {
            let freed = self.lift_freed((at, call), target, freed);
            self.release(freed, state);
        }
    }

    fn outcome(
        &mut self,
        at: OpRef,
        dst: Option<Var>,
        call: &Call,
        target: FunctionId,
        outcome: &Outcome,
        mut state: State,
    ) -> State {
        state.proven &= outcome.proven;
        if !outcome.acquired.is_empty() {
            state.arm = None;
        }
        let concerns = !outcome.acquired.is_empty() || state.locks.is_empty();
        if outcome.arm.is_some() && concerns && !matches!(outcome.ret, Shape::Err(_)) {
            state.arm = outcome.arm;
        }
        // Claimed rows that a helper hands on are data: a test of them decides nothing about the lock.
        let data = |(held, status, _): &(Rc<Held>, Status, Option<Carry>)| {
            let waited = held.acquire.kind == LockKind::Transaction && held.acquire.blocking;
            *status == Status::Held && (waited || matches!(held.acquire.kind, LockKind::Row | LockKind::LeaseRow))
        };
        let reply = !outcome.acquired.iter().all(data);
        let mut val = Val { shape: outcome.ret.clone(), reply, carries: Vec::new() };
        self.free(at, call, target, &outcome.freed, &mut state);
        for (held, status, carry) in &outcome.acquired {
            let lock = self.lift_held((at, call), dst, target, held);
            self.note_again(lock, &state);
            state.locks.insert(lock, *status);
            state.stale.remove(&lock);
            if let Some(carry) = carry {
                val.carries.push((lock, *carry));
            }
        }
        if self.a.program.function(target).kind == FunctionKind::Closure
            && let Some(carry) = self.guard_in(&val.shape)
        {
            // `reply.map(|_| Guard { .. })`: the closure makes the guard of a lock that is held out here.
            self.burden(&state, &mut val, carry);
        }
        if let Some(dst) = dst {
            self.assign(&mut state, dst, val);
        }
        state
    }

    /// The lock object inside a shape, if there is one.
    fn guard_in(&self, shape: &Shape) -> Option<Carry> {
        match shape {
            Shape::Struct(path, _) => self.a.carry_of(path),
            Shape::Ok(x) | Shape::Some(x) => self.guard_in(x),
            Shape::Tuple(list) | Shape::Variant(_, list) => list.iter().find_map(|x| self.guard_in(x)),
            _ => None,
        }
    }

    pub(super) fn through(&self, at: OpRef, via: &[crate::ir::Site]) -> Vec<crate::ir::Site> {
        std::iter::once(self.site(at)).chain(via.iter().copied()).collect()
    }

    /// Index of an acquisition: one per call chain.
    pub(super) fn intern(&mut self, held: Held) -> u16 {
        if let Some(i) = self.held.iter().position(|h| h.via == held.via && h.origin == held.origin) {
            return i as u16;
        }
        self.held.push(Rc::new(held));
        (self.held.len() - 1) as u16
    }
}
