//! `unchecked-release`: the answer of an owner-checked release is thrown away, so nobody learns that the lock was lost.

use std::collections::BTreeSet;

use super::lock_on_pool;
use crate::analysis::lock::Use;
use crate::analysis::slice::Slice;
use crate::analysis::{database, origin_call};
use crate::finding::{Actor, Confidence, Finding, Severity};
use crate::ir::{
    Backend, Effect, EffectKind, FunctionKind, LockKind, Op, OpKind, OpRef, Operand, OwnerCheck, Rvalue, Site,
    Use as Mode, Var,
};
use crate::model::{Models, TypeRole};
use crate::protocol;
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
        if !checked || cx.in_drop(release.function) || completes(cx, release) || ends_the_session(cx, release) {
            continue;
        }
        // The answer is `false` because of the connection: that is one cause, and named there.
        if r.kind == LockKind::Session && lock_on_pool::explains(cx, release) {
            continue;
        }
        for lost in cx.lost_answers(release, Heed::Logging) {
            if !cx.in_drop(lost.site.function)
                && !fails(cx, lost.site, 0)
                && !of_another(cx, release, lost.site)
                && done.insert(lost.site)
            {
                findings.push(finding(cx, release, &lost));
            }
        }
    }
}

/// Whether the statement also records what became of the work: the owner that it compares is its fence, and a row that is no
/// longer ours keeps what its holder writes.
fn completes(cx: &Context<'_>, release: &Use) -> bool {
    let row = matches!(&release.effect.kind, EffectKind::Release(r) if r.kind == LockKind::LeaseRow);
    let writes = |e: &Effect| matches!(e.kind, EffectKind::Write(_));
    row && database::trip(cx.analyzer, release.origin().site).is_some_and(|trip| trip.effects.iter().any(writes))
}

/// Whether the connection is the function's own and not one of a pool: at its end it is closed, and that frees what is
/// still held, whatever the unlock says.
fn ends_the_session(cx: &Context<'_>, release: &Use) -> bool {
    let site = release.origin().site;
    let session = matches!(&release.effect.kind, EffectKind::Release(r) if r.kind == LockKind::Session);
    let Some(call) = origin_call(cx.program, site).filter(|_| session) else { return false };
    let f = cx.program.function(site.function);
    let slice = Slice::of(f);
    let bare = |var: Var| {
        let ty = cx.program.receiver(site.function, &Operand::Var(var, Mode::Ref));
        let roles = Models::builtin().type_roles(&ty.path);
        roles.iter().any(|(_, role)| matches!(role, TypeRole::Handle | TypeRole::Dedicated))
    };
    // The connection itself, or the value that it is a part of.
    let whole = |var: Var| {
        let part = f.ops().find_map(|(_, op)| match &op.kind {
            OpKind::Let(Rvalue::Field(base, _)) if op.dst == Some(var) => protocol::root(f, base),
            _ => None,
        });
        part.unwrap_or(var)
    };
    call.args.iter().filter_map(|x| protocol::root(f, x)).any(|var| {
        let owner = whole(var);
        let own = !f.var(owner).by_ref && !f.captures.contains(&owner);
        let closes =
            |(at, op): (OpRef, &Op)| matches!(op.kind, OpKind::Drop(v) if v == owner) && slice.reaches(site.at, at);
        own && bare(var) && f.ops().any(closes)
    })
}

/// Whether everything that follows fails, here or where this helper is called: what went wrong is told.
fn fails(cx: &Context<'_>, site: Site, depth: u32) -> bool {
    if cx.fails_after(site) {
        return true;
    }
    let f = cx.program.function(site.function);
    let callers = cx.program.callers(site.function);
    let live: Vec<Site> = callers.iter().copied().filter(|s| cx.judged(s.function)).collect();
    let gives_back_only = f.kind == FunctionKind::Item && (f.ret.is_unit() || f.ret.success().is_unit());
    gives_back_only && depth < 2 && !live.is_empty() && live.iter().all(|s| fails(cx, *s, depth + 1))
}

/// Whether the token comes from a look at the lock, not from taking it: who takes away a lock that another left behind does
/// not hold it, and an answer of 0 says only that somebody was faster.
fn of_another(cx: &Context<'_>, release: &Use, site: Site) -> bool {
    let EffectKind::Release(r) = &release.effect.kind else { return false };
    if r.kind != LockKind::Lease {
        return false;
    }
    let f = cx.program.function(site.function);
    let Some(call) = origin_call(cx.program, site) else { return false };
    let slice = Slice::of(f);
    let made: Vec<_> = call.args.iter().flat_map(|x| slice.sources(x)).collect();
    f.calls().filter(|(_, op, _)| op.dst.is_some_and(|dst| made.contains(&dst))).any(|(_, _, call)| {
        let own = call.effect.iter().flat_map(|trip| trip.effects.iter().cloned());
        let below = call
            .targets
            .iter()
            .flat_map(|t| cx.analyzer.reached(*t).iter().map(|r| r.effect.clone()).collect::<Vec<_>>());
        let effects: Vec<_> = own.chain(below).collect();
        effects.iter().any(|e| matches!(e.kind, EffectKind::Read(_)))
            && !effects.iter().any(|e| matches!(e.kind, EffectKind::Acquire(_)))
    })
}

fn finding(cx: &Context<'_>, release: &Use, lost: &Lost) -> Finding {
    let span = if lost.command { cx.answer_place(release) } else { cx.op_span(lost.site) };
    let (session, row, backend) = match &release.effect.kind {
        EffectKind::Release(r) => (r.kind == LockKind::Session, r.kind == LockKind::LeaseRow, r.backend),
        _ => (false, false, Backend::Redis),
    };
    let command = &release.effect.command;
    let refusal = match backend {
        // MySQL Reference Manual, "Locking Functions": 0 if another session holds it, NULL if nobody does.
        Backend::MySql => "0 or NULL",
        Backend::SqlServer => "a negative number",
        _ => "`false`",
    };
    let (what, answer) = if session {
        (command.clone(), refusal)
    } else if row {
        let key = cx.show(release.function, crate::analysis::lock::key(&release.effect));
        (format!("the release of `{key}`"), "0 rows")
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
    let kind = if let EffectKind::Release(r) = &release.effect.kind { r.kind } else { LockKind::Lease };
    f.help = match kind {
        LockKind::Session => {
            "fetch the answer and log or return an error when it is not true: the section may have run without the lock"
        }
        LockKind::LeaseRow => {
            "read the number of rows and log or return an error when it is 0: the section outlived its lease"
        }
        _ => "read the answer as an integer and log or return an error when it is 0: the section outlived its lease",
    }
    .into();
    let taken = cx
        .locks
        .locks
        .iter()
        .find(|lock| lock.releases.keys().any(|i| cx.locks.releases[*i].id == release.id))
        .map_or(span, |lock| cx.place(&lock.taken));
    if session {
        f.step(Actor::A, taken, "takes the lock in its session");
        f.step(Actor::Store, taken, "the session ends or is reset under the work (a failover, a reconnect, a pooler between), and the lock with it");
        f.step(Actor::A, span, format!("unlocks, and is answered {answer}: this session holds no such lock"));
        f.step(
            Actor::A,
            span,
            "reports success: nobody learns that the lock was gone, or that it is still held elsewhere",
        );
    } else {
        f.step(Actor::A, taken, "takes the lock, and works longer than its lease lasts");
        f.step(Actor::B, taken, "takes the lock and works at the same time");
        f.step(Actor::A, span, format!("releases, is answered {answer}, and reports success"));
    }
    f
}
