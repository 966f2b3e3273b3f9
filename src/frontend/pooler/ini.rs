//! Lines of a `pgbouncer.ini` as PgBouncer itself reads them (libusual `cfparser.c`, and the manual page pgbouncer(5)): only
//! whole lines are comments, blanks before a line, round `=` and at the end do not count, everything else belongs to the value.

use std::ops::Range;

/// One meaningful line.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Line {
    /// `[name]`
    Section(String, Range<usize>),
    /// `key = value`, with the bytes of the whole setting and of the value.
    Setting {
        /// Key without quotes.
        key: String,
        /// Value, trailing blanks removed.
        value: String,
        /// From the key to the end of the value.
        place: Range<usize>,
    },
    /// `%include path`
    Include(String, Range<usize>),
    /// Not understood.
    Bad(Range<usize>),
}

/// Reads the lines of `text[range]`; places are byte ranges of `text`. Templating directives that fill a line of their own
/// (`{{- if .. }}`, `{% if %}`, `<% if %>`) are passed over.
pub(super) fn lines(text: &str, range: Range<usize>) -> Vec<Line> {
    let mut out = Vec::new();
    let mut at = range.start;
    for raw in text.get(range).unwrap_or("").split_inclusive('\n') {
        let start = at + (raw.len() - raw.trim_start().len());
        at += raw.len();
        let line = raw.trim();
        if line.is_empty() || line.starts_with(['#', ';']) || is_directive(line) {
            continue;
        }
        out.push(one(line, start));
    }
    out
}

fn is_directive(line: &str) -> bool {
    [("{{", "}}"), ("{%", "%}"), ("<%", "%>"), ("{#", "#}")]
        .iter()
        .any(|(open, close)| line.starts_with(open) && line.ends_with(close) && !line.contains('='))
        || line.starts_with("{%")
}

fn one(line: &str, start: usize) -> Line {
    let whole = start..start + line.len();
    if let Some(path) = line.strip_prefix("%include").filter(|rest| rest.starts_with([' ', '\t'])) {
        return Line::Include(path.trim().to_string(), whole);
    }
    if let Some(rest) = line.strip_prefix('[') {
        return match rest.find(']') {
            Some(end) => Line::Section(rest[..end].trim().to_string(), start..start + end + 2),
            None => Line::Bad(whole),
        };
    }
    let (key, rest) = match line.strip_prefix('\'').and_then(|quoted| quoted.split_once('\'')) {
        Some((key, rest)) => (key.to_string(), rest),
        None => match line.split_once('=') {
            Some((key, _)) => (key.trim().trim_matches('"').to_string(), &line[key.len()..]),
            None => return Line::Bad(whole),
        },
    };
    match rest.trim_start().strip_prefix('=') {
        Some(value) if !key.is_empty() => Line::Setting { key, value: value.trim().to_string(), place: whole },
        _ => Line::Bad(whole),
    }
}

/// Splits a libpq-style connect string `host=h dbname='a b' pool_mode=transaction`; quotes are doubled inside quotes
/// (pgbouncer(5), section databases).
pub(super) fn connect_string(text: &str) -> Vec<(String, String)> {
    let mut out = Vec::new();
    let mut rest = text.trim_start();
    while let Some((key, after)) = rest.split_once('=') {
        let key = key.trim().to_ascii_lowercase();
        let after = after.trim_start();
        let (value, tail) = match after.strip_prefix('\'') {
            Some(quoted) => quoted_value(quoted),
            None => {
                let end = value_end(after);
                (after[..end].to_string(), &after[end..])
            }
        };
        out.push((key, value));
        rest = tail.trim_start();
    }
    out
}

/// End of an unquoted value: the next blank that is not inside a placeholder.
fn value_end(text: &str) -> usize {
    let mut open = 0usize;
    for (at, c) in text.char_indices() {
        match c {
            '{' | '(' => open += 1,
            '}' | ')' => open = open.saturating_sub(1),
            c if c.is_whitespace() && open == 0 => return at,
            _ => {}
        }
    }
    text.len()
}

fn quoted_value(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            '\'' if chars.peek().is_some_and(|(_, next)| *next == '\'') => {
                chars.next();
                value.push('\'');
            }
            '\'' => return (value, &text[at + 1..]),
            c => value.push(c),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_line_comments_only() {
        let text = "; pool_mode = statement\n [pgbouncer]\n\tpool_mode=transaction ; session\n# x\n'odd name' = host=a\n%include d.ini\n???\n";
        let lines = lines(text, 0..text.len());
        assert_eq!(lines.len(), 5);
        let Line::Setting { key, value, place } = &lines[1] else { panic!("{lines:?}") };
        assert_eq!((key.as_str(), value.as_str()), ("pool_mode", "transaction ; session"));
        assert_eq!(&text[place.clone()], "pool_mode=transaction ; session");
        assert!(matches!(&lines[2], Line::Setting { key, .. } if key == "odd name"));
        assert!(matches!(&lines[3], Line::Include(path, _) if path == "d.ini"));
        assert!(matches!(&lines[4], Line::Bad(_)));
    }

    #[test]
    fn connect_strings() {
        let pairs = connect_string("host=db port = 5432 password='it''s' pool_mode=${M:-transaction} x");
        assert_eq!(pairs[2], ("password".into(), "it's".into()));
        assert_eq!(pairs[3], ("pool_mode".into(), "${M:-transaction}".into()));
        assert_eq!(pairs.len(), 4);
    }
}
