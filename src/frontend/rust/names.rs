//! Names: paths as written to full paths, as far as one file shows.

use super::parse;
use crate::ir::{Ty, UseDef};
use proc_macro2::{Delimiter, TokenTree};
use std::collections::{HashMap, HashSet};
use syn::{Item, Stmt, UseTree, Visibility};

/// One module of the file.
#[derive(Default)]
struct Module {
    uses: HashMap<String, String>,
    globs: Vec<String>,
    items: HashSet<String>,
}

/// Items and `use`s of one block in a function body.
#[derive(Default)]
struct BlockNames {
    uses: HashMap<String, String>,
    globs: Vec<String>,
    items: HashMap<String, String>,
}

/// All names of a file, and where in it we are.
pub(super) struct Names {
    krate: String,
    modules: HashMap<String, Module>,
    /// Path of the module we are in.
    pub(super) module: String,
    /// What `Self` is.
    pub(super) owner: Option<String>,
    /// Associated types of the `impl` we are in.
    pub(super) associated: Vec<(String, Ty)>,
    /// Generic parameters in scope: never resolved.
    pub(super) params: Vec<String>,
    blocks: Vec<BlockNames>,
    /// All `use` declarations seen, for linking.
    pub(super) declared: Vec<UseDef>,
}

/// Chains of `use` that are followed at most.
const MAX_HOPS: usize = 8;

impl Names {
    /// Names of a file whose root module is `module`.
    pub(super) fn new(krate: &str, module: &str, items: &[Item]) -> Names {
        let mut names = Names {
            krate: krate.to_owned(),
            modules: HashMap::new(),
            module: module.to_owned(),
            owner: None,
            associated: Vec::new(),
            params: Vec::new(),
            blocks: Vec::new(),
            declared: Vec::new(),
        };
        let mut pending: Vec<(String, &[Item])> = vec![(module.to_owned(), items)];
        while let Some((path, items)) = pending.pop() {
            let mut found = Module::default();
            for item in items {
                if let Item::Use(item) = item {
                    for (name, target) in flatten(&item.tree) {
                        let target = names.absolute(&path, &target);
                        let public = !matches!(item.vis, Visibility::Inherited);
                        names.declared.push(UseDef {
                            module: path.clone(),
                            name: name.clone(),
                            path: target.clone(),
                            public,
                        });
                        match name.as_str() {
                            "*" => found.globs.push(target),
                            "_" => {}
                            _ => {
                                found.uses.insert(name, target);
                            }
                        }
                    }
                } else if let Item::Mod(item) = item {
                    let name = ident(&item.ident);
                    if let Some((_, inner)) = &item.content {
                        pending.push((format!("{path}::{name}"), inner));
                    }
                    found.items.insert(name);
                } else if let Item::ExternCrate(item) = item
                    && let Some((_, rename)) = &item.rename
                {
                    found.uses.insert(ident(rename), ident(&item.ident));
                } else if let Item::Macro(item) = item
                    && item.ident.is_none()
                {
                    found.items.extend(macro_items(&item.mac));
                } else if let Some(name) = item_name(item) {
                    if let Item::Enum(item) = item {
                        // `use Kind::*` reads an enum as a module.
                        let items = item.variants.iter().map(|v| ident(&v.ident)).collect();
                        names.modules.insert(format!("{path}::{name}"), Module { items, ..Module::default() });
                    }
                    found.items.insert(name);
                }
            }
            names.modules.insert(path, found);
        }
        let resolved: Vec<(String, Vec<String>)> = names
            .modules
            .iter()
            .map(|(path, module)| (path.clone(), module.globs.iter().map(|g| names.through(path, g, "")).collect()))
            .collect();
        for (path, globs) in resolved {
            if let Some(module) = names.modules.get_mut(&path) {
                module.globs = globs;
            }
        }
        for at in 0..names.declared.len() {
            let entry = &names.declared[at];
            let (module, name, path) = (entry.module.clone(), entry.name.clone(), entry.path.clone());
            names.declared[at].path = names.through(&module, &path, &name);
        }
        names.declared.sort_by(|a, b| (&a.module, &a.name, &a.path).cmp(&(&b.module, &b.name, &b.path)));
        names
    }

    /// Enters a block: its own items (below `owner_path`) and `use`s become visible. Must be left by [`Names::leave_block`].
    pub(super) fn enter_block(&mut self, stmts: &[Stmt], owner_path: &str) {
        let mut block = BlockNames::default();
        for stmt in stmts {
            if let Stmt::Macro(stmt) = stmt {
                let names = statics(&stmt.mac).into_iter();
                block.items.extend(names.map(|name| (name.clone(), format!("{owner_path}::{name}"))));
            }
            let Stmt::Item(item) = stmt else { continue };
            if let Item::Use(item) = item {
                for (name, target) in flatten(&item.tree) {
                    let target = self.through(&self.module, &self.absolute(&self.module, &target), &name);
                    let entry =
                        UseDef { module: self.module.clone(), name: name.clone(), path: target.clone(), public: false };
                    if !self.declared.contains(&entry) {
                        self.declared.push(entry);
                    }
                    match name.as_str() {
                        "*" => block.globs.push(target),
                        "_" => {}
                        _ => {
                            block.uses.insert(name, target);
                        }
                    }
                }
            } else if let Some(name) = item_name(item) {
                block.items.insert(name.clone(), format!("{owner_path}::{name}"));
            }
        }
        self.blocks.push(block);
    }

    /// Leaves the innermost block.
    pub(super) fn leave_block(&mut self) {
        self.blocks.pop();
    }

    /// The module around a module; the crate for its root.
    fn parent_module(&self, module: &str) -> String {
        match module.rsplit_once("::") {
            Some((parent, _)) => parent.to_owned(),
            None => self.krate.clone(),
        }
    }

    /// Makes `crate`, `self` and `super` absolute; leaves other paths as they are.
    fn absolute(&self, module: &str, segments: &[String]) -> String {
        let mut rest = segments;
        let mut base: Option<String> = None;
        while let Some(first) = rest.first() {
            match first.as_str() {
                "crate" if base.is_none() => base = Some(self.krate.clone()),
                "self" if base.is_none() => base = Some(module.to_owned()),
                "super" => base = Some(self.parent_module(base.as_deref().unwrap_or(module))),
                _ => break,
            }
            rest = &rest[1..];
        }
        match base {
            Some(base) if rest.is_empty() => base,
            Some(base) => format!("{base}::{}", rest.join("::")),
            None => rest.join("::"),
        }
    }

    /// Resolves a path as written at the current place.
    pub(super) fn resolve(&self, segments: &[String], leading_colon: bool) -> String {
        let Some(first) = segments.first() else { return String::new() };
        if leading_colon {
            return segments.join("::");
        }
        if first == "Self" {
            let base = self.owner.clone().unwrap_or_else(|| "Self".into());
            return join(&base, &segments[1..]);
        }
        if matches!(first.as_str(), "crate" | "self" | "super") && segments.len() > 1 {
            let path = self.absolute(&self.module, segments);
            return self.within(&path);
        }
        if self.params.iter().any(|p| p == first) {
            return segments.join("::");
        }
        for block in self.blocks.iter().rev() {
            if let Some(item) = block.items.get(first) {
                return join(item, &segments[1..]);
            }
            if let Some(target) = block.uses.get(first)
                && !(segments.len() > 1 && names_only_a_value(first, target))
            {
                return normal(&join(&self.through(&self.module, target, first), &segments[1..]));
            }
            if let Some(target) = block.globs.iter().find_map(|glob| self.in_module(glob, first, 0)) {
                return join(&target, &segments[1..]);
            }
        }
        normal(&self.through(&self.module, &segments.join("::"), ""))
    }

    /// Follows `use`s from the first segment of `path`, seen from `module`. `own` is the name that the path is bound to: it
    /// does not lead to itself.
    fn through(&self, module: &str, path: &str, own: &str) -> String {
        let mut path = path.to_owned();
        let mut own = own.to_owned();
        for _ in 0..MAX_HOPS {
            let (first, rest) = path.split_once("::").map_or((path.as_str(), ""), |(f, r)| (f, r));
            if first == own {
                break;
            }
            let Some(target) = self.in_module(module, first, 0) else { break };
            if !rest.is_empty() && names_only_a_value(first, &target) {
                break;
            }
            let next = if rest.is_empty() { target.clone() } else { format!("{target}::{rest}") };
            if next == path {
                break;
            }
            own = first.to_owned();
            path = next;
        }
        self.within(&path)
    }

    /// What a name means in a module of this file: item, `use`, or through a glob of a module of this file.
    fn in_module(&self, module: &str, name: &str, depth: usize) -> Option<String> {
        let found = self.modules.get(module)?;
        if let Some(target) = found.uses.get(name) {
            return Some(target.clone());
        }
        if found.items.contains(name) {
            return Some(format!("{module}::{name}"));
        }
        if depth >= MAX_HOPS {
            return None;
        }
        found.globs.iter().find_map(|glob| self.in_module(glob, name, depth + 1))
    }

    /// A full path that goes through a `use` of a module of this file (`crate::m::Alias` where `m` is inline).
    fn within(&self, path: &str) -> String {
        let Some((module, name)) = path.rsplit_once("::") else { return path.to_owned() };
        match self.modules.get(module).and_then(|m| m.uses.get(name)) {
            Some(target) if target != path => target.clone(),
            _ => path.to_owned(),
        }
    }
}

/// `use anyhow::anyhow;` brings in a macro or function: the crate of the same name stays what `anyhow::Result` begins with.
fn names_only_a_value(name: &str, target: &str) -> bool {
    target.strip_prefix(name).is_some_and(|rest| rest.starts_with("::"))
}

fn join(base: &str, rest: &[String]) -> String {
    if rest.is_empty() { base.to_owned() } else { format!("{base}::{}", rest.join("::")) }
}

/// The prelude's variants are bare, however they are written.
fn normal(path: &str) -> String {
    if let Some((prefix, name)) = path.rsplit_once("::") {
        let owner = prefix.rsplit("::").next().unwrap_or(prefix);
        let known = match name {
            "Some" | "None" => matches!(owner, "Option" | "option" | "v1"),
            "Ok" | "Err" => matches!(owner, "Result" | "result" | "v1" | "anyhow" | "eyre"),
            _ => false,
        };
        if known {
            return name.to_owned();
        }
    }
    path.to_owned()
}

/// An identifier without `r#`.
pub(super) fn ident(ident: &syn::Ident) -> String {
    let text = ident.to_string();
    match text.strip_prefix("r#") {
        Some(bare) => bare.to_owned(),
        None => text,
    }
}

/// Segments of a path.
pub(super) fn segments(path: &syn::Path) -> Vec<String> {
    path.segments.iter().map(|s| ident(&s.ident)).collect()
}

fn item_name(item: &Item) -> Option<String> {
    Some(ident(match item {
        Item::Const(i) => &i.ident,
        Item::Enum(i) => &i.ident,
        Item::Fn(i) => &i.sig.ident,
        Item::Static(i) => &i.ident,
        Item::Struct(i) => &i.ident,
        Item::Trait(i) => &i.ident,
        Item::TraitAlias(i) => &i.ident,
        Item::Type(i) => &i.ident,
        Item::Union(i) => &i.ident,
        Item::Mod(i) => &i.ident,
        Item::Macro(i) => i.ident.as_ref()?,
        _ => return None,
    }))
}

/// Names of the items that a macro invocation in item position makes, as far as its tokens show them.
fn macro_items(mac: &syn::Macro) -> Vec<String> {
    let mut names = statics(mac);
    if names.is_empty() && !parse::too_deep(&mac.tokens) {
        let braces = mac.tokens.clone().into_iter().filter_map(|token| match token {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => Some(group.stream()),
            _ => None,
        });
        let files = std::iter::once(mac.tokens.clone()).chain(braces).filter_map(|t| syn::parse2::<syn::File>(t).ok());
        names.extend(files.flat_map(|file| file.items).filter_map(|item| item_name(&item)));
    }
    names
}

/// Names of `static [ref] NAME` in `lazy_static!` and its kin.
fn statics(mac: &syn::Macro) -> Vec<String> {
    let known = ["lazy_static", "thread_local", "task_local"];
    if !mac.path.segments.last().is_some_and(|s| known.iter().any(|name| s.ident == name)) {
        return Vec::new();
    }
    let words = mac.tokens.clone().into_iter().map(|token| match token {
        TokenTree::Ident(word) => ident(&word),
        _ => String::new(),
    });
    let words: Vec<String> = words.collect();
    let after = |at: usize| words.get(at + 1).filter(|word| *word != "ref").or_else(|| words.get(at + 2));
    (0..words.len()).filter(|at| words[*at] == "static").filter_map(after).cloned().collect()
}

/// Names that a `use` tree introduces, with their paths as written. `*` for globs, `_` for `as _`.
fn flatten(tree: &UseTree) -> Vec<(String, Vec<String>)> {
    let mut out = Vec::new();
    let mut pending: Vec<(Vec<String>, &UseTree)> = vec![(Vec::new(), tree)];
    while let Some((prefix, tree)) = pending.pop() {
        let with = |name: String| {
            let mut path = prefix.clone();
            path.push(name);
            path
        };
        match tree {
            UseTree::Path(path) => pending.push((with(ident(&path.ident)), &path.tree)),
            UseTree::Name(name) => {
                let name = ident(&name.ident);
                if name == "self" && !prefix.is_empty() {
                    out.push((prefix[prefix.len() - 1].clone(), prefix));
                } else {
                    out.push((name.clone(), with(name)));
                }
            }
            UseTree::Rename(rename) => {
                let name = ident(&rename.ident);
                let target = if name == "self" && !prefix.is_empty() { prefix.clone() } else { with(name) };
                out.push((ident(&rename.rename), target));
            }
            UseTree::Glob(_) => out.push(("*".into(), prefix)),
            UseTree::Group(group) => pending.extend(group.items.iter().map(|item| (prefix.clone(), item))),
        }
    }
    out
}
