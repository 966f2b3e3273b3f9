//! Protocols: a command, a statement, a service call -> effects. The only place that knows what SET NX PX, EXPIRE, EVAL,
//! pg_advisory_lock, FOR UPDATE, a lease grant mean.

pub mod external;
pub mod lock;
pub mod redis;
mod site;
pub mod sql;
pub mod time;

pub use site::{Outcome, Passed, Site, api_acquire, handle, handle_kind, project, root, root_param, ttl};

use crate::model::Protocol;

/// What a call that matched a row does.
pub fn call(site: &Site<'_>) -> Outcome {
    match site.row.protocol {
        Protocol::Redis => redis::call(site),
        Protocol::Lock => lock::call(site),
        Protocol::Time => time::call(site),
        Protocol::External => external::call(site),
        Protocol::Sql => sql::call(site),
    }
}

/// What a call does that reaches a function which runs what the caller brings. `site` has the row of the running call.
pub fn passed(site: &Site<'_>, passed: Passed) -> Outcome {
    match site.row.protocol {
        Protocol::Redis => redis::run(site, passed),
        _ => Outcome::Silent,
    }
}

/// What a method of a reply gives: a row, a finished statement, a response. `None`: the method says nothing here.
pub fn access(shape: &crate::ir::Shape, method: &str, args: &[crate::ir::Shape]) -> Option<crate::ir::Shape> {
    sql::access(shape, method, args).or_else(|| lock::access(shape, method, args))
}

/// Words of all protocols for the text search, and whether each makes a file worth parsing.
pub fn words() -> impl Iterator<Item = (&'static str, bool)> {
    redis::WORDS.iter().chain(SQL_WORDS).chain(COMMON_WORDS).copied()
}

/// SQL lock vocabulary (PostgreSQL manual 9.28.10 and 13.3, MySQL manual 14.14, Transact-SQL `sp_getapplock`).
const SQL_WORDS: &[(&str, bool)] = &[
    ("advisory_lock", true),
    ("advisory_xact_lock", true),
    ("advisory_unlock", true),
    ("advisorylock", true),
    ("get_lock(", true),
    ("release_lock(", true),
    ("release_all_locks", true),
    ("is_free_lock", true),
    ("sp_getapplock", true),
    ("sp_releaseapplock", true),
    ("for update", true),
    ("for no key update", true),
    ("for share", true),
    ("for key share", true),
    ("skip locked", true),
    ("nowait", true),
    ("lock table", true),
    ("for_update", true),
    ("for_no_key_update", true),
    ("for_share", true),
    ("skip_locked", true),
    ("lock_exclusive", true),
    ("lock_shared", true),
    ("lock_with_behavior", true),
    ("locked_by", true),
    ("locked_until", true),
    ("locked_at", true),
    ("lease_until", true),
    ("lease_expires", true),
    ("lease_owner", true),
    ("claimed_by", true),
    ("claimed_at", true),
    ("heartbeat_at", true),
    ("heartbeat", false),
    ("hashtext", true),
];

/// Names that people give to locks; they never decide anything but which files are read.
const COMMON_WORDS: &[(&str, bool)] = &[
    ("acquire_lock", true),
    ("rslock", true),
    ("redlock", true),
    ("redsync", true),
    ("lease_grant", true),
    ("keep_alive", false),
    ("ephemeral", true),
    ("sessionentry", true),
    ("campaign(", true),
    ("try_acquire", true),
    ("acquire_lease", true),
    ("release_lock", true),
    ("with_lock", true),
    ("distributed_lock", true),
    ("distributedlock", true),
    ("dist_lock", true),
    ("lease", true),
    ("leader", false),
    ("lock", false),
    ("fencing", true),
    ("fence_token", true),
];

/// Checks one word of a row's `wire`.
///
/// # Errors
/// Says what is wrong and which forms there are.
pub fn check_wire(word: &str) -> Result<(), String> {
    redis::Wire::parse(word).map(|_| ())
}
