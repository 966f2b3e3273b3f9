//! How long the work under a lock takes.

use crate::analysis::summary::Status;
use crate::ir::{Callee, EffectKind, Exit, Function, FunctionId, Lit, OpKind, Operand, Rvalue, Shape, Ttl, Value};
use crate::rule::Context;
use crate::rule::loops::loops;

/// Whether the work under the lock may outlast any lease: the lock is handed out, or the section has a loop that waits, runs
/// what a caller brought, or pauses for longer than the lease lives.
pub fn is_open_ended(cx: &Context<'_>, index: usize, ttl: &Ttl) -> bool {
    let log = cx.analyzer.log.borrow();
    let mine = |held: &crate::analysis::summary::Held| cx.locks.of(&held.via, held.origin.effect) == Some(index);
    let handed = log.leavings.iter().any(|l| {
        mine(&l.lock)
            && l.function == cx.locks.locks[index].taken.function
            && (l.carried || matches!(l.status, Status::Held | Status::Escaped))
            && l.exit == Exit::Return
            && !matches!(l.ret, Shape::Err(_))
    });
    if handed {
        return true;
    }
    let long = |o: &crate::analysis::summary::Observation| matches!(&o.effect.kind, EffectKind::Sleep(pause) if o.status == Status::Held && outlasts(pause, ttl));
    if !cx.observed(index, long).is_empty() {
        return true;
    }
    log.passed.iter().filter(|p| mine(&p.lock)).any(|passed| {
        let functions: std::collections::BTreeSet<FunctionId> = passed.won.iter().map(|(f, _)| *f).collect();
        functions.into_iter().any(|id| {
            let f = cx.program.function(id);
            let won = |block| passed.won.contains(&(id, block));
            let taken = passed.lock.via[0];
            let own = loops(f).into_iter().filter(|l| id != taken.function || !l.contains(taken.at));
            own.filter(|l| l.blocks.iter().all(|b| won(*b))).any(|l| l.blocks.iter().any(|b| waits(f, *b)))
                || f.ops().any(|(at, op)| won(at.block) && runs_what_was_brought(f, &op.kind))
        })
    })
}

/// Whether something is awaited or called that may take its time.
fn waits(f: &Function, block: crate::ir::BlockId) -> bool {
    f.block(block).ops.iter().any(|op| match &op.kind {
        OpKind::Let(Rvalue::Await(_)) => true,
        OpKind::Call(call) => !call.targets.is_empty() || call.effect.is_some(),
        _ => false,
    })
}

/// A closure or future that is a parameter.
fn runs_what_was_brought(f: &Function, kind: &OpKind) -> bool {
    let brought = |x: &Operand| matches!(x, Operand::Var(v, _) if f.params.contains(v));
    match kind {
        OpKind::Call(call) => matches!(&call.callee, Callee::Value(x) if brought(x)),
        OpKind::Let(Rvalue::Await(x)) => brought(x),
        _ => false,
    }
}

fn outlasts(pause: &Value, ttl: &Ttl) -> bool {
    let nanoseconds = |value: &Value| match value {
        Value::Const(Lit::Duration(ns)) => Some(*ns),
        _ => None,
    };
    let Ttl::After(life, _) = ttl else { return false };
    matches!((nanoseconds(pause), nanoseconds(life)), (Some(pause), Some(life)) if pause >= life)
}
