//! Reports for people.

use super::excerpt::Excerpts;
use super::{Entry, Report, plain};
use crate::finding::{Finding, Severity};
use crate::source::{Problem, ProblemKind, Sources, Span};
use codespan_reporting::diagnostic::{Diagnostic, Label, LabelStyle, Severity as Level};
use codespan_reporting::term::{self, Chars, Config, termcolor::WriteColor};
use std::io;

/// Writes all findings, laid out for `width` columns.
///
/// # Errors
/// Those of the writer.
pub fn write(out: &mut dyn WriteColor, report: &Report<'_>, width: usize) -> io::Result<()> {
    for entry in &report.findings {
        finding(out, report.sources, entry.finding, width)?;
    }
    Ok(())
}

/// Writes what could not be read and, if `verbose`, what was silenced, not understood or reached by nothing.
///
/// # Errors
/// Those of the writer.
pub fn remarks(out: &mut dyn io::Write, report: &Report<'_>, verbose: bool) -> io::Result<()> {
    problems(out, report, verbose)?;
    if !verbose {
        return Ok(());
    }
    for (path, why) in report.skipped {
        writeln!(out, "passed over: {}: {why}", plain::one_line(path))?;
    }
    for (Entry { finding, .. }, silence) in &report.silenced {
        let place = plain::one_line(&report.sources.place(finding.span));
        let by = silence.by.name();
        writeln!(out, "suppressed: {place}: {} by {by}: {}", finding.rule, plain::one_line(&silence.reason))?;
    }
    for (span, what) in &report.stats.not_understood {
        writeln!(out, "not understood: {}: {}", plain::one_line(&report.sources.place(*span)), plain::one_line(what))?;
    }
    for (span, what) in &report.stats.not_followed {
        writeln!(out, "not followed: {}: {}", plain::one_line(&report.sources.place(*span)), plain::one_line(what))?;
    }
    for path in &report.stats.unreached {
        writeln!(out, "reached by no `mod`: {}", plain::one_line(path))?;
    }
    Ok(())
}

/// Renders one finding without colours, as other formats embed it.
pub fn rendered(sources: &Sources, finding: &Finding, width: usize) -> String {
    let mut out = term::termcolor::NoColor::new(Vec::new());
    // Writing into memory does not fail.
    let _ = self::finding(&mut out, sources, finding, width);
    String::from_utf8_lossy(&out.into_inner()).trim_end().to_owned() + "\n"
}

fn finding(out: &mut dyn WriteColor, sources: &Sources, finding: &Finding, width: usize) -> io::Result<()> {
    let mut spans = vec![finding.span];
    spans.extend(finding.labels.iter().map(|l| l.span));
    let excerpts = Excerpts::new(sources, &spans, width.saturating_sub(12).max(100));
    let label = |style, span: Span, note: &str| {
        Label::new(style, span.file, excerpts.range(span)).with_message(plain::one_line(note))
    };
    let mut labels = vec![label(LabelStyle::Primary, finding.span, &finding.caret)];
    labels.extend(finding.labels.iter().map(|other| label(LabelStyle::Secondary, other.span, &other.note)));
    let level = match finding.severity {
        Severity::Error => Level::Error,
        Severity::Warning => Level::Warning,
        Severity::Note => Level::Note,
    };
    let diagnostic = Diagnostic::new(level)
        .with_code(finding.rule)
        .with_message(plain::one_line(&finding.message))
        .with_labels(labels)
        .with_notes(notes(sources, finding, width));
    let config = Config { chars: Chars::box_drawing(), ..Config::default() };
    term::emit_to_write_style(out, &config, &excerpts, &diagnostic).map_err(io::Error::other)
}

/// The interleaving as a numbered list, the help, the repair.
fn notes(sources: &Sources, finding: &Finding, width: usize) -> Vec<String> {
    // The bullet and its indent take six columns.
    let width = width.saturating_sub(8).max(40);
    let mut notes = Vec::new();
    if !finding.witness.is_empty() {
        let actors = finding.witness.iter().map(|s| s.actor.name().len()).max().unwrap_or(0);
        let digits = finding.witness.len().to_string().len();
        let mut lines = vec!["how it fails:".to_owned()];
        for (i, step) in finding.witness.iter().enumerate() {
            let head = format!("{:>digits$}. {:actors$}  ", i + 1, step.actor.name());
            let file = sources.get(step.span.file);
            let place = format!("({}:{})", plain::one_line(&file.path), file.line(step.span.start));
            let text = format!("{} {place}", plain::one_line(&step.note));
            hang(&mut lines, &format!("  {head}"), &text, width);
        }
        notes.push(lines.join("\n"));
    }
    let mut help = Vec::new();
    if !finding.help.is_empty() {
        help.push(finding.help.clone());
    }
    if let Some(fix) = &finding.fix {
        help.push(format!("--fix can do it: {}", fix.title));
    }
    for text in help {
        let mut lines = Vec::new();
        for (i, line) in text.lines().enumerate() {
            hang(&mut lines, if i == 0 { "help: " } else { "      " }, &plain::one_line(line), width);
        }
        notes.push(lines.join("\n"));
    }
    notes
}

/// Appends `text` wrapped, the first line after `head`, the others under it.
fn hang(lines: &mut Vec<String>, head: &str, text: &str, width: usize) {
    let indent = head.chars().count();
    for (i, line) in plain::wrap(text, width.saturating_sub(indent).max(20)).into_iter().enumerate() {
        let lead = if i == 0 { head.to_owned() } else { " ".repeat(indent) };
        lines.push(format!("{lead}{line}"));
    }
}

/// Files that could not be read are always named; parts of files when they are few; notices on request.
fn problems(out: &mut dyn io::Write, report: &Report<'_>, verbose: bool) -> io::Result<()> {
    const FEW: usize = 5;
    let parts = report.problems.iter().filter(|p| p.kind == ProblemKind::PartUnread).count();
    let shown = |p: &&Problem| match p.kind {
        ProblemKind::FileUnread => true,
        ProblemKind::PartUnread => verbose || parts <= FEW,
        ProblemKind::Notice => verbose,
    };
    for problem in report.problems.iter().filter(shown) {
        let place = problem.span.map_or_else(|| problem.path.clone(), |span| report.sources.place(span));
        let kind = if problem.kind == ProblemKind::Notice { "notice" } else { "not read" };
        let message = problem.message.strip_prefix("not read: ").unwrap_or(&problem.message);
        writeln!(out, "{kind}: {}: {}", plain::one_line(&place), plain::one_line(message))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::sample::sample;
    use super::*;

    #[test]
    fn shows_code_steps_and_help() {
        let (sources, findings) = sample();
        let text: String = findings.iter().map(|f| rendered(&sources, f, 80)).collect();
        insta::assert_snapshot!(text);
    }

    #[test]
    fn long_lines_are_cut_around_the_caret() {
        let (mut sources, mut findings) = sample();
        let text = format!("{}c.del(k);{}", "é = 1; ".repeat(60), " x".repeat(500));
        let start = text.find("del").unwrap_or_default();
        let file = sources.add("src/long.rs", crate::source::Language::Rust, text);
        let mut finding = findings.remove(0);
        finding.span = Span::new(file, start, start + 3);
        finding.labels.clear();
        finding.witness.clear();
        insta::assert_snapshot!(rendered(&sources, &finding, 80));
    }
}
