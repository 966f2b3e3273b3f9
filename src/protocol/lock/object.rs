//! Objects of a store as locks: created only if nothing has the name, deleted to give it back (`object_store::PutMode::Create`;
//! Amazon S3 User Guide, "Conditional requests": `If-None-Match: *`). A store expires nothing by itself within a lease's time.

use super::super::Site;
use crate::ir::{
    Acquire, AcquireForm, Backend, EffectKind, LockKind, OwnerCheck, Piece, Release, Reply, Shape, Ttl, Value,
};

/// What a call on an object store does to a lock under that name, beside what it writes. `mode` decides a write.
pub fn effect(site: &Site<'_>, what: &str, target: &Value, mode: Option<&Value>) -> Option<(EffectKind, Reply)> {
    if site.models.file(site.row).head.backend.as_deref() != Some("object-store") {
        return None;
    }
    let key = name(target);
    // A name that is made anew excludes nobody.
    if is_fresh(&key) {
        return None;
    }
    let reply = Reply { held: Shape::Unknown.ok(), lost: Shape::err(), failed: Shape::err() };
    let (backend, kind) = (Backend::ObjectStore, LockKind::Lease);
    match what {
        "object PUT" if mode.is_some_and(creates) => {
            let acquire = Acquire {
                backend,
                kind,
                form: AcquireForm::SetIfAbsent,
                key,
                token: Value::Unknown,
                ttl: Ttl::Never,
                blocking: false,
            };
            Some((EffectKind::Acquire(acquire), reply))
        }
        "object DELETE" => {
            Some((EffectKind::Release(Release { backend, kind, key, check: OwnerCheck::None, all: false }), reply))
        }
        _ => None,
    }
}

/// `PutMode::Create`, alone, converted or in options.
fn creates(mode: &Value) -> bool {
    match mode {
        Value::Path(path) => path.ends_with("PutMode::Create"),
        Value::Call(call) => call.args.iter().any(creates),
        Value::Aggregate(_, fields) => fields.iter().any(|(_, value)| creates(value)),
        _ => false,
    }
}

/// The text of a path: `Path::from("locks/a")`.
fn name(target: &Value) -> Value {
    match target {
        Value::Call(call) if call.args.len() == 1 && call.name.contains("Path::") => call.args[0].clone(),
        other => other.clone(),
    }
}

fn is_fresh(value: &Value) -> bool {
    match value {
        Value::Fresh(_) | Value::Clock { .. } | Value::Unknown => true,
        Value::Template(pieces) => pieces.iter().any(|piece| matches!(piece, Piece::Hole(hole) if is_fresh(hole))),
        Value::Call(call) => call.args.iter().any(is_fresh),
        _ => false,
    }
}
