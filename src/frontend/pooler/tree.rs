//! The common tree of YAML and TOML files: scalars, lists and maps with byte places.

use std::ops::Range;

/// A scalar with the bytes it stands on.
#[derive(Clone, Debug, PartialEq, Default)]
pub(super) struct Text {
    /// Its value, after unescaping; template actions are kept as written.
    pub value: String,
    /// Bytes in the file.
    pub place: Range<usize>,
}

/// One node.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    /// String, number, boolean or null, as text.
    Scalar(Text),
    /// Sequence.
    List(Vec<Node>, Range<usize>),
    /// Mapping in file order; a key may stand twice (the branches of a template).
    Map(Vec<(Text, Node)>, Range<usize>),
}

impl Node {
    /// Bytes of the node.
    pub(super) fn place(&self) -> Range<usize> {
        match self {
            Node::Scalar(text) => text.place.clone(),
            Node::List(_, place) | Node::Map(_, place) => place.clone(),
        }
    }

    /// Moves all places by `base` bytes. Depth is bounded by the readers.
    pub(super) fn shift(&mut self, base: usize) {
        let moved = |place: &mut Range<usize>| *place = place.start + base..place.end + base;
        match self {
            Node::Scalar(text) => moved(&mut text.place),
            Node::List(items, place) => {
                moved(place);
                items.iter_mut().for_each(|item| item.shift(base));
            }
            Node::Map(entries, place) => {
                moved(place);
                for (key, value) in entries {
                    moved(&mut key.place);
                    value.shift(base);
                }
            }
        }
    }

    /// Entries of a map; none for other nodes.
    pub(super) fn entries(&self) -> &[(Text, Node)] {
        match self {
            Node::Map(entries, _) => entries,
            _ => &[],
        }
    }

    /// Items of a list; a single scalar counts as a list of one.
    pub(super) fn items(&self) -> &[Node] {
        match self {
            Node::List(items, _) => items,
            Node::Scalar(text) if !text.value.is_empty() => std::slice::from_ref(self),
            _ => &[],
        }
    }

    /// First value under a key.
    pub(super) fn get(&self, key: &str) -> Option<&Node> {
        self.entries().iter().find(|(name, _)| name.value == key).map(|(_, node)| node)
    }

    /// Value under a path of keys.
    pub(super) fn at(&self, path: &[&str]) -> Option<&Node> {
        path.iter().try_fold(self, |node, key| node.get(key))
    }

    /// The scalar, if it is one.
    pub(super) fn text(&self) -> Option<&Text> {
        match self {
            Node::Scalar(text) => Some(text),
            _ => None,
        }
    }

    /// Value of the scalar under a path of keys.
    pub(super) fn str_at(&self, path: &[&str]) -> Option<&str> {
        self.at(path)?.text().map(|text| text.value.as_str())
    }
}
