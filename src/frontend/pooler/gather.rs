//! Collects the connection strings of all files and resolves them.

use super::assemble::Assembly;
use super::context::{ServiceLookup, Surroundings};
use super::env_file::Var;
use super::facts::{Dsn, Resolution, Software};
use super::files::{is_test, parent};
use super::resolve::{Asker, normal};
use super::services::{image_repository, is_database_image};
use super::sites::{self, Site};
use super::template::Lookup;
use super::{compose, k8s, pgcat};
use crate::source::{FileId, Span};

struct Found {
    site: Site,
    asker: Asker,
    scope: Option<String>,
    dir: String,
    own: bool,
}

/// Fills in the connection strings of the facts.
pub(super) fn dsns(assembly: &mut Assembly<'_>) {
    let mut found = of_services(assembly);
    found.extend(of_env_files(assembly));
    found.extend(of_trees(assembly));
    for one in found {
        let site = one.site;
        let overlaps = |at: Span| at.file == site.at.file && at.start < site.at.end && site.at.start < at.end;
        let known = assembly.facts.dsns.iter().any(|dsn| {
            overlaps(dsn.at)
                && normal(&dsn.name) == normal(&site.name)
                && (dsn.scope == one.scope || one.scope.is_none())
        });
        if known {
            continue;
        }
        let resolution = match &site.target {
            Some(target) => assembly.facts.resolve_site(target, &one.asker, site.at),
            None => Resolution::Unknown,
        };
        let Found { scope, dir, own, .. } = one;
        assembly.facts.dsns.push(Dsn {
            name: site.name,
            scope,
            dir,
            own,
            test: one.asker.test,
            at: site.at,
            target: site.target,
            resolution,
        });
    }
    beside_the_flagged(assembly);
    let mut dsns = std::mem::take(&mut assembly.facts.dsns);
    let order = |span: Span| (assembly.file(span.file).map(|file| file.path.clone()), span.start);
    dsns.sort_by_key(|dsn| (dsn.name.clone(), order(dsn.at), dsn.scope.clone()));
    assembly.facts.dsns = dsns;
}

/// One connection string says `pgbouncer=true`, another leads to the same host on another port without saying so: that is the
/// database.
fn beside_the_flagged(assembly: &mut Assembly<'_>) {
    let facts = &assembly.facts;
    let flagged: Vec<_> = facts
        .dsns
        .iter()
        .filter(|dsn| match dsn.resolution {
            Resolution::Through { route, .. } => {
                facts.poolers[facts.routes[route].pooler].software == Software::Unnamed
            }
            _ => false,
        })
        .filter_map(|dsn| dsn.target.clone())
        .collect();
    for dsn in assembly.facts.dsns.iter_mut().filter(|dsn| dsn.resolution == Resolution::Unknown) {
        let Some(target) = &dsn.target else { continue };
        if flagged.iter().any(|other| other.hosts == target.hosts && other.port != target.port) {
            dsn.resolution = Resolution::Direct;
        }
    }
}

fn of_services(assembly: &Assembly<'_>) -> Vec<Found> {
    let mut found = Vec::new();
    for (index, service) in assembly.services.iter().enumerate() {
        let database = service.image.as_deref().is_some_and(|image| is_database_image(&image_repository(image)));
        if assembly.pooler_of[index].is_some() || database {
            continue;
        }
        let file = service.file_id();
        let dir = assembly.dir(file).to_string();
        let test = assembly.file(file).is_some_and(|file| is_test(&file.path));
        let pods = &assembly.cluster.pods;
        let sidecar = pods.get(&index).and_then(|pod| {
            let others = pods.iter().filter(|(other, name)| **other != index && *name == pod);
            others.filter_map(|(other, _)| assembly.pooler_of[*other]).next()
        });
        let lookup = ServiceLookup { service, outside: assembly.context.lookup(&dir) };
        // a container of a cluster runs an image of a registry, as the repository's own do
        let own = service.build.is_some() || pods.contains_key(&index);
        for site in sites::of_vars(&service.vars, &lookup) {
            let asker = Asker { file: Some(file), dir: dir.clone(), test, sidecar };
            let scope = Some(service.name.clone());
            found.push(Found { site, asker, scope, dir: service.build.clone().unwrap_or_default(), own });
        }
    }
    found
}

/// Env files, but not those that only poolers and databases get.
fn of_env_files(assembly: &Assembly<'_>) -> Vec<Found> {
    let mut found = Vec::new();
    for (path, file, vars) in assembly.context.env_files() {
        let takes = |index: &usize| assembly.services[*index].vars.iter().any(|var| var.file == file);
        let (poolers, others): (Vec<usize>, Vec<usize>) =
            (0..assembly.services.len()).filter(takes).partition(|index| assembly.pooler_of[*index].is_some());
        if !poolers.is_empty() && others.is_empty() {
            continue;
        }
        let dir = parent(path).to_string();
        let lookup = EnvLookup { vars, outside: assembly.context.lookup(&dir) };
        found.extend(sites::of_env_file(file, vars, &lookup).into_iter().map(|site| plain(site, file, path)));
    }
    found
}

fn of_trees(assembly: &Assembly<'_>) -> Vec<Found> {
    let mut found = Vec::new();
    for file in assembly.context.files.iter() {
        for root in assembly.context.trees(file.id) {
            let workload = k8s::is_known_kind(root) && root.str_at(&["kind"]) != Some("ConfigMap");
            if compose::is_compose(root) || workload || pgcat::is_pgcat(root) || pgcat::is_pgdog(root) {
                continue;
            }
            let sites = sites::of_tree(assembly.context, file, root);
            found.extend(sites.into_iter().map(|site| plain(site, file.id, &file.path)));
        }
    }
    found
}

fn plain(site: Site, file: FileId, path: &str) -> Found {
    let (dir, test) = (parent(path), is_test(path));
    let asker = Asker { file: Some(file), dir: dir.to_string(), test, sidecar: None };
    Found { site, asker, scope: None, dir: dir.to_string(), own: true }
}

/// Env files may refer to their own variables.
struct EnvLookup<'a> {
    vars: &'a [Var],
    outside: Surroundings<'a>,
}

impl Lookup for EnvLookup<'_> {
    fn variable(&self, name: &str) -> Option<String> {
        let own = self.vars.iter().rev().find(|var| var.name == name).and_then(|var| var.value.clone());
        own.or_else(|| self.outside.variable(name))
    }
}
