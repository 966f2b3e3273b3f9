//! The type a call's result is used as, found by following it forwards.

use super::Program;
use super::flow::UseSite;
use super::methods::Handed;
use super::types::{Infer, awaited};
use crate::ir::{
    BinaryOp, Call, Callee, Exit, FunctionId, Guard, Lit, OpKind, Operand, Pattern, Rvalue, Ty, UnaryOp, Var,
};

/// Variables that one question may follow.
const STEPS: usize = 64;

/// How much of the result is still round the payload.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Layer {
    /// The call's own `Result` (or the `Option` that `.ok()` makes of it).
    Wrapped,
    /// The payload itself.
    Payload,
}

struct Search<'p> {
    program: &'p Program,
    seen: Vec<(FunctionId, Var, bool)>,
}

impl Program {
    /// See [`Program::expected`].
    pub(super) fn expected_of(&self, f: FunctionId, dst: Var) -> Ty {
        let mut search = Search { program: self, seen: Vec::new() };
        search.var(f, dst, Layer::Wrapped)
    }
}

impl Search<'_> {
    fn var(&mut self, f: FunctionId, var: Var, layer: Layer) -> Ty {
        let key = (f, var, layer == Layer::Wrapped);
        if self.seen.len() > STEPS || self.seen.contains(&key) {
            return Ty::unknown();
        }
        self.seen.push(key);
        let function = self.program.function(f);
        let declared = self.program.canonical_ty(f, &function.var(var).ty);
        let declared = peel(&declared, layer);
        if !declared.is_unknown() {
            return declared;
        }
        let Some(memo) = self.program.memo.of(f, function) else { return Ty::unknown() };
        let Some(uses) = memo.defuse.uses.get(var.0 as usize) else { return Ty::unknown() };
        // A partial answer (`Option<_>` from `.is_some()`) yields to a full one.
        let mut partial = Ty::unknown();
        for site in uses {
            let found = match site {
                UseSite::Op(at) => {
                    let op = function.op(*at);
                    self.op(f, var, &op.kind, op.dst, layer)
                }
                UseSite::Edge(block, index) => self.guard(f, &function.block(*block).edges[*index].guard, layer),
            };
            if found.is_unknown() {
                continue;
            }
            if found.args.iter().any(Ty::is_unknown) {
                partial = if partial.is_unknown() { found } else { partial };
            } else {
                return found;
            }
        }
        if partial.is_unknown() && memo.defuse.defs.get(var.0 as usize).is_some_and(|defs| defs.len() > 1) {
            // The other arms say it: `match call { Ok(v) => v, Err(_) => false }`.
            return peel(&owned(Infer::new(self.program).var(f, var)), layer);
        }
        partial
    }

    fn op(&mut self, f: FunctionId, var: Var, kind: &OpKind, dst: Option<Var>, layer: Layer) -> Ty {
        let payload = layer == Layer::Payload;
        match kind {
            OpKind::Return(_, Exit::Diverge | Exit::Question) | OpKind::Drop(_) => Ty::unknown(),
            OpKind::Return(..) => self.returned(f, layer),
            OpKind::Store(base, path, value) if is(value, var) => {
                let mut infer = Infer::new(self.program);
                let mut ty = infer.operand(f, base);
                for name in path.split('.').filter(|name| !name.is_empty()) {
                    ty = self.program.field_ty(f, &ty, name);
                }
                peel(&ty, layer)
            }
            OpKind::Store(..) => Ty::unknown(),
            OpKind::Let(value) => match value {
                Rvalue::Use(_) | Rvalue::Await(_) => self.follow(f, dst, layer),
                Rvalue::Variant(path, _) if path == "Ok" && payload => self.follow(f, dst, Layer::Wrapped),
                Rvalue::Variant(path, _) if path == "Some" && payload => match self.follow(f, dst, Layer::Payload) {
                    ty if ty.last() == "Option" => ty.arg(0),
                    _ => Ty::unknown(),
                },
                Rvalue::Struct(path, fields, _) => {
                    let path = self.program.resolve(f, path);
                    let field = fields.iter().find(|(_, value)| is(value, var));
                    match field {
                        Some((name, _)) => peel(&self.program.field_ty(f, &Ty::path(path), name), layer),
                        None => Ty::unknown(),
                    }
                }
                Rvalue::Unary(UnaryOp::Not, _) if payload => Ty::path("bool"),
                Rvalue::Unary(UnaryOp::Neg, _) if payload => Ty::path("i64"),
                Rvalue::Binary(BinaryOp::And | BinaryOp::Or, ..) if payload => Ty::path("bool"),
                Rvalue::Binary(_, a, b) if payload => {
                    let other = if is(a, var) { b } else { a };
                    owned(Infer::new(self.program).operand(f, other))
                }
                Rvalue::Matches(_, pattern) => self.pattern(f, pattern, layer),
                Rvalue::Closure(id, operands) => {
                    let Some(j) = operands.iter().position(|o| is(o, var)) else { return Ty::unknown() };
                    match self.program.function(*id).captures.get(j) {
                        Some(inner) => self.var(*id, *inner, layer),
                        None => Ty::unknown(),
                    }
                }
                _ => Ty::unknown(),
            },
            OpKind::Call(call) => self.call(f, var, call, dst, layer),
        }
    }

    fn follow(&mut self, f: FunctionId, dst: Option<Var>, layer: Layer) -> Ty {
        dst.map_or_else(Ty::unknown, |dst| self.var(f, dst, layer))
    }

    /// The function's declared result; for closures and async blocks, what becomes of theirs.
    fn returned(&mut self, f: FunctionId, layer: Layer) -> Ty {
        let function = self.program.function(f);
        let declared = self.program.canonical_ty(f, &function.ret);
        if !declared.is_unknown() {
            // A payload returned by itself is the whole result of a function that returns no `Result`.
            return peel(&awaited(&declared), layer);
        }
        match (function.parent, self.program.index.closure_vars.get(&f)) {
            (Some(parent), Some(var)) => {
                let ty = self.var(parent, *var, layer);
                if !ty.is_unknown() {
                    return ty;
                }
                self.closure_result(parent, *var, layer)
            }
            _ => Ty::unknown(),
        }
    }

    /// A closure handed to a workspace function whose signature says what it must return.
    fn closure_result(&mut self, parent: FunctionId, var: Var, layer: Layer) -> Ty {
        let Some(Handed { call, index, dst }) = self.program.handed_to(parent, var) else { return Ty::unknown() };
        let payload = layer == Layer::Payload;
        match call.name() {
            "is_ok_and" | "is_some_and" | "is_none_or" | "filter" | "any" | "all" if payload => {
                return Ty::path("bool");
            }
            "map" if payload => return self.follow(parent, dst, Layer::Wrapped),
            "and_then" if !payload => return self.follow(parent, dst, Layer::Wrapped),
            "map_or" | "map_or_else" if payload => return self.follow(parent, dst, Layer::Payload),
            _ => {}
        }
        for target in self.program.targets_with(&mut Infer::new(self.program), parent, call) {
            let callee = self.program.function(target);
            let Some(param) = callee.params.get(index) else { continue };
            let declared = self.program.canonical_ty(target, &callee.var(*param).ty);
            let bounds = self.program.bounds(target, &declared);
            let Some(signature) = std::iter::once(&declared).chain(&bounds).find(|ty| ty.path == "fn") else {
                continue;
            };
            let mut result = signature.args.last().cloned().unwrap_or_default();
            if let Some(future) = self.program.bounds(target, &result).into_iter().find(|b| b.last() == "Future") {
                result = future.arg(0);
            }
            let ty = peel(&awaited(&result), layer);
            if !ty.is_unknown() && self.program.bounds(target, &ty).is_empty() && !is_generic(callee, &ty) {
                return ty;
            }
        }
        Ty::unknown()
    }

    fn call(&mut self, f: FunctionId, var: Var, call: &Call, dst: Option<Var>, layer: Layer) -> Ty {
        let payload = layer == Layer::Payload;
        let method = matches!(call.callee, Callee::Method(_));
        let receiver = method && call.args.first().is_some_and(|a| is(a, var));
        if receiver {
            let literal = |index: usize| match call.args.get(index) {
                Some(Operand::Lit(lit)) => lit_ty(lit),
                Some(Operand::Path(path)) if path.ends_with("None") => Ty::unknown(),
                Some(operand @ Operand::Var(..)) => owned(Infer::new(self.program).operand(f, operand)),
                _ => Ty::unknown(),
            };
            return match call.name() {
                "map_err" | "context" | "with_context" | "wrap_err" | "wrap_err_with" | "inspect_err" | "or_else"
                | "instrument" | "boxed" | "in_current_span" | "fuse" | "into_future" | "clone" | "as_ref" => {
                    self.follow(f, dst, layer)
                }
                "ok" if !payload => self.follow(f, dst, Layer::Wrapped),
                "unwrap" | "expect" | "unwrap_or_default" if !payload => self.follow(f, dst, Layer::Payload),
                "unwrap_or" if !payload => match self.follow(f, dst, Layer::Payload) {
                    ty if ty.is_unknown() => literal(1),
                    ty => ty,
                },
                "unwrap_or_else" if !payload => match self.follow(f, dst, Layer::Payload) {
                    ty if ty.is_unknown() => {
                        let closure = call.args.get(1).map(|o| Infer::new(self.program).operand(f, o));
                        closure.filter(|ty| ty.path == "fn").and_then(|ty| ty.args.last().cloned()).unwrap_or_default()
                    }
                    ty => ty,
                },
                "map" | "and_then" | "is_ok_and" | "is_some_and" | "map_or" | "map_or_else" | "inspect"
                | "is_none_or"
                    if !payload =>
                {
                    // The last closure gets the payload.
                    match self.closure_param(f, call.args.last()) {
                        ty if ty.is_unknown() && call.name() == "inspect" => self.follow(f, dst, layer),
                        ty => ty,
                    }
                }
                "is_some" | "is_none" | "as_deref" | "is_some_and" | "ok_or" | "ok_or_else" | "map" | "and_then"
                | "filter" | "flatten" | "unwrap" | "expect" | "unwrap_or" | "unwrap_or_default" | "unwrap_or_else"
                | "map_or" | "is_none_or" | "take"
                    if payload =>
                {
                    let inner = match call.name() {
                        "unwrap" | "expect" | "unwrap_or_default" | "ok_or" | "ok_or_else" => {
                            let layer = if call.name().starts_with("ok_or") { Layer::Wrapped } else { Layer::Payload };
                            self.follow(f, dst, layer)
                        }
                        "unwrap_or" => literal(1),
                        "map" | "and_then" | "is_some_and" | "map_or" | "is_none_or" => {
                            self.closure_param(f, call.args.last())
                        }
                        _ => Ty::unknown(),
                    };
                    Ty { path: "Option".to_owned(), args: vec![inner] }
                }
                "then" | "then_some" if payload => Ty::path("bool"),
                "eq" | "ne" | "cmp" if payload => literal(1),
                "len" | "is_empty" | "starts_with" | "trim" | "as_str" if payload => Ty::path("String"),
                "checked_add" | "saturating_sub" | "saturating_add" | "checked_sub" | "pow" | "abs" if payload => {
                    Ty::path("i64")
                }
                _ => Ty::unknown(),
            };
        }
        let Some(index) = call.args.iter().position(|a| is(a, var)) else { return Ty::unknown() };
        if let Callee::Path(path) = &call.callee {
            match path.rsplit("::").next().unwrap_or(path) {
                "Ok" if payload => return self.follow(f, dst, Layer::Wrapped),
                // `timeout(d, fut)` wraps once more; the inner layers stay.
                "timeout" | "timeout_at" if index == 1 => return self.timeout(f, dst),
                "pin" | "block_on" | "unconstrained" | "identity" => return self.follow(f, dst, layer),
                _ => {}
            }
        }
        if matches!(call.name(), "block_on" | "run_until_cancelled" | "instrument" | "scope") {
            return self.follow(f, dst, layer);
        }
        for target in self.program.targets_with(&mut Infer::new(self.program), f, call) {
            let callee = self.program.function(target);
            let Some(param) = callee.params.get(index) else { continue };
            let ty = self.program.canonical_ty(target, &callee.var(*param).ty);
            let generic = is_generic(callee, &ty) || matches!(ty.path.as_str(), "impl" | "dyn");
            let ty = peel(&ty, layer);
            if !ty.is_unknown() && !generic {
                return ty;
            }
        }
        Ty::unknown()
    }

    /// The result of `timeout(d, fut)`: one more `Result` round the call's own; `?`, `Ok(..)` and `unwrap` on it give the
    /// call's own.
    fn timeout(&mut self, f: FunctionId, dst: Option<Var>) -> Ty {
        let Some(dst) = dst else { return Ty::unknown() };
        let function = self.program.function(f);
        let Some(memo) = self.program.memo.of(f, function) else { return Ty::unknown() };
        let mut pending = vec![dst];
        let mut seen = 0;
        while let Some(var) = pending.pop() {
            seen += 1;
            if seen > STEPS {
                break;
            }
            for site in memo.defuse.uses.get(var.0 as usize).map_or(&[][..], Vec::as_slice) {
                match site {
                    UseSite::Op(at) => {
                        let op = function.op(*at);
                        match &op.kind {
                            OpKind::Let(Rvalue::Use(_) | Rvalue::Await(_)) => pending.extend(op.dst),
                            OpKind::Call(call) => match call.name() {
                                "unwrap" | "expect" => {
                                    let ty = self.follow(f, op.dst, Layer::Wrapped);
                                    if !ty.is_unknown() {
                                        return ty;
                                    }
                                }
                                "map_err" | "context" | "with_context" | "ok" | "inspect_err" => pending.extend(op.dst),
                                _ => {}
                            },
                            _ => {}
                        }
                    }
                    UseSite::Edge(block, index) => {
                        let guard = &function.block(*block).edges[*index].guard;
                        if let Guard::Matches(_, Pattern::Variant(path, members, _)) = guard
                            && matches!(path.as_str(), "Ok" | "Some")
                            && let [member] = members.as_slice()
                        {
                            let ty = self.pattern(f, member, Layer::Wrapped);
                            if !ty.is_unknown() {
                                return ty;
                            }
                        }
                    }
                }
            }
        }
        Ty::unknown()
    }

    fn closure_param(&mut self, f: FunctionId, operand: Option<&Operand>) -> Ty {
        let Some(Operand::Var(var, _)) = operand else { return Ty::unknown() };
        let function = self.program.function(f);
        let Some(memo) = self.program.memo.of(f, function) else { return Ty::unknown() };
        for def in memo.defuse.defs.get(var.0 as usize).map_or(&[][..], Vec::as_slice) {
            let super::flow::Def::Op(at) = def else { continue };
            if let OpKind::Let(Rvalue::Closure(id, _)) = &function.op(*at).kind
                && let Some(param) = self.program.function(*id).params.first()
            {
                return self.var(*id, *param, Layer::Payload);
            }
        }
        Ty::unknown()
    }

    fn guard(&mut self, f: FunctionId, guard: &Guard, layer: Layer) -> Ty {
        match guard {
            Guard::Always => Ty::unknown(),
            Guard::True(_) | Guard::False(_) if layer == Layer::Payload => Ty::path("bool"),
            Guard::True(_) | Guard::False(_) => Ty::unknown(),
            Guard::Matches(_, pattern) => self.pattern(f, pattern, layer),
        }
    }

    /// What a pattern says of the value it is laid on.
    fn pattern(&mut self, f: FunctionId, pattern: &Pattern, layer: Layer) -> Ty {
        match (layer, pattern) {
            (_, Pattern::Bind(var, None)) => self.var(f, *var, layer),
            (_, Pattern::Bind(var, Some(sub))) => match self.var(f, *var, layer) {
                ty if ty.is_unknown() => self.pattern(f, sub, layer),
                ty => ty,
            },
            (_, Pattern::Or(members)) => {
                members.iter().map(|m| self.pattern(f, m, layer)).find(|ty| !ty.is_unknown()).unwrap_or_default()
            }
            (Layer::Wrapped, Pattern::Variant(path, members, _)) if path == "Ok" || path == "Some" => {
                members.first().map_or_else(Ty::unknown, |m| self.pattern(f, m, Layer::Payload))
            }
            (Layer::Payload, Pattern::Variant(path, members, _)) if path == "Some" => {
                let inner = members.first().map_or_else(Ty::unknown, |m| self.pattern(f, m, Layer::Payload));
                Ty { path: "Option".to_owned(), args: vec![inner] }
            }
            (Layer::Payload, Pattern::Path(path)) if path == "None" => {
                Ty { path: "Option".to_owned(), args: vec![Ty::unknown()] }
            }
            (Layer::Payload, Pattern::Lit(lit)) => lit_ty(lit),
            (Layer::Payload, Pattern::Path(path) | Pattern::Variant(path, ..) | Pattern::Struct(path, _)) => {
                let path = self.program.resolve(f, path);
                match path.rsplit_once("::") {
                    Some((parent, _)) if !matches!(path.as_str(), "Ok" | "Err") => {
                        let is_type = parent.rsplit("::").next().is_some_and(|p| p.starts_with(char::is_uppercase));
                        if is_type { Ty::path(parent) } else { Ty::unknown() }
                    }
                    _ => Ty::unknown(),
                }
            }
            (Layer::Payload, Pattern::Tuple(members, _)) => {
                Ty { path: "()".to_owned(), args: members.iter().map(|m| self.pattern(f, m, Layer::Payload)).collect() }
            }
            _ => Ty::unknown(),
        }
    }
}

fn is(operand: &Operand, var: Var) -> bool {
    matches!(operand, Operand::Var(v, _) if *v == var)
}

/// A declared type at a layer: the payload of a `Result` (or of the `Option` that stands for it), or the type itself.
/// `_` inside a declared `Result<_, E>` is unknown.
fn peel(ty: &Ty, layer: Layer) -> Ty {
    let ty = awaited(ty);
    if layer == Layer::Payload {
        return ty;
    }
    if ty.last().ends_with("Result") || ty.last() == "Option" { ty.arg(0) } else { Ty::unknown() }
}

/// `String` for `str`, so that a comparison with a literal says the owned type.
fn owned(ty: Ty) -> Ty {
    if ty.path == "str" { Ty::path("String") } else { ty }
}

fn lit_ty(lit: &Lit) -> Ty {
    match lit {
        Lit::Int(_) => Ty::path("i64"),
        Lit::Float(_) => Ty::path("f64"),
        Lit::Bool(_) => Ty::path("bool"),
        Lit::Str(_) | Lit::Bytes(_) => Ty::path("String"),
        Lit::Unit => Ty::unit(),
        Lit::Duration(_) => Ty::unknown(),
    }
}

fn is_generic(callee: &crate::ir::Function, ty: &Ty) -> bool {
    callee.generics.iter().any(|(name, _)| *name == ty.path)
}
