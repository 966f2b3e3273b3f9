//! Kubernetes manifests to [`Service`]s and [`Block`]s: workloads, ConfigMaps, Services, and the resources of the PostgreSQL
//! operators (CloudNativePG `Pooler`, Zalando `postgresql`, Crunchy `PostgresCluster`).

use std::collections::BTreeMap;
use std::ops::Range;

use super::context::{Context, ServiceLookup};
use super::drafts::{Block, Draft, Setting};
use super::env_file::Var;
use super::facts::{Mode, Software};
use super::files::{join, parent, span};
use super::pgbouncer::{drops_locks, is_on};
use super::services::{Mount, Service, ServiceVar};
use super::template::{Lookup, expand, is_known};
use super::tree::{Node, Text};
use crate::source::{FileId, SourceFile};

/// Nesting of pod specs inside other resources.
const MAX_DEPTH: usize = 12;

/// A Kubernetes manifest has a kind and a version.
pub(super) fn is_manifest(root: &Node) -> bool {
    root.get("kind").is_some() && root.get("apiVersion").is_some()
}

/// Manifests that are understood by their kind; the settings of all others (Helm releases, operators' own) are looked through.
pub(super) fn is_known_kind(root: &Node) -> bool {
    const KINDS: [&str; 20] = [
        "ConfigMap",
        "Secret",
        "Service",
        "Deployment",
        "StatefulSet",
        "DaemonSet",
        "ReplicaSet",
        "Pod",
        "Job",
        "CronJob",
        "Pooler",
        "Cluster",
        "postgresql",
        "PostgresCluster",
        "PerconaPGCluster",
        "PgBouncer",
        "CustomResourceDefinition",
        "Ingress",
        "NetworkPolicy",
        "ServiceMonitor",
    ];
    is_manifest(root) && root.str_at(&["kind"]).is_some_and(|kind| KINDS.contains(&kind))
}

/// Data of a ConfigMap or of a Secret written in clear.
struct ConfigMap {
    name: String,
    dir: String,
    entries: Vec<(FileId, Text, Entry)>,
}

enum Entry {
    Text(Text),
    /// A file named by a kustomization.
    Path(String),
}

struct Exposed {
    name: String,
    selector: Vec<(String, String)>,
    ports: Vec<(u16, u16)>,
}

/// Everything read from the manifests.
#[derive(Default)]
pub(super) struct Cluster {
    maps: Vec<ConfigMap>,
    exposed: Vec<Exposed>,
    /// Containers.
    pub services: Vec<Service>,
    /// Poolers that an operator runs, with their host names.
    pub operated: Vec<(Block, String, Vec<String>)>,
    /// Hosts that operators give to databases.
    pub databases: Vec<(String, FileId)>,
    /// Pod of each container, by index into `services`.
    pub pods: BTreeMap<usize, String>,
}

/// Reads all manifests.
pub(super) fn read(context: &Context<'_>) -> Cluster {
    let mut cluster = Cluster::default();
    let manifests = |each: &mut dyn FnMut(&SourceFile, &Node)| {
        for file in context.files.iter() {
            context.trees(file.id).iter().for_each(|root| each(file, root));
        }
    };
    manifests(&mut |file, root| cluster.named(context, file, root));
    manifests(&mut |file, root| {
        if is_manifest(root) {
            let lookup = context.lookup(parent(&file.path));
            cluster.operator(file, root, &lookup);
            let pod = format!("{}:{}", file.path, root.place().start);
            cluster.workload(context, file, root, root, &pod, 0);
        }
    });
    cluster
}

impl Cluster {
    /// ConfigMaps, kustomize generators and Services, which workloads refer to.
    fn named(&mut self, context: &Context<'_>, file: &SourceFile, root: &Node) {
        let dir = parent(&file.path);
        let lookup = context.lookup(dir);
        for generator in
            ["configMapGenerator", "secretGenerator"].iter().flat_map(|key| root.get(key).map_or(&[][..], Node::items))
        {
            self.generator(context, file, generator);
        }
        if !is_manifest(root) {
            return;
        }
        let name = root.str_at(&["metadata", "name"]).map(|name| expand(name, &lookup)).unwrap_or_default();
        match root.str_at(&["kind"]) {
            Some("ConfigMap" | "Secret") => {
                let entries = ["data", "stringData"]
                    .iter()
                    .filter(|key| **key == "stringData" || root.str_at(&["kind"]) == Some("ConfigMap"))
                    .flat_map(|key| root.get(key).map_or(&[][..], Node::entries))
                    .filter_map(|(key, value)| Some((file.id, key.clone(), Entry::Text(value.text()?.clone()))));
                self.maps.push(ConfigMap { name, dir: dir.to_string(), entries: entries.collect() });
            }
            Some("Service") => {
                let port = |node: Option<&Node>| -> Option<u16> { expand(&node?.text()?.value, &lookup).parse().ok() };
                let ports = root.at(&["spec", "ports"]).map_or(&[][..], Node::items);
                let ports = ports.iter().filter_map(|one| {
                    let outside = port(one.get("port"))?;
                    Some((outside, port(one.get("targetPort")).unwrap_or(outside)))
                });
                self.exposed.push(Exposed {
                    name,
                    selector: labels(root.at(&["spec", "selector"])),
                    ports: ports.collect(),
                });
            }
            _ => {}
        }
    }

    fn generator(&mut self, context: &Context<'_>, file: &SourceFile, node: &Node) {
        let dir = parent(&file.path);
        let mut entries = Vec::new();
        for item in node.get("files").map_or(&[][..], Node::items) {
            let Some(text) = item.text() else { continue };
            let (key, path) = text.value.split_once('=').unwrap_or((text.value.as_str(), text.value.as_str()));
            let key = Text { value: super::files::base_name(key).to_string(), place: text.place.clone() };
            entries.push((file.id, key, Entry::Path(join(dir, path))));
        }
        for item in node.get("literals").map_or(&[][..], Node::items) {
            let Some((text, (key, value))) = item.text().and_then(|text| Some((text, text.value.split_once('=')?)))
            else {
                continue;
            };
            let of = |value: &str| Text { value: value.to_string(), place: text.place.clone() };
            entries.push((file.id, of(key), Entry::Text(of(super::env_file::unquote(value).as_str()))));
        }
        let envs = ["envs", "env"].iter().flat_map(|key| node.get(key).map_or(&[][..], Node::items));
        for path in envs.filter_map(Node::text) {
            let Some((env, vars)) = context.env_file(&join(dir, &path.value)) else { continue };
            for var in vars {
                let of = |value: &str| Text { value: value.to_string(), place: var.place.clone() };
                entries.push((env, of(&var.name), Entry::Text(of(var.value.as_deref().unwrap_or("")))));
            }
        }
        let name = node.str_at(&["name"]).unwrap_or("").to_string();
        self.maps.push(ConfigMap { name, dir: dir.to_string(), entries });
    }

    /// Finds pod specs at any depth: Deployment, CronJob, Pod, and custom resources that embed them.
    fn workload(
        &mut self,
        context: &Context<'_>,
        file: &SourceFile,
        root: &Node,
        node: &Node,
        pod: &str,
        depth: usize,
    ) {
        if depth > MAX_DEPTH {
            return;
        }
        let containers =
            ["containers", "initContainers"].iter().flat_map(|key| node.get(key).map_or(&[][..], Node::items));
        for container in containers {
            if container.get("name").is_some() || container.get("image").is_some() {
                let service = self.container(context, file, root, node, container);
                self.pods.insert(self.services.len(), pod.to_string());
                self.services.push(service);
            }
        }
        for (key, child) in node.entries() {
            if key.value != "containers" && key.value != "initContainers" {
                self.workload(context, file, root, child, pod, depth + 1);
            }
        }
        if let Node::List(items, _) = node {
            for item in items {
                self.workload(context, file, root, item, pod, depth + 1);
            }
        }
    }

    fn container(&self, context: &Context<'_>, file: &SourceFile, root: &Node, pod: &Node, node: &Node) -> Service {
        let dir = parent(&file.path);
        let lookup = context.lookup(dir);
        let fill = |text: &str| expand(text, &lookup);
        let workload = root.str_at(&["metadata", "name"]).map(&fill).unwrap_or_default();
        let image = node.get("image").and_then(Node::text);
        let name = node.str_at(&["name"]).map(&fill).unwrap_or_default();
        let name_place = node.get("name").map_or(node.place(), Node::place);
        let mut out = Service {
            file: file.id.0,
            name: if is_known(&name) && !name.is_empty() { name } else { workload.clone() },
            image: image.map(|text| fill(&text.value)),
            place: image.map_or(name_place, |text| text.place.clone()),
            ..Service::default()
        };
        let labels = labels(root.at(&["spec", "template", "metadata", "labels"]).or(root.at(&["metadata", "labels"])));
        for exposed in &self.exposed {
            let selects = !exposed.selector.is_empty() && exposed.selector.iter().all(|pair| labels.contains(pair));
            if selects && !exposed.name.is_empty() {
                out.hosts.push(exposed.name.to_ascii_lowercase());
                out.ports.extend(&exposed.ports);
            }
        }
        if out.hosts.is_empty() && is_known(&workload) && !workload.is_empty() {
            out.hosts.push(workload.to_ascii_lowercase());
        }
        self.variables(context, file, node, &mut out);
        // `$(X)` means a variable of the same container
        let own = ServiceLookup { service: &out.clone(), outside: context.lookup(dir) };
        for known in &mut out.vars {
            known.var.value = known.var.value.take().map(|value| expand(&value, &own));
        }
        let mounted: Vec<&str> =
            node.get("volumeMounts").map_or(&[][..], Node::items).iter().filter_map(|m| m.str_at(&["name"])).collect();
        for volume in pod.get("volumes").map_or(&[][..], Node::items) {
            if volume.str_at(&["name"]).is_some_and(|name| mounted.contains(&name)) {
                let sources = volume.at(&["projected", "sources"]).map_or(&[][..], Node::items);
                for source in std::iter::once(volume).chain(sources) {
                    let name = source.str_at(&["configMap", "name"]).or(source.str_at(&["secret", "secretName"]));
                    self.mount(dir, name.map(&fill), &mut out);
                }
            }
        }
        out
    }

    fn mount(&self, dir: &str, name: Option<String>, out: &mut Service) {
        let Some(map) = name.and_then(|name| self.map(dir, &name)) else { return };
        for (file, _, entry) in &map.entries {
            out.mounts.push(match entry {
                Entry::Text(text) => Mount::Inline(*file, text.place.clone()),
                Entry::Path(path) => Mount::Path(path.clone()),
            });
        }
    }

    /// The ConfigMap of a name, the nearest by directory.
    fn map(&self, dir: &str, name: &str) -> Option<&ConfigMap> {
        self.maps.iter().filter(|map| map.name == name).max_by_key(|map| super::files::shared_depth(&map.dir, dir))
    }

    fn variables(&self, context: &Context<'_>, file: &SourceFile, node: &Node, out: &mut Service) {
        let dir = parent(&file.path);
        let lookup = context.lookup(dir);
        for source in node.get("envFrom").map_or(&[][..], Node::items) {
            let name = ["configMapRef", "secretRef"].iter().find_map(|key| source.str_at(&[key, "name"]));
            match name.and_then(|name| self.map(dir, &expand(name, &lookup))) {
                Some(map) => {
                    for (file, key, entry) in &map.entries {
                        let Entry::Text(text) = entry else { continue };
                        let value = Some(text.value.clone());
                        let place = key.place.start.min(text.place.start)..key.place.end.max(text.place.end);
                        out.vars.push(ServiceVar { var: Var { name: key.value.clone(), value, place }, file: *file });
                    }
                }
                None => out.foreign_vars = true,
            }
        }
        let mut named: Vec<(String, Option<String>, Range<usize>, FileId)> = Vec::new();
        for entry in node.get("env").map_or(&[][..], Node::items) {
            let Some(name) = entry.str_at(&["name"]) else { continue };
            let mut place = entry.place();
            let mut at_file = file.id;
            let value = match entry.get("value").and_then(Node::text) {
                Some(text) => {
                    place = text.place.clone();
                    Some(text.value.clone())
                }
                None => ["configMapKeyRef", "secretKeyRef"].iter().find_map(|kind| {
                    let reference = entry.at(&["valueFrom", kind])?;
                    let map = self.map(dir, &expand(reference.str_at(&["name"])?, &lookup))?;
                    let key = reference.str_at(&["key"])?;
                    map.entries.iter().find_map(|(from, known, entry)| match entry {
                        Entry::Text(text) if known.value == key => {
                            place = text.place.clone();
                            at_file = *from;
                            Some(text.value.clone())
                        }
                        _ => None,
                    })
                }),
            };
            named.push((name.to_string(), value, place, at_file));
        }
        for (name, value, place, file) in named {
            out.vars.push(ServiceVar { var: Var { name, value, place }, file });
        }
    }

    /// Poolers and databases that an operator sets up from a resource.
    fn operator(&mut self, file: &SourceFile, root: &Node, lookup: &dyn Lookup) {
        let name = root
            .str_at(&["metadata", "name"])
            .map(|name| expand(name, lookup))
            .unwrap_or_default()
            .to_ascii_lowercase();
        let version = root.str_at(&["apiVersion"]).unwrap_or("");
        let kind = root.get("kind").map_or(0..0, Node::place);
        let mut database = |host: String| self.databases.push((host, file.id));
        let setting = |path: &[&str], default: Mode| match root.at(path).and_then(Node::text) {
            Some(text) => Setting {
                mode: Mode::of(&expand(&text.value, lookup)),
                at: span(file, text.place.clone()),
                defaulted: false,
            },
            None => Setting { mode: default, at: span(file, kind.clone()), defaulted: true },
        };
        let (setting, hosts, parameters): (Setting, Vec<String>, &[&str]) = match root.str_at(&["kind"]) {
            // CloudNativePG, API reference: PgBouncerSpec.poolMode defaults to `session`
            Some("Pooler") => (
                setting(&["spec", "pgbouncer", "poolMode"], Mode::Session),
                vec![name.clone()],
                &["spec", "pgbouncer", "parameters"],
            ),
            Some("Cluster") if version.contains("cnpg") || version.contains("enterprisedb") => {
                ["-rw", "-ro", "-r"].iter().for_each(|ending| database(format!("{name}{ending}")));
                return;
            }
            // Zalando operator, cluster manifest reference: connectionPooler.mode defaults to `transaction`
            Some("postgresql") => {
                database(name.clone());
                let on = root.str_at(&["spec", "enableConnectionPooler"]) == Some("true")
                    || root.at(&["spec", "connectionPooler"]).is_some();
                if !on {
                    return;
                }
                let hosts = vec![format!("{name}-pooler"), format!("{name}-pooler-repl")];
                (setting(&["spec", "connectionPooler", "mode"], Mode::Transaction), hosts, &[])
            }
            // KubeDB: `connectionPool.poolMode` defaults to PgBouncer's default
            Some("PgBouncer") => {
                (setting(&["spec", "connectionPool", "poolMode"], Mode::Session), vec![name.clone()], &[])
            }
            // Crunchy operator: pgBouncer's own defaults, settings under config.global
            Some("PostgresCluster" | "PerconaPGCluster") => {
                database(format!("{name}-primary"));
                database(format!("{name}-ha"));
                if root.at(&["spec", "proxy", "pgBouncer"]).is_none() {
                    return;
                }
                let path = ["spec", "proxy", "pgBouncer", "config", "global"];
                let mode = ["spec", "proxy", "pgBouncer", "config", "global", "pool_mode"];
                let path: &[&str] =
                    if root.at(&path).is_some() { &["spec", "proxy", "pgBouncer", "config", "global"] } else { &[] };
                (setting(&mode, Mode::Session), vec![format!("{name}-pgbouncer")], path)
            }
            _ => return,
        };
        let mut block = Block::new(Software::PgBouncer, span(file, kind));
        let parameter =
            |key: &str| root.at(parameters).filter(|_| !parameters.is_empty())?.str_at(&[key]).map(str::to_string);
        let mut draft = Draft::all(setting);
        draft.dropped = setting.mode != Mode::Session
            && parameter("server_reset_query_always").is_some_and(|value| is_on(&value))
            && parameter("server_reset_query").is_none_or(|query| drops_locks(&query));
        block.routes.push(draft);
        if let Some(cluster) = root.str_at(&["spec", "cluster", "name"]) {
            block.add_upstream(&format!("{}-rw", expand(cluster, lookup)));
        }
        self.operated.push((block, name, hosts));
    }
}

fn labels(node: Option<&Node>) -> Vec<(String, String)> {
    let entries = node.map_or(&[][..], Node::entries);
    let entries = entries.iter().filter(|(key, _)| key.value != "matchLabels");
    entries.filter_map(|(key, value)| Some((key.value.clone(), value.text()?.value.clone()))).collect()
}
