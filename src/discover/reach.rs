//! Which files belong to a crate at all: those that `mod` declarations lead to from a crate root.

use super::package::Package;
use super::read;
use crate::source::Language;
use crate::source::scan;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What a file declares, as far as reaching other files goes.
#[derive(Clone, Debug, Default)]
struct Declarations {
    /// `mod x;`
    files: Vec<String>,
    /// Those of them that only tests have: `#[cfg(test)] mod x;`
    tests: Vec<String>,
    /// `mod x { .. }`
    inline: Vec<String>,
    /// Paths in `#[path = ".."]` with the module's name, and in `include!("..")` without one.
    paths: Vec<(String, Option<String>)>,
    /// A macro that declares a folder's files.
    all: bool,
}

/// Answers questions about one run's files, reading each declaring file once.
#[derive(Debug, Default)]
pub(super) struct Reach {
    declarations: BTreeMap<PathBuf, Declarations>,
    known: BTreeMap<PathBuf, Found>,
}

/// How a file is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// By its place; nothing more to know.
    Usual,
    /// By its place, but only in tests: a `#[cfg(test)] mod x;` is on the way.
    Test,
    /// By a `#[path]` attribute in that file, under that module name.
    Path(PathBuf, String),
    /// Not at all.
    Not,
}

/// Chains of declarations longer than this are taken for reached.
const DEPTH: usize = 32;

impl Reach {
    /// How `file` of `package` is reached. `files` are all Rust files of the package.
    pub(super) fn of<'f>(&mut self, package: &Package, file: &Path, files: impl Iterator<Item = &'f Path>) -> Found {
        if let Some(found) = self.known.get(file) {
            return found.clone();
        }
        let usual = if has_root(package) { self.usual(package, file, 0) } else { Some(false) };
        let found = match usual {
            Some(false) => Found::Usual,
            Some(true) => Found::Test,
            None => self.by_path(package, file, files),
        };
        self.known.insert(file.to_path_buf(), found.clone());
        found
    }

    /// Whether declarations lead here by place, and if so whether only those of tests do.
    fn usual(&mut self, package: &Package, file: &Path, depth: usize) -> Option<bool> {
        if is_root(package, file) || depth > DEPTH {
            return Some(false);
        }
        let Some((folder, name)) = place(file) else { return Some(false) };
        for parent in parents(&folder).into_iter().filter(|p| p != file) {
            let declared = self.declarations(&parent);
            let test = declared.tests.contains(&name);
            let declared = declared.all || declared.files.contains(&name);
            if declared && let Some(above) = self.usual(package, &parent, depth + 1) {
                return Some(above || test);
            }
        }
        // `mod folder { mod name; }` in the file that owns the folder above.
        let (above, inline) = place(&folder.join("mod.rs"))?;
        if !folder.starts_with(&package.directory) || folder == package.directory {
            return None;
        }
        parents(&above).into_iter().filter(|p| p != file).find_map(|parent| {
            let declared = self.declarations(&parent);
            let declared = declared.inline.contains(&inline) && declared.files.contains(&name);
            if declared { self.usual(package, &parent, depth + 1) } else { None }
        })
    }

    fn by_path<'f>(&mut self, package: &Package, file: &Path, files: impl Iterator<Item = &'f Path>) -> Found {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        for other in files.filter(|f| *f != file) {
            let Some(folder) = other.parent() else { continue };
            let named = self
                .declarations(other)
                .paths
                .iter()
                .find(|(path, _)| path.ends_with(&name) && super::package::normal(&folder.join(path)) == file);
            if let Some((_, module)) = named.cloned()
                && self.usual(package, other, 0).is_some()
            {
                return module.map_or(Found::Usual, |module| Found::Path(other.to_path_buf(), module));
            }
        }
        Found::Not
    }

    fn declarations(&mut self, file: &Path) -> &Declarations {
        self.declarations.entry(file.to_path_buf()).or_insert_with(|| {
            let mut bytes = Vec::new();
            match read::bytes(file, Language::Rust, &mut bytes) {
                Ok(()) => declarations(&String::from_utf8_lossy(&bytes)),
                Err(_) => Declarations::default(),
            }
        })
    }
}

/// Folder and name of the module a file holds.
fn place(file: &Path) -> Option<(PathBuf, String)> {
    let folder = file.parent()?;
    let stem = file.file_stem()?.to_string_lossy().into_owned();
    if stem == "mod" {
        return Some((folder.parent()?.to_path_buf(), folder.file_name()?.to_string_lossy().into_owned()));
    }
    Some((folder.to_path_buf(), stem))
}

/// Files that can declare the modules in a folder.
fn parents(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = ["mod.rs", "lib.rs", "main.rs"].iter().map(|name| folder.join(name)).collect();
    if let (Some(above), Some(name)) = (folder.parent(), folder.file_name()) {
        found.push(above.join(format!("{}.rs", name.to_string_lossy())));
    }
    // Targets beside one another share the files beside them.
    let targets = ["bin", "tests", "benches", "examples"];
    if folder.file_name().is_some_and(|name| targets.iter().any(|t| name == *t))
        && let Ok(entries) = std::fs::read_dir(folder)
    {
        let mut beside: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
        beside.retain(|path| path.extension().is_some_and(|e| e == "rs"));
        beside.sort();
        found.extend(beside);
    }
    found.retain(|path| path.is_file());
    found
}

fn has_root(package: &Package) -> bool {
    !package.roots.is_empty()
        || ["src/lib.rs", "src/main.rs", "src/bin"].iter().any(|root| package.directory.join(root).exists())
}

fn is_root(package: &Package, file: &Path) -> bool {
    if package.roots.iter().any(|root| root.path == file) {
        return true;
    }
    let Ok(relative) = file.strip_prefix(&package.directory) else { return true };
    let parts: Vec<_> = relative.components().map(|c| c.as_os_str().to_string_lossy()).collect();
    let parts: Vec<&str> = parts.iter().map(AsRef::as_ref).collect();
    matches!(
        parts.as_slice(),
        ["build.rs"]
            | ["src", "lib.rs" | "main.rs"]
            | ["src", "bin", _]
            | ["src", "bin", _, "main.rs"]
            | ["tests" | "benches" | "examples", _]
            | ["tests" | "benches" | "examples", _, "main.rs"]
    )
}

fn declarations(text: &str) -> Declarations {
    let mut found = Declarations::default();
    // Comments and literals are blanked out; literals are looked up in the text itself.
    let mut code = text.as_bytes().to_vec();
    for (_, range) in scan::scan(Language::Rust, text) {
        code[range].fill(b' ');
    }
    let mut path = None;
    for (at, word) in words(&code) {
        let rest = &code[at + word.len()..];
        match word {
            b"mod" => {
                let rest = rest.trim_ascii_start();
                let length = rest.iter().take_while(|b| is_word(**b)).count();
                let name = String::from_utf8_lossy(&rest[..length]).trim_start_matches("r#").to_owned();
                match rest[length..].trim_ascii_start().first() {
                    Some(b';') => {
                        match path.take() {
                            Some(path) => found.paths.push((path, Some(name))),
                            None => {
                                if under_test(&code[..at]) {
                                    found.tests.push(name.clone());
                                }
                                found.files.push(name);
                            }
                        };
                    }
                    Some(b'{') => {
                        path = None;
                        found.inline.push(name);
                    }
                    _ => {}
                }
            }
            b"path" if rest.trim_ascii_start().starts_with(b"=") => path = literal(text, at),
            b"include" if rest.starts_with(b"!") => found.paths.extend(literal(text, at).map(|path| (path, None))),
            b"automod" => found.all = true,
            _ => {}
        }
    }
    found
}

/// Whether the attributes that end here (before a visibility, if any) say `#[cfg(test)]`.
fn under_test(before: &[u8]) -> bool {
    let mut rest = before.trim_ascii_end();
    if let Some(at) = rest.strip_suffix(b")").and_then(|_| rest.windows(4).rposition(|w| w == b"pub(")) {
        rest = rest[..at].trim_ascii_end();
    } else if let Some(shorter) = rest.strip_suffix(b"pub") {
        rest = shorter.trim_ascii_end();
    }
    while rest.ends_with(b"]") {
        let Some(open) = rest.windows(2).rposition(|w| w == b"#[") else { return false };
        let attribute = &rest[open + 2..];
        let mut names = words(attribute).map(|(_, word)| word);
        let cfg = names.next() == Some(b"cfg");
        let names: Vec<&[u8]> = names.collect();
        if cfg && names.contains(&&b"test"[..]) && !names.contains(&&b"not"[..]) {
            return true;
        }
        rest = rest[..open].trim_ascii_end();
    }
    false
}

/// The text between the next two quotes.
fn literal(text: &str, from: usize) -> Option<String> {
    let mut parts = text.get(from..)?.splitn(3, '"');
    parts.next()?;
    let inner = parts.next()?;
    parts.next().map(|_| inner.to_owned())
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'#' || byte >= 0x80
}

fn words(code: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < code.len() && !(code[at].is_ascii_alphabetic() || code[at] == b'_') {
            at += 1;
        }
        let start = at;
        while at < code.len() && (code[at].is_ascii_alphanumeric() || code[at] == b'_') {
            at += 1;
        }
        (at > start).then(|| (start, &code[start..at]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declarations_are_found_outside_comments() {
        let text = "mod a; // mod b;\npub(crate) mod c { mod d; }\n/* mod e; */ #[path = \"x/f.rs\"] mod f;\ninclude!(\"g.rs\");\nlet s = \"mod h;\"; cfg_if! { if #[cfg(x)] { mod r#i; } }";
        let found = declarations(text);
        assert_eq!(found.files, ["a", "d", "i"]);
        assert_eq!(found.inline, ["c"]);
        assert_eq!(found.paths, [("x/f.rs".to_owned(), Some("f".to_owned())), ("g.rs".to_owned(), None)]);
    }

    #[test]
    fn modules_of_tests_are_told_apart() {
        let text = "#[cfg(test)] mod a; mod b; #[cfg(all(test, feature = \"x\"))]\n#[allow(dead_code)] pub(crate) mod c;\n\
                    #[cfg(not(test))] mod d; #[cfg(unix)] pub mod e; #[cfg(test)] fn f() {} mod g;";
        assert_eq!(declarations(text).tests, ["a", "c"]);
    }
}
