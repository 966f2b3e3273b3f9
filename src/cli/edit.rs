//! Changing files: `--fix`, `--diff`, `--add-allow`.

use super::{Failure, print};
use crate::finding::{Edit, Finding};
use crate::fix::{self, Change};
use crate::report::plain;
use crate::source::Sources;
use crate::suppress;
use std::io::Write;

/// Applies the findings' repairs, or prints them as a diff. Returns for each finding whether it was repaired.
pub fn fix(sources: &Sources, findings: &[&Finding], diff: bool) -> Result<Vec<bool>, Failure> {
    let groups: Vec<(usize, &[Edit])> = findings
        .iter()
        .enumerate()
        .filter_map(|(i, finding)| Some((i, finding.fix.as_ref()?.edits.as_slice())))
        .collect();
    let edits: Vec<&[Edit]> = groups.iter().map(|(_, edits)| *edits).collect();
    let (changes, done) = fix::merge(sources, &edits);
    let written = carry_out(sources, &changes, diff)?;
    let mut repaired = vec![false; findings.len()];
    for ((i, edits), done) in groups.iter().zip(&done) {
        let all = edits.iter().all(|edit| written.contains(&edit.span.file));
        repaired[*i] = *done && all && !diff;
    }
    if !diff {
        let count = repaired.iter().filter(|r| **r).count();
        let left = done.len() - count;
        let more = if left > 0 { format!(", {left} left: run again") } else { String::new() };
        let _ = writeln!(std::io::stderr(), "{count} repaired{more}");
    }
    Ok(repaired)
}

/// Writes a comment at each finding, or prints that as a diff.
pub fn add_allow(sources: &Sources, findings: &[&Finding], reason: &str, diff: bool) -> Result<(), Failure> {
    if reason.trim().is_empty() {
        return Err(Failure("--add-allow needs a reason".to_owned()));
    }
    let (edits, left) = suppress::insertions(sources, findings, reason);
    let groups: Vec<&[Edit]> = edits.iter().map(std::slice::from_ref).collect();
    let (changes, _) = fix::merge(sources, &groups);
    carry_out(sources, &changes, diff)?;
    for finding in left {
        let place = plain::one_line(&sources.place(finding.span));
        let _ = writeln!(std::io::stderr(), "no comment fits at {place}: it would become part of a literal");
    }
    Ok(())
}

/// Writes changes or prints them; returns the files that were written.
fn carry_out(sources: &Sources, changes: &[Change], diff: bool) -> Result<Vec<crate::source::FileId>, Failure> {
    if diff {
        let text: String = changes.iter().map(|change| fix::diff(sources, change)).collect();
        print(&text)?;
        return Ok(Vec::new());
    }
    let mut written = Vec::new();
    for change in changes {
        let path = plain::one_line(&sources.get(change.file).path);
        match fix::write(sources, change) {
            Ok(()) => written.push(change.file),
            Err(why) => {
                let _ = writeln!(std::io::stderr(), "`{path}` is left as it was: {why}");
            }
        }
    }
    Ok(written)
}
