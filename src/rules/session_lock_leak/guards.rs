//! Objects that keep the pooled connection of a session lock and do not unlock it when they are dropped.

use std::collections::BTreeSet;

use crate::analysis::database::Run;
use crate::analysis::lock::Lock;
use crate::analysis::summary::{Carry, Leaving, Status};
use crate::finding::{Actor, Confidence, Finding};
use crate::ir::{Backend, FunctionId, Ty};
use crate::rule::Context;
use crate::source::Span;

use super::{RULE, place};

/// Calls after which a connection that a `Drop` has taken does not go back to its pool.
const ENDS: &[&str] = &["close", "close_hard", "close_on_drop", "detach", "leak", "forget"];

/// A lock object whose drop gives the connection back with the lock.
pub(super) struct LetGo {
    /// Name of its type.
    name: String,
    /// Where callers drop it with the lock held; none if only code outside the workspace has it.
    drops: Vec<Span>,
}

/// The object that `function` returns for the lock, if somebody lets go of it with the lock held.
pub(super) fn let_go(
    cx: &Context<'_>,
    lock: usize,
    function: FunctionId,
    exits: &[&Leaving],
    all: &[Leaving],
) -> Option<LetGo> {
    let carried = |e: &&Leaving| e.status == Status::Held && e.proven && e.carry == Some(Carry::Nothing);
    exits.iter().copied().find(carried)?;
    let path = guard_type(cx, &cx.program.function(function).ret, 0)?;
    if cx.program.drop_of(&path).is_some_and(|drop| queues(cx, drop)) {
        return None;
    }
    if closes(cx, &path) {
        return None;
    }
    let outside: Vec<&Leaving> = all
        .iter()
        .filter(|e| e.function != function && !cx.program.function(e.function).test)
        .filter(|e| cx.locks.of(&e.lock.via, e.lock.origin.effect) == Some(lock))
        .collect();
    let mut drops: Vec<Span> = outside
        .iter()
        .filter(|e| e.status == Status::Held && e.proven && !e.carried)
        .filter_map(|e| e.at.map(|at| cx.program.function(e.function).op(at).span))
        .collect();
    drops.sort();
    drops.dedup();
    let used = outside.iter().any(|e| matches!(e.status, Status::Released | Status::Escaped));
    let offered =
        cx.program.function(function).public || outside.iter().any(|e| cx.program.function(e.function).public);
    let name = path.rsplit("::").next().unwrap_or(&path).to_string();
    (!drops.is_empty() || !used && offered).then_some(LetGo { name, drops })
}

/// Whether dropping an object of the type closes the connection that it keeps, or takes it from the pool.
pub(super) fn closes(cx: &Context<'_>, path: &str) -> bool {
    let ends = |id: FunctionId| cx.program.function(id).calls().any(|(_, _, call)| ENDS.contains(&call.name()));
    cx.program.drop_of(path).is_some_and(|drop| {
        ends(drop) || cx.program.functions().any(|(id, _)| cx.analyzer.item(id) == drop && ends(id))
    })
}

/// Whether a `Drop` tells somebody else to unlock: a message to the task that has the connection, or a task of its own.
fn queues(cx: &Context<'_>, drop: FunctionId) -> bool {
    const TELLS: &[&str] = &["send", "try_send", "blocking_send", "send_blocking", "unbounded_send", "spawn"];
    let mut seen = BTreeSet::from([drop]);
    let mut work = vec![(drop, 0)];
    while let Some((id, depth)) = work.pop() {
        for (_, _, call) in cx.program.function(id).calls() {
            if TELLS.contains(&call.name()) {
                return true;
            }
            let next = call.targets.iter().copied().filter(|_| depth < 4);
            work.extend(next.filter(|t| seen.insert(*t)).map(|t| (t, depth + 1)));
        }
    }
    false
}

/// The lock object without a releasing drop in a type.
fn guard_type(cx: &Context<'_>, ty: &Ty, depth: u32) -> Option<String> {
    if depth > 4 {
        return None;
    }
    if cx.analyzer.carry_of(&ty.path) == Some(Carry::Nothing) {
        return Some(ty.path.clone());
    }
    ty.args.iter().find_map(|arg| guard_type(cx, arg, depth + 1))
}

/// The finding on the command that takes the lock.
pub(super) fn finding(cx: &Context<'_>, lock: &Lock, run: &Run, guard: &LetGo) -> Finding {
    let span = place(cx, lock, run);
    let command = &lock.taken.effect.command;
    let name = &guard.name;
    let mut f = Finding::new(
        &RULE,
        span,
        format!(
            "{command} locks the session of a pooled connection, and dropping the `{name}` gives the connection back with the lock"
        ),
    );
    f.confidence = cx.confidence(cx.certainty(&lock.taken));
    if guard.drops.is_empty() {
        f.confidence = f.confidence.min(Confidence::Medium);
    }
    f.caret = "taken here".into();
    f.label(lock.taken.effect.span, "the command");
    for at in guard.drops.iter().take(6) {
        f.label(*at, "drops it with the lock held");
    }
    f.help = format!("give `{name}` a `Drop` that closes or detaches its connection unless it was unlocked");
    if lock.acquire().is_some_and(|a| a.backend == Backend::Postgres) {
        f.help += "; `pg_advisory_xact_lock` in a transaction ends by itself";
    }
    f.step(Actor::A, span, format!("takes the lock by {command} and keeps the connection in a `{name}`"));
    f.step(
        Actor::A,
        guard.drops.first().copied().unwrap_or(span),
        "leaves early, by `?` or a cancelled future: the connection goes back to the pool, its session still holds the lock",
    );
    f.step(Actor::B, span, "waits for a lock that nobody will release, as long as the pool keeps the connection");
    f.lock = Some(cx.key(lock));
    f
}
