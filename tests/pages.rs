//! The pages of the rules are the help text, the SARIF metadata and a test: their examples are run.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "support/check.rs"]
#[allow(dead_code)]
mod check;

use leaselint::rule::page::{self, Example, Page};
use std::collections::BTreeMap;

/// Id and page of every `rules/*.md`.
fn pages() -> Vec<(String, Page)> {
    let mut pages = Vec::new();
    for name in check::entries(&check::repository("rules")) {
        let Some(id) = name.strip_suffix(".md") else { continue };
        let text = std::fs::read_to_string(check::repository("rules").join(&name)).unwrap();
        pages.push((id.to_owned(), page::parse(&text).unwrap_or_else(|error| panic!("rules/{name}: {error}"))));
    }
    pages
}

#[test]
fn pages_are_complete() {
    for (id, page) in pages() {
        assert!(page.summary.len() <= 200 && !page.summary.ends_with('.'), "{id}: summary");
        assert!(page.summary.starts_with(char::is_lowercase), "{id}: the summary starts in lower case");
        assert!(!page.cwe.is_empty(), "{id}: names no weakness");
        assert!(page.tags.len() + page.cwe.len() <= 10, "{id}: code scanning shows ten tags");
        let security = page.tags.iter().any(|tag| tag == "security");
        assert_eq!(
            security,
            page.security_severity.is_some(),
            "{id}: tag `security` and `security-severity` go together"
        );
        assert!(page.examples.iter().any(|example| example.bad), "{id}: no bad example");
        assert!(page.examples.iter().any(|example| !example.bad), "{id}: no good example");
        assert!(page.why.contains("A ") && page.why.contains("```text"), "{id}: Why shows the interleaving");
    }
}

#[test]
fn pages_link_only_to_pages_that_exist() {
    let pages = pages();
    for (id, page) in &pages {
        for (index, _) in page.markdown.match_indices("](") {
            let target = page.markdown[index + 2..].split(')').next().unwrap_or_default();
            if let Some(other) = target.strip_suffix(".md") {
                assert!(pages.iter().any(|(id, _)| id == other), "{id}: links to {target}");
            }
        }
    }
}

#[test]
fn examples_give_what_the_page_says() {
    let mut failures = String::new();
    for (id, page) in pages() {
        for example in &page.examples {
            failures += &complaint(&id, example).unwrap_or_default();
        }
    }
    assert!(failures.is_empty(), "\n{failures}");
}

/// A bad example must give exactly one finding, of this rule, with all rules running; a good one none.
fn complaint(id: &str, example: &Example) -> Option<String> {
    let texts = texts(example);
    let found = check::found(&check::run_texts(&texts, None));
    let rules: Vec<&str> = found.iter().map(|(mark, _)| mark.rule.as_str()).collect();
    let wanted: &[&str] = if example.bad { &[id] } else { &[] };
    let line = example.files.last().map_or(0, |file| file.line);
    (rules != wanted).then(|| format!("rules/{id}.md:{line}: wanted {wanted:?}, got {found:#?}\n"))
}

fn texts(example: &Example) -> BTreeMap<String, String> {
    let name = |language: &str| match language {
        "rust" => "src/lib.rs",
        "sql" => "migrations/0001.sql",
        "lua" => "script.lua",
        "ini" => "pgbouncer.ini",
        "yaml" => "docker-compose.yml",
        "toml" => "pgcat.toml",
        other => panic!("an example in `{other}` needs a path"),
    };
    let path = |file: &page::ExampleFile| file.path.clone().unwrap_or_else(|| name(&file.language).to_owned());
    example.files.iter().map(|file| (path(file), file.text.clone())).collect()
}
