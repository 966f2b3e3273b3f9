//! Discovery: which files a run reads, and where each stands in its package.
//!
//! One parallel walk lists the files, the manifests say which packages reach a modelled client, one multi-pattern pass
//! selects the files with lock words. Only their texts are kept; [`Workspace::more`] loads what an analysis asks for later.

mod module;
mod package;
mod reach;
mod read;
mod root;
mod select;
mod walk;
mod workspace;

pub use package::{Dependency, Package};
pub(crate) use root::reason;
pub use workspace::{Names, Workspace};

use crate::model::{Models, Protocol, Word};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// What to read.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The current directory; relative paths start here.
    pub cwd: PathBuf,
    /// Files and directories; empty means the current directory.
    pub paths: Vec<PathBuf>,
    /// Globs, as in `.gitignore` and relative to the root, of what to leave out.
    pub exclude: Vec<String>,
    /// Names of the packages to read; empty means all.
    pub packages: Vec<String>,
    /// Also read what only tests, benches and examples reach.
    pub include_tests: bool,
    /// Take published crates that lie beside one another (a registry's folder) for systems of their own:
    /// [`Workspace::parts`].
    pub apart: bool,
    /// Words of which a file must hold one to be worth parsing, in lower case; none: every file is.
    pub words: Vec<Word>,
    /// Packages whose users can hold locks; in packages that do not reach one of them only words count that mean a lock
    /// whatever crate stands between.
    pub clients: BTreeSet<String>,
    /// A text given on standard input: the path it is known by, and its bytes. Then nothing else is read.
    pub stdin: Option<(String, Vec<u8>)>,
}

impl Request {
    /// Takes words and clients from the models.
    pub fn use_models(&mut self, models: &Models) {
        self.words = crate::model::words_of(models);
        // Every package sleeps and sends: only crates that reach a store make a package interesting.
        let stores = |file: &&crate::model::File| {
            let store = matches!(file.head.protocol, Protocol::Redis | Protocol::Sql | Protocol::Lock);
            store || file.head.backend.is_some()
        };
        let names = models.files.iter().filter(stores).flat_map(|file| {
            let roots = file.head.names.0.iter().filter_map(|name| name.split("::").next());
            std::iter::once(file.head.krate.as_str()).chain(roots)
        });
        self.clients = names.flat_map(|name| [name.to_owned(), name.replace('_', "-")]).collect();
    }
}

/// Why nothing could be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// A path that was asked for is not there or cannot be opened: path, reason.
    Path(String, String),
    /// An `exclude` glob is malformed: glob, reason.
    Glob(String, String),
    /// No package has this name; the names there are.
    Package(String, Vec<String>),
    /// Nothing to check was found under these paths.
    Nothing(Vec<String>),
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::Path(path, why) => write!(f, "cannot read `{path}`: {why}"),
            Error::Glob(glob, why) => write!(f, "malformed glob `{glob}`: {why}"),
            Error::Package(name, known) => {
                write!(f, "no package `{name}`")?;
                match crate::suggest::nearest(name, known.iter().map(String::as_str)) {
                    Some(near) => write!(f, ", did you mean `{near}`?"),
                    None => Ok(()),
                }
            }
            Error::Nothing(paths) => {
                write!(f, "nothing to read: no Rust, SQL, Lua or pooler configuration file under {}", paths.join(", "))
            }
        }
    }
}

impl std::error::Error for Error {}

/// The root that report paths are relative to, and the deepest directory that holds everything asked for.
///
/// # Errors
/// A path that is not there.
pub fn places(request: &Request) -> Result<(PathBuf, PathBuf), Error> {
    let roots = root::resolve(request)?;
    let base = root::common(&roots.starts);
    Ok((roots.root, base))
}

/// Finds and reads what `request` asks for.
///
/// # Errors
/// Only when nothing could be read as asked. A single file that cannot be read is a [`crate::source::Problem`] instead.
pub fn discover(request: &Request) -> Result<Workspace, Error> {
    if let Some((path, bytes)) = &request.stdin {
        return Ok(Workspace::single(path, bytes));
    }
    let roots = root::resolve(request)?;
    let listing = walk::list(&roots, &request.exclude)?;
    let packages = package::load(&listing, &roots.root, &request.clients);
    select::select(roots, listing, packages, request)
}
