//! Reads statements into [`Statement`] trees. Never fails: what is not understood is left out of the tree, and lock
//! calls in it are kept in [`Statement::loose`].

use super::ast::*;
use super::cursor::Cursor;
use super::dml;
use super::expr::{expr, list, named};
use super::query;
use super::split::{Piece, split};
use super::tokens::{Dialect, Token, TokenKind};
use super::walk;
use std::ops::Range;

/// All statements of a text. Statements over the size limit are [`StatementKind::Unknown`]; see [`Piece::too_long`].
pub fn statements(text: &str, dialect: Dialect) -> Vec<Statement> {
    let mut questions = 0;
    split(text, dialect)
        .iter()
        .map(|piece| {
            // `?` are numbered over the whole text: it is one call with one list of values.
            let (statement, seen) = piece_statement(text, piece, dialect, questions);
            questions = seen;
            statement
        })
        .collect()
}

/// The statement of one piece of `text`, and how many `?` had been seen at its end when `questions` were before.
pub fn piece_statement(text: &str, piece: &Piece, dialect: Dialect, questions: usize) -> (Statement, usize) {
    if piece.too_long() {
        let head = piece.tokens.first().map_or(0..0, Token::range);
        return (make(piece.range.clone(), head, StatementKind::Unknown, dialect), questions);
    }
    let mut c = Cursor::new(text, &piece.tokens, dialect);
    c.questions = questions;
    let mut statement = read(&mut c);
    statement.range = piece.range.clone();
    statement.loose = loose(text, &piece.tokens, &statement, dialect);
    if statement.dialect == Dialect::Unknown {
        statement.dialect = shown_dialect(text, &piece.tokens);
    }
    (statement, c.questions)
}

fn make(range: Range<usize>, head: Range<usize>, kind: StatementKind, dialect: Dialect) -> Statement {
    Statement { range, head, kind, ctes: Vec::new(), loose: Vec::new(), dialect }
}

/// Whether a sub-query starts at the cursor.
pub(super) fn starts_query(c: &Cursor<'_>) -> bool {
    let mut n = 0;
    while c.nth_sign(n, "(") {
        n += 1;
    }
    ["select", "with", "values", "insert", "update", "delete", "table"].iter().any(|w| c.nth_is(n, w))
        && !c.nth_sign(n + 1, ",")
        && !(c.nth_is(n, "values") && n == 0 && c.tokens.len() < 3)
}

/// Reads the statement at the cursor; always moves on if there is a token.
pub(super) fn read(c: &mut Cursor<'_>) -> Statement {
    let start = c.offset();
    let mut ctes = Vec::new();
    if c.is("with") {
        ctes = with(c);
    }
    let head = c.peek().map_or(start..start, Token::range);
    let before = c.at;
    let kind = c.deeper(kind).unwrap_or(StatementKind::Unknown);
    if c.at == before {
        c.at += 1;
    }
    let mut statement = make(c.since(start), head, kind, c.dialect);
    statement.ctes = ctes;
    statement
}

fn with(c: &mut Cursor<'_>) -> Vec<(String, Statement)> {
    let mut out = Vec::new();
    c.at += 1;
    c.eat(&["recursive"]);
    while let Some((name, _)) = c.path() {
        if c.sign("(") {
            c.skip_group();
        }
        if !c.eat(&["as"]) {
            break;
        }
        c.eat(&["not"]);
        c.eat(&["materialized"]);
        if !c.sign("(") {
            break;
        }
        let tokens = c.group();
        let mut inner = c.over(tokens);
        let statement = inner.deeper(read);
        c.questions = inner.questions;
        out.extend(statement.map(|s| (name.join("."), s)));
        // SEARCH and CYCLE clauses.
        while !c.done()
            && !c.sign(",")
            && !c.is_any(&["select", "insert", "update", "delete", "merge", "values", "table"])
            && !c.sign("(")
        {
            c.at += 1;
        }
        if !c.eat_sign(",") {
            break;
        }
    }
    out
}

fn kind(c: &mut Cursor<'_>) -> StatementKind {
    let Some(token) = c.peek() else { return StatementKind::Unknown };
    if token.is_sign(c.text, "(") {
        return StatementKind::Select(Box::new(query::select(c)));
    }
    let word = if token.kind == TokenKind::Word { token.text(c.text).to_ascii_lowercase() } else { String::new() };
    match word.as_str() {
        "select" | "values" | "table" | "perform" => StatementKind::Select(Box::new(query::select(c))),
        "insert" | "replace" => dml::insert(c),
        "update" => dml::update(c),
        "delete" => dml::delete(c),
        "merge" => {
            c.at += 1;
            c.eat(&["into"]);
            query::table(c).map_or(StatementKind::Unknown, StatementKind::Merge)
        }
        "call" | "exec" | "execute" => call(c),
        "begin" if c.nth_is(1, "try") || c.nth_is(1, "catch") => StatementKind::Unknown,
        "begin" => StatementKind::Begin,
        "start" if c.nth_is(1, "transaction") => StatementKind::Begin,
        "commit" => StatementKind::Commit,
        "end" if c.tokens.len() <= 3 => StatementKind::Commit,
        "rollback" | "abort" => {
            let to_savepoint = (1..4).any(|n| c.nth_is(n, "to"));
            if to_savepoint { StatementKind::Savepoint } else { StatementKind::Rollback }
        }
        "savepoint" | "release" | "save" => StatementKind::Savepoint,
        "lock" => lock_table(c),
        "unlock" => StatementKind::UnlockTables,
        "set" => set(c),
        "discard" | "reset" => {
            if c.nth_is(1, "all") {
                StatementKind::Discard
            } else {
                StatementKind::Utility(word)
            }
        }
        "truncate" => {
            c.at += 1;
            c.eat(&["table"]);
            c.eat(&["only"]);
            StatementKind::Truncate(tables(c))
        }
        "create" | "alter" | "drop" | "grant" | "revoke" | "comment" | "reindex" | "refresh" | "import"
        | "security" | "cluster" => StatementKind::Schema(word),
        "notify" | "listen" | "unlisten" | "vacuum" | "analyze" | "analyse" | "copy" | "explain" | "show" | "fetch"
        | "move" | "close" | "declare" | "prepare" | "deallocate" | "checkpoint" | "load" | "use" | "pragma"
        | "print" | "do" | "if" | "while" | "return" | "raise" | "go" => StatementKind::Utility(word),
        _ => StatementKind::Unknown,
    }
}

/// `CALL p(..)`, `EXEC @r = p @a = 1, @b`, `EXECUTE plan(..)`.
fn call(c: &mut Cursor<'_>) -> StatementKind {
    c.at += 1;
    if c.peek().is_some_and(|t| t.kind == TokenKind::Param) && c.nth_sign(1, "=") {
        c.at += 2;
    }
    let Some((path, range)) = c.path() else { return StatementKind::Utility("execute".into()) };
    let (names, args) = if c.sign("(") {
        let tokens = c.group();
        let mut inner = c.over(tokens);
        let out = named(list(&mut inner));
        c.questions = inner.questions;
        out
    } else {
        procedure_args(c)
    };
    StatementKind::Call(Function { name: path.join(".").to_ascii_lowercase(), args, names, range })
}

/// `@Resource = 'x', @LockMode = 'Exclusive', 5` of SQL Server.
fn procedure_args(c: &mut Cursor<'_>) -> (Vec<Option<String>>, Vec<Expr>) {
    let (mut names, mut args) = (Vec::new(), Vec::new());
    loop {
        let before = c.at;
        let name = c
            .peek()
            .filter(|t| t.kind == TokenKind::Param && c.nth_sign(1, "="))
            .map(|t| t.text(c.text).trim_start_matches('@').to_ascii_lowercase());
        if name.is_some() {
            c.at += 2;
        }
        let value = expr(c);
        if c.at == before {
            break;
        }
        c.eat(&["output"]);
        c.eat(&["out"]);
        names.push(name);
        args.push(value);
        if !c.eat_sign(",") {
            break;
        }
    }
    (names, args)
}

fn tables(c: &mut Cursor<'_>) -> Vec<Table> {
    let mut out = Vec::new();
    while let Some(table) = query::table(c) {
        out.push(table);
        if !c.eat_sign(",") {
            break;
        }
    }
    out
}

/// `LOCK [TABLE] a, b IN mode MODE [NOWAIT]`; `LOCK TABLES a WRITE, b READ`.
fn lock_table(c: &mut Cursor<'_>) -> StatementKind {
    c.at += 1;
    if !c.eat(&["table"]) {
        c.eat(&["tables"]);
    }
    c.eat(&["only"]);
    let mut found = Vec::new();
    let mut mode = String::new();
    while let Some((path, range)) = c.path() {
        found.push(Table { name: path.join("."), alias: None, range });
        for word in ["write", "read"] {
            if c.eat(&[word]) {
                mode = word.to_string();
            }
        }
        if !c.eat_sign(",") {
            break;
        }
    }
    if c.eat(&["in"]) {
        let mut words = Vec::new();
        while let Some(t) = c.next() {
            if t.is(c.text, "mode") {
                break;
            }
            words.push(t.text(c.text).to_ascii_lowercase());
        }
        mode = words.join(" ");
    }
    let nowait = c.eat(&["nowait"]);
    StatementKind::LockTable { tables: found, mode, nowait }
}

fn set(c: &mut Cursor<'_>) -> StatementKind {
    c.at += 1;
    let local = c.eat(&["local"]);
    c.eat(&["session"]);
    let name = match c.next() {
        Some(t) => {
            let mut name = t.text(c.text).to_ascii_lowercase();
            while c.sign(".") {
                c.at += 1;
                name.push('.');
                name.push_str(&c.next().map_or(String::new(), |t| t.text(c.text).to_ascii_lowercase()));
            }
            name
        }
        None => String::new(),
    };
    if !c.eat_sign("=") {
        c.eat(&["to"]);
    }
    let start = c.offset();
    let end = c.tokens.last().map_or(start, |t| t.end);
    let value = c.text.get(start..end.max(start)).unwrap_or("").trim_matches('\'').to_string();
    StatementKind::Set { name, value, local }
}

/// What only one server's syntax has.
fn shown_dialect(text: &str, tokens: &[Token]) -> Dialect {
    let mut out = Dialect::Unknown;
    for (i, t) in tokens.iter().enumerate() {
        let raw = t.text(text);
        match t.kind {
            TokenKind::Op if raw == "::" => return Dialect::Postgres,
            TokenKind::Dollar => return Dialect::Postgres,
            TokenKind::Param if raw.starts_with('$') && raw[1..].starts_with(|c: char| c.is_ascii_digit()) => {
                out = Dialect::Postgres
            }
            TokenKind::Quoted if raw.starts_with('`') => return Dialect::MySql,
            TokenKind::Word => {
                let lower = raw.to_ascii_lowercase();
                let called = tokens.get(i + 1).is_some_and(|t| t.is_sign(text, "("));
                match lower.as_str() {
                    "get_lock" | "release_lock" | "is_free_lock" | "release_all_locks" if called => {
                        return Dialect::MySql;
                    }
                    "sp_getapplock" | "sp_releaseapplock" | "updlock" | "holdlock" => return Dialect::SqlServer,
                    "plpgsql" => return Dialect::Postgres,
                    "returning" | "ilike" => out = Dialect::Postgres,
                    _ if lower.starts_with("pg_") => return Dialect::Postgres,
                    _ => {}
                }
            }
            _ => {}
        }
    }
    out
}

/// Lock functions called where no tree was built: found on the tokens.
fn loose(text: &str, tokens: &[Token], statement: &Statement, dialect: Dialect) -> Vec<Function> {
    let routine = matches!(statement.kind, StatementKind::Schema(_));
    let mut out = Vec::new();
    for (i, t) in tokens.iter().enumerate() {
        let word = t.kind == TokenKind::Word && super::lock_function(t.text(text)).is_some();
        let named = tokens.get(i + 1).is_some_and(|n| n.is_sign(text, "("))
            || t.text(text).to_ascii_lowercase().ends_with("applock");
        // `GRANT EXECUTE ON FUNCTION pg_advisory_lock(bigint)` and `CREATE FUNCTION get_lock(..)` call nothing.
        if !word || !named || routine || walk::has_call_at(statement, t.end) {
            continue;
        }
        let mut c = Cursor::new(text, &tokens[i..], dialect);
        let procedure = t.text(text).to_ascii_lowercase().ends_with("applock");
        if procedure {
            c.at = 1;
            let (names, args) = procedure_args(&mut c);
            out.push(Function { name: t.text(text).to_ascii_lowercase(), args, names, range: t.range() });
        } else if let ExprKind::Call(f) = expr(&mut c).kind {
            out.push(f);
        }
    }
    out
}

#[cfg(test)]
mod tests;
