//! `release-before-commit`: the lock is given back while the transaction with the writes that it protects is open.

use std::collections::BTreeMap;

use crate::analysis::database;
use crate::analysis::lock::{Decision, show_resource};
use crate::analysis::slice::Slice;
use crate::analysis::summary::{Observation, Status};
use crate::finding::{Actor, Confidence, Finding, Severity};
use crate::ir::{
    EffectKind, Function, FunctionId, Handle, HandleKind, LockKind, OpRef, Resource, Site, Value, Var, Write,
};
use crate::rule::{Context, Group, Rule};
use crate::source::Span;

/// The rule.
pub const RULE: Rule = Rule {
    id: "release-before-commit",
    severity: Severity::Error,
    group: Group::Releasing,
    page: include_str!("../../rules/release-before-commit.md"),
    check,
};

fn check(cx: &Context<'_>, findings: &mut Vec<Finding>) {
    let mut found: BTreeMap<Span, Finding> = BTreeMap::new();
    let mut under: BTreeMap<(usize, FunctionId), Vec<Observation>> = BTreeMap::new();
    let log = cx.analyzer.log.borrow();
    for seen in log.releases.iter().filter(|r| r.status == Status::Held && r.proven && cx.judged(r.function)) {
        let Some(lock) = cx.locks.of(&seen.lock.via, seen.lock.origin.effect) else { continue };
        if cx.locks.locks[lock].decision != Decision::Lock
            || !matches!(seen.freed.release.kind, LockKind::Lease | LockKind::Session)
        {
            continue;
        }
        let site = seen.freed.via[0];
        let (id, f) = (seen.function, cx.program.function(seen.function));
        let writes = under.entry((lock, id)).or_insert_with(|| {
            cx.observed(lock, |o| o.function == id && o.status == Status::Held && table(o).is_some())
        });
        let open = writes.iter().find_map(|o| open_at(cx, f, id, o, site).map(|commit| (o, commit)));
        if let Some((write, commit)) = open
            && !cx.fails_after(site)
        {
            let span = release_place(cx, &seen.freed.via, seen.freed.origin.effect);
            found.entry(span).or_insert_with(|| finding(cx, lock, span, write, commit));
        }
    }
    findings.extend(found.into_values());
}

fn table(o: &Observation) -> Option<&Write> {
    match &o.effect.kind {
        EffectKind::Write(w) if matches!(w.resource, Resource::Table(_)) => Some(w),
        _ => None,
    }
}

/// Where the transaction of a write that is still open at `release` commits: here, or (`None`) in a caller.
fn open_at(cx: &Context<'_>, f: &Function, id: FunctionId, write: &Observation, release: Site) -> Option<Option<Span>> {
    let handle = database::seen(cx.analyzer, &write.via)?;
    if !matches!(handle.kind, HandleKind::Transaction | HandleKind::Body) {
        return None;
    }
    let ends = ends(cx, id, &handle);
    let slice = Slice::of(f);
    let (from, to) = (write.via[0].at, release.at);
    if from == to || !reaches_without(f, from, to, &ends) {
        return None;
    }
    let commit = ends.iter().find(|(at, commits)| *commits && *at != to && slice.reaches(to, *at));
    match commit {
        Some((at, _)) => Some(Some(cx.op_span(Site { function: id, at: *at }))),
        None if ends.is_empty() && from_outside(f, &handle) => Some(None),
        None => None,
    }
}

/// The ops that end the transaction: where, and whether they commit it.
fn ends(cx: &Context<'_>, id: FunctionId, handle: &Handle) -> Vec<(OpRef, bool)> {
    let reached = cx.analyzer.reached(id);
    let of_it = |via: &[Site]| {
        database::seen(cx.analyzer, via).is_some_and(|h| h.kind == HandleKind::Body || h.identity == handle.identity)
    };
    reached
        .iter()
        .filter_map(|r| match r.effect.kind {
            EffectKind::Commit => Some((r, true)),
            EffectKind::Rollback => Some((r, false)),
            _ => None,
        })
        .filter(|(r, _)| of_it(&r.via))
        .map(|(r, commits)| (r.via[0].at, commits))
        .collect()
}

/// The transaction is the caller's: a parameter that is lent, or what a database function runs in.
fn from_outside(f: &Function, handle: &Handle) -> bool {
    match &handle.identity {
        _ if handle.kind == HandleKind::Body => true,
        Value::Param(i) => f.params.get(*i as usize).is_some_and(|p: &Var| f.var(*p).by_ref),
        _ => false,
    }
}

/// Whether control can go from one op to another without passing one that ends the transaction.
fn reaches_without(f: &Function, from: OpRef, to: OpRef, ends: &[(OpRef, bool)]) -> bool {
    let mut seen = std::collections::BTreeSet::new();
    let mut work = vec![(from.block, from.index as usize + 1)];
    while let Some((block, start)) = work.pop() {
        let mut over = false;
        for index in start..f.block(block).ops.len() {
            let at = OpRef { block, index: index as u32 };
            if at == to {
                return true;
            }
            if ends.iter().any(|(end, _)| *end == at) {
                over = true;
                break;
            }
        }
        if !over {
            let edges = f.block(block).edges.iter().filter(|e| e.kind != crate::ir::EdgeKind::Back);
            work.extend(edges.filter(|e| seen.insert(e.to)).map(|e| (e.to, 0)));
        }
    }
    false
}

/// The release command; the op by which a guard goes out of scope.
fn release_place(cx: &Context<'_>, via: &[Site], effect: u32) -> Span {
    match cx.locks.release_of(via, effect) {
        Some(release) if via.len() == cx.locks.releases[release].id.0.len() => cx.place(&cx.locks.releases[release]),
        _ => cx.op_span(via[0]),
    }
}

fn finding(cx: &Context<'_>, lock: usize, span: Span, write: &Observation, commit: Option<Span>) -> Finding {
    let lock = &cx.locks.locks[lock];
    let key = cx.key(lock);
    let what = table(write).map_or_else(String::new, |w| show_resource(&w.resource));
    let after =
        if commit.is_some() { "before its transaction commits" } else { "in a transaction that the caller commits" };
    let mut f = Finding::new(
        &RULE,
        span,
        format!("`{key}` is released {after}: the next holder does not see the write to {what}"),
    );
    f.confidence = Confidence::High.min(cx.confidence(cx.certainty(&lock.taken)));
    f.caret = "the transaction is still open here".into();
    f.label(cx.place(&lock.taken), "the lock is taken here");
    f.label(write.effect.span, "written under it");
    if let Some(commit) = commit {
        f.label(commit, "committed here");
    }
    f.help = if commit.is_some() {
        "commit first, then release".into()
    } else {
        "take and release the lock around the whole transaction, in the function that commits it; or take `pg_advisory_xact_lock` in the transaction: it ends with it".into()
    };
    f.step(Actor::A, write.effect.span, format!("holds `{key}` and writes to {what}, not yet visible to others"));
    f.step(Actor::A, span, format!("releases `{key}`"));
    f.step(Actor::B, cx.place(&lock.taken), format!("takes `{key}` and reads what was there before"));
    f.step(Actor::A, commit.unwrap_or(span), "commits");
    f.step(Actor::B, write.effect.span, "writes over it, from what it read");
    f.lock = Some(key);
    f
}
