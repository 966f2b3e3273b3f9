//! Calls, `.await` and `?`.

use super::{Carrier, Lower, Want, used};
use crate::frontend::rust::{names, places, types};
use crate::ir::{Call, Callee, EdgeKind, Exit, Guard, Lit, OpKind, Operand, Pattern, Rvalue, Ty, Use, Var};
use crate::source::Span;
use syn::{Expr, PathArguments};

impl Lower<'_> {
    /// Emits a call and gives its result.
    pub(super) fn emit_call(
        &mut self,
        name: Span,
        whole: Span,
        callee: Callee,
        args: Vec<Operand>,
        generics: Vec<Ty>,
        want: Want,
    ) -> Operand {
        let dst = self.result(want, name);
        let call = Call { callee, args, generics, whole, cancel: None, targets: Vec::new(), effect: None };
        self.emit(name, Some(dst), OpKind::Call(Box::new(call)));
        Operand::Var(dst, Use::Move)
    }

    pub(super) fn call(&mut self, e: &syn::ExprCall, want: Want) -> Operand {
        let whole = || (places::first(&e.func), e.paren_token.span.close());
        match strip(&e.func) {
            Expr::Path(path) => {
                let local = path.path.get_ident().filter(|_| path.qself.is_none()).map(names::ident);
                if let Some(var) = local.and_then(|name| self.lookup(&name)) {
                    let args = self.arguments(&e.args);
                    let name = self.places.span(places::name(&path.path));
                    let whole = self.places.between(whole().0, whole().1);
                    let callee = Callee::Value(Operand::Var(var, Use::Ref));
                    return self.emit_call(name, whole, callee, args, Vec::new(), want);
                }
                let resolved = self.value_path(path);
                if let Some(done) = self.known_function(&resolved, e, want) {
                    return done;
                }
                let args = self.arguments(&e.args);
                let name = self.places.span(places::name(&path.path));
                if is_variant(&resolved) {
                    return self.compute(name, want, Rvalue::Variant(resolved, args));
                }
                let generics = turbofish(self, &path.path);
                let whole = self.places.between(whole().0, whole().1);
                let result = self.emit_call(name, whole, Callee::Path(resolved.clone()), args, generics, want);
                if matches!(resolved.as_str(), "std::process::exit" | "std::process::abort") {
                    self.diverge(false, name);
                }
                result
            }
            Expr::Closure(closure) => self.called_closure(closure, &e.args, want),
            other => {
                let callee = self.place(other, Use::Ref);
                let args = self.arguments(&e.args);
                let name = self.places.span(places::last(other));
                let whole = self.places.between(whole().0, whole().1);
                self.emit_call(name, whole, Callee::Value(callee), args, Vec::new(), want)
            }
        }
    }

    /// Functions of the language's core that are no calls: `drop`, `mem::forget`, pinning an async block.
    fn known_function(&mut self, path: &str, e: &syn::ExprCall, want: Want) -> Option<Operand> {
        let span = self.places.expr(&e.func);
        match (path, e.args.first()) {
            ("drop" | "std::mem::drop" | "core::mem::drop" | "mem::drop", Some(arg)) => {
                let value = self.value(arg, Want::Value);
                self.drop_now(&value, span);
                Some(Operand::Lit(Lit::Unit))
            }
            ("std::mem::forget" | "core::mem::forget" | "mem::forget", Some(arg)) => {
                let value = self.value(arg, Want::Value);
                let sink = self.temp(span);
                self.assign(span, sink, Rvalue::Use(value));
                Some(Operand::Lit(Lit::Unit))
            }
            ("Box::pin" | "std::boxed::Box::pin", Some(arg)) if matches!(strip(arg), Expr::Async(_)) => {
                Some(self.value(arg, want))
            }
            _ => None,
        }
    }

    pub(super) fn arguments<'e>(&mut self, args: impl IntoIterator<Item = &'e Expr>) -> Vec<Operand> {
        args.into_iter().map(|arg| self.value(arg, Want::Value)).collect()
    }

    pub(super) fn method_call(&mut self, e: &syn::ExprMethodCall, want: Want) -> Operand {
        if is_async_wrapper(e) && matches!(strip(&e.receiver), Expr::Async(_)) {
            for arg in &e.args {
                self.value(arg, Want::Value);
            }
            return self.value(&e.receiver, want);
        }
        // Chains of calls can be hundreds of links long (routers, builders): walked, not recursed on.
        let mut chain = vec![e];
        let mut receiver = &*e.receiver;
        while let Expr::MethodCall(inner) = receiver {
            if is_async_wrapper(inner) {
                break;
            }
            chain.push(inner);
            receiver = &inner.receiver;
        }
        let start = places::first(receiver);
        let mut value = self.place(receiver, Use::Ref);
        while let Some(link) = chain.pop() {
            let mut args = vec![value];
            for arg in &link.args {
                args.push(self.value(arg, Want::Value));
            }
            let list = link.turbofish.as_ref();
            let generics = list.map(|list| types::generic_arguments(&self.names, list)).unwrap_or_default();
            let name = self.places.span(link.method.span());
            let whole = self.places.between(start, link.paren_token.span.close());
            let want = if chain.is_empty() { want } else { Want::Value };
            let callee = Callee::Method(names::ident(&link.method));
            value = self.emit_call(name, whole, callee, args, generics, want);
            if !chain.is_empty() {
                value = used(value, Use::Ref);
            }
        }
        value
    }

    pub(super) fn await_value(&mut self, e: &syn::ExprAwait, want: Want) -> Operand {
        if let Some(block) = async_block(&e.base) {
            return self.inline_async(block, want);
        }
        if let Some((closure, args)) = called_closure(&e.base)
            && (closure.asyncness.is_some() || super::closure::tail_async(&closure.body).is_some())
        {
            return self.called_closure(closure, args, want);
        }
        let base = self.value(&e.base, Want::Value);
        let span = self.places.span(e.await_token.span);
        self.await_operand(base, span, want)
    }

    /// Awaits a future. Inside a cancellable operand the future can be dropped before it is done.
    pub(super) fn await_operand(&mut self, base: Operand, span: Span, want: Want) -> Operand {
        let targets = self.cancel_targets(&base, span);
        if let Some(innermost) = targets.first() {
            let current = self.current();
            if let Some(last) = self.block_mut(current).ops.last_mut()
                && let OpKind::Call(call) = &mut last.kind
                && matches!(base, Operand::Var(var, _) if last.dst == Some(var))
            {
                call.cancel = Some(*innermost);
            }
            for target in targets {
                let guard = self.unknown_choice(span, Vec::new());
                self.edge(target, EdgeKind::Cancel, guard, span);
            }
            let next = self.new_block();
            self.jump(next, span);
            self.switch(next);
        }
        let dst = self.result(want, span);
        self.assign(span, dst, Rvalue::Await(base));
        Operand::Var(dst, Use::Move)
    }

    pub(super) fn question(&mut self, e: &syn::ExprTry, want: Want) -> Operand {
        let value = self.value(&e.expr, Want::Value);
        let span = self.places.span(e.question_token.spans[0]);
        self.question_operand(value, span, want)
    }

    /// `value?`: goes on with the payload, or leaves the innermost body with the failure.
    pub(super) fn question_operand(&mut self, value: Operand, span: Span, want: Want) -> Operand {
        let payload = self.temp_or(want, span);
        let next = self.new_block();
        let failed = self.new_block();
        let carrier = self.carrier();
        let bind = || vec![Pattern::Bind(payload, None)];
        let ok = || Pattern::Variant("Ok".into(), bind(), false);
        let some = || Pattern::Variant("Some".into(), bind(), false);
        let success = match carrier {
            Carrier::Result => ok(),
            Carrier::Option => some(),
            Carrier::Unknown => Pattern::Or(vec![ok(), some()]),
        };
        self.edge(next, EdgeKind::Plain, Guard::Matches(value.clone(), success), span);
        let error = (carrier == Carrier::Result).then(|| self.temp(span));
        let failure = match error {
            Some(error) => {
                let pattern = Pattern::Variant("Err".into(), vec![Pattern::Bind(error, None)], false);
                Guard::Matches(value.clone(), pattern)
            }
            None => Guard::Always,
        };
        self.edge(failed, EdgeKind::Question, failure, span);
        // Both sides take the value apart: nothing is left of it for the end of the statement.
        if let Operand::Var(var, Use::Move) = &value {
            self.body.moved[var.0 as usize] = true;
        }
        self.switch(failed);
        let residual = match (carrier, error) {
            (Carrier::Result, Some(error)) => {
                let residual = self.temp(span);
                self.assign(span, residual, Rvalue::Variant("Err".into(), vec![Operand::Var(error, Use::Move)]));
                Operand::Var(residual, Use::Move)
            }
            (Carrier::Option, _) => Operand::Path("None".into()),
            _ => value,
        };
        self.exit_body(residual, Exit::Question, span);
        self.switch(next);
        if want == Want::Value || want == Want::Nothing {
            self.register_temp(payload);
        }
        Operand::Var(payload, Use::Move)
    }

    fn temp_or(&mut self, want: Want, span: Span) -> Var {
        match want {
            Want::Into(var) => var,
            _ => self.temp(span),
        }
    }

    /// A macro that stays a call.
    pub(super) fn macro_call(&mut self, mac: &syn::Macro, args: Vec<Operand>, want: Want) -> Operand {
        let name = self.places.span(places::name(&mac.path));
        let whole = self.places.between(places::path_first(&mac.path), mac.delimiter.span().close());
        let path = self.names.resolve(&names::segments(&mac.path), mac.path.leading_colon.is_some());
        let args = args.into_iter().map(|arg| if matches!(arg, Operand::Var(..)) { arg } else { used(arg, Use::Ref) });
        let args = args.collect();
        self.emit_call(name, whole, Callee::Macro(path), args, Vec::new(), want)
    }
}

/// Without parentheses and invisible groups.
pub(super) fn strip(mut expr: &Expr) -> &Expr {
    loop {
        expr = match expr {
            Expr::Paren(e) => &e.expr,
            Expr::Group(e) => &e.expr,
            other => return other,
        };
    }
}

/// Adapters that leave a future what it is.
fn is_async_wrapper(e: &syn::ExprMethodCall) -> bool {
    matches!(
        e.method.to_string().as_str(),
        "instrument" | "in_current_span" | "boxed" | "boxed_local" | "scope_boxed" | "fuse"
    )
}

/// The async block that an expression is, seen through pinning and adapters.
pub(super) fn async_block(expr: &Expr) -> Option<&syn::ExprAsync> {
    match strip(expr) {
        Expr::Async(block) => Some(block),
        Expr::Cast(e) => async_block(&e.expr),
        Expr::MethodCall(e) if is_async_wrapper(e) && e.args.is_empty() => async_block(&e.receiver),
        Expr::MethodCall(e) if e.method == "instrument" => async_block(&e.receiver),
        Expr::Call(e) if e.args.len() == 1 => match &*e.func {
            Expr::Path(p) if names::segments(&p.path).join("::") == "Box::pin" => async_block(&e.args[0]),
            _ => None,
        },
        _ => None,
    }
}

/// A closure called where it is written, with its arguments.
fn called_closure(expr: &Expr) -> Option<(&syn::ExprClosure, &syn::punctuated::Punctuated<Expr, syn::Token![,]>)> {
    match strip(expr) {
        Expr::Call(e) => match strip(&e.func) {
            Expr::Closure(closure) => Some((closure, &e.args)),
            _ => None,
        },
        _ => None,
    }
}

/// Whether a called path makes a value: its last segment starts with a capital letter.
pub(super) fn is_variant(path: &str) -> bool {
    path.rsplit("::").next().is_some_and(|name| name.starts_with(|c: char| c.is_uppercase()))
}

fn turbofish(lower: &Lower<'_>, path: &syn::Path) -> Vec<Ty> {
    path.segments
        .iter()
        .filter(|segment| matches!(segment.arguments, PathArguments::AngleBracketed(_)))
        .flat_map(|segment| types::arguments(&lower.names, &segment.arguments))
        .collect()
}
