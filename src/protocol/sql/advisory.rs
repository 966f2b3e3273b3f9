//! Advisory locks and their kin on other servers.

use super::{Reading, text};
use crate::frontend::sql::ast::{Expr, ExprKind, Function, Select, Source, Statement, StatementKind};
use crate::frontend::sql::walk::{self, Position};
use crate::frontend::sql::{Dialect, LockAction, lock_function};
use crate::ir::*;
use std::ops::Range;

/// All lock calls of a statement in textual order.
pub(super) fn effects(reading: &Reading<'_>, statement: &Statement) -> Vec<Effect> {
    let mut functions: Vec<&Function> = Vec::new();
    let mut procedures: Vec<&Function> = Vec::new();
    walk::walk(
        statement,
        &mut |s| {
            if let StatementKind::Call(f) = &s.kind {
                procedures.push(f);
            }
        },
        &mut |e, _| {
            if let ExprKind::Call(f) = &e.kind {
                functions.push(f);
            }
        },
    );
    let (scanned, branches) = (scanned_calls(statement), conditional_ranges(statement));
    let mut calls: Vec<(&Function, bool, bool)> = Vec::new();
    for f in functions.into_iter().chain(procedures).chain(&statement.loose) {
        let inside = |list: &[Range<usize>]| list.iter().any(|r| r.start <= f.range.start && f.range.end <= r.end);
        if !calls.iter().any(|(seen, ..)| seen.range == f.range) {
            calls.push((f, inside(&scanned), inside(&branches)));
        }
    }
    calls.sort_by_key(|(f, ..)| f.range.start);
    calls
        .into_iter()
        .filter_map(|(f, scanned, conditional)| {
            let mut effect = effect(reading, f, scanned)?;
            effect.conditional = conditional;
            Some(effect)
        })
        .collect()
}

/// CASE arms: their calls may not run.
fn conditional_ranges(statement: &Statement) -> Vec<Range<usize>> {
    let mut out = Vec::new();
    walk::walk(statement, &mut |_| {}, &mut |e, _| {
        if let ExprKind::Call(f) = &e.kind
            && f.name == "case"
        {
            out.extend(f.args.iter().skip(1).map(|a| a.range.clone()));
        }
    });
    out
}

/// Ranges of calls that run once for each scanned row: they stand in the select list or WHERE of a level that reads a
/// table and has a WHERE, ORDER BY or LIMIT. A level over nothing but the key's own sub-query or a CTE scans no more rows
/// than it returns.
fn scanned_calls(statement: &Statement) -> Vec<Range<usize>> {
    let mut out = Vec::new();
    let cte_names: Vec<&str> = statement.ctes.iter().map(|(name, _)| name.as_str()).collect();
    walk::walk(
        statement,
        &mut |s| {
            if let StatementKind::Select(select) = &s.kind
                && scans(select, &cte_names)
            {
                for e in select.items.iter().map(|(e, _)| e).chain(&select.filter) {
                    walk::walk_expr(e, Position::Item, &mut |_| {}, &mut |e, _| {
                        if let ExprKind::Call(f) = &e.kind
                            && lock_function(&f.name).is_some()
                            && f.args.iter().any(reads_column)
                        {
                            out.push(f.range.clone());
                        }
                    });
                }
            }
        },
        &mut |_, _| {},
    );
    out
}

fn scans(select: &Select, ctes: &[&str]) -> bool {
    let table = select.from.iter().any(|s| matches!(s, Source::Table(t) if !ctes.contains(&t.name.as_str())));
    // A lock call in WHERE is evaluated in an order of the planner's choice; one in the select list before LIMIT's cut.
    let in_filter = select.filter.as_ref().is_some_and(has_lock_call);
    table && (select.chooses || in_filter)
}

fn has_lock_call(e: &Expr) -> bool {
    let mut found = false;
    walk::walk_expr(e, Position::Filter, &mut |_| {}, &mut |e, _| {
        found |= matches!(&e.kind, ExprKind::Call(f) if lock_function(&f.name).is_some());
    });
    found
}

fn reads_column(e: &Expr) -> bool {
    let mut found = false;
    walk::walk_expr(e, Position::Value, &mut |_| {}, &mut |e, _| found |= matches!(e.kind, ExprKind::Column(_)));
    found
}

/// Releases everything the session holds.
pub(super) fn release_all(reading: &Reading<'_>, range: Range<usize>, command: &str, dialect: Dialect) -> Effect {
    let release = Release {
        backend: reading.backend(dialect),
        kind: LockKind::Session,
        key: Value::Unknown,
        check: OwnerCheck::Server,
        all: true,
    };
    reading.effect(range, command, EffectKind::Release(release))
}

fn effect(reading: &Reading<'_>, f: &Function, scanned: bool) -> Option<Effect> {
    let lock = lock_function(&f.name)?;
    let applock = f.last().ends_with("applock");
    let value = |e: &Expr| text::value(reading.text, reading.binds, e);
    let named = |name: &str, position: usize| f.arg(name, position).map(value);
    let session = lock.session
        || applock
            && named("lockowner", if lock.action == LockAction::Take { 2 } else { 1 })
                .is_some_and(|v| v.as_str().is_some_and(|s| s.eq_ignore_ascii_case("session")));
    let kind = if session { LockKind::Session } else { LockKind::Transaction };
    let key = if applock {
        named("resource", 0).unwrap_or(Value::Unknown)
    } else if lock.dialect == Dialect::MySql {
        f.args.first().map_or(Value::Unknown, value)
    } else {
        key(f.args.iter().map(value).collect())
    };
    let backend = reading.backend(lock.dialect);
    let command = f.last().to_string();
    let kind = match lock.action {
        LockAction::ReleaseAll => return Some(release_all(reading, f.range.clone(), &command, lock.dialect)),
        LockAction::Release => {
            EffectKind::Release(Release { backend, kind, key, check: OwnerCheck::Server, all: false })
        }
        LockAction::Take => {
            let form = if scanned { AcquireForm::PerRow } else { AcquireForm::LockApi };
            EffectKind::Acquire(Acquire {
                backend,
                kind,
                form,
                key,
                token: Value::Unknown,
                ttl: Ttl::Managed,
                // `GET_LOCK(name, -1)` too can answer no: NULL on an error, and MariaDB takes no negative timeout at all.
                blocking: !lock.try_,
            })
        }
    };
    Some(reading.effect(f.range.clone(), command, kind))
}

/// One bigint or two ints: two key spaces that do not overlap (PostgreSQL manual, 9.28.10).
fn key(mut args: Vec<Value>) -> Value {
    match args.len() {
        0 => Value::Unknown,
        1 => args.swap_remove(0),
        _ => Value::Aggregate("()".into(), args.into_iter().enumerate().map(|(i, v)| (i.to_string(), v)).collect()),
    }
}

/// The effect of a lock function that a query builder calls by its declared name.
pub(super) fn declared(name: &str, args: &[Value]) -> Option<EffectKind> {
    let lock = lock_function(name)?;
    let backend = match lock.dialect {
        Dialect::MySql => Backend::MySql,
        _ => Backend::Postgres,
    };
    let kind = if lock.session { LockKind::Session } else { LockKind::Transaction };
    let release = |key, all| EffectKind::Release(Release { backend, kind, key, check: OwnerCheck::Server, all });
    Some(match lock.action {
        LockAction::ReleaseAll => release(Value::Unknown, true),
        LockAction::Release => release(key(args.to_vec()), false),
        LockAction::Take => EffectKind::Acquire(Acquire {
            backend,
            kind,
            form: AcquireForm::LockApi,
            key: key(args.to_vec()),
            token: Value::Unknown,
            ttl: Ttl::Managed,
            blocking: !lock.try_,
        }),
    })
}
