//! The contract of the command line: each `tests/cli/*.toml` is one call with what it prints and how it exits.
//! `TRYCMD=overwrite cargo test --test cli` writes the outputs anew; read the difference before you keep it.

#[test]
fn cli() {
    trycmd::TestCases::new().env("COLUMNS", "100").env("CI", "").case("tests/cli/*.toml");
}
