//! Lock APIs: lock crates over Redis or SQL, etcd, ZooKeeper, Consul, Kubernetes leases, NATS key-value buckets. What they do is
//! said by their rows; this module turns rows into effects and replies.

mod access;
pub mod consul;
pub mod dynamo;
mod etcd;
mod kube;
pub mod object;
mod store;
mod zookeeper;

pub use access::access;

use super::{Outcome, Site, api_acquire, ttl};
use crate::ir::{
    AcquireForm, Atomicity, Backend, CallValue, Effect, EffectKind, Grant, GuardDrop, Lit, LockKind, OwnerCheck,
    Release, Renew, Reply, Resource, RoundTrip, Safety, Shape, TimeUnit, Ttl, Value, Write,
};
use crate::model::{Check, OnDrop, Place, ReplyKind, Role};
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
        // A number that is counted up is a counter, which nobody holds.
        Role::LockAcquire if backend == Backend::Nats && content(site).is_some_and(|value| store::counted(&value)) => {
            let values = content(site).into_iter().collect();
            let resource = Resource::Key(backend, key());
            vec![EffectKind::Write(Write::new(resource, "create", Safety::Unique, values, None))]
        }
        Role::LockRenew if site.row.value.is_some() => store::put(
            backend,
            lock_key(key()).0,
            content(site).as_ref(),
            &store::Condition::Is(site.value_at(&site.row.token).unwrap_or(Value::Unknown)),
        ),
        Role::LockAcquire => {
            let mut acquire = api_acquire(site, backend, kind);
            acquire.ttl = lease_ttl(site);
            if site.row.what.as_deref() == Some("set-if-absent") {
                acquire.form = AcquireForm::SetIfAbsent;
            }
            let own = own_session(site, backend, &mut acquire.ttl);
            std::iter::once(EffectKind::Acquire(acquire)).chain(own).collect()
        }
        Role::LockRelease => {
            let key = key();
            let all = is_none(&key);
            let (key, own) = lock_key(key);
            let mut check = check(site);
            if own && check == OwnerCheck::None && matches!(backend, Backend::Etcd | Backend::ZooKeeper) {
                check = OwnerCheck::Server;
            }
            vec![EffectKind::Release(Release { backend, kind, key, check, all })]
        }
        Role::LockRenew => {
            vec![EffectKind::Renew(Renew { backend, key: lock_key(key()).0, check: check(site), ttl: lease_ttl(site) })]
        }
        Role::Lease => vec![EffectKind::Grant(Grant { backend, ttl: session_ttl(site) })],
        Role::CreateNode => vec![zookeeper::create_node(site, key())],
        Role::Look => vec![zookeeper::look(site, backend, key())],
        Role::Object => return kube::object(site),
        Role::Transact => return etcd::transact(site, backend),
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
                assigned: Vec::new(),
                ttl: site.row.ttl.is_some().then(|| lease_ttl(site)),
            })]
        }
        _ => return Outcome::Silent,
    };
    if matches!(effects.as_slice(), [EffectKind::Read(_)]) {
        let effects = effects.into_iter().map(|kind| (site.span, kind)).collect();
        return finish(site, effects, access::found(backend));
    }
    let lock = effects.iter().any(EffectKind::is_lock);
    let effects = effects.into_iter().map(|kind| (site.span, kind)).collect();
    finish(site, effects, lock.then(|| reply(site)).flatten())
}

/// What is stored.
fn content(site: &Site<'_>) -> Option<Value> {
    site.value_at(if site.row.role == Role::LockAcquire { &site.row.token } else { &site.row.value })
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

/// The key of a lock object that an acquire call gave, and whether it is that: the object's value is that call. What the
/// service made for this one acquisition (etcd's ownership key, a sequential node) names nobody else's lock.
fn lock_key(value: Value) -> (Value, bool) {
    let mut current = &value;
    for _ in 0..8 {
        match current {
            Value::Call(call) => {
                let first = usize::from(call.name.starts_with('.'));
                match call.name.as_str() {
                    ".lock" | ".acquire" | ".acquire_no_guard" | ".try_acquire" | ".extend" | ".get_lock"
                    | ".campaign" | ".create" | ".lease_keep_alive" | ".keep_alive"
                        if call.args.len() > first =>
                    {
                        return (call.args[first].clone(), true);
                    }
                    ".key" | ".id" | ".unwrap" | ".clone" | ".to_vec" | ".leader" | ".take_leader" | ".key_str" => {
                        match call.args.first() {
                            Some(inner) => current = inner,
                            None => break,
                        }
                    }
                    _ => break,
                }
            }
            Value::Field(inner, _) => current = inner,
            Value::Aggregate(path, fields) if path.rsplit("::").next() == Some("Some") && fields.len() == 1 => {
                current = &fields[0].1;
            }
            _ => break,
        }
    }
    (value, false)
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

/// The lease or session that the service or client makes for this call alone. Its id is not told, so nobody can keep it
/// alive.
fn own_session(site: &Site<'_>, backend: Backend, ttl: &mut Ttl) -> Option<EffectKind> {
    let seconds = site.row.grants?;
    let place = site.row.ttl.as_ref()?;
    let options = site.operand(&Place { arg: place.arg, path: Vec::new() })?;
    if backend == Backend::Etcd {
        if !is_none(&site.value_of(options)) {
            return None;
        }
        *ttl = super::ttl(Value::Const(Lit::Int(seconds as i64)), TimeUnit::Seconds);
    } else if matches!(ttl, Ttl::Unknown) {
        *ttl = super::ttl(Value::Const(Lit::Int(seconds as i64)), TimeUnit::Seconds);
    }
    Some(EffectKind::Grant(Grant { backend, ttl: ttl.clone() }))
}

/// The TTL of a lease or session that a row grants; a session without one ends only with its node.
fn session_ttl(site: &Site<'_>) -> Ttl {
    let Some(place) = &site.row.ttl else { return Ttl::Unknown };
    let value = site.value(place);
    if site.row.unit.is_some() {
        return ttl(value, TimeUnit::Seconds);
    }
    match consul::duration(&value) {
        Some(ttl) => ttl,
        None if is_none(&value) => Ttl::Never,
        None => Ttl::Unknown,
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
    if found.row.unit.is_some() {
        return Some(ttl(value.clone(), TimeUnit::Seconds));
    }
    let steps = found.row.ttl.iter().flat_map(|place| &place.path);
    let value = steps.fold(value.clone(), |value, step| super::project(&value, step));
    Some(consul::duration(&value).unwrap_or(Ttl::Managed))
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
