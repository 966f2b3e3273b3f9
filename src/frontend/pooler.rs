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
pub use dsn::{Part, Target};
pub use facts::{Dsn, May, Mode, Pooler, PoolerFacts, Resolution, Route, Software};

use crate::source::{SourceFile, Span};

/// Reads all configuration files of a run. Never fails: what is not understood becomes a problem of the facts.
pub fn read(files: &[&SourceFile]) -> PoolerFacts {
    let files = files::Files::new(files);
    let context = context::Context::new(&files);
    let mut facts = assemble::assemble(&context);
    let mut problems = context.problems.clone();
    problems.append(&mut facts.problems);
    // a file that has nothing to do with poolers need not be understood here
    problems.retain(|problem| files.get(&problem.path).is_none_or(|file| speaks_of_poolers(&file.text)));
    problems.sort();
    problems.dedup();
    facts.problems = problems;
    facts
}

/// Cheap test whether a file may say something about poolers or connection strings: by its name, and where the name is too common,
/// by words in its text.
pub fn is_candidate(path: &str, text: &str) -> bool {
    if text.len() > files::MAX_BYTES || path.starts_with(".github/") || path.contains("/.github/") {
        return false;
    }
    let name = context::plain_name(path);
    let pooler_name = services::software_word(&name).is_some();
    match context::kind(path) {
        context::Kind::Env => text.contains('='),
        context::Kind::Yaml => {
            let compose =
                name.starts_with("compose.") || name.starts_with("docker-compose") || name.contains("compose");
            compose || pooler_name || name.starts_with("values") || speaks_of_poolers(text) || holds_dsn(text)
        }
        context::Kind::Toml => {
            let users = files::base_name(path) == "users.toml";
            let cargo =
                matches!(name.as_str(), "cargo.toml" | "pyproject.toml" | "rustfmt.toml" | "clippy.toml" | "deny.toml");
            !cargo
                && (pooler_name
                    || users
                    || speaks_of_poolers(text)
                    || holds_dsn(text)
                    || text.contains("database_name"))
        }
        context::Kind::Other => {
            let extension = name.rsplit_once('.').map(|(_, extension)| extension);
            let conf = extension == Some("conf");
            let ini = matches!(extension, Some("ini" | "cfg" | "cnf")) || name.contains(".ini.");
            let bare = pooler_name && extension.is_none();
            (ini || conf || bare) && pgbouncer::is_ini(text)
                || (conf || bare) && odyssey::is_conf(text)
                || ini && included_ini(text)
        }
    }
}

/// A part of a pgbouncer configuration that another file includes.
fn included_ini(text: &str) -> bool {
    text.contains("pool_mode") || text.contains("[databases]") || text.contains("[users]")
}

fn speaks_of_poolers(text: &str) -> bool {
    [
        "pool_mode",
        "POOL_MODE",
        "poolMode",
        "pooler_mode",
        "poolerMode",
        "pgbouncer",
        "PGBOUNCER",
        "PgBouncer",
        "pgcat",
        "pgdog",
        "supavisor",
        "odyssey",
        "Pooler",
    ]
    .iter()
    .any(|word| text.contains(word))
}

fn holds_dsn(text: &str) -> bool {
    [
        "postgres://",
        "postgresql://",
        "postgresql+",
        "DATABASE_URL",
        "DIRECT_URL",
        "POSTGRES_URL",
        "PGHOST",
        "DB_HOST",
        "POSTGRES_HOST",
        "DATABASE_HOST",
        "database_name",
    ]
    .iter()
    .any(|word| text.contains(word))
}

impl PoolerFacts {
    /// The setting that a route's mode comes from, as a label would say it: `pool_mode is transaction here`.
    pub fn label(&self, route: &Route) -> (Span, String) {
        let name = self.poolers[route.pooler].software.name();
        let default = if route.defaulted { " by default" } else { "" };
        (route.at, format!("{name} pools by {}{default} here", route.mode.name()))
    }
}
