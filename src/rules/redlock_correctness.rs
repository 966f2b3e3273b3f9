//! `redlock-correctness`: a lock over several independent masters is all that keeps two writers apart.

use std::collections::BTreeMap;

use super::unfenced_write::open_sections;
use crate::analysis::lock::{Lock, show_resource};
use crate::analysis::origin_call;
use crate::analysis::summary::Held;
use crate::finding::{Actor, Finding, Severity};
use crate::ir::{AcquireForm, Backend, FunctionId, Value};
use crate::rule::{Context, Group, Rule};
use crate::source::Span;

/// The rule.
pub const RULE: Rule = Rule {
    id: "redlock-correctness",
    severity: Severity::Warning,
    group: Group::Fencing,
    page: include_str!("../../rules/redlock-correctness.md"),
    check,
};

fn check(cx: &Context<'_>, findings: &mut Vec<Finding>) {
    let covered = cx.covered();
    let mut by_place: BTreeMap<Span, Finding> = BTreeMap::new();
    for (index, lock) in cx.locks.locks.iter().enumerate() {
        if lock.acquire().is_none_or(|a| a.backend != Backend::Redis || a.form != AcquireForm::LockApi) {
            continue;
        }
        for section in open_sections(cx, &covered, index, lock) {
            let (first, write) = &section[0];
            let Some(masters) = masters(cx, &first.lock).filter(|n| *n > 1) else { continue };
            let what = format!("{} of {}", write.verb, show_resource(&write.resource));
            let f = finding(cx, lock, cx.target_place(first), cx.op_span(first.lock.via[0]), masters, &what);
            by_place.entry(f.span).or_insert(f);
        }
    }
    findings.extend(by_place.into_values());
}

/// The number of servers that the lock's manager was made with, if that can be read.
pub fn masters(cx: &Context<'_>, held: &Held) -> Option<usize> {
    if held.acquire.form != AcquireForm::LockApi {
        return None;
    }
    let call = origin_call(cx.program, held.origin.site)?;
    let manager = cx.program.value(held.origin.site.function, call.args.first()?);
    servers(cx, held.origin.site.function, &manager, 0)
}

fn servers(cx: &Context<'_>, function: FunctionId, manager: &Value, depth: u32) -> Option<usize> {
    if depth > 6 {
        return None;
    }
    match manager {
        Value::Aggregate(path, fields) if path == "[]" => Some(fields.len()),
        Value::Call(call) => call.args.iter().find_map(|arg| servers(cx, function, arg, depth + 1)),
        Value::Field(..) | Value::TypeField(..) => {
            let Value::TypeField(ty, field) = cx.program.absolute(function, manager) else { return None };
            let made = cx.program.field_values(&ty, &field);
            made.iter().find_map(|(f, value)| servers(cx, *f, value, depth + 1))
        }
        Value::Param(index) => cx.program.callers(function).iter().take(8).find_map(|site| {
            let operand = origin_call(cx.program, *site)?.args.get(*index as usize)?;
            servers(cx, site.function, &cx.program.value(site.function, operand), depth + 1)
        }),
        _ => None,
    }
}

fn finding(cx: &Context<'_>, lock: &Lock, span: Span, taken: Span, masters: usize, what: &str) -> Finding {
    let key = cx.key(lock);
    let mut f = Finding::new(
        &RULE,
        span,
        format!(
            "{what} relies on a lock over {masters} independent Redis masters alone: it carries neither a fence nor a version"
        ),
    );
    f.confidence = cx.confidence(cx.certainty(&lock.taken));
    f.caret = "nothing refuses a second writer".into();
    f.label(taken, format!("`{key}` is taken here"));
    f.help = "compare a version in the write itself (`.. SET version = version + 1 WHERE id = $1 AND version = $2`) and check the number of rows, or lock in a service that hands out fencing tokens (etcd, ZooKeeper, the database)".into();
    f.step(Actor::A, taken, format!("is granted `{key}` by a majority of the masters"));
    f.step(Actor::Store, taken, "a master's clock jumps, or it restarts without the key: the majority is free again");
    f.step(Actor::B, taken, format!("is granted `{key}` by another majority"));
    f.step(Actor::B, span, "writes");
    f.step(Actor::A, span, "writes over it");
    f.lock = Some(key);
    f
}
