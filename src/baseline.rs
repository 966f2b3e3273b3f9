//! The baseline: findings that were there before somebody began to look, so that only new ones are shown.
//!
//! An entry names rule, path and the finding's line as it reads, not its number: code may move. Entries follow a file that is
//! renamed, and go when what they accept is gone.

use crate::report::Entry;
use crate::source::Sources;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

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

/// What is accepted: path, rule, line.
type Key = (String, String, String);

fn key(sources: &Sources, entry: &Entry<'_>) -> Key {
    let path = sources.get(entry.finding.span.file).path.clone();
    (path, entry.finding.rule.to_owned(), entry.snippet.clone())
}

/// Which entry of a baseline accepts which finding, in the order of the findings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Matching(Vec<Option<usize>>);

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
        let head = "# Findings that are accepted for now; `cargo leaselint --write-baseline` accepts more, and what is gone is dropped.\n";
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

    /// Which of its entries accepts which finding. `vanished` says whether a file is no longer there: then its entries are
    /// those of the file that has the same line now.
    pub fn matching(&self, sources: &Sources, found: &[Entry<'_>], vanished: impl Fn(&str) -> bool) -> Matching {
        let mut left: Vec<usize> = self.entries.iter().map(|a| a.count).collect();
        let mut take = |fits: &dyn Fn(&Accepted) -> bool| {
            let index = (0..left.len()).find(|i| left[*i] > 0 && fits(&self.entries[*i]))?;
            left[index] -= 1;
            Some(index)
        };
        let keys: Vec<Key> = found.iter().map(|entry| key(sources, entry)).collect();
        let same = |a: &Accepted, (_, rule, line): &Key| a.rule == *rule && a.line == *line;
        let mut matched: Vec<Option<usize>> =
            keys.iter().map(|key| take(&|a| a.path == key.0 && same(a, key))).collect();
        for (entry, key) in matched.iter_mut().zip(&keys).filter(|(entry, _)| entry.is_none()) {
            *entry = take(&|a| same(a, key) && vanished(&a.path));
        }
        Matching(matched)
    }

    /// The reason each finding is accepted for, if it is.
    pub fn reasons(&self, matching: &Matching) -> Vec<Option<&str>> {
        matching.0.iter().map(|entry| entry.map(|i| self.entries[i].reason.as_str())).collect()
    }

    /// A baseline of what is still found, how many findings it has less and how many lie in another file now. `counts` says
    /// of which entries it can be said that they are gone: rule, path, line.
    pub fn shrunk(
        &self,
        sources: &Sources,
        found: &[Entry<'_>],
        matching: &Matching,
        counts: impl Fn(&str, &str, &str) -> bool,
    ) -> (Baseline, usize, usize) {
        let accepted = || found.iter().zip(&matching.0).filter(|(_, index)| index.is_some());
        let elsewhere = |(entry, index): &(&Entry<'_>, &Option<usize>)| {
            index.is_some_and(|i| self.entries[i].path != sources.get(entry.finding.span.file).path)
        };
        let moved = accepted().filter(elsewhere).count();
        let renewed = self.renew(sources, accepted(), "", "", counts);
        let gone = self.len().saturating_sub(renewed.len());
        (renewed, gone, moved)
    }

    /// A baseline that accepts also what of `found` is `wanted`. Entries that were there keep reason and date; those of which
    /// nothing can be said (`counts` as in [`Baseline::shrunk`]) stay as they are.
    pub fn renewed(
        &self,
        sources: &Sources,
        found: &[Entry<'_>],
        matching: &Matching,
        (reason, today): (&str, &str),
        wanted: impl Fn(&Entry<'_>) -> bool,
        counts: impl Fn(&str, &str, &str) -> bool,
    ) -> Baseline {
        let accepted = found.iter().zip(&matching.0).filter(|(entry, index)| index.is_some() || wanted(entry));
        self.renew(sources, accepted, reason, today, counts)
    }

    fn renew<'f, 'e: 'f>(
        &self,
        sources: &Sources,
        found: impl Iterator<Item = (&'f Entry<'e>, &'f Option<usize>)>,
        reason: &str,
        today: &str,
        counts: impl Fn(&str, &str, &str) -> bool,
    ) -> Baseline {
        let mut entries: BTreeMap<Key, Accepted> = BTreeMap::new();
        let mut left: Vec<usize> = self.entries.iter().map(|a| a.count).collect();
        let mut add = |key: Key, count: usize, reason: &str, since: &str| {
            let (path, rule, line) = key.clone();
            let (reason, since) = (reason.to_owned(), since.to_owned());
            let fresh = Accepted { path, rule, line, count: 0, reason, since };
            entries.entry(key).or_insert(fresh).count += count;
        };
        for (entry, index) in found {
            let before = index.map(|i| &self.entries[i]);
            if let Some(i) = *index {
                left[i] -= 1;
            }
            let (reason, since) = before.map_or((reason, today), |a| (&a.reason, &a.since));
            add(key(sources, entry), 1, reason, since);
        }
        for (a, left) in self.entries.iter().zip(left) {
            if left > 0 && !counts(&a.rule, &a.path, &a.line) {
                add((a.path.clone(), a.rule.clone(), a.line.clone()), left, &a.reason, &a.since);
            }
        }
        Baseline { version: 1, entries: entries.into_values().collect() }
    }
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
        let all = |_: &str, _: &str, _: &str| true;
        let none = Baseline::default();
        let matching = none.matching(&sources, &found, |_| false);
        let baseline = none.renewed(&sources, &found, &matching, ("old debt", "2026-01-31"), |_| true, all);
        let read = Baseline::parse(&baseline.text()).unwrap();
        assert_eq!((read.len(), read == baseline), (2, true));
        // The same code two lines below, once more after it, in a file of another name.
        let text = format!("\n\n{}", sources.get(findings[0].span.file).text);
        let mut finding = findings[0].clone();
        finding.span.start += 2;
        finding.span.end += 2;
        let twice = [finding.clone(), finding];
        let place = |path: &str| {
            let mut moved = crate::source::Sources::default();
            moved.add(path, crate::source::Language::Rust, text.as_str());
            moved
        };
        let path = sources.get(findings[0].span.file).path.as_str();
        for (path, vanished) in [(path, false), ("src/renamed.rs", true)] {
            let moved = place(path);
            let entries = report::entries(&moved, &twice);
            let matching = read.matching(&moved, &entries, |_| vanished);
            assert_eq!(read.reasons(&matching), [Some("old debt"), None], "a second one on the same text is new");
            let (shrunk, gone, elsewhere) = read.shrunk(&moved, &entries, &matching, all);
            assert_eq!((shrunk.len(), gone, elsewhere), (1, 1, usize::from(vanished)));
            assert!(shrunk.text().contains("2026-01-31") && shrunk.text().contains(&format!("path = \"{path}\"")));
            let (kept, gone, _) = read.shrunk(&moved, &entries, &matching, |rule, _, _| rule == "bare-del");
            assert_eq!((kept.len(), gone), (2, 0), "of the other rule nothing can be said");
        }
        let moved = place("src/renamed.rs");
        let entries = report::entries(&moved, &twice);
        assert_eq!(read.reasons(&read.matching(&moved, &entries, |_| false)), [None, None], "a copy is new");
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
