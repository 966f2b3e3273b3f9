//! The one list of rules.

use crate::rule::Rule;

/// All rules, in the order of lists and reports.
pub fn all() -> &'static [Rule] {
    &[]
}
