//! Kubernetes leases: objects that clients agree to read as a lock.
//!
//! The server compares nothing but `metadata.resourceVersion`: an update without it is refused, a patch without it is
//! applied to whatever is there (Kubernetes API conventions, "Concurrency Control and Consistency"). Server-side apply is
//! refused where another manager owns a field, unless it is forced (Kubernetes docs, "Server-Side Apply", "Conflicts").

use super::super::{Outcome, Site, project, ttl};
use super::{finish, is_none};
use crate::ir::{
    Acquire, AcquireForm, Backend, CallValue, EffectKind, Lit, LockKind, OwnerCheck, Release, Renew, Reply, Resource,
    Safety, Shape, TimeUnit, Ttl, Value, Write,
};

const BACKEND: Backend = Backend::Kubernetes;
const HOLDER: &[&str] = &["holderIdentity", "holder_identity"];
const DURATION: &[&str] = &["leaseDurationSeconds", "lease_duration_seconds"];
const RENEWED: &[&str] = &["renewTime", "renew_time"];
const VERSION: &[&str] = &["resourceVersion", "resource_version"];

/// A call on an `Api<Lease>`; of other objects nothing is said.
pub(super) fn object(site: &Site<'_>) -> Outcome {
    if !site.receiver().is_some_and(|receiver| is_lease_api(site, receiver)) {
        return Outcome::Silent;
    }
    let named = site.value_at(&site.row.key).unwrap_or(Value::Unknown);
    let content = site.value_at(&site.row.value).unwrap_or(Value::Unknown);
    let kind = match site.row.what.as_deref() {
        Some("create") => create(&content),
        Some("get") => EffectKind::Read(Resource::Key(BACKEND, named)),
        Some("replace") => EffectKind::Write(Write {
            resource: Resource::Key(BACKEND, named),
            verb: "replace".into(),
            safety: Safety::Conditions(vec![("resourceVersion".into(), "=".into(), Value::Unknown)]),
            values: Vec::new(),
            assigned: Vec::new(),
            ttl: None,
        }),
        Some("delete") => {
            let conditional = has_step(&content, "preconditions");
            let check = if conditional { OwnerCheck::Server } else { OwnerCheck::None };
            EffectKind::Release(Release { backend: BACKEND, kind: LockKind::Lease, key: named, check, all: false })
        }
        Some("patch") => match patch(site, named, &content) {
            Some(kind) => kind,
            None => return Outcome::Opaque("the patch is built where it cannot be followed".into()),
        },
        _ => return Outcome::Silent,
    };
    let reply = kind.is_lock().then(|| Reply { held: Shape::Unknown.ok(), lost: Shape::err(), failed: Shape::err() });
    finish(site, vec![(site.span, kind)], reply)
}

fn is_lease_api(site: &Site<'_>, receiver: &crate::ir::Operand) -> bool {
    let ty = site.program.receiver(site.function, receiver);
    ty.arg(0).last() == "Lease"
}

/// The name is taken if no object has it; who loses is told so by 409.
fn create(content: &Value) -> EffectKind {
    let name = field(content, &["metadata"], 0).and_then(|metadata| field(metadata, &["name"], 0));
    let known = field(content, HOLDER, 0).is_some() && !open_ended(content);
    EffectKind::Acquire(Acquire {
        backend: BACKEND,
        kind: LockKind::Lease,
        form: AcquireForm::LockApi,
        key: name.map_or(Value::Unknown, payload),
        token: field(content, HOLDER, 0).map_or(Value::Unknown, payload),
        ttl: duration(content).unwrap_or(if known { Ttl::Never } else { Ttl::Unknown }),
        blocking: false,
    })
}

/// A patch that names a holder takes the lease, one that takes the holder away gives it back, one that only moves the
/// times renews it.
fn patch(site: &Site<'_>, key: Value, content: &Value) -> Option<EffectKind> {
    let holder = field(content, HOLDER, 0);
    let renewed = field(content, RENEWED, 0).or_else(|| field(content, DURATION, 0));
    let check = compared(site, content);
    let ttl = duration(content).unwrap_or(Ttl::Unknown);
    match (holder, renewed) {
        (Some(holder), _) if is_empty(holder) => {
            Some(EffectKind::Release(Release { backend: BACKEND, kind: LockKind::Lease, key, check, all: false }))
        }
        (Some(holder), _) => Some(EffectKind::Write(Write {
            resource: Resource::Key(BACKEND, key),
            verb: "patch".into(),
            safety: match check {
                OwnerCheck::None => Safety::None,
                OwnerCheck::Unknown => Safety::Unknown,
                _ => Safety::Conditions(vec![("resourceVersion".into(), "=".into(), Value::Unknown)]),
            },
            values: vec![payload(holder)],
            assigned: Vec::new(),
            ttl: Some(ttl),
        })),
        (None, Some(_)) => Some(EffectKind::Renew(Renew { backend: BACKEND, key, check, ttl })),
        (None, None) => None,
    }
}

/// What the server compares before it applies the patch.
fn compared(site: &Site<'_>, content: &Value) -> OwnerCheck {
    if field(content, VERSION, 0).is_some() || open_ended(content) {
        return OwnerCheck::Server;
    }
    let kind = match content {
        Value::Aggregate(path, _) => path.rsplit("::").next().unwrap_or(""),
        _ => "",
    };
    let forced = || {
        let params = site.operand(&crate::model::Place { arg: Some(1), path: Vec::new() });
        params.is_none_or(|params| has_step(&site.value_of(params), "force"))
    };
    match kind {
        "Merge" | "Strategic" => OwnerCheck::None,
        "Apply" if forced() => OwnerCheck::None,
        "Apply" => OwnerCheck::Server,
        _ => OwnerCheck::Unknown,
    }
}

/// A field by any of its names, in JSON, struct literals and `Some(..)`, the outermost first.
fn field<'v>(value: &'v Value, names: &[&str], depth: usize) -> Option<&'v Value> {
    if depth > 12 {
        return None;
    }
    match value {
        Value::Aggregate(_, fields) => {
            let own = fields.iter().find(|(name, _)| names.contains(&name.as_str())).map(|(_, value)| value);
            own.or_else(|| fields.iter().find_map(|(_, inner)| field(inner, names, depth + 1)))
        }
        Value::Call(call) => call.args.iter().find_map(|arg| field(arg, names, depth + 1)),
        _ => None,
    }
}

/// A part of the object comes from elsewhere, and the version may come with it: the metadata or the whole is no literal.
fn open_ended(content: &Value) -> bool {
    match field(content, &["metadata"], 0) {
        Some(Value::Aggregate(path, fields)) if path.ends_with("Some") => {
            fields.iter().any(|(_, inner)| !matches!(inner, Value::Aggregate(..)))
        }
        Some(metadata) => !matches!(metadata, Value::Aggregate(..)),
        None => false,
    }
}

fn duration(content: &Value) -> Option<Ttl> {
    field(content, DURATION, 0).map(|seconds| ttl(payload(seconds), TimeUnit::Seconds))
}

/// The value inside `Some(..)`.
fn payload(value: &Value) -> Value {
    match value {
        Value::Aggregate(path, _) if path.rsplit("::").next() == Some("Some") => project(value, "0"),
        other => other.clone(),
    }
}

/// `""`, `None`, `null`.
fn is_empty(holder: &Value) -> bool {
    let holder = payload(holder);
    is_none(&holder)
        || matches!(&holder, Value::Const(Lit::Str(text)) if text.is_empty())
        || matches!(&holder, Value::Path(path) if path.ends_with("::Null"))
}

/// Whether a builder chain or struct literal sets `name` to anything but `false`.
fn has_step(value: &Value, name: &str) -> bool {
    match value {
        Value::Call(call) => {
            let CallValue { name: called, args, .. } = &**call;
            called.strip_prefix('.') == Some(name) || args.iter().any(|arg| has_step(arg, name))
        }
        Value::Aggregate(_, fields) => fields.iter().any(|(field, value)| {
            (field == name && !is_none(value) && *value != Value::Const(Lit::Bool(false))) || has_step(value, name)
        }),
        _ => false,
    }
}
