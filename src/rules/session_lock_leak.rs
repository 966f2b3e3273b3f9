//! `session-lock-leak`: a connection goes back to its pool with a session lock.

mod guards;
mod lent;
mod routines;

use std::collections::BTreeMap;

use super::lock_on_pool;
use crate::analysis::database::{self, Run};
use crate::analysis::lock::Lock;
use crate::analysis::slice::Slice;
use crate::analysis::summary::{Leaving, Status};
use crate::finding::{Actor, Finding, Severity};
use crate::ir::{
    AcquireForm, Backend, CallValue, EffectKind, Exit, FunctionId, FunctionKind, HandleKind, LockKind, OpRef, Operand,
    Shape, Use, Value, Var,
};
use crate::model::Models;
use crate::protocol;
use crate::rule::{Context, Group, Rule};
use crate::source::Span;

/// The rule.
pub const RULE: Rule = Rule {
    id: "session-lock-leak",
    severity: Severity::Error,
    group: Group::Database,
    page: include_str!("../../rules/session-lock-leak.md"),
    check,
};

/// Calls after which the connection does not go back to its pool.
const ENDS: &[&str] = &["close", "close_hard", "close_on_drop", "detach", "leak", "take"];

/// Settings of pools that run something on a connection between two users.
const HOOKS: &[&str] = &["after_release", "before_acquire", "post_recycle", "pre_recycle"];

fn check(cx: &Context<'_>, findings: &mut Vec<Finding>) {
    if cleaned_by_pool(cx) {
        return;
    }
    let apart = lock_on_pool::apart(cx);
    let log = cx.analyzer.log.borrow();
    let mut scopes: BTreeMap<(usize, FunctionId), Vec<&Leaving>> = BTreeMap::new();
    for leaving in &log.leavings {
        if let Some(lock) = cx.locks.of(&leaving.lock.via, leaving.lock.origin.effect)
            && cx.judged(leaving.function)
        {
            scopes.entry((lock, leaving.function)).or_default().push(leaving);
        }
    }
    for ((index, function), exits) in &scopes {
        let (index, function) = (*index, *function);
        let lock = &cx.locks.locks[index];
        let session = lock.acquire().is_some_and(|a| a.kind == LockKind::Session && a.form == AcquireForm::LockApi);
        if !session || apart.contains_key(&index) || log.cut.contains(&function) {
            continue;
        }
        if cx.program.function(function).kind == FunctionKind::SqlBody {
            findings.extend(routines::leaked(cx, lock, function, exits));
            continue;
        }
        let via = &exits[0].lock.via;
        if database::gives_back_itself(cx.analyzer, lock.taken.origin().site) {
            continue;
        }
        let Some(handle) = database::seen(cx.analyzer, via) else { continue };
        let run = Run { via: via.clone(), handle };
        // A callee that gives the lock back on some paths is the one that forgets it on others.
        if via.get(1).is_some_and(|inner| scopes.get(&(index, inner.function)).is_some_and(|e| lent::forgets(e))) {
            continue;
        }
        let Some(connection) = pooled(cx, &run) else {
            findings.extend(lent::leaked(cx, index, &run, exits));
            continue;
        };
        if database::called_on(cx.analyzer, function, connection, ENDS) || kept_by_closer(cx, function, connection) {
            continue;
        }
        let released = exits.iter().any(|e| e.status == Status::Released);
        let handed_on = database::handed_on(cx.analyzer, function, connection);
        let slice = Slice::of(cx.program.function(function));
        let kept = |e: &Leaving| e.at.is_some_and(|at| !handed_on.iter().any(|on| *on == at || slice.reaches(*on, at)));
        let fails = |e: &Leaving| e.exit == Exit::Question || matches!(e.ret, Shape::Err(_));
        let mut leaks: Vec<&Leaving> = exits
            .iter()
            .copied()
            .filter(|e| e.status == Status::Held && e.proven && !e.carried)
            .filter(|e| kept(e) || released && fails(e))
            .collect();
        leaks.sort_by_key(|e| e.at);
        leaks.dedup_by_key(|e| e.at);
        if !leaks.is_empty() {
            findings.push(leaked(cx, lock, &run, &leaks, released));
        } else if let Some((work, unlock)) = unlock_after_error(cx, lock, &run) {
            findings.push(refused(cx, lock, &run, work, unlock));
        } else if let Some(guard) = guards::let_go(cx, index, function, exits, &log.leavings) {
            findings.push(guards::finding(cx, lock, &run, &guard));
        }
    }
}

/// Whether a pool of the program frees what its users left, on every connection.
fn cleaned_by_pool(cx: &Context<'_>) -> bool {
    cx.program.functions().any(|(id, f)| {
        let hook = f.calls().any(|(_, _, call)| HOOKS.contains(&call.name()));
        let frees = || {
            let reached = cx.analyzer.reached(id);
            reached.iter().any(|r| matches!(&r.effect.kind, EffectKind::Release(x) if x.all))
        };
        let mut clean = false;
        for (_, op) in f.ops() {
            crate::analysis::flow_reads(op, |x| {
                clean |= matches!(x, Operand::Path(path) if path.ends_with("RecyclingMethod::Clean"));
            });
        }
        clean || (hook && frees())
    })
}

/// Whether the connection is a part of an object that closes it when it is dropped.
fn kept_by_closer(cx: &Context<'_>, function: FunctionId, connection: Var) -> bool {
    let ty = |var: &Var| cx.program.ty(function, &Operand::Var(*var, Use::Ref));
    database::keepers(cx.analyzer, cx.program.function(function), connection)
        .iter()
        .any(|keeper| guards::closes(cx, &ty(keeper).path))
}

/// The variable of the connection if the function has checked it out of a pool, or of a transaction on such a connection.
fn pooled(cx: &Context<'_>, run: &Run) -> Option<Var> {
    let a = cx.analyzer;
    let trip = database::trip(a, *run.via.last()?)?;
    // mysql and mysql_async reset the session when a connection goes back.
    if trip.model.starts_with("mysql") {
        return None;
    }
    let var = run.owned(a)?;
    match run.handle.kind {
        HandleKind::Pinned => Some(var),
        HandleKind::Transaction => {
            let function = run.site().function;
            let value = cx.program.value(function, &Operand::Var(var, Use::Ref));
            begun_on_pool(cx, &value, 0).then_some(var)
        }
        _ => None,
    }
}

/// Whether a transaction was begun on a pool, or on a connection checked out here.
fn begun_on_pool(cx: &Context<'_>, value: &Value, depth: u32) -> bool {
    let Value::Call(call) = value else { return false };
    if depth > 6 {
        return false;
    }
    let pooled = |path: &str| {
        let roles = Models::builtin().type_roles(path);
        roles.iter().any(|(_, role)| matches!(protocol::handle_kind(*role), HandleKind::Pool | HandleKind::Pinned))
    };
    let CallValue { receiver, args, .. } = &**call;
    if pooled(receiver) {
        return true;
    }
    match args.first() {
        Some(Value::Local(f, var)) => {
            let operand = Operand::Var(Var(*var), Use::Ref);
            let kind = protocol::handle(cx.program, Models::builtin(), *f, &operand).kind;
            matches!(kind, HandleKind::Pool | HandleKind::Pinned)
        }
        Some(inner) => begun_on_pool(cx, inner, depth + 1),
        None => false,
    }
}

/// In a transaction: a statement whose error does not keep control from the unlock, and that unlock. After an error
/// the server refuses every statement up to ROLLBACK (PostgreSQL manual, 3.4), and ROLLBACK frees no session lock.
fn unlock_after_error(cx: &Context<'_>, lock: &Lock, run: &Run) -> Option<(Span, Span)> {
    if run.handle.kind != HandleKind::Transaction || lock.acquire()?.backend != Backend::Postgres {
        return None;
    }
    let function = run.site().function;
    let f = cx.program.function(function);
    let slice = Slice::of(f);
    let taken = run.site().at;
    let on_it =
        |via: &[crate::ir::Site]| database::seen(cx.analyzer, via).is_some_and(|h| h.identity == run.handle.identity);
    let reached = cx.analyzer.reached(function);
    let (mut unlocks, mut works): (Vec<OpRef>, Vec<(OpRef, Span)>) = (Vec::new(), Vec::new());
    for r in reached.iter().filter(|r| on_it(&r.via)) {
        match &r.effect.kind {
            EffectKind::Release(x) if x.kind == LockKind::Session => unlocks.push(r.via[0].at),
            EffectKind::Write(_) | EffectKind::Read(_) => works.push((r.via[0].at, r.effect.span)),
            _ => {}
        }
    }
    // One that can be rolled back to a savepoint, or that ends before the unlock, says nothing.
    let ends = reached.iter().any(|r| matches!(r.effect.kind, EffectKind::Rollback));
    if ends {
        return None;
    }
    works.into_iter().find_map(|(work, span)| {
        let dst = f.op(work).dst?;
        let unlock = unlocks.iter().find(|u| {
            let tested = slice.tests_before(**u).into_iter().any(|test| slice.sources(test).contains(&dst));
            slice.reaches(taken, work) && slice.reaches(work, **u) && !tested
        })?;
        Some((span, f.op(*unlock).span))
    })
}

fn place(cx: &Context<'_>, lock: &Lock, run: &Run) -> Span {
    if run.via.len() == 1 { lock.taken.effect.span } else { cx.op_span(run.site()) }
}

fn leaked(cx: &Context<'_>, lock: &Lock, run: &Run, leaks: &[&Leaving], released: bool) -> Finding {
    let span = place(cx, lock, run);
    let command = &lock.taken.effect.command;
    let message = if released {
        format!(
            "{command} locks the session of a pooled connection, and a path gives the connection back without the unlock"
        )
    } else {
        format!(
            "{command} locks the session of a pooled connection, and the connection goes back to the pool with the lock"
        )
    };
    let mut f = Finding::new(&RULE, span, message);
    f.confidence = cx.confidence(cx.certainty(&lock.taken));
    f.caret = "taken here".into();
    f.label(lock.taken.effect.span, "the command");
    let body = cx.program.function(run.site().function);
    let exits: Vec<Span> = leaks.iter().filter_map(|e| e.at).map(|at| body.op(at).span).collect();
    for exit in exits.iter().take(6) {
        f.label(*exit, "leaves here with the lock held");
    }
    f.help = "unlock on every path, or close the connection instead of giving it back".into();
    if lock.acquire().is_some_and(|a| a.backend == Backend::Postgres) {
        f.help += "; `pg_advisory_xact_lock` in a transaction ends by itself";
    }
    f.step(Actor::A, span, format!("takes the lock by {command}"));
    if let Some(exit) = exits.first() {
        f.step(Actor::A, *exit, "leaves: the connection goes back to the pool, its session still holds the lock");
    }
    f.step(Actor::B, span, "waits for a lock that nobody will release, as long as the pool keeps the connection");
    f.lock = Some(cx.key(lock));
    f
}

fn refused(cx: &Context<'_>, lock: &Lock, run: &Run, work: Span, unlock: Span) -> Finding {
    let span = place(cx, lock, run);
    let command = &lock.taken.effect.command;
    let mut f = Finding::new(
        &RULE,
        span,
        format!("{command} locks the session, and after an error the unlock in the same transaction is refused"),
    );
    f.confidence = cx.confidence(cx.certainty(&lock.taken));
    f.caret = "taken here".into();
    f.label(work, "an error here aborts the transaction");
    f.label(unlock, "then this fails too");
    f.help = "take `pg_advisory_xact_lock`, which ends with the transaction, or unlock on the connection after the transaction has ended".into();
    f.step(Actor::A, span, format!("takes the lock by {command} inside the transaction"));
    f.step(Actor::Store, work, "fails the statement and aborts the transaction");
    f.step(Actor::Store, unlock, "refuses the unlock: the transaction is aborted");
    f.step(
        Actor::A,
        span,
        "rolls back; a session lock survives that, and the connection goes back to the pool with it",
    );
    f.step(Actor::B, span, "waits for a lock that nobody will release");
    f.lock = Some(cx.key(lock));
    f
}
