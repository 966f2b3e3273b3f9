//! Reading one file: limits, encodings, lock words.

use crate::frontend::pooler;
use crate::model::{Reach, Word};
use crate::source::{Language, Problem, ProblemKind};
use aho_corasick::{AhoCorasick, AhoCorasickBuilder};
use std::io::Read;
use std::path::Path;

/// Rust files above this are not read: nobody writes them by hand, and a parse would need gigabytes.
const MAX_RUST: u64 = 8 << 20;
/// Other files above this are not read: dumps, not schemas.
const MAX_OTHER: u64 = 100 << 20;

/// Finds lock words, in any case.
pub(super) struct Searcher {
    /// `None`: every file matches.
    automaton: Option<AhoCorasick>,
    reaches: Vec<Reach>,
}

impl Searcher {
    /// A searcher for the given words; without words every file matches.
    pub(super) fn new<'w>(words: impl Iterator<Item = &'w Word>) -> Searcher {
        let (texts, reaches): (Vec<&str>, Vec<Reach>) = words.map(|word| (word.text.as_str(), word.reach)).unzip();
        let automaton = AhoCorasickBuilder::new().ascii_case_insensitive(true).build(&texts).ok();
        Searcher { automaton: automaton.filter(|_| !texts.is_empty()), reaches }
    }

    /// The furthest reach of the words that the bytes hold.
    pub(super) fn reach(&self, bytes: &[u8]) -> Option<Reach> {
        let Some(automaton) = &self.automaton else { return Some(Reach::Everywhere) };
        // Most files have no word at all, and that is known sooner than where the words of the others stand.
        if !automaton.is_match(bytes) {
            return None;
        }
        let mut best = None;
        for hit in automaton.find_overlapping_iter(bytes) {
            let reach = Some(self.reaches[hit.pattern().as_usize()]);
            if reach > best && begins(bytes, hit.start()) {
                best = reach;
                if best == Some(Reach::Everywhere) {
                    break;
                }
            }
        }
        best
    }
}

/// Whether a word can begin here: `lease` is in `job_lease` and `JobLease`, not in `release` or `Please`.
fn begins(bytes: &[u8], at: usize) -> bool {
    let (Some(before), Some(first)) = (at.checked_sub(1).and_then(|i| bytes.get(i)), bytes.get(at)) else {
        return true;
    };
    let hump = before.is_ascii_lowercase() && first.is_ascii_uppercase();
    hump || !(before.is_ascii_alphabetic() && first.is_ascii_alphabetic())
}

/// Whether a file with the name of a configuration speaks of a pooler or of connection strings. What such files look like only their
/// reader knows.
pub(super) fn is_config(path: &str, bytes: &[u8]) -> bool {
    pooler::is_candidate(path, &String::from_utf8_lossy(bytes))
}

/// Whether a file of this name may be a deployment or pooler configuration.
pub(super) fn is_config_name(path: &Path) -> bool {
    let own = [crate::config::FILE, crate::baseline::FILE, "Cargo.toml"];
    !path.file_name().is_some_and(|name| own.iter().any(|n| name == *n))
        && pooler::is_candidate_name(&path.to_string_lossy().replace('\\', "/"))
}

/// Reads a file into `buffer`.
///
/// # Errors
/// Why it was not read, for a [`Problem`].
pub(super) fn bytes(path: &Path, language: Language, buffer: &mut Vec<u8>) -> Result<(), String> {
    buffer.clear();
    let mut file = std::fs::File::open(path).map_err(|e| super::root::reason(&e))?;
    let limit = if language == Language::Rust { MAX_RUST } else { MAX_OTHER };
    let size = file.metadata().map_err(|e| super::root::reason(&e))?.len();
    if size > limit {
        return Err(format!("{} MB, the limit is {} MB", size >> 20, limit >> 20));
    }
    // The limit holds too for files whose size the system does not know, or that grow while they are read.
    let read = file.by_ref().take(limit + 1).read_to_end(buffer).map_err(|e| super::root::reason(&e))?;
    if read as u64 > limit {
        return Err(format!("larger than {} MB", limit >> 20));
    }
    Ok(())
}

/// Turns the bytes of a candidate into text. UTF-16 with a byte-order mark is decoded, other invalid UTF-8 is replaced.
///
/// # Errors
/// Why it is no text, as a [`Problem`]; a mere notice comes with the text.
pub(super) fn text(path: &str, bytes: &[u8]) -> Result<(String, Option<Problem>), Problem> {
    let problem =
        |kind, message: &str| Problem { path: path.to_owned(), span: None, kind, message: message.to_owned() };
    let utf16 = match bytes {
        [0xff, 0xfe, rest @ ..] => Some(units(rest, u16::from_le_bytes)),
        [0xfe, 0xff, rest @ ..] => Some(units(rest, u16::from_be_bytes)),
        _ => None,
    };
    if let Some(units) = utf16 {
        let notice = problem(ProblemKind::Notice, "UTF-16 text: columns count from the decoded text");
        return Ok((String::from_utf16_lossy(&units), Some(notice)));
    }
    if bytes.iter().take(8192).any(|b| *b == 0) {
        return Err(problem(ProblemKind::FileUnread, "not read: binary data"));
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok((text.to_owned(), None)),
        Err(error) => {
            let message = format!("invalid UTF-8 from byte {} on was replaced", error.valid_up_to());
            Ok((String::from_utf8_lossy(bytes).into_owned(), Some(problem(ProblemKind::Notice, &message))))
        }
    }
}

fn units(bytes: &[u8], decode: fn([u8; 2]) -> u16) -> Vec<u16> {
    bytes.as_chunks::<2>().0.iter().map(|pair| decode(*pair)).collect()
}

/// Whether the head of the text says that a tool wrote it.
pub(super) fn is_generated(bytes: &[u8]) -> bool {
    let head = &bytes[..bytes.len().min(512)];
    ["@generated", "automatically generated by", "Code generated by"]
        .iter()
        .any(|mark| head.windows(mark.len()).any(|w| w == mark.as_bytes()))
}
