//! `split-lock`: when one store cannot be asked, the section runs under a lock of another one.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::rc::Rc;

use crate::analysis::database;
use crate::analysis::lock::Decision;
use crate::analysis::summary::{Held, Origin, Status, Went};
use crate::finding::{Actor, Finding, Severity};
use crate::ir::{Backend, BlockId, EffectKind, FunctionId, LockKind, Value};
use crate::rule::work::What;
use crate::rule::{Context, Group, Rule};
use crate::source::Span;

/// The rule.
pub const RULE: Rule = Rule {
    id: "split-lock",
    severity: Severity::Warning,
    group: Group::Taking,
    page: include_str!("../../rules/split-lock.md"),
    check,
};

fn check(cx: &Context<'_>, findings: &mut Vec<Finding>) {
    findings.extend(found(cx).into_values().map(|(f, _)| f));
}

/// Findings by arm, each with the lock that fails and the function that falls back to another one.
pub fn found(cx: &Context<'_>) -> BTreeMap<Span, (Finding, (usize, FunctionId))> {
    let mut ways: BTreeMap<FunctionId, Vec<(usize, Went)>> = BTreeMap::new();
    // A search comes to a block once for each state; what counts here is the same for most of them.
    let mut seen = HashSet::new();
    for went in &cx.analyzer.log.borrow().went {
        let way = (went.function, Rc::as_ptr(&went.lock), went.status, went.block, went.arm, went.other, went.proven);
        if seen.insert(way)
            && cx.judged(went.function)
            && let Some(lock) = section_lock(cx, &went.lock)
        {
            ways.entry(went.function).or_default().push((lock, went.clone()));
        }
    }
    let mut by_arm: BTreeMap<Span, (Finding, (usize, FunctionId))> = BTreeMap::new();
    for (function, ways) in ways {
        // Ways are many, locks and blocks few: what is the same for several ways is looked at once.
        let mut held: BTreeMap<BlockId, BTreeMap<(usize, BlockId), &Went>> = BTreeMap::new();
        let mut failing: BTreeMap<(usize, BlockId), &Went> = BTreeMap::new();
        for (lock, way) in &ways {
            match way.status {
                Status::Held => {
                    let taken = way.lock.via[0].at.block;
                    held.entry(way.block).or_default().entry((*lock, taken)).or_insert(way);
                }
                Status::Failed if way.other && way.proven => {
                    failing.entry((*lock, way.block)).or_insert(way);
                }
                _ => {}
            }
        }
        // The arm that led to where a lock is taken with another one failed.
        let mut arms: BTreeMap<(usize, BlockId), Span> = BTreeMap::new();
        for (lock, way) in ways.iter().filter(|(_, w)| w.status == Status::Failed) {
            if let Some(span) = way.arm {
                arms.entry((*lock, way.block)).and_modify(|known| *known = span.min(*known)).or_insert(span);
            }
        }
        let done = Done::of(cx, function);
        let passed = Passed::of(&ways);
        let mut asked: BTreeMap<(usize, usize), Option<Span>> = BTreeMap::new();
        for ((first, block), failed) in &failing {
            let there = held.get(block).into_iter().flatten();
            for ((second, taken), other) in there.filter(|((lock, _), _)| lock != first) {
                let Some(&arm) = arms.get(&(*first, *taken)) else { continue };
                if by_arm.contains_key(&arm) {
                    continue;
                }
                let section = *asked.entry((*first, *second)).or_insert_with(|| {
                    let apart = two_stores(cx, &failed.lock, &other.lock);
                    if apart { section(cx, &passed, &done, (*first, failed), (*second, other)) } else { None }
                });
                if let Some(section) = section {
                    by_arm.insert(arm, (finding(cx, arm, failed, *second, other, section), (*first, function)));
                }
            }
        }
    }
    by_arm
}

/// The lock, if it is one under which a section runs: rows of a statement are not.
fn section_lock(cx: &Context<'_>, held: &Held) -> Option<usize> {
    let lock = cx.locks.of(&held.via, held.origin.effect)?;
    let l = &cx.locks.locks[lock];
    let kind = |k| matches!(k, LockKind::Lease | LockKind::Session | LockKind::Transaction);
    (l.decision == Decision::Lock && l.acquire().is_some_and(|a| kind(a.kind))).then_some(lock)
}

/// Whether two locks live in stores of which one can be away while the other is there.
fn two_stores(cx: &Context<'_>, a: &Held, b: &Held) -> bool {
    let (x, y) = (a.acquire.backend, b.acquire.backend);
    let sql = |b| matches!(b, Backend::Postgres | Backend::MySql | Backend::SqlServer | Backend::Sql);
    if x != y {
        return !(sql(x) && sql(y));
    }
    let on = |held: &Held| {
        let trip = database::trip(cx.analyzer, held.via[0])?;
        let known = !matches!(trip.handle.identity, Value::Unknown | Value::Join(_));
        known.then(|| trip.handle.identity.clone())
    };
    x == Backend::Redis
        && a.via.len() == 1
        && b.via.len() == 1
        && matches!((on(a), on(b)), (Some(a), Some(b)) if a != b)
}

/// Effects seen in one function, by the acquisition and its world.
struct Done(BTreeMap<(usize, Status), BTreeMap<Origin, Span>>);

impl Done {
    fn of(cx: &Context<'_>, function: FunctionId) -> Done {
        let mut done: BTreeMap<(usize, Status), BTreeMap<Origin, Span>> = BTreeMap::new();
        for o in cx.analyzer.log.borrow().observations.iter().filter(|o| o.function == function) {
            if matches!(o.effect.kind, EffectKind::Write(_) | EffectKind::External(_))
                && let Some(lock) = section_lock(cx, &o.lock)
            {
                done.entry((lock, o.status)).or_default().insert(o.origin, o.effect.span);
            }
        }
        Done(done)
    }

    fn under(&self, lock: usize, status: Status) -> BTreeMap<Origin, Span> {
        self.0.get(&(lock, status)).cloned().unwrap_or_default()
    }
}

/// The blocks that each lock passes in each world, alone or beside another one.
struct Passed(BTreeMap<(usize, Status, bool), BTreeSet<BlockId>>);

impl Passed {
    fn of(ways: &[(usize, Went)]) -> Passed {
        let mut passed: BTreeMap<(usize, Status, bool), BTreeSet<BlockId>> = BTreeMap::new();
        for (lock, w) in ways {
            passed.entry((*lock, w.status, w.other)).or_default().insert(w.block);
        }
        Passed(passed)
    }

    fn blocks(&self, lock: usize, status: Status, other: bool) -> BTreeSet<BlockId> {
        self.0.get(&(lock, status, other)).cloned().unwrap_or_default()
    }
}

/// What runs under the first lock alone, and, where that failed, under the second.
fn section(
    cx: &Context<'_>,
    passed: &Passed,
    done: &Done,
    (first, failed): (usize, &Went),
    (second, other): (usize, &Went),
) -> Option<Span> {
    // Where the first is held together with another one, the second may be it, or one that all have in common.
    if !passed.blocks(first, Status::Held, true).is_empty() {
        return None;
    }
    let own = done.under(first, Status::Held);
    let fallback = done.under(first, Status::Failed);
    let there = done.under(second, Status::Held);
    if let Some((_, span)) = own.iter().find(|(o, _)| fallback.contains_key(o) && there.contains_key(o)) {
        return Some(*span);
    }
    let f = failed.function;
    let alone = passed.blocks(first, Status::Held, false);
    let guarded: Vec<What> = alone.iter().flat_map(|b| cx.work_in(f, *b, &failed.lock)).map(|work| work.what).collect();
    let both = passed.blocks(first, Status::Failed, true);
    let both = both.intersection(&passed.blocks(second, Status::Held, false)).copied().collect::<Vec<_>>();
    let mut again = both.into_iter().flat_map(|b| cx.work_in(f, b, &other.lock));
    let again = again.find(|work| guarded.contains(&work.what))?;
    Some(cx.program.function(f).op(again.at).span)
}

fn finding(cx: &Context<'_>, arm: Span, failed: &Went, second: usize, other: &Went, section: Span) -> Finding {
    let (one, two) = (&failed.lock, &other.lock);
    let key = cx.show(failed.function, &one.acquire.key);
    let command = |held: &Held| cx.origin_command(held.origin);
    let (first, fallback) = (cx.op_span(one.via[0]), cx.op_span(two.via[0]));
    let mut f = Finding::new(
        &RULE,
        arm,
        format!(
            "when {} of `{key}` fails, the section runs under {} instead: who reaches the first store and who does not hold different locks",
            command(one),
            command(two)
        ),
    );
    f.confidence = cx.confidence(one.certainty.min(two.certainty));
    f.caret = "falls back to another lock".into();
    f.label(first, "the lock that is asked for first");
    f.label(fallback, "the lock that is taken instead");
    f.label(section, "the section");
    f.help =
        "treat a store that does not answer as `not acquired`, choose one store by configuration, or take both locks"
            .into();
    f.step(Actor::A, first, format!("reaches the store and holds `{key}`"));
    f.step(Actor::B, first, "does not reach it");
    f.step(Actor::B, fallback, "takes the other lock, which nobody holds");
    f.step(Actor::B, section, "works beside A");
    f.lock = Some(cx.key(&cx.locks.locks[second]));
    f
}
