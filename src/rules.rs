//! The one list of rules.

mod bare_del;
mod check_then_del;
mod missing_ttl;
mod session_lock_pooler;
mod setnx_expire;
mod unfenced_write;

use crate::rule::Rule;

/// All rules, in the order of lists and reports.
pub fn all() -> &'static [Rule] {
    &RULES
}

static RULES: [Rule; 6] = [
    setnx_expire::RULE,
    missing_ttl::RULE,
    bare_del::RULE,
    check_then_del::RULE,
    session_lock_pooler::RULE,
    unfenced_write::RULE,
];
