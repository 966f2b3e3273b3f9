//! What a connection string meets.

use super::dsn::{Part, Target};
use super::facts::{Dsn, May, Mode, Pooler, PoolerFacts, Resolution, Route, Software};
use super::files::shared_depth;
use super::hosted::{Hosted, hosted};
use super::services::{is_database_image, software_word};
use super::template::is_known;
use crate::source::{FileId, Span};

/// Who connects.
#[derive(Clone, Debug, Default)]
pub(super) struct Asker {
    /// File that names the host, and its directory; of several deployments the nearest one is meant.
    pub file: Option<FileId>,
    pub dir: String,
    /// The file is for tests only.
    pub test: bool,
    /// Pooler in the same pod, reached as `localhost`.
    pub sidecar: Option<usize>,
}

impl Asker {
    /// Greater is nearer: the same file, the same directory, more directories in common.
    fn nearness(&self, file: FileId, dir: &str) -> (bool, bool, usize) {
        (self.file == Some(file), self.dir == dir, shared_depth(dir, &self.dir))
    }
}

/// `localhost` and kin.
pub(super) fn is_loopback(host: &str) -> bool {
    matches!(host, "localhost" | "127.0.0.1" | "::1" | "0.0.0.0" | "host.docker.internal") || host.starts_with('/')
}

enum Place {
    Pooler(usize, Option<u16>, bool),
    Direct,
    Unknown,
}

impl PoolerFacts {
    /// What the connection string in an environment variable or configuration key meets, over all files that set it: a route that
    /// breaks session locks if one of them leads there, else unknown if one of them is a secret, else what is known.
    ///
    /// Configuration keys (`database.url`) and variables (`DATABASE_URL`, `APP__DATABASE__URL`) are the same name; an own service's
    /// value goes before that of an image of others.
    pub fn for_env(&self, name: &str) -> Resolution {
        self.for_env_at(name, "")
    }

    /// As [`Self::for_env`], for code in the file `path`: where a service is built from a directory around it, only the values of
    /// that service count.
    pub fn for_env_at(&self, name: &str, path: &str) -> Resolution {
        let known = self.declared(name).unwrap_or_else(|| self.of_sites(name, path));
        // the usual name of the other one of two strings, whose value is a secret
        if known == Resolution::Unknown && says_direct(name) { Resolution::Direct } else { known }
    }

    fn of_sites(&self, name: &str, path: &str) -> Resolution {
        let wanted = normal(name);
        let mut found: Vec<&Dsn> = self.dsns.iter().filter(|dsn| normal(&dsn.name) == wanted).collect();
        if found.is_empty() {
            // a prefix of the settings crate (`APP_`) stands before the key
            found = self.dsns.iter().filter(|dsn| same_key(&normal(&dsn.name), &wanted)).collect();
        }
        if found.iter().any(|dsn| dsn.own && dsn.scope.is_some()) {
            found.retain(|dsn| dsn.own || dsn.scope.is_none());
        }
        // what tests connect to says nothing of the deployment, unless there is nothing else
        let tests_only = found.iter().all(|dsn| dsn.test);
        found.retain(|dsn| dsn.test == tests_only);
        // services built from another part of the repository are not this code's
        let built = |dsn: &&&Dsn| dsn.own && dsn.scope.is_some() && !dsn.dir.is_empty();
        let around = |dsn: &&&Dsn| path.strip_prefix(dsn.dir.as_str()).is_some_and(|rest| rest.starts_with('/'));
        if found.iter().filter(built).any(|dsn| around(&dsn)) {
            found.retain(|dsn| !built(&dsn) || around(&dsn));
        }
        let worth = |dsn: &&Dsn| match &dsn.resolution {
            Resolution::Through { route, mode, certain, .. } => {
                let harm = if self.routes[*route].pins { 0 } else { harm(*mode) };
                (if harm > 1 { 5 } else { harm + 2 }, *certain)
            }
            Resolution::Unknown if dsn.target.is_none() => (4, false),
            Resolution::Direct => (1, true),
            Resolution::Unknown => (0, false),
        };
        // the first of the worst, in order of place
        let best = found.iter().map(worth).max();
        let worst = found.into_iter().find(|dsn| Some(worth(dsn)) == best);
        let mut worst = worst.map_or(Resolution::Unknown, |dsn| dsn.resolution.clone());
        if let Resolution::Through { certain, .. } = &mut worst {
            *certain &= !tests_only;
        }
        worst
    }

    /// What a connection string written in code meets.
    pub fn for_dsn(&self, text: &str) -> Resolution {
        match super::dsn::parse(text) {
            Some(target) => self.resolve(&target, &Asker::default()).unwrap_or(Resolution::Unknown),
            None => Resolution::Unknown,
        }
    }

    /// The route that harms session locks most, if any does: a transaction or statement pooler that is merely there.
    pub fn worst(&self) -> Option<&Route> {
        let real = |route: &&Route| route.breaks_session_locks() && !self.poolers[route.pooler].test;
        let harmful = self.routes.iter().filter(real);
        harmful.max_by_key(|route| (route.harm(), !route.defaulted, std::cmp::Reverse((route.pooler, route.at))))
    }

    /// What code may meet whose connection string is not known: nothing if no route breaks session locks, or if every connection
    /// string of the repository is known to lead elsewhere.
    pub fn may_meet(&self) -> May<'_> {
        let Some(worst) = self.worst() else { return May::No };
        let mut met = None;
        let mut open = self.dsns.iter().all(|dsn| dsn.test);
        for dsn in self.dsns.iter().filter(|dsn| !dsn.test) {
            match &dsn.resolution {
                Resolution::Through { route, .. } if self.routes[*route].breaks_session_locks() => {
                    met = met.or(Some(&self.routes[*route]))
                }
                Resolution::Unknown => open = true,
                _ => {}
            }
        }
        match met {
            Some(route) => May::Meets(route),
            None if open => May::Meets(worst),
            None => May::No,
        }
    }

    /// Resolves a connection string that stands at `at`; an address of a hosted pooler becomes a pooler of its own.
    pub(super) fn resolve_site(&mut self, target: &Target, asker: &Asker, at: Span) -> Resolution {
        if let Some(resolution) = self.resolve(target, asker) {
            return resolution;
        }
        let found = target.hosts.iter().find_map(|host| Some((host.clone(), hosted(host, target.port)?)));
        let (name, software, mode) = match found {
            Some((host, Hosted::Pooled(software, mode))) => (host, software, mode),
            Some((_, Hosted::Direct)) => return Resolution::Direct,
            None if target.says_pooled => ("pgbouncer=true".to_string(), Software::Unnamed, Mode::Transaction),
            None => match target.hosts.iter().find_map(|host| Some((host.clone(), software_word(host)?))) {
                // called like a pooler that is set up elsewhere
                Some((host, software)) => {
                    (host, software, if software == Software::PgPool { Mode::Session } else { Mode::Unknown })
                }
                None => return Resolution::Unknown,
            },
        };
        let name = name.replace(super::template::HOLE, "?");
        let pooler = self.poolers.iter().position(|known| known.name == name && known.software == software);
        let pooler = pooler.unwrap_or_else(|| {
            self.poolers.push(Pooler {
                software,
                name,
                hosts: target.hosts.clone(),
                published: Vec::new(),
                listens: None,
                place: at,
                test: asker.test,
                dir: String::new(),
            });
            self.poolers.len() - 1
        });
        self.poolers[pooler].test &= asker.test;
        let known = self
            .routes
            .iter()
            .position(|route| route.pooler == pooler && route.mode == mode && route.port == target.port);
        let route = known.unwrap_or_else(|| {
            self.routes.push(Route {
                pooler,
                database: None,
                user: None,
                port: target.port,
                forced_user: None,
                mode,
                at,
                defaulted: false,
                dropped_after_each_tx: false,
                pins: software.pins_advisory_locks(),
            });
            self.routes.len() - 1
        });
        self.through(route, mode, true)
    }

    /// Resolves with what is known; `None` if only the address itself can tell.
    fn resolve(&self, target: &Target, asker: &Asker) -> Option<Resolution> {
        let mut unknown = false;
        for host in &target.hosts {
            match self.place(host, target.port, asker) {
                Place::Pooler(pooler, port, certain) => return Some(self.route(pooler, port, target, certain)),
                Place::Direct => return Some(Resolution::Direct),
                Place::Unknown => unknown = true,
            }
        }
        let told = target.says_pooled
            || target.hosts.iter().any(|host| hosted(host, target.port).is_some() || software_word(host).is_some());
        (!unknown || !told).then_some(Resolution::Unknown)
    }

    fn place(&self, host: &str, port: Option<u16>, asker: &Asker) -> Place {
        if is_loopback(host) {
            return self.loopback(port, asker);
        }
        let label = host.split('.').next().unwrap_or("");
        let inside =
            !host.contains('.') || host.contains(".svc") || host.split('.').count() == 2 && !host.contains(".com");
        let candidates = self.known.iter().filter(|known| known.host == host || inside && known.host == label);
        if let Some(found) = self.nearest(candidates, asker) {
            return found;
        }
        if hosted(host, port).is_some() {
            return Place::Unknown;
        }
        if let Some(software) =
            software_word(host).or((inside && label.ends_with("-pooler")).then_some(Software::PgBouncer))
        {
            // called like a pooler: the nearest one of the repository
            let named = self.poolers.iter().enumerate().filter(|(index, pooler)| {
                pooler.software == software && self.routes.iter().any(|route| route.pooler == *index)
            });
            let named = named.map(|(index, pooler)| super::facts::Known {
                host: String::new(),
                file: pooler.place.file,
                dir: pooler.dir.clone(),
                published: Vec::new(),
                pooler: Some(index),
            });
            let named: Vec<_> = named.collect();
            return match self.nearest(named.iter(), asker) {
                Some(Place::Pooler(pooler, _, certain)) => Place::Pooler(pooler, port, certain),
                _ => Place::Unknown,
            };
        }
        // called like a database, inside a deployment
        let plain = ["db", "database", "pg"].contains(&label)
            || ["-db", "-rw", "-database"].iter().any(|ending| label.ends_with(ending))
            || is_database_image(label);
        if inside && plain { Place::Direct } else { Place::Unknown }
    }

    /// Of several deployments the one nearest to the asker; if those at the same distance disagree, the worst, uncertain.
    fn nearest<'k>(&self, candidates: impl Iterator<Item = &'k super::facts::Known>, asker: &Asker) -> Option<Place> {
        let score = |known: &super::facts::Known| asker.nearness(known.file, &known.dir);
        let candidates: Vec<&super::facts::Known> = candidates.collect();
        let best = candidates.iter().map(|known| score(known)).max()?;
        let near: Vec<&super::facts::Known> = candidates.into_iter().filter(|known| score(known) == best).collect();
        let mut poolers: Vec<usize> = near.iter().filter_map(|known| known.pooler).collect();
        poolers.dedup();
        let harm = |pooler: &usize| {
            self.routes.iter().filter(|route| route.pooler == *pooler).map(Route::harm).max().unwrap_or(0)
        };
        let worst = poolers.iter().copied().max_by_key(|pooler| (harm(pooler), std::cmp::Reverse(*pooler)));
        Some(match worst {
            Some(pooler) => {
                let agreed = poolers.iter().all(|other| harm(other) == harm(&pooler))
                    && near.iter().all(|known| known.pooler.is_some());
                Place::Pooler(pooler, None, agreed)
            }
            None => Place::Direct,
        })
    }

    /// `localhost`: a pooler in the same pod, the service that publishes the port, else a pooler that listens on just this port.
    fn loopback(&self, port: Option<u16>, asker: &Asker) -> Place {
        if let Some(pooler) = asker.sidecar {
            return Place::Pooler(pooler, port, true);
        }
        let wanted = port.unwrap_or(5432);
        let published = |known: &super::facts::Known| {
            known.published.iter().find(|(outside, _)| *outside == wanted).map(|(_, inside)| *inside)
        };
        if let Some(place) = self.nearest(self.known.iter().filter(|known| published(known).is_some()), asker) {
            return match place {
                Place::Pooler(pooler, _, certain) => {
                    let inside = self.known.iter().filter(|known| known.pooler == Some(pooler)).find_map(published);
                    Place::Pooler(pooler, inside, certain)
                }
                other => other,
            };
        }
        let mut listening = self
            .poolers
            .iter()
            .enumerate()
            .filter(|(_, pooler)| pooler.listens == Some(wanted) && pooler.hosts.is_empty());
        match listening.next() {
            Some((pooler, _)) => Place::Pooler(pooler, port, false),
            None => Place::Unknown,
        }
    }

    fn through(&self, route: usize, mode: Mode, certain: bool) -> Resolution {
        let found = &self.routes[route];
        let dropped = found.dropped_after_each_tx && mode != Mode::Session;
        Resolution::Through { mode, route, dropped_after_each_tx: dropped, at: found.at, certain }
    }

    /// The route of a pooler for a database and user.
    fn route(&self, pooler: usize, port: Option<u16>, target: &Target, certain: bool) -> Resolution {
        let port = port.or(target.port);
        let routes: Vec<usize> = (0..self.routes.len())
            .filter(|index| self.routes[*index].pooler == pooler)
            .filter(|index| self.routes[*index].port.is_none_or(|own| port.is_none_or(|port| port == own)))
            .collect();
        // libpq: the database defaults to the user's name
        let database = if target.database == Part::Absent { &target.user } else { &target.database };
        let chosen = match (database, &target.user) {
            (Part::Known(database), Part::Known(user)) => self.exact(pooler, &routes, database, user),
            _ => None,
        };
        if let Some(route) = chosen {
            // PgBouncer gives replication connections a server of their own
            let mode = if target.replication { Mode::Session } else { self.routes[route].mode };
            return self.through(route, mode, certain);
        }
        let possible = routes.iter().copied().filter(|index| {
            let fits = |own: &Option<String>, part: &Part| match (own, part) {
                (Some(own), Part::Known(known)) => own == known || !is_known(own),
                _ => true,
            };
            fits(&self.routes[*index].database, database) && fits(&self.routes[*index].user, &target.user)
        });
        let possible: Vec<usize> = possible.collect();
        let key = |index: &usize| {
            (self.routes[*index].harm(), self.routes[*index].mode, self.routes[*index].dropped_after_each_tx)
        };
        let Some(worst) =
            possible.iter().copied().max_by_key(|index| (self.routes[*index].harm(), std::cmp::Reverse(*index)))
        else {
            return Resolution::Unknown;
        };
        let agreed = possible.iter().all(|other| key(other) == key(&worst));
        let mode = if target.replication { Mode::Session } else { self.routes[worst].mode };
        self.through(worst, mode, certain && (agreed || target.replication))
    }

    /// The route that wins for a known database and user, by each program's order.
    fn exact(&self, pooler: usize, routes: &[usize], database: &str, user: &str) -> Option<usize> {
        let find = |own_database: Option<&str>, own_user: Option<&str>| {
            routes.iter().copied().find(|index| {
                self.routes[*index].database.as_deref() == own_database
                    && self.routes[*index].user.as_deref() == own_user
            })
        };
        if routes.iter().any(|index| self.routes[*index].database.as_deref().is_some_and(|name| !is_known(name))) {
            return None;
        }
        let software = self.poolers[pooler].software;
        let both = find(Some(database), Some(user));
        let by_user = find(None, Some(user));
        let by_database = find(Some(database), None).or_else(|| find(None, None));
        match software {
            // objects.c: the user's mode beats the database's; a forced user is the user, and its mode is in the database's route
            Software::PgBouncer => match by_database {
                Some(route) if self.routes[route].forced_user.is_some() => Some(route),
                Some(route) => by_user.or(Some(route)),
                None => None,
            },
            // rules.c: an exact database with the default user goes before the default database with an exact user
            Software::Odyssey => both.or(find(Some(database), None)).or(by_user).or(find(None, None)),
            _ => both.or(by_user).or(by_database),
        }
    }
}

/// `DIRECT_URL`, `DATABASE_URL_UNPOOLED`, `MIGRATIONS_DATABASE_URL` and kin.
pub(super) fn says_direct(name: &str) -> bool {
    let name = normal(name);
    ["DIRECT", "UNPOOLED", "NON_POOLING", "NONPOOLING", "NO_POOL", "MIGRATION", "MIGRATE"]
        .iter()
        .any(|word| name.contains(word))
}

fn harm(mode: Mode) -> u8 {
    match mode {
        Mode::Statement => 3,
        Mode::Transaction => 2,
        Mode::Unknown => 1,
        Mode::Session => 0,
    }
}

/// Variable and key names in one form: `database.url`, `DATABASE__URL` and `DATABASE_URL` are one.
pub(super) fn normal(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        match c {
            '.' | '-' | '_' | '/' => {
                if !out.ends_with('_') {
                    out.push('_');
                }
            }
            c => out.push(c.to_ascii_uppercase()),
        }
    }
    out
}

/// One is the other behind a prefix of its own (`APP_DATABASE_URL` and `database.url`).
fn same_key(a: &str, b: &str) -> bool {
    let behind = |long: &str, short: &str| {
        short.contains('_')
            && long
                .strip_suffix(short)
                .is_some_and(|prefix| matches!(prefix, "APP_" | "SERVICE_" | "CONFIG_" | "SERVER_" | "SETTINGS_"))
    };
    behind(a, b) || behind(b, a)
}
