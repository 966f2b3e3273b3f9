//! The root that report paths are relative to, and the paths a run starts from.

use super::{Error, Request};
use std::path::{Path, PathBuf};

/// Where a run starts.
#[derive(Clone, Debug)]
pub(super) struct Roots {
    /// Git root of what is read, else the current directory if it holds all of it, else its deepest common directory.
    pub root: PathBuf,
    /// What to read, resolved, without repetitions.
    pub starts: Vec<PathBuf>,
    /// The paths as the user wrote them.
    pub written: Vec<String>,
}

/// Resolves the paths of a request. Symbolic links on the command line are followed: reports name the real file, since
/// code scanning shows no alert on a link.
pub(super) fn resolve(request: &Request) -> Result<Roots, Error> {
    let wanted = if request.paths.is_empty() { vec![PathBuf::from(".")] } else { request.paths.clone() };
    let mut starts = Vec::new();
    let mut written = Vec::new();
    for path in wanted {
        let shown = path.display().to_string();
        let full = request.cwd.join(&path).canonicalize().map_err(|e| Error::Path(shown.clone(), reason(&e)))?;
        written.push(format!("`{shown}`"));
        starts.push(full);
    }
    starts.sort();
    starts.dedup();
    // A path below another one is read with it.
    let all = starts.clone();
    starts.retain(|p| !all.iter().any(|other| other != p && p.starts_with(other)));
    let base = common(&starts);
    let cwd = request.cwd.canonicalize().unwrap_or_else(|_| request.cwd.clone());
    let root = base.ancestors().find(|dir| dir.join(".git").exists()).map(Path::to_path_buf);
    let root = root.unwrap_or_else(|| if base.starts_with(&cwd) { cwd } else { base });
    Ok(Roots { root, starts, written })
}

/// Deepest directory that holds all paths.
pub(super) fn common(paths: &[PathBuf]) -> PathBuf {
    let dir = |p: &Path| if p.is_dir() { p.to_path_buf() } else { p.parent().unwrap_or(p).to_path_buf() };
    let mut paths = paths.iter().map(|p| dir(p));
    let mut base = paths.next().unwrap_or_default();
    for path in paths {
        while !path.starts_with(&base) && base.pop() {}
    }
    base
}

/// The reason of an I/O error without the operating system's number.
pub(crate) fn reason(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "no such file or directory".to_owned(),
        std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        kind => kind.to_string(),
    }
}

/// Path for reports: relative to `root`, `/` separators, invalid UTF-8 replaced.
pub(super) fn report_path(root: &Path, path: &Path) -> String {
    let relative = path.strip_prefix(root).unwrap_or(path);
    let parts: Vec<_> = relative.components().map(|c| c.as_os_str().to_string_lossy().into_owned()).collect();
    if path.starts_with(root) { parts.join("/") } else { path.to_string_lossy().replace('\\', "/") }
}
