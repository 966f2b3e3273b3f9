//! Linking: one [`Program`] out of all units. Resolves names, infers types, evaluates values across files.
//!
//! Nothing here knows a client crate by name: re-exports, known return types, fresh sources and the like are rows of
//! `rules/models/types.toml` and `rules/models/values.toml`.
//!
//! # Frames
//! Every [`Value`] is in the terms of one function: `Param(i)` is its parameter `i` (`self` is 0). A closure or async
//! block has its captures as further parameters after its own: capture `j` is `Param(params.len() + j)`;
//! [`Program::outer`] rewrites such a value in the terms of the function around it.

mod calls;
mod chain;
mod expected;
mod fields;
mod flow;
mod fold;
mod index;
pub mod matching;
mod memo;
mod methods;
mod names;
mod rebuild;
mod tables;
mod targets;
#[cfg(test)]
mod tests;
mod types;
mod values;

use crate::ir::{
    Call, Function, FunctionId, ImplDef, OpKind, OpRef, Operand, Rvalue, Site, Ty, TypeDef, Unit, UseDef, Value, Var,
};
use crate::source::{Problem, Sources, Span};

/// The linked workspace.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// All files.
    pub sources: Sources,
    /// All functions, in the order of the units; [`FunctionId`]s index this.
    pub functions: Vec<Function>,
    /// All structs, enums, traits, aliases.
    pub types: Vec<TypeDef>,
    /// All `impl` blocks.
    pub impls: Vec<ImplDef>,
    /// All `use`s that names travel through.
    pub uses: Vec<UseDef>,
    /// `mod x;` declarations: full module path and `#[path]`.
    pub modules: Vec<(String, Option<String>)>,
    /// Unique keys of the database schema, where `.sql` files say them; set by whoever has read those.
    pub schema: crate::frontend::sql::schema::SchemaFacts,
    /// What the front ends could not read.
    pub problems: Vec<Problem>,
    /// Opaque places with lock words.
    pub opaque: Vec<Span>,
    index: index::Index,
    memo: memo::Memo,
    /// Calls whose targets linking has filled in.
    resolved: Vec<Site>,
}

impl Program {
    /// Joins the units to one program: renumbers functions, builds the indexes, fills [`Call::targets`].
    /// The order of `units` decides the ids, so the same units in the same order give the same program.
    pub fn link(sources: Sources, units: Vec<Unit>) -> Program {
        let mut program = Program::default();
        program.join(sources, units);
        program
    }

    /// Adds further units, whose files are in `sources` beside all earlier ones. What was known of calls (targets and effects)
    /// is found anew, since the new units may say more.
    pub fn join(&mut self, sources: Sources, units: Vec<Unit>) {
        self.sources = sources;
        self.forget_calls();
        for unit in units {
            let base = self.functions.len() as u32;
            for mut function in unit.functions {
                renumber(&mut function, base);
                self.functions.push(function);
            }
            self.types.extend(unit.types);
            self.impls.extend(unit.impls);
            self.uses.extend(unit.uses);
            self.modules.extend(unit.modules);
            self.problems.extend(unit.problems);
            self.opaque.extend(unit.opaque);
        }
        self.index = index::Index::default();
        self.index = index::Index::build(self);
        self.memo = memo::Memo::new(self.functions.len());
        self.fill_targets();
    }

    /// The function of an id.
    pub fn function(&self, id: FunctionId) -> &Function {
        &self.functions[id.0 as usize]
    }

    /// All functions with their ids, in id order.
    pub fn functions(&self) -> impl Iterator<Item = (FunctionId, &Function)> {
        self.functions.iter().enumerate().map(|(i, f)| (FunctionId(i as u32), f))
    }

    /// Functions with this full path (several under different `cfg`s).
    pub fn find_path(&self, path: &str) -> Vec<FunctionId> {
        self.index.by_path.get(path).cloned().unwrap_or_default()
    }

    /// Methods and associated functions `name` of the type: its own `impl`s first, then traits implemented for it.
    pub fn methods(&self, type_path: &str, name: &str) -> Vec<FunctionId> {
        self.index.methods.get(type_path).and_then(|m| m.get(name)).cloned().unwrap_or_default()
    }

    /// Bodies of `method` in all impls of the trait, and its default body.
    pub fn implementations(&self, trait_path: &str, method: &str) -> Vec<FunctionId> {
        self.index.trait_methods.get(trait_path).and_then(|m| m.get(method)).cloned().unwrap_or_default()
    }

    /// The calls that may reach a function.
    pub fn callers(&self, id: FunctionId) -> &[Site] {
        self.index.callers.get(id.0 as usize).map_or(&[], Vec::as_slice)
    }

    /// `fn drop` of the type's `impl Drop`.
    pub fn drop_of(&self, type_path: &str) -> Option<FunctionId> {
        self.index.drops.get(type_path).copied()
    }

    /// Traits of other crates that a type of the workspace implements.
    pub fn foreign_traits(&self, type_path: &str) -> Vec<String> {
        let all = self.index.traits_of.get(type_path).into_iter().flatten();
        all.filter(|path| path.contains("::") && self.type_def(path).is_none()).cloned().collect()
    }

    /// Where the type is constructed by a struct literal or tuple-struct call.
    pub fn struct_sites(&self, type_path: &str) -> &[Site] {
        self.index.struct_sites.get(type_path).map_or(&[], Vec::as_slice)
    }

    /// The op that makes a closure or async block (in its [`Function::parent`]).
    pub fn closure_site(&self, id: FunctionId) -> Option<Site> {
        self.index.closure_sites.get(&id).copied()
    }

    /// Closures and async blocks directly inside a function.
    pub fn children(&self, id: FunctionId) -> &[FunctionId] {
        self.index.children.get(id.0 as usize).map_or(&[], Vec::as_slice)
    }

    /// The struct, enum, trait or alias of a canonical path.
    pub fn type_def(&self, path: &str) -> Option<&TypeDef> {
        self.index.types.get(path).map(|i| &self.types[*i])
    }

    /// The canonical path of a path as the front end left it, seen from `function`'s module: `use`, globs, `pub use`
    /// chains, aliases and known re-exports of client crates are followed.
    pub fn resolve(&self, function: FunctionId, path: &str) -> String {
        self.index.names.canonical(&self.function(function).module, path)
    }

    /// What the operand can be, in the terms of `function`. `Ok(x)`, `.await`, `?`, references and conversions are seen
    /// through; `Some(x)` stays an [`Value::Aggregate`] where it is written and is peeled by patterns and `unwrap`s.
    pub fn value(&self, function: FunctionId, operand: &Operand) -> Value {
        values::Eval::new(self).operand(function, operand)
    }

    /// Like [`Program::value`] at the op `at`, for builders: later statements that change the variable
    /// (`cmd.arg(k);`, `if x { cmd.arg("NX"); }`) before `at` are folded into the chain in statement order;
    /// steps in blocks that do not dominate `at` are marked [`crate::ir::CallValue::conditional`].
    pub fn chain(&self, function: FunctionId, operand: &Operand, at: OpRef) -> Value {
        self.chain_of(function, operand, at)
    }

    /// The canonical path of the call that a chain of method calls begins with (`redis::cmd`), or the type of the variable
    /// or field that it begins with, found without evaluating the chain: a chain of a thousand steps is asked at each of them.
    pub fn chain_start(&self, function: FunctionId, operand: &Operand) -> Option<String> {
        self.start_of(function, operand)
    }

    /// What the function returns, in its own terms: all `return`s joined, `Err(..)` left out.
    pub fn return_value(&self, function: FunctionId) -> Value {
        values::Eval::new(self).result(function)
    }

    /// A callee's value in the terms of the caller: parameters replaced by the call's arguments.
    pub fn instantiate(&self, value: &Value, call: &Call, caller: FunctionId) -> Value {
        self.instantiate_with(value, call, caller)
    }

    /// The value of a closure or async block in the terms of its parent (captures replaced); its own parameters become
    /// [`Value::Local`]s of the closure. `None` when the function is no closure.
    pub fn outer(&self, function: FunctionId, value: &Value) -> Option<(FunctionId, Value)> {
        self.outer_of(function, value)
    }

    /// The value with every field of a typed parameter as [`Value::TypeField`] (`self.key` of `lock::Lease` ->
    /// `TypeField("lock::Lease", "key")`), so that it can be compared across functions.
    pub fn absolute(&self, function: FunctionId, value: &Value) -> Value {
        self.absolute_of(function, value)
    }

    /// What is stored in a field by all constructors and setters of the type, each in the terms of its function.
    pub fn field_values(&self, type_path: &str, field: &str) -> Vec<(FunctionId, Value)> {
        self.stored_in(type_path, field)
    }

    /// Inferred type of an operand: references stripped, wrappers (`Arc`, `Result`, `Option`) kept.
    /// Generic parameters stay by name; what they may be is up to [`Program::receiver`].
    pub fn ty(&self, function: FunctionId, operand: &Operand) -> Ty {
        types::Infer::new(self).operand(function, operand)
    }

    /// The type methods are looked up on: [`Program::ty`] without `Arc`, `Box`, lock guards, futures and the like.
    pub fn receiver(&self, function: FunctionId, operand: &Operand) -> Ty {
        self.peeled(function, self.ty(function, operand))
    }

    fn peeled(&self, function: FunctionId, ty: Ty) -> Ty {
        let mut ty = types::awaited(&ty);
        for _ in 0..8 {
            let wrapped = tables::tables().is_wrapper(&ty) || ty.last() == "Option" || ty.last().ends_with("Result");
            match self.deref(function, &ty) {
                Some(next) if wrapped && !self.index.types.contains_key(&ty.path) => ty = next,
                _ => break,
            }
        }
        ty
    }

    /// The payload type that a call's result is used as: the `T` that remains when `Future`, and the `Result` layer of
    /// the call itself, are taken off. `let ok: bool = c.await?`, `let r: Result<bool, _> = c.await;` and a tail
    /// `c.await` in `fn f() -> RedisResult<bool>` all give `bool`. `let x: Option<String> = c.await?` gives
    /// `Option<String>`. Unknown when nothing says.
    pub fn expected(&self, function: FunctionId, dst: Var) -> Ty {
        self.expected_of(function, dst)
    }
}

/// Adds `base` to every function id in `function`.
fn renumber(function: &mut Function, base: u32) {
    if let Some(parent) = &mut function.parent {
        parent.0 += base;
    }
    for op in function.blocks.iter_mut().flat_map(|b| &mut b.ops) {
        match &mut op.kind {
            OpKind::Let(Rvalue::Closure(id, _)) => id.0 += base,
            OpKind::Call(call) => call.targets.iter_mut().for_each(|id| id.0 += base),
            _ => {}
        }
    }
}
