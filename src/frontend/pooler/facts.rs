//! What is known of poolers: the types that the analysis asks.

use super::dsn::Target;
use crate::source::{FileId, Problem, Span};

/// When a server connection goes back to the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mode {
    /// When the client leaves: a session lock behaves as on a direct connection.
    Session,
    /// After each transaction: the next statement may run in another session.
    Transaction,
    /// After each statement; transaction blocks are refused.
    Statement,
    /// Not given in the repository.
    Unknown,
}

impl Mode {
    /// Reads a mode word (any case, as PgBouncer compares it).
    pub(super) fn of(word: &str) -> Mode {
        match word.trim().trim_matches(['"', '\'']).to_ascii_lowercase().as_str() {
            "session" => Mode::Session,
            "transaction" => Mode::Transaction,
            "statement" => Mode::Statement,
            _ => Mode::Unknown,
        }
    }

    /// The word for reports.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Session => "session",
            Mode::Transaction => "transaction",
            Mode::Statement => "statement",
            Mode::Unknown => "unknown",
        }
    }
}

/// Which pooler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Software {
    /// PgBouncer, also as part of Neon, CloudNativePG and other hosted databases.
    PgBouncer,
    /// PgCat.
    PgCat,
    /// PgDog: gives a client a server of its own while that holds an advisory lock.
    PgDog,
    /// Odyssey.
    Odyssey,
    /// Supavisor, also as part of Supabase.
    Supavisor,
    /// Pgpool-II: one server session per client session.
    PgPool,
    /// Amazon RDS Proxy: pins the connection of a client that takes a session advisory lock.
    RdsProxy,
    /// Only a connection string says that there is one.
    Unnamed,
}

impl Software {
    /// Name for reports.
    pub fn name(self) -> &'static str {
        match self {
            Software::PgBouncer => "pgbouncer",
            Software::PgCat => "pgcat",
            Software::PgDog => "pgdog",
            Software::Odyssey => "odyssey",
            Software::Supavisor => "supavisor",
            Software::PgPool => "pgpool",
            Software::RdsProxy => "rds proxy",
            Software::Unnamed => "pooler",
        }
    }

    /// True if it keeps a client on one server connection as long as that holds an advisory lock.
    pub fn pins_advisory_locks(self) -> bool {
        matches!(self, Software::PgDog | Software::RdsProxy)
    }
}

/// One pooler of the repository's deployment.
#[derive(Clone, Debug, PartialEq)]
pub struct Pooler {
    /// Which program.
    pub software: Software,
    /// Service name, resource name, host or file name.
    pub name: String,
    /// Host names under which clients reach it, lower case.
    pub hosts: Vec<String>,
    /// Ports published on the host machine, each with the port inside the container.
    pub published: Vec<(u16, u16)>,
    /// Port it listens on, where the configuration says so.
    pub listens: Option<u16>,
    /// Where it is set up.
    pub place: Span,
    /// It is set up for tests, examples or benchmarks only, by the place of that file.
    pub test: bool,
    /// Directory of that file.
    pub(super) dir: String,
}

/// What one group of clients of a pooler meets.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// Index into [`PoolerFacts::poolers`].
    pub pooler: usize,
    /// The database it is for, as clients name it; `None` for any other.
    pub database: Option<String>,
    /// The user it is for; `None` for any other.
    pub user: Option<String>,
    /// The port it is for, where ports have modes of their own (Supavisor).
    pub port: Option<u16>,
    /// User that the pooler logs in as, whoever the client is (`user=` in PgBouncer's `[databases]`).
    pub forced_user: Option<String>,
    /// The mode.
    pub mode: Mode,
    /// The setting that gives the mode; where it is a default, what sets up the pooler.
    pub at: Span,
    /// The mode is the program's or the image's default.
    pub defaulted: bool,
    /// The server session is reset after each transaction, which drops its session locks.
    pub dropped_after_each_tx: bool,
    /// The program keeps a client on its connection while that holds an advisory lock.
    pub pins: bool,
}

impl Route {
    /// True if a session lock taken through it may stay with, or be given back by, another client's session.
    pub fn breaks_session_locks(&self) -> bool {
        !self.pins && matches!(self.mode, Mode::Transaction | Mode::Statement)
    }

    /// Order of harm: statement, transaction, unknown, then what does no harm.
    pub(super) fn harm(&self) -> u8 {
        match self.mode {
            _ if self.pins => 0,
            Mode::Statement => 3,
            Mode::Transaction => 2,
            Mode::Unknown => 1,
            Mode::Session => 0,
        }
    }
}

/// What a connection string meets.
#[derive(Clone, Debug, PartialEq)]
pub enum Resolution {
    /// A pooler.
    Through {
        /// Mode that applies to this database and user.
        mode: Mode,
        /// Index into [`PoolerFacts::routes`].
        route: usize,
        /// Session locks are dropped after each transaction instead of left behind.
        dropped_after_each_tx: bool,
        /// The setting that gives the mode.
        at: Span,
        /// False if the link rests on a convention (a host called like a pooler that is set up elsewhere, a listening port) or on
        /// one of several deployments.
        certain: bool,
    },
    /// The database itself.
    Direct,
    /// Not given in the repository.
    Unknown,
}

/// One connection string of the repository.
#[derive(Clone, Debug, PartialEq)]
pub struct Dsn {
    /// Variable name, or dotted key of a configuration file.
    pub name: String,
    /// Service or container that gets it; `None` for env files and configuration files.
    pub scope: Option<String>,
    /// Directory that the service is built from, or that the file is for; empty at the root.
    pub dir: String,
    /// The service is built from source of this repository, or the file is the application's own.
    pub own: bool,
    /// It is for tests, examples or benchmarks only, by the place of its file.
    pub test: bool,
    /// Where its value stands.
    pub at: Span,
    /// Where it leads; `None` if its value is elsewhere (a secret).
    pub target: Option<Target>,
    /// What it meets.
    pub resolution: Resolution,
}

/// A place that clients may name as host, and what stands there.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Known {
    /// Host name, lower case.
    pub host: String,
    /// The file that says so, and its directory.
    pub file: FileId,
    pub dir: String,
    /// Ports published on the host machine, each with the port inside.
    pub published: Vec<(u16, u16)>,
    /// Index of the pooler that answers; `None` for a database or anything else.
    pub pooler: Option<usize>,
}

/// Everything read from the configuration files of a repository. Made by [`super::read`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PoolerFacts {
    /// The poolers, in order of their places.
    pub poolers: Vec<Pooler>,
    /// Their routes, in order of pooler, database and user.
    pub routes: Vec<Route>,
    /// The connection strings, in order of name and place.
    pub dsns: Vec<Dsn>,
    /// What could not be read.
    pub problems: Vec<Problem>,
    /// Host names with what answers there.
    pub(super) known: Vec<Known>,
    /// Names and hosts that the user declared to be direct.
    pub(super) direct: Vec<String>,
    /// Names and hosts that the user declared to be pooled.
    pub(super) pooled: Vec<String>,
}

/// What code may meet whose connection string is not known.
#[derive(Clone, Debug, PartialEq)]
pub enum May<'a> {
    /// No route of the repository breaks session locks, or all of its connection strings avoid them.
    No,
    /// This route, if the code uses it.
    Meets(&'a Route),
}
