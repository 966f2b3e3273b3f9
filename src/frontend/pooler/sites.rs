//! Connection strings before they are resolved: where they stand in env files, services and configuration trees.

use std::ops::Range;

use super::context::Context;
use super::dsn::{self, Part, Target};
use super::env_file::Var;
use super::services::ServiceVar;
use super::template::{HOLE, Lookup, expand};
use super::tree::{Node, Text};
use crate::source::{SourceFile, Span};

/// Nesting of configuration trees.
const MAX_DEPTH: usize = 32;

/// A connection string at its place.
#[derive(Clone, Debug)]
pub(super) struct Site {
    pub name: String,
    pub at: Span,
    pub target: Option<Target>,
}

/// Names of variables that hold a connection string by convention, for those whose value is a secret.
fn names_dsn(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let database = ["DATABASE", "POSTGRES", "PG_", "DB_", "DIRECT", "MIGRATION"].iter().any(|word| name.contains(word));
    database && ["_URL", "_URI", "_DSN", "CONNECTION_STRING"].iter().any(|ending| name.ends_with(ending))
}

/// The connection strings among the variables of one env file or service: whole ones, and those in parts (`DB_HOST`, `DB_PORT`,
/// `DB_USER`, `DB_NAME`), which bear the name of the host variable.
pub(super) fn of_vars(vars: &[ServiceVar], lookup: &dyn Lookup) -> Vec<Site> {
    let mut sites: Vec<Site> = Vec::new();
    let last = |name: &str| vars.iter().rev().find(|known| known.var.name == name);
    for (index, one) in vars.iter().enumerate() {
        let name = &one.var.name;
        if vars[index + 1..].iter().any(|later| later.var.name == *name) {
            continue;
        }
        let value = one.var.value.as_ref().map(|value| expand(value, lookup));
        match value.as_deref() {
            Some(value) if dsn::is_dsn(value) => sites.push(site(name, one.at(), dsn::parse(value))),
            Some(value) if value == HOLE.to_string() && names_dsn(name) => sites.push(site(name, one.at(), None)),
            None if names_dsn(name) => sites.push(site(name, one.at(), None)),
            Some(value) => {
                let Some(prefix) = name.strip_suffix("HOST").or(name.strip_suffix("HOSTNAME")) else { continue };
                if is_database_prefix(prefix) && !value.is_empty() {
                    let part = |endings: &[&str]| {
                        let found = endings.iter().find_map(|ending| last(&format!("{prefix}{ending}")));
                        found.map(|found| {
                            found.var.value.as_ref().map_or(HOLE.to_string(), |value| expand(value, lookup))
                        })
                    };
                    let target = parts(
                        value,
                        part(&["PORT"]),
                        part(&["USER", "USERNAME"]),
                        part(&["NAME", "DATABASE", "DB", "DBNAME", "DATABASE_NAME"]),
                    );
                    sites.push(site(name, one.at(), Some(target)));
                }
            }
            None => {}
        }
    }
    sites
}

fn is_database_prefix(prefix: &str) -> bool {
    let prefix = prefix.to_ascii_uppercase();
    ["PG", "DB", "DATABASE", "POSTGRES", "SQL"].iter().any(|word| prefix.contains(word)) && !prefix.contains("BOUNCER")
}

fn parts(host: &str, port: Option<String>, user: Option<String>, database: Option<String>) -> Target {
    let of = |text: Option<String>| text.map_or(Part::Absent, |text| Part::of(&text));
    Target {
        hosts: vec![host.to_ascii_lowercase()],
        port: port.and_then(|port| port.parse().ok()),
        database: of(database),
        user: of(user),
        ..Target::default()
    }
}

fn site(name: &str, at: Span, target: Option<Target>) -> Site {
    Site { name: name.to_string(), at, target }
}

/// The connection strings of an env file.
pub(super) fn of_env_file(file: crate::source::FileId, vars: &[Var], lookup: &dyn Lookup) -> Vec<Site> {
    let vars: Vec<ServiceVar> = vars.iter().map(|var| ServiceVar { var: var.clone(), file }).collect();
    of_vars(&vars, lookup)
}

/// The connection strings of a configuration tree, under their dotted keys.
pub(super) fn of_tree(context: &Context<'_>, file: &SourceFile, root: &Node) -> Vec<Site> {
    let lookup = context.lookup(super::files::parent(&file.path));
    let mut walk = Walk { file, lookup: &lookup, sites: Vec::new() };
    walk.node(root, &mut Vec::new());
    walk.sites
}

struct Walk<'a> {
    file: &'a SourceFile,
    lookup: &'a dyn Lookup,
    sites: Vec<Site>,
}

impl Walk<'_> {
    fn at(&self, place: Range<usize>) -> Span {
        super::files::span(self.file, place)
    }

    fn node(&mut self, node: &Node, path: &mut Vec<String>) {
        if path.len() > MAX_DEPTH {
            return;
        }
        match node {
            Node::Scalar(text) => self.scalar(text, path),
            Node::List(items, _) => {
                for item in items {
                    self.node(item, path);
                }
            }
            Node::Map(entries, _) => {
                // `- name: DATABASE_URL` / `  value: ..`, and Render's `key:`
                let named = ["name", "key"].iter().find_map(|key| node.str_at(&[key]));
                if let (Some(name), Some(value)) = (named, node.get("value").and_then(Node::text)) {
                    return self.named(name, value);
                }
                self.in_parts(node, path);
                for (key, value) in entries {
                    path.push(key.value.clone());
                    self.node(value, path);
                    path.pop();
                }
            }
        }
    }

    fn scalar(&mut self, text: &Text, path: &[String]) {
        match text.value.split_once('=') {
            // `- DATABASE_URL=postgres://..` in a list
            Some((name, value)) if is_variable(name) && dsn::is_dsn(value) => {
                let value = Text { value: value.to_string(), place: text.place.clone() };
                self.named(name, &value);
            }
            // a variable (`data: {DATABASE_URL: ..}`, `[env]`) is one under any key
            _ => match path.last().filter(|last| {
                is_variable(last) && last.contains('_') && !last.contains(|c: char| c.is_ascii_lowercase())
            }) {
                Some(name) => self.named(name, text),
                None => self.named(&path.join("."), text),
            },
        }
    }

    fn named(&mut self, name: &str, text: &Text) {
        // a scheme must be there: keyword strings are too like prose
        if text.value.contains("://") && text.value.len() < 4096 {
            let value = expand(&text.value, self.lookup);
            if dsn::is_dsn(&value) {
                self.sites.push(site(name, self.at(text.place.clone()), dsn::parse(&value)));
            }
        }
    }

    /// A map with `host` and a database name, as settings crates read it.
    fn in_parts(&mut self, node: &Node, path: &[String]) {
        let value =
            |keys: &[&str]| keys.iter().find_map(|key| node.str_at(&[key])).map(|text| expand(text, self.lookup));
        let Some(host) = node.get("host").or(node.get("hostname")).and_then(Node::text) else { return };
        let database = value(&["database_name", "dbname", "database", "db", "db_name", "name"]);
        let user = value(&["username", "user", "db_user"]);
        let about = path.iter().any(|key| is_database_prefix(key));
        if !about || database.is_none() || user.is_none() || host.value.is_empty() {
            return;
        }
        let target = parts(&expand(&host.value, self.lookup), value(&["port", "db_port"]), user, database);
        self.sites.push(site(&path.join("."), self.at(host.place.clone()), Some(target)));
    }
}

fn is_variable(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}
