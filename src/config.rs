//! `leaselint.toml`, or the same keys under `[workspace.metadata.leaselint]` or `[package.metadata.leaselint]`.

mod glob;
mod read;
mod schema;

pub use glob::{PathGlobs, matches_key};
pub use read::parse;
pub use schema::schema;

use crate::finding::{Confidence, Finding, Severity};
use crate::pipeline::DsnHints;
use std::collections::BTreeMap;
use std::ops::Range;

/// Name of the file.
pub const FILE: &str = "leaselint.toml";

/// What a new file says.
pub const TEMPLATE: &str = include_str!("config/template.toml");

/// What the configuration says.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// Paths that are not read.
    pub exclude: Vec<String>,
    /// Also judge tests, benches, examples and mocks.
    pub include_tests: Option<bool>,
    /// Least severity that is shown.
    pub min_severity: Option<Severity>,
    /// Least confidence that is shown.
    pub min_confidence: Option<Confidence>,
    /// Levels of rules and groups.
    pub levels: Levels,
    /// Levels for parts of the tree; later ones win.
    pub paths: Vec<PathSettings>,
    /// Why locks exist.
    pub locks: Vec<LockDeclaration>,
    /// Connection strings.
    pub dsn: DsnHints,
    /// `[[model]]` rows, each in the form of a model file.
    pub models: Vec<toml::Table>,
}

/// Levels by rule id; groups are spelt out.
pub type Levels = BTreeMap<&'static str, Level>;

/// What becomes of a rule's findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Not reported.
    Off,
    /// The rule's highest severity is this; what was lower already stays.
    At(Severity),
}

/// Settings for the files that some globs match.
#[derive(Clone, Debug)]
pub struct PathSettings {
    /// The files.
    pub globs: PathGlobs,
    /// Levels there.
    pub levels: Levels,
}

/// `[[lock]]`: says that losing a lock costs work, not correctness.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockDeclaration {
    /// Key template; `*` stands for anything.
    pub key: String,
    /// Why a second holder does no harm.
    pub reason: String,
    /// Where it stands in the configuration.
    pub span: Range<usize>,
}

/// Rules that a declared efficiency lock is not held to: they ask what a *stale holder* can destroy.
pub const EFFICIENCY_EXEMPT: [&str; 3] = ["unfenced-write", "unfenceable-effect", "redlock-correctness"];

/// What is wrong with a configuration, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// What, lowercase, no final stop.
    pub message: String,
    /// Byte range.
    pub span: Range<usize>,
}

impl Config {
    /// The severity that a finding in the file `path` gets; `None` if its rule is off there. `highest` is the rule's own.
    pub fn severity(&self, path: &str, finding: &Finding, highest: Severity) -> Option<Severity> {
        let mut level = self.levels.get(finding.rule);
        for settings in &self.paths {
            if let Some(here) = settings.levels.get(finding.rule)
                && settings.globs.matches(path)
            {
                level = Some(here);
            }
        }
        match level {
            None => Some(finding.severity),
            Some(Level::Off) => None,
            Some(Level::At(severity)) if *severity < highest => Some(finding.severity.min(*severity)),
            Some(Level::At(severity)) if finding.severity == highest => Some(*severity),
            Some(Level::At(_)) => Some(finding.severity),
        }
    }

    /// Whether a rule is switched off in the file `path`.
    pub fn is_off(&self, rule: &str, path: &str) -> bool {
        let here = self.paths.iter().rev().filter(|settings| settings.globs.matches(path));
        let level = here.filter_map(|settings| settings.levels.get(rule)).next();
        level.or_else(|| self.levels.get(rule)) == Some(&Level::Off)
    }

    /// The declaration that covers a lock's key template.
    pub fn declaration(&self, key: &str) -> Option<usize> {
        self.locks.iter().position(|lock| matches_key(&lock.key, key))
    }
}
