//! `session-lock-pooler`: a session-level lock behind a pooler that gives the session to others between transactions.

use crate::analysis::dsn;
use crate::analysis::lock::{Lock, Use};
use crate::analysis::origin_call;
use crate::finding::{Actor, Confidence, Finding, Severity};
use crate::frontend::pooler::Route;
use crate::ir::{Backend, LockKind};
use crate::rule::{Context, Group, Rule};

/// The rule.
pub const RULE: Rule = Rule {
    id: "session-lock-pooler",
    severity: Severity::Error,
    group: Group::Database,
    page: include_str!("../../rules/session-lock-pooler.md"),
    check,
};

fn check(cx: &Context<'_>, findings: &mut Vec<Finding>) {
    for lock in &cx.locks.locks {
        let Some(acquire) = lock.acquire() else { continue };
        let sql = matches!(acquire.backend, Backend::Postgres | Backend::MySql | Backend::Sql);
        if acquire.kind != LockKind::Session || !sql || !cx.judged(lock.taken.function) {
            continue;
        }
        if let Some((route, confidence)) = meets(cx, &lock.taken) {
            findings.push(finding(cx, lock, route, confidence));
        }
    }
}

/// The route that breaks session locks and that the lock's connection takes, or may take.
fn meets<'c>(cx: &'c Context<'_>, taken: &Use) -> Option<(&'c Route, Confidence)> {
    let file = cx.program.function(taken.function).file();
    let path = &cx.program.sources.get(file).path;
    let handle = origin_call(cx.program, taken.origin().site)?.effect.as_ref().map(|t| &t.handle)?;
    let origin = dsn::origin(cx.program, &taken.id.0, &handle.identity);
    let (route, certain) = cx.poolers.harm_to(&origin, path)?;
    Some((route, if certain { Confidence::High } else { Confidence::Medium }))
}

fn finding(cx: &Context<'_>, lock: &Lock, route: &Route, confidence: Confidence) -> Finding {
    let span = cx.place(&lock.taken);
    let command = &lock.taken.effect.command;
    let sure = confidence == Confidence::High;
    let verb = if sure { "runs" } else { "may run" };
    let mode = route.mode.name();
    let fate = if route.dropped_after_each_tx {
        "the lock is dropped after each transaction"
    } else {
        "the lock stays with a server session that other clients get"
    };
    let mut f = Finding::new(
        &RULE,
        span,
        format!("{command} takes a session lock and {verb} through a pooler in {mode} mode: {fate}"),
    );
    f.confidence = confidence.min(cx.confidence(cx.certainty(&lock.taken)));
    f.caret = "a session lock".into();
    f.labels = cx.through(&lock.taken, "the command");
    let (at, note) = cx.poolers.label(route);
    f.label(at, note.clone());
    f.help = "take `pg_advisory_xact_lock` inside the transaction that needs it, or open the lock's connection with a connection string that goes straight to the server".into();
    f.step(Actor::A, span, format!("takes the lock by {command}, on the server session it has been lent"));
    f.step(Actor::Store, at, note);
    if route.dropped_after_each_tx {
        f.step(Actor::Store, at, "resets the server session when the statement ends: the lock is gone");
        f.step(Actor::B, span, "takes the same lock while A still works");
    } else {
        f.step(
            Actor::Store,
            at,
            "takes the server session back when the statement ends, lock and all, and lends it to B",
        );
        f.step(Actor::B, span, "takes the lock again on that session: it is granted, since the session already has it");
        f.step(
            Actor::A,
            span,
            "sends its unlock over another session: nothing is unlocked, and the lock stays for ever",
        );
    }
    f
}
