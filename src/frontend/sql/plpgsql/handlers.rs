//! The EXCEPTION part of a block.

use super::Reader;
use crate::ir::*;
use crate::source::Span;

/// What the EXCEPTION part of a block catches.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Caught {
    /// Some errors.
    Named,
    /// `WHEN OTHERS`: every error but a cancelled query, which a `statement_timeout` is too (PostgreSQL manual, 41.6.8).
    Others,
    /// `WHEN OTHERS OR query_canceled`.
    All,
}

impl Reader<'_, '_> {
    /// What the EXCEPTION part of the block at hand catches, if it has one.
    pub(super) fn handler_ahead(&self) -> Option<Caught> {
        let (mut depth, mut i) = (0usize, self.at);
        while let Some(t) = self.tokens.get(i) {
            let text = self.b.text;
            let closes = |n: usize| {
                ["if", "loop", "case", "while", "for"].iter().any(|w| self.tokens.get(n).is_some_and(|t| t.is(text, w)))
            };
            if t.is(text, "begin") || t.is(text, "case") {
                depth += 1;
            } else if t.is(text, "end") {
                if closes(i + 1) {
                    if self.tokens[i + 1].is(text, "case") {
                        depth = depth.saturating_sub(1);
                    }
                    i += 1;
                } else if depth == 0 {
                    return None;
                } else {
                    depth -= 1;
                }
            } else if depth == 0
                && t.is(text, "exception")
                && self.tokens.get(i + 1).is_some_and(|t| t.is(text, "when"))
            {
                let named =
                    |word: &str| self.tokens[i..].iter().take_while(|t| !t.is(text, "end")).any(|t| t.is(text, word));
                return Some(match (named("others"), named("query_canceled")) {
                    (true, true) => Caught::All,
                    (true, false) => Caught::Others,
                    (false, _) => Caught::Named,
                });
            }
            i += 1;
        }
        None
    }

    /// `EXCEPTION WHEN a OR b THEN .. WHEN OTHERS THEN ..`: the current block is the handlers' common entry.
    pub(super) fn handlers(&mut self, after: BlockId, caught: Caught) {
        let entry = self.b.at;
        if !self.eat("exception") {
            self.b.go(after, EdgeKind::Plain, self.here());
            return;
        }
        while self.is("when") {
            self.at += 1;
            let span = self.here();
            self.until(&["then"]);
            self.eat("then");
            let arm = self.b.block();
            self.b.at = entry;
            let chosen = self.b.var(None, Ty::path("bool"), span);
            self.b.op(span, Some(chosen), OpKind::Let(Rvalue::Unknown(Vec::new())));
            self.b.edge(arm, EdgeKind::Plain, Guard::True(Operand::Var(chosen, Use::Ref)), span);
            self.b.at = arm;
            self.statements(&["when", "end"]);
            self.b.go(after, EdgeKind::Plain, span);
        }
        self.b.at = entry;
        // What no WHEN names goes on outwards.
        let span = self.here();
        match caught {
            Caught::Named => self.outwards(EdgeKind::Question, Exit::Question, span),
            Caught::Others => {
                self.outwards(EdgeKind::Cancel, Exit::Question, span);
                self.b.at = entry;
                self.unreachable(span);
            }
            Caught::All => self.unreachable(span),
        }
    }

    /// From the current block to the handler around, or out of the routine.
    fn outwards(&mut self, kind: EdgeKind, exit: Exit, span: Span) {
        match self.b.handlers.last().copied() {
            Some(outer) => self.b.edge(outer, kind, Guard::Always, span),
            None => {
                let leave = self.b.block();
                self.b.edge(leave, kind, Guard::Always, span);
                self.b.at = leave;
                self.b.op(span, None, OpKind::Return(Operand::Lit(Lit::Unit), exit));
            }
        }
    }

    fn unreachable(&mut self, span: Span) {
        let never = self.b.block();
        self.b.edge(never, EdgeKind::Question, Guard::Always, span);
        self.b.at = never;
        self.b.op(span, None, OpKind::Return(Operand::Lit(Lit::Unit), Exit::Diverge));
    }
}
