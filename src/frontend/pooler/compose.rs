//! Compose files to [`Service`]s (Compose specification: services, environment, env_file, ports, volumes, configs).

use super::context::Context;
use super::env_file::Var;
use super::files::{join, parent};
use super::services::{Mount, Service, ServiceVar};
use super::template::{HOLE, Lookup, expand, is_known};
use super::tree::{Node, Text};
use crate::source::SourceFile;

/// True if the document is a Compose file, whatever its name.
pub(super) fn is_compose(root: &Node) -> bool {
    root.get("apiVersion").is_none()
        && root.get("services").is_some_and(|services| {
            let looks = |one: &Node| {
                ["image", "build", "environment", "extends", "env_file", "ports"]
                    .iter()
                    .any(|key| one.get(key).is_some())
            };
            services.entries().iter().any(|(_, service)| looks(service))
        })
}

/// What Compose fills placeholders with: the env files beside the Compose file (`.env`, or the example that stands for it).
struct Project<'a> {
    context: &'a Context<'a>,
    dir: &'a str,
}

impl Lookup for Project<'_> {
    fn variable(&self, name: &str) -> Option<String> {
        self.context.env_value(self.dir, name)
    }
}

/// Reads the services of a Compose document.
pub(super) fn read(context: &Context<'_>, file: &SourceFile, root: &Node) -> Vec<Service> {
    let project = Project { context, dir: parent(&file.path) };
    let entries = root.get("services").map_or(&[][..], Node::entries);
    let mut services = Vec::new();
    for (name, node) in entries {
        services.push(service(context, file, root, name, node, &project));
    }
    services
}

fn service(
    context: &Context<'_>,
    file: &SourceFile,
    root: &Node,
    name: &Text,
    node: &Node,
    project: &Project<'_>,
) -> Service {
    let fill = |text: &str| expand(text, project);
    let image = node.get("image").and_then(Node::text);
    let build = node.get("build").and_then(|build| build.text().or_else(|| build.get("context")?.text()));
    let mut out = Service {
        file: file.id.0,
        name: name.value.clone(),
        hosts: vec![name.value.to_ascii_lowercase()],
        image: image.map(|text| fill(&text.value)),
        place: image.map_or(name.place.clone(), |text| text.place.clone()),
        build: build.map(|dir| join(project.dir, &fill(&dir.value))),
        ..Service::default()
    };
    for key in ["container_name", "hostname"] {
        add_host(&mut out, node.str_at(&[key]).map(&fill));
    }
    for (_, network) in node.get("networks").map_or(&[][..], Node::entries) {
        for alias in network.get("aliases").map_or(&[][..], Node::items) {
            add_host(&mut out, alias.text().map(|text| fill(&text.value)));
        }
    }
    env_files(context, node, project, &mut out);
    environment(file, node, project, &mut out);
    for port in node.get("ports").map_or(&[][..], Node::items) {
        out.ports.extend(published(port, &fill));
    }
    mounts(file, root, node, project, &mut out);
    out
}

fn add_host(service: &mut Service, host: Option<String>) {
    if let Some(host) = host.map(|host| host.to_ascii_lowercase()).filter(|host| is_known(host) && !host.is_empty())
        && !service.hosts.contains(&host)
    {
        service.hosts.push(host);
    }
}

/// `env_file:` a path, a list of paths, or of maps with `path`.
fn env_files(context: &Context<'_>, node: &Node, project: &Project<'_>, out: &mut Service) {
    for item in node
        .get("env_file")
        .map_or(&[][..], |one| if one.entries().is_empty() { one.items() } else { std::slice::from_ref(one) })
    {
        let Some(path) = item.text().map(|text| text.value.as_str()).or(item.str_at(&["path"])) else { continue };
        let path = join(project.dir, &expand(path, project));
        match context.env_file(&path) {
            Some((file, vars)) => {
                for var in vars {
                    let value = var.value.as_ref().map(|value| expand(value, project));
                    out.vars.push(ServiceVar { var: Var { value, ..var.clone() }, file });
                }
            }
            None => out.foreign_vars = true,
        }
    }
}

/// `environment:` as mapping or list; an entry without value takes the deployer's.
fn environment(file: &SourceFile, node: &Node, project: &Project<'_>, out: &mut Service) {
    let Some(environment) = node.get("environment") else { return };
    let outside = |name: &str| project.variable(name).map(|value| expand(&value, project));
    let mut push = |name: &str, value: Option<String>, place: std::ops::Range<usize>| {
        let value = value.or_else(|| outside(name));
        out.vars.push(ServiceVar { var: Var { name: name.to_string(), value, place }, file: file.id });
    };
    for (name, value) in environment.entries() {
        let Some(text) = value.text() else { continue };
        let absent = text.value.is_empty() || matches!(text.value.as_str(), "null" | "~");
        let place = name.place.start..text.place.end.max(name.place.end);
        push(&name.value, (!absent).then(|| expand(&text.value, project)), place);
    }
    for item in environment.items() {
        for (name, value) in item.entries() {
            if let Some(text) = value.text() {
                push(&name.value, Some(expand(&text.value, project)), text.place.clone());
            }
        }
        let Some(text) = item.text() else { continue };
        match text.value.split_once('=') {
            Some((name, value)) => push(name.trim(), Some(expand(value, project)), text.place.clone()),
            None => push(text.value.trim(), None, text.place.clone()),
        }
    }
}

/// Host port and container port of `6432:5432`, `127.0.0.1:6432:5432/tcp`, `{published, target}`.
fn published(port: &Node, fill: &dyn Fn(&str) -> String) -> Option<(u16, u16)> {
    let number = |node: Option<&Node>| -> Option<u16> { fill(&node?.text()?.value).parse().ok() };
    if !port.entries().is_empty() {
        return Some((number(port.get("published"))?, number(port.get("target"))?));
    }
    let text = fill(&port.text()?.value);
    let text = text.split('/').next().unwrap_or("");
    let mut parts = text.rsplit(':');
    let inside = parts.next()?.parse().ok()?;
    Some((parts.next()?.parse().ok()?, inside))
}

/// Bind mounts and configs, as far as they are files of the repository.
fn mounts(file: &SourceFile, root: &Node, node: &Node, project: &Project<'_>, out: &mut Service) {
    for volume in node.get("volumes").map_or(&[][..], Node::items) {
        let source = match volume.text() {
            Some(text) => expand(&text.value, project).split(':').next().unwrap_or("").to_string(),
            None => volume.str_at(&["source"]).map(|source| expand(source, project)).unwrap_or_default(),
        };
        let source = source.trim_start_matches(HOLE).trim_start_matches("/./");
        // a name without a separator is a volume, not a path
        if source.starts_with('.') || source.contains('/') && is_known(source) {
            out.mounts.push(Mount::Path(join(project.dir, source.trim_start_matches('/'))));
        }
    }
    for config in node.get("configs").map_or(&[][..], Node::items) {
        let Some(name) = config.text().map(|text| text.value.as_str()).or(config.str_at(&["source"])) else { continue };
        let Some(config) = root.get("configs").and_then(|configs| configs.get(name)) else { continue };
        if let Some(path) = config.str_at(&["file"]) {
            out.mounts.push(Mount::Path(join(project.dir, &expand(path, project))));
        }
        if let Some(content) = config.get("content") {
            out.mounts.push(Mount::Inline(file.id, content.place()));
        }
    }
}
