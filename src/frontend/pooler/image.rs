//! What container images make out of their variables.

use super::drafts::{Block, Draft, Setting};
use super::facts::{Mode, Software};
use super::pgbouncer::{drops_locks, is_on};
use super::services::{Service, image_repository};

/// The image's own pool mode where no variable sets it, if that is documented: the images of edoburu, bitnami, brainsam and of the
/// PgBouncer project write `pool_mode` only when told to, and PgBouncer's default is `session`; PgCat's is `transaction`.
pub(super) fn image_default(software: Software, repository: &str) -> Option<Mode> {
    match software {
        Software::PgBouncer => {
            let owners = ["edoburu/", "bitnami/", "bitnamilegacy/", "brainsam/", "pgbouncer/", "crunchydata/"];
            owners
                .iter()
                .any(|owner| repository.starts_with(owner) || repository.contains(&format!("/{owner}")))
                .then_some(Mode::Session)
        }
        Software::PgCat | Software::PgDog => Some(Mode::Transaction),
        Software::PgPool => Some(Mode::Session),
        Software::Odyssey | Software::Supavisor | Software::RdsProxy | Software::Unnamed => None,
    }
}

/// The configuration that an image makes out of its variables.
pub(super) fn from_env(service: &Service, software: Software) -> Block {
    let mut block = Block::new(software, service.at());
    let on = |names: &[&str]| names.iter().find_map(|name| service.var(name)).and_then(|known| known.var.value.clone());
    let always =
        on(&["SERVER_RESET_QUERY_ALWAYS", "PGBOUNCER_SERVER_RESET_QUERY_ALWAYS"]).is_some_and(|value| is_on(&value));
    let dropped = always
        && on(&["SERVER_RESET_QUERY", "PGBOUNCER_SERVER_RESET_QUERY"])
            .is_none_or(|query| query.is_empty() || drops_locks(&query));
    let image = service.image.as_deref().map(image_repository).unwrap_or_default();
    let setting = match service.mode_var() {
        Some(known) => {
            Setting { mode: Mode::of(known.var.value.as_deref().unwrap_or("")), at: known.at(), defaulted: false }
        }
        None => {
            let mode = image_default(software, &image).filter(|_| !service.foreign_vars).unwrap_or(Mode::Unknown);
            Setting { mode, at: service.at(), defaulted: true }
        }
    };
    let mut push = |database: Option<String>, port: Option<u16>, setting: Setting| {
        let mut draft = Draft::all(setting);
        (draft.database, draft.port, draft.dropped) = (database, port, dropped && setting.mode != Mode::Session);
        block.routes.push(draft);
    };
    // bitnami: PGBOUNCER_DSN_0="name=host=.. pool_mode=.."
    for known in service.vars.iter().filter(|known| known.var.name.starts_with("PGBOUNCER_DSN_")) {
        let Some((name, pairs)) = known.var.value.as_deref().and_then(|value| value.split_once('=')) else { continue };
        let pairs = super::ini::connect_string(pairs);
        let own = pairs.iter().find(|(key, _)| key == "pool_mode").map(|(_, mode)| Setting {
            mode: Mode::of(mode),
            at: known.at(),
            defaulted: false,
        });
        push(Some(name.trim().to_string()), None, own.unwrap_or(setting));
    }
    if software == Software::Supavisor {
        // Supavisor, "Connecting": 6543 is the transaction port, 5432 the session port
        push(None, Some(6543), Setting { mode: Mode::Transaction, ..setting });
        push(None, Some(5432), Setting { mode: Mode::Session, ..setting });
    } else {
        push(None, None, setting);
    }
    if let Some(port) = on(&["LISTEN_PORT", "PGBOUNCER_LISTEN_PORT", "PGBOUNCER_PORT"]) {
        block.listens = port.parse().ok();
    }
    block
}
