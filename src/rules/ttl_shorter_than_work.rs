//! `ttl-shorter-than-work`: the work under a lease may take longer than the lease, and nothing renews it.

use std::collections::{BTreeMap, BTreeSet};

use super::setnx_expire;
use crate::analysis::lock::{Decision, Lock, words};
use crate::analysis::origin_call;
use crate::analysis::slice::Slice;
use crate::analysis::summary::{Held, Observation, Passed, Status};
use crate::finding::{Actor, Finding, Severity};
use crate::ir::{
    BlockId, EffectKind, FunctionId, LockKind, OpKind, OpRef, Resource, Rvalue, Site, TimeUnit, Ttl, Value, Write,
};
use crate::protocol::sql::table_of;
use crate::rule::context::proven_held;
use crate::rule::loops::loops;
use crate::rule::{Context, Group, Rule};
use crate::source::Span;

/// The rule.
pub const RULE: Rule = Rule {
    id: "ttl-shorter-than-work",
    severity: Severity::Warning,
    group: Group::Taking,
    page: include_str!("../../rules/ttl-shorter-than-work.md"),
    check,
};

fn check(cx: &Context<'_>, findings: &mut Vec<Finding>) {
    let mut found: BTreeMap<Span, Finding> = BTreeMap::new();
    for (index, lock) in cx.locks.locks.iter().enumerate() {
        let kind = lock.acquire().map(|a| a.kind);
        if lock.decision != Decision::Lock || !matches!(kind, Some(LockKind::Lease | LockKind::LeaseRow)) {
            continue;
        }
        let mut kept: BTreeMap<FunctionId, bool> = BTreeMap::new();
        let mut add = |id: FunctionId, held: &Held, long: &dyn Fn(u128) -> Option<Long>| {
            let Some((place, ttl)) = expiry(cx, id, held) else { return };
            if *kept.entry(id).or_insert_with(|| renewed(cx, index, id)) {
                return;
            }
            let Some(long) = long(ttl) else { return };
            let f = finding(cx, lock, (id, held), place, ttl, &long);
            match found.get(&place) {
                Some(old) if old.severity >= f.severity => {}
                _ => {
                    found.insert(place, f);
                }
            }
        };
        let waits = |k: &EffectKind| matches!(k, EffectKind::Sleep(_) | EffectKind::Timeout(_));
        for o in cx.observed(index, |o| proven_held(o) && cx.judged(o.function) && waits(&o.effect.kind)) {
            if !in_task(cx, &o.via) && !around_the_acquire(cx, &o) {
                add(o.function, &o.lock, &|ttl| longer(cx, &o, ttl));
            }
        }
        for passed in &cx.analyzer.log.borrow().passed {
            if cx.locks.of(&passed.lock.via, passed.lock.origin.effect) == Some(index) && cx.judged(passed.function) {
                add(passed.function, &passed.lock, &|_| open_ended(cx, passed));
            }
        }
    }
    findings.extend(found.into_values());
}

/// The constant expiry of the lease, in nanoseconds, and the innermost call that knows it.
fn expiry(cx: &Context<'_>, id: FunctionId, held: &Held) -> Option<(Span, u128)> {
    let via = &held.via;
    let outer = id;
    for start in (0..via.len()).rev() {
        let id = via[start].function;
        let reached = cx.analyzer.reached(id);
        let Some(r) = reached.iter().find(|r| r.via[..] == via[start..] && r.origin == held.origin) else { continue };
        let EffectKind::Acquire(acquire) = &r.effect.kind else { continue };
        if let Some(ns) = fixed(cx, id, &acquire.ttl) {
            let span = if start + 1 == via.len() { r.effect.span } else { cx.op_span(via[start]) };
            return Some((span, ns));
        }
    }
    Some((cx.op_span(via[0]), fixed(cx, outer, &held.acquire.ttl)?))
}

fn fixed(cx: &Context<'_>, id: FunctionId, ttl: &Ttl) -> Option<u128> {
    cx.ttl_lengths(id, ttl).iter().find_map(crate::rule::lengths::Length::fixed).filter(|ns| *ns > 0)
}

/// Whether the function that holds the lease, or a task that it starts, renews it.
fn renewed(cx: &Context<'_>, lock: usize, id: FunctionId) -> bool {
    let first = setnx_expire::first_expiry(cx, lock).map(|o| o.origin);
    let row = cx.locks.locks[lock].acquire().filter(|a| a.kind == LockKind::LeaseRow);
    let table = row.and_then(|a| table_of(&a.key));
    let item = cx.analyzer.item(id);
    [id, item].into_iter().any(|id| {
        cx.analyzer.reached(id).iter().any(|r| match &r.effect.kind {
            EffectKind::Renew(_) => true,
            EffectKind::Expire(e) => e.ttl != Ttl::Never && first != Some(r.origin),
            EffectKind::Write(write) => table.is_some_and(|table| moves_the_end(write, table)),
            _ => false,
        })
    })
}

/// Whether a statement that records something else too moves the end of the leased row's time on.
fn moves_the_end(write: &Write, table: &str) -> bool {
    const ENDS: &[&str] = &["until", "expires", "expiry", "expiration", "deadline", "heartbeat"];
    let later = |v: &Value| match v {
        Value::Operation(op, parts) => op == "+" && parts.len() == 2,
        Value::Param(_) | Value::Local(..) | Value::Field(..) => true,
        _ => false,
    };
    let own = matches!(&write.resource, Resource::Table(name) if name.eq_ignore_ascii_case(table));
    let ends = |column: &String| words(column).iter().any(|w| ENDS.contains(&w.as_str()));
    own && write.verb == "UPDATE" && write.assigned.iter().zip(&write.values).any(|(c, v)| ends(c) && later(v))
}

/// Whether the effect happens in a task of its own, which the section does not wait for.
fn in_task(cx: &Context<'_>, via: &[Site]) -> bool {
    via.iter().any(|site| cx.tasks(site.function).iter().any(|t| t.body == site.at))
}

/// A deadline for the acquire itself: it bounds the waiting, not the work.
fn around_the_acquire(cx: &Context<'_>, o: &Observation) -> bool {
    if !matches!(o.effect.kind, EffectKind::Timeout(_)) || o.via[0].function != o.lock.via[0].function {
        return false;
    }
    let f = cx.program.function(o.via[0].function);
    let taken = match f.op(o.lock.via[0].at).dst {
        Some(dst) => dst,
        None => return false,
    };
    let slice = Slice::of(f);
    origin_call(cx.program, o.via[0]).is_some_and(|c| c.args.iter().any(|x| slice.sources(x).contains(&taken)))
        || matches!(f.op(o.lock.via[0].at).kind, OpKind::Let(_))
}

/// Work that is longer than the lease.
struct Long {
    /// Where.
    span: Span,
    /// Nanoseconds, if a constant.
    at_most: Option<u128>,
    /// What it is, for the message.
    what: String,
    severity: Severity,
}

/// A pause or deadline, times the rounds of the loops around it, that is longer than the lease.
fn longer(cx: &Context<'_>, o: &Observation, ttl: u128) -> Option<Long> {
    let (value, what) = match &o.effect.kind {
        EffectKind::Sleep(value) => (value, "sleeps for"),
        EffectKind::Timeout(value) => (value, "gives the work"),
        _ => return None,
    };
    let once =
        cx.lengths(o.function, value, TimeUnit::Duration).iter().find_map(crate::rule::lengths::Length::fixed)?;
    let mut total = once;
    for (i, site) in o.via.iter().enumerate() {
        let f = cx.program.function(site.function);
        for found in loops(f).iter().filter(|l| l.contains(site.at)) {
            if i == 0 && found.contains(o.lock.via[0].at) {
                continue;
            }
            total = total.saturating_mul(u128::from(cx.rounds_of(site.function, found).unwrap_or(1).max(1)));
        }
    }
    let text = |ns: u128| format!("{:?}", std::time::Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX)));
    let what = if total == once { format!("{what} {}", text(once)) } else { format!("waits up to {}", text(total)) };
    (total > ttl).then_some(Long { span: o.effect.span, at_most: Some(total), what, severity: Severity::Warning })
}

/// Calls followed from the holder of the lease down to a loop.
const MAX_DEPTH: u32 = 6;

/// A loop over what was fetched, in what the holder of the lease runs, with no look at the time.
fn open_ended(cx: &Context<'_>, passed: &Passed) -> Option<Long> {
    let id = passed.function;
    let f = cx.program.function(id);
    let slice = Slice::of(f);
    let log = cx.analyzer.log.borrow();
    let given_back: Vec<OpRef> = log
        .releases
        .iter()
        .filter(|r| r.function == id && r.lock.via == passed.lock.via && r.status == Status::Held)
        .map(|r| r.freed.via[0].at)
        .collect();
    // Only where it is held for certain, not wherever it may have been taken before.
    let held: BTreeSet<BlockId> = log
        .went
        .iter()
        .filter(|w| w.function == id && w.lock.via == passed.lock.via && w.status == Status::Held && w.proven)
        .map(|w| w.block)
        .collect();
    let own = passed.lock.via[0].at;
    let under = |at: OpRef| {
        (held.contains(&at.block) || at.block == own.block && at.index > own.index)
            && slice.reaches(passed.lock.via[0].at, at)
            && !given_back.iter().any(|r| slice.reaches(*r, at))
    };
    let mut seen = BTreeSet::new();
    endless(cx, id, None, 0, &mut seen, &|at| under(at) && at != passed.lock.via[0].at, Some(passed.lock.via[0].at))
}

/// The first loop without end in a function or in what it calls and waits for.
fn endless(
    cx: &Context<'_>,
    id: FunctionId,
    from: Option<Site>,
    depth: u32,
    seen: &mut BTreeSet<FunctionId>,
    counts: &dyn Fn(OpRef) -> bool,
    taken: Option<OpRef>,
) -> Option<Long> {
    if depth > MAX_DEPTH || !seen.insert(id) {
        return None;
    }
    let f = cx.program.function(id);
    let around = loops(f);
    for found in &around {
        let own = taken.is_none_or(|at| !found.contains(at));
        if own
            && f.ops()
                .any(|(at, op)| found.contains(at) && counts(at) && matches!(op.kind, OpKind::Let(Rvalue::Await(_))))
            && !cx.watches_time(id, found)
            && cx.over_fetched(id, found, from)
        {
            let what = "runs through what it fetched, however much that is".into();
            return Some(Long { span: found.span, at_most: None, what, severity: Severity::Note });
        }
    }
    let tasks: Vec<OpRef> = cx.tasks(id).iter().map(|t| t.body).collect();
    let timed: Vec<_> = around.iter().filter(|l| cx.watches_time(id, l)).collect();
    for (at, op) in f.ops().filter(|(at, _)| counts(*at) && !tasks.contains(at)) {
        let site = Site { function: id, at };
        let (inner, from): (Vec<FunctionId>, _) = match &op.kind {
            OpKind::Call(call) if call.effect.is_none() && call.targets.len() <= 4 => {
                (call.targets.clone(), Some(site))
            }
            OpKind::Let(Rvalue::Closure(inner, _)) => (vec![*inner], None),
            _ => continue,
        };
        // A loop around the call that looks at the time ends in time, whatever it calls.
        if timed.iter().any(|l| l.contains(at)) || cut_short(cx, site) {
            continue;
        }
        let found = inner.into_iter().find_map(|t| endless(cx, t, from, depth + 1, seen, &|_| true, None));
        if found.is_some() {
            return found;
        }
    }
    None
}

/// Whether the call runs under a timeout, or beside something that can end it.
fn cut_short(cx: &Context<'_>, site: Site) -> bool {
    let f = cx.program.function(site.function);
    if origin_call(cx.program, site).is_some_and(|c| c.cancel.is_some()) {
        return true;
    }
    let Some(dst) = f.op(site.at).dst else { return false };
    let slice = Slice::of(f);
    f.calls().any(|(_, _, call)| {
        let waits = |t: &crate::ir::RoundTrip| t.effects.iter().any(|e| matches!(e.kind, EffectKind::Timeout(_)));
        call.effect.as_deref().is_some_and(waits) && call.args.iter().any(|x| slice.sources(x).contains(&dst))
    })
}

fn finding(cx: &Context<'_>, lock: &Lock, seen: (FunctionId, &Held), place: Span, ttl: u128, long: &Long) -> Finding {
    let key = cx.key_seen(lock, seen.0, seen.1);
    let lives = format!("{:?}", std::time::Duration::from_nanos(u64::try_from(ttl).unwrap_or(u64::MAX)));
    let mut f = Finding::new(
        &RULE,
        place,
        format!("`{key}` lives for {lives} and nothing renews it, while the section {}", long.what),
    )
    .at_most(long.severity);
    f.confidence = cx.confidence(cx.certainty(&lock.taken));
    f.caret = format!("ends after {lives}");
    f.label(long.span, if long.at_most.is_some() { "longer than the lease" } else { "no round looks at the time" });
    f.help = "bound the work by a timeout below the expiry, or renew the lease while it runs".into();
    f.step(Actor::A, place, format!("takes `{key}` for {lives}"));
    f.step(Actor::A, long.span, "is still at work when that is over");
    f.step(Actor::Store, place, format!("the lease on `{key}` expires"));
    f.step(Actor::B, place, format!("takes `{key}` and works beside A"));
    f.lock = Some(cx.key(lock));
    f
}
