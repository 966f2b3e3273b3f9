//! Types of calls, fields and `Deref`.

use super::Program;
use super::names::substitute;
use super::tables::tables;
use super::types::{Infer, payload};
use crate::ir::{Call, Callee, Function, FunctionId, OpKind, Operand, Rvalue, Ty, TypeKind, Var};

impl Infer<'_> {
    pub(super) fn path_call(&mut self, f: FunctionId, call: &Call, path: &str) -> Ty {
        for target in self.program.targets_with(self, f, call) {
            let ty = self.result(f, call, target, None);
            if !ty.is_unknown() {
                return ty;
            }
        }
        let path = self.program.resolve(f, path);
        if let Some(ty) = tables().function(&path, &call.generics) {
            return ty;
        }
        if tables().sees_through_function(&path) && call.args.len() == 1 {
            let inner = self.operand(f, &call.args[0]);
            let Some((parent, _)) = path.rsplit_once("::") else { return inner };
            let parent = Ty::path(parent);
            let number = parent.path.len() <= 5 && parent.path.starts_with(['u', 'i', 'f']);
            return match parent.last() {
                "From" | "Into" | "Clone" | "ToOwned" | "AsRef" | "Deref" | "mem" | "convert" => inner,
                "String" | "Uuid" | "Bytes" => parent,
                _ if number => parent,
                // A shared clone of a wrapper is the wrapper.
                _ if path.ends_with("::clone") || inner.path == parent.path => inner,
                _ => Ty { path: parent.path, args: vec![inner] },
            };
        }
        if self.program.index.types.contains_key(&path) {
            return Ty::path(path);
        }
        match path.rsplit_once("::") {
            Some((parent, name)) if parent.rsplit("::").next().is_some_and(|p| p.starts_with(char::is_uppercase)) => {
                let constructor = ["new", "default", "from", "with", "open", "connect", "builder", "try_new", "init"];
                if name.starts_with(char::is_uppercase) || constructor.iter().any(|c| name.starts_with(c)) {
                    Ty::path(parent)
                } else {
                    Ty::unknown()
                }
            }
            _ => Ty::unknown(),
        }
    }

    pub(super) fn method_call(&mut self, f: FunctionId, call: &Call, name: &str) -> Ty {
        let Some(receiver) = call.args.first() else { return Ty::unknown() };
        let receiver = self.operand(f, receiver);
        for target in self.program.targets_with(self, f, call) {
            let ty = self.result(f, call, target, Some(&receiver));
            if !ty.is_unknown() {
                return ty;
            }
        }
        if let Some(ty) = self.closure_method(f, call, name, &receiver) {
            return ty;
        }
        let mut ty = receiver.clone();
        for _ in 0..8 {
            if let Some(found) = tables().method(&ty, name) {
                return found;
            }
            match self.program.deref(f, &ty) {
                Some(next) => ty = next,
                None => break,
            }
        }
        if let Some(asked) = call.generics.iter().find(|ty| !ty.is_unknown())
            && let Some(found) = tables().turbofish(name, call.args.len() - 1, &self.program.canonical_ty(f, asked))
        {
            return found;
        }
        if let Some(found) = tables().any_method(&receiver, name) {
            return found;
        }
        // `unwrap` and kin on what is not known to be wrapped.
        if tables().is_unwrap(name) || tables().is_unwrap_with(name) || tables().is_unwrap_or(name) {
            return payload(&receiver);
        }
        Ty::unknown()
    }

    /// std combinators whose result type comes from the closure.
    fn closure_method(&mut self, f: FunctionId, call: &Call, name: &str, receiver: &Ty) -> Option<Ty> {
        let last = receiver.last();
        let iterator = last == "Iterator" || tables().is_collection(receiver) && last != "Option";
        if !(iterator || last == "Option" || last.ends_with("Result") || matches!(name, "then" | "then_some")) {
            return None;
        }
        let mut closure = |index: usize| -> Ty {
            let Some(operand) = call.args.get(index) else { return Ty::unknown() };
            let ty = self.operand(f, operand);
            if ty.path == "fn" { ty.args.last().cloned().unwrap_or_default() } else { Ty::unknown() }
        };
        let wrap = |path: &str, inner: Ty| Some(Ty { path: path.to_owned(), args: vec![inner] });
        match name {
            "map" if iterator => wrap("Iterator", closure(1)),
            "map" => Some(Ty { path: receiver.path.clone(), args: vec![closure(1), receiver.arg(1)] }),
            "and_then" => Some(closure(1)),
            "filter_map" | "flat_map" => wrap("Iterator", payload(&closure(1))),
            "map_or" | "map_or_else" => Some(closure(2)),
            "then" if receiver.path == "bool" || receiver.is_unknown() => wrap("Option", closure(1)),
            "then_some" => call.args.get(1).and_then(|o| wrap("Option", self.operand(f, o))),
            "collect" => match call.generics.first() {
                Some(ty) if !ty.args.is_empty() && ty.args.iter().all(Ty::is_unknown) => {
                    wrap(&ty.path, receiver.arg(0))
                }
                Some(ty) => Some(self.program.canonical_ty(f, ty)),
                None => None,
            },
            "zip" if iterator => {
                let other = call.args.get(1).map(|o| self.operand(f, o)).unwrap_or_default();
                wrap("Iterator", Ty { path: "()".to_owned(), args: vec![receiver.arg(0), other.arg(0)] })
            }
            _ => None,
        }
    }

    /// Declared result of a workspace function at this call, generics filled as far as they are seen.
    fn result(&mut self, f: FunctionId, call: &Call, target: FunctionId, receiver: Option<&Ty>) -> Ty {
        let program = self.program;
        let callee = program.function(target);
        let ret = self.ret(target);
        if ret.is_unknown() {
            return ret;
        }
        let mut known: Vec<(String, Ty)> = Vec::new();
        if let (Some(trait_), Some(receiver)) = (&callee.owner_trait, receiver) {
            // In a default method `Self` is whatever implements the trait.
            known.push((trait_.clone(), receiver.clone()));
            known.push(("Self".to_owned(), receiver.clone()));
        }
        if let (Some(owner), Some(receiver)) = (&callee.owner, receiver)
            && let Some(def) = program.type_def(&program.resolve(target, owner))
        {
            let mut base = receiver.clone();
            while base.path != def.path {
                match program.deref(f, &base) {
                    Some(next) => base = next,
                    None => break,
                }
            }
            if base.path == def.path {
                known.extend(def.generics.iter().zip(&base.args).map(|(g, ty)| (g.0.clone(), ty.clone())));
            }
        }
        if mentions(&ret, &callee.generics) {
            for (i, (name, _)) in callee.generics.iter().enumerate() {
                if let Some(ty) = call.generics.get(i).filter(|ty| !ty.is_unknown()) {
                    known.push((name.clone(), program.canonical_ty(f, ty)));
                }
                for (param, arg) in callee.params.iter().zip(&call.args) {
                    if callee.var(*param).ty.path == *name {
                        known.push((name.clone(), self.operand(f, arg)));
                    } else if let Some(result) = closure_result(callee, name, *param) {
                        // `F: FnOnce() -> Fut, Fut: Future<Output = T>`: T is what the closure gives.
                        let given = self.operand(f, arg);
                        if given.path == "fn"
                            && let Some(last) = given.args.last()
                        {
                            let found = unify(&result, last, name);
                            known.extend(found.map(|ty| (name.clone(), ty)));
                        }
                    }
                }
            }
        }
        if known.is_empty() {
            return ret;
        }
        substitute(&ret, &|name| known.iter().find(|(n, ty)| n == name && !ty.is_unknown()).map(|(_, ty)| ty.clone()))
    }
}

/// A call that gets a closure.
pub(super) struct Handed<'p> {
    pub(super) call: &'p Call,
    /// The argument it is.
    pub(super) index: usize,
    /// The call's result.
    pub(super) dst: Option<Var>,
}

/// What a closure parameter's bound says it returns, futures resolved, when that mentions the generic `name`.
fn closure_result(callee: &Function, name: &str, param: Var) -> Option<Ty> {
    let bounds = |path: &str| callee.generics.iter().find(|(g, _)| g == path).map(|(_, b)| b.as_slice());
    let declared = &callee.var(param).ty;
    let signature = match declared.path.as_str() {
        "fn" => declared,
        "impl" => declared.args.iter().find(|b| b.path == "fn")?,
        path => bounds(path)?.iter().find(|b| b.path == "fn")?,
    };
    let mut result = signature.args.last()?.clone();
    if let Some(future) = bounds(&result.path).and_then(|b| b.iter().find(|b| b.last() == "Future")) {
        result = future.arg(0);
    }
    result = super::types::awaited(&result);
    mentions(&result, &[(name.to_owned(), Vec::new())]).then_some(result)
}

/// What `name` stands for when `pattern` is laid on `ty`.
fn unify(pattern: &Ty, ty: &Ty, name: &str) -> Option<Ty> {
    if pattern.path == name {
        return Some(ty.clone());
    }
    pattern.args.iter().zip(&ty.args).find_map(|(p, t)| unify(p, t, name))
}

fn mentions(ty: &Ty, generics: &[(String, Vec<Ty>)]) -> bool {
    generics.iter().any(|(name, _)| *name == ty.path) || ty.args.iter().any(|arg| mentions(arg, generics))
}

impl Program {
    /// Type of `self` in a method: the owner, or the trait in a default method.
    pub(super) fn self_ty(&self, f: FunctionId) -> Ty {
        let function = self.function(f);
        let Some(owner) = function.owner.as_ref().or(function.owner_trait.as_ref()) else { return Ty::unknown() };
        let owner = self.resolve(f, owner);
        let args = match self.type_def(&owner) {
            Some(def) => def.generics.iter().map(|(name, _)| Ty::path(name.clone())).collect(),
            None => Vec::new(),
        };
        Ty { path: owner, args }
    }

    /// A type as written in `f`, canonical; associated types of the owner and `Self` replaced.
    pub(super) fn canonical_ty(&self, f: FunctionId, ty: &Ty) -> Ty {
        if ty.is_unknown() {
            return Ty::unknown();
        }
        let function = self.function(f);
        let ty = self.index.names.canonical_ty(&function.module, ty);
        self.associated(f, &ty, 0)
    }

    fn associated(&self, f: FunctionId, ty: &Ty, depth: usize) -> Ty {
        if depth > 6 {
            return ty.clone();
        }
        if ty.path == "Self" {
            return self.self_ty(f);
        }
        if let Some((parent, name)) = ty.path.rsplit_once("::") {
            let owner = match parent {
                "Self" => self.self_ty(f).path,
                parent => parent.to_owned(),
            };
            for block in self.index.impls_of.get(&owner).map_or(&[][..], Vec::as_slice) {
                if let Some((_, target)) = self.impls[*block].types.iter().find(|(n, _)| n == name) {
                    return self.associated(
                        f,
                        &self.index.names.canonical_ty(&self.function(f).module, target),
                        depth + 1,
                    );
                }
            }
        }
        Ty { path: ty.path.clone(), args: ty.args.iter().map(|arg| self.associated(f, arg, depth + 1)).collect() }
    }

    /// Bounds of `impl`, `dyn` and generic parameters visible in `f`; empty for other types.
    pub(super) fn bounds(&self, f: FunctionId, ty: &Ty) -> Vec<Ty> {
        if matches!(ty.path.as_str(), "impl" | "dyn") {
            return ty.args.clone();
        }
        let mut at = Some(f);
        for _ in 0..8 {
            let Some(id) = at else { break };
            let function = self.function(id);
            if let Some((_, bounds)) = function.generics.iter().find(|(name, _)| *name == ty.path) {
                return bounds.iter().map(|b| self.canonical_ty(id, b)).collect();
            }
            if let Some(owner) = &function.owner
                && let Some(def) = self.type_def(&self.resolve(id, owner))
                && let Some((_, bounds)) = def.generics.iter().find(|(name, _)| *name == ty.path)
            {
                return bounds.iter().map(|b| self.canonical_ty(id, b)).collect();
            }
            at = function.parent;
        }
        Vec::new()
    }

    /// One step of `Deref`: wrappers, known types, `impl Deref` of the workspace; at last the payload of an `Option` or
    /// `Result`, so that a chain whose unwrapping was not seen goes on.
    pub(super) fn deref(&self, f: FunctionId, ty: &Ty) -> Option<Ty> {
        let next = if tables().is_wrapper(ty) && !self.index.types.contains_key(&ty.path) {
            ty.arg(0)
        } else if let Some(target) = tables().deref(ty) {
            self.managed(f, &target).unwrap_or(target)
        } else if self.index.types.contains_key(&ty.path) {
            let blocks = self.index.impls_of.get(&ty.path)?;
            let deref = blocks.iter().map(|i| &self.impls[*i]).find(|block| {
                block.trait_.as_deref().is_some_and(|t| matches!(t.rsplit("::").next(), Some("Deref" | "DerefMut")))
                    && block.types.iter().any(|(name, _)| name == "Target")
            })?;
            let target = &deref.types.iter().find(|(name, _)| name == "Target")?.1;
            self.canonical_ty(f, target)
        } else if ty.last() == "Option" || ty.last().ends_with("Result") {
            ty.arg(0)
        } else {
            return None;
        };
        (next != *ty && !next.is_unknown()).then_some(next)
    }

    /// What a pool manager of the workspace manages (`impl bb8::ManageConnection for M { type Connection = C; }`).
    fn managed(&self, f: FunctionId, manager: &Ty) -> Option<Ty> {
        let blocks = self.index.impls_of.get(&manager.path)?.iter().map(|i| &self.impls[*i]);
        let mut managers = blocks
            .filter(|b| b.trait_.as_deref().is_some_and(|t| t.ends_with("Manager") || t.ends_with("ManageConnection")));
        let types = &managers.next()?.types;
        types.iter().find(|(name, _)| name == "Connection" || name == "Type").map(|(_, ty)| self.canonical_ty(f, ty))
    }

    /// Type of a field, looked up through `Deref`. Tuple members are fields `0`, `1`; enum fields `Variant.name`.
    pub fn field_ty(&self, f: FunctionId, base: &Ty, name: &str) -> Ty {
        let mut ty = base.clone();
        for _ in 0..8 {
            if ty.path == "()" {
                return name.parse::<usize>().map_or_else(|_| Ty::unknown(), |i| ty.arg(i));
            }
            if name == "0" && tables().is_wrapper(&ty) && !self.index.types.contains_key(&ty.path) {
                // `State(state)`, `data.0`: extractors and guards hold one thing.
                return ty.arg(0);
            }
            if let Some(def) = self.type_def(&ty.path)
                && let Some((_, field)) = def.fields.iter().find(|(n, _)| n == name)
                && def.kind != TypeKind::Alias
            {
                let module = def.path.rsplit_once("::").map_or("", |p| p.0);
                let field = self.index.names.canonical_ty(module, field);
                return substitute(&field, &|g| {
                    let i = def.generics.iter().position(|(name, _)| name == g)?;
                    ty.args.get(i).filter(|arg| !arg.is_unknown()).cloned()
                });
            }
            match self.deref(f, &ty) {
                Some(next) => ty = next,
                None => break,
            }
        }
        Ty::unknown()
    }

    /// What indexing or iterating gives.
    pub(super) fn element(&self, f: FunctionId, base: &Ty) -> Ty {
        let mut ty = base.clone();
        for _ in 0..6 {
            if tables().is_collection(&ty) {
                return ty.arg(0);
            }
            if ty.last().ends_with("Map") {
                return ty.arg(1);
            }
            match self.deref(f, &ty) {
                Some(next) => ty = next,
                None => break,
            }
        }
        Ty::unknown()
    }

    /// The parent's operand behind capture `j` of a closure.
    pub(super) fn captured(&self, f: FunctionId, j: u32) -> Option<(FunctionId, Operand)> {
        let site = self.index.closure_sites.get(&f)?;
        match &self.function(site.function).op(site.at).kind {
            OpKind::Let(Rvalue::Closure(_, operands)) => {
                operands.get(j as usize).map(|operand| (site.function, operand.clone()))
            }
            _ => None,
        }
    }

    /// The call that a closure's variable is handed to, through copies and `Box::pin`-like calls, and at which argument.
    pub(super) fn handed_to(&self, f: FunctionId, var: Var) -> Option<Handed<'_>> {
        use super::flow::UseSite;
        let function = self.function(f);
        let memo = self.memo.of(f, function)?;
        let mut at = var;
        for _ in 0..4 {
            let mut next = None;
            for site in memo.defuse.uses.get(at.0 as usize)? {
                let UseSite::Op(op) = site else { continue };
                let op = function.op(*op);
                match &op.kind {
                    OpKind::Call(call) => {
                        let index = call.args.iter().position(|a| matches!(a, Operand::Var(v, _) if *v == at));
                        if let Callee::Path(path) = &call.callee
                            && tables().sees_through_function(&self.resolve(f, path))
                        {
                            next = op.dst;
                        } else if let Some(index) = index {
                            return Some(Handed { call, index, dst: op.dst });
                        }
                    }
                    OpKind::Let(Rvalue::Use(_)) => next = op.dst,
                    _ => {}
                }
            }
            at = next?;
        }
        None
    }
}
