//! Routines of the database that statements call: their effects, in the terms of their parameters, happen in the calling
//! statement.

use super::{Context, Reading, file_statement, text};
use crate::frontend::sql::FUNCTION;
use crate::frontend::sql::ast::{ExprKind, Function, Source, Statement, StatementKind};
use crate::ir::*;
use crate::link::Program;
use std::collections::BTreeMap;

/// What a routine does.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Routine {
    /// Effects in textual order; those of branches are conditional.
    effects: Vec<Effect>,
    /// Answers with a boolean.
    answers: bool,
}

/// Live routines of a program by name, as far as they touch locks.
pub(super) fn of(program: &Program, context: &Context) -> BTreeMap<String, Routine> {
    let mut out: BTreeMap<String, Routine> = BTreeMap::new();
    for (id, function) in program.functions() {
        let Some(name) = function.path.strip_prefix(FUNCTION).filter(|_| function.kind == FunctionKind::SqlBody) else {
            continue;
        };
        let mut effects = Vec::new();
        for (at, _, call) in function.calls() {
            let Some(trip) = file_statement(program, id, at, call, context) else { continue };
            effects.extend(trip.effects.into_iter().map(|mut e| {
                e.conditional |= at.block.0 > 0;
                e
            }));
        }
        let lock = |e: &Effect| {
            matches!(
                e.kind,
                EffectKind::Acquire(_) | EffectKind::Release(_) | EffectKind::Renew(_) | EffectKind::Expire(_)
            )
        };
        if effects.iter().any(lock) {
            let routine = Routine { effects, answers: function.ret == Ty::path("bool") };
            // Overloads that differ are not told apart.
            match out.get(name) {
                Some(known) if *known != routine => {
                    out.remove(name);
                }
                _ => {
                    out.insert(name.to_string(), routine);
                }
            }
        }
    }
    out
}

/// The routine that a statement calls at its top (`SELECT f(..)`, `SELECT * FROM f(..)`, `CALL f(..)`), with the call.
pub(super) fn called<'a>(context: &'a Context, statement: &'a Statement) -> Option<(&'a Routine, &'a Function)> {
    let found = |f: &'a Function| context.routines.get(f.last()).map(|r| (r, f));
    match &statement.kind {
        StatementKind::Call(f) => found(f),
        StatementKind::Select(s) => {
            let from = s.from.iter().filter_map(|f| match f {
                Source::Function(e, _) => Some(e),
                _ => None,
            });
            s.items.iter().map(|(e, _)| e).chain(from).find_map(|e| match &e.bare().kind {
                ExprKind::Call(f) => found(f),
                _ => None,
            })
        }
        _ => None,
    }
}

/// The effects of a called routine with the call's arguments in them.
pub(super) fn effects(reading: &Reading<'_>, statement: &Statement) -> Vec<Effect> {
    let Some((routine, call)) = called(reading.context, statement) else { return Vec::new() };
    let args: Vec<Value> = call.args.iter().map(|a| text::value(reading.text, reading.binds, a)).collect();
    let place = (reading.place)(call.range.clone());
    let mut out = routine.effects.clone();
    for effect in &mut out {
        effect.span = place;
        effect.command = format!("{} in {}()", effect.command, call.last());
        match &mut effect.kind {
            EffectKind::Acquire(a) => {
                a.key = substitute(&a.key, &args, 0);
                a.token = substitute(&a.token, &args, 0);
            }
            EffectKind::Release(r) => {
                r.key = substitute(&r.key, &args, 0);
                check(&mut r.check, &args);
            }
            EffectKind::Renew(r) => {
                r.key = substitute(&r.key, &args, 0);
                check(&mut r.check, &args);
            }
            EffectKind::Expire(e) => e.key = substitute(&e.key, &args, 0),
            EffectKind::Write(w) => {
                w.values.iter_mut().for_each(|v| *v = substitute(v, &args, 0));
                if let Safety::Conditions(list) = &mut w.safety {
                    list.iter_mut().for_each(|(_, _, v)| *v = substitute(v, &args, 0));
                }
            }
            _ => {}
        }
    }
    out
}

fn check(check: &mut OwnerCheck, args: &[Value]) {
    if let OwnerCheck::Token(value) = check {
        *value = substitute(value, args, 0);
    }
}

/// What the statement's first column is when the called routine answers with a boolean.
pub(super) fn answers(context: &Context, statement: &Statement) -> bool {
    called(context, statement).is_some_and(|(routine, _)| routine.answers)
}

/// Parameters replaced by arguments; what belongs to the routine alone is unknown outside.
fn substitute(value: &Value, args: &[Value], depth: usize) -> Value {
    if depth > 16 {
        return Value::Unknown;
    }
    let sub = |v: &Value| substitute(v, args, depth + 1);
    match value {
        Value::Param(i) => args.get(*i as usize).cloned().unwrap_or(Value::Unknown),
        Value::Local(..) => Value::Unknown,
        Value::Template(pieces) => Value::Template(
            pieces
                .iter()
                .map(|p| match p {
                    Piece::Hole(v) => Piece::Hole(sub(v)),
                    Piece::Text(t) => Piece::Text(t.clone()),
                })
                .collect(),
        ),
        Value::Aggregate(name, fields) => {
            Value::Aggregate(name.clone(), fields.iter().map(|(n, v)| (n.clone(), sub(v))).collect())
        }
        Value::Operation(op, list) => Value::Operation(op.clone(), list.iter().map(sub).collect()),
        Value::Call(call) => {
            let mut call = (**call).clone();
            call.args = call.args.iter().map(sub).collect();
            Value::Call(call.into())
        }
        Value::Join(list) => list.iter().map(sub).reduce(Value::join).unwrap_or(Value::Unknown),
        other => other.clone(),
    }
}
