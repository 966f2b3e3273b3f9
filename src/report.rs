//! Reports: the same findings as text, JSON, SARIF, cargo messages and GitHub annotations.

pub mod cargo;
pub mod excerpt;
pub mod fingerprint;
pub mod github;
pub mod json;
pub mod locks;
pub mod plain;
#[cfg(test)]
mod sample;
pub mod sarif;
#[cfg(test)]
pub(crate) mod schema_tests;
pub mod text;

use crate::finding::{Confidence, Finding, Severity};
use crate::pipeline::Stats;
use crate::rule::Rule;
use crate::source::{Problem, Sources};

/// Everything a report shows.
pub struct Report<'a> {
    /// The texts.
    pub sources: &'a Sources,
    /// What is shown, sorted by path, place and rule.
    pub findings: Vec<Entry<'a>>,
    /// What was found and is not shown because somebody said so.
    pub silenced: Vec<(Entry<'a>, Silence)>,
    /// What could not be read.
    pub problems: &'a [Problem],
    /// Numbers for the summary.
    pub stats: &'a Stats,
    /// What was passed over, and why: path, reason.
    pub skipped: &'a [(String, String)],
    /// Every rule there is, whether it ran or not, always in the same order.
    pub rules: Vec<&'static Rule>,
}

/// A finding with what identifies it from run to run.
#[derive(Clone, Debug)]
pub struct Entry<'a> {
    /// The finding.
    pub finding: &'a Finding,
    /// Its index in the list that [`entries`] was given.
    pub index: usize,
    /// The finding's line with blanks normalised.
    pub snippet: String,
    /// 1-based count among findings of the same rule, path and snippet.
    pub ordinal: usize,
}

/// Why a finding is not shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Silence {
    /// Who said so.
    pub by: SilencedBy,
    /// The reason given.
    pub reason: String,
}

/// Who silenced a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SilencedBy {
    /// A comment beside it.
    Comment,
    /// A `[[lock]]` declaration.
    Declaration,
    /// The baseline file.
    Baseline,
}

impl SilencedBy {
    /// Name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            SilencedBy::Comment => "comment",
            SilencedBy::Declaration => "declaration",
            SilencedBy::Baseline => "baseline",
        }
    }
}

impl Severity {
    /// `error`, `warning`, `note`.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        }
    }
}

impl Confidence {
    /// `high`, `medium`, `low`.
    pub fn name(self) -> &'static str {
        match self {
            Confidence::High => "high",
            Confidence::Medium => "medium",
            Confidence::Low => "low",
        }
    }
}

#[cfg(test)]
pub(crate) use sample::sample as sample_findings;

#[cfg(test)]
pub(crate) fn sample_rules() -> &'static [Rule] {
    &sample::RULES
}

/// Puts findings in report order (path, place, rule) and gives each its identity.
pub fn entries<'a>(sources: &Sources, findings: &'a [Finding]) -> Vec<Entry<'a>> {
    let mut sorted: Vec<(usize, &Finding)> = findings.iter().enumerate().collect();
    let key = |f: &Finding| {
        let path = sources.get(f.span.file).path.as_str();
        (path, f.span.start, f.span.end, f.rule)
    };
    sorted.sort_by(|(_, a), (_, b)| key(a).cmp(&key(b)).then_with(|| a.message.cmp(&b.message)));
    let mut seen = std::collections::BTreeMap::new();
    sorted
        .into_iter()
        .map(|(index, finding)| {
            let snippet = fingerprint::snippet(sources, finding.span);
            let count = seen.entry((finding.rule, finding.span.file, snippet.clone())).or_insert(0usize);
            *count += 1;
            Entry { finding, index, snippet, ordinal: *count }
        })
        .collect()
}

/// `1 file`, `2 files`.
pub fn count(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

impl Report<'_> {
    /// How many findings of each severity are shown: errors, warnings, notes.
    pub fn counts(&self) -> [usize; 3] {
        [Severity::Error, Severity::Warning, Severity::Note]
            .map(|severity| self.findings.iter().filter(|e| e.finding.severity == severity).count())
    }

    /// The summary: what was found, what was read, what was not.
    pub fn summary(&self) -> String {
        let [errors, warnings, notes] = self.counts();
        let mut parts = Vec::new();
        let mut found: Vec<String> = [(errors, "error"), (warnings, "warning"), (notes, "note")]
            .iter()
            .filter(|(n, _)| *n > 0)
            .map(|(n, what)| count(*n, what))
            .collect();
        if found.is_empty() {
            found.push("no findings".to_owned());
        }
        parts.push(found.join(", "));
        if !self.silenced.is_empty() {
            parts.push(format!("{} suppressed", self.silenced.len()));
        }
        let stats = self.stats;
        parts.push(format!("{} read", count(stats.files_read, "file")));
        if stats.files_unread > 0 {
            parts.push(format!("{} not readable", count(stats.files_unread, "file")));
        }
        if stats.items_unread > 0 {
            parts.push(format!("{} not readable", count(stats.items_unread, "part")));
        }
        if !stats.unreached.is_empty() {
            parts.push(format!("{} reached by no `mod`", count(stats.unreached.len(), "file")));
        }
        parts.push(format!(
            "{} understood, {} not",
            count(stats.understood, "lock operation"),
            stats.not_understood.len()
        ));
        if !stats.not_followed.is_empty() {
            parts.push(format!("{} not followed, without a lock word", count(stats.not_followed.len(), "statement")));
        }
        parts.join("; ")
    }
}
