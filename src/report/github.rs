//! Workflow commands: GitHub Actions shows them as annotations at the lines of a change.

use super::{Report, plain};
use crate::finding::Severity;
use std::io::{self, Write};

/// GitHub shows no more annotations of one kind for a step.
const PER_LEVEL: usize = 10;

/// Writes the annotations, the worst first, and says how many are left out.
///
/// # Errors
/// Those of the writer.
pub fn write(out: &mut dyn Write, report: &Report<'_>) -> io::Result<()> {
    for severity in [Severity::Error, Severity::Warning, Severity::Note] {
        let command = if severity == Severity::Note { "notice" } else { severity.name() };
        let mut findings: Vec<_> =
            report.findings.iter().map(|e| e.finding).filter(|f| f.severity == severity).collect();
        // Stable: within a confidence the order of the report stays.
        findings.sort_by_key(|f| std::cmp::Reverse(f.confidence));
        for finding in findings.iter().take(PER_LEVEL) {
            let file = report.sources.get(finding.span.file);
            let (line, column) = file.line_column(finding.span.start);
            let end = finding.span.end.min(u32::try_from(file.line_range(line).end).unwrap_or(u32::MAX));
            let (_, end_column) = file.line_column(end.max(finding.span.start));
            let mut message = plain::neutral(&finding.message);
            for (i, step) in finding.witness.iter().enumerate() {
                let place = report.sources.get(step.span.file);
                let (note, path) = (plain::one_line(&step.note), plain::one_line(&place.path));
                let line = place.line(step.span.start);
                message.push_str(&format!("\n{}. {} {note} ({path}:{line})", i + 1, step.actor.name()));
            }
            if !finding.help.is_empty() {
                message.push_str(&format!("\nhelp: {}", plain::neutral(&finding.help)));
            }
            writeln!(
                out,
                "::{command} file={},line={line},endLine={line},col={column},endColumn={end_column},title={}::{}",
                property(&plain::neutral(&file.path)),
                property(finding.rule),
                data(&message),
            )?;
        }
        if findings.len() > PER_LEVEL {
            let more = findings.len() - PER_LEVEL;
            let plural = if more == 1 { "" } else { "s" };
            writeln!(
                out,
                "{more} more {}{plural} not annotated: GitHub shows {PER_LEVEL} of a kind for a step",
                severity.name()
            )?;
        }
    }
    Ok(())
}

/// Escapes the message of a workflow command.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// Escapes a property of a workflow command.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::super::sample;
    use super::*;

    #[test]
    fn annotates_worst_first_and_says_what_is_cut() {
        let (sources, mut findings) = sample::sample();
        let stats = crate::pipeline::Stats::default();
        for i in 0..11 {
            let mut finding = findings[1].clone();
            finding.message = format!("number {i}");
            findings.push(finding);
        }
        let report = sample::report(&sources, &findings, &stats);
        let mut out = Vec::new();
        write(&mut out, &report).unwrap();
        let out = String::from_utf8(out).unwrap();
        let mut lines = out.lines();
        let first = lines.next().unwrap();
        assert!(
            first.starts_with("::error file=src/a b#%25é.rs,line=5,endLine=5,col=7,endColumn=10,title=bare-del::"),
            "{first}"
        );
        assert!(first.contains("%0A1. A acquires"), "{first}");
        assert_eq!(lines.filter(|l| l.starts_with("::warning")).count(), 10);
        assert!(out.contains("2 more warnings not annotated"), "{out}");
    }
}
