//! The data tables of this layer: `rules/models/types.toml` (re-exports, result types of known calls, wrappers) and
//! `rules/models/values.toml` (sources of fresh values, identities, clocks; what is seen through).

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use serde::Deserialize;

use crate::ir::Ty;

static TABLES: LazyLock<Tables> = LazyLock::new(Tables::load);

/// The tables, parsed once.
pub(super) fn tables() -> &'static Tables {
    &TABLES
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct TypesFile {
    reexports: Vec<(String, String)>,
    globs: HashMap<String, Vec<String>>,
    wrappers: Vec<String>,
    deref: HashMap<String, String>,
    functions: HashMap<String, String>,
    macros: HashMap<String, String>,
    methods: HashMap<String, HashMap<String, String>>,
    turbofish: HashMap<String, String>,
    closures: HashMap<String, HashMap<String, String>>,
    elements: Vec<String>,
    common: Vec<String>,
    builders: HashMap<String, Vec<String>>,
    mocks: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ValuesFile {
    fresh: Sources,
    identity: Sources,
    wall_clock: Sources,
    monotonic_clock: Sources,
    env: Sources,
    once: Vec<String>,
    once_init: Vec<String>,
    see_through: SeeThrough,
    unwrap: Vec<String>,
    unwrap_with: Vec<String>,
    unwrap_or: Vec<String>,
    durations: HashMap<String, i64>,
    duration_reads: HashMap<String, i64>,
    env_identity: Vec<String>,
}

/// Calls that make a kind of value.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sources {
    /// Function paths, compared by their last two segments (one when only one is given).
    #[serde(default)]
    functions: Vec<String>,
    /// Method names that make it from any receiver.
    #[serde(default)]
    methods: Vec<String>,
    /// Macro names.
    #[serde(default)]
    macros: Vec<String>,
    /// Paths of unit values.
    #[serde(default)]
    paths: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct SeeThrough {
    methods: Vec<String>,
    functions: Vec<String>,
}

/// Parsed tables.
#[derive(Debug, Default)]
pub(super) struct Tables {
    types: TypesFile,
    values: ValuesFile,
    functions: HashMap<String, Ty>,
    macros: HashMap<String, Ty>,
    methods: HashMap<String, HashMap<String, Ty>>,
    closures: HashMap<String, HashMap<String, Ty>>,
    turbofish: HashMap<String, Ty>,
    deref: HashMap<String, Ty>,
    common: HashSet<String>,
    wrappers: HashSet<String>,
}

impl Tables {
    fn load() -> Tables {
        // A table that does not parse is a defect of this build, which the unit test below shows; at run time it is empty.
        let types: TypesFile = toml::from_str(include_str!("../../rules/models/types.toml")).unwrap_or_default();
        let values: ValuesFile = toml::from_str(include_str!("../../rules/models/values.toml")).unwrap_or_default();
        let all = |map: &HashMap<String, String>| map.iter().map(|(k, v)| (k.clone(), parse_ty(v))).collect();
        Tables {
            functions: all(&types.functions),
            macros: all(&types.macros),
            methods: types.methods.iter().map(|(k, v)| (k.clone(), all(v))).collect(),
            closures: types.closures.iter().map(|(k, v)| (k.clone(), all(v))).collect(),
            turbofish: all(&types.turbofish),
            deref: all(&types.deref),
            common: types.common.iter().cloned().collect(),
            wrappers: types.wrappers.iter().cloned().collect(),
            types,
            values,
        }
    }

    /// Known re-exports of client crates replaced by the inner crate's path.
    pub(super) fn reexport(&self, path: String) -> String {
        for (outer, inner) in &self.types.reexports {
            if let Some(rest) = path.strip_prefix(outer.as_str())
                && (rest.is_empty() || rest.starts_with("::"))
            {
                return format!("{inner}{rest}");
            }
        }
        path
    }

    /// The path that a glob import of a known module gives a name.
    pub(super) fn in_glob(&self, glob: &str, name: &str) -> Option<String> {
        let glob = self.reexport(glob.to_owned());
        let paths = self.types.globs.get(&glob)?;
        paths.iter().find(|path| path.rsplit("::").next() == Some(name)).cloned()
    }

    /// Whether a type is a wrapper that methods reach through (`Arc`, `Box`, guards), by last segment.
    pub(super) fn is_wrapper(&self, ty: &Ty) -> bool {
        self.wrappers.contains(ty.last())
    }

    /// Target of a known type's `Deref`.
    pub(super) fn deref(&self, ty: &Ty) -> Option<Ty> {
        self.deref.get(&ty.path).map(|target| fill(target, ty))
    }

    /// Result type of a known function.
    pub(super) fn function(&self, path: &str, generics: &[Ty]) -> Option<Ty> {
        let any = || self.functions.get(&format!("{}::*", path.rsplit_once("::")?.0));
        let ty = self.functions.get(path).or_else(any)?;
        Some(fill(ty, &Ty { path: String::new(), args: generics.to_vec() }))
    }

    /// Result type of a known macro, by last segment.
    pub(super) fn macro_(&self, path: &str) -> Option<Ty> {
        self.macros.get(path.rsplit("::").next().unwrap_or(path)).cloned()
    }

    /// Result type of a known method: by the receiver's full path, then by its last segment for std types.
    pub(super) fn method(&self, receiver: &Ty, name: &str) -> Option<Ty> {
        let find = |key: &str| {
            let rows = self.methods.get(key)?;
            rows.get(name).or_else(|| rows.get("*")).map(|ty| fill(ty, receiver))
        };
        find(&receiver.path).or_else(|| if is_std(&receiver.path) { find(receiver.last()) } else { None })
    }

    /// Result type of a method that means the same on every receiver (`len`, `is_some`, `to_string`).
    pub(super) fn any_method(&self, receiver: &Ty, name: &str) -> Option<Ty> {
        self.methods.get("*").and_then(|m| m.get(name)).map(|ty| fill(ty, receiver))
    }

    /// Result of a method whose turbofish names the type it gives, on a receiver that is not known.
    pub(super) fn turbofish(&self, name: &str, arguments: usize, asked: &Ty) -> Option<Ty> {
        let row = self.turbofish.get(&format!("{name}/{arguments}"))?;
        Some(fill(row, &Ty { path: String::new(), args: vec![asked.clone()] }))
    }

    /// Type of the first parameter of a closure given to a method of a known type.
    pub(super) fn closure(&self, receiver: &Ty, name: &str) -> Option<Ty> {
        let find = |key: &str| self.closures.get(key).and_then(|m| m.get(name)).map(|ty| fill(ty, receiver));
        find(&receiver.path)
            .or_else(|| if is_std(&receiver.path) { find(receiver.last()) } else { None })
            .or_else(|| find("*"))
    }

    /// Whether `for` over the type, indexing and `iter()` give its first argument.
    pub(super) fn is_collection(&self, ty: &Ty) -> bool {
        self.types.elements.iter().any(|name| name == ty.last())
    }

    /// Whether a bare method name is too common to be resolved without a type.
    pub(super) fn is_common(&self, name: &str) -> bool {
        self.common.contains(name)
    }

    /// Whether a method changes its receiver in place and belongs to its builder chain. `None`: no builder type.
    pub(super) fn builder(&self, ty: &str) -> Option<&[String]> {
        self.types.builders.get(ty).map(Vec::as_slice)
    }

    /// Whether a type's name says that it is a stand-in for tests.
    pub(super) fn is_mock(&self, path: &str) -> bool {
        let name = path.rsplit("::").next().unwrap_or(path).to_ascii_lowercase();
        self.types.mocks.iter().any(|word| name.contains(word.as_str()))
    }

    pub(super) fn fresh(&self) -> &Sources {
        &self.values.fresh
    }

    pub(super) fn identity(&self) -> &Sources {
        &self.values.identity
    }

    pub(super) fn wall_clock(&self) -> &Sources {
        &self.values.wall_clock
    }

    pub(super) fn monotonic_clock(&self) -> &Sources {
        &self.values.monotonic_clock
    }

    pub(super) fn env(&self) -> &Sources {
        &self.values.env
    }

    /// Types whose value is made once per process (`LazyLock`, `OnceLock`).
    pub(super) fn is_once(&self, path: &str) -> bool {
        let last = path.rsplit("::").next().unwrap_or(path);
        self.values.once.iter().any(|name| name == last)
    }

    /// Methods that fill such a cell from a closure.
    pub(super) fn is_once_init(&self, method: &str) -> bool {
        self.values.once_init.iter().any(|name| name == method)
    }

    /// Methods whose result is the receiver in another dress.
    pub(super) fn sees_through_method(&self, name: &str) -> bool {
        self.values.see_through.methods.iter().any(|m| m == name)
    }

    /// Functions of one argument whose result is the argument in another dress.
    pub(super) fn sees_through_function(&self, path: &str) -> bool {
        self.values.see_through.functions.iter().any(|f| suffix(path, f))
    }

    /// Methods that take the payload out (`unwrap`, `expect`).
    pub(super) fn is_unwrap(&self, name: &str) -> bool {
        self.values.unwrap.iter().any(|m| m == name)
    }

    /// Methods that take the payload out and have one argument that says nothing of it (`expect`).
    pub(super) fn is_unwrap_with(&self, name: &str) -> bool {
        self.values.unwrap_with.iter().any(|m| m == name)
    }

    /// Methods that take the payload out or give their argument (`unwrap_or`).
    pub(super) fn is_unwrap_or(&self, name: &str) -> bool {
        self.values.unwrap_or.iter().any(|m| m == name)
    }

    /// Nanoseconds per unit of a duration constructor.
    pub(super) fn duration(&self, path: &str) -> Option<i64> {
        let mut rows: Vec<(&String, &i64)> =
            self.values.durations.iter().filter(|(row, _)| suffix(path, row)).collect();
        rows.sort();
        rows.first().map(|row| *row.1)
    }

    /// Nanoseconds per unit that a method reads a duration in.
    pub(super) fn duration_read(&self, method: &str) -> Option<i64> {
        self.values.duration_reads.get(method).copied()
    }

    /// Environment variables that name the host, pod or process.
    pub(super) fn is_identity_env(&self, name: &str) -> bool {
        self.values.env_identity.iter().any(|v| v == name)
    }
}

impl Sources {
    pub(super) fn function(&self, path: &str) -> bool {
        self.functions.iter().any(|f| suffix(path, f))
    }

    pub(super) fn method(&self, name: &str) -> bool {
        self.methods.iter().any(|m| m == name)
    }

    pub(super) fn macro_(&self, path: &str) -> bool {
        let last = path.rsplit("::").next().unwrap_or(path);
        self.macros.iter().any(|m| m == last)
    }

    pub(super) fn path(&self, path: &str) -> bool {
        self.paths.iter().any(|p| suffix(path, p))
    }
}

/// Whether `path` is `row` or ends in `::row`.
fn suffix(path: &str, row: &str) -> bool {
    path.strip_suffix(row).is_some_and(|head| head.is_empty() || head.ends_with("::"))
}

/// Types that a path without crate, or of std and its close relatives, may mean.
fn is_std(path: &str) -> bool {
    match path.split_once("::") {
        None => true,
        Some((first, _)) => {
            matches!(
                first,
                "std" | "core" | "alloc" | "tokio" | "futures" | "futures_util" | "parking_lot" | "once_cell"
            )
        }
    }
}

/// Replaces `$0`, `$1` by the receiver's arguments and `$self` by the receiver.
fn fill(ty: &Ty, receiver: &Ty) -> Ty {
    super::names::substitute(ty, &|name| match name.strip_prefix('$') {
        Some("self") => Some(receiver.clone()),
        Some(n) => n.parse::<usize>().ok().map(|i| receiver.arg(i)),
        None => None,
    })
}

/// Reads a type of a table: `Result<redis::Client>`, `(A, B)`, `_`.
pub(super) fn parse_ty(text: &str) -> Ty {
    let mut rest = text.trim();
    parse_at(&mut rest, 0)
}

fn parse_at(rest: &mut &str, depth: usize) -> Ty {
    *rest = rest.trim_start();
    let list = |rest: &mut &str, close: char| {
        let mut args = Vec::new();
        while !rest.trim_start().is_empty() && depth < 16 {
            *rest = rest.trim_start();
            if let Some(after) = rest.strip_prefix(close) {
                *rest = after;
                break;
            }
            args.push(parse_at(rest, depth + 1));
            *rest = rest.trim_start();
            *rest = rest.strip_prefix(',').unwrap_or(rest);
        }
        args
    };
    if let Some(after) = rest.strip_prefix('(') {
        *rest = after;
        let args = list(rest, ')');
        return Ty { path: "()".to_owned(), args };
    }
    let end = rest.find(['<', '>', ',', ')', '(']).unwrap_or(rest.len());
    let path = rest[..end].trim();
    let path = if path == "_" { "" } else { path }.to_owned();
    *rest = &rest[end..];
    match rest.strip_prefix('<') {
        Some(after) => {
            *rest = after;
            let args = list(rest, '>');
            Ty { path, args }
        }
        None => {
            // A stray character must not stop the list that called.
            if end == 0 && path.is_empty() {
                let mut chars = rest.chars();
                chars.next();
                *rest = chars.as_str();
            }
            Ty { path, args: Vec::new() }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn tables_parse() {
        toml::from_str::<TypesFile>(include_str!("../../rules/models/types.toml")).expect("types.toml");
        toml::from_str::<ValuesFile>(include_str!("../../rules/models/values.toml")).expect("values.toml");
    }

    #[test]
    fn types_are_read() {
        assert_eq!(parse_ty("Result<(A, B<C>), _>").to_string(), "Result<(A, B<C>), _>");
        assert_eq!(parse_ty("Option<$0>").to_string(), "Option<$0>");
    }

    #[test]
    fn reexports_are_inner_paths() {
        assert_eq!(tables().reexport("deadpool_redis::redis::cmd".to_owned()), "redis::cmd");
        assert_eq!(tables().reexport("sea_orm::sqlx::query".to_owned()), "sqlx::query");
    }
}
