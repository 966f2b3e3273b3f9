//! Builders that later statements change: `let mut cmd = redis::cmd("SET"); cmd.arg(k); if x { cmd.arg("NX"); }`.

use super::Program;
use super::flow::{Def, Flow, UseSite};
use super::fold;
use super::memo::FunctionMemo;
use super::rebuild::{is_closed, substitute};
use super::tables::tables;
use super::types::Infer;
use super::values::Eval;
use crate::ir::{
    At, BinaryOp, Call, CallValue, Callee, Exit, FormatPiece, Function, FunctionId, OpKind, OpRef, Operand, Piece,
    Rvalue, Shared, Ty, Use, Value, Var,
};

/// Builder steps and helper calls that one question may follow.
const DEPTH: usize = 64;

impl Program {
    /// See [`Program::chain`].
    pub(super) fn chain_of(&self, f: FunctionId, operand: &Operand, at: OpRef) -> Value {
        let value = Eval::new(self).chained(f, operand, at);
        self.rooted(f, value)
    }

    /// See [`Program::chain_start`].
    pub(super) fn start_of(&self, f: FunctionId, operand: &Operand) -> Option<String> {
        let function = self.function(f);
        let memo = self.memo.of(f, function)?;
        let mut next = operand;
        let typed = |operand: &Operand| Some(self.receiver(f, operand).path).filter(|path| !path.is_empty());
        for _ in 0..512 {
            let Operand::Var(var, _) = next else { return None };
            let [Def::Op(at)] = memo.defuse.defs.get(var.0 as usize)?.as_slice() else { return typed(next) };
            next = match &function.op(*at).kind {
                OpKind::Let(Rvalue::Use(x) | Rvalue::Await(x)) => x,
                OpKind::Call(call) => match &call.callee {
                    Callee::Method(_) => call.args.first()?,
                    Callee::Path(path) => return Some(self.resolve(f, path)),
                    _ => return typed(next),
                },
                _ => return typed(next),
            };
        }
        None
    }

    /// A chain whose first receiver is a field (`self.script.key(k)`) starts from what the constructors store there.
    fn rooted(&self, f: FunctionId, value: Value) -> Value {
        let mut root = &value;
        let mut steps = 0;
        while let Value::Call(call) = root
            && call.name.starts_with('.')
            && let Some(receiver) = call.args.first()
            && steps < fold::MAX_NODES
        {
            root = receiver;
            steps += 1;
        }
        if steps == 0 || !matches!(root, Value::Field(..)) {
            return value;
        }
        let stored = self.expanded(&self.absolute_of(f, root));
        if matches!(stored, Value::Call(_)) && is_closed(&stored) { with_root(value, &stored) } else { value }
    }
}

/// Replaces the first receiver of a chain.
fn with_root(value: Value, root: &Value) -> Value {
    match value {
        Value::Call(call) if call.name.starts_with('.') && !call.args.is_empty() => {
            let mut call = Shared::take(call);
            let receiver = std::mem::replace(&mut call.args[0], Value::Unknown);
            call.args[0] = with_root(receiver, root);
            Value::Call(call.into())
        }
        _ => root.clone(),
    }
}

impl<'p> Eval<'p> {
    fn plain(&mut self, f: FunctionId, operand: &Operand) -> Value {
        self.operand(f, operand)
    }

    /// Whether a variable's value depends on where it is asked for: it is defined more than once, or changed in place.
    pub(super) fn varies(&self, f: FunctionId, operand: &Operand) -> bool {
        let Operand::Var(var, _) = operand else { return false };
        let function = self.function(f);
        let Some(memo) = self.program.memo.of(f, function) else { return false };
        let at = var.0 as usize;
        let ops = memo.defuse.defs.get(at).map_or(0, |defs| defs.iter().filter(|d| matches!(d, Def::Op(_))).count());
        ops > 1
            || (function.vars[at].name.is_some()
                && memo.defuse.uses[at].len() > 1
                && !self.builder_ty(f, *var).is_unknown())
    }

    /// The text that a variable has when all is done to it, if anything is: its value at its last use.
    pub(super) fn grown_text(&mut self, f: FunctionId, var: Var) -> Option<Value> {
        let function = self.function(f);
        let memo = self.program.memo.of(f, function)?;
        let grows = memo.defuse.uses.get(var.0 as usize)?.iter().any(|site| match site {
            UseSite::Op(at) => match &function.op(*at).kind {
                OpKind::Call(call) => {
                    let first = matches!(call.args.first(), Some(Operand::Var(v, _)) if *v == var);
                    first && call.targets.is_empty() && (appends(call) || writes(call))
                }
                _ => false,
            },
            UseSite::Edge(..) => false,
        });
        if !grows || self.builder_ty(f, var).path != "String" {
            return None;
        }
        let flow = memo.flow(function);
        let last = memo.defuse.uses[var.0 as usize].iter().filter_map(|site| match site {
            UseSite::Op(at) => Some(*at),
            UseSite::Edge(..) => None,
        });
        let last = last.max_by_key(|at| flow.position(*at))?;
        Some(self.chained(f, &Operand::Var(var, Use::Ref), last))
    }

    /// See [`Program::chain`].
    pub(super) fn chained(&mut self, f: FunctionId, operand: &Operand, at: OpRef) -> Value {
        let Operand::Var(var, _) = operand else { return self.plain(f, operand) };
        let key = (f, *var, at);
        if let Some(known) = self.built.get(&key) {
            return known.clone();
        }
        if self.active.len() > DEPTH || self.active.contains(&key) {
            self.not_final();
            return self.plain(f, operand);
        }
        let function = self.function(f);
        let Some(memo) = self.program.memo.of(f, function) else { return Value::Unknown };
        self.active.push(key);
        let value = match self.follow_var(f, memo, *var, at) {
            Some(value) => value,
            None => self.plain(f, operand),
        };
        self.active.pop();
        let value = if value.size() > fold::MAX_NODES { Value::Unknown } else { value };
        self.built.insert(key, value.clone());
        value
    }

    /// `None`: nothing changes the variable, its plain value is all there is.
    fn follow_var(&mut self, f: FunctionId, memo: &FunctionMemo, var: Var, at: OpRef) -> Option<Value> {
        let function = self.function(f);
        let flow = memo.flow(function);
        let ty = self.builder_ty(f, var);
        let steps = if ty.is_unknown() { Vec::new() } else { self.steps(f, memo, flow, var, &ty, at) };
        let base = self.base(f, memo, flow, var, (at, !ty.is_unknown()));
        if steps.is_empty() {
            return base;
        }
        let mut value = match base {
            Some(value) => value,
            None => self.defined(f, var),
        };
        for (step, changes) in steps {
            let conditional = !flow.dominates(step, at);
            value = match changes {
                Change::Step => self.step(f, step, value, &ty, conditional),
                Change::Helper(index) => self.helper(f, step, index, value, conditional),
            };
        }
        Some(value)
    }

    /// The builder type of a variable, or unknown.
    fn builder_ty(&self, f: FunctionId, var: Var) -> Ty {
        let ty = Infer::new(self.program).var(f, var);
        let ty = self.program.peeled(f, ty);
        if tables().builder(&ty.path).is_some() { ty } else { Ty::unknown() }
    }

    /// What the variable is by its own definitions before `at`.
    fn base(
        &mut self,
        f: FunctionId,
        memo: &FunctionMemo,
        flow: &Flow,
        var: Var,
        (at, builder): (OpRef, bool),
    ) -> Option<Value> {
        let function = self.function(f);
        let defs = memo.defuse.defs.get(var.0 as usize)?;
        let mut reaching: Vec<OpRef> = Vec::new();
        let mut other = false;
        for def in defs {
            match def {
                Def::Op(op) if !flow.reaches(*op, at) => {}
                Def::Op(op) if flow.position(*op) < flow.position(at) => reaching.push(*op),
                // Reached only by a further turn of a loop: a builder is the one of the first turn, another variable is
                // what all its definitions make of it.
                Def::Op(_) if builder => {}
                Def::Op(_) => return None,
                _ => other = true,
            }
        }
        reaching.sort_by_key(|op| flow.position(*op));
        // Definitions before the last one that dominates the use are overwritten.
        let last = reaching.iter().rposition(|op| flow.dominates(*op, at));
        let from = last.unwrap_or(0);
        let mut value: Option<Value> = match (last, other) {
            (None, true) => None,
            _ => {
                let first = reaching.get(from)?;
                self.def(f, function, *first)
            }
        };
        for op in reaching.iter().skip(if last.is_none() && other { 0 } else { from + 1 }) {
            let next = self.def(f, function, *op)?;
            let before = match value {
                Some(value) => value,
                None => self.plain(f, &Operand::Var(var, Use::Ref)),
            };
            value = Some(conditional_on(&before, next));
        }
        value
    }

    /// The value that an op gives its destination, builders inside followed.
    fn def(&mut self, f: FunctionId, function: &'p Function, at: OpRef) -> Option<Value> {
        let op = function.op(at);
        match &op.kind {
            OpKind::Let(Rvalue::Use(operand) | Rvalue::Await(operand)) => Some(self.chained(f, operand, at)),
            OpKind::Let(Rvalue::Binary(BinaryOp::Add, a, b)) => {
                let (a, b) = (self.chained(f, a, at), self.chained(f, b, at));
                Some(fold::binary(BinaryOp::Add, &a, &b))
            }
            OpKind::Let(Rvalue::Format(pieces)) => Some(fold::template(
                pieces
                    .iter()
                    .map(|piece| match piece {
                        FormatPiece::Text(text) => Piece::Text(text.clone()),
                        FormatPiece::Hole(hole) => Piece::Hole(self.chained(f, hole, at)),
                    })
                    .collect(),
            )),
            OpKind::Call(call) => match &call.callee {
                Callee::Method(name) => {
                    let receiver = call.args.first()?;
                    let ty = self.program.receiver(f, receiver);
                    if tables().builder(&ty.path).is_some() && call.targets.is_empty() {
                        let receiver = self.chained(f, receiver, at);
                        return Some(self.step(f, at, receiver, &ty, false));
                    }
                    if tables().sees_through_method(name) && call.args.len() == 1 && call.targets.is_empty() {
                        return Some(self.chained(f, receiver, at));
                    }
                    self.one(f, at, op.dst)
                }
                _ => self.one(f, at, op.dst),
            },
            _ => self.one(f, at, op.dst),
        }
    }

    /// The value of this one definition; nothing known of it: the variable itself.
    fn one(&mut self, f: FunctionId, at: OpRef, dst: Option<Var>) -> Option<Value> {
        let var = dst?;
        Some(match self.op_value(f, at) {
            Value::Unknown => Value::Local(f, var.0),
            value => value,
        })
    }

    /// Ops between the variable's definition and `at` that change it in place, in order.
    fn steps(
        &self,
        f: FunctionId,
        memo: &FunctionMemo,
        flow: &Flow,
        var: Var,
        ty: &Ty,
        at: OpRef,
    ) -> Vec<(OpRef, Change)> {
        let function = self.function(f);
        let defs: Vec<OpRef> = memo.defuse.defs[var.0 as usize]
            .iter()
            .filter_map(|def| match def {
                Def::Op(op) => Some(*op),
                _ => None,
            })
            .collect();
        let killed = |step: OpRef| {
            defs.iter().any(|def| flow.reaches(step, *def) && !flow.reaches(*def, step) && flow.dominates(*def, at))
        };
        let mut out = Vec::new();
        for site in &memo.defuse.uses[var.0 as usize] {
            let UseSite::Op(op) = site else { continue };
            if *op == at || !flow.reaches(*op, at) || killed(*op) {
                continue;
            }
            let OpKind::Call(call) = &function.op(*op).kind else { continue };
            let receiver = matches!(call.args.first(), Some(Operand::Var(v, _)) if *v == var);
            if receiver && ty.path == "String" && writes(call) {
                out.push((*op, Change::Step));
            } else if let (Callee::Method(name), true) = (&call.callee, receiver) {
                if call.targets.is_empty() && changes(ty, name) {
                    let mut steps = Vec::new();
                    // `o = o.step()` is a definition of its own.
                    if !self.follow(f, memo, flow, *op, (var, ty, at), &mut steps) {
                        out.append(&mut steps);
                    }
                }
            } else if let Some(i) =
                call.args.iter().position(|a| matches!(a, Operand::Var(v, Use::RefMut) if *v == var))
                && call.targets.len() == 1
            {
                out.push((*op, Change::Helper(i)));
            }
        }
        // Source order: blocks of a loop body come after those behind the loop in any order of blocks.
        out.sort_by_key(|(op, _)| (function.op(*op).span.start, flow.position(*op)));
        out.dedup();
        out
    }

    /// A step and those chained on its result: `cmd.arg(a).arg(b);`. Whether the result goes back into the variable.
    fn follow(
        &self,
        f: FunctionId,
        memo: &FunctionMemo,
        flow: &Flow,
        op: OpRef,
        (var, ty, at): (Var, &Ty, OpRef),
        out: &mut Vec<(OpRef, Change)>,
    ) -> bool {
        let function = self.function(f);
        let mut next = Some(op);
        while let Some(op) = next.take() {
            if out.len() > 256 || out.contains(&(op, Change::Step)) {
                break;
            }
            out.push((op, Change::Step));
            let Some(dst) = function.op(op).dst else { break };
            if dst == var {
                return true;
            }
            for site in &memo.defuse.uses[dst.0 as usize] {
                let UseSite::Op(user) = site else { continue };
                let used = function.op(*user);
                match &used.kind {
                    OpKind::Let(Rvalue::Use(_)) if used.dst == Some(var) => return true,
                    OpKind::Call(call) => {
                        let receiver = matches!(call.args.first(), Some(Operand::Var(v, _)) if *v == dst);
                        if let (Callee::Method(name), true) = (&call.callee, receiver)
                            && *user != at
                            && changes(ty, name)
                            && flow.reaches(*user, at)
                        {
                            next = Some(*user);
                        }
                    }
                    _ => {}
                }
            }
        }
        false
    }

    /// One builder call on top of a value.
    fn step(&mut self, f: FunctionId, at: OpRef, receiver: Value, ty: &Ty, conditional: bool) -> Value {
        let op = self.function(f).op(at);
        let OpKind::Call(call) = &op.kind else { return receiver };
        let mut args = vec![receiver];
        args.extend(call.args.iter().skip(1).map(|arg| self.chained(f, arg, at)));
        let value = CallValue {
            name: format!(".{}", call.name()),
            receiver: ty.path.clone(),
            args,
            generics: call.generics.clone(),
            at: At(Some(op.span)),
            conditional,
        };
        match ty.path.as_str() {
            "String" | "Vec" => grown(call, value),
            _ => Value::Call(Shared::from(value)),
        }
    }

    /// A workspace function that got `&mut` of the builder: its steps on its parameter.
    fn helper(&mut self, f: FunctionId, at: OpRef, index: usize, value: Value, conditional: bool) -> Value {
        let OpKind::Call(call) = &self.function(f).op(at).kind else { return value };
        let [target] = call.targets.as_slice() else { return value };
        let callee = self.function(*target);
        let Some(param) = callee.params.get(index) else { return value };
        let exits: Vec<OpRef> = callee
            .ops()
            .filter(|(_, op)| matches!(op.kind, OpKind::Return(_, Exit::Return)))
            .map(|(at, _)| at)
            .collect();
        let Some(exit) = exits.last() else { return value };
        let inside = self.chained(*target, &Operand::Var(*param, Use::Ref), *exit);
        if matches!(inside, Value::Param(_) | Value::Unknown) {
            return value;
        }
        let mut args: Vec<Value> = call.args.iter().map(|arg| self.plain(f, arg)).collect();
        if let Some(slot) = args.get_mut(index) {
            *slot = value.clone();
        }
        let new = substitute(&inside, &args);
        if conditional { conditional_on(&value, new) } else { new }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// A builder method.
    Step,
    /// A call that gets `&mut` of it as this argument.
    Helper(usize),
}

/// Whether a method changes a builder in place.
fn changes(ty: &Ty, name: &str) -> bool {
    let Some(names) = tables().builder(&ty.path) else { return false };
    if names.iter().any(|n| n == "*") {
        return tables().method(ty, name).is_some_and(|result| result.path == ty.path);
    }
    names.iter().any(|n| n == name)
}

/// `write!(text, ..)`
fn writes(call: &Call) -> bool {
    matches!(call.callee, Callee::Macro(_)) && matches!(call.name(), "write" | "writeln")
}

/// A method that grows text.
fn appends(call: &Call) -> bool {
    matches!(call.callee, Callee::Method(_)) && changes(&Ty::path("String"), call.name())
}

/// `after` where it holds on some paths only: steps on top of `before` are marked, anything else is joined.
fn conditional_on(before: &Value, after: Value) -> Value {
    match mark(before, after.clone()) {
        Some(marked) => marked,
        None => before.clone().join(after),
    }
}

fn mark(before: &Value, after: Value) -> Option<Value> {
    if after == *before {
        return Some(after);
    }
    match after {
        Value::Call(call) if call.name.starts_with('.') && !call.args.is_empty() => {
            let mut call = Shared::take(call);
            call.args[0] = mark(before, std::mem::replace(&mut call.args[0], Value::Unknown))?;
            call.conditional = true;
            Some(Value::Call(Shared::from(call)))
        }
        _ => None,
    }
}

/// Growing of text and lists, as text and lists where that is certain.
fn grown(call: &Call, value: CallValue) -> Value {
    let name = call.name();
    let [receiver, added] = value.args.as_slice() else { return Value::Call(Shared::from(value)) };
    match (value.receiver.as_str(), name) {
        ("String", "push_str" | "push" | "write_str" | "write" | "writeln") => {
            let mut pieces = vec![Piece::Hole(receiver.clone()), Piece::Hole(added.clone())];
            if name == "writeln" {
                pieces.push(Piece::Text("\n".to_owned()));
            }
            let joined = fold::template(pieces);
            if value.conditional { receiver.clone().join(joined) } else { joined }
        }
        ("Vec", "push") if !value.conditional => match receiver {
            Value::Aggregate(path, fields) if path == "[]" => {
                let mut fields = fields.to_vec();
                fields.push((fields.len().to_string(), added.clone()));
                Value::Aggregate("[]".to_owned(), fields.into())
            }
            Value::Call(new)
                if matches!(new.name.as_str(), "Vec::new" | "Vec::with_capacity" | "std::vec::Vec::new") =>
            {
                Value::Aggregate("[]".to_owned(), vec![("0".to_owned(), added.clone())].into())
            }
            _ => Value::Call(Shared::from(value)),
        },
        _ => Value::Call(Shared::from(value)),
    }
}
