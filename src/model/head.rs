//! The keys above the rows of a model file.

use super::row::{Protocol, TypeRole, Words};
use serde::Deserialize;

/// The keys above the rows of a model file, as written.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Head {
    /// Package name.
    #[serde(rename = "crate")]
    pub krate: String,
    /// Names by which code refers to the crate, with re-exports (`deadpool_redis::redis`); the package name if nothing is said.
    #[serde(default)]
    pub names: Words,
    /// Protocol of the rows.
    pub protocol: Protocol,
    /// Server that lock rows speak of: `redis`, `postgres`, `etcd` ..
    pub backend: Option<String>,
    /// Versions read.
    pub source: String,
    /// Traits and modules whose import lets a bare method name count (`redis::AsyncCommands`).
    #[serde(default)]
    pub imports: Words,
    /// Types of the crate and what they are.
    #[serde(default)]
    pub types: std::collections::BTreeMap<String, TypeRole>,
    /// Words that make a file worth parsing.
    #[serde(default)]
    pub words: Words,
    /// Words of files that are worth parsing where a lock word stands in a package near theirs.
    #[serde(default)]
    pub near: Words,
    /// What stands behind a type of the crate: one server, several, a cluster.
    #[serde(default)]
    pub topology: std::collections::BTreeMap<String, Topology>,
}

/// What a client speaks to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Topology {
    /// One server, or what stands in front of one.
    OneServer,
    /// The master that Sentinel names at the time.
    Sentinel,
    /// A cluster: each key lives on one of its masters, and fails over to a replica that may lag behind.
    Cluster,
    /// Several masters that know nothing of each other; a majority grants.
    SeveralMasters,
}

impl Topology {
    /// Name in the inventory.
    pub fn name(self) -> &'static str {
        match self {
            Topology::OneServer => "one server",
            Topology::Sentinel => "Sentinel",
            Topology::Cluster => "cluster",
            Topology::SeveralMasters => "several masters",
        }
    }
}
