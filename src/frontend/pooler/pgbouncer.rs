//! `pgbouncer.ini`: `pool_mode` of the whole, of databases and of users (pgbouncer(5)).

use std::ops::Range;

use super::drafts::{Block, Draft, Setting};
use super::facts::{Mode, Software};
use super::files::{Files, parent, part_unread, span};
use super::ini::{Line, connect_string, lines};
use super::template::{Lookup, expand};
use crate::source::{FileId, SourceFile, Span};

/// PgBouncer's own limit (libusual `cfparser.c`, `MAX_INCLUDE`).
const MAX_INCLUDES: usize = 10;

struct Database {
    name: String,
    setting: Option<Setting>,
    forced_user: Option<String>,
}

struct Reader<'a> {
    files: &'a Files<'a>,
    lookup: &'a dyn Lookup,
    block: Block,
    global: Option<Setting>,
    databases: Vec<Database>,
    users: Vec<(String, Setting)>,
    reset_always: bool,
    resets_locks: bool,
    incomplete: bool,
    including: Vec<FileId>,
    section: String,
}

/// Reads the ini text in `range` of `file`, with what it includes.
pub(super) fn read(file: &SourceFile, range: Range<usize>, files: &Files<'_>, lookup: &dyn Lookup) -> Block {
    let head = header_place(file, &range);
    let mut reader = Reader {
        files,
        lookup,
        block: Block::new(Software::PgBouncer, head),
        global: None,
        databases: Vec::new(),
        users: Vec::new(),
        reset_always: false,
        resets_locks: true,
        incomplete: false,
        including: Vec::new(),
        section: String::new(),
    };
    reader.text(file, range);
    reader.finish()
}

/// True if the text has a section that only pgbouncer.ini has.
pub(super) fn is_ini(text: &str) -> bool {
    let mut databases = false;
    for line in text.lines().map(str::trim) {
        match line {
            "[pgbouncer]" => return true,
            "[databases]" => databases = true,
            _ if line.starts_with('[') => {}
            _ => {
                let value = line.split_once('=').map_or("", |(_, value)| value);
                if databases && (value.contains("host=") || value.contains("dbname=") || value.contains("pool_mode=")) {
                    return true;
                }
            }
        }
    }
    false
}

/// The `[pgbouncer]` line, or the first line.
fn header_place(file: &SourceFile, range: &Range<usize>) -> Span {
    let text = file.text.get(range.clone()).unwrap_or("");
    let at = text.find("[pgbouncer]").or_else(|| text.find("[databases]")).or_else(|| text.find('[')).unwrap_or(0);
    let start = range.start + at;
    let len = text[at..].lines().next().map_or(0, |line| line.trim_end().len());
    span(file, start..start + len)
}

impl Reader<'_> {
    fn text(&mut self, file: &SourceFile, range: Range<usize>) {
        self.including.push(file.id);
        if !self.block.files.contains(&file.id) {
            self.block.files.push(file.id);
        }
        for line in lines(&file.text, range) {
            match line {
                Line::Section(name, _) => self.section = name.to_ascii_lowercase(),
                Line::Setting { key, value, place } => self.setting(file, &key, &value, place),
                Line::Include(path, place) => self.include(file, &path, place),
                Line::Bad(place) => {
                    self.block.problems.push(part_unread(
                        file,
                        place,
                        "line of a pgbouncer configuration not understood",
                    ));
                }
            }
        }
        self.including.pop();
    }

    fn include(&mut self, file: &SourceFile, path: &str, place: Range<usize>) {
        let path = expand(path, self.lookup);
        let message = match self.files.near(parent(&file.path), &path) {
            Some(next) if self.including.contains(&next.id) => format!("`%include {path}` goes round in a circle"),
            Some(_) if self.including.len() > MAX_INCLUDES => format!("`%include {path}` is nested too deeply"),
            Some(next) => return self.text(next, 0..next.text.len()),
            None => format!("`%include {path}`: no such file in the repository"),
        };
        self.incomplete = true;
        self.block.problems.push(part_unread(file, place, message));
    }

    fn setting(&mut self, file: &SourceFile, key: &str, value: &str, place: Range<usize>) {
        let at = span(file, place.clone());
        let value = expand(value, self.lookup);
        match self.section.as_str() {
            "pgbouncer" => match key.to_ascii_lowercase().as_str() {
                "pool_mode" => self.global = Some(self.mode(file, &value, at, place)),
                "server_reset_query_always" => self.reset_always = is_on(&value),
                "server_reset_query" => self.resets_locks = drops_locks(&value),
                "listen_port" => self.block.listens = value.parse().ok(),
                _ => {}
            },
            "databases" => self.database(file, key, &value, at, place),
            "users" => {
                let pairs = connect_string(&value);
                if let Some((_, mode)) = pairs.iter().find(|(name, _)| name == "pool_mode") {
                    let setting = self.mode(file, mode, at, place);
                    self.users.push((expand(key, self.lookup), setting));
                }
            }
            _ => {}
        }
    }

    fn database(&mut self, file: &SourceFile, key: &str, value: &str, at: Span, place: Range<usize>) {
        let mut database = Database { name: expand(key, self.lookup), setting: None, forced_user: None };
        for (name, value) in connect_string(value) {
            match name.as_str() {
                "pool_mode" => database.setting = Some(self.mode(file, &value, at, place.clone())),
                "user" => database.forced_user = Some(value),
                "host" => self.block.add_upstream(&value),
                _ => {}
            }
        }
        self.databases.push(database);
    }

    fn mode(&mut self, file: &SourceFile, word: &str, at: Span, place: Range<usize>) -> Setting {
        let mode = Mode::of(word);
        if mode == Mode::Unknown && super::template::is_known(word) {
            let message = format!("`{word}` is no pool mode (a comment behind a value belongs to the value)");
            self.block.problems.push(part_unread(file, place, message));
        }
        Setting { mode, at, defaulted: false }
    }

    fn finish(mut self) -> Block {
        let dropped = self.reset_always && self.resets_locks;
        let place = self.block.place;
        // main.c: `pool_mode` is `session` when absent
        let global = self.global.unwrap_or(Setting {
            mode: if self.incomplete { Mode::Unknown } else { Mode::Session },
            at: place,
            defaulted: true,
        });
        let user_setting =
            |user: &str| self.users.iter().rev().find(|(name, _)| name == user).map(|(_, setting)| *setting);
        let mut routes = Vec::new();
        let everybody = self.databases.is_empty()
            || self.incomplete
            || self.databases.iter().any(|d| !super::template::is_known(&d.name));
        let mut any = everybody;
        for database in &self.databases {
            let setting = database.forced_user.as_deref().and_then(user_setting).or(database.setting).unwrap_or(global);
            let name = (database.name != "*").then(|| database.name.clone());
            any |= name.is_none();
            let mut draft = Draft::all(setting);
            draft.forced_user = database.forced_user.clone();
            draft.dropped = dropped && setting.mode != Mode::Session;
            draft.database = name;
            routes.retain(|known: &Draft| known.database != draft.database);
            routes.push(draft);
        }
        if any && !routes.iter().any(|route| route.database.is_none()) {
            let mut draft = Draft::all(global);
            draft.dropped = dropped && global.mode != Mode::Session;
            routes.push(draft);
        }
        for (user, setting) in &self.users {
            let mut draft = Draft::all(*setting);
            draft.user = Some(user.clone());
            draft.dropped = dropped && setting.mode != Mode::Session;
            routes.retain(|known| known.user != draft.user);
            routes.push(draft);
        }
        self.block.routes = routes;
        self.block
    }
}

/// `server_reset_query_always = 1` (an integer in pgbouncer(5); container variables also say `true`).
pub(super) fn is_on(value: &str) -> bool {
    matches!(value.trim().trim_matches(['"', '\'']).to_ascii_lowercase().as_str(), "1" | "true" | "yes" | "on")
}

/// `DISCARD ALL` includes `pg_advisory_unlock_all()` (PostgreSQL manual, DISCARD).
pub(super) fn drops_locks(query: &str) -> bool {
    let query = query.to_ascii_lowercase();
    query.contains("discard all") || query.contains("pg_advisory_unlock_all")
}
