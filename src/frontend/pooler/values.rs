//! Pool modes in other YAML and TOML: Helm values, Ansible variables, operator settings. A setting counts where its own key or a
//! key around it names a pooler.

use std::ops::Range;

use super::context::Context;
use super::drafts::{Block, Draft, Setting};
use super::facts::{Mode, Software};
use super::files::{parent, span};
use super::pgbouncer::{drops_locks, is_on};
use super::services::software_word;
use super::template::{Lookup, expand};
use super::tree::{Node, Text};
use crate::source::SourceFile;

const MAX_DEPTH: usize = 24;

/// The poolers that a tree sets, with the key that names each.
pub(super) fn read(context: &Context<'_>, file: &SourceFile, root: &Node) -> Vec<(Block, String)> {
    let lookup = context.lookup(parent(&file.path));
    let mut walk = Walk { context, file, lookup: &lookup, found: Vec::new() };
    walk.node(root, &mut Vec::new());
    walk.found
}

struct Walk<'a> {
    context: &'a Context<'a>,
    file: &'a SourceFile,
    lookup: &'a dyn Lookup,
    found: Vec<(Block, String)>,
}

impl Walk<'_> {
    fn node(&mut self, node: &Node, path: &mut Vec<String>) {
        if path.len() > MAX_DEPTH || is_off(node) {
            return;
        }
        match node {
            Node::Scalar(_) => {}
            Node::List(items, _) => items.iter().for_each(|item| self.node(item, path)),
            Node::Map(entries, _) => {
                let named = ["name", "key"].iter().find_map(|key| node.get(key)).and_then(Node::text);
                if let (Some(name), Some(value)) = (named, node.get("value").and_then(Node::text)) {
                    self.setting(name, value, node, path);
                }
                for (key, value) in entries {
                    if let Some(text) = value.text() {
                        self.setting(key, text, node, path);
                    }
                    path.push(key.value.clone());
                    self.node(value, path);
                    path.pop();
                }
            }
        }
    }

    /// `key: text` in `around`; counts if the key is a mode's and a pooler is named.
    fn setting(&mut self, key: &Text, text: &Text, around: &Node, path: &[String]) {
        let flat: String =
            key.value.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
        let is_mode = flat.ends_with("poolmode")
            || flat.ends_with("poolermode")
            || (flat == "mode" && path.last().is_some_and(|last| last.to_ascii_lowercase().ends_with("pooler")));
        if !is_mode || self.context.is_used_value(self.file.id, text.place.start) {
            return;
        }
        let named = path
            .iter()
            .rev()
            .chain([&key.value])
            .find_map(|key| Some((software_word(&key.to_ascii_lowercase())?, key.clone())));
        let pooler = || {
            let word = path.iter().rev().chain([&key.value]).find(|key| key.to_ascii_lowercase().contains("pooler"))?;
            Some((Software::PgBouncer, word.clone()))
        };
        let file = || {
            let software = software_word(&self.file.path.to_ascii_lowercase())?;
            Some((software, software.name().to_string()))
        };
        let Some((software, name)) = named.or_else(pooler).or_else(file) else { return };
        let mode = Mode::of(&expand(&text.value, self.lookup));
        // a word that is no mode: another kind of pool
        if mode == Mode::Unknown && super::template::is_known(&expand(&text.value, self.lookup)) {
            return;
        }
        let place: Range<usize> = key.place.start.min(text.place.start)..key.place.end.max(text.place.end);
        let setting = Setting { mode, at: span(self.file, place), defaulted: false };
        let mut block = Block::new(software, setting.at);
        let mut draft = Draft::all(setting);
        let other =
            |names: &[&str]| names.iter().find_map(|name| around.str_at(&[name])).map(|text| expand(text, self.lookup));
        let always = other(&[
            "server_reset_query_always",
            "serverResetQueryAlways",
            "SERVER_RESET_QUERY_ALWAYS",
            "PGBOUNCER_SERVER_RESET_QUERY_ALWAYS",
        ]);
        let query = other(&["server_reset_query", "serverResetQuery", "SERVER_RESET_QUERY"]);
        draft.dropped = mode != Mode::Session
            && always.is_some_and(|value| is_on(&value))
            && query.is_none_or(|query| drops_locks(&query));
        block.routes.push(draft);
        self.found.push((block, name));
    }
}

/// A part that is switched off.
fn is_off(node: &Node) -> bool {
    ["enabled", "enable", "create"].iter().any(|key| node.str_at(&[key]).is_some_and(|value| value == "false"))
}
