//! Which row a call matches, and how surely.

use std::collections::{BTreeMap, HashMap};

use super::houses::Houses;
use super::{Models, Role, Row, TypeRole};
use crate::ir::{Call, CallValue, Callee, Certainty, Function, FunctionId, Operand, Ty};
use crate::link::Program;

/// Crate versions from `Cargo.lock`: package name -> version; and the features asked for: `fred/default-nil-types` -> empty.
pub type Versions = BTreeMap<String, String>;

/// What the program says of crates, before any call is looked at.
#[derive(Clone, Debug, Default)]
pub struct Imports {
    /// What each module imports, with the crates' first names.
    modules: HashMap<String, Vec<String>>,
    houses: Houses,
}

impl Imports {
    /// Imports of all modules of the program; a glob ends in `::*`.
    pub fn of(program: &Program, models: &Models) -> Imports {
        let mut modules: HashMap<String, Vec<String>> = HashMap::new();
        for import in &program.uses {
            let mut path = models.canonical(&import.path);
            if import.name == "*" {
                path.push_str("::*");
            }
            modules.entry(import.module.clone()).or_default().push(path);
        }
        Imports { modules, houses: Houses::of(program, models) }
    }
}

/// A row that a call matches.
#[derive(Clone, Copy, Debug)]
pub struct Match<'a> {
    /// The row.
    pub row: &'a Row,
    /// How surely.
    pub certainty: Certainty,
    /// The first operand is the receiver (a method call, or `Trait::method(&mut c, ..)`).
    pub receiver: bool,
}

/// The type, and the function name after it, that identify a path whatever modules stand between: `redis::aio::X::new`
/// and `redis::X::new` are both `redis::X::new`.
pub(super) fn loose(path: &str) -> String {
    let segments: Vec<&str> = path.split("::").collect();
    let n = segments.len();
    if n < 3 {
        return path.to_owned();
    }
    let typed = segments[n - 2].starts_with(|c: char| c.is_ascii_uppercase());
    let tail = if typed { segments[n - 2..].join("::") } else { segments[n - 1].to_owned() };
    format!("{}::{tail}", segments[0])
}

impl Models {
    /// The path with the crate's first name in front, whatever name or re-export it was written with.
    pub fn canonical(&self, path: &str) -> String {
        let found = self.aliases.iter().find_map(|(alias, first)| Some((path.strip_prefix(alias.as_str())?, first)));
        match found {
            Some((rest, first)) => format!("{first}{rest}"),
            None => path.to_owned(),
        }
    }

    /// What a type of a client crate is: the files that name it, and its role in each.
    pub fn type_roles(&self, path: &str) -> Vec<(usize, TypeRole)> {
        if !path.contains("::") {
            return Vec::new();
        }
        let path = self.canonical(path);
        let found = self.types.get(&path).or_else(|| self.type_tails.get(&loose_type(&path)));
        found.cloned().unwrap_or_default()
    }

    /// What stands behind a type of a client crate, by name; `None` where its model does not say.
    pub fn topology(&self, path: &str) -> Option<&'static str> {
        if !path.contains("::") {
            return None;
        }
        let path = self.canonical(path);
        let exact = self.files.iter().find_map(|file| file.head.topology.get(&path));
        // Types of one name in two modules (`cluster::Connection`) are told apart by their full path alone.
        let loose = || {
            let known = self.types.contains_key(&path);
            let mut tails = self.files.iter().filter(|_| !known).flat_map(|file| &file.head.topology);
            tails.find(|(name, _)| loose_type(name) == loose_type(&path)).map(|(_, topology)| topology)
        };
        exact.or_else(loose).map(|topology| topology.name())
    }

    /// Rows for a full path, `Type::method` forms of method rows included.
    fn path_rows(&self, path: &str) -> Vec<(usize, bool)> {
        let path = self.canonical(path);
        if let Some(rows) = self.by_path.get(&path) {
            return rows.iter().map(|row| (*row, false)).collect();
        }
        if let Some(rows) = self.by_tail.get(&loose(&path)) {
            return rows.iter().map(|row| (*row, false)).collect();
        }
        let mut found = Vec::new();
        let Some((owner, method)) = path.rsplit_once("::") else { return found };
        for (file, role) in self.type_roles(owner) {
            for row in self.by_method.get(method).into_iter().flatten() {
                let fits = self.rows[*row].file == file && self.receiver_fits(&self.rows[*row], owner);
                if fits {
                    // `redis::Cmd::set_nx(k, v)` makes a command; `AsyncCommands::set_nx(&mut c, k, v)` has its receiver first.
                    let constructs = role == TypeRole::Command && self.rows[*row].role == Role::Command;
                    found.push((*row, !constructs));
                }
            }
        }
        found
    }

    /// Whether a function of a client crate makes commands or statements, or adds to them: the rows say what becomes of
    /// them, wherever the crate itself is read.
    pub fn builds(&self, path: &str) -> bool {
        let first = path.split("::").next().unwrap_or(path);
        let own = self.files.iter().any(|file| file.head.names.0.iter().any(|name| name == first));
        own && self.path_rows(path).iter().any(|(row, _)| {
            use Role::*;
            matches!(
                self.rows[*row].role,
                CommandStart | Command | Arg | Statement | StatementText | Bind | Query | RowLock | Connection
            )
        })
    }

    /// Whether a receiver of this type fits the row.
    fn receiver_fits(&self, row: &Row, path: &str) -> bool {
        let canonical = self.canonical(path);
        if !row.receiver.0.is_empty() {
            let key = loose_type(&canonical);
            let named = |known: &String| match known.strip_prefix("*::") {
                // Types that a derive of the crate makes in the workspace: `job::ActiveModel`.
                Some(last) => canonical.rsplit_once("::").is_some_and(|(_, name)| name == last),
                None => *known == canonical || loose_type(known) == key,
            };
            return row.receiver.0.iter().any(named);
        }
        self.type_roles(path).iter().any(|(file, role)| *file == row.file && may_receive(*role))
    }

    /// The row that a call in `function` matches.
    ///
    /// A bare method name on a receiver of unknown type counts only where the file imports the crate, the number of
    /// arguments fits and no workspace method is its target.
    pub fn find<'a>(
        &'a self,
        program: &Program,
        imports: &Imports,
        function: FunctionId,
        call: &Call,
        versions: &Versions,
    ) -> Option<Match<'a>> {
        let args = call.args.len();
        let fits = |row: &Row, args: usize| row.args.fits(args) && self.in_version(row, versions);
        match &call.callee {
            Callee::Path(path) => {
                let path = program.resolve(function, path);
                let rows = self.path_rows(&path);
                let found = rows.iter().find(|(row, receiver)| {
                    let n = if *receiver { args.checked_sub(1) } else { Some(args) };
                    n.is_some_and(|n| fits(&self.rows[*row], n))
                });
                found.map(|(row, receiver)| Match {
                    row: &self.rows[*row],
                    certainty: Certainty::Full,
                    receiver: *receiver,
                })
            }
            Callee::Macro(path) => {
                let path = self.canonical(&program.resolve(function, path));
                let rows = self.by_macro.get(&path)?;
                let row = rows.iter().map(|row| &self.rows[*row]).find(|row| fits(row, args))?;
                Some(Match { row, certainty: Certainty::Full, receiver: false })
            }
            Callee::Method(name) => {
                let mut rows: Vec<&Row> = self
                    .by_method
                    .get(name)?
                    .iter()
                    .map(|row| &self.rows[*row])
                    .filter(|row| args > 0 && fits(row, args - 1))
                    .collect();
                let receiver = call.args.first()?;
                if rows.is_empty() {
                    return None;
                }
                // Rows that name their receiver go before those of any connection.
                rows.sort_by_key(|row| (row.receiver.0.is_empty(), !row.versions.is_current()));
                let types = receiver_types(program, function, receiver);
                if let Some(row) = types.iter().find_map(|ty| rows.iter().find(|row| self.receiver_fits(row, ty))) {
                    return Some(Match { row, certainty: Certainty::Full, receiver: true });
                }
                if imports.houses.answer(program, self, function, call) {
                    // redis-rs set the names that such crates pass on.
                    let row = self
                        .house_rows(call)
                        .min_by_key(|row| (self.files[row.file].head.krate != "redis", !row.versions.is_current()));
                    return row.map(|row| Match { row, certainty: Certainty::Name, receiver: true });
                }
                // The type of another crate that no row names: a wrapper, if the name is one of the client's alone.
                let foreign =
                    |ty: &String| ty.contains("::") && !ty.starts_with("std::") && program.type_def(ty).is_none();
                if !(types.is_empty() || is_distinctive(name) && types.iter().all(foreign)) {
                    return None;
                }
                if !call.targets.is_empty() {
                    return None;
                }
                // A builder chain that begins in the crate: `redis::Cmd::set(k, v).arg("NX")`.
                if let Some(start) = program.chain_start(function, receiver)
                    && let Some(file) = self.file_of(&start)
                    && let Some(row) = rows.iter().find(|row| row.file == file)
                {
                    return Some(Match { row, certainty: Certainty::Inferred, receiver: true });
                }
                let context = program.function(function);
                let mut best: Option<Match<'a>> = None;
                for row in rows.into_iter().filter(|row| !row.typed) {
                    let Some(certainty) = self.imported(imports, context, row) else { continue };
                    if best.is_none_or(|known| certainty > known.certainty) {
                        best = Some(Match { row, certainty, receiver: true });
                    }
                }
                best
            }
            Callee::Value(_) => None,
        }
    }

    /// The row of a call that is part of a value (a builder chain). `file` narrows method names to one crate.
    pub fn find_value(&self, call: &CallValue, file: Option<usize>, versions: &Versions) -> Option<Match<'_>> {
        let fits = |row: &Row, args: usize| row.args.fits(args) && self.in_version(row, versions);
        if let Some(method) = call.name.strip_prefix('.') {
            let args = call.args.len().checked_sub(1)?;
            let rows = self.by_method.get(method)?.iter().map(|row| &self.rows[*row]);
            let mut rows = rows.filter(|row| fits(row, args) && file.is_none_or(|file| row.file == file));
            let known = !self.type_roles(&call.receiver).is_empty();
            let fitting = rows.by_ref().filter(|row| !known || self.receiver_fits(row, &call.receiver));
            let row = fitting.min_by_key(|row| !row.versions.is_current())?;
            return Some(Match { row, certainty: Certainty::Inferred, receiver: true });
        }
        if let Some(path) = call.name.strip_suffix('!') {
            let rows = self.by_macro.get(&self.canonical(path))?;
            let row = rows.iter().map(|row| &self.rows[*row]).find(|row| fits(row, call.args.len()))?;
            return Some(Match { row, certainty: Certainty::Full, receiver: false });
        }
        self.path_rows(&call.name).into_iter().find_map(|(row, receiver)| {
            let args = call.args.len().checked_sub(usize::from(receiver))?;
            fits(&self.rows[row], args).then_some(Match { row: &self.rows[row], certainty: Certainty::Full, receiver })
        })
    }

    /// The model file whose crate a path or type is of.
    fn file_of(&self, path: &str) -> Option<usize> {
        let of_type = self.type_roles(path).first().map(|(file, _)| *file);
        of_type.or_else(|| self.path_rows(path).first().map(|(row, _)| self.rows[*row].file))
    }

    fn in_version(&self, row: &Row, versions: &Versions) -> bool {
        row.versions.contains(versions.get(&self.files[row.file].head.krate).map(String::as_str))
    }

    /// How surely a bare method name of the row's crate is meant in this function: by an imported trait or glob, or
    /// because the module names the crate at all.
    fn imported(&self, imports: &Imports, function: &Function, row: &Row) -> Option<Certainty> {
        let head = &self.files[row.file].head;
        let krate = head.names.0.first().cloned().unwrap_or_else(|| head.krate.replace('-', "_"));
        let mut found = None;
        for path in imports.modules.get(&function.module)? {
            if head.imports.0.contains(path) {
                return Some(Certainty::Inferred);
            }
            if path.strip_prefix(krate.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with("::")) {
                found = Some(Certainty::Name);
            }
        }
        found
    }
}

/// Names that hardly any type but a client of the store has.
fn is_distinctive(name: &str) -> bool {
    const NAMES: &[&str] = &[
        "set_nx",
        "setnx",
        "set_ex",
        "pset_ex",
        "set_options",
        "hset_nx",
        "mset_nx",
        "pexpire",
        "expire_at",
        "pexpire_at",
        "get_del",
        "get_ex",
        "del_ex",
        "query_async",
        "invoke_async",
        "exec_async",
    ];
    NAMES.contains(&name)
}

/// Roles of types that calls are made on.
fn may_receive(role: TypeRole) -> bool {
    !matches!(role, TypeRole::Value | TypeRole::Options | TypeRole::Guard)
}

/// Crate and name of a type: `redis::aio::MultiplexedConnection` -> `redis::MultiplexedConnection`.
pub(super) fn loose_type(path: &str) -> String {
    match (path.split("::").next(), path.rsplit("::").next()) {
        (Some(krate), Some(name)) if krate != name => format!("{krate}::{name}"),
        _ => path.to_owned(),
    }
}

/// Canonical paths of the types a receiver can have: itself, or the bounds of a generic, `impl` or `dyn` type.
/// Empty when nothing is known.
pub fn receiver_types(program: &Program, function: FunctionId, receiver: &Operand) -> Vec<String> {
    let mut found = bounds(program, function, &program.receiver(function, receiver));
    // A task handle or a channel's end is a future too: its own type counts beside that of its payload.
    for ty in bounds(program, function, &program.ty(function, receiver)) {
        if !found.contains(&ty) {
            found.push(ty);
        }
    }
    found
}

fn bounds(program: &Program, function: FunctionId, ty: &Ty) -> Vec<String> {
    if ty.is_unknown() {
        return Vec::new();
    }
    if ty.path == "impl" || ty.path == "dyn" {
        return ty.args.iter().map(|bound| program.resolve(function, &bound.path)).collect();
    }
    if !ty.path.contains("::") {
        let mut scope = Some(function);
        while let Some(id) = scope {
            let context = program.function(id);
            if let Some((_, bounds)) = context.generics.iter().find(|(name, _)| *name == ty.path) {
                return bounds.iter().map(|bound| program.resolve(function, &bound.path)).collect();
            }
            scope = context.parent;
        }
    }
    let path = program.resolve(function, &ty.path);
    // A connection of the house has the commands of the client's trait that it implements.
    let given = program.foreign_traits(&path);
    std::iter::once(path).chain(given).collect()
}
