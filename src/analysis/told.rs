//! How far a Scope goes: what a function leaves held without telling its caller, and what the next round of a loop no
//! longer works under.

use std::collections::BTreeSet;
use std::rc::Rc;

use super::explore::Explorer;
use super::state::State;
use super::summary::{Held, Outcome, Status};
use crate::ir::{
    BlockId, EdgeKind, EffectKind, Exit, FunctionId, FunctionKind, LockKind, OpKind, Operand, Rvalue, Shape, Var,
};

impl Explorer<'_, '_> {
    /// Locks that the caller cannot know to be held go to the caller as escaped: it does not work under them. `seen` is the
    /// number of observations when this exploration began.
    pub(super) fn told(&self, outcomes: &mut [Outcome], seen: usize) {
        let failing = |o: &Outcome| o.exit == Exit::Question || matches!(o.ret, Shape::Err(_));
        let untold: Vec<Vec<bool>> = outcomes
            .iter()
            .map(|o| {
                let list = o.acquired.iter().map(|(held, status, carry)| {
                    let open = *status == Status::Held && carry.is_none();
                    open && match held.acquire.kind {
                        LockKind::Lease => failing(o),
                        LockKind::LeaseRow => failing(o) || self.worked_off(outcomes, o, held, seen),
                        _ => false,
                    }
                });
                list.collect()
            })
            .collect();
        for (outcome, untold) in outcomes.iter_mut().zip(untold) {
            for ((_, status, _), untold) in outcome.acquired.iter_mut().zip(untold) {
                if untold {
                    *status = Status::Escaped;
                }
            }
        }
    }

    /// Whether the function does what the claim is for, and then answers as it does when there is nothing to claim.
    fn worked_off(&self, outcomes: &[Outcome], own: &Outcome, held: &Rc<Held>, seen: usize) -> bool {
        let same = |other: &Rc<Held>| other.origin == held.origin && other.via == held.via;
        let alike = outcomes.iter().any(|o| {
            o.ret == own.ret
                && o.exit == own.exit
                && o.acquired.iter().any(|(other, status, _)| *status == Status::Lost && same(other))
        });
        alike && !self.hands_on(own, held) && {
            let log = self.a.log.borrow();
            log.observations[seen.min(log.observations.len())..].iter().any(|o| {
                let works = matches!(o.effect.kind, EffectKind::Write(_) | EffectKind::External(_));
                o.function == self.id && o.status == Status::Held && works && same(&o.lock)
            })
        }
    }

    /// Whether what is returned can be what was claimed.
    fn hands_on(&self, outcome: &Outcome, held: &Held) -> bool {
        if plain(&outcome.ret) {
            return false;
        }
        let (Some(at), Some(dst)) = (outcome.at, held.dst) else { return true };
        let OpKind::Return(value, _) = &self.f.op(at).kind else { return true };
        super::slice::Slice::of(self.f).sources(value).contains(&dst)
    }

    /// The next round of a loop takes its own: what this one took and did not give back is not what the next works under,
    /// unless a variable that lives on says that it is held.
    pub(super) fn over_the_back_edge(&self, from: BlockId, to: BlockId, state: &mut State) {
        let over = |s: &Status| matches!(s, Status::Lost | Status::Failed);
        let mut stale: BTreeSet<u16> = state.locks.iter().filter(|(_, s)| over(s)).map(|(lock, _)| *lock).collect();
        let held: Vec<u16> = state.locks.iter().filter(|(_, s)| **s == Status::Held).map(|(lock, _)| *lock).collect();
        if !held.is_empty() && !state.remembers(&self.flow.live[to.0 as usize]) {
            let around = self.round(from, to);
            let taken_here = |lock: &u16| {
                let held = &self.held[*lock as usize];
                matches!(held.acquire.kind, LockKind::Lease | LockKind::LeaseRow)
                    && held.via.first().is_some_and(|site| around.contains(&site.at.block))
            };
            stale.extend(held.into_iter().filter(taken_here));
        }
        state.stale = stale;
        self.other_objects(state);
    }

    /// The blocks of the loop that an edge closes.
    fn round(&self, from: BlockId, header: BlockId) -> BTreeSet<BlockId> {
        let mut seen = BTreeSet::from([header, from]);
        let mut work = vec![from];
        while let Some(block) = work.pop() {
            if block == header {
                continue;
            }
            for (index, candidate) in self.f.blocks.iter().enumerate() {
                let id = BlockId(index as u32);
                let leads = candidate.edges.iter().any(|e| e.to == block && e.kind != EdgeKind::Cancel);
                if leads && seen.insert(id) {
                    work.push(id);
                }
            }
        }
        seen
    }

    /// The async block that awaiting this operand runs.
    pub(super) fn future_of(&self, state: &State, operand: &Operand) -> Option<FunctionId> {
        match self.operand(state, operand).shape {
            Shape::Closure(id) if self.a.program.function(id).kind == FunctionKind::AsyncBlock => Some(id),
            _ => None,
        }
    }

    /// The claims that a task is given, so that it is the one who works under them: a state in which only they are held.
    pub(super) fn given_claims(&self, id: FunctionId, state: &State) -> Option<State> {
        let captures = self.f.ops().find_map(|(_, op)| match &op.kind {
            OpKind::Let(Rvalue::Closure(made, captures)) if *made == id => Some(captures),
            _ => None,
        })?;
        self.claims_among(captures, state)
    }

    /// The same of a task whose function is called with these arguments.
    pub(super) fn claims_among(&self, given: &[Operand], state: &State) -> Option<State> {
        let row = |lock: &u16| {
            let held = &self.held[*lock as usize];
            (held.acquire.kind == LockKind::LeaseRow).then_some(held.dst).flatten()
        };
        let held = state.locks.iter().filter(|(_, status)| **status == Status::Held);
        let claims: Vec<(u16, Var)> = held.filter_map(|(lock, _)| Some((*lock, row(lock)?))).collect();
        if claims.is_empty() {
            return None;
        }
        let slice = super::slice::Slice::of(self.f);
        let sources: BTreeSet<Var> = given.iter().flat_map(|x| slice.sources(x)).collect();
        let mut own = state.clone();
        own.locks.retain(|lock, _| claims.iter().any(|(l, dst)| l == lock && sources.contains(dst)));
        (!own.locks.is_empty()).then_some(own)
    }
}

/// Nothing of what was claimed is in there.
fn plain(shape: &Shape) -> bool {
    match shape {
        Shape::Unit | Shape::None | Shape::Nil => true,
        Shape::Ok(x) | Shape::Some(x) => plain(x),
        _ => false,
    }
}
