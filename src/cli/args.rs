//! What the command line says.

use crate::finding::{Confidence, Severity};
use crate::rule::Group;
use clap::builder::{PossibleValue, TypedValueParser};
use clap::{Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use std::path::PathBuf;

/// Finds distributed locks and leases that can fail.
#[derive(Debug, Parser)]
#[command(
    name = "leaselint",
    bin_name = "cargo leaselint",
    version,
    about = "Finds distributed locks and leases that can fail: Redis, SQL, Lua and connection-pooler configurations",
    args_conflicts_with_subcommands = true,
    after_help = "Exit codes: 0 nothing found, 1 findings, 2 could not run. With `--format sarif` a run that worked exits 0 \
                  unless --fail-on is given."
)]
pub struct Cli {
    /// Something other than checking.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Checking.
    #[command(flatten)]
    pub check: Check,
}

/// Something other than checking.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Print the page of a rule: what it flags, why, how to fix it
    Explain {
        /// Rule id
        #[arg(value_parser = Names { groups: false }, hide_possible_values = true)]
        rule: String,
    },
    /// Print how a file is understood
    Ir {
        /// File to lower
        file: PathBuf,
        /// Print what is known of the locks at a line instead
        #[arg(long, value_name = "FILE:LINE")]
        why: Option<String>,
    },
    /// Write a commented leaselint.toml into the current directory
    Init,
    /// Print every lock of the workspace: key, expiry, owner, where it is taken and given back, what is written under it and
    /// what writes the same without it
    Locks(Locks),
    /// Print the JSON schema of a format
    Schema {
        /// The format
        #[arg(value_enum)]
        of: SchemaOf,
    },
    /// Print the connection poolers that the configuration files set up, and what each connection string meets
    Poolers(Poolers),
}

/// Options of `locks`.
#[derive(Debug, clap::Args)]
pub struct Locks {
    /// Files and directories to read [default: the current directory]
    #[arg(value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// Format of the inventory
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = LocksFormat::Text)]
    pub format: LocksFormat,
    /// Read the workspace of this Cargo.toml
    #[arg(long, value_name = "FILE", conflicts_with = "paths")]
    pub manifest_path: Option<PathBuf>,
    /// Only this package; may be repeated
    #[arg(long, short, value_name = "NAME")]
    pub package: Vec<String>,
    /// Also read tests, benches, examples and mocks
    #[arg(long)]
    pub include_tests: bool,
    /// Leave out files that match, as in .gitignore; may be repeated
    #[arg(long, value_name = "GLOB")]
    pub exclude: Vec<String>,
    /// Read this configuration instead of looking for leaselint.toml
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// Formats that have a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SchemaOf {
    /// leaselint.toml, for editors
    Config,
    /// Output of `--format json`
    Report,
    /// Output of `locks --format json`
    Locks,
}

/// Formats of the inventory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LocksFormat {
    /// For people: a table, then each lock
    #[default]
    Text,
    /// One JSON document; its schema is part of the documentation
    Json,
    /// One Markdown table, for a document or a pull request
    Markdown,
}

/// Options of `poolers`.
#[derive(Debug, clap::Args)]
pub struct Poolers {
    /// Files and directories to read [default: the current directory]
    #[arg(value_name = "PATH")]
    pub paths: Vec<PathBuf>,
}

/// Options of a check.
#[derive(Debug, Default, clap::Args)]
pub struct Check {
    /// Files and directories to check; `-` reads standard input [default: the current directory]
    #[arg(value_name = "PATH")]
    pub paths: Vec<PathBuf>,

    /// Format of standard output
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = Format::Text, help_heading = "Output")]
    pub format: Format,
    /// Also write a report into a file; may be repeated
    #[arg(long, value_name = "FORMAT=FILE", value_parser = parse_output, help_heading = "Output")]
    pub output: Vec<(Format, PathBuf)>,
    /// Name what was passed over, not read or not understood
    #[arg(long, short, conflicts_with = "quiet", help_heading = "Output")]
    pub verbose: bool,
    /// No summary line
    #[arg(long, short, help_heading = "Output")]
    pub quiet: bool,
    /// Colours
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = ColorWhen::Auto, help_heading = "Output")]
    pub color: ColorWhen,
    /// Write suppressed and baselined findings into SARIF too, marked as such
    #[arg(long, help_heading = "Output")]
    pub sarif_suppressed: bool,
    /// List all rules
    #[arg(long, help_heading = "Output")]
    pub list: bool,

    /// Only these rules or groups; may be repeated
    #[arg(long, value_name = "RULE", value_delimiter = ',', value_parser = Names { groups: true }, hide_possible_values = true, help_heading = "Selecting")]
    pub rule: Vec<String>,
    /// Not these rules or groups; may be repeated
    #[arg(long, value_name = "RULE", value_delimiter = ',', value_parser = Names { groups: true }, hide_possible_values = true, help_heading = "Selecting")]
    pub exclude_rule: Vec<String>,
    /// Leave out files that match, as in .gitignore; may be repeated
    #[arg(long, value_name = "GLOB", help_heading = "Selecting")]
    pub exclude: Vec<String>,
    /// Least severity that is shown
    #[arg(long, value_enum, value_name = "SEVERITY", help_heading = "Selecting")]
    pub min_severity: Option<SeverityName>,
    /// Least confidence that is shown [default: medium]
    #[arg(long, value_enum, value_name = "CONFIDENCE", help_heading = "Selecting")]
    pub min_confidence: Option<ConfidenceName>,
    /// Also judge tests, benches, examples and mocks
    #[arg(long, help_heading = "Selecting")]
    pub include_tests: bool,
    /// Check the workspace of this Cargo.toml
    #[arg(long, value_name = "FILE", conflicts_with = "paths", help_heading = "Selecting")]
    pub manifest_path: Option<PathBuf>,
    /// Only this package; may be repeated
    #[arg(long, short, value_name = "NAME", help_heading = "Selecting")]
    pub package: Vec<String>,
    /// Report only findings that touch the files this list names, one a line; `-` reads the list from standard input
    #[arg(long, value_name = "FILE", help_heading = "Selecting")]
    pub files_from: Option<PathBuf>,
    /// Report only findings that touch files changed since this git revision, committed or not
    #[arg(long, value_name = "REV", help_heading = "Selecting")]
    pub since: Option<String>,
    /// The path that standard input is checked under
    #[arg(long, value_name = "FILE", default_value = "stdin.rs", help_heading = "Selecting")]
    pub stdin_filename: String,

    /// Read this configuration instead of looking for leaselint.toml
    #[arg(long, value_name = "FILE", help_heading = "Running")]
    pub config: Option<PathBuf>,
    /// The baseline file [default: leaselint-baseline.toml at the root, if there]
    #[arg(long, value_name = "FILE", help_heading = "Accepting")]
    pub baseline: Option<PathBuf>,
    /// Accept everything that is found: write the baseline anew, and drop from it what is gone
    #[arg(long, conflicts_with_all = ["files_from", "since", "add_allow"], help_heading = "Accepting")]
    pub write_baseline: bool,
    /// The reason that new baseline entries get
    #[arg(
        long,
        value_name = "TEXT",
        requires = "write_baseline",
        default_value = "there before leaselint",
        help_heading = "Accepting"
    )]
    pub reason: String,
    /// Write a comment with this reason at everything that is found
    #[arg(long, value_name = "REASON", help_heading = "Accepting")]
    pub add_allow: Option<String>,
    /// Apply the repairs that are certain
    #[arg(long, conflicts_with_all = ["write_baseline", "add_allow"], help_heading = "Accepting")]
    pub fix: bool,
    /// Print what --fix (or --add-allow) would change as a diff, and change nothing
    #[arg(long, conflicts_with = "write_baseline", help_heading = "Accepting")]
    pub diff: bool,

    /// Exit 1 only for findings of this severity or worse
    #[arg(long, value_enum, value_name = "SEVERITY", help_heading = "Running")]
    pub fail_on: Option<SeverityName>,
    /// Exit 0 also when something was found
    #[arg(long, conflicts_with = "fail_on", help_heading = "Running")]
    pub exit_zero: bool,
    /// Print a completion script
    #[arg(long, value_name = "SHELL", help_heading = "Running")]
    pub completions: Option<Shell>,
    /// Number of threads [default: one a core]
    #[arg(long, value_name = "N", help_heading = "Running")]
    pub threads: Option<usize>,
}

/// Output formats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people
    #[default]
    Text,
    /// One JSON document; its schema is part of the documentation
    Json,
    /// SARIF 2.1.0, for GitHub code scanning
    Sarif,
    /// Messages as cargo prints them, for rust-analyzer and other tools that read those
    Cargo,
    /// Workflow commands that GitHub Actions shows as annotations
    Github,
}

/// When to colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
#[allow(missing_docs)]
pub enum ColorWhen {
    #[default]
    Auto,
    Always,
    Never,
}

/// Severities by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[allow(missing_docs)]
pub enum SeverityName {
    Note,
    Warning,
    Error,
}

/// Confidences by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[allow(missing_docs)]
pub enum ConfidenceName {
    Low,
    Medium,
    High,
}

impl From<SeverityName> for Severity {
    fn from(name: SeverityName) -> Severity {
        match name {
            SeverityName::Note => Severity::Note,
            SeverityName::Warning => Severity::Warning,
            SeverityName::Error => Severity::Error,
        }
    }
}

impl From<ConfidenceName> for Confidence {
    fn from(name: ConfidenceName) -> Confidence {
        match name {
            ConfidenceName::Low => Confidence::Low,
            ConfidenceName::Medium => Confidence::Medium,
            ConfidenceName::High => Confidence::High,
        }
    }
}

/// Takes any name and offers those of rules, and of groups, to completion scripts. What is no rule is told with a suggestion
/// by [`super::select`].
#[derive(Clone, Copy, Debug)]
struct Names {
    groups: bool,
}

impl TypedValueParser for Names {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<String, clap::Error> {
        clap::builder::StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let groups = Group::ALL.iter().map(|group| group.name()).filter(|_| self.groups);
        Some(Box::new(super::select::all().map(|rule| rule.id).chain(groups).map(PossibleValue::new)))
    }
}

fn parse_output(text: &str) -> Result<(Format, PathBuf), String> {
    let names =
        || Format::value_variants().iter().filter_map(|f| f.to_possible_value()).map(|v| v.get_name().to_owned());
    let (format, file) = text.split_once('=').ok_or_else(|| format!("`{text}` is not FORMAT=FILE"))?;
    if file.is_empty() {
        return Err(format!("`{text}` names no file"));
    }
    let format = Format::from_str(format, false)
        .map_err(|_| format!("unknown format `{format}`; there are {}", names().collect::<Vec<_>>().join(", ")))?;
    Ok((format, PathBuf::from(file)))
}
