//! `coarse-key`: one constant key for sections that each write one entity.

use crate::analysis::lock::{Decision, Lock};
use crate::analysis::origin_call;
use crate::analysis::summary::{Observation, Relation};
use crate::finding::{Actor, Confidence, Finding, Severity};
use crate::ir::{EffectKind, FunctionId, Piece, Resource, Safety, Value, Write};
use crate::rule::statements::Functions;
use crate::rule::{Context, Group, Rule};

/// The rule.
pub const RULE: Rule = Rule {
    id: "coarse-key",
    severity: Severity::Note,
    group: Group::Taking,
    page: include_str!("../../rules/coarse-key.md"),
    check,
};

/// What the sections of a lock write: the entity, in the terms of the function that takes the lock, and the writes.
struct Section {
    function: FunctionId,
    entity: Value,
    writes: Vec<Observation>,
}

fn check(cx: &Context<'_>, findings: &mut Vec<Finding>) {
    let all = cx.held_blocks();
    let constant = |lock: &Lock| matches!(cx.program.expanded(&cx.analyzer.home(&lock.taken.key)), Value::Const(_));
    let sections: Vec<(usize, Option<Section>)> = cx
        .locks
        .locks
        .iter()
        .enumerate()
        .filter(|(index, lock)| cx.leased(*index) && constant(lock))
        .map(|(index, _)| (index, all.get(&index).and_then(|functions| one_entity(cx, index, functions))))
        .collect();
    for (index, section) in &sections {
        let Some(section) = section else { continue };
        let lock = &cx.locks.locks[*index];
        // Another section of the same lock may go over all entities, and rely on none of them changing.
        let shared = cx.locks.locks.iter().enumerate().any(|(i, other)| {
            let same = other.decision == Decision::Lock
                && cx.analyzer.relate(&lock.taken.key, &other.taken.key) != Relation::Other;
            i != *index && same && !sections.iter().any(|(j, section)| *j == i && section.is_some())
        });
        if !shared {
            findings.push(finding(cx, lock, section));
        }
    }
}

/// The entity that is all a lock's sections write, if every call in them is understood.
fn one_entity(cx: &Context<'_>, lock: usize, functions: &Functions) -> Option<Section> {
    let mut found: Option<Section> = None;
    for (function, seen) in functions {
        let [held] = seen.held.as_slice() else { return None };
        let ops = cx.section_ops(*function, held, &seen.blocks)?;
        let writes = cx.writes_in(lock, *function, held, &ops, true)?;
        if !cx.ends_here(lock, *function)? {
            // It takes the lock for its callers.
            if !writes.is_empty() {
                return None;
            }
            continue;
        }
        let candidates = writes.first().map(|o| named(&o.effect.kind)).unwrap_or_default();
        let entity = candidates.into_iter().find(|entity| {
            given(cx, *function, entity)
                && writes.iter().all(|o| named(&o.effect.kind).contains(entity) || inserts(&o.effect.kind, entity))
        })?;
        found.get_or_insert(Section { function: *function, entity, writes });
    }
    found
}

/// What the rows or the key of a write are picked by. An INSERT picks none.
fn named(effect: &EffectKind) -> Vec<Value> {
    let EffectKind::Write(write) = effect else { return Vec::new() };
    match &write.resource {
        Resource::Table(_) => match &write.safety {
            Safety::Conditions(list) if write.verb != "INSERT" => {
                list.iter().filter(|(_, op, _)| op == "=").map(|(_, _, value)| value.clone()).collect()
            }
            _ => Vec::new(),
        },
        Resource::Key(_, Value::Template(pieces)) => {
            let hole = |piece: &Piece| match piece {
                Piece::Hole(value) => Some(value.clone()),
                Piece::Text(_) => None,
            };
            pieces.iter().filter_map(hole).collect()
        }
        _ => Vec::new(),
    }
}

/// A new row of the entity, such as an entry of its history.
fn inserts(effect: &EffectKind, entity: &Value) -> bool {
    matches!(effect, EffectKind::Write(Write { verb, values, .. }) if verb == "INSERT" && values.contains(entity))
}

/// Whether callers bring the value, and not always the same one.
fn given(cx: &Context<'_>, function: FunctionId, value: &Value) -> bool {
    let mut base = value;
    while let Value::Field(inner, _) = base {
        base = inner;
    }
    let Value::Param(i) = base else { return false };
    // The service itself is one for all calls.
    let f = cx.program.function(function);
    let own = f.params.get(*i as usize).is_some_and(|var| f.var(*var).name.as_deref() == Some("self"));
    let fixed = || {
        let mut callers = cx.program.callers(function).iter().filter(|s| cx.judged(s.function)).peekable();
        callers.peek().is_some()
            && callers.all(|site| {
                let given =
                    origin_call(cx.program, *site).map(|call| cx.program.instantiate(value, call, site.function));
                matches!(given, Some(Value::Const(_) | Value::Path(_) | Value::TypeField(..)))
            })
    };
    !own && !fixed()
}

fn finding(cx: &Context<'_>, lock: &Lock, section: &Section) -> Finding {
    let key = cx.key(lock);
    let span = cx.place(&lock.taken);
    let entity = cx.show(section.function, &section.entity);
    let entity = entity.trim_matches(['{', '}']);
    let mut f = Finding::new(
        &RULE,
        span,
        format!("all sections run under the one lock `{key}`, but each writes only what belongs to one `{entity}`"),
    );
    f.confidence = Confidence::Medium.min(cx.confidence(cx.certainty(&lock.taken)));
    f.caret = "the same key for all of them".into();
    for o in &section.writes {
        f.label(cx.target_place(o), format!("picked by `{entity}`"));
    }
    f.help = format!("put `{entity}` into the key, so that only sections of the same one wait for each other");
    f.step(Actor::A, span, format!("takes `{key}` for one `{entity}` and stalls"));
    f.step(Actor::B, span, format!("wants to work on another `{entity}`, and waits or is turned away"));
    f.lock = Some(key);
    f
}
