//! Every rule against its marked cases, and all rules against whole small programs.
//!
//! A case is a file or a folder in `fixtures/rules/<id>/`; only that rule runs on it. Its name says what it is: `bad_` has
//! markers, `good_` is the correct form, `near_` looks like the defect and is none. `fn_` and `fp_` are known wrong answers:
//! they hold the right markers, and the test demands that the answer still differs, so that none outlives its reason.
//! `UPDATE_FIXTURES=1 cargo test --test fixtures` renames what is wrong to `fn_` or `fp_` and what is right by now back.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "support/check.rs"]
mod check;

use check::{Mark, Verdict};
use std::collections::BTreeMap;
use std::path::Path;

struct Case {
    rule: String,
    name: String,
    texts: BTreeMap<String, String>,
    verdict: Verdict,
}

#[test]
fn cases_of_every_rule() {
    let mut failures = String::new();
    let mut per_rule: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for case in cases() {
        let count = per_rule.entry(case.rule.clone()).or_default();
        count.1 += 1;
        match complaint(&case) {
            Some(_) if std::env::var_os("UPDATE_FIXTURES").is_some() => rename(&case),
            Some(complaint) => failures += &complaint,
            None => count.0 += 1,
        }
    }
    let table: String =
        per_rule.iter().map(|(rule, (right, all))| format!("  {rule}: {right} of {all} right\n")).collect();
    assert!(failures.is_empty(), "\n{failures}\n{table}");
}

/// Gives a case the name that says what the program does with it.
fn rename(case: &Case) {
    let (kind, rest) = case.name.split_once('_').unwrap();
    let kind = match kind {
        "bad" => "fn",
        "good" | "near" => "fp",
        "fn" => "bad",
        _ => "near",
    };
    let folder = check::repository("fixtures/rules").join(&case.rule);
    std::fs::rename(folder.join(&case.name), folder.join(format!("{kind}_{rest}"))).unwrap();
}

/// What is wrong with a case, or nothing.
fn complaint(case: &Case) -> Option<String> {
    let head = format!("fixtures/rules/{}/{}", case.rule, case.name);
    let kind = case.name.split('_').next().unwrap_or_default();
    let right = case.verdict.is_right();
    match kind {
        "bad" | "good" | "near" if right => None,
        "bad" | "good" | "near" => Some(format!("{head}\n{}", case.verdict.describe(&case.texts))),
        "fn" | "fp" if !right => None,
        "fn" => Some(format!("{head}\n    is right now: rename it to bad_\n")),
        "fp" => Some(format!("{head}\n    is right now: rename it to good_ or near_\n")),
        _ => Some(format!("{head}\n    the name must start with bad_, good_, near_, fn_ or fp_\n")),
    }
}

fn cases() -> Vec<Case> {
    let root = check::repository("fixtures/rules");
    let only = std::env::var("FIXTURE").ok();
    let mut cases = Vec::new();
    let listed = leaselint::rules::all();
    for rule in check::entries(&root).into_iter().filter(|id| listed.iter().any(|rule| rule.id == id)) {
        for name in check::entries(&root.join(&rule)) {
            let path = root.join(&rule).join(&name);
            if only.as_ref().is_some_and(|only| !format!("{rule}/{name}").contains(only)) {
                continue;
            }
            cases.push(if path.is_dir() { folder_case(&rule, &name, &path) } else { file_case(&rule, &name, &path) });
        }
    }
    cases
}

fn file_case(rule: &str, name: &str, path: &Path) -> Case {
    let texts = BTreeMap::from([(name.to_owned(), std::fs::read_to_string(path).unwrap())]);
    let outcome = check::run_texts(&texts, Some(rule));
    let verdict = check::compare(all_marks(&texts), check::found(&outcome));
    Case { rule: rule.to_owned(), name: name.to_owned(), texts, verdict }
}

fn folder_case(rule: &str, name: &str, path: &Path) -> Case {
    let texts = check::read_folder(path);
    let outcome = check::run_folder(path, Some(rule));
    let verdict = check::compare(all_marks(&texts), relative(check::found(&outcome), path));
    Case { rule: rule.to_owned(), name: name.to_owned(), texts, verdict }
}

/// Report paths are relative to the git root, or to the folder where there is none; markers know the folder only.
fn relative(found: Vec<(Mark, String)>, folder: &Path) -> Vec<(Mark, String)> {
    let prefix = folder.strip_prefix(check::repository("")).unwrap().to_str().unwrap().to_owned() + "/";
    let cut = |path: String| path.strip_prefix(&prefix).map(str::to_owned).unwrap_or(path);
    found.into_iter().map(|(mark, message)| (Mark { path: cut(mark.path), ..mark }, message)).collect()
}

fn all_marks(texts: &BTreeMap<String, String>) -> Vec<Mark> {
    texts.iter().flat_map(|(path, text)| check::marks(path, text)).collect()
}

/// Whole small workspaces: what is marked is found, and nothing else, with all rules running.
#[test]
fn programs() {
    let mut failures = String::new();
    for name in check::entries(&check::repository("fixtures/programs")) {
        let path = check::repository("fixtures/programs").join(&name);
        let texts = check::read_folder(&path);
        let outcome = check::run_folder(&path, None);
        let verdict = check::compare(all_marks(&texts), relative(check::found(&outcome), &path));
        let problems = check::problems(&outcome.problems);
        if !verdict.is_right() || !problems.is_empty() {
            failures += &format!("fixtures/programs/{name}\n{}{problems}", verdict.describe(&texts));
        }
    }
    assert!(failures.is_empty(), "\n{failures}");
}

#[test]
fn marks_fit_the_names_of_the_cases() {
    for rule in check::entries(&check::repository("fixtures/rules")) {
        let folder = check::repository("fixtures/rules").join(&rule);
        for name in check::entries(&folder) {
            let path = folder.join(&name);
            let texts = if path.is_dir() {
                check::read_folder(&path)
            } else {
                BTreeMap::from([(name.clone(), std::fs::read_to_string(&path).unwrap())])
            };
            let marks = all_marks(&texts);
            assert!(marks.iter().all(|mark| mark.rule == rule), "{rule}/{name}: a marker of another rule");
            let wants = name.starts_with("bad_") || name.starts_with("fn_");
            assert_eq!(!marks.is_empty(), wants, "{rule}/{name}: bad_ and fn_ have markers, the others none");
        }
    }
}

#[test]
fn rust_fixtures_parse() {
    for path in check::files(&check::repository("fixtures")) {
        if path.extension().is_some_and(|e| e == "rs") && !path.starts_with(check::repository("fixtures/lower")) {
            let text = std::fs::read_to_string(&path).unwrap();
            if let Err(error) = syn::parse_file(&text) {
                panic!("{}:{}: {error}", path.display(), error.span().start().line);
            }
        }
    }
}

#[test]
fn markers_are_read_in_every_comment_style() {
    let text = "a(); //~ one\nb --~ two three\nc ;~ four\n#~^ five\n";
    let marks: Vec<(usize, String)> = check::marks("x", text).into_iter().map(|m| (m.line, m.rule)).collect();
    let wanted = [(1, "one"), (2, "two"), (2, "three"), (3, "four"), (3, "five")];
    assert_eq!(marks, wanted.map(|(line, rule)| (line, rule.to_owned())));
}
