//! Repairs: applied to a text, the result parses, is formatted as the text was, and has no finding of the repaired rule left
//! where the repair was made. `fixtures/fix/<case>.rs` becomes `fixtures/fix/<case>.fixed.rs`; `UPDATE_FIXTURES=1` writes them.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "support/check.rs"]
#[allow(dead_code)]
mod check;

use leaselint::fix;
use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};

/// Where each text stands.
const PATH: &str = "src/lib.rs";

/// A text after its repairs, and the rules that were repaired with how often.
fn repaired(text: &str) -> (String, BTreeMap<&'static str, usize>) {
    let texts = BTreeMap::from([(PATH.to_owned(), text.to_owned())]);
    let outcome = check::run_texts(&texts, None);
    let fixes: Vec<_> = outcome.findings.iter().filter_map(|f| Some((f.rule, f.fix.as_ref()?))).collect();
    let groups: Vec<&[leaselint::finding::Edit]> = fixes.iter().map(|(_, fix)| fix.edits.as_slice()).collect();
    let (changes, done) = fix::merge(&outcome.sources, &groups);
    let mut rules = BTreeMap::new();
    for ((rule, _), _) in fixes.iter().zip(&done).filter(|(_, done)| **done) {
        *rules.entry(*rule).or_default() += 1;
    }
    (changes.first().map_or_else(|| text.to_owned(), |change| change.text.clone()), rules)
}

/// How often each rule is found in a text.
fn counts(text: &str) -> BTreeMap<&'static str, usize> {
    let texts = BTreeMap::from([(PATH.to_owned(), text.to_owned())]);
    let mut counts = BTreeMap::new();
    for finding in check::run_texts(&texts, None).findings {
        *counts.entry(finding.rule).or_default() += 1;
    }
    counts
}

/// Whether rustfmt leaves a text as it is; `None` where there is no rustfmt. `config` is `key=value`s.
fn formatted(text: &str, config: &str) -> Option<bool> {
    let mut rustfmt = Command::new("rustfmt")
        .args(["--edition", "2024", "--check", "--config", config])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    rustfmt.stdin.take()?.write_all(text.as_bytes()).ok()?;
    Some(rustfmt.wait().ok()?.success())
}

const DEFAULT: &str = "max_width=100,use_small_heuristics=Default";
const WIDE: &str = "max_width=120,use_small_heuristics=Max";

/// What every repaired text must be.
fn judge(path: &str, before: &str, after: &str, rules: &BTreeMap<&'static str, usize>) -> Vec<String> {
    let mut wrong = Vec::new();
    if let Err(error) = syn::parse_file(after) {
        wrong.push(format!("{path}: does not parse: {error}\n{after}"));
        return wrong;
    }
    for config in [DEFAULT, WIDE] {
        if formatted(before, config) == Some(true) && formatted(after, config) == Some(false) {
            wrong.push(format!("{path}: is not formatted ({config}) after {rules:?}\n{after}"));
        }
    }
    let (was, is) = (counts(before), counts(after));
    for (rule, repaired) in rules {
        let left = was.get(rule).copied().unwrap_or_default() - repaired;
        if is.get(rule).copied().unwrap_or_default() > left {
            wrong.push(format!("{path}: {rule} is still found\n{after}"));
        }
    }
    for (rule, count) in &is {
        if *count > was.get(rule).copied().unwrap_or_default() {
            wrong.push(format!("{path}: {rule} is new after {rules:?}\n{after}"));
        }
    }
    wrong
}

#[test]
fn cases_become_what_they_should() {
    let folder = check::repository("fixtures/fix");
    let mut wrong = Vec::new();
    let mut all: BTreeMap<&str, usize> = BTreeMap::new();
    for name in check::entries(&folder) {
        let Some(case) = name.strip_suffix(".rs").filter(|case| !case.ends_with(".fixed")) else { continue };
        let before = std::fs::read_to_string(folder.join(&name)).unwrap();
        let (after, rules) = repaired(&before);
        wrong.extend(judge(case, &before, &after, &rules));
        rules.iter().for_each(|(rule, n)| *all.entry(rule).or_default() += n);
        let golden = folder.join(format!("{case}.fixed.rs"));
        if std::env::var_os("UPDATE_FIXTURES").is_some() {
            std::fs::write(&golden, &after).unwrap();
        }
        if std::fs::read_to_string(&golden).unwrap_or_default() != after {
            wrong.push(format!("{case}: is not as in {case}.fixed.rs:\n{after}"));
        }
        if case.ends_with("left_alone") && before != after {
            wrong.push(format!("{case}: must stay as it is:\n{after}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for rule in ["setnx-expire", "unchecked-acquire", "session-lock-leak"] {
        assert!(all.contains_key(rule), "no case repairs {rule}: {all:?}");
    }
}

/// Every case of every rule for which a repair is offered.
#[test]
fn no_repair_of_a_rule_case_goes_wrong() {
    let mut wrong = Vec::new();
    let mut offered = 0;
    for rule in
        ["setnx-expire", "unchecked-acquire", "session-lock-leak", "session-lock-pooler", "release-before-commit"]
    {
        for path in check::files(&check::repository("fixtures/rules").join(rule)) {
            if path.extension().is_none_or(|e| e != "rs") || path.parent().unwrap().file_name().unwrap() != rule {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            // Marks would make lines longer than they are.
            let lines: Vec<&str> = text.lines().map(|l| l.split(" //~").next().unwrap_or(l)).collect();
            let before = lines.join("\n") + "\n";
            let (after, rules) = repaired(&before);
            if rules.is_empty() {
                continue;
            }
            offered += rules.values().sum::<usize>();
            wrong.extend(judge(&path.display().to_string(), &before, &after, &rules));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(offered >= 8, "only {offered} repairs were offered");
}
