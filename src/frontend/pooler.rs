//! Connection poolers: which of the repository's configuration files put a transaction or statement pooler in front of the
//! database, and which connection strings lead through one.
//!
//! [`read`] takes the configuration files that [`is_candidate`] picked and returns [`PoolerFacts`]: poolers, their routes (database
//! x user -> mode, each with the place of the setting), and the connection strings with what each meets. Session locks
//! (`pg_advisory_lock`) belong to a server session: behind a route for which [`Route::breaks_session_locks`] holds, the statement
//! that unlocks may run in another session than the one that locked (pgbouncer.org/features.html, "SQL feature map for pooling
//! modes").
//!
//! Nothing is executed and no variable of this process is looked at: placeholders are filled from the repository's own env files,
//! chart values and literal defaults, all else stays unknown.

mod assemble;
mod compose;
mod context;
mod declare;
mod describe;
mod drafts;
mod dsn;
mod env_file;
mod facts;
mod files;
mod gather;
mod hosted;
mod image;
mod ini;
mod k8s;
mod odyssey;
mod pgbouncer;
mod pgcat;
mod resolve;
mod services;
mod sites;
mod sources;
mod template;
mod toml_tree;
mod tree;
mod value;
mod values;
mod yaml;

pub use describe::describe;
pub use dsn::{Part, Target, is_dsn};
pub use facts::{Dsn, May, Mode, Pooler, PoolerFacts, Resolution, Route, Software};
pub use value::names_database;

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickBuilder};

use crate::source::{SourceFile, Span};

/// Reads all configuration files of a run. Never fails: what is not understood becomes a problem of the facts.
pub fn read(files: &[&SourceFile]) -> PoolerFacts {
    let files = files::Files::new(files);
    let context = context::Context::new(&files);
    let mut facts = assemble::assemble(&context);
    let mut problems = context.problems.clone();
    problems.append(&mut facts.problems);
    // a file that has nothing to do with poolers need not be understood here
    problems.retain(|problem| files.get(&problem.path).is_none_or(|file| POOLERS.is_match(&file.text)));
    problems.sort();
    problems.dedup();
    facts.problems = problems;
    facts
}

/// True if a file of this name may say something about poolers or connection strings; its text decides ([`is_candidate`]).
pub fn is_candidate_name(path: &str) -> bool {
    if path.starts_with(".github/") || path.contains("/.github/") {
        return false;
    }
    let name = context::plain_name(path);
    match context::kind(path) {
        context::Kind::Toml => !matches!(
            name.as_str(),
            "cargo.toml" | "pyproject.toml" | "rustfmt.toml" | "clippy.toml" | "deny.toml" | "leaselint.toml"
        ),
        context::Kind::Env | context::Kind::Yaml => true,
        context::Kind::Other => {
            let extension = name.rsplit_once('.').map(|(_, extension)| extension);
            matches!(extension, Some("ini" | "cfg" | "cnf" | "conf"))
                || sources::is_script(path)
                || name.contains(".ini.")
                || extension.is_none() && services::software_word(&name).is_some()
        }
    }
}

/// Cheap test whether a file may say something about poolers or connection strings: by its name, and where the name is too common,
/// by words in its text.
pub fn is_candidate(path: &str, text: &str) -> bool {
    if text.len() > files::MAX_BYTES || !is_candidate_name(path) {
        return false;
    }
    let name = context::plain_name(path);
    match context::kind(path) {
        context::Kind::Env => text.contains('='),
        // hosts and values that other files speak of stand in these
        context::Kind::Yaml if name.contains("compose") || name.starts_with("values") => true,
        context::Kind::Toml if files::base_name(path) == "users.toml" => true,
        context::Kind::Yaml | context::Kind::Toml => {
            services::software_word(&name).is_some() || WORDS.is_match(text) || text.contains("kind: Service\n")
        }
        context::Kind::Other => {
            pgbouncer::is_ini(text)
                || odyssey::is_conf(text) && !name.contains(".ini")
                || name.contains(".ini") && included_ini(text)
        }
    }
}

/// A part of a pgbouncer configuration that another file includes.
fn included_ini(text: &str) -> bool {
    text.contains("pool_mode") || text.contains("[databases]") || text.contains("[users]")
}

/// Names of poolers and of their settings.
const POOLER_WORDS: [&str; 10] = [
    "pool_mode",
    "poolmode",
    "pooler",
    "pgbouncer",
    "pgcat",
    "pgdog",
    "supavisor",
    "odyssey",
    "pgpool",
    "postgrescluster",
];

/// Marks of connection strings, whole or in parts, and of database images.
const DSN_WORDS: [&str; 11] = [
    "postgres",
    "postgis",
    "timescale",
    "database_url",
    "direct_url",
    "pghost",
    "db_host",
    "pg_host",
    "database_host",
    "database_name",
    "dbname",
];

static WORDS: LazyLock<Words> = LazyLock::new(|| Words::new(POOLER_WORDS.iter().chain(&DSN_WORDS)));
static POOLERS: LazyLock<Words> = LazyLock::new(|| Words::new(POOLER_WORDS.iter()));

/// One pass for many words, in any case.
struct Words(Option<AhoCorasick>);

impl Words {
    fn new<'a>(words: impl Iterator<Item = &'a &'a str>) -> Words {
        Words(AhoCorasickBuilder::new().ascii_case_insensitive(true).build(words).ok())
    }

    fn is_match(&self, text: &str) -> bool {
        self.0.as_ref().is_none_or(|words| words.is_match(text))
    }
}

impl PoolerFacts {
    /// The setting that a route's mode comes from, as a label would say it: `pool_mode is transaction here`.
    pub fn label(&self, route: &Route) -> (Span, String) {
        let name = self.poolers[route.pooler].software.name();
        let default = if route.defaulted { " by default" } else { "" };
        (route.at, format!("{name} pools by {}{default} here", route.mode.name()))
    }
}
