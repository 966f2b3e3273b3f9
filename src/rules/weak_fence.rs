//! `weak-fence`: the number that should order the holders does not, or is not compared and stored in one step.

use std::collections::BTreeMap;

use super::unfenced_write::open_sections;
use crate::analysis::database;
use crate::analysis::lock::{Decision, Lock, show, words};
use crate::analysis::summary::{Observation, Relation};
use crate::finding::{Actor, Finding, Severity};
use crate::ir::{Backend, Call, Effect, EffectKind, FunctionId, LockKind, Resource, Safety, Ttl, Value, Write};
use crate::rule::section::{Covered, converts};
use crate::rule::{Context, Group, Rule};
use crate::source::Span;

/// The rule.
pub const RULE: Rule = Rule {
    id: "weak-fence",
    severity: Severity::Error,
    group: Group::Fencing,
    page: include_str!("../../rules/weak-fence.md"),
    check,
};

fn check(cx: &Context<'_>, findings: &mut Vec<Finding>) {
    let covered = cx.covered();
    let mut by_place: BTreeMap<Span, Finding> = BTreeMap::new();
    for (index, lock) in cx.locks.locks.iter().enumerate() {
        for fault in faults(cx, &covered, index, lock) {
            let f = finding(cx, lock, &fault);
            by_place.entry(f.span).or_insert(f);
        }
    }
    findings.extend(by_place.into_values());
}

/// What is wrong with a fence, and where.
pub struct Fault {
    /// The write that relies on it, or where it is drawn.
    pub span: Span,
    why: &'static str,
    drawn: Option<Span>,
    taken: Span,
}

/// The faulty fences of one lock's sections.
pub fn faults(cx: &Context<'_>, covered: &Covered, index: usize, lock: &Lock) -> Vec<Fault> {
    let leased = lock.acquire().is_some_and(|a| matches!(a.kind, LockKind::Lease));
    if lock.decision != Decision::Lock || !leased {
        return Vec::new();
    }
    let mut out = Vec::new();
    let fenced = |o: &Observation| fence_column(o).is_some() || is_counter(cx, o);
    for section in cx.sections(index, fenced) {
        let writes: Vec<&Observation> = section.iter().filter(|o| fence_column(o).is_some()).collect();
        let faulty = writes.iter().find_map(|o| Some((*o, weakness(cx, o, &writes)?)));
        if let Some((o, why)) = faulty {
            let drawn = section.iter().find(|o| is_counter(cx, o)).map(|o| o.effect.span);
            out.push(Fault { span: cx.target_place(o), why, drawn, taken: cx.op_span(o.lock.via[0]) });
        } else if let Some(o) = section.iter().find(|o| is_counter(cx, o))
            && writes.is_empty()
        {
            out.push(Fault { span: o.effect.span, why: LATER, drawn: None, taken: cx.op_span(o.lock.via[0]) });
        }
    }
    for section in open_sections(cx, covered, index, lock) {
        let (first, _) = &section[0];
        if let Some(drawn) = drawn_with(cx, first) {
            let span = cx.target_place(first);
            out.push(Fault { span, why: UNUSED, drawn: Some(drawn), taken: cx.op_span(first.lock.via[0]) });
        }
    }
    out
}

const LATER: &str = "the fence is drawn in a round trip of its own after the lock was granted: a holder that stalls in between draws a higher one than its successor";
const UNUSED: &str =
    "the lock hands out a fence, and this write does not carry it: a holder whose lease expired still writes";
const ANEW: &str = "the fence is a clock reading or a random value: it says nothing of the order in which holders were granted the lock";
const KEPT: &str =
    "the fence is compared but never stored: what is compared with stays low, and a late holder passes as well";
const TWICE: &str = "this section writes twice with one fence and the comparison is strict: its second write is refused as if it were late";
const STARTS_ANEW: &str = "the counter that the fence is drawn from expires or is deleted: it starts anew, and a later holder draws a lower number than a late one has";
const VERSION: &str = "the version of an etcd key starts anew when the key is made again: a later holder has a lower one than a late one; its create revision only grows";
const SHARED: &str =
    "the fence is read, not drawn, so two holders can have the same one, and the comparison lets an equal one pass";

/// The weakness of one write that compares a fence.
fn weakness(cx: &Context<'_>, o: &Observation, all: &[&Observation]) -> Option<&'static str> {
    let (write, column, op, value) = fence_column(o)?;
    if anew(value, 0) {
        return Some(ANEW);
    }
    if starts_anew(cx, o) {
        return Some(STARTS_ANEW);
    }
    let versioned = |call: &Call| call.name() == "version" && call.args.len() == 1;
    if o.lock.acquire.backend == Backend::Etcd && cx.goes_into(o, &versioned) {
        return Some(VERSION);
    }
    let counts = |call: &Call| draws(call, |e| matches!(&e.kind, EffectKind::Issue(_)) && redis(call));
    let own_trip = |call: &Call| counts(call) && !draws(call, |e| matches!(e.kind, EffectKind::Acquire(_)));
    if cx.goes_into(o, &own_trip) {
        return Some(LATER);
    }
    let stored = write.verb == "INSERT" || write.assigned.iter().any(|c| c.eq_ignore_ascii_case(&column));
    if !stored && op != "=" {
        return Some(KEPT);
    }
    // What etcd and ZooKeeper tell of a key holds revisions, which are one grant's alone.
    let reads = |call: &Call| draws(call, |e| matches!(&e.kind, EffectKind::Read(Resource::Key(Backend::Redis, _))));
    if op == "<=" && cx.goes_into(o, &reads) {
        return Some(SHARED);
    }
    let same = |other: &&&Observation| {
        fence_column(other)
            .is_some_and(|(w, c, op, v)| op == "<" && c == column && v == value && w.resource == write.resource)
    };
    (op == "<" && all.iter().filter(same).count() > 1 && o.via != all[1].via && known(value)).then_some(TWICE)
}

fn known(value: &Value) -> bool {
    !matches!(value, Value::Unknown)
}

fn redis(call: &Call) -> bool {
    call.effect.as_ref().is_some_and(|t| {
        t.effects.iter().all(|e| !matches!(&e.kind, EffectKind::Read(Resource::Table(_))) && e.command != "nextval")
    })
}

fn draws(call: &Call, pick: impl Fn(&Effect) -> bool) -> bool {
    call.effect.as_ref().is_some_and(|trip| trip.effects.iter().any(pick))
}

/// The comparison of a column that is called a fence, in a write to a table.
fn fence_column(o: &Observation) -> Option<(&Write, String, &str, &Value)> {
    let EffectKind::Write(write) = &o.effect.kind else { return None };
    let Safety::Conditions(list) = &write.safety else { return None };
    if !matches!(write.resource, Resource::Table(_)) {
        return None;
    }
    let found = list
        .iter()
        .find(|(column, op, _)| is_fence(column) && matches!(op.trim_start_matches("or "), "<" | "<=" | "="));
    found.map(|(column, op, value)| {
        let name = column.rsplit('.').next().unwrap_or(column).trim_matches(['"', '`']);
        (write, name.to_owned(), op.trim_start_matches("or "), value)
    })
}

fn is_fence(name: &str) -> bool {
    words(name).iter().any(|w| matches!(w.as_str(), "fence" | "fencing"))
}

/// A counter that is called a fence, drawn while the lock is held.
fn is_counter(cx: &Context<'_>, o: &Observation) -> bool {
    let EffectKind::Issue(key) = &o.effect.kind else { return false };
    let trip = database::trip(cx.analyzer, o.origin.site);
    o.lock.acquire.backend == Backend::Redis
        && o.effect.command != "nextval"
        && o.relation != Relation::Must
        && o.lock.origin.site != o.origin.site
        && trip.is_some_and(|t| !t.effects.iter().any(|e| matches!(e.kind, EffectKind::Acquire(_))))
        && is_fence(&show(key))
}

/// Where the functions that take the lock draw a fence, in the step that takes it or after it.
fn drawn_with(cx: &Context<'_>, o: &Observation) -> Option<Span> {
    let issues = |e: &&Effect| matches!(e.kind, EffectKind::Issue(_));
    let trip = database::trip(cx.analyzer, o.lock.origin.site)?;
    let own = trip.effects.iter().find(issues).map(|e| e.span);
    own.or_else(|| {
        o.lock.via.iter().skip(1).find_map(|site| {
            let reached = cx.analyzer.reached(cx.analyzer.item(site.function));
            let fence = |e: &Effect| matches!(&e.kind, EffectKind::Issue(key) if is_fence(&show(key)));
            reached.iter().find(|r| fence(&r.effect)).map(|r| r.effect.span)
        })
    })
}

/// Whether the counter that the taking step draws from is given an expiry or deleted, in that step or by the functions of its
/// module.
fn starts_anew(cx: &Context<'_>, o: &Observation) -> bool {
    let Some(trip) = database::trip(cx.analyzer, o.lock.origin.site) else { return false };
    let home = o.lock.origin.site.function;
    let drawn = trip.effects.iter().find_map(|e| match &e.kind {
        EffectKind::Issue(key) => Some(cx.analyzer.comparable(home, key)),
        _ => None,
    });
    let Some(counter) = drawn.filter(|key| *key != Value::Unknown) else { return false };
    let module = |id| &cx.program.function(cx.analyzer.item(id)).module;
    let ends = |id: FunctionId, e: &Effect| {
        let key = match &e.kind {
            EffectKind::Expire(e) if e.ttl != Ttl::Never => &e.key,
            EffectKind::Release(r) => &r.key,
            EffectKind::Write(Write { resource: Resource::Key(_, key), verb, .. }) if verb == "DEL" => key,
            _ => return false,
        };
        cx.analyzer.relate(&cx.analyzer.comparable(id, key), &counter) == Relation::Must
    };
    let beside = cx.program.functions().filter(|(id, _)| cx.judged(*id) && module(*id) == module(home));
    beside.into_iter().any(|(id, f)| {
        f.calls().any(|(_, _, call)| call.effect.as_ref().is_some_and(|t| t.effects.iter().any(|e| ends(id, e))))
    })
}

/// A clock reading or a random value.
fn anew(value: &Value, depth: usize) -> bool {
    match value {
        Value::Clock { .. } | Value::Fresh(_) => true,
        // What a command answers is not what it was asked with.
        Value::Call(call) => {
            let name = call.name.rsplit([':', '.']).next().unwrap_or("");
            depth < 8 && converts(name) && call.args.iter().any(|v| anew(v, depth + 1))
        }
        _ => false,
    }
}

fn finding(cx: &Context<'_>, lock: &Lock, fault: &Fault) -> Finding {
    let key = cx.key(lock);
    let mut f = Finding::new(&RULE, fault.span, fault.why);
    f.confidence = cx.confidence(cx.certainty(&lock.taken));
    f.caret = "does not tell a late holder".into();
    f.label(fault.taken, format!("`{key}` is taken here"));
    if let Some(drawn) = fault.drawn
        && drawn != fault.span
    {
        f.label(drawn, "the fence is drawn here");
    }
    f.help = "draw the number in the step that grants the lock (`INCR` in the script that sets the key), and compare and store it in the step that writes: `UPDATE .. SET .., fence = $2 WHERE id = $1 AND fence <= $2`".into();
    f.step(Actor::A, fault.taken, format!("takes `{key}` and is paused"));
    f.step(Actor::Store, fault.taken, format!("the lease on `{key}` expires"));
    f.step(Actor::B, fault.taken, format!("takes `{key}` and writes with its fence"));
    f.step(Actor::A, fault.span, "goes on: its fence does not make the store refuse it");
    f.lock = Some(key);
    f
}
