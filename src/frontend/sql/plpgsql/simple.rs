//! Statements that contain no others.

use super::Reader;
use super::parts::{assignment, definition, dynamic, into_targets, routine_of, walk_tables};
use crate::frontend::sql::ast::StatementKind;
use crate::frontend::sql::cursor::Cursor;
use crate::frontend::sql::expr::expr;
use crate::frontend::sql::lock_function;
use crate::frontend::sql::split::Piece;
use crate::frontend::sql::statement::piece_statement;
use crate::frontend::sql::tokens::Token;
use crate::ir::*;
use crate::source::Span;

impl Reader<'_, '_> {
    pub(super) fn simple(&mut self) {
        let span = self.here();
        let text = self.b.text;
        if self.is("exit") || self.is("continue") {
            return self.jump();
        }
        if self.is("return") {
            return self.return_();
        }
        if self.is("raise") {
            let level = ["debug", "log", "info", "notice", "warning"].iter().any(|w| self.nth_is(1, w));
            self.until(&[]);
            if !level {
                self.leave(span);
            }
            return;
        }
        if self.is("execute") {
            return self.execute();
        }
        if ["null", "open", "close", "fetch", "move", "assert", "declare", "print", "signal", "deallocate"]
            .iter()
            .any(|w| self.is(w))
        {
            let tokens = self.until(&[]);
            if tokens.iter().any(|t| t.is(text, "update") || lock_function(t.text(text)).is_some()) {
                let from = tokens.iter().position(|t| t.is(text, "select"));
                if let Some(query) = from.and_then(|i| tokens.get(i..)) {
                    self.sql(query, "", None);
                }
            }
            return;
        }
        if self.is("get") {
            let tokens = self.until(&[]);
            return self.diagnostics(tokens);
        }
        let tokens = self.until(&[]);
        if tokens.is_empty() {
            return;
        }
        if let Some((target, value)) = assignment(text, tokens) {
            let value = self.value(value);
            match self.b.names.get(&target).copied() {
                Some(var) => self.b.op(span, Some(var), OpKind::Let(Rvalue::Use(value))),
                None => {
                    let var = self.b.var(None, Ty::unknown(), span);
                    self.b.op(span, Some(var), OpKind::Let(Rvalue::Use(value)));
                }
            }
            return;
        }
        if tokens[0].is(text, "perform") {
            self.sql(&tokens[1..], "SELECT ", None);
        } else {
            self.sql(tokens, "", None);
        }
    }

    /// Leaves by an error: to the handler around, or out.
    fn leave(&mut self, span: Span) {
        match self.b.handlers.last().copied() {
            Some(handler) => self.b.edge(handler, EdgeKind::Question, Guard::Always, span),
            None => self.b.op(span, None, OpKind::Return(Operand::Lit(Lit::Unit), Exit::Question)),
        }
        self.b.at = self.b.block();
    }

    /// `EXIT [label] [WHEN c]`, `CONTINUE [label] [WHEN c]`
    fn jump(&mut self) {
        let span = self.here();
        let exit = self.is("exit");
        self.at += 1;
        let label = if self.is("when") || self.semi(self.at) || self.done() {
            None
        } else {
            self.tokens.get(self.at).map(|t| t.identifier(self.b.text))
        };
        if label.is_some() {
            self.at += 1;
        }
        let frame = self.loops.iter().rev().find(|f| label.is_none() || f.label == label);
        let target = frame.map(|f| if exit { f.exit } else { f.header });
        let condition = if self.eat("when") {
            let tokens = self.until(&[]);
            Some(self.value(tokens))
        } else {
            None
        };
        let Some(target) = target else { return };
        let kind = if exit { EdgeKind::Plain } else { EdgeKind::Back };
        let next = self.b.block();
        match condition {
            Some(condition) => {
                self.b.edge(target, kind, Guard::True(condition), span);
                self.b.edge(next, EdgeKind::Plain, Guard::Always, span);
            }
            None => self.b.go(target, kind, span),
        }
        self.b.at = next;
    }

    fn return_(&mut self) {
        let span = self.here();
        self.at += 1;
        if self.eat("next") {
            self.until(&[]);
            return;
        }
        if self.eat("query") {
            if self.is("execute") {
                return self.execute();
            }
            let tokens = self.until(&[]);
            self.sql(tokens, "", None);
            return;
        }
        let tokens = self.until(&[]);
        let value = if tokens.is_empty() { Operand::Lit(Lit::Unit) } else { self.value(tokens) };
        self.b.op(span, None, OpKind::Return(value, Exit::Return));
        self.b.at = self.b.block();
    }

    /// `GET DIAGNOSTICS n = ROW_COUNT`
    fn diagnostics(&mut self, tokens: &[Token]) {
        let text = self.b.text;
        for w in tokens.windows(3) {
            if w[2].is(text, "row_count")
                && let (Some(var), Some(found)) = (self.b.names.get(&w[0].identifier(text)).copied(), self.b.found)
            {
                let span = self.b.span(w[2].range());
                // `FOUND` was taken from the outcome's field; the row count is its neighbour.
                let outcome = self.b.blocks.iter().flat_map(|b| &b.ops).rev().find_map(|op| match &op.kind {
                    OpKind::Let(Rvalue::Field(Operand::Var(of, _), name))
                        if op.dst == Some(found) && name == "found" =>
                    {
                        Some(*of)
                    }
                    _ => None,
                });
                if let Some(outcome) = outcome {
                    self.b.field(span, outcome, "row_count", Some(var));
                }
            }
        }
    }

    /// EXECUTE: a constant text, or `format(..)` with its holes left open, is read as a statement.
    fn execute(&mut self) {
        let span = self.here();
        self.at += 1;
        let tokens = self.until(&["into", "using"]);
        let mut c = Cursor::new(self.b.text, tokens, self.b.dialect);
        let text = dynamic(&expr(&mut c));
        self.b.definitions.extend(definition(self.b.text, tokens));
        let rest = self.until(&[]);
        let whole = self.b.span(tokens.first().map_or(0..0, Token::range));
        // A text made elsewhere does something, nobody knows what.
        let text = text.unwrap_or_else(|| "EXECUTE".into());
        let outcome = self.b.statement(span, whole, text, None, &[]);
        self.outcome(outcome, span, into_targets(self.b.text, rest));
        self.b.may_raise(span);
    }

    /// A statement of SQL, with INTO targets taken out of it by the reader of the text.
    pub(super) fn sql(&mut self, tokens: &[Token], prefix: &str, into: Option<Vec<String>>) {
        let Some(first) = tokens.first() else { return };
        let span = self.lock_span(tokens).unwrap_or_else(|| self.b.span(first.range()));
        let piece = Piece { tokens: tokens.to_vec(), range: first.start..tokens[tokens.len() - 1].end, meta: false };
        let (statement, _) = piece_statement(self.b.text, &piece, self.b.dialect, 0);
        let routine = routine_of(&statement, prefix, self.b, tokens);
        let Some(outcome) = self.select(tokens, prefix) else { return };
        let mut targets = into.unwrap_or_default();
        if let StatementKind::Select(s) = &statement.kind {
            targets.extend(s.into.iter().cloned());
        }
        targets
            .extend(into_targets(self.b.text, tokens).into_iter().filter(|t| !targets.contains(t)).collect::<Vec<_>>());
        match routine {
            // The routine's own result is what the variable gets.
            Some(result) if targets.len() == 1 => {
                if let Some(var) = self.b.names.get(&targets[0]).copied() {
                    self.b.op(span, Some(var), OpKind::Let(Rvalue::Use(result)));
                }
            }
            _ => self.outcome(outcome, span, targets),
        }
        let tables =
            if prefix.is_empty() { walk_tables(&statement) } else { tokens.iter().any(|t| t.is(self.b.text, "from")) };
        let only_locks = self.lock_span(tokens).is_some() && !tables;
        let control = matches!(
            statement.kind,
            StatementKind::Commit | StatementKind::Rollback | StatementKind::Set { .. } | StatementKind::Savepoint
        );
        if !only_locks && !control {
            self.b.may_raise(span);
        }
    }

    /// Hands the columns of an outcome to INTO targets, and remembers FOUND.
    fn outcome(&mut self, outcome: Var, span: Span, targets: Vec<String>) {
        let found = self.b.field(span, outcome, "found", None);
        self.b.found = Some(found);
        for (i, target) in targets.iter().enumerate() {
            let name = target.split('.').next().unwrap_or(target);
            if let Some(var) = self.b.names.get(name).copied() {
                self.b.field(span, outcome, &i.to_string(), Some(var));
            }
        }
    }
}
