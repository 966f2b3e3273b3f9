//! Stores that compare before they write: create only what is absent, replace or delete only the version or owner that was
//! read (`If-None-Match: *` and `If-Match` of object stores, condition expressions of DynamoDB, revisions of a NATS bucket).
//! Such a store expires nothing by itself within a lease's time: until when a lock is held stands in its value.

use crate::ir::{
    Acquire, AcquireForm, Backend, EffectKind, Lit, LockKind, OwnerCheck, Piece, Release, Renew, Resource, Safety, Ttl,
    Value, Write,
};

/// What the store compares before it does what it is told.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// Nothing.
    None,
    /// That nothing has the name, or that what has it is over.
    Absent,
    /// That the version, or what stands there, is this.
    Is(Value),
    /// Something that could not be read.
    Unknown,
}

/// What putting a value under a key does: it takes what is absent, prolongs what is compared, and overwrites whatever is
/// there else.
pub fn put(backend: Backend, key: Value, value: Option<&Value>, condition: &Condition) -> Vec<EffectKind> {
    let write = |safety| {
        let resource = Resource::Key(backend, key.clone());
        EffectKind::Write(Write::new(resource, "put", safety, value.cloned().into_iter().collect(), None))
    };
    let renew = |check| EffectKind::Renew(Renew { backend, key: key.clone(), check, ttl: Ttl::Unknown });
    match condition {
        Condition::Absent if value.is_some_and(counted) => vec![write(Safety::Unique)],
        Condition::Absent => vec![EffectKind::Acquire(Acquire {
            backend,
            kind: LockKind::Lease,
            form: AcquireForm::SetIfAbsent,
            key,
            token: Value::Unknown,
            ttl: value.map_or(Ttl::Unknown, held_until),
            blocking: false,
        })],
        Condition::Is(version) if value.is_some_and(counted) => {
            vec![write(Safety::Conditions(vec![("version".into(), "=".into(), version.clone())]))]
        }
        Condition::Is(_) => vec![renew(OwnerCheck::Server)],
        Condition::None => match value {
            Some(value) if tells_time(value, 0) => vec![write(Safety::None), renew(OwnerCheck::None)],
            Some(value) if given_up(value, 0) => vec![write(Safety::None), release(backend, key, condition)],
            _ => vec![write(Safety::None)],
        },
        Condition::Unknown => vec![write(Safety::Unknown)],
    }
}

/// Deleting a key: a release if it is one of a lock.
pub fn release(backend: Backend, key: Value, condition: &Condition) -> EffectKind {
    let check = match condition {
        Condition::None => OwnerCheck::None,
        Condition::Absent | Condition::Is(_) => OwnerCheck::Server,
        Condition::Unknown => OwnerCheck::Unknown,
    };
    EffectKind::Release(Release { backend, kind: LockKind::Lease, key, check, all: false })
}

/// The expiry that a value brings with it: a time in it is one that others wait for. A value that says nothing of a time is
/// held until it is deleted.
fn held_until(value: &Value) -> Ttl {
    if !tells_time(value, 0) && plain(value, 0) { Ttl::Never } else { Ttl::Unknown }
}

/// Words of fields that say until when something is held.
const TIMES: &[&str] =
    &["expires", "expiry", "expire", "until", "deadline", "ttl", "expiration", "renewed", "heartbeat"];

/// Whether a name says that a time stands there.
pub fn names_time(name: &str) -> bool {
    words(name).any(|w| TIMES.contains(&w.as_str()))
}

/// Whether a value holds a time.
fn tells_time(value: &Value, depth: usize) -> bool {
    let inner = |v: &Value| depth < 16 && tells_time(v, depth + 1);
    let named = names_time;
    match value {
        Value::Clock { .. } => true,
        Value::Template(pieces) => pieces.iter().any(|p| matches!(p, Piece::Hole(v) if inner(v))),
        Value::Call(call) => call.args.iter().any(inner),
        Value::Aggregate(_, fields) => {
            fields.iter().any(|(name, v)| inner(v) || named(name) && !matches!(v, Value::Const(_)))
        }
        Value::Operation(_, list) | Value::Join(list) => list.iter().any(inner),
        Value::Field(base, name) => named(name) || inner(base),
        Value::TypeField(_, name) => named(name),
        _ => false,
    }
}

/// Whether all of a value is known.
fn plain(value: &Value, depth: usize) -> bool {
    let inner = |v: &Value| depth < 16 && plain(v, depth + 1);
    match value {
        Value::Const(_) | Value::Path(_) | Value::Fresh(_) | Value::PerProcess(_) | Value::Identity(_) => true,
        Value::Template(pieces) => pieces.iter().all(|p| !matches!(p, Piece::Hole(v) if !inner(v))),
        Value::Aggregate(_, fields) => fields.iter().all(|(_, v)| inner(v)),
        Value::Call(call) => !call.args.is_empty() && call.args.iter().all(inner),
        _ => false,
    }
}

/// Whether a value says of itself that it is over: `Lock { expired: true, .. }`.
fn given_up(value: &Value, depth: usize) -> bool {
    const OVER: &[&str] = &["expired", "released", "abdicated", "resigned"];
    let inner = |v: &Value| depth < 16 && given_up(v, depth + 1);
    match value {
        Value::Aggregate(_, fields) => fields.iter().any(|(name, v)| {
            let yes = *v == Value::Const(Lit::Bool(true));
            yes && words(name).any(|w| OVER.contains(&w.as_str())) || inner(v)
        }),
        Value::Call(call) => call.args.iter().any(inner),
        _ => false,
    }
}

/// Whether a value is a number that is counted up: a counter, which nobody holds.
pub fn counted(value: &Value) -> bool {
    counts(value, 0)
}

fn counts(value: &Value, depth: usize) -> bool {
    const STEPS: &[&str] = &[".saturating_add", ".wrapping_add", ".checked_add", ".next"];
    let inner = |v: &Value| depth < 16 && counts(v, depth + 1);
    match value {
        Value::Operation(op, list) => op == "+" && list.iter().any(|v| v.as_int().is_some()),
        Value::Call(call) if STEPS.contains(&call.name.as_str()) => {
            call.args.get(1).is_some_and(|v| v.as_int().is_some())
        }
        Value::Call(call) => call.args.iter().any(inner),
        Value::Join(list) => list.iter().any(inner),
        _ => false,
    }
}

fn words(name: &str) -> impl Iterator<Item = String> + '_ {
    name.split(|c: char| !c.is_ascii_alphanumeric()).map(str::to_ascii_lowercase)
}

/// Whether a name is made anew each time, or not known: nobody is excluded by it.
pub fn is_fresh(value: &Value) -> bool {
    match value {
        Value::Fresh(_) | Value::Clock { .. } | Value::Unknown => true,
        Value::Template(pieces) => pieces.iter().any(|piece| matches!(piece, Piece::Hole(hole) if is_fresh(hole))),
        Value::Call(call) => call.args.iter().any(is_fresh),
        _ => false,
    }
}
