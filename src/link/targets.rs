//! Call targets: which workspace functions a call may reach.

use super::Program;
use super::tables::tables;
use super::types::Infer;
use crate::ir::{Call, Callee, Exit, FunctionId, FunctionKind, OpKind, Operand, Ty, TypeKind};

/// A trait object or generic joins at most this many bodies.
const MAX_TARGETS: usize = 8;

impl Program {
    /// Workspace functions a call may reach, in a fixed order.
    pub(super) fn targets_with(&self, infer: &mut Infer<'_>, f: FunctionId, call: &Call) -> Vec<FunctionId> {
        match &call.callee {
            Callee::Path(path) => self.path_targets(infer, f, call, path),
            Callee::Method(name) => {
                let Some(receiver) = call.args.first() else { return Vec::new() };
                let ty = infer.operand(f, receiver);
                if ty.is_unknown() {
                    return self.by_name_alone(f, name, call.args.len());
                }
                self.method_targets(f, &ty, name, call.args.len())
            }
            Callee::Value(operand) => match operand {
                Operand::Path(path) => self.items(&self.resolve(f, path)),
                Operand::Var(..) | Operand::Lit(_) => Vec::new(),
            },
            Callee::Macro(path) => {
                let path = self.resolve(f, path);
                let module = &self.function(f).module;
                let krate = if path.contains("::") { &path } else { module }.split("::").next().unwrap_or_default();
                let name = path.rsplit("::").next().unwrap_or(&path);
                let found = self.index.macros.get(&format!("{krate}::{name}")).cloned().unwrap_or_default();
                found.into_iter().filter(|id| self.stands_for_itself(*id, call.args.len())).collect()
            }
        }
    }

    /// Whether a macro's arm can be taken for a function: it has these fragments, and leaves only at its end (`?` and `return`
    /// in it would leave the function that invokes it).
    fn stands_for_itself(&self, id: FunctionId, args: usize) -> bool {
        let f = self.function(id);
        let exits =
            f.ops().filter(|(_, op)| matches!(op.kind, OpKind::Return(_, Exit::Return | Exit::Question))).count();
        f.params.len() == args && exits <= 1
    }

    fn items(&self, path: &str) -> Vec<FunctionId> {
        let ids = self.index.by_path.get(path).map_or(&[][..], Vec::as_slice);
        let bodies = ids.iter().copied().filter(|id| self.function(*id).kind != FunctionKind::Const);
        self.live(bodies.collect())
    }

    fn path_targets(&self, infer: &mut Infer<'_>, f: FunctionId, call: &Call, path: &str) -> Vec<FunctionId> {
        let path = self.resolve(f, path);
        let found = self.items(&path);
        if !found.is_empty() && !found.iter().all(|id| self.function(*id).owner_trait.is_some()) {
            return found;
        }
        let Some((parent, name)) = path.rsplit_once("::") else { return found };
        let is_trait = self.type_def(parent).is_some_and(|def| def.kind == TypeKind::Trait);
        if is_trait {
            // `Trait::method(x, ..)`: the receiver is the first argument.
            if let Some(receiver) = call.args.first() {
                let ty = infer.operand(f, receiver);
                let by_type = self.method_targets(f, &ty, name, call.args.len());
                if !by_type.is_empty() {
                    return by_type;
                }
            }
            return self.joined(parent, name);
        }
        if !found.is_empty() {
            return found;
        }
        let own = self.methods(parent, name);
        if !own.is_empty() {
            return self.live(own);
        }
        let mut out = Vec::new();
        for bound in self.bounds(f, &Ty::path(parent)) {
            out.extend(self.joined(&bound.path, name));
        }
        if out.is_empty() { self.defaults(parent, name) } else { out }
    }

    /// Bodies of a method on a receiver type: own impls, then traits implemented, bounds, trait objects, through `Deref`.
    pub(super) fn method_targets(&self, f: FunctionId, receiver: &Ty, name: &str, arity: usize) -> Vec<FunctionId> {
        let mut ty = receiver.clone();
        for _ in 0..8 {
            let mut found = self.live(self.methods(&ty.path, name));
            if found.is_empty() {
                let is_trait = self.type_def(&ty.path).is_some_and(|def| def.kind == TypeKind::Trait);
                if is_trait {
                    found = self.joined(&ty.path, name);
                }
                for bound in self.bounds(f, &ty) {
                    found.extend(self.joined(&bound.path, name));
                }
                for trait_ in self.index.dispatch.get(&ty.path).into_iter().flatten() {
                    found.extend(self.joined(trait_, name));
                }
                if found.is_empty() {
                    found = self.defaults(&ty.path, name);
                }
            }
            found.retain(|id| self.function(*id).params.len() == arity);
            if !found.is_empty() {
                return found;
            }
            if tables().method(&ty, name).is_some() {
                return Vec::new();
            }
            match self.deref(f, &ty) {
                Some(next) => ty = next,
                None => break,
            }
        }
        Vec::new()
    }

    /// Default bodies of traits implemented for the type.
    fn defaults(&self, type_path: &str, name: &str) -> Vec<FunctionId> {
        let traits = self.index.traits_of.get(type_path).map_or(&[][..], Vec::as_slice);
        let mut out = Vec::new();
        for trait_ in traits {
            out.extend(self.implementations(trait_, name).into_iter().filter(|id| self.index.defaults.contains(id)));
        }
        out
    }

    /// A trait's method joined over its impls: bodies in real code, stand-ins for tests dropped when a real one exists.
    /// Nothing when there are more than can be joined.
    fn joined(&self, trait_: &str, name: &str) -> Vec<FunctionId> {
        let all: Vec<FunctionId> =
            self.implementations(trait_, name).into_iter().filter(|id| self.function(*id).has_body()).collect();
        let default = |id: &FunctionId| self.index.defaults.contains(id);
        let overriding = all.iter().filter(|id| !default(id)).count();
        let implementors = self.index.implementors.get(trait_).copied().unwrap_or(0);
        // A default body counts only if some type does not override it.
        let inherited = overriding == 0 || implementors > overriding;
        let mut found: Vec<FunctionId> = all.into_iter().filter(|id| inherited || !default(id)).collect();
        found = self.live(found);
        let real: Vec<FunctionId> = found
            .iter()
            .copied()
            .filter(|id| !self.function(*id).owner.as_deref().is_some_and(|owner| tables().is_mock(owner)))
            .collect();
        let found = if real.is_empty() { found } else { real };
        if found.len() > MAX_TARGETS { Vec::new() } else { found }
    }

    /// Without test code where there is other code.
    fn live(&self, ids: Vec<FunctionId>) -> Vec<FunctionId> {
        let live: Vec<FunctionId> = ids.iter().copied().filter(|id| !self.function(*id).test).collect();
        if live.is_empty() { ids } else { live }
    }

    /// A method whose receiver's type is not known: only when one method of the workspace has that name and arity, and
    /// the name is none that std, tokio or a client crate uses.
    fn by_name_alone(&self, f: FunctionId, name: &str, arity: usize) -> Vec<FunctionId> {
        if tables().is_common(name) {
            return Vec::new();
        }
        let same_arity = |id: &&FunctionId| self.function(**id).params.len() == arity;
        let ids = self.index.by_name.get(name).map_or(&[][..], Vec::as_slice);
        let all: Vec<FunctionId> = ids.iter().filter(same_arity).copied().collect();
        let test = self.function(f).test;
        let all: Vec<FunctionId> = all.into_iter().filter(|id| test || !self.function(*id).test).collect();
        match all.as_slice() {
            [one] if self.function(*one).has_body() => all,
            // A trait's declaration and its impls are one method.
            [first, ..] if self.function(*first).owner_trait.is_some() => {
                let trait_ = |id: &FunctionId| self.function(*id).owner_trait.as_ref().map(|t| self.resolve(*id, t));
                let name_of = trait_(first);
                match name_of {
                    Some(path) if all.iter().all(|id| trait_(id).as_ref() == Some(&path)) => self.joined(&path, name),
                    _ => Vec::new(),
                }
            }
            _ => Vec::new(),
        }
    }

    /// Fills [`Call::targets`] and the callers index. Part of linking.
    /// Takes back what linking and the models found out about calls. Targets that a front end knew stay.
    /// Takes the workspace functions in `known` for functions of another crate: what calls of them do is known otherwise, and
    /// their values stay calls. For workspaces that hold a client crate itself.
    pub fn detach(&mut self, known: &std::collections::BTreeSet<FunctionId>) {
        if known.is_empty() {
            return;
        }
        for site in &self.resolved {
            let function = &mut self.functions[site.function.0 as usize];
            let op = &mut function.blocks[site.at.block.0 as usize].ops[site.at.index as usize];
            if let OpKind::Call(call) = &mut op.kind
                && call.targets.iter().any(|target| known.contains(target))
            {
                call.targets.clear();
            }
        }
        self.memo = super::memo::Memo::new(self.functions.len());
    }

    pub(super) fn forget_calls(&mut self) {
        for site in std::mem::take(&mut self.resolved) {
            let function = &mut self.functions[site.function.0 as usize];
            let op = &mut function.blocks[site.at.block.0 as usize].ops[site.at.index as usize];
            if let OpKind::Call(call) = &mut op.kind {
                call.targets.clear();
            }
        }
        for op in self.functions.iter_mut().flat_map(|f| &mut f.blocks).flat_map(|b| &mut b.ops) {
            if let OpKind::Call(call) = &mut op.kind {
                call.effect = None;
            }
        }
    }

    pub(super) fn fill_targets(&mut self) {
        let mut found: Vec<(crate::ir::Site, Vec<FunctionId>)> = Vec::new();
        for (id, function) in self.functions() {
            for (at, _, call) in function.calls() {
                let mut targets = self.targets_with(&mut Infer::new(self), id, call);
                targets.sort();
                targets.dedup();
                if !targets.is_empty() {
                    found.push((crate::ir::Site { function: id, at }, targets));
                }
            }
        }
        self.resolved = found.iter().map(|(site, _)| *site).collect();
        for (site, targets) in found {
            for target in &targets {
                if let Some(list) = self.index.callers.get_mut(target.0 as usize) {
                    list.push(site);
                }
            }
            let function = &mut self.functions[site.function.0 as usize];
            let op = &mut function.blocks[site.at.block.0 as usize].ops[site.at.index as usize];
            if let OpKind::Call(call) = &mut op.kind {
                call.targets = targets;
            }
        }
    }
}
