//! `herd-watch`: all candidates watch the same node and wake up together.

use std::collections::BTreeMap;

use crate::analysis::flow_reads;
use crate::analysis::lock::{self, Decision, Lock};
use crate::analysis::slice::Slice;
use crate::analysis::summary::{Reached, Relation, Status};
use crate::finding::{Actor, Confidence, Finding, Severity};
use crate::ir::{Backend, Callee, EffectKind, FunctionId, Lit, Look, OpKind, Operand, Piece, Rvalue, Site, Value};
use crate::rule::{Context, Group, Rule};
use crate::source::Span;

/// The rule.
pub const RULE: Rule = Rule {
    id: "herd-watch",
    severity: Severity::Note,
    group: Group::Coordination,
    page: include_str!("../../rules/herd-watch.md"),
    check,
};

fn check(cx: &Context<'_>, findings: &mut Vec<Finding>) {
    let mut found: BTreeMap<Span, Finding> = BTreeMap::new();
    for (index, lock) in cx.locks.locks.iter().enumerate() {
        if lock.acquire().is_none_or(|a| a.backend != Backend::ZooKeeper) {
            continue;
        }
        for (function, look) in watches(cx, lock) {
            let EffectKind::Look(node) = &look.effect.kind else { continue };
            let all = if node.children {
                below(cx, lock, function, node) && picks_the_first(cx, &look)
            } else {
                lock.decision == Decision::Lock && waits_for_it(cx, index, &look)
            };
            if all {
                let span = look.effect.span;
                found.entry(span).or_insert_with(|| finding(cx, lock, function, node, span));
            }
        }
    }
    findings.extend(found.into_values());
}

/// Watches set by the function that takes the lock, by methods of its type, and by what they call.
fn watches(cx: &Context<'_>, lock: &Lock) -> Vec<(FunctionId, Reached)> {
    let home = cx.analyzer.item(lock.taken.function);
    let owner = cx.program.function(home).owner.as_deref();
    let mut out = Vec::new();
    for (id, f) in cx.program.functions().filter(|(id, _)| cx.judged(*id)) {
        let near = id == home || owner.is_some() && f.owner.as_deref() == owner;
        if !near || f.parent.is_some() {
            continue;
        }
        let reached = cx.analyzer.reached(id);
        let watch =
            |r: &&Reached| matches!(&r.effect.kind, EffectKind::Look(l) if l.watch && l.backend == Backend::ZooKeeper);
        out.extend(reached.iter().filter(watch).map(|r| (id, r.clone())));
    }
    out
}

/// Whether the lock's node is made below the node whose children are watched. Keys of which nothing is known are taken
/// as belonging together within one function.
fn below(cx: &Context<'_>, lock: &Lock, function: FunctionId, look: &Look) -> bool {
    let parent = cx.analyzer.comparable(function, &look.key);
    let node = &lock.taken.key;
    let (parent, node) = (cx.program.expanded(&parent), cx.program.expanded(node));
    match (text(&parent), text(&node)) {
        (Some(parent), Some(node)) => node.starts_with(parent.trim_end_matches('/')),
        _ => cx.analyzer.item(lock.taken.function) == function,
    }
}

fn text(value: &Value) -> Option<String> {
    let known = matches!(value, Value::Const(_) | Value::Template(_) | Value::TypeField(..));
    known.then(|| lock::show(&Value::Template(vec![Piece::Hole(value.clone())].into())))
}

/// Whether the list of children is used to find who comes first: it is sorted, or its smallest is taken.
fn picks_the_first(cx: &Context<'_>, look: &Reached) -> bool {
    look.via.iter().any(|site| first_of(cx, *site))
}

fn first_of(cx: &Context<'_>, site: Site) -> bool {
    let f = cx.program.function(site.function);
    let Some(list) = f.op(site.at).dst else { return false };
    let slice = Slice::of(f);
    f.ops().any(|(_, op)| {
        let mut from = false;
        flow_reads(op, |x| from |= slice.sources(x).contains(&list));
        from && match &op.kind {
            OpKind::Call(call) => match &call.callee {
                Callee::Method(name) => {
                    name.starts_with("sort")
                        || matches!(
                            name.as_str(),
                            "first" | "min" | "min_by" | "min_by_key" | "position" | "split_first"
                        )
                }
                _ => false,
            },
            OpKind::Let(Rvalue::Index(_, Operand::Lit(Lit::Int(0)))) => true,
            _ => false,
        }
    })
}

/// Whether those who lost the lock watch its own node.
fn waits_for_it(cx: &Context<'_>, lock: usize, look: &Reached) -> bool {
    let own = |o: &crate::analysis::summary::Observation| {
        o.origin == look.origin && o.status == Status::Lost && o.relation == Relation::Must
    };
    !cx.observed(lock, own).is_empty()
}

fn finding(cx: &Context<'_>, lock: &Lock, function: FunctionId, look: &Look, span: Span) -> Finding {
    let key = cx.key(lock);
    let node = cx.show(function, &look.key);
    let what = if look.children {
        format!("every candidate for `{key}` watches all of `{node}`: each change wakes all of them, and one can win")
    } else {
        format!("every waiter watches the one node `{node}`: its end wakes all of them, and one can win")
    };
    let mut f = Finding::new(&RULE, span, what);
    f.confidence = Confidence::Medium.min(cx.confidence(cx.certainty(&lock.taken)));
    f.caret = "wakes everybody".into();
    f.label(cx.place(&lock.taken), "each candidate makes its node here");
    f.help = "make sequential nodes, list the children without a watch, and watch the node before your own (`exists_w` on the predecessor); list again when it fires".into();
    f.step(Actor::Store, span, "300 candidates hold the watch");
    f.step(Actor::A, cx.place(&lock.taken), "gives the lock back");
    f.step(Actor::B, span, "is woken together with 298 others, each asks the service again, one of them wins");
    f.lock = Some(key);
    f
}
