//! API models: which calls of a client crate do what. Loads and checks `rules/models/*.toml`, matches calls to rows,
//! and lets the protocol modules hang [`crate::ir::RoundTrip`]s on calls.
