//! `renew-interval`: the period of the renewal leaves no room for a late or failed one.

use std::collections::BTreeMap;

use crate::analysis::lock::{Decision, Lock, Use};
use crate::finding::{Actor, Finding, Severity};
use crate::ir::{Backend, EffectKind, TimeUnit, Ttl};
use crate::rule::lengths::Length;
use crate::rule::rounds::Round;
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
    let mut found: BTreeMap<Span, (f64, Finding)> = BTreeMap::new();
    for lock in cx.locks.locks.iter().filter(|l| l.decision == Decision::Lock) {
        for renewal in lock.prolongs.keys().map(|p| &cx.locks.prolongs[*p]) {
            let (EffectKind::Renew(_) | EffectKind::Expire(_)) = &renewal.effect.kind else { continue };
            if lock.acquire().is_none_or(|a| a.backend == Backend::Consul) {
                continue;
            }
            for round in cx.rounds(renewal) {
                let Some(pace) = pace(cx, lock, renewal, &round) else { continue };
                let worse = found.get(&pace.span).is_none_or(|(ratio, _)| *ratio < pace.ratio);
                // Half, but for what rounding takes away.
                if pace.ratio > 0.499 && worse && cx.judged(round.site.function) {
                    found.insert(pace.span, (pace.ratio, finding(cx, lock, renewal, &pace)));
                }
            }
        }
    }
    findings.extend(found.into_values().map(|(_, f)| f));
}

/// How often a lease is renewed.
struct Pace {
    /// Where the period is made.
    span: Span,
    /// Period by expiry.
    ratio: f64,
    /// Period and expiry, where they are constants.
    fixed: Option<(u128, u128)>,
}

/// The period of the renewal in one loop, compared with the shortest expiry that the acquire or the renewal sets.
fn pace(cx: &Context<'_>, lock: &Lock, renewal: &Use, round: &Round) -> Option<Pace> {
    let id = round.site.function;
    let reached = cx.analyzer.reached(id);
    let own = reached.iter().find(|r| r.via[0] == round.site && r.origin == renewal.origin());
    let mut expiries: Vec<Length> = own.map_or_else(Vec::new, |r| cx.ttl_lengths(id, ttl_of(&r.effect.kind)));
    expiries.extend(cx.ttl_lengths(renewal.function, ttl_of(&renewal.effect.kind)));
    expiries.extend(cx.ttl_lengths(lock.taken.function, ttl_of(&lock.taken.effect.kind)));
    let mut best: Option<Pace> = None;
    for pause in cx.pauses(round) {
        let EffectKind::Sleep(value) = &pause.effect.kind else { continue };
        for period in cx.lengths(id, value, TimeUnit::Duration) {
            for ttl in &expiries {
                let Some(ratio) = period.ratio(ttl) else { continue };
                if best.as_ref().is_none_or(|b| b.ratio < ratio) {
                    let span = cx.divided(pause.via[0]).unwrap_or(pause.effect.span);
                    best = Some(Pace { span, ratio, fixed: period.fixed().zip(ttl.fixed()) });
                }
            }
        }
    }
    best
}

fn ttl_of(kind: &EffectKind) -> &Ttl {
    match kind {
        EffectKind::Renew(r) => &r.ttl,
        EffectKind::Expire(e) => &e.ttl,
        EffectKind::Acquire(a) => &a.ttl,
        _ => &Ttl::Unknown,
    }
}

fn finding(cx: &Context<'_>, lock: &Lock, renewal: &Use, pace: &Pace) -> Finding {
    // Where a lease or session is renewed, its id is the key of the renewal: the lock has a name.
    let key = match lock.acquire().map(|a| a.backend) {
        Some(Backend::Etcd | Backend::Consul) => cx.key(lock),
        _ => cx.show(renewal.function, crate::analysis::lock::key(&renewal.effect)),
    };
    let text = |ns: u128| format!("{:?}", std::time::Duration::from_nanos(ns as u64));
    let (severity, what) = if pace.ratio >= 0.999 {
        (Severity::Error, "the lease ends before it is renewed")
    } else if pace.ratio > 0.501 {
        (Severity::Warning, "one late renewal loses the lease")
    } else {
        (Severity::Note, "one failed renewal loses the lease")
    };
    let (message, lives, sleeps) = match pace.fixed {
        Some((period, ttl)) => (
            format!("`{key}` lives for {} and is renewed every {}: {what}", text(ttl), text(period)),
            format!("for {}", text(ttl)),
            format!("sleeps for {}", text(period)),
        ),
        None => {
            let share = match pace.ratio {
                r if r >= 0.999 => "the whole of its expiry",
                r if r > 0.501 => "more than half of its expiry",
                _ => "half of its expiry",
            };
            (
                format!("`{key}` is renewed after {share}: {what}"),
                "with its expiry".into(),
                format!("sleeps for {share}"),
            )
        }
    };
    let mut f = Finding::new(&RULE, pace.span, message).at_most(severity);
    f.confidence = cx.confidence(cx.certainty(renewal));
    f.caret = "the period of the renewal".into();
    f.label(cx.place(renewal), "renewed here");
    f.label(cx.place(&lock.taken), "taken here");
    f.help = "renew after a third of the expiry, so that one renewal may fail and be tried again".into();
    f.step(Actor::A, cx.place(&lock.taken), format!("takes `{key}` {lives}"));
    f.step(Actor::A, pace.span, format!("{sleeps}, and a little longer: the runtime is busy, the network slow"));
    f.step(Actor::Store, cx.place(&lock.taken), format!("the lease on `{key}` expires"));
    f.step(Actor::B, cx.place(&lock.taken), format!("acquires `{key}` while A still works"));
    f.lock = Some(cx.key(lock));
    f
}
