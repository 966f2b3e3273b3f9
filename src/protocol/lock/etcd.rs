//! etcd transactions.

use super::super::{Outcome, Site, project};
use super::{finish, granted, is_none};
use crate::ir::{
    Acquire, AcquireForm, Backend, CallValue, EffectKind, LockKind, OwnerCheck, Release, Reply, Resource, Safety,
    Shape, Ttl, Value, Write,
};

/// etcd `Txn::new().when([Compare::create_revision(k, Equal, 0)]).and_then([TxnOp::put(k, v, options)])`: a key taken if it
/// was never created; with another comparison a conditional write or an owner-checked delete.
pub(super) fn transact(site: &Site<'_>, backend: Backend) -> Outcome {
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
                    // The lease owns the key; without one, whoever is named in the value.
                    token: match project(&arg(operation, 2), "lease") {
                        Value::Unknown => arg(operation, 1),
                        lease => lease,
                    },
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
                    assigned: Vec::new(),
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
