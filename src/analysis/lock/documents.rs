//! Documents, registers and counters in stores that compare versions: written as locks are, and held by nobody.

use super::{Lock, lockish, lockish_key};
use crate::analysis::summary::Relation;
use crate::analysis::{Analyzer, key_of};
use crate::ir::{Acquire, Backend, EffectKind, Resource, Safety, Write};

/// Stores that compare a revision keep documents, registers and counters in the same way as locks: created if absent, replaced
/// if unchanged, deleted. Only names tell them apart.
pub(super) fn compares_revisions(acquire: &Acquire) -> bool {
    matches!(acquire.backend, Backend::Nats | Backend::ObjectStore | Backend::DynamoDb)
}

/// Whether whoever creates the key also replaces its value under a condition on what is stored there, as one changes a
/// document. What has no expiry and nobody's name gets no other holder that way.
pub(super) fn rewritten(a: &Analyzer<'_>, lock: &Lock, backend: Backend) -> bool {
    let origin = lock.taken.origin();
    lock.taken.id.0.iter().any(|site| {
        let reached = a.reached(site.function);
        let own = reached.iter().find(|r| r.origin == origin);
        let Some(key) = own.and_then(|r| key_of(&r.effect)).map(|key| a.comparable(site.function, key)) else {
            return false;
        };
        reached.iter().any(|other| match &other.effect.kind {
            EffectKind::Write(Write { resource: Resource::Key(of, at), safety: Safety::Conditions(..), .. }) => {
                *of == backend && a.relate(&key, &a.comparable(site.function, at)) == Relation::Must
            }
            _ => false,
        })
    })
}

pub(super) fn named_lock(a: &Analyzer<'_>, lock: &Lock, acquire: &Acquire) -> bool {
    lockish(a, lock.taken.function) || lockish_key(&lock.taken.key) || lockish_key(&acquire.key)
}
