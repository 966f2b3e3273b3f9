//! Protocols: a command, a statement, a service call -> effects. The only place that knows what SET NX PX, EXPIRE, EVAL,
//! pg_advisory_lock, FOR UPDATE, a lease grant mean.

pub mod external;
pub mod lock;
pub mod redis;
mod site;
pub mod sql;
pub mod time;

pub use site::{Outcome, Passed, Site, api_acquire, handle, handle_kind, project, root, root_param, ttl};

use crate::model::{Protocol, Reach};

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

/// Words of all protocols for the text search, and which files each brings in.
pub fn words() -> impl Iterator<Item = (&'static str, Reach)> {
    let groups = [
        (Reach::Everywhere, redis::TELLING_WORDS),
        (Reach::Everywhere, SQL_TELLING_WORDS),
        (Reach::Everywhere, lock::consul::TELLING_WORDS),
        (Reach::Clients, redis::WORDS),
        (Reach::Clients, SQL_WORDS),
        (Reach::Clients, COMMON_WORDS),
        (Reach::Near, redis::NEAR_WORDS),
    ];
    groups.into_iter().flat_map(|(reach, words)| words.iter().map(move |word| (*word, reach)))
}

/// Functions of PostgreSQL (manual 9.28.10) that nothing else is called like.
const SQL_TELLING_WORDS: &[&str] = &["pg_advisory_", "pg_try_advisory_"];

/// SQL lock vocabulary (PostgreSQL manual 9.28.10 and 13.3, MySQL manual 14.14, Transact-SQL `sp_getapplock`).
const SQL_WORDS: &[&str] = &[
    "advisory_lock",
    "advisory_xact_lock",
    "advisory_unlock",
    "advisorylock",
    "get_lock(",
    "release_lock(",
    "release_all_locks",
    "is_free_lock",
    "sp_getapplock",
    "sp_releaseapplock",
    "for update",
    "for no key update",
    "for share",
    "for key share",
    "skip locked",
    "lock table",
    "for_update",
    "for_no_key_update",
    "for_share",
    "skip_locked",
    "lock_exclusive",
    "lock_shared",
    "lock_with_behavior",
    "locked_by",
    "locked_until",
    "locked_at",
    "lease_until",
    "lease_expires",
    "lease_owner",
    "claimed_by",
    "claimed_at",
    "heartbeat_at",
    "hashtext",
];

/// Names that people give to locks; they never decide anything but which files are read.
const COMMON_WORDS: &[&str] = &[
    "acquire_lock",
    "rslock",
    "redlock",
    "redsync",
    "lease_grant",
    "sessionentry",
    "campaign(",
    "try_acquire",
    "acquire_lease",
    "release_lock",
    "with_lock",
    "distributed_lock",
    "distributedlock",
    "dist_lock",
    "lease",
    "fencing",
    "fence_token",
];

/// Checks one word of a row's `wire`.
///
/// # Errors
/// Says what is wrong and which forms there are.
pub fn check_wire(word: &str) -> Result<(), String> {
    redis::Wire::parse(word).map(|_| ())
}
