//! `if`, `match`, loops and the jumps out of them.

use super::cond::has_let;
use super::pattern::{Bindings, Rest, irrefutable, unit};
use super::scope::Kind;
use super::{Lower, Want, used};
use crate::frontend::rust::attrs;
use crate::ir::{EdgeKind, Guard, Operand, Rvalue, Use};
use crate::source::Span;
use syn::{Expr, Pat};

impl Lower<'_> {
    /// What the arms of a choice write to, and the operand that the choice is.
    pub(super) fn target(&mut self, want: Want, span: Span) -> (Want, Operand) {
        match want {
            Want::Nothing => (Want::Nothing, unit()),
            want => {
                let var = self.plain(want, span);
                (Want::Into(var), Operand::Var(var, Use::Move))
            }
        }
    }

    /// Gives out the value of a choice once all its arms are done. Before that nothing may drop it.
    pub(super) fn settle(&mut self, want: Want, value: Operand) -> Operand {
        if let (Want::Value, Operand::Var(var, _)) = (want, &value) {
            self.register_temp(*var);
        }
        value
    }

    fn no_value(&mut self, want: Want, span: Span) {
        if let Want::Into(dst) = want {
            self.assign(span, dst, Rvalue::Use(unit()));
        }
    }

    pub(super) fn if_value(&mut self, e: &syn::ExprIf, want: Want) -> Operand {
        let span = self.places.span(e.if_token.span);
        let close = self.places.span(e.then_branch.brace_token.span.close());
        let (inner, value) = self.target(want, span);
        let (then, other, end) = (self.new_block(), self.new_block(), self.new_block());
        // Temporaries of `if let` live to the end of the whole expression.
        self.push(Kind::Temps);
        self.push(Kind::Block);
        if has_let(&e.cond) {
            self.branch(&e.cond, then, other);
        } else {
            self.branch_dropping(&e.cond, then, other);
        }
        self.switch(then);
        self.with_temps(close, |this| this.block_into(&e.then_branch, inner));
        self.pop(close);
        self.jump(end, close);
        self.switch(other);
        match &e.else_branch {
            Some((_, branch)) => {
                let at = self.places.span(super::places_last(branch));
                self.with_temps(at, |this| this.value_as(branch, inner));
                self.jump(end, at);
            }
            None => {
                self.no_value(inner, close);
                self.jump(end, close);
            }
        }
        self.switch(end);
        self.pop(close);
        self.settle(want, value)
    }

    /// A block as the arm of a choice.
    pub(super) fn block_into(&mut self, block: &syn::Block, want: Want) {
        match want {
            Want::Into(dst) => self.block_to(block, dst),
            _ => {
                self.block(block, Want::Nothing);
            }
        }
    }

    pub(super) fn match_value(&mut self, e: &syn::ExprMatch, want: Want) -> Operand {
        let span = self.places.span(e.match_token.span);
        let close = self.places.span(e.brace_token.span.close());
        let (inner, value) = self.target(want, span);
        let end = self.new_block();
        self.push(Kind::Temps);
        let (scrutinee, by_ref) = self.scrutinee(&e.expr);
        if e.arms.is_empty() {
            // `match never {}`
            self.diverge(false, span);
        }
        let mut test = self.current();
        for arm in &e.arms {
            if !self.test && attrs::is_test(&arm.attrs) {
                continue;
            }
            let at = self.places.pat(&arm.pat);
            let (pat, guard) = match &arm.pat {
                Pat::Guard(p) => (&*p.pat, Some(&*p.guard)),
                pat => (pat, None),
            };
            self.switch(test);
            self.push(Kind::Block);
            let mut bindings = Bindings::new();
            let pattern = self.pattern(pat, by_ref, &mut bindings);
            let body = self.new_block();
            let condition = Lower::matching(&scrutinee, by_ref, pattern, &bindings);
            self.edge(body, EdgeKind::Plain, condition, at);
            if let Some(guard) = guard {
                let rest = self.new_block();
                if !irrefutable(pat) {
                    self.edge(rest, EdgeKind::Plain, Guard::Always, at);
                }
                self.switch(body);
                self.bind(&bindings);
                let taken = self.new_block();
                if has_let(guard) {
                    self.branch(guard, taken, rest);
                } else {
                    self.branch_dropping(guard, taken, rest);
                }
                self.switch(taken);
                test = rest;
            } else {
                self.switch(body);
                self.bind(&bindings);
            }
            let end_of_arm = self.places.span(super::places_last(&arm.body));
            self.with_temps(end_of_arm, |this| this.value_as(&arm.body, inner));
            self.pop(end_of_arm);
            self.jump(end, end_of_arm);
        }
        self.switch(end);
        self.pop(close);
        self.settle(want, value)
    }

    pub(super) fn loop_value(&mut self, e: &syn::ExprLoop, want: Want) -> Operand {
        let span = self.places.span(e.loop_token.span);
        let (inner, value) = self.target(want, span);
        let var = if let Want::Into(var) = inner { Some(var) } else { None };
        let (head, exit) = (self.new_block(), self.new_block());
        self.jump(head, span);
        self.switch(head);
        let label = e.label.as_ref().map(|l| l.name.ident.to_string());
        self.push(Kind::Loop { label, head, exit, value: var });
        self.loop_body(&e.body, head);
        self.forget_scope();
        self.switch(exit);
        self.settle(want, value)
    }

    fn loop_body(&mut self, body: &syn::Block, head: crate::ir::BlockId) {
        let close = self.places.span(body.brace_token.span.close());
        self.with_temps(close, |this| this.block(body, Want::Nothing));
        self.edge(head, EdgeKind::Back, Guard::Always, close);
    }

    pub(super) fn while_value(&mut self, e: &syn::ExprWhile) -> Operand {
        let span = self.places.span(e.while_token.span);
        let close = self.places.span(e.body.brace_token.span.close());
        let (head, body, out, exit) = (self.new_block(), self.new_block(), self.new_block(), self.new_block());
        self.jump(head, span);
        self.switch(head);
        let label = e.label.as_ref().map(|l| l.name.ident.to_string());
        self.push(Kind::Loop { label, head, exit, value: None });
        self.push(Kind::Temps);
        let temps = self.scope_depth() - 1;
        self.push(Kind::Block);
        if has_let(&e.cond) {
            self.branch(&e.cond, body, out);
        } else {
            self.branch_dropping(&e.cond, body, out);
        }
        let bound = self.scope_drops();
        self.switch(out);
        let held = self.scope_held(temps);
        for var in held.into_iter().filter(|var| !bound.contains(var)) {
            self.emit(span, None, crate::ir::OpKind::Drop(var));
        }
        self.jump(exit, span);
        self.switch(body);
        self.with_temps(close, |this| this.block(&e.body, Want::Nothing));
        self.pop(close);
        self.pop(close);
        self.edge(head, EdgeKind::Back, Guard::Always, close);
        self.forget_scope();
        self.switch(exit);
        unit()
    }

    pub(super) fn for_value(&mut self, e: &syn::ExprForLoop) -> Operand {
        let span = self.places.span(e.for_token.span);
        let close = self.places.span(e.body.brace_token.span.close());
        self.push(Kind::Temps);
        let items = used(self.value(&e.expr, Want::Value), Use::Ref);
        let (head, body, exit) = (self.new_block(), self.new_block(), self.new_block());
        self.jump(head, span);
        self.switch(head);
        let more = self.unknown_choice(span, vec![items.clone()]);
        self.edge(body, EdgeKind::Plain, more, span);
        self.edge(exit, EdgeKind::Plain, Guard::Always, span);
        self.switch(body);
        let label = e.label.as_ref().map(|l| l.name.ident.to_string());
        self.push(Kind::Loop { label, head, exit, value: None });
        self.push(Kind::Block);
        let item = self.temp(span);
        self.assign(span, item, Rvalue::Unknown(vec![items]));
        self.destructure(&e.pat, item, matches!(&*e.expr, Expr::Reference(_)), Rest::Dropped, span);
        self.with_temps(close, |this| this.block(&e.body, Want::Nothing));
        self.pop(close);
        self.edge(head, EdgeKind::Back, Guard::Always, close);
        self.forget_scope();
        self.switch(exit);
        self.pop(close);
        unit()
    }

    pub(super) fn break_value(&mut self, e: &syn::ExprBreak) -> Operand {
        let span = self.places.span(e.break_token.span);
        let label = e.label.as_ref().map(|l| l.ident.to_string());
        let target = self.jump_target(label.as_deref(), false);
        let value = target.and_then(|(_, _, value)| value);
        match (&e.expr, value) {
            (Some(expr), Some(dst)) => self.value_to(expr, dst),
            (Some(expr), None) => {
                self.value(expr, Want::Nothing);
            }
            (None, Some(dst)) => self.assign(span, dst, Rvalue::Use(unit())),
            (None, None) => {}
        }
        self.leave_to(target.map(|(depth, exit, _)| (depth, exit)), EdgeKind::Plain, span);
        unit()
    }

    pub(super) fn continue_value(&mut self, e: &syn::ExprContinue) -> Operand {
        let span = self.places.span(e.continue_token.span);
        let label = e.label.as_ref().map(|l| l.ident.to_string());
        let target = self.jump_target(label.as_deref(), true);
        self.leave_to(target.map(|(depth, head, _)| (depth, head)), EdgeKind::Back, span);
        unit()
    }

    fn leave_to(&mut self, target: Option<(usize, crate::ir::BlockId)>, kind: EdgeKind, span: Span) {
        match target {
            Some((depth, to)) => self.leave(depth, to, kind, span),
            // A jump whose loop is not in sight (macro fragments): it leaves what we see.
            None => self.exit_body(unit(), crate::ir::Exit::Return, span),
        }
    }
}
