//! `bare-del`: a lease key is deleted without comparing the owner in the same step.

use super::{check_then_del, release_unheld};
use crate::analysis::lock::{Decision, Lock, Pairing, Use, UseId, words};
use crate::analysis::summary::Relation;
use crate::finding::{Actor, Confidence, Finding, Severity};
use crate::ir::{Backend, EffectKind, LockKind, OwnerCheck, Piece, Ttl, Value};
use crate::rule::answers::ahead;
use crate::rule::{Context, Group, Rule, advice};

/// The rule.
pub const RULE: Rule = Rule {
    id: "bare-del",
    severity: Severity::Error,
    group: Group::Releasing,
    page: include_str!("../../rules/bare-del.md"),
    check,
};

fn check(cx: &Context<'_>, findings: &mut Vec<Finding>) {
    let unheld = release_unheld::flagged(cx);
    let mut kept: Vec<(&Use, UseId, Finding)> = Vec::new();
    for (index, release) in cx.locks.releases.iter().enumerate() {
        if let Some((lock, how)) = bare_release_of(cx, index)
            && !unheld.contains(&index)
            && check_then_del::client_check(cx, release).is_none()
            && !cx.watched(release)
            && !member_is_owner(cx, release)
        {
            let found = match how != Pairing::Path && by_force(cx, release) {
                true => forced(cx, release, lock),
                false => finding(cx, release, lock, how),
            };
            // Branches that come together again: one call behind them does for all.
            match kept.iter_mut().find(|(first, of, _)| of == &lock.taken.id && beside(cx, first, release)) {
                Some((_, _, first)) => {
                    let (mut low, high) =
                        if found.span < first.span { (found, first.clone()) } else { (first.clone(), found) };
                    low.label(high.span, "and here");
                    low.confidence = low.confidence.max(high.confidence);
                    *first = low;
                }
                None => kept.push((release, lock.taken.id.clone(), found)),
            }
        }
    }
    findings.extend(kept.into_iter().map(|(.., f)| f));
}

/// Whether two releases stand on branches of one function that meet again.
fn beside(cx: &Context<'_>, x: &Use, y: &Use) -> bool {
    let (a, b) = (x.site(), y.site());
    if a.function != b.function || a.at.block == b.at.block {
        return false;
    }
    let f = cx.program.function(a.function);
    let (after_a, after_b) = (ahead(f, a.at.block), ahead(f, b.at.block));
    !after_a.contains(&b.at.block) && !after_b.contains(&a.at.block) && !after_a.is_disjoint(&after_b)
}

/// The lock that a release without owner check surely belongs to.
pub fn bare_release_of<'c>(cx: &'c Context<'_>, index: usize) -> Option<(&'c Lock, Pairing)> {
    let EffectKind::Release(r) = &cx.locks.releases[index].effect.kind else { return None };
    if r.check != OwnerCheck::None || !matches!(r.kind, LockKind::Lease | LockKind::LeaseRow) {
        return None;
    }
    cx.locks
        .locks
        .iter()
        .filter(|lock| matches!(lock.decision, Decision::Lock | Decision::ClaimWithUndo) && !ends_with_session(lock))
        .filter_map(|lock| match lock.releases.get(&index) {
            Some((how, Relation::Must)) => Some((lock, *how)),
            _ => None,
        })
        .max_by_key(|(_, how)| *how)
}

/// Whether the function that releases says that it does so whoever the holder is; its taker does not call it.
fn by_force(cx: &Context<'_>, release: &Use) -> bool {
    const FORCE: &[&str] = &["force", "forced", "forcibly", "admin", "administrative"];
    let on_the_way = release.id.0.iter().map(|site| cx.analyzer.item(site.function));
    on_the_way.chain([cx.analyzer.item(release.function)]).any(|id| {
        let name = words(&cx.program.function(id).name);
        name.iter().any(|w| FORCE.contains(&w.as_str()))
    })
}

/// The note on a declared administrative release.
fn forced(cx: &Context<'_>, release: &Use, lock: &Lock) -> Finding {
    let key = cx.one_key(lock, release);
    let (span, taken) = (cx.place(release), cx.place(&lock.taken));
    let command = &release.effect.command;
    let message = format!("{command} frees the lock `{key}` whoever holds it: a holder that still works is not told");
    let mut f = Finding::new(&RULE, span, message).at_most(Severity::Note);
    f.confidence = cx.confidence(cx.certainty(release)).min(cx.confidence(cx.certainty(&lock.taken)));
    f.caret = "frees it by force".into();
    f.labels = cx.through(release, "the command");
    f.label(taken, "the lock is taken here");
    f.help = "use it only where the holder is known to be gone, log whose lock was freed, and let the work under the lock refuse a stale holder".into();
    f.step(Actor::A, taken, format!("holds `{key}`, and works"));
    f.step(Actor::B, span, "frees it by force");
    f.step(Actor::B, taken, format!("acquires `{key}`, and works beside A"));
    f.lock = Some(cx.key(lock));
    f
}

/// A member of a set or a field of a hash that is made anew for each owner: nobody else's can be meant.
fn member_is_owner(cx: &Context<'_>, release: &Use) -> bool {
    let Value::Operation(op, parts) = crate::analysis::lock::key(&release.effect) else { return false };
    let (true, Some(member)) = (op == "field", parts.get(1)) else { return false };
    made_anew(&cx.program.expanded(&cx.program.absolute(release.function, member)), 0)
}

fn made_anew(value: &Value, depth: u32) -> bool {
    let inner = |v: &Value| depth < 16 && made_anew(v, depth + 1);
    match value {
        Value::Fresh(_) | Value::PerProcess(_) => true,
        Value::Template(pieces) => pieces.iter().any(|p| matches!(p, Piece::Hole(v) if inner(v))),
        Value::Call(call) => call.args.iter().any(inner),
        Value::Join(list) => list.iter().all(inner),
        _ => false,
    }
}

/// An ephemeral node: when the lease ends, so does the session, and the delete fails with it (ZooKeeper Programmer's Guide,
/// "ZooKeeper Sessions").
fn ends_with_session(lock: &Lock) -> bool {
    lock.acquire().is_some_and(|a| a.backend == Backend::ZooKeeper && a.ttl == Ttl::Managed)
}

fn finding(cx: &Context<'_>, release: &Use, lock: &Lock, how: Pairing) -> Finding {
    let key = cx.one_key(lock, release);
    let span = cx.place(release);
    let taken = cx.place(&lock.taken);
    let command = &release.effect.command;
    let marker = lock.decision == Decision::ClaimWithUndo;
    let message = if marker {
        format!(
            "{command} takes the marker `{key}` back without comparing whose it is: after an expiry it deletes the one that somebody else has set"
        )
    } else {
        format!(
            "{command} gives the lock `{key}` back without comparing its owner: after an expiry it deletes the next holder's lock"
        )
    };
    let mut f = Finding::new(&RULE, span, message);
    if marker {
        // It has to expire under the work, and the work has to fail after that.
        f = f.at_most(Severity::Warning);
    }
    f.confidence = cx.confidence(cx.certainty(release)).min(cx.confidence(cx.certainty(&lock.taken)));
    if how == Pairing::Module {
        f.confidence = f.confidence.min(Confidence::Medium);
    }
    let thing = if marker { "marker" } else { "lock" };
    f.caret = format!("deletes whoever's {thing} this is");
    f.labels = cx.through(release, "the command");
    f.label(taken, if marker { "the marker is set here" } else { "the lock is taken here" });
    let backend = lock.acquire().map_or(Backend::Redis, |a| a.backend);
    f.help = advice::checked_release(backend, &key);
    if marker {
        f.step(Actor::A, taken, format!("sets the marker `{key}` and begins"));
        f.step(Actor::Store, taken, format!("the marker `{key}` expires"));
        f.step(Actor::B, taken, format!("sets `{key}` for itself and begins as well"));
        f.step(Actor::A, span, "fails, and deletes the marker of B");
        f.step(Actor::Store, taken, "knows of no marker: a third one begins while B is at work");
    } else {
        f.witness = cx.expiry_story_of(lock, &key);
        f.step(Actor::A, span, "wakes up, still believing that it holds the lock, and deletes the lock of B");
        f.step(Actor::B, taken, "works on without a lock, and anybody can take it");
    }
    f.lock = Some(cx.key(lock));
    f
}
