//! `join!` and `try_join!`.

use super::format::arguments;
use super::scope::Kind;
use super::{Lower, Want};
use crate::frontend::rust::places;
use crate::ir::{BlockId, EdgeKind, Guard, Operand, Pattern, Rvalue, Use};
use crate::source::Span;
use syn::{Expr, Macro};

impl Lower<'_> {
    /// `join!` waits for all; `try_join!` drops the others when one fails.
    pub(super) fn join(&mut self, mac: &Macro, fallible: bool, want: Want) -> Option<Operand> {
        let span = self.places.span(places::name(&mac.path));
        let list: Vec<Expr> = arguments(&mac.tokens)?.into_iter().map(|arg| arg.into_expr()).collect();
        let dst = self.plain(want, span);
        let (failed, end) = (self.new_block(), self.new_block());
        let mut parts = Vec::with_capacity(list.len());
        for future in &list {
            let cancels = fallible && list.len() > 1;
            if cancels {
                self.push(Kind::Cancel { to: failed });
            }
            let part = self.with_temps(span, |this| {
                let value = this.future_value(future, span);
                let part = this.temp(span);
                this.assign(span, part, Rvalue::Use(value));
                part
            });
            if cancels {
                self.forget_scope();
            }
            let part = if fallible { self.join_part(part, dst, end, span) } else { Operand::Var(part, Use::Move) };
            parts.push(part);
        }
        let tuple = self.compute(span, Want::Value, Rvalue::Tuple(parts));
        let value = if fallible { Rvalue::Variant("Ok".into(), vec![tuple]) } else { Rvalue::Use(tuple) };
        self.assign(span, dst, value);
        self.jump(end, span);
        self.switch(failed);
        let error = self.compute(span, Want::Value, Rvalue::Unknown(Vec::new()));
        self.assign(span, dst, Rvalue::Variant("Err".into(), vec![error]));
        self.jump(end, span);
        self.switch(end);
        Some(self.settle(want, Operand::Var(dst, Use::Move)))
    }

    /// One finished operand of `try_join!`: its payload, or the failure of the whole.
    fn join_part(&mut self, part: crate::ir::Var, dst: crate::ir::Var, end: BlockId, span: Span) -> Operand {
        let (payload, error) = (self.temp(span), self.temp(span));
        let (next, failed) = (self.new_block(), self.new_block());
        let value = || Operand::Var(part, Use::Move);
        let variant = |name: &str, var| Pattern::Variant(name.into(), vec![Pattern::Bind(var, None)], false);
        self.edge(next, EdgeKind::Plain, Guard::Matches(value(), variant("Ok", payload)), span);
        self.edge(failed, EdgeKind::Plain, Guard::Matches(value(), variant("Err", error)), span);
        self.switch(failed);
        self.assign(span, dst, Rvalue::Variant("Err".into(), vec![Operand::Var(error, Use::Move)]));
        self.jump(end, span);
        self.switch(next);
        Operand::Var(payload, Use::Move)
    }

    /// A future run to its end where it stands.
    pub(super) fn future_value(&mut self, future: &Expr, span: Span) -> Operand {
        if let Some(block) = super::call::async_block(future) {
            return self.inline_async(block, Want::Value);
        }
        let value = self.value(future, Want::Value);
        self.await_operand(value, span, Want::Value)
    }
}
