//! What README says is so: the table of rules is the list of rules, the output it shows is printed, its commands exist.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "support/check.rs"]
#[allow(dead_code)]
mod check;

use leaselint::finding::Severity;
use leaselint::rule::page;
use std::process::Command;

fn readme() -> String {
    std::fs::read_to_string(check::repository("README.md")).unwrap()
}

fn program(args: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-leaselint"));
    let output = command.arg("leaselint").args(args).current_dir(check::repository("")).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

const TABLE_START: &str = "<!-- rules: written by UPDATE_README=1 cargo test --test readme -->\n";
const TABLE_END: &str = "<!-- /rules -->";

fn table() -> String {
    let mut table = String::from("| rule | severity | what |\n|---|---|---|\n");
    for rule in leaselint::rules::all() {
        let page = page::parse(rule.page).unwrap_or_else(|error| panic!("{}: {error}", rule.id));
        let severity = match rule.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        };
        table += &format!("| [`{0}`](rules/{0}.md) | {severity} | {1} |\n", rule.id, page.summary.replace('|', "\\|"));
    }
    table
}

#[test]
fn the_table_of_rules_is_the_list() {
    let text = readme();
    let start = text.find(TABLE_START).expect("the marker before the table") + TABLE_START.len();
    let end = text.find(TABLE_END).expect("the marker after the table");
    let wanted = table();
    if text[start..end] == wanted {
        return;
    }
    if std::env::var_os("UPDATE_README").is_some() {
        std::fs::write(check::repository("README.md"), format!("{}{wanted}{}", &text[..start], &text[end..])).unwrap();
        return;
    }
    panic!("the table of rules in README is not the list; UPDATE_README=1 cargo test --test readme writes it anew");
}

/// A block after `<!-- output: cargo leaselint ARGS -->` is an excerpt: its lines are printed, in this order.
#[test]
fn the_output_shown_is_real() {
    let text = readme();
    let mut shown = 0;
    for part in text.split("<!-- output: cargo leaselint ").skip(1) {
        let (args, rest) = part.split_once(" -->\n```text\n").unwrap();
        let mut args: Vec<&str> = args.split(' ').collect();
        if args[0] != "locks" {
            args.extend(["--color", "never"]);
        }
        let printed = program(&args);
        let mut lines = printed.lines();
        for line in rest.split("```").next().unwrap().lines() {
            assert!(lines.any(|printed| printed.trim_end() == line), "not printed, or not here:\n{line}\n{printed}");
            shown += 1;
        }
    }
    assert!(shown > 0, "README shows no output");
}

#[test]
fn options_and_subcommands_exist() {
    let help = program(&["--help"]);
    let text = readme();
    for word in text.split(|c: char| c.is_whitespace() || "`\"'|(),;".contains(c)) {
        let option = word.strip_prefix("--").map(|rest| rest.split('=').next().unwrap_or(rest));
        let Some(option) = option.filter(|o| {
            o.starts_with(|c: char| c.is_ascii_lowercase()) && o.chars().all(|c| c.is_ascii_lowercase() || c == '-')
        }) else {
            continue;
        };
        let others =
            ["locked", "path", "test", "workspace", "all-targets", "message-format", "open", "bench", "allow-empty"];
        assert!(others.contains(&option) || help.contains(&format!("--{option}")), "no option --{option}");
    }
    for command in ["explain", "init", "locks", "poolers", "schema"] {
        let named = text.contains(&format!("cargo leaselint {command}"));
        assert!(named && help.contains(&format!("  {command} ")), "no subcommand {command}");
    }
}

#[test]
fn versions_agree() {
    let version = concat!("v", env!("CARGO_PKG_VERSION"));
    let text = readme();
    assert!(text.contains(&format!("rev: {version}")) && text.contains(&format!("actions/leaselint@{version}")));
}
