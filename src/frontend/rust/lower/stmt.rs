//! Blocks and statements.

use super::pattern::{Bindings, unit};
use super::scope::Kind;
use super::{Lower, Want};
use crate::frontend::rust::types;
use crate::ir::{EdgeKind, Guard, Operand, Ty};
use syn::{Block, Expr, Pat, Stmt};

impl Lower<'_> {
    /// A block as expression, with its label if it has one.
    pub(super) fn block_value(&mut self, block: &Block, label: Option<&syn::Label>, want: Want) -> Operand {
        let Some(label) = label else { return self.block(block, want) };
        let span = self.places.span(block.brace_token.span.close());
        let (inner, value) = self.target(want, span);
        let exit = self.new_block();
        let var = if let Want::Into(var) = inner { Some(var) } else { None };
        self.push(Kind::Labelled { label: label.name.ident.to_string(), exit, value: var });
        match var {
            Some(var) => self.block_to(block, var),
            None => {
                self.block(block, Want::Nothing);
            }
        }
        self.pop(span);
        self.jump(exit, span);
        self.switch(exit);
        self.settle(want, value)
    }

    /// Lowers a block into a variable.
    pub(super) fn block_to(&mut self, block: &Block, dst: crate::ir::Var) {
        let value = self.block(block, Want::Into(dst));
        if !matches!(value, Operand::Var(var, _) if var == dst) {
            let span = self.places.span(block.brace_token.span.close());
            self.assign(span, dst, crate::ir::Rvalue::Use(value));
        }
    }

    /// Lowers a block; its variables are dropped at its end.
    pub(super) fn block(&mut self, block: &Block, want: Want) -> Operand {
        let owner = self.body.path.clone();
        self.names.enter_block(&block.stmts, &owner);
        self.push(Kind::Block);
        let depth = self.scope_depth() - 1;
        let value = self.statements(&block.stmts, want);
        let span = self.places.span(block.brace_token.span.close());
        let value = self.carry_out(value, depth, span);
        self.pop(span);
        self.names.leave_block();
        value
    }

    /// Lowers statements; the last one without semicolon is the value.
    pub(super) fn statements(&mut self, stmts: &[Stmt], want: Want) -> Operand {
        let mut value = unit();
        for (at, stmt) in stmts.iter().enumerate() {
            let last = at + 1 == stmts.len();
            match stmt {
                Stmt::Local(local) => self.local(local),
                Stmt::Item(item) => {
                    let prefix = self.body.path.clone();
                    self.item(item, &prefix);
                }
                Stmt::Expr(expr, None) if last => value = self.value_as(expr, want),
                Stmt::Expr(expr, _) => self.discard(expr),
                Stmt::Macro(stmt) if last && stmt.semi_token.is_none() => value = self.macro_value(&stmt.mac, want),
                Stmt::Macro(stmt) => {
                    let span = self.places.span(stmt.mac.delimiter.span().close());
                    self.with_temps(span, |this| this.statement_macro(&stmt.mac));
                }
            }
        }
        value
    }

    /// An expression statement.
    pub(super) fn discard(&mut self, expr: &Expr) {
        let span = self.places.span(super::places_last(expr));
        self.with_temps(span, |this| this.value(expr, Want::Nothing));
    }

    fn local(&mut self, local: &syn::Local) {
        let span = self.places.span(local.let_token.span);
        let Some(init) = &local.init else {
            let (pat, ty) = match &local.pat {
                Pat::Type(p) => (&*p.pat, types::ty(&self.names, &p.ty)),
                pat => (pat, Ty::unknown()),
            };
            let mut bindings = Bindings::new();
            self.pattern(pat, false, &mut bindings);
            for (_, var) in &bindings {
                self.body.vars[var.0 as usize].ty = ty.clone();
            }
            self.bind(&bindings);
            return;
        };
        let Some((_, diverge)) = &init.diverge else {
            self.bind_to(&local.pat, &init.expr, span);
            return;
        };
        let at = self.places.pat(&local.pat);
        self.push(Kind::Temps);
        let (value, by_ref) = self.scrutinee(&init.expr);
        let mut bindings = Bindings::new();
        let pattern = self.pattern(&local.pat, by_ref, &mut bindings);
        let next = self.new_block();
        let failed = self.new_block();
        let guard = Lower::matching(&value, by_ref, pattern, &bindings);
        self.edge(next, EdgeKind::Plain, guard, at);
        self.edge(failed, EdgeKind::Plain, Guard::Always, at);
        self.switch(failed);
        self.discard(diverge);
        self.switch(next);
        self.pop(span);
        if let (Pat::Type(p), [(_, var)]) = (&local.pat, &bindings[..]) {
            self.body.vars[var.0 as usize].ty = types::ty(&self.names, &p.ty);
        }
        self.bind(&bindings);
    }
}
