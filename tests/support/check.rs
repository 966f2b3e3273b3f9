//! Runs the library on texts and folders and compares findings with the markers written into them.

use leaselint::discover::{self, Request, Workspace};
use leaselint::finding::Confidence;
use leaselint::model::Models;
use leaselint::pipeline::{self, Options, Outcome};
use leaselint::source::Problem;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// A line of a file and the rule that belongs there. Lines count from 1.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    pub path: String,
    pub line: usize,
    pub rule: String,
}

/// What a case should give and what it gave.
#[derive(Debug, Default)]
pub struct Verdict {
    /// Markers without a finding.
    pub missed: Vec<Mark>,
    /// Findings without a marker, with their messages.
    pub surplus: Vec<(Mark, String)>,
    /// Findings that stand at a marker.
    pub found: Vec<Mark>,
}

impl Verdict {
    pub fn is_right(&self) -> bool {
        self.missed.is_empty() && self.surplus.is_empty()
    }

    /// The difference, one line each, with the source line where it is known.
    pub fn describe(&self, texts: &BTreeMap<String, String>) -> String {
        let source = |mark: &Mark| {
            let text = texts.get(&mark.path).map(String::as_str).unwrap_or_default();
            text.lines().nth(mark.line - 1).unwrap_or_default().trim().to_owned()
        };
        let mut out = String::new();
        for mark in &self.missed {
            out += &format!("    missed {} at {}:{} | {}\n", mark.rule, mark.path, mark.line, source(mark));
        }
        for (mark, message) in &self.surplus {
            out += &format!("    false  {} at {}:{} | {}\n", mark.rule, mark.path, mark.line, source(mark));
            out += &format!("           {message}\n");
        }
        out
    }
}

/// The markers of a text: `//~ rule`, `--~ rule`, `;~ rule`, `#~ rule` at the end of the line where the finding must stand,
/// several rules separated by blanks. `~^` in place of `~` means the line above.
pub fn marks(path: &str, text: &str) -> Vec<Mark> {
    let mut marks = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let Some((_, rest)) = ["//~", "--~", ";~", "#~"].iter().find_map(|intro| line.split_once(intro)) else {
            continue;
        };
        let (line, rest) = match rest.strip_prefix('^') {
            Some(rest) => (index, rest),
            None => (index + 1, rest),
        };
        let named = rest.split_whitespace();
        marks.extend(named.map(|rule| Mark { path: path.to_owned(), line, rule: rule.to_owned() }));
    }
    marks
}

/// Runs one rule, or all, on texts in memory.
pub fn run_texts(texts: &BTreeMap<String, String>, rule: Option<&str>) -> Outcome {
    run(Workspace::of_texts(texts.iter().map(|(path, text)| (path.as_str(), text.as_str()))), rule)
}

/// Runs one rule, or all, on a folder as the program does.
pub fn run_folder(folder: &Path, rule: Option<&str>) -> Outcome {
    let mut request = Request { cwd: folder.to_path_buf(), ..Request::default() };
    request.use_models(Models::builtin());
    match discover::discover(&request) {
        Ok(workspace) => run(workspace, rule),
        Err(error) => panic!("{}: {error}", folder.display()),
    }
}

fn run(workspace: Workspace, rule: Option<&str>) -> Outcome {
    // A rule's id is compared with static ones; a leaked copy per case is cheap.
    let rules = rule.map(|id| vec![&*id.to_owned().leak()]);
    let options = Options { rules, ..Options::default() };
    pool().install(|| pipeline::run(workspace, &options))
}

/// The program runs on threads with this stack; a test thread has two megabytes.
fn pool() -> &'static rayon::ThreadPool {
    static POOL: OnceLock<rayon::ThreadPool> = OnceLock::new();
    POOL.get_or_init(|| rayon::ThreadPoolBuilder::new().stack_size(64 << 20).build().unwrap())
}

/// The findings shown by default (those of low confidence are not), as path, line and rule, with their messages.
pub fn found(outcome: &Outcome) -> Vec<(Mark, String)> {
    let shown = outcome.findings.iter().filter(|finding| finding.confidence > Confidence::Low);
    let mut found: Vec<_> = shown
        .map(|finding| {
            let file = outcome.sources.get(finding.span.file);
            let line = file.line(finding.span.start);
            let mark = Mark { path: file.path.clone(), line, rule: finding.rule.to_owned() };
            (mark, finding.message.clone())
        })
        .collect();
    found.sort();
    found
}

/// Compares findings with markers. Two findings of one rule on one line count as a surplus one.
pub fn compare(mut expected: Vec<Mark>, found: Vec<(Mark, String)>) -> Verdict {
    let mut verdict = Verdict::default();
    for (mark, message) in found {
        match expected.iter().position(|wanted| *wanted == mark) {
            Some(index) => verdict.found.push(expected.remove(index)),
            None => verdict.surplus.push((mark, message)),
        }
    }
    verdict.missed = expected;
    verdict
}

/// All files below `folder`, sorted: path relative to it with `/` separators, and text.
pub fn read_folder(folder: &Path) -> BTreeMap<String, String> {
    let mut texts = BTreeMap::new();
    for path in files(folder) {
        let relative = path.strip_prefix(folder).unwrap().to_str().unwrap().replace('\\', "/");
        texts.insert(relative, std::fs::read_to_string(&path).unwrap());
    }
    texts
}

/// All files below `folder`, sorted.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Names of the entries of a folder, sorted.
pub fn entries(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A path in the repository.
pub fn repository(relative: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(relative)
}

/// Problems as text, for messages.
pub fn problems(problems: &[Problem]) -> String {
    problems.iter().map(|p| format!("    {}: {}\n", p.path, p.message)).collect()
}
