//! `.sql` files to IR: one function for the statements of the file, one for each routine body.

use super::ast::{Statement, StatementKind};
use super::build::{Builder, DROP, FUNCTION, Session};
use super::plpgsql::{self, calls_of, sql_type};
use super::routine::{Routine, routine};
use super::split::{Piece, split, split_tokens};
use super::statement::piece_statement;
use super::tokens::{Dialect, Token, TokenKind, tokenize};
use super::walk;
use crate::ir::*;
use crate::source::{Problem, ProblemKind, SourceFile, Span};

/// Lowers a file. Statements become calls of [`super::build::STATEMENT`], routines functions named
/// `sql::function::name`. Never fails: statements that hold lock words and could not be read are problems.
pub fn lower(file: &SourceFile) -> Unit {
    let text: &str = &file.text;
    let dialect = dialect_of(file);
    let pieces = split(text, dialect);
    let session = session_of(file, &pieces);
    let mut unit = Unit::default();
    let mut main = Builder::new(file.id, text, dialect, session);
    let granted = granted(text, &pieces);
    let mut blocks = 0;
    for piece in &pieces {
        let Some(first) = piece.tokens.first() else { continue };
        if piece.too_long() {
            unit.problems.push(problem(file, piece, "statement over 256 KB was not analysed"));
            continue;
        }
        if let Some(mut found) = routine(text, piece, dialect) {
            let anonymous = found.name.is_empty();
            let path = match anonymous {
                true => {
                    blocks += 1;
                    format!("sql::{}::do#{blocks}", file.path)
                }
                false => format!("{FUNCTION}{}", found.name),
            };
            if anonymous {
                found.name = "do".into();
                let span = main.span(first.range());
                let dst = main.var(None, Ty::unit(), span);
                let whole = main.span(piece.range.clone());
                main.call(span, whole, Callee::Path(path.clone()), Vec::new(), dst);
            }
            let place = Place { file, text, dialect, depth: 0 };
            place.routine(&found, piece, path, granted.contains(&found.name), &mut unit.functions);
            continue;
        }
        let (statement, questions) = piece_statement(text, piece, dialect, main.questions);
        main.questions = questions;
        for name in dropped(text, piece) {
            let span = main.span(first.range());
            let whole = main.span(piece.range.clone());
            let dst = main.var(None, Ty::unit(), span);
            main.call(span, whole, Callee::Path(DROP.into()), vec![Operand::Lit(Lit::Str(name))], dst);
        }
        if unread(text, piece, &statement) {
            unit.problems.push(problem(file, piece, "statement with a lock word could not be read"));
        }
        if matters(&statement) {
            file_statement(&mut main, &statement, piece);
        }
    }
    let end = main.span(text.len()..text.len());
    main.op(end, None, OpKind::Return(Operand::Lit(Lit::Unit), Exit::Return));
    let stem = file.path.rsplit('/').next().unwrap_or(&file.path).to_string();
    let whole = Span::new(file.id, 0, text.len());
    let script =
        function(format!("sql::{}", file.path), stem, FunctionKind::SqlFile, Span::new(file.id, 0, 0), whole, main);
    unit.functions.insert(0, script);
    unit
}

fn function(path: String, name: String, kind: FunctionKind, span: Span, whole: Span, b: Builder<'_>) -> Function {
    Function {
        path,
        name,
        module: "sql".into(),
        owner: None,
        owner_trait: None,
        parent: None,
        kind,
        span,
        whole,
        params: Vec::new(),
        captures: Vec::new(),
        vars: b.vars,
        ret: Ty::unknown(),
        generics: Vec::new(),
        is_async: false,
        test: false,
        public: false,
        blocks: b.blocks,
    }
}

/// Deepest definition inside the text of a definition that is followed.
const DEFINITIONS: usize = 3;

/// Where a routine is defined: in a file, or in a text that a routine of the file executes.
struct Place<'a> {
    file: &'a SourceFile,
    text: &'a str,
    dialect: Dialect,
    depth: usize,
}

impl Place<'_> {
    /// Lowers a routine, and those that it defines by EXECUTE.
    fn routine(&self, r: &Routine, piece: &Piece, path: String, public: bool, out: &mut Vec<Function>) {
        let mut b = Builder::new(self.file.id, self.text, self.dialect, Session::Body);
        let at = b.span(r.at.clone());
        let params: Vec<Var> = r
            .params
            .iter()
            .map(|(name, ty)| b.var(Some(name).filter(|n| !n.is_empty()).map(String::as_str), sql_type(ty), at))
            .collect();
        let tokens = self.tokens(r.body.clone());
        match r.language.as_str() {
            "sql" => sql_body(&mut b, &tokens),
            "plpgsql" | "plpgsql2" | "pltsql" => plpgsql::body(&mut b, &tokens),
            // PL/Python and kin: their text is no SQL.
            _ => {}
        }
        let whole = b.span(piece.range.clone());
        let definitions = std::mem::take(&mut b.definitions);
        let mut f = function(path, r.name.clone(), FunctionKind::SqlBody, at, whole, b);
        f.params = params;
        f.ret = sql_type(&r.returns);
        f.public = public;
        out.push(f);
        if self.depth < DEFINITIONS {
            definitions.into_iter().for_each(|(range, format)| self.defined(range, format, out));
        }
    }

    fn defined(&self, range: std::ops::Range<usize>, format: bool, out: &mut Vec<Function>) {
        let filled = if format { plpgsql::filled(self.text, range.clone()) } else { self.text.to_string() };
        let inner = Place { text: &filled, depth: self.depth + 1, ..*self };
        for piece in split_tokens(&filled, inner.tokens(range)) {
            if let Some(found) = routine(&filled, &piece, self.dialect).filter(|found| !found.name.is_empty()) {
                let path = format!("{FUNCTION}{}", found.name);
                inner.routine(&found, &piece, path, false, out);
            }
        }
    }

    /// The tokens of a part of the text, with offsets of the whole.
    fn tokens(&self, range: std::ops::Range<usize>) -> Vec<Token> {
        let mut tokens = tokenize(self.text.get(range.clone()).unwrap_or(""), self.dialect);
        for t in &mut tokens {
            t.start += range.start;
            t.end += range.start;
        }
        tokens
    }
}

/// LANGUAGE sql: statements in a row, the last one's first column is the result.
fn sql_body(b: &mut Builder<'_>, tokens: &[Token]) {
    let mut last = None;
    for run in tokens.split(|t| t.kind == TokenKind::Semi).filter(|run| !run.is_empty()) {
        let piece = Piece { tokens: run.to_vec(), range: run[0].start..run[run.len() - 1].end, meta: false };
        let (statement, _) = piece_statement(b.text, &piece, b.dialect, 0);
        last = Some(file_statement(b, &statement, &piece));
    }
    let span = tokens.last().map_or(b.span(0..0), |t| b.span(t.range()));
    let result = match last {
        Some(outcome) => Operand::Var(b.field(span, outcome, "0", None), Use::Ref),
        None => Operand::Lit(Lit::Unit),
    };
    b.op(span, None, OpKind::Return(result, Exit::Return));
}

/// One statement of a file or of an SQL body; gives the variable of its outcome.
fn file_statement(b: &mut Builder<'_>, statement: &Statement, piece: &Piece) -> Var {
    let whole = b.span(piece.range.clone());
    let lock =
        piece.tokens.iter().find(|t| t.kind == TokenKind::Word && super::lock_function(t.text(b.text)).is_some());
    let row_lock = row_lock_range(statement);
    let span = lock
        .map(|t| b.span(t.range()))
        .or_else(|| row_lock.map(|r| b.span(r)))
        .unwrap_or_else(|| b.span(statement.head.clone()));
    for f in calls_of(statement) {
        b.routine_call(f, whole);
    }
    let text = b.text.get(piece.range.clone()).unwrap_or("").to_string();
    let names: Vec<String> = piece
        .tokens
        .iter()
        .filter(|t| matches!(t.kind, TokenKind::Word | TokenKind::Quoted))
        .map(|t| t.identifier(b.text))
        .filter(|n| b.names.contains_key(n))
        .collect::<std::collections::BTreeSet<_>>()
        .into_iter()
        .collect();
    b.statement(span, whole, text, Some(piece.range.start as i64), &names)
}

fn row_lock_range(statement: &Statement) -> Option<std::ops::Range<usize>> {
    match &statement.kind {
        StatementKind::Select(s) => s.locks.first().map(|l| l.range.clone()),
        _ => None,
    }
}

/// Statements that hold, guard or touch locks, or change rows; schema and settings are left out.
fn matters(statement: &Statement) -> bool {
    if !statement.loose.is_empty() || !statement.ctes.is_empty() {
        return true;
    }
    match &statement.kind {
        StatementKind::Select(_) => {
            let (mut locks, mut calls) = (false, false);
            walk::walk(
                statement,
                &mut |s| locks |= matches!(&s.kind, StatementKind::Select(s) if !s.locks.is_empty()),
                &mut |e, _| calls |= matches!(&e.kind, super::ast::ExprKind::Call(_)),
            );
            locks || calls
        }
        StatementKind::Insert(_)
        | StatementKind::Update(_)
        | StatementKind::Delete(_)
        | StatementKind::Merge(_)
        | StatementKind::Call(_)
        | StatementKind::Begin
        | StatementKind::Commit
        | StatementKind::Rollback
        | StatementKind::LockTable { .. }
        | StatementKind::UnlockTables
        | StatementKind::Discard
        | StatementKind::Truncate(_) => true,
        StatementKind::Savepoint
        | StatementKind::Set { .. }
        | StatementKind::Utility(_)
        | StatementKind::Schema(_)
        | StatementKind::Unknown => false,
    }
}

/// A lock function is named in a statement of which nothing was understood.
fn unread(text: &str, piece: &Piece, statement: &Statement) -> bool {
    matches!(statement.kind, StatementKind::Unknown)
        && statement.loose.is_empty()
        && piece.tokens.iter().any(|t| t.kind == TokenKind::Word && super::lock_function(t.text(text)).is_some())
}

fn problem(file: &SourceFile, piece: &Piece, message: &str) -> Problem {
    Problem {
        path: file.path.clone(),
        span: Some(Span::new(file.id, piece.range.start, piece.range.start)),
        kind: ProblemKind::PartUnread,
        message: message.into(),
    }
}

/// Routines that a role outside may call (`GRANT EXECUTE ON FUNCTION f(..) TO role`).
fn granted(text: &str, pieces: &[Piece]) -> Vec<String> {
    let mut out = Vec::new();
    for piece in pieces.iter().filter(|p| p.tokens.first().is_some_and(|t| t.is(text, "grant"))) {
        let at = piece.tokens.iter().position(|t| t.is(text, "function") || t.is(text, "procedure"));
        let Some(at) = at else { continue };
        let names: Vec<_> = piece.tokens[at + 1..].iter().take_while(|t| !t.is_sign(text, "(")).collect();
        out.extend(names.last().map(|t| t.identifier(text)));
    }
    out
}

/// Routines that `DROP FUNCTION [IF EXISTS] a(..), b` names.
fn dropped(text: &str, piece: &Piece) -> Vec<String> {
    let t = &piece.tokens;
    let drop = t.first().is_some_and(|t| t.is(text, "drop"))
        && t.get(1).is_some_and(|t| t.is(text, "function") || t.is(text, "procedure") || t.is(text, "routine"));
    if !drop {
        return Vec::new();
    }
    let mut out = Vec::new();
    let (mut depth, mut last) = (0i32, None);
    for token in &t[2..] {
        depth += i32::from(token.is_sign(text, "(")) - i32::from(token.is_sign(text, ")"));
        let name = depth == 0 && matches!(token.kind, TokenKind::Word | TokenKind::Quoted);
        if name && !["if", "exists", "cascade", "restrict"].iter().any(|w| token.is(text, w)) {
            last = Some(token.identifier(text));
        } else if token.is_sign(text, ",") && depth == 0 {
            out.extend(last.take());
        }
    }
    out.extend(last);
    out
}

/// What the path and the text say about the server.
fn dialect_of(file: &SourceFile) -> Dialect {
    let path = file.path.to_ascii_lowercase();
    let part = |word: &str| path.split(['/', '_', '-', '.']).any(|p| p == word);
    if part("postgres") || part("postgresql") || part("pg") || part("supabase") {
        Dialect::Postgres
    } else if part("mysql") || part("mariadb") {
        Dialect::MySql
    } else if part("mssql") || part("sqlserver") {
        Dialect::SqlServer
    } else if part("sqlite") {
        Dialect::Sqlite
    } else {
        let lower = file.text.to_ascii_lowercase();
        let has = |word: &str| lower.contains(word);
        if has("$$") || has("plpgsql") || has("pg_") || has("::text") || has("bigserial") || has("timestamptz") {
            Dialect::Postgres
        } else if has("engine=innodb") || has("auto_increment") {
            Dialect::MySql
        } else if has("sp_getapplock") || has("nvarchar") {
            Dialect::SqlServer
        } else {
            Dialect::Unknown
        }
    }
}

/// How the file is run, by the conventions of its place: migrations of sqlx, diesel, refinery, Supabase run each file in
/// one transaction, or send it as one query, which is one implicit transaction; psql commands make it a psql script.
fn session_of(file: &SourceFile, pieces: &[Piece]) -> Session {
    let path = file.path.to_ascii_lowercase();
    if pieces.iter().any(|p| p.meta) {
        return Session::Script;
    }
    let folder = path.split('/').rev().skip(1).any(|p| p.contains("migration") || p == "migrate");
    let name = path.rsplit('/').next().unwrap_or("");
    let versioned = name.starts_with(|c: char| c.is_ascii_digit()) || name.starts_with('v') && name.contains("__");
    if folder && (versioned || name == "up.sql" || name == "down.sql") || versioned && name.contains("__") {
        return Session::Transaction;
    }
    Session::Unknown
}

#[cfg(test)]
mod tests;
