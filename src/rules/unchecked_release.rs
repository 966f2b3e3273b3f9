//! `unchecked-release`: the answer of an owner-checked release is thrown away, so nobody learns that the lock was lost.

use crate::analysis::fate::{self, Fate};
use crate::analysis::lock::Use;
use crate::analysis::origin_call;
use crate::finding::{Actor, Confidence, Finding, Severity};
use crate::ir::{EffectKind, FunctionKind, LockKind, OwnerCheck, Shape};
use crate::rule::{Context, Group, Rule};

/// The rule.
pub const RULE: Rule = Rule {
    id: "unchecked-release",
    severity: Severity::Note,
    group: Group::Releasing,
    page: include_str!("../../rules/unchecked-release.md"),
    check,
};

fn check(cx: &Context<'_>, findings: &mut Vec<Finding>) {
    for release in &cx.locks.releases {
        let EffectKind::Release(r) = &release.effect.kind else { continue };
        let checked = matches!(r.check, OwnerCheck::Token(_))
            || (r.check == OwnerCheck::Server && r.kind == LockKind::Session && !r.all);
        if checked && release.id.0.len() == 1 && !in_drop(cx, release) && unseen(cx, release) {
            findings.push(finding(cx, release));
        }
    }
}

/// A release in a `Drop`, or in a task that a `Drop` starts, is best effort: nobody is left to tell.
fn in_drop(cx: &Context<'_>, release: &Use) -> bool {
    let mut at = Some(release.function);
    while let Some(id) = at {
        let f = cx.program.function(id);
        if f.kind == FunctionKind::Drop {
            return true;
        }
        at = f.parent;
    }
    false
}

fn unseen(cx: &Context<'_>, release: &Use) -> bool {
    let site = release.site();
    let f = cx.program.function(site.function);
    let trip = origin_call(cx.program, site).and_then(|c| c.effect.as_ref());
    let Some(reply) = trip.and_then(|t| t.reply.as_ref()) else { return false };
    let silent = reply.held == reply.lost;
    match f.op(site.at).dst {
        // A type that cannot show the loss, wherever it goes.
        Some(_) if silent => matches!(reply.held, Shape::Ok(_) | Shape::Unit),
        Some(dst) => fate::payload(f, dst) == Fate::Unseen,
        None => true,
    }
}

fn finding(cx: &Context<'_>, release: &Use) -> Finding {
    let span = cx.place(release);
    let session = matches!(&release.effect.kind, EffectKind::Release(r) if r.kind == LockKind::Session);
    let command = &release.effect.command;
    let (what, answer) = if session {
        (command.clone(), "`false`")
    } else {
        (format!("the release of `{}`", cx.show(release.function, crate::analysis::lock::key(&release.effect))), "0")
    };
    let mut f = Finding::new(
        &RULE,
        span,
        format!("{what} answers {answer} when the lock was not held any more, and the answer is thrown away"),
    );
    f.confidence = cx.confidence(cx.certainty(release)).min(Confidence::High);
    f.caret = "nobody looks at the answer".into();
    f.help = if session {
        "fetch the boolean and log or return an error when it is `false`: the section may have run without the lock"
            .into()
    } else {
        "read the script's answer as an integer and log or return an error when it is 0: the section outlived its lease"
            .into()
    };
    f.step(Actor::A, span, "works longer than it holds the lock");
    f.step(Actor::B, span, "takes the lock and works at the same time");
    f.step(Actor::A, span, format!("releases, is answered {answer}, and reports success"));
    f
}
