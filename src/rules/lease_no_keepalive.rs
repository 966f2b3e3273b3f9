//! `lease-no-keepalive`: an etcd lease or Consul session under a lock is not kept alive for as long as the work takes.

mod keepers;
mod work;

use keepers::{Keeping, contains, keeping};

use crate::analysis::lock::{Decision, Lock};
use crate::finding::{Actor, Confidence, Finding, Severity};
use crate::ir::{Backend, EffectKind, Grant, Site, Ttl};
use crate::rule::{Context, Group, Rule};
use crate::source::Span;

/// The rule.
pub const RULE: Rule = Rule {
    id: "lease-no-keepalive",
    severity: Severity::Warning,
    group: Group::Keeping,
    page: include_str!("../../rules/lease-no-keepalive.md"),
    check,
};

/// A lease or session and where it is made.
struct Granted {
    site: Site,
    span: Span,
    grant: Grant,
    /// The call takes the lock too: nobody learns the lease's id.
    unnamed: bool,
}

fn check(cx: &Context<'_>, findings: &mut Vec<Finding>) {
    let grants = grants(cx);
    let places: Vec<Span> = grants.iter().map(|g| g.span).collect();
    for granted in &grants {
        // A session that ends only with its node needs no renewal: that is `missing-ttl`.
        if granted.grant.ttl == Ttl::Never {
            continue;
        }
        let Some(index) = lock_under(cx, granted) else { continue };
        let lock = &cx.locks.locks[index];
        if granted.unnamed {
            if granted.grant.backend == Backend::Etcd || work::is_open_ended(cx, index, &granted.grant.ttl) {
                findings.push(finding(cx, lock, granted, granted.span, UNNAMED, Confidence::High));
            }
            continue;
        }
        let found = match keeping(cx, granted, &places) {
            Keeping::Kept => continue,
            Keeping::Silent(place) => Some((place, SILENT, Confidence::High)),
            Keeping::Once(place) => Some((place, ONCE, Confidence::High)),
            Keeping::Nobody => Some((granted.span, NOBODY, Confidence::Medium)),
        };
        if let Some((place, what, confidence)) = found
            && (what == SILENT || work::is_open_ended(cx, index, &granted.grant.ttl))
        {
            findings.push(finding(cx, lock, granted, place, what, confidence));
        }
    }
}

const UNNAMED: &str = "the lock is bound to a lease that the call makes for itself and nobody can keep alive";
const SILENT: &str = "the replies to the keep-alive are never read: nobody learns that the lease is gone";
const ONCE: &str = "the lease is pinged once and not again";
const NOBODY: &str = "nobody keeps the lease alive";

/// The leases and sessions that live code makes.
fn grants(cx: &Context<'_>) -> Vec<Granted> {
    let mut out = Vec::new();
    for (id, f) in cx.program.functions().filter(|(id, _)| cx.judged(*id)) {
        for (at, _, call) in f.calls() {
            let Some(trip) = &call.effect else { continue };
            let unnamed = trip.effects.iter().any(|e| matches!(e.kind, EffectKind::Acquire(_)));
            for effect in &trip.effects {
                if let EffectKind::Grant(grant) = &effect.kind {
                    let site = Site { function: id, at };
                    out.push(Granted { site, span: effect.span, grant: grant.clone(), unnamed });
                }
            }
        }
    }
    out
}

/// A lock that is bound to the lease: made in the same call, or with the lease's id as its owner.
fn lock_under(cx: &Context<'_>, granted: &Granted) -> Option<usize> {
    let mine = |lock: &Lock| {
        lock.decision == Decision::Lock && lock.acquire().is_some_and(|a| a.backend == granted.grant.backend)
    };
    let locks = &cx.locks.locks;
    if granted.unnamed {
        return locks.iter().position(|lock| mine(lock) && lock.taken.origin().site == granted.site);
    }
    let log = cx.analyzer.log.borrow();
    locks.iter().enumerate().filter(|(_, lock)| mine(lock)).find_map(|(index, lock)| {
        let own = lock.acquire().is_some_and(|a| contains(cx, lock.taken.function, &a.token, granted.span));
        let passed = || {
            log.leavings.iter().any(|l| {
                cx.locks.of(&l.lock.via, l.lock.origin.effect) == Some(index)
                    && contains(cx, l.function, &l.lock.acquire.token, granted.span)
            })
        };
        (own || passed()).then_some(index)
    })
}

fn finding(
    cx: &Context<'_>,
    lock: &Lock,
    granted: &Granted,
    span: Span,
    what: &str,
    confidence: Confidence,
) -> Finding {
    let key = cx.key(lock);
    let taken = cx.place(&lock.taken);
    let life = cx.ttl(&granted.grant.ttl);
    let mut f = Finding::new(&RULE, span, format!("`{key}`: {what}"));
    f.confidence = confidence.min(cx.confidence(cx.certainty(&lock.taken)));
    f.caret = match &life {
        Some(life) if span == granted.span => format!("ends after {life}"),
        _ => "not enough to keep the lease".into(),
    };
    f.label(granted.span, "the lease is made here");
    f.label(taken, "the lock is taken here");
    f.help = match granted.grant.backend {
        Backend::Consul => "renew the session (`PUT /v1/session/renew/<id>`) at half its TTL for as long as the work runs, and stop the work when the answer is 404".into(),
        _ => "grant a lease, take the lock with it (`LockOptions::new().with_lease(id)`), and beside the work send `keeper.keep_alive()` at a third of its TTL and read `stream.message()`: the end of the stream or `ttl() <= 0` ends the work".into(),
    };
    let until = life.map_or_else(|| "its TTL later".to_owned(), |life| format!("{life} later"));
    f.step(Actor::A, taken, format!("acquires `{key}`, and works"));
    f.step(Actor::Store, granted.span, format!("{until} the lease ends, and `{key}` with it"));
    f.step(Actor::B, taken, format!("acquires `{key}`, and works beside A"));
    f.lock = Some(key);
    f
}
