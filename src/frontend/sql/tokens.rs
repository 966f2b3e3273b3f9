//! An SQL tokenizer that always works: any text gives tokens that cover everything but blanks and comments.
//!
//! It knows no grammar, so templates, psql commands, dumps with `COPY` data and half statements are read like anything
//! else. Dialects are told apart only where one character means different things.

use std::ops::Range;

/// Which server's SQL a text is in, as far as the caller knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Dialect {
    #[default]
    Unknown,
    Postgres,
    MySql,
    SqlServer,
    Sqlite,
}

/// First of the private-use characters that stand for the holes of a template: hole `i` is `HOLE_BASE + i`.
pub const HOLE_BASE: u32 = 0xE000;
const HOLE_END: u32 = 0xF8FF;

/// The character that stands for hole `i` in a text handed to this front end.
pub fn hole(i: usize) -> char {
    u32::try_from(i)
        .ok()
        .and_then(|i| char::from_u32(HOLE_BASE.saturating_add(i).min(HOLE_END)))
        .unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// The number of the hole that `c` stands for.
pub fn hole_index(c: char) -> Option<usize> {
    (HOLE_BASE..=HOLE_END).contains(&(c as u32)).then(|| (c as u32 - HOLE_BASE) as usize)
}

/// Kind of a [`Token`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TokenKind {
    /// Keyword or bare identifier; may contain hole characters.
    Word,
    /// `"x"`, `` `x` ``, `[x]`.
    Quoted,
    /// `'..'` with any prefix.
    Str,
    /// `$tag$ .. $tag$`.
    Dollar,
    /// Number.
    Number,
    /// `$1`, `?`, `?1`, `:name`, `@name`.
    Param,
    /// `{}`, `{x}`, `{{ x }}`, `${x}`, `@extschema@`, `<%= x %>`.
    Template,
    /// Operator, `::` and `:=` included.
    Op,
    /// One of `( ) [ ] , .`.
    Punct,
    /// End of a statement: `;`, a client delimiter, `GO` on a line of its own.
    Semi,
    /// A psql command (to the end of its line); ends a statement.
    Meta,
    /// The data lines after `COPY .. FROM stdin;`.
    CopyData,
}

/// A token: byte range of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// Kind.
    pub kind: TokenKind,
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

impl Token {
    /// Byte range.
    pub fn range(&self) -> Range<usize> {
        self.start..self.end
    }

    /// The token as written.
    pub fn text<'a>(&self, text: &'a str) -> &'a str {
        text.get(self.start..self.end).unwrap_or("")
    }

    /// Whether it is this keyword (never a quoted identifier).
    pub fn is(&self, text: &str, keyword: &str) -> bool {
        self.kind == TokenKind::Word && self.text(text).eq_ignore_ascii_case(keyword)
    }

    /// Whether it is this operator or punctuation.
    pub fn is_sign(&self, text: &str, sign: &str) -> bool {
        matches!(self.kind, TokenKind::Op | TokenKind::Punct) && self.text(text) == sign
    }

    /// The name that an identifier token stands for: folded to lower case if bare, unquoted otherwise.
    pub fn identifier(&self, text: &str) -> String {
        let raw = self.text(text);
        match self.kind {
            TokenKind::Quoted => {
                let close = raw.chars().last().unwrap_or('"');
                let open_len = raw.chars().next().map_or(0, char::len_utf8);
                let inner = raw.get(open_len..raw.len().saturating_sub(close.len_utf8())).unwrap_or("");
                inner.replace(&format!("{close}{close}"), &close.to_string())
            }
            _ => raw.to_ascii_lowercase(),
        }
    }

    /// The text of a string token with its quotes and escapes taken away.
    pub fn string(&self, text: &str) -> String {
        let raw = self.text(text);
        match self.kind {
            TokenKind::Dollar => {
                let tag = raw[1..].find('$').map_or(0, |i| i + 2);
                raw.get(tag..raw.len().saturating_sub(tag)).unwrap_or("").to_string()
            }
            _ => {
                let open = raw.find('\'').map_or(0, |i| i + 1);
                let end = if raw.len() > open && raw.ends_with('\'') { raw.len() - 1 } else { raw.len() };
                let body = raw.get(open..end).unwrap_or("").replace("''", "'");
                if raw.starts_with(['e', 'E']) { body.replace("\\'", "'").replace("\\\\", "\\") } else { body }
            }
        }
    }

    /// The body of a dollar-quoted string as a range of the text.
    pub fn dollar_body(&self, text: &str) -> Range<usize> {
        let raw = self.text(text);
        let tag = raw.get(1..).and_then(|r| r.find('$')).map_or(0, |i| i + 2);
        let closed = raw.len() >= 2 * tag && raw.get(raw.len() - tag..) == raw.get(..tag);
        let end = if closed { self.end - tag } else { self.end };
        (self.start + tag).min(end)..end
    }
}

/// Cuts a text into tokens.
pub fn tokenize(text: &str, dialect: Dialect) -> Vec<Token> {
    let mut lexer = Lexer { text, at: 0, out: Vec::new(), dialect, head: 0, delimiter: None };
    lexer.run();
    lexer.out
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    out: Vec<Token>,
    dialect: Dialect,
    /// Index in `out` of the first token of the statement at hand.
    head: usize,
    /// `DELIMITER x` of the MySQL client.
    delimiter: Option<String>,
}

fn word_start(c: char) -> bool {
    c.is_alphabetic() || c == '_' || hole_index(c).is_some() || (!c.is_ascii() && !c.is_whitespace())
}

fn word_part(c: char) -> bool {
    word_start(c) || c.is_ascii_digit() || c == '$'
}

impl Lexer<'_> {
    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or("")
    }

    fn line_start(&self) -> bool {
        let before = self.text.get(..self.at).unwrap_or("");
        before.rsplit('\n').next().is_none_or(|line| line.trim().is_empty())
    }

    fn push(&mut self, kind: TokenKind, len: usize) {
        let start = self.at;
        let mut end = (start + len.max(1)).min(self.text.len());
        while !self.text.is_char_boundary(end) {
            end += 1;
        }
        self.out.push(Token { kind, start, end });
        self.at = end;
        if matches!(kind, TokenKind::Semi | TokenKind::Meta | TokenKind::CopyData) {
            self.head = self.out.len();
        }
    }

    fn run(&mut self) {
        while let Some(c) = self.rest().chars().next() {
            self.step(c);
        }
    }

    fn step(&mut self, c: char) {
        if c.is_whitespace() || c == '\u{feff}' {
            self.at += c.len_utf8();
            return;
        }
        let rest = &self.text[self.at..];
        if let Some(delimiter) = self.delimiter.clone()
            && rest.starts_with(delimiter.as_str())
        {
            return self.push(TokenKind::Semi, delimiter.len());
        }
        if let Some(len) = self.comment(rest) {
            self.at += len;
            return;
        }
        let next = rest[c.len_utf8()..].chars().next().unwrap_or('\0');
        match c {
            '\'' => self.push(TokenKind::Str, quoted(rest, 0, '\'', self.dialect == Dialect::MySql)),
            '"' => {
                // MySQL reads double quotes as strings unless ANSI_QUOTES is set; a name costs nothing there.
                self.push(TokenKind::Quoted, quoted(rest, 0, '"', false));
            }
            '`' => self.push(TokenKind::Quoted, quoted(rest, 0, '`', false)),
            '[' => match self.bracket_name(rest) {
                Some(len) => self.push(TokenKind::Quoted, len),
                None => self.push(TokenKind::Punct, 1),
            },
            '(' | ')' | ']' | ',' => self.push(TokenKind::Punct, 1),
            '.' if next.is_ascii_digit() && !self.after_name() => self.push(TokenKind::Number, number(rest)),
            '.' if next == '.' => self.push(TokenKind::Op, 2),
            '.' => self.push(TokenKind::Punct, 1),
            ';' => self.semicolon(),
            '$' => self.dollar(rest, next),
            '?' if matches!(next, '|' | '&' | '?') => self.push(TokenKind::Op, 2),
            '?' => self.push(TokenKind::Param, 1 + digits(&rest[1..])),
            ':' => self.colon(rest, next),
            '@' => self.at_sign(rest, next),
            '{' => match template(rest) {
                Some(len) => self.push(TokenKind::Template, len),
                None => self.push(TokenKind::Op, 1),
            },
            '<' if rest.starts_with("<%") => {
                let len = rest.find("%>").map_or(2, |i| i + 2);
                self.push(TokenKind::Template, len);
            }
            '\\' if self.line_start() || self.out.len() > self.head => self.meta(rest),
            c if c.is_ascii_digit() => self.push(TokenKind::Number, number(rest)),
            c if word_start(c) => self.word(rest),
            _ => self.push(TokenKind::Op, operator(rest)),
        }
    }

    fn comment(&self, rest: &str) -> Option<usize> {
        let line = |rest: &str| rest.find('\n').unwrap_or(rest.len());
        if rest.starts_with("--") {
            return Some(line(rest));
        }
        if let Some(body) = rest.strip_prefix("/*") {
            // PostgreSQL nests block comments (manual, 4.1.5).
            let bytes = rest.as_bytes();
            let (mut depth, mut i) = (0usize, 0usize);
            while i + 1 < bytes.len() {
                match (bytes[i], bytes[i + 1]) {
                    (b'/', b'*') => {
                        depth += 1;
                        i += 2;
                    }
                    (b'*', b'/') => {
                        depth -= 1;
                        i += 2;
                        if depth == 0 {
                            return Some(i);
                        }
                    }
                    _ => i += 1,
                }
            }
            // Unbalanced nesting: other servers do not nest, so the first end counts.
            return Some(body.find("*/").map_or(rest.len(), |i| i + 4));
        }
        if rest.starts_with("{%") || rest.starts_with("{#") {
            let close = if rest.starts_with("{%") { "%}" } else { "#}" };
            return rest.find(close).map(|i| i + 2);
        }
        let hash =
            rest.starts_with('#') && (self.dialect == Dialect::MySql || (self.line_start() && rest.starts_with("# ")));
        hash.then(|| line(rest))
    }

    /// `.` directly after a name is a qualifier, never the point of a number.
    fn after_name(&self) -> bool {
        self.out.last().is_some_and(|t| {
            t.end == self.at && matches!(t.kind, TokenKind::Word | TokenKind::Quoted | TokenKind::Template)
        })
    }

    /// `[name]` of SQL Server, told from subscripts by what stands before it.
    fn bracket_name(&self, rest: &str) -> Option<usize> {
        if matches!(self.dialect, Dialect::Postgres | Dialect::MySql) {
            return None;
        }
        let end = rest.find(']')?;
        let inner = &rest[1..end];
        let plain = inner.starts_with(word_start) && inner.chars().all(|c| word_part(c) || c == ' ');
        let subscript = self.out.last().is_some_and(|t| {
            let touches = t.end == self.at
                && !t.is_sign(self.text, ".")
                && !t.is_sign(self.text, "(")
                && !t.is_sign(self.text, ",");
            touches || t.is(self.text, "array")
        });
        (plain && !subscript).then_some(end + 1)
    }

    fn semicolon(&mut self) {
        let copy = self.out.get(self.head).is_some_and(|t| t.is(self.text, "copy"))
            && self.out[self.head..].windows(2).any(|w| w[0].is(self.text, "from") && w[1].is(self.text, "stdin"));
        self.push(TokenKind::Semi, 1);
        if copy {
            let rest = &self.text[self.at..];
            if let Some(start) = rest.find('\n') {
                let end = rest.find("\n\\.").map_or(rest.len(), |i| i + 3);
                if end > start + 1 {
                    self.at += start + 1;
                    self.push(TokenKind::CopyData, end - start - 1);
                }
            }
        }
    }

    fn dollar(&mut self, rest: &str, next: char) {
        if next.is_ascii_digit() {
            return self.push(TokenKind::Param, 1 + digits(&rest[1..]));
        }
        if next == '{' {
            let len = rest.find('}').map_or(1, |i| i + 1);
            return self.push(TokenKind::Template, len);
        }
        // A dollar quote: `$` identifier-without-dollar `$` (PostgreSQL manual, 4.1.2.4).
        let tag_len: usize = rest[1..].chars().take_while(|c| word_part(*c) && *c != '$').map(char::len_utf8).sum();
        if rest[1 + tag_len..].starts_with('$') {
            let tag = &rest[..tag_len + 2];
            let len = rest[tag.len()..].find(tag).map_or(rest.len(), |i| i + 2 * tag.len());
            return self.push(TokenKind::Dollar, len);
        }
        match tag_len {
            0 => self.push(TokenKind::Op, 1),
            n => self.push(TokenKind::Param, 1 + n),
        }
    }

    fn colon(&mut self, rest: &str, next: char) {
        match next {
            ':' | '=' => self.push(TokenKind::Op, 2),
            // psql variables: `:'x'` is a string, `:"x"` a name, `:x` either.
            '\'' | '"' => {
                let len = quoted(rest, 1, next, false);
                self.push(TokenKind::Param, len);
            }
            c if word_start(c) || c.is_ascii_digit() => {
                let len = 1 + rest[1..].chars().take_while(|c| word_part(*c)).map(char::len_utf8).sum::<usize>();
                self.push(TokenKind::Param, len);
            }
            _ => self.push(TokenKind::Op, 1),
        }
    }

    fn at_sign(&mut self, rest: &str, next: char) {
        let skip = if next == '@' { 2 } else { 1 };
        let len: usize = rest[skip..].chars().take_while(|c| word_part(*c)).map(char::len_utf8).sum();
        if len == 0 || !rest[skip..].starts_with(word_start) {
            return self.push(TokenKind::Op, operator(rest));
        }
        // `@extschema@` and `@extschema:name@` of extension scripts.
        let after = &rest[skip + len..];
        let tail = match after.strip_prefix(':') {
            Some(t) => 1 + t.chars().take_while(|c| word_part(*c)).map(char::len_utf8).sum::<usize>(),
            None => 0,
        };
        if skip == 1 && after[tail..].starts_with('@') {
            return self.push(TokenKind::Template, skip + len + tail + 1);
        }
        self.push(TokenKind::Param, skip + len);
    }

    fn meta(&mut self, rest: &str) {
        let len = rest.find('\n').unwrap_or(rest.len());
        self.push(TokenKind::Meta, len);
    }

    fn word(&mut self, rest: &str) {
        let mut len: usize = rest.chars().take_while(|c| word_part(*c)).map(char::len_utf8).sum();
        if let Some(cut) = self.delimiter.as_deref().and_then(|d| rest[..len].find(d)) {
            len = cut.max(1);
        }
        let word = &rest[..len];
        let after = &rest[len..];
        if after.starts_with('\'') && matches!(word.to_ascii_lowercase().as_str(), "e" | "b" | "x" | "n") {
            let escapes = word.eq_ignore_ascii_case("e");
            return self.push(TokenKind::Str, quoted(rest, len, '\'', escapes));
        }
        if word.eq_ignore_ascii_case("u") && (after.starts_with("&'") || after.starts_with("&\"")) {
            let string = after.starts_with("&'");
            let kind = if string { TokenKind::Str } else { TokenKind::Quoted };
            return self.push(kind, quoted(rest, len + 1, if string { '\'' } else { '"' }, false));
        }
        let line = || after.split('\n').next().unwrap_or("").trim();
        if word.eq_ignore_ascii_case("delimiter") && self.line_start() && !line().is_empty() {
            let delimiter = line().to_string();
            let len = rest.find('\n').unwrap_or(rest.len());
            self.push(TokenKind::Meta, len);
            self.delimiter = (delimiter != ";").then_some(delimiter);
            return;
        }
        if word.eq_ignore_ascii_case("go") && self.line_start() && line().trim_end_matches(';').is_empty() {
            return self.push(TokenKind::Semi, len);
        }
        self.push(TokenKind::Word, len);
    }
}

/// Length of a quoted token that opens at byte `open` of `rest`; to the end of the text if it is not closed.
fn quoted(rest: &str, open: usize, quote: char, backslash: bool) -> usize {
    let bytes = rest.as_bytes();
    let mut i = open + 1;
    while i < bytes.len() {
        match bytes[i] {
            b'\\' if backslash => i += 2,
            b if b == quote as u8 => {
                if bytes.get(i + 1) == Some(&b) {
                    i += 2;
                } else {
                    return i + 1;
                }
            }
            _ => i += 1,
        }
    }
    rest.len()
}

fn digits(rest: &str) -> usize {
    rest.bytes().take_while(u8::is_ascii_digit).count()
}

fn number(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    if bytes.len() > 1 && bytes[0] == b'0' && matches!(bytes[1], b'x' | b'X' | b'b' | b'B' | b'o' | b'O') {
        return 2 + bytes[2..].iter().take_while(|b| b.is_ascii_hexdigit() || **b == b'_').count();
    }
    let run = |from: usize| bytes[from..].iter().take_while(|b| b.is_ascii_digit() || **b == b'_').count();
    let mut i = run(0);
    // `1..10` of plpgsql loops is no decimal point.
    if bytes.get(i) == Some(&b'.') && bytes.get(i + 1) != Some(&b'.') {
        i += 1;
        i += run(i);
    }
    if matches!(bytes.get(i), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(i + 1), Some(b'+' | b'-')));
        let exponent = bytes.get(i + 1 + sign..).map_or(0, |b| b.iter().take_while(|b| b.is_ascii_digit()).count());
        if exponent > 0 {
            i += 1 + sign + exponent;
        }
    }
    i.max(1)
}

/// Length of `{..}` or `{{ .. }}` if it looks like a template's hole.
fn template(rest: &str) -> Option<usize> {
    let double = rest.starts_with("{{");
    let (skip, close) = if double { (2, "}}") } else { (1, "}") };
    let end = rest[skip..].find(close)?;
    let inner = &rest[skip..skip + end];
    let fits = end <= 120 && !inner.contains(['\n', '{', '\'', ';']);
    fits.then_some(skip + end + close.len())
}

fn operator(rest: &str) -> usize {
    const SIGNS: &str = "+-*/<>=~!@#%^&|?";
    let bytes = rest.as_bytes();
    let mut i = 0;
    while i < bytes.len() && SIGNS.as_bytes().contains(&bytes[i]) {
        // A comment may start right behind an operator.
        if i > 0 && (rest[i..].starts_with("--") || rest[i..].starts_with("/*")) {
            break;
        }
        // `=-1`, `=?`, `<=@p`: the tail belongs to the operand (PostgreSQL manual, 4.1.3: no trailing + or -).
        let after_relation = i > 0 && matches!(bytes[i - 1], b'=' | b'<' | b'>' | b'+' | b'*' | b'/' | b'|');
        let starts_operand = matches!(bytes[i], b'-' | b'+' | b'?' | b'@')
            && bytes.get(i + 1).is_none_or(|b| !SIGNS.as_bytes().contains(b))
            && !(bytes[i - usize::from(i > 0)] == b'<' && bytes[i] == b'@');
        if after_relation && starts_operand {
            break;
        }
        i += 1;
    }
    i.max(rest.chars().next().map_or(1, char::len_utf8))
}

#[cfg(test)]
mod tests;
