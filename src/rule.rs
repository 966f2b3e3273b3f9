//! What a rule is.

pub mod advice;
pub mod answers;
pub mod bounds;
pub mod context;
mod gates;
pub mod lengths;
pub mod loops;
pub mod page;
pub mod rounds;
pub mod section;
pub mod statements;
pub mod tasks;
pub mod understood;
pub mod work;

pub use context::Context;

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
    /// Silencing findings.
    Suppressing,
}

impl Group {
    /// All groups, in the order of `--list`.
    pub const ALL: [Group; 7] = [
        Group::Taking,
        Group::Releasing,
        Group::Keeping,
        Group::Fencing,
        Group::Database,
        Group::Coordination,
        Group::Suppressing,
    ];

    /// Name on the command line and in pages: `taking`, `releasing`, ..
    pub fn name(self) -> &'static str {
        match self {
            Group::Taking => "taking",
            Group::Releasing => "releasing",
            Group::Keeping => "keeping",
            Group::Fencing => "fencing",
            Group::Database => "database",
            Group::Coordination => "coordination",
            Group::Suppressing => "suppressing",
        }
    }

    /// The group of a name.
    pub fn from_name(name: &str) -> Option<Group> {
        Group::ALL.into_iter().find(|g| g.name() == name)
    }
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
