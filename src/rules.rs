//! The one list of rules.
