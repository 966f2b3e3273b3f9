//! Messages as cargo prints them (`cargo check --message-format json`): one JSON object a line. rust-analyzer takes them
//! through `check.overrideCommand`, reviewdog and clippy-sarif read them too.

use super::{Report, text};
use crate::finding::Finding;
use crate::source::{SourceFile, Sources, Span};
use serde_json::{Value, json};
use std::io::{self, Write};
use std::path::Path;

/// Columns of the rendered text in a message.
const WIDTH: usize = 120;

/// Writes one message a finding, then `build-finished`. File names are relative to `cwd` where that is possible, as
/// cargo's are to the directory of the workspace it runs in.
///
/// # Errors
/// Those of the writer.
pub fn write(out: &mut dyn Write, report: &Report<'_>, cwd: &Path) -> io::Result<()> {
    for entry in &report.findings {
        let finding = entry.finding;
        let file = report.sources.get(finding.span.file);
        let message = json!({
            "reason": "compiler-message",
            "package_id": "leaselint",
            "manifest_path": "Cargo.toml",
            "target": {
                "kind": ["lib"], "crate_types": ["lib"], "name": "leaselint", "src_path": name(file, cwd),
                "edition": "2024", "doc": false, "doctest": false, "test": false,
            },
            "message": diagnostic(report.sources, finding, cwd),
        });
        writeln!(out, "{message}")?;
    }
    writeln!(out, "{}", json!({ "reason": "build-finished", "success": true }))
}

fn diagnostic(sources: &Sources, finding: &Finding, cwd: &Path) -> Value {
    let note = |message: &str, at: Span| child("note", message, vec![span(sources, at, cwd, true, None)]);
    // Notes, not further spans: clippy-sarif makes a result of each span. Where a step stands no label is needed.
    let apart = |at: Span| finding.witness.iter().all(|step| step.span != at);
    let labels = finding.labels.iter().filter(|label| apart(label.span));
    let mut children: Vec<Value> = labels.map(|label| note(&label.note, label.span)).collect();
    let steps = finding.witness.iter().enumerate();
    children.extend(steps.map(|(i, step)| note(&format!("{}. {} {}", i + 1, step.actor.name(), step.note), step.span)));
    if !finding.help.is_empty() {
        children.push(child("help", &finding.help, Vec::new()));
    }
    if let Some(fix) = &finding.fix {
        let edits = fix.edits.iter().map(|edit| {
            let mut span = span(sources, edit.span, cwd, true, None);
            span["suggested_replacement"] = json!(edit.text);
            span["suggestion_applicability"] = json!("MachineApplicable");
            span
        });
        children.push(child("help", &fix.title, edits.collect()));
    }
    json!({
        "$message_type": "diagnostic",
        "message": finding.message,
        "code": { "code": format!("leaselint::{}", finding.rule), "explanation": null },
        "level": finding.severity.name(),
        "spans": [span(sources, finding.span, cwd, true, Some(&finding.caret))],
        "children": children,
        "rendered": text::rendered(sources, finding, WIDTH),
    })
}

fn child(level: &str, message: &str, spans: Vec<Value>) -> Value {
    json!({ "message": message, "code": null, "level": level, "spans": spans, "children": [], "rendered": null })
}

fn span(sources: &Sources, span: Span, cwd: &Path, primary: bool, label: Option<&str>) -> Value {
    let file = sources.get(span.file);
    let (line, column) = file.line_column(span.start);
    let (end_line, end_column) = file.line_column(span.end);
    let text: Vec<Value> = (line..=end_line)
        .map(|number| {
            let text = file.text.get(file.line_range(number)).unwrap_or("");
            let start = if number == line { column } else { 1 };
            let end = if number == end_line { end_column } else { text.chars().count() + 1 };
            json!({ "text": text, "highlight_start": start, "highlight_end": end })
        })
        .collect();
    json!({
        "file_name": name(file, cwd),
        "byte_start": span.start,
        "byte_end": span.end,
        "line_start": line,
        "line_end": end_line,
        "column_start": column,
        "column_end": end_column,
        "is_primary": primary,
        "text": text,
        "label": label.filter(|l| !l.is_empty()),
        "suggested_replacement": null,
        "suggestion_applicability": null,
        "expansion": null,
    })
}

/// The file's path relative to `cwd`; outside of it the path of the other reports.
fn name(file: &SourceFile, cwd: &Path) -> String {
    let below = file.disk.as_deref().and_then(|disk| disk.strip_prefix(cwd).ok());
    below.map_or_else(|| file.path.clone(), |path| path.to_string_lossy().replace('\\', "/"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::super::sample;
    use super::*;

    #[test]
    fn one_object_a_line() {
        let (sources, findings) = sample::sample();
        let stats = crate::pipeline::Stats::default();
        let mut out = Vec::new();
        write(&mut out, &sample::report(&sources, &findings, &stats), Path::new("/nowhere")).unwrap();
        let lines: Vec<Value> =
            String::from_utf8(out).unwrap().lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        assert_eq!(lines.len(), 3);
        let message = &lines[1]["message"];
        assert_eq!(message["code"]["code"], "leaselint::bare-del");
        let primary = &message["spans"][0];
        assert_eq!((primary["line_start"].as_u64(), primary["column_start"].as_u64()), (Some(5), Some(7)));
        assert_eq!(primary["text"][0]["highlight_end"], 10);
        assert_eq!(message["children"].as_array().map(Vec::len), Some(6));
        assert_eq!(message["children"][5]["spans"][0]["suggested_replacement"], "release(k)");
        assert!(message["rendered"].as_str().unwrap().starts_with("error[bare-del]"));
    }
}
