//! `bare-renew`: the expiry of a lease is moved forward without comparing the owner in the same step.

use super::setnx_expire;
use crate::analysis::lock::{Decision, Lock, Pairing, Use};
use crate::analysis::summary::Origin;
use crate::finding::{Actor, Confidence, Finding, Severity};
use crate::ir::{Backend, EffectKind, OwnerCheck, Ttl};
use crate::rule::{Context, Group, Rule, advice};
use std::collections::BTreeSet;

/// The rule.
pub const RULE: Rule = Rule {
    id: "bare-renew",
    severity: Severity::Error,
    group: Group::Keeping,
    page: include_str!("../../rules/bare-renew.md"),
    check,
};

fn check(cx: &Context<'_>, findings: &mut Vec<Finding>) {
    let first_expiries = first_expiries(cx);
    for (index, renewal) in cx.locks.prolongs.iter().enumerate() {
        let bare = match &renewal.effect.kind {
            EffectKind::Expire(e) => e.ttl != Ttl::Never && !e.only_if_none,
            EffectKind::Renew(r) => r.check == OwnerCheck::None,
            _ => false,
        };
        if !bare || first_expiries.contains(&renewal.origin()) || cx.watched(renewal) {
            continue;
        }
        let owner = cx.locks.locks.iter().find_map(|lock| {
            let how = lock.prolongs.get(&index)?;
            (lock.decision == Decision::Lock).then_some((lock, *how))
        });
        if let Some((lock, how)) = owner {
            findings.push(finding(cx, renewal, lock, how));
        }
    }
}

/// The expiries that give a lock its first one.
pub(super) fn first_expiries(cx: &Context<'_>) -> BTreeSet<Origin> {
    let endless = |lock: &Lock| lock.acquire().is_some_and(|a| a.ttl == Ttl::Never);
    let locks = cx.locks.locks.iter().enumerate().filter(|(_, lock)| endless(lock));
    locks.filter_map(|(index, _)| setnx_expire::first_expiry(cx, index)).map(|o| o.origin).collect()
}

fn finding(cx: &Context<'_>, renewal: &Use, lock: &Lock, how: Pairing) -> Finding {
    let key = cx.show(renewal.function, crate::analysis::lock::key(&renewal.effect));
    let span = cx.place(renewal);
    let taken = cx.place(&lock.taken);
    let command = &renewal.effect.command;
    let mut f = Finding::new(
        &RULE,
        span,
        format!(
            "{command} prolongs the lock `{key}` without comparing its owner: after an expiry it prolongs the next holder's lock, and A works on"
        ),
    );
    f.confidence = cx.confidence(cx.certainty(renewal));
    if how == Pairing::Module {
        f.confidence = f.confidence.min(Confidence::Medium);
    }
    f.caret = "prolongs whoever's lock this is".into();
    f.labels = cx.through(renewal, "the command");
    f.label(taken, "the lock is taken here");
    let backend = lock.acquire().map_or(Backend::Redis, |a| a.backend);
    f.help = advice::checked_renewal(backend, &key);
    f.witness = cx.expiry_story(lock);
    f.step(
        Actor::A,
        span,
        "wakes up and prolongs the lock of B: the answer says yes, and A goes on as if it were the holder",
    );
    f.lock = Some(cx.key(lock));
    f
}
