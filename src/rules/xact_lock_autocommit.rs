//! `xact-lock-autocommit`: a transaction lock taken where each statement is a transaction, or before a COMMIT in the block.

use crate::analysis::database::{self, Run};
use crate::analysis::lock::Lock;
use crate::analysis::slice::Slice;
use crate::finding::{Actor, Finding, Severity};
use crate::ir::{EffectKind, FunctionKind, HandleKind, LockKind, OpRef, Site};
use crate::rule::{Context, Group, Rule};
use crate::source::Span;

/// The rule.
pub const RULE: Rule = Rule {
    id: "xact-lock-autocommit",
    severity: Severity::Error,
    group: Group::Database,
    page: include_str!("../../rules/xact-lock-autocommit.md"),
    check,
};

fn check(cx: &Context<'_>, findings: &mut Vec<Finding>) {
    for lock in &cx.locks.locks {
        let transaction = lock.acquire().is_some_and(|a| a.kind == LockKind::Transaction);
        if !transaction || !cx.judged(lock.taken.function) {
            continue;
        }
        let origin = lock.taken.origin().site;
        if cx.program.function(origin.function).kind == FunctionKind::SqlBody {
            if let Some((commit, work)) = work_after_commit(cx, origin) {
                findings.push(committed(cx, lock, commit, work));
            }
            continue;
        }
        let Some(trip) = database::trip(cx.analyzer, origin) else { continue };
        // One statement that locks and works, or several in one implicit transaction.
        let whole = trip.effects.iter().any(|e| matches!(e.kind, EffectKind::Begin) || database::changes_rows(e));
        if whole {
            continue;
        }
        for run in database::runs(cx.analyzer, &lock.taken.id.0, |run| database::autocommits(cx.analyzer, run)) {
            findings.push(gone(cx, lock, &run));
        }
    }
}

/// In a block that commits after taking the lock: the COMMIT, and the first write after it. A loop that takes the lock
/// again in each round is right.
fn work_after_commit(cx: &Context<'_>, taken: Site) -> Option<(Span, Span)> {
    let slice = Slice::of(cx.program.function(taken.function));
    let reached = cx.analyzer.reached(taken.function);
    let slice = &slice;
    let after = |from: OpRef| reached.iter().filter(move |r| r.via[0].at != from && slice.reaches(from, r.via[0].at));
    let locks = |kind: &EffectKind| matches!(kind, EffectKind::Acquire(a) if a.kind == LockKind::Transaction);
    for commit in after(taken.at).filter(|r| matches!(r.effect.kind, EffectKind::Commit)) {
        let at = commit.via[0].at;
        if slice.reaches(at, taken.at) || after(at).any(|r| locks(&r.effect.kind)) {
            return None;
        }
        if let Some(work) = after(at).find(|r| database::changes_rows(&r.effect)) {
            return Some((commit.effect.span, work.effect.span));
        }
    }
    None
}

fn gone(cx: &Context<'_>, lock: &Lock, run: &Run) -> Finding {
    let span = if run.via.len() == 1 { lock.taken.effect.span } else { cx.op_span(run.site()) };
    let command = &lock.taken.effect.command;
    let on = if run.handle.kind == HandleKind::Pool { "on the pool" } else { "on a connection without BEGIN" };
    let mut f = Finding::new(
        &RULE,
        span,
        format!("{command} runs {on}: its transaction is this one statement, and the lock ends with it"),
    );
    f.confidence = cx.confidence(cx.certainty(&lock.taken));
    f.caret = "locked and unlocked here".into();
    f.label(lock.taken.effect.span, "the command");
    f.help = "begin a transaction, and take the lock and do the work on it".into();
    f.step(Actor::A, span, format!("takes the lock by {command}"));
    f.step(Actor::Store, span, "commits the statement: the lock is gone");
    f.step(Actor::B, span, "takes the lock at once, while A works");
    f.lock = Some(cx.key(lock));
    f
}

fn committed(cx: &Context<'_>, lock: &Lock, commit: Span, work: Span) -> Finding {
    let span = cx.place(&lock.taken);
    let command = &lock.taken.effect.command;
    let mut f =
        Finding::new(&RULE, span, format!("{command} ends at the COMMIT in this block, and the work goes on after it"));
    f.confidence = cx.confidence(cx.certainty(&lock.taken));
    f.caret = "held up to the COMMIT".into();
    f.label(commit, "the lock ends here");
    f.label(work, "written without the lock");
    f.help = "take the lock again after each COMMIT, or a session lock that is released at the end".into();
    f.step(Actor::A, span, format!("takes the lock by {command}"));
    f.step(Actor::A, commit, "commits: the lock is gone");
    f.step(Actor::B, span, "takes the lock");
    f.step(Actor::A, work, "writes beside B");
    f.lock = Some(cx.key(lock));
    f
}
