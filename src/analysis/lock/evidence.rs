//! What the path search saw of each lock, for the decision what it is.

use std::collections::BTreeSet;

use super::{Locks, Use};
use crate::analysis::flow;
use crate::analysis::slice::Slice;
use crate::analysis::summary::{Leaving, Origin, Relation, Status};
use crate::analysis::{Analyzer, Log};
use crate::ir::{
    BlockId, Effect, EffectKind, Exit, Function, FunctionId, Guard, OpRef, Operand, Pattern, Resource, Shape, Site,
    Ttl, Var,
};

/// What the path search saw of each lock.
#[derive(Default)]
pub(super) struct Evidence {
    pub(super) carried: BTreeSet<usize>,
    pub(super) retried: BTreeSet<usize>,
    pub(super) released_well: BTreeSet<usize>,
    pub(super) released_failing: BTreeSet<usize>,
    pub(super) prolonged_by_owner: BTreeSet<usize>,
}

impl Evidence {
    /// Gathers it from the log.
    pub(super) fn of(a: &Analyzer<'_>, locks: &Locks) -> Evidence {
        let log = a.log.borrow();
        let mut evidence = Evidence::default();
        let kept = kept(&log);
        for leaving in &log.leavings {
            let Some(lock) = locks.of(&leaving.lock.via, leaving.lock.origin.effect) else { continue };
            if leaving.carried {
                evidence.carried.insert(lock);
            }
            if leaving.status == Status::Released {
                if succeeds(leaving)
                    && !(kept.contains(&(leaving.function, lock_site(leaving))) && undone(a, &log, leaving))
                {
                    evidence.released_well.insert(lock);
                } else {
                    evidence.released_failing.insert(lock);
                }
            }
        }
        for (via, uses) in &locks.by_id {
            for (effect, index) in uses {
                let origin = Origin { site: via[via.len() - 1], effect: *effect };
                // Whoever wins leaves a wait loop; a consumer's loop goes on to the next thing to claim.
                if log.retried.iter().any(|(f, o)| *o == origin && !consumes(a, &log, *f, origin)) {
                    evidence.retried.insert(*index);
                }
            }
        }
        for (index, lock) in locks.locks.iter().enumerate() {
            if lock.prolongs.keys().any(|p| asks_for_owner(a, &locks.prolongs[*p])) {
                evidence.prolonged_by_owner.insert(index);
            }
        }
        evidence
    }
}

/// Whether an expiry is moved on only where the value that was read from its key, the stored owner, was compared with
/// another.
fn asks_for_owner(a: &Analyzer<'_>, prolong: &Use) -> bool {
    if !matches!(&prolong.effect.kind, EffectKind::Expire(e) if e.ttl != Ttl::Never) {
        return false;
    }
    let site = prolong.site();
    let f = a.program.function(site.function);
    let same = |e: &Effect| match &e.kind {
        EffectKind::Read(Resource::Key(_, read)) => {
            let ttl = matches!(e.command.split_whitespace().next(), Some("TTL" | "PTTL"));
            !ttl && a.relate(&a.comparable(site.function, read), &prolong.key) == Relation::Must
        }
        _ => false,
    };
    let read: BTreeSet<Var> = f
        .calls()
        .filter(|(_, _, call)| call.effect.as_ref().is_some_and(|trip| trip.effects.iter().any(same)))
        .filter_map(|(_, op, _)| op.dst)
        .collect();
    if read.is_empty() {
        return false;
    }
    let slice = Slice::of(f);
    let from = |x: &Operand| slice.sources(x).iter().any(|v| read.contains(v));
    let fixed = |x: &Operand| !matches!(x, Operand::Var(..));
    slice.tests_before(site.at).into_iter().any(|test| {
        // A constant is no owner: a counter or state that has reached a limit.
        slice.comparisons(test).into_iter().any(|(x, y)| from(x) != from(y) && !fixed(x) && !fixed(y))
    })
}

/// Whether the function, or one that it calls, goes on to take again what it has won: the loops around such a one are
/// rounds of it.
fn consumes(a: &Analyzer<'_>, log: &Log, function: FunctionId, origin: Origin) -> bool {
    let consumers: BTreeSet<FunctionId> =
        log.repeated.iter().filter(|(_, o)| *o == origin).map(|(inner, _)| *inner).collect();
    let mut seen = BTreeSet::new();
    let mut work = if consumers.is_empty() { Vec::new() } else { vec![function] };
    while let Some(id) = work.pop() {
        if consumers.contains(&id) {
            return true;
        }
        if a.relevant(id) && seen.insert(id) {
            work.extend(a.program.function(id).calls().flat_map(|(_, _, call)| call.targets.iter().copied()));
            work.extend(a.program.children(id));
        }
    }
    false
}

fn succeeds(leaving: &Leaving) -> bool {
    leaving.exit == Exit::Return && !matches!(leaving.ret, Shape::Err(_))
}

fn lock_site(leaving: &Leaving) -> Option<Site> {
    leaving.lock.via.first().copied()
}

/// Acquisitions that some exit leaves in place without handing them to the caller.
fn kept(log: &Log) -> BTreeSet<(FunctionId, Option<Site>)> {
    let kept = log.leavings.iter().filter(|l| succeeds(l) && l.status == Status::Held && l.proven && !l.carried);
    kept.map(|l| (l.function, lock_site(l))).collect()
}

/// Whether the function gives the lock back only where something else that it called has failed, whatever it returns then.
fn undone(a: &Analyzer<'_>, log: &Log, leaving: &Leaving) -> bool {
    let id = leaving.function;
    let f = a.program.function(id);
    let seen: Vec<_> = log
        .releases
        .iter()
        .filter(|r| r.function == id && r.lock.via == leaving.lock.via && r.status == Status::Held)
        .collect();
    // What may be another key is no proof that the key is given back.
    let best = seen.iter().map(|r| r.relation).max();
    let sure = seen.into_iter().filter(|r| Some(r.relation) == best);
    let own: Vec<OpRef> = sure.filter_map(|r| r.freed.via.first()).map(|site| site.at).collect();
    if own.is_empty() {
        return false;
    }
    let slice = Slice::of(f);
    let of_the_lock = |guard: &Guard| {
        flow::tested(guard).is_some_and(|x| {
            let sources = slice.sources(x);
            leaving.lock.dst.is_some_and(|dst| sources.contains(&dst))
        })
    };
    let mut seen = BTreeSet::from([BlockId(0)]);
    let mut work = vec![BlockId(0)];
    while let Some(block) = work.pop() {
        for (number, edge) in f.block(block).edges.iter().enumerate() {
            if (of_the_lock(&edge.guard) || !fails(f, block, number)) && seen.insert(edge.to) {
                work.push(edge.to);
            }
        }
    }
    own.iter().all(|at| !seen.contains(&at.block))
}

/// Whether an edge is the arm of an error: `Err(e) =>`, or what is left when `Ok(x)` is taken.
fn fails(f: &Function, block: BlockId, number: usize) -> bool {
    let names = |guard: &Guard, name: &str| match guard {
        Guard::Matches(_, Pattern::Variant(path, ..)) => crate::analysis::shapes_last(path) == name,
        _ => false,
    };
    let edges = &f.block(block).edges;
    match &edges[number].guard {
        Guard::Always => edges[..number].iter().any(|e| names(&e.guard, "Ok")),
        guard => names(guard, "Err"),
    }
}
