//! `ir`: how a file is understood.

use super::{CLEAN, Failure};
use std::path::Path;

/// Prints the IR of a file, or what is known of the locks at a line.
pub fn run(file: &Path, why: Option<&str>) -> Result<u8, Failure> {
    let _ = (file, why);
    let _ = CLEAN;
    Err(Failure("no front end can read this file".to_owned()))
}
