//! PL/pgSQL bodies (PostgreSQL manual, chapter 41) to control flow. Other procedural dialects are read with the same
//! words, as far as they go.
//!
//! Every statement that can fail has an edge to the handler around it, or out of the routine: a session lock survives
//! both the failed statement and the rollback of the block's sub-transaction.

mod handlers;
mod parts;
mod simple;

pub(super) use parts::{calls_of, filled, sql_type};

use handlers::Caught;

use super::build::{Builder, Session};
use super::cursor::Cursor;
use super::expr::expr;
use super::tokens::{Token, TokenKind};
use crate::ir::*;
use crate::source::Span;

/// Deepest nesting of blocks, branches and loops that is followed.
const NESTING: usize = 40;

struct LoopFrame {
    label: Option<String>,
    header: BlockId,
    exit: BlockId,
}

/// Reads a body from its tokens.
pub(super) struct Reader<'a, 'b> {
    pub b: &'b mut Builder<'a>,
    pub tokens: &'b [Token],
    pub at: usize,
    loops: Vec<LoopFrame>,
    depth: usize,
}

impl<'a, 'b> Reader<'a, 'b> {
    pub fn new(b: &'b mut Builder<'a>, tokens: &'b [Token]) -> Self {
        Reader { b, tokens, at: 0, loops: Vec::new(), depth: 0 }
    }

    fn is(&self, word: &str) -> bool {
        self.nth_is(0, word)
    }

    fn nth_is(&self, n: usize, word: &str) -> bool {
        self.tokens.get(self.at + n).is_some_and(|t| t.is(self.b.text, word))
    }

    fn eat(&mut self, word: &str) -> bool {
        let fits = self.is(word);
        self.at += usize::from(fits);
        fits
    }

    fn done(&self) -> bool {
        self.at >= self.tokens.len()
    }

    fn here(&self) -> Span {
        let range = self.tokens.get(self.at).or(self.tokens.last()).map_or(0..0, Token::range);
        self.b.span(range)
    }

    fn semi(&self, i: usize) -> bool {
        self.tokens.get(i).is_some_and(|t| t.kind == TokenKind::Semi)
    }

    /// Tokens up to one of the words (outside parentheses and CASE) or a semicolon; the cursor stops in front of it.
    fn until(&mut self, words: &[&str]) -> &'b [Token] {
        let start = self.at;
        let (mut depth, mut case) = (0i32, 0usize);
        while let Some(t) = self.tokens.get(self.at) {
            let text = self.b.text;
            if t.kind == TokenKind::Semi {
                break;
            }
            depth += i32::from(t.is_sign(text, "(")) - i32::from(t.is_sign(text, ")"));
            if t.is(text, "case") {
                case += 1;
            } else if t.is(text, "end") && case > 0 {
                case -= 1;
            } else if depth <= 0 && case == 0 && words.iter().any(|w| t.is(text, w)) {
                break;
            }
            self.at += 1;
        }
        &self.tokens[start..self.at]
    }

    fn skip_semi(&mut self) {
        while self.semi(self.at) {
            self.at += 1;
        }
    }

    /// The whole body: an optional label, DECLARE, BEGIN .. END, or bare statements.
    pub fn body(&mut self) {
        while !self.done() {
            let before = self.at;
            self.statement();
            if self.at == before {
                self.at += 1;
            }
        }
    }

    /// Statements up to one of the words, which stays in front of the cursor.
    fn statements(&mut self, stops: &[&str]) {
        loop {
            self.skip_semi();
            if self.done() || stops.iter().any(|w| self.is(w)) {
                return;
            }
            let before = self.at;
            self.statement();
            if self.at == before {
                self.at += 1;
            }
        }
    }

    fn statement(&mut self) {
        self.skip_semi();
        if self.done() {
            return;
        }
        if self.depth > NESTING {
            self.until(&[]);
            return;
        }
        self.depth += 1;
        let label = self.label();
        if self.is("declare")
            || self.is("begin") && !self.nth_is(1, "tran") && !self.nth_is(1, "transaction") && !self.nth_is(1, "work")
        {
            self.block();
        } else if self.is("if") {
            self.branch();
        } else if self.is("case") {
            self.case();
        } else if ["loop", "while", "for", "foreach"].iter().any(|w| self.is(w)) {
            self.loop_(label);
        } else {
            self.simple();
        }
        self.depth -= 1;
    }

    /// `<<name>>`
    fn label(&mut self) -> Option<String> {
        let sign = |i: usize, s: &str| self.tokens.get(i).is_some_and(|t| t.is_sign(self.b.text, s));
        if sign(self.at, "<<") && sign(self.at + 2, ">>") {
            let name = self.tokens[self.at + 1].identifier(self.b.text);
            self.at += 3;
            return Some(name);
        }
        None
    }

    /// `[DECLARE ..] BEGIN .. [EXCEPTION WHEN .. THEN ..] END`
    fn block(&mut self) {
        let outer = self.b.names.clone();
        if self.eat("declare") {
            while !self.done() && !self.is("begin") {
                let before = self.at;
                self.declaration();
                self.skip_semi();
                if self.at == before {
                    self.at += 1;
                }
            }
        }
        self.eat("begin");
        let handled = self.handler_ahead();
        let span = self.here();
        let handler = handled.map(|_| self.b.block());
        if let Some(handler) = handler {
            self.b.handlers.push(handler);
        }
        self.statements(&["exception", "end"]);
        let after = self.b.block();
        self.b.go(after, EdgeKind::Plain, span);
        if let Some(handler) = handler {
            self.b.handlers.pop();
            self.b.at = handler;
            self.handlers(after, handled.unwrap_or(Caught::Named));
        }
        self.end();
        self.b.at = after;
        self.b.names = outer;
    }

    /// `END [IF | LOOP | CASE | label];`
    fn end(&mut self) {
        if self.eat("end") {
            while !self.done() && !self.semi(self.at) {
                self.at += 1;
            }
        }
        self.skip_semi();
    }

    /// `name [CONSTANT] type [NOT NULL] [{ DEFAULT | := | = } expression];`
    fn declaration(&mut self) {
        let Some(first) = self.tokens.get(self.at) else { return };
        let name = match first.kind {
            TokenKind::Param => first.text(self.b.text).trim_start_matches('@').to_ascii_lowercase(),
            _ => first.identifier(self.b.text),
        };
        let span = self.b.span(first.range());
        let tokens = self.until(&[]);
        let text = self.b.text;
        let ty = tokens
            .iter()
            .skip(1)
            .find(|t| !t.is(text, "constant"))
            .map_or(String::new(), |t| t.text(text).to_ascii_lowercase());
        let start = tokens.iter().position(|t| t.is(text, "default") || t.is_sign(text, ":=") || t.is_sign(text, "="));
        let value = start.and_then(|i| tokens.get(i + 1..)).filter(|t| !t.is_empty());
        let value = value.map(|tokens| self.value(tokens));
        let var = self.b.var(Some(&name), sql_type(&ty), span);
        let rvalue = value.map_or(Rvalue::Unknown(Vec::new()), Rvalue::Use);
        self.b.op(span, Some(var), OpKind::Let(rvalue));
    }

    /// The value of an expression: taken apart if it is simple, else asked of the server.
    fn value(&mut self, tokens: &[Token]) -> Operand {
        let mut c = Cursor::new(self.b.text, tokens, self.b.dialect);
        let e = expr(&mut c);
        if c.done()
            && let Some(operand) = self.b.operand(&e, 0)
        {
            return operand;
        }
        let Some(row) = self.select(tokens, "SELECT ") else {
            let span = self.here();
            let dst = self.b.var(None, Ty::unknown(), span);
            self.b.op(span, Some(dst), OpKind::Let(Rvalue::Unknown(Vec::new())));
            return Operand::Var(dst, Use::Ref);
        };
        let span = self.here();
        Operand::Var(self.b.field(span, row, "0", None), Use::Ref)
    }

    /// Sends `prefix` + tokens as a statement.
    fn select(&mut self, tokens: &[Token], prefix: &str) -> Option<Var> {
        let (first, last) = (tokens.first()?, tokens.last()?);
        let range = first.start..last.end;
        let text = format!("{prefix}{}", self.b.text.get(range.clone())?);
        let base = first.start as i64 - prefix.len() as i64;
        let span = self.lock_span(tokens).unwrap_or_else(|| self.b.span(first.range()));
        let mentions = self.mentions(tokens);
        let whole = self.b.span(range);
        Some(self.b.statement(span, whole, text, Some(base), &mentions))
    }

    /// Where a finding on these tokens stands: the name of the lock function, if there is one.
    fn lock_span(&self, tokens: &[Token]) -> Option<Span> {
        let lock =
            tokens.iter().find(|t| t.kind == TokenKind::Word && super::lock_function(t.text(self.b.text)).is_some())?;
        Some(self.b.span(lock.range()))
    }

    fn mentions(&self, tokens: &[Token]) -> Vec<String> {
        let mut out: Vec<String> = tokens
            .iter()
            .filter(|t| matches!(t.kind, TokenKind::Word | TokenKind::Quoted))
            .map(|t| t.identifier(self.b.text))
            .filter(|name| self.b.names.contains_key(name))
            .collect();
        out.sort();
        out.dedup();
        out
    }

    fn branch(&mut self) {
        let after = self.b.block();
        let mut conditional = true;
        while conditional {
            self.at += 1;
            let span = self.here();
            let tokens = self.until(&["then"]);
            let condition = self.value(tokens);
            self.eat("then");
            let (yes, no) = (self.b.block(), self.b.block());
            self.b.edge(yes, EdgeKind::Plain, Guard::True(condition), span);
            self.b.edge(no, EdgeKind::Plain, Guard::Always, span);
            self.b.at = yes;
            self.statements(&["elsif", "elseif", "else", "end"]);
            self.b.go(after, EdgeKind::Plain, span);
            self.b.at = no;
            conditional = self.is("elsif") || self.is("elseif");
        }
        if self.eat("else") {
            self.statements(&["end"]);
        }
        let span = self.here();
        self.b.go(after, EdgeKind::Plain, span);
        self.end();
        self.b.at = after;
    }

    /// CASE as a statement: any arm may be taken.
    fn case(&mut self) {
        self.at += 1;
        self.until_when();
        let after = self.b.block();
        while self.is("when") {
            self.at += 1;
            let span = self.here();
            let tokens = self.until(&["then"]);
            let condition = if tokens.len() > 1 { Some(self.value(tokens)) } else { None };
            self.eat("then");
            let condition = condition.unwrap_or_else(|| {
                let var = self.b.var(None, Ty::path("bool"), span);
                self.b.op(span, Some(var), OpKind::Let(Rvalue::Unknown(Vec::new())));
                Operand::Var(var, Use::Ref)
            });
            let (yes, no) = (self.b.block(), self.b.block());
            self.b.edge(yes, EdgeKind::Plain, Guard::True(condition), span);
            self.b.edge(no, EdgeKind::Plain, Guard::Always, span);
            self.b.at = yes;
            self.statements(&["when", "else", "end"]);
            self.b.go(after, EdgeKind::Plain, span);
            self.b.at = no;
        }
        if self.eat("else") {
            self.statements(&["end"]);
        }
        let span = self.here();
        self.b.go(after, EdgeKind::Plain, span);
        self.end();
        self.b.at = after;
    }

    fn until_when(&mut self) {
        while !self.done() && !self.is("when") && !self.is("end") {
            self.at += 1;
        }
    }

    fn loop_(&mut self, label: Option<String>) {
        let span = self.here();
        let (header, body, exit) = (self.b.block(), self.b.block(), self.b.block());
        let query = if self.is("for") || self.is("foreach") { self.loop_source() } else { None };
        self.b.go(header, EdgeKind::Plain, span);
        self.b.at = header;
        if self.eat("while") {
            let tokens = self.until(&["loop"]);
            let condition = self.value(tokens);
            self.b.edge(body, EdgeKind::Plain, Guard::True(condition), span);
            self.b.edge(exit, EdgeKind::Plain, Guard::Always, span);
        } else if let Some(more) = query {
            self.b.edge(body, EdgeKind::Plain, Guard::True(Operand::Var(more, Use::Ref)), span);
            self.b.edge(exit, EdgeKind::Plain, Guard::Always, span);
        } else {
            self.b.edge(body, EdgeKind::Plain, Guard::Always, span);
        }
        self.eat("loop");
        self.b.at = body;
        self.loops.push(LoopFrame { label, header, exit });
        self.statements(&["end"]);
        self.loops.pop();
        self.b.go(header, EdgeKind::Back, span);
        self.end();
        self.b.at = exit;
    }

    /// `FOR x IN query`, `FOR i IN 1..n`, `FOREACH x IN ARRAY a`: a variable that says whether there is one more.
    fn loop_source(&mut self) -> Option<Var> {
        self.at += 1;
        let span = self.here();
        let targets = self.until(&["in", "loop"]).to_vec();
        self.eat("in");
        self.eat("reverse");
        let tokens = self.until(&["loop"]);
        let query = tokens
            .first()
            .is_some_and(|t| ["select", "with", "update", "delete", "insert"].iter().any(|w| t.is(self.b.text, w)));
        let parenthesised = tokens.first().is_some_and(|t| t.is_sign(self.b.text, "("));
        if query
            || parenthesised && tokens.get(1).is_some_and(|t| t.is(self.b.text, "select") || t.is(self.b.text, "with"))
        {
            self.sql(tokens, "", None);
        } else if tokens.iter().any(|t| super::lock_function(t.text(self.b.text)).is_some()) {
            self.select(tokens, "SELECT ");
        }
        for t in targets.iter().filter(|t| matches!(t.kind, TokenKind::Word | TokenKind::Quoted)) {
            let name = t.identifier(self.b.text);
            let var = self.b.var(Some(&name), Ty::unknown(), span);
            self.b.op(span, Some(var), OpKind::Let(Rvalue::Unknown(Vec::new())));
        }
        let more = self.b.var(None, Ty::path("bool"), span);
        self.b.op(span, Some(more), OpKind::Let(Rvalue::Unknown(Vec::new())));
        Some(more)
    }
}

/// Builds the body of a routine in the language of procedures.
pub(super) fn body(b: &mut Builder<'_>, tokens: &[Token]) {
    debug_assert!(b.session == Session::Body);
    let mut reader = Reader::new(b, tokens);
    reader.body();
    if !b.ended() {
        let end = tokens.last().map_or(0..0, Token::range);
        let span = b.span(end);
        b.op(span, None, OpKind::Return(Operand::Lit(Lit::Unit), Exit::Return));
    }
}
