//! What the user says about connection strings, in `[dsn]` of leaselint.toml.

use super::facts::{Mode, Pooler, PoolerFacts, Resolution, Route, Software};
use super::resolve::normal;

impl PoolerFacts {
    /// Takes the user's word: `direct` and `pooled` name variables, configuration keys or hosts. It goes before what the files say.
    ///
    /// A string that is said to be pooled leads to the worst route of the repository; if there is none, to a transaction pooler
    /// that is set up elsewhere.
    pub fn declare(&mut self, direct: &[String], pooled: &[String]) {
        self.direct = direct.to_vec();
        self.pooled = pooled.to_vec();
        for index in 0..self.dsns.len() {
            let dsn = &self.dsns[index];
            let meant = |list: &[String]| {
                let hosts = dsn.target.iter().flat_map(|target| &target.hosts);
                list.iter()
                    .any(|word| same_name(word, &dsn.name) || hosts.clone().any(|host| host.eq_ignore_ascii_case(word)))
            };
            if meant(direct) {
                self.dsns[index].resolution = Resolution::Direct;
            } else if meant(pooled) && !matches!(dsn.resolution, Resolution::Through { .. }) {
                let (at, name) = (dsn.at, dsn.name.clone());
                let route = match self.routes.iter().position(|route| Some(route) == self.worst()) {
                    Some(route) => route,
                    None => {
                        let (pooler, place) = (self.poolers.len(), at);
                        let software = Software::Unnamed;
                        self.poolers.push(Pooler {
                            software,
                            name,
                            hosts: Vec::new(),
                            published: Vec::new(),
                            listens: None,
                            place,
                            test: false,
                            dir: String::new(),
                        });
                        self.routes.push(Route {
                            pooler,
                            database: None,
                            user: None,
                            port: None,
                            forced_user: None,
                            mode: Mode::Transaction,
                            at,
                            defaulted: false,
                            dropped_after_each_tx: false,
                            pins: false,
                        });
                        self.routes.len() - 1
                    }
                };
                self.dsns[index].resolution = self.through_declared(route);
            }
        }
    }

    /// The user's word on a name that no file sets.
    pub(super) fn declared(&self, name: &str) -> Option<Resolution> {
        if self.direct.iter().any(|word| same_name(word, name)) {
            return Some(Resolution::Direct);
        }
        let sites = self.dsns.iter().any(|dsn| same_name(&dsn.name, name));
        if sites || !self.pooled.iter().any(|word| same_name(word, name)) {
            return None;
        }
        let route = self.routes.iter().position(|route| Some(route) == self.worst())?;
        Some(self.through_declared(route))
    }

    fn through_declared(&self, route: usize) -> Resolution {
        let Route { mode, at, dropped_after_each_tx, .. } = self.routes[route];
        Resolution::Through { mode, route, dropped_after_each_tx, at, certain: true }
    }
}

fn same_name(a: &str, b: &str) -> bool {
    normal(a) == normal(b)
}
