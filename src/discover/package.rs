//! Packages: names, roots, dependencies with renames and workspace inheritance, locked versions.

use super::root::report_path;
use super::walk::Listing;
use crate::source::{Problem, ProblemKind};
use aho_corasick::AhoCorasick;
use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A package of the workspace.
#[derive(Clone, Debug, Default)]
pub struct Package {
    /// Name in `Cargo.toml`.
    pub name: String,
    /// Name of its library as code writes it; the package name's if it has no library.
    pub krate: String,
    /// Where its `Cargo.toml` lies.
    pub directory: PathBuf,
    /// Dependencies of all kinds and targets by the name code uses (`-` is `_`).
    pub dependencies: BTreeMap<String, Dependency>,
    /// Crate roots named in the manifest, absolute: library first.
    pub(super) roots: Vec<Root>,
}

/// A crate root named in the manifest.
#[derive(Clone, Debug)]
pub(super) struct Root {
    pub path: PathBuf,
    /// Module path of the root, `::`-separated.
    pub module: String,
    pub test: bool,
}

/// A dependency of a [`Package`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dependency {
    /// The package's real name.
    pub package: String,
    /// The exact version from `Cargo.lock` if it is known, else the requirement as written.
    pub version: Option<String>,
    /// Features asked for, the workspace's included, sorted.
    pub features: Vec<String>,
    /// Only for tests, benches and examples.
    pub dev: bool,
    /// Index of the package in the workspace that a `path` leads to.
    pub member: Option<usize>,
}

impl Dependency {
    /// Real name of the crate as code would write it without a rename.
    pub fn krate(&self) -> String {
        self.package.replace('-', "_")
    }
}

/// One manifest, parsed.
struct Manifest {
    directory: PathBuf,
    table: toml::Table,
    /// Its text mentions a client: the versions in the `Cargo.lock` above it matter.
    mentions: bool,
}

/// Reads all manifests of the listing, and the `Cargo.lock` of those that mention one of `clients`. A broken one is a [`Problem`]; its files are read as if it were not there.
pub(super) fn load(listing: &Listing, root: &Path, clients: &BTreeSet<String>) -> (Vec<Package>, Vec<Problem>) {
    let words = AhoCorasick::new(clients).ok();
    // A directory or file named on the command line belongs to the package above it.
    let mut paths: BTreeSet<PathBuf> = listing.manifests.iter().cloned().collect();
    let directories: BTreeSet<&Path> = listing.files.iter().filter_map(|(path, _)| path.parent()).collect();
    let mut above = BTreeSet::new();
    for directory in directories {
        for ancestor in directory.ancestors().take_while(|a| a.starts_with(root)) {
            if !above.insert(ancestor.to_path_buf()) {
                break;
            }
        }
    }
    let above = above.iter().map(|dir| dir.join("Cargo.toml"));
    let further: Vec<PathBuf> = above.filter(|p| !paths.contains(p) && p.is_file()).collect();
    paths.extend(further);
    let read = |path: &PathBuf| -> Result<Manifest, Problem> {
        let problem = |message: String| Problem {
            path: report_path(root, path),
            span: None,
            kind: ProblemKind::FileUnread,
            message,
        };
        let text =
            std::fs::read_to_string(path).map_err(|e| problem(format!("not read: {}", super::root::reason(&e))))?;
        let table =
            text.parse::<toml::Table>().map_err(|e| problem(format!("not read: {}", first_line(e.message()))))?;
        let directory = path.parent().unwrap_or(path).to_path_buf();
        let mentions = words.as_ref().is_none_or(|words| words.is_match(&text));
        Ok(Manifest { directory, table, mentions })
    };
    let paths: Vec<PathBuf> = paths.into_iter().collect();
    let results: Vec<_> = paths.par_iter().map(read).collect();
    let (mut manifests, mut problems) = (Vec::new(), Vec::new());
    for result in results {
        match result {
            Ok(manifest) => manifests.push(manifest),
            Err(problem) => problems.push(problem),
        }
    }
    let locks = locks(&manifests);
    (build(&manifests, &locks), problems)
}

/// Packages of manifests given as texts, for tests.
pub(super) fn of_texts(texts: &[(&str, &str)]) -> Vec<Package> {
    let manifests: Vec<Manifest> = texts
        .iter()
        .filter(|(path, _)| Path::new(path).file_name().is_some_and(|n| n == "Cargo.toml"))
        .filter_map(|(path, text)| {
            let directory = Path::new(path).parent().unwrap_or(Path::new("")).to_path_buf();
            Some(Manifest { directory, table: text.parse().ok()?, mentions: false })
        })
        .collect();
    build(&manifests, &BTreeMap::new())
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or(text)
}

/// Versions in each `Cargo.lock` at or above a manifest that mentions a client: package name -> versions.
fn locks(manifests: &[Manifest]) -> BTreeMap<PathBuf, BTreeMap<String, Vec<String>>> {
    let read = |directory: &PathBuf| {
        let text = std::fs::read_to_string(directory.join("Cargo.lock")).ok()?;
        Some((directory.clone(), locked(&text)))
    };
    let all: BTreeSet<&Path> = manifests.iter().map(|m| m.directory.as_path()).collect();
    let mentioning = manifests.iter().filter(|m| m.mentions);
    let above = mentioning.flat_map(|m| m.directory.ancestors()).filter(|dir| all.contains(dir));
    let directories: BTreeSet<PathBuf> = above.map(Path::to_path_buf).collect();
    directories.par_iter().filter_map(read).collect()
}

/// `[[package]]` entries of a lock file. Read line by line: cargo writes one key a line, and a full TOML parse of a large
/// lock file would cost more than the rest of a small run.
fn locked(text: &str) -> BTreeMap<String, Vec<String>> {
    let mut versions: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut name = None;
    for line in text.lines() {
        let value = |key: &str| line.strip_prefix(key)?.strip_prefix(" = \"")?.strip_suffix('"').map(str::to_owned);
        if let Some(found) = value("name") {
            name = Some(found);
        } else if let (Some(version), Some(name)) = (value("version"), &name) {
            versions.entry(name.clone()).or_default().push(version);
        }
    }
    versions
}

fn build(manifests: &[Manifest], locks: &BTreeMap<PathBuf, BTreeMap<String, Vec<String>>>) -> Vec<Package> {
    let by_directory: BTreeMap<&Path, &Manifest> = manifests.iter().map(|m| (m.directory.as_path(), m)).collect();
    let mut packages: Vec<PackageWithPaths> = manifests
        .iter()
        .filter_map(|manifest| {
            let workspace = manifest
                .directory
                .ancestors()
                .filter_map(|dir| by_directory.get(dir))
                .find(|m| m.table.contains_key("workspace"));
            let lock = manifest.directory.ancestors().find_map(|dir| locks.get(dir));
            package(manifest, workspace.copied(), lock)
        })
        .collect();
    packages.sort_by(|a, b| a.0.directory.cmp(&b.0.directory));
    let places: BTreeMap<PathBuf, usize> =
        packages.iter().enumerate().map(|(i, (p, _))| (p.directory.clone(), i)).collect();
    packages
        .into_iter()
        .map(|(mut package, paths)| {
            for (name, path) in paths {
                if let Some(dependency) = package.dependencies.get_mut(&name) {
                    dependency.member = places.get(&normal(&path)).copied();
                }
            }
            package
        })
        .collect()
}

type PackageWithPaths = (Package, Vec<(String, PathBuf)>);

fn package(
    manifest: &Manifest,
    workspace: Option<&Manifest>,
    lock: Option<&BTreeMap<String, Vec<String>>>,
) -> Option<PackageWithPaths> {
    let table = &manifest.table;
    let name = table.get("package")?.get("name")?.as_str()?.to_owned();
    let lib = table.get("lib");
    let string = |value: Option<&toml::Value>, key: &str| value?.get(key)?.as_str().map(str::to_owned);
    let krate = string(lib, "name").unwrap_or_else(|| name.replace('-', "_"));
    let mut package =
        Package { name, krate: krate.clone(), directory: manifest.directory.clone(), ..Package::default() };
    if let Some(path) = string(lib, "path") {
        package.roots.push(Root { path: normal(&manifest.directory.join(path)), module: krate.clone(), test: false });
    }
    for (section, folder, test) in
        [("bin", "bin", false), ("test", "tests", true), ("bench", "benches", true), ("example", "examples", true)]
    {
        for target in table.get(section).and_then(|t| t.as_array()).into_iter().flatten() {
            let (Some(path), name) = (string(Some(target), "path"), string(Some(target), "name")) else { continue };
            let path = normal(&manifest.directory.join(path));
            // `src/main.rs` shares its modules with the library; see `module::context`.
            if path == manifest.directory.join("src/main.rs") {
                continue;
            }
            let name = name.unwrap_or_default().replace('-', "_");
            // An example that is declared as a binary is one all the same.
            let below = path.strip_prefix(&manifest.directory).ok().and_then(|p| p.components().next());
            let test =
                test || below.is_some_and(|p| ["tests", "benches", "examples"].iter().any(|f| p.as_os_str() == *f));
            package.roots.push(Root { path, module: format!("{krate}::{folder}::{name}"), test });
        }
    }
    let mut paths = Vec::new();
    let inherited = workspace.and_then(|w| Some((w, w.table.get("workspace")?.get("dependencies")?.as_table()?)));
    for (section, dev) in dependency_sections(table) {
        for (key, value) in section {
            let (value, base) = if value.get("workspace").and_then(toml::Value::as_bool) == Some(true) {
                match inherited.and_then(|(w, table)| Some((table.get(key)?, w))) {
                    Some((inherited, w)) => (merge(inherited, value), w.directory.as_path()),
                    None => (value.clone(), manifest.directory.as_path()),
                }
            } else {
                (value.clone(), manifest.directory.as_path())
            };
            let real = string(Some(&value), "package").unwrap_or_else(|| key.clone());
            let code_name = key.replace('-', "_");
            let requirement = value.as_str().map(str::to_owned).or_else(|| string(Some(&value), "version"));
            let version = exact(lock.and_then(|l| l.get(&real)), requirement.as_deref()).or(requirement);
            if let Some(path) = string(Some(&value), "path") {
                paths.push((code_name.clone(), base.join(path)));
            }
            let mut features: Vec<String> = value
                .get("features")
                .and_then(toml::Value::as_array)
                .map(|list| list.iter().filter_map(|f| f.as_str().map(str::to_owned)).collect())
                .unwrap_or_default();
            features.sort();
            let entry =
                package.dependencies.entry(code_name).or_insert(Dependency { dev: true, ..Dependency::default() });
            let dev = dev && entry.dev;
            *entry = Dependency { package: real, version, features, dev, member: None };
        }
    }
    Some((package, paths))
}

/// A workspace dependency with the features that a member adds.
fn merge(inherited: &toml::Value, member: &toml::Value) -> toml::Value {
    let mut table = match inherited {
        toml::Value::Table(table) => table.clone(),
        other => toml::Table::from_iter([("version".to_owned(), other.clone())]),
    };
    if let Some(more) = member.get("features").and_then(toml::Value::as_array) {
        let features = table.entry("features").or_insert_with(|| toml::Value::Array(Vec::new()));
        if let toml::Value::Array(list) = features {
            list.extend(more.iter().cloned());
        }
    }
    toml::Value::Table(table)
}

fn dependency_sections(table: &toml::Table) -> Vec<(&toml::Table, bool)> {
    const KINDS: [(&str, bool); 3] =
        [("dependencies", false), ("build-dependencies", false), ("dev-dependencies", true)];
    let targets = table.get("target").and_then(toml::Value::as_table).into_iter().flat_map(|t| t.values());
    let holders = std::iter::once(table).chain(targets.filter_map(toml::Value::as_table));
    holders.flat_map(|t| KINDS.iter().filter_map(|(k, dev)| Some((t.get(*k)?.as_table()?, *dev)))).collect()
}

/// The locked version that a requirement means: the only one, or the one that starts as the requirement does.
fn exact(versions: Option<&Vec<String>>, requirement: Option<&str>) -> Option<String> {
    let versions = versions?;
    if let [only] = versions.as_slice() {
        return Some(only.clone());
    }
    let wanted = requirement?.trim_start_matches(['=', '^', '~', '>', ' ']);
    let wanted: Vec<&str> = wanted.split(['.', ',', ' ']).collect();
    // Semver: the first non-zero number decides which versions are compatible.
    let significant = wanted.iter().position(|n| *n != "0").map_or(wanted.len(), |i| i + 1);
    versions.iter().find(|version| version.split('.').zip(&wanted).take(significant).all(|(a, b)| a == *b)).cloned()
}

/// Resolves `.` and `..` without asking the file system.
pub(super) fn normal(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::CurDir => {}
            std::path::Component::ParentDir => {
                out.pop();
            }
            other => out.push(other),
        }
    }
    out
}

/// Index of the package a file belongs to: the one with the nearest manifest above it.
pub(super) fn owner(packages: &[Package], file: &Path) -> Option<usize> {
    owner_of_folder(packages, file.parent()?)
}

/// Index of the package that the files of a folder belong to.
pub(super) fn owner_of_folder(packages: &[Package], folder: &Path) -> Option<usize> {
    folder.ancestors().find_map(|dir| packages.binary_search_by(|p| p.directory.as_path().cmp(dir)).ok())
}

/// Packages that depend on one of `clients` (real package names), directly or through packages of the workspace.
pub(super) fn reaching(packages: &[Package], clients: &BTreeSet<String>, dev: bool) -> BTreeSet<usize> {
    let counts = |d: &Dependency| dev || !d.dev;
    let mut found: BTreeSet<usize> = (0..packages.len())
        .filter(|i| {
            let package = &packages[*i];
            let depends = package.dependencies.values().any(|d| counts(d) && clients.contains(&d.package));
            depends || clients.contains(&package.name)
        })
        .collect();
    loop {
        let before = found.len();
        for (i, package) in packages.iter().enumerate() {
            if package.dependencies.values().any(|d| counts(d) && d.member.is_some_and(|m| found.contains(&m))) {
                found.insert(i);
            }
        }
        if found.len() == before {
            return found;
        }
    }
}

/// Packages that can reach `from` or that `from` can reach, through the workspace; `from` included.
pub(super) fn near(packages: &[Package], from: &BTreeSet<usize>) -> BTreeSet<usize> {
    let members = |i: usize| packages.get(i).into_iter().flat_map(|p| p.dependencies.values().filter_map(|d| d.member));
    let mut down = from.clone();
    let mut open: Vec<usize> = from.iter().copied().collect();
    while let Some(next) = open.pop() {
        open.extend(members(next).filter(|m| down.insert(*m)));
    }
    let mut up = from.clone();
    loop {
        let before = up.len();
        for i in 0..packages.len() {
            if members(i).any(|m| up.contains(&m)) {
                up.insert(i);
            }
        }
        if up.len() == before {
            break;
        }
    }
    down.union(&up).copied().collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn renames_inheritance_and_paths() {
        let packages = of_texts(&[
            (
                "Cargo.toml",
                "[workspace]\nmembers = [\"a\", \"b\"]\n[workspace.dependencies]\nr = { package = \"redis\", version = \"0.27\", features = [\"aio\"] }\na-lib = { path = \"a\" }\n",
            ),
            (
                "a/Cargo.toml",
                "[package]\nname = \"a-lib\"\n[dependencies]\nr = { workspace = true, features = [\"aaa\"] }\n",
            ),
            (
                "b/Cargo.toml",
                "[package]\nname = \"b\"\n[lib]\nname = \"bb\"\n[target.'cfg(unix)'.dependencies]\na-lib.workspace = true\n[dev-dependencies]\nsqlx = \"0.8\"\n",
            ),
            ("c/Cargo.toml", "[package]\nname = \"c\"\n[dependencies]\nserde = \"1\"\n"),
        ]);
        let names: Vec<_> = packages.iter().map(|p| (p.name.as_str(), p.krate.as_str())).collect();
        assert_eq!(names, [("a-lib", "a_lib"), ("b", "bb"), ("c", "c")]);
        let redis = &packages[0].dependencies["r"];
        assert_eq!((redis.package.as_str(), redis.version.as_deref()), ("redis", Some("0.27")));
        assert_eq!(redis.features, ["aaa", "aio"]);
        assert_eq!(packages[1].dependencies["a_lib"].member, Some(0));
        assert!(packages[1].dependencies["sqlx"].dev);
        let clients = BTreeSet::from(["redis".to_owned()]);
        assert_eq!(reaching(&packages, &clients, false), BTreeSet::from([0, 1]));
        assert_eq!(near(&packages, &BTreeSet::from([0])), BTreeSet::from([0, 1]));
        assert_eq!(owner(&packages, Path::new("b/src/x.rs")), Some(1));
        assert_eq!(owner(&packages, Path::new("src/x.rs")), None);
    }

    #[test]
    fn locked_versions() {
        let lock = locked(
            "version = 4\n\n[[package]]\nname = \"redis\"\nversion = \"0.27.6\"\n\n[[package]]\nname = \"redis\"\nversion = \"1.0.0\"\n",
        );
        assert_eq!(exact(lock.get("redis"), Some("0.27")).as_deref(), Some("0.27.6"));
        assert_eq!(exact(lock.get("redis"), Some("^1")).as_deref(), Some("1.0.0"));
        assert_eq!(exact(lock.get("sqlx"), Some("1")), None);
    }
}
