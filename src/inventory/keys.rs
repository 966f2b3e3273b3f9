//! Who asks for a lock: the functions in which its key becomes definite.
//!
//! A lock module takes `lock:{name}`, or any key at all; what is locked is said by its callers. So the key is followed
//! upwards as long as callers say more of it than the function below them.

use crate::analysis::lock::{self, Use};
use crate::analysis::origin_call;
use crate::ir::{FunctionId, FunctionKind, Lit, Piece, Site, Value};
use crate::rule::Context;

/// Calls that are followed upwards.
const MAX_CLIMB: usize = 5;
/// Functions that ask for one acquisition.
const MAX_TAKERS: usize = 64;

/// A function that asks for a lock by a key of which it knows more than what it calls.
#[derive(Clone, Debug)]
pub(super) struct Taker {
    /// The function.
    pub function: FunctionId,
    /// The key in its terms.
    pub key: Value,
    /// Calls from there down to the command.
    pub via: Vec<Site>,
}

/// Who asks for the lock that a use takes.
pub(super) fn takers(cx: &Context<'_>, used: &Use) -> Vec<Taker> {
    let key = lock::key(&used.effect).clone();
    let own = Taker { function: used.function, key, via: used.id.0.clone() };
    let mut found = climb(cx, own, MAX_CLIMB);
    for taker in &mut found {
        // A field: what the constructors of its type store there.
        let absolute = cx.analyzer.comparable(taker.function, &taker.key);
        let expanded = cx.program.expanded(&absolute);
        if letters(&expanded) > letters(&taker.key) {
            taker.key = expanded;
        }
    }
    let mut split: Vec<Taker> = Vec::new();
    for taker in found {
        match &taker.key {
            Value::Join(list) if list.iter().all(|v| letters(v) > 2) => {
                split.extend(list.iter().map(|key| Taker { key: key.clone(), ..taker.clone() }));
            }
            _ => split.push(taker),
        }
    }
    split.truncate(MAX_TAKERS);
    split
}

fn climb(cx: &Context<'_>, own: Taker, depth: usize) -> Vec<Taker> {
    if depth == 0 || own.via.len() > MAX_CLIMB {
        return vec![own];
    }
    if cx.program.function(own.function).parent.is_some() {
        let outer = cx.program.outer(own.function, &own.key);
        let (Some((function, key)), Some(site)) = (outer, cx.program.closure_site(own.function)) else {
            return vec![own];
        };
        let via = std::iter::once(site).chain(own.via.iter().copied()).collect();
        return climb(cx, Taker { function, key, via }, depth - 1);
    }
    if !open(&own.key) {
        return vec![own];
    }
    let mut better = Vec::new();
    let mut silent = false;
    for site in cx.program.callers(own.function).iter().filter(|site| cx.judged(site.function)) {
        let Some(call) = origin_call(cx.program, *site) else { continue };
        if own.via.contains(site) {
            continue;
        }
        let key = cx.program.instantiate(&own.key, call, site.function);
        let via = std::iter::once(*site).chain(own.via.iter().copied()).collect();
        let above = climb(cx, Taker { function: site.function, key, via }, depth - 1);
        let (more, same): (Vec<Taker>, Vec<Taker>) =
            above.into_iter().partition(|taker| letters(&taker.key) > letters(&own.key));
        silent |= !same.is_empty();
        better.extend(more);
        if better.len() > MAX_TAKERS {
            break;
        }
    }
    if better.is_empty() || silent {
        better.push(own);
    }
    better
}

/// Whether a release or renewal can be of the key that is asked for here: its own callers may name another one.
pub(super) fn concern(cx: &Context<'_>, used: &Use, taker: &Taker) -> bool {
    let wanted = blank(&taker.key);
    let own = letters(lock::key(&used.effect));
    let named = takers(cx, used);
    named.iter().any(|other| letters(&other.key) <= own || blank(&other.key) == wanted)
}

/// Whether the function runs as far as can be seen: something calls it, or it is the drop of a guard. A public function may be
/// called from elsewhere, but then nobody here prolongs or gives back anything by it.
pub(super) fn is_called(cx: &Context<'_>, function: FunctionId) -> bool {
    let id = cx.analyzer.item(function);
    let f = cx.program.function(id);
    f.kind == FunctionKind::Drop
        || f.owner_trait.is_some()
        || cx.program.callers(id).iter().any(|s| cx.judged(s.function))
}

/// Whether callers can say more of a value.
fn open(value: &Value) -> bool {
    match value {
        Value::Param(_) => true,
        Value::Field(base, _) => open(base),
        Value::Template(pieces) => pieces.iter().any(|p| matches!(p, Piece::Hole(v) if open(v))),
        Value::Call(call) => call.args.iter().any(open),
        Value::Operation(_, list) | Value::Join(list) => list.iter().any(open),
        Value::Aggregate(_, fields) => fields.iter().any(|(_, v)| open(v)),
        _ => false,
    }
}

/// Constant letters and digits of a value: how much it says.
fn letters(value: &Value) -> usize {
    match value {
        Value::Const(Lit::Str(text)) => text.chars().filter(|c| c.is_alphanumeric()).count(),
        Value::Const(_) => 3,
        Value::Path(path) => path.rsplit("::").next().unwrap_or("").len(),
        Value::Template(pieces) => pieces
            .iter()
            .map(|piece| match piece {
                Piece::Text(text) => text.chars().filter(|c| c.is_alphanumeric()).count(),
                Piece::Hole(hole) => letters(hole),
            })
            .sum(),
        Value::Operation(_, list) => list.iter().map(letters).sum(),
        Value::Join(list) => list.iter().map(letters).min().unwrap_or(0),
        _ => 0,
    }
}

/// The key as people read it.
pub(super) fn show(cx: &Context<'_>, taker: &Taker) -> String {
    match cx.show(taker.function, &taker.key) {
        shown if shown == ".." => match sketch(cx, taker.function, &taker.key, 0) {
            // A key of which nothing is known is called by the function that takes it.
            None => format!("{{key of {}}}", super::function_name(cx, taker.function)),
            Some(text) => text,
        },
        shown => shown,
    }
}

/// A computed value, as it might be written: `hash(report)`. `None` when nothing in it is known.
fn sketch(cx: &Context<'_>, function: FunctionId, value: &Value, depth: usize) -> Option<String> {
    const LONGEST: usize = 60;
    if depth > 4 {
        return None;
    }
    let parts =
        |list: &[Value]| -> Vec<Option<String>> { list.iter().map(|v| sketch(cx, function, v, depth + 1)).collect() };
    let text = match value {
        Value::Call(call) => {
            let inner: Vec<String> = parts(&call.args).into_iter().flatten().collect();
            let name = call.name.rsplit([':', '.']).next().unwrap_or("");
            (!inner.is_empty()).then(|| format!("{name}({})", inner.join(", ")))
        }
        Value::Operation(operator, list) => {
            let inner = parts(list);
            let known = inner.iter().flatten().count() > 0;
            let inner: Vec<String> = inner.into_iter().map(|part| part.unwrap_or_else(|| "..".to_owned())).collect();
            known.then(|| inner.join(&format!(" {operator} ")))
        }
        Value::Aggregate(_, fields) => {
            let inner: Vec<String> = fields.iter().filter_map(|(_, v)| sketch(cx, function, v, depth + 1)).collect();
            (!inner.is_empty()).then(|| inner.join(", "))
        }
        Value::Join(list) => parts(list).into_iter().collect::<Option<Vec<String>>>().map(|all| all.join(" or ")),
        other => Some(cx.show(function, other)).filter(|shown| shown != ".."),
    }?;
    (text.chars().count() <= LONGEST).then_some(text)
}

/// What makes two acquisitions one entry: the constant parts of the key. A key without any is one entry per type or module.
pub(super) fn identity(cx: &Context<'_>, taker: &Taker) -> String {
    let blank = blank(&taker.key);
    if blank.chars().filter(|c| c.is_alphanumeric()).count() >= 3 {
        return blank;
    }
    let f = cx.program.function(cx.analyzer.item(taker.function));
    format!("\u{1}{}\u{1}{blank}", f.owner.as_deref().unwrap_or(&f.module))
}

/// The value's text with every hole as `{}`.
fn blank(value: &Value) -> String {
    match value {
        Value::Const(Lit::Str(text)) => text.clone(),
        Value::Const(Lit::Int(n)) => n.to_string(),
        Value::Path(path) => path.rsplit("::").next().unwrap_or("").to_owned(),
        Value::Template(pieces) => pieces
            .iter()
            .map(|piece| match piece {
                Piece::Text(text) => text.clone(),
                Piece::Hole(hole) => blank(hole),
            })
            .collect(),
        Value::TypeField(ty, name) => format!("{{{ty}.{name}}}"),
        _ => "{}".to_owned(),
    }
}
