//! Lock APIs: lock crates over Redis or SQL, etcd, ZooKeeper, Consul, Kubernetes leases, NATS key-value buckets. What they do is
//! said by their rows; this module turns rows into effects and replies.

use super::{Outcome, Site, api_acquire, project, ttl};
use crate::ir::{
    Acquire, AcquireForm, Atomicity, Backend, CallValue, Effect, EffectKind, GuardDrop, LockKind, OwnerCheck, Release,
    Renew, Reply, Resource, RoundTrip, Safety, Shape, TimeUnit, Ttl, Value, Write,
};
use crate::model::{Check, OnDrop, ReplyKind, Role};
use crate::source::Span;

/// A call that matched a row of this protocol.
pub fn call(site: &Site<'_>) -> Outcome {
    let backend = backend(site);
    let kind = match backend {
        Backend::Postgres | Backend::MySql => LockKind::Session,
        _ => LockKind::Lease,
    };
    let key = || site.value_at(&site.row.key).unwrap_or(Value::Unknown);
    let effects = match site.row.role {
        Role::LockAcquire => {
            let mut acquire = api_acquire(site, backend, kind);
            acquire.ttl = lease_ttl(site);
            if site.row.what.as_deref() == Some("set-if-absent") {
                acquire.form = AcquireForm::SetIfAbsent;
            }
            vec![EffectKind::Acquire(acquire)]
        }
        Role::LockRelease => {
            vec![EffectKind::Release(Release { backend, kind, key: lock_key(key()), check: check(site), all: false })]
        }
        Role::LockRenew => {
            vec![EffectKind::Renew(Renew { backend, key: lock_key(key()), check: check(site), ttl: lease_ttl(site) })]
        }
        Role::CreateNode => vec![create_node(site, key())],
        Role::Transact => return transact(site, backend),
        Role::Read => vec![EffectKind::Read(Resource::Key(backend, key()))],
        Role::Write => {
            let conditional = site.value_at(&site.row.token).is_some_and(|version| !is_none(&version));
            let safety = if conditional {
                Safety::Conditions(vec![(
                    "version".into(),
                    "=".into(),
                    site.value_at(&site.row.token).unwrap_or(Value::Unknown),
                )])
            } else {
                Safety::None
            };
            vec![EffectKind::Write(Write {
                resource: Resource::Key(backend, key()),
                verb: site.row.what.clone().unwrap_or_else(|| "put".into()),
                safety,
                values: site.value_at(&site.row.value).into_iter().collect(),
                ttl: site.row.ttl.is_some().then(|| lease_ttl(site)),
            })]
        }
        _ => return Outcome::Silent,
    };
    let lock = effects.iter().any(EffectKind::is_lock);
    let effects = effects.into_iter().map(|kind| (site.span, kind)).collect();
    finish(site, effects, lock.then(|| reply(site)).flatten())
}

fn finish(site: &Site<'_>, kinds: Vec<(Span, EffectKind)>, reply: Option<Reply>) -> Outcome {
    let command = format!("{}::{}", site.models.file(site.row).head.krate, site.call.name());
    let effect = |(span, kind)| Effect { span, command: command.clone(), kind, conditional: false };
    Outcome::Effect(Box::new(RoundTrip {
        handle: site.on(),
        effects: kinds.into_iter().map(effect).collect(),
        atomicity: Atomicity::Single,
        reply,
        certainty: site.certainty,
        model: site.row.id.clone(),
        guard: site.row.on_drop.map(|on_drop| match on_drop {
            OnDrop::Releases => GuardDrop::Releases,
            OnDrop::Later => GuardDrop::Later,
            OnDrop::Nothing => GuardDrop::Nothing,
        }),
    }))
}

fn backend(site: &Site<'_>) -> Backend {
    match site.models.file(site.row).head.backend.as_deref() {
        Some("postgres") => Backend::Postgres,
        Some("mysql") => Backend::MySql,
        Some("sql-server") => Backend::SqlServer,
        Some("sql") => Backend::Sql,
        Some("etcd") => Backend::Etcd,
        Some("zookeeper") => Backend::ZooKeeper,
        Some("consul") => Backend::Consul,
        Some("kubernetes") => Backend::Kubernetes,
        Some("nats") => Backend::Nats,
        Some("object-store") => Backend::ObjectStore,
        Some("dynamo-db") => Backend::DynamoDb,
        _ => Backend::Redis,
    }
}

fn check(site: &Site<'_>) -> OwnerCheck {
    match site.row.check {
        Some(Check::None) => OwnerCheck::None,
        // A version or token argument that is `None` compares nothing.
        Some(Check::Server) if site.value_at(&site.row.token).is_some_and(|token| is_none(&token)) => OwnerCheck::None,
        // The crate compares the token that it made itself.
        Some(Check::Server | Check::Token) => OwnerCheck::Server,
        None => OwnerCheck::Unknown,
    }
}

fn is_none(value: &Value) -> bool {
    matches!(value, Value::Path(path) if path.rsplit("::").next() == Some("None"))
}

/// The key of a lock object that an acquire call gave: the object's value is that call.
fn lock_key(value: Value) -> Value {
    let mut current = &value;
    for _ in 0..8 {
        match current {
            Value::Call(call) => {
                let first = usize::from(call.name.starts_with('.'));
                match call.name.as_str() {
                    ".lock" | ".acquire" | ".acquire_no_guard" | ".try_acquire" | ".extend" | ".get_lock" => {
                        return call.args.get(first).cloned().unwrap_or(Value::Unknown);
                    }
                    ".key" | ".id" | ".unwrap" | ".clone" | ".to_vec" => match call.args.first() {
                        Some(inner) => current = inner,
                        None => break,
                    },
                    _ => break,
                }
            }
            Value::Field(inner, _) => current = inner,
            _ => break,
        }
    }
    value
}

/// The row's TTL, followed to the lease or session that grants it.
fn lease_ttl(site: &Site<'_>) -> Ttl {
    if site.row.renews {
        return Ttl::Managed;
    }
    let Some(place) = &site.row.ttl else { return Ttl::Unknown };
    let value = site.value(place);
    if let Some(ttl) = granted(site, &value, 0) {
        return ttl;
    }
    if site.row.unit.is_some() {
        return site.ttl();
    }
    // Options that are not given: the service's own default, which it manages.
    match site.operand(place).map(|operand| site.value_of(operand)) {
        Some(options) if is_none(&options) => Ttl::Managed,
        _ => Ttl::Unknown,
    }
}

/// The TTL of the call in `value` that grants a lease.
fn granted(site: &Site<'_>, value: &Value, depth: usize) -> Option<Ttl> {
    if depth > 12 {
        return None;
    }
    match value {
        Value::Call(call) => {
            grant(site, call).or_else(|| call.args.iter().find_map(|arg| granted(site, arg, depth + 1)))
        }
        Value::Field(inner, _) => granted(site, inner, depth + 1),
        Value::Aggregate(_, fields) => fields.iter().find_map(|(_, field)| granted(site, field, depth + 1)),
        Value::Join(members) => members.iter().find_map(|member| granted(site, member, depth + 1)),
        _ => None,
    }
}

fn grant(site: &Site<'_>, call: &CallValue) -> Option<Ttl> {
    let found = site.models.find_value(call, Some(site.row.file), site.versions)?;
    if found.row.role != Role::Lease {
        return None;
    }
    let place = found.row.ttl.as_ref()?.arg?;
    let value = call.args.get(place + usize::from(found.receiver))?;
    Some(ttl(value.clone(), TimeUnit::Seconds))
}

/// `create(path, data, acl, mode)`: an ephemeral node lives as long as its session, a persistent one for ever.
fn create_node(site: &Site<'_>, key: Value) -> EffectKind {
    let mode = site.value_at(&site.row.value).map(|value| words(&value)).unwrap_or_default();
    let ttl = match mode.as_str() {
        text if text.contains("ephemeral") => Ttl::Managed,
        text if text.contains("ttl") => Ttl::Unknown,
        text if text.contains("persistent") => Ttl::Never,
        _ => Ttl::Unknown,
    };
    EffectKind::Acquire(Acquire {
        backend: Backend::ZooKeeper,
        kind: LockKind::Lease,
        form: AcquireForm::SetIfAbsent,
        key,
        token: site.value_at(&site.row.token).unwrap_or(Value::Unknown),
        ttl,
        blocking: false,
    })
}

/// Names in a value, in lower case.
fn words(value: &Value) -> String {
    match value {
        Value::Path(path) => path.to_ascii_lowercase(),
        Value::Call(call) => {
            let inner: Vec<String> = call.args.iter().map(words).collect();
            format!("{} {}", call.name.to_ascii_lowercase(), inner.join(" "))
        }
        Value::Aggregate(path, fields) => {
            let inner: Vec<String> = fields.iter().map(|(_, field)| words(field)).collect();
            format!("{} {}", path.to_ascii_lowercase(), inner.join(" "))
        }
        _ => String::new(),
    }
}

/// etcd `Txn::new().when([Compare::create_revision(k, Equal, 0)]).and_then([TxnOp::put(k, v, options)])`: a key taken if it
/// was never created; with another comparison a conditional write or an owner-checked delete.
fn transact(site: &Site<'_>, backend: Backend) -> Outcome {
    let Some(chain) = site.value_at(&site.row.value) else { return Outcome::Silent };
    let compares = calls(&project(&chain, "when"), "Compare");
    let operations = calls(&project(&chain, "and_then"), "TxnOp");
    let name = |call: &CallValue| call.name.rsplit("::").next().unwrap_or("").to_owned();
    let arg = |call: &CallValue, n: usize| call.args.get(n).cloned().unwrap_or(Value::Unknown);
    let absent = |key: &Value| {
        compares.iter().any(|compare| {
            matches!(name(compare).as_str(), "create_revision" | "version" | "mod_revision")
                && arg(compare, 0) == *key
                && arg(compare, 2).as_int() == Some(0)
        })
    };
    let conditions: Vec<(String, String, Value)> =
        compares.iter().map(|compare| (name(compare), "=".to_owned(), arg(compare, 2))).collect();
    let mut kinds = Vec::new();
    let mut places = Vec::new();
    for operation in &operations {
        let key = arg(operation, 0);
        // The line of the operation, not that of the transaction's sending.
        let span = operation.at.0.unwrap_or(site.span);
        let before = kinds.len();
        match name(operation).as_str() {
            "put" if absent(&key) => kinds.push((
                span,
                EffectKind::Acquire(Acquire {
                    backend,
                    kind: LockKind::Lease,
                    form: AcquireForm::SetIfAbsent,
                    key,
                    token: arg(operation, 1),
                    ttl: match arg(operation, 2) {
                        options if is_none(&options) => Ttl::Never,
                        options => granted(site, &options, 0).unwrap_or(Ttl::Unknown),
                    },
                    blocking: false,
                }),
            )),
            "put" => kinds.push((
                span,
                EffectKind::Write(Write {
                    resource: Resource::Key(backend, key),
                    verb: "put".into(),
                    safety: if conditions.is_empty() { Safety::None } else { Safety::Conditions(conditions.clone()) },
                    values: vec![arg(operation, 1)],
                    ttl: None,
                }),
            )),
            "delete" => {
                let check = if conditions.is_empty() { OwnerCheck::None } else { OwnerCheck::Server };
                kinds.push((
                    span,
                    EffectKind::Release(Release { backend, kind: LockKind::Lease, key, check, all: false }),
                ));
            }
            _ => {}
        }
        if kinds.len() > before {
            places.push(operation.at.0);
        }
    }
    if kinds.is_empty() {
        return Outcome::Opaque("the transaction is built where it cannot be followed".into());
    }
    let response =
        |won: bool| Shape::Struct("etcd_client::TxnResponse".into(), vec![("succeeded".into(), Shape::Bool(won))]).ok();
    let reply = Reply { held: response(true), lost: response(false), failed: Shape::err() };
    let mut outcome = finish(site, kinds, Some(reply));
    if let Outcome::Effect(trip) = &mut outcome {
        // The command is named where the operation is written, not where the transaction is sent.
        for (effect, place) in trip.effects.iter_mut().zip(places) {
            effect.span = place.unwrap_or(effect.span);
        }
    }
    outcome
}

/// Associated calls of a type in a value, in order.
fn calls(value: &Value, owner: &str) -> Vec<CallValue> {
    let mut found = Vec::new();
    collect(value, owner, &mut found, 0);
    found
}

fn collect(value: &Value, owner: &str, found: &mut Vec<CallValue>, depth: usize) {
    if depth > 12 {
        return;
    }
    match value {
        Value::Call(call) => {
            let mut segments = call.name.rsplit("::");
            if segments.nth(1) == Some(owner) {
                found.push((**call).clone());
            } else {
                call.args.iter().for_each(|arg| collect(arg, owner, found, depth + 1));
            }
        }
        Value::Aggregate(_, fields) => fields.iter().for_each(|(_, field)| collect(field, owner, found, depth + 1)),
        _ => {}
    }
}

/// Reply shapes by the row's kind of reply.
fn reply(site: &Site<'_>) -> Option<Reply> {
    // The guard or lock object itself; that it is a guard is said by the round trip.
    let object = || Shape::Unknown;
    let fallible = |held: Shape, lost: Shape| Reply { held, lost, failed: Shape::err() };
    Some(match site.row.reply? {
        ReplyKind::Value => fallible(object().ok(), Shape::err()),
        ReplyKind::Option => fallible(object().some().ok(), Shape::None.ok()),
        ReplyKind::Bool => fallible(Shape::Bool(true).ok(), Shape::Bool(false).ok()),
        ReplyKind::Int => fallible(Shape::Int(1).ok(), Shape::Int(0).ok()),
        ReplyKind::BoolFirst => {
            let pair = |won: bool| Shape::Tuple(vec![Shape::Bool(won), Shape::Unknown]).ok();
            fallible(pair(true), pair(false))
        }
        ReplyKind::Either => fallible(
            Shape::Variant("Either::Left".into(), vec![object()]).ok(),
            Shape::Variant("Either::Right".into(), vec![Shape::Unknown]).ok(),
        ),
        ReplyKind::Unit => fallible(Shape::Unit.ok(), Shape::err()),
        ReplyKind::Infallible => Reply { held: object(), lost: Shape::Unknown, failed: Shape::Unknown },
        ReplyKind::Nothing | ReplyKind::Discarded => {
            Reply { held: Shape::Unit, lost: Shape::Unit, failed: Shape::Unit }
        }
        ReplyKind::Opaque | ReplyKind::Asked => fallible(Shape::Tainted.ok(), Shape::Tainted.ok()),
    })
}
