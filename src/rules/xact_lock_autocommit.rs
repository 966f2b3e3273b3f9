//! `xact-lock-autocommit`: a transaction lock taken where each statement is a transaction, or before a COMMIT in the block.

use std::collections::BTreeSet;

use crate::analysis::database::{self, Run};
use crate::analysis::lock::Lock;
use crate::finding::{Actor, Finding, Severity};
use crate::ir::{BlockId, EffectKind, FunctionKind, HandleKind, LockKind, OpKind, OpRef, Site};
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
    let f = cx.program.function(taken.function);
    let has = |at: OpRef, pick: &dyn Fn(&EffectKind) -> bool| match &f.op(at).kind {
        OpKind::Call(call) => {
            call.effect.as_ref().and_then(|t| t.effects.iter().find(|e| pick(&e.kind)).map(|e| e.span))
        }
        _ => None,
    };
    // Ops after a place in their order, up to where control came from.
    let after = |from: OpRef| {
        let mut seen: BTreeSet<BlockId> = BTreeSet::new();
        let rest = |block: BlockId, start: u32| {
            (start..f.block(block).ops.len() as u32).map(move |index| OpRef { block, index })
        };
        let mut out: Vec<OpRef> = rest(from.block, from.index + 1).collect();
        let mut work: Vec<BlockId> = f.block(from.block).edges.iter().map(|e| e.to).collect();
        while let Some(block) = work.pop() {
            if seen.insert(block) {
                out.extend(rest(block, 0));
                work.extend(f.block(block).edges.iter().map(|e| e.to));
            }
        }
        out
    };
    for commit in after(taken.at) {
        let Some(span) = has(commit, &|kind| matches!(kind, EffectKind::Commit)) else { continue };
        let later = after(commit);
        if later.contains(&taken.at) {
            return None;
        }
        let retaken = later.iter().any(|at| {
            has(*at, &|kind| matches!(kind, EffectKind::Acquire(a) if a.kind == LockKind::Transaction)).is_some()
        });
        if retaken {
            return None;
        }
        let work = later.iter().find_map(|at| has(*at, &|kind| matches!(kind, EffectKind::Write(_))));
        if let Some(work) = work {
            return Some((span, work));
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
