//! The baseline of a run: what it accepts, what is new, what is gone.

use super::args::Check;
use super::settings::Settings;
use super::{Failure, select};
use crate::baseline::{self, Baseline, Matching};
use crate::discover::{self, Request};
use crate::pipeline::Outcome;
use crate::report::{Entry, Silence, SilencedBy, count, fingerprint};
use crate::source::{ProblemKind, Sources};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The baseline of a run and where it lies.
#[derive(Debug)]
pub struct Accepted {
    path: PathBuf,
    root: PathBuf,
    baseline: Baseline,
    /// Rules that ran.
    ran: BTreeSet<&'static str>,
    /// Report paths that were read; the empty one is everything.
    starts: Vec<String>,
    /// Whole workspaces were read: a finding that is not there any more is gone.
    whole: bool,
}

/// Findings that nothing but the baseline may silence, and which entry does.
#[derive(Debug)]
pub struct Judged<'a> {
    found: Vec<Entry<'a>>,
    matching: Matching,
}

impl Accepted {
    /// Reads the baseline file if there is one. `ran` are the rules that run.
    pub fn load(args: &Check, request: &Request, root: &Path, ran: &[&'static str]) -> Result<Accepted, Failure> {
        let path = args.baseline.as_ref().map_or_else(|| root.join(baseline::FILE), |path| request.cwd.join(path));
        let named = args.baseline.is_some() && !args.write_baseline;
        let baseline = match std::fs::read_to_string(&path) {
            Ok(text) => Baseline::parse(&text).map_err(|e| Failure(format!("{}:{e}", path.display())))?,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound && !named => Baseline::default(),
            Err(e) => return Err(Failure(format!("cannot read `{}`: {}", path.display(), discover::reason(&e)))),
        };
        let here = [PathBuf::from(".")];
        let paths = if request.paths.is_empty() { here.as_slice() } else { &request.paths };
        let full: Vec<PathBuf> = paths.iter().filter_map(|path| request.cwd.join(path).canonicalize().ok()).collect();
        let relative = |path: &PathBuf| Some(path.strip_prefix(root).ok()?.to_string_lossy().replace('\\', "/"));
        // A member of a workspace is only a part: what its callers do is not seen.
        let manifest = |dir: &Path| dir.join("Cargo.toml").is_file();
        let above = |path: &Path| path.ancestors().skip(1).take_while(|dir| dir.starts_with(root)).any(manifest);
        let whole = |path: &PathBuf| path == root || (manifest(path) && !above(path));
        Ok(Accepted {
            path,
            root: root.to_path_buf(),
            baseline,
            ran: ran.iter().copied().collect(),
            starts: full.iter().filter_map(relative).collect(),
            whole: request.stdin.is_none() && request.packages.is_empty() && full.iter().all(whole),
        })
    }

    /// Silences what the baseline accepts.
    pub fn silence<'a>(&self, sources: &Sources, entries: &mut [(Entry<'a>, Option<Silence>)]) -> Judged<'a> {
        let found: Vec<Entry<'a>> = entries.iter().filter(|(_, s)| s.is_none()).map(|(e, _)| e.clone()).collect();
        let matching = self.baseline.matching(sources, &found, |path| !self.root.join(path).exists());
        let open = entries.iter_mut().filter(|(_, silence)| silence.is_none());
        for ((_, silence), reason) in open.zip(self.baseline.reasons(&matching)) {
            *silence = reason.map(|reason| Silence { by: SilencedBy::Baseline, reason: reason.to_owned() });
        }
        Judged { found, matching }
    }

    /// Whether this run would have found what an entry accepts: its rule ran where its line stands, if that is still there.
    fn counts(&self, outcome: &Outcome, settings: &Settings, (rule, path, line): (&str, &str, &str)) -> bool {
        let known = select::all().any(|r| r.id == rule);
        let below = |start: &String| {
            let rest = path.strip_prefix(start.as_str());
            rest.is_some_and(|rest| start.is_empty() || rest.is_empty() || rest.starts_with('/'))
        };
        if known && (!self.ran.contains(rule) || settings.config.is_off(rule, path))
            || !self.starts.iter().any(below)
            || outcome.problems.iter().any(|p| p.path == path && p.kind != ProblemKind::Notice)
        {
            return false;
        }
        let reads = |text: &str| text.lines().any(|other| fingerprint::normal(other) == line);
        match outcome.sources.iter().find(|file| file.path == path) {
            Some(file) => {
                let unjudged = outcome.unjudged.iter().filter(|span| span.file == file.id);
                !unjudged.into_iter().any(|span| reads(file.slice(*span)))
            }
            // Left out, or nothing to do with locks any more.
            None => !std::fs::read_to_string(self.root.join(path)).is_ok_and(|text| reads(&text)),
        }
    }

    /// Drops from the file what is gone. What to tell about that, if anything: a partial run, or one in CI, changes nothing.
    pub fn shrink(&self, outcome: &Outcome, settings: &Settings, judged: &Judged<'_>) -> Option<String> {
        if self.baseline.is_empty() || !self.whole {
            return None;
        }
        let counts = |rule: &str, path: &str, line: &str| self.counts(outcome, settings, (rule, path, line));
        let (shrunk, gone, moved) = self.baseline.shrunk(&outcome.sources, &judged.found, &judged.matching, counts);
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let what = match (gone, moved) {
            (0, 0) => return None,
            (0, 1) => "1 accepted finding is in a renamed file".to_owned(),
            (0, moved) => format!("{moved} accepted findings are in renamed files"),
            (1, _) => "1 accepted finding is gone".to_owned(),
            (gone, _) => format!("{gone} accepted findings are gone"),
        };
        if std::env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false") {
            return Some(format!("{what}: a run outside of CI brings {name} up to date"));
        }
        Some(match std::fs::write(&self.path, shrunk.text()) {
            Ok(()) => format!("{what}: {name} is brought up to date"),
            Err(e) => format!("{what}, but {name} cannot be written: {}", discover::reason(&e)),
        })
    }

    /// Writes the baseline anew: what is accepted already and is still there, and what is `shown`.
    pub fn write(
        &self,
        outcome: &Outcome,
        settings: &Settings,
        judged: &Judged<'_>,
        shown: &[Entry<'_>],
        reason: &str,
    ) -> Result<String, Failure> {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_secs());
        // Reproducible builds fix the clock by this variable.
        let epoch = std::env::var("SOURCE_DATE_EPOCH").ok().and_then(|text| text.parse().ok());
        let today = baseline::date(epoch.unwrap_or(now));
        let counts =
            |rule: &str, path: &str, line: &str| self.whole && self.counts(outcome, settings, (rule, path, line));
        let wanted: BTreeSet<usize> = shown.iter().map(|entry| entry.index).collect();
        let renewed = self.baseline.renewed(
            &outcome.sources,
            &judged.found,
            &judged.matching,
            (reason, &today),
            |entry| wanted.contains(&entry.index),
            counts,
        );
        let shown_path = self.path.display();
        std::fs::write(&self.path, renewed.text())
            .map_err(|e| Failure(format!("cannot write `{shown_path}`: {}", discover::reason(&e))))?;
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        Ok(format!("{name} accepts {}", count(renewed.len(), "finding")))
    }
}
