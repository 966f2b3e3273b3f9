//! Where comments and literals lie in a text. No parser: it works on files that do not parse.

use super::Language;
use std::ops::Range;

/// What a stretch of text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A comment.
    Comment,
    /// A string or character literal.
    Literal,
}

/// Comments and literals of a text in order. What is unterminated goes to the end.
pub fn scan(language: Language, text: &str) -> Vec<(Kind, Range<usize>)> {
    let mut scanner = Scanner { text: text.as_bytes(), at: 0, found: Vec::new() };
    while scanner.at < scanner.text.len() {
        match language {
            Language::Rust => scanner.rust(),
            Language::Sql => scanner.sql(),
            Language::Lua => scanner.lua(),
            Language::Config => scanner.config(),
        }
    }
    scanner.found
}

struct Scanner<'t> {
    text: &'t [u8],
    at: usize,
    found: Vec<(Kind, Range<usize>)>,
}

impl Scanner<'_> {
    fn starts(&self, what: &[u8]) -> bool {
        self.text[self.at..].starts_with(what)
    }

    /// Takes everything up to and including `end`.
    fn until(&mut self, kind: Kind, skip: usize, end: &[u8]) {
        let from = (self.at + skip).min(self.text.len());
        let stop = find(&self.text[from..], end).map_or(self.text.len(), |i| from + i + end.len());
        self.found.push((kind, self.at..stop));
        self.at = stop;
    }

    /// Takes the rest of the line, without its end.
    fn line_comment(&mut self) {
        let stop = find(&self.text[self.at..], b"\n").map_or(self.text.len(), |i| self.at + i);
        self.found.push((Kind::Comment, self.at..stop));
        self.at = stop;
    }

    /// Takes a literal in which a backslash escapes.
    fn escaped(&mut self, quote: u8) {
        let mut i = self.at + 1;
        while i < self.text.len() && self.text[i] != quote {
            i += if self.text[i] == b'\\' { 2 } else { 1 };
        }
        let stop = (i + 1).min(self.text.len());
        self.found.push((Kind::Literal, self.at..stop));
        self.at = stop;
    }

    fn nested_comment(&mut self) {
        let mut depth = 0;
        let mut i = self.at;
        while i < self.text.len() {
            if self.text[i..].starts_with(b"/*") {
                depth += 1;
                i += 2;
            } else if self.text[i..].starts_with(b"*/") {
                depth -= 1;
                i += 2;
                if depth == 0 {
                    break;
                }
            } else {
                i += 1;
            }
        }
        let stop = i.min(self.text.len());
        self.found.push((Kind::Comment, self.at..stop));
        self.at = stop;
    }

    fn rust(&mut self) {
        match self.text[self.at] {
            b'/' if self.starts(b"//") => self.line_comment(),
            b'/' if self.starts(b"/*") => self.nested_comment(),
            b'"' => self.escaped(b'"'),
            b'r' if !self.after_word() && self.raw_hashes().is_some() => {
                let hashes = self.raw_hashes().unwrap_or(0);
                let end = [b"\"".as_slice(), &b"#".repeat(hashes)].concat();
                self.until(Kind::Literal, hashes + 2, &end);
            }
            // A character literal, not a lifetime: a quote follows one character or an escape.
            b'\'' => {
                let rest = std::str::from_utf8(&self.text[self.at + 1..self.text.len().min(self.at + 6)]);
                let first = match rest {
                    Ok(rest) => rest.chars().next(),
                    Err(e) => self
                        .text
                        .get(self.at + 1..self.at + 1 + e.valid_up_to())
                        .and_then(|valid| std::str::from_utf8(valid).ok()?.chars().next()),
                };
                match first {
                    Some('\\') => self.escaped(b'\''),
                    Some(c) if self.text.get(self.at + 1 + c.len_utf8()) == Some(&b'\'') => {
                        let stop = self.at + c.len_utf8() + 2;
                        self.found.push((Kind::Literal, self.at..stop));
                        self.at = stop;
                    }
                    _ => self.at += 1,
                }
            }
            _ => self.at += 1,
        }
    }

    fn after_word(&self) -> bool {
        // `b` and `c` are prefixes of raw literals.
        let before = |n: usize| self.at.checked_sub(n).and_then(|i| self.text.get(i)).copied();
        let word = |byte: Option<u8>| byte.is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_');
        match before(1) {
            Some(b'b' | b'c') => word(before(2)),
            other => word(other),
        }
    }

    /// Number of `#` of a raw string that starts here.
    fn raw_hashes(&self) -> Option<usize> {
        let rest = &self.text[self.at + 1..];
        let hashes = rest.iter().take_while(|b| **b == b'#').count();
        (rest.get(hashes) == Some(&b'"')).then_some(hashes)
    }

    fn sql(&mut self) {
        match self.text[self.at] {
            b'-' if self.starts(b"--") => self.line_comment(),
            b'/' if self.starts(b"/*") => self.nested_comment(),
            // Bodies between dollar quotes are code with comments of their own, so only plain literals are passed over.
            quote @ (b'\'' | b'"') => self.until(Kind::Literal, 1, &[quote]),
            _ => self.at += 1,
        }
    }

    fn lua(&mut self) {
        match self.text[self.at] {
            b'-' if self.starts(b"--[[") => self.until(Kind::Comment, 4, b"]]"),
            b'-' if self.starts(b"--") => self.line_comment(),
            b'[' if self.starts(b"[[") => self.until(Kind::Literal, 2, b"]]"),
            quote @ (b'\'' | b'"') => self.escaped(quote),
            _ => self.at += 1,
        }
    }

    fn config(&mut self) {
        let before = self.at.checked_sub(1).and_then(|i| self.text.get(i));
        if matches!(self.text[self.at], b'#' | b';') && before.is_none_or(u8::is_ascii_whitespace) {
            self.line_comment();
        } else {
            self.at += 1;
        }
    }
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|window| window == what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(language: Language, text: &str) -> Vec<(Kind, &str)> {
        scan(language, text).into_iter().map(|(kind, range)| (kind, &text[range])).collect()
    }

    #[test]
    fn comments_are_told_from_literals() {
        use Kind::{Comment, Literal};
        let rust = "fn f<'a>(x: &'a str) { let c = '\"'; let e = '\\''; \"a // \\\" b\"; br#\"// \"x\"#; /* a /* b */ c */ var\"q\"; 'é'; // z\n}";
        assert_eq!(
            parts(Language::Rust, rust),
            [
                (Literal, "'\"'"),
                (Literal, "'\\''"),
                (Literal, "\"a // \\\" b\""),
                (Literal, "r#\"// \"x\"#"),
                (Comment, "/* a /* b */ c */"),
                (Literal, "\"q\""),
                (Literal, "'é'"),
                (Comment, "// z"),
            ]
        );
        assert_eq!(
            parts(Language::Sql, "select '--' -- x\n$$ -- y\n$$"),
            [(Literal, "'--'"), (Comment, "-- x"), (Comment, "-- y"),]
        );
        assert_eq!(
            parts(Language::Lua, "a = '--' --[[ x\n]] -- y"),
            [(Literal, "'--'"), (Comment, "--[[ x\n]]"), (Comment, "-- y"),]
        );
        assert_eq!(parts(Language::Config, "a = b;c # d\n; e"), [(Comment, "# d"), (Comment, "; e")]);
    }

    #[test]
    fn ends_of_text_are_no_trouble() {
        for text in ["\"", "'", "r#\"", "/*", "'\\", "r", "b'", "\"\\", "'é"] {
            for language in [Language::Rust, Language::Sql, Language::Lua, Language::Config] {
                assert!(scan(language, text).iter().all(|(_, r)| r.end <= text.len()), "{text}");
            }
        }
    }
}
