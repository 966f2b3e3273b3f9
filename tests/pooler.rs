//! Each folder of `fixtures/pooler` is a small repository; `expected.txt` in it is what `cargo leaselint poolers` says of it.
//! `BLESS=1 cargo test --test pooler` writes the files anew.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::path::{Path, PathBuf};

use leaselint::frontend::pooler::{self, PoolerFacts};
use leaselint::source::{Language, Sources};

fn load(dir: &Path) -> (Sources, PoolerFacts) {
    let mut paths = Vec::new();
    walk(dir, &mut paths);
    paths.sort();
    let mut sources = Sources::default();
    for path in paths {
        let name = path.strip_prefix(dir).unwrap().to_string_lossy().replace('\\', "/");
        let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
        if name != "expected.txt" && pooler::is_candidate(&name, &text) {
            sources.add(name, Language::Config, text);
        }
    }
    let files: Vec<_> = sources.iter().collect();
    let facts = pooler::read(&files);
    (sources, facts)
}

fn walk(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { walk(&path, out) } else { out.push(path) }
    }
}

fn cases() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/pooler");
    let mut cases: Vec<_> = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).collect();
    cases.sort();
    cases
}

#[test]
fn descriptions() {
    let mut failed = Vec::new();
    for case in cases() {
        let (sources, facts) = load(&case);
        let text = pooler::describe(&facts, &sources);
        let file = case.join("expected.txt");
        if std::env::var_os("BLESS").is_some() {
            fs::write(&file, &text).unwrap();
        }
        let expected = fs::read_to_string(&file).unwrap_or_default();
        if text != expected {
            failed.push(format!("{}\n--- expected\n{expected}--- is\n{text}", case.display()));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
