//! `lock-on-pool`: a session lock taken through a pool, or unlocked on another connection than it was taken on.

use std::collections::BTreeMap;

use crate::analysis::database::{self, Run};
use crate::analysis::lock::Lock;
use crate::analysis::origin_call;
use crate::analysis::summary::{Relation, Status};
use crate::finding::{Actor, Finding, Severity};
use crate::ir::{EffectKind, FunctionId, HandleKind, LockKind, Operand, Site, Use, Value, Var};
use crate::rule::{Context, Group, Rule};

/// The rule.
pub const RULE: Rule = Rule {
    id: "lock-on-pool",
    severity: Severity::Error,
    group: Group::Database,
    page: include_str!("../../rules/lock-on-pool.md"),
    check,
};

fn check(cx: &Context<'_>, findings: &mut Vec<Finding>) {
    let apart = apart(cx);
    for (index, lock) in cx.locks.locks.iter().enumerate() {
        if !is_session(lock) || !cx.judged(lock.taken.function) {
            continue;
        }
        for run in on_pool(cx, lock) {
            findings.push(through_pool(cx, lock, &run));
        }
        if let Some(release) = apart.get(&index) {
            findings.push(two_connections(cx, lock, *release));
        }
    }
}

fn is_session(lock: &Lock) -> bool {
    lock.acquire().is_some_and(|a| a.kind == LockKind::Session)
}

/// Where the lock is taken through a pool.
fn on_pool(cx: &Context<'_>, lock: &Lock) -> Vec<Run> {
    let a = cx.analyzer;
    // Several statements in one text run on one connection.
    let one_text = database::trip(a, lock.taken.origin().site).is_some_and(|trip| {
        trip.effects.iter().any(|e| matches!(&e.kind, EffectKind::Release(r) if r.kind == LockKind::Session))
    });
    if one_text {
        return Vec::new();
    }
    database::runs(a, &lock.taken.id.0, |run| run.handle.kind == HandleKind::Pool)
        .into_iter()
        .filter(|run| !has_one_connection(cx, run))
        .collect()
}

/// A pool that is built with a single connection is that connection.
fn has_one_connection(cx: &Context<'_>, run: &Run) -> bool {
    limited_to_one(cx, run.site().function, &run.handle.identity, 0)
}

fn limited_to_one(cx: &Context<'_>, function: FunctionId, value: &Value, depth: u32) -> bool {
    if depth > 8 {
        return false;
    }
    match value {
        Value::Call(call) => {
            let limit = |name: &str| matches!(name, "max_connections" | "max_size");
            let here = call.name.strip_prefix('.').is_some_and(limit);
            let inside = |id: &FunctionId| {
                cx.program.function(*id).calls().any(|(_, _, c)| {
                    let operand = c.args.last();
                    limit(c.name()) && operand.is_some_and(|x| cx.program.value(*id, x).as_int() == Some(1))
                })
            };
            here && call.args.get(1).and_then(Value::as_int) == Some(1)
                || cx.program.find_path(&call.name).iter().any(inside)
                || call.args.iter().any(|arg| limited_to_one(cx, function, arg, depth + 1))
        }
        Value::Field(base, _) if !matches!(**base, Value::Param(_)) => limited_to_one(cx, function, base, depth + 1),
        Value::TypeField(ty, field) => {
            let made = cx.program.field_values(ty, field);
            made.iter().any(|(f, value)| limited_to_one(cx, *f, value, depth + 1))
        }
        Value::Local(f, var) => {
            let made = cx.program.value(*f, &Operand::Var(Var(*var), Use::Ref));
            made != *value && limited_to_one(cx, *f, &made, depth + 1)
        }
        Value::Param(index) => cx.program.callers(function).iter().take(16).any(|site| {
            let operand = origin_call(cx.program, *site).and_then(|call| call.args.get(*index as usize));
            operand.is_some_and(|x| limited_to_one(cx, site.function, &cx.program.value(site.function, x), depth + 1))
        }),
        _ => false,
    }
}

/// Locks that are unlocked through a pool or on another connection than the checked-out one they were taken on, with the
/// unlock.
pub(super) fn apart(cx: &Context<'_>) -> BTreeMap<usize, Site> {
    let mut out = BTreeMap::new();
    let a = cx.analyzer;
    for seen in &a.log.borrow().releases {
        if seen.status != Status::Held || !seen.proven || seen.relation != Relation::Must || seen.freed.release.all {
            continue;
        }
        let Some(index) = cx.locks.of(&seen.lock.via, seen.lock.origin.effect) else { continue };
        if !is_session(&cx.locks.locks[index]) {
            continue;
        }
        let seen_from = |via: &[Site]| Some(Run { handle: database::seen(a, via)?, via: via.to_vec() });
        let (Some(taken), Some(freed)) = (seen_from(&seen.lock.via), seen_from(&seen.freed.via)) else { continue };
        let own = |run: &Run| {
            let pinned = matches!(run.handle.kind, HandleKind::Pinned | HandleKind::Dedicated);
            run.owned(a).filter(|_| pinned)
        };
        let Some(connection) = own(&taken) else { continue };
        if freed.handle.kind == HandleKind::Pool || own(&freed).is_some_and(|other| other != connection) {
            out.entry(index).or_insert(seen.freed.via[0]);
        }
    }
    out
}

fn through_pool(cx: &Context<'_>, lock: &Lock, run: &Run) -> Finding {
    let span = if run.via.len() == 1 { lock.taken.effect.span } else { cx.op_span(run.site()) };
    let command = &lock.taken.effect.command;
    let mut f = Finding::new(
        &RULE,
        span,
        format!(
            "{command} locks whatever connection the pool lends for this one statement, not one that the work runs on"
        ),
    );
    f.confidence = cx.confidence(cx.certainty(&lock.taken));
    f.caret = "runs on the pool".into();
    f.label(lock.taken.effect.span, "the command");
    f.help = "check one connection out, and lock, work and unlock on it; or take `pg_advisory_xact_lock` in the transaction that needs it".into();
    f.step(Actor::A, span, format!("takes the lock by {command} on connection 1, which goes back to the pool with it"));
    f.step(Actor::B, span, "is lent connection 1: its session has the lock already, so B is granted it as well");
    f.step(Actor::A, span, "unlocks on connection 2, which does not hold the lock: nothing is freed");
    f.lock = Some(cx.key(lock));
    f
}

fn two_connections(cx: &Context<'_>, lock: &Lock, release: Site) -> Finding {
    let span = cx.place(&lock.taken);
    let command = &lock.taken.effect.command;
    let mut f = Finding::new(&RULE, span, format!("{command} locks one connection, and the unlock runs on another"));
    f.confidence = cx.confidence(cx.certainty(&lock.taken));
    f.caret = "taken on this connection".into();
    f.label(cx.op_span(release), "unlocked on another connection");
    f.help = "keep the connection that took the lock until it is unlocked".into();
    f.step(Actor::A, span, format!("takes the lock by {command} on connection 1"));
    f.step(Actor::A, cx.op_span(release), "unlocks on connection 2: nothing is freed, and the answer is `false`");
    f.step(Actor::B, span, "waits for connection 1, which lies in the pool with the lock");
    f.lock = Some(cx.key(lock));
    f
}
