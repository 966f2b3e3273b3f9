//! Which lines belong together: those of one statement, as far as its head goes.

use crate::source::scan::{self, Kind};
use crate::source::{Language, SourceFile};
use std::ops::Range;

/// The statements of a file by their lines. Told from brackets and line ends alone, so that it works on files that do not
/// parse; a block is not part of the statement whose head opens it.
#[derive(Debug)]
pub(super) struct Statements {
    /// For each line (0-based) the first line of its statement.
    first: Vec<usize>,
}

impl Statements {
    pub fn new(file: &SourceFile) -> Statements {
        let text: &str = &file.text;
        let parts = scan::scan(file.language, text);
        let count = file.line_count();
        let mut first: Vec<usize> = (0..count).collect();
        // Brackets that are open; a brace starts statements of its own.
        let mut open: Vec<u8> = Vec::new();
        let mut parts = parts.iter().peekable();
        // Code of the last line that had any.
        let mut last: Option<(usize, String)> = None;
        let mut at = 0;
        for line in 0..count {
            let range = file.line_range(line + 1);
            let within = at > range.start;
            let inside = within || open.last().is_some_and(|bracket| *bracket != b'{');
            let code = code(text, &range, &mut at, &mut parts, &mut open);
            let shown = code.trim();
            if shown.is_empty() && !inside {
                continue;
            }
            if let Some((before, end)) = &last
                && (inside || continues(file.language, end, shown))
            {
                // Comments in between belong to it too.
                let start = first[*before];
                first[before + 1..=line].fill(start);
            }
            if !shown.is_empty() || inside {
                last = Some((line, shown.to_owned()));
            }
        }
        Statements { first }
    }

    /// The lines (1-based, last included) of the statement that a line belongs to.
    pub fn lines(&self, line: usize) -> Range<usize> {
        let Some(start) = line.checked_sub(1).and_then(|i| self.first.get(i)) else { return line..line + 1 };
        let end = self.first[line..].iter().position(|first| first != start).map_or(self.first.len(), |n| line + n);
        start + 1..end + 1
    }
}

/// Whether a line goes on with the statement that the last code line ended in. rustfmt breaks chains before a dot, operators
/// before the operator, assignments after it.
fn continues(language: Language, last: &str, line: &str) -> bool {
    match language {
        Language::Rust => {
            let operator = ["&&", "||"].iter().any(|operator| line.starts_with(operator));
            line.starts_with(['.', '?']) || operator || (last.ends_with('=') && !last.ends_with("=="))
        }
        Language::Sql => !last.is_empty() && !last.ends_with([';', '$']),
        Language::Lua | Language::Config => false,
    }
}

/// The code of a line with literals as `""` and comments left out. `at` is how far the text is read: a literal or comment can
/// reach into later lines.
fn code<'p>(
    text: &str,
    line: &Range<usize>,
    at: &mut usize,
    parts: &mut std::iter::Peekable<impl Iterator<Item = &'p (Kind, Range<usize>)>>,
    open: &mut Vec<u8>,
) -> String {
    let mut code = String::new();
    *at = (*at).max(line.start);
    while *at < line.end {
        let next = parts.peek().map_or(usize::MAX, |(_, range)| range.start);
        if *at >= next {
            if let Some((kind, range)) = parts.next() {
                *at = (*at).max(range.end);
                code.push_str(if *kind == Kind::Literal { "\"\"" } else { "" });
            }
            continue;
        }
        let end = next.min(line.end);
        for byte in text.get(*at..end).unwrap_or("").bytes() {
            match byte {
                b'(' | b'[' | b'{' => open.push(byte),
                b')' | b']' | b'}' => {
                    open.pop();
                }
                _ => {}
            }
        }
        code.push_str(text.get(*at..end).unwrap_or(""));
        *at = end;
    }
    code
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::FileId;

    /// The statements' first lines and lengths, of those that have more than one line.
    fn long(language: Language, text: &str) -> Vec<(usize, usize)> {
        let file = SourceFile::new(FileId(0), "x", language, text);
        let statements = Statements::new(&file);
        let mut found: Vec<(usize, usize)> = (1..=file.line_count())
            .map(|line| statements.lines(line))
            .map(|lines| (lines.start, lines.len()))
            .collect();
        found.dedup();
        found.retain(|(_, length)| *length > 1);
        found
    }

    #[test]
    fn rust() {
        let text = "fn f(\n    a: u8,\n) {\n    let x =\n        g(a)\n            // why\n            .h(\n                '(',\n            )?;\n    if x\n        \
            && y\n    {\n        z();\n    }\n    spawn(async move {\n        w(\"a\n  b ( \");\n        v();\n    })\n    .await;\n}\n";
        assert_eq!(long(Language::Rust, text), [(1, 3), (4, 6), (10, 2), (16, 2), (19, 2)]);
    }

    #[test]
    fn other_languages() {
        assert_eq!(long(Language::Sql, "select a\n-- why\nfrom b;\nselect c;\n"), [(1, 3)]);
        assert_eq!(long(Language::Lua, "redis.call('set',\n  KEYS[1])\nreturn 1\n"), [(1, 2)]);
        assert_eq!(long(Language::Config, "a = b\nc = d\n"), []);
    }

    #[test]
    fn unbalanced_text_is_no_trouble() {
        for text in ["", ")", "((\n", "\"\n\n", "}}\n.x", "/*\n\n"] {
            for language in [Language::Rust, Language::Sql, Language::Lua, Language::Config] {
                let file = SourceFile::new(FileId(0), "x", language, text);
                let statements = Statements::new(&file);
                for line in 0..5 {
                    assert!(line == 0 || statements.lines(line).contains(&line), "{text} {line}");
                }
            }
        }
    }
}
