//! SQL: tokens, statements, `.sql` files with the bodies of their functions, schema facts.
//!
//! Tokens first: locks stand in statements that no full parser reads (templates, psql scripts, PL/pgSQL of old
//! versions, `FOR UPDATE SKIP LOCKED` before `LIMIT`). The reader of [`statement`] therefore builds a tree of what it
//! knows and leaves the rest opaque, and a last pass over the tokens finds lock calls in what it left.

pub mod ast;
mod build;
mod cursor;
mod dml;
mod expr;
mod live;
mod lower;
mod plpgsql;
mod query;
mod routine;
pub mod schema;
pub mod split;
pub mod statement;
pub mod tokens;
pub mod walk;

pub use ast::{Statement, StatementKind};
pub use build::{FUNCTION, STATEMENT, Session};
pub use live::supersede;
pub use lower::lower;
pub use statement::statements;
pub use tokens::Dialect;

/// What a built-in lock function does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockFunction {
    /// Takes, gives back, or only asks.
    pub action: LockAction,
    /// Belongs to the session, not to the transaction.
    pub session: bool,
    /// Answers instead of waiting.
    pub try_: bool,
    /// Several holders at a time.
    pub shared: bool,
    /// The server that has it.
    pub dialect: Dialect,
}

/// What a lock function does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum LockAction {
    Take,
    Release,
    ReleaseAll,
}

/// The lock function of a name (any schema, any case). PostgreSQL manual, 9.28.10 "Advisory Lock Functions";
/// MySQL manual, 14.14 "Locking Functions"; SQL Server: `sp_getapplock`, whose owner is an argument.
pub fn lock_function(name: &str) -> Option<LockFunction> {
    let lower = name.rsplit('.').next().unwrap_or(name).to_ascii_lowercase();
    let make = |action, session, try_, dialect| {
        Some(LockFunction { action, session, try_, shared: lower.ends_with("_shared"), dialect })
    };
    match lower.trim_end_matches("_shared") {
        "pg_advisory_lock" => make(LockAction::Take, true, false, Dialect::Postgres),
        "pg_try_advisory_lock" => make(LockAction::Take, true, true, Dialect::Postgres),
        "pg_advisory_xact_lock" => make(LockAction::Take, false, false, Dialect::Postgres),
        "pg_try_advisory_xact_lock" => make(LockAction::Take, false, true, Dialect::Postgres),
        "pg_advisory_unlock" => make(LockAction::Release, true, true, Dialect::Postgres),
        "pg_advisory_unlock_all" => make(LockAction::ReleaseAll, true, false, Dialect::Postgres),
        "get_lock" => make(LockAction::Take, true, true, Dialect::MySql),
        "release_lock" => make(LockAction::Release, true, true, Dialect::MySql),
        "release_all_locks" => make(LockAction::ReleaseAll, true, false, Dialect::MySql),
        "sp_getapplock" => make(LockAction::Take, false, true, Dialect::SqlServer),
        "sp_releaseapplock" => make(LockAction::Release, false, true, Dialect::SqlServer),
        _ => None,
    }
}
