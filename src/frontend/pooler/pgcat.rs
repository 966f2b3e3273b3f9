//! `pgcat.toml` and PgDog's `pgdog.toml` with `users.toml`.

use super::drafts::{Block, Draft, Setting};
use super::facts::{Mode, Software};
use super::files::span;
use super::template::{Lookup, expand};
use super::tree::Node;
use crate::source::SourceFile;

/// True if the tree is a PgCat configuration.
pub(super) fn is_pgcat(root: &Node) -> bool {
    let pools = root.get("pools").map_or(&[][..], Node::entries);
    pools
        .iter()
        .any(|(_, pool)| pool.get("users").is_some() || pool.get("shards").is_some() || pool.get("pool_mode").is_some())
}

/// True if the tree is PgDog's main file.
pub(super) fn is_pgdog(root: &Node) -> bool {
    root.str_at(&["general", "pooler_mode"]).is_some()
        || (root.get("general").is_some()
            && matches!(root.get("databases"), Some(Node::List(items, _)) if items.iter().any(|d| d.get("host").is_some())))
}

fn setting(file: &SourceFile, node: Option<&Node>, lookup: &dyn Lookup) -> Option<Setting> {
    let text = node?.text()?;
    Some(Setting { mode: Mode::of(&expand(&text.value, lookup)), at: span(file, text.place.clone()), defaulted: false })
}

/// PgCat: `[pools.X] pool_mode`, `[pools.X.users.N] pool_mode`; a pool is a database; `transaction` when absent (config.rs,
/// `Pool::default_pool_mode`).
pub(super) fn pgcat(file: &SourceFile, root: &Node, lookup: &dyn Lookup) -> Block {
    let pools = root.get("pools");
    let place = pools.map_or(0..0, |pools| pools.place());
    let mut block = Block::new(Software::PgCat, span(file, place));
    block.listens = port(root.str_at(&["general", "port"]), lookup).or(Some(6432));
    let general = setting(file, root.at(&["general", "pool_mode"]), lookup);
    for (name, pool) in pools.map_or(&[][..], Node::entries) {
        let default = Setting { mode: Mode::Transaction, at: span(file, name.place.clone()), defaulted: true };
        let own = setting(file, pool.get("pool_mode"), lookup).or(general).unwrap_or(default);
        let mut draft = Draft::all(own);
        draft.database = Some(expand(&name.value, lookup));
        let users = pool.get("users").map_or(&[][..], Node::entries);
        let items = pool.get("users").map_or(&[][..], Node::items);
        // only listed users may connect: if each has a mode of its own, the pool's is nobody's
        let mut inherited = users.is_empty() && items.is_empty();
        for user in users.iter().map(|(_, user)| user).chain(items) {
            let Some(setting) = setting(file, user.get("pool_mode"), lookup) else {
                inherited = true;
                continue;
            };
            let mut draft = Draft::all(setting);
            draft.database = Some(expand(&name.value, lookup));
            draft.user = user.str_at(&["username"]).map(|user| expand(user, lookup));
            block.routes.push(draft);
        }
        if inherited {
            block.routes.push(draft);
        }
        for (_, shard) in pool.get("shards").map_or(&[][..], Node::entries) {
            for server in shard.get("servers").map_or(&[][..], Node::items) {
                if let Some(Node::Scalar(host)) = server.items().first() {
                    block.add_upstream(&expand(&host.value, lookup));
                }
            }
        }
    }
    block
}

/// PgDog: `pooler_mode` in `[general]`, `[[databases]]` and, in `users.toml`, `[[users]]`; `transaction` when absent.
pub(super) fn pgdog(file: &SourceFile, root: &Node, users: Option<(&SourceFile, &Node)>, lookup: &dyn Lookup) -> Block {
    let general = root.at(&["general", "pooler_mode"]);
    let place = general.or(root.get("general")).map_or(0..0, Node::place);
    let mut block = Block::new(Software::PgDog, span(file, place));
    block.listens = port(root.str_at(&["general", "port"]), lookup).or(Some(6432));
    let default = Setting { mode: Mode::Transaction, at: block.place, defaulted: true };
    let general = setting(file, general, lookup).unwrap_or(default);
    for database in root.get("databases").map_or(&[][..], Node::items) {
        let mut draft = Draft::all(setting(file, database.get("pooler_mode"), lookup).unwrap_or(general));
        draft.database = database.str_at(&["name"]).map(|name| expand(name, lookup));
        block.add_upstream(&expand(database.str_at(&["host"]).unwrap_or(""), lookup));
        if !block.routes.iter().any(|known| known.database == draft.database) {
            block.routes.push(draft);
        }
    }
    if let Some((users_file, users)) = users {
        block.files.push(users_file.id);
        for user in users.get("users").map_or(&[][..], Node::items) {
            let Some(setting) = setting(users_file, user.get("pooler_mode"), lookup) else { continue };
            let mut draft = Draft::all(setting);
            draft.database = user.str_at(&["database"]).map(|name| expand(name, lookup));
            draft.user = user.str_at(&["name"]).map(|name| expand(name, lookup));
            block.routes.push(draft);
        }
    }
    if block.routes.is_empty() {
        block.routes.push(Draft::all(general));
    }
    block
}

fn port(text: Option<&str>, lookup: &dyn Lookup) -> Option<u16> {
    expand(text?, lookup).parse().ok()
}
