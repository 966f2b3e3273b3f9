//! Functions that lock the session of a connection they are given, unlock it on some paths and not on others.

use super::{RULE, pooled};
use crate::analysis::database::{self, Run};
use crate::analysis::summary::{Leaving, Status};
use crate::finding::{Actor, Confidence, Finding};
use crate::ir::{Backend, Exit, HandleKind, Operand, Shape, Use, Value};
use crate::model::{Models, Protocol, Role, Row};
use crate::rule::Context;
use crate::source::Span;

/// Whether these exits of one function show that it is to give the lock back, and forgets it on an error.
pub(super) fn forgets(exits: &[&Leaving]) -> bool {
    exits.iter().any(|e| e.status == Status::Released) && exits.iter().any(|e| fails_held(e))
}

/// Whether the connection is what a generic `acquire()` gives of a parameter: a pool's, or the caller's own.
fn passed_on(cx: &Context<'_>, run: &Run) -> bool {
    let Some(var) = run.owned(cx.analyzer).filter(|_| run.handle.kind == HandleKind::Unknown) else { return false };
    let value = cx.program.value(run.site().function, &Operand::Var(var, Use::Ref));
    let Value::Call(call) = &value else { return false };
    let gives = |row: &Row| {
        row.protocol == Protocol::Sql
            && matches!(row.role, Role::PassThrough | Role::Connection)
            && row.method.0.iter().any(|name| call.name.strip_prefix('.') == Some(name))
    };
    Models::builtin().rows.iter().any(gives) && matches!(call.args.first(), Some(Value::Param(_)))
}

fn fails_held(exit: &Leaving) -> bool {
    let fails = exit.exit == Exit::Question || matches!(exit.ret, Shape::Err(_));
    exit.status == Status::Held && exit.proven && !exit.carried && fails
}

/// The finding on a lock of a connection that comes as a parameter.
pub(super) fn leaked(cx: &Context<'_>, index: usize, run: &Run, exits: &[&Leaving]) -> Option<Finding> {
    let function = run.site().function;
    let lent = matches!(run.handle.identity, Value::Param(_)) || passed_on(cx, run);
    if !lent || !forgets(exits) {
        return None;
    }
    let a = cx.analyzer;
    // A caller that unlocks by itself makes it right.
    let mended = a.log.borrow().releases.iter().any(|r| {
        r.function != function
            && r.freed.via[0] != r.lock.via[0]
            && cx.locks.of(&r.lock.via, r.lock.origin.effect) == Some(index)
    });
    if mended {
        return None;
    }
    let known = database::runs(a, &run.via, |r| {
        r.owned(a).is_some() || matches!(r.handle.kind, HandleKind::Pool | HandleKind::Dedicated)
    });
    let surely = run.handle.kind == HandleKind::Pinned || known.iter().any(|r| pooled(cx, r).is_some());
    // What a generic `acquire()` gives is a pool's connection as well as any other.
    if !surely && !known.is_empty() && !known.iter().any(|r| passed_on(cx, r)) {
        return None;
    }
    let lock = &cx.locks.locks[index];
    let mut leaks: Vec<&Leaving> = exits.iter().copied().filter(|e| fails_held(e)).collect();
    leaks.sort_by_key(|e| e.at);
    leaks.dedup_by_key(|e| e.at);
    let span = super::place(cx, lock, run);
    let command = &lock.taken.effect.command;
    let mut f = Finding::new(
        &RULE,
        span,
        format!("{command} locks the session of the caller's connection, and an error leaves it without the unlock"),
    );
    f.confidence = cx.confidence(cx.certainty(&lock.taken));
    if !surely {
        f.confidence = f.confidence.min(Confidence::Medium);
    }
    f.caret = "taken here".into();
    f.label(lock.taken.effect.span, "the command");
    let body = cx.program.function(function);
    let places: Vec<Span> = leaks.iter().filter_map(|e| e.at).map(|at| body.op(at).span).collect();
    for at in places.iter().take(6) {
        f.label(*at, "leaves here with the lock held");
    }
    for caller in known.iter().filter(|r| pooled(cx, r).is_some()).take(3) {
        f.label(cx.op_span(caller.site()), "runs on a pooled connection");
    }
    f.help = "keep the outcome of the work, unlock, then return the outcome".into();
    if lock.acquire().is_some_and(|a| a.backend == Backend::Postgres) {
        f.help += "; `pg_advisory_xact_lock` in a transaction ends by itself";
    }
    f.step(Actor::A, span, format!("takes the lock by {command}"));
    if let Some(at) = places.first() {
        let whose = if surely { "goes back to the pool" } else { "goes back to its pool, if it has one" };
        f.step(Actor::A, *at, format!("leaves: the connection {whose}, its session still holds the lock"));
    }
    f.step(Actor::B, span, "waits for a lock that nobody will release, as long as that session lives");
    f.lock = Some(cx.key(lock));
    Some(f)
}
