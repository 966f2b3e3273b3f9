//! Names: paths as the front end left them to canonical paths.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::RwLock;

use super::Program;
use super::tables::tables;
use crate::ir::{FunctionKind, Ty, TypeKind};

/// How often a path may be rewritten before it is taken as it is (`pub use` cycles).
const REWRITES: usize = 16;

/// What is known of the workspace's names.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    /// Paths of modules, types and functions. Aliases carry their target.
    known: HashMap<String, Option<Ty>>,
    /// Generic parameter names of aliases.
    alias_generics: HashMap<String, Vec<String>>,
    modules: HashSet<String>,
    /// Module -> name -> path.
    uses: HashMap<String, BTreeMap<String, String>>,
    /// Module -> paths of its globs.
    globs: HashMap<String, Vec<String>>,
    crates: HashSet<String>,
    cache: Cache,
}

/// What a path means, once found. Module -> path as written -> meaning.
#[derive(Debug, Default)]
struct Cache(RwLock<HashMap<String, HashMap<String, Meaning>>>);

impl Clone for Cache {
    fn clone(&self) -> Cache {
        Cache::default()
    }
}

#[derive(Clone, Debug)]
struct Meaning {
    canonical: String,
    /// Path of the first alias that the path goes through to its end, if it is one.
    alias: Option<String>,
}

impl Names {
    pub(super) fn build(program: &Program) -> Names {
        let mut names = Names::default();
        for function in &program.functions {
            names.add_module(&function.module);
            if matches!(function.kind, FunctionKind::Item | FunctionKind::Const | FunctionKind::Drop) {
                names.known.entry(function.path.clone()).or_insert(None);
            }
        }
        for (module, _) in &program.modules {
            names.add_module(module);
        }
        for def in &program.types {
            if let Some((module, _)) = def.path.rsplit_once("::") {
                names.add_module(module);
            }
            let alias = (def.kind == TypeKind::Alias).then(|| def.fields.first().map(|f| f.1.clone())).flatten();
            if alias.is_some() {
                names.alias_generics.insert(def.path.clone(), def.generics.iter().map(|g| g.0.clone()).collect());
            }
            names.known.insert(def.path.clone(), alias);
        }
        for used in &program.uses {
            names.add_module(&used.module);
            if used.name == "*" {
                let list = names.globs.entry(used.module.clone()).or_default();
                if !list.contains(&used.path) {
                    list.push(used.path.clone());
                }
            } else if used.name != "_" {
                let map = names.uses.entry(used.module.clone()).or_default();
                map.entry(used.name.clone()).or_insert_with(|| used.path.clone());
            }
        }
        names
    }

    fn add_module(&mut self, module: &str) {
        if module.is_empty() || self.modules.contains(module) {
            return;
        }
        self.modules.insert(module.to_owned());
        match module.rsplit_once("::") {
            Some((parent, _)) => self.add_module(parent),
            None => {
                self.crates.insert(module.to_owned());
            }
        }
    }

    fn exists(&self, path: &str) -> bool {
        self.known.contains_key(path) || self.modules.contains(path)
    }

    /// Canonical path of `path` as seen from `module`.
    pub(super) fn canonical(&self, module: &str, path: &str) -> String {
        self.meaning(module, path, |meaning| meaning.canonical.clone())
    }

    fn meaning<T>(&self, module: &str, path: &str, take: impl Fn(&Meaning) -> T) -> T {
        if let Ok(cache) = self.cache.0.read()
            && let Some(found) = cache.get(module).and_then(|m| m.get(path))
        {
            return take(found);
        }
        let found = self.find(module, path);
        let out = take(&found);
        if let Ok(mut cache) = self.cache.0.write() {
            match cache.get_mut(module) {
                Some(paths) => {
                    paths.insert(path.to_owned(), found);
                }
                None => {
                    cache.insert(module.to_owned(), HashMap::from([(path.to_owned(), found)]));
                }
            }
        }
        out
    }

    fn find(&self, module: &str, path: &str) -> Meaning {
        let mut path = tables().reexport(path.trim_start_matches("::").to_owned());
        let mut module = module.to_owned();
        let mut alias = None;
        for _ in 0..REWRITES {
            if alias.is_none() && matches!(self.known.get(&path), Some(Some(_))) {
                alias = Some(path.clone());
            }
            match self.step(&module, &path) {
                Some((next_module, next)) => {
                    module = next_module;
                    path = tables().reexport(next);
                }
                None => break,
            }
        }
        Meaning { canonical: path, alias }
    }

    /// One rewrite: the module the new path is seen from, and the new path.
    fn step(&self, module: &str, path: &str) -> Option<(String, String)> {
        let (first, rest) = match path.split_once("::") {
            Some((first, rest)) => (first, Some(rest)),
            None => (path, None),
        };
        if first.is_empty() || first.starts_with(['(', '[']) {
            return None;
        }
        if self.crates.contains(first) {
            return self.walk(path, 0);
        }
        let local = format!("{module}::{first}");
        if !module.is_empty() && self.exists(&local) {
            return Some((module.to_owned(), format!("{module}::{path}")));
        }
        let (from, target) = self.introduced(module, first, 0)?;
        let next = join(&target, rest);
        (next != path).then_some((from, next))
    }

    /// Follows an absolute workspace path to the first segment that a `use` or an alias introduces.
    /// `depth` counts the globs that asked for it: a glob of a module that does not exist may lead back to itself.
    fn walk(&self, path: &str, depth: usize) -> Option<(String, String)> {
        let mut end = path.find("::").unwrap_or(path.len());
        loop {
            if let Some(Some(alias)) = self.known.get(&path[..end])
                && !alias.path.starts_with(['(', '['])
            {
                let module = path[..end].rsplit_once("::").map_or("", |p| p.0);
                let rest = path[end..].strip_prefix("::");
                let next = join(&alias.path, rest);
                return (next != path).then(|| (module.to_owned(), next));
            }
            if end == path.len() {
                return None;
            }
            let next = path[end + 2..].find("::").map_or(path.len(), |n| end + 2 + n);
            if !self.exists(&path[..next]) {
                let (name, rest) = (&path[end + 2..next], path[next..].strip_prefix("::"));
                if !self.modules.contains(&path[..end]) {
                    return None;
                }
                let (from, target) = self.introduced(&path[..end], name, depth)?;
                let new = join(&target, rest);
                return (new != path).then_some((from, new));
            }
            end = next;
        }
    }

    /// What `name` means in `module` through its `use`s and globs: (module the path is seen from, path).
    fn introduced(&self, module: &str, name: &str, depth: usize) -> Option<(String, String)> {
        if let Some(target) = self.uses.get(module).and_then(|m| m.get(name)) {
            return Some((module.to_owned(), target.clone()));
        }
        if depth > 4 {
            return None;
        }
        for glob in self.globs.get(module)? {
            let inside = self.absolute(module, glob, depth + 1);
            if inside == module {
                continue;
            }
            let candidate = format!("{inside}::{name}");
            if self.exists(&candidate) {
                return Some((inside, candidate));
            }
            if let Some(found) = self.introduced(&inside, name, depth + 1) {
                return Some(found);
            }
            if let Some(path) = tables().in_glob(glob, name) {
                return Some((module.to_owned(), path));
            }
        }
        None
    }

    /// A glob's path made absolute: a child module of `module`, or as it stands.
    fn absolute(&self, module: &str, path: &str, depth: usize) -> String {
        let local = format!("{module}::{path}");
        if self.exists(&local) {
            return local;
        }
        if self.exists(path) {
            return path.to_owned();
        }
        match self.walk(path, depth) {
            Some((_, next)) => next,
            None => path.to_owned(),
        }
    }

    /// A type with all its paths canonical and workspace aliases replaced by their targets.
    pub(super) fn canonical_ty(&self, module: &str, ty: &Ty) -> Ty {
        self.canonical_ty_at(module, ty, 0)
    }

    fn canonical_ty_at(&self, module: &str, ty: &Ty, depth: usize) -> Ty {
        if depth > 8 || ty.is_unknown() {
            return ty.clone();
        }
        let args: Vec<Ty> = ty.args.iter().map(|arg| self.canonical_ty_at(module, arg, depth + 1)).collect();
        if matches!(ty.path.as_str(), "()" | "[]" | "fn" | "impl" | "dyn") {
            return Ty { path: ty.path.clone(), args };
        }
        let meaning = self.meaning(module, &ty.path, Meaning::clone);
        if let Some(path) = &meaning.alias
            && let Some(Some(target)) = self.known.get(path)
            && let Some((home, _)) = path.rsplit_once("::")
        {
            let generics = self.alias_generics.get(path).map_or(&[][..], Vec::as_slice);
            return substitute(&self.canonical_ty_at(home, target, depth + 1), &|name| {
                generics.iter().position(|g| g == name).map(|i| args.get(i).cloned().unwrap_or_default())
            });
        }
        Ty { path: meaning.canonical, args }
    }
}

/// `head::rest`.
fn join(head: &str, rest: Option<&str>) -> String {
    match rest {
        Some(rest) => format!("{head}::{rest}"),
        None => head.to_owned(),
    }
}

/// Replaces every argument-less path for which `map` answers.
pub(super) fn substitute(ty: &Ty, map: &dyn Fn(&str) -> Option<Ty>) -> Ty {
    if ty.args.is_empty() {
        return map(&ty.path).unwrap_or_else(|| ty.clone());
    }
    Ty { path: ty.path.clone(), args: ty.args.iter().map(|arg| substitute(arg, map)).collect() }
}
