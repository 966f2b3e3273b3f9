//! Redis Lua scripts: text -> [`tree`]. What the commands in it mean is the business of the Redis protocol module.

mod depth;
mod lower;
mod read;
pub mod tree;

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};

pub use lower::{RUN, lower, registered};
use tree::Script;

/// Scripts above this size are not read; hand-written ones are some hundred bytes.
const MAX_BYTES: usize = 256 * 1024;

/// Parses a script. Scripts are looked at once for each caller, so the result of a text is kept.
///
/// # Errors
/// Says why the text could not be read, lowercase, no final stop.
pub fn parse(text: &str) -> Result<Arc<Script>, String> {
    type Cache = Mutex<HashMap<String, Result<Arc<Script>, String>>>;
    static CACHE: LazyLock<Cache> = LazyLock::new(Cache::default);
    let lookup = || CACHE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(known) = lookup().get(text) {
        return known.clone();
    }
    let result = read(text).map(Arc::new);
    lookup().insert(text.to_owned(), result.clone());
    result
}

fn read(text: &str) -> Result<Script, String> {
    if text.len() > MAX_BYTES {
        return Err(format!("the script is larger than {} KB", MAX_BYTES / 1024));
    }
    depth::check(text)?;
    let ast = full_moon::parse(text).map_err(|errors| match errors.first() {
        Some(error) => {
            let (start, _) = error.range();
            format!("line {}: {}", start.line(), error.error_message())
        }
        None => "the script does not parse".to_owned(),
    })?;
    Ok(Script { body: read::block(ast.nodes()) })
}
