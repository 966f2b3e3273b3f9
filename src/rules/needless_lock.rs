//! `needless-lock`: all that happens under a lock is one statement that decides by itself.

use std::collections::{BTreeMap, BTreeSet};

use crate::analysis::MAX_REACHED;
use crate::analysis::lock::{Decision, Lock, show_resource};
use crate::analysis::summary::{Held, Observation, Origin, Relation, Status};
use crate::finding::{Actor, Confidence, Finding, Severity};
use crate::ir::{
    BlockId, EffectKind, Exit, FunctionId, LockKind, OpKind, OpRef, Resource, Safety, Shape, Value, Write,
};
use crate::rule::{Context, Group, Rule};

/// The rule.
pub const RULE: Rule = Rule {
    id: "needless-lock",
    severity: Severity::Note,
    group: Group::Taking,
    page: include_str!("../../rules/needless-lock.md"),
    check,
};

fn check(cx: &Context<'_>, findings: &mut Vec<Finding>) {
    for (lock, statement) in needless(cx) {
        findings.push(finding(cx, &cx.locks.locks[lock], &statement));
    }
}

/// Locks all of whose sections do nothing but one statement that is safe alone, with that statement.
pub fn needless(cx: &Context<'_>) -> BTreeMap<usize, Observation> {
    let sections = held_blocks(cx);
    let alone: BTreeMap<usize, Observation> = sections
        .iter()
        .filter(|(lock, _)| leased(cx, **lock))
        .filter_map(|(lock, functions)| Some((*lock, only_statement(cx, *lock, functions)?)))
        .collect();
    // Another section of the same lock may read what this statement changes, and rely on nobody changing it.
    let shared = |lock: usize| {
        let key = &cx.locks.locks[lock].taken.key;
        cx.locks.locks.iter().enumerate().any(|(i, other)| {
            let same = other.decision == Decision::Lock && cx.analyzer.relate(key, &other.taken.key) != Relation::Other;
            i != lock && same && !alone.contains_key(&i)
        })
    };
    alone.iter().filter(|(lock, _)| !shared(**lock)).map(|(lock, o)| (*lock, o.clone())).collect()
}

fn leased(cx: &Context<'_>, lock: usize) -> bool {
    let lock = &cx.locks.locks[lock];
    let kind = lock.acquire().map(|a| a.kind);
    lock.decision == Decision::Lock
        && cx.judged(lock.taken.function)
        && matches!(kind, Some(LockKind::Lease | LockKind::Session))
}

/// What one function sees of a lock: how it is taken there, and the blocks that run with it held.
#[derive(Default)]
struct Seen {
    held: Vec<std::rc::Rc<Held>>,
    blocks: BTreeSet<BlockId>,
}

type Functions = BTreeMap<FunctionId, Seen>;

fn held_blocks(cx: &Context<'_>) -> BTreeMap<usize, Functions> {
    let mut out: BTreeMap<usize, Functions> = BTreeMap::new();
    let log = cx.analyzer.log.borrow();
    for went in log.went.iter().filter(|w| w.status == Status::Held) {
        let Some(lock) = cx.locks.of(&went.lock.via, went.lock.origin.effect) else { continue };
        let seen = out.entry(lock).or_default().entry(went.function).or_default();
        seen.blocks.insert(went.block);
        if !seen.held.iter().any(|h| h.via == went.lock.via) {
            seen.held.push(went.lock.clone());
        }
    }
    out
}

/// The one statement of each section of the lock, if every call in them is understood and there is nothing else.
fn only_statement(cx: &Context<'_>, lock: usize, functions: &Functions) -> Option<Observation> {
    let mut found: Option<Observation> = None;
    for (function, seen) in functions {
        let [held] = seen.held.as_slice() else { return None };
        let ops = section_ops(cx, *function, held, &seen.blocks);
        if !ops.iter().all(|at| cx.understood(*function, *at)) || cx.analyzer.log.borrow().cut.contains(function) {
            return None;
        }
        let effects = effects(cx, lock, *function, held, &ops)?;
        if !ends_here(cx, lock, *function)? {
            // It takes the lock for its callers.
            if !effects.is_empty() {
                return None;
            }
            continue;
        }
        let [statement] = effects.as_slice() else { return None };
        let EffectKind::Write(write) = &statement.effect.kind else { return None };
        let runs_once = !in_loop(cx, *function, statement, &seen.blocks);
        if !runs_once || statement.effect.conditional || !decides(cx, statement, write) {
            return None;
        }
        found.get_or_insert_with(|| statement.clone());
    }
    found
}

/// The ops that run with the lock held, the acquisition itself left out.
fn section_ops(cx: &Context<'_>, function: FunctionId, held: &Held, blocks: &BTreeSet<BlockId>) -> Vec<OpRef> {
    let taken = held.via[0].at;
    let f = cx.program.function(function);
    let after = |at: &OpRef| at.block == taken.block && at.index > taken.index;
    let inside = |at: &OpRef| at.block != taken.block && blocks.contains(&at.block);
    f.ops().map(|(at, _)| at).filter(|at| after(at) || inside(at)).collect()
}

/// What is done in a section, its bookkeeping left out; `None` where that cannot be one statement only.
fn effects(
    cx: &Context<'_>,
    lock: usize,
    function: FunctionId,
    held: &std::rc::Rc<Held>,
    ops: &[OpRef],
) -> Option<Vec<Observation>> {
    let reached = cx.analyzer.reached(function);
    if reached.len() >= MAX_REACHED {
        return None;
    }
    let mut out: Vec<Observation> = Vec::new();
    for r in reached.iter().filter(|r| ops.contains(&r.via[0].at)) {
        let own = |key: &Value| cx.analyzer.relate(key, &held.acquire.key) == Relation::Must;
        match &r.effect.kind {
            EffectKind::Release(_) | EffectKind::Renew(_) => {}
            EffectKind::Begin | EffectKind::Commit | EffectKind::Rollback => {}
            EffectKind::Expire(e) if own(&e.key) => {}
            EffectKind::Read(Resource::Key(_, key)) if own(key) => {}
            EffectKind::Write(Write { resource: Resource::Key(_, key), .. }) if own(key) => {}
            // What `INCR` answers.
            EffectKind::Issue(_) => {}
            EffectKind::Write(_) => out.push(Observation {
                function,
                effect: r.effect.clone(),
                origin: r.origin,
                via: r.via.clone(),
                lock: held.clone(),
                status: Status::Held,
                proven: true,
                arm: None,
                relation: Relation::Other,
            }),
            _ => return None,
        }
    }
    // The path search must have come there with the lock, and only with it.
    let seen: BTreeSet<(Origin, bool)> =
        cx.observed(lock, |o| o.function == function).iter().map(|o| (o.origin, o.status == Status::Held)).collect();
    let only_held = |o: &Observation| seen.contains(&(o.origin, true)) && !seen.contains(&(o.origin, false));
    out.iter().all(only_held).then_some(out)
}

/// Whether the lock is given back in the function wherever it is left well; `None` if it goes where it is not followed.
fn ends_here(cx: &Context<'_>, lock: usize, function: FunctionId) -> Option<bool> {
    let log = cx.analyzer.log.borrow();
    let own = log
        .leavings
        .iter()
        .filter(|l| l.function == function && cx.locks.of(&l.lock.via, l.lock.origin.effect) == Some(lock));
    let (mut released, mut kept) = (false, false);
    for leaving in own {
        let well = leaving.exit == Exit::Return && !matches!(leaving.ret, Shape::Err(_));
        match leaving.status {
            Status::Escaped => return None,
            Status::Released => released = true,
            Status::Held => kept |= well,
            Status::Lost | Status::Failed => {}
        }
    }
    match (released, kept) {
        (true, false) => Some(true),
        (false, true) => Some(false),
        _ => None,
    }
}

/// Whether the statement can run more than once in one section.
fn in_loop(cx: &Context<'_>, function: FunctionId, o: &Observation, blocks: &BTreeSet<BlockId>) -> bool {
    o.via.iter().any(|site| {
        let f = cx.program.function(site.function);
        if !matches!(f.op(site.at).kind, OpKind::Call(_)) {
            return true;
        }
        let inside = |block: &BlockId| site.function != function || blocks.contains(block);
        let next = |block: BlockId| f.block(block).edges.iter().map(|e| e.to).filter(inside).collect::<Vec<_>>();
        let mut seen = BTreeSet::new();
        let mut work = next(site.at.block);
        while let Some(block) = work.pop() {
            if seen.insert(block) {
                work.extend(next(block));
            }
        }
        seen.contains(&site.at.block)
    })
}

/// Whether two clients may send the statement at the same time, and the store decides between them.
fn decides(cx: &Context<'_>, o: &Observation, write: &Write) -> bool {
    let counts = matches!(write.verb.as_str(), "INCR" | "DECR" | "INCRBY" | "DECRBY" | "HINCRBY");
    match &write.safety {
        Safety::Unique | Safety::Upsert => !cx.holds_result(o, &write.values),
        Safety::Conditions(_) if write.verb == "INSERT" => !cx.holds_result(o, &write.values),
        Safety::Conditions(list) if write.verb == "UPDATE" => list.iter().any(|c| changes(write, c)),
        Safety::None => counts && !cx.holds_result(o, &write.values),
        _ => false,
    }
}

/// Whether the statement gives the column that it compares another value: the second client finds nothing to change.
fn changes(write: &Write, (column, op, value): &(String, String, Value)) -> bool {
    let name = column.rsplit('.').next().unwrap_or(column).trim_matches(['"', '`', '[', ']']);
    let at = write.assigned.iter().position(|c| c.eq_ignore_ascii_case(name));
    let known = |v: &Value| !matches!(v, Value::Unknown | Value::Join(_));
    op == "=" && at.and_then(|i| write.values.get(i)).is_some_and(|new| new != value && known(value))
}

fn finding(cx: &Context<'_>, lock: &Lock, o: &Observation) -> Finding {
    let key = cx.key(lock);
    let span = cx.place(&lock.taken);
    let (what, verb) = match &o.effect.kind {
        EffectKind::Write(write) => (show_resource(&write.resource), write.verb.as_str()),
        _ => (String::new(), ""),
    };
    let mut f = Finding::new(
        &RULE,
        span,
        format!("all that happens under the lock `{key}` is one {verb} of {what} that is safe without it"),
    );
    f.confidence = Confidence::Medium.min(cx.confidence(cx.certainty(&lock.taken)));
    f.caret = "needed by nothing in its section".into();
    let statement = cx.target_place(o);
    f.label(statement, "the only effect: the store decides between two clients that send it");
    f.help = "leave the lock out, and look at what the statement answers".into();
    f.step(Actor::A, span, format!("takes `{key}` and sends the {verb}"));
    f.step(
        Actor::B,
        statement,
        format!("sends the same {verb} without any lock: the store applies one after the other"),
    );
    f.lock = Some(key);
    f
}
