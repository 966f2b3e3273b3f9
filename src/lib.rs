//! leaselint reads a workspace (Rust, SQL, Redis Lua, connection-pooler configurations) and finds distributed locks and
//! leases that are taken, kept, renewed, released or trusted in a way that can fail.
//!
//! # Data flow: one way, no way back
//! ```text
//! discover -> source::SourceFile -> frontend (rust | sql | lua | pooler) -> ir::Unit
//!   -> link: one Program; names, types and values across files
//!   -> model + protocol: each call that is understood gets its ir::RoundTrip
//!   -> analysis: summaries -> lock decision -> Scopes -> path search
//!   -> rules: read-only questions to rule::Context -> Findings, each with a Witness
//!   -> suppress, baseline -> report
//!   -> inventory: every lock with what is known of it -> report
//! ```
//! Each layer uses only the layers before it. A rule never imports `syn` or `sqlparser`; a front end never reports a finding.
//!
//! # Invariants
//! 1. Front ends know syntax, protocols know commands, models know crates; rules know none of these.
//! 2. Lowering never fails: it returns what it could read, and [`source::Problem`]s for what it could not. A file or item
//!    that could not be parsed is always reported as such, never silently skipped, and never stops the run.
//! 3. Every [`ir::Op`] has a real span. Going out of scope is an op, so rules never think about RAII.
//! 4. An Acquire alone opens no Scope; only its `held` world does.
//! 5. Unknown stays unknown: rules accuse only on proven paths; a lock or guard handed to unknown code escapes, it does not leak.
//! 6. One bug, one finding: primary at the call to change, the rest in the witness.
//! 7. Output is deterministic: sorted, no clock, no absolute paths, the same bytes for any thread count.
//! 8. Nothing of the input is executed, no environment variable of the project is expanded, no network is used.
//! 9. Blindness shows: a call with a lock word or a modelled name that yields no effect is counted and can be listed.

pub mod analysis;
pub mod baseline;
pub mod cli;
pub mod config;
pub mod discover;
pub mod finding;
pub mod fix;
pub mod frontend;
pub mod inventory;
pub mod ir;
pub mod link;
pub mod model;
pub mod pipeline;
pub mod protocol;
pub mod report;
pub mod rule;
pub mod rules;
pub mod source;
pub mod suggest;
pub mod suppress;
