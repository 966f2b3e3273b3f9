//! TOML to [`Node`] trees.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::tree::{Node, Text};

/// Deeper values are cut off (the parser has its own limit, this one guards the conversion).
const MAX_DEPTH: usize = 64;

/// Reads a TOML file: what could be read, and the first error with its byte.
pub(super) fn load(text: &str) -> (Node, Option<(usize, String)>) {
    let (table, errors) = DeTable::parse_recoverable(text);
    let place = table.span();
    let error = errors.first().map(|error| (error.span().map_or(0, |span| span.start), error.message().to_string()));
    (map(table.get_ref(), place, 0), error)
}

fn map(table: &DeTable<'_>, place: Range<usize>, depth: usize) -> Node {
    if depth > MAX_DEPTH {
        return Node::Map(Vec::new(), place);
    }
    let entries = table.iter().map(|(key, value)| {
        let name = Text { value: key.get_ref().to_string(), place: key.span() };
        (name, node(value, depth + 1))
    });
    Node::Map(entries.collect(), place)
}

fn node(value: &Spanned<DeValue<'_>>, depth: usize) -> Node {
    let place = value.span();
    let text = match value.get_ref() {
        DeValue::Table(table) => return map(table, place, depth),
        DeValue::Array(_) if depth > MAX_DEPTH => return Node::List(Vec::new(), place),
        DeValue::Array(items) => return Node::List(items.iter().map(|item| node(item, depth + 1)).collect(), place),
        DeValue::String(text) => text.to_string(),
        DeValue::Integer(number) => number.as_str().to_string(),
        DeValue::Float(number) => number.as_str().to_string(),
        DeValue::Boolean(value) => value.to_string(),
        DeValue::Datetime(date) => date.to_string(),
    };
    Node::Scalar(Text { value: text, place })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn places_are_bytes() {
        let text = "# é\n[pools.shop]\npool_mode = \"session\"\n[pools.shop.users.0]\nusername = 'ü'\n";
        let (root, error) = load(text);
        assert!(error.is_none());
        let mode = root.at(&["pools", "shop", "pool_mode"]).unwrap();
        assert_eq!(&text[mode.place()], "\"session\"");
        assert_eq!(root.str_at(&["pools", "shop", "users", "0", "username"]), Some("ü"));
        let (root, error) = load("a = 1\nb = \nc = 2\n");
        assert!(error.is_some());
        assert_eq!(root.str_at(&["a"]), Some("1"));
        load(&"[".repeat(4000));
        load(&format!("x = {}", "[".repeat(4000)));
    }
}
