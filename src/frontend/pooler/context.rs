//! What all readers share: the files, the variables of env files, the trees of YAML and TOML files.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use super::env_file::{self, Var};
use super::files::{Files, MAX_BYTES, base_name, join, parent, part_unread};
use super::services::Service;
use super::template::Lookup;
use super::tree::Node;
use super::{toml_tree, yaml};
use crate::source::{FileId, Problem, ProblemKind, SourceFile};

/// Files and what was read from them once.
pub(super) struct Context<'a> {
    pub files: &'a Files<'a>,
    /// Documents of YAML and TOML files.
    pub trees: BTreeMap<FileId, Vec<Node>>,
    env: BTreeMap<String, (FileId, Vec<Var>)>,
    /// Values of a Helm chart or variables of a role that a template used: such a setting is not a pooler of its own.
    used_values: RefCell<BTreeSet<(FileId, usize)>>,
    pub problems: Vec<Problem>,
}

/// The kind of a file by its name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Yaml,
    Toml,
    Env,
    Other,
}

/// Name without the endings that mark templates.
pub(super) fn plain_name(path: &str) -> String {
    let mut name = base_name(path).to_ascii_lowercase();
    while let Some(stem) =
        [".tmpl", ".tpl", ".template", ".j2", ".jinja2", ".jinja", ".erb", ".dist", ".example", ".sample", ".in"]
            .iter()
            .find_map(|ending| name.strip_suffix(ending))
    {
        name = stem.to_string();
    }
    name
}

/// What a path is.
pub(super) fn kind(path: &str) -> Kind {
    let name = plain_name(path);
    if env_file::is_env_name(base_name(path)) {
        Kind::Env
    } else if name.ends_with(".yml") || name.ends_with(".yaml") {
        Kind::Yaml
    } else if name.ends_with(".toml") {
        Kind::Toml
    } else {
        Kind::Other
    }
}

impl<'a> Context<'a> {
    /// Parses all YAML, TOML and env files.
    pub(super) fn new(files: &'a Files<'a>) -> Self {
        let mut context = Context {
            files,
            trees: BTreeMap::new(),
            env: BTreeMap::new(),
            used_values: RefCell::default(),
            problems: Vec::new(),
        };
        for file in files.iter() {
            context.load(file);
        }
        context
    }

    fn load(&mut self, file: &SourceFile) {
        if file.text.len() > MAX_BYTES {
            self.problems.push(Problem {
                path: file.path.clone(),
                span: None,
                kind: ProblemKind::FileUnread,
                message: "configuration file larger than 1 MiB, not read".to_string(),
            });
            return;
        }
        let mut failed = |error: Option<(usize, String)>, what: &str| {
            if let Some((at, message)) = error {
                let at = at.min(file.text.len());
                self.problems.push(part_unread(file, at..at, format!("{what} not understood from here on: {message}")));
            }
        };
        match kind(&file.path) {
            Kind::Yaml => {
                let loaded = yaml::load(&file.text);
                failed(loaded.error, "YAML");
                let embedded: Vec<Node> =
                    loaded.documents.iter().flat_map(|root| embedded_values(&file.text, root)).collect();
                self.trees.insert(file.id, loaded.documents.into_iter().chain(embedded).collect());
            }
            Kind::Toml => {
                let (root, error) = toml_tree::load(&file.text);
                failed(error, "TOML");
                self.trees.insert(file.id, vec![root]);
            }
            Kind::Env => {
                self.env.insert(file.path.clone(), (file.id, env_file::read(&file.text, 0..file.text.len())));
            }
            Kind::Other => {}
        }
    }

    /// The file of an id.
    pub(super) fn file(&self, id: FileId) -> Option<&'a SourceFile> {
        self.files.id(id)
    }

    /// Documents of a file.
    pub(super) fn trees(&self, file: FileId) -> &[Node] {
        self.trees.get(&file).map_or(&[], Vec::as_slice)
    }

    /// The variables of the env file at a path, or of the example that stands for it where the file itself is not in the
    /// repository.
    pub(super) fn env_file(&self, path: &str) -> Option<(FileId, &[Var])> {
        let name = base_name(path);
        let dir = parent(path);
        let variants = ["", ".example", ".sample", ".template", ".dist", ".tmpl"]
            .iter()
            .map(|ending| join(dir, &format!("{name}{ending}")));
        let bare = name.trim_start_matches('.');
        let bare = ["example", "sample", "template"].iter().map(|ending| join(dir, &format!("{bare}.{ending}")));
        variants.chain(bare).find_map(|path| self.env.get(&path)).map(|(file, vars)| (*file, vars.as_slice()))
    }

    /// All env files.
    pub(super) fn env_files(&self) -> impl Iterator<Item = (&str, FileId, &[Var])> {
        self.env.iter().map(|(path, (file, vars))| (path.as_str(), *file, vars.as_slice()))
    }

    /// Value of a variable in the env file that tools read by themselves in a directory.
    pub(super) fn env_value(&self, dir: &str, name: &str) -> Option<String> {
        let (_, vars) = self.env_file(&join(dir, ".env"))?;
        vars.iter().rev().find(|var| var.name == name).and_then(|var| var.value.clone())
    }

    /// The lookup for templates in `dir` outside any service: the env file of the directory, the values of the Helm chart around it.
    pub(super) fn lookup(&'a self, dir: &str) -> Surroundings<'a> {
        Surroundings { context: self, dir: dir.to_string() }
    }

    /// True if a template of its chart uses the value at this place.
    pub(super) fn is_used_value(&self, file: FileId, at: usize) -> bool {
        self.used_values.borrow().contains(&(file, at))
    }

    fn chart_value(&self, dir: &str, path: &str) -> Option<String> {
        let chart = match dir.find("templates") {
            Some(at) => dir[..at].trim_end_matches('/'),
            None => dir,
        };
        let file = ["values.yaml", "values.yml"].iter().find_map(|name| self.files.get(&join(chart, name)))?;
        let keys: Vec<&str> = path.strip_prefix(".Values.")?.split('.').collect();
        let text = self.trees(file.id).first()?.at(&keys)?.text()?;
        self.used_values.borrow_mut().insert((file.id, text.place.start));
        Some(text.value.clone())
    }
}

/// See [`Context::lookup`].
pub(super) struct Surroundings<'a> {
    context: &'a Context<'a>,
    dir: String,
}

impl Lookup for Surroundings<'_> {
    fn variable(&self, name: &str) -> Option<String> {
        self.context.env_value(&self.dir, name)
    }

    fn path(&self, path: &str) -> Option<String> {
        if path.starts_with(".Values.") {
            return self.context.chart_value(&self.dir, path);
        }
        // an Ansible role: `roles/x/templates/..` takes variables from `roles/x/defaults/main.yml` and `vars/main.yml`
        let role = self.dir.find("templates").map(|at| self.dir[..at].trim_end_matches('/'))?;
        ["vars/main.yml", "defaults/main.yml", "vars/main.yaml", "defaults/main.yaml"]
            .iter()
            .filter_map(|name| self.context.files.get(&join(role, name)))
            .find_map(|file| {
                let text = self.context.trees(file.id).first()?.get(path)?.text()?;
                self.context.used_values.borrow_mut().insert((file.id, text.place.start));
                Some(text.value.clone())
            })
    }
}

/// Placeholders in a configuration that a service gets are filled from the service's variables.
pub(super) struct ServiceLookup<'a> {
    pub service: &'a Service,
    pub outside: Surroundings<'a>,
}

impl Lookup for ServiceLookup<'_> {
    fn variable(&self, name: &str) -> Option<String> {
        match self.service.var(name) {
            Some(known) => known.var.value.clone(),
            None => self.outside.variable(name),
        }
    }
    fn path(&self, path: &str) -> Option<String> {
        self.outside.path(path)
    }
}

/// Helm values inside a block scalar: `spec.source.helm.values` of Argo CD, `spec.valuesContent` of K3s.
fn embedded_values(text: &str, root: &Node) -> Vec<Node> {
    let paths: [&[&str]; 3] = [&["spec", "source", "helm", "values"], &["spec", "valuesContent"], &["spec", "values"]];
    let sources = root.at(&["spec", "sources"]).map_or(&[][..], Node::items);
    let scalars = paths
        .iter()
        .filter_map(|path| root.at(path))
        .chain(sources.iter().filter_map(|one| one.at(&["helm", "values"])));
    let mut out = Vec::new();
    for scalar in scalars.filter_map(Node::text).filter(|scalar| scalar.value.contains('\n')) {
        let raw = text.get(scalar.place.clone()).unwrap_or("");
        let Some(header) = raw.find('\n') else { continue };
        let base = scalar.place.start + header + 1;
        for mut document in yaml::load(&raw[header + 1..]).documents {
            document.shift(base);
            out.push(document);
        }
    }
    out
}
