//! `CREATE FUNCTION`, `CREATE PROCEDURE`, `DO`: name, parameters, language and body.

use super::cursor::Cursor;
use super::expr::type_name;
use super::split::Piece;
use super::tokens::{Dialect, Token, TokenKind};
use std::ops::Range;

/// A routine as its definition says.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Routine {
    /// Name without schema, lower case; empty for DO.
    pub name: String,
    /// Range of the name.
    pub at: Range<usize>,
    /// Input parameters: name (may be empty) and type.
    pub params: Vec<(String, String)>,
    /// Return type.
    pub returns: String,
    /// `plpgsql`, `sql`, .. lower case.
    pub language: String,
    /// The body: its text range, and whether it still stands in doubled quotes (`AS '..'`).
    pub body: Range<usize>,
}

/// Reads a routine definition; `None` if the statement is none, or has no body in the text.
pub(super) fn routine(text: &str, piece: &Piece, dialect: Dialect) -> Option<Routine> {
    let mut c = Cursor::new(text, &piece.tokens, dialect);
    if c.eat(&["do"]) {
        return block(&mut c);
    }
    if !c.eat(&["create"]) {
        return None;
    }
    c.eat(&["or"]);
    c.is_any(&["replace", "alter"]).then(|| c.at += 1);
    // MySQL writes `DEFINER = x` here.
    while !c.done() && !c.is_any(&["function", "procedure", "proc"]) {
        if c.is_any(&[
            "table",
            "index",
            "view",
            "trigger",
            "type",
            "sequence",
            "extension",
            "schema",
            "policy",
            "rule",
            "event",
            "aggregate",
        ]) {
            return None;
        }
        c.at += 1;
    }
    let procedure = !c.is("function");
    c.at += 1;
    c.eat(&["if", "not", "exists"]);
    let (path, at) = c.path()?;
    let mut out = Routine {
        name: path.last()?.to_ascii_lowercase(),
        at,
        params: Vec::new(),
        returns: if procedure { "void".into() } else { String::new() },
        language: String::new(),
        body: 0..0,
    };
    if c.sign("(") {
        let tokens = c.group();
        out.params = params(&c, tokens);
    }
    rest(&mut c, &mut out)?;
    if out.language.is_empty() {
        // SQL-standard bodies and other servers need no LANGUAGE.
        out.language = if dialect == Dialect::Postgres { "sql".into() } else { "plpgsql".into() };
    }
    Some(out)
}

fn rest(c: &mut Cursor<'_>, out: &mut Routine) -> Option<()> {
    let mut found = false;
    while let Some(token) = c.peek() {
        if c.eat(&["returns"]) {
            c.eat(&["setof"]);
            out.returns = type_name(c);
        } else if c.eat(&["language"]) {
            out.language = c.next().map_or(String::new(), |t| match t.kind {
                TokenKind::Str => t.string(c.text).to_ascii_lowercase(),
                _ => t.identifier(c.text),
            });
        } else if c.is("as") && c.nth(1).is_some_and(|t| matches!(t.kind, TokenKind::Dollar | TokenKind::Str)) {
            c.at += 1;
            let body = c.next()?;
            out.body = body_range(c.text, body);
            found = true;
        } else if c.is("begin") || c.is("return") && !found || c.is("as") && c.nth_is(1, "begin") {
            if c.is("as") {
                c.at += 1;
            }
            let end = c.tokens.last().map_or(token.end, |t| t.end);
            if c.is("begin") && c.nth_is(1, "atomic") {
                // `BEGIN ATOMIC s; s; END`: the statements between.
                let start = c.nth(2).map_or(end, |t| t.start);
                let stop = c.tokens.last().filter(|t| t.is(c.text, "end")).map_or(end, |t| t.start);
                out.body = start..stop.max(start);
                out.language = "sql".into();
            } else {
                out.body = c.offset()..end;
                if c.is("return") {
                    out.language = "sql".into();
                } else if out.language.is_empty() {
                    out.language = "plpgsql".into();
                }
            }
            return Some(());
        } else {
            c.at += 1;
        }
    }
    found.then_some(())
}

fn block(c: &mut Cursor<'_>) -> Option<Routine> {
    let at = c.tokens.first()?.range();
    let mut out = Routine {
        name: String::new(),
        at,
        params: Vec::new(),
        returns: "void".into(),
        language: "plpgsql".into(),
        body: 0..0,
    };
    while let Some(t) = c.next() {
        if t.is(c.text, "language") {
            out.language = c.next().map_or(String::new(), |t| t.identifier(c.text));
        } else if matches!(t.kind, TokenKind::Dollar | TokenKind::Str) {
            out.body = body_range(c.text, t);
        }
    }
    (!out.body.is_empty()).then_some(out)
}

fn body_range(text: &str, token: &Token) -> Range<usize> {
    match token.kind {
        TokenKind::Dollar => token.dollar_body(text),
        // `AS 'BEGIN .. ''x'' .. END'`: doubled quotes inside read as two empty or adjacent strings, which is good enough.
        _ => (token.start + 1).min(token.end)..token.end.saturating_sub(1).max(token.start + 1).min(token.end),
    }
}

/// Input parameters; OUT parameters and TABLE columns are left out.
fn params(c: &Cursor<'_>, tokens: &[Token]) -> Vec<(String, String)> {
    let mut out = Vec::new();
    let mut i = c.over(tokens);
    while !i.done() {
        let mut mode_out = false;
        while i.is_any(&["in", "inout", "variadic", "out"]) {
            mode_out |= i.is("out");
            i.at += 1;
        }
        let typed_only =
            i.nth_sign(1, ",") || i.nth(1).is_none() || i.nth_sign(1, "(") || i.nth_sign(1, "[") || i.nth_sign(1, ".");
        let mut name = String::new();
        if !typed_only && let Some(t) = i.next() {
            name = match t.kind {
                TokenKind::Param => t.text(c.text).trim_start_matches('@').to_ascii_lowercase(),
                _ => t.identifier(c.text),
            };
        }
        let ty = type_name(&mut i);
        if !mode_out {
            out.push((name, ty));
        }
        // Defaults.
        while !i.done() && !i.sign(",") {
            if i.sign("(") {
                i.skip_group();
            } else {
                i.at += 1;
            }
        }
        i.eat_sign(",");
    }
    out
}
