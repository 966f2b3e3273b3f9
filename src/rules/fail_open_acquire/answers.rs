//! Helpers that answer "acquired" though the store could not be asked, and sections entered because there was nothing to
//! ask it with.

use std::collections::BTreeSet;

use super::{Entry, lease};
use crate::analysis::slice::Slice;
use crate::analysis::summary::{Held, Key, Outcome, Status};
use crate::ir::{Exit, FunctionId, Guard, OpKind, Operand, Pattern, Shape};
use crate::rule::Context;
use crate::rule::work::Work;
use crate::source::Span;

/// All such arms.
pub(super) fn found(cx: &Context<'_>) -> Vec<(Span, Entry)> {
    let mut functions: BTreeSet<FunctionId> = BTreeSet::new();
    for left in &cx.analyzer.log.borrow().leavings {
        if lease(cx, &left.lock).is_some() && cx.judged(left.function) {
            functions.insert(left.function);
        }
    }
    let mut out = Vec::new();
    for function in functions {
        out.extend(answers(cx, function));
        out.extend(untried(cx, function));
    }
    out
}

/// Answers of a helper that say "yours" after a failure, or without having tried.
fn answers(cx: &Context<'_>, function: FunctionId) -> Vec<(Span, Entry)> {
    let summary = cx.analyzer.summary(Key { function, known: Vec::new() });
    let world = |o: &Outcome, status: Status| match o.acquired.as_slice() {
        [(held, s, _)] if *s == status && o.exit == Exit::Return => lease(cx, held).map(|lock| (lock, held.clone())),
        _ => None,
    };
    let mut out = Vec::new();
    for won in &summary.outcomes {
        let Some((lock, held)) = world(won, Status::Held).filter(|_| won.proven && affirms(&won.ret)) else { continue };
        let lost: Vec<&Outcome> = summary.outcomes.iter().filter(|o| world(o, Status::Lost).is_some()).collect();
        if summary.incomplete || lost.is_empty() || lost.iter().any(|o| o.ret == won.ret || !o.proven) {
            continue;
        }
        for o in summary.outcomes.iter().filter(|o| o.ret == won.ret && o.proven && o.exit == Exit::Return) {
            let failed = world(o, Status::Failed).is_some();
            let untried = o.acquired.is_empty() && o.freed.is_empty() && won.ret != Shape::Unit.ok();
            if let Some(arm) = o.arm
                && (failed || untried && store_missing(cx, function, arm))
                && quiet(cx, function, arm)
            {
                out.push((
                    arm,
                    Entry {
                        lock,
                        function,
                        held: held.clone(),
                        section: None,
                        sure: true,
                        error: failed || !only_missing(cx, function, arm),
                    },
                ));
            }
        }
    }
    out
}

/// An answer that says "acquired".
fn affirms(shape: &Shape) -> bool {
    match shape {
        Shape::Bool(true) | Shape::Variant(..) => true,
        Shape::Ok(x) => **x == Shape::Unit || affirms(x),
        _ => false,
    }
}

/// Arms that find no lock object or connection, and make the calls that the lock guards elsewhere in the function.
fn untried(cx: &Context<'_>, function: FunctionId) -> Vec<(Span, Entry)> {
    let log = cx.analyzer.log.borrow();
    let f = cx.program.function(function);
    let ways: Vec<_> =
        log.went.iter().filter(|w| w.function == function).filter_map(|w| Some((lease(cx, &w.lock)?, w))).collect();
    let of = |held: &Held, status: Status| -> Vec<Work> {
        let own = ways.iter().filter(|(_, w)| w.status == status && w.lock.via == held.via);
        own.flat_map(|(_, w)| cx.work_in(function, w.block, held)).collect()
    };
    let mut out: Vec<(Span, Entry)> = Vec::new();
    let mut done = BTreeSet::new();
    for (lock, way) in &ways {
        if !done.insert(way.lock.via.clone()) {
            continue;
        }
        let held = &way.lock;
        let (guarded, lost) = (of(held, Status::Held), of(held, Status::Lost));
        if guarded.is_empty() {
            continue;
        }
        for (_, block, arm) in log.untried.iter().filter(|(id, ..)| *id == function) {
            let Some(missing) = missing(cx, function, held, *arm) else { continue };
            let same = |list: &[Work], work: &Work| list.iter().any(|w| w.what == work.what);
            let again = cx.work_in(function, *block, held);
            // Without an arm of its own the lock is optional by design, as far as can be seen.
            let own = missing.said || !guarded.iter().any(|w| w.at.block == *block);
            if let Some(work) = again.iter().find(|w| same(&guarded, w) && !same(&lost, w)).filter(|_| own) {
                let section = Some(f.op(work.at).span);
                let sure = work.known && missing.error;
                out.push((
                    *arm,
                    Entry { lock: *lock, function, held: held.clone(), section, sure, error: missing.error },
                ));
            }
        }
    }
    out
}

/// What an arm found missing.
struct Missing {
    /// An error, not just `None`.
    error: bool,
    /// The arm names it, and is not only what is left.
    said: bool,
}

/// What the arm found missing, if the acquiring call is made with it.
fn missing(cx: &Context<'_>, function: FunctionId, held: &Held, arm: Span) -> Option<Missing> {
    let f = cx.program.function(function);
    let site = held.via[0];
    let OpKind::Call(call) = &f.op(site.at).kind else { return None };
    let slice = Slice::of(f);
    let needs: BTreeSet<_> = call.args.iter().flat_map(|x| slice.sources(x)).collect();
    let block = f.blocks.iter().find(|b| b.edges.iter().any(|e| e.span == arm))?;
    let edge = block.edges.iter().find(|e| e.span == arm)?;
    let tested = block.edges.iter().find_map(|e| crate::analysis::flow_tested(&e.guard))?;
    let named = |guard: &Guard, wanted: &[&str]| match guard {
        Guard::Matches(_, Pattern::Variant(path, ..) | Pattern::Path(path)) => {
            wanted.contains(&crate::analysis::shapes_last(path))
        }
        _ => false,
    };
    let error = block.edges.iter().any(|e| named(&e.guard, &["Ok", "Err"]));
    // What is missing is the lock object itself: without a key, say, there is nothing to lock.
    let ty = cx.program.receiver(function, tested);
    let owners = held.via.iter().filter_map(|site| cx.program.function(site.function).owner.as_deref());
    let leads = owners.into_iter().any(|owner| owner == ty.success().path || owner == ty.path)
        && matches!(tested, Operand::Var(var, _) if needs.contains(var));
    leads.then_some(Missing { error, said: !matches!(edge.guard, Guard::Always) })
}

/// Whether the arm is taken where something is `None`: not configured, which is no event.
fn only_missing(cx: &Context<'_>, function: FunctionId, arm: Span) -> bool {
    let blocks = &cx.program.function(function).blocks;
    let block = blocks.iter().find(|b| b.edges.iter().any(|e| e.span == arm));
    block.is_some_and(|b| {
        b.edges.iter().any(|e| match &e.guard {
            Guard::Matches(_, Pattern::Variant(path, ..) | Pattern::Path(path)) => {
                matches!(crate::analysis::shapes_last(path), "Some" | "None")
            }
            _ => false,
        })
    })
}

/// Whether what the arm found missing can be a store: text, numbers and times are keys, tokens and limits.
fn store_missing(cx: &Context<'_>, function: FunctionId, arm: Span) -> bool {
    const PLAIN: &[&str] = &["String", "str", "Uuid", "Duration", "Vec", "bool", "char", "[]", "Value"];
    let blocks = &cx.program.function(function).blocks;
    let block = blocks.iter().find(|b| b.edges.iter().any(|e| e.span == arm));
    let tested = block.and_then(|b| b.edges.iter().find_map(|e| crate::analysis::flow_tested(&e.guard)));
    let Some(tested) = tested else { return false };
    let ty = cx.program.receiver(function, tested);
    let number = ty.last().starts_with(['i', 'u', 'f']) && ty.last()[1..].chars().all(|c| c.is_ascii_digit());
    !PLAIN.contains(&ty.last()) && !number && (!ty.is_unknown() || !only_missing(cx, function, arm))
}

/// Nothing but logging happens behind the arm: no other lock or store is asked instead.
fn quiet(cx: &Context<'_>, function: FunctionId, arm: Span) -> bool {
    let f = cx.program.function(function);
    let log = cx.analyzer.log.borrow();
    let failed = log.went.iter().filter(|w| w.function == function && w.status == Status::Failed && w.arm == Some(arm));
    let untried = log.untried.iter().filter(|(id, _, a)| *id == function && *a == arm);
    let mut blocks = failed.map(|w| w.block).chain(untried.map(|(_, block, _)| *block));
    !blocks.any(|block| {
        f.block(block).ops.iter().any(|op| match &op.kind {
            OpKind::Call(call) => {
                call.effect.is_some() || call.targets.iter().any(|t| cx.program.function(*t).is_async)
            }
            _ => false,
        })
    })
}
