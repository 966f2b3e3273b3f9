//! Stable text form of the IR, for `cargo leaselint ir FILE` and golden tests.
