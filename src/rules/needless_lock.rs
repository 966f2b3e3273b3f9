//! `needless-lock`: all that happens under a lock is one statement that decides by itself.

use std::collections::{BTreeMap, BTreeSet};

use crate::analysis::lock::{Decision, Lock, show_resource};
use crate::analysis::summary::{Observation, Relation};
use crate::finding::{Actor, Confidence, Finding, Severity};
use crate::ir::{BlockId, EffectKind, FunctionId, OpKind, Safety, Value, Write};
use crate::rule::statements::Functions;
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
    let sections = cx.held_blocks();
    let alone: BTreeMap<usize, Observation> = sections
        .iter()
        .filter(|(lock, _)| cx.leased(**lock))
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

/// The one statement of each section of the lock, if every call in them is understood and there is nothing else.
fn only_statement(cx: &Context<'_>, lock: usize, functions: &Functions) -> Option<Observation> {
    let mut found: Option<Observation> = None;
    for (function, seen) in functions {
        let [held] = seen.held.as_slice() else { return None };
        let ops = cx.section_ops(*function, held, &seen.blocks)?;
        let effects = cx.writes_in(lock, *function, held, &ops, false)?;
        if !cx.ends_here(lock, *function)? {
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
