//! Patterns: to [`Pattern`] for choices, to field reads where they cannot fail.

use super::{Lower, Want, expr, literal};
use crate::frontend::rust::{names, types};
use crate::ir::{EdgeKind, Guard, Lit, OpKind, Operand, Pattern, Rvalue, Ty, Use, Var, VarInfo};
use crate::source::Span;
use syn::{Expr, Pat};

/// What becomes of the parts that a pattern does not bind.
#[derive(Clone, Copy)]
pub(super) enum Rest {
    /// They were part of a temporary: dropped with it.
    Dropped,
    /// They stay in their place to the end of the block.
    Held,
}

/// Names that a pattern binds, with their variables.
pub(super) type Bindings = Vec<(String, Var)>;

impl Lower<'_> {
    /// Lowers a pattern and makes its variables; they become visible by [`Lower::bind`]. `by_ref`: what is matched is borrowed.
    pub(super) fn pattern(&mut self, pat: &Pat, by_ref: bool, bindings: &mut Bindings) -> Pattern {
        match pat {
            Pat::Wild(_) | Pat::Rest(_) => Pattern::Wild,
            Pat::Ident(p) => {
                let name = names::ident(&p.ident);
                if is_constant(p) {
                    return Pattern::Path(self.names.resolve(&[name], false));
                }
                let by_ref = by_ref || p.by_ref.is_some();
                let var = self.binding(p, &name, by_ref, bindings);
                let sub = p.subpat.as_ref().map(|(_, sub)| Box::new(self.pattern(sub, true, bindings)));
                Pattern::Bind(var, sub)
            }
            Pat::Lit(p) => Pattern::Lit(literal::lit(&p.lit)),
            Pat::Path(p) => Pattern::Path(self.value_path(p)),
            Pat::Paren(p) => self.pattern(&p.pat, by_ref, bindings),
            Pat::Reference(p) => self.pattern(&p.pat, true, bindings),
            Pat::Type(p) => self.pattern(&p.pat, by_ref || types::is_reference(&p.ty), bindings),
            Pat::Guard(p) => self.pattern(&p.pat, by_ref, bindings),
            Pat::Or(p) => Pattern::Or(p.cases.iter().map(|case| self.pattern(case, by_ref, bindings)).collect()),
            Pat::Tuple(p) => {
                let (list, rest) = self.pattern_list(p.elems.iter(), by_ref, bindings);
                Pattern::Tuple(list, rest)
            }
            Pat::TupleStruct(p) => {
                let path = self.names.resolve(&names::segments(&p.path), p.path.leading_colon.is_some());
                let (list, rest) = self.pattern_list(p.elems.iter(), by_ref, bindings);
                Pattern::Variant(path, list, rest)
            }
            Pat::Struct(p) => {
                let path = self.names.resolve(&names::segments(&p.path), p.path.leading_colon.is_some());
                let mut fields = Vec::with_capacity(p.fields.len());
                for field in &p.fields {
                    fields.push((expr::member(&field.member), self.pattern(&field.pat, by_ref, bindings)));
                }
                Pattern::Struct(path, fields)
            }
            Pat::Slice(p) => {
                let mut inner = Bindings::new();
                for elem in &p.elems {
                    self.pattern(elem, by_ref, &mut inner);
                }
                let vars = inner.iter().map(|(_, var)| *var).collect();
                bindings.extend(inner);
                Pattern::Opaque(vars)
            }
            _ => Pattern::Opaque(Vec::new()),
        }
    }

    fn pattern_list<'p>(
        &mut self,
        elems: impl Iterator<Item = &'p Pat>,
        by_ref: bool,
        bindings: &mut Bindings,
    ) -> (Vec<Pattern>, bool) {
        let mut list = Vec::new();
        let mut rest = false;
        for elem in elems {
            if matches!(elem, Pat::Rest(_)) {
                rest = true;
            } else {
                list.push(self.pattern(elem, by_ref, bindings));
            }
        }
        (list, rest)
    }

    /// The variable of a binding; alternatives of an or-pattern share theirs.
    fn binding(&mut self, p: &syn::PatIdent, name: &str, by_ref: bool, bindings: &mut Bindings) -> Var {
        if let Some((_, var)) = bindings.iter().find(|(bound, _)| bound == name) {
            return *var;
        }
        let var = self.named(&p.ident, Ty::unknown(), by_ref, p.mutability.is_some());
        bindings.push((name.to_owned(), var));
        var
    }

    /// A named variable, not visible yet.
    pub(super) fn named(&mut self, ident: &syn::Ident, ty: Ty, by_ref: bool, mutable: bool) -> Var {
        let span = self.places.span(ident.span());
        self.new_var(VarInfo { name: Some(names::ident(ident)), ty, span, by_ref, mutable })
    }

    /// Makes the bindings of a pattern visible in the innermost scope.
    pub(super) fn bind(&mut self, bindings: &Bindings) {
        for (name, var) in bindings {
            let info = &self.body.vars[var.0 as usize];
            let dropped = !info.by_ref && !types::is_plain(&info.ty);
            self.declare(name, *var, dropped);
        }
    }

    /// What a `match`, `if let` or `let else` looks at, and whether its parts are borrowed.
    pub(super) fn scrutinee(&mut self, expr: &Expr) -> (Operand, bool) {
        let value = self.place(expr, Use::Ref);
        let by_ref = match &value {
            Operand::Var(var, _) if self.body.vars[var.0 as usize].by_ref => true,
            _ => borrows(expr),
        };
        (value, by_ref)
    }

    /// A guard that tests a pattern: by value only if something moves out, always taken if it is `_`.
    pub(super) fn matching(value: &Operand, by_ref: bool, pattern: Pattern, bindings: &Bindings) -> Guard {
        if matches!(pattern, Pattern::Wild) {
            return Guard::Always;
        }
        let mode = if by_ref || bindings.is_empty() { Use::Ref } else { Use::Move };
        Guard::Matches(super::used(value.clone(), mode), pattern)
    }

    /// Takes apart a value by a pattern that always matches, and makes its names visible.
    pub(super) fn destructure(&mut self, pat: &Pat, from: Var, by_ref: bool, rest: Rest, span: Span) {
        let from_ref = || Operand::Var(from, Use::Ref);
        match pat {
            Pat::Paren(p) => self.destructure(&p.pat, from, by_ref, rest, span),
            Pat::Type(p) => {
                let ty = types::ty(&self.names, &p.ty);
                let by_ref = by_ref || types::is_reference(&p.ty);
                self.body.vars[from.0 as usize].ty = ty;
                self.destructure(&p.pat, from, by_ref, rest, span);
            }
            Pat::Reference(p) => self.destructure(&p.pat, from, true, rest, span),
            Pat::Wild(_) => match rest {
                _ if by_ref => {}
                Rest::Dropped => self.emit(span, None, OpKind::Drop(from)),
                Rest::Held => self.hold(from),
            },
            Pat::Ident(p) if p.subpat.is_none() && !is_constant(p) => {
                let by_ref = by_ref || p.by_ref.is_some();
                let ty = self.body.vars[from.0 as usize].ty.clone();
                let var = self.named(&p.ident, ty, by_ref, p.mutability.is_some());
                let mode = if by_ref { Use::Ref } else { Use::Move };
                self.assign(span, var, Rvalue::Use(Operand::Var(from, mode)));
                self.bind(&vec![(names::ident(&p.ident), var)]);
            }
            Pat::Tuple(p) => self.destructure_list(p.elems.iter(), from, by_ref, rest, span),
            Pat::TupleStruct(p) => self.destructure_list(p.elems.iter(), from, by_ref, rest, span),
            Pat::Struct(p) => {
                for field in &p.fields {
                    let part = self.temp(span);
                    self.assign(span, part, Rvalue::Field(from_ref(), expr::member(&field.member)));
                    self.destructure(&field.pat, part, by_ref, rest, span);
                }
            }
            Pat::Rest(_) => {}
            other => {
                let mut bindings = Bindings::new();
                let pattern = self.pattern(other, by_ref, &mut bindings);
                let next = self.new_block();
                let guard = Lower::matching(&from_ref(), by_ref, pattern, &bindings);
                self.edge(next, EdgeKind::Plain, guard, span);
                self.switch(next);
                self.bind(&bindings);
            }
        }
    }

    fn destructure_list<'p>(
        &mut self,
        elems: impl Iterator<Item = &'p Pat>,
        from: Var,
        by_ref: bool,
        rest: Rest,
        span: Span,
    ) {
        let mut known = true;
        for (at, elem) in elems.enumerate() {
            if matches!(elem, Pat::Rest(_)) {
                known = false;
                continue;
            }
            let part = self.temp(span);
            let base = Operand::Var(from, Use::Ref);
            let value = if known { Rvalue::Field(base, at.to_string()) } else { Rvalue::Unknown(vec![base]) };
            self.assign(span, part, value);
            self.destructure(elem, part, by_ref, rest, span);
        }
    }

    /// Binds a pattern that always matches to an expression: `let`, arguments of a closure called at once.
    pub(super) fn bind_to(&mut self, pat: &Pat, init: &Expr, span: Span) {
        let by_ref = matches!(init, Expr::Reference(_));
        match pat {
            Pat::Paren(p) => self.bind_to(&p.pat, init, span),
            Pat::Type(p) => {
                let ty = types::ty(&self.names, &p.ty);
                self.bind_typed(&p.pat, ty, by_ref || types::is_reference(&p.ty), init, span);
            }
            pat => self.bind_typed(pat, Ty::unknown(), by_ref, init, span),
        }
    }

    fn bind_typed(&mut self, pat: &Pat, ty: Ty, by_ref: bool, init: &Expr, span: Span) {
        match pat {
            Pat::Ident(p) if p.subpat.is_none() && !is_constant(p) => {
                let by_ref = by_ref || p.by_ref.is_some();
                let plain = is_data(init) || types::is_plain(&ty);
                let var = self.named(&p.ident, ty, by_ref, p.mutability.is_some());
                self.with_temps(span, |this| {
                    this.value_to(init, var);
                    if let (true, Expr::Reference(_)) = (by_ref, init) {
                        this.extend_borrowed(var);
                    }
                });
                self.declare(&names::ident(&p.ident), var, !by_ref && !plain);
            }
            Pat::Wild(_) => self.with_temps(span, |this| {
                if ty.is_unknown() {
                    if !matches!(super::call::strip(init), Expr::Path(_) | Expr::Field(_)) {
                        let value = this.value(init, Want::Value);
                        this.drop_now(&value, span);
                    }
                } else {
                    let var = this.temp(span);
                    this.body.vars[var.0 as usize].ty = ty;
                    this.value_to(init, var);
                    this.emit(span, None, OpKind::Drop(var));
                }
            }),
            pat => {
                let var = self.temp(span);
                self.body.vars[var.0 as usize].ty = ty;
                let borrowed = by_ref || borrows(init);
                self.with_temps(span, |this| this.value_to(init, var));
                let place = matches!(super::call::strip(init), Expr::Path(_) | Expr::Field(_));
                let rest = if place { Rest::Held } else { Rest::Dropped };
                self.destructure(pat, var, borrowed, rest, span);
            }
        }
    }

    /// `let x = &call();` keeps the borrowed temporary alive to the end of the block.
    fn extend_borrowed(&mut self, var: Var) {
        let current = self.current();
        let borrowed =
            self.block_mut(current).ops.iter().rev().find(|op| op.dst == Some(var)).and_then(|op| match &op.kind {
                OpKind::Let(Rvalue::Use(Operand::Var(inner, Use::Ref | Use::RefMut))) => Some(*inner),
                _ => None,
            });
        if let Some(inner) = borrowed
            && self.body.vars[inner.0 as usize].name.is_none()
        {
            self.extend_temp(inner);
        }
    }
}

/// A bare name in a pattern that is a constant or unit variant, not a binding.
fn is_constant(p: &syn::PatIdent) -> bool {
    p.by_ref.is_none()
        && p.mutability.is_none()
        && p.subpat.is_none()
        && p.ident.to_string().starts_with(|c: char| c.is_uppercase())
}

/// Whether matching on this expression borrows its parts.
fn borrows(expr: &Expr) -> bool {
    match expr {
        Expr::Reference(_) | Expr::Index(_) => true,
        Expr::Field(e) => !matches!(&*e.base, Expr::Call(_) | Expr::Await(_) | Expr::Try(_)),
        Expr::Unary(e) => matches!(e.op, syn::UnOp::Deref(_)),
        Expr::Paren(e) => borrows(&e.expr),
        Expr::MethodCall(e) => {
            matches!(e.method.to_string().as_str(), "as_ref" | "as_mut" | "as_deref" | "as_deref_mut" | "as_str")
        }
        _ => false,
    }
}

/// Values that hold no guard, so that dropping them need not be shown.
fn is_data(expr: &Expr) -> bool {
    match expr {
        Expr::Lit(_) | Expr::Binary(_) | Expr::Range(_) => true,
        Expr::Unary(e) => !matches!(e.op, syn::UnOp::Deref(_)),
        Expr::Paren(e) => is_data(&e.expr),
        Expr::Macro(e) => e.mac.path.segments.last().is_some_and(|s| {
            matches!(s.ident.to_string().as_str(), "format" | "matches" | "concat" | "include_str" | "json")
        }),
        Expr::Cast(_) => true,
        _ => false,
    }
}

/// Whether a pattern always matches.
pub(super) fn irrefutable(pat: &Pat) -> bool {
    match pat {
        Pat::Wild(_) | Pat::Rest(_) => true,
        Pat::Ident(p) => !is_constant(p) && p.subpat.as_ref().is_none_or(|(_, sub)| irrefutable(sub)),
        Pat::Paren(p) => irrefutable(&p.pat),
        Pat::Type(p) => irrefutable(&p.pat),
        Pat::Reference(p) => irrefutable(&p.pat),
        Pat::Tuple(p) => p.elems.iter().all(irrefutable),
        _ => false,
    }
}

/// A pattern literal for the unit value.
pub(super) fn unit() -> Operand {
    Operand::Lit(Lit::Unit)
}
