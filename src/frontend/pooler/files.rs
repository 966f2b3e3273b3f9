//! The configuration files of a run by path, and how one of them names another.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::source::{FileId, Problem, ProblemKind, SourceFile, Span};

/// Larger configuration files are not read: they are generated or data.
pub(super) const MAX_BYTES: usize = 1 << 20;

/// All files by path.
pub(super) struct Files<'a> {
    by_path: BTreeMap<&'a str, &'a SourceFile>,
    by_id: BTreeMap<FileId, &'a SourceFile>,
}

impl<'a> Files<'a> {
    /// Indexes the files.
    pub(super) fn new(files: &[&'a SourceFile]) -> Self {
        Files {
            by_path: files.iter().map(|file| (file.path.as_str(), *file)).collect(),
            by_id: files.iter().map(|file| (file.id, *file)).collect(),
        }
    }

    /// All files, by path.
    pub(super) fn iter(&self) -> impl Iterator<Item = &'a SourceFile> {
        self.by_path.values().copied()
    }

    /// The file at exactly this path.
    pub(super) fn get(&self, path: &str) -> Option<&'a SourceFile> {
        self.by_path.get(path).copied()
    }

    /// The file of an id.
    pub(super) fn id(&self, id: FileId) -> Option<&'a SourceFile> {
        self.by_id.get(&id).copied()
    }

    /// The file that `reference` means in a file of `dir`. An absolute path is a path of the target machine: then the file of
    /// that name beside the referring one is taken.
    pub(super) fn near(&self, dir: &str, reference: &str) -> Option<&'a SourceFile> {
        if let Some(absolute) = reference.strip_prefix('/') {
            let name = absolute.rsplit('/').next().unwrap_or(absolute);
            return self.get(&join(dir, name));
        }
        self.get(&join(dir, reference))
    }
}

/// Directory part of a path, empty at the root.
pub(super) fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(dir, _)| dir)
}

/// Last part of a path.
pub(super) fn base_name(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

/// `dir/reference` with `.` and `..` worked out; what climbs over the root stays below it.
pub(super) fn join(dir: &str, reference: &str) -> String {
    let mut parts: Vec<&str> = dir.split('/').filter(|part| !part.is_empty()).collect();
    for part in reference.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// True if a file is for tests, examples or benchmarks, by a directory or a part of its name.
pub(super) fn is_test(path: &str) -> bool {
    const WORDS: [&str; 15] = [
        "test",
        "tests",
        "testing",
        "testdata",
        "e2e",
        "example",
        "examples",
        "bench",
        "benches",
        "benchmark",
        "benchmarks",
        "demo",
        "docs",
        "doc",
        ".circleci",
    ];
    let path = path.to_ascii_lowercase();
    let (dirs, name) = path.rsplit_once('/').unwrap_or(("", &path));
    let in_dir = dirs.split('/').flat_map(|dir| dir.split(['-', '_'])).any(|part| WORDS.contains(&part));
    // `.env.example` and `config.example.toml` are the application's own, only without the secrets
    in_dir
        || name.split(['.', '-', '_']).any(|part| matches!(part, "test" | "tests" | "testing" | "e2e" | "ci" | "bench"))
}

/// How many leading directories two directories share, for "the nearer one".
pub(super) fn shared_depth(a: &str, b: &str) -> usize {
    let parts = |dir: &str| dir.split('/').filter(|part| !part.is_empty()).map(str::to_string).collect::<Vec<_>>();
    parts(a).iter().zip(parts(b).iter()).take_while(|(x, y)| x == y).count()
}

/// A span of `file`.
pub(super) fn span(file: &SourceFile, place: Range<usize>) -> Span {
    Span::new(file.id, place.start, place.end)
}

/// A part of `file` that was not understood.
pub(super) fn part_unread(file: &SourceFile, place: Range<usize>, message: impl Into<String>) -> Problem {
    Problem {
        path: file.path.clone(),
        span: Some(span(file, place)),
        kind: ProblemKind::PartUnread,
        message: message.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        assert_eq!(join("deploy/a", "../pgbouncer/./x.ini"), "deploy/pgbouncer/x.ini");
        assert_eq!(join("", "./x"), "x");
        assert_eq!(join("a", "../../../x"), "x");
        assert_eq!((parent("a/b"), parent("a"), base_name("a/b")), ("a", "", "b"));
        assert_eq!(shared_depth("deploy/dev", "deploy/prod"), 1);
    }
}
