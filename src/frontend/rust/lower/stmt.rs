//! Blocks and statements.

use super::pattern::{Bindings, unit};
use super::scope::Kind;
use super::{Lower, Want};
use crate::frontend::rust::{attrs, types};
use crate::ir::{EdgeKind, Guard, Operand, Ty};
use crate::source::Span;
use syn::{Attribute, Block, Expr, Pat, Stmt};

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
            match configured(stmt) {
                Configured::Always => {}
                Configured::Test if !self.test => continue,
                Configured::Test => {}
                Configured::Sometimes if stmts[at..].iter().all(is_alternative) => {
                    return self.alternatives(&stmts[at..], want);
                }
                Configured::Sometimes => {
                    self.optional(stmt);
                    continue;
                }
            }
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

    /// A statement that only some builds have.
    fn optional(&mut self, stmt: &Stmt) {
        let (then, next) = (self.new_block(), self.new_block());
        let span = match stmt {
            Stmt::Expr(expr, _) => self.places.span(super::places_last(expr)),
            Stmt::Macro(stmt) => self.places.span(stmt.mac.delimiter.span().close()),
            Stmt::Local(_) | Stmt::Item(_) => return,
        };
        let guard = self.unknown_choice(span, Vec::new());
        self.edge(then, EdgeKind::Plain, guard, span);
        self.jump(next, span);
        self.switch(then);
        match stmt {
            Stmt::Expr(expr, _) => self.discard(expr),
            Stmt::Macro(stmt) => self.with_temps(span, |this| this.statement_macro(&stmt.mac)),
            Stmt::Local(_) | Stmt::Item(_) => {}
        }
        self.jump(next, span);
        self.switch(next);
    }

    /// `#[cfg(a)] { .. } #[cfg(not(a))] { .. }` at the end of a block: any of them may be its value.
    fn alternatives(&mut self, stmts: &[Stmt], want: Want) -> Operand {
        let exprs = stmts.iter().filter_map(|stmt| match stmt {
            Stmt::Expr(expr, None) => Some(expr),
            _ => None,
        });
        let exprs: Vec<&Expr> = exprs.collect();
        let Some(first) = exprs.first() else { return unit() };
        let span = self.places.span(super::places_last(first));
        self.choose_one(exprs.len(), span, want, |this, at, inner| {
            this.value_as(exprs[at], inner);
        })
    }

    /// One of several ways, undecided.
    pub(super) fn choose_one(
        &mut self,
        count: usize,
        span: Span,
        want: Want,
        mut body: impl FnMut(&mut Self, usize, Want),
    ) -> Operand {
        let (inner, value) = self.target(want, span);
        let end = self.new_block();
        for at in 0..count {
            let next = self.new_block();
            if at + 1 < count {
                let here = self.new_block();
                let guard = self.unknown_choice(span, Vec::new());
                self.edge(here, EdgeKind::Plain, guard, span);
                self.jump(next, span);
                self.switch(here);
            }
            self.with_temps(span, |this| body(this, at, inner));
            self.jump(end, span);
            self.switch(next);
        }
        self.switch(end);
        self.settle(want, value)
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

/// When a statement is compiled.
enum Configured {
    Always,
    Sometimes,
    Test,
}

fn configured(stmt: &Stmt) -> Configured {
    let attrs: &[Attribute] = match stmt {
        Stmt::Local(local) => &local.attrs,
        Stmt::Macro(stmt) => &stmt.attrs,
        Stmt::Expr(expr, _) => attributes(expr),
        Stmt::Item(_) => return Configured::Always,
    };
    if attrs.is_empty() {
        return Configured::Always;
    }
    if attrs::is_test(attrs) {
        return Configured::Test;
    }
    // Both of two alternative `let`s are lowered, one after the other.
    let some = !matches!(stmt, Stmt::Local(_)) && attrs::configured(attrs).is_none();
    if some { Configured::Sometimes } else { Configured::Always }
}

fn is_alternative(stmt: &Stmt) -> bool {
    matches!(stmt, Stmt::Expr(_, None)) && matches!(configured(stmt), Configured::Sometimes)
}

/// Outer attributes of an expression that can stand as a statement. Those of an assignment or a calculation are kept at
/// their first operand.
fn attributes(expr: &Expr) -> &[Attribute] {
    match expr {
        Expr::Assign(e) if e.attrs.is_empty() => attributes(&e.left),
        Expr::Binary(e) if e.attrs.is_empty() => attributes(&e.left),
        Expr::Cast(e) if e.attrs.is_empty() => attributes(&e.expr),
        Expr::Assign(e) => &e.attrs,
        Expr::Async(e) => &e.attrs,
        Expr::Await(e) => &e.attrs,
        Expr::Block(e) => &e.attrs,
        Expr::Break(e) => &e.attrs,
        Expr::Call(e) => &e.attrs,
        Expr::Closure(e) => &e.attrs,
        Expr::Continue(e) => &e.attrs,
        Expr::Field(e) => &e.attrs,
        Expr::ForLoop(e) => &e.attrs,
        Expr::If(e) => &e.attrs,
        Expr::Index(e) => &e.attrs,
        Expr::Lit(e) => &e.attrs,
        Expr::Loop(e) => &e.attrs,
        Expr::Macro(e) => &e.attrs,
        Expr::Match(e) => &e.attrs,
        Expr::MethodCall(e) => &e.attrs,
        Expr::Paren(e) => &e.attrs,
        Expr::Path(e) => &e.attrs,
        Expr::Return(e) => &e.attrs,
        Expr::Struct(e) => &e.attrs,
        Expr::Try(e) => &e.attrs,
        Expr::Tuple(e) => &e.attrs,
        Expr::Unary(e) => &e.attrs,
        Expr::Unsafe(e) => &e.attrs,
        Expr::While(e) => &e.attrs,
        _ => &[],
    }
}
