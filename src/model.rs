//! API models: which calls of a client crate do what.
//!
//! The rows of `rules/models/*.toml` are data: how a call is recognised, its role, where its arguments stand. What the call
//! means for locks is the business of the protocol modules; see [`crate::protocol`].

mod apply;
mod head;
mod houses;
mod matching;
mod parse;
mod row;
mod version;
mod words;

pub use apply::{Missed, Understood, apply};
pub use head::{Head, Topology};
pub use matching::{Imports, Match, Versions, receiver_types};
pub use parse::{File, Models, vocabulary};
pub use row::*;
pub use version::Range;
pub use words::{Reach, Word, lock_word_in, of as words_of, words};

#[cfg(test)]
mod examples_tests;
#[cfg(test)]
mod tests;
