//! An arm for the loser that does all that the winner does: it may wait first, but it does not stay away.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::analysis::lock::Decision;
use crate::analysis::summary::{Held, Status, Went};
use crate::ir::{Backend, Certainty, EffectKind, FunctionId, LockKind, Resource};
use crate::rule::Context;
use crate::rule::work::{What, Work};
use crate::source::Span;

/// An arm in which the loser works.
pub struct Arm {
    /// The acquisition as the function sees it.
    pub held: Rc<Held>,
    /// The work.
    pub work: Span,
}

/// Such arms, by lock and function.
pub fn found(cx: &Context<'_>) -> BTreeMap<(usize, FunctionId), Arm> {
    let log = cx.analyzer.log.borrow();
    let mut ways: BTreeMap<(usize, FunctionId), Vec<&Went>> = BTreeMap::new();
    for went in log.went.iter().filter(|w| cx.judged(w.function) && !log.cut.contains(&w.function)) {
        let Some(lock) = cx.locks.of(&went.lock.via, went.lock.origin.effect) else { continue };
        let taken = &cx.locks.locks[lock];
        let lease = taken.acquire().is_some_and(|a| a.kind == LockKind::Lease && !a.blocking);
        if lease && taken.decision == Decision::Lock && went.lock.certainty >= Certainty::Inferred {
            ways.entry((lock, went.function)).or_default().push(went);
        }
    }
    let mut out = BTreeMap::new();
    for ((lock, function), ways) in ways {
        // Elsewhere in the function the lock was given up, or is another one: what runs there says nothing.
        let of = |status: Status| {
            let own = ways.iter().filter(move |w| w.status == status);
            own.flat_map(|w| cx.work_in(function, w.block, &w.lock).into_iter().map(move |work| (*w, work)))
        };
        let changes = |work: &Work| work.known && changes(cx, &work.what);
        let mut won: Vec<Work> = of(Status::Held).map(|(_, work)| work).filter(changes).collect();
        won.sort_by_key(|w| w.at);
        won.dedup_by_key(|w| w.at);
        let lost: Vec<(&Went, Work)> = of(Status::Lost).filter(|(_, work)| changes(work)).collect();
        let at_won: BTreeSet<_> = won.iter().map(|w| w.at).collect();
        let own = |w: &Went, work: &Work| w.proven && !w.other && !at_won.contains(&work.at);
        let all = won.iter().all(|a| lost.iter().any(|(w, b)| own(w, b) && a.what == b.what));
        let lone = lost.iter().all(|(w, b)| own(w, b) && won.iter().any(|a| a.what == b.what));
        if let Some((went, work)) = lost.iter().min_by_key(|(_, work)| work.at)
            && all
            && lone
        {
            let span = cx.program.function(function).op(work.at).span;
            out.insert((lock, function), Arm { held: went.lock.clone(), work: span });
        }
    }
    out
}

/// Whether a call changes what others see: an entry of a cache may be written by anybody, at any time.
fn changes(cx: &Context<'_>, what: &What) -> bool {
    let What::Functions(list) = what else { return false };
    list.iter().any(|id| {
        cx.analyzer.reached(*id).iter().any(|r| match &r.effect.kind {
            EffectKind::Write(w) => {
                let entry = matches!(w.resource, Resource::Key(Backend::Redis, _)) && w.ttl.is_some();
                !entry
            }
            EffectKind::External(e) => e.mutates(),
            _ => false,
        })
    })
}
