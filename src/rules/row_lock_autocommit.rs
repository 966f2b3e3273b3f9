//! `row-lock-autocommit`: rows locked by a statement that is a transaction of its own, and changed by a later one.

use crate::analysis::database::{self, Run};
use crate::analysis::lock::Lock;
use crate::analysis::slice::Slice;
use crate::finding::{Actor, Finding, Severity};
use crate::ir::{EffectKind, HandleKind, LockKind, Resource, Site};
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

fn check(cx: &Context<'_>, findings: &mut Vec<Finding>) {
    for lock in &cx.locks.locks {
        let row = lock.acquire().is_some_and(|a| a.kind == LockKind::Row);
        if !row || !cx.judged(lock.taken.function) {
            continue;
        }
        let Some(trip) = database::trip(cx.analyzer, lock.taken.origin().site) else { continue };
        let whole = trip.effects.iter().any(|e| matches!(e.kind, EffectKind::Begin) || database::changes_rows(e));
        if whole {
            continue;
        }
        for run in database::runs(cx.analyzer, &lock.taken.id.0, |run| database::autocommits(cx.analyzer, run)) {
            if let Some(work) = dependent_work(cx, lock, run.site(), 2) {
                findings.push(finding(cx, lock, &run, work));
            }
        }
    }
}

/// A later write to the locked table in the function, or in one that calls it.
fn dependent_work(cx: &Context<'_>, lock: &Lock, site: Site, levels: u32) -> Option<Span> {
    let table = lock.acquire().and_then(|a| sql::table_of(&a.key))?;
    let slice = Slice::of(cx.program.function(site.function));
    let reached = cx.analyzer.reached(site.function);
    let later = reached.iter().find(|r| {
        let same = match &r.effect.kind {
            EffectKind::Write(w) => matches!(&w.resource, Resource::Table(name) if name == table),
            kind if database::changes_rows(&r.effect) => {
                let key = match kind {
                    EffectKind::Acquire(a) => Some(&a.key),
                    EffectKind::Release(x) => Some(&x.key),
                    EffectKind::Renew(x) => Some(&x.key),
                    EffectKind::Expire(x) => Some(&x.key),
                    _ => None,
                };
                key.and_then(sql::table_of) == Some(table)
            }
            _ => false,
        };
        same && slice.reaches(site.at, r.via[0].at)
    });
    if let Some(write) = later {
        return Some(write.effect.span);
    }
    if levels == 0 {
        return None;
    }
    let callers = cx.program.callers(site.function).iter().take(16);
    callers.filter(|caller| cx.judged(caller.function)).find_map(|caller| dependent_work(cx, lock, *caller, levels - 1))
}

fn finding(cx: &Context<'_>, lock: &Lock, run: &Run, work: Span) -> Finding {
    let span = if run.via.len() == 1 { lock.taken.effect.span } else { cx.op_span(run.site()) };
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
    f.label(work, "written without the lock");
    f.help = "begin a transaction and run both statements on it, or read and write in one statement".into();
    f.step(Actor::A, span, format!("reads the rows {command}"));
    f.step(Actor::Store, span, "commits the statement: the rows are unlocked");
    f.step(Actor::B, span, "reads and locks the same rows");
    f.step(Actor::A, work, "writes what it computed from its read");
    f.step(Actor::B, work, "overwrites it with what it computed from the same read");
    f
}
