//! Conditions as control flow: `&&`, `||`, `!`, `let`, `matches!`.

use super::call::strip;
use super::pattern::Bindings;
use super::scope::Kind;
use super::{Lower, Want, used};
use crate::ir::{BlockId, EdgeKind, Guard, Lit, OpKind, Operand, Rvalue, Use};
use syn::{BinOp, Expr, UnOp};

impl Lower<'_> {
    /// Branches on a condition. Variables that it binds belong to the innermost scope and are assigned on the way to `yes`.
    pub(super) fn branch(&mut self, expr: &Expr, yes: BlockId, no: BlockId) {
        if self.depth >= super::MAX_DEPTH {
            let span = self.places.expr(expr);
            let guard = self.unknown_choice(span, Vec::new());
            self.edge(yes, EdgeKind::Plain, guard, span);
            self.edge(no, EdgeKind::Plain, Guard::Always, span);
            return;
        }
        self.depth += 1;
        self.branch_inner(strip(expr), yes, no);
        self.depth -= 1;
    }

    fn branch_inner(&mut self, expr: &Expr, yes: BlockId, no: BlockId) {
        match expr {
            Expr::Unary(e) if matches!(e.op, UnOp::Not(_)) => self.branch(&e.expr, no, yes),
            Expr::Binary(e) if matches!(e.op, BinOp::And(_)) => {
                let before = self.scope_drops();
                let middle = self.new_block();
                self.branch(&e.left, middle, no);
                let bound = self.scope_drops().split_off(before.len());
                let no = if bound.is_empty() {
                    no
                } else {
                    let span = self.places.span(syn::spanned::Spanned::span(&e.op));
                    let undo = self.new_block();
                    self.switch(undo);
                    for var in bound.into_iter().rev() {
                        self.emit(span, None, OpKind::Drop(var));
                    }
                    self.jump(no, span);
                    undo
                };
                self.switch(middle);
                self.branch(&e.right, yes, no);
            }
            Expr::Binary(e) if matches!(e.op, BinOp::Or(_)) => {
                let middle = self.new_block();
                self.branch(&e.left, yes, middle);
                self.switch(middle);
                self.branch(&e.right, yes, no);
            }
            Expr::Let(e) => {
                let span = self.places.pat(&e.pat);
                let (value, by_ref) = self.scrutinee(&e.expr);
                let mut bindings = Bindings::new();
                let pattern = self.pattern(&e.pat, by_ref, &mut bindings);
                let guard = Lower::matching(&value, by_ref, pattern, &bindings);
                self.edge(yes, EdgeKind::Plain, guard, span);
                self.edge(no, EdgeKind::Plain, Guard::Always, span);
                self.bind(&bindings);
            }
            Expr::Macro(e) if e.mac.path.segments.last().is_some_and(|s| s.ident == "matches") => {
                self.branch_matches(&e.mac, yes, no);
            }
            other => {
                let value = used(self.value(other, Want::Value), Use::Ref);
                let span = self.places.expr(other);
                match value {
                    Operand::Lit(Lit::Bool(true)) => self.jump(yes, span),
                    Operand::Lit(Lit::Bool(false)) => self.jump(no, span),
                    value => {
                        self.edge(yes, EdgeKind::Plain, Guard::True(value.clone()), span);
                        self.edge(no, EdgeKind::Plain, Guard::False(value), span);
                    }
                }
            }
        }
    }

    /// A condition as a value.
    pub(super) fn condition_value(&mut self, expr: &Expr, want: Want) -> Operand {
        let span = self.places.expr(expr);
        let (inner, value) = self.target(want, span);
        let (yes, no, end) = (self.new_block(), self.new_block(), self.new_block());
        self.push(Kind::Block);
        self.branch(expr, yes, no);
        for (block, outcome) in [(no, false), (yes, true)] {
            self.switch(block);
            if outcome {
                self.pop(span);
            }
            if let Want::Into(dst) = inner {
                self.assign(span, dst, Rvalue::Use(Operand::Lit(Lit::Bool(outcome))));
            }
            self.jump(end, span);
        }
        self.switch(end);
        value
    }

    /// Branches on a condition whose temporaries are dropped before either side begins.
    pub(super) fn branch_dropping(&mut self, expr: &Expr, yes: BlockId, no: BlockId) {
        let span = self.places.expr(expr);
        let (inner_yes, inner_no) = (self.new_block(), self.new_block());
        self.push(Kind::Temps);
        let depth = self.scope_depth() - 1;
        self.branch(expr, inner_yes, inner_no);
        for (block, to) in [(inner_yes, yes), (inner_no, no)] {
            self.switch(block);
            self.unwind(depth, span);
            self.jump(to, span);
        }
        self.forget_scope();
    }
}

/// Whether a condition binds variables.
pub(super) fn has_let(expr: &Expr) -> bool {
    match strip(expr) {
        Expr::Let(_) => true,
        Expr::Binary(e) if matches!(e.op, BinOp::And(_)) => has_let(&e.left) || has_let(&e.right),
        _ => false,
    }
}
