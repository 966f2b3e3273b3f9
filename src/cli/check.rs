//! Checking: discovery, the run, what is left out, the reports, the exit code.

use super::accept::Accepted;
use super::args::{Check, Format};
use super::progress::Progress;
use super::settings::{self, Settings};
use super::{CLEAN, FOUND, Failure, edit, ignore_closed, only, select, silence, terminal};
use crate::discover::{self, Request};
use crate::finding::{Confidence, Severity};
use crate::model::Models;
use crate::pipeline::{self, Options};
use crate::report::{self, Report, cargo, github, json, sarif, text};
use codespan_reporting::term::termcolor::WriteColor;
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;

/// Columns of reports in files.
const FILE_WIDTH: usize = 120;

/// Checks and reports.
pub fn run(args: &Check) -> Result<u8, Failure> {
    let rules = select::rules(&args.rule, &args.exclude_rule)?;
    let mut request = request(args)?;
    let settings = settings::load(&request, args.config.as_deref())?;
    complete(&mut request, &settings, args);
    let files = only::files(args, &request.cwd, &settings.root)?;
    let accepted = Accepted::load(args, &request, &settings.root, &rules)?;
    let progress = Progress::start(args.quiet, "reading files");
    let workspace = discover::discover(&request)?;
    progress.phase("analysing");
    let skipped = workspace.skipped.clone();
    let options = Options {
        include_tests: request.include_tests,
        rules: Some(rules.clone()),
        models: settings.models.clone(),
        dsn: settings.config.dsn.clone(),
    };
    let mut outcome = pipeline::run(workspace, &options);
    drop(progress);
    let whole = args.paths.is_empty() && args.package.is_empty() && request.stdin.is_none();
    let silences = silence::judge(&mut outcome, &settings, &rules, whole);

    let sources = &outcome.sources;
    let all = report::entries(sources, &outcome.findings);
    let mut entries: Vec<_> = all.iter().map(|e| (e.clone(), silences.get(e.index).cloned().flatten())).collect();
    let judged = accepted.silence(sources, &mut entries);
    let least = (
        args.min_severity.map(Severity::from).or(settings.config.min_severity).unwrap_or(Severity::Note),
        args.min_confidence.map(Confidence::from).or(settings.config.min_confidence).unwrap_or(Confidence::Medium),
    );
    let mut shown = silence::split(sources, entries, least, files.as_ref());
    if args.write_baseline {
        let _ =
            writeln!(io::stderr(), "{}", accepted.write(&outcome, &settings, &judged, &shown.findings, &args.reason)?);
        return Ok(CLEAN);
    }
    let findings: Vec<_> = shown.findings.iter().map(|e| e.finding).collect();
    if let Some(reason) = &args.add_allow {
        edit::add_allow(sources, &findings, reason, args.diff)?;
        return Ok(CLEAN);
    }
    if args.fix || args.diff {
        let repaired = edit::fix(sources, &findings, args.diff)?;
        let mut repaired = repaired.into_iter();
        shown.findings.retain(|_| !repaired.next().unwrap_or(false));
    }
    let report = Report {
        sources,
        findings: shown.findings,
        silenced: shown.silenced,
        problems: &outcome.problems,
        skipped: &skipped,
        stats: &outcome.stats,
        rules: select::all().collect(),
    };
    if !args.diff {
        emit(args, &report)?;
    }
    let mut errors = io::stderr().lock();
    // Where standard error is closed there is nobody to tell.
    let _ = text::remarks(&mut errors, &report, args.verbose);
    if !args.diff
        && let Some(line) = accepted.shrink(&outcome, &settings, &judged)
    {
        let _ = writeln!(errors, "{line}");
    }
    if !args.quiet {
        let _ = writeln!(errors, "{}", report.summary());
    }
    Ok(exit_code(args, &report))
}

/// What the command line asks to read.
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
    let dash = Path::new("-");
    if paths.len() > 1 && paths.iter().any(|path| path == dash) {
        return Err(Failure("standard input is checked alone: `-` cannot stand beside other paths".to_owned()));
    }
    let stdin = if paths == [dash] {
        if args.files_from.as_deref() == Some(dash) {
            return Err(Failure(
                "standard input is either the text to check or the list of files, not both".to_owned(),
            ));
        }
        let mut bytes = Vec::new();
        io::stdin().lock().read_to_end(&mut bytes).map_err(|e| Failure(format!("cannot read standard input: {e}")))?;
        Some((args.stdin_filename.clone(), bytes))
    } else {
        None
    };
    Ok(Request { cwd, paths, packages: args.package.clone(), stdin, ..Request::default() })
}

/// Adds what the configuration says.
fn complete(request: &mut Request, settings: &Settings, args: &Check) {
    request.exclude = settings.config.exclude.iter().chain(&args.exclude).cloned().collect();
    request.include_tests = args.include_tests || settings.config.include_tests.unwrap_or(false);
    request.apart = true;
    request.use_models(settings.models.as_ref().unwrap_or(Models::builtin()));
}

/// Writes all reports that were asked for.
fn emit(args: &Check, report: &Report<'_>) -> Result<(), Failure> {
    for (format, path) in &args.output {
        let failure = |e: io::Error| Failure(format!("cannot write `{}`: {}", path.display(), discover::reason(&e)));
        let mut file = terminal::writer(BufWriter::new(File::create(path).map_err(failure)?), false);
        write(&mut *file, report, *format, FILE_WIDTH, args).map_err(failure)?;
        if *format == Format::Text {
            let mut end = || -> io::Result<()> {
                text::remarks(&mut file, report, args.verbose)?;
                writeln!(file, "{}", report.summary())?;
                file.flush()
            };
            end().map_err(failure)?;
        }
    }
    let mut out = terminal::writer(BufWriter::new(io::stdout().lock()), terminal::colors(args.color));
    ignore_closed(write(&mut *out, report, args.format, terminal::width(), args))?;
    Ok(())
}

fn write(out: &mut dyn WriteColor, report: &Report<'_>, format: Format, width: usize, args: &Check) -> io::Result<()> {
    match format {
        Format::Text => text::write(out, report, width)?,
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
