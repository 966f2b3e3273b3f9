//! Writing comments: `--add-allow`.

use super::statement::Statements;
use crate::finding::{Edit, Finding};
use crate::source::scan;
use crate::source::{Language, Sources, Span};
use std::collections::{BTreeMap, BTreeSet};

/// The edits that put a comment above each finding, and the findings at which none can be put. Inside a literal a comment
/// would become part of the text, so there it goes above the whole statement.
pub fn insertions<'f>(sources: &Sources, findings: &[&'f Finding], reason: &str) -> (Vec<Edit>, Vec<&'f Finding>) {
    let mut files: BTreeMap<_, Vec<&'f Finding>> = BTreeMap::new();
    for finding in findings {
        files.entry(finding.span.file).or_default().push(finding);
    }
    let (mut edits, mut left) = (Vec::new(), Vec::new());
    let reason = reason.split_whitespace().collect::<Vec<_>>().join(" ");
    for (id, findings) in files {
        let file = sources.get(id);
        let parts = scan::scan(file.language, &file.text);
        let inside = |line: usize| {
            let start = file.line_range(line).start;
            parts.iter().any(|(_, r)| r.start < start && start < r.end)
        };
        let statements = Statements::new(file);
        let mut lines: BTreeMap<usize, BTreeSet<&str>> = BTreeMap::new();
        for finding in findings {
            let line = file.line(finding.span.start);
            match [line, statements.lines(line).start].into_iter().find(|line| !inside(*line)) {
                Some(line) => _ = lines.entry(line).or_default().insert(finding.rule),
                None => left.push(finding),
            }
        }
        for (line, rules) in lines {
            let range = file.line_range(line);
            let text = file.text.get(range.clone()).unwrap_or("");
            let intro = match file.language {
                Language::Rust => "//",
                Language::Sql | Language::Lua => "--",
                Language::Config if file.path.ends_with(".ini") => ";",
                Language::Config => "#",
            };
            let indent = &text[..text.len() - text.trim_start().len()];
            let rules = rules.into_iter().collect::<Vec<_>>().join(", ");
            let end = if file.text[range.end..].starts_with('\r') { "\r\n" } else { "\n" };
            // A byte-order mark stays in front.
            let start = if text.starts_with('\u{feff}') { range.start + '\u{feff}'.len_utf8() } else { range.start };
            let at = Span::new(id, start, start);
            edits.push(Edit { span: at, text: format!("{indent}{intro} leaselint: allow({rules}) {reason}{end}") });
        }
    }
    (edits, left)
}
