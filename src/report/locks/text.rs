//! The inventory for people: a table, then each lock in full.

use super::{Report, effect, or, place, plain, what};
use crate::inventory::{Effect, Entry, Place};
use unicode_width::UnicodeWidthStr;

/// Columns of the names before the facts of a lock.
const NAME: usize = 12;

/// The text, laid out for `width` columns.
pub fn write(report: &Report<'_>, width: usize) -> String {
    let mut out = overview(report, width);
    for (entry, purpose) in report.locks() {
        out.push('\n');
        lock(&mut out, report, entry, purpose, width);
    }
    let lists = [
        ("markers: set if absent, given back on failing exits only", &report.inventory.markers),
        ("undecided: set if absent, and nothing says whether it is a lock", &report.inventory.undecided),
    ];
    for (title, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
        out.push_str(&format!("\n{title}\n"));
        for marker in list {
            let key = plain::one_line(&marker.key);
            let (at, function) = (report.at(marker.at.span), plain::one_line(&marker.at.function));
            out.push_str(&format!("  `{key}`  {at}  {function}  {}: {}\n", place(&marker.at), marker.why));
        }
    }
    out
}

/// One line a lock.
fn overview(report: &Report<'_>, width: usize) -> String {
    let head = ["key", "kind", "expiry", "taken at", "under it", "without it", "callers", "findings"];
    let mut rows: Vec<Vec<String>> = vec![head.map(str::to_owned).to_vec()];
    for (entry, _) in report.locks() {
        let first = entry.taken.first().map(|taken| report.at(taken.span)).unwrap_or_default();
        let more = entry.taken.len().saturating_sub(1);
        rows.push(vec![
            plain::one_line(&entry.key),
            what(entry),
            or(&entry.ttl, "-"),
            if more > 0 { format!("{first} +{more}") } else { first },
            entry.under.len().to_string(),
            entry.outside.len().to_string(),
            entry.callers.to_string(),
            entry.findings.len().to_string(),
        ]);
    }
    if rows.len() == 1 {
        return "no locks found\n".to_owned();
    }
    let mut widths: Vec<usize> =
        (0..head.len()).map(|i| rows.iter().map(|row| row[i].width()).max().unwrap_or(0)).collect();
    // What is too wide is taken from the widest columns.
    let room = width.saturating_sub(2 * (head.len() - 1)).max(60);
    while widths.iter().sum::<usize>() > room {
        let Some(widest) = widths.iter_mut().max().filter(|w| **w > 10) else { break };
        *widest -= 1;
    }
    let mut out = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| fit(cell, *width));
        out.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        out.push('\n');
    }
    out
}

/// The text cut or filled up to a width.
fn fit(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned() + &" ".repeat(width - text.width());
    }
    let mut out = String::new();
    for c in text.chars() {
        let more = unicode_width::UnicodeWidthChar::width(c).unwrap_or(0);
        if out.width() + more + 1 > width {
            break;
        }
        out.push(c);
    }
    out.push('…');
    let missing = width.saturating_sub(out.width());
    out + &" ".repeat(missing)
}

fn lock(out: &mut String, report: &Report<'_>, entry: &Entry, purpose: Option<&str>, width: usize) {
    let mut kind = what(entry);
    if !entry.topology.is_empty() {
        kind = format!("{kind}, {}", entry.topology.join(" or "));
    }
    out.push_str(&format!("`{}`: {kind} ({})\n", plain::one_line(&entry.key), entry.why));
    let mut fact = |name: &str, lines: Vec<String>| {
        for (i, line) in lines.iter().enumerate() {
            let lead = if i == 0 { format!("  {name:NAME$}") } else { " ".repeat(NAME + 2) };
            for (j, part) in plain::wrap(line, width.saturating_sub(NAME + 2).max(40)).into_iter().enumerate() {
                let lead = if j == 0 { lead.clone() } else { " ".repeat(NAME + 4) };
                out.push_str(&format!("{lead}{part}\n"));
            }
        }
    };
    let places = |list: &[Place], none: &str| match list {
        [] => vec![none.to_owned()],
        list => list
            .iter()
            .map(|p| format!("{} in {}: {}", report.at(p.span), plain::one_line(&p.function), place(p)))
            .collect(),
    };
    let effects = |list: &[Effect]| match list {
        [] => vec!["nothing that was seen".to_owned()],
        list => list
            .iter()
            .map(|e| format!("{} in {}: {}", report.at(e.span), plain::one_line(&e.function), effect(e)))
            .collect(),
    };
    fact("taken", places(&entry.taken, "-"));
    if !entry.ttl.is_empty() {
        fact("expiry", vec![or(&entry.ttl, "-")]);
        fact("owner", vec![or(&entry.token, "-")]);
        fact("renewed", places(&entry.renewals, "never"));
    }
    let mut released = places(&entry.releases, "by no command");
    if !entry.ends.is_empty() {
        released.push(format!("also by {}", plain::one_line(&entry.ends.join(", "))));
    }
    fact("released", released);
    fact("fence", places(&entry.fence, "none"));
    fact("held", vec![plain::one_line(&entry.hold.join("; "))]);
    fact("under it", effects(&entry.under));
    fact("without it", effects(&entry.outside));
    fact("callers", vec![entry.callers.to_string()]);
    fact("purpose", vec![purpose.map_or("not declared".to_owned(), |r| format!("efficiency: {}", plain::one_line(r)))]);
    let findings = entry.findings.iter().map(|(rule, span)| format!("{rule} at {}", report.at(*span)));
    let findings: Vec<String> = findings.collect();
    fact("findings", if findings.is_empty() { vec!["none".to_owned()] } else { findings });
}
