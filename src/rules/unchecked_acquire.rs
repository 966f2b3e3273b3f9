//! `unchecked-acquire`: whether the lock was won makes no difference to what follows.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

pub mod arm;
mod woken;

use crate::analysis::fate::{self, Fate};
use crate::analysis::lock::{Decision, Lock};
use crate::analysis::origin_call;
use crate::analysis::summary::{Held, Origin, Relation, Status};
use crate::finding::{Actor, Confidence, Finding, Severity};
use crate::ir::{Acquire, BlockId, EffectKind, Exit, FunctionId, LockKind, OpKind, OpRef, Rvalue, Shape, Value};
use crate::rule::answers::Heed;
use crate::rule::{Context, Group, Rule};
use crate::source::Span;

/// The rule.
pub const RULE: Rule = Rule {
    id: "unchecked-acquire",
    severity: Severity::Error,
    group: Group::Taking,
    page: include_str!("../../rules/unchecked-acquire.md"),
    check,
};

/// What one function does in one world of an acquisition.
#[derive(Default)]
struct Conduct {
    exits: BTreeSet<(Option<OpRef>, bool, Shape)>,
    effects: BTreeSet<Origin>,
    blocks: BTreeSet<(FunctionId, BlockId)>,
    releases: bool,
    unproven: bool,
}

/// An acquisition in the function that sees its outcome, won and lost.
struct Scope {
    held: Rc<Held>,
    won: Conduct,
    lost: Conduct,
}

fn check(cx: &Context<'_>, findings: &mut Vec<Finding>) {
    let found = found(cx);
    for ((lock, function), arm) in arm::found(cx) {
        if !found.contains_key(&lock) {
            findings.push(arm_finding(cx, &cx.locks.locks[lock], function, &arm));
        }
    }
    for (lock, (function, held)) in found {
        findings.push(finding(cx, &cx.locks.locks[lock], function, &held));
    }
    for lock in cx.locks.locks.iter().filter(|l| cx.judged(l.taken.function)) {
        if let Some(watch) = woken::takes_wake_for_grant(cx, lock) {
            findings.push(woken_finding(cx, lock, watch));
        }
    }
}

fn arm_finding(cx: &Context<'_>, lock: &Lock, function: FunctionId, arm: &arm::Arm) -> Finding {
    let held = &arm.held;
    let span = if held.via.len() == 1 { cx.origin_span(held.origin) } else { cx.op_span(held.via[0]) };
    let key = cx.key_seen(lock, function, &arm.held);
    let message =
        format!("who does not get `{key}` does the work of the holder all the same: two clients work at once");
    let mut f = Finding::new(&RULE, span, message);
    f.confidence = cx.confidence(arm.held.certainty).min(Confidence::Medium);
    f.caret = "the loser works too".into();
    f.label(lock.taken.effect.span, "the command");
    f.label(arm.work, "what the holder does, without the lock");
    f.help = "leave, or report an error, when the lock was not won; to take over from a holder that died, wait for its expiry and acquire again".into();
    f.step(Actor::B, span, format!("holds `{key}`, and is slow"));
    f.step(Actor::A, span, "tries to acquire it and is told no");
    f.step(Actor::A, arm.work, "does the same work beside B");
    f.lock = Some(cx.key(lock));
    f
}

fn woken_finding(cx: &Context<'_>, lock: &Lock, watch: Span) -> Finding {
    let key = cx.key(lock);
    let span = cx.place(&lock.taken);
    let message = format!(
        "the end of the node before `{key}` is taken for the grant: that candidate may have left without ever holding the lock"
    );
    let mut f = Finding::new(&RULE, span, message);
    f.confidence = cx.confidence(cx.certainty(&lock.taken)).min(Confidence::Medium);
    f.caret = "the place in the queue is not looked at again".into();
    f.label(watch, "woken here, and taken for the holder");
    f.help = "when the watch fires, list the children again and go on only when your own node is the first; otherwise watch the new predecessor".into();
    f.step(Actor::B, span, format!("holds `{key}`; C waits behind B, A behind C"));
    f.step(Actor::Store, watch, "the session of C ends, and its node with it: the watch of A fires");
    f.step(Actor::A, watch, "takes itself for the holder, and works beside B");
    f.lock = Some(key);
    f
}

/// Locks whose outcome makes no difference, with the innermost function where that is so.
pub fn found(cx: &Context<'_>) -> BTreeMap<usize, (FunctionId, Rc<Held>)> {
    let mut found: BTreeMap<usize, (FunctionId, Rc<Held>)> = BTreeMap::new();
    let scopes = scopes(cx);
    for ((lock, function), scope) in &scopes {
        let (lock, function) = (*lock, *function);
        if !told(&scopes, lock, &scope.held) || worked_below(cx, &scopes, lock, &scope.held) {
            continue;
        }
        if (same(cx, scope) && !handed_on(cx, function, &scope.held)) || inverted(scope) {
            let depth = scope.held.via.len();
            if found.get(&lock).is_none_or(|(_, best)| depth < best.via.len()) {
                found.insert(lock, (function, scope.held.clone()));
            }
        }
    }
    endless(cx, &mut found);
    found
}

/// A loop without an end has no exits to compare: there the answer must have been lost on the way.
fn endless(cx: &Context<'_>, found: &mut BTreeMap<usize, (FunctionId, Rc<Held>)>) {
    let returns = |id: FunctionId| {
        let f = cx.program.function(id);
        f.ops().any(|(_, op)| matches!(op.kind, OpKind::Return(_, Exit::Return | Exit::Question)))
    };
    let log = cx.analyzer.log.borrow();
    for (index, lock) in cx.locks.locks.iter().enumerate() {
        let asked =
            lock.decision == Decision::Lock && lock.acquire().is_some_and(|a| !a.blocking && a.kind == LockKind::Lease);
        if !asked || found.contains_key(&index) {
            continue;
        }
        for lost in cx.lost_answers(&lock.taken, Heed::Acting) {
            let function = lost.site.function;
            let here = log
                .passed
                .iter()
                .find(|p| p.function == function && p.lock.via[0] == lost.site && p.lock.origin == lock.taken.origin());
            if let Some(here) = here.filter(|_| !returns(function)) {
                found.insert(index, (function, here.lock.clone()));
                break;
            }
        }
    }
}

/// The function sees the outcome itself, or what it calls for that answers differently when the lock is lost.
fn told(scopes: &BTreeMap<(usize, FunctionId), Scope>, lock: usize, held: &Held) -> bool {
    let Some(inner) = held.via.get(1) else { return true };
    let Some(inner) = scopes.get(&(lock, inner.function)) else { return false };
    let answers = |c: &Conduct| c.exits.iter().map(|(_, _, ret)| ret.clone()).collect::<BTreeSet<_>>();
    answers(&inner.won) != answers(&inner.lost)
}

/// Whether a function on the way to the acquisition does the work itself, and only where it was won: what it answers its
/// callers is the outcome of that work.
fn worked_below(cx: &Context<'_>, scopes: &BTreeMap<(usize, FunctionId), Scope>, lock: usize, held: &Held) -> bool {
    held.via.iter().skip(1).filter_map(|site| scopes.get(&(lock, site.function))).any(|inner| {
        let only_won = inner.won.effects.difference(&inner.lost.effects);
        let works =
            |origin: &Origin| matches!(cx.origin_kind(*origin), Some(EffectKind::Write(_) | EffectKind::External(_)));
        only_won.into_iter().any(works)
    })
}

fn scopes(cx: &Context<'_>) -> BTreeMap<(usize, FunctionId), Scope> {
    let log = cx.analyzer.log.borrow();
    let mut out: BTreeMap<(usize, FunctionId), Scope> = BTreeMap::new();
    let eligible = |held: &Rc<Held>, function: FunctionId| {
        let lock = cx.locks.of(&held.via, held.origin.effect)?;
        let l = &cx.locks.locks[lock];
        let acquire = l.acquire()?;
        let asked = l.decision == Decision::Lock
            && !acquire.blocking
            && !matches!(acquire.kind, LockKind::Row | LockKind::LeaseRow)
            && !marks_itself(acquire)
            && !lock_effect(cx, held).conditional;
        (asked && cx.judged(function) && !log.cut.contains(&function)).then_some((lock, function))
    };
    for l in &log.leavings {
        let Some(key) = eligible(&l.lock, l.function) else { continue };
        let new = || Scope { held: l.lock.clone(), won: Conduct::default(), lost: Conduct::default() };
        let scope = out.entry(key).or_insert_with(new);
        let conduct = match l.status {
            Status::Failed => continue,
            Status::Lost => &mut scope.lost,
            _ => &mut scope.won,
        };
        conduct.exits.insert((l.at, l.exit == Exit::Question, l.ret.clone()));
        conduct.unproven |= !l.proven || matches!(l.ret, Shape::Tainted);
    }
    for o in &log.observations {
        if !matches!(o.effect.kind, EffectKind::Write(_) | EffectKind::External(_) | EffectKind::Expire(_)) {
            continue;
        }
        let Some(scope) = eligible(&o.lock, o.function).and_then(|key| out.get_mut(&key)) else { continue };
        match o.status {
            Status::Lost => scope.lost.effects.insert(o.origin),
            Status::Held => scope.won.effects.insert(o.origin),
            _ => false,
        };
    }
    for p in &log.passed {
        let Some(scope) = eligible(&p.lock, p.function).and_then(|key| out.get_mut(&key)) else { continue };
        scope.won.blocks.extend(&p.won);
        scope.lost.blocks.extend(&p.lost);
    }
    for r in &log.releases {
        let Some(scope) = eligible(&r.lock, r.function).and_then(|key| out.get_mut(&key)) else { continue };
        match r.status {
            Status::Lost => scope.lost.releases |= r.relation == Relation::Must,
            Status::Failed => {}
            _ => scope.won.releases = true,
        }
    }
    out
}

fn lock_effect<'c>(cx: &'c Context<'_>, held: &Held) -> &'c crate::ir::Effect {
    let lock = cx.locks.of(&held.via, held.origin.effect).unwrap_or_default();
    &cx.locks.locks[lock].taken.effect
}

/// Won and lost, the function leaves by the same exits with the same answers, does the same and runs the same code.
fn same(cx: &Context<'_>, scope: &Scope) -> bool {
    let (won, lost) = (&scope.won, &scope.lost);
    let proven = !won.unproven && !lost.unproven;
    let differs = won.blocks.symmetric_difference(&lost.blocks).any(|(f, b)| works(cx, *f, *b));
    let refused = won.exits.iter().all(|(_, _, ret)| negative(ret));
    proven && !won.exits.is_empty() && !refused && won.exits == lost.exits && won.effects == lost.effects && !differs
}

/// The holder's own name is part of the key (a member of a set of readers): it excludes nobody.
fn marks_itself(acquire: &Acquire) -> bool {
    matches!(&acquire.key, Value::Operation(op, parts) if op == "field" && parts.get(1) == Some(&acquire.token))
}

/// An answer that says "not acquired": nobody works after it.
fn negative(shape: &Shape) -> bool {
    match shape {
        Shape::Bool(false) | Shape::None | Shape::Err(_) => true,
        Shape::Ok(x) => negative(x),
        _ => false,
    }
}

/// The section and the release run when the lock is lost, and neither when it is won.
fn inverted(scope: &Scope) -> bool {
    let (won, lost) = (&scope.won, &scope.lost);
    let proven = !won.unproven && !lost.unproven;
    proven && lost.releases && !won.releases && !lost.effects.is_empty() && won.effects.is_empty()
}

/// Whether a block does more than log.
fn works(cx: &Context<'_>, function: FunctionId, block: BlockId) -> bool {
    cx.program.function(function).block(block).ops.iter().any(|op| match &op.kind {
        OpKind::Call(call) => !fate::looks_only(call),
        OpKind::Store(..) => true,
        // An answer of its own: a value for a variable that other blocks assign too.
        OpKind::Let(Rvalue::Tuple(list)) => !list.is_empty(),
        OpKind::Let(Rvalue::Use(_) | Rvalue::Variant(..) | Rvalue::Struct(..)) => true,
        _ => false,
    })
}

/// A reply that tells won from lost goes where nobody here sees what is made of it.
fn handed_on(cx: &Context<'_>, function: FunctionId, held: &Held) -> bool {
    let Some(dst) = held.dst else { return false };
    let trip = origin_call(cx.program, held.via[0]).and_then(|c| c.effect.as_ref());
    let silent = trip.and_then(|t| t.reply.as_ref()).is_some_and(|r| r.held == r.lost);
    !silent && fate::payload(cx.program, cx.program.function(function), dst) == Fate::Handed
}

fn finding(cx: &Context<'_>, lock: &Lock, function: FunctionId, held: &Held) -> Finding {
    let span = if held.via.len() == lock.taken.id.0.len() { cx.place(&lock.taken) } else { cx.op_span(held.via[0]) };
    let key = match cx.key_seen(lock, function, held) {
        unknown if matches!(unknown.as_str(), ".." | "{..}") => "the lock".to_string(),
        key => format!("`{key}`"),
    };
    let mut f = Finding::new(
        &RULE,
        span,
        format!("whether {key} was acquired makes no difference to what follows: two clients run the section at once"),
    );
    f.confidence = cx.confidence(held.certainty);
    f.caret = "the outcome is not looked at".into();
    f.label(lock.taken.effect.span, "the command");
    f.help = "ask for a reply type that shows a loss (`bool`, `Option<String>`), test it, and leave when the lock was not won".into();
    f.step(Actor::B, span, format!("holds {key}"));
    f.step(Actor::A, span, "tries to acquire it and is told no");
    f.step(Actor::A, span, "does not look at the answer, and works beside B");
    f.lock = Some(cx.key(lock));
    f
}
