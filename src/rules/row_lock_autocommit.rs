//! `row-lock-autocommit`: rows locked by a statement that is a transaction of its own, and changed by a later one.

use crate::analysis::database::{self, Run};
use crate::analysis::lock::Lock;
use crate::analysis::slice::Slice;
use crate::finding::{Actor, Finding, Severity};
use crate::ir::{
    Effect, EffectKind, FunctionId, HandleKind, LockKind, OpKind, Operand, Resource, Rvalue, Safety, Site,
};
use crate::protocol::sql;
use crate::rule::{Context, Group, Rule};
use crate::source::Span;

/// The rule.
pub const RULE: Rule = Rule {
    id: "row-lock-autocommit",
    severity: Severity::Error,
    group: Group::Database,
    page: include_str!("../../rules/row-lock-autocommit.md"),
    check,
};

/// Callers of one helper that are shown.
const MAX_CALLERS: usize = 8;

fn check(cx: &Context<'_>, findings: &mut Vec<Finding>) {
    for lock in &cx.locks.locks {
        let row = lock.acquire().is_some_and(|a| a.kind == LockKind::Row);
        // Which paths lock is not known here: those on a pool may be the others.
        if !row || lock.taken.effect.conditional || !cx.judged(lock.taken.function) {
            continue;
        }
        let Some(trip) = database::trip(cx.analyzer, lock.taken.origin().site) else { continue };
        let whole = trip.effects.iter().any(|e| matches!(e.kind, EffectKind::Begin) || database::changes_rows(e));
        if whole {
            continue;
        }
        let via = &lock.taken.id.0;
        let shared = || {
            let in_one = |run: &Run| run.handle.kind == HandleKind::Transaction;
            database::runs(cx.analyzer, via, in_one).iter().any(|run| run.via.len() > 1)
        };
        let mut list: Vec<(Run, Work)> = Vec::new();
        for run in database::runs(cx.analyzer, via, |run| database::autocommits(cx.analyzer, run)) {
            let Some(work) = dependent_work(cx, lock, run.site(), 2) else { continue };
            // A helper that locks for those who call it in a transaction only looks for the others.
            if run.via.len() > 1 && !work.from_rows && shared() {
                continue;
            }
            list.push((run, work));
        }
        list.sort_by_key(|(run, work)| (cx.op_span(run.site()), work.span));
        list.dedup_by_key(|(run, _)| run.site());
        findings.extend(finding(cx, lock, &list));
    }
}

/// A write to the locked table that comes after the lock.
#[derive(Clone, Copy, Debug)]
struct Work {
    /// Where.
    span: Span,
    /// It is given what the locking statement has read.
    from_rows: bool,
}

/// A later write to the locked table in the function, or in one that calls it.
fn dependent_work(cx: &Context<'_>, lock: &Lock, site: Site, levels: u32) -> Option<Work> {
    let table = lock.acquire().and_then(|a| sql::table_of(&a.key))?;
    let f = cx.program.function(site.function);
    let slice = Slice::of(f);
    let below = |targets: &[FunctionId]| {
        let found = |t: &FunctionId| cx.analyzer.reached(*t).iter().find(|r| writes(&r.effect, table)).cloned();
        targets.iter().find_map(found).map(|r| r.effect.span)
    };
    // Each call by itself: what the whole function reaches may be too long a list to be complete.
    let rows = f.op(site.at).dst;
    let given = |list: &[Operand]| list.iter().any(|x| rows.is_some_and(|rows| slice.sources(x).contains(&rows)));
    let later = f.ops().filter(|(at, _)| slice.reaches(site.at, *at)).find_map(|(_, op)| match &op.kind {
        OpKind::Call(call) => {
            let span = match &call.effect {
                Some(trip) => trip.effects.iter().find(|e| writes(e, table)).map(|e| e.span),
                None => below(&call.targets),
            };
            span.map(|span| Work { span, from_rows: given(&call.args) })
        }
        OpKind::Let(Rvalue::Closure(inner, list)) => below(&[*inner]).map(|span| Work { span, from_rows: given(list) }),
        _ => None,
    });
    if later.is_some() {
        return later;
    }
    if levels == 0 {
        return None;
    }
    let callers = cx.program.callers(site.function).iter().take(16);
    callers.filter(|caller| cx.judged(caller.function)).find_map(|caller| dependent_work(cx, lock, *caller, levels - 1))
}

/// Whether the effect changes rows of the table. One that adds a row, or is refused if there is one, changes none.
fn writes(effect: &Effect, table: &str) -> bool {
    let key = match &effect.kind {
        EffectKind::Write(w) if w.safety == Safety::Unique => return false,
        EffectKind::Write(w) => return matches!(&w.resource, Resource::Table(name) if name == table),
        EffectKind::Acquire(a) if a.kind == LockKind::LeaseRow => &a.key,
        EffectKind::Release(x) if x.kind == LockKind::LeaseRow => &x.key,
        EffectKind::Renew(x) => &x.key,
        EffectKind::Expire(x) => &x.key,
        _ => return false,
    };
    sql::table_of(key) == Some(table)
}

/// One finding for one locking statement: at the call that gives it the pool or, where several do, at the statement.
fn finding(cx: &Context<'_>, lock: &Lock, list: &[(Run, Work)]) -> Option<Finding> {
    let (run, work) = list.first()?;
    let work = work.span;
    let own = run.via.len() == 1;
    let span = if own || list.len() > 1 { lock.taken.effect.span } else { cx.op_span(run.site()) };
    let command = &lock.taken.effect.command;
    let on = if run.handle.kind == HandleKind::Pool { "on the pool" } else { "on a connection without BEGIN" };
    let mut f = Finding::new(
        &RULE,
        span,
        format!(
            "{command} runs {on}: the rows are unlocked again when this statement ends, before the write that relies on them"
        ),
    );
    f.confidence = cx.confidence(cx.certainty(&lock.taken));
    f.caret = "locked and unlocked here".into();
    f.label(lock.taken.effect.span, "the command");
    if list.len() > 1 {
        for (run, _) in list.iter().take(MAX_CALLERS) {
            f.label(cx.op_span(run.site()), "called without a transaction");
        }
    }
    f.label(work, "written without the lock");
    f.help = "begin a transaction and run both statements on it, or read and write in one statement".into();
    f.step(Actor::A, span, format!("reads the rows {command}"));
    f.step(Actor::Store, span, "commits the statement: the rows are unlocked");
    f.step(Actor::B, span, "reads and locks the same rows");
    f.step(Actor::A, work, "writes what it computed from its read");
    f.step(Actor::B, work, "overwrites it with what it computed from the same read");
    Some(f)
}
