//! The one list of rules.

mod bare_del;
mod bare_renew;
mod check_then_del;
mod check_then_set;
mod coarse_key;
mod constant_token;
mod fail_open_acquire;
mod guard_dropped;
mod hashtext_key;
mod herd_watch;
mod leaked_lock;
mod lease_no_keepalive;
mod lock_on_pool;
mod missing_ttl;
mod needless_lock;
mod off_transaction_write;
mod redlock_correctness;
mod reentrant_acquire;
mod release_before_commit;
mod release_unheld;
mod remote_call_in_transaction;
mod renew_failure_ignored;
mod renew_interval;
mod renew_without_cancel;
mod row_lock_autocommit;
mod session_lock_leak;
mod session_lock_pooler;
mod setnx_expire;
mod split_lock;
mod ttl_shorter_than_work;
mod ttl_unit;
mod unbounded_acquire;
mod unchecked_acquire;
mod unchecked_release;
mod unfenceable_effect;
mod unfenced_write;
mod unstable_key;
mod wall_clock_lease;
mod watch_on_shared_connection;
mod weak_fence;
mod xact_lock_autocommit;

use crate::rule::Rule;

/// All rules, in the order of lists and reports.
pub fn all() -> &'static [Rule] {
    RULES
}

static RULES: &[Rule] = &[
    setnx_expire::RULE,
    missing_ttl::RULE,
    check_then_set::RULE,
    constant_token::RULE,
    unchecked_acquire::RULE,
    fail_open_acquire::RULE,
    guard_dropped::RULE,
    ttl_unit::RULE,
    ttl_shorter_than_work::RULE,
    unbounded_acquire::RULE,
    reentrant_acquire::RULE,
    split_lock::RULE,
    coarse_key::RULE,
    needless_lock::RULE,
    unstable_key::RULE,
    hashtext_key::RULE,
    bare_del::RULE,
    check_then_del::RULE,
    release_unheld::RULE,
    release_before_commit::RULE,
    leaked_lock::RULE,
    unchecked_release::RULE,
    bare_renew::RULE,
    renew_failure_ignored::RULE,
    renew_interval::RULE,
    renew_without_cancel::RULE,
    lease_no_keepalive::RULE,
    wall_clock_lease::RULE,
    unfenced_write::RULE,
    unfenceable_effect::RULE,
    weak_fence::RULE,
    redlock_correctness::RULE,
    remote_call_in_transaction::RULE,
    watch_on_shared_connection::RULE,
    off_transaction_write::RULE,
    session_lock_pooler::RULE,
    lock_on_pool::RULE,
    session_lock_leak::RULE,
    xact_lock_autocommit::RULE,
    row_lock_autocommit::RULE,
    herd_watch::RULE,
];
