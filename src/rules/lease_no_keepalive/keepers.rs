//! Who keeps a lease alive.

use std::collections::BTreeMap;

use super::Granted;
use crate::analysis::fate::{self, Fate};
use crate::analysis::flow_reads;
use crate::analysis::slice::Slice;
use crate::analysis::summary::{Origin, Reached};
use crate::ir::{EffectKind, FunctionId, OpKind, Operand, Rvalue, Site, Value, Var};
use crate::rule::Context;
use crate::rule::loops::innermost;
use crate::source::Span;

/// How a lease is kept alive.
pub enum Keeping {
    /// In a loop, by somebody whom it cannot be followed to, or in a way that is no fault.
    Kept,
    /// In a loop that nobody reads the replies of: the loop.
    Silent(Span),
    /// By one ping: the call that sends it.
    Once(Span),
    /// Not at all.
    Nobody,
}

/// A renewal in the terms of one of the functions that lead to it.
#[derive(Clone, Copy, Default)]
struct Renewal {
    /// Of this lease.
    mine: bool,
    /// Of a lease that is known, this or another.
    known: bool,
    /// The loop around it, or around a call that leads to it.
    rounds: Option<Span>,
}

/// Looks for renewals of the lease in the whole program. `all` are the places of all grants.
pub fn keeping(cx: &Context<'_>, granted: &Granted, all: &[Span]) -> Keeping {
    let mut found: BTreeMap<Origin, Renewal> = BTreeMap::new();
    for (id, _) in cx.program.functions().filter(|(id, _)| cx.judged(*id)) {
        for r in cx.analyzer.reached(id).iter() {
            let EffectKind::Renew(renew) = &r.effect.kind else { continue };
            if renew.backend != granted.grant.backend {
                continue;
            }
            let known = |span: &Span| contains(cx, id, &renew.key, *span);
            let entry = found.entry(r.origin).or_default();
            if known(&granted.span) {
                entry.mine = true;
                entry.rounds = entry.rounds.or(around(cx, r));
            }
            entry.known |= entry.mine || all.iter().any(known);
        }
    }
    if found.values().any(|r| !r.known) {
        return Keeping::Kept;
    }
    let mine: Vec<(Site, Renewal)> = found.iter().filter(|(_, r)| r.mine).map(|(o, r)| (o.site, *r)).collect();
    let opened = mine.iter().map(|(site, _)| *site).find(|site| !halves(cx, *site).is_empty());
    if let Some(span) = mine.iter().find_map(|(_, r)| r.rounds) {
        let deaf = opened.is_some_and(|site| half(cx, site, "1") == Half::Unused);
        return if deaf { Keeping::Silent(span) } else { Keeping::Kept };
    }
    let handed = |site: Site| match halves(cx, site).is_empty() {
        true => goes_elsewhere(cx, site),
        false => half(cx, site, "0") == Half::Elsewhere,
    };
    match mine.first() {
        None => Keeping::Nobody,
        Some(_) if mine.iter().any(|(site, _)| handed(*site)) => Keeping::Kept,
        Some((site, _)) => Keeping::Once(cx.op_span(*site)),
    }
}

/// Whether the value comes from the call at `span`; fields are followed to what is stored in them.
pub fn contains(cx: &Context<'_>, function: FunctionId, value: &Value, span: Span) -> bool {
    comes_from(&cx.program.expanded(&cx.analyzer.comparable(function, value)), span, 0)
}

fn comes_from(value: &Value, span: Span, depth: usize) -> bool {
    if depth > 16 {
        return false;
    }
    let deeper = |v: &Value| comes_from(v, span, depth + 1);
    match value {
        Value::Call(call) => call.at.0 == Some(span) || call.args.iter().any(deeper),
        Value::Field(base, _) => deeper(base),
        Value::Aggregate(_, fields) => fields.iter().any(|(_, v)| deeper(v)),
        Value::Join(list) | Value::Operation(_, list) => list.iter().any(deeper),
        _ => false,
    }
}

/// The loop in which a call on the way to the effect stands.
fn around(cx: &Context<'_>, r: &Reached) -> Option<Span> {
    r.via.iter().rev().find_map(|site| innermost(cx.program.function(site.function), site.at)).map(|l| l.span)
}

/// What becomes of one half of an opened keep-alive.
#[derive(PartialEq)]
enum Half {
    /// Dropped, or bound and never used.
    Unused,
    /// Used here by the calls of its own type.
    Used,
    /// Handed to other code, stored or returned.
    Elsewhere,
}

/// The variables that the keeper (`0`) and the stream of replies (`1`) of an opened keep-alive are taken out into.
fn halves<'c>(cx: &Context<'c>, site: Site) -> Vec<(Var, &'c str)> {
    let f = cx.program.function(site.function);
    let Some(dst) = f.op(site.at).dst else { return Vec::new() };
    let slice = Slice::of(f);
    let mut out = Vec::new();
    for (_, op) in f.ops() {
        if let (Some(var), OpKind::Let(Rvalue::Field(base, name))) = (op.dst, &op.kind)
            && matches!(name.as_str(), "0" | "1")
            && slice.sources(base).contains(&dst)
        {
            out.push((var, name.as_str()));
        }
    }
    out
}

/// Whether the result of the call is stored, returned or passed on as a whole.
fn goes_elsewhere(cx: &Context<'_>, site: Site) -> bool {
    let f = cx.program.function(site.function);
    f.op(site.at).dst.is_some_and(|dst| fate::payload(cx.program, f, dst) > Fate::Logged)
}

fn half(cx: &Context<'_>, site: Site, name: &str) -> Half {
    let f = cx.program.function(site.function);
    let mut work: Vec<Var> = halves(cx, site).into_iter().filter(|(_, n)| *n == name).map(|(var, _)| var).collect();
    let mut fate = Half::Unused;
    let mut seen = Vec::new();
    while let Some(var) = work.pop() {
        if seen.contains(&var) {
            continue;
        }
        seen.push(var);
        for (_, op) in f.ops() {
            let mut used = false;
            flow_reads(op, |x| used |= matches!(x, Operand::Var(v, _) if *v == var));
            match &op.kind {
                _ if !used => {}
                OpKind::Let(Rvalue::Use(_)) => work.extend(op.dst),
                OpKind::Call(call) if call.effect.is_some() => fate = Half::Used,
                _ => return Half::Elsewhere,
            }
        }
    }
    fate
}
