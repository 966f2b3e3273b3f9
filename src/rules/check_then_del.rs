//! `check-then-del`: GET, compare in the client, DEL: two round trips.

use super::bare_del::bare_release_of;
use super::release_unheld;
use crate::analysis::lock::{Lock, Use};
use crate::finding::{Actor, Finding, Severity};
use crate::ir::Backend;
use crate::rule::{Context, Group, Rule, advice};
use crate::source::Span;

/// The rule.
pub const RULE: Rule = Rule {
    id: "check-then-del",
    severity: Severity::Error,
    group: Group::Releasing,
    page: include_str!("../../rules/check-then-del.md"),
    check,
};

fn check(cx: &Context<'_>, findings: &mut Vec<Finding>) {
    let unheld = release_unheld::flagged(cx);
    for (index, release) in cx.locks.releases.iter().enumerate() {
        if let Some((lock, _)) = bare_release_of(cx, index)
            && !unheld.contains(&index)
            && let Some(read) = client_check(cx, release)
            && !cx.watched(release)
        {
            findings.push(finding(cx, release, lock, read));
        }
    }
}

/// The GET of the same key whose value is compared in the client before the release.
pub fn client_check(cx: &Context<'_>, release: &Use) -> Option<Span> {
    cx.compared_read(release)
}

fn finding(cx: &Context<'_>, release: &Use, lock: &Lock, read: Span) -> Finding {
    let key = cx.show(release.function, crate::analysis::lock::key(&release.effect));
    let span = cx.place(release);
    let taken = cx.place(&lock.taken);
    let command = &release.effect.command;
    let mut f = Finding::new(
        &RULE,
        span,
        format!(
            "the owner of `{key}` is compared in the client and deleted by a second command: the lock can change hands in between"
        ),
    );
    f.confidence = cx.confidence(cx.certainty(release));
    f.caret = format!("{command} no longer knows whose lock it is");
    f.labels = cx.through(release, "the command");
    f.label(read, "the owner is read here");
    f.label(taken, "the lock is taken here");
    let backend = lock.acquire().map_or(Backend::Redis, |a| a.backend);
    f.help = advice::checked_release(backend, &key);
    f.step(Actor::A, taken, format!("holds `{key}`, close to its expiry"));
    f.step(Actor::A, read, "reads its own token: the lock is still its own");
    f.step(Actor::Store, taken, format!("the lease on `{key}` expires"));
    f.step(Actor::B, taken, format!("acquires `{key}`"));
    f.step(Actor::A, span, "deletes the lock of B");
    f.lock = Some(cx.key(lock));
    f
}
