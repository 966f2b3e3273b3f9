//! Questions about parts of statements: which routine is called, what INTO names, what EXECUTE runs.

use crate::frontend::sql::ast::{Expr, ExprKind, Statement, StatementKind};
use crate::frontend::sql::build::{Builder, is_routine};
use crate::frontend::sql::cursor::Cursor;
use crate::frontend::sql::expr::list;
use crate::frontend::sql::tokens::{Token, TokenKind};
use crate::frontend::sql::walk;
use crate::ir::{Operand, Ty};
use std::ops::Range;

pub(super) fn walk_tables(statement: &Statement) -> bool {
    let mut found = false;
    walk::walk(
        statement,
        &mut |s| {
            found |= match &s.kind {
                StatementKind::Select(s) => {
                    s.from.iter().any(|f| matches!(f, crate::frontend::sql::ast::Source::Table(_)))
                }
                _ => true,
            }
        },
        &mut |_, _| {},
    );
    found
}

/// A routine of the workspace that the statement is about: `PERFORM f(..)`, `SELECT f(..) INTO x`, `CALL p(..)`,
/// `SELECT * FROM f(..)`; called as an op of its own.
pub(super) fn routine_of(
    statement: &Statement,
    prefix: &str,
    b: &mut Builder<'_>,
    tokens: &[Token],
) -> Option<Operand> {
    let whole = b.span(statement.range.clone());
    if prefix == "SELECT " {
        let mut c = Cursor::new(b.text, tokens, b.dialect);
        let mut result = None;
        for e in list(&mut c) {
            if let ExprKind::Call(f) = &e.bare().kind
                && is_routine(&f.name)
            {
                result = Some(b.routine_call(f, whole));
            }
        }
        return result;
    }
    calls_of(statement).into_iter().map(|f| b.routine_call(f, whole)).last()
}

/// Routine calls at the top of a statement.
pub(in crate::frontend::sql) fn calls_of(statement: &Statement) -> Vec<&crate::frontend::sql::ast::Function> {
    let mut out = Vec::new();
    match &statement.kind {
        StatementKind::Call(f) if is_routine(&f.name) => out.push(f),
        StatementKind::Select(s) => {
            let from = s.from.iter().filter_map(|f| match f {
                crate::frontend::sql::ast::Source::Function(e, _) => Some(e),
                _ => None,
            });
            for e in s.items.iter().map(|(e, _)| e).chain(from) {
                if let ExprKind::Call(f) = &e.bare().kind
                    && is_routine(&f.name)
                {
                    out.push(f);
                }
            }
        }
        _ => {}
    }
    out
}

/// `target := value`, `target = value` of PL/pgSQL; the target's first name.
pub(super) fn assignment<'t>(text: &str, tokens: &'t [Token]) -> Option<(String, &'t [Token])> {
    let first = tokens.first().filter(|t| matches!(t.kind, TokenKind::Word | TokenKind::Quoted | TokenKind::Param))?;
    let at = tokens.iter().position(|t| t.is_sign(text, ":=") || t.is_sign(text, "="))?;
    let statement = ["select", "update", "insert", "delete", "with", "set", "perform", "call", "merge", "lock", "exec"]
        .iter()
        .any(|w| first.is(text, w));
    let target = tokens[..at].iter().all(|t| {
        matches!(t.kind, TokenKind::Word | TokenKind::Quoted | TokenKind::Punct | TokenKind::Number | TokenKind::Param)
    });
    let value = tokens.get(at + 1..).filter(|v| !v.is_empty())?;
    (!statement && target).then(|| (first.identifier(text), value))
}

/// `INTO [STRICT] a, b`
pub(super) fn into_targets(text: &str, tokens: &[Token]) -> Vec<String> {
    // `INSERT INTO t` is no target list.
    let insert = tokens.first().is_some_and(|t| t.is(text, "insert") || t.is(text, "merge"));
    let Some(at) =
        tokens.iter().enumerate().filter(|(i, t)| t.is(text, "into") && !(insert && *i < 3)).map(|(i, _)| i).next()
    else {
        return Vec::new();
    };
    let mut out = Vec::new();
    let mut rest = tokens[at + 1..].iter().filter(|t| !t.is(text, "strict")).peekable();
    while let Some(t) = rest.next() {
        if !matches!(t.kind, TokenKind::Word | TokenKind::Quoted) {
            break;
        }
        out.push(t.identifier(text));
        if rest.peek().is_some_and(|t| t.is_sign(text, ",")) {
            rest.next();
        } else {
            break;
        }
    }
    out
}

/// The text of EXECUTE: literals joined by `||`, holes as `{}`; `format('..%I..')` alike.
pub(super) fn dynamic(e: &Expr) -> Option<String> {
    match &e.bare().kind {
        ExprKind::Str(s) => Some(s.clone()),
        ExprKind::Binary(op, l, r) if op == "||" => {
            let (l, r) = (dynamic(l), dynamic(r));
            if l.is_none() && r.is_none() {
                return None;
            }
            Some(format!("{}{}", l.unwrap_or_else(|| "{}".into()), r.unwrap_or_else(|| "{}".into())))
        }
        ExprKind::Call(f) if f.last() == "format" => {
            let ExprKind::Str(s) = &f.args.first()?.bare().kind else { return None };
            let mut out = s.clone();
            for hole in ["%I", "%L", "%s", "%1$I", "%2$I", "%1$L", "%2$L", "%1$s", "%2$s"] {
                out = out.replace(hole, "{}");
            }
            Some(out)
        }
        _ => None,
    }
}

/// The definition of a routine that EXECUTE runs, as a range of the text, and whether it is a format: `format($$CREATE
/// FUNCTION ..$$, ..)`.
pub(super) fn definition(text: &str, tokens: &[Token]) -> Option<(Range<usize>, bool)> {
    let format = tokens.first()?.is(text, "format") && tokens.get(1)?.is_sign(text, "(");
    let token = tokens.get(if format { 2 } else { 0 }).filter(|t| t.kind == TokenKind::Dollar)?;
    let body = token.dollar_body(text);
    let mut words = text.get(body.clone())?.split_ascii_whitespace().map(str::to_ascii_lowercase);
    let creates = words.next()? == "create" && words.take(3).any(|w| w == "function" || w == "procedure");
    creates.then_some((body, format))
}

/// The text with the placeholders of a format in a range replaced by something that reads as what they stand for, and is
/// as long (PostgreSQL manual, 9.4.1).
pub(in crate::frontend::sql) fn filled(text: &str, range: Range<usize>) -> String {
    let mut out = text.as_bytes().to_vec();
    let mut i = range.start;
    while i + 1 < range.end.min(out.len()) {
        if out[i] != b'%' {
            i += 1;
            continue;
        }
        let digits = out[i + 1..].iter().take_while(|b| b.is_ascii_digit()).count();
        let position = if digits > 0 && out.get(i + 1 + digits) == Some(&b'$') { digits + 1 } else { 0 };
        let last = i + 1 + position;
        match out.get(last) {
            Some(b'%') => out[i] = b' ',
            Some(b'I' | b's') => out[i..last].fill(b'_'),
            Some(b'L') => {
                out[i..last].fill(b'_');
                out[i] = b'\'';
                out[last] = b'\'';
            }
            _ => {}
        }
        i = last + 1;
    }
    String::from_utf8(out).unwrap_or_else(|_| text.to_string())
}

/// The IR type of an SQL type name.
pub(in crate::frontend::sql) fn sql_type(name: &str) -> Ty {
    match name.split(['(', '[']).next().unwrap_or("").trim() {
        "bool" | "boolean" => Ty::path("bool"),
        "int" | "integer" | "int4" | "smallint" | "int2" => Ty::path("i32"),
        "bigint" | "int8" | "bigserial" => Ty::path("i64"),
        "text" | "varchar" | "character" | "uuid" => Ty::path("String"),
        "void" => Ty::unit(),
        _ => Ty::unknown(),
    }
}
