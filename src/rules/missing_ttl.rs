//! `missing-ttl`: a lease key that on some path gets no expiry.

use super::setnx_expire;
use crate::analysis::lock::{Decision, Lock, Pairing};
use crate::analysis::summary::{Relation, Status};
use crate::finding::{Actor, Finding, Severity};
use crate::ir::{Backend, EffectKind, Grant, LockKind, Ttl};
use crate::rule::{Context, Group, Rule};
use crate::source::Span;
use std::collections::BTreeSet;

/// The rule.
pub const RULE: Rule = Rule {
    id: "missing-ttl",
    severity: Severity::Error,
    group: Group::Taking,
    page: include_str!("../../rules/missing-ttl.md"),
    check,
};

fn check(cx: &Context<'_>, findings: &mut Vec<Finding>) {
    for (index, lock) in cx.locks.locks.iter().enumerate() {
        let Some(acquire) = lock.acquire() else { continue };
        if lock.decision != Decision::Lock || acquire.kind != LockKind::Lease {
            continue;
        }
        if acquire.ttl == Ttl::Never {
            if setnx_expire::first_expiry(cx, index).is_none() && !expired_later(cx, index) {
                findings.push(taken(cx, lock));
            }
        } else {
            dropped(cx, index, lock, findings);
            persisted(cx, lock, findings);
            given_none(cx, index, lock, findings);
        }
    }
    endless_sessions(cx, findings);
}

/// A session that is made without a TTL is only ended by the failure of its node (Consul API, "Create Session").
fn endless_sessions(cx: &Context<'_>, findings: &mut Vec<Finding>) {
    for (id, f) in cx.program.functions().filter(|(id, _)| cx.judged(*id)) {
        for (_, _, call) in f.calls() {
            let Some(trip) = &call.effect else { continue };
            for effect in &trip.effects {
                let EffectKind::Grant(Grant { backend, ttl: Ttl::Never }) = effect.kind else { continue };
                // A session may also serve health checks alone.
                let locks = || cx.locks.locks.iter().filter_map(|l| Some((l, l.acquire()?)));
                if let Some((lock, _)) =
                    locks().find(|(lock, a)| a.backend == backend && same_crate(cx, lock.taken.function, id))
                {
                    findings.push(endless(cx, lock, effect.span, trip.certainty));
                }
            }
        }
    }
}

fn same_crate(cx: &Context<'_>, a: crate::ir::FunctionId, b: crate::ir::FunctionId) -> bool {
    let krate = |id| cx.program.function(id).module.split("::").next();
    krate(a) == krate(b)
}

fn endless(cx: &Context<'_>, lock: &Lock, span: Span, certainty: crate::ir::Certainty) -> Finding {
    let key = cx.key(lock);
    let taken = cx.place(&lock.taken);
    let mut f = Finding::new(
        &RULE,
        span,
        format!("the session that holds `{key}` is made without a TTL: it ends only when its node fails"),
    )
    .at_most(Severity::Warning);
    f.confidence = cx.confidence(certainty);
    f.caret = "no TTL".into();
    f.label(taken, "the lock is taken with it here");
    f.help = "give the session a TTL (`\"TTL\": \"15s\"`), and renew it at half of that while the work runs".into();
    f.step(Actor::A, taken, format!("takes `{key}` with a session that never expires"));
    f.step(Actor::A, span, "crashes, or loses the session's id; its node is healthy");
    f.step(Actor::Store, span, format!("keeps the session, and `{key}` with it"));
    f.step(Actor::B, taken, "can never take it: somebody has to destroy the session by hand");
    f.lock = Some(key);
    f
}

/// PERSIST on the key by a function that no path leads to from the acquire.
fn persisted(cx: &Context<'_>, lock: &Lock, findings: &mut Vec<Finding>) {
    for (index, how) in &lock.prolongs {
        let used = &cx.locks.prolongs[*index];
        if *how != Pairing::Path && matches!(&used.effect.kind, EffectKind::Expire(e) if e.ttl == Ttl::Never) {
            findings.push(taken_away(cx, lock, cx.place(used), &used.effect.command));
        }
    }
}

/// A caller passes `None` for the expiry.
fn given_none(cx: &Context<'_>, index: usize, lock: &Lock, findings: &mut Vec<Finding>) {
    let log = cx.analyzer.log.borrow();
    let seen = log.leavings.iter().filter(|l| {
        l.lock.acquire.ttl == Ttl::Never
            && cx.judged(l.function)
            && cx.locks.of(&l.lock.via, l.lock.origin.effect) == Some(index)
    });
    let calls: BTreeSet<_> = seen.map(|l| (l.lock.via.len(), l.lock.via[0])).collect();
    let Some((depth, site)) = calls.first().copied() else { return };
    if depth <= lock.taken.id.0.len() {
        return;
    }
    let key = cx.key(lock);
    let span = cx.op_span(site);
    let mut f = Finding::new(
        &RULE,
        span,
        format!("the lock `{key}` is taken without an expiry by this call: a holder that crashes keeps it for ever"),
    );
    f.confidence = cx.confidence(cx.certainty(&lock.taken));
    f.caret = "no expiry is given".into();
    f.label(cx.place(&lock.taken), "the command");
    f.help = "pass an expiry longer than the work, and renew it if the work can take longer".into();
    f.step(Actor::A, span, format!("takes `{key}`, which never expires"));
    f.step(Actor::A, span, "crashes before the release");
    f.step(Actor::B, span, "can never take it");
    f.lock = Some(key);
    findings.push(f);
}

/// An expiry may be set on the key on some path after all, in a way that is no finding of its own.
fn expired_later(cx: &Context<'_>, lock: usize) -> bool {
    let expiry = |o: &crate::analysis::summary::Observation| {
        matches!(&o.effect.kind, EffectKind::Expire(e) if e.ttl != Ttl::Never) && o.relation.possible()
    };
    !cx.observed(lock, expiry).is_empty()
}

fn taken(cx: &Context<'_>, lock: &Lock) -> Finding {
    let key = cx.key(lock);
    let span = cx.place(&lock.taken);
    let command = &lock.taken.effect.command;
    let mut f = Finding::new(
        &RULE,
        span,
        format!("the lock `{key}` is taken by {command} without an expiry: a holder that crashes keeps it for ever"),
    );
    f.confidence = cx.confidence(cx.certainty(&lock.taken));
    f.caret = "no expiry is set".into();
    f.labels = cx.through(&lock.taken, "the command");
    if let Some(release) = lock.releases.keys().next() {
        f.label(cx.place(&cx.locks.releases[*release]), "only this gives it back");
    }
    f.help = match lock.acquire().map(|a| a.backend) {
        Some(Backend::Etcd) => {
            "bind the key to a lease: `PutOptions::new().with_lease(id)`, and keep the lease alive".into()
        }
        Some(Backend::ZooKeeper) => "create it as an ephemeral node: it goes when the session ends".into(),
        Some(Backend::Kubernetes) => {
            "write `leaseDurationSeconds`, and let others take the lease once it has run out".into()
        }
        Some(Backend::ObjectStore) => {
            "write into the object until when it is held, and take an ended one over by `PutMode::Update` with its version".into()
        }
        Some(Backend::Nats) => "give the bucket a `max_age`, or take it with `create_with_ttl`".into(),
        _ => format!("take it with an expiry, in one command: `SET {key} <token> NX PX <milliseconds>`"),
    };
    f.step(Actor::A, span, format!("takes `{key}`, which never expires"));
    f.step(Actor::A, span, "crashes before the release");
    f.step(Actor::Store, span, format!("keeps `{key}` for ever"));
    f.step(Actor::B, span, "can never take it: somebody has to delete the key by hand");
    f.lock = Some(key);
    f
}

/// PERSIST on the key, or a plain SET over it, takes the expiry away.
fn dropped(cx: &Context<'_>, index: usize, lock: &Lock, findings: &mut Vec<Finding>) {
    let drops = cx.observed(index, |o| {
        o.status == Status::Held
            && o.relation == Relation::Must
            && cx.judged(o.function)
            && match &o.effect.kind {
                EffectKind::Expire(e) => e.ttl == Ttl::Never,
                EffectKind::Write(w) => w.verb == "SET" && w.ttl.is_none(),
                _ => false,
            }
    });
    let Some(drop) = drops.first() else { return };
    let span = if drop.via.len() == 1 { drop.effect.span } else { cx.op_span(drop.via[0]) };
    findings.push(taken_away(cx, lock, span, &drop.effect.command));
}

fn taken_away(cx: &Context<'_>, lock: &Lock, span: Span, command: &str) -> Finding {
    let key = cx.key(lock);
    let mut f = Finding::new(
        &RULE,
        span,
        format!("{command} takes the expiry of the lock `{key}` away: a holder that crashes keeps it for ever"),
    );
    f.confidence = cx.confidence(cx.certainty(&lock.taken));
    f.caret = "the key lives for ever from here on".into();
    f.label(cx.place(&lock.taken), "taken here, with an expiry");
    f.help = "keep the expiry: write with `KEEPTTL`, or set it again in the same command, comparing the owner".into();
    f.step(Actor::A, cx.place(&lock.taken), format!("takes `{key}` with an expiry"));
    f.step(Actor::A, span, "removes the expiry");
    f.step(Actor::A, span, "crashes before the release");
    f.step(Actor::B, span, format!("can never take `{key}`"));
    f.lock = Some(key);
    f
}
