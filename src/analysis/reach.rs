//! Effects that a function reaches, itself and through what it calls, in its own terms.

use std::collections::HashMap;
use std::rc::Rc;

use super::summary::{Origin, Reached, Status};
use super::{Analyzer, is_lock_effect, key_of};
use crate::analysis::explore::Explorer;
use crate::analysis::state::State;
use crate::analysis::summary::{Observation, Relation};
use crate::ir::{
    Call, Callee, Effect, EffectKind, FunctionId, OpKind, OpRef, OwnerCheck, Resource, Rvalue, Safety, Site, Ttl, Value,
};

/// Effects of callees kept per function, in source order. What takes, gives back or prolongs a lock counts by itself, so
/// that long work under a lock does not hide the release behind it. A function's own effects are all kept.
pub const MAX_REACHED: usize = 48;
/// Calls followed downwards.
const MAX_DEPTH: usize = 8;

/// One question about what a function reaches.
#[derive(Default)]
struct Walk {
    /// Functions being looked at, outermost first.
    stack: Vec<FunctionId>,
    /// Results that recursion or depth left incomplete, and how deep they were found: the deeper, the less they hold.
    cut: HashMap<FunctionId, (usize, Rc<Vec<Reached>>)>,
}

/// How many effects of callees a function may still get.
struct Room {
    locks: usize,
    others: usize,
}

impl<'p> Analyzer<'p> {
    /// Effects reached from a function, memoised; recursion adds nothing.
    pub(crate) fn reached(&self, id: FunctionId) -> Rc<Vec<Reached>> {
        self.reach(id, &mut Walk::default(), &mut false)
    }

    /// `cut` is set when recursion or depth left something out: such a result holds for this walk only.
    fn reach(&self, id: FunctionId, walk: &mut Walk, cut: &mut bool) -> Rc<Vec<Reached>> {
        if !self.effectful[id.0 as usize] {
            return Rc::default();
        }
        if let Some(known) = self.reached.borrow().get(&id) {
            return known.clone();
        }
        if walk.stack.contains(&id) || walk.stack.len() > MAX_DEPTH {
            *cut = true;
            return Rc::default();
        }
        // Without this, functions that call one another cost as much as there are ways through them.
        if let Some((_, known)) = walk.cut.get(&id).filter(|(depth, _)| *depth <= walk.stack.len()) {
            *cut = true;
            return known.clone();
        }
        let mut own_cut = false;
        walk.stack.push(id);
        let f = self.program.function(id);
        let mut out: Vec<Reached> = Vec::new();
        let mut room = Room { locks: MAX_REACHED, others: MAX_REACHED };
        for (at, op) in f.ops() {
            let site = Site { function: id, at };
            match &op.kind {
                OpKind::Call(call) => {
                    if let Some(trip) = &call.effect {
                        for (i, effect) in trip.effects.iter().enumerate() {
                            out.push(Reached {
                                effect: effect.clone(),
                                origin: Origin { site, effect: i as u32 },
                                via: vec![site],
                            });
                        }
                        continue;
                    }
                    for target in &call.targets {
                        self.lift(site, call, id, *target, walk, &mut own_cut, &mut room, &mut out);
                    }
                }
                OpKind::Let(Rvalue::Closure(inner, _)) => {
                    // A closure made here runs here as far as effects are concerned.
                    let call = closure_call();
                    self.lift(site, &call, id, *inner, walk, &mut own_cut, &mut room, &mut out);
                }
                _ => {}
            }
        }
        walk.stack.pop();
        let out = Rc::new(out);
        if walk.stack.is_empty() || !own_cut {
            self.reached.borrow_mut().insert(id, out.clone());
        } else {
            walk.cut.insert(id, (walk.stack.len(), out.clone()));
        }
        *cut |= own_cut;
        out
    }

    #[allow(clippy::too_many_arguments)]
    fn lift(
        &self,
        site: Site,
        call: &Call,
        caller: FunctionId,
        target: FunctionId,
        walk: &mut Walk,
        cut: &mut bool,
        room: &mut Room,
        out: &mut Vec<Reached>,
    ) {
        for inner in self.reach(target, walk, cut).iter() {
            let left = if is_lock_effect(&inner.effect.kind) { &mut room.locks } else { &mut room.others };
            if *left == 0 || inner.via.len() >= MAX_DEPTH {
                continue;
            }
            *left -= 1;
            let effect = map_values(&inner.effect, &mut |v| self.rebase(v, call, caller, target));
            let via = std::iter::once(site).chain(inner.via.iter().copied()).collect();
            out.push(Reached { effect, origin: inner.origin, via });
        }
    }
}

/// A call of a closure with nothing to say about arguments.
pub(super) fn closure_call() -> Call {
    Call {
        callee: Callee::Method(String::new()),
        args: Vec::new(),
        generics: Vec::new(),
        whole: crate::source::Span::new(crate::source::FileId(0), 0, 0),
        cancel: None,
        targets: Vec::new(),
        effect: None,
    }
}

impl Explorer<'_, '_> {
    /// Notes an effect against every acquisition of this path.
    pub(super) fn observe(&self, effect: &Effect, origin: Origin, via: &[Site], state: &State) {
        let new = self.unseen(origin, via, state);
        self.note(effect, origin, via, state, new);
    }

    /// The acquisitions of this path against which an effect has not been noted in the same circumstances.
    fn unseen(&self, origin: Origin, via: &[Site], state: &State) -> Vec<(u16, Status)> {
        let open = |(lock, status): &(&u16, &Status)| {
            !matches!(status, Status::Released | Status::Escaped) && !state.stale.contains(lock)
        };
        let mut observed = self.observed.borrow_mut();
        let of_it = observed.entry((origin, via.to_vec())).or_default();
        let locks = state.locks.iter().filter(open);
        locks
            .filter(|(lock, status)| of_it.insert((**lock, **status, state.proven, state.arm)))
            .map(|(lock, status)| (*lock, *status))
            .collect()
    }

    fn note(&self, effect: &Effect, origin: Origin, via: &[Site], state: &State, locks: Vec<(u16, Status)>) {
        for (lock, status) in locks {
            let held = &self.held[lock as usize];
            let relation = key_of(effect).map_or(Relation::Other, |key| self.a.relate_whole(key, &held.acquire.key));
            self.a.log.borrow_mut().observations.push(Observation {
                function: self.id,
                effect: effect.clone(),
                origin,
                via: via.to_vec(),
                lock: held.clone(),
                status,
                proven: state.proven,
                arm: state.arm,
                relation,
            });
        }
    }

    /// Notes what a call reaches, except for what the path search itself follows (acquire and release).
    pub(super) fn observe_reached(&self, at: OpRef, call: &Call, targets: &[FunctionId], state: &State) {
        if !state.locks.values().any(|s| matches!(s, Status::Held | Status::Lost | Status::Failed)) {
            return;
        }
        let site = self.site(at);
        for target in targets {
            for inner in self.a.reached(*target).iter() {
                if let EffectKind::Acquire(acquire) = &inner.effect.kind {
                    let mut acquire = acquire.clone();
                    acquire.key = self.a.rebase(&acquire.key, call, self.id, *target);
                    acquire.token = self.a.rebase(&acquire.token, call, self.id, *target);
                    let via = std::iter::once(site).chain(inner.via.iter().copied()).collect();
                    self.nest(&acquire, via, state);
                }
                if matches!(inner.effect.kind, EffectKind::Acquire(_) | EffectKind::Release(_)) {
                    continue;
                }
                let via: Vec<Site> = std::iter::once(site).chain(inner.via.iter().copied()).collect();
                let new = self.unseen(inner.origin, &via, state);
                if !new.is_empty() {
                    let effect = map_values(&inner.effect, &mut |v| self.a.rebase(v, call, self.id, *target));
                    self.note(&effect, inner.origin, &via, state, new);
                }
            }
        }
    }

    /// Notes an acquisition of a key that is held.
    pub(super) fn nest(&self, acquire: &crate::ir::Acquire, via: Vec<Site>, state: &State) {
        for (lock, _) in state.locks.iter().filter(|(_, status)| **status == Status::Held) {
            let outer = &self.held[*lock as usize];
            let same = outer.acquire.backend == acquire.backend && outer.acquire.kind == acquire.kind;
            if same
                && outer.via.first() != via.first()
                && self.a.relate(&acquire.key, &outer.acquire.key) == Relation::Must
            {
                self.a.log.borrow_mut().nested.push(super::Nested {
                    function: self.id,
                    outer: outer.clone(),
                    key: acquire.key.clone(),
                    token: acquire.token.clone(),
                    via: via.clone(),
                    proven: state.proven,
                });
            }
        }
    }

    /// An acquisition is about to be made: is it a retry?
    pub(super) fn note_again(&self, lock: u16, state: &State) {
        let seen = (self.id, self.held[lock as usize].origin);
        match state.locks.get(&lock) {
            Some(Status::Lost | Status::Failed) => self.a.log.borrow_mut().retried.insert(seen),
            Some(Status::Held) => self.a.log.borrow_mut().repeated.insert(seen),
            _ => false,
        };
    }
}

/// The effect with every value replaced.
pub(crate) fn map_values(effect: &Effect, f: &mut impl FnMut(&Value) -> Value) -> Effect {
    let mut effect = effect.clone();
    let ttl = |ttl: &mut Ttl, f: &mut dyn FnMut(&Value) -> Value| {
        if let Ttl::After(v, _) = ttl {
            *v = f(v);
        }
    };
    let check = |check: &mut OwnerCheck, f: &mut dyn FnMut(&Value) -> Value| {
        if let OwnerCheck::Token(v) = check {
            *v = f(v);
        }
    };
    match &mut effect.kind {
        EffectKind::Acquire(a) => {
            a.key = f(&a.key);
            a.token = f(&a.token);
            ttl(&mut a.ttl, f);
        }
        EffectKind::Release(r) => {
            r.key = f(&r.key);
            check(&mut r.check, f);
        }
        EffectKind::Renew(r) => {
            r.key = f(&r.key);
            check(&mut r.check, f);
            ttl(&mut r.ttl, f);
        }
        EffectKind::Expire(e) => {
            e.key = f(&e.key);
            ttl(&mut e.ttl, f);
        }
        EffectKind::Read(resource) => map_resource(resource, f),
        EffectKind::Write(w) => {
            map_resource(&mut w.resource, f);
            w.values.iter_mut().for_each(|v| *v = f(v));
            if let Safety::Conditions(list) = &mut w.safety {
                list.iter_mut().for_each(|(_, _, v)| *v = f(v));
            }
            if let Some(t) = &mut w.ttl {
                ttl(t, f);
            }
        }
        EffectKind::External(e) => {
            e.target = f(&e.target);
            if let Some(v) = &mut e.idempotency {
                *v = f(v);
            }
        }
        EffectKind::Watch(v)
        | EffectKind::Sleep(v)
        | EffectKind::Timeout(v)
        | EffectKind::Spawn(v)
        | EffectKind::Signal(v)
        | EffectKind::Observe(v)
        | EffectKind::Issue(v) => *v = f(v),
        EffectKind::Grant(g) => ttl(&mut g.ttl, f),
        EffectKind::Look(look) => look.key = f(&look.key),
        EffectKind::Overdue(o) => {
            if let Some(v) = &mut o.now {
                *v = f(v);
            }
        }
        EffectKind::Begin | EffectKind::Commit | EffectKind::Rollback => {}
    }
    effect
}

fn map_resource(resource: &mut Resource, f: &mut impl FnMut(&Value) -> Value) {
    if let Resource::Key(_, key) = resource {
        *key = f(key);
    }
}
