//! YAML to [`Node`] trees: every document of a file, anchors and merge keys resolved, template actions tolerated.

use std::collections::BTreeMap;
use std::ops::Range;

use saphyr_parser::{Event, Parser, ScalarStyle};

use super::tree::{Node, Text};

/// Deeper nesting, aliases counted in, is cut off.
const MAX_DEPTH: usize = 64;
/// Nodes of one file, aliases counted at every use: a bound against documents that multiply themselves by anchors.
const MAX_NODES: usize = 100_000;

/// What a file gave.
#[derive(Default)]
pub(super) struct Loaded {
    /// Its documents; the last may be incomplete if there is an error.
    pub documents: Vec<Node>,
    /// The first error, with the byte where it was seen.
    pub error: Option<(usize, String)>,
}

struct Frame {
    map: bool,
    anchor: usize,
    start: usize,
    key: Option<Text>,
    items: Vec<Node>,
    entries: Vec<(Text, Node)>,
    depth: usize,
    size: usize,
}

struct Anchored {
    node: Node,
    depth: usize,
    size: usize,
}

struct Builder<'a> {
    /// The text as it is in the file.
    raw: &'a str,
    /// Byte offset of each char of the masked text.
    bytes: Vec<usize>,
    stack: Vec<Frame>,
    anchors: BTreeMap<usize, Anchored>,
    documents: Vec<Node>,
    budget: usize,
    overflow: bool,
}

/// Reads all documents of `text`.
pub(super) fn load(text: &str) -> Loaded {
    let masked = mask(text);
    let loaded = parse(text, &masked);
    let Some((at, _)) = loaded.error else { return loaded };
    // a closing bracket may stand under the key that opened the list in every other reader of YAML
    let Some(joined) = join_brackets(&masked) else { return loaded };
    let again = parse(text, &joined);
    if again.error.as_ref().is_none_or(|(later, _)| *later > at) { again } else { loaded }
}

fn parse(text: &str, masked: &str) -> Loaded {
    let mut bytes: Vec<usize> = masked.char_indices().map(|(at, _)| at).collect();
    bytes.push(masked.len());
    let mut builder = Builder {
        raw: text,
        bytes,
        stack: Vec::new(),
        anchors: BTreeMap::new(),
        documents: Vec::new(),
        budget: MAX_NODES,
        overflow: false,
    };
    let mut error = None;
    let mut parser = Parser::new_from_str(masked);
    while let Some(event) = parser.next_event() {
        match event {
            Ok((Event::StreamEnd, _)) => break,
            Ok((event, span)) => builder.event(event, span.start.index(), span.end.index()),
            Err(failure) => {
                error = Some((builder.byte(failure.marker().index()), failure.info().to_string()));
                break;
            }
        }
        if builder.overflow {
            error = Some((0, "too many nodes or aliases".to_string()));
            break;
        }
    }
    while !builder.stack.is_empty() {
        builder.close(text.len());
    }
    Loaded { documents: builder.documents, error }
}

/// Puts brackets that begin a line on the line before, without moving a byte; a comment there is blanked.
fn join_brackets(text: &str) -> Option<String> {
    let mut out = text.as_bytes().to_vec();
    let mut changed = false;
    let mut start = 0;
    let mut before = 0..0;
    for line in text.split_inclusive('\n') {
        let end = start + line.len();
        if line.trim_start().starts_with([']', '}']) && !before.is_empty() {
            changed = true;
            let previous = &text[before.clone()];
            let comment = if previous.trim_start().starts_with('#') { Some(0) } else { previous.find(" #") };
            if let Some(comment) = comment {
                fill(&mut out[before.start + comment..before.end], b' ');
            }
            for byte in &mut out[before.start..before.end] {
                if matches!(*byte, b'\n' | b'\r') {
                    *byte = b' ';
                }
            }
        }
        before = start..end;
        start = end;
    }
    // only ASCII bytes and whole comments were replaced
    changed.then(|| String::from_utf8_lossy(&out).into_owned())
}

impl Builder<'_> {
    fn byte(&self, index: usize) -> usize {
        self.bytes.get(index).or(self.bytes.last()).copied().unwrap_or(0)
    }

    fn event(&mut self, event: Event<'_>, start: usize, end: usize) {
        let place = self.byte(start)..self.byte(end);
        match event {
            Event::Scalar(value, style, anchor, _) => {
                let text = self.scalar(value.into_owned(), style, place);
                self.push(Node::Scalar(text), 1, 1, anchor, 1);
            }
            Event::SequenceStart(anchor, _) => self.open(false, anchor, place.start),
            Event::MappingStart(anchor, _) => self.open(true, anchor, place.start),
            Event::SequenceEnd | Event::MappingEnd => self.close(place.end),
            Event::Alias(anchor) => {
                let (node, depth, size) = match self.anchors.get(&anchor) {
                    Some(known) if known.size <= self.budget => (known.node.clone(), known.depth, known.size),
                    Some(_) => {
                        self.overflow = true;
                        return;
                    }
                    None => (Node::Scalar(Text { value: String::new(), place }), 1, 1),
                };
                self.push(node, depth, size, 0, size);
            }
            _ => {}
        }
    }

    /// The value as read, but as written where a template action was masked.
    fn scalar(&self, value: String, style: ScalarStyle, place: Range<usize>) -> Text {
        let raw = self.raw.get(place.clone()).unwrap_or("");
        if !raw.contains("{{") && !raw.contains("{%") {
            return Text { value, place };
        }
        let value = match style {
            ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted => {
                raw.get(1..raw.len().saturating_sub(1)).unwrap_or("").to_string()
            }
            ScalarStyle::Plain => raw.trim().to_string(),
            ScalarStyle::Literal | ScalarStyle::Folded => {
                raw.split_once('\n').map_or(String::new(), |(_, body)| body.to_string())
            }
        };
        Text { value, place }
    }

    fn open(&mut self, map: bool, anchor: usize, start: usize) {
        let frame = Frame { map, anchor, start, key: None, items: Vec::new(), entries: Vec::new(), depth: 1, size: 1 };
        self.stack.push(frame);
    }

    fn close(&mut self, end: usize) {
        let Some(frame) = self.stack.pop() else { return };
        let place = frame.start..end.max(frame.start);
        let node = if frame.map {
            Node::Map(merged(frame.entries, &mut self.budget), place)
        } else {
            Node::List(frame.items, place)
        };
        self.push(node, frame.depth, frame.size, frame.anchor, 1);
    }

    /// Puts a node into the open container; `new` nodes of its `size` were not counted before.
    fn push(&mut self, mut node: Node, mut depth: usize, mut size: usize, anchor: usize, new: usize) {
        if new > self.budget {
            self.overflow = true;
            return;
        }
        self.budget -= new;
        if depth + self.stack.len() > MAX_DEPTH {
            node = Node::Scalar(Text { value: String::new(), place: node.place() });
            (depth, size) = (1, 1);
        }
        if anchor > 0 && self.budget >= size {
            self.budget -= size;
            self.anchors.insert(anchor, Anchored { node: node.clone(), depth, size });
        }
        let Some(frame) = self.stack.last_mut() else {
            self.documents.push(node);
            return;
        };
        frame.depth = frame.depth.max(depth + 1);
        frame.size += size;
        if !frame.map {
            frame.items.push(node);
            return;
        }
        match frame.key.take() {
            Some(key) => frame.entries.push((key, node)),
            None => {
                frame.key = Some(match node {
                    Node::Scalar(text) => text,
                    other => Text { value: String::new(), place: other.place() },
                });
            }
        }
    }
}

/// Applies `<<`: keys of the merged maps stand behind the map's own (YAML merge key, yaml.org/type/merge.html).
fn merged(entries: Vec<(Text, Node)>, budget: &mut usize) -> Vec<(Text, Node)> {
    if !entries.iter().any(|(key, _)| key.value == "<<") {
        return entries;
    }
    let (merges, mut own): (Vec<_>, Vec<_>) = entries.into_iter().partition(|(key, _)| key.value == "<<");
    for (_, node) in merges {
        let maps = match node {
            Node::List(items, _) => items,
            one => vec![one],
        };
        for map in maps {
            let Node::Map(entries, _) = map else { continue };
            for (key, value) in entries {
                if *budget > 0 && !own.iter().any(|(known, _)| known.value == key.value) {
                    *budget -= 1;
                    own.push((key, value));
                }
            }
        }
    }
    own
}

/// Makes template actions harmless for YAML without moving a byte: lines that hold nothing else become comments, actions inside a
/// line become plain letters.
fn mask(text: &str) -> String {
    if !text.contains("{{") && !text.contains("{%") {
        return text.to_string();
    }
    let mut out = text.as_bytes().to_vec();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let start = at + (line.len() - line.trim_start().len());
        let body = line.trim();
        at += line.len();
        if body.starts_with("{%") || (body.starts_with("{{") && body.ends_with("}}") && !is_value_line(body)) {
            fill(&mut out[start..start + body.len()], b'#');
        }
    }
    let mut from = 0;
    while let Some((start, end)) = next_action(text, from) {
        if out[start] != b'#' {
            let line_break = text[start..end].contains('\n');
            fill(&mut out[start..end], if line_break { b' ' } else { b'T' });
        }
        from = end;
    }
    // only whole actions, which start and end on char boundaries, were replaced, by ASCII
    String::from_utf8_lossy(&out).into_owned()
}

fn fill(bytes: &mut [u8], with: u8) {
    for byte in bytes {
        if *byte != b'\n' && *byte != b'\r' {
            *byte = with;
        }
    }
}

/// `{{ .Values.key }}: value` is a mapping entry, not a directive.
fn is_value_line(body: &str) -> bool {
    body.match_indices("}}").any(|(at, _)| body[at + 2..].trim_start().starts_with(':'))
}

fn next_action(text: &str, from: usize) -> Option<(usize, usize)> {
    let rest = text.get(from..)?;
    let (at, close) = match (rest.find("{{"), rest.find("{%")) {
        (Some(a), Some(b)) if b < a => (b, "%}"),
        (Some(a), _) => (a, "}}"),
        (None, Some(b)) => (b, "%}"),
        (None, None) => return None,
    };
    let end = rest[at..].find(close)?;
    Some((from + at, from + at + end + close.len()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn slice<'a>(text: &'a str, node: &Node) -> &'a str {
        &text[node.place()]
    }

    #[test]
    fn anchors_merges_and_bytes() {
        let text = "# é\nx: &base\n  MODE: transaction\n  A: ü\ny:\n  <<: *base\n  A: own\nz: [*base]\n";
        let loaded = load(text);
        assert!(loaded.error.is_none());
        let root = &loaded.documents[0];
        assert_eq!(root.str_at(&["y", "MODE"]), Some("transaction"));
        assert_eq!(root.str_at(&["y", "A"]), Some("own"));
        assert_eq!(slice(text, root.at(&["y", "MODE"]).unwrap()), "transaction");
        assert_eq!(slice(text, root.at(&["x", "A"]).unwrap()), "ü");
    }

    #[test]
    fn block_scalar_covers_its_lines() {
        let text = "data:\n  pgbouncer.ini: |\n    [pgbouncer]\n    pool_mode = transaction\n  other: 1\n";
        let loaded = load(text);
        let node = loaded.documents[0].at(&["data", "pgbouncer.ini"]).unwrap();
        assert!(slice(text, node).contains("[pgbouncer]\n    pool_mode = transaction"), "{:?}", slice(text, node));
        assert!(!slice(text, node).contains("other"), "{:?}", slice(text, node));
    }

    #[test]
    fn templates_survive() {
        let text = "{{- if .Values.on }}\nenv:\n  - name: POOL_MODE\n    value: {{ .Values.mode | default \"transaction\" | quote }}\n  - name: \"{{ x }}\"\n{{- end }}\n{{ .k }}: v\n";
        let loaded = load(text);
        assert!(loaded.error.is_none(), "{:?}", loaded.error);
        let env = loaded.documents[0].get("env").unwrap().items();
        assert_eq!(env[0].str_at(&["value"]), Some("{{ .Values.mode | default \"transaction\" | quote }}"));
        assert_eq!(env[1].str_at(&["name"]), Some("{{ x }}"));
    }

    #[test]
    fn bombs_and_depth_end() {
        let mut bomb = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
        for i in 1..12 {
            let alias = format!("*a{}", i - 1);
            bomb += &format!("a{i}: &a{i} [{}]\n", [alias.as_str(); 10].join(","));
        }
        assert!(load(&bomb).error.is_some());
        let deep = "[".repeat(5000);
        assert!(load(&deep).error.is_some());
        let chain: String = (1..500).map(|i| format!("- &b{i} {{k: *b{}}}\n", i - 1)).collect();
        load(&format!("- &b0 x\n{chain}"));
    }

    #[test]
    fn brackets_under_their_key() {
        let text = "a:\n  test: [\n      CMD, # é ]\n      x\n  ]\n  b: {\n    c: 1\n  }\n  d: 2\n";
        let loaded = load(text);
        assert!(loaded.error.is_none(), "{:?}", loaded.error);
        assert_eq!(loaded.documents[0].str_at(&["a", "d"]), Some("2"));
        assert_eq!(&text[loaded.documents[0].at(&["a", "d"]).unwrap().place()], "2");
    }

    #[test]
    fn broken_files_keep_what_came_before() {
        let loaded = load("services:\n  pgbouncer:\n    image: edoburu/pgbouncer\n  x: [\n");
        assert!(loaded.error.is_some());
        assert_eq!(loaded.documents[0].str_at(&["services", "pgbouncer", "image"]), Some("edoburu/pgbouncer"));
    }
}
