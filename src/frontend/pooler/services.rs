//! Services of a deployment: Compose services and Kubernetes containers, before it is known which of them are poolers.

use std::ops::Range;

use super::env_file::Var;
use super::facts::Software;
use super::files::base_name;
use crate::source::{FileId, Span};

/// A variable of a service, with the file it stands in.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ServiceVar {
    pub var: Var,
    pub file: FileId,
}

impl ServiceVar {
    /// Where the entry stands.
    pub(super) fn at(&self) -> Span {
        Span::new(self.file, self.var.place.start, self.var.place.end)
    }
}

/// A file that a service gets: by a path of the repository, or as text inside the deployment file.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Mount {
    /// Path in the repository, a file or a directory.
    Path(String),
    /// Text in a deployment file.
    Inline(FileId, Range<usize>),
}

/// One service.
#[derive(Clone, Debug, PartialEq, Default)]
pub(super) struct Service {
    /// Index of the file it is declared in.
    pub file: u32,
    /// Name in its deployment.
    pub name: String,
    /// Host names it answers to, lower case.
    pub hosts: Vec<String>,
    /// Image reference, unexpanded defaults already filled in.
    pub image: Option<String>,
    /// Where the image, or else the name, stands.
    pub place: Range<usize>,
    /// Directory it is built from.
    pub build: Option<String>,
    /// Variables; a later one of a name wins.
    pub vars: Vec<ServiceVar>,
    /// Variables come from somewhere that is not in the repository.
    pub foreign_vars: bool,
    /// Published ports and the ports inside.
    pub ports: Vec<(u16, u16)>,
    /// Configuration it gets.
    pub mounts: Vec<Mount>,
}

impl Service {
    /// The file it is declared in.
    pub(super) fn file_id(&self) -> FileId {
        FileId(self.file)
    }

    /// Where it is declared.
    pub(super) fn at(&self) -> Span {
        Span::new(self.file_id(), self.place.start, self.place.end)
    }

    /// The variable of a name that holds.
    pub(super) fn var(&self, name: &str) -> Option<&ServiceVar> {
        self.vars.iter().rev().find(|known| known.var.name == name)
    }

    /// Which pooler it runs, by its image, else by the name of the service it builds.
    pub(super) fn software(&self) -> Option<Software> {
        if let Some(image) = &self.image {
            let repository = image_repository(image);
            if let Some(software) = software_word(&repository) {
                return Some(software);
            }
            if self.build.is_none() && is_database_image(&repository) {
                return None;
            }
        }
        let built = self.build.as_deref().map(|dir| base_name(dir).to_ascii_lowercase());
        software_word(&self.name.to_ascii_lowercase())
            .or_else(|| built.as_deref().and_then(software_word))
            .or_else(|| (self.name.contains("pool") && self.mode_var().is_some()).then_some(Software::PgBouncer))
    }

    /// The variable that sets the pool mode. Most specific first: the database entry that the official image writes, then the
    /// names of the usual images, then any other.
    pub(super) fn mode_var(&self) -> Option<&ServiceVar> {
        const NAMES: [&str; 6] = [
            "DATABASES_POOL_MODE",
            "PGBOUNCER_POOL_MODE",
            "POOL_MODE",
            "POOLER_POOL_MODE",
            "CONNECTION_POOLER_MODE",
            "PGDOG_POOLER_MODE",
        ];
        NAMES.iter().find_map(|name| self.var(name)).or_else(|| {
            self.vars
                .iter()
                .rev()
                .find(|known| known.var.name.ends_with("POOL_MODE") || known.var.name.ends_with("POOLER_MODE"))
        })
    }
}

/// `registry/owner/name` of an image reference, without tag and digest, lower case.
pub(super) fn image_repository(image: &str) -> String {
    let image = image.split('@').next().unwrap_or(image);
    let tag = image.rfind(':').filter(|at| !image[*at..].contains('/'));
    image[..tag.unwrap_or(image.len())].to_ascii_lowercase()
}

/// The pooler that a word names; exporters and other companions are none.
pub(super) fn software_word(word: &str) -> Option<Software> {
    if ["exporter", "metrics", "admin-ui", "ldap", "userlist", "test", "migrat", "backup", "monitor"]
        .iter()
        .any(|other| word.contains(other))
    {
        return None;
    }
    [
        ("pgbouncer", Software::PgBouncer),
        ("pg-bouncer", Software::PgBouncer),
        ("pg_bouncer", Software::PgBouncer),
        ("pgcat", Software::PgCat),
        // a fork of PgCat with the same settings
        ("pg_doorman", Software::PgCat),
        ("pg-doorman", Software::PgCat),
        ("pgdog", Software::PgDog),
        ("supavisor", Software::Supavisor),
        ("odyssey", Software::Odyssey),
        ("pgpool", Software::PgPool),
    ]
    .iter()
    .find(|(name, _)| word.contains(name))
    .map(|(_, software)| *software)
}

/// True for images that run a PostgreSQL server (or one of its dialects).
pub(super) fn is_database_image(repository: &str) -> bool {
    let name = base_name(repository);
    ["postgres", "postgis", "timescale", "pgvector", "spilo", "cockroach", "yugabyte", "citus", "paradedb", "alloydb"]
        .iter()
        .any(|word| name.contains(word) || repository.starts_with(&format!("{word}/")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images() {
        assert_eq!(image_repository("ghcr.io:443/Acme/PgBouncer:1.2@sha256:aa"), "ghcr.io:443/acme/pgbouncer");
        assert_eq!(software_word("prometheuscommunity/pgbouncer-exporter"), None);
        assert_eq!(software_word("ghcr.io/postgresml/pgcat"), Some(Software::PgCat));
        assert!(is_database_image("docker.io/library/postgres") && is_database_image("timescale/timescaledb-ha"));
        assert!(!is_database_image("acme/api"));
    }
}
