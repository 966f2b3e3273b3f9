//! What a connection opened by code meets, from the value of its connection string.

use super::Mode;
use super::facts::{May, PoolerFacts, Resolution, Route};
use super::resolve::{normal, says_direct};
use super::template::HOLE;
use crate::ir::{CallValue, Lit, Piece, Value};

/// Nesting of calls and joins that is looked through.
const MAX_DEPTH: usize = 8;

impl PoolerFacts {
    /// Resolves the origin of a connection in the file `path`: a literal, a variable or configuration key, a template over them, or a
    /// call that takes one of these (`PgConnectOptions::from_str(&url)`, `config.parse()`).
    ///
    /// Of several possible values a harmful one wins, uncertain; those that agree are taken as one; all else is unknown.
    pub fn for_value(&self, value: &Value, path: &str) -> Resolution {
        self.value(value, path, 0)
    }

    /// The route that breaks the session locks of a connection with this origin, opened in the file `path`; true if it is certain
    /// that the connection takes it.
    ///
    /// Where the origin is not known, the connection is taken to be the application's usual one, `DATABASE_URL`, if that is the
    /// only connection string that the repository knows; else it may take any harmful route ([`Self::may_meet`]).
    pub fn harm_to(&self, origin: &Value, path: &str) -> Option<(&Route, bool)> {
        match self.for_value(origin, path) {
            Resolution::Through { route, mode, certain, .. } => {
                let route = &self.routes[route];
                (route.breaks_session_locks() && mode != Mode::Session).then_some((route, certain))
            }
            Resolution::Direct => None,
            Resolution::Unknown => {
                let May::Meets(route) = self.may_meet() else { return None };
                Some(self.usual(origin, path).map_or((route, false), |usual| (usual, true)))
            }
        }
    }

    /// The harmful route of the usual connection string, if nothing speaks for another one.
    fn usual(&self, origin: &Value, path: &str) -> Option<&Route> {
        let usual = normal("DATABASE_URL");
        let others =
            self.dsns.iter().any(|dsn| !dsn.test && dsn.resolution == Resolution::Direct && normal(&dsn.name) != usual);
        if others || names_another(origin, 0) {
            return None;
        }
        match self.for_env_at(&usual, path) {
            Resolution::Through { route, mode, certain: true, .. } => {
                Some(&self.routes[route]).filter(|route| route.breaks_session_locks() && mode != Mode::Session)
            }
            _ => None,
        }
    }

    fn value(&self, value: &Value, path: &str, depth: usize) -> Resolution {
        if depth > MAX_DEPTH {
            return Resolution::Unknown;
        }
        match value {
            Value::Const(Lit::Str(text)) => self.for_dsn(text),
            Value::Env(name) => self.for_env_at(name, path),
            Value::Template(pieces) => self.template(pieces, path),
            Value::Join(members) => {
                let found = members.iter().map(|member| (member, self.value(member, path, depth + 1)));
                let mut found: Vec<_> = found.collect();
                // the default of a variable (`unwrap_or("postgres://localhost/app")`) is for machines without a deployment
                if found.iter().any(|(_, one)| *one != Resolution::Unknown) {
                    found.retain(|(member, one)| *one != Resolution::Unknown || !matches!(member, Value::Const(_)));
                }
                // `DIRECT_URL`, else `DATABASE_URL`: who names the direct string first means it
                let direct = |(member, one): &(&Value, Resolution)| {
                    *one == Resolution::Direct && matches!(member, Value::Env(name) if says_direct(name))
                };
                if found.first().is_some_and(direct) {
                    return Resolution::Direct;
                }
                self.one_of(found.into_iter().map(|(_, one)| one).collect())
            }
            Value::Call(call) => self.call(call, path, depth),
            Value::Aggregate(_, fields) => {
                self.only(fields.iter().map(|(_, field)| self.value(field, path, depth + 1)))
            }
            Value::Field(base, name) => match key_path(base, name, 0) {
                Some(key) => self.for_env_at(&key, path),
                None => self.value(base, path, depth + 1),
            },
            Value::TypeField(_, name) if names_database(name) => self.for_env_at(name, path),
            _ => Resolution::Unknown,
        }
    }

    /// `format!("postgres://{user}:{password}@{host}/{db}")`: the host is written out, or is itself a variable that is known.
    fn template(&self, pieces: &[Piece], path: &str) -> Resolution {
        let mut text = String::new();
        for piece in pieces {
            match piece {
                Piece::Text(part) => text.push_str(part),
                Piece::Hole(Value::Const(Lit::Str(part))) => text.push_str(part),
                Piece::Hole(Value::Const(Lit::Int(number))) => text.push_str(&number.to_string()),
                Piece::Hole(_) => text.push(HOLE),
            }
        }
        let known = self.for_dsn(&text);
        if known != Resolution::Unknown {
            return known;
        }
        self.only(pieces.iter().filter_map(|piece| match piece {
            Piece::Hole(Value::Env(name)) => Some(self.for_env_at(name, path)),
            _ => None,
        }))
    }

    fn call(&self, call: &CallValue, path: &str, depth: usize) -> Resolution {
        self.only(call.args.iter().map(|argument| self.value(argument, path, depth + 1)))
    }

    /// The one that is known, if just one is.
    fn only(&self, found: impl Iterator<Item = Resolution>) -> Resolution {
        let mut known = found.filter(|one| *one != Resolution::Unknown);
        match (known.next(), known.next()) {
            (Some(one), None) => one,
            _ => Resolution::Unknown,
        }
    }

    fn one_of(&self, found: Vec<Resolution>) -> Resolution {
        let harmful = found.iter().find(|one| match one {
            Resolution::Through { route, mode, .. } => {
                self.routes[*route].breaks_session_locks() && *mode != Mode::Session
            }
            _ => false,
        });
        match (harmful, found.first()) {
            (Some(Resolution::Through { mode, route, dropped_after_each_tx, at, certain }), _) => Resolution::Through {
                mode: *mode,
                route: *route,
                dropped_after_each_tx: *dropped_after_each_tx,
                at: *at,
                certain: *certain && found.iter().all(|other| Some(other) == harmful),
            },
            (_, Some(first)) if found.iter().all(|other| other == first) => first.clone(),
            _ => Resolution::Unknown,
        }
    }
}

/// `settings.database.url` as the key `database.url`; the outermost value is the settings object.
fn key_path(base: &Value, name: &str, depth: usize) -> Option<String> {
    match base {
        Value::Field(inner, parent) if depth < MAX_DEPTH => {
            let parent = key_path(inner, parent, depth + 1).unwrap_or_else(|| parent.clone());
            Some(format!("{parent}.{name}"))
        }
        Value::TypeField(_, parent) => Some(format!("{parent}.{name}")),
        _ => names_database(name).then(|| name.to_string()),
    }
}

/// The value names a variable of its own, which no file sets, or an address.
fn names_another(value: &Value, depth: usize) -> bool {
    match value {
        _ if depth > MAX_DEPTH => true,
        Value::Env(name) => !normal(name).ends_with("DATABASE_URL"),
        Value::Const(Lit::Str(_)) => true,
        Value::Template(pieces) => pieces.iter().any(|piece| matches!(piece, Piece::Hole(Value::Env(_)))),
        Value::Join(members) => members.iter().any(|member| names_another(member, depth + 1)),
        Value::Call(call) => call.args.iter().any(|argument| names_another(argument, depth + 1)),
        _ => false,
    }
}

/// The name of a variable, field or key is one of a database address.
pub fn names_database(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["database", "postgres", "pg_", "db_", "dsn", "direct_url", "migration"].iter().any(|word| name.contains(word))
}
