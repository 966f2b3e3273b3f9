//! What the repository promises about itself: its layout, the length of its files, and that its texts name what exists.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "support/check.rs"]
#[allow(dead_code)]
mod check;

use std::path::{Path, PathBuf};

/// Files with one of these suffixes that are part of the sources.
fn sources(suffixes: &[&str]) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    for folder in ["src", "tests", "rules"] {
        paths.extend(check::files(&check::repository(folder)));
    }
    paths.retain(|path| suffixes.iter().any(|suffix| path.to_string_lossy().ends_with(suffix)));
    paths
}

fn shown(path: &Path) -> String {
    path.strip_prefix(check::repository("")).unwrap().display().to_string()
}

#[test]
fn no_source_file_is_over_500_lines() {
    let long = |path: &PathBuf| {
        let lines = std::fs::read_to_string(path).unwrap().lines().count();
        (lines > 500).then(|| format!("{}: {lines} lines", shown(path)))
    };
    let over: Vec<String> = sources(&[".rs"]).iter().filter_map(long).collect();
    assert!(over.is_empty(), "split these: {over:#?}");
}

#[test]
fn the_top_level_holds_what_it_should() {
    let allowed = [
        "CHANGELOG.md",
        "Cargo.lock",
        "Cargo.toml",
        "LICENSE-APACHE",
        "LICENSE-MIT",
        "README.md",
        "fixtures",
        "rules",
        "rustfmt.toml",
        "src",
        "target",
        "tests",
    ];
    let root = check::repository("");
    let extra: Vec<String> = check::entries(&root)
        .into_iter()
        .filter(|name| !name.starts_with('.') && !allowed.contains(&name.as_str()))
        .collect();
    assert!(extra.is_empty(), "not expected at the top: {extra:?}");
}

#[test]
fn no_module_is_a_mod_rs() {
    // The inputs of command-line cases show what users have, `mod.rs` included.
    let found: Vec<String> =
        sources(&["mod.rs"]).iter().map(|path| shown(path)).filter(|path| !path.contains(".in/")).collect();
    assert!(found.is_empty(), "write `x.rs` beside the folder `x` instead: {found:?}");
}

#[test]
fn nothing_unwraps_outside_tests() {
    let mut found = Vec::new();
    for path in check::files(&check::repository("src")) {
        let text = std::fs::read_to_string(&path).unwrap();
        let test_file =
            path.file_stem().is_some_and(|stem| stem == "tests" || stem.to_string_lossy().ends_with("_tests"));
        if test_file || path.components().any(|part| part.as_os_str() == "tests") {
            continue;
        }
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        for (index, line) in code.lines().enumerate() {
            let line = line.split("//").next().unwrap_or_default();
            if [".unwrap()", ".expect(\"", "panic!(", "todo!(", "unimplemented!("].iter().any(|bad| line.contains(bad))
            {
                found.push(format!("{}:{}: {}", shown(&path), index + 1, line.trim()));
            }
        }
    }
    assert!(found.is_empty(), "these can panic: {found:#?}");
}

/// Texts in backquotes that start like a path of this repository must name something that is there.
#[test]
fn no_text_names_a_file_that_is_gone() {
    let mut texts = sources(&[".rs", ".md", ".toml"]);
    texts.extend(["README.md", "CHANGELOG.md"].map(check::repository).into_iter().filter(|path| path.exists()));
    let mut gone = Vec::new();
    for path in texts {
        let text = std::fs::read_to_string(&path).unwrap();
        for (index, line) in text.lines().enumerate() {
            let prose = path.extension().is_some_and(|e| e == "md") || line.trim_start().starts_with("//");
            for quoted in line.split('`').skip(1).step_by(2).filter(|_| prose) {
                let named = ["src/", "rules/", "fixtures/", "tests/", ".github/", ".ci/"]
                    .iter()
                    .any(|top| quoted.starts_with(top));
                let is_path = !quoted.contains(['<', '*', ' ', '{', '$', '(', '!', ':']);
                // In examples of users' repositories `src/main.rs` is theirs, and so are migrations.
                let theirs = path.extension().is_some_and(|e| e == "md") && quoted.starts_with("src/");
                if named && is_path && !theirs && !check::repository(quoted).exists() {
                    gone.push(format!("{}:{}: {quoted}", shown(&path), index + 1));
                }
            }
        }
    }
    assert!(gone.is_empty(), "these are not there: {gone:#?}");
}
