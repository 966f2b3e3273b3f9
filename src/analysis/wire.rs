//! Wire exchanges: each effect in order, forked by world, then the reply.

use std::rc::Rc;

use super::explore::Explorer;
use super::state::{State, Val};
use super::summary::{Carry, Freed, Held, Origin, Relation, Status};
use crate::ir::{Call, Effect, EffectKind, GuardDrop, LockKind, Op, OpRef, Operand, RoundTrip, Shape, Ty};
use crate::protocol::redis::{Conversion, WireReply, convert};

/// Which world a forked state is in, for picking the reply.
#[derive(Clone, Copy, PartialEq, Eq)]
enum World {
    None,
    Held,
    Lost,
    Failed,
    /// A deadline passed first: the result is `Err(Elapsed)`.
    Elapsed,
}

/// Whether a store or service answers: what it says does not come from the reply of a lock, even if a token of that is sent.
fn asks_a_store(trip: &RoundTrip) -> bool {
    let answers = |e: &Effect| {
        matches!(e.kind, EffectKind::Read(_) | EffectKind::Write(_) | EffectKind::External(_) | EffectKind::Issue(_))
    };
    !trip.effects.is_empty() && trip.effects.iter().all(answers)
}

/// Whether what comes back with the lock is the row itself: a test of its columns decides nothing about the lock.
fn brings_data(trip: &RoundTrip) -> bool {
    let row =
        |e: &Effect| matches!(&e.kind, EffectKind::Acquire(a) if matches!(a.kind, LockKind::Row | LockKind::LeaseRow));
    trip.effects.iter().any(row) && trip.reply.as_ref().is_some_and(|r| r.held != r.lost)
}

/// The reply that a shape of no Rust type stands for.
fn reply_of(shape: &Shape) -> Option<WireReply> {
    Some(match shape {
        Shape::Status(text) => WireReply::Status(text.clone()),
        Shape::Str(text) => WireReply::Text(text.clone()),
        Shape::Nil => WireReply::Nil,
        Shape::Number(n) => WireReply::Int(*n),
        _ => return None,
    })
}

impl<'p> Explorer<'_, 'p> {
    /// A raw reply read as a type afterwards: `String::from_redis_value(&reply)`, `redis::from_redis_value::<bool>(&reply)`.
    pub(super) fn read_as(&self, path: &str, op: &Op, call: &Call, state: &State) -> Option<Vec<State>> {
        let (owner, "from_redis_value" | "from_owned_redis_value") = path.rsplit_once("::")? else { return None };
        let val = self.operand(state, call.args.first()?);
        let reply = reply_of(&val.shape)?;
        // Called on the type it makes, or by the free function of that name with the type as its generic argument.
        let made = owner.rsplit("::").next().is_some_and(|name| name.starts_with(char::is_uppercase) || name == "bool");
        let ty = match made {
            true => Ty { path: owner.to_owned(), args: call.generics.clone() },
            false => call.generics.first().cloned()?,
        };
        let shape = convert(&reply, &ty, Conversion::REDIS);
        let mut state = state.clone();
        if let Some(dst) = op.dst {
            self.assign(&mut state, dst, Val { shape, reply: true, carries: Vec::new() });
        }
        Some(vec![state])
    }

    /// A wire exchange: each effect in order, forked by world, then the reply.
    pub(super) fn round_trip(
        &mut self,
        at: OpRef,
        op: &'p Op,
        call: &'p Call,
        trip: &'p RoundTrip,
        state: State,
    ) -> Vec<State> {
        let mut forks = vec![(state, World::None)];
        for (index, effect) in trip.effects.iter().enumerate() {
            let origin = Origin { site: self.site(at), effect: index as u32 };
            let mut next = Vec::new();
            for (state, world) in forks {
                next.extend(self.effect(at, op, call, trip, effect, origin, state, world));
            }
            forks = next;
        }
        let waits = trip.effects.iter().any(|e| matches!(e.kind, EffectKind::Timeout(_)));
        let mut out = Vec::new();
        for (mut state, world) in forks {
            let spoilt = call.args.iter().any(|x| self.operand(&state, x).spoils());
            for arg in &call.args {
                let val = self.consume(&mut state, arg);
                state.settle(&val.carries, Status::Escaped);
            }
            if let Some(dst) = op.dst {
                let val = match (&trip.reply, world) {
                    (_, World::None) if spoilt && !waits && !asks_a_store(trip) => {
                        Val { shape: Shape::Tainted, reply: true, carries: Vec::new() }
                    }
                    (_, World::None) => self.waited(trip, call, &mut state),
                    (_, World::Elapsed) => Val { shape: Shape::err(), reply: true, carries: Vec::new() },
                    (Some(reply), World::Held) => {
                        Val { shape: reply.held.clone(), reply: !brings_data(trip), carries: Vec::new() }
                    }
                    (Some(reply), World::Lost) => Val { shape: reply.lost.clone(), reply: true, carries: Vec::new() },
                    (Some(reply), World::Failed) => {
                        Val { shape: reply.failed.clone(), reply: true, carries: Vec::new() }
                    }
                    (None, _) => Val { shape: Shape::Tainted, reply: true, carries: Vec::new() },
                };
                self.assign(&mut state, dst, val);
                if world == World::Held
                    && let Some(drop) = trip.guard
                    && let Some(lock) =
                        self.held.iter().position(|h| h.origin.site == self.site(at) && h.via.len() == 1)
                {
                    let carry = if drop == GuardDrop::Nothing { Carry::Nothing } else { Carry::Releases };
                    let mut val = state.get(dst);
                    val.carries.push((lock as u16, carry));
                    state.set(dst, val);
                }
            }
            out.push(state);
        }
        out
    }

    /// Result of a round trip without lock reply: `timeout(d, future)` hands the future's result on in `Ok`.
    fn waited(&mut self, trip: &RoundTrip, call: &Call, state: &mut State) -> Val {
        let timeout = trip.effects.iter().any(|e| matches!(e.kind, EffectKind::Timeout(_)));
        if !timeout {
            return Val::unknown();
        }
        let Some(last) = call.args.last() else { return Val::unknown() };
        let val = self.operand(state, last);
        if let Operand::Var(var, _) = last {
            state.unburden(*var);
        }
        if val.is_blank() {
            return Val::unknown();
        }
        let shape = val.shape.clone().ok();
        val.with(shape)
    }

    #[allow(clippy::too_many_arguments)]
    fn effect(
        &mut self,
        at: OpRef,
        op: &Op,
        call: &Call,
        trip: &RoundTrip,
        effect: &Effect,
        origin: Origin,
        state: State,
        world: World,
    ) -> Vec<(State, World)> {
        match &effect.kind {
            EffectKind::Acquire(acquire) => {
                let lock = self.intern(Held {
                    acquire: acquire.clone(),
                    origin,
                    via: vec![self.site(at)],
                    certainty: trip.certainty,
                    dst: op.dst,
                });
                self.note_again(lock, &state);
                self.nest(acquire, vec![self.site(at)], &state);
                let worlds =
                    [(Status::Held, World::Held), (Status::Lost, World::Lost), (Status::Failed, World::Failed)];
                let mut out = Vec::new();
                for (status, own) in worlds {
                    if acquire.blocking && own == World::Lost {
                        continue;
                    }
                    let mut s = state.clone();
                    s.locks.insert(lock, status);
                    s.stale.remove(&lock);
                    s.arm = None;
                    out.push((s, if world == World::None { own } else { world }));
                }
                if effect.conditional {
                    out.push((state, world));
                }
                out
            }
            EffectKind::Release(release) => {
                let mut s = state.clone();
                self.release(Freed { release: release.clone(), origin, via: vec![self.site(at)] }, &mut s);
                let mut out = vec![(s, world)];
                if effect.conditional {
                    out.push((state, world));
                }
                out
            }
            // Whoever is refused and then renews by its own token was the holder all along.
            EffectKind::Renew(renew) if world == World::None && trip.reply.is_some() => {
                self.observe(effect, origin, &[self.site(at)], &state);
                let same = |lock: &u16| {
                    let held = &self.held[*lock as usize].acquire;
                    held.backend == renew.backend && self.a.relate(&renew.key, &held.key) == Relation::Must
                };
                let lost = state.locks.iter().filter(|(lock, s)| **s == Status::Lost && same(lock));
                let lost: Vec<u16> = lost.map(|(lock, _)| *lock).collect();
                if lost.is_empty() {
                    return vec![(state, world)];
                }
                let mut own = state.clone();
                own.locks.extend(lost.iter().map(|lock| (*lock, Status::Held)));
                own.arm = None;
                vec![(own, World::Held), (state.clone(), World::Lost), (state, World::Failed)]
            }
            EffectKind::Timeout(_) => {
                self.observe(effect, origin, &[self.site(at)], &state);
                let mut late = state.clone();
                self.elapsed(call, &mut late);
                let mut out = vec![(state, world)];
                if late != out[0].0 {
                    out.push((late, World::Elapsed));
                }
                out
            }
            EffectKind::Spawn(_) => {
                let mut s = state;
                for arg in &call.args {
                    if let Shape::Closure(id) = self.operand(&s, arg).shape {
                        if let Some(own) = self.given_claims(id, &s) {
                            self.observe_reached(at, call, &[id], &own);
                        }
                        self.background(id, &mut s);
                    }
                }
                vec![(s, world)]
            }
            _ => {
                self.observe(effect, origin, &[self.site(at)], &state);
                vec![(state, world)]
            }
        }
    }

    /// The deadline passed while the acquire of the awaited future was under way: it may have been granted.
    fn elapsed(&self, call: &Call, state: &mut State) {
        for arg in &call.args {
            let Operand::Var(var, _) = arg else { continue };
            for (lock, status) in &mut state.locks {
                if self.held[*lock as usize].dst == Some(*var) {
                    *status = Status::Failed;
                }
            }
            state.take(*var);
        }
    }

    /// A release: observed against every acquisition it may concern; those held are released, else it concerns the caller.
    pub(super) fn release(&mut self, freed: Freed, state: &mut State) {
        let mut matched = Vec::new();
        for (lock, status) in &state.locks {
            let relation = self.a.relate_release(&freed.release, &self.held[*lock as usize].acquire);
            if relation.possible() {
                matched.push((*lock, *status, relation));
            }
        }
        let best = matched.iter().filter(|(_, s, _)| *s == Status::Held).map(|(.., r)| *r).max();
        for (lock, status, relation) in &matched {
            // Lost at first and won by a second try: it is the second one that is given back.
            let regained = best == Some(Relation::Must) && matches!(status, Status::Lost | Status::Failed);
            if !state.stale.contains(lock) && !regained {
                let held = &self.held[*lock as usize];
                self.a.observe_release(self.id, &freed, held, *status, *relation, state.proven);
            }
        }
        for (lock, status, relation) in &matched {
            if *status == Status::Held && (Some(*relation) == best || freed.release.all) {
                state.locks.insert(*lock, Status::Released);
            }
        }
        if best.is_none() && !matched.iter().any(|(_, s, _)| *s == Status::Released) {
            let index = self.freed.iter().position(|f| **f == freed).unwrap_or_else(|| {
                self.freed.push(Rc::new(freed));
                self.freed.len() - 1
            });
            state.freed.insert(index as u16);
        }
    }
}
