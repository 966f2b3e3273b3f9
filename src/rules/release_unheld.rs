//! `release-unheld`: a release without owner check on a path where the acquire failed or was lost.

use super::{check_then_del, unchecked_acquire};
use crate::analysis::lock::Decision;
use crate::analysis::summary::{Relation, Status};
use crate::finding::{Actor, Finding, Severity};
use crate::ir::{LockKind, OwnerCheck};
use crate::rule::{Context, Group, Rule};
use std::collections::BTreeSet;

/// The rule.
pub const RULE: Rule = Rule {
    id: "release-unheld",
    severity: Severity::Error,
    group: Group::Releasing,
    page: include_str!("../../rules/release-unheld.md"),
    check,
};

fn check(cx: &Context<'_>, findings: &mut Vec<Finding>) {
    let unchecked = unchecked_acquire::found(cx);
    let mut done = BTreeSet::new();
    for (release, status, lock) in unheld(cx) {
        if !unchecked.contains_key(&lock) && done.insert(release) {
            findings.push(finding(cx, release, status, lock));
        }
    }
}

/// Releases that get a finding of this rule.
pub fn flagged(cx: &Context<'_>) -> BTreeSet<usize> {
    let unchecked = unchecked_acquire::found(cx);
    unheld(cx).into_iter().filter(|(_, _, lock)| !unchecked.contains_key(lock)).map(|(release, ..)| release).collect()
}

/// Releases that run although the lock is not held: release, world, lock.
fn unheld(cx: &Context<'_>) -> Vec<(usize, Status, usize)> {
    let log = cx.analyzer.log.borrow();
    let mut out: Vec<(usize, Status, usize)> = log
        .releases
        .iter()
        .filter(|seen| {
            matches!(seen.status, Status::Lost | Status::Failed)
                && seen.proven
                && seen.relation == Relation::Must
                && seen.freed.release.check == OwnerCheck::None
                && seen.freed.release.kind == LockKind::Lease
                && cx.judged(seen.function)
        })
        .filter_map(|seen| {
            let release = cx.locks.release_of(&seen.freed.via, seen.freed.origin.effect)?;
            let lock = cx.locks.of(&seen.lock.via, seen.lock.origin.effect)?;
            // What is found there is looked at first: the fault is that it may have changed since.
            let looked = check_then_del::client_check(cx, &cx.locks.releases[release]).is_some();
            let sure = cx.locks.locks[lock].decision == Decision::Lock && !looked && !tried_again(cx, release, lock);
            sure.then_some((release, seen.status, lock))
        })
        .collect();
    // `lost` is the more telling world: an ordinary contention, no error needed.
    out.sort();
    out
}

/// What is given back may have been won by another try in the same function.
fn tried_again(cx: &Context<'_>, release: usize, lock: usize) -> bool {
    let first = &cx.locks.locks[lock];
    cx.locks.locks.iter().enumerate().any(|(other, second)| {
        other != lock && second.taken.function == first.taken.function && second.releases.contains_key(&release)
    })
}

fn finding(cx: &Context<'_>, release: usize, status: Status, lock: usize) -> Finding {
    let (release, lock) = (&cx.locks.releases[release], &cx.locks.locks[lock]);
    let key = cx.show(release.function, crate::analysis::lock::key(&release.effect));
    let span = cx.place(release);
    let taken = cx.place(&lock.taken);
    let why = if status == Status::Lost { "somebody else holds it" } else { "the acquire failed" };
    let mut f = Finding::new(&RULE, span, format!("`{key}` is deleted on a path where it was not acquired: {why}"));
    f.confidence = cx.confidence(cx.certainty(release));
    f.caret = "runs although the lock is not held".into();
    f.labels = cx.through(release, "the command");
    f.label(taken, "tried here");
    f.help = "release only where the acquire succeeded, and compare the owner in the same step".into();
    f.step(Actor::B, taken, format!("holds `{key}`"));
    let tried = if status == Status::Lost {
        "tries to acquire it and is told no"
    } else {
        "tries to acquire it and gets an error"
    };
    f.step(Actor::A, taken, tried);
    f.step(Actor::A, span, "deletes the key all the same: the lock of B is gone");
    f.lock = Some(cx.key(lock));
    f
}
