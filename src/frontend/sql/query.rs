//! SELECT and what stands in FROM.

use super::ast::*;
use super::cursor::Cursor;
use super::expr::{expr, list};
use super::statement::{read, starts_query};
use super::tokens::TokenKind;

pub(super) type Items = Vec<(Expr, Option<String>)>;

/// A table name with its alias and hints.
pub(super) fn table(c: &mut Cursor<'_>) -> Option<Table> {
    c.eat(&["only"]);
    let (path, range) = c.path()?;
    if c.sign("*") {
        c.at += 1;
    }
    let alias = alias(c);
    Some(Table { name: path.join("."), alias, range })
}

fn alias(c: &mut Cursor<'_>) -> Option<String> {
    let explicit = c.eat(&["as"]);
    let bare = c.peek().is_some_and(|t| matches!(t.kind, TokenKind::Word | TokenKind::Quoted)) && c.at_name();
    // `skip`, `nowait` and `lock` follow a table only as clauses.
    if !(explicit && c.peek().is_some()
        || bare && !c.is_any(&["skip", "nowait", "lock", "only", "default", "matched", "force", "use", "ignore"]))
    {
        return None;
    }
    let name = c.next()?.identifier(c.text);
    if c.sign("(") && explicit {
        c.skip_group();
    }
    Some(name)
}

/// SELECT, VALUES, TABLE, PERFORM, or one of them in parentheses, with everything that follows.
pub(super) fn select(c: &mut Cursor<'_>) -> Select {
    let mut out = Select::default();
    if c.sign("(") {
        let tokens = c.group();
        let mut inner = c.over(tokens);
        if let Some(statement) = inner.deeper(read) {
            match statement.kind {
                StatementKind::Select(s) if statement.ctes.is_empty() => out = *s,
                _ => out.union.push(statement),
            }
        }
        c.questions = inner.questions;
    } else if c.eat(&["values"]) {
        while c.sign("(") {
            out.items.push((expr(c), None));
            if !c.eat_sign(",") {
                break;
            }
        }
    } else if c.eat(&["table"]) {
        out.from.extend(table(c).map(Source::Table));
    } else {
        c.at += 1;
        if c.eat(&["distinct"]) {
            out.chooses = true;
            if c.eat(&["on"]) && c.sign("(") {
                c.skip_group();
            }
        }
        c.eat(&["all"]);
        if c.is("top") && c.nth(1).is_some_and(|t| t.kind == TokenKind::Number || t.is_sign(c.text, "(")) {
            c.at += 1;
            expr(c);
            out.limit = true;
            out.chooses = true;
        }
        out.items = items(c);
    }
    clauses(c, &mut out);
    out
}

/// A select list.
pub(super) fn items(c: &mut Cursor<'_>) -> Items {
    let mut out = Vec::new();
    loop {
        let before = c.at;
        let e = expr(c);
        if c.at == before {
            break;
        }
        let written = if c.eat(&["as"]) { c.next().map(|t| t.identifier(c.text)) } else { bare_alias(c) };
        let name = written.or_else(|| match &e.bare().kind {
            ExprKind::Column(path) => path.last().cloned(),
            ExprKind::Call(f) => Some(f.last().to_string()),
            _ => None,
        });
        out.push((e, name));
        if !c.eat_sign(",") {
            break;
        }
    }
    out
}

fn bare_alias(c: &mut Cursor<'_>) -> Option<String> {
    let fits =
        c.peek().is_some_and(|t| matches!(t.kind, TokenKind::Word | TokenKind::Quoted)) && c.at_name() && !c.is("bulk");
    if fits { c.next().map(|t| t.identifier(c.text)) } else { None }
}

fn clauses(c: &mut Cursor<'_>, out: &mut Select) {
    while !c.done() {
        let before = c.at;
        if c.eat(&["from"]) {
            from(c, &mut out.from, &mut out.other, &mut out.locks);
        } else if c.eat(&["where"]) {
            out.filter = Some(expr(c));
        } else if c.eat(&["into"]) {
            into(c, out);
        } else if c.eat(&["group", "by"]) || c.eat(&["having"]) || c.eat(&["order", "by"]) {
            out.chooses = true;
            out.other.extend(list(c));
        } else if c.is_any(&["limit", "fetch", "offset"]) {
            out.limit |= !c.is("offset");
            out.chooses = true;
            c.at += 1;
            c.is_any(&["first", "next"]).then(|| c.at += 1);
            out.other.extend(list(c));
        } else if c.is("for") || c.is("lock") {
            row_lock(c, out);
        } else if c.is_any(&["union", "intersect", "except", "minus"]) {
            c.at += 1;
            c.eat(&["all"]);
            c.eat(&["distinct"]);
            if c.sign("(") || starts_query(c) {
                out.union.extend(c.deeper(read));
            }
        }
        if c.at == before {
            // `ASC`, `NULLS LAST`, `ROWS ONLY`, `WINDOW w AS (..)`, parser leftovers: their parentheses may hold calls.
            if c.sign("(") {
                out.other.push(expr(c));
            }
            if c.at == before {
                c.at += 1;
            }
            if c.eat_sign(",") {
                out.other.extend(list(c));
            }
        }
    }
}

fn into(c: &mut Cursor<'_>, out: &mut Select) {
    c.eat(&["strict"]);
    c.eat(&["temp"]);
    c.eat(&["table"]);
    while let Some((path, _)) = c.path().or_else(|| {
        let t = c.peek().filter(|t| t.kind == TokenKind::Param)?;
        c.at += 1;
        Some((vec![t.text(c.text).to_ascii_lowercase()], t.range()))
    }) {
        out.into.push(path.join("."));
        if !c.eat_sign(",") {
            break;
        }
    }
    // PL/pgSQL allows INTO before the rest of the select list's clauses, and STRICT behind it.
    c.eat(&["strict"]);
}

/// FROM items with joins; join conditions go to `other`.
pub(super) fn from(c: &mut Cursor<'_>, out: &mut Vec<Source>, other: &mut Vec<Expr>, locks: &mut Vec<RowLock>) {
    loop {
        let before = c.at;
        c.eat(&["lateral"]);
        if c.sign("(") {
            group(c, out, other, locks);
        } else if let Some((path, range)) = {
            c.eat(&["only"]);
            c.path()
        } {
            if c.sign("(") && !c.nth_is(1, "updlock") {
                // A function in FROM: read it as an expression from its name on.
                let tokens = c.group();
                let mut inner = c.over(tokens);
                let args = list(&mut inner);
                c.questions = inner.questions;
                let names = vec![None; args.len()];
                let full = range.start..c.last_end();
                let function = Function { name: path.join(".").to_ascii_lowercase(), args, names, range };
                c.eat(&["with", "ordinality"]);
                let name = alias(c);
                out.push(Source::Function(Expr { kind: ExprKind::Call(function), range: full }, name));
            } else {
                c.eat_sign("*");
                let mut found = Table { name: path.join("."), alias: alias(c), range };
                hints(c, locks, &found);
                if found.alias.is_none() {
                    found.alias = alias(c);
                }
                out.push(Source::Table(found));
            }
        }
        loop {
            if c.eat(&["on"]) {
                other.push(expr(c));
            } else if c.eat(&["using"]) && c.sign("(") {
                c.skip_group();
            } else if c.is("tablesample") {
                c.at += 2;
                if c.sign("(") {
                    c.skip_group();
                }
            } else {
                break;
            }
        }
        let mut more = c.eat_sign(",");
        while c.is_any(&[
            "natural",
            "inner",
            "left",
            "right",
            "full",
            "outer",
            "cross",
            "join",
            "apply",
            "straight_join",
        ]) {
            let last = c.is_any(&["join", "apply", "straight_join"]);
            c.at += 1;
            more = true;
            if last {
                break;
            }
        }
        if !more || c.at == before {
            break;
        }
    }
}

fn group(c: &mut Cursor<'_>, out: &mut Vec<Source>, other: &mut Vec<Expr>, locks: &mut Vec<RowLock>) {
    let tokens = c.group();
    let mut inner = c.over(tokens);
    if starts_query(&inner) {
        let statement = inner.deeper(read);
        c.questions = inner.questions;
        let name = alias(c);
        out.extend(statement.map(|s| Source::Query(Box::new(s), name)));
    } else {
        inner.deeper(|i| from(i, out, other, locks));
        c.questions = inner.questions;
        alias(c);
    }
}

/// `WITH (UPDLOCK, ROWLOCK, READPAST)` of SQL Server.
pub(super) fn hints(c: &mut Cursor<'_>, locks: &mut Vec<RowLock>, table: &Table) {
    let known = |c: &Cursor<'_>, n: usize| {
        [
            "updlock",
            "xlock",
            "holdlock",
            "rowlock",
            "readpast",
            "nolock",
            "tablockx",
            "tablock",
            "serializable",
            "paglock",
        ]
        .iter()
        .any(|w| c.nth_is(n, w))
    };
    let at = usize::from(c.is("with"));
    if !c.nth_sign(at, "(") || !known(c, at + 1) {
        return;
    }
    c.at += at;
    let start = c.offset();
    let tokens = c.group();
    let has = |word: &str| tokens.iter().any(|t| t.is(c.text, word));
    if has("updlock") || has("xlock") || has("tablockx") {
        let wait = if has("readpast") { Wait::SkipLocked } else { Wait::Block };
        locks.push(RowLock {
            strength: Strength::Update,
            of: vec![table.reference().to_string()],
            wait,
            range: c.since(start),
        });
    }
}

/// `FOR [NO KEY] UPDATE | [KEY] SHARE [OF ..] [NOWAIT | SKIP LOCKED]`, `LOCK IN SHARE MODE`; leaves other FOR clauses.
fn row_lock(c: &mut Cursor<'_>, out: &mut Select) {
    let start = c.offset();
    const FORMS: [(&[&str], Strength); 5] = [
        (&["for", "no", "key", "update"], Strength::NoKeyUpdate),
        (&["for", "key", "share"], Strength::KeyShare),
        (&["for", "update"], Strength::Update),
        (&["for", "share"], Strength::Share),
        (&["lock", "in", "share", "mode"], Strength::Share),
    ];
    let Some((_, strength)) = FORMS.into_iter().find(|(words, _)| c.eat(words)) else { return };
    let mut of = Vec::new();
    if c.eat(&["of"]) {
        while let Some((path, _)) = c.path() {
            of.extend(path.last().cloned());
            if !c.eat_sign(",") {
                break;
            }
        }
    }
    let wait = if c.eat(&["skip", "locked"]) {
        Wait::SkipLocked
    } else if c.eat(&["nowait"]) {
        Wait::NoWait
    } else {
        Wait::Block
    };
    out.locks.push(RowLock { strength, of, wait, range: c.since(start) });
}
