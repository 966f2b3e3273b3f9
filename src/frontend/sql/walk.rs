//! Walks over statement trees.

use super::ast::*;

/// Where an expression or sub-statement stands in its statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// Select list, RETURNING.
    Item,
    /// WHERE, HAVING, ON, ORDER BY.
    Filter,
    /// A value that is written or passed.
    Value,
    /// FROM.
    From,
}

/// Calls `on_expr` for every expression and `on_statement` for every statement below `statement`, itself included,
/// outer ones first.
pub fn walk<'a>(
    statement: &'a Statement,
    on_statement: &mut dyn FnMut(&'a Statement),
    on_expr: &mut dyn FnMut(&'a Expr, Position),
) {
    on_statement(statement);
    for (_, cte) in &statement.ctes {
        walk(cte, on_statement, on_expr);
    }
    match &statement.kind {
        StatementKind::Select(s) => {
            for (e, _) in &s.items {
                walk_expr(e, Position::Item, on_statement, on_expr);
            }
            sources(&s.from, on_statement, on_expr);
            for e in s.filter.iter().chain(&s.other) {
                walk_expr(e, Position::Filter, on_statement, on_expr);
            }
            for u in &s.union {
                walk(u, on_statement, on_expr);
            }
        }
        StatementKind::Insert(i) => {
            for e in i.rows.iter().flatten() {
                walk_expr(e, Position::Value, on_statement, on_expr);
            }
            if let Some(q) = &i.query {
                walk(q, on_statement, on_expr);
            }
            if let Some(conflict) = &i.conflict {
                assignments(&conflict.set, on_statement, on_expr);
                if let Some(e) = &conflict.filter {
                    walk_expr(e, Position::Filter, on_statement, on_expr);
                }
            }
            items(&i.returning, on_statement, on_expr);
        }
        StatementKind::Update(u) => {
            assignments(&u.set, on_statement, on_expr);
            sources(&u.from, on_statement, on_expr);
            if let Some(e) = &u.filter {
                walk_expr(e, Position::Filter, on_statement, on_expr);
            }
            items(&u.returning, on_statement, on_expr);
        }
        StatementKind::Delete(d) => {
            sources(&d.from, on_statement, on_expr);
            if let Some(e) = &d.filter {
                walk_expr(e, Position::Filter, on_statement, on_expr);
            }
            items(&d.returning, on_statement, on_expr);
        }
        StatementKind::Call(f) => {
            for e in &f.args {
                walk_expr(e, Position::Value, on_statement, on_expr);
            }
        }
        _ => {}
    }
}

fn items<'a>(
    list: &'a Option<Vec<(Expr, Option<String>)>>,
    on_statement: &mut dyn FnMut(&'a Statement),
    on_expr: &mut dyn FnMut(&'a Expr, Position),
) {
    for (e, _) in list.iter().flatten() {
        walk_expr(e, Position::Item, on_statement, on_expr);
    }
}

fn assignments<'a>(
    set: &'a [Assignment],
    on_statement: &mut dyn FnMut(&'a Statement),
    on_expr: &mut dyn FnMut(&'a Expr, Position),
) {
    for a in set {
        walk_expr(&a.value, Position::Value, on_statement, on_expr);
    }
}

fn sources<'a>(
    from: &'a [Source],
    on_statement: &mut dyn FnMut(&'a Statement),
    on_expr: &mut dyn FnMut(&'a Expr, Position),
) {
    for source in from {
        match source {
            Source::Table(_) => {}
            Source::Query(q, _) => walk(q, on_statement, on_expr),
            Source::Function(e, _) => walk_expr(e, Position::From, on_statement, on_expr),
        }
    }
}

/// Calls `on_expr` for `e` and all below it.
pub fn walk_expr<'a>(
    e: &'a Expr,
    position: Position,
    on_statement: &mut dyn FnMut(&'a Statement),
    on_expr: &mut dyn FnMut(&'a Expr, Position),
) {
    on_expr(e, position);
    match &e.kind {
        ExprKind::Call(f) => {
            for a in &f.args {
                walk_expr(a, position, on_statement, on_expr);
            }
        }
        ExprKind::Binary(_, l, r) => {
            walk_expr(l, position, on_statement, on_expr);
            walk_expr(r, position, on_statement, on_expr);
        }
        ExprKind::Unary(_, x) | ExprKind::Cast(x, _) => walk_expr(x, position, on_statement, on_expr),
        ExprKind::List(list) => {
            for x in list {
                walk_expr(x, position, on_statement, on_expr);
            }
        }
        ExprKind::Query(q) => walk(q, on_statement, on_expr),
        _ => {}
    }
}

/// Whether a call whose name ends at byte `end` is part of the tree.
pub(super) fn has_call_at(statement: &Statement, end: usize) -> bool {
    let mut found = matches!(&statement.kind, StatementKind::Call(f) if f.range.end == end);
    let mut seen = |e: &Expr, _: Position| found |= matches!(&e.kind, ExprKind::Call(f) if f.range.end == end);
    walk(statement, &mut |_| {}, &mut seen);
    found
}
