//! Checking: discovery, the run, what is left out, the reports, the exit code.

use super::args::{Check, Format};
use super::{CLEAN, FOUND, Failure, ignore_closed, select, terminal};
use crate::discover::{self, Request};
use crate::finding::{Confidence, Severity};
use crate::model::Models;
use crate::pipeline::{self, Options};
use crate::report::{self, Report, cargo, github, json, sarif, text};
use codespan_reporting::term::termcolor::WriteColor;
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

/// Checks and reports.
pub fn run(args: &Check) -> Result<u8, Failure> {
    let rules = select::rules(&args.rule, &args.exclude_rule)?;
    let request = request(args)?;
    let workspace = discover::discover(&request)?;
    let skipped = workspace.skipped.clone();
    let options = Options { include_tests: args.include_tests, rules: Some(rules), ..Options::default() };
    let outcome = pipeline::run(workspace, &options);
    let min_severity = args.min_severity.map_or(Severity::Note, Severity::from);
    let min_confidence = args.min_confidence.map_or(Confidence::Medium, Confidence::from);
    let mut findings = report::entries(&outcome.sources, &outcome.findings);
    findings.retain(|e| e.finding.severity >= min_severity && e.finding.confidence >= min_confidence);
    let report = Report {
        sources: &outcome.sources,
        findings,
        silenced: Vec::new(),
        problems: &outcome.problems,
        stats: &outcome.stats,
        rules: select::all().collect(),
    };
    for (format, path) in &args.output {
        write_file(&report, *format, path, args)?;
    }
    let style = text::Style { width: terminal::width(), verbose: args.verbose, summary: false };
    let mut out = terminal::writer(BufWriter::new(io::stdout().lock()), terminal::colors(args.color));
    ignore_closed(write(&mut *out, &report, args.format, style, args))?;
    drop(out);
    if args.verbose {
        for (path, why) in &skipped {
            let _ = writeln!(io::stderr(), "passed over: {}: {why}", report::plain::one_line(path));
        }
    }
    if !args.quiet {
        let _ = writeln!(io::stderr(), "{}", report.summary());
    }
    Ok(exit_code(args, &report))
}

fn request(args: &Check) -> Result<Request, Failure> {
    let cwd = std::env::current_dir().map_err(|e| Failure(format!("the current directory cannot be read: {e}")))?;
    let mut paths = args.paths.clone();
    if let Some(manifest) = &args.manifest_path {
        if !manifest.is_file() {
            return Err(Failure(format!("cannot read `{}`: no such file", manifest.display())));
        }
        let directory = manifest.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        paths = vec![directory.to_path_buf()];
    }
    let stdin = if paths == [PathBuf::from("-")] {
        let mut bytes = Vec::new();
        io::stdin().lock().read_to_end(&mut bytes).map_err(|e| Failure(format!("cannot read standard input: {e}")))?;
        Some((args.stdin_filename.clone(), bytes))
    } else {
        None
    };
    let mut request = Request {
        cwd,
        paths,
        exclude: args.exclude.clone(),
        packages: args.package.clone(),
        include_tests: args.include_tests,
        stdin,
        ..Request::default()
    };
    request.use_models(Models::builtin());
    Ok(request)
}

fn write_file(report: &Report<'_>, format: Format, path: &Path, args: &Check) -> Result<(), Failure> {
    let failure = |e: io::Error| Failure(format!("cannot write `{}`: {e}", path.display()));
    let style = text::Style { width: 120, verbose: args.verbose, summary: true };
    let mut file = terminal::writer(BufWriter::new(File::create(path).map_err(failure)?), false);
    write(&mut *file, report, format, style, args).map_err(failure)
}

fn write(
    out: &mut dyn WriteColor,
    report: &Report<'_>,
    format: Format,
    style: text::Style,
    args: &Check,
) -> io::Result<()> {
    match format {
        Format::Text => text::write(out, report, style)?,
        Format::Json => writeln!(out, "{:#}", json::document(report))?,
        Format::Sarif => {
            let (document, left_out) = sarif::document(report, args.sarif_suppressed);
            writeln!(out, "{document:#}")?;
            if left_out > 0 {
                let _ = writeln!(io::stderr(), "{left_out} findings are left out of the SARIF document");
            }
        }
        Format::Cargo => {
            let cwd = std::env::current_dir().and_then(|cwd| cwd.canonicalize()).unwrap_or_default();
            cargo::write(out, report, &cwd)?;
        }
        Format::Github => github::write(out, report)?,
    }
    out.flush()
}

fn exit_code(args: &Check, report: &Report<'_>) -> u8 {
    let limit = match args.fail_on {
        Some(severity) => severity.into(),
        None if args.exit_zero || args.format == Format::Sarif => return CLEAN,
        None => Severity::Note,
    };
    if report.findings.iter().any(|e| e.finding.severity >= limit) { FOUND } else { CLEAN }
}
