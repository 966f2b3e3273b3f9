//! Reporting only on some files: `--files-from`, `--since`.

use super::Failure;
use super::args::Check;
use crate::discover;
use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

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

/// Files that differ from a revision, and files that git does not know yet.
fn changed(revision: &str, root: &Path) -> Result<BTreeSet<PathBuf>, Failure> {
    if revision.starts_with('-') {
        return Err(Failure(format!("`{revision}` is no git revision")));
    }
    // Nothing that the repository configures may run.
    let git = |arguments: &[&str]| -> Result<Vec<u8>, Failure> {
        let output = Command::new("git")
            .arg("-C")
            .arg(root)
            .args(["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"])
            .args(arguments)
            .output()
            .map_err(|e| Failure(format!("cannot run git: {}", discover::reason(&e))))?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        let why = String::from_utf8_lossy(&output.stderr);
        let why = why.lines().next().unwrap_or("it failed").trim_start_matches("fatal: ").to_owned();
        Err(Failure(format!("git cannot tell what changed since `{revision}`: {why}")))
    };
    git(&["rev-parse", "--git-dir"])?;
    let mut names =
        git(&["diff", "--name-only", "-z", "--no-ext-diff", "--no-textconv", "--no-renames", revision, "--"])?;
    names.extend(git(&["ls-files", "-z", "--others", "--exclude-standard"])?);
    let names = names.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    Ok(names.filter_map(|name| root.join(as_path(name)).canonicalize().ok()).collect())
}

#[cfg(unix)]
fn as_path(name: &[u8]) -> &Path {
    Path::new(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(name))
}

#[cfg(not(unix))]
fn as_path(name: &[u8]) -> PathBuf {
    PathBuf::from(String::from_utf8_lossy(name).into_owned())
}
