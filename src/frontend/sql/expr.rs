//! Reads expressions. What it does not know becomes [`ExprKind::Opaque`] or a list of what is known inside.

use super::ast::{Expr, ExprKind, Function, Param};
use super::cursor::Cursor;
use super::statement;
use super::tokens::{Token, TokenKind};

const LOWEST: u8 = 0;
const NOT: u8 = 3;
const COMPARE: u8 = 4;
const OTHER: u8 = 5;
const SIGN: u8 = 9;
const CHAIN_LIMIT: usize = 500;

/// Reads one expression; consumes nothing when there is none (the result is then opaque and empty).
pub(super) fn expr(c: &mut Cursor<'_>) -> Expr {
    let start = c.offset();
    c.deeper(|c| binary(c, LOWEST)).unwrap_or_else(|| {
        let before = c.at;
        if c.sign("(") {
            c.skip_group();
        } else if before < c.tokens.len() {
            c.at += 1;
        }
        Expr::opaque(c.since(start))
    })
}

/// Expressions separated by commas; stops at the first token that fits neither.
pub(super) fn list(c: &mut Cursor<'_>) -> Vec<Expr> {
    let mut out = Vec::new();
    loop {
        let before = c.at;
        let e = expr(c);
        if c.at == before {
            break;
        }
        out.push(e);
        if !c.eat_sign(",") {
            break;
        }
    }
    out
}

fn binary(c: &mut Cursor<'_>, floor: u8) -> Expr {
    let start = c.offset();
    let mut left = prefix(c);
    // Each round consumes a token, so the loop ends; chains of operators do not recurse on the left.
    for links in 0usize.. {
        let before = c.at;
        match infix(c, left, floor, start) {
            // The tree is as deep as the chain is long: the tail of an absurd chain is read and dropped.
            Ok(next) if links > CHAIN_LIMIT => left = Expr::opaque(next.range),
            Ok(next) => left = next,
            Err(same) => return same,
        }
        if c.at == before {
            return left;
        }
    }
    left
}

/// One operator with its right side, or the left side back when the next token is none of `floor` or above.
fn infix(c: &mut Cursor<'_>, left: Expr, floor: u8, start: usize) -> Result<Expr, Expr> {
    let Some(token) = c.peek() else { return Err(left) };
    let make = |c: &Cursor<'_>, kind: ExprKind| Ok(Expr { kind, range: c.since(start) });
    match token.kind {
        TokenKind::Op => {
            let sign = token.text(c.text).to_string();
            if sign == "::" {
                c.at += 1;
                let name = type_name(c);
                return make(c, ExprKind::Cast(Box::new(left), name));
            }
            if sign == ":" || sign == ":=" || sign == ".." {
                return Err(left);
            }
            let power = match sign.as_str() {
                "=" | "<" | ">" | "<=" | ">=" | "<>" | "!=" | "==" | "<=>" => COMPARE,
                "+" | "-" => OTHER + 1,
                "*" | "/" | "%" => OTHER + 2,
                "=>" => COMPARE,
                _ => OTHER,
            };
            if power < floor {
                return Err(left);
            }
            c.at += 1;
            let right = binary_deeper(c, power + 1);
            let sign = match sign.as_str() {
                "!=" => "<>".to_string(),
                "==" => "=".to_string(),
                _ => sign,
            };
            make(c, ExprKind::Binary(sign, Box::new(left), Box::new(right)))
        }
        TokenKind::Punct if c.sign("[") => {
            let from = c.at + 1;
            c.skip_group();
            let mut inner = c.over(c.tokens.get(from..c.at.saturating_sub(1)).unwrap_or(&[]));
            let mut parts = vec![left];
            parts.extend(list(&mut inner));
            c.questions = inner.questions;
            make(c, ExprKind::List(parts))
        }
        TokenKind::Punct if c.sign(".") => {
            // `(composite).field`, `(SELECT ..).x`
            c.at += 1;
            if c.peek().is_some() {
                c.at += 1;
            }
            make(c, ExprKind::List(vec![left, Expr::opaque(c.since(start))]))
        }
        TokenKind::Word => word_infix(c, left, floor, start),
        _ => Err(left),
    }
}

fn binary_deeper(c: &mut Cursor<'_>, floor: u8) -> Expr {
    let start = c.offset();
    c.deeper(|c| binary(c, floor)).unwrap_or_else(|| {
        let here = c.at;
        if here < c.tokens.len() {
            c.at += 1;
        }
        Expr::opaque(c.since(start))
    })
}

fn word_infix(c: &mut Cursor<'_>, left: Expr, floor: u8, start: usize) -> Result<Expr, Expr> {
    let make = |c: &Cursor<'_>, kind: ExprKind| Ok(Expr { kind, range: c.since(start) });
    for (word, power) in [("or", 1), ("and", 2)] {
        if c.is(word) {
            if power < floor {
                return Err(left);
            }
            c.at += 1;
            let right = binary_deeper(c, power + 1);
            return make(c, ExprKind::Binary(word.into(), Box::new(left), Box::new(right)));
        }
    }
    if floor > COMPARE {
        if c.eat(&["at", "time", "zone"]) || c.eat(&["collate"]) {
            let right = binary_deeper(c, SIGN);
            return make(c, ExprKind::Cast(Box::new(left), crate_text(c, &right)));
        }
        return Err(left);
    }
    if c.eat(&["is"]) {
        let not = c.eat(&["not"]);
        if c.eat(&["distinct", "from"]) {
            let right = binary_deeper(c, COMPARE + 1);
            let op = if not { "is not distinct from" } else { "is distinct from" };
            return make(c, ExprKind::Binary(op.into(), Box::new(left), Box::new(right)));
        }
        let what = c.next().map_or(String::new(), |t| t.text(c.text).to_ascii_lowercase());
        let op = if not { format!("is not {what}") } else { format!("is {what}") };
        return make(c, ExprKind::Unary(op, Box::new(left)));
    }
    for (word, op) in [("isnull", "is null"), ("notnull", "is not null")] {
        if c.eat(&[word]) {
            return make(c, ExprKind::Unary(op.into(), Box::new(left)));
        }
    }
    let negated = c.is("not") && ["in", "like", "ilike", "between", "similar"].iter().any(|w| c.nth_is(1, w));
    let at = usize::from(negated);
    let prefix = if negated { "not " } else { "" };
    if c.nth_is(at, "between") {
        c.at += at + 1;
        c.eat(&["symmetric"]);
        let low = binary_deeper(c, COMPARE + 1);
        let mut parts = vec![low];
        if c.eat(&["and"]) {
            parts.push(binary_deeper(c, COMPARE + 1));
        }
        let range = c.since(start);
        let right = Expr { kind: ExprKind::List(parts), range: range.clone() };
        return make(c, ExprKind::Binary(format!("{prefix}between"), Box::new(left), Box::new(right)));
    }
    for word in ["in", "like", "ilike", "similar", "regexp", "rlike", "overlaps"] {
        if c.nth_is(at, word) {
            c.at += at + 1;
            c.eat(&["to"]);
            let right = binary_deeper(c, COMPARE + 1);
            if c.eat(&["escape"]) {
                binary_deeper(c, COMPARE + 1);
            }
            return make(c, ExprKind::Binary(format!("{prefix}{word}"), Box::new(left), Box::new(right)));
        }
    }
    if c.eat(&["at", "time", "zone"]) || c.eat(&["collate"]) {
        let right = binary_deeper(c, SIGN);
        return make(c, ExprKind::Cast(Box::new(left), crate_text(c, &right)));
    }
    Err(left)
}

fn crate_text(c: &Cursor<'_>, e: &Expr) -> String {
    c.text.get(e.range.clone()).unwrap_or("").to_ascii_lowercase()
}

fn prefix(c: &mut Cursor<'_>) -> Expr {
    let start = c.offset();
    let Some(token) = c.peek() else { return Expr::opaque(start..start) };
    let make = |c: &Cursor<'_>, kind: ExprKind| Expr { kind, range: c.since(start) };
    match token.kind {
        TokenKind::Str | TokenKind::Dollar => {
            c.at += 1;
            let mut value = token.string(c.text);
            // Adjacent literals are one (`'a' 'b'`).
            while c.peek().is_some_and(|t| t.kind == TokenKind::Str) {
                if let Some(t) = c.next() {
                    value.push_str(&t.string(c.text));
                }
            }
            make(c, ExprKind::Str(value))
        }
        TokenKind::Number => {
            c.at += 1;
            make(c, ExprKind::Number(token.text(c.text).replace('_', "")))
        }
        TokenKind::Param => param(c, token),
        TokenKind::Template => name_or_call(c),
        TokenKind::Quoted => name_or_call(c),
        TokenKind::Op => match token.text(c.text) {
            "-" | "+" | "~" | "!" | "@" => {
                let sign = token.text(c.text).to_string();
                c.at += 1;
                let inner = binary_deeper(c, SIGN);
                if let (ExprKind::Number(n), "-") = (&inner.kind, sign.as_str()) {
                    let n = format!("-{n}");
                    return make(c, ExprKind::Number(n));
                }
                make(c, ExprKind::Unary(sign, Box::new(inner)))
            }
            "*" => {
                c.at += 1;
                make(c, ExprKind::Star)
            }
            _ => Expr::opaque(start..start),
        },
        TokenKind::Punct if c.sign("(") => parenthesis(c),
        TokenKind::Word => word(c, token),
        _ => Expr::opaque(start..start),
    }
}

fn param(c: &mut Cursor<'_>, token: &Token) -> Expr {
    c.at += 1;
    let raw = token.text(c.text);
    let body = raw[1..].trim_matches(['\'', '"']);
    let number = body.parse::<usize>().ok();
    let which = match (raw.as_bytes().first(), number) {
        (Some(b'?'), None) => {
            c.questions += 1;
            Param::Position(c.questions - 1)
        }
        (_, Some(n)) if n > 0 => Param::Position(n - 1),
        _ => Param::Name(body.to_ascii_lowercase()),
    };
    Expr { kind: ExprKind::Param(which), range: token.range() }
}

fn parenthesis(c: &mut Cursor<'_>) -> Expr {
    let start = c.offset();
    let inner = c.group();
    let range = c.since(start);
    Expr { kind: ExprKind::List(group_members(c, inner)), range }
}

/// What stands in parentheses: a sub-query, or expressions.
fn group_members(c: &mut Cursor<'_>, tokens: &[Token]) -> Vec<Expr> {
    let mut inner = c.over(tokens);
    let range = tokens.first().map_or(0, |t| t.start)..tokens.last().map_or(0, |t| t.end);
    let query = statement::starts_query(&inner);
    let out = inner.deeper(|i| {
        if query {
            return vec![Expr { kind: ExprKind::Query(Box::new(statement::read(i))), range: range.clone() }];
        }
        let mut list = list(i);
        // What is left (ORDER BY of aggregates, FROM of EXTRACT, separators) may hold calls.
        while !i.done() {
            let before = i.at;
            list.extend(self::list(i));
            if i.at == before {
                i.at += 1;
            }
        }
        list
    });
    c.questions = inner.questions;
    out.unwrap_or_else(|| vec![Expr::opaque(range)])
}

fn word(c: &mut Cursor<'_>, token: &Token) -> Expr {
    let start = token.start;
    let make = |c: &Cursor<'_>, kind: ExprKind| Expr { kind, range: c.since(start) };
    for (name, value) in [("true", true), ("false", false)] {
        if c.eat(&[name]) {
            return make(c, ExprKind::Bool(value));
        }
    }
    if c.eat(&["null"]) || c.eat(&["default"]) {
        return make(c, ExprKind::Null);
    }
    if c.eat(&["not"]) {
        let inner = binary_deeper(c, NOT);
        return make(c, ExprKind::Unary("not".into(), Box::new(inner)));
    }
    if c.is("case") {
        c.at += 1;
        let mut parts = Vec::new();
        while !c.done() && !c.eat(&["end"]) {
            let before = c.at;
            if c.is_any(&["when", "then", "else"]) {
                c.at += 1;
            }
            parts.push(expr(c));
            if c.at == before {
                c.at += 1;
            }
        }
        return make(
            c,
            ExprKind::Call(Function {
                name: "case".into(),
                names: vec![None; parts.len()],
                args: parts,
                range: token.range(),
            }),
        );
    }
    if c.is("cast") && c.nth_sign(1, "(") {
        c.at += 1;
        let tokens = c.group();
        let mut inner = c.over(tokens);
        let value = expr(&mut inner);
        inner.eat(&["as"]);
        let name = type_name(&mut inner);
        c.questions = inner.questions;
        return make(c, ExprKind::Cast(Box::new(value), name));
    }
    if c.is("interval")
        && c.nth(1).is_some_and(|t| matches!(t.kind, TokenKind::Str | TokenKind::Param | TokenKind::Number))
    {
        c.at += 1;
        let mut args = vec![prefix(c)];
        for unit in ["second", "minute", "hour", "day", "week", "month", "year", "microsecond"] {
            if c.eat(&[unit]) {
                args.push(Expr { kind: ExprKind::Str(unit.into()), range: token.range() });
            }
        }
        return make(
            c,
            ExprKind::Call(Function {
                name: "interval".into(),
                names: vec![None; args.len()],
                args,
                range: token.range(),
            }),
        );
    }
    let quantifier = ["any", "some", "all", "exists", "array", "row", "lateral"].iter().find(|w| c.is(w));
    if let Some(name) = quantifier {
        if c.nth_sign(1, "(") {
            c.at += 1;
            let tokens = c.group();
            let args = group_members(c, tokens);
            return make(
                c,
                ExprKind::Call(Function {
                    name: (*name).into(),
                    names: vec![None; args.len()],
                    args,
                    range: token.range(),
                }),
            );
        }
        if *name == "array" && c.nth_sign(1, "[") {
            c.at += 1;
            let from = c.at + 1;
            c.skip_group();
            let mut inner = c.over(c.tokens.get(from..c.at.saturating_sub(1)).unwrap_or(&[]));
            let members = list(&mut inner);
            c.questions = inner.questions;
            return make(c, ExprKind::List(members));
        }
    }
    // `left(x, 1)`, `right(..)`, `values(col)` are functions though their names are reserved.
    if c.nth_sign(1, "(") && c.is_any(&["left", "right", "values", "set", "filter"]) || c.at_name() {
        return name_or_call(c);
    }
    Expr::opaque(start..start)
}

fn name_or_call(c: &mut Cursor<'_>) -> Expr {
    let start = c.offset();
    let path = match c.path() {
        Some(found) => found,
        None => match c.next() {
            Some(t) => (vec![t.identifier(c.text)], t.range()),
            None => return Expr::opaque(start..start),
        },
    };
    let (parts, range) = path;
    if c.sign("(") {
        return call(c, parts, range);
    }
    if c.sign(".") && c.nth_sign(1, "*") {
        c.at += 2;
        return Expr { kind: ExprKind::Star, range: c.since(start) };
    }
    let lone = c.tokens.get(c.at.wrapping_sub(1));
    let template =
        parts.len() == 1 && lone.is_some_and(|t| t.kind == TokenKind::Template || only_holes(t.text(c.text)));
    // `DATE '2020-01-01'`, `timestamptz '..'`.
    if parts.len() == 1 && c.peek().is_some_and(|t| t.kind == TokenKind::Str) {
        let value = prefix(c);
        return Expr { kind: ExprKind::Cast(Box::new(value), parts[0].clone()), range: c.since(start) };
    }
    let kind = if template { ExprKind::Hole(parts[0].clone()) } else { ExprKind::Column(parts) };
    Expr { kind, range }
}

fn only_holes(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| super::tokens::hole_index(c).is_some())
}

fn call(c: &mut Cursor<'_>, parts: Vec<String>, range: std::ops::Range<usize>) -> Expr {
    let start = range.start;
    let tokens = c.group();
    let args = group_members(c, tokens);
    let (names, args) = named(args);
    let function = Function { name: parts.join(".").to_ascii_lowercase(), args, names, range };
    // Aggregates: `FILTER (WHERE ..)`, `OVER (..)`, `WITHIN GROUP (..)`.
    loop {
        if c.is_any(&["filter", "over"]) && c.nth_sign(1, "(") {
            c.at += 1;
            c.skip_group();
        } else if c.is("over") {
            c.at += 2;
        } else if c.is("within") && c.nth_is(1, "group") && c.nth_sign(2, "(") {
            c.at += 2;
            c.skip_group();
        } else {
            break;
        }
    }
    c.at = c.at.min(c.tokens.len());
    Expr { kind: ExprKind::Call(function), range: c.since(start) }
}

/// Takes `name => value` and `name := value` apart.
pub(super) fn named(args: Vec<Expr>) -> (Vec<Option<String>>, Vec<Expr>) {
    args.into_iter()
        .map(|arg| match arg.kind {
            ExprKind::Binary(op, left, right) if op == "=>" => (left.column().map(str::to_string), *right),
            kind => (None, Expr { kind, range: arg.range }),
        })
        .unzip()
}

/// A type name with its modifiers: `timestamp(3) with time zone`, `int[]`, `schema.t`.
pub(super) fn type_name(c: &mut Cursor<'_>) -> String {
    let start = c.offset();
    if c.peek().is_some_and(|t| matches!(t.kind, TokenKind::Word | TokenKind::Quoted | TokenKind::Template)) {
        c.at += 1;
    }
    while c.sign(".") {
        c.at = (c.at + 2).min(c.tokens.len());
    }
    c.eat(&["precision"]);
    c.eat(&["varying"]);
    if c.sign("(") {
        c.skip_group();
    }
    if c.is_any(&["with", "without"]) && c.nth_is(1, "time") && c.nth_is(2, "zone") {
        c.at += 3;
    }
    while c.sign("[") {
        c.skip_group();
    }
    c.text.get(c.since(start)).unwrap_or("").to_ascii_lowercase()
}
