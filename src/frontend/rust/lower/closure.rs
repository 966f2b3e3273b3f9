//! Closures and async blocks: functions of their own, unless they run where they stand.

use super::call::{async_block, strip};
use super::function::Header;
use super::scope::Kind;
use super::{Carrier, Lower, Want};
use crate::frontend::rust::{names, types};
use crate::ir::{Exit, FunctionKind, Operand, Rvalue, Ty, Use, Var};
use crate::source::Span;
use syn::{Block, Expr, Stmt};

impl Lower<'_> {
    pub(super) fn closure_value(&mut self, expr: &Expr, e: &syn::ExprClosure, want: Want) -> Operand {
        let span = self.places.span(e.inputs_begin.span);
        let whole = self.places.expr(expr);
        let ret = match &e.output {
            syn::ReturnType::Default => Ty::unknown(),
            output => types::result(&self.names, output),
        };
        let tail = tail_async(&e.body);
        let is_async = e.asyncness.is_some() || tail.is_some();
        let carrier = match Carrier::of(&ret) {
            Carrier::Unknown => tail.map_or_else(|| expr_carrier(&e.body), |block| block_carrier(&block.block)),
            known => known,
        };
        let by_move = e.capture.is_some() || tail.is_some_and(|block| block.capture.is_some());
        self.enter_nested(FunctionKind::Closure, by_move, carrier, tail);
        self.closure_params(e);
        let value = self.value(&e.body, Want::Value);
        self.finish_body(value, self.places.span(super::places_last(&e.body)));
        self.leave_nested(FunctionKind::Closure, span, whole, ret, is_async, want)
    }

    fn closure_params(&mut self, e: &syn::ExprClosure) {
        for pat in &e.inputs {
            self.param(pat, None);
        }
    }

    pub(super) fn async_value(&mut self, e: &syn::ExprAsync, want: Want) -> Operand {
        if self.body.tail.is_some_and(|tail| std::ptr::eq(tail, e)) {
            return self.block(&e.block, want);
        }
        let span = self.places.span(e.async_token.span);
        let whole = self.places.between(e.async_token.span, e.block.brace_token.span.close());
        self.enter_nested(FunctionKind::AsyncBlock, e.capture.is_some(), block_carrier(&e.block), None);
        let value = self.block(&e.block, Want::Value);
        self.finish_body(value, self.places.span(e.block.brace_token.span.close()));
        self.leave_nested(FunctionKind::AsyncBlock, span, whole, Ty::unknown(), true, want)
    }

    /// Statements that run later, as a closure without parameters (`defer! { .. }`, streams).
    pub(super) fn deferred(
        &mut self,
        kind: FunctionKind,
        is_async: bool,
        stmts: &[Stmt],
        span: Span,
        whole: Span,
    ) -> Operand {
        let path = self.body.path.clone();
        self.enter_nested(kind, false, Carrier::Unknown, None);
        self.names.enter_block(stmts, &path);
        self.push(Kind::Block);
        let value = self.statements(stmts, Want::Value);
        let depth = self.scope_depth() - 1;
        let value = self.carry_out(value, depth, span);
        self.pop(span);
        self.names.leave_block();
        self.finish_body(value, span);
        self.leave_nested(kind, span, whole, Ty::unknown(), is_async, Want::Value)
    }

    fn enter_nested(&mut self, kind: FunctionKind, by_move: bool, carrier: Carrier, tail: Option<&syn::ExprAsync>) {
        let number = self.body.closures;
        self.body.closures += 1;
        let name = if kind == FunctionKind::AsyncBlock { "async" } else { "closure" };
        let path = format!("{}::{{{name}#{number}}}", self.body.path);
        self.enter_body(path, true, carrier);
        self.body.by_move = by_move;
        self.body.tail = tail.map(std::ptr::from_ref);
        self.push(Kind::Function);
    }

    /// Whether the outer variable that a captured one stands for is a reference itself.
    fn outer_by_ref(&self, inner: Var) -> bool {
        let outer = self.body.captures.iter().find(|(_, var)| *var == inner).map(|(outer, _)| *outer);
        match (outer, self.outer.last()) {
            (Some(outer), Some(body)) => body.vars[outer.0 as usize].by_ref,
            _ => true,
        }
    }

    fn leave_nested(
        &mut self,
        kind: FunctionKind,
        span: Span,
        whole: Span,
        ret: Ty,
        is_async: bool,
        want: Want,
    ) -> Operand {
        let captures = self.body.captures.clone();
        for (_, inner) in &captures {
            // What is used by value inside is captured by value.
            let at = inner.0 as usize;
            if self.body.moved[at] && !self.outer_by_ref(*inner) {
                self.body.vars[at].by_ref = false;
            }
        }
        let operands = captures.iter().map(|(outer, inner)| {
            let by_ref = self.body.vars[inner.0 as usize].by_ref;
            Operand::Var(*outer, if by_ref { Use::Ref } else { Use::Move })
        });
        let operands: Vec<Operand> = operands.collect();
        let parent = self.outer.last().and_then(|body| body.id);
        let path = self.body.path.clone();
        let header = Header {
            name: path.rsplit("::").next().unwrap_or_default().to_owned(),
            path,
            owner: self.names.owner.clone(),
            parent,
            ret,
            is_async,
            ..Header::new(kind, span, whole)
        };
        let id = self.leave_body(header);
        self.compute(span, want, Rvalue::Closure(id, operands))
    }

    /// An async block that is awaited where it stands.
    pub(super) fn inline_async(&mut self, e: &syn::ExprAsync, want: Want) -> Operand {
        let span = self.places.span(e.block.brace_token.span.close());
        self.inline(want, block_carrier(&e.block), span, |this, value| this.block_to(&e.block, value))
    }

    /// A closure that is called where it stands.
    pub(super) fn called_closure<'e>(
        &mut self,
        e: &syn::ExprClosure,
        args: impl IntoIterator<Item = &'e Expr>,
        want: Want,
    ) -> Operand {
        let span = self.places.span(super::places_last(&e.body));
        self.push(Kind::Block);
        for (pat, arg) in e.inputs.iter().zip(args) {
            self.bind_to(pat, arg, span);
        }
        let tail = tail_async(&e.body);
        let carrier = match &e.output {
            syn::ReturnType::Default => tail.map_or_else(|| expr_carrier(&e.body), |block| block_carrier(&block.block)),
            output => Carrier::of(&types::result(&self.names, output)),
        };
        let outer_tail = std::mem::replace(&mut self.body.tail, tail.map(std::ptr::from_ref));
        let value = self.inline(want, carrier, span, |this, value| this.value_to(&e.body, value));
        self.body.tail = outer_tail;
        self.pop(span);
        value
    }

    /// `try { .. }`
    pub(super) fn try_value(&mut self, block: &Block, want: Want) -> Operand {
        let span = self.places.span(block.brace_token.span.close());
        let value = self.plain(want, span);
        let exit = self.new_block();
        self.push(Kind::Try { exit, value });
        self.with_temps(span, |this| {
            let tail = this.block(block, Want::Value);
            this.assign(span, value, Rvalue::Variant("Ok".into(), vec![tail]));
        });
        self.pop(span);
        self.jump(exit, span);
        self.switch(exit);
        self.settle(want, Operand::Var(value, Use::Move))
    }

    /// Ends a body with its value: drops what it holds and returns.
    pub(super) fn finish_body(&mut self, value: Operand, span: Span) {
        let value = self.carry_out(value, 0, span);
        self.unwind(0, span);
        self.emit(span, None, crate::ir::OpKind::Return(value, Exit::Return));
    }

    /// A parameter: a named variable, or one that is taken apart.
    pub(super) fn param(&mut self, pat: &syn::Pat, ty: Option<(Ty, bool)>) {
        match pat {
            syn::Pat::Type(p) => {
                let by_ref = types::is_reference(&p.ty);
                let ty = types::ty(&self.names, &p.ty);
                self.param(&p.pat, Some((ty, by_ref)));
            }
            syn::Pat::Paren(p) => self.param(&p.pat, ty),
            syn::Pat::Ident(p) if p.subpat.is_none() => {
                let (ty, by_ref) = ty.unwrap_or_default();
                let dropped = !by_ref && !types::is_plain(&ty);
                let var = self.named(&p.ident, ty, by_ref || p.by_ref.is_some(), p.mutability.is_some());
                self.body.params.push(var);
                self.declare(&names::ident(&p.ident), var, dropped);
            }
            pat => {
                let (ty, by_ref) = ty.unwrap_or_default();
                let span = self.places.pat(pat);
                let var = self.temp(span);
                self.body.vars[var.0 as usize].ty = ty;
                self.body.vars[var.0 as usize].by_ref = by_ref;
                self.body.params.push(var);
                if matches!(pat, syn::Pat::Wild(_)) {
                    if !by_ref {
                        self.hold(var);
                    }
                } else {
                    self.destructure(pat, var, by_ref, super::pattern::Rest::Held, span);
                }
            }
        }
    }

    /// A variable that a scope holds without a name (`defer!`).
    pub(super) fn hold_value(&mut self, value: Operand) {
        if let Operand::Var(var, _) = value {
            self.release(var);
            self.hold_in_block(var);
        }
    }

    fn hold_in_block(&mut self, var: Var) {
        self.body.moved[var.0 as usize] = false;
        self.extend_temp(var);
    }
}

/// The async block that a body ends in: `|| async move { .. }`, `|| { let a = b; Box::pin(async { .. }) }`.
pub(super) fn tail_async(body: &Expr) -> Option<&syn::ExprAsync> {
    match strip(body) {
        Expr::Block(block) if block.label.is_none() => block_tail_async(&block.block),
        other => async_block(other),
    }
}

/// The async block that a block ends in.
pub(super) fn block_tail_async(block: &Block) -> Option<&syn::ExprAsync> {
    match block.stmts.last() {
        Some(Stmt::Expr(expr, None)) => tail_async(expr),
        _ => None,
    }
}

/// What `?` yields in a block without declared type, by how the block ends.
pub(super) fn block_carrier(block: &Block) -> Carrier {
    match block.stmts.last() {
        Some(Stmt::Expr(expr, None)) => expr_carrier(expr),
        _ => Carrier::Unknown,
    }
}

fn expr_carrier(expr: &Expr) -> Carrier {
    match strip(expr) {
        Expr::Block(e) => block_carrier(&e.block),
        Expr::If(e) => block_carrier(&e.then_branch),
        Expr::Call(e) => match &*e.func {
            Expr::Path(p) => p.path.segments.last().map_or(Carrier::Unknown, |s| match s.ident.to_string().as_str() {
                "Ok" | "Err" => Carrier::Result,
                "Some" => Carrier::Option,
                _ => Carrier::Unknown,
            }),
            _ => Carrier::Unknown,
        },
        Expr::Path(p) if p.path.is_ident("None") => Carrier::Option,
        _ => Carrier::Unknown,
    }
}
