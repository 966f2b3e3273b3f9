//! Scripts: what EVAL, EVALSHA and FCALL do, in every world.

mod facts;
mod library;
mod reply;
mod run;
mod summary;
mod term;

pub use run::Entry;
pub use summary::{Bindings, summary};

#[cfg(test)]
mod tests;
