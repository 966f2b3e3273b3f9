//! Objects of a store as locks: created only if nothing has the name, replaced or deleted under a condition
//! (`object_store::PutMode`; Amazon S3 User Guide, "Conditional requests"; Google Cloud Storage, "Request preconditions").

use super::super::external::Request;
use super::store::{self, Condition};
use crate::ir::{Backend, EffectKind, Lit, Reply, Resource, Shape, Value};

const BACKEND: Backend = Backend::ObjectStore;

/// What a call on an object store does to a lock under that name, beside what it writes. `mode` decides a write of
/// `object_store`; other clients set headers.
pub fn effects(request: &Request, mode: Option<&Value>) -> Option<(Vec<EffectKind>, Reply)> {
    let key = name(request.url.as_ref()?);
    // A name that is made anew excludes nobody.
    if store::is_fresh(&key) {
        return None;
    }
    let condition = match mode {
        Some(mode) => moded(mode),
        None => headed(request),
    };
    let effects = match request.method.as_str() {
        "object PUT" => store::put(BACKEND, key, request.body.as_ref(), &condition),
        "object DELETE" => vec![store::release(BACKEND, key, &condition)],
        "object GET" => vec![EffectKind::Read(Resource::Key(BACKEND, key))],
        _ => return None,
    };
    Some((effects, Reply { held: Shape::Unknown.ok(), lost: Shape::err(), failed: Shape::err() }))
}

/// `PutMode::Create`, `PutMode::Update(version)`, alone, converted or in options.
fn moded(mode: &Value) -> Condition {
    match mode {
        Value::Path(path) if path.ends_with("PutMode::Create") => Condition::Absent,
        Value::Path(path) if path.ends_with("PutMode::Overwrite") => Condition::None,
        Value::Aggregate(path, fields) if path.ends_with("PutMode::Update") => {
            fields.first().map_or(Condition::Unknown, |(_, version)| Condition::Is(version.clone()))
        }
        Value::Aggregate(_, fields) => match fields.iter().find(|(name, _)| name == "mode") {
            Some((_, mode)) => moded(mode),
            None => Condition::Unknown,
        },
        Value::Call(call) => {
            let known = call.args.iter().map(moded).find(|c| *c != Condition::Unknown);
            known.unwrap_or(Condition::Unknown)
        }
        _ => Condition::Unknown,
    }
}

/// The preconditions that a request's builder sets.
fn headed(request: &Request) -> Condition {
    let mut condition = Condition::None;
    for setting in &request.settings {
        let value = some(&setting.value);
        let next = match setting.what.as_str() {
            "if-none-match" if value.as_str() == Some("*") => Condition::Absent,
            "if-not-exists" if *value == Value::Const(Lit::Bool(true)) => Condition::Absent,
            "if-generation" if value.as_int() == Some(0) => Condition::Absent,
            "if-match" | "if-generation" => Condition::Is(value.clone()),
            "if-none-match" | "if-not-exists" => Condition::Unknown,
            _ => continue,
        };
        // A value that may be absent, or a step that may be left out, compares nothing then.
        let open = setting.conditional || value == &setting.value && setting.optional && !known(value);
        condition = if open { Condition::Unknown } else { next };
    }
    condition
}

fn known(value: &Value) -> bool {
    matches!(value, Value::Const(_))
}

/// `*`: whatever is there.
pub fn is_any(value: &Value) -> bool {
    some(value).as_str() == Some("*")
}

/// What is in `Some(..)`.
fn some(value: &Value) -> &Value {
    match value {
        Value::Aggregate(path, fields) if path.rsplit("::").next() == Some("Some") && fields.len() == 1 => &fields[0].1,
        Value::Call(call)
            if matches!(call.name.as_str(), ".to_string" | ".to_owned" | ".into") && call.args.len() == 1 =>
        {
            some(&call.args[0])
        }
        other => other,
    }
}

/// The text of a path: `Path::from("locks/a")`.
fn name(target: &Value) -> Value {
    match target {
        Value::Call(call) if call.args.len() == 1 && call.name.contains("Path::") => call.args[0].clone(),
        other => other.clone(),
    }
}
