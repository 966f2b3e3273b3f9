//! `poolers`: which poolers the configuration sets up, and which connection strings lead through them.

use super::args::Poolers;
use super::{CLEAN, Failure, print, settings};
use crate::discover::{self, Request};
use crate::frontend::pooler;
use crate::model::{Reach, Word};
use crate::source::{Language, SourceFile};

/// Prints what the configuration files say of poolers and connection strings.
///
/// # Errors
/// A path that is not there, or a leaselint.toml that cannot be read.
pub fn run(args: &Poolers) -> Result<u8, Failure> {
    let cwd = std::env::current_dir().map_err(|e| Failure(format!("the current directory cannot be read: {e}")))?;
    let mut request = Request { cwd, paths: args.paths.clone(), ..Request::default() };
    let settings = settings::load(&request, None)?;
    request.exclude.clone_from(&settings.config.exclude);
    // the code says nothing here: a word that none of it holds, and no package that could
    request.words = vec![Word { text: "\u{0}".to_owned(), reach: Reach::Everywhere }];
    let workspace = discover::discover(&request)?;
    let configs: Vec<&SourceFile> = workspace.sources.iter().filter(|file| file.language == Language::Config).collect();
    let mut facts = pooler::read(&configs);
    facts.declare(&settings.config.dsn.direct, &settings.config.dsn.pooled);
    print(&pooler::describe(&facts, &workspace.sources))?;
    Ok(CLEAN)
}
