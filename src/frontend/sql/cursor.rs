//! A cursor over the tokens of one statement.

use super::tokens::{Dialect, Token, TokenKind};
use std::ops::Range;

/// Deepest nesting of parentheses and sub-queries that is built; deeper parts stay opaque.
const DEPTH_LIMIT: usize = 48;

/// Reads tokens forward; never past the end, never backwards except by [`Cursor::reset`].
pub(super) struct Cursor<'a> {
    pub text: &'a str,
    pub tokens: &'a [Token],
    pub at: usize,
    pub dialect: Dialect,
    depth: usize,
    /// How many bare `?` have been seen.
    pub questions: usize,
}

impl<'a> Cursor<'a> {
    pub fn new(text: &'a str, tokens: &'a [Token], dialect: Dialect) -> Self {
        Cursor { text, tokens, at: 0, dialect, depth: 0, questions: 0 }
    }

    /// A cursor over other tokens of the same text that goes on counting `?`.
    pub fn over<'b>(&self, tokens: &'b [Token]) -> Cursor<'b>
    where
        'a: 'b,
    {
        Cursor { text: self.text, tokens, at: 0, dialect: self.dialect, depth: self.depth, questions: self.questions }
    }

    pub fn peek(&self) -> Option<&'a Token> {
        self.tokens.get(self.at)
    }

    pub fn nth(&self, n: usize) -> Option<&'a Token> {
        self.tokens.get(self.at + n)
    }

    pub fn next(&mut self) -> Option<&'a Token> {
        let token = self.tokens.get(self.at)?;
        self.at += 1;
        Some(token)
    }

    pub fn done(&self) -> bool {
        self.at >= self.tokens.len()
    }

    /// Offset of the next token, or the end of the last.
    pub fn offset(&self) -> usize {
        self.peek().map_or_else(|| self.tokens.last().map_or(0, |t| t.end), |t| t.start)
    }

    /// End of the token before.
    pub fn last_end(&self) -> usize {
        self.at.checked_sub(1).and_then(|i| self.tokens.get(i)).map_or(0, |t| t.end)
    }

    /// Range from `start` to the token before.
    pub fn since(&self, start: usize) -> Range<usize> {
        start..self.last_end().max(start)
    }

    pub fn is(&self, keyword: &str) -> bool {
        self.peek().is_some_and(|t| t.is(self.text, keyword))
    }

    pub fn nth_is(&self, n: usize, keyword: &str) -> bool {
        self.nth(n).is_some_and(|t| t.is(self.text, keyword))
    }

    pub fn is_any(&self, keywords: &[&str]) -> bool {
        keywords.iter().any(|k| self.is(k))
    }

    pub fn sign(&self, sign: &str) -> bool {
        self.peek().is_some_and(|t| t.is_sign(self.text, sign))
    }

    pub fn nth_sign(&self, n: usize, sign: &str) -> bool {
        self.nth(n).is_some_and(|t| t.is_sign(self.text, sign))
    }

    /// Takes the keywords in order, all or none.
    pub fn eat(&mut self, keywords: &[&str]) -> bool {
        let fits = keywords.iter().enumerate().all(|(i, k)| self.nth_is(i, k));
        if fits {
            self.at += keywords.len();
        }
        fits
    }

    pub fn eat_sign(&mut self, sign: &str) -> bool {
        let fits = self.sign(sign);
        if fits {
            self.at += 1;
        }
        fits
    }

    /// Whether the next token can be an identifier.
    pub fn at_name(&self) -> bool {
        self.peek().is_some_and(|t| match t.kind {
            TokenKind::Word => !reserved(t.text(self.text)),
            TokenKind::Quoted | TokenKind::Template => true,
            // psql and sqlc variables stand for names too, but `?` and `$1` never do.
            TokenKind::Param => t.text(self.text).starts_with(':'),
            _ => false,
        })
    }

    /// A name with qualifiers: `a.b.c`; parts in lower case unless quoted.
    pub fn path(&mut self) -> Option<(Vec<String>, Range<usize>)> {
        if !self.at_name() {
            return None;
        }
        let start = self.offset();
        let mut parts = vec![self.next()?.identifier(self.text)];
        loop {
            // `:schema` and `.` of templates may touch anything; a part after `.` may be a keyword.
            let next_part = self.nth(1).is_some_and(|t| {
                matches!(t.kind, TokenKind::Word | TokenKind::Quoted | TokenKind::Template | TokenKind::Param)
            });
            if self.sign(".") && next_part {
                self.at += 1;
                if let Some(part) = self.next() {
                    parts.push(part.identifier(self.text));
                }
            } else if self.touching_name_part() {
                // `jobs_{x}`, `{prefix}_jobs`: one name written in pieces.
                if let (Some(last), Some(piece)) = (parts.last_mut(), self.tokens.get(self.at)) {
                    last.push_str(&piece.identifier(self.text));
                    self.at += 1;
                }
            } else {
                break;
            }
        }
        Some((parts, self.since(start)))
    }

    fn touching_name_part(&self) -> bool {
        let (Some(before), Some(here)) = (self.at.checked_sub(1).and_then(|i| self.tokens.get(i)), self.peek()) else {
            return false;
        };
        let template = |t: &Token| t.kind == TokenKind::Template;
        let part = |t: &Token| matches!(t.kind, TokenKind::Word | TokenKind::Template | TokenKind::Number);
        before.end == here.start && (template(before) && part(here) || template(here) && part(before))
    }

    /// Tokens up to the parenthesis that closes the one at the cursor; the cursor moves behind it.
    pub fn group(&mut self) -> &'a [Token] {
        let start = self.at + 1;
        self.skip_group();
        let closed = self.at.checked_sub(1).and_then(|i| self.tokens.get(i)).is_some_and(|t| t.is_sign(self.text, ")"));
        let end = if closed { self.at - 1 } else { self.at };
        self.tokens.get(start..end.max(start)).unwrap_or(&[])
    }

    /// Moves behind the bracket that closes the one at the cursor.
    pub fn skip_group(&mut self) {
        let mut depth = 0usize;
        while let Some(token) = self.next() {
            if token.is_sign(self.text, "(") || token.is_sign(self.text, "[") {
                depth += 1;
            } else if token.is_sign(self.text, ")") || token.is_sign(self.text, "]") {
                depth = depth.saturating_sub(1);
            }
            if depth == 0 {
                return;
            }
        }
    }

    /// Runs `f` one level deeper; `None` when that is too deep.
    pub fn deeper<T>(&mut self, f: impl FnOnce(&mut Self) -> T) -> Option<T> {
        if self.depth >= DEPTH_LIMIT {
            return None;
        }
        self.depth += 1;
        let out = f(self);
        self.depth -= 1;
        Some(out)
    }
}

/// Words that end an expression or cannot be a bare alias.
pub(super) fn reserved(word: &str) -> bool {
    const WORDS: &[&str] = &[
        "all",
        "and",
        "any",
        "as",
        "asc",
        "begin",
        "between",
        "by",
        "case",
        "collate",
        "commit",
        "conflict",
        "cross",
        "desc",
        "distinct",
        "do",
        "else",
        "elsif",
        "end",
        "escape",
        "except",
        "exists",
        "fetch",
        "filter",
        "for",
        "from",
        "full",
        "group",
        "having",
        "ilike",
        "in",
        "inner",
        "intersect",
        "into",
        "is",
        "isnull",
        "join",
        "lateral",
        "left",
        "like",
        "limit",
        "loop",
        "natural",
        "not",
        "notnull",
        "nulls",
        "offset",
        "on",
        "or",
        "order",
        "outer",
        "over",
        "overlaps",
        "returning",
        "right",
        "select",
        "set",
        "similar",
        "some",
        "tablesample",
        "then",
        "union",
        "using",
        "values",
        "when",
        "where",
        "window",
        "with",
        "within",
        "output",
        "option",
    ];
    WORDS.iter().any(|w| w.eq_ignore_ascii_case(word))
}
