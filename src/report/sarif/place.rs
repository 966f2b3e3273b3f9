//! Places in SARIF.

use crate::source::{SourceFile, Sources, Span};
use serde_json::{Value, json};

/// A location with one line as its region: code scanning shows an alert in a pull request only if all its lines are in
/// the change.
pub(super) fn location(sources: &Sources, span: Span) -> Value {
    let file = sources.get(span.file);
    json!({
        "physicalLocation": { "artifactLocation": artifact(&file.path), "region": region(file, span, true) },
    })
}

/// The region of a span; with `one_line` only as far as its first line goes. Columns count code points from 1, the end is
/// exclusive.
pub(super) fn region(file: &SourceFile, span: Span, one_line: bool) -> Value {
    let (line, column) = file.line_column(span.start);
    let mut end = span.end.max(span.start);
    if one_line {
        let line_end = u32::try_from(file.line_range(line).end).unwrap_or(u32::MAX);
        end = end.min(line_end).max(span.start);
    }
    let (end_line, mut end_column) = file.line_column(end);
    if one_line && end_column <= column {
        // An empty region would not be shown.
        end_column = column + 1;
    }
    json!({ "startLine": line, "startColumn": column, "endLine": end_line, "endColumn": end_column })
}

/// A file, relative to the root of the repository.
pub(super) fn artifact(path: &str) -> Value {
    json!({ "uri": uri(path), "uriBaseId": "%SRCROOT%" })
}

/// A relative path as URI reference: percent-encoded but for unreserved characters and `/`.
pub(super) fn uri(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.trim_start_matches("./").trim_start_matches('/').bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/@+".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::uri;

    #[test]
    fn paths_are_encoded() {
        assert_eq!(uri("./a b/c#d%é:x.rs"), "a%20b/c%23d%25%C3%A9%3Ax.rs");
    }
}
