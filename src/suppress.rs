//! Silencing findings where they stand: `// leaselint: allow(rule) reason`.
//!
//! The comment stands in a statement or alone above it: the statement of the finding, of one of its labels or of a step of
//! its witness. A comment without a reason, with an unknown rule, or that silences nothing is itself reported.

mod comment;
mod insert;
mod statement;

pub use insert::insertions;

use crate::finding::{Confidence, Finding, Severity};
use crate::rule::{Group, Rule};
use crate::source::{FileId, SourceFile, Sources, Span};
use crate::suggest;
use comment::Allow;
use statement::Statements;
use std::collections::{BTreeMap, BTreeSet};

/// Rules about silencing. Nothing silences them but switching them off.
pub static RULES: [Rule; 3] = [
    Rule {
        id: "bad-allow",
        severity: Severity::Warning,
        group: Group::Suppressing,
        page: include_str!("../rules/suppression/bad-allow.md"),
        check: |_, _| {},
    },
    Rule {
        id: "unused-allow",
        severity: Severity::Warning,
        group: Group::Suppressing,
        page: include_str!("../rules/suppression/unused-allow.md"),
        check: |_, _| {},
    },
    Rule {
        id: "unused-declaration",
        severity: Severity::Warning,
        group: Group::Suppressing,
        page: include_str!("../rules/suppression/unused-declaration.md"),
        check: |_, _| {},
    },
];

/// What the comments do.
#[derive(Debug, Default)]
pub struct Applied {
    /// For each finding the reason it is silenced for, if it is.
    pub silenced: Vec<Option<String>>,
    /// Findings about the comments themselves.
    pub own: Vec<Finding>,
}

/// Applies all comments in the sources to the findings. `known` are the ids of all rules, `ran` those that ran: of the
/// others nothing can be said. Comments inside `unjudged` places (tests that were left out) are not called unused.
pub fn apply(
    sources: &Sources,
    findings: &[Finding],
    known: &[&'static str],
    ran: &BTreeSet<&str>,
    unjudged: &[Span],
) -> Applied {
    let mut applied = Applied { silenced: vec![None; findings.len()], own: Vec::new() };
    let mut by_place: BTreeMap<(FileId, usize), Vec<usize>> = BTreeMap::new();
    for (i, finding) in findings.iter().enumerate() {
        for span in finding.spans() {
            by_place.entry((span.file, sources.get(span.file).line(span.start))).or_default().push(i);
        }
    }
    for file in sources.iter() {
        let allows = comment::find(file);
        if allows.is_empty() {
            continue;
        }
        let statements = Statements::new(file);
        for allow in allows {
            let lines = targets(file, &statements, &allow);
            for rule in &allow.rules {
                if !known.contains(&rule.name.as_str()) {
                    applied.own.push(unknown_rule(&rule.name, rule.span, known));
                    continue;
                }
                let mut used = false;
                for i in lines.iter().flat_map(|line| by_place.get(&(file.id, *line)).into_iter().flatten()) {
                    if findings[*i].rule == rule.name {
                        used = true;
                        applied.silenced[*i].get_or_insert_with(|| allow.reason.clone());
                    }
                }
                let inside = |s: &Span| s.file == file.id && s.start <= rule.span.start && rule.span.end <= s.end;
                if !used && ran.contains(rule.name.as_str()) && !unjudged.iter().any(inside) {
                    applied.own.push(unused(&rule.name, rule.span));
                }
            }
            if allow.rules.is_empty() {
                applied.own.push(bad(allow.span, "names no rule", "this names no rule to silence"));
            } else if allow.reason.is_empty() {
                applied.own.push(bad(allow.span, "no reason", "this silences a rule without saying why"));
            }
        }
    }
    applied
}

/// Lines that a comment speaks of: those of the statement it stands in, and if it stands alone those of the statement below.
fn targets(file: &SourceFile, statements: &Statements, allow: &Allow) -> BTreeSet<usize> {
    let own = file.line(allow.span.start);
    let mut lines: BTreeSet<usize> = statements.lines(own).collect();
    if allow.alone {
        let is_code = |line: &usize| {
            let text = file.text.get(file.line_range(*line)).unwrap_or("").trim();
            !text.is_empty() && !text.starts_with("//") && !text.starts_with("--") && !text.starts_with("#[")
        };
        let below = (own + 1..=file.line_count()).take(20).find(is_code);
        lines.extend(below.into_iter().flat_map(|line| statements.lines(line)));
    }
    lines
}

fn finding(rule: &'static str, span: Span, caret: &str, message: String, help: &str) -> Finding {
    Finding {
        rule,
        severity: Severity::Warning,
        confidence: Confidence::High,
        span,
        caret: caret.to_owned(),
        message,
        labels: Vec::new(),
        help: help.to_owned(),
        witness: Vec::new(),
        fix: None,
        lock: None,
    }
}

fn bad(span: Span, caret: &str, message: &str) -> Finding {
    let help = "write `leaselint: allow(rule) reason`: what makes the finding harmless here";
    finding("bad-allow", span, caret, message.to_owned(), help)
}

fn unknown_rule(name: &str, span: Span, known: &[&str]) -> Finding {
    let near = suggest::nearest(name, known.iter().copied());
    let help = near.map_or_else(
        || "`cargo leaselint --list` shows all rules".to_owned(),
        |near| format!("did you mean `{near}`?"),
    );
    finding("bad-allow", span, "no such rule", format!("this silences `{name}`, which is no rule"), &help)
}

fn unused(name: &str, span: Span) -> Finding {
    let message = format!("this silences `{name}`, but there is no such finding here");
    let help = "remove it, or move it into the statement of the finding or right above that";
    finding("unused-allow", span, "silences nothing", message, help)
}

/// The finding that a declaration in the configuration matches no lock.
pub fn unused_declaration(key: &str, span: Span) -> Finding {
    let message = format!("`{key}` is declared an efficiency lock, but no lock has such a key");
    let help = "compare it with the keys in the code; holes of a template are written `{}`, `*` stands for anything";
    finding("unused-declaration", span, "matches no lock", message, help)
}
