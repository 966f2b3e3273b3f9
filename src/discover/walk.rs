//! The one walk over the directories: lists what may matter, reads nothing.

use super::root::{Roots, report_path};
use super::{Error, read};
use crate::source::{Language, Problem, ProblemKind};
use ignore::{DirEntry, WalkBuilder, WalkState};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// What the walk found, sorted by path.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// Files by language.
    pub files: Vec<(PathBuf, Language)>,
    /// `Cargo.toml` files.
    pub manifests: Vec<PathBuf>,
    /// What was passed over, and why: report path, reason.
    pub skipped: Vec<(String, String)>,
    /// What could not be read.
    pub problems: Vec<Problem>,
}

/// Walks all starts in parallel. `.gitignore` and `.ignore` files count, also outside a git repository. Symbolic links
/// are not followed: what they point to is read where it lies, so no loop can arise and no file is reported twice.
pub(super) fn list(roots: &Roots, exclude: &[String]) -> Result<Listing, Error> {
    let mut listing = Listing::default();
    let mut directories = Vec::new();
    for start in &roots.starts {
        // A file named on the command line is read whatever ignore files say.
        if start.is_dir() {
            directories.push(start);
        } else {
            listing.add(start.clone());
        }
    }
    let Some((first, rest)) = directories.split_first() else { return Ok(listing) };
    let mut overrides = ignore::overrides::OverrideBuilder::new(&roots.root);
    for glob in exclude {
        let bad = |e: ignore::Error| {
            let text = e.to_string();
            Error::Glob(glob.clone(), text.rsplit("': ").next().unwrap_or(&text).to_owned())
        };
        overrides.add(&format!("!{glob}")).map_err(bad)?;
    }
    let overrides = overrides.build().map_err(|e| Error::Glob(exclude.join(", "), e.to_string()))?;
    let mut builder = WalkBuilder::new(first);
    for start in rest {
        builder.add(start);
    }
    let shared = Mutex::new(Listing::default());
    builder.overrides(overrides).hidden(false).require_git(false).threads(rayon::current_num_threads());
    builder.build_parallel().run(|| {
        let mut local = Local { listing: Listing::default(), shared: &shared };
        let root = &roots.root;
        Box::new(move |entry| match entry {
            Ok(entry) => visit(entry, root, &mut local.listing),
            Err(error) => {
                local.listing.problems.push(walk_problem(&error, root));
                WalkState::Continue
            }
        })
    });
    let walked = shared.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    listing.append(walked);
    listing.files.sort();
    listing.manifests.sort();
    listing.skipped.sort();
    listing.problems.sort();
    Ok(listing)
}

/// Hands a thread's part over when the thread ends.
struct Local<'a> {
    listing: Listing,
    shared: &'a Mutex<Listing>,
}

impl Drop for Local<'_> {
    fn drop(&mut self) {
        let mut shared = self.shared.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        shared.append(std::mem::take(&mut self.listing));
    }
}

impl Listing {
    fn append(&mut self, other: Listing) {
        self.files.extend(other.files);
        self.manifests.extend(other.manifests);
        self.skipped.extend(other.skipped);
        self.problems.extend(other.problems);
    }

    fn add(&mut self, path: PathBuf) {
        if path.file_name().is_some_and(|n| n == "Cargo.toml") {
            self.manifests.push(path.clone());
        }
        if let Some(language) = language(&path) {
            self.files.push((path, language));
        }
    }
}

/// The language of a file name; `None` for what is never read.
pub(super) fn language(path: &Path) -> Option<Language> {
    let extension = path.extension().map(|e| e.to_string_lossy().to_ascii_lowercase());
    match extension.as_deref() {
        Some("rs") => Some(Language::Rust),
        Some("sql") => Some(Language::Sql),
        Some("lua") => Some(Language::Lua),
        _ if read::is_config_name(path) => Some(Language::Config),
        _ => None,
    }
}

fn visit(entry: DirEntry, root: &Path, listing: &mut Listing) -> WalkState {
    let Some(kind) = entry.file_type() else { return WalkState::Continue };
    if kind.is_dir() {
        if entry.depth() > 0
            && let Some(reason) = skip(entry.path())
        {
            if !reason.is_empty() {
                listing.skipped.push((report_path(root, entry.path()), reason.to_owned()));
            }
            return WalkState::Skip;
        }
    } else if kind.is_symlink() {
        if language(entry.path()).is_some() || entry.path().is_dir() {
            listing.skipped.push((report_path(root, entry.path()), "symbolic link, not followed".to_owned()));
        }
    } else if kind.is_file() {
        listing.add(entry.into_path());
    } else if language(entry.path()).is_some() {
        listing.skipped.push((report_path(root, entry.path()), "not a regular file".to_owned()));
    }
    WalkState::Continue
}

/// Why a directory is not entered; an empty reason is not worth a word.
fn skip(dir: &Path) -> Option<&'static str> {
    let name = dir.file_name()?.to_str()?;
    let in_source = || dir.components().any(|c| c.as_os_str() == "src");
    match name {
        ".git" | ".hg" | ".svn" | ".jj" => Some(""),
        "node_modules" => Some("dependencies of another tool"),
        "target" if dir.join("CACHEDIR.TAG").exists() || dir.join(".rustc_info.json").exists() => Some("build output"),
        "vendor" | "third_party" if !in_source() => Some("vendored dependencies"),
        _ => None,
    }
}

fn walk_problem(error: &ignore::Error, root: &Path) -> Problem {
    let path = error_path(error).map_or_else(String::new, |p| report_path(root, p));
    let why = error.io_error().map_or_else(|| error.to_string(), super::root::reason);
    Problem { path, span: None, kind: ProblemKind::FileUnread, message: format!("not read: {why}") }
}

fn error_path(error: &ignore::Error) -> Option<&Path> {
    match error {
        ignore::Error::WithPath { path, .. } => Some(path),
        ignore::Error::WithDepth { err, .. } | ignore::Error::WithLineNumber { err, .. } => error_path(err),
        _ => None,
    }
}
