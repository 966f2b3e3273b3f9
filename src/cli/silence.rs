//! From what a run found to what is shown: levels, comments, declarations, baseline, limits.

use super::args::Check;
use super::settings::Settings;
use super::{Failure, select};
use crate::baseline::{self, Baseline};
use crate::config::EFFICIENCY_EXEMPT;
use crate::discover;
use crate::finding::{Confidence, Finding, Severity};
use crate::pipeline::Outcome;
use crate::report::{Entry, Silence, SilencedBy};
use crate::source::{Language, Sources, Span};
use crate::suppress;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Puts the silencing rules' own findings among the outcome's and gives every finding its level. Returns for each finding
/// why it is silenced, if it is.
pub fn judge(outcome: &mut Outcome, settings: &Settings, ran: &[&'static str], whole: bool) -> Vec<Option<Silence>> {
    let known: Vec<&'static str> = select::all().map(|r| r.id).collect();
    let ran: BTreeSet<&str> = ran.iter().copied().collect();
    let applied = suppress::apply(&outcome.sources, &outcome.findings, &known, &ran, &outcome.unjudged);
    let comment = |reason: String| Silence { by: SilencedBy::Comment, reason };
    let mut silences: Vec<Option<Silence>> = applied.silenced.into_iter().map(|r| r.map(comment)).collect();
    for (finding, silence) in outcome.findings.iter().zip(&mut silences) {
        let declared = finding.lock.as_deref().and_then(|key| settings.config.declaration(key));
        if let (Some(i), None) = (declared, &silence)
            && EFFICIENCY_EXEMPT.contains(&finding.rule)
        {
            *silence = Some(Silence { by: SilencedBy::Declaration, reason: settings.config.locks[i].reason.clone() });
        }
    }
    let mut own = applied.own;
    if whole {
        own.extend(unused_declarations(outcome, settings));
    }
    own.retain(|finding| ran.contains(finding.rule));
    outcome.findings.extend(own);
    silences.resize(outcome.findings.len(), None);
    let highest: BTreeMap<&str, Severity> = select::all().map(|r| (r.id, r.severity)).collect();
    let mut kept = Vec::new();
    let findings = std::mem::take(&mut outcome.findings);
    for (mut finding, silence) in findings.into_iter().zip(silences) {
        let path = &outcome.sources.get(finding.span.file).path;
        let own = highest.get(finding.rule).copied().unwrap_or(finding.severity);
        if let Some(severity) = settings.config.severity(path, &finding, own) {
            finding.severity = severity;
            outcome.findings.push(finding);
            kept.push(silence);
        }
    }
    kept
}

fn unused_declarations(outcome: &mut Outcome, settings: &Settings) -> Vec<Finding> {
    let Some((path, text)) = &settings.source else { return Vec::new() };
    let keys: BTreeSet<&str> = outcome
        .locks
        .iter()
        .map(String::as_str)
        .chain(outcome.findings.iter().filter_map(|f| f.lock.as_deref()))
        .collect();
    let unused: Vec<_> = settings
        .config
        .locks
        .iter()
        .filter(|lock| !keys.iter().any(|key| crate::config::matches_key(&lock.key, key)))
        .collect();
    if unused.is_empty() {
        return Vec::new();
    }
    let file = outcome.sources.add(path.clone(), Language::Config, text.as_str());
    outcome.sources.get_mut(file).disk = Some(settings.root.join(path));
    unused
        .into_iter()
        .map(|lock| suppress::unused_declaration(&lock.key, Span::new(file, lock.span.start, lock.span.end)))
        .collect()
}

/// What is shown and what is not.
#[derive(Debug, Default)]
pub struct Shown<'a> {
    /// Shown.
    pub findings: Vec<Entry<'a>>,
    /// Silenced.
    pub silenced: Vec<(Entry<'a>, Silence)>,
}

/// Splits the findings by what the limits and the files asked for let through, and by what is silenced.
pub fn split<'a>(
    sources: &Sources,
    entries: Vec<(Entry<'a>, Option<Silence>)>,
    least: (Severity, Confidence),
    files: Option<&BTreeSet<PathBuf>>,
) -> Shown<'a> {
    let mut shown = Shown::default();
    for (entry, silence) in entries {
        let finding = entry.finding;
        if finding.severity < least.0 || finding.confidence < least.1 {
            continue;
        }
        let disk = sources.get(finding.span.file).disk.as_ref();
        if files.is_some_and(|files| disk.is_none_or(|path| !files.contains(path))) {
            continue;
        }
        match silence {
            Some(silence) => shown.silenced.push((entry, silence)),
            None => shown.findings.push(entry),
        }
    }
    shown
}

/// The baseline of a run and where it lies.
#[derive(Debug)]
pub struct Accepted {
    path: PathBuf,
    baseline: Baseline,
    /// Rules that ran.
    ran: BTreeSet<&'static str>,
    /// Report paths that were read; empty for everything.
    starts: Vec<String>,
}

impl Accepted {
    /// Reads the baseline file if there is one.
    pub fn load(args: &Check, cwd: &Path, root: &Path, ran: &[&'static str]) -> Result<Accepted, Failure> {
        let path = args.baseline.as_ref().map_or_else(|| root.join(baseline::FILE), |path| cwd.join(path));
        let named = args.baseline.is_some() && !args.write_baseline;
        let baseline = match std::fs::read_to_string(&path) {
            Ok(text) => Baseline::parse(&text).map_err(|e| Failure(format!("{}:{e}", path.display())))?,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound && !named => Baseline::default(),
            Err(e) => return Err(Failure(format!("cannot read `{}`: {}", path.display(), discover::reason(&e)))),
        };
        let relative = |path: &PathBuf| {
            let full = cwd.join(path).canonicalize().ok()?;
            Some(full.strip_prefix(root).ok()?.to_string_lossy().replace('\\', "/"))
        };
        let starts: Vec<String> = args.paths.iter().filter_map(relative).filter(|p| !p.is_empty()).collect();
        Ok(Accepted { path, baseline, ran: ran.iter().copied().collect(), starts })
    }

    /// Whether this run can say anything about an entry.
    fn counts(&self, rule: &str, path: &str) -> bool {
        let known = select::all().any(|r| r.id == rule);
        let below = |start: &String| {
            path.strip_prefix(start.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        (!known || self.ran.contains(rule)) && (self.starts.is_empty() || self.starts.iter().any(below))
    }

    /// Silences what the baseline accepts.
    pub fn silence(&self, sources: &Sources, entries: &mut [(Entry<'_>, Option<Silence>)]) {
        for (entry, silence) in entries {
            if silence.is_none()
                && let Some(reason) = self.baseline.reason(sources, entry)
            {
                *silence = Some(Silence { by: SilencedBy::Baseline, reason: reason.to_owned() });
            }
        }
    }

    /// A line about entries that match nothing any more.
    pub fn stale(&self, sources: &Sources, all: &[Entry<'_>]) -> Option<String> {
        let stale = self.baseline.stale(sources, all, |rule, path| self.counts(rule, path));
        let entries = if stale == 1 { "1 baseline entry matches" } else { &format!("{stale} baseline entries match") };
        (stale > 0).then(|| format!("{entries} nothing any more: --write-baseline drops what is gone"))
    }

    /// Writes the baseline anew: what is accepted already and is still there, and what is shown.
    pub fn write(&self, sources: &Sources, shown: &Shown<'_>, reason: &str) -> Result<String, Failure> {
        let accepted = shown.silenced.iter().filter(|(_, s)| s.by == SilencedBy::Baseline).map(|(e, _)| e.clone());
        let found: Vec<Entry<'_>> = shown.findings.iter().cloned().chain(accepted).collect();
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_secs());
        // Reproducible builds fix the clock by this variable.
        let epoch = std::env::var("SOURCE_DATE_EPOCH").ok().and_then(|text| text.parse().ok());
        let today = baseline::date(epoch.unwrap_or(now));
        let counts = |rule: &str, path: &str| self.counts(rule, path);
        let renewed = self.baseline.renewed(sources, &found, reason, &today, counts);
        let shown_path = self.path.display();
        std::fs::write(&self.path, renewed.text())
            .map_err(|e| Failure(format!("cannot write `{shown_path}`: {}", discover::reason(&e))))?;
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let plural = if renewed.len() == 1 { "" } else { "s" };
        Ok(format!("{name} accepts {} finding{plural}", renewed.len()))
    }
}
