//! Lexical scopes: which names are visible, what is dropped on the way out, where `?`, `return`, `break` lead.

use super::{Carrier, Lower, Want};
use crate::ir::{BlockId, EdgeKind, Exit, Guard, Lit, OpKind, Operand, Rvalue, Use, Var};
use crate::source::Span;

/// Why a scope exists.
pub(super) enum Kind {
    /// The body of a function, closure or un-awaited async block.
    Function,
    /// `{ .. }`, a match arm, an `if` with bindings.
    Block,
    /// Holds the temporaries of a statement, condition or arm.
    Temps,
    /// A loop; the exit takes `break`'s value.
    Loop { label: Option<String>, head: BlockId, exit: BlockId, value: Option<Var> },
    /// `'a: { .. }`
    Labelled { label: String, exit: BlockId, value: Option<Var> },
    /// An async block awaited where it stands, or a closure called at once: `?` and `return` lead to its end.
    Inline { exit: BlockId, value: Var, carrier: Carrier },
    /// `try { .. }`: only `?` leads to its end.
    Try { exit: BlockId, value: Var },
    /// A future that can be dropped at each of its await points.
    Cancel { to: BlockId },
}

/// One scope.
pub(super) struct Scope {
    pub(super) kind: Kind,
    names: Vec<(String, Var)>,
    drops: Vec<Var>,
}

/// Where a jump out of scopes leads.
#[derive(Clone, Copy)]
pub(super) struct Target {
    /// Scopes from this index on are left.
    depth: usize,
    exit: BlockId,
    value: Option<Var>,
    carrier: Carrier,
}

impl Lower<'_> {
    pub(super) fn push(&mut self, kind: Kind) {
        self.body.scopes.push(Scope { kind, names: Vec::new(), drops: Vec::new() });
    }

    /// Leaves the innermost scope by falling off its end: drops what it holds.
    pub(super) fn pop(&mut self, span: Span) {
        let depth = self.body.scopes.len().saturating_sub(1);
        self.unwind(depth, span);
        self.body.scopes.pop();
    }

    /// Drops what the scopes from `depth` on hold, innermost and latest first, without leaving them.
    pub(super) fn unwind(&mut self, depth: usize, span: Span) {
        for var in self.held(depth) {
            self.emit(span, None, OpKind::Drop(var));
        }
    }

    /// What [`Lower::unwind`] would drop.
    fn held(&self, depth: usize) -> Vec<Var> {
        let scopes = self.body.scopes.get(depth..).unwrap_or_default();
        let vars = scopes.iter().rev().flat_map(|scope| scope.drops.iter().rev().copied());
        vars.filter(|var| {
            let at = var.0 as usize;
            self.body.vars[at].name.is_some() || !self.body.moved[at]
        })
        .collect()
    }

    /// Makes a variable visible in the innermost scope; `dropped`: going out of scope drops it.
    pub(super) fn declare(&mut self, name: &str, var: Var, dropped: bool) {
        if let Some(scope) = self.body.scopes.last_mut() {
            scope.names.push((name.to_owned(), var));
            if dropped {
                scope.drops.push(var);
            }
        }
    }

    /// A by-value variable without a name of its own that the innermost scope drops.
    pub(super) fn hold(&mut self, var: Var) {
        if let Some(scope) = self.body.scopes.last_mut() {
            scope.drops.push(var);
        }
    }

    /// Drops a temporary at the end of the statement.
    pub(super) fn register_temp(&mut self, var: Var) {
        let scopes = &mut self.body.scopes;
        let at = scopes.iter().rposition(|s| matches!(s.kind, Kind::Temps | Kind::Function));
        if let Some(scope) = at.and_then(|at| scopes.get_mut(at)) {
            scope.drops.push(var);
        }
    }

    /// A temporary that lives to the end of the block (`let x = &call();`).
    pub(super) fn extend_temp(&mut self, var: Var) {
        for scope in &mut self.body.scopes {
            scope.drops.retain(|held| *held != var);
        }
        let at = self.body.scopes.iter().rposition(|s| matches!(s.kind, Kind::Block | Kind::Function));
        if let Some(scope) = at.and_then(|at| self.body.scopes.get_mut(at)) {
            scope.drops.push(var);
        }
    }

    /// No longer dropped by any scope: consumed in a way that ops do not show.
    pub(super) fn release(&mut self, var: Var) {
        for scope in &mut self.body.scopes {
            scope.drops.retain(|held| *held != var);
        }
    }

    /// Finds a variable by name; captures it if it belongs to a body around this one.
    pub(super) fn lookup(&mut self, name: &str) -> Option<Var> {
        if let Some(var) = find(&self.body.scopes, name) {
            return Some(var);
        }
        if !self.body.nested {
            return None;
        }
        let mut at = self.outer.len();
        let mut found = None;
        while at > 0 {
            at -= 1;
            if let Some(var) = find(&self.outer[at].scopes, name) {
                found = Some((at, var));
                break;
            }
            if !self.outer[at].nested {
                break;
            }
        }
        let (from, mut var) = found?;
        for depth in from + 1..=self.outer.len() {
            let info = self.outer[depth - 1].vars[var.0 as usize].clone();
            let body = if depth == self.outer.len() { &mut self.body } else { &mut self.outer[depth] };
            var = capture(body, var, info);
        }
        Some(var)
    }

    /// Whether leaving the block would drop this variable.
    fn drops(&self, var: Var, depth: usize) -> bool {
        self.body.scopes.get(depth..).unwrap_or_default().iter().any(|scope| scope.drops.contains(&var))
    }

    /// Takes a value out of the scopes from `depth` on, before they drop their variables.
    pub(super) fn carry_out(&mut self, operand: Operand, depth: usize, span: Span) -> Operand {
        match operand {
            Operand::Var(var, Use::Move) if self.drops(var, depth) => {
                if self.body.vars[var.0 as usize].name.is_none() {
                    self.body.moved[var.0 as usize] = true;
                    return Operand::Var(var, Use::Move);
                }
                let out = self.temp(span);
                self.assign(span, out, Rvalue::Use(Operand::Var(var, Use::Move)));
                Operand::Var(out, Use::Move)
            }
            other => other,
        }
    }

    /// What the innermost scope drops.
    pub(super) fn scope_drops(&self) -> Vec<Var> {
        self.body.scopes.last().map(|scope| scope.drops.clone()).unwrap_or_default()
    }

    /// What the scopes from `depth` on hold, in the order of dropping.
    pub(super) fn scope_held(&self, depth: usize) -> Vec<Var> {
        self.held(depth)
    }

    /// Leaves the innermost scope where its drops have been emitted already.
    pub(super) fn forget_scope(&mut self) {
        self.body.scopes.pop();
    }

    /// Number of scopes.
    pub(super) fn scope_depth(&self) -> usize {
        self.body.scopes.len()
    }

    /// Leaves the scopes from `depth` on towards `to`; what follows is not reached.
    pub(super) fn leave(&mut self, depth: usize, to: BlockId, kind: EdgeKind, span: Span) {
        self.unwind(depth, span);
        self.edge(to, kind, Guard::Always, span);
        self.unreachable();
    }

    fn exit_target(&self, question: bool) -> Option<Target> {
        self.body.scopes.iter().enumerate().rev().find_map(|(depth, scope)| match scope.kind {
            Kind::Inline { exit, value, carrier } => Some(Target { depth, exit, value: Some(value), carrier }),
            Kind::Try { exit, value } if question => {
                Some(Target { depth, exit, value: Some(value), carrier: Carrier::Unknown })
            }
            _ => None,
        })
    }

    /// What `?` yields on failure here.
    pub(super) fn carrier(&self) -> Carrier {
        self.exit_target(true).map_or(self.body.carrier, |target| target.carrier)
    }

    /// `return` or the failing side of `?`: to the end of the innermost inlined body, or out of the function.
    pub(super) fn exit_body(&mut self, operand: Operand, exit: Exit, span: Span) {
        match self.exit_target(exit == Exit::Question) {
            Some(Target { depth, exit, value: Some(value), .. }) => {
                self.assign(span, value, Rvalue::Use(operand));
                self.leave(depth, exit, EdgeKind::Plain, span);
            }
            _ => {
                let operand = self.carry_out(operand, 0, span);
                self.unwind(0, span);
                self.emit(span, None, OpKind::Return(operand, exit));
                self.unreachable();
            }
        }
    }

    /// Ends here: panic (which unwinds) or process exit (which does not).
    pub(super) fn diverge(&mut self, unwinds: bool, span: Span) {
        if unwinds {
            self.unwind(0, span);
        }
        self.emit(span, None, OpKind::Return(Operand::Lit(Lit::Unit), Exit::Diverge));
        self.unreachable();
    }

    /// Target of `break` (or `continue`) with this label: depth, block, value.
    pub(super) fn jump_target(&self, label: Option<&str>, back: bool) -> Option<(usize, BlockId, Option<Var>)> {
        for (depth, scope) in self.body.scopes.iter().enumerate().rev() {
            match &scope.kind {
                Kind::Loop { label: own, head, exit, value } if label.is_none() || own.as_deref() == label => {
                    return Some((depth, if back { *head } else { *exit }, *value));
                }
                Kind::Labelled { label: own, exit, value } if !back && Some(own.as_str()) == label => {
                    return Some((depth, *exit, *value));
                }
                Kind::Inline { .. } | Kind::Function => return None,
                _ => {}
            }
        }
        None
    }

    /// Where control goes if the future that is awaited here is dropped, for each race around it, innermost first. Its
    /// variables are dropped on the way, all but `pending`, the call that is given up: its result never was.
    pub(super) fn cancel_targets(&mut self, pending: &Operand, span: Span) -> Vec<BlockId> {
        let scopes = self.body.scopes.iter().enumerate().rev();
        let races: Vec<(usize, BlockId)> = scopes
            .filter_map(|(depth, scope)| match scope.kind {
                Kind::Cancel { to } => Some((depth, to)),
                _ => None,
            })
            .collect();
        let mut targets = Vec::with_capacity(races.len());
        for (depth, to) in races {
            let mut held = self.held(depth);
            held.retain(|var| !matches!(pending, Operand::Var(future, _) if future == var));
            if held.is_empty() {
                targets.push(to);
                continue;
            }
            let back = self.current();
            let block = self.new_block();
            self.switch(block);
            for var in held {
                self.emit(span, None, OpKind::Drop(var));
            }
            self.jump(to, span);
            self.switch(back);
            targets.push(block);
        }
        targets
    }

    /// Runs `body` with a scope of temporaries of its own.
    pub(super) fn with_temps<T>(&mut self, span: Span, body: impl FnOnce(&mut Self) -> T) -> T {
        self.push(Kind::Temps);
        let value = body(self);
        self.pop(span);
        value
    }

    /// Runs `body` as an inlined function body whose `?` and `return` lead to the end of it.
    pub(super) fn inline(
        &mut self,
        want: Want,
        carrier: Carrier,
        span: Span,
        body: impl FnOnce(&mut Self, Var),
    ) -> Operand {
        let value = self.plain(want, span);
        let exit = self.new_block();
        self.push(Kind::Inline { exit, value, carrier });
        self.with_temps(span, |this| body(this, value));
        self.pop(span);
        self.jump(exit, span);
        self.switch(exit);
        self.settle(want, Operand::Var(value, Use::Move))
    }
}

fn find(scopes: &[Scope], name: &str) -> Option<Var> {
    scopes.iter().rev().find_map(|scope| scope.names.iter().rev().find(|(n, _)| n == name).map(|(_, var)| *var))
}

fn capture(body: &mut super::Body, outer: Var, mut info: crate::ir::VarInfo) -> Var {
    if let Some((_, inner)) = body.captures.iter().find(|(var, _)| *var == outer) {
        return *inner;
    }
    let by_value = body.by_move && !info.by_ref;
    info.by_ref = !by_value;
    let inner = Var(body.vars.len() as u32);
    body.vars.push(info);
    body.moved.push(false);
    body.captures.push((outer, inner));
    if by_value && let Some(scope) = body.scopes.first_mut() {
        scope.drops.insert(0, inner);
    }
    inner
}
