//! `fail-open-acquire`: an error on acquire counts as success.

mod answers;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::analysis::behind_failure;
use crate::analysis::lock::Decision;
use crate::analysis::summary::{Held, Observation, Origin, Status, Went};
use crate::finding::{Actor, Confidence, Finding, Severity};
use crate::ir::{EffectKind, Exit, FunctionId, LockKind, Shape};
use crate::rule::work::{What, Work};
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
    let lock_of = |o: &Observation| lease(cx, &o.lock).filter(|_| cx.judged(o.function));
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
    let failed: Vec<(usize, &Observation)> = log
        .observations
        .iter()
        .filter(|o| o.status == Status::Failed && o.proven && section(o))
        .filter_map(|o| Some((lock_of(o)?, o)))
        .collect();
    let mut done: BTreeMap<(usize, FunctionId, crate::source::Span), BTreeSet<Origin>> = BTreeMap::new();
    for (lock, o) in &failed {
        if let Some(arm) = o.arm {
            done.entry((*lock, o.function, arm)).or_default().insert(o.origin);
        }
    }
    for (lock, o) in failed {
        let Some(arm) = o.arm else { continue };
        let Some(set) = guarded.get(&(lock, o.function)).filter(|set| set.contains(&o.origin)) else { continue };
        let begins = || cx.begins_section(lock, o.function, o.origin);
        let shared = done[&(lock, o.function, arm)].intersection(set).count();
        if 2 * shared > set.len() || begins() {
            open.entry(arm).or_insert((lock, o));
        }
    }
    let mut entered: BTreeMap<crate::source::Span, Entry> = BTreeMap::new();
    for (arm, (lock, o)) in open {
        let entry = Entry {
            lock,
            function: o.function,
            held: o.lock.clone(),
            section: Some(o.effect.span),
            sure: true,
            error: true,
        };
        entered.insert(arm, entry);
    }
    drop(log);
    for (arm, entry) in by_calls(cx).into_iter().chain(answers::found(cx)) {
        entered.entry(arm).or_insert(entry);
    }
    // Another lock is taken instead.
    let split: Vec<(usize, FunctionId)> = super::split_lock::found(cx).into_values().map(|(_, at)| at).collect();
    entered.retain(|_, entry| !split.contains(&(entry.lock, entry.function)));
    for (arm, entry) in entered {
        findings.push(finding(cx, arm, &entry));
    }
}

/// An arm that lets control go on without the lock.
struct Entry {
    lock: usize,
    function: FunctionId,
    held: Rc<Held>,
    /// What runs without it.
    section: Option<crate::source::Span>,
    /// What runs there is known to write.
    sure: bool,
    /// An error led there, not only a store that is not configured.
    error: bool,
}

fn finding(cx: &Context<'_>, arm: crate::source::Span, entry: &Entry) -> Finding {
    let key = cx.key_seen(&cx.locks.locks[entry.lock], entry.function, &entry.held);
    let taken = cx.op_span(entry.held.via[0]);
    let message = match entry.section {
        Some(_) => format!("when acquiring `{key}` fails with an error, control enters the section all the same"),
        None => format!("when the store cannot be asked for `{key}`, the answer is that it was acquired"),
    };
    let mut f = Finding::new(&RULE, arm, message);
    f.confidence = cx.confidence(entry.held.certainty);
    if !entry.sure {
        f.confidence = f.confidence.min(Confidence::Medium);
    }
    if !entry.error {
        f = f.at_most(Severity::Warning);
    }
    f.caret = "goes on without the lock".into();
    f.label(taken, "acquired here");
    if let Some(section) = entry.section {
        f.label(section, "the section");
    }
    f.help = "treat an error as `not acquired`: return it, or skip this run and try again later".into();
    f.step(Actor::B, taken, format!("holds `{key}`"));
    f.step(Actor::A, taken, "tries to acquire it, and the store does not answer");
    f.step(Actor::A, arm, "goes on as if it held the lock");
    f.step(Actor::A, entry.section.unwrap_or(arm), "works beside B");
    f.lock = Some(cx.key(&cx.locks.locks[entry.lock]));
    f
}

/// Arms behind a failed acquisition that make the very calls which the lock guards elsewhere in the function.
fn by_calls(cx: &Context<'_>) -> Vec<(crate::source::Span, Entry)> {
    let log = cx.analyzer.log.borrow();
    let mut scopes: BTreeMap<(usize, FunctionId), Vec<&Went>> = BTreeMap::new();
    for went in &log.went {
        if let Some(lock) = lease(cx, &went.lock)
            && cx.judged(went.function)
        {
            scopes.entry((lock, went.function)).or_default().push(went);
        }
    }
    let losers = super::unchecked_acquire::arm::found(cx);
    let mut out = Vec::new();
    for ((lock, function), ways) in scopes {
        let works = |status: Status| {
            let own = ways.iter().filter(move |w| w.status == status);
            own.flat_map(|w| cx.work_in(function, w.block, &w.lock).into_iter().map(move |work| (*w, work)))
        };
        let refuses = log.leavings.iter().filter(|l| l.function == function && l.status == Status::Failed);
        let refuses: Vec<bool> = refuses.map(|l| l.exit != Exit::Return || matches!(l.ret, Shape::Err(_))).collect();
        if !refuses.is_empty() && refuses.iter().all(|refuses| *refuses) {
            continue;
        }
        let guarded: Vec<Work> = works(Status::Held).map(|(_, work)| work).collect();
        if guarded.is_empty() {
            continue;
        }
        // An acquisition that nobody is seen to lose (a campaign that returns when leadership has ended) guards only what is
        // known to write, or has an arm of its own.
        let contested = ways.iter().any(|w| w.status == Status::Lost);
        // A loser that works too is a fault of its own: what it does is still the section.
        let fault = losers.contains_key(&(lock, function));
        let first = begins(cx, function, &guarded);
        let mut kinds: Vec<&What> = Vec::new();
        for work in &guarded {
            if !kinds.contains(&&work.what) {
                kinds.push(&work.what);
            }
        }
        let lost: Vec<Work> = if fault { Vec::new() } else { works(Status::Lost).map(|(_, work)| work).collect() };
        let failed: Vec<(&Went, Work)> = works(Status::Failed).collect();
        for (went, work) in &failed {
            let Some(arm) = went.arm.filter(|_| went.proven && !went.other) else { continue };
            let same = |list: &[Work]| list.iter().any(|w| w.what == work.what);
            let done = |what: &&&What| failed.iter().any(|(other, b)| other.arm == Some(arm) && b.what == ***what);
            let enters = first.as_ref() == Some(&work.what) || 2 * kinds.iter().filter(done).count() > kinds.len();
            let merged = guarded.iter().any(|w| w.at == work.at);
            if same(&guarded) && enters && !same(&lost) && (contested || work.known || !merged) {
                let section = cx.program.function(function).op(work.at).span;
                let entry = Entry {
                    lock,
                    function,
                    held: went.lock.clone(),
                    section: Some(section),
                    sure: work.known,
                    error: true,
                };
                out.push((arm, entry));
            }
        }
    }
    out
}

/// The first thing that is done under a lock, what is done only after a failure left out.
fn begins(cx: &Context<'_>, function: FunctionId, guarded: &[Work]) -> Option<What> {
    let f = cx.program.function(function);
    let late = behind_failure(f);
    let first = guarded.iter().min_by_key(|w| (late.contains(&w.at.block), f.op(w.at).span.start));
    first.map(|w| w.what.clone())
}

fn lease(cx: &Context<'_>, held: &Held) -> Option<usize> {
    let lock = cx.locks.of(&held.via, held.origin.effect)?;
    let l = &cx.locks.locks[lock];
    let lease = l.acquire().is_some_and(|a| matches!(a.kind, LockKind::Lease | LockKind::Session));
    (l.decision == Decision::Lock && lease).then_some(lock)
}
