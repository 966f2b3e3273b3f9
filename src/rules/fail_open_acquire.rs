//! `fail-open-acquire`: an error on acquire counts as success.

use std::collections::{BTreeMap, BTreeSet};

use crate::analysis::lock::Decision;
use crate::analysis::summary::{Observation, Origin, Status};
use crate::finding::{Actor, Finding, Severity};
use crate::ir::{EffectKind, FunctionId, LockKind};
use crate::rule::{Context, Group, Rule};

/// The rule.
pub const RULE: Rule = Rule {
    id: "fail-open-acquire",
    severity: Severity::Error,
    group: Group::Taking,
    page: include_str!("../../rules/fail-open-acquire.md"),
    check,
};

fn check(cx: &Context<'_>, findings: &mut Vec<Finding>) {
    let log = cx.analyzer.log.borrow();
    let section = |o: &Observation| matches!(o.effect.kind, EffectKind::Write(_) | EffectKind::External(_));
    let mut guarded: BTreeMap<(usize, FunctionId), BTreeSet<Origin>> = BTreeMap::new();
    let mut open: BTreeMap<crate::source::Span, (usize, &Observation)> = BTreeMap::new();
    let lock_of = |o: &Observation| {
        let lock = cx.locks.of(&o.lock.via, o.lock.origin.effect)?;
        let l = &cx.locks.locks[lock];
        let lease = l.acquire().is_some_and(|a| matches!(a.kind, LockKind::Lease | LockKind::Session));
        (l.decision == Decision::Lock && lease && cx.judged(o.function)).then_some(lock)
    };
    for o in log.observations.iter().filter(|o| o.status == Status::Held && section(o)) {
        if let Some(lock) = lock_of(o) {
            guarded.entry((lock, o.function)).or_default().insert(o.origin);
        }
    }
    // What also runs when the lock is lost is no section.
    for o in log.observations.iter().filter(|o| o.status == Status::Lost && o.proven && section(o)) {
        if let Some(lock) = lock_of(o)
            && let Some(set) = guarded.get_mut(&(lock, o.function))
        {
            set.remove(&o.origin);
        }
    }
    for o in log.observations.iter().filter(|o| o.status == Status::Failed && o.proven && section(o)) {
        let Some(arm) = o.arm else { continue };
        let Some(lock) = lock_of(o) else { continue };
        if guarded.get(&(lock, o.function)).is_some_and(|set| set.contains(&o.origin)) {
            open.entry(arm).or_insert((lock, o));
        }
    }
    for (arm, (lock, o)) in open {
        let lock = &cx.locks.locks[lock];
        let key = cx.show(o.function, &o.lock.acquire.key);
        let taken = cx.op_span(o.lock.via[0]);
        let mut f = Finding::new(
            &RULE,
            arm,
            format!("when acquiring `{key}` fails with an error, control enters the section all the same"),
        );
        f.confidence = cx.confidence(o.lock.certainty);
        f.caret = "goes on without the lock".into();
        f.label(taken, "acquired here");
        f.label(o.effect.span, "the section");
        f.help = "treat an error as `not acquired`: return it, or skip this run and try again later".into();
        f.step(Actor::B, taken, format!("holds `{key}`"));
        f.step(Actor::A, taken, "tries to acquire it, and the store does not answer");
        f.step(Actor::A, arm, "goes on as if it held the lock");
        f.step(Actor::A, o.effect.span, "works beside B");
        f.lock = Some(cx.key(lock));
        findings.push(f);
    }
}
