//! Who writes the same tables and keys without the lock.

use super::under::{Scopes, guard, target};
use super::{Effect, Member, function_name};
use crate::analysis::summary::Origin;
use crate::ir::{EffectKind, FunctionId, FunctionKind, Lit, Piece, Resource, Safety, Site, Value};
use crate::link::matching::must_match;
use crate::rule::Context;
use std::collections::BTreeSet;

/// Calls that are followed upwards from a write to a caller that does not hold the lock.
const MAX_CLIMB: usize = 4;

/// Writes of what is written under a lock, at places and through callers that do not hold it. A caller is named instead of
/// the write where the writing function also runs under the lock.
pub(super) fn writers(
    cx: &Context<'_>,
    members: &[Member<'_>],
    writes: &[(FunctionId, Resource, Origin)],
    scopes: &Scopes,
) -> Vec<Effect> {
    let held: BTreeSet<Origin> = writes.iter().map(|(_, _, origin)| *origin).collect();
    let own: BTreeSet<Origin> = members.iter().map(|m| m.lock.taken.origin()).collect();
    let mut wanted: Vec<(FunctionId, &Resource)> = Vec::new();
    for (function, resource, _) in writes {
        if !wanted.iter().any(|(f, r)| same(cx, (*f, r), (*function, resource))) && says_which(resource) {
            wanted.push((*function, resource));
        }
    }
    let mut out = Vec::new();
    for (id, f) in cx.program.functions() {
        if !cx.judged(id) || matches!(f.kind, FunctionKind::SqlFile | FunctionKind::Const) || wanted.is_empty() {
            continue;
        }
        for (at, _, call) in f.calls() {
            let site = Site { function: id, at };
            for (i, effect) in call.effect.iter().flat_map(|trip| trip.effects.iter().enumerate()) {
                let EffectKind::Write(write) = &effect.kind else { continue };
                let origin = Origin { site, effect: i as u32 };
                if write.safety == Safety::Unknown
                    || own.contains(&origin)
                    || !wanted.iter().any(|(f, r)| same(cx, (*f, r), (id, &write.resource)))
                {
                    continue;
                }
                let found = |span, function| Effect {
                    span,
                    verb: write.verb.clone(),
                    target: target(cx, id, &write.resource),
                    guard: guard(&write.safety),
                    function,
                };
                if !held.contains(&origin) {
                    out.push(found(effect.span, function_name(cx, id)));
                    continue;
                }
                let mut loose = Vec::new();
                callers_without(cx, cx.analyzer.item(id), scopes, MAX_CLIMB, &mut loose);
                out.extend(loose.into_iter().map(|s| found(cx.op_span(s), function_name(cx, s.function))));
            }
        }
    }
    out.sort_by(|a, b| (a.span, &a.target).cmp(&(b.span, &b.target)));
    out.dedup_by(|a, b| a.span == b.span && a.target == b.target);
    out
}

/// Calls of a function that runs under the lock from where the lock is not held.
fn callers_without(cx: &Context<'_>, id: FunctionId, scopes: &Scopes, depth: usize, out: &mut Vec<Site>) {
    for site in cx.program.callers(id).iter().filter(|site| cx.judged(site.function)) {
        if scopes.entries.contains(site) || out.contains(site) {
            continue;
        }
        if !scopes.inner.contains(site) {
            out.push(*site);
        } else if depth > 0 {
            callers_without(cx, cx.analyzer.item(site.function), scopes, depth - 1, out);
        }
    }
}

/// Whether a resource is named well enough to find its other writers.
fn says_which(resource: &Resource) -> bool {
    match resource {
        Resource::Table(name) => !name.is_empty() && !name.contains('{'),
        Resource::Key(_, key) => letters(key) >= 3,
        Resource::Other(_) => false,
    }
}

fn same(cx: &Context<'_>, a: (FunctionId, &Resource), b: (FunctionId, &Resource)) -> bool {
    match (a.1, b.1) {
        (Resource::Table(x), Resource::Table(y)) => bare(x).eq_ignore_ascii_case(bare(y)),
        (Resource::Key(x, k), Resource::Key(y, l)) => {
            x == y && must_match(&cx.analyzer.comparable(a.0, k), &cx.analyzer.comparable(b.0, l)) || template(k, l)
        }
        _ => false,
    }
}

/// A table's name without its schema and quotes.
fn bare(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name).trim_matches(['"', '`', '[', ']'])
}

/// Whether two templates have the same constant parts at the same places, and enough of them.
fn template(a: &Value, b: &Value) -> bool {
    let shape = |value: &Value| match value {
        Value::Template(pieces) => Some(
            pieces
                .iter()
                .map(|p| if let Piece::Text(t) = p { t.clone() } else { "{}".into() })
                .collect::<Vec<String>>(),
        ),
        _ => None,
    };
    letters(a) >= 3 && shape(a).is_some() && shape(a) == shape(b)
}

fn letters(value: &Value) -> usize {
    let count = |text: &str| text.chars().filter(|c| c.is_alphanumeric()).count();
    match value {
        Value::Const(Lit::Str(text)) => count(text),
        Value::Path(path) => count(path.rsplit("::").next().unwrap_or("")),
        Value::Template(pieces) => pieces.iter().map(|p| if let Piece::Text(t) = p { count(t) } else { 0 }).sum(),
        Value::TypeField(..) => 3,
        _ => 0,
    }
}
