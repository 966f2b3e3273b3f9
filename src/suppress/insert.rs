//! Writing comments: `--add-allow`.

use crate::finding::{Edit, Finding};
use crate::source::scan;
use crate::source::{Language, Sources, Span};
use std::collections::{BTreeMap, BTreeSet};

/// The edits that put a comment at each finding, and the findings at which none can be put: inside a literal that goes
/// over several lines a comment would become part of the text.
pub fn insertions<'f>(sources: &Sources, findings: &[&'f Finding], reason: &str) -> (Vec<Edit>, Vec<&'f Finding>) {
    let mut lines: BTreeMap<_, Vec<&'f Finding>> = BTreeMap::new();
    for finding in findings {
        let line = sources.get(finding.span.file).line(finding.span.start);
        lines.entry((finding.span.file, line)).or_default().push(finding);
    }
    let (mut edits, mut left) = (Vec::new(), Vec::new());
    let reason = reason.split_whitespace().collect::<Vec<_>>().join(" ");
    for ((id, line), findings) in lines {
        let file = sources.get(id);
        let range = file.line_range(line);
        let rules: BTreeSet<&str> = findings.iter().map(|f| f.rule).collect();
        let rules = rules.into_iter().collect::<Vec<_>>().join(", ");
        let intro = match file.language {
            Language::Rust => "//",
            Language::Sql | Language::Lua => "--",
            Language::Config if file.path.ends_with(".ini") => ";",
            Language::Config => "#",
        };
        let comment = format!("{intro} leaselint: allow({rules}) {reason}");
        let parts = scan::scan(file.language, &file.text);
        let inside = |offset: usize| parts.iter().any(|(_, r)| r.start < offset && offset < r.end);
        let text = file.text.get(range.clone()).unwrap_or("");
        if !inside(range.start) {
            let indent = &text[..text.len() - text.trim_start().len()];
            let end = if file.text[range.end..].starts_with('\r') { "\r\n" } else { "\n" };
            let at = Span::new(id, range.start, range.start);
            edits.push(Edit { span: at, text: format!("{indent}{comment}{end}") });
        } else if file.language != Language::Config
            && !inside(range.end)
            && !parts.iter().any(|(_, r)| r.end == range.end)
        {
            edits.push(Edit { span: Span::new(id, range.end, range.end), text: format!(" {comment}") });
        } else {
            left.extend(findings);
        }
    }
    (edits, left)
}
