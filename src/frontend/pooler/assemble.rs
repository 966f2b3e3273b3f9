//! Puts together what the files say: which services are poolers, which configuration each runs with, what answers under which
//! host, and what each connection string meets.

use std::collections::BTreeSet;

use super::context::{Context, Kind, ServiceLookup, kind};
use super::drafts::{Block, Draft};
use super::facts::{Known, Mode, Pooler, PoolerFacts, Route, Software};
use super::files::parent;
use super::k8s::{self, Cluster};
use super::services::{Mount, Service, image_repository, is_database_image, software_word};
use super::sources::{self, Source};
use super::template::is_known;
use super::{compose, image, pgcat, values};
use crate::source::{FileId, SourceFile};

pub(super) struct Assembly<'a> {
    pub context: &'a Context<'a>,
    pub services: Vec<Service>,
    pub cluster: Cluster,
    /// Pooler of each service.
    pub pooler_of: Vec<Option<usize>>,
    sources: Vec<Source>,
    pub facts: PoolerFacts,
    /// Hosts of the databases behind poolers, with the directory of the pooler's configuration.
    upstream: Vec<(String, FileId)>,
    /// Files that one configuration includes: they are no configurations of their own.
    included: BTreeSet<FileId>,
}

/// Makes the facts.
pub(super) fn assemble(context: &Context<'_>) -> PoolerFacts {
    let mut cluster = k8s::read(context);
    let mut services = Vec::new();
    for file in context.files.iter() {
        for root in context.trees(file.id).iter().filter(|root| compose::is_compose(root)) {
            services.extend(compose::read(context, file, root));
        }
    }
    inherit_base(context, &mut services);
    // containers first, so that their pods keep their indexes
    let mut all = std::mem::take(&mut cluster.services);
    all.extend(services);
    let mut assembly = Assembly {
        context,
        pooler_of: vec![None; all.len()],
        services: all,
        cluster,
        sources: sources::find(context),
        facts: PoolerFacts::default(),
        upstream: Vec::new(),
        included: BTreeSet::new(),
    };
    assembly.service_poolers();
    assembly.other_poolers();
    assembly.known_hosts();
    super::gather::dsns(&mut assembly);
    assembly.facts
}

/// An override file (`compose.override.yml`, `compose.prod.yml`) names a service without image: the rest stands in the base file beside it.
fn inherit_base(context: &Context<'_>, services: &mut [Service]) {
    let dir_of = |service: &Service| context.file(service.file_id()).map(|file| parent(&file.path).to_string());
    let bases: Vec<Service> =
        services.iter().filter(|service| service.image.is_some() || service.build.is_some()).cloned().collect();
    for service in services.iter_mut().filter(|service| service.image.is_none() && service.build.is_none()) {
        let dir = dir_of(service);
        let Some(base) =
            bases.iter().find(|base| base.name == service.name && base.file != service.file && dir_of(base) == dir)
        else {
            continue;
        };
        service.image.clone_from(&base.image);
        service.build.clone_from(&base.build);
        service
            .hosts
            .extend(base.hosts.iter().filter(|host| !service.hosts.contains(host)).cloned().collect::<Vec<_>>());
        let own = std::mem::replace(&mut service.vars, base.vars.clone());
        service.vars.extend(own);
        service.ports.extend(&base.ports);
        service.mounts.extend(base.mounts.iter().cloned());
    }
}

impl<'a> Assembly<'a> {
    pub(super) fn file(&self, id: FileId) -> Option<&'a SourceFile> {
        self.context.file(id)
    }

    pub(super) fn dir(&self, id: FileId) -> &'a str {
        self.file(id).map_or("", |file| parent(&file.path))
    }

    fn service_poolers(&mut self) {
        for index in 0..self.services.len() {
            let Some(software) = self.services[index].software() else { continue };
            let service = self.services[index].clone();
            let lookup = ServiceLookup { service: &service, outside: self.context.lookup(self.dir(service.file_id())) };
            let block = match self.source_of(&service, software) {
                Some(source) => {
                    self.sources[source].used = true;
                    sources::read(self.context, &self.sources[source], &lookup)
                }
                None => None,
            };
            let mut block =
                block.filter(|block| !block.routes.is_empty()).unwrap_or_else(|| image::from_env(&service, software));
            for name in
                ["DB_HOST", "DATABASES_HOST", "POSTGRESQL_HOST", "POSTGRES_HOST", "PG_HOST", "PGHOST", "BACKEND_HOST"]
            {
                if let Some(value) = service.var(name).and_then(|known| known.var.value.clone()) {
                    block.add_upstream(&value);
                }
            }
            for target in service.vars.iter().filter_map(|known| super::dsn::parse(known.var.value.as_deref()?)) {
                target.hosts.iter().for_each(|host| block.add_upstream(host));
            }
            let pooler = self.add(block, service.name.clone(), service.hosts.clone(), service.ports.clone());
            self.pooler_of[index] = Some(pooler);
        }
    }

    /// The configuration that a service gets: mounted, else in the directory it is built from, else the only one there is.
    fn source_of(&self, service: &Service, software: Software) -> Option<usize> {
        let fits = |source: &Source| source.software == software;
        let path = |source: &Source| self.file(source.file).map_or("", |file| file.path.as_str());
        for mount in &service.mounts {
            let found = self.sources.iter().position(|source| {
                fits(source)
                    && match mount {
                        Mount::Path(mounted) => {
                            source.whole
                                && (path(source) == mounted
                                    || path(source)
                                        .strip_prefix(mounted.as_str())
                                        .is_some_and(|rest| rest.starts_with('/')))
                        }
                        Mount::Inline(file, place) => {
                            source.file == *file && source.range.start >= place.start && source.range.end <= place.end
                        }
                    }
            });
            if found.is_some() {
                return found;
            }
        }
        if let Some(dir) = &service.build {
            let found =
                self.sources.iter().position(|source| fits(source) && source.whole && parent(path(source)) == dir);
            if found.is_some() {
                return found;
            }
        }
        let image = service.image.as_deref().map(image_repository);
        let default = image.as_deref().and_then(|image| image::image_default(software, image));
        let told = service.mode_var().is_some()
            || (service.build.is_none() && service.mounts.is_empty() && default.is_some() && !service.vars.is_empty());
        let mut left = self.sources.iter().enumerate().filter(|(_, source)| fits(source) && !source.used);
        match (told, left.next(), left.next()) {
            (false, Some((index, _)), None) => Some(index),
            _ => None,
        }
    }

    /// Poolers that no service of the repository runs: configuration files alone, operators' resources, Helm values, env files.
    fn other_poolers(&mut self) {
        let mut blocks = Vec::new();
        for index in 0..self.sources.len() {
            let Some(file) = self.file(self.sources[index].file).filter(|_| !self.sources[index].used) else {
                continue;
            };
            if let Some(block) =
                sources::read(self.context, &self.sources[index], &self.context.lookup(parent(&file.path)))
            {
                self.included.extend(block.files.iter().skip(1).filter(|other| **other != block.place.file));
                blocks.push((block, file));
            }
        }
        for (block, file) in blocks {
            if !self.included.contains(&file.id) {
                self.add(block, file.path.clone(), Vec::new(), Vec::new());
            }
        }
        for (block, name, hosts) in std::mem::take(&mut self.cluster.operated) {
            self.add(block, name, hosts, Vec::new());
        }
        for file in self.context.files.iter() {
            for root in self.context.trees(file.id) {
                let read_already = compose::is_compose(root)
                    || k8s::is_known_kind(root)
                    || pgcat::is_pgcat(root)
                    || pgcat::is_pgdog(root);
                if !read_already
                    && kind(&file.path) != Kind::Env
                    && !(kind(&file.path) == Kind::Toml && root.get("users").is_some())
                {
                    for (block, name) in values::read(self.context, file, root) {
                        self.add(block, name, Vec::new(), Vec::new());
                    }
                }
            }
        }
        self.env_poolers();
    }

    /// A mode in an env file that no service takes: the pooler is started by other means.
    fn env_poolers(&mut self) {
        let decided = self.facts.routes.iter().any(|route| {
            self.facts.poolers[route.pooler].software == Software::PgBouncer && route.mode != Mode::Unknown
        });
        if decided {
            return;
        }
        for (path, file, vars) in self.context.env_files() {
            let service = Service {
                file: file.0,
                name: super::files::base_name(path).to_string(),
                vars: vars.iter().map(|var| super::services::ServiceVar { var: var.clone(), file }).collect(),
                ..Service::default()
            };
            let Some(mode) = service.mode_var() else { continue };
            let lookup = ServiceLookup { service: &service, outside: self.context.lookup(parent(path)) };
            let value = super::template::expand(mode.var.value.as_deref().unwrap_or(""), &lookup);
            if Mode::of(&value) != Mode::Unknown {
                let mut block = image::from_env(&service, Software::PgBouncer);
                block.place = mode.at();
                self.add(block, path.to_string(), Vec::new(), Vec::new());
            }
        }
    }

    fn add(&mut self, block: Block, name: String, hosts: Vec<String>, published: Vec<(u16, u16)>) -> usize {
        let index = self.facts.poolers.len();
        let file = block.place.file;
        self.upstream.extend(block.upstream.iter().map(|host| (host.clone(), file)));
        self.facts.problems.extend(block.problems);
        self.facts.routes.extend(block.routes.into_iter().map(|draft| route(index, block.software, draft)));
        self.facts.poolers.push(Pooler {
            software: block.software,
            name,
            hosts,
            published,
            listens: block.listens,
            test: self.file(file).is_some_and(|file| super::files::is_test(&file.path)),
            dir: self.dir(file).to_string(),
            place: block.place,
        });
        index
    }

    fn known_hosts(&mut self) {
        let mut known = Vec::new();
        let at = |host: &String, file: FileId, published: &[(u16, u16)], pooler: Option<usize>| Known {
            host: host.clone(),
            file,
            dir: self.dir(file).to_string(),
            published: published.to_vec(),
            pooler,
        };
        for (index, service) in self.services.iter().enumerate() {
            let pooler = self.pooler_of[index];
            let image = service.image.as_deref().map(image_repository);
            let database = match &image {
                Some(image) => is_database_image(image) && software_word(image).is_none(),
                None => service.hosts.first().is_some_and(|name| is_database_image(name)),
            };
            if pooler.is_some() || database {
                known.extend(service.hosts.iter().map(|host| at(host, service.file_id(), &service.ports, pooler)));
            }
        }
        for (index, pooler) in self.facts.poolers.iter().enumerate() {
            if !self.pooler_of.contains(&Some(index)) {
                known.extend(pooler.hosts.iter().map(|host| at(host, pooler.place.file, &[], Some(index))));
            }
        }
        for (host, file) in self.upstream.iter().chain(&self.cluster.databases) {
            // a pooler on the same machine as its database: the address alone says nothing
            let taken = known.iter().any(|one| one.host == *host);
            if !taken && !super::resolve::is_loopback(host) && is_known(host) {
                known.push(at(host, *file, &[], None));
            }
        }
        self.facts.known = known;
    }
}

fn route(pooler: usize, software: Software, draft: Draft) -> Route {
    Route {
        pooler,
        database: draft.database,
        user: draft.user,
        port: draft.port,
        forced_user: draft.forced_user,
        mode: draft.setting.mode,
        at: draft.setting.at,
        defaulted: draft.setting.defaulted,
        dropped_after_each_tx: draft.dropped,
        pins: software.pins_advisory_locks(),
    }
}
