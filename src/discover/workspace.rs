//! The workspace: texts, packages, and the files that may be loaded later.

use super::package::Package;
use super::reach::{Found, Reach};
use super::{module, read, root::report_path};
use crate::frontend::ModuleContext;
use crate::source::{FileId, Language, Problem, ProblemKind, Sources};
use aho_corasick::AhoCorasick;
use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

/// What a run works on.
#[derive(Debug, Default)]
pub struct Workspace {
    /// All texts loaded so far. The first round: files with lock words, in path order.
    pub sources: Sources,
    /// What could not be read.
    pub problems: Vec<Problem>,
    /// The packages.
    pub packages: Arc<Vec<Package>>,
    /// How many files were looked at.
    pub files_read: usize,
    /// What was passed over, and why: report path, reason.
    pub skipped: Vec<(String, String)>,
    /// Loaded Rust files that no `mod` declaration reaches from a crate root. Empty where there is no crate root.
    pub unreached: BTreeSet<FileId>,
    /// Published crates among what is read, each a system of its own.
    pub parts: Vec<Workspace>,
    /// Files that were read and wait for [`Workspace::settle`].
    pub(super) coming: Vec<Loaded>,
    /// Absolute root of the run; report paths are relative to it.
    pub(super) root: PathBuf,
    /// Where each loaded file stands.
    pub(super) contexts: BTreeMap<FileId, ModuleContext>,
    /// Package of each loaded file.
    pub(super) owners: BTreeMap<FileId, usize>,
    /// Rust files not loaded, sorted by path.
    pub(super) rest: Vec<Unloaded>,
    /// Which files the crates reach.
    pub(super) reach: Reach,
    /// Files that were loaded, by absolute path.
    pub(super) loaded: BTreeMap<PathBuf, FileId>,
}

/// A Rust file that was listed but holds no lock word, or belongs to a package that reaches no client.
#[derive(Clone, Debug)]
pub(super) struct Unloaded {
    pub path: PathBuf,
    pub package: Option<usize>,
    pub language: Language,
    /// It holds a word that counts near files with lock words.
    pub near: bool,
    /// Its text was looked at, and counted.
    pub read: bool,
}

/// What [`Workspace::more`] looks for: plain names, without their paths.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// Files that call these: `name(`, `name::<`.
    pub called: BTreeSet<String>,
    /// Files that call these as functions, not as methods: `name(` after anything but a dot.
    pub free: BTreeSet<String>,
    /// Files that define these: `fn name`, `struct name`, `trait name`, `const name`, `macro_rules! name`, ..
    pub defined: BTreeSet<String>,
    /// Files that mention these as whole words, in any role.
    pub mentioned: BTreeSet<String>,
}

impl Names {
    /// Whether nothing is asked for.
    pub fn is_empty(&self) -> bool {
        [&self.called, &self.free, &self.defined, &self.mentioned].iter().all(|names| names.is_empty())
    }
}

impl Workspace {
    /// A workspace of one text, for standard input and tests.
    pub fn single(path: &str, bytes: &[u8]) -> Workspace {
        let mut workspace = Workspace::default();
        workspace.add_text(path, bytes);
        workspace
    }

    /// A workspace of texts in memory, for tests: report path and text. Manifests among them count.
    pub fn of_texts<'a>(texts: impl IntoIterator<Item = (&'a str, &'a str)>) -> Workspace {
        let mut texts: Vec<(&str, &str)> = texts.into_iter().collect();
        texts.sort_unstable();
        let packages = Arc::new(super::package::of_texts(&texts));
        let mut workspace = Workspace { packages, ..Workspace::default() };
        for (path, text) in texts {
            workspace.add_text(path, text.as_bytes());
        }
        workspace
    }

    fn add_text(&mut self, path: &str, bytes: &[u8]) {
        self.files_read += 1;
        let Some(language) = super::walk::language(Path::new(path)) else {
            let message = "not read: the name says nothing of Rust, SQL, Lua or a configuration".to_owned();
            self.problems.push(Problem { path: path.to_owned(), span: None, kind: ProblemKind::FileUnread, message });
            return;
        };
        let owner = super::package::owner(&self.packages, Path::new(path));
        let loaded = Loaded { path: PathBuf::from(path), language, package: owner, content: read::text(path, bytes) };
        self.keep(vec![loaded]);
    }

    /// Where a Rust file stands; a default context for other files that are not in a test folder.
    pub fn context(&self, file: FileId) -> ModuleContext {
        self.contexts.get(&file).cloned().unwrap_or_default()
    }

    /// The package of a file.
    pub fn package(&self, file: FileId) -> Option<&Package> {
        self.owners.get(&file).and_then(|i| self.packages.get(*i))
    }

    /// The exact version (from `Cargo.lock`) or, failing that, the requirement of a crate that the file's package depends on.
    /// `krate` is the name code uses or the package's own name.
    pub fn version(&self, file: FileId, krate: &str) -> Option<&str> {
        let package = self.package(file)?;
        let dependency = package.dependencies.get(krate);
        let dependency = dependency.or_else(|| package.dependencies.values().find(|d| d.krate() == krate));
        dependency?.version.as_deref()
    }

    /// Loads Rust files that were passed over so far and match `names`, in one pass over the packages that the loaded files
    /// can reach or that can reach them. Returns the new files in path order. Nothing is loaded twice.
    pub fn more(&mut self, names: &Names) -> Vec<FileId> {
        let Some(finder) = Finder::new(names) else { return Vec::new() };
        let mut found = self.take(|_, bytes| finder.matches(bytes));
        if !found.is_empty() {
            found.extend(self.keep_modules());
        }
        found
    }

    /// Takes in the files with lock words, and those that matter because such a file is near.
    pub(crate) fn settle(&mut self) {
        let coming = std::mem::take(&mut self.coming);
        self.keep(coming);
        self.take(|file, _| file.near);
        self.keep_modules();
    }

    /// Bytes of text that wait for [`Workspace::settle`].
    pub(crate) fn size(&self) -> usize {
        self.coming.iter().map(|file| file.content.as_ref().map_or(0, |(text, _)| text.len())).sum()
    }

    /// Loads the module files above the loaded ones that hand names on: without their `pub use` nobody knows what
    /// `crate::db::save` in another file is.
    fn keep_modules(&mut self) -> Vec<FileId> {
        let mut above: BTreeSet<PathBuf> = BTreeSet::new();
        for (path, id) in &self.loaded {
            let source = self.package(*id).map(|p| p.directory.join("src"));
            let Some(source) = source.filter(|s| path.starts_with(s)) else { continue };
            for folder in path.ancestors().skip(1).take_while(|folder| folder.starts_with(&source)) {
                above.insert(folder.join("mod.rs"));
                above.insert(folder.with_extension("rs"));
            }
            above.extend([source.join("lib.rs"), source.join("main.rs")]);
        }
        self.take(|file, bytes| above.contains(&file.path) && hands_on(bytes))
    }

    /// Loads the files left that stand near the loaded ones and are wanted.
    fn take(&mut self, wanted: impl Fn(&Unloaded, &[u8]) -> bool + Sync) -> Vec<FileId> {
        let code: Vec<FileId> = self.sources.iter().filter(|f| f.language != Language::Config).map(|f| f.id).collect();
        let owners: BTreeSet<usize> = code.iter().filter_map(|id| self.owners.get(id).copied()).collect();
        // Mostly there is but one package, which is near itself.
        let further = self.rest.iter().any(|file| file.package.is_some_and(|p| !owners.contains(&p)));
        let near = if further { super::package::near(&self.packages, &owners) } else { owners };
        // A file of no package may matter to all of them: migrations beside the workspace's members.
        let all = code.iter().any(|id| !self.owners.contains_key(id));
        let root = &self.root;
        let found: Vec<(usize, Loaded)> = self
            .rest
            .par_iter()
            .enumerate()
            .filter(|(_, file)| all || file.package.is_none_or(|p| near.contains(&p)))
            .map_init(Vec::new, |buffer, (index, file)| {
                // A file that cannot be read was reported in the first round, or reaches no client.
                read::bytes(&file.path, Language::Rust, buffer).ok()?;
                let loaded = wanted(file, buffer).then(|| Loaded {
                    path: file.path.clone(),
                    language: Language::Rust,
                    package: file.package,
                    content: read::text(&report_path(root, &file.path), buffer),
                })?;
                Some((index, loaded))
            })
            .flatten()
            .collect();
        let unread = found.iter().filter(|(i, _)| !self.rest[*i].read).count();
        let taken: BTreeSet<usize> = found.iter().map(|(i, _)| *i).collect();
        let mut index = 0;
        self.rest.retain(|_| {
            index += 1;
            !taken.contains(&(index - 1))
        });
        self.files_read += unread;
        self.keep(found.into_iter().map(|(_, loaded)| loaded).collect())
    }

    /// Where a file stands, and whether anything reaches it.
    fn place(
        &mut self,
        id: FileId,
        path: &Path,
        language: Language,
        owner: Option<usize>,
        coming: &[PathBuf],
    ) -> ModuleContext {
        let package = owner.and_then(|i| self.packages.get(i));
        let mut context = module::context(package, path, &self.root);
        let Some(package) = package.filter(|_| language == Language::Rust && self.root.is_absolute() && !context.test)
        else {
            return context;
        };
        let rest = self.rest.iter().filter(|file| file.package == owner).map(|file| file.path.as_path());
        let others = self.loaded.keys().chain(coming).filter(|p| p.starts_with(&package.directory));
        match self.reach.of(package, path, rest.chain(others.map(PathBuf::as_path))) {
            Found::Usual => {}
            Found::Test => context.test = true,
            Found::Path(by, name) => {
                context = module::context(Some(package), &by, &self.root);
                context.module = format!("{}::{name}", context.module);
            }
            Found::Not => {
                self.unreached.insert(id);
            }
        }
        context
    }

    /// Takes files into the sources, in the given order.
    pub(super) fn keep(&mut self, files: Vec<Loaded>) -> Vec<FileId> {
        let mut ids = Vec::new();
        let coming: Vec<PathBuf> = files.iter().map(|file| file.path.clone()).collect();
        for Loaded { path, language, package, content } in files {
            let text = match content {
                Ok((text, notice)) => {
                    self.problems.extend(notice);
                    text
                }
                Err(problem) => {
                    self.problems.push(problem);
                    continue;
                }
            };
            let shown = report_path(&self.root, &path);
            let id = self.sources.add(shown, language, text);
            let context = self.place(id, &path, language, package, &coming);
            self.contexts.insert(id, context);
            if let Some(package) = package {
                self.owners.insert(id, package);
            }
            if self.root.is_absolute() {
                self.sources.get_mut(id).disk = Some(path.clone());
            }
            self.loaded.insert(path, id);
            ids.push(id);
        }
        ids
    }
}

/// Whether a text has a `use` that other modules can see.
fn hands_on(bytes: &[u8]) -> bool {
    static HEADS: LazyLock<Option<AhoCorasick>> =
        LazyLock::new(|| AhoCorasick::new(["pub use ", "pub(crate) use ", "pub(super) use "]).ok());
    HEADS.as_ref().is_some_and(|heads| heads.is_match(bytes))
}

/// A file that was read.
#[derive(Debug)]
pub(super) struct Loaded {
    pub path: PathBuf,
    pub language: Language,
    pub package: Option<usize>,
    pub content: Result<(String, Option<Problem>), Problem>,
}

/// Finds files by [`Names`].
struct Finder {
    automaton: AhoCorasick,
    /// Role of each pattern.
    roles: Vec<Role>,
}

#[derive(Clone, Copy)]
enum Role {
    Called,
    Free,
    Defined,
    Mentioned,
}

impl Finder {
    fn new(names: &Names) -> Option<Finder> {
        let roles = [
            (&names.called, Role::Called),
            (&names.free, Role::Free),
            (&names.defined, Role::Defined),
            (&names.mentioned, Role::Mentioned),
        ];
        let pairs: Vec<(&str, Role)> =
            roles.iter().flat_map(|(set, role)| set.iter().map(move |name| (name.as_str(), *role))).collect();
        let pairs: Vec<_> = pairs.into_iter().filter(|(name, _)| !name.is_empty()).collect();
        if pairs.is_empty() {
            return None;
        }
        let automaton = AhoCorasick::new(pairs.iter().map(|(name, _)| name)).ok()?;
        Some(Finder { automaton, roles: pairs.into_iter().map(|(_, role)| role).collect() })
    }

    fn matches(&self, bytes: &[u8]) -> bool {
        self.automaton.find_overlapping_iter(bytes).any(|hit| {
            let (before, after) = (&bytes[..hit.start()], &bytes[hit.end()..]);
            if before.last().is_some_and(is_word) || after.first().is_some_and(is_word) {
                return false;
            }
            match self.roles[hit.pattern().as_usize()] {
                Role::Mentioned => true,
                Role::Free if matches!(before.trim_ascii_end(), [.., b'.'] | [.., b'f', b'n']) => false,
                Role::Called | Role::Free => {
                    let after = after.trim_ascii_start();
                    after.starts_with(b"(") || after.starts_with(b"::<") || after.starts_with(b"!")
                }
                Role::Defined => {
                    const HEADS: [&[u8]; 11] = [
                        b"fn",
                        b"struct",
                        b"enum",
                        b"trait",
                        b"type",
                        b"const",
                        b"static",
                        b"mod",
                        b"macro_rules!",
                        b"union",
                        b"mut",
                    ];
                    let before = before.trim_ascii_end();
                    HEADS
                        .iter()
                        .any(|head| before.strip_suffix(*head).is_some_and(|rest| !rest.last().is_some_and(is_word)))
                }
            }
        })
    }
}

fn is_word(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || *byte == b'_' || *byte >= 0x80
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    fn finder(called: &[&str], defined: &[&str], mentioned: &[&str]) -> Finder {
        let set = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect();
        let names = Names { called: set(called), defined: set(defined), mentioned: set(mentioned), ..Names::default() };
        Finder::new(&names).unwrap()
    }

    #[test]
    fn names_match_as_whole_words_in_their_role() {
        let called = finder(&["take"], &[], &[]);
        assert!(called.matches(b"x.take (1)") && called.matches(b"take::<T>(1)"));
        assert!(!called.matches(b"fn mistake(x)") && !called.matches(b"let take = 1;"));
        let names = Names { free: BTreeSet::from(["take".to_owned()]), ..Names::default() };
        let free = Finder::new(&names).unwrap();
        assert!(free.matches(b"lock::take(k)") && free.matches(b"= take (k)"));
        assert!(!free.matches(b"x.take(k)") && !free.matches(b"async fn take(k)"));
        let defined = finder(&[], &["take"], &[]);
        assert!(defined.matches(b"pub async fn take<T>()") && !defined.matches(b"x.take()"));
        assert!(finder(&[], &[], &["Lock"]).matches(b"use a::{Lock};"));
        assert!(!finder(&[], &[], &["Lock"]).matches(b"LockGuard"));
        assert!(finder(&["ab", "b"], &[], &[]).matches(b"ab + b()"), "a longer name does not hide a shorter one");
    }
}
