//! The form of a comment: `leaselint: allow(rule, rule) reason`.

use crate::source::scan::{self, Kind};
use crate::source::{Language, SourceFile, Span};
use std::ops::Range;

/// One comment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Allow {
    /// From `leaselint` to the end of the reason.
    pub span: Span,
    /// The rules named.
    pub rules: Vec<Named>,
    /// Why; empty if not said.
    pub reason: String,
    /// Nothing but the comment stands on its line.
    pub alone: bool,
}

/// A rule named in a comment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Named {
    pub name: String,
    pub span: Span,
}

const MARK: &str = "leaselint:";

/// All comments of a file that speak to this program.
pub(super) fn find(file: &SourceFile) -> Vec<Allow> {
    let text: &str = &file.text;
    if !text.contains(MARK) {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (kind, range) in scan::scan(file.language, text) {
        match kind {
            Kind::Comment => found.extend(one(file, range.clone(), range.start)),
            // SQL and Lua inside a Rust literal have comments of their own.
            Kind::Literal if file.language == Language::Rust => {
                for (at, _) in text[range.clone()].match_indices("--") {
                    let start = range.start + at;
                    let line_end = text[start..range.end].find('\n').map_or(range.end, |i| start + i);
                    found.extend(one(file, start..line_end, start));
                }
            }
            Kind::Literal => {}
        }
    }
    found
}

/// Reads one comment; `None` if it does not begin with the mark.
fn one(file: &SourceFile, range: Range<usize>, start: usize) -> Option<Allow> {
    let text: &str = &file.text;
    let body = &text[range.clone()];
    let inner = body.trim_start_matches(['/', '-', '#', ';', '*', '!', '[']).trim_start();
    let rest = inner.strip_prefix(MARK)?;
    let mark = range.start + (body.len() - inner.len());
    // The comment ends with its line, also in a block comment.
    let rest = rest.lines().next().unwrap_or("");
    let end = mark + MARK.len() + rest.len();
    let line = file.line_range(file.line(u32::try_from(start).unwrap_or(u32::MAX)));
    let alone = text[line.start..start].trim().is_empty();
    let span = |from: usize, to: usize| Span::new(file.id, from, to);
    let malformed = Allow { span: span(mark, end), rules: Vec::new(), reason: String::new(), alone };
    let Some(open) = rest.trim_start().strip_prefix("allow").map(str::trim_start).and_then(|r| r.strip_prefix('('))
    else {
        return Some(malformed);
    };
    let Some((list, reason)) = open.split_once(')') else { return Some(malformed) };
    let list_start = end - open.len();
    let mut rules = Vec::new();
    let mut at = list_start;
    for part in list.split(',') {
        let name = part.trim();
        if !name.is_empty() {
            let from = at + (part.len() - part.trim_start().len());
            rules.push(Named { name: name.to_owned(), span: span(from, from + name.len()) });
        }
        at += part.len() + 1;
    }
    let reason = reason.trim().trim_end_matches("*/").trim_end_matches("]]").trim();
    let reason = reason.trim_start_matches([':', '-', '\u{2013}', '\u{2014}']).trim().trim_end_matches('"').trim_end();
    Some(Allow { rules, reason: reason.to_owned(), ..malformed })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::FileId;

    fn all(language: Language, text: &str) -> Vec<(Vec<String>, String, bool)> {
        let file = SourceFile::new(FileId(0), "x", language, text);
        find(&file).into_iter().map(|a| (a.rules.into_iter().map(|r| r.name).collect(), a.reason, a.alone)).collect()
    }

    #[test]
    fn forms() {
        let both = vec!["a-b".to_owned(), "c".to_owned()];
        let one = vec!["a".to_owned()];
        let case = |language, text: &str, rules: &Vec<String>, reason: &str, alone: bool| {
            assert_eq!(all(language, text), [(rules.clone(), reason.to_owned(), alone)], "{text}");
        };
        case(Language::Rust, "  // leaselint: allow(a-b, c) why not\n", &both, "why not", true);
        case(Language::Rust, "x(); //leaselint:allow( a )  : b", &one, "b", false);
        case(Language::Rust, "/* leaselint: allow(a) b */", &one, "b", true);
        case(Language::Rust, "// leaselint: allow(a)", &one, "", true);
        case(Language::Rust, "// leaselint: allow a", &Vec::new(), "", true);
        case(Language::Rust, "q(\"\n-- leaselint: allow(a) b\nselect 1\")", &one, "b", true);
        case(Language::Sql, "select 1; -- leaselint: allow(a) b", &one, "b", false);
        case(Language::Lua, "-- leaselint: allow(a) b\n", &one, "b", true);
        case(Language::Config, "; leaselint: allow(a) b\n", &one, "b", true);
        assert_eq!(all(Language::Rust, "let s = \"// leaselint: allow(a) b\"; // see `leaselint: allow(a)`"), []);
    }
}
