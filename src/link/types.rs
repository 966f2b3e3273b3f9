//! Type inference without a compiler: declared types, constructors, return types, fields, patterns.
//!
//! A type that is known is right whatever way led to it, so known answers are kept even when a cycle was cut on the way.

use std::collections::HashSet;

use super::Program;
use super::flow::{Def, Step};
use super::methods::Handed;
use super::tables::tables;
use crate::ir::{
    BinaryOp, Call, Callee, Function, FunctionId, FunctionKind, Lit, OpKind, Operand, Rvalue, Ty, TypeKind, UnaryOp,
    Var,
};

/// Nested variables that one question may follow, beyond receiver chains (which are walked without recursion).
const DEPTH: usize = 40;

/// One question.
pub(super) struct Infer<'p> {
    pub(super) program: &'p Program,
    stack: Vec<(FunctionId, Var)>,
    /// The lowest entry of the stack that the current variable ran into.
    low: usize,
    /// Unknown types that are not final, for this question only.
    local: HashSet<(FunctionId, Var)>,
}

impl<'p> Infer<'p> {
    pub(super) fn new(program: &'p Program) -> Infer<'p> {
        Infer { program, stack: Vec::new(), low: usize::MAX, local: HashSet::new() }
    }

    fn function(&self, id: FunctionId) -> &'p Function {
        self.program.function(id)
    }

    pub(super) fn operand(&mut self, f: FunctionId, operand: &Operand) -> Ty {
        match operand {
            Operand::Lit(lit) => lit_ty(lit),
            Operand::Path(path) => self.path(f, path),
            Operand::Var(var, _) => self.var(f, *var),
        }
    }

    /// Const, static, unit struct, unit variant or function item.
    fn path(&mut self, f: FunctionId, path: &str) -> Ty {
        let path = self.program.resolve(f, path);
        if path == "None" {
            return Ty::path("Option");
        }
        if let Some(id) = self.program.index.by_path.get(&path).and_then(|ids| ids.first()) {
            let ret = self.ret(*id);
            return match self.function(*id).kind {
                FunctionKind::Const => ret,
                _ => Ty { path: "fn".to_owned(), args: vec![ret] },
            };
        }
        self.constructed(&path)
    }

    /// The type that a struct or variant path constructs.
    fn constructed(&self, path: &str) -> Ty {
        if self.program.index.types.contains_key(path) {
            return Ty::path(path);
        }
        match path.rsplit_once("::") {
            Some((parent, variant))
                if variant.starts_with(char::is_uppercase)
                    && parent.rsplit("::").next().is_some_and(|p| p.starts_with(char::is_uppercase)) =>
            {
                Ty::path(parent)
            }
            _ if path.rsplit("::").next().is_some_and(|p| p.starts_with(char::is_uppercase)) => Ty::path(path),
            _ => Ty::unknown(),
        }
    }

    pub(super) fn var(&mut self, f: FunctionId, var: Var) -> Ty {
        let function = self.function(f);
        let Some(memo) = self.program.memo.of(f, function) else { return Ty::unknown() };
        let Some(slot) = memo.types.get(var.0 as usize) else { return Ty::unknown() };
        if let Some(known) = slot.get() {
            return known.clone();
        }
        for link in self.chain(f, var).into_iter().rev() {
            self.var_once(f, link);
        }
        self.var_once(f, var)
    }

    /// Variables below `var` along receivers, whose types are asked for first so that long chains do not nest.
    fn chain(&self, f: FunctionId, var: Var) -> Vec<Var> {
        let function = self.function(f);
        let Some(memo) = self.program.memo.of(f, function) else { return Vec::new() };
        let mut out: Vec<Var> = Vec::new();
        let mut at = var;
        while out.len() < 256 {
            let Some([Def::Op(op)]) = memo.defuse.defs.get(at.0 as usize).map(Vec::as_slice) else { break };
            let below = match &function.op(*op).kind {
                OpKind::Call(call) if matches!(call.callee, Callee::Method(_)) => call.args.first(),
                OpKind::Let(Rvalue::Use(o) | Rvalue::Await(o) | Rvalue::Field(o, _)) => Some(o),
                _ => None,
            };
            let Some(Operand::Var(next, _)) = below else { break };
            if out.contains(next) || memo.types.get(next.0 as usize).is_none_or(|slot| slot.get().is_some()) {
                break;
            }
            out.push(*next);
            at = *next;
        }
        out
    }

    fn var_once(&mut self, f: FunctionId, var: Var) -> Ty {
        let function = self.function(f);
        let Some(memo) = self.program.memo.of(f, function) else { return Ty::unknown() };
        let Some(slot) = memo.types.get(var.0 as usize) else { return Ty::unknown() };
        if let Some(known) = slot.get() {
            return known.clone();
        }
        if self.local.contains(&(f, var)) {
            self.low = 0;
            return Ty::unknown();
        }
        if let Some(at) = self.stack.iter().position(|entry| *entry == (f, var)) {
            self.low = self.low.min(at);
            return Ty::unknown();
        }
        if self.stack.len() > DEPTH {
            self.low = 0;
            return Ty::unknown();
        }
        let outer = std::mem::replace(&mut self.low, usize::MAX);
        let level = self.stack.len();
        self.stack.push((f, var));
        let ty = self.compute(f, var);
        self.stack.pop();
        if !ty.is_unknown() || self.low >= level {
            let _ = slot.set(ty.clone());
            self.low = outer;
        } else {
            self.local.insert((f, var));
            self.low = self.low.min(outer);
        }
        ty
    }

    fn compute(&mut self, f: FunctionId, var: Var) -> Ty {
        let function = self.function(f);
        let declared = &function.var(var).ty;
        let declared = self.program.canonical_ty(f, declared);
        if !declared.is_unknown() && !hollow(&declared) {
            return declared;
        }
        let memo = self.program.memo.of(f, function);
        let defs = memo.and_then(|m| m.defuse.defs.get(var.0 as usize)).map_or(&[][..], Vec::as_slice);
        for def in defs {
            let found = match def {
                Def::Param(i) => self.param(f, *i),
                Def::Capture(j) => self.capture(f, *j),
                Def::Op(at) => match &function.op(*at).kind {
                    OpKind::Let(value) => self.rvalue(f, value),
                    OpKind::Call(call) => self.call(f, call),
                    _ => Ty::unknown(),
                },
                Def::Pattern(scrutinee, way) => {
                    let base = self.operand(f, scrutinee);
                    self.project(f, base, way)
                }
            };
            if !found.is_unknown() {
                return fill_holes(&declared, found);
            }
        }
        declared
    }

    /// A parameter without declared type: `self`, or a closure's.
    fn param(&mut self, f: FunctionId, i: u32) -> Ty {
        let function = self.function(f);
        if i == 0 && function.parent.is_none() {
            return self.program.self_ty(f);
        }
        if function.kind == FunctionKind::Closure { self.closure_param(f, i as usize) } else { Ty::unknown() }
    }

    fn capture(&mut self, f: FunctionId, j: u32) -> Ty {
        match self.program.captured(f, j) {
            Some((parent, operand)) => self.operand(parent, &operand),
            None => Ty::unknown(),
        }
    }

    /// Type of a closure's parameter by what the closure is handed to.
    fn closure_param(&mut self, f: FunctionId, i: usize) -> Ty {
        let (Some(parent), Some(var)) = (self.function(f).parent, self.program.index.closure_vars.get(&f)) else {
            return Ty::unknown();
        };
        let Some(Handed { call, index, .. }) = self.program.handed_to(parent, *var) else { return Ty::unknown() };
        for target in self.program.targets_with(self, parent, call) {
            let callee = self.function(target);
            let Some(param) = callee.params.get(index) else { continue };
            let declared = self.program.canonical_ty(target, &callee.var(*param).ty);
            let bounds = self.program.bounds(target, &declared);
            let signature = std::iter::once(&declared).chain(&bounds).find(|ty| ty.path == "fn");
            if let Some(ty) = signature
                && i + 1 < ty.args.len()
            {
                return self.program.canonical_ty(target, &ty.args[i]);
            }
        }
        if let (Callee::Method(name), Some(receiver), 0) = (&call.callee, call.args.first(), i) {
            let mut ty = self.operand(parent, receiver);
            for _ in 0..6 {
                if let Some(found) = tables().closure(&ty, name) {
                    return found;
                }
                match self.program.deref(parent, &ty) {
                    Some(next) => ty = next,
                    None => break,
                }
            }
        }
        Ty::unknown()
    }

    fn rvalue(&mut self, f: FunctionId, value: &Rvalue) -> Ty {
        match value {
            Rvalue::Use(operand) => self.operand(f, operand),
            Rvalue::Await(operand) => {
                let ty = self.operand(f, operand);
                awaited(&ty)
            }
            Rvalue::Field(base, name) => {
                let base = self.operand(f, base);
                self.program.field_ty(f, &base, name)
            }
            Rvalue::Tuple(members) => {
                Ty { path: "()".to_owned(), args: members.iter().map(|m| self.operand(f, m)).collect() }
            }
            Rvalue::Array(members) => {
                let element = members.first().map(|m| self.operand(f, m)).unwrap_or_default();
                Ty { path: "Vec".to_owned(), args: vec![element] }
            }
            Rvalue::Struct(path, ..) => self.constructed(&self.program.resolve(f, path)),
            Rvalue::Variant(path, members) => {
                let mut payload = || members.first().map(|m| self.operand(f, m)).unwrap_or_default();
                match path.as_str() {
                    "Some" => Ty { path: "Option".to_owned(), args: vec![payload()] },
                    "Ok" => Ty { path: "Result".to_owned(), args: vec![payload()] },
                    "Err" => Ty { path: "Result".to_owned(), args: vec![Ty::unknown(), payload()] },
                    _ => self.constructed(&self.program.resolve(f, path)),
                }
            }
            Rvalue::Format(_) => Ty::path("String"),
            Rvalue::Unary(UnaryOp::Not, operand) => {
                let ty = self.operand(f, operand);
                if ty.is_unknown() { Ty::path("bool") } else { ty }
            }
            Rvalue::Unary(UnaryOp::Neg, operand) => self.operand(f, operand),
            Rvalue::Binary(op, a, b) => match op {
                BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Div | BinaryOp::Rem | BinaryOp::Bits => {
                    let ty = if matches!(a, Operand::Lit(_)) { Ty::unknown() } else { self.operand(f, a) };
                    if ty.is_unknown() { self.operand(f, b) } else { ty }
                }
                _ => Ty::path("bool"),
            },
            Rvalue::Cast(_, ty) => self.program.canonical_ty(f, ty),
            Rvalue::Index(base, _) => {
                let base = self.operand(f, base);
                self.program.element(f, &base)
            }
            Rvalue::Closure(id, _) => match self.function(*id).kind {
                // Awaiting is transparent: the future of a block has the type of its result.
                FunctionKind::AsyncBlock => self.ret(*id),
                _ => {
                    let closure = self.function(*id);
                    let mut args: Vec<Ty> = closure.params.iter().map(|_| Ty::unknown()).collect();
                    args.push(self.ret(*id));
                    Ty { path: "fn".to_owned(), args }
                }
            },
            Rvalue::Matches(..) => Ty::path("bool"),
            Rvalue::IncludeStr(_) => Ty::path("str"),
            // The element of a `for`.
            Rvalue::Unknown(of) => match of.as_slice() {
                [items] => {
                    let items = self.operand(f, items);
                    self.program.element(f, &items)
                }
                _ => Ty::unknown(),
            },
        }
    }

    /// Declared return type; for closures without one, the type of what they return.
    pub(super) fn ret(&mut self, f: FunctionId) -> Ty {
        let function = self.function(f);
        let declared = self.program.canonical_ty(f, &function.ret);
        if !declared.is_unknown() || function.parent.is_none() {
            return declared;
        }
        let returns: Vec<&Operand> = function
            .ops()
            .filter_map(|(_, op)| match &op.kind {
                OpKind::Return(operand, crate::ir::Exit::Return) => Some(operand),
                _ => None,
            })
            .collect();
        returns.into_iter().map(|operand| self.operand(f, operand)).find(|ty| !ty.is_unknown()).unwrap_or_default()
    }

    pub(super) fn project(&mut self, f: FunctionId, mut ty: Ty, way: &[Step]) -> Ty {
        for step in way {
            ty = match step {
                Step::Variant(path, i) => match path.as_str() {
                    "Ok" | "Some" if *i == 0 => payload(&ty),
                    "Err" => ty.arg(1),
                    _ => {
                        let path = self.program.resolve(f, path);
                        let base = self.constructed(&path);
                        let variant = path.rsplit("::").next().unwrap_or_default();
                        let is_enum = self.program.type_def(&base.path).is_some_and(|def| def.kind == TypeKind::Enum);
                        let field = if is_enum { format!("{variant}.{i}") } else { i.to_string() };
                        // The generic arguments are those of the scrutinee.
                        let base = if ty.path == base.path { ty } else { base };
                        self.program.field_ty(f, &base, &field)
                    }
                },
                Step::Field(path, name) => {
                    let base = self.constructed(&self.program.resolve(f, path));
                    let variant = path.rsplit("::").next().unwrap_or_default();
                    let is_enum = self.program.type_def(&base.path).is_some_and(|def| def.kind == TypeKind::Enum);
                    let field = if is_enum { format!("{variant}.{name}") } else { name.clone() };
                    let base = if ty.path == base.path { ty } else { base };
                    self.program.field_ty(f, &base, &field)
                }
                Step::Tuple(i) => self.program.field_ty(f, &ty, &i.to_string()),
                Step::Opaque => Ty::unknown(),
            };
            if ty.is_unknown() {
                break;
            }
        }
        ty
    }

    /// Type of a call's result, without the future of an `async fn`.
    pub(super) fn call(&mut self, f: FunctionId, call: &Call) -> Ty {
        match &call.callee {
            Callee::Value(operand) => {
                let ty = self.operand(f, operand);
                let bounds = self.program.bounds(f, &ty);
                let signature = std::iter::once(&ty).chain(&bounds).find(|ty| ty.path == "fn").cloned();
                signature.and_then(|ty| ty.args.last().cloned()).unwrap_or_default()
            }
            Callee::Macro(path) => {
                let path = self.program.resolve(f, path);
                tables().macro_(&path).unwrap_or_default()
            }
            Callee::Path(path) => self.path_call(f, call, path),
            Callee::Method(name) => self.method_call(f, call, name),
        }
    }
}

/// Types that say nothing by themselves: `Vec<_>`, `Result<_, _>`, `Option<_>`.
fn hollow(ty: &Ty) -> bool {
    !ty.args.is_empty() && ty.args.iter().all(Ty::is_unknown)
}

/// A declared type whose arguments are inferred, filled from what was found.
fn fill_holes(declared: &Ty, found: Ty) -> Ty {
    if declared.is_unknown() || declared.last() == found.last() { found } else { declared.clone() }
}

fn lit_ty(lit: &Lit) -> Ty {
    match lit {
        Lit::Int(_) => Ty::path("i64"),
        Lit::Float(_) => Ty::path("f64"),
        Lit::Bool(_) => Ty::path("bool"),
        Lit::Str(_) => Ty::path("str"),
        Lit::Bytes(_) => Ty { path: "[]".to_owned(), args: vec![Ty::path("u8")] },
        Lit::Unit => Ty::unit(),
        Lit::Duration(_) => Ty::path("std::time::Duration"),
    }
}

/// Result of awaiting: the output of a future type; other types are those of an `async fn`'s result already.
pub(super) fn awaited(ty: &Ty) -> Ty {
    future_output(ty, 0).unwrap_or_else(|| ty.clone())
}

fn future_output(ty: &Ty, depth: usize) -> Option<Ty> {
    if depth > 6 {
        return None;
    }
    match ty.last() {
        "impl" | "dyn" => ty.args.iter().find(|b| matches!(b.last(), "Future" | "IntoFuture")).map(|b| b.arg(0)),
        "Pin" | "Box" => future_output(&ty.arg(0), depth + 1),
        "BoxFuture" | "LocalBoxFuture" | "BoxFut" | "ScopedBoxFuture" => Some(ty.arg(0)),
        "JoinHandle" | "AbortOnDropHandle" => {
            Some(Ty { path: "Result".to_owned(), args: vec![ty.arg(0), Ty::path("tokio::task::JoinError")] })
        }
        "Receiver" if ty.path.contains("oneshot") => Some(Ty { path: "Result".to_owned(), args: vec![ty.arg(0)] }),
        _ => None,
    }
}

/// `T` of `Result<T, _>` and `Option<T>`; other types are taken as unwrapped already.
pub(super) fn payload(ty: &Ty) -> Ty {
    let last = ty.last();
    if last == "Option" || last.ends_with("Result") { ty.arg(0) } else { ty.clone() }
}
