//! Indexes over the linked program.

use std::collections::{HashMap, HashSet};

use super::Program;
use super::names::Names;
use crate::ir::{Callee, FunctionId, FunctionKind, OpKind, Rvalue, Site, TypeDef, TypeKind, Var};

/// Type or trait -> member name -> functions.
pub(super) type Members = HashMap<String, HashMap<String, Vec<FunctionId>>>;

/// Everything that is looked up by name.
#[derive(Clone, Debug, Default)]
pub(super) struct Index {
    pub(super) names: Names,
    pub(super) by_path: HashMap<String, Vec<FunctionId>>,
    /// Name of a free const or static -> its definitions.
    pub(super) consts: HashMap<String, Vec<FunctionId>>,
    /// (type, method) -> bodies, inherent first.
    pub(super) methods: Members,
    /// (trait, method) -> bodies in impls, and the default body.
    pub(super) trait_methods: Members,
    /// Method name -> all functions with a `self` parameter.
    pub(super) by_name: HashMap<String, Vec<FunctionId>>,
    /// Type -> traits implemented for it.
    pub(super) traits_of: HashMap<String, Vec<String>>,
    /// Enum that hands its calls on to what it holds -> traits whose methods it has by that (`enum_dispatch`).
    pub(super) dispatch: HashMap<String, Vec<String>>,
    /// Trait -> number of types that implement it.
    pub(super) implementors: HashMap<String, usize>,
    /// Default bodies of trait methods.
    pub(super) defaults: HashSet<FunctionId>,
    /// Type -> indexes of its impl blocks.
    pub(super) impls_of: HashMap<String, Vec<usize>>,
    pub(super) types: HashMap<String, usize>,
    pub(super) drops: HashMap<String, FunctionId>,
    pub(super) struct_sites: HashMap<String, Vec<Site>>,
    pub(super) closure_sites: HashMap<FunctionId, Site>,
    /// Variable that a closure is first stored in.
    pub(super) closure_vars: HashMap<FunctionId, Var>,
    pub(super) children: Vec<Vec<FunctionId>>,
    pub(super) callers: Vec<Vec<Site>>,
    /// Bodies of `macro_rules!` by path.
    pub(super) macros: HashMap<String, Vec<FunctionId>>,
    /// (type, field) -> `Store` ops on that field name, by field name only; types are checked by the reader.
    pub(super) stores: HashMap<String, Vec<Site>>,
}

impl Index {
    pub(super) fn build(program: &Program) -> Index {
        let mut index = Index { names: Names::build(program), ..Index::default() };
        index.children = vec![Vec::new(); program.functions.len()];
        index.callers = vec![Vec::new(); program.functions.len()];
        for (i, def) in program.types.iter().enumerate() {
            // The real type wins over one of the same path under `cfg(test)`.
            let slot = index.types.entry(def.path.clone()).or_insert(i);
            if program.types[*slot].test && !def.test {
                *slot = i;
            }
        }
        for (i, block) in program.impls.iter().enumerate() {
            let ty = index.names.canonical("", &block.self_ty.path);
            if let Some(trait_) = &block.trait_ {
                let trait_ = index.names.canonical("", trait_);
                let list = index.traits_of.entry(ty.clone()).or_default();
                if !list.contains(&trait_) {
                    *index.implementors.entry(trait_.clone()).or_default() += 1;
                    list.push(trait_);
                }
            }
            index.impls_of.entry(ty).or_default().push(i);
        }
        index.add_dispatch(program);
        for (id, function) in program.functions() {
            if function.kind == FunctionKind::Macro {
                // By crate and name: macros are found by the order of the text or at the root of their crate.
                let krate = function.module.split("::").next().unwrap_or_default();
                index.macros.entry(format!("{krate}::{}", function.name)).or_default().push(id);
            } else if function.kind != FunctionKind::SqlBody || function.has_body() {
                // A routine without body was defined anew by a later migration.
                index.by_path.entry(function.path.clone()).or_default().push(id);
            }
            if function.kind == FunctionKind::Const && function.owner.is_none() && function.parent.is_none() {
                index.consts.entry(function.name.clone()).or_default().push(id);
            }
            if let Some(parent) = function.parent
                && let Some(list) = index.children.get_mut(parent.0 as usize)
            {
                list.push(id);
            }
            if matches!(function.kind, FunctionKind::Item | FunctionKind::Drop | FunctionKind::Const) {
                index.add_member(program, id);
            }
            index.add_ops(program, id);
        }
        let inherent = |id: &FunctionId| program.function(*id).owner_trait.is_some();
        for list in index.methods.values_mut().flat_map(HashMap::values_mut) {
            list.sort_by_key(|id| (inherent(id), *id));
        }
        index
    }

    /// Enums under `#[enum_dispatch]`: every variant holds a type that implements the trait, and the macro writes the `match`
    /// (docs.rs/enum_dispatch, "Usage"). The trait carries the attribute too.
    fn add_dispatch(&mut self, program: &Program) {
        let marked = |kind: TypeKind| {
            let marked = move |def: &&TypeDef| def.kind == kind && def.attributes.iter().any(|a| a == "enum_dispatch");
            program.types.iter().filter(marked)
        };
        let traits: Vec<&str> = marked(TypeKind::Trait).map(|def| def.path.as_str()).collect();
        for def in marked(TypeKind::Enum) {
            let module = def.path.rsplit_once("::").map_or("", |p| p.0);
            let held: Vec<String> = def.fields.iter().map(|(_, ty)| self.names.canonical_ty(module, ty).path).collect();
            let of =
                |tr: &str| held.iter().filter_map(|ty| self.traits_of.get(ty)).any(|list| list.iter().any(|t| t == tr));
            let found: Vec<String> = traits.iter().filter(|tr| of(tr)).map(|tr| (*tr).to_owned()).collect();
            if !found.is_empty() {
                self.dispatch.insert(def.path.clone(), found);
            }
        }
    }

    fn add_member(&mut self, program: &Program, id: FunctionId) {
        let function = program.function(id);
        let module = function.module.as_str();
        let owner = function.owner.as_ref().map(|o| self.names.canonical(module, o));
        let trait_ = function.owner_trait.as_ref().map(|t| self.names.canonical(module, t));
        if let Some(owner) = &owner {
            // `by_path` must also know the method by its owner's canonical path.
            let path = format!("{owner}::{}", function.name);
            let list = self.by_path.entry(path).or_default();
            if !list.contains(&id) {
                list.push(id);
            }
            if function.kind == FunctionKind::Drop {
                self.drops.entry(owner.clone()).or_insert(id);
            }
            if Some(owner) != trait_.as_ref() {
                self.methods.entry(owner.clone()).or_default().entry(function.name.clone()).or_default().push(id);
            }
        }
        if let Some(trait_) = trait_ {
            let own = function.owner.as_deref().is_none_or(|o| o == "Self") || owner.as_ref() == Some(&trait_);
            if own && function.has_body() {
                self.defaults.insert(id);
            }
            self.trait_methods.entry(trait_).or_default().entry(function.name.clone()).or_default().push(id);
        }
        let method = function.params.first().is_some_and(|v| function.var(*v).name.as_deref() == Some("self"));
        if method && function.kind == FunctionKind::Item {
            self.by_name.entry(function.name.clone()).or_default().push(id);
        }
    }

    fn add_ops(&mut self, program: &Program, id: FunctionId) {
        let function = program.function(id);
        for (at, op) in function.ops() {
            let site = Site { function: id, at };
            match &op.kind {
                OpKind::Let(Rvalue::Closure(closure, _)) => {
                    self.closure_sites.insert(*closure, site);
                    if let Some(var) = op.dst {
                        self.closure_vars.insert(*closure, var);
                    }
                }
                OpKind::Let(Rvalue::Struct(path, ..) | Rvalue::Variant(path, _)) => {
                    self.add_struct_site(program, &function.module, path, site);
                }
                OpKind::Call(call) => {
                    if let Callee::Path(path) = &call.callee {
                        self.add_struct_site(program, &function.module, path, site);
                    }
                }
                OpKind::Store(_, field, _) => {
                    let name = field.rsplit('.').next().unwrap_or(field);
                    self.stores.entry(name.to_owned()).or_default().push(site);
                }
                _ => {}
            }
        }
    }

    fn add_struct_site(&mut self, program: &Program, module: &str, path: &str, site: Site) {
        let path = self.names.canonical(module, path);
        if self.types.get(&path).is_some_and(|i| program.types[*i].kind == TypeKind::Struct) {
            self.struct_sites.entry(path).or_default().push(site);
        }
    }
}
