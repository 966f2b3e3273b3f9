//! `leaked-lock`: a path from the success of an acquire to an exit that passes no release and hands no guard on.

use std::collections::{BTreeMap, BTreeSet};

mod cancelled;

use super::{setnx_expire, unchecked_acquire};
use crate::analysis::lock::Decision;
use crate::analysis::slice::Slice;
use crate::analysis::summary::{Held, Leaving, Status};
use crate::finding::{Actor, Confidence, Finding, Severity};
use crate::ir::{EffectKind, Exit, FunctionId, LockKind, OpKind, OpRef, Operand, Shape, Ttl, Use};
use crate::rule::{Context, Group, Rule};
use crate::source::Span;

/// The rule.
pub const RULE: Rule = Rule {
    id: "leaked-lock",
    severity: Severity::Error,
    group: Group::Releasing,
    page: include_str!("../../rules/leaked-lock.md"),
    check,
};

fn check(cx: &Context<'_>, findings: &mut Vec<Finding>) {
    let unchecked = unchecked_acquire::found(cx);
    let log = cx.analyzer.log.borrow();
    let mut by_scope: BTreeMap<(usize, crate::ir::FunctionId), Vec<&Leaving>> = BTreeMap::new();
    for leaving in &log.leavings {
        if let Some(lock) = cx.locks.of(&leaving.lock.via, leaving.lock.origin.effect)
            && cx.judged(leaving.function)
        {
            by_scope.entry((lock, leaving.function)).or_default().push(leaving);
        }
    }
    let refusing = refusing(cx, &by_scope);
    for ((lock, function), exits) in by_scope {
        let taken = &cx.locks.locks[lock];
        let kind = taken.acquire().map(|a| a.kind);
        if taken.decision != Decision::Lock || !matches!(kind, Some(LockKind::Lease)) {
            continue;
        }
        // The function must be the one that gives the lock back: it does so on some exit on which it succeeds.
        let gives_back =
            |e: &&Leaving| e.status == Status::Released && e.exit == Exit::Return && !matches!(e.ret, Shape::Err(_));
        let refuses = refusing.contains(&(lock, function));
        if !(exits.iter().any(gives_back) || refuses) || unchecked.contains_key(&lock) || lasts(cx, lock) {
            continue;
        }
        // The helper that says no though it holds the lock is what must be changed.
        let inner = exits.iter().filter_map(|e| e.lock.via.get(1)).any(|s| refusing.contains(&(lock, s.function)));
        if inner {
            continue;
        }
        // An answer that the function also gives when it does not hold the lock: no caller can know better.
        let lost: Vec<&Shape> = exits.iter().filter(|e| e.status == Status::Lost).map(|e| &e.ret).collect();
        let gives_up = |e: &Leaving| !refuses || negative(&e.ret);
        let silent = |e: &&&Leaving| {
            gives_up(e) && (leaks(e, &lost) || handle_dropped(cx, e)) && !after_renewal(cx, e) && !guarded(cx, e)
        };
        let mut leaks: Vec<&&Leaving> = exits.iter().filter(silent).collect();
        leaks.sort_by_key(|e| e.at);
        leaks.dedup_by_key(|e| e.at);
        if !leaks.is_empty() && !cx.analyzer.log.borrow().cut.contains(&function) {
            findings.push(finding(cx, lock, &leaks));
        }
    }
    drop(log);
    for found in cancelled::found(cx) {
        let finding = dropped(cx, &found);
        if !findings.iter().any(|f| f.rule == RULE.id && f.span == finding.span) {
            findings.push(finding);
        }
    }
}

fn dropped(cx: &Context<'_>, found: &cancelled::Cancelled) -> Finding {
    let span = taken_at(cx, &found.held);
    let key = cx.key_seen(&cx.locks.locks[found.lock], found.function, &found.held);
    let forever = lasts(cx, found.lock);
    let until = if forever { "for ever" } else { "until its expiry" };
    let message = format!("`{key}` stays locked {until} when the future that holds it is dropped half way");
    let mut f = Finding::new(&RULE, span, message);
    if !forever {
        f = f.at_most(Severity::Warning);
    }
    f.confidence = Confidence::Medium.min(cx.confidence(found.held.certainty));
    f.caret = "taken here".into();
    f.label(found.raced, "raced here: the loser is dropped at its next await, and its release never runs");
    f.help = "hold a guard whose Drop releases, or tell the section to stop (a cancellation token) and await its end instead of dropping it".into();
    f.step(Actor::A, span, format!("acquires `{key}`"));
    f.step(Actor::A, found.raced, "another branch is done first: the future of the section is dropped");
    f.step(Actor::B, span, format!("finds `{key}` taken {until}, though nobody works on it"));
    f.lock = Some(cx.key(&cx.locks.locks[found.lock]));
    f
}

/// Functions that take the lock for their caller, and on some path answer `no` with the lock held, in the very words that
/// they have for a lock that was lost: nobody will give it back. A quorum that was not reached is the usual case.
fn refusing(
    cx: &Context<'_>,
    by_scope: &BTreeMap<(usize, FunctionId), Vec<&Leaving>>,
) -> BTreeSet<(usize, FunctionId)> {
    let holds = |e: &Leaving| e.status == Status::Held && e.exit == Exit::Return && e.proven && !e.carried;
    let scopes = by_scope.iter().filter(|((lock, function), exits)| {
        let grants = exits.iter().any(|e| holds(e) && affirms(&e.ret));
        let refused = |e: &Leaving| exits.iter().any(|l| l.status == Status::Lost && l.ret == e.ret);
        let denies = exits.iter().any(|e| holds(e) && negative(&e.ret) && refused(e));
        let frees = cx.analyzer.reached(*function).iter().any(|r| matches!(r.effect.kind, EffectKind::Release(_)));
        cx.locks.locks[*lock].decision == Decision::Lock && grants && denies && !frees
    });
    scopes.map(|(scope, _)| *scope).collect()
}

/// An answer that says "yours".
fn affirms(shape: &Shape) -> bool {
    match shape {
        Shape::Bool(true) => true,
        Shape::Ok(x) => affirms(x),
        _ => false,
    }
}

/// An answer that says "not yours".
fn negative(shape: &Shape) -> bool {
    match shape {
        Shape::Bool(false) | Shape::None => true,
        Shape::Ok(x) => negative(x),
        _ => false,
    }
}

/// Leaves with the lock held, on a proven path, without handing it to the caller.
fn leaks(exit: &Leaving, lost: &[&Shape]) -> bool {
    exit.status == Status::Held
        && exit.proven
        && !exit.carried
        && (exit.exit == Exit::Question
            || matches!(exit.ret, Shape::Err(_) | Shape::Unit)
            || ok_unit(&exit.ret)
            || (definite(&exit.ret) && lost.contains(&&exit.ret)))
}

/// Leaves with an answer that is not made of what the acquisition handed out, though the release is: nobody can give the
/// lock back after that.
fn handle_dropped(cx: &Context<'_>, exit: &Leaving) -> bool {
    let (Some(dst), Some(at)) = (exit.lock.dst, exit.at) else { return false };
    let f = cx.program.function(exit.function);
    let OpKind::Return(value, _) = &f.op(at).kind else { return false };
    if exit.status != Status::Held || !exit.proven || exit.carried || exit.exit != Exit::Return {
        return false;
    }
    let slice = Slice::of(f);
    let made = |x: &Operand| slice.sources(x).contains(&dst);
    let reached = cx.analyzer.reached(exit.function);
    let mut releases = reached.iter().filter(|r| matches!(r.effect.kind, EffectKind::Release(_))).map(|r| r.via[0].at);
    let by_handle = releases.any(|at| match &f.op(at).kind {
        OpKind::Call(call) => call.args.iter().any(made),
        _ => false,
    });
    by_handle && !made(value)
}

/// Nothing about the shape is left open.
fn definite(shape: &Shape) -> bool {
    match shape {
        Shape::Unknown | Shape::Tainted | Shape::Closure(_) => false,
        Shape::Ok(x) | Shape::Some(x) | Shape::Err(x) => definite(x),
        Shape::Variant(_, list) | Shape::Tuple(list) => list.iter().all(definite),
        Shape::Struct(_, fields) => fields.iter().all(|(_, x)| definite(x)),
        _ => true,
    }
}

/// `missing-ttl` already says that the lock can stay for ever.
fn lasts(cx: &Context<'_>, lock: usize) -> bool {
    let never = cx.locks.locks[lock].acquire().is_some_and(|a| a.ttl == Ttl::Never);
    never && setnx_expire::first_expiry(cx, lock).is_none()
}

/// The function holds a value whose own `Drop` can give the lock back, in a way that is not followed here.
fn guarded(cx: &Context<'_>, exit: &Leaving) -> bool {
    let Some(dst) = exit.lock.dst else { return false };
    let made = cx.program.receiver(exit.function, &Operand::Var(dst, Use::Ref));
    cx.analyzer.frees_by_drop(&made)
}

/// The exit depends on the answer of a renewal: there the lock is no longer ours, and nothing is left to give back.
fn after_renewal(cx: &Context<'_>, exit: &Leaving) -> bool {
    let Some(at) = exit.at else { return false };
    let f = cx.program.function(exit.function);
    let reached = cx.analyzer.reached(exit.function);
    // The first expiry, set by the helper that takes the lock, is no renewal.
    let taken = exit.lock.via.first().map(|site| site.at);
    let renewals: BTreeSet<OpRef> = reached
        .iter()
        .filter(|r| match r.effect.kind {
            EffectKind::Renew(_) => true,
            EffectKind::Expire(_) => exit.lock.acquire.ttl != Ttl::Never,
            _ => false,
        })
        .map(|r| r.via[0].at)
        .filter(|at| Some(*at) != taken)
        .collect();
    if renewals.is_empty() {
        return false;
    }
    let slice = Slice::of(f);
    let answers: Vec<_> = renewals.iter().filter_map(|at| f.op(*at).dst).collect();
    slice.tests_before(at).into_iter().any(|test| slice.sources(test).iter().any(|v| answers.contains(v)))
}

fn ok_unit(shape: &Shape) -> bool {
    matches!(shape, Shape::Ok(inner) if matches!(**inner, Shape::Unit))
}

/// The command's own name, or the call that leads to it.
fn taken_at(cx: &Context<'_>, held: &Held) -> Span {
    if held.via.len() == 1 { cx.origin_span(held.origin) } else { cx.op_span(held.via[0]) }
}

fn finding(cx: &Context<'_>, index: usize, leaks: &[&&Leaving]) -> Finding {
    let lock = &cx.locks.locks[index];
    let first = leaks[0];
    let span = taken_at(cx, &first.lock);
    let key = cx.key_seen(lock, first.function, &first.lock);
    let forever = first.lock.acquire.ttl == Ttl::Never && setnx_expire::first_expiry(cx, index).is_none();
    let until = if forever { "for ever" } else { "until its expiry" };
    let mut f =
        Finding::new(&RULE, span, format!("`{key}` stays locked {until} on a path that leaves without the release"));
    if !forever {
        f = f.at_most(Severity::Warning);
    }
    f.confidence = Confidence::High.min(cx.confidence(first.lock.certainty));
    f.caret = "taken here".into();
    let f_body = cx.program.function(first.function);
    for exit in leaks.iter().take(6) {
        if let Some(at) = exit.at {
            let how = if exit.exit == Exit::Question {
                "this `?` leaves with the lock held"
            } else {
                "leaves here with the lock held"
            };
            f.label(f_body.op(at).span, how);
        }
    }
    f.help = "release on every exit: run the section in an inner async block or function and release after it, or hold a guard whose Drop releases".into();
    f.step(Actor::A, span, format!("acquires `{key}`"));
    if let Some(at) = first.at {
        let fails = first.exit == Exit::Question || matches!(first.ret, Shape::Err(_));
        let how = if fails { "leaves on an error, without the release" } else { "leaves without the release" };
        f.step(Actor::A, f_body.op(at).span, how);
    }
    f.step(Actor::B, span, format!("finds `{key}` taken {until}, though nobody works on it"));
    f.lock = Some(cx.key(lock));
    f
}
