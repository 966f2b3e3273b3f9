//! `reentrant-acquire`: a lock is taken again by the code that already holds it, and waits for itself.

use std::collections::BTreeMap;

use crate::analysis::Nested;
use crate::analysis::lock::Decision;
use crate::finding::{Actor, Finding, Severity};
use crate::ir::{Backend, LockKind, Piece, Site, Value};
use crate::rule::{Context, Group, Rule};
use crate::source::Span;

/// The rule.
pub const RULE: Rule = Rule {
    id: "reentrant-acquire",
    severity: Severity::Error,
    group: Group::Taking,
    page: include_str!("../../rules/reentrant-acquire.md"),
    check,
};

fn check(cx: &Context<'_>, findings: &mut Vec<Finding>) {
    let log = cx.analyzer.log.borrow();
    let mut found: BTreeMap<Span, (usize, Finding)> = BTreeMap::new();
    for nested in log.nested.iter().filter(|n| n.proven && cx.judged(n.function)) {
        let Some(index) = cx.locks.of(&nested.outer.via, nested.outer.origin.effect) else { continue };
        let a = &nested.outer.acquire;
        // An NX key, an ephemeral node, a key of a bucket: the second acquisition meets the first. With one etcd lease or
        // one Consul session it is granted, and is none.
        let lease = a.kind == LockKind::Lease && a.backend != Backend::Kubernetes && definite(&a.key);
        if cx.locks.locks[index].decision != Decision::Lock || !lease || a.key != nested.key {
            continue;
        }
        let Some(site) = place(nested) else { continue };
        let span = cx.op_span(site);
        let depth = nested.via.len() + nested.outer.via.len();
        if found.get(&span).is_none_or(|(best, _)| depth < *best) {
            found.insert(span, (depth, finding(cx, nested, span)));
        }
    }
    findings.extend(found.into_values().map(|(_, f)| f));
}

/// The call that takes it again: where the ways of the two acquisitions to their common helper part.
fn place(nested: &Nested) -> Option<Site> {
    let (outer, inner) = (&nested.outer.via, &nested.via);
    let shared = outer.iter().rev().zip(inner.iter().rev()).take_while(|(a, b)| a == b).count();
    if shared == outer.len() || shared == inner.len() {
        return None;
    }
    inner.get(inner.len() - 1 - shared).copied()
}

/// Both acquisitions surely mean the same key: nothing in it is unknown or made anew.
fn definite(key: &Value) -> bool {
    match key {
        Value::Const(_) | Value::Path(_) | Value::Param(_) | Value::TypeField(..) | Value::Env(_) => true,
        Value::Local(..) => true,
        Value::Field(base, _) => definite(base),
        Value::Template(pieces) => pieces.iter().all(|p| match p {
            Piece::Text(_) => true,
            Piece::Hole(v) => definite(v),
        }),
        _ => false,
    }
}

/// Both acquisitions go by one lease or session: no second acquisition (etcd `v3lock.proto`, "Lock"; Consul API, "Create/Update
/// Key", `acquire`).
fn shared_owner(nested: &Nested) -> bool {
    let a = &nested.outer.acquire;
    matches!(a.backend, Backend::Etcd | Backend::Consul) && a.token != Value::Unknown && a.token == nested.token
}

fn finding(cx: &Context<'_>, nested: &Nested, span: Span) -> Finding {
    let key = cx.show(nested.function, &nested.outer.acquire.key);
    let taken = cx.op_span(nested.outer.via[0]);
    let shared = shared_owner(nested);
    let what = match nested.outer.acquire.backend {
        _ if shared => {
            "the service grants it at once to the same lease or session, and the first release leaves the other without it"
        }
        Backend::Etcd => "it waits for itself until the first lease ends",
        Backend::Redis => "it waits for itself until the expiry, or fails each time",
        _ => "it fails each time",
    };
    let mut f = Finding::new(&RULE, span, format!("`{key}` is taken again by the code that already holds it: {what}"));
    if shared {
        f = f.at_most(Severity::Warning);
    }
    f.confidence = cx.confidence(nested.outer.certainty);
    f.caret = "already held here".into();
    f.label(taken, "taken here");
    if nested.via[0] != nested.outer.via[0] {
        f.label(cx.op_span(nested.via[0]), "leads to the second acquire");
    }
    f.help = "take the lock once, outside, and give the inner function a variant that expects it to be held (pass the guard as a parameter)".into();
    f.step(Actor::A, taken, format!("acquires `{key}`"));
    if shared {
        f.step(Actor::A, span, format!("acquires `{key}` again with the same lease or session: nothing changes"));
        f.step(Actor::A, span, format!("releases `{key}` at the end of the inner section"));
        f.step(Actor::B, taken, format!("acquires `{key}`, while A is still in the outer section"));
    } else {
        f.step(Actor::A, span, format!("tries to acquire `{key}`: somebody has it, namely A itself"));
        f.step(Actor::A, span, "waits until its own lease expires, or gives up");
    }
    f.lock = Some(key);
    f
}
