//! Finds the pooler configurations of a repository: files of their own, and texts inside deployment files.

use std::ops::Range;

use super::context::{Context, Kind, kind};
use super::drafts::Block;
use super::facts::Software;
use super::files::{join, parent, span};
use super::template::Lookup;
use super::tree::Node;
use super::{odyssey, pgbouncer, pgcat};
use crate::source::{FileId, SourceFile, Span};

/// A pooler configuration that stands in a file of its own or inside another file.
pub(super) struct Source {
    pub software: Software,
    pub file: FileId,
    pub range: Range<usize>,
    pub whole: bool,
    pub used: bool,
}

/// All of them, in order of path and place.
pub(super) fn find(context: &Context<'_>) -> Vec<Source> {
    let mut sources = Vec::new();
    for file in context.files.iter() {
        let whole = 0..file.text.len();
        let mut push = |software, range: Range<usize>, whole| {
            sources.push(Source { software, file: file.id, range, whole, used: false });
        };
        match kind(&file.path) {
            Kind::Other if file.text.len() <= super::files::MAX_BYTES => {
                let script = is_script(&file.path);
                let here = heredoc(&file.text, whole.clone());
                if pgbouncer::is_ini(&file.text) && (here.is_some() || !script) {
                    push(Software::PgBouncer, here.unwrap_or(whole), true);
                } else if !script && odyssey::is_conf(&file.text) {
                    push(Software::Odyssey, whole, true);
                }
            }
            Kind::Toml => {
                for root in context.trees(file.id) {
                    if pgcat::is_pgcat(root) {
                        push(Software::PgCat, whole.clone(), true);
                    } else if pgcat::is_pgdog(root) {
                        push(Software::PgDog, whole.clone(), true);
                    }
                }
            }
            Kind::Yaml => {
                for root in context.trees(file.id) {
                    inline(root, 0, &mut |text, place| {
                        if pgbouncer::is_ini(text) {
                            push(Software::PgBouncer, heredoc(&file.text, place.clone()).unwrap_or(place), false);
                        } else if text.contains("[pools.") && pgcat::is_pgcat(&super::toml_tree::load(text).0) {
                            push(Software::PgCat, place, false);
                        } else if odyssey::is_conf(text) && text.contains("storage") {
                            push(Software::Odyssey, place, false);
                        }
                    });
                }
            }
            _ => {}
        }
    }
    sources
}

/// Files that write a configuration by running commands.
pub(super) fn is_script(path: &str) -> bool {
    let name = super::context::plain_name(path);
    name.ends_with(".sh") || name.ends_with(".bash") || name.starts_with("dockerfile") || name.ends_with(".dockerfile")
}

/// The text between `<<WORD` and the line `WORD` that holds a `[pgbouncer]` section, else one with `[databases]`.
fn heredoc(text: &str, range: Range<usize>) -> Option<Range<usize>> {
    let body = text.get(range.clone())?;
    let mut open: Option<(&str, usize)> = None;
    let mut found: Option<Range<usize>> = None;
    let mut databases = None;
    let mut at = range.start;
    for line in body.split_inclusive('\n') {
        let start = at;
        at += line.len();
        let trimmed = line.trim();
        match open {
            Some((word, from)) if trimmed == word => {
                let inner = text.get(from..start).unwrap_or("");
                let section = |name: &str| inner.lines().any(|line| line.trim() == name);
                if section("[pgbouncer]") {
                    found = found.or(Some(from..start));
                } else if section("[databases]") {
                    databases = databases.or(Some(from..start));
                }
                open = None;
            }
            Some(_) => {}
            None => {
                let word = line.split_once("<<").map(|(_, rest)| rest.trim_start_matches(['-', '\'', '"', '\\', ' ']));
                let word =
                    word.map(|word| word.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or(""));
                open = word.filter(|word| !word.is_empty()).map(|word| (word, at));
            }
        }
    }
    found.or(databases)
}

/// Reads one, filling its placeholders by `lookup`.
pub(super) fn read(context: &Context<'_>, source: &Source, lookup: &dyn Lookup) -> Option<Block> {
    let file = context.file(source.file)?;
    Some(match source.software {
        Software::Odyssey => odyssey::read(file, source.range.clone(), context.files, lookup),
        Software::PgCat if source.whole => pgcat::pgcat(file, context.trees(file.id).first()?, lookup),
        Software::PgCat => inline_pgcat(file, source.range.clone(), lookup)?,
        Software::PgDog => {
            let users = context.files.get(&join(parent(&file.path), "users.toml"));
            let users = users.and_then(|users| Some((users, context.trees(users.id).first()?)));
            pgcat::pgdog(file, context.trees(file.id).first()?, users, lookup)
        }
        _ => pgbouncer::read(file, source.range.clone(), context.files, lookup),
    })
}

/// Calls `each` with every scalar of several lines and its place.
fn inline(node: &Node, depth: usize, each: &mut dyn FnMut(&str, Range<usize>)) {
    match node {
        _ if depth > 64 => {}
        Node::Scalar(text) if text.value.contains('\n') => each(&text.value, text.place.clone()),
        Node::Scalar(_) => {}
        Node::List(items, _) => items.iter().for_each(|item| inline(item, depth + 1, each)),
        Node::Map(entries, _) => entries.iter().for_each(|(_, value)| inline(value, depth + 1, each)),
    }
}

/// A `pgcat.toml` inside a block scalar: read as TOML, with the places moved to where the text stands.
fn inline_pgcat(file: &SourceFile, range: Range<usize>, lookup: &dyn Lookup) -> Option<Block> {
    let raw = file.text.get(range.clone())?;
    let header = raw.find('\n')? + 1;
    let text: String = std::iter::repeat_n(' ', header).chain(raw[header..].chars()).collect();
    let (root, _) = super::toml_tree::load(&text);
    let mut block = pgcat::pgcat(file, &root, lookup);
    let moved = |at: Span| span(file, at.start as usize + range.start..at.end as usize + range.start);
    block.place = moved(block.place);
    block.routes.iter_mut().for_each(|draft| draft.setting.at = moved(draft.setting.at));
    Some(block)
}
