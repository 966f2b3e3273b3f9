//! One JSON document. The format is versioned; its schema is `schema.json` beside this file.

use super::{Entry, Report, Silence, fingerprint};
use crate::source::{ProblemKind, Sources, Span};
use serde_json::{Value, json};

/// Version of the format. A change that a reader could stumble over raises it.
pub const VERSION: u32 = 1;

/// The schema of the format.
pub const SCHEMA: &str = include_str!("schema.json");

/// The document.
pub fn document(report: &Report<'_>) -> Value {
    let sources = report.sources;
    let [errors, warnings, notes] = report.counts();
    let stats = report.stats;
    let shown = report.findings.iter().map(|e| finding(sources, e, None));
    let silenced = report.silenced.iter().map(|(e, silence)| finding(sources, e, Some(silence)));
    json!({
        "version": VERSION,
        "tool": { "name": "leaselint", "version": env!("CARGO_PKG_VERSION") },
        "findings": shown.collect::<Vec<_>>(),
        "suppressed": silenced.collect::<Vec<_>>(),
        "problems": report.problems.iter().map(|p| json!({
            "path": p.path,
            "line": p.span.map(|span| sources.get(span.file).line(span.start)),
            "kind": match p.kind {
                ProblemKind::FileUnread => "file-unread",
                ProblemKind::PartUnread => "part-unread",
                ProblemKind::Notice => "notice",
            },
            "message": p.message,
        })).collect::<Vec<_>>(),
        "not_understood": stats.not_understood.iter().map(|(span, what)| json!({
            "at": place(sources, *span),
            "message": what,
        })).collect::<Vec<_>>(),
        "not_followed": stats.not_followed.iter().map(|(span, what)| json!({
            "at": place(sources, *span),
            "message": what,
        })).collect::<Vec<_>>(),
        "summary": {
            "errors": errors,
            "warnings": warnings,
            "notes": notes,
            "suppressed": report.silenced.len(),
            "files_read": stats.files_read,
            "files_unread": stats.files_unread,
            "parts_unread": stats.items_unread,
            "files_unreached": stats.unreached.len(),
            "operations_understood": stats.understood,
            "operations_not_understood": stats.not_understood.len(),
            "calls_not_followed": stats.not_followed.len(),
        },
    })
}

fn finding(sources: &Sources, entry: &Entry<'_>, silence: Option<&Silence>) -> Value {
    let f = entry.finding;
    let mut value = json!({
        "rule": f.rule,
        "severity": f.severity.name(),
        "confidence": f.confidence.name(),
        "message": f.message,
        "at": place(sources, f.span),
        "note": f.caret,
        "labels": f.labels.iter().map(|l| json!({ "at": place(sources, l.span), "note": l.note })).collect::<Vec<_>>(),
        "witness": f.witness.iter().map(|s| json!({
            "actor": s.actor.name(),
            "at": place(sources, s.span),
            "note": s.note,
        })).collect::<Vec<_>>(),
        "help": f.help,
        "lock": f.lock,
        "fix": f.fix.as_ref().map(|fix| json!({
            "title": fix.title,
            "edits": fix.edits.iter().map(|e| json!({ "at": place(sources, e.span), "text": e.text })).collect::<Vec<_>>(),
        })),
        "fingerprint": fingerprint::own(sources, entry),
    });
    if let (Some(silence), Some(object)) = (silence, value.as_object_mut()) {
        object.insert("suppressed_by".to_owned(), json!(silence.by.name()));
        object.insert("reason".to_owned(), json!(silence.reason));
    }
    value
}

/// A place: path, 1-based lines, 1-based columns in code points (end exclusive), byte offsets.
pub fn place(sources: &Sources, span: Span) -> Value {
    let file = sources.get(span.file);
    let (line, column) = file.line_column(span.start);
    let (end_line, end_column) = file.line_column(span.end);
    json!({
        "path": file.path,
        "line": line,
        "column": column,
        "end_line": end_line,
        "end_column": end_column,
        "start": span.start,
        "end": span.end,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::super::sample;
    use super::super::schema_tests::check;
    use super::*;

    #[test]
    fn documents_are_as_the_schema_says() {
        let (sources, findings) = sample::sample();
        let stats = crate::pipeline::Stats {
            not_understood: vec![(findings[0].span, "what".to_owned())],
            ..crate::pipeline::Stats::default()
        };
        let mut report = sample::report(&sources, &findings, &stats);
        let silenced = report.findings.pop().unwrap();
        report.silenced.push((silenced, Silence { by: super::super::SilencedBy::Comment, reason: "r".to_owned() }));
        let schema: Value = serde_json::from_str(SCHEMA).unwrap();
        let document = document(&report);
        check(&schema, &schema, &document, "");
        // Nothing is written that the schema does not describe.
        let described = schema["$defs"]["finding"]["properties"].as_object().unwrap();
        for (name, _) in document["findings"][0].as_object().unwrap() {
            assert!(described.contains_key(name), "{name}");
        }
    }
}
