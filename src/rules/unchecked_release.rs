//! `unchecked-release`: the answer of an owner-checked release is thrown away, so nobody learns that the lock was lost.

use std::collections::BTreeSet;

use crate::analysis::lock::Use;
use crate::finding::{Actor, Confidence, Finding, Severity};
use crate::ir::{EffectKind, LockKind, OwnerCheck};
use crate::rule::answers::{Heed, Lost};
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
    let mut done = BTreeSet::new();
    for release in &cx.locks.releases {
        let EffectKind::Release(r) = &release.effect.kind else { continue };
        let checked = matches!(r.check, OwnerCheck::Token(_))
            || (r.check == OwnerCheck::Server && r.kind == LockKind::Session && !r.all);
        if !checked || cx.in_drop(release.function) {
            continue;
        }
        for lost in cx.lost_answers(release, Heed::Logging) {
            if !cx.in_drop(lost.site.function) && !cx.fails_after(lost.site) && done.insert(lost.site) {
                findings.push(finding(cx, release, &lost));
            }
        }
    }
}

fn finding(cx: &Context<'_>, release: &Use, lost: &Lost) -> Finding {
    let span = if lost.command { cx.answer_place(release) } else { cx.op_span(lost.site) };
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
    if !lost.command {
        f.label(cx.answer_place(release), "the command");
    }
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
