//! What runs in the sections of a lock, op by op: for rules that say what a section does not do.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::Context;
use crate::analysis::MAX_REACHED;
use crate::analysis::lock::Decision;
use crate::analysis::summary::{Held, Observation, Origin, Relation, Status};
use crate::ir::{BlockId, EffectKind, Exit, FunctionId, LockKind, OpRef, Resource, Shape, Value, Write};

/// What one function sees of a lock: how it is taken there, and the blocks that run with it held.
#[derive(Default)]
pub struct Seen {
    /// The acquisition, once for each chain of calls.
    pub held: Vec<Rc<Held>>,
    /// Blocks that run with it held.
    pub blocks: BTreeSet<BlockId>,
}

/// What each function sees of one lock.
pub type Functions = BTreeMap<FunctionId, Seen>;

impl Context<'_> {
    /// Whether a lock is a lease or session lock that is held for a section, in code that is judged.
    pub fn leased(&self, lock: usize) -> bool {
        let lock = &self.locks.locks[lock];
        let kind = lock.acquire().map(|a| a.kind);
        lock.decision == Decision::Lock
            && self.judged(lock.taken.function)
            && matches!(kind, Some(LockKind::Lease | LockKind::Session))
    }

    /// What runs with each lock held.
    pub fn held_blocks(&self) -> BTreeMap<usize, Functions> {
        let mut out: BTreeMap<usize, Functions> = BTreeMap::new();
        let log = self.analyzer.log.borrow();
        for went in log.went.iter().filter(|w| w.status == Status::Held) {
            let Some(lock) = self.locks.of(&went.lock.via, went.lock.origin.effect) else { continue };
            let seen = out.entry(lock).or_default().entry(went.function).or_default();
            seen.blocks.insert(went.block);
            if !seen.held.iter().any(|h| h.via == went.lock.via) {
                seen.held.push(went.lock.clone());
            }
        }
        out
    }

    /// The ops that run with the lock held, the acquisition itself left out, if every call in them is understood.
    pub fn section_ops(&self, function: FunctionId, held: &Held, blocks: &BTreeSet<BlockId>) -> Option<Vec<OpRef>> {
        let taken = held.via[0].at;
        let f = self.program.function(function);
        let after = |at: &OpRef| at.block == taken.block && at.index > taken.index;
        let inside = |at: &OpRef| at.block != taken.block && blocks.contains(&at.block);
        let ops: Vec<OpRef> = f.ops().map(|(at, _)| at).filter(|at| after(at) || inside(at)).collect();
        let understood = ops.iter().all(|at| self.understood(function, *at));
        (understood && !self.analyzer.log.borrow().cut.contains(&function)).then_some(ops)
    }

    /// What is written in a section, its bookkeeping left out; `None` where something else is done in it. Reads are
    /// something else unless they are `let_through`.
    pub fn writes_in(
        &self,
        lock: usize,
        function: FunctionId,
        held: &Rc<Held>,
        ops: &[OpRef],
        let_through: bool,
    ) -> Option<Vec<Observation>> {
        let reached = self.analyzer.reached(function);
        if reached.len() >= MAX_REACHED {
            return None;
        }
        let mut out: Vec<Observation> = Vec::new();
        for r in reached.iter().filter(|r| ops.contains(&r.via[0].at)) {
            let own = |key: &Value| self.analyzer.relate(key, &held.acquire.key) == Relation::Must;
            match &r.effect.kind {
                EffectKind::Release(_) | EffectKind::Renew(_) => {}
                EffectKind::Begin | EffectKind::Commit | EffectKind::Rollback => {}
                EffectKind::Expire(e) if own(&e.key) => {}
                EffectKind::Read(Resource::Key(_, key)) if own(key) => {}
                EffectKind::Read(_) if let_through => {}
                EffectKind::Write(Write { resource: Resource::Key(_, key), .. }) if own(key) => {}
                // What `INCR` answers.
                EffectKind::Issue(_) => {}
                EffectKind::Write(_) => out.push(Observation {
                    function,
                    effect: r.effect.clone(),
                    origin: r.origin,
                    via: r.via.clone(),
                    lock: held.clone(),
                    status: Status::Held,
                    proven: true,
                    arm: None,
                    relation: Relation::Other,
                }),
                _ => return None,
            }
        }
        // The path search must have come there with the lock, and only with it.
        let seen: BTreeSet<(Origin, bool)> = self
            .observed(lock, |o| o.function == function)
            .iter()
            .map(|o| (o.origin, o.status == Status::Held))
            .collect();
        let only_held = |o: &Observation| seen.contains(&(o.origin, true)) && !seen.contains(&(o.origin, false));
        out.iter().all(only_held).then_some(out)
    }

    /// Whether the lock is given back in the function wherever it is left well; `None` if it goes where it is not followed.
    pub fn ends_here(&self, lock: usize, function: FunctionId) -> Option<bool> {
        let log = self.analyzer.log.borrow();
        let own = log
            .leavings
            .iter()
            .filter(|l| l.function == function && self.locks.of(&l.lock.via, l.lock.origin.effect) == Some(lock));
        let (mut released, mut kept) = (false, false);
        for leaving in own {
            let well = leaving.exit == Exit::Return && !matches!(leaving.ret, Shape::Err(_));
            match leaving.status {
                Status::Escaped => return None,
                Status::Released => released = true,
                Status::Held => kept |= well,
                Status::Lost | Status::Failed => {}
            }
        }
        match (released, kept) {
            (true, false) => Some(true),
            (false, true) => Some(false),
            _ => None,
        }
    }
}
