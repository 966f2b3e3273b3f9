//! `renew-failure-ignored`: a renewal says that the lease is lost, and the work goes on.

mod unmoved;

use std::collections::BTreeSet;

use super::bare_renew;
use crate::analysis::fate;
use crate::analysis::lock::{Decision, Lock, Use};
use crate::analysis::slice::Slice;
use crate::finding::{Actor, Finding, Severity};
use crate::ir::{Backend, EffectKind, OwnerCheck, Site, Ttl};
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
    let locks = || cx.locks.locks.iter().enumerate().filter(|(_, l)| l.decision == Decision::Lock);
    for (_, lock) in locks() {
        for renewal in lock.prolongs.keys().map(|p| &cx.locks.prolongs[*p]) {
            // A script that takes or prolongs: its answer is that of the acquire.
            if renewal.origin().site == lock.taken.origin().site {
                continue;
            }
            for site in unheard(cx, renewal) {
                if cx.judged(site.function) && done.insert(site) {
                    findings.push(finding(cx, lock, renewal, site, None));
                }
            }
        }
    }
    for (index, lock) in locks() {
        for renewal in lock.prolongs.keys().map(|p| &cx.locks.prolongs[*p]).filter(|r| prolongs(cx, r)) {
            for error in unmoved::found(cx, index, renewal) {
                if done.insert(error.site) {
                    findings.push(finding(cx, lock, renewal, error.site, Some(&error)));
                }
            }
        }
    }
}

/// Whether the expiry that a command sets is moved on by it, and not set for the first time.
fn prolongs(cx: &Context<'_>, renewal: &Use) -> bool {
    match &renewal.effect.kind {
        EffectKind::Renew(renew) => renew.backend != Backend::Etcd,
        EffectKind::Expire(e) => {
            e.ttl != Ttl::Never && !e.only_if_none && !bare_renew::first_expiries(cx).contains(&renewal.origin())
        }
        _ => false,
    }
}

/// The calls whose answer about the renewal nobody acts on: the command itself, or a call of the helper around it.
pub fn unheard(cx: &Context<'_>, renewal: &Use) -> Vec<Site> {
    let asked = match &renewal.effect.kind {
        EffectKind::Renew(renew) => match renew.check {
            OwnerCheck::Token(_) => true,
            // etcd's ping says nothing of the lease: that comes by the stream of replies (see `lease-no-keepalive`).
            OwnerCheck::Server if renew.backend == Backend::Etcd => return Vec::new(),
            OwnerCheck::Server => true,
            OwnerCheck::None => false,
            OwnerCheck::Unknown => return Vec::new(),
        },
        _ if prolongs(cx, renewal) => false,
        _ => return Vec::new(),
    };
    // Who does not ask for the owner learns of a loss by nothing but an error.
    let answers = if asked { cx.lost_answers(renewal, Heed::Acting) } else { cx.lost_errors(renewal) };
    let mut out = Vec::new();
    for lost in answers {
        // A helper that hides "no longer yours" but hands errors on: who ignores those too commits the whole defect.
        let callers = cx.program.callers(lost.site.function);
        let ignored: Vec<Site> =
            callers.iter().copied().filter(|s| asked && cx.judged(s.function) && cx.result_ignored(*s)).collect();
        if lost.command && !ignored.is_empty() {
            out.extend(ignored.into_iter().filter(|s| goes_on(cx, *s)));
        } else if asked && lost.command || goes_on(cx, lost.site) {
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

fn finding(cx: &Context<'_>, lock: &Lock, renewal: &Use, site: Site, unmoved: Option<&unmoved::Unmoved>) -> Finding {
    let key = cx.show(renewal.function, crate::analysis::lock::key(&renewal.effect));
    let span = if site == renewal.origin().site { cx.answer_place(renewal) } else { cx.op_span(site) };
    let taken = cx.place(&lock.taken);
    let message = match unmoved {
        Some(error) if error.kept => {
            format!(
                "an error of the renewal of `{key}` leaves the last good answer in place: the work goes on without the lease"
            )
        }
        Some(_) => format!("an error of the renewal of `{key}` changes nothing: the loop works on without the lease"),
        None => {
            format!("when the renewal of `{key}` fails or says that the lock has another owner, nothing stops the work")
        }
    };
    let mut f = Finding::new(&RULE, span, message);
    f.confidence = cx.confidence(cx.certainty(renewal));
    f.caret = if unmoved.is_some() { "its error has no consequence" } else { "its answer has no consequence" }.into();
    f.label(taken, "the lock is taken here");
    if let Some(error) = unmoved {
        f.label(
            error.on,
            if error.kept {
                "a good answer is kept here, and an error does not undo it"
            } else {
                "goes on after an error"
            },
        );
    }
    f.help = "end the renewal when it fails or the answer is no, and race the work against it: `select! { r = work() => .., _ = keep() => lost }`; or cancel a `CancellationToken` that the work watches".into();
    f.witness = cx.expiry_story(lock);
    let told = match unmoved {
        Some(_) => "renews, gets an error, and works on beside B",
        None => "renews, is told that the lock is no longer its own, and works on beside B",
    };
    f.step(Actor::A, span, told);
    f.lock = Some(cx.key(lock));
    f
}
