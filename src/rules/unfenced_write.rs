//! `unfenced-write`: what is written under a lease can be written by a stale holder, because nothing refuses it.

use std::collections::BTreeMap;

use crate::analysis::lock::{Decision, Lock, show_resource};
use crate::analysis::summary::{Observation, Relation};
use crate::finding::{Actor, Confidence, Finding, Severity};
use crate::ir::{AcquireForm, EffectKind, LockKind, Resource, Safety, Value, Write};
use crate::rule::context::proven_held;
use crate::rule::{Context, Group, Rule};
use crate::source::Span;

/// The rule.
pub const RULE: Rule = Rule {
    id: "unfenced-write",
    severity: Severity::Warning,
    group: Group::Fencing,
    page: include_str!("../../rules/unfenced-write.md"),
    check,
};

/// Calls between the function that sees both, and the acquire and the write.
const MAX_DEPTH: usize = 4;

fn check(cx: &Context<'_>, findings: &mut Vec<Finding>) {
    let mut by_statement: BTreeMap<Span, Finding> = BTreeMap::new();
    for (index, lock) in cx.locks.locks.iter().enumerate() {
        let Some(acquire) = lock.acquire() else { continue };
        if lock.decision != Decision::Lock || !matches!(acquire.kind, LockKind::Lease | LockKind::LeaseRow) {
            continue;
        }
        let near = cx.observed(index, |o| {
            // A key of which nothing is known may be another one each time: no proof that the lease is this one.
            (o.lock.acquire.form != AcquireForm::SetIfAbsent || says_which(&o.lock.acquire.key))
                && proven_held(o)
                && cx.judged(o.function)
                && o.via.len() <= MAX_DEPTH
                && o.lock.via.len() <= MAX_DEPTH
        });
        // One finding per Scope: the function that sees the acquisition.
        let mut scopes: BTreeMap<_, Vec<(&Observation, &Write)>> = BTreeMap::new();
        for o in &near {
            if let Some(write) = unsafe_write(o) {
                scopes.entry(o.function).or_default().push((o, write));
            }
        }
        for mut list in scopes.into_values() {
            list.sort_by_key(|(o, _)| (o.via[0].at, o.effect.span));
            let f = finding(cx, lock, &list);
            by_statement.entry(f.span).or_insert(f);
        }
    }
    findings.extend(by_statement.into_values());
}

/// Whether a key's value says which key it is, if only by the name of a parameter or field.
fn says_which(key: &Value) -> bool {
    matches!(
        key,
        Value::Const(_)
            | Value::Template(_)
            | Value::Path(_)
            | Value::Param(_)
            | Value::Field(..)
            | Value::TypeField(..)
    )
}

/// Verbs that take away what is named: done twice or late, they change nothing more.
const REMOVES: &[&str] = &["DELETE", "DEL", "UNLINK", "ZREM", "SREM", "HDEL", "LREM", "XDEL", "XACK"];

/// The write of an observation, if nothing makes it safe against a stale holder.
fn unsafe_write(o: &Observation) -> Option<&Write> {
    let EffectKind::Write(write) = &o.effect.kind else { return None };
    if o.relation == Relation::Must || REMOVES.contains(&write.verb.as_str()) {
        return None;
    }
    let open = match &write.safety {
        Safety::Unknown | Safety::Unique => false,
        Safety::None => true,
        Safety::Conditions(list) => list.iter().all(|(column, op, _)| op == "=" && identifies(column)),
    };
    let own_key = o.relation == Relation::May
        && !matches!(&write.resource, Resource::Key(_, key) if crate::analysis::lock::strong(key));
    let cached = matches!(write.resource, Resource::Key(..)) && write.ttl.is_some();
    let fixed = matches!(write.resource, Resource::Key(..)) && write.values.iter().all(settled);
    (open && !cached && !fixed && !own_key).then_some(write)
}

/// Known before the lock was taken: parameters and constants.
fn settled(value: &Value) -> bool {
    match value {
        Value::Const(_) | Value::Param(_) | Value::Path(_) | Value::TypeField(..) | Value::Env(_) => true,
        Value::Field(base, _) => settled(base),
        Value::Template(pieces) => pieces.iter().all(|p| match p {
            crate::ir::Piece::Text(_) => true,
            crate::ir::Piece::Hole(v) => settled(v),
        }),
        _ => false,
    }
}

/// Words in the names of columns that tell an old writer from a new one: version, state, time, owner.
const GUARD_WORDS: &[&str] = &[
    "version",
    "ver",
    "rev",
    "revision",
    "fence",
    "fencing",
    "token",
    "epoch",
    "etag",
    "updated",
    "modified",
    "changed",
    "status",
    "state",
    "stage",
    "phase",
    "attempt",
    "attempts",
    "retry",
    "owner",
    "locked",
    "claimed",
    "worker",
    "lease",
    "run",
    "generation",
    "seq",
    "sequence",
    "nonce",
    "hash",
    "checksum",
    "value",
    "at",
    "time",
    "until",
    "expires",
    "deleted",
    "done",
    "processed",
    "completed",
    "active",
];

/// A comparison for equality with a column that only says which row is meant.
fn identifies(column: &str) -> bool {
    let name = column.rsplit('.').next().unwrap_or(column).trim_matches(['"', '`']);
    !crate::analysis::lock::words(name).iter().any(|word| GUARD_WORDS.contains(&word.as_str()))
}

fn finding(cx: &Context<'_>, lock: &Lock, writes: &[(&Observation, &Write)]) -> Finding {
    let (first, write) = writes[0];
    let key = cx.show(first.function, &first.lock.acquire.key);
    let what = show_resource(&write.resource);
    let names_target = !matches!(&write.resource, Resource::Key(_, k) if !crate::analysis::lock::strong(k));
    let span = if first.via.len() == 1 || names_target { first.effect.span } else { cx.op_span(first.via[0]) };
    let mut f = Finding::new(
        &RULE,
        span,
        format!(
            "{} of {what} under the lease `{key}` carries no fencing token or version: a holder whose lease expired still writes",
            write.verb
        ),
    );
    f.confidence = Confidence::High.min(cx.confidence(first.lock.certainty));
    f.caret = "a stale holder can still do this".into();
    let taken = cx.op_span(first.lock.via[0]);
    f.label(taken, format!("the lease `{key}` is taken here"));
    for (other, _) in writes.iter().skip(1).take(4) {
        if other.effect.span != first.effect.span {
            f.label(other.effect.span, "and this");
        }
    }
    f.help = match &write.resource {
        Resource::Table(table) => format!(
            "let the row refuse a stale writer: `UPDATE {table} SET .., version = version + 1 WHERE id = $1 AND version = $2`, and check the number of rows; or store the lease's fencing token and write `WHERE fence <= $n`"
        ),
        _ => "compare the lock's owner and write in one script, or store a fencing token beside the value and refuse an older one in the same step".into(),
    };
    let ttl = cx.ttl(&first.lock.acquire.ttl).map_or(String::new(), |t| format!(" for {t}"));
    f.step(Actor::A, taken, format!("acquires `{key}`{ttl}"));
    f.step(Actor::A, taken, "stalls: a pause, a slow call, a lost network");
    f.step(Actor::Store, taken, format!("the lease on `{key}` expires"));
    f.step(Actor::B, taken, format!("acquires `{key}`"));
    f.step(Actor::B, span, format!("writes {what}"));
    f.step(Actor::A, span, "wakes up, still believing that it holds the lease, and writes over it");
    f.lock = Some(cx.key(lock));
    f
}
