//! Expressions.

use super::pattern::unit;
use super::{Lower, MAX_DEPTH, Want, used};
use crate::frontend::rust::{attrs, names, places, types};
use crate::ir::{BinaryOp, Exit, FormatPiece, Lit, OpKind, Operand, Rvalue, UnaryOp, Use, Var};
use crate::source::Span;
use syn::{BinOp, Expr, Member, UnOp};

impl Lower<'_> {
    /// Evaluates an expression.
    pub(super) fn value(&mut self, expr: &Expr, want: Want) -> Operand {
        if self.depth >= MAX_DEPTH {
            let span = self.places.expr(expr);
            self.problem(span, "an expression nests too deeply and was not read");
            return self.compute(span, want, Rvalue::Unknown(Vec::new()));
        }
        self.depth += 1;
        let value = self.value_inner(expr, want);
        self.depth -= 1;
        value
    }

    /// Evaluates an expression into a variable.
    pub(super) fn value_to(&mut self, expr: &Expr, dst: Var) {
        let value = self.value(expr, Want::Into(dst));
        if !matches!(value, Operand::Var(var, _) if var == dst) {
            let span = self.places.expr(expr);
            self.assign(span, dst, Rvalue::Use(value));
        }
    }

    /// Evaluates an expression as wanted; the operand is `()` when nothing is.
    pub(super) fn value_as(&mut self, expr: &Expr, want: Want) -> Operand {
        match want {
            Want::Into(dst) => {
                self.value_to(expr, dst);
                Operand::Var(dst, Use::Move)
            }
            Want::Value | Want::Nothing => self.value(expr, want),
        }
    }

    fn value_inner(&mut self, expr: &Expr, want: Want) -> Operand {
        match expr {
            Expr::Lit(e) => self.literal(&e.lit, want),
            Expr::Path(e) => self.path_value(e),
            Expr::Paren(e) => self.value(&e.expr, want),
            Expr::Group(e) => self.value(&e.expr, want),
            Expr::Reference(e) => {
                let mode = if e.mutability.is_some() { Use::RefMut } else { Use::Ref };
                self.place(&e.expr, mode)
            }
            Expr::RawAddr(e) => self.place(&e.expr, Use::Ref),
            Expr::Call(e) => self.call(e, want),
            Expr::MethodCall(e) => self.method_call(e, want),
            Expr::Macro(e) => self.macro_value(&e.mac, want),
            Expr::Await(e) => self.await_value(e, want),
            Expr::Try(e) => self.question(e, want),
            Expr::Field(_) | Expr::Index(_) => {
                let place = self.place_into(expr, Use::Move, want);
                used(place, Use::Move)
            }
            Expr::Unary(e) => self.unary(e, want),
            Expr::Binary(e) => self.binary(expr, e, want),
            Expr::Assign(e) => self.assignment(&e.left, &e.right, self.places.expr(expr)),
            Expr::Cast(e) => {
                let value = self.value(&e.expr, Want::Value);
                let ty = types::ty(&self.names, &e.ty);
                let span = self.places.expr(expr);
                self.compute(span, want, Rvalue::Cast(value, ty))
            }
            Expr::Tuple(e) if e.elems.is_empty() => unit(),
            Expr::Tuple(e) => {
                let list = e.elems.iter().map(|e| self.value(e, Want::Value)).collect();
                self.compute(self.places.expr(expr), want, Rvalue::Tuple(list))
            }
            Expr::Array(e) => {
                let list = e.elems.iter().map(|e| self.value(e, Want::Value)).collect();
                self.compute(self.places.expr(expr), want, Rvalue::Array(list))
            }
            Expr::Repeat(e) => {
                let list = vec![self.value(&e.expr, Want::Value), self.value(&e.len, Want::Value)];
                self.compute(self.places.expr(expr), want, Rvalue::Unknown(list))
            }
            Expr::Struct(e) => self.struct_value(e, want),
            Expr::Range(e) => {
                let mut fields = Vec::new();
                for (name, end) in [("start", &e.start), ("end", &e.end)] {
                    if let Some(end) = end {
                        fields.push((name.to_owned(), self.value(end, Want::Value)));
                    }
                }
                self.compute(self.places.expr(expr), want, Rvalue::Struct("std::ops::Range".into(), fields, None))
            }
            Expr::If(e) => self.if_value(e, want),
            Expr::Match(e) => self.match_value(e, want),
            Expr::Loop(e) => self.loop_value(e, want),
            Expr::While(e) => self.while_value(e),
            Expr::ForLoop(e) => self.for_value(e),
            Expr::Block(e) => self.block_value(&e.block, e.label.as_ref(), want),
            Expr::Unsafe(e) => self.block_value(&e.block, None, want),
            Expr::Const(e) => self.block_value(&e.block, None, want),
            Expr::Let(_) => self.condition_value(expr, want),
            Expr::Return(e) => {
                let span = e.return_token.span;
                let value = match &e.expr {
                    Some(value) => self.value(value, Want::Value),
                    None => unit(),
                };
                let span = self.places.span(span);
                self.exit_body(value, Exit::Return, span);
                unit()
            }
            Expr::Break(e) => self.break_value(e),
            Expr::Continue(e) => self.continue_value(e),
            Expr::Async(e) => self.async_value(e, want),
            Expr::Closure(e) => self.closure_value(expr, e, want),
            Expr::TryBlock(e) => self.try_value(&e.block, want),
            Expr::Yield(e) => {
                if let Some(value) = &e.expr {
                    let value = self.value(value, Want::Value);
                    let span = self.places.expr(expr);
                    return self.compute(span, want, Rvalue::Unknown(vec![value]));
                }
                unit()
            }
            Expr::Infer(_) => self.compute(self.places.expr(expr), want, Rvalue::Unknown(Vec::new())),
            Expr::Verbatim(tokens) => self.opaque_tokens(tokens, self.places.expr(expr), want),
            other => {
                let span = self.places.expr(other);
                self.compute(span, want, Rvalue::Unknown(Vec::new()))
            }
        }
    }

    fn path_value(&mut self, e: &syn::ExprPath) -> Operand {
        if e.qself.is_none()
            && let Some(name) = e.path.get_ident()
        {
            let name = names::ident(name);
            if let Some(var) = self.lookup(&name) {
                return Operand::Var(var, Use::Move);
            }
        }
        Operand::Path(self.value_path(e))
    }

    /// Full path of a path expression. `<T as Trait>::f` is `Trait::f`, `<T>::f` is `T::f`.
    pub(super) fn value_path(&self, e: &syn::ExprPath) -> String {
        let segments = names::segments(&e.path);
        match &e.qself {
            Some(qself) if qself.position == 0 => {
                format!("{}::{}", types::ty(&self.names, &qself.ty).path, segments.join("::"))
            }
            _ => self.names.resolve(&segments, e.path.leading_colon.is_some()),
        }
    }

    /// Evaluates an expression as a place that is borrowed or called on.
    pub(super) fn place(&mut self, expr: &Expr, mode: Use) -> Operand {
        self.place_into(expr, mode, Want::Value)
    }

    fn place_into(&mut self, expr: &Expr, mode: Use, want: Want) -> Operand {
        if self.depth >= MAX_DEPTH {
            return self.value(expr, want);
        }
        self.depth += 1;
        let value = self.place_inner(expr, mode, want);
        self.depth -= 1;
        value
    }

    fn place_inner(&mut self, expr: &Expr, mode: Use, want: Want) -> Operand {
        match expr {
            Expr::Paren(e) => self.place_into(&e.expr, mode, want),
            Expr::Group(e) => self.place_into(&e.expr, mode, want),
            Expr::Unary(e) if matches!(e.op, UnOp::Deref(_)) => self.place_into(&e.expr, mode, want),
            Expr::Reference(e) => {
                let inner = if e.mutability.is_some() { Use::RefMut } else { Use::Ref };
                self.place_into(&e.expr, if mode == Use::RefMut { mode } else { inner }, want)
            }
            Expr::Field(e) => {
                let base = self.place(&e.base, Use::Ref);
                let name = member(&e.member);
                let span = self.places.span(syn::spanned::Spanned::span(&e.member));
                let value = self.compute(span, want, Rvalue::Field(base, name));
                used(value, mode)
            }
            Expr::Index(e) => {
                let base = self.place(&e.expr, Use::Ref);
                let index = self.value(&e.index, Want::Value);
                let span = self.places.expr(expr);
                let value = self.compute(span, want, Rvalue::Index(base, index));
                used(value, mode)
            }
            other => {
                let value = self.value(other, want);
                used(value, mode)
            }
        }
    }

    fn unary(&mut self, e: &syn::ExprUnary, want: Want) -> Operand {
        let op = match e.op {
            UnOp::Deref(_) => return self.place(&e.expr, Use::Ref),
            UnOp::Neg(_) => UnaryOp::Neg,
            _ => UnaryOp::Not,
        };
        let value = self.value(&e.expr, Want::Value);
        match (&value, op) {
            (Operand::Lit(Lit::Int(n)), UnaryOp::Neg) => Operand::Lit(Lit::Int(n.saturating_neg())),
            (Operand::Lit(Lit::Float(x)), UnaryOp::Neg) => Operand::Lit(Lit::Float(-x)),
            _ => {
                let span = self.places.span(syn::spanned::Spanned::span(&e.op));
                self.compute(span, want, Rvalue::Unary(op, value))
            }
        }
    }

    fn binary(&mut self, expr: &Expr, e: &syn::ExprBinary, want: Want) -> Operand {
        let span = self.places.span(syn::spanned::Spanned::span(&e.op));
        if let Some(op) = compound(&e.op) {
            return self.compound_assignment(e, op, span);
        }
        let op = operator(&e.op);
        if matches!(op, BinaryOp::And | BinaryOp::Or) && !(pure(&e.left) && pure(&e.right)) {
            return self.condition_value(expr, want);
        }
        if op == BinaryOp::Add {
            let mut parts = Vec::new();
            let text = sum(e, &mut parts);
            if text {
                let pieces = parts.into_iter().map(|part| self.text_part(part)).collect();
                return self.compute(span, want, Rvalue::Format(pieces));
            }
        }
        let borrow =
            matches!(op, BinaryOp::Eq | BinaryOp::Ne | BinaryOp::Lt | BinaryOp::Le | BinaryOp::Gt | BinaryOp::Ge);
        let side = |this: &mut Self, expr: &Expr| {
            let value = this.value(expr, Want::Value);
            if borrow { used(value, Use::Ref) } else { value }
        };
        let left = side(self, &e.left);
        let right = side(self, &e.right);
        self.compute(span, want, Rvalue::Binary(op, left, right))
    }

    /// One operand of a string concatenation.
    fn text_part(&mut self, part: &Expr) -> FormatPiece {
        match self.value(part, Want::Value) {
            Operand::Lit(Lit::Str(text)) => FormatPiece::Text(text),
            other => FormatPiece::Hole(used(other, Use::Ref)),
        }
    }

    fn compound_assignment(&mut self, e: &syn::ExprBinary, op: BinaryOp, span: Span) -> Operand {
        let text = op == BinaryOp::Add && (is_text(&e.right) || matches!(&*e.right, Expr::Reference(_)));
        let right = self.value(&e.right, Want::Value);
        let combined = |old: Operand, right: Operand| match right {
            Operand::Lit(Lit::Str(tail)) if text => {
                Rvalue::Format(vec![FormatPiece::Hole(old), FormatPiece::Text(tail)])
            }
            right if text => Rvalue::Format(vec![FormatPiece::Hole(old), FormatPiece::Hole(right)]),
            right => Rvalue::Binary(op, old, right),
        };
        let (base, path) = self.locate(&e.left);
        if let (Operand::Var(var, _), true) = (&base, path.is_empty()) {
            self.assign(span, *var, combined(used(base.clone(), Use::Ref), right));
            return unit();
        }
        let mut old = used(base.clone(), Use::Ref);
        for part in path.iter().filter(|part| *part != "*") {
            let value = if part == "[]" { Rvalue::Unknown(vec![old]) } else { Rvalue::Field(old, part.clone()) };
            old = used(self.compute(span, Want::Value, value), Use::Ref);
        }
        let new = self.compute(span, Want::Value, combined(old, right));
        self.emit(span, None, OpKind::Store(base, path.join("."), new));
        unit()
    }

    fn assignment(&mut self, left: &Expr, right: &Expr, span: Span) -> Operand {
        match left {
            Expr::Infer(_) => {
                let value = self.value(right, Want::Value);
                self.drop_now(&value, span);
            }
            Expr::Path(path)
                if path.path.get_ident().is_some_and(|name| self.lookup(&names::ident(name)).is_some()) =>
            {
                let Operand::Var(var, _) = self.path_value(path) else { return unit() };
                let value = self.value(right, Want::Value);
                if !matches!(value, Operand::Lit(_)) && !types::is_plain(&self.body.vars[var.0 as usize].ty) {
                    self.emit(span, None, OpKind::Drop(var));
                }
                self.assign(span, var, Rvalue::Use(value));
            }
            Expr::Tuple(tuple) => {
                let value = self.value(right, Want::Value);
                for (at, target) in tuple.elems.iter().enumerate() {
                    let part = self.temp(span);
                    self.assign(span, part, Rvalue::Field(used(value.clone(), Use::Ref), at.to_string()));
                    match target {
                        Expr::Infer(_) => self.emit(span, None, OpKind::Drop(part)),
                        target => self.store(target, Operand::Var(part, Use::Move), span),
                    }
                }
                if let Operand::Var(var, _) = value {
                    self.release(var);
                }
            }
            target => {
                let value = self.value(right, Want::Value);
                self.store(target, value, span);
            }
        }
        unit()
    }

    /// Stores a value into a place that is no plain variable.
    fn store(&mut self, target: &Expr, value: Operand, span: Span) {
        let (base, path) = self.locate(target);
        match (&base, path.is_empty()) {
            (Operand::Var(var, _), true) => self.assign(span, *var, Rvalue::Use(value)),
            _ => self.emit(span, None, OpKind::Store(base, path.join("."), value)),
        }
    }

    /// Base and field path of a place; a place that is only dereferenced has the path `*`.
    fn locate(&mut self, target: &Expr) -> (Operand, Vec<String>) {
        let mut path: Vec<String> = Vec::new();
        let mut base = target;
        loop {
            base = match base {
                Expr::Field(e) => {
                    path.push(member(&e.member));
                    &e.base
                }
                Expr::Index(e) => {
                    path.push("[]".into());
                    &e.expr
                }
                Expr::Unary(e) if matches!(e.op, UnOp::Deref(_)) => {
                    path.push("*".into());
                    &e.expr
                }
                Expr::Paren(e) => &e.expr,
                Expr::Group(e) => &e.expr,
                _ => break,
            };
        }
        path.reverse();
        if path.iter().any(|part| part != "*") {
            path.retain(|part| part != "*");
        } else {
            path.truncate(1);
        }
        (self.place(base, Use::RefMut), path)
    }

    fn struct_value(&mut self, e: &syn::ExprStruct, want: Want) -> Operand {
        let path = types::path(&self.names, &e.path).path;
        let mut fields = Vec::with_capacity(e.fields.len());
        for field in &e.fields {
            if !self.test && attrs::is_test(&field.attrs) {
                continue;
            }
            let value = self.value(&field.expr, Want::Value);
            fields.push((member(&field.member), value));
        }
        let rest = e.rest.as_ref().map(|rest| self.value(rest, Want::Value));
        let span = self.places.span(places::name(&e.path));
        self.compute(span, want, Rvalue::Struct(path, fields, rest))
    }

    /// Drops a value at once: `let _ = call();`, `drop(x)`.
    pub(super) fn drop_now(&mut self, value: &Operand, span: Span) {
        if let Operand::Var(var, Use::Move) = value {
            if self.body.vars[var.0 as usize].name.is_none() {
                self.release(*var);
            }
            self.emit(span, None, OpKind::Drop(*var));
            self.body.moved[var.0 as usize] = true;
        }
    }
}

/// Name of a field; tuple fields by number.
pub(super) fn member(member: &Member) -> String {
    match member {
        Member::Named(name) => names::ident(name),
        Member::Unnamed(index) => index.index.to_string(),
    }
}

/// No call, no control flow: both sides may be evaluated whatever the first says.
fn pure(expr: &Expr) -> bool {
    match expr {
        Expr::Path(_) | Expr::Lit(_) => true,
        Expr::Field(e) => pure(&e.base),
        Expr::Paren(e) => pure(&e.expr),
        Expr::Group(e) => pure(&e.expr),
        Expr::Reference(e) => pure(&e.expr),
        Expr::Cast(e) => pure(&e.expr),
        Expr::Unary(e) => pure(&e.expr),
        Expr::Binary(e) => compound(&e.op).is_none() && pure(&e.left) && pure(&e.right),
        _ => false,
    }
}

/// Operands of a chain of `+`, and whether one of them shows that it is a string.
fn sum<'e>(e: &'e syn::ExprBinary, parts: &mut Vec<&'e Expr>) -> bool {
    let mut text = false;
    let mut chain = vec![e];
    while let Expr::Binary(inner) = &*chain[chain.len() - 1].left {
        if !matches!(inner.op, BinOp::Add(_)) {
            break;
        }
        chain.push(inner);
    }
    if let Some(first) = chain.last() {
        text |= is_text(&first.left);
        parts.push(&first.left);
    }
    for link in chain.iter().rev() {
        text |= is_text(&link.right) || matches!(&*link.right, Expr::Reference(_));
        parts.push(&link.right);
    }
    text
}

fn is_text(expr: &Expr) -> bool {
    match expr {
        Expr::Lit(e) => matches!(e.lit, syn::Lit::Str(_)),
        Expr::Reference(e) => is_text(&e.expr),
        Expr::Paren(e) => is_text(&e.expr),
        Expr::Macro(e) => e.mac.path.segments.last().is_some_and(|s| s.ident == "format" || s.ident == "concat"),
        Expr::MethodCall(e) => {
            matches!(e.method.to_string().as_str(), "to_string" | "to_owned" | "as_str") || {
                e.method == "into" && is_text(&e.receiver)
            }
        }
        Expr::Call(e) => match &*e.func {
            Expr::Path(p) => {
                let segments = names::segments(&p.path);
                segments.len() >= 2 && segments[segments.len() - 2] == "String"
            }
            _ => false,
        },
        _ => false,
    }
}

fn compound(op: &BinOp) -> Option<BinaryOp> {
    Some(match op {
        BinOp::AddAssign(_) => BinaryOp::Add,
        BinOp::SubAssign(_) => BinaryOp::Sub,
        BinOp::MulAssign(_) => BinaryOp::Mul,
        BinOp::DivAssign(_) => BinaryOp::Div,
        BinOp::RemAssign(_) => BinaryOp::Rem,
        BinOp::BitXorAssign(_)
        | BinOp::BitAndAssign(_)
        | BinOp::BitOrAssign(_)
        | BinOp::ShlAssign(_)
        | BinOp::ShrAssign(_) => BinaryOp::Bits,
        _ => return None,
    })
}

fn operator(op: &BinOp) -> BinaryOp {
    match op {
        BinOp::Add(_) => BinaryOp::Add,
        BinOp::Sub(_) => BinaryOp::Sub,
        BinOp::Mul(_) => BinaryOp::Mul,
        BinOp::Div(_) => BinaryOp::Div,
        BinOp::Rem(_) => BinaryOp::Rem,
        BinOp::And(_) => BinaryOp::And,
        BinOp::Or(_) => BinaryOp::Or,
        BinOp::Eq(_) => BinaryOp::Eq,
        BinOp::Ne(_) => BinaryOp::Ne,
        BinOp::Lt(_) => BinaryOp::Lt,
        BinOp::Le(_) => BinaryOp::Le,
        BinOp::Gt(_) => BinaryOp::Gt,
        BinOp::Ge(_) => BinaryOp::Ge,
        _ => BinaryOp::Bits,
    }
}
