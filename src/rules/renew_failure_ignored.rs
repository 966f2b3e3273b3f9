//! `renew-failure-ignored`: a renewal says that the lease is lost, and the work goes on.

use std::collections::BTreeSet;

use crate::analysis::fate;
use crate::analysis::lock::{Decision, Lock, Use};
use crate::analysis::slice::Slice;
use crate::finding::{Actor, Finding, Severity};
use crate::ir::{Backend, EffectKind, OwnerCheck, Site};
use crate::rule::answers::Heed;
use crate::rule::loops::innermost;
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
            // A script that takes or prolongs: its answer is that of the acquire.
            if renewal.origin().site == lock.taken.origin().site {
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
    let EffectKind::Renew(renew) = &renewal.effect.kind else { return Vec::new() };
    let asked = match renew.check {
        OwnerCheck::Token(_) => true,
        // etcd's ping says nothing of the lease: that comes by the stream of replies (see `lease-no-keepalive`).
        OwnerCheck::Server => renew.backend != Backend::Etcd,
        _ => false,
    };
    if !asked {
        return Vec::new();
    }
    let mut out = Vec::new();
    for lost in cx.lost_answers(renewal, Heed::Acting) {
        // A helper that hides "no longer yours" but hands errors on: who ignores those too commits the whole defect.
        let callers = cx.program.callers(lost.site.function);
        let ignored: Vec<Site> =
            callers.iter().copied().filter(|s| cx.judged(s.function) && cx.result_ignored(*s)).collect();
        if lost.command && !ignored.is_empty() {
            out.extend(ignored.into_iter().filter(|s| goes_on(cx, *s)));
        } else if lost.command || goes_on(cx, lost.site) {
            out.push(lost.site);
        }
    }
    out
}

/// Whether anything is done after a call of a renewal: a next round, or another call.
fn goes_on(cx: &Context<'_>, site: Site) -> bool {
    let f = cx.program.function(site.function);
    let slice = Slice::of(f);
    innermost(f, site.at).is_some()
        || f.calls().any(|(at, _, call)| at != site.at && !fate::looks_only(call) && slice.reaches(site.at, at))
}

fn finding(cx: &Context<'_>, lock: &Lock, renewal: &Use, site: Site) -> Finding {
    let key = cx.show(renewal.function, crate::analysis::lock::key(&renewal.effect));
    let span = if site == renewal.origin().site { cx.answer_place(renewal) } else { cx.op_span(site) };
    let taken = cx.place(&lock.taken);
    let mut f = Finding::new(
        &RULE,
        span,
        format!("when the renewal of `{key}` fails or says that the lock has another owner, nothing stops the work"),
    );
    f.confidence = cx.confidence(cx.certainty(renewal));
    f.caret = "its answer has no consequence".into();
    f.label(taken, "the lock is taken here");
    f.help = "end the renewal when it fails or the answer is no, and race the work against it: `select! { r = work() => .., _ = keep() => lost }`; or cancel a `CancellationToken` that the work watches".into();
    f.witness = cx.expiry_story(lock);
    f.step(Actor::A, span, "renews, is told that the lock is no longer its own, and works on beside B");
    f.lock = Some(cx.key(lock));
    f
}
