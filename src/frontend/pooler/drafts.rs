//! Routes while they are read: a pooler's configuration before it is known under which host it answers.

use super::facts::{Mode, Software};
use crate::source::{FileId, Problem, Span};

/// A mode and the setting that gives it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Setting {
    pub mode: Mode,
    pub at: Span,
    pub defaulted: bool,
}

/// A route without its pooler.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Draft {
    pub database: Option<String>,
    pub user: Option<String>,
    pub port: Option<u16>,
    pub forced_user: Option<String>,
    pub setting: Setting,
    pub dropped: bool,
}

impl Draft {
    /// The route for everybody.
    pub(super) fn all(setting: Setting) -> Draft {
        Draft { database: None, user: None, port: None, forced_user: None, setting, dropped: false }
    }
}

/// The configuration of one pooler.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Block {
    pub software: Software,
    /// Where it is set up.
    pub place: Span,
    pub routes: Vec<Draft>,
    /// Hosts of the databases behind it.
    pub upstream: Vec<String>,
    /// Port it listens on.
    pub listens: Option<u16>,
    /// Files it was read from, included ones too.
    pub files: Vec<FileId>,
    pub problems: Vec<Problem>,
}

impl Block {
    pub(super) fn new(software: Software, place: Span) -> Block {
        Block {
            software,
            place,
            routes: Vec::new(),
            upstream: Vec::new(),
            listens: None,
            files: vec![place.file],
            problems: Vec::new(),
        }
    }

    /// Remembers the hosts of a setting such as `h1,h2`, without ports.
    pub(super) fn add_upstream(&mut self, hosts: &str) {
        for host in hosts.split([',', ' ']).map(|host| host.trim_matches(['[', ']', '"'])) {
            let host = host.rsplit_once(':').map_or(host, |(name, _)| name).to_ascii_lowercase();
            if !host.is_empty() && super::template::is_known(&host) && !self.upstream.contains(&host) {
                self.upstream.push(host);
            }
        }
    }
}
