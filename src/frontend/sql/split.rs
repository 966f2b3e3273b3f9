//! Cuts a token list into statements.

use super::tokens::{Dialect, Token, TokenKind, tokenize};
use std::ops::Range;

/// Longest statement that is analysed, in bytes; longer ones are data, and reported.
pub const STATEMENT_LIMIT: usize = 256 * 1024;

/// Tokens of one statement, without its terminator.
#[derive(Clone, Debug)]
pub struct Piece {
    /// Tokens; offsets are those of the whole text.
    pub tokens: Vec<Token>,
    /// Byte range from the first to the last token.
    pub range: Range<usize>,
    /// The terminator is a psql command (`\gset`, `\gexec`) or one stands before: the text is made for psql.
    pub meta: bool,
}

impl Piece {
    /// Longer than [`STATEMENT_LIMIT`].
    pub fn too_long(&self) -> bool {
        self.range.len() > STATEMENT_LIMIT
    }
}

/// Splits a text at `;` and its kin. `;` inside `BEGIN .. END` bodies of CREATE FUNCTION, PROCEDURE and TRIGGER do not count.
pub fn split(text: &str, dialect: Dialect) -> Vec<Piece> {
    split_tokens(text, tokenize(text, dialect))
}

/// As [`split`], of tokens of `text`.
pub(super) fn split_tokens(text: &str, tokens: Vec<Token>) -> Vec<Piece> {
    let mut out = Vec::new();
    let mut current: Vec<Token> = Vec::new();
    let mut body = BodyDepth::default();
    let mut before = false;
    let mut flush = |current: &mut Vec<Token>, meta: bool| {
        let tokens = std::mem::take(current);
        let meta = meta || before;
        before = meta && tokens.is_empty();
        if let (Some(first), Some(last)) = (tokens.first(), tokens.last()) {
            let range = first.start..last.end;
            out.push(Piece { tokens, range, meta });
        }
    };
    for token in tokens {
        match token.kind {
            TokenKind::Semi if body.inside() && token.text(text) == ";" => current.push(token),
            TokenKind::Semi => {
                flush(&mut current, false);
                body = BodyDepth::default();
            }
            TokenKind::Meta => {
                flush(&mut current, true);
                body = BodyDepth::default();
            }
            TokenKind::CopyData => {}
            _ => {
                body.see(text, &current, &token);
                current.push(token);
            }
        }
    }
    flush(&mut current, false);
    out
}

/// Depth in an unquoted routine body.
#[derive(Default)]
struct BodyDepth {
    depth: usize,
    ended: bool,
}

impl BodyDepth {
    fn inside(&self) -> bool {
        self.depth > 0
    }

    fn see(&mut self, text: &str, before: &[Token], token: &Token) {
        if token.kind != TokenKind::Word || !routine(text, before) {
            return;
        }
        let previous = before.last();
        let after_end = previous.is_some_and(|t| t.is(text, "end"));
        if after_end && ["if", "loop", "while", "repeat", "for"].iter().any(|w| token.is(text, w)) {
            self.depth += 1;
        } else if token.is(text, "begin") || (token.is(text, "case") && self.depth > 0 && !after_end) {
            // A body starts once; `BEGIN` after it belongs to the next statement of a text without terminators.
            if !self.ended {
                self.depth += 1;
            }
        } else if token.is(text, "end") && self.depth > 0 {
            self.depth -= 1;
            self.ended = self.depth == 0;
        } else if self.ended {
            self.ended = false;
        }
    }
}

fn routine(text: &str, before: &[Token]) -> bool {
    let create = before.first().is_some_and(|t| t.is(text, "create") || t.is(text, "alter"));
    create
        && before
            .iter()
            .take(8)
            .any(|t| ["function", "procedure", "proc", "trigger", "event"].iter().any(|w| t.is(text, w)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn pieces(text: &str) -> Vec<&str> {
        split(text, Dialect::Unknown).into_iter().map(|p| &text[p.range]).collect()
    }

    #[test]
    fn splits_at_semicolons_outside_of_quotes() {
        assert_eq!(pieces("SELECT ';'; DO $$ a; b; $$; -- x;\nSELECT 2"), ["SELECT ';'", "DO $$ a; b; $$", "SELECT 2"]);
    }

    #[test]
    fn keeps_unquoted_bodies_whole() {
        let text =
            "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT CASE WHEN true THEN 1 END; SELECT 2; END; SELECT 3;";
        assert_eq!(pieces(text).len(), 2);
        let text = "CREATE TRIGGER t AFTER INSERT ON x BEGIN UPDATE a SET b=1; DELETE FROM c; END; SELECT 1";
        assert_eq!(pieces(text).len(), 2);
        let text = "CREATE PROCEDURE p() BEGIN IF x THEN SELECT 1; END IF; SELECT 2; END; SELECT 1";
        assert_eq!(pieces(text).len(), 2);
    }

    #[test]
    fn psql_commands_end_statements() {
        let list = split("SELECT 1 \\gset\n\\echo a\nSELECT 2;", Dialect::Postgres);
        assert_eq!(list.len(), 2);
        assert!(list[0].meta && list[1].meta);
        assert!(!split("SELECT 1; SELECT 2", Dialect::Postgres)[1].meta);
    }

    #[test]
    fn go_ends_batches() {
        assert_eq!(pieces("SELECT 1\nGO\nSELECT 2\nGO\n"), ["SELECT 1", "SELECT 2"]);
    }
}
