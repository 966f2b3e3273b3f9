//! Which of the listed files are read, and which of those are kept.

use super::package::{self, Package};
use super::read::{self, Searcher};
use super::root::{Roots, report_path};
use super::walk::Listing;
use super::workspace::{Loaded, Unloaded, Workspace};
use super::{Error, Request};
use crate::source::{Language, Problem, ProblemKind};
use rayon::prelude::*;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// What became of one file.
enum Fate {
    Kept(Loaded),
    Rest(Unloaded),
    Generated(String),
    Unread(Problem),
    Nothing,
}

/// Reads the files that can matter and keeps those with lock words.
pub(super) fn select(
    roots: Roots,
    listing: Listing,
    (packages, mut problems): (Vec<Package>, Vec<Problem>),
    request: &Request,
) -> Result<Workspace, Error> {
    let chosen = chosen(&packages, &request.packages)?;
    let reaching = package::reaching(&packages, &request.clients, request.include_tests);
    let searcher = Searcher::new(&request.words);
    // Schema files say which inserts the database itself guards.
    let keys = Searcher::new(&["unique".to_owned(), "primary key".to_owned()]);
    let Listing { files, mut skipped, problems: walk_problems, .. } = listing;
    if files.is_empty() {
        return Err(Error::Nothing(roots.written));
    }
    problems.extend(walk_problems);
    let root = &roots.root;
    let starts: BTreeSet<&PathBuf> = roots.starts.iter().collect();
    let fates: Vec<(bool, Fate)> = files
        .par_iter()
        .map_init(Vec::new, |buffer, (path, language)| {
            let package = package::owner(&packages, path);
            if let Some(chosen) = &chosen
                && package.is_none_or(|p| !chosen.contains(&p))
                && *language != Language::Config
            {
                return (false, Fate::Rest(Unloaded { path: path.clone(), package, language: *language }));
            }
            let named = starts.contains(path);
            let rest = || Fate::Rest(Unloaded { path: path.clone(), package, language: *language });
            if *language == Language::Rust && !named && package.is_some_and(|p| !reaching.contains(&p)) {
                return (false, rest());
            }
            let shown = report_path(root, path);
            if let Err(why) = read::bytes(path, *language, buffer) {
                let message = format!("not read: {why}");
                return (
                    false,
                    Fate::Unread(Problem { path: shown, span: None, kind: ProblemKind::FileUnread, message }),
                );
            }
            if *language == Language::Config {
                let fate = if read::is_config(&shown, buffer) {
                    keep(path, *language, package, &shown, buffer)
                } else {
                    Fate::Nothing
                };
                return (true, fate);
            }
            let schema = *language == Language::Sql && keys.matches(buffer);
            if !named && !schema && !searcher.matches(buffer) {
                return (true, rest());
            }
            if *language == Language::Rust && !named && read::is_generated(buffer) {
                return (true, Fate::Generated(shown));
            }
            (true, keep(path, *language, package, &shown, buffer))
        })
        .collect();
    let mut workspace = Workspace { root: roots.root.clone(), packages, ..Workspace::default() };
    let mut kept = Vec::new();
    for (read, fate) in fates {
        workspace.files_read += usize::from(read);
        match fate {
            Fate::Kept(loaded) => kept.push(loaded),
            Fate::Rest(file) if file.language == Language::Rust => workspace.rest.push(file),
            Fate::Generated(path) => skipped.push((path, "generated code".to_owned())),
            Fate::Unread(problem) => problems.push(problem),
            Fate::Rest(_) | Fate::Nothing => {}
        }
    }
    skipped.sort();
    workspace.skipped = skipped;
    workspace.problems = problems;
    workspace.keep(kept);
    workspace.problems.sort();
    Ok(workspace)
}

fn keep(path: &std::path::Path, language: Language, package: Option<usize>, shown: &str, bytes: &[u8]) -> Fate {
    Fate::Kept(Loaded { path: path.to_path_buf(), language, package, content: read::text(shown, bytes) })
}

/// Indices of the packages asked for by name; `None` for all.
fn chosen(packages: &[Package], names: &[String]) -> Result<Option<BTreeSet<usize>>, Error> {
    if names.is_empty() {
        return Ok(None);
    }
    let mut chosen = BTreeSet::new();
    for name in names {
        let found: Vec<usize> = (0..packages.len()).filter(|i| packages[*i].name == *name).collect();
        if found.is_empty() {
            return Err(Error::Package(name.clone(), packages.iter().map(|p| p.name.clone()).collect()));
        }
        chosen.extend(found);
    }
    Ok(Some(chosen))
}
