//! INSERT, UPDATE, DELETE.

use super::ast::*;
use super::cursor::Cursor;
use super::expr::{expr, list};
use super::query::{Items, from, hints, items, table};
use super::statement::read;

fn returning(c: &mut Cursor<'_>) -> Option<Items> {
    (c.eat(&["returning"]) || c.eat(&["output"])).then(|| items(c))
}

/// Skips to the next of the clause keywords, keeping nothing.
fn skip_to(c: &mut Cursor<'_>, words: &[&str]) {
    while !c.done() && !c.is_any(words) {
        if c.sign("(") {
            c.skip_group();
        } else {
            c.at += 1;
        }
    }
}

fn name_list(c: &mut Cursor<'_>) -> Vec<String> {
    let tokens = c.group();
    let mut inner = c.over(tokens);
    let mut out = Vec::new();
    while !inner.done() {
        match inner.path() {
            Some((path, _)) => out.extend(path.last().cloned()),
            None => inner.at += 1,
        }
        if inner.sign("(") {
            // An expression of an index: not a column name.
            inner.skip_group();
        }
        inner.eat_sign(",");
    }
    out
}

/// INSERT and REPLACE.
pub(super) fn insert(c: &mut Cursor<'_>) -> StatementKind {
    let replace = c.is("replace") || c.nth_is(1, "or") && c.nth_is(2, "replace");
    c.at += 1;
    let mut ignore = false;
    while c.is_any(&[
        "or",
        "ignore",
        "replace",
        "low_priority",
        "delayed",
        "high_priority",
        "abort",
        "fail",
        "rollback",
    ]) {
        ignore |= c.is("ignore");
        c.at += 1;
    }
    c.eat(&["into"]);
    let Some((path, range)) = c.path() else { return StatementKind::Unknown };
    let mut table = Table { name: path.join("."), alias: None, range };
    if c.eat(&["as"]) || (c.at_name() && !c.is("overriding")) {
        table.alias = c.next().map(|t| t.identifier(c.text));
    }
    let mut out = Insert { table, columns: Vec::new(), rows: Vec::new(), query: None, conflict: None, returning: None };
    if replace {
        out.conflict = Some(Conflict { replace: true, ..Conflict::default() });
    } else if ignore {
        out.conflict = Some(Conflict::default());
    }
    if c.sign("(") && !starts_query_in_group(c) {
        out.columns = name_list(c);
    }
    while !c.done() {
        let before = c.at;
        if c.eat(&["values"]) {
            loop {
                if !c.sign("(") {
                    break;
                }
                let tokens = c.group();
                let mut inner = c.over(tokens);
                out.rows.push(list(&mut inner));
                c.questions = inner.questions;
                if !c.eat_sign(",") {
                    break;
                }
            }
        } else if c.is("set") {
            c.at += 1;
            let set = assignments(c);
            out.columns = set.iter().map(|a| a.column.clone()).collect();
            out.rows.push(set.into_iter().map(|a| a.value).collect());
        } else if (c.is_any(&["select", "with", "table"]) || c.sign("(")) && out.query.is_none() && out.rows.is_empty()
        {
            out.query = query_before_conflict(c).map(Box::new);
        } else if c.eat(&["on", "conflict"]) {
            out.conflict = Some(conflict(c));
        } else if c.eat(&["on", "duplicate", "key", "update"]) {
            out.conflict = Some(Conflict { set: assignments(c), ..Conflict::default() });
        } else if c.is_any(&["returning", "output"]) {
            out.returning = returning(c);
        }
        if c.at == before {
            c.at += 1;
        }
    }
    StatementKind::Insert(Box::new(out))
}

fn starts_query_in_group(c: &Cursor<'_>) -> bool {
    ["select", "with", "values"].iter().any(|w| c.nth_is(1, w)) || c.nth_sign(1, "(")
}

/// The query of INSERT .. SELECT: ends before ON CONFLICT, ON DUPLICATE KEY and RETURNING.
fn query_before_conflict(c: &mut Cursor<'_>) -> Option<Statement> {
    let from = c.at;
    while !c.done() {
        let stops = c.is("returning") || c.is("on") && (c.nth_is(1, "conflict") || c.nth_is(1, "duplicate"));
        if stops {
            break;
        }
        if c.sign("(") {
            c.skip_group();
        } else {
            c.at += 1;
        }
    }
    let mut inner = c.over(c.tokens.get(from..c.at).unwrap_or(&[]));
    let out = inner.deeper(read);
    c.questions = inner.questions;
    out
}

fn conflict(c: &mut Cursor<'_>) -> Conflict {
    let mut out = Conflict::default();
    if c.sign("(") {
        out.target = name_list(c);
    } else if c.eat(&["on", "constraint"]) {
        out.target.extend(c.path().map(|(path, _)| path.join(".")));
    }
    skip_to(c, &["do", "returning"]);
    if c.eat(&["do", "update", "set"]) {
        out.set = assignments(c);
        if c.eat(&["where"]) {
            out.filter = Some(expr(c));
        }
    } else if c.eat(&["do"]) {
        c.eat(&["nothing"]);
    }
    out
}

/// SET list.
pub(super) fn assignments(c: &mut Cursor<'_>) -> Vec<Assignment> {
    let mut out = Vec::new();
    loop {
        let before = c.at;
        if c.sign("(") {
            let columns = name_list(c);
            c.eat_sign("=");
            c.eat(&["row"]);
            let value = expr(c);
            let parts = match &value.kind {
                ExprKind::List(list) if list.len() == columns.len() => list.clone(),
                _ => vec![value.clone(); columns.len()],
            };
            out.extend(columns.into_iter().zip(parts).map(|(column, value)| Assignment { column, value }));
        } else if let Some((path, _)) = c.path() {
            while c.sign("[") {
                c.skip_group();
            }
            if !c.eat_sign("=") && !c.eat_sign(":=") {
                break;
            }
            let value = expr(c);
            out.extend(path.last().map(|column| Assignment { column: column.clone(), value }));
        }
        if c.at == before || !c.eat_sign(",") {
            break;
        }
    }
    out
}

/// UPDATE.
pub(super) fn update(c: &mut Cursor<'_>) -> StatementKind {
    c.at += 1;
    while c.is_any(&["or", "ignore", "low_priority", "rollback", "abort", "replace", "fail"]) {
        c.at += 1;
    }
    if c.is("top") && c.nth_sign(1, "(") {
        c.at += 1;
        c.skip_group();
    }
    let Some(table) = table(c) else { return StatementKind::Unknown };
    let mut out = Update { table, set: Vec::new(), from: Vec::new(), filter: None, returning: None };
    let mut other = Vec::new();
    let mut locks = Vec::new();
    hints(c, &mut locks, &out.table);
    if c.sign(",") || c.is_any(&["join", "inner", "left", "cross", "right", "straight_join"]) {
        // MySQL: `UPDATE a JOIN b ON .. SET`.
        while c.eat_sign(",") || c.is_any(&["join", "inner", "left", "outer", "cross", "right", "straight_join"]) {
            if c.is_any(&["join", "inner", "left", "outer", "cross", "right", "straight_join"]) {
                c.at += 1;
            }
        }
        from(c, &mut out.from, &mut other, &mut locks);
    }
    while !c.done() {
        let before = c.at;
        if c.eat(&["set"]) {
            out.set = assignments(c);
        } else if c.eat(&["from"]) {
            from(c, &mut out.from, &mut other, &mut locks);
        } else if c.eat(&["where"]) {
            out.filter = if c.eat(&["current", "of"]) { Some(current_of(c)) } else { Some(expr(c)) };
        } else if c.is_any(&["returning", "output"]) {
            out.returning = returning(c);
        }
        if c.at == before {
            c.at += 1;
        }
    }
    StatementKind::Update(Box::new(out))
}

fn current_of(c: &mut Cursor<'_>) -> Expr {
    let start = c.offset();
    c.path();
    Expr::opaque(c.since(start))
}

/// DELETE.
pub(super) fn delete(c: &mut Cursor<'_>) -> StatementKind {
    c.at += 1;
    if c.is("top") && c.nth_sign(1, "(") {
        c.at += 1;
        c.skip_group();
    }
    c.eat(&["from"]);
    let Some(table) = table(c) else { return StatementKind::Unknown };
    let mut out = Delete { table, from: Vec::new(), filter: None, returning: None };
    let (mut other, mut locks) = (Vec::new(), Vec::new());
    while !c.done() {
        let before = c.at;
        if c.eat(&["using"]) || c.eat(&["from"]) {
            from(c, &mut out.from, &mut other, &mut locks);
        } else if c.eat(&["where"]) {
            out.filter = if c.eat(&["current", "of"]) { Some(current_of(c)) } else { Some(expr(c)) };
        } else if c.is_any(&["returning", "output"]) {
            out.returning = returning(c);
        }
        if c.at == before {
            c.at += 1;
        }
    }
    StatementKind::Delete(Box::new(out))
}
