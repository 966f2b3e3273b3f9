//! Reporting only on some files: `--files-from`, `--since`.

use super::Failure;
use super::args::Check;
use crate::discover;
use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The files that are reported on; `None` for all. The rest of the workspace is read all the same: a finding in a changed
/// file may hang on code that did not change.
pub fn files(args: &Check, cwd: &Path, root: &Path) -> Result<Option<BTreeSet<PathBuf>>, Failure> {
    let mut wanted: Option<BTreeSet<PathBuf>> = None;
    if let Some(list) = &args.files_from {
        wanted = Some(listed(list, cwd)?);
    }
    if let Some(revision) = &args.since {
        let changed = changed(revision, root)?;
        wanted = Some(match wanted {
            Some(listed) => listed.intersection(&changed).cloned().collect(),
            None => changed,
        });
    }
    Ok(wanted)
}

fn listed(list: &Path, cwd: &Path) -> Result<BTreeSet<PathBuf>, Failure> {
    let mut text = String::new();
    let read = if list == Path::new("-") {
        std::io::stdin().lock().read_to_string(&mut text)
    } else {
        std::fs::File::open(cwd.join(list)).and_then(|mut file| file.read_to_string(&mut text))
    };
    read.map_err(|e| Failure(format!("cannot read `{}`: {}", list.display(), discover::reason(&e))))?;
    // Files that were deleted may stand in the list.
    let names = text.lines().map(str::trim_end).filter(|line| !line.is_empty());
    Ok(names.filter_map(|name| cwd.join(name).canonicalize().ok()).collect())
}

/// Files that differ from where the work here left a revision, and files that git does not know yet. What came to the
/// revision's own branch since then is nobody's change here.
fn changed(revision: &str, root: &Path) -> Result<BTreeSet<PathBuf>, Failure> {
    if revision.starts_with('-') {
        return Err(Failure(format!("`{revision}` is no git revision")));
    }
    let git = |arguments: &[&str]| -> Result<Vec<u8>, Failure> {
        let output = run(root, arguments)?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        let why = String::from_utf8_lossy(&output.stderr);
        let why = why.lines().next().unwrap_or("it failed").trim_start_matches("fatal: ").to_owned();
        Err(Failure(format!("git cannot tell what changed since `{revision}`: {why}")))
    };
    git(&["rev-parse", "--git-dir"])?;
    let commit = run(root, &["rev-parse", "--verify", "--quiet", &format!("{revision}^{{commit}}")])?;
    let commit = String::from_utf8_lossy(&commit.stdout).trim().to_owned();
    if commit.is_empty() {
        return Err(Failure(format!("git knows no revision `{revision}` here; a shallow clone has to fetch it first")));
    }
    // Histories that have nothing in common (or no commit here yet) are compared as they are.
    let base = run(root, &["merge-base", &commit, "HEAD"])?;
    let base = String::from_utf8_lossy(&base.stdout).trim().to_owned();
    let base = if base.is_empty() { &commit } else { &base };
    let mut names = git(&[
        "diff",
        "--name-only",
        "--relative",
        "-z",
        "--no-ext-diff",
        "--no-textconv",
        "--no-renames",
        base,
        "--",
    ])?;
    names.extend(git(&["ls-files", "-z", "--others", "--exclude-standard"])?);
    let names = names.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    Ok(names.filter_map(|name| root.join(as_path(name)).canonicalize().ok()).collect())
}

/// Runs git so that nothing runs that the repository configures.
fn run(root: &Path, arguments: &[&str]) -> Result<Output, Failure> {
    let mut git = Command::new("git");
    git.arg("-C").arg(root).args(["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"]).args(arguments);
    git.output().map_err(|e| Failure(format!("cannot run git: {}", discover::reason(&e))))
}

#[cfg(unix)]
fn as_path(name: &[u8]) -> &Path {
    Path::new(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(name))
}

#[cfg(not(unix))]
fn as_path(name: &[u8]) -> PathBuf {
    PathBuf::from(String::from_utf8_lossy(name).into_owned())
}
