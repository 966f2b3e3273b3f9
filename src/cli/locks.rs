//! `locks`: the inventory of all locks.

use super::args::{Locks, LocksFormat};
use super::progress::Progress;
use super::{CLEAN, Failure, print, select, settings, silence, terminal};
use crate::discover::{self, Request};
use crate::finding::{Confidence, Finding};
use crate::inventory;
use crate::model::Models;
use crate::pipeline::{self, Options};
use crate::report::count;
use crate::report::locks::{self as report, Report};
use crate::rule::Context;
use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Prints every lock of what is asked for.
///
/// # Errors
/// A path that is not there, or a leaselint.toml that cannot be read.
pub fn run(args: &Locks) -> Result<u8, Failure> {
    let cwd = std::env::current_dir().map_err(|e| Failure(format!("the current directory cannot be read: {e}")))?;
    let mut paths = args.paths.clone();
    if let Some(manifest) = &args.manifest_path {
        if !manifest.is_file() {
            return Err(Failure(format!("cannot read `{}`: no such file", manifest.display())));
        }
        let directory = manifest.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        paths = vec![PathBuf::from(directory)];
    }
    let mut request = Request { cwd, paths, packages: args.package.clone(), ..Request::default() };
    let settings = settings::load(&request, args.config.as_deref())?;
    request.exclude = settings.config.exclude.iter().chain(&args.exclude).cloned().collect();
    request.include_tests = args.include_tests || settings.config.include_tests.unwrap_or(false);
    let models = settings.models.as_ref().unwrap_or(Models::builtin());
    request.use_models(models);
    let options = Options {
        include_tests: request.include_tests,
        rules: None,
        models: settings.models.clone(),
        dsn: settings.config.dsn.clone(),
    };
    let progress = Progress::start(false, "reading files");
    let workspace = discover::discover(&request)?;
    progress.phase("analysing");
    let look = |cx: &Context<'_>, findings: &[Finding]| inventory::build(cx, models, findings);
    let (mut outcome, mut inventory) = pipeline::run_and(workspace, &options, look);
    drop(progress);
    // Findings that a check would not show are none here either.
    let rules: Vec<&'static str> = select::all().map(|rule| rule.id).collect();
    let silences = silence::judge(&mut outcome, &settings, &rules, false);
    let least = settings.config.min_confidence.unwrap_or(Confidence::Medium);
    let shown: BTreeSet<_> = outcome
        .findings
        .iter()
        .zip(silences)
        .filter(|(finding, silence)| silence.is_none() && finding.confidence >= least)
        .map(|(finding, _)| (finding.rule, finding.span))
        .collect();
    for lock in &mut inventory.locks {
        lock.findings.retain(|finding| shown.contains(finding));
    }
    let purposes = inventory.locks.iter().map(|lock| {
        let declared = settings.config.declaration(&lock.key);
        declared.map(|i| settings.config.locks[i].reason.clone())
    });
    let report = Report { sources: &outcome.sources, inventory: &inventory, purposes: purposes.collect() };
    match args.format {
        LocksFormat::Text => print(&report::text(&report, terminal::width()))?,
        LocksFormat::Json => print(&format!("{:#}\n", report::json(&report)))?,
        LocksFormat::Markdown => print(&report::markdown(&report))?,
    }
    let stats = &outcome.stats;
    let unread = stats.files_unread + stats.items_unread;
    let unread = if unread > 0 { format!("; {unread} files or parts not readable") } else { String::new() };
    let _ = writeln!(
        std::io::stderr(),
        "{}; {} read{unread}; {} understood, {} not",
        report::counts(&inventory),
        count(stats.files_read, "file"),
        count(stats.understood, "lock operation"),
        stats.not_understood.len()
    );
    Ok(CLEAN)
}
