//! From what a run found to what is shown: levels, comments, declarations, baseline, limits.

use super::select;
use super::settings::Settings;
use crate::config::EFFICIENCY_EXEMPT;
use crate::finding::{Confidence, Finding, Severity};
use crate::pipeline::Outcome;
use crate::report::{Entry, Silence, SilencedBy};
use crate::source::{Language, Sources, Span};
use crate::suppress;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

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
        // A change in one file can break a lock that is reported in another: a pooler's mode, an expiry, a helper.
        let touches = |files: &BTreeSet<PathBuf>| {
            let disks = finding.spans().filter_map(|span| sources.get(span.file).disk.as_ref());
            disks.into_iter().any(|path| files.contains(path))
        };
        if files.is_some_and(|files| !touches(files)) {
            continue;
        }
        match silence {
            Some(silence) => shown.silenced.push((entry, silence)),
            None => shown.findings.push(entry),
        }
    }
    shown
}
