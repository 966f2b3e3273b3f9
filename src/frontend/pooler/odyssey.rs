//! `odyssey.conf`: `pool "mode"` for each database x user (Odyssey documentation, configuration/rules).

use std::ops::Range;

use super::drafts::{Block, Draft, Setting};
use super::facts::{Mode, Software};
use super::files::{Files, parent, part_unread, span};
use super::template::{Lookup, expand};
use crate::source::{FileId, SourceFile};

/// Blocks nest three deep in Odyssey; more is not its configuration.
const MAX_DEPTH: usize = 16;
const MAX_INCLUDES: usize = 10;

/// True if the text is an Odyssey configuration: a `pool "mode"` statement in it, or a storage and a database block.
pub(super) fn is_conf(text: &str) -> bool {
    let mut storage = false;
    let mut database = false;
    for line in text.lines().map(str::trim) {
        let mut words = line.split_whitespace();
        match (words.next(), words.next()) {
            (Some("pool"), Some(word)) if Mode::of(word) != Mode::Unknown => return true,
            (Some("storage"), Some(name)) if name.starts_with('"') => storage = true,
            (Some("database"), Some(_)) if line.contains('{') => database = true,
            _ => {}
        }
    }
    storage && database
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Word(String),
    Open,
    Close,
}

fn tokens(text: &str) -> Vec<(Token, Range<usize>)> {
    let mut out = Vec::new();
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            '#' => while chars.next_if(|(_, c)| *c != '\n').is_some() {},
            '{' if !text[at..].starts_with("{{") => out.push((Token::Open, at..at + 1)),
            '}' => out.push((Token::Close, at..at + 1)),
            '"' => {
                let body = at + 1;
                let mut end = body;
                for (next, c) in chars.by_ref() {
                    end = next;
                    if c == '"' {
                        break;
                    }
                }
                let stop = (end + 1).min(text.len()).max(end);
                out.push((Token::Word(text.get(body..end).unwrap_or("").to_string()), at..stop));
            }
            c if c.is_whitespace() => {}
            _ => {
                let mut end = at + c.len_utf8();
                while let Some((next, c)) = chars.next_if(|(_, c)| !c.is_whitespace() && !"{}\"#".contains(*c)) {
                    end = next + c.len_utf8();
                }
                out.push((Token::Word(text[at..end].to_string()), at..end));
            }
        }
    }
    out
}

struct Rule {
    database: Option<String>,
    user: Option<String>,
    setting: Option<Setting>,
    discards: bool,
    internal: bool,
    head: Range<usize>,
}

struct Reader<'a> {
    files: &'a Files<'a>,
    lookup: &'a dyn Lookup,
    block: Block,
    rules: Vec<(FileId, Rule)>,
    including: Vec<FileId>,
}

/// Reads the configuration in `range` of `file`.
pub(super) fn read(file: &SourceFile, range: Range<usize>, files: &Files<'_>, lookup: &dyn Lookup) -> Block {
    let place = range.start..range.start;
    let block = Block::new(Software::Odyssey, span(file, place));
    let mut reader = Reader { files, lookup, block, rules: Vec::new(), including: Vec::new() };
    reader.text(file, range);
    reader.finish()
}

impl Reader<'_> {
    fn text(&mut self, file: &SourceFile, range: Range<usize>) {
        self.including.push(file.id);
        if !self.block.files.contains(&file.id) {
            self.block.files.push(file.id);
        }
        let base = range.start;
        let tokens = tokens(file.text.get(range).unwrap_or(""));
        let place = |at: &Range<usize>| base + at.start..base + at.end;
        // the heads of the open blocks: kind, name
        let mut open: Vec<(String, Option<String>)> = Vec::new();
        let mut words: Vec<(String, Range<usize>)> = Vec::new();
        let mut at = 0;
        while let Some((token, here)) = tokens.get(at) {
            at += 1;
            match token {
                Token::Open => {
                    let kind = words.first().map_or(String::new(), |(word, _)| word.to_ascii_lowercase());
                    let name = words.get(1).map(|(word, _)| expand(word, self.lookup));
                    let head = words.first().map_or(here.clone(), |(_, first)| first.start..here.start);
                    if kind == "user" {
                        let database =
                            open.iter().rev().find(|(kind, _)| kind == "database").and_then(|(_, name)| name.clone());
                        self.rules.push((file.id, rule(database, name.clone(), place(&head))));
                    }
                    if kind == "database" && self.block.place.start == self.block.place.end {
                        self.block.place = span(file, place(&head));
                    }
                    open.push((kind, name));
                    words.clear();
                    if open.len() > MAX_DEPTH {
                        break;
                    }
                }
                Token::Close => {
                    open.pop();
                    words.clear();
                }
                Token::Word(word) => {
                    words.push((word.clone(), here.clone()));
                    if words.len() == 2 {
                        let (key, first) = words[0].clone();
                        let whole = place(&(first.start..here.end));
                        let block = open.last().map_or(String::new(), |(kind, _)| kind.clone());
                        self.statement(file, &block, &key, &expand(word, self.lookup), whole);
                        if !opens_soon(&tokens[at..]) {
                            words.clear();
                        }
                    }
                }
            }
        }
        self.including.pop();
    }

    fn statement(&mut self, file: &SourceFile, block: &str, key: &str, value: &str, place: Range<usize>) {
        let key = key.to_ascii_lowercase();
        match (block, key.as_str()) {
            ("", "include") => self.include(file, value, place),
            ("listen", "port") => self.block.listens = value.parse().ok(),
            ("storage", "host") => self.block.add_upstream(value),
            ("user", _) => {
                let Some((_, rule)) = self.rules.last_mut() else { return };
                match key.as_str() {
                    "pool" => {
                        rule.setting = Some(Setting { mode: Mode::of(value), at: span(file, place), defaulted: false })
                    }
                    "pool_discard" => rule.discards = value != "no",
                    "pool_smart_discard" => rule.discards |= value == "yes",
                    "role" => rule.internal |= matches!(value, "admin" | "stat"),
                    "storage" => rule.internal |= value == "local",
                    "pool_routing" => rule.internal |= value == "internal",
                    _ => {}
                }
            }
            _ => {}
        }
    }

    fn include(&mut self, file: &SourceFile, path: &str, place: Range<usize>) {
        match self.files.near(parent(&file.path), path) {
            Some(next) if self.including.contains(&next.id) || self.including.len() > MAX_INCLUDES => {}
            Some(next) => self.text(next, 0..next.text.len()),
            None => self.block.problems.push(part_unread(
                file,
                place,
                format!("`include \"{path}\"`: no such file in the repository"),
            )),
        }
    }

    fn finish(mut self) -> Block {
        for (file, rule) in &self.rules {
            // the console and the watchdog are no routes of the application
            if rule.internal || rule.database.as_deref() == Some("console") {
                continue;
            }
            let at = crate::source::Span::new(*file, rule.head.start, rule.head.end);
            // `pool` has no default: Odyssey refuses to start without it
            let setting = rule.setting.unwrap_or(Setting { mode: Mode::Unknown, at, defaulted: true });
            let mut draft = Draft::all(setting);
            draft.database = rule.database.clone();
            draft.user = rule.user.clone();
            draft.dropped = rule.discards && setting.mode != Mode::Session;
            self.block.routes.push(draft);
        }
        self.block
    }
}

fn rule(database: Option<String>, user: Option<String>, head: Range<usize>) -> Rule {
    let named = |name: Option<String>| name.filter(|name| name != "default");
    // `pool_discard` is on by default: DISCARD ALL when the connection goes back
    Rule { database: named(database), user: named(user), setting: None, discards: true, internal: false, head }
}

/// A block head is a word, a name and up to two more names (`user "app" "10.0.0.0/8" {`).
fn opens_soon(rest: &[(Token, Range<usize>)]) -> bool {
    rest.iter().take(3).position(|(token, _)| *token == Token::Open).is_some_and(|open| {
        rest[..open].iter().all(|(token, _)| matches!(token, Token::Word(word) if !is_plain_key(word)))
    })
}

/// Keys and block words are bare lower-case words; the names in a head are quoted or addresses.
fn is_plain_key(word: &str) -> bool {
    word != "default" && word.chars().all(|c| c.is_ascii_lowercase() || c == '_') && KEYS.contains(&word)
}

const KEYS: [&str; 9] =
    ["user", "database", "storage", "group", "listen", "pool", "watchdog", "password", "authentication"];
