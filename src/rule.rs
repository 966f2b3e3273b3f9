//! What a rule is.

use crate::finding::{Finding, Severity};

/// The part of RULES a rule belongs to; also a name for selecting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Group {
    /// Taking a lock.
    Taking,
    /// Giving it back.
    Releasing,
    /// Keeping it.
    Keeping,
    /// What a stale holder can still do.
    Fencing,
    /// Database locks and poolers.
    Database,
    /// Coordination services.
    Coordination,
}

/// One static value per rule.
pub struct Rule {
    /// Id: never changes once released, reads well after `allow`.
    pub id: &'static str,
    /// Highest severity a finding of it has.
    pub severity: Severity,
    /// Group.
    pub group: Group,
    /// The page `rules/<id>.md`: front matter, What / Why / Fix / Limits, examples.
    pub page: &'static str,
    /// The check.
    pub check: fn(&Context<'_>, &mut Vec<Finding>),
}

/// Everything a rule may ask.
pub struct Context<'a> {
    /// The linked program.
    pub program: &'a crate::link::Program,
}
