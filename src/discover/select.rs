//! Which of the listed files are read, and which of those are kept.

use super::module;
use super::package::{self, Package};
use super::read::{self, Searcher};
use super::root::{Roots, report_path};
use super::walk::Listing;
use super::workspace::{Loaded, Unloaded, Workspace};
use super::{Error, Request};
use crate::model::{Reach, Word};
use crate::source::{Language, Problem, ProblemKind};
use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

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
    let searcher = Searcher::new(request.words.iter());
    let telling = Searcher::new(request.words.iter().filter(|word| word.reach == Reach::Everywhere));
    // Schema files say which inserts the database itself guards.
    let keys = ["unique", "primary key"].map(|text| Word { text: text.to_owned(), reach: Reach::Near });
    let keys = Searcher::new(keys.iter());
    let Listing { files, mut skipped, problems: walk_problems, .. } = listing;
    if files.is_empty() {
        return Err(Error::Nothing(roots.written));
    }
    problems.extend(walk_problems);
    let root = &roots.root;
    // Asked once a directory: finding the manifest above costs more than looking at most files.
    let folders: HashSet<&Path> = files.iter().filter_map(|(path, _)| path.parent()).collect();
    let owners: HashMap<&Path, Option<usize>> =
        folders.into_par_iter().map(|folder| (folder, package::owner_of_folder(&packages, folder))).collect();
    let starts: BTreeSet<&PathBuf> = roots.starts.iter().collect();
    let fates: Vec<(bool, Fate)> = files
        .par_iter()
        .map_init(Vec::new, |buffer, (path, language)| {
            let package = path.parent().and_then(|folder| owners.get(folder).copied()).flatten();
            if let Some(chosen) = &chosen
                && package.is_none_or(|p| !chosen.contains(&p))
                && *language != Language::Config
            {
                return (
                    false,
                    Fate::Rest(Unloaded { path: path.clone(), package, language: *language, near: false, read: false }),
                );
            }
            let named = starts.contains(path);
            let rest =
                |near| Fate::Rest(Unloaded { path: path.clone(), package, language: *language, near, read: true });
            // What only tests reach is neither judged nor a caller that counts.
            if *language == Language::Rust
                && !named
                && !request.include_tests
                && module::context(package.and_then(|p| packages.get(p)), path, root).test
            {
                return (false, Fate::Nothing);
            }
            let reaches = *language != Language::Rust || named || package.is_none_or(|p| reaching.contains(&p));
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
            let schema = *language == Language::Sql && keys.reach(buffer).is_some();
            let words = if reaches { &searcher } else { &telling };
            if !named && !schema {
                match words.reach(buffer) {
                    None => return (true, rest(false)),
                    Some(Reach::Near) => return (true, rest(true)),
                    Some(Reach::Clients | Reach::Everywhere) => {}
                }
            }
            if *language == Language::Rust && !named && read::is_generated(buffer) {
                return (true, Fate::Generated(shown));
            }
            (true, keep(path, *language, package, &shown, buffer))
        })
        .collect();
    let alone = if request.apart { package::alone(&packages) } else { BTreeSet::new() };
    let packages = Arc::new(packages);
    let new = || Workspace { root: roots.root.clone(), packages: packages.clone(), ..Workspace::default() };
    let mut workspace = new();
    let mut parts: BTreeMap<usize, Workspace> = BTreeMap::new();
    for (read, fate) in fates {
        workspace.files_read += usize::from(read);
        let package = match &fate {
            Fate::Kept(file) => file.package,
            Fate::Rest(file) => file.package,
            _ => None,
        };
        let part = match package.filter(|p| alone.contains(p)) {
            Some(package) => parts.entry(package).or_insert_with(new),
            None => &mut workspace,
        };
        match fate {
            Fate::Kept(file) => part.coming.push(file),
            Fate::Rest(file) if file.language == Language::Rust => part.rest.push(file),
            Fate::Generated(path) => skipped.push((path, "generated code".to_owned())),
            Fate::Unread(problem) => problems.push(problem),
            Fate::Rest(_) | Fate::Nothing => {}
        }
    }
    skipped.sort();
    workspace.skipped = skipped;
    workspace.problems = problems;
    workspace.settle();
    workspace.problems.sort();
    // Without a file with lock words there is nothing to begin with.
    workspace.parts = parts.into_values().filter(|part| !part.coming.is_empty()).collect();
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
