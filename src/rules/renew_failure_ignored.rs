//! `renew-failure-ignored`: a renewal says that the lease is lost, and the work goes on.

use std::collections::BTreeSet;

use crate::analysis::fate::{self, Fate};
use crate::analysis::flow_tested;
use crate::analysis::lock::{Decision, Lock, Use};
use crate::analysis::origin_call;
use crate::analysis::slice::Slice;
use crate::finding::{Actor, Finding, Severity};
use crate::ir::{Backend, BlockId, EdgeKind, EffectKind, Function, OpKind, OwnerCheck, Rvalue, Site, Var};
use crate::rule::{Context, Group, Rule};

/// The rule.
pub const RULE: Rule = Rule {
    id: "renew-failure-ignored",
    severity: Severity::Warning,
    group: Group::Keeping,
    page: include_str!("../../rules/renew-failure-ignored.md"),
    check,
};

fn check(cx: &Context<'_>, findings: &mut Vec<Finding>) {
    let mut done = BTreeSet::new();
    for lock in cx.locks.locks.iter().filter(|l| l.decision == Decision::Lock) {
        for renewal in lock.prolongs.keys().map(|p| &cx.locks.prolongs[*p]) {
            let EffectKind::Renew(renew) = &renewal.effect.kind else { continue };
            let asked = matches!(renew.check, OwnerCheck::Token(_)) && renew.backend == Backend::Redis;
            if !asked || renewal.id.0.len() != 1 {
                continue;
            }
            for site in unheard(cx, renewal) {
                if cx.judged(site.function) && done.insert(site) {
                    findings.push(finding(cx, lock, renewal, site));
                }
            }
        }
    }
}

/// The calls whose answer about the renewal nobody acts on: the command itself, or a call of the helper around it.
pub fn unheard(cx: &Context<'_>, renewal: &Use) -> Vec<Site> {
    let site = renewal.site();
    let trip = origin_call(cx.program, site).and_then(|c| c.effect.as_ref());
    let Some(reply) = trip.and_then(|t| t.reply.as_ref()) else { return Vec::new() };
    let f = cx.program.function(site.function);
    if reply.held == reply.lost {
        return vec![site];
    }
    let Some(dst) = f.op(site.at).dst else { return vec![site] };
    match fate::payload(f, dst) {
        Fate::Unseen | Fate::Logged => vec![site],
        Fate::Tested if only_logged(f, dst) => vec![site],
        _ => Vec::new(),
    }
}

/// Each test of the answer leads to the same place, whatever it says, with nothing but logging on the way.
fn only_logged(f: &Function, dst: Var) -> bool {
    let slice = Slice::of(f);
    let mut tests = 0;
    for (index, block) in f.blocks.iter().enumerate() {
        let asks = block.edges.iter().any(|e| flow_tested(&e.guard).is_some_and(|x| slice.sources(x).contains(&dst)));
        if !asks {
            continue;
        }
        tests += 1;
        let ways: Vec<BTreeSet<BlockId>> = block
            .edges
            .iter()
            .filter(|e| e.kind != EdgeKind::Cancel)
            .map(|e| quiet_way(f, e.to, BlockId(index as u32)))
            .collect();
        let Some((first, rest)) = ways.split_first() else { return false };
        if !first.iter().any(|b| rest.iter().all(|way| way.contains(b))) {
            return false;
        }
    }
    tests > 0
}

/// The blocks that control surely passes from `from` on while nothing but logging happens.
fn quiet_way(f: &Function, from: BlockId, test: BlockId) -> BTreeSet<BlockId> {
    let mut way = BTreeSet::new();
    let mut at = from;
    while at != test && way.insert(at) {
        let block = f.block(at);
        let acts = block.ops.iter().any(|op| match &op.kind {
            OpKind::Call(call) => !fate::looks_only(call),
            OpKind::Store(..) | OpKind::Return(..) => true,
            // An answer of its own, for a variable that other ways set too.
            OpKind::Let(Rvalue::Tuple(list)) => !list.is_empty(),
            OpKind::Let(Rvalue::Use(_) | Rvalue::Variant(..) | Rvalue::Struct(..)) => true,
            OpKind::Let(_) => op.dst.is_some_and(|dst| f.var(dst).name.is_some()),
            OpKind::Drop(_) => false,
        });
        let mut next = block.edges.iter().filter(|e| e.kind != EdgeKind::Cancel);
        match (acts, next.next(), next.next()) {
            (false, Some(edge), None) => at = edge.to,
            _ => break,
        }
    }
    way
}

fn finding(cx: &Context<'_>, lock: &Lock, renewal: &Use, site: Site) -> Finding {
    let key = cx.show(renewal.function, crate::analysis::lock::key(&renewal.effect));
    let span = if site == renewal.site() { cx.place(renewal) } else { cx.op_span(site) };
    let taken = cx.place(&lock.taken);
    let mut f = Finding::new(
        &RULE,
        span,
        format!("when the renewal of `{key}` fails or says that the lock has another owner, nothing stops the work"),
    );
    f.confidence = cx.confidence(cx.certainty(renewal));
    f.caret = "its answer has no consequence".into();
    f.label(taken, "the lock is taken here");
    f.help = "end the renewal when the answer is not 1, and race the work against it: `select! { r = work() => .., _ = keep() => lost }`; or cancel a `CancellationToken` that the work watches".into();
    f.witness = cx.expiry_story(lock);
    f.step(Actor::A, span, "renews, is told that the lock is no longer its own, and works on beside B");
    f.lock = Some(cx.key(lock));
    f
}
