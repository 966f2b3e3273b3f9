//! Hand-made findings for the tests of the formats.

use super::Report;
use crate::finding::{Actor, Confidence, Edit, Finding, Fix, Label, Severity, Step};
use crate::pipeline::Stats;
use crate::rule::{Group, Rule};
use crate::source::{FileId, Language, Sources, Span};

const PAGE: &str = "+++\nsummary = \"a lock is deleted without a look at its owner\"\nseverity = \"error\"\ngroup = \"releasing\"\n\
    tags = [\"security\"]\ncwe = [362]\nsecurity-severity = \"5.0\"\nprecision = \"high\"\n+++\n## What\nDEL of a lease key.\n\n\
    ```rust bad\nc.del(k);\n```\n## Why\nIt may be another's.\n## Fix\nCompare.\n\n```rust good\nrelease(k, token);\n```\n## Limits\nNone.\n";

/// Rules that the findings belong to.
pub(super) static RULES: [Rule; 2] = [
    Rule { id: "bare-del", severity: Severity::Error, group: Group::Releasing, page: PAGE, check: |_, _| {} },
    Rule { id: "session-lock-pooler", severity: Severity::Error, group: Group::Database, page: PAGE, check: |_, _| {} },
];

/// A report of the given findings.
pub(super) fn report<'a>(sources: &'a Sources, findings: &'a [Finding], stats: &'a Stats) -> Report<'a> {
    let findings = super::entries(sources, findings);
    Report {
        sources,
        findings,
        silenced: Vec::new(),
        problems: &[],
        skipped: &[],
        stats,
        rules: RULES.iter().collect(),
    }
}

/// A source with everything that is hard to point into, and findings in it.
pub(crate) fn sample() -> (Sources, Vec<Finding>) {
    let mut sources = Sources::default();
    let rust = "\u{feff}fn f() {\r\n\tlet é = \"🔒漢\"; c.set_nx(k, 1);\r\n    work();\r\n    more();\r\n    c.del(k)\u{1b}; }";
    let a = sources.add("src/a b#%é.rs", Language::Rust, rust);
    let b = sources.add("pgbouncer.ini", Language::Config, "[pgbouncer]\npool_mode = transaction\n");
    let at = |file: FileId, text: &str, what: &str| {
        let start = text.find(what).unwrap_or_default();
        Span::new(file, start, start + what.len())
    };
    let mode = "[pgbouncer]\npool_mode = transaction\n";
    let findings = vec![
        Finding {
            rule: "bare-del",
            severity: Severity::Error,
            confidence: Confidence::High,
            span: at(a, rust, "del"),
            caret: "deletes whatever is there".to_owned(),
            message: "the lock is deleted without a look at its owner".to_owned(),
            labels: vec![Label { span: at(a, rust, "set_nx"), note: "taken here".to_owned() }],
            help: "compare and delete in one script: redis.call('get', KEYS[1]) == ARGV[1]".to_owned(),
            witness: vec![
                Step { actor: Actor::A, span: at(a, rust, "set_nx"), note: "acquires lock:{id} for 30 s".to_owned() },
                Step { actor: Actor::Store, span: at(a, rust, "work"), note: "the lease expires".to_owned() },
                Step { actor: Actor::B, span: at(a, rust, "set_nx"), note: "acquires it".to_owned() },
                Step { actor: Actor::A, span: at(a, rust, "del"), note: "deletes the lock of B".to_owned() },
            ],
            fix: Some(Fix {
                title: "delete by script".to_owned(),
                edits: vec![Edit { span: at(a, rust, "del(k)"), text: "release(k)".to_owned() }],
            }),
            lock: Some("lock:{id}".to_owned()),
        },
        Finding {
            rule: "session-lock-pooler",
            severity: Severity::Warning,
            confidence: Confidence::Medium,
            span: at(a, rust, "work"),
            caret: String::new(),
            message: "the lock lives in a session".to_owned(),
            labels: vec![Label { span: at(b, mode, "transaction"), note: "set here".to_owned() }],
            help: String::new(),
            witness: Vec::new(),
            fix: None,
            lock: None,
        },
    ];
    (sources, findings)
}
