//! Repairs: which findings get one ([`offer`]), and applying edits: `--fix`, `--diff`, `--add-allow`.
//!
//! A repair is offered only where the whole edit is certain: it compiles as the code around it does, means the same but for
//! the defect, is formatted, and leaves no finding of its rule. No repair changes a lock's key: old and new processes would
//! hold "the same" lock together. Everything else stays text in a finding's help.

mod advisory;
mod expire;
mod offer;
mod reply;
mod tree;

pub use offer::offer;

use crate::finding::Edit;
use crate::source::{FileId, SourceFile, Sources};
use std::collections::BTreeMap;

/// The new text of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The file.
    pub file: FileId,
    /// Its text with the edits.
    pub text: String,
    /// The edits, in text order, none overlapping another.
    edits: Vec<Edit>,
}

/// Merges groups of edits into changes. Each group goes in whole or not at all: one that overlaps an earlier group is left
/// out. Returns the changes in path order and for each group whether it is in.
pub fn merge(sources: &Sources, groups: &[&[Edit]]) -> (Vec<Change>, Vec<bool>) {
    let mut taken: BTreeMap<FileId, Vec<Edit>> = BTreeMap::new();
    let mut done = Vec::new();
    for group in groups {
        let valid = |edit: &Edit| {
            let text = &sources.get(edit.span.file).text;
            text.get(edit.span.start as usize..edit.span.end as usize).is_some()
        };
        let overlaps = |edit: &Edit| {
            let others = taken.get(&edit.span.file).into_iter().flatten();
            // Insertions at one point would come in an order that nobody chose.
            others.into_iter().any(|o| {
                (edit.span.start < o.span.end && o.span.start < edit.span.end) || edit.span.start == o.span.start
            })
        };
        let fits = group.iter().all(|edit| valid(edit) && !overlaps(edit));
        if fits {
            for edit in *group {
                taken.entry(edit.span.file).or_default().push(edit.clone());
            }
        }
        done.push(fits);
    }
    let mut changes: Vec<Change> = taken
        .into_iter()
        .map(|(file, mut edits)| {
            edits.sort_by_key(|e| (e.span.start, e.span.end));
            Change { file, text: apply(sources.get(file), &edits), edits }
        })
        .collect();
    changes.sort_by(|a, b| sources.get(a.file).path.cmp(&sources.get(b.file).path));
    (changes, done)
}

fn apply(file: &SourceFile, edits: &[Edit]) -> String {
    let mut out = String::with_capacity(file.text.len());
    let mut at = 0;
    for edit in edits {
        out.push_str(&file.text[at..edit.span.start as usize]);
        out.push_str(&edit.text);
        at = edit.span.end as usize;
    }
    out.push_str(&file.text[at..]);
    out
}

/// Writes a change to disk.
///
/// # Errors
/// Why it was not written; a file that is no longer what was read is left alone.
pub fn write(sources: &Sources, change: &Change) -> Result<(), String> {
    let file = sources.get(change.file);
    let path = file.disk.as_deref().ok_or("it was not read from a file")?;
    let now = std::fs::read(path).map_err(|e| e.to_string())?;
    if now != file.text.as_bytes() {
        return Err("it has changed, or is not UTF-8".to_owned());
    }
    std::fs::write(path, &change.text).map_err(|e| e.to_string())
}

/// Lines of context in a diff.
const CONTEXT: usize = 3;

/// A change as unified diff.
pub fn diff(sources: &Sources, change: &Change) -> String {
    let file = sources.get(change.file);
    let lines: Vec<&str> = file.text.split_inclusive('\n').collect();
    // Changed line ranges (0-based, end exclusive) with the edits in them.
    let mut blocks: Vec<(usize, usize, Vec<&Edit>)> = Vec::new();
    for edit in &change.edits {
        let first = file.line(edit.span.start) - 1;
        let last = file.line(edit.span.end.max(edit.span.start)) - 1;
        match blocks.last_mut() {
            Some((_, end, edits)) if first < *end => {
                *end = (*end).max(last + 1);
                edits.push(edit);
            }
            _ => blocks.push((first, last + 1, vec![edit])),
        }
    }
    let path = &file.path;
    let mut out = format!("--- a/{path}\n+++ b/{path}\n");
    let mut shift = 0isize;
    let mut rest = blocks.as_slice();
    while let Some(first) = rest.first() {
        // Blocks whose contexts touch make one hunk.
        let count = 1 + rest.windows(2).take_while(|pair| pair[1].0 <= pair[0].1 + 2 * CONTEXT).count();
        let (hunk, after) = rest.split_at(count);
        rest = after;
        let start = first.0.saturating_sub(CONTEXT);
        let end = (hunk[hunk.len() - 1].1 + CONTEXT).min(lines.len());
        let mut body = String::new();
        let (mut old, mut new) = (0, 0);
        let mut at = start;
        let keep = |body: &mut String, range: std::ops::Range<usize>| {
            let range = range.start.min(lines.len())..range.end.min(lines.len());
            for line in &lines[range.clone()] {
                push(body, ' ', line);
            }
            range.len()
        };
        for (from, to, edits) in hunk {
            let kept = keep(&mut body, at..*from);
            let old_text = lines[(*from).min(lines.len())..(*to).min(lines.len())].concat();
            let base: usize = lines[..(*from).min(lines.len())].iter().map(|l| l.len()).sum();
            let mut new_text = String::new();
            let mut position = 0;
            for edit in edits {
                new_text.push_str(&old_text[position..edit.span.start as usize - base]);
                new_text.push_str(&edit.text);
                position = edit.span.end as usize - base;
            }
            new_text.push_str(&old_text[position..]);
            let (before, mut after): (Vec<&str>, Vec<&str>) =
                (old_text.split_inclusive('\n').collect(), new_text.split_inclusive('\n').collect());
            // An inserted line leaves the line it stands before as it was.
            let common = before.iter().rev().zip(after.iter().rev()).take_while(|(a, b)| a == b).count();
            let tail = after.split_off(after.len() - common);
            for line in &before[..before.len() - common] {
                push(&mut body, '-', line);
            }
            for line in &after {
                push(&mut body, '+', line);
            }
            for line in &tail {
                push(&mut body, ' ', line);
            }
            old += kept + before.len();
            new += kept + after.len() + tail.len();
            at = *to;
        }
        let kept = keep(&mut body, at..end);
        old += kept;
        new += kept;
        let new_start = (start as isize + 1 + shift).max(0);
        out.push_str(&format!("@@ -{},{old} +{new_start},{new} @@\n{body}", start + 1));
        shift += new as isize - old as isize;
    }
    out
}

fn push(out: &mut String, sign: char, line: &str) {
    out.push(sign);
    out.push_str(line);
    if !line.ends_with('\n') {
        out.push_str("\n\\ No newline at end of file\n");
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::source::{Language, Span};

    fn edit(file: FileId, from: usize, to: usize, text: &str) -> Edit {
        Edit { span: Span::new(file, from, to), text: text.to_owned() }
    }

    #[test]
    fn groups_go_in_whole_or_not_at_all() {
        let mut sources = Sources::default();
        let id = sources.add("a.rs", Language::Rust, "one two three");
        let (first, second) =
            ([edit(id, 0, 3, "1"), edit(id, 8, 13, "3")], [edit(id, 4, 7, "2"), edit(id, 9, 10, "x")]);
        let (changes, done) = merge(&sources, &[&first, &second]);
        assert_eq!((changes[0].text.as_str(), done), ("1 two 3", vec![true, false]));
        assert_eq!(merge(&sources, &[&[edit(id, 0, 99, "")]]).1, [false]);
    }

    #[test]
    fn patch_takes_the_diff() {
        let text: String = (1..=30).map(|n| format!("line {n}\n")).collect::<String>() + "end";
        let mut sources = Sources::default();
        let id = sources.add("a.rs", Language::Rust, text.as_str());
        let at = |what: &str| text.find(what).unwrap();
        let edits = [
            edit(id, 0, 0, "new\n"),
            edit(id, at("line 12\n"), at("line 13"), ""),
            edit(id, at("line 14"), at("line 14") + 4, "Line"),
            edit(id, at("end"), at("end") + 3, "END"),
        ];
        let (changes, _) = merge(&sources, &[&edits]);
        insta::assert_snapshot!(diff(&sources, &changes[0]));
    }
}
