//! ZooKeeper nodes.

use super::super::Site;
use crate::ir::{Acquire, AcquireForm, Backend, EffectKind, Lit, LockKind, Look, Ttl, Value};

/// `create(path, data, acl, mode)`: an ephemeral node lives as long as its session, a persistent one for ever.
pub(super) fn create_node(site: &Site<'_>, key: Value) -> EffectKind {
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

/// `exists`, `get_data`, `get_children`: a read that can set a watch, which fires once for the next change
/// (ZooKeeper Programmer's Guide, "ZooKeeper Watches").
pub(super) fn look(site: &Site<'_>, backend: Backend, key: Value) -> EffectKind {
    let declined = matches!(site.value_at(&site.row.value), Some(Value::Const(Lit::Bool(false))));
    EffectKind::Look(Look {
        backend,
        key,
        children: site.row.what.as_deref() == Some("children"),
        watch: site.row.watch && !declined,
    })
}
