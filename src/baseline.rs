//! The baseline: findings that were there before somebody began to look, so that only new ones are shown.
//!
//! An entry names rule, path and the finding's line as it reads, not its number: code may move.

use crate::report::Entry;
use crate::source::Sources;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Name of the file, at the root of the run.
pub const FILE: &str = "leaselint-baseline.toml";

/// The file.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Baseline {
    version: u32,
    /// Sorted by path, rule, snippet.
    #[serde(default, rename = "finding", skip_serializing_if = "Vec::is_empty")]
    entries: Vec<Accepted>,
}

/// Accepted findings of one rule on lines that read the same in one file.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(deny_unknown_fields)]
struct Accepted {
    path: String,
    rule: String,
    line: String,
    #[serde(default = "one", skip_serializing_if = "is_one")]
    count: usize,
    reason: String,
    since: String,
}

fn one() -> usize {
    1
}

fn is_one(count: &usize) -> bool {
    *count == 1
}

type Key = (String, String, String);

impl Accepted {
    fn key(&self) -> Key {
        (self.path.clone(), self.rule.clone(), self.line.clone())
    }
}

fn key(sources: &Sources, entry: &Entry<'_>) -> Key {
    let path = sources.get(entry.finding.span.file).path.clone();
    (path, entry.finding.rule.to_owned(), entry.snippet.clone())
}

impl Baseline {
    /// Reads a baseline file.
    ///
    /// # Errors
    /// Line and what is wrong there.
    pub fn parse(text: &str) -> Result<Baseline, String> {
        let line = |at: usize| text.get(..at).map_or(1, |before| before.matches('\n').count() + 1);
        let baseline: Baseline =
            toml::from_str(text).map_err(|e| format!("{}: {}", line(e.span().map_or(0, |s| s.start)), e.message()))?;
        if baseline.version != 1 {
            return Err(format!("1: version {} is not known, only version 1 is", baseline.version));
        }
        Ok(baseline)
    }

    /// The text of the file.
    pub fn text(&self) -> String {
        let head = "# Findings that are accepted for now; `cargo leaselint --write-baseline` rewrites this file and drops what is gone.\n";
        // Strings and numbers always serialise.
        head.to_owned() + &toml::to_string(self).unwrap_or_default()
    }

    /// How many findings it accepts.
    pub fn len(&self) -> usize {
        self.entries.iter().map(|e| e.count).sum()
    }

    /// Whether it accepts nothing.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The reason a finding is accepted for, if it is.
    pub fn reason(&self, sources: &Sources, entry: &Entry<'_>) -> Option<&str> {
        let key = key(sources, entry);
        self.entries.iter().find(|a| a.key() == key && entry.ordinal <= a.count).map(|a| a.reason.as_str())
    }

    /// How many of its findings match nothing any more. `counts` says of which entries that can be said: rule and path.
    pub fn stale(&self, sources: &Sources, found: &[Entry<'_>], counts: impl Fn(&str, &str) -> bool) -> usize {
        let found = tally(sources, found);
        let entries = self.entries.iter().filter(|a| counts(&a.rule, &a.path));
        entries.map(|a| a.count.saturating_sub(found.get(&a.key()).copied().unwrap_or(0))).sum()
    }

    /// A baseline that accepts `found`. Entries that were there keep reason and date; those of which nothing can be said
    /// (`counts` as in [`Baseline::stale`]) stay as they are.
    pub fn renewed(
        &self,
        sources: &Sources,
        found: &[Entry<'_>],
        reason: &str,
        today: &str,
        counts: impl Fn(&str, &str) -> bool,
    ) -> Baseline {
        let old: BTreeMap<Key, &Accepted> = self.entries.iter().map(|a| (a.key(), a)).collect();
        let fresh = tally(sources, found).into_iter().map(|(key, count)| {
            let before = old.get(&key);
            let (path, rule, line) = key;
            let reason = before.map_or(reason, |a| a.reason.as_str()).to_owned();
            let since = before.map_or(today, |a| a.since.as_str()).to_owned();
            Accepted { path, rule, line, count, reason, since }
        });
        let kept = self.entries.iter().filter(|a| !counts(&a.rule, &a.path)).cloned();
        let entries: BTreeSet<Accepted> = fresh.chain(kept).collect();
        Baseline { version: 1, entries: entries.into_iter().collect() }
    }
}

fn tally(sources: &Sources, found: &[Entry<'_>]) -> BTreeMap<Key, usize> {
    let mut counts = BTreeMap::new();
    for entry in found {
        *counts.entry(key(sources, entry)).or_insert(0) += 1;
    }
    counts
}

/// A day as `2026-01-31`, from seconds since 1970 (UTC).
pub fn date(seconds: u64) -> String {
    // Days from the civil calendar, counted from 1 March so that leap days come last (Hinnant's algorithm).
    let days = seconds / 86_400 + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    format!("{:04}-{month:02}-{day:02}", era * 400 + year + carry)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::report;

    #[test]
    fn survives_moved_lines_and_shrinks() {
        let (sources, findings) = report::sample_findings();
        let found = report::entries(&sources, &findings);
        let all = |_: &str, _: &str| true;
        let baseline = Baseline::default().renewed(&sources, &found, "old debt", "2026-01-31", all);
        let read = Baseline::parse(&baseline.text()).unwrap();
        assert_eq!((read.len(), read == baseline), (2, true));
        let moved = {
            let text = format!("\n\n{}", sources.get(findings[0].span.file).text);
            let mut moved = crate::source::Sources::default();
            moved.add(sources.get(findings[0].span.file).path.clone(), crate::source::Language::Rust, text);
            moved
        };
        let mut finding = findings[0].clone();
        finding.span.start += 2;
        finding.span.end += 2;
        let found = [finding.clone(), finding];
        let entries = report::entries(&moved, &found);
        assert_eq!(read.reason(&moved, &entries[0]), Some("old debt"));
        assert_eq!(read.reason(&moved, &entries[1]), None, "a second one on the same text is new");
        assert_eq!(read.stale(&moved, &entries, all), 1);
        assert_eq!(read.stale(&moved, &entries, |rule, _| rule == "bare-del"), 0);
        let shrunk = read.renewed(&moved, &entries[..1], "", "2027-01-01", all);
        assert_eq!((shrunk.len(), shrunk.text().contains("2026-01-31")), (1, true));
    }

    #[test]
    fn dates() {
        assert_eq!(date(0), "1970-01-01");
        assert_eq!(date(951_782_400), "2000-02-29");
        assert_eq!(date(1_798_675_200), "2026-12-31");
    }

    #[test]
    fn strict() {
        assert!(Baseline::parse("version = 2").unwrap_err().contains("version 2"));
        assert!(Baseline::parse("version = 1\n[[finding]]\nrul = 1").is_err());
    }
}
