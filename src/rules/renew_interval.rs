//! `renew-interval`: the period of the renewal leaves no room for a late or failed one.

use std::collections::BTreeMap;

use crate::analysis::lock::{Decision, Lock, Use};
use crate::finding::{Actor, Finding, Severity};
use crate::ir::{Backend, EffectKind, Lit, Ttl, Value};
use crate::rule::loops::innermost;
use crate::rule::{Context, Group, Rule};
use crate::source::Span;

/// The rule.
pub const RULE: Rule = Rule {
    id: "renew-interval",
    severity: Severity::Error,
    group: Group::Keeping,
    page: include_str!("../../rules/renew-interval.md"),
    check,
};

fn check(cx: &Context<'_>, findings: &mut Vec<Finding>) {
    let mut found: BTreeMap<Span, Finding> = BTreeMap::new();
    for lock in cx.locks.locks.iter().filter(|l| l.decision == Decision::Lock) {
        for renewal in lock.prolongs.keys().map(|p| &cx.locks.prolongs[*p]) {
            let (EffectKind::Renew(_) | EffectKind::Expire(_)) = &renewal.effect.kind else { continue };
            if lock.acquire().is_none_or(|a| a.backend == Backend::Consul) {
                continue;
            }
            let Some(ttl) = shortest(lock, renewal) else { continue };
            if let Some((span, period)) = period(cx, renewal)
                && period * 2 >= ttl
                && cx.judged(renewal.function)
            {
                found.entry(span).or_insert_with(|| finding(cx, lock, renewal, span, period, ttl));
            }
        }
    }
    findings.extend(found.into_values());
}

/// The shorter of what the acquire and the renewal set, in nanoseconds, where both are known.
fn shortest(lock: &Lock, renewal: &Use) -> Option<u128> {
    let own = match &renewal.effect.kind {
        EffectKind::Renew(r) => constant(&r.ttl),
        EffectKind::Expire(e) => constant(&e.ttl),
        _ => None,
    };
    let first = lock.acquire().and_then(|a| constant(&a.ttl));
    match (own, first) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

fn constant(ttl: &Ttl) -> Option<u128> {
    match ttl {
        Ttl::After(value, _) => duration(value),
        _ => None,
    }
}

fn duration(value: &Value) -> Option<u128> {
    match value {
        Value::Const(Lit::Duration(ns)) if *ns > 0 => Some(*ns),
        _ => None,
    }
}

/// The one pause in the loop around the renewal: where it is made, and its length. Several pauses, or one that is not
/// known, say nothing.
fn period(cx: &Context<'_>, renewal: &Use) -> Option<(Span, u128)> {
    let mut site = renewal.site();
    for _ in 0..3 {
        let f = cx.program.function(site.function);
        if let Some(rounds) = innermost(f, site.at) {
            let reached = cx.analyzer.reached(site.function);
            let mut pauses =
                reached.iter().filter(|r| rounds.contains(r.via[0].at)).filter_map(|r| match &r.effect.kind {
                    EffectKind::Sleep(value) => Some((r.effect.span, value.clone())),
                    _ => None,
                });
            let first = pauses.next()?;
            if pauses.next().is_some() {
                return None;
            }
            return duration(&first.1).map(|d| (first.0, d));
        }
        match cx.program.callers(site.function) {
            [one] => site = *one,
            _ => return None,
        }
    }
    None
}

fn finding(cx: &Context<'_>, lock: &Lock, renewal: &Use, span: Span, period: u128, ttl: u128) -> Finding {
    let key = cx.show(renewal.function, crate::analysis::lock::key(&renewal.effect));
    let text = |ns: u128| format!("{:?}", std::time::Duration::from_nanos(ns as u64));
    let (severity, what) = if period >= ttl {
        (Severity::Error, "the lease ends before it is renewed")
    } else if period * 2 > ttl {
        (Severity::Warning, "one late renewal loses the lease")
    } else {
        (Severity::Note, "one failed renewal loses the lease")
    };
    let message = format!("`{key}` lives for {} and is renewed every {}: {what}", text(ttl), text(period));
    let mut f = Finding::new(&RULE, span, message).at_most(severity);
    f.confidence = cx.confidence(cx.certainty(renewal));
    f.caret = "the period of the renewal".into();
    f.label(cx.place(renewal), "renewed here");
    f.label(cx.place(&lock.taken), "taken here");
    f.help = "renew after a third of the expiry, so that one renewal may fail and be tried again".into();
    f.step(Actor::A, cx.place(&lock.taken), format!("takes `{key}` for {}", text(ttl)));
    f.step(
        Actor::A,
        span,
        format!("sleeps for {}, and a little longer: the runtime is busy, the network slow", text(period)),
    );
    f.step(Actor::Store, cx.place(&lock.taken), format!("the lease on `{key}` expires"));
    f.step(Actor::B, cx.place(&lock.taken), format!("acquires `{key}` while A still works"));
    f.lock = Some(cx.key(lock));
    f
}
