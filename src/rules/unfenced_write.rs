//! `unfenced-write`: what is written under a lease can be written by a stale holder, because nothing refuses it.

use std::collections::BTreeMap;

use super::{needless_lock, redlock_correctness, weak_fence};

use crate::analysis::lock::{Decision, Lock, show_resource, words};
use crate::analysis::summary::{Observation, Relation};
use crate::finding::{Actor, Confidence, Finding, Severity};
use crate::ir::{AcquireForm, Atomicity, Backend, EffectKind, LockKind, Resource, Safety, Value, Write};
use crate::protocol::sql::table_of;
use crate::rule::section::Covered;
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

fn check(cx: &Context<'_>, findings: &mut Vec<Finding>) {
    let covered = cx.covered();
    // Where no lock is needed, no fence is.
    let needless = needless_lock::needless(cx);
    let mut by_statement: BTreeMap<Span, Finding> = BTreeMap::new();
    for (index, lock) in cx.locks.locks.iter().enumerate() {
        if needless.contains_key(&index) {
            continue;
        }
        // A fence that the lock hands out and nobody uses says more.
        let weak: Vec<Span> = weak_fence::faults(cx, &covered, index, lock).into_iter().map(|f| f.span).collect();
        for section in open_sections(cx, &covered, index, lock) {
            let f = finding(cx, lock, &section);
            let several = redlock_correctness::masters(cx, &section[0].0.lock).is_some_and(|n| n > 1);
            if several || weak.contains(&f.span) {
                continue;
            }
            by_statement.entry(f.span).or_insert(f);
        }
    }
    findings.extend(by_statement.into_values());
}

/// The unsafe writes of each section of a lease.
pub fn open_sections(cx: &Context<'_>, covered: &Covered, index: usize, lock: &Lock) -> Vec<Vec<(Observation, Write)>> {
    let leased = |kind| matches!(kind, LockKind::Lease | LockKind::LeaseRow);
    if lock.decision != Decision::Lock || !lock.acquire().is_some_and(|a| leased(a.kind)) {
        return Vec::new();
    }
    // A key of which nothing is known may be another one each time: no proof that the lease is this one.
    let known = |o: &Observation| o.lock.acquire.form != AcquireForm::SetIfAbsent || says_which(&o.lock.acquire.key);
    let sections = cx.sections(index, |o| matches!(o.effect.kind, EffectKind::Write(_)) && known(o));
    let open = |o: Observation| {
        let write = unsafe_write(cx, &o).cloned()?;
        (!covered.holds(&o)).then_some((o, write))
    };
    let sections = sections.into_iter().map(|list| list.into_iter().filter_map(open).collect::<Vec<_>>());
    sections.filter(|list| !list.is_empty()).collect()
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
const REMOVES: &[&str] = &[
    "DELETE",
    "DEL",
    "UNLINK",
    "ZREM",
    "SREM",
    "HDEL",
    "LREM",
    "XDEL",
    "XACK",
    "ZREMRANGEBYSCORE",
    "ZREMRANGEBYRANK",
    "XTRIM",
];

/// The write of an observation, if nothing makes it safe against a stale holder.
fn unsafe_write<'o>(cx: &Context<'_>, o: &'o Observation) -> Option<&'o Write> {
    let EffectKind::Write(write) = &o.effect.kind else { return None };
    // What the command that takes the lock writes besides is the lock's own bookkeeping: in the next round it takes again.
    if o.origin.site == o.lock.origin.site {
        return None;
    }
    if o.relation == Relation::Must || removes(write) && !ends_lease_row(o, write) {
        return None;
    }
    // An object that is put whatever is there is an effect that no store refuses (see `unfenceable-effect`).
    if matches!(write.resource, Resource::Key(Backend::ObjectStore, _)) {
        return None;
    }
    let on_key = matches!(write.resource, Resource::Key(..));
    let open = match &write.safety {
        Safety::Unknown | Safety::Unique => false,
        Safety::None if on_key => cx.holds_result(o, &write.values),
        Safety::None => true,
        Safety::Upsert => cx.holds_result(o, &write.values),
        Safety::Conditions(_) if on_key => false,
        Safety::Conditions(list) if list.iter().any(|(column, op, value)| refuses(write, column, op, value)) => false,
        // `DO UPDATE .. WHERE t.tenant = excluded.tenant` is an upsert still.
        Safety::Conditions(_) if write.verb == "INSERT" => cx.holds_result(o, &write.values),
        Safety::Conditions(_) => true,
    };
    let own_key = o.relation == Relation::May
        && !matches!(&write.resource, Resource::Key(_, key) if crate::analysis::lock::strong(key));
    // A cache fill: a miss leads to the same value again. An answer that is kept is none.
    let cached = on_key && write.ttl.is_some() && !keeps_answer(o, write);
    let watched = on_key && open && watches(cx, o);
    (open && !cached && !own_key && !watched && !is_record(&write.resource)).then_some(write)
}

/// Whether the write only takes away what it names; a row marked as deleted is taken away.
fn removes(write: &Write) -> bool {
    let marks = |column: &String| words(column).iter().any(|w| w == "deleted");
    let constant = |v: &Value| matches!(v, Value::Const(_)) || matches!(v, Value::Call(c) if c.name == "sql::now");
    let marked = !write.assigned.is_empty() && write.assigned.iter().all(marks) && write.values.iter().all(constant);
    REMOVES.contains(&write.verb.as_str()) || marked
}

/// Whether the row that is deleted is the one whose claim is the lease: its next holder works on it.
fn ends_lease_row(o: &Observation, write: &Write) -> bool {
    let acquire = &o.lock.acquire;
    let Resource::Table(table) = &write.resource else { return false };
    let same = |claimed: &str| {
        let last = |name: &str| name.rsplit('.').next().unwrap_or(name).to_ascii_lowercase();
        last(claimed) == last(table)
    };
    write.verb == "DELETE" && acquire.kind == LockKind::LeaseRow && table_of(&acquire.key).is_some_and(same)
}

/// Whether a condition turns a stale writer away: the statement itself (and so the writer before) changes the column that is
/// compared, or the column is ordered, or its name says that it tells holders or versions apart.
fn refuses(write: &Write, column: &str, op: &str, value: &Value) -> bool {
    let name = column.rsplit('.').next().unwrap_or(column).trim_matches(['"', '`', '[', ']']);
    if op.starts_with("or ") || matches!(op, "<" | "<=" | ">" | ">=") {
        return true;
    }
    let changed = write.assigned.iter().position(|c| c.eq_ignore_ascii_case(name));
    let same_again = changed.is_some_and(|i| write.verb == "UPDATE" && op == "=" && write.values.get(i) == Some(value));
    let named = |list: &[&str]| words(name).iter().any(|word| list.contains(&word.as_str()));
    let state = matches!(value, Value::Const(_) | Value::Path(_)) && named(STATES);
    changed.is_some() && !same_again || op == "=" && (named(VERSIONS) || state)
}

/// Words of columns whose values are given anew to each version or holder.
const VERSIONS: &[&str] = &[
    "version",
    "ver",
    "rev",
    "revision",
    "fence",
    "fencing",
    "token",
    "epoch",
    "etag",
    "generation",
    "attempt",
    "attempts",
    "owner",
    "holder",
    "worker",
    "lease",
    "locked",
    "claimed",
    "seq",
    "sequence",
    "nonce",
    "hash",
    "checksum",
    "digest",
    "updated",
    "modified",
    "run",
];

/// Words of columns that hold a state.
const STATES: &[&str] = &["status", "state", "stage", "phase"];

/// Words of keys under which an answer is kept for whoever asks again.
const ANSWERS: &[&str] = &["idempotency", "idempotent", "idem", "idempotence"];

/// Whether the value kept under the key is the answer to a request that must not be carried out twice.
fn keeps_answer(o: &Observation, write: &Write) -> bool {
    let says = |key: &Value| words(&crate::analysis::lock::show(key)).iter().any(|w| ANSWERS.contains(&w.as_str()));
    let Resource::Key(_, key) = &write.resource else { return false };
    says(key) || says(&o.lock.acquire.key)
}

/// Whether the write is queued between MULTI and EXEC after a WATCH.
fn watches(cx: &Context<'_>, o: &Observation) -> bool {
    let multi = crate::analysis::database::trip(cx.analyzer, o.via[o.via.len() - 1])
        .is_some_and(|trip| trip.atomicity == Atomicity::Multi);
    multi
        && o.via.iter().any(|site| {
            let reached = cx.analyzer.reached(cx.analyzer.item(site.function));
            reached.iter().any(|r| matches!(r.effect.kind, EffectKind::Watch(_)))
        })
}

/// Logs, metrics, histories: each holder's entry is true.
fn is_record(resource: &Resource) -> bool {
    const RECORDS: &[&str] =
        &["log", "logs", "audit", "audits", "history", "histories", "metric", "metrics", "outbox", "heartbeats"];
    let Resource::Table(table) = resource else { return false };
    words(table).iter().any(|word| RECORDS.contains(&word.as_str()))
}

fn finding(cx: &Context<'_>, lock: &Lock, writes: &[(Observation, Write)]) -> Finding {
    let (first, write) = &writes[0];
    let key = cx.key_seen(lock, first.function, &first.lock);
    let what = show_resource(&write.resource);
    let span = cx.target_place(first);
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
        let place = cx.target_place(other);
        if place != span {
            f.label(place, "and this");
        }
    }
    f.help = match &write.resource {
        Resource::Table(table) if write.verb.starts_with("INSERT") => format!(
            "let the table refuse the second writer: a unique key of `{table}` on what the section works on, with `ON CONFLICT .. DO NOTHING`, or `DO UPDATE .. WHERE {table}.fence <= excluded.fence` with the lease's fencing token"
        ),
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
    let again = if write.verb.starts_with("INSERT") { "writes its row as well" } else { "writes over it" };
    f.step(Actor::A, span, format!("wakes up, still believing that it holds the lease, and {again}"));
    f.lock = Some(cx.key_as_asked(lock, first));
    f
}
