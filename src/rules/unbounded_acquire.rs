//! `unbounded-acquire`: a loop that waits for the lock ends only when the lock is won.

use std::collections::BTreeMap;

use crate::analysis::flow_tested as tested;
use crate::analysis::lock::{Decision, Lock, words};
use crate::analysis::slice::Slice;
use crate::analysis::summary::Passed;
use crate::finding::{Actor, Finding, Severity};
use crate::ir::{Call, EdgeKind, EffectKind, Function, FunctionId, LockKind, OpKind, Site};
use crate::rule::loops::{Loop, innermost};
use crate::rule::{Context, Group, Rule};
use crate::source::Span;

mod limit;

/// The rule.
pub const RULE: Rule = Rule {
    id: "unbounded-acquire",
    severity: Severity::Warning,
    group: Group::Taking,
    page: include_str!("../../rules/unbounded-acquire.md"),
    check,
};

fn check(cx: &Context<'_>, findings: &mut Vec<Finding>) {
    let log = cx.analyzer.log.borrow();
    let mut found: BTreeMap<Span, Finding> = BTreeMap::new();
    for passed in &log.passed {
        let Some(lock) = lock_of(cx, passed) else { continue };
        let lease =
            lock.acquire().is_some_and(|a| !a.blocking && matches!(a.kind, LockKind::Lease | LockKind::Session));
        if lock.decision != Decision::Lock
            || !lease
            || !cx.judged(passed.function)
            || !log.retried.contains(&(passed.function, passed.lock.origin))
        {
            continue;
        }
        let f = cx.program.function(passed.function);
        let site = passed.lock.via[0];
        let Some(waits) = innermost(f, site.at) else { continue };
        if !won_leaves(passed, &waits) || bounded(cx, f, site, &waits) || called_off(cx, passed.function) {
            continue;
        }
        if stands_by(cx, lock, passed) && pauses(cx, passed.function, &waits) {
            continue;
        }
        let finding = finding(cx, passed, &waits);
        found.entry(waits.span).or_insert(finding);
    }
    findings.extend(found.into_values());
}

/// The lock that a function tries to take; for a helper that is told by its callers which, one of theirs.
fn lock_of<'c>(cx: &'c Context<'_>, passed: &Passed) -> Option<&'c Lock> {
    let (via, effect) = (&passed.lock.via, passed.lock.origin.effect);
    let own = cx.locks.of(via, effect).map(|index| &cx.locks.locks[index]);
    own.or_else(|| {
        let below = |l: &&Lock| l.taken.id.1 == effect && l.taken.id.0.ends_with(via);
        cx.locks.locks.iter().find(|l| l.decision == Decision::Lock && below(l))
    })
}

/// A candidate for an office waits until it falls vacant: that is its work, and there is nobody to tell.
fn stands_by(cx: &Context<'_>, lock: &Lock, passed: &Passed) -> bool {
    const OFFICES: &[&str] = &["leader", "leadership", "elect", "election", "elector", "candidate", "campaign"];
    let says = |name: &str| words(name).iter().any(|w| OFFICES.contains(&w.as_str()));
    let named = |id: FunctionId| {
        let f = cx.program.function(cx.analyzer.item(id));
        let module = f.module.rsplit("::").next().unwrap_or("");
        let owner = f.owner.as_deref().and_then(|o| o.rsplit("::").next()).unwrap_or("");
        says(&f.name) || says(owner) || says(module)
    };
    named(passed.function) || named(lock.taken.function) || says(&cx.key(lock))
}

/// Whoever wins the lock leaves the loop: it is there to wait, and not a service that runs whenever the lock is free.
fn won_leaves(passed: &Passed, waits: &Loop) -> bool {
    !passed.won.contains(&(passed.function, waits.head))
        && passed.won.iter().any(|(f, b)| *f == passed.function && !waits.blocks.contains(b))
}

/// Something else than the outcome of the acquire can end the loop.
fn bounded(cx: &Context<'_>, f: &Function, acquire: Site, waits: &Loop) -> bool {
    let slice = Slice::of(f);
    let Some(outcome) = f.op(acquire.at).dst else { return true };
    let unlimited = limit::never_entered(cx, acquire.function, waits);
    let cancelled = |at: &crate::ir::Op| matches!(&at.kind, OpKind::Call(call) if call.cancel.is_some());
    waits.blocks.iter().filter(|id| !unlimited.contains(id)).any(|id| {
        let block = f.block(*id);
        let leaves = block.edges.iter().any(|e| !waits.blocks.contains(&e.to) && e.kind != EdgeKind::Question);
        let by_outcome =
            block.edges.iter().any(|e| tested(&e.guard).is_some_and(|x| slice.sources(x).contains(&outcome)));
        // A test that one of several exits hangs on: what it depends on besides the outcome is not known.
        (leaves && !by_outcome)
            || block.ops.iter().any(cancelled)
            || block.edges.iter().any(|e| e.kind == EdgeKind::Cancel)
    }) || cx.program.function(acquire.function).calls().any(|(at, _, call)| {
        waits.contains(at)
            && !unlimited.contains(&at.block)
            && call.effect.as_ref().is_some_and(|t| {
                t.effects.iter().any(|e| matches!(e.kind, EffectKind::Timeout(_) | EffectKind::Observe(_)))
            })
    })
}

/// A caller can drop the waiting future: a timeout, `select!`, a task that can be aborted.
fn called_off(cx: &Context<'_>, id: FunctionId) -> bool {
    let mut work = vec![(id, 0)];
    let mut seen = Vec::new();
    while let Some((id, depth)) = work.pop() {
        if depth > 4 || seen.contains(&id) {
            continue;
        }
        seen.push(id);
        for site in cx.program.callers(id) {
            let f = cx.program.function(site.function);
            let OpKind::Call(call) = &f.op(site.at).kind else { continue };
            let dst = f.op(site.at).dst;
            let slice = Slice::of(f);
            let timed = f.calls().any(|(_, _, c)| {
                c.effect.as_ref().is_some_and(|t| t.effects.iter().any(|e| matches!(e.kind, EffectKind::Timeout(_))))
                    && c.args.iter().any(|x| dst.is_some_and(|d| slice.sources(x).contains(&d)))
            });
            if call.cancel.is_some() || timed {
                return true;
            }
            work.push((site.function, depth + 1));
        }
        if let Some(parent) = cx.program.function(id).parent {
            work.push((parent, depth + 1));
        }
    }
    false
}

/// Whether a round waits, or calls something that may.
fn pauses(cx: &Context<'_>, id: FunctionId, waits: &Loop) -> bool {
    let f = cx.program.function(id);
    let reached = cx.analyzer.reached(id);
    let sleeps = reached.iter().any(|r| matches!(r.effect.kind, EffectKind::Sleep(_)) && waits.contains(r.via[0].at));
    let unknown = f.calls().any(|(at, _, c)| {
        waits.contains(at) && c.effect.is_none() && c.targets.is_empty() && f.is_async && awaited(f, at)
    });
    let thread =
        f.calls().any(|(at, _, c)| waits.contains(at) && (rests(c) || c.targets.iter().any(|t| rest_below(cx, *t, 0))));
    sleeps || unknown || thread
}

/// A call that lets time or another thread pass.
fn rests(call: &Call) -> bool {
    let name = call.name();
    matches!(
        name,
        "sleep"
            | "yield_now"
            | "park"
            | "park_timeout"
            | "wait"
            | "wait_timeout"
            | "recv"
            | "recv_timeout"
            | "snooze"
            | "spin"
    )
}

/// Whether a helper of the round waits for something.
fn rest_below(cx: &Context<'_>, id: FunctionId, depth: u32) -> bool {
    let below = |c: &Call| depth < 3 && c.targets.iter().any(|t| rest_below(cx, *t, depth + 1));
    cx.program.function(id).calls().any(|(_, _, c)| c.effect.is_none() && (rests(c) || below(c)))
}

fn awaited(f: &Function, at: crate::ir::OpRef) -> bool {
    let dst = f.op(at).dst;
    f.ops().any(|(_, op)| matches!(&op.kind, OpKind::Let(crate::ir::Rvalue::Await(crate::ir::Operand::Var(v, _))) if Some(*v) == dst))
}

fn finding(cx: &Context<'_>, passed: &Passed, waits: &Loop) -> Finding {
    let pauses = pauses(cx, passed.function, waits);
    let key = cx.show(passed.function, &passed.lock.acquire.key);
    let taken = cx.op_span(passed.lock.via[0]);
    let mut f = Finding::new(
        &RULE,
        waits.span,
        if pauses {
            format!("this loop waits for `{key}` without a deadline, a number of attempts or a way to be told to stop")
        } else {
            format!("this loop tries to take `{key}` again and again without a pause and without an end")
        },
    );
    if pauses {
        f = f.at_most(Severity::Note);
    }
    f.confidence = cx.confidence(passed.lock.certainty);
    f.caret = "ends only when the lock is won".into();
    f.label(taken, "tried here");
    f.help = "give up after a deadline or a number of attempts, pause between the tries, and tell the caller that the lock is taken".into();
    f.step(Actor::B, taken, format!("holds `{key}`, or has crashed and left it"));
    f.step(Actor::A, waits.span, "tries for ever, and whatever waits for it waits with it");
    f.lock = Some(key);
    f
}
