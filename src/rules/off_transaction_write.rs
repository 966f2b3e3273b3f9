//! `off-transaction-write`: in a transaction that holds a lock, a statement on another connection writes what it protects.

use std::collections::BTreeMap;

use crate::analysis::database;
use crate::analysis::lock::{Lock, words};
use crate::analysis::summary::Observation;
use crate::finding::{Actor, Confidence, Finding, Severity};
use crate::ir::{Effect, EffectKind, Handle, HandleKind, LockKind, OpKind, Resource, Site};
use crate::protocol::sql;
use crate::rule::context::proven_held;
use crate::rule::{Context, Group, Rule};
use crate::source::Span;

/// The rule.
pub const RULE: Rule = Rule {
    id: "off-transaction-write",
    severity: Severity::Error,
    group: Group::Fencing,
    page: include_str!("../../rules/off-transaction-write.md"),
    check,
};

/// Calls between the function that sees both, and the lock and the write.
const MAX_DEPTH: usize = 4;

/// Words in the names of tables that are to keep what was tried, whatever becomes of the transaction.
const RECORDS: &[&str] = &[
    "log",
    "logs",
    "audit",
    "audits",
    "event",
    "events",
    "outbox",
    "history",
    "metric",
    "metrics",
    "trace",
    "attempt",
    "attempts",
    "error",
    "errors",
    "failure",
    "failures",
    "heartbeat",
    "heartbeats",
    "stats",
];

fn check(cx: &Context<'_>, findings: &mut Vec<Finding>) {
    let mut by_place: BTreeMap<Span, Finding> = BTreeMap::new();
    for (index, lock) in cx.locks.locks.iter().enumerate() {
        if !lock.acquire().is_some_and(|a| matches!(a.kind, LockKind::Row | LockKind::Transaction)) {
            continue;
        }
        let seen = cx.observed(index, |o| {
            proven_held(o)
                && cx.judged(o.function)
                && o.via.len() <= MAX_DEPTH
                && o.lock.via.len() <= MAX_DEPTH
                && written(&o.effect).is_some_and(|table| !is_record(table))
        });
        for o in &seen {
            let Some(inside) = database::seen(cx.analyzer, &o.lock.via) else { continue };
            let Some(outside) = database::seen(cx.analyzer, &o.via) else { continue };
            let apart = inside.kind == HandleKind::Transaction
                && matches!(outside.kind, HandleKind::Pool | HandleKind::Pinned)
                && outside.identity != inside.identity
                && o.via.iter().all(|site| is_call(cx, *site))
                && database::open_at(cx.analyzer, &inside, o.lock.via[0], o.via[0]);
            if apart && one_database(cx, lock, o, &inside, &outside) {
                by_place.entry(o.effect.span).or_insert_with(|| finding(cx, lock, o, &outside));
            }
        }
    }
    findings.extend(by_place.into_values());
}

fn is_call(cx: &Context<'_>, site: Site) -> bool {
    matches!(cx.program.function(site.function).op(site.at).kind, OpKind::Call(_))
}

/// The table that an effect changes.
fn written(effect: &Effect) -> Option<&str> {
    match &effect.kind {
        EffectKind::Write(w) => match &w.resource {
            Resource::Table(name) => Some(name),
            _ => None,
        },
        _ => None,
    }
}

fn is_record(table: &str) -> bool {
    let name = table.rsplit('.').next().unwrap_or(table);
    words(name).iter().any(|word| RECORDS.contains(&word.as_str()))
}

/// Both begin at one pool, or the table is one that the transaction has locked or changed.
fn one_database(cx: &Context<'_>, lock: &Lock, o: &Observation, inside: &Handle, outside: &Handle) -> bool {
    let a = cx.analyzer;
    let pools = (database::pool_of(a, o.function, inside), database::pool_of(a, o.function, outside));
    match pools {
        (Some(x), Some(y)) if x == y => return true,
        _ => {}
    }
    let Some(table) = written(&o.effect) else { return false };
    locked_table(lock) == Some(table)
        || a.reached(o.function).iter().any(|r| {
            written(&r.effect) == Some(table)
                && r.origin != o.origin
                && database::seen(a, &r.via).is_some_and(|h| h.identity == inside.identity)
        })
}

fn locked_table(lock: &Lock) -> Option<&str> {
    lock.acquire().filter(|a| a.kind == LockKind::Row).and_then(|a| sql::table_of(&a.key))
}

fn finding(cx: &Context<'_>, lock: &Lock, o: &Observation, outside: &Handle) -> Finding {
    let span = o.effect.span;
    let command = &lock.taken.effect.command;
    let table = written(&o.effect).unwrap_or_default();
    // An INSERT adds a row of its own and waits for none.
    let blocks = locked_table(lock) == Some(table) && !o.effect.command.to_ascii_uppercase().starts_with("INSERT");
    let on = if outside.kind == HandleKind::Pool { "the pool" } else { "another connection" };
    let message = if blocks {
        format!(
            "`{table}` is written over {on} while this transaction has locked rows of it: the write waits for the transaction, and the transaction for the write"
        )
    } else {
        format!(
            "`{table}` is written over {on} inside a transaction that holds a lock: it commits alone and survives the rollback"
        )
    };
    let mut f = Finding::new(&RULE, span, message);
    if !blocks {
        f = f.at_most(Severity::Warning);
    }
    f.confidence = cx.confidence(o.lock.certainty);
    if o.via.len() > 2 {
        f.confidence = f.confidence.min(Confidence::Medium);
    }
    f.caret = format!("runs on {on}");
    let taken = cx.op_span(o.lock.via[0]);
    f.label(taken, format!("{command} locks here, on the transaction"));
    if o.via.len() > 1 {
        f.label(cx.op_span(o.via[0]), "called inside the transaction");
    }
    f.help = "send the statement over the transaction that holds the lock".into();
    f.step(Actor::A, taken, format!("takes the lock by {command} on connection 1"));
    if blocks {
        f.step(Actor::A, span, "writes on connection 2, which waits for the row that connection 1 has locked");
        f.step(Actor::Store, span, "sees no deadlock: connection 1 is idle, its client waits for connection 2");
    } else {
        f.step(Actor::A, span, format!("writes `{table}` on connection 2: committed at once"));
        f.step(Actor::A, taken, "fails later and rolls connection 1 back: that write stays");
        f.step(Actor::B, taken, "takes the lock and finds half of what A did");
    }
    f.lock = Some(cx.key(lock));
    f
}
