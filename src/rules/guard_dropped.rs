//! `guard-dropped`: a guard dies in the statement that makes it, so the section runs without the lock.

use std::collections::BTreeMap;

use crate::analysis::Dropped;
use crate::finding::{Actor, Finding, Severity};
use crate::ir::{OpKind, Operand};
use crate::rule::{Context, Group, Rule};
use crate::source::Span;

/// The rule.
pub const RULE: Rule = Rule {
    id: "guard-dropped",
    severity: Severity::Error,
    group: Group::Taking,
    page: include_str!("../../rules/guard-dropped.md"),
    check,
};

fn check(cx: &Context<'_>, findings: &mut Vec<Finding>) {
    let log = cx.analyzer.log.borrow();
    let mut found: BTreeMap<Span, Finding> = BTreeMap::new();
    for dropped in log.dropped.iter().filter(|d| d.proven && cx.judged(d.function)) {
        let span = cx.op_span(dropped.lock.via[0]);
        if untouched(cx, dropped) && work_follows(cx, dropped) {
            found.entry(span).or_insert_with(|| finding(cx, dropped, span));
        }
    }
    findings.extend(found.into_values());
}

/// Nothing is done with the guard: it has no name, and no op reads it.
fn untouched(cx: &Context<'_>, dropped: &Dropped) -> bool {
    let f = cx.program.function(dropped.function);
    f.var(dropped.var).name.is_none()
        && !f.ops().any(|(_, op)| {
            let mut used = false;
            crate::analysis::flow_reads(op, |x| used |= matches!(x, Operand::Var(v, _) if *v == dropped.var));
            used
        })
}

/// After the guard is gone the function still calls something.
fn work_follows(cx: &Context<'_>, dropped: &Dropped) -> bool {
    let f = cx.program.function(dropped.function);
    let slice = crate::analysis::slice::Slice::of(f);
    f.ops().any(|(at, op)| {
        matches!(&op.kind, OpKind::Call(call) if !crate::analysis::fate::looks_only(call))
            && slice.reaches(dropped.at, at)
    })
}

fn finding(cx: &Context<'_>, dropped: &Dropped, span: Span) -> Finding {
    let key = cx.show(dropped.function, &dropped.lock.acquire.key);
    let mut f = Finding::new(
        &RULE,
        span,
        format!("the guard of `{key}` is dropped in this statement and gives the lock back before the work begins"),
    );
    f.confidence = cx.confidence(dropped.lock.certainty);
    f.caret = "this guard lives for one statement only".into();
    f.help =
        "bind it to a name that lives as long as the section: `let _guard = ..;` (a plain `_` drops at once)".into();
    f.step(Actor::A, span, format!("takes `{key}` and drops the guard: the lock is free again"));
    f.step(Actor::B, span, format!("takes `{key}`"));
    f.step(Actor::A, span, "works beside B");
    f.lock = Some(key);
    f
}
