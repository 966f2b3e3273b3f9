//! `lock-on-pool`: a session lock taken through a pool, or unlocked on another connection than it was taken on.

use std::collections::{BTreeMap, BTreeSet};

use crate::analysis::database::{self, Run};
use crate::analysis::lock::{self, Lock};
use crate::analysis::origin_call;
use crate::analysis::slice::Slice;
use crate::analysis::summary::{Relation, Status};
use crate::finding::{Actor, Finding, Severity};
use crate::ir::{Backend, Call, Effect, EffectKind, FunctionId, HandleKind, LockKind, Operand, Site, Use, Value, Var};
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
    // Functions whose pool is named already.
    let mut told = BTreeSet::new();
    for (index, lock) in cx.locks.locks.iter().enumerate() {
        if !is_session(lock) || !cx.judged(lock.taken.function) {
            continue;
        }
        for run in on_pool(cx, lock) {
            told.insert(cx.analyzer.item(run.site().function));
            findings.push(through_pool(cx, lock, &run));
        }
        if let Some(release) = apart.get(&index) {
            told.insert(cx.analyzer.item(release.function));
            findings.push(two_connections(cx, lock, *release));
        }
    }
    for release in cx.locks.releases.iter().filter(|r| cx.judged(r.function)) {
        let runs = unlocked_on_pool(cx, release);
        let runs = runs.into_iter().filter(|run| !told.contains(&cx.analyzer.item(run.site().function)));
        findings.extend(runs.map(|run| unlocked_elsewhere(cx, release, &run)));
    }
}

/// Whether this rule already says why an unlock may hit a session that does not hold the lock.
pub(super) fn explains(cx: &Context<'_>, release: &lock::Use) -> bool {
    let apart = apart(cx);
    let mine = |lock: &Lock| lock.releases.keys().any(|i| cx.locks.releases[*i].id == release.id);
    let mut own = cx.locks.locks.iter().enumerate().filter(|(_, lock)| is_session(lock) && mine(lock));
    own.any(|(index, lock)| apart.contains_key(&index) || !on_pool(cx, lock).is_empty())
        || !unlocked_on_pool(cx, release).is_empty()
}

/// Where a session lock is unlocked through a pool, in another function than takes it.
fn unlocked_on_pool(cx: &Context<'_>, release: &lock::Use) -> Vec<Run> {
    let EffectKind::Release(r) = &release.effect.kind else { return Vec::new() };
    let takes = |e: &Effect| matches!(&e.kind, EffectKind::Acquire(a) if a.kind == LockKind::Session);
    let itself = database::trip(cx.analyzer, release.origin().site).is_none_or(|t| t.effects.iter().any(takes));
    if r.kind != LockKind::Session || r.all || itself || !taken_elsewhere(cx, release) {
        return Vec::new();
    }
    database::runs(cx.analyzer, &release.id.0, |run| run.handle.kind == HandleKind::Pool)
        .into_iter()
        .filter(|run| !has_one_connection(cx, run))
        .collect()
}

fn is_session(lock: &Lock) -> bool {
    lock.acquire().is_some_and(|a| a.kind == LockKind::Session)
}

/// Where the lock is taken through a pool.
fn on_pool(cx: &Context<'_>, lock: &Lock) -> Vec<Run> {
    let a = cx.analyzer;
    // Several statements in one text run on one connection.
    if database::gives_back_itself(a, lock.taken.origin().site) {
        return Vec::new();
    }
    database::runs(a, &lock.taken.id.0, |run| run.handle.kind == HandleKind::Pool)
        .into_iter()
        .filter(|run| !has_one_connection(cx, run))
        .collect()
}

/// A pool that is built with a single connection is that connection.
fn has_one_connection(cx: &Context<'_>, run: &Run) -> bool {
    is_single(cx, run.site().function, &run.handle.identity, 0)
}

fn is_single(cx: &Context<'_>, function: FunctionId, pool: &Value, depth: u32) -> bool {
    if depth > 4 {
        return false;
    }
    match pool {
        Value::Call(call) => {
            let limit = call.name.strip_prefix('.').is_some_and(limits);
            limit && call.args.get(1).and_then(Value::as_int) == Some(1)
                || call.args.iter().any(|arg| is_single(cx, function, arg, depth))
        }
        Value::TypeField(ty, field) => {
            let made = cx.program.field_values(ty, field);
            made.iter().any(|(f, value)| is_single(cx, *f, value, depth + 1))
        }
        Value::Local(f, var) => made_single(cx, *f, &Operand::Var(Var(*var), Use::Ref), depth + 1),
        Value::Param(index) => cx.program.callers(function).iter().take(16).any(|site| {
            let operand = origin_call(cx.program, *site).and_then(|call| call.args.get(*index as usize));
            operand.is_some_and(|x| made_single(cx, site.function, x, depth + 1))
        }),
        _ => false,
    }
}

/// Whether a limit of one connection takes part in making the operand, here or in the function that makes it.
fn made_single(cx: &Context<'_>, function: FunctionId, operand: &Operand, depth: u32) -> bool {
    let f = cx.program.function(function);
    let sources = Slice::of(f).sources(operand);
    let is_one = |id: FunctionId, call: &Call| {
        limits(call.name()) && call.args.last().is_some_and(|x| cx.program.value(id, x).as_int() == Some(1))
    };
    let from = |var: &Operand| matches!(var, Operand::Var(v, _) if sources.contains(v));
    let here = f.calls().any(|(_, op, call)| {
        let made = op.dst.is_some_and(|dst| sources.contains(&dst));
        let inside = |id: &FunctionId| cx.program.function(*id).calls().any(|(_, _, c)| is_one(*id, c));
        made && call.targets.iter().any(inside)
            || is_one(function, call) && (made || call.args.first().is_some_and(from))
    });
    let value = cx.program.value(function, operand);
    here || !matches!(value, Value::Local(..)) && is_single(cx, function, &cx.program.absolute(function, &value), depth)
}

fn limits(name: &str) -> bool {
    matches!(name, "max_connections" | "max_size")
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
    f.help = "check one connection out, and lock, work and unlock on it".into();
    if lock.acquire().is_some_and(|a| a.backend == Backend::Postgres) {
        f.help += "; or take `pg_advisory_xact_lock` in the transaction that needs it";
    }
    f.step(Actor::A, span, format!("takes the lock by {command} on connection 1, which goes back to the pool with it"));
    f.step(Actor::B, span, "is lent connection 1: its session has the lock already, so B is granted it as well");
    f.step(Actor::A, span, "unlocks on connection 2, which does not hold the lock: nothing is freed");
    f.lock = Some(cx.key(lock));
    f
}

/// The lock that a release belongs to.
fn lock_of<'c>(cx: &'c Context<'_>, release: &lock::Use) -> Option<&'c Lock> {
    cx.locks.locks.iter().find(|l| l.releases.keys().any(|i| cx.locks.releases[*i].id == release.id))
}

/// Whether the lock is known to be taken on a connection of its own, or on any of a pool.
fn taken_elsewhere(cx: &Context<'_>, release: &lock::Use) -> bool {
    let Some(lock) = lock_of(cx, release) else { return false };
    let kept = |run: &Run| matches!(run.handle.kind, HandleKind::Pinned | HandleKind::Dedicated);
    !on_pool(cx, lock).is_empty() || !database::runs(cx.analyzer, &lock.taken.id.0, kept).is_empty()
}

fn unlocked_elsewhere(cx: &Context<'_>, release: &lock::Use, run: &Run) -> Finding {
    let span = if run.via.len() == 1 { release.effect.span } else { cx.op_span(run.site()) };
    let command = &release.effect.command;
    let mut f = Finding::new(
        &RULE,
        span,
        format!("{command} runs on whatever connection the pool lends for it, not on the one that took the lock"),
    );
    f.confidence = cx.confidence(cx.certainty(release));
    f.caret = "runs on the pool".into();
    f.label(release.effect.span, "the command");
    let lock = lock_of(cx, release);
    let taken = lock.map_or(span, |l| cx.place(&l.taken));
    f.label(taken, "taken here");
    f.help = "keep the connection that took the lock beside it, and unlock on that".into();
    f.step(Actor::A, taken, "takes the lock on connection 1");
    f.step(
        Actor::A,
        span,
        "unlocks on connection 2, which does not hold it: nothing is freed, and the answer is `false`",
    );
    f.step(Actor::B, taken, "waits for connection 1, which lies in the pool with the lock");
    f.lock = lock.map(|l| cx.key(l));
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
