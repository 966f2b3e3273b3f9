//! What identifies a finding from run to run, when lines have moved.

use super::Entry;
use crate::source::{Sources, Span};

/// The line of a span, as [`normal`] has it.
pub fn snippet(sources: &Sources, span: Span) -> String {
    let file = sources.get(span.file);
    let line = file.line_range(file.line(span.start));
    normal(file.text.get(line).unwrap_or(""))
}

/// A line with every run of blanks as one, cut after 200 characters.
pub fn normal(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(200).collect()
}

/// Our own key: 16 hexadecimal digits over rule, path, snippet and ordinal.
pub fn own(sources: &Sources, entry: &Entry<'_>) -> String {
    let path = &sources.get(entry.finding.span.file).path;
    let parts = [entry.finding.rule, path, &entry.snippet, &entry.ordinal.to_string()];
    // FNV-1a, with a separator that no part can hold.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in parts.iter().flat_map(|part| part.bytes().chain([0])) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    format!("{hash:016x}")
}

/// GitHub's `primaryLocationLineHash` for each line of a text: hash, `:`, count of that hash so far.
///
/// Rolling hash, base 37, over a window of 100 UTF-16 units that starts at the line's first unit; blanks and tabs do not count,
/// CRLF and CR are LF; the end of the file counts as one unit 0xFFFF, then zeros (github/codeql-action, fingerprints).
pub fn line_hashes(text: &str) -> Vec<String> {
    const WINDOW: usize = 100;
    const BASE: u64 = 37;
    let mut units: Vec<u16> = Vec::with_capacity(text.len() + WINDOW + 1);
    // First kept unit of each line; of an empty line that is its terminator.
    let mut starts = vec![0];
    let mut after_cr = false;
    for unit in text.encode_utf16() {
        let second_half = std::mem::take(&mut after_cr) && unit == 0x0a;
        match unit {
            0x20 | 0x09 => {}
            _ if second_half => {}
            0x0a | 0x0d => {
                after_cr = unit == 0x0d;
                units.push(0x0a);
                starts.push(units.len());
            }
            unit => units.push(unit),
        }
    }
    let end = units.len();
    units.push(0xffff);
    units.resize(end + 1 + WINDOW, 0);
    let mut seen = std::collections::HashMap::new();
    starts
        .into_iter()
        .map(|start| {
            let window = &units[start..start + WINDOW.min(units.len() - start)];
            let hash = window.iter().fold(0u64, |hash, unit| hash.wrapping_mul(BASE).wrapping_add(u64::from(*unit)));
            let count = seen.entry(hash).or_insert(0u32);
            *count += 1;
            format!("{hash:x}:{count}")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_as_code_scanning_does() {
        assert_eq!(line_hashes("")[0], "c129715d7a2bc9a3:1");
        for end in ["\n", "\r", "\r\n"] {
            let text = " hello; \t\nworld!!!\n\n\n  \t\tGreetings\n End\n".replace('\n', end);
            let hashes = line_hashes(&text);
            assert_eq!(
                [&hashes[0], &hashes[1], &hashes[5]],
                ["e9496ae3ebfced30:1", "fb7c023a8b9ccb3f:1", "c8e28b0b4002a3a0:1"]
            );
        }
        let hashes = line_hashes(&"Lorem ipsum dolor sit amet.\n".repeat(10));
        assert_eq!(
            [&hashes[0], &hashes[5], &hashes[6]],
            ["a7f2ff13bc495cf2:1", "a7f2ff13bc495cf2:6", "a7f2ff1481e87703:1"]
        );
        let hashes = line_hashes("let k = \"lock:é🔒\";\nc.set_nx(k, \"1\");\n");
        assert_eq!(hashes[..2], ["16f4033731a83f64:1", "53f21db8520e848b:1"]);
    }
}
