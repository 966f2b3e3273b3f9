//! Types that are lock modules by what they store, whatever their names.

use std::collections::BTreeSet;

use super::Analyzer;
use crate::ir::{Acquire, AcquireForm, EffectKind, FunctionId, LockKind, Piece, Value};

/// Types with a method that takes a key given by its caller and stores an owner of the type's own: a lock module, whatever
/// its name. A store for anybody's values gets the value from its caller too.
pub(super) fn owning_types(a: &Analyzer<'_>, include_tests: bool) -> BTreeSet<String> {
    let (mut owning, mut general) = (BTreeSet::new(), BTreeSet::new());
    for (id, f) in a.program.functions() {
        let Some(owner) = f.owner.as_ref().filter(|_| (include_tests || !f.test) && a.relevant(id)) else { continue };
        for reached in a.reached(id).iter() {
            match &reached.effect.kind {
                EffectKind::Acquire(acquire) if given(&a.comparable(id, &acquire.token), 0) => {
                    general.insert(owner.clone())
                }
                EffectKind::Acquire(acquire) if stores_own_name(a, id, acquire) => owning.insert(owner.clone()),
                _ => false,
            };
        }
    }
    &owning - &general
}

fn stores_own_name(a: &Analyzer<'_>, id: FunctionId, acquire: &Acquire) -> bool {
    let owner = a.comparable(id, &acquire.token);
    acquire.form == AcquireForm::SetIfAbsent
        && acquire.kind == LockKind::Lease
        && matches!(acquire.key, Value::Param(_))
        && matches!(owner, Value::TypeField(..) | Value::Fresh(_) | Value::PerProcess(_))
}

/// Whether a value is made of what the caller gives.
fn given(value: &Value, depth: u32) -> bool {
    let inner = |v: &Value| depth < 16 && given(v, depth + 1);
    match value {
        Value::Param(i) => *i > 0,
        Value::Unknown => true,
        Value::Field(base, _) => inner(base),
        Value::Template(pieces) => pieces.iter().any(|p| matches!(p, Piece::Hole(v) if inner(v))),
        Value::Call(call) => call.args.iter().any(inner),
        Value::Operation(_, list) | Value::Join(list) => list.iter().any(inner),
        Value::Aggregate(_, fields) => fields.iter().any(|(_, v)| inner(v)),
        _ => false,
    }
}
