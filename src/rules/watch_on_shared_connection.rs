//! `watch-on-shared-connection`: WATCH belongs to a connection, and this one other tasks use too.

use std::collections::BTreeMap;

use crate::analysis::database::{self, Run};
use crate::analysis::slice::Slice;
use crate::finding::{Actor, Finding, Severity};
use crate::ir::{Call, Callee, EffectKind, FunctionId, Handle, HandleKind, Operand};
use crate::model::Models;
use crate::protocol;
use crate::rule::{Context, Group, Rule};
use crate::source::Span;

/// The rule.
pub const RULE: Rule = Rule {
    id: "watch-on-shared-connection",
    severity: Severity::Error,
    group: Group::Fencing,
    page: include_str!("../../rules/watch-on-shared-connection.md"),
    check,
};

fn check(cx: &Context<'_>, findings: &mut Vec<Finding>) {
    let mut by_place: BTreeMap<Span, Finding> = BTreeMap::new();
    for (id, f) in cx.program.functions() {
        // Closures and async blocks are seen from the item around them, which owns what they capture.
        if f.parent.is_some() || !cx.judged(id) {
            continue;
        }
        for watch in cx.analyzer.reached(id).iter() {
            let site = watch.via[watch.via.len() - 1];
            if !matches!(watch.effect.kind, EffectKind::Watch(_)) || cx.analyzer.item(site.function) != id {
                continue;
            }
            let runs = database::runs(cx.analyzer, &watch.via, |run| shared(cx, run));
            if let Some(run) = runs.into_iter().next() {
                let found = finding(cx, watch.effect.span, &run);
                by_place.entry(watch.effect.span).or_insert(found);
            }
        }
    }
    findings.extend(by_place.into_values());
}

/// Whether the commands of a run share their connection with other tasks, or get one each.
fn shared(cx: &Context<'_>, run: &Run) -> bool {
    match run.handle.kind {
        HandleKind::Pool => true,
        HandleKind::Multiplexed => cloned(cx, run),
        _ => false,
    }
}

/// Whether the connection is a clone: all clones of a multiplexed connection are one.
fn cloned(cx: &Context<'_>, run: &Run) -> bool {
    let site = run.site();
    let Some(call) = crate::analysis::origin_call(cx.program, site) else {
        // The op that makes a closure: its captures are the connection's variables here.
        let f = cx.program.function(site.function);
        let mut operands = Vec::new();
        crate::analysis::flow_reads(f.op(site.at), |x| operands.push(x.clone()));
        return operands
            .iter()
            .any(|x| is_handle(cx, site.function, x, &run.handle) && comes_from_clone(cx, site.function, x));
    };
    call.args.iter().any(|x| is_handle(cx, site.function, x, &run.handle) && comes_from_clone(cx, site.function, x))
}

fn is_handle(cx: &Context<'_>, function: FunctionId, operand: &Operand, wanted: &Handle) -> bool {
    let handle = protocol::handle(cx.program, Models::builtin(), function, operand);
    handle.kind == HandleKind::Multiplexed && handle.identity == wanted.identity
}

/// Whether a clone of a multiplexed connection takes part in making the operand, here or in the helper that lends it.
fn comes_from_clone(cx: &Context<'_>, function: FunctionId, operand: &Operand) -> bool {
    let sources = Slice::of(cx.program.function(function)).sources(operand);
    cx.program.function(function).calls().any(|(_, op, call)| {
        op.dst.is_some_and(|dst| sources.contains(&dst))
            && (clones(cx, function, call)
                || call.effect.is_none()
                    && call.targets.iter().any(|t| cx.program.function(*t).calls().any(|(_, _, c)| clones(cx, *t, c))))
    })
}

fn clones(cx: &Context<'_>, function: FunctionId, call: &Call) -> bool {
    let named = match &call.callee {
        Callee::Method(name) => name == "clone",
        Callee::Path(path) => path.ends_with("Clone::clone"),
        _ => false,
    };
    let multiplexed =
        |x: &Operand| protocol::handle(cx.program, Models::builtin(), function, x).kind == HandleKind::Multiplexed;
    named && call.args.first().is_some_and(multiplexed)
}

fn finding(cx: &Context<'_>, span: Span, run: &Run) -> Finding {
    let pool = run.handle.kind == HandleKind::Pool;
    let message = if pool {
        "WATCH goes over a handle that picks a connection for each command: the EXEC that should heed it runs on another one"
    } else {
        "WATCH goes over a clone of a shared connection: the EXEC of any other task ends it, so it guards nothing"
    };
    let mut f = Finding::new(&RULE, span, message);
    let last = run.via[run.via.len() - 1];
    f.confidence = database::trip(cx.analyzer, last)
        .map_or(crate::finding::Confidence::Medium, |trip| cx.confidence(trip.certainty));
    f.caret = if pool { "on a connection of its own" } else { "on a connection that others use" }.into();
    if run.via.len() > 1 {
        f.label(cx.op_span(run.site()), "the connection comes from here");
    }
    f.help = "use a connection that this code has for itself (`get_connection()`, an object checked out of a pool), or do the comparison and the write in one Lua script".into();
    f.step(Actor::A, span, "WATCHes the key and reads its value");
    if pool {
        f.step(Actor::Store, span, "the WATCH is forgotten with the connection that it ran on");
    } else {
        f.step(Actor::Store, span, "another task's EXEC on the same connection: every WATCH of the connection ends");
    }
    f.step(Actor::B, span, "changes the key");
    f.step(Actor::A, span, "MULTI .. EXEC is executed all the same, on what was read before");
    f
}
