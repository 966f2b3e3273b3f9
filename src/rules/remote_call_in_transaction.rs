//! `remote-call-in-transaction`: others wait for a row, table or advisory lock while its holder waits for something outside.

use std::collections::BTreeMap;

use crate::analysis::database;
use crate::analysis::origin_call;
use crate::analysis::summary::Observation;
use crate::finding::{Actor, Confidence, Finding, Severity};
use crate::ir::{EffectKind, FunctionId, HandleKind, Lit, LockKind, OpKind, Value};
use crate::rule::context::proven_held;
use crate::rule::{Context, Group, Rule};
use crate::source::Span;

/// The rule.
pub const RULE: Rule = Rule {
    id: "remote-call-in-transaction",
    severity: Severity::Warning,
    group: Group::Fencing,
    page: include_str!("../../rules/remote-call-in-transaction.md"),
    check,
};

/// Calls between the function that sees both, and the lock and the wait.
const MAX_DEPTH: usize = 4;

/// A pause below this, in nanoseconds, is no longer than a statement.
const SHORT_NS: u128 = 50_000_000;

fn check(cx: &Context<'_>, findings: &mut Vec<Finding>) {
    // One finding per Scope: the function that sees both.
    let mut scopes: BTreeMap<FunctionId, Vec<(usize, Observation)>> = BTreeMap::new();
    for (index, lock) in cx.locks.locks.iter().enumerate() {
        let Some(acquire) = lock.acquire() else { continue };
        let kind = acquire.kind;
        let makes_wait = match kind {
            LockKind::Row | LockKind::Transaction => true,
            // Who only tries the lock of a session waits for nobody.
            LockKind::Session => acquire.blocking,
            _ => false,
        };
        if !makes_wait {
            continue;
        }
        let seen = cx.observed(index, |o| {
            proven_held(o)
                && cx.judged(o.function)
                && !o.effect.conditional
                && o.via.len() <= MAX_DEPTH
                && o.lock.via.len() <= MAX_DEPTH
                && waits(cx, o, kind).is_some()
        });
        for o in seen.into_iter().filter(|o| held_by_others_too(cx, o, kind) && runs_here(cx, o)) {
            scopes.entry(o.function).or_default().push((index, o));
        }
    }
    let mut by_place: BTreeMap<Span, Finding> = BTreeMap::new();
    for mut list in scopes.into_values() {
        list.sort_by_key(|(_, o)| (o.via[0].at, o.effect.span, o.lock.via.len()));
        let f = finding(cx, &list);
        by_place.entry(f.span).or_insert(f);
    }
    findings.extend(by_place.into_values());
}

/// What the effect waits for, in words. A session lock may be held for long on purpose: only requests count there.
fn waits(cx: &Context<'_>, o: &Observation, kind: LockKind) -> Option<String> {
    match &o.effect.kind {
        EffectKind::External(e) if matches!(e.what.as_str(), "HTTP GET" | "HTTP HEAD" | "object GET") => {
            Some(format!("an {}", e.what))
        }
        EffectKind::Sleep(length) if kind != LockKind::Session && !short(length) => Some("a sleep".into()),
        EffectKind::Observe(_) if kind != LockKind::Session => {
            let call = origin_call(cx.program, o.origin.site)?;
            let blocks = ["recv", "changed", "wait_for", "notified", "blocking_recv"].contains(&call.name());
            (blocks && call.cancel.is_none()).then(|| "another task".into())
        }
        _ => None,
    }
}

fn short(length: &Value) -> bool {
    match length {
        Value::Const(Lit::Duration(ns)) => *ns < SHORT_NS,
        _ => false,
    }
}

/// Whether the lock is still held where the effect happens: its transaction is open, or it belongs to a pooled session.
fn held_by_others_too(cx: &Context<'_>, o: &Observation, kind: LockKind) -> bool {
    let Some(handle) = database::seen(cx.analyzer, &o.lock.via) else { return false };
    match kind {
        LockKind::Session => handle.kind == HandleKind::Pinned,
        _ => {
            matches!(handle.kind, HandleKind::Transaction)
                && database::open_at(cx.analyzer, &handle, o.lock.via[0], o.via[0])
        }
    }
}

/// Not in a task or closure that is merely made here.
fn runs_here(cx: &Context<'_>, o: &Observation) -> bool {
    o.via.iter().all(|site| matches!(cx.program.function(site.function).op(site.at).kind, OpKind::Call(_)))
}

/// Where a wait stands: at itself, or, if one call can lead to several (implementations of a trait), at that call.
fn place(cx: &Context<'_>, list: &[(usize, Observation)], o: &Observation) -> Span {
    let several = list.iter().any(|(_, other)| other.via[0] == o.via[0] && other.origin != o.origin);
    if several && o.via.len() > 1 { cx.op_span(o.via[0]) } else { o.effect.span }
}

fn finding(cx: &Context<'_>, list: &[(usize, Observation)]) -> Finding {
    let (index, o) = &list[0];
    let lock = &cx.locks.locks[*index];
    let kind = o.lock.acquire.kind;
    let span = place(cx, list, o);
    let command = &lock.taken.effect.command;
    let what = waits(cx, o, kind).unwrap_or_default();
    let until = if kind == LockKind::Session { "the unlock" } else { "the commit" };
    let mut f = Finding::new(
        &RULE,
        span,
        format!("{what} is waited for between {command} and {until}: everybody who needs the lock waits as well"),
    );
    f.confidence = cx.confidence(o.lock.certainty);
    if kind == LockKind::Session {
        f.confidence = f.confidence.min(Confidence::Medium);
    }
    f.caret = "waits here with the lock held".into();
    let taken = cx.op_span(o.lock.via[0]);
    f.label(taken, format!("{command} locks here"));
    if o.via.len() > 1 {
        f.label(cx.op_span(o.via[0]), "called with the lock held");
    }
    let mut others: Vec<Span> = list.iter().map(|(_, other)| place(cx, list, other)).filter(|s| *s != span).collect();
    others.sort();
    others.dedup();
    for other in others.into_iter().take(4) {
        f.label(other, "and this");
    }
    f.help = "wait first and lock after, and check under the lock what the answer depended on".into();
    f.step(Actor::A, taken, format!("takes the lock by {command}"));
    f.step(Actor::A, span, format!("waits for {what}, as long as it takes"));
    f.step(Actor::B, taken, "waits for the lock, and keeps a connection of the pool while it does");
    f.step(Actor::Store, taken, "has no connection left: those wait too who do not need the lock");
    f.lock = Some(cx.key(lock));
    f
}
