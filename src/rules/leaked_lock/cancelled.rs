//! A future that takes the lock and gives it back by itself, and is dropped half way: nothing behind its awaits runs.

use std::collections::BTreeSet;
use std::rc::Rc;

use crate::analysis::lock::Decision;
use crate::analysis::slice::Slice;
use crate::analysis::summary::{Held, Leaving, Relation, Status};
use crate::ir::{Call, EffectKind, Exit, Function, FunctionId, LockKind, OpKind, OpRef, Operand, Rvalue};
use crate::rule::Context;
use crate::source::Span;

/// A section that can be dropped.
pub struct Cancelled {
    /// The lock.
    pub lock: usize,
    /// The function that takes it and gives it back.
    pub function: FunctionId,
    /// The acquisition as that function sees it.
    pub held: Rc<Held>,
    /// Where the future is raced.
    pub raced: Span,
}

/// Sections that `select!`, `try_join!` or a timeout can drop. Only the operands themselves: further up every task of a
/// service is ended in that way.
pub fn found(cx: &Context<'_>) -> Vec<Cancelled> {
    let log = cx.analyzer.log.borrow();
    let whole = |l: &&Leaving| {
        l.status == Status::Released
            && l.exit == Exit::Return
            && !l.carried
            && cx.program.function(l.function).is_async
            && !log.cut.contains(&l.function)
    };
    let mut out: Vec<Cancelled> = Vec::new();
    for leaving in log.leavings.iter().filter(whole) {
        let Some(lock) = cx.locks.of(&leaving.lock.via, leaving.lock.origin.effect) else { continue };
        let taken = &cx.locks.locks[lock];
        let lease = taken.acquire().is_some_and(|a| a.kind == LockKind::Lease);
        if taken.decision != Decision::Lock
            || !lease
            || out.iter().any(|c| c.lock == lock && c.function == leaving.function)
            || super::guarded(cx, leaving)
            || !waits(cx, leaving.function, &leaving.lock)
        {
            continue;
        }
        let raced = cx.program.callers(leaving.function).iter().find_map(|site| {
            let f = cx.program.function(site.function);
            let OpKind::Call(call) = &f.op(site.at).kind else { return None };
            let drops = cx.judged(site.function) && drops(f, site.at, call);
            (drops && !cleans(cx, site.function, site.at, &leaving.lock)).then(|| f.op(site.at).span)
        });
        if let Some(raced) = raced {
            out.push(Cancelled { lock, function: leaving.function, held: leaving.lock.clone(), raced });
        }
    }
    out
}

/// Whether something else than taking and giving back is awaited while the lock is held.
fn waits(cx: &Context<'_>, function: FunctionId, held: &Held) -> bool {
    let f = cx.program.function(function);
    let own: BTreeSet<OpRef> = cx
        .analyzer
        .reached(function)
        .iter()
        .filter(|r| matches!(r.effect.kind, EffectKind::Release(_) | EffectKind::Acquire(_)))
        .map(|r| r.via[0].at)
        .collect();
    let made = |var| f.calls().find(|(_, op, _)| op.dst == Some(var)).map(|(at, ..)| at);
    let log = cx.analyzer.log.borrow();
    let mut ways = log.went.iter().filter(|w| {
        w.function == function && w.status == Status::Held && w.lock.via == held.via && w.lock.origin == held.origin
    });
    ways.any(|w| {
        f.block(w.block).ops.iter().any(|op| match &op.kind {
            OpKind::Let(Rvalue::Await(Operand::Var(var, _))) => made(*var).is_some_and(|at| !own.contains(&at)),
            _ => false,
        })
    })
}

/// Whether the future of a call is dropped when another branch is done first, or a deadline has passed.
fn drops(f: &Function, at: OpRef, call: &Call) -> bool {
    let dst = f.op(at).dst;
    let slice = Slice::of(f);
    let timed = || {
        f.calls().any(|(_, _, c)| {
            c.effect.as_ref().is_some_and(|t| t.effects.iter().any(|e| matches!(e.kind, EffectKind::Timeout(_))))
                && c.args.iter().any(|x| dst.is_some_and(|d| slice.sources(x).contains(&d)))
        })
    };
    call.cancel.is_some() || timed()
}

/// Whether the function that races the future gives the lock back itself.
fn cleans(cx: &Context<'_>, function: FunctionId, race: OpRef, held: &Held) -> bool {
    cx.analyzer.reached(function).iter().any(|r| {
        matches!(&r.effect.kind, EffectKind::Release(_)) && r.via[0].at != race && {
            let key = cx.analyzer.comparable(function, crate::analysis::lock::key(&r.effect));
            cx.analyzer.relate(&key, &held.acquire.key) != Relation::Other
        }
    })
}
