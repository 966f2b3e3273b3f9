//! The inventory as one Markdown table.

use super::{Report, counts, effect, or, place, plain, what};
use crate::inventory::{Effect, Marker, Place};

/// Entries of one cell; more are counted.
const MAX_LINES: usize = 8;

/// The table, and the lists of what is no lock.
pub fn table(report: &Report<'_>) -> String {
    let head = [
        "key",
        "kind",
        "topology",
        "taken",
        "expiry",
        "owner",
        "renewed",
        "released",
        "fence",
        "held",
        "under it",
        "without it",
        "callers",
        "purpose",
        "findings",
    ];
    let mut out = format!("{}\n", counts(report.inventory));
    if !report.inventory.locks.is_empty() {
        out.push_str(&format!("\n| {} |\n|{}\n", head.join(" | "), "---|".repeat(head.len())));
    }
    for (entry, purpose) in report.locks() {
        let mut released = places(report, &entry.releases, "by no command");
        released.extend(entry.ends.iter().map(|end| format!("also by {}", text(end))));
        let findings: Vec<String> =
            entry.findings.iter().map(|(rule, span)| format!("{rule} {}", text(&report.at(*span)))).collect();
        let cells = [
            code(&entry.key),
            what(entry),
            entry.topology.join(", "),
            lines(places(report, &entry.taken, "")),
            text(&or(&entry.ttl, "")),
            text(&or(&entry.token, "")),
            lines(places(report, &entry.renewals, if entry.ttl.is_empty() { "" } else { "never" })),
            lines(released),
            lines(places(report, &entry.fence, "none")),
            lines(entry.hold.iter().map(|hold| text(hold)).collect()),
            lines(effects(report, &entry.under)),
            lines(effects(report, &entry.outside)),
            entry.callers.to_string(),
            purpose.map_or("not declared".to_owned(), |reason| format!("efficiency: {}", text(reason))),
            lines(findings),
        ];
        out.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    markers(&mut out, report, "Markers: set if absent, given back on failing exits only", &report.inventory.markers);
    markers(&mut out, report, "Undecided: nothing says whether these are locks", &report.inventory.undecided);
    out
}

fn markers(out: &mut String, report: &Report<'_>, title: &str, list: &[Marker]) {
    if list.is_empty() {
        return;
    }
    out.push_str(&format!("\n{title}:\n\n| key | at | command | why |\n|---|---|---|---|\n"));
    for marker in list {
        let at = format!("{} in {}", text(&report.at(marker.at.span)), text(&marker.at.function));
        out.push_str(&format!("| {} | {at} | {} | {} |\n", code(&marker.key), text(&place(&marker.at)), marker.why));
    }
}

fn places(report: &Report<'_>, list: &[Place], none: &str) -> Vec<String> {
    if list.is_empty() {
        return vec![none.to_owned()];
    }
    let line = |p: &Place| format!("{} {}: {}", text(&report.at(p.span)), text(&p.function), text(&place(p)));
    list.iter().map(line).collect()
}

fn effects(report: &Report<'_>, list: &[Effect]) -> Vec<String> {
    list.iter().map(|e| format!("{} {}: {}", text(&report.at(e.span)), text(&e.function), text(&effect(e)))).collect()
}

fn lines(mut list: Vec<String>) -> String {
    let more = list.len().saturating_sub(MAX_LINES);
    list.truncate(MAX_LINES);
    if more > 0 {
        list.push(format!("and {more} more"));
    }
    list.join("<br>")
}

/// Text that Markdown leaves alone.
fn text(text: &str) -> String {
    let mut out = String::new();
    for c in plain::one_line(text).chars() {
        if matches!(c, '|' | '\\' | '*' | '_' | '[' | ']' | '#' | '~') {
            out.push('\\');
        }
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            c => out.push(c),
        }
    }
    out
}

/// Code in a table cell.
fn code(text: &str) -> String {
    format!("`{}`", plain::one_line(text).replace('`', "'").replace('|', "\\|"))
}
