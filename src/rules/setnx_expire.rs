//! `setnx-expire`: a set-if-absent without expiry, whose expiry comes by a second command.

use crate::analysis::lock::Decision;
use crate::analysis::origin_call;
use crate::analysis::summary::Observation;
use crate::finding::{Actor, Finding, Severity};
use crate::ir::{AcquireForm, Atomicity, LockKind, Ttl};
use crate::rule::context::is_expiry;
use crate::rule::{Context, Group, Rule};

/// The rule.
pub const RULE: Rule = Rule {
    id: "setnx-expire",
    severity: Severity::Error,
    group: Group::Taking,
    page: include_str!("../../rules/setnx-expire.md"),
    check,
};

fn check(cx: &Context<'_>, findings: &mut Vec<Finding>) {
    for (index, lock) in cx.locks.locks.iter().enumerate() {
        let Some(acquire) = lock.acquire() else { continue };
        if acquire.kind != LockKind::Lease || acquire.form != AcquireForm::SetIfAbsent || acquire.ttl != Ttl::Never {
            continue;
        }
        if let Some(expiry) = first_expiry(cx, index) {
            findings.push(finding(cx, index, &expiry));
        }
    }
}

/// The nearest expiry on the lock's key that follows the acquisition in a step of its own.
pub fn first_expiry(cx: &Context<'_>, lock: usize) -> Option<Observation> {
    cx.observed(lock, |o| is_expiry(o) && cx.judged(o.function))
        .into_iter()
        .find(|o| atomicity(cx, o) != Some(Atomicity::Script) && !repairs(cx, o))
}

fn atomicity(cx: &Context<'_>, o: &Observation) -> Option<Atomicity> {
    let same = o.origin.site == o.lock.origin.site;
    let trip = origin_call(cx.program, o.origin.site)?.effect.as_ref()?;
    same.then_some(trip.atomicity)
}

/// `if ttl(key) == -1 { expire(key) }`: repairs a key that lost its expiry.
fn repairs(cx: &Context<'_>, o: &Observation) -> bool {
    let site = o.via[o.via.len() - 1];
    cx.gated_by_read(site, |command| matches!(command, "TTL" | "PTTL" | "EXPIRETIME" | "PEXPIRETIME"))
}

fn finding(cx: &Context<'_>, index: usize, expiry: &Observation) -> Finding {
    let lock = &cx.locks.locks[index];
    let first = expiry.lock.via[0];
    let direct = expiry.lock.via.len() == 1;
    let span = if direct { lock.taken.effect.span } else { cx.op_span(first) };
    let key = cx.show(expiry.function, &expiry.lock.acquire.key);
    let command = &lock.taken.effect.command;
    let marker = lock.decision != Decision::Lock;
    let thing = if marker { "marker" } else { "lock" };
    let multi = atomicity(cx, expiry) == Some(Atomicity::Multi);
    let message = if multi {
        format!(
            "the EXPIRE queued behind {command} runs even if another client holds `{key}`, and prolongs its {thing}"
        )
    } else {
        format!(
            "`{key}` is set by {command} without an expiry and gets one by a second command: a crash in between leaves the {thing} for ever"
        )
    };
    let mut f = Finding::new(&RULE, span, message);
    f.confidence = cx.confidence(expiry.lock.certainty);
    f.caret = format!("{command} sets no expiry");
    let later = if expiry.via.len() == 1 { expiry.effect.span } else { cx.op_span(expiry.via[0]) };
    f.label(later, "the expiry comes here, in a step of its own");
    f.label(lock.taken.effect.span, "the command");
    f.label(expiry.effect.span, "the command");
    f.help = format!("set value and expiry in one command: `SET {key} <token> NX PX <milliseconds>`");
    if multi {
        f.step(crate::finding::Actor::B, span, format!("holds `{key}`"));
        f.step(Actor::A, span, format!("sends MULTI: {command} fails, `{key}` is B's"));
        f.step(
            Actor::Store,
            later,
            format!("runs the EXPIRE all the same: the {thing} of B now lives as long as A keeps trying"),
        );
    } else {
        f.step(Actor::A, span, format!("sets `{key}` without an expiry"));
        f.step(Actor::A, later, "crashes, is killed or loses the connection before the expiry is sent");
        f.step(Actor::Store, span, format!("keeps `{key}` for ever"));
        f.step(Actor::B, span, format!("finds `{key}` taken, now and at every later try"));
    }
    f.lock = Some(key);
    f
}
