//! Golden tests: each `fixtures/lower/<case>.rs` lowers to the text in `<case>.ir`.
//! `UPDATE=1 cargo test --test lower` writes the expected texts anew.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use leaselint::frontend::ModuleContext;
use leaselint::ir::dump;
use leaselint::source::{FileId, Language, SourceFile};
use std::path::Path;

fn lower(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap();
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    let file = SourceFile::new(FileId(0), name, Language::Rust, text);
    let context = ModuleContext { krate: "app".into(), module: "app::case".into(), test: false };
    let unit = leaselint::frontend::rust::lower(&file, &context);
    dump::unit(&unit, &file)
}

#[test]
fn rust_lowers_as_expected() {
    let update = std::env::var_os("UPDATE").is_some();
    let mut paths: Vec<_> = std::fs::read_dir("fixtures/lower").unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "rs"));
    paths.sort();
    assert!(!paths.is_empty());
    let mut failed = Vec::new();
    for path in paths {
        let path = path.as_path();
        let got = std::thread::scope(|scope| {
            let worker = std::thread::Builder::new().stack_size(64 << 20);
            worker.spawn_scoped(scope, || lower(path)).unwrap().join().unwrap()
        });
        let expected = path.with_extension("ir");
        if update {
            std::fs::write(&expected, got).unwrap();
        } else if std::fs::read_to_string(&expected).unwrap_or_default() != got {
            failed.push(path.display().to_string());
        }
    }
    assert!(failed.is_empty(), "lowered otherwise (UPDATE=1 writes anew): {failed:?}");
}
