//! `setnx-expire`: a set-if-absent without expiry, whose expiry comes by a second command.

use crate::analysis::fate::{self, Fate};
use crate::analysis::lock::Decision;
use crate::analysis::origin_call;
use crate::analysis::summary::{Observation, Origin};
use crate::finding::{Actor, Finding, Severity};
use crate::ir::{AcquireForm, Atomicity, LockKind, Ttl};
use crate::rule::context::is_expiry;
use crate::rule::{Context, Group, Rule};
use std::collections::{BTreeMap, BTreeSet};

/// The rule.
pub const RULE: Rule = Rule {
    id: "setnx-expire",
    severity: Severity::Error,
    group: Group::Taking,
    page: include_str!("../../rules/setnx-expire.md"),
    check,
};

fn check(cx: &Context<'_>, findings: &mut Vec<Finding>) {
    // The innermost functions that send both commands: a helper's own pair counts once, not again at each caller.
    let mut pairs: BTreeMap<(Origin, Origin), Vec<Observation>> = BTreeMap::new();
    for o in expiries(cx) {
        let list = pairs.entry((o.lock.origin, o.origin)).or_default();
        let depth = |o: &Observation| o.lock.via.len() + o.via.len();
        let best = list.first().map_or(usize::MAX, depth);
        if depth(&o) < best {
            list.clear();
        }
        if depth(&o) <= best && !list.iter().any(|x| x.lock.via == o.lock.via) {
            list.push(o);
        }
    }
    let mut taken = BTreeSet::new();
    for o in pairs.into_values().flatten() {
        if taken.insert((o.function, o.lock.via[0])) {
            findings.push(finding(cx, &o));
        }
    }
}

/// Expiries on the key of a set-if-absent that sets none, in a step of their own.
fn expiries(cx: &Context<'_>) -> Vec<Observation> {
    let log = cx.analyzer.log.borrow();
    let all = log.observations.iter().filter(|o| {
        let a = &o.lock.acquire;
        a.kind == LockKind::Lease
            && a.form == AcquireForm::SetIfAbsent
            && a.ttl == Ttl::Never
            && is_expiry(o)
            && cx.judged(o.function)
            && (gates(cx, o) || is_lock(cx, o))
    });
    // In a script, an expiry under the branch that won belongs to the acquisition: what is left runs for losers too.
    all.filter(|o| !repairs(cx, o)).cloned().collect()
}

fn is_lock(cx: &Context<'_>, o: &Observation) -> bool {
    let lock = cx.locks.of(&o.lock.via, o.lock.origin.effect);
    lock.is_some_and(|i| cx.locks.locks[i].decision == Decision::Lock)
}

/// Whether somebody looks at the reply. A field or key that is only given its first value marks nothing.
fn gates(cx: &Context<'_>, o: &Observation) -> bool {
    let site = o.lock.origin.site;
    let script = origin_call(cx.program, site)
        .and_then(|c| c.effect.as_ref())
        .is_some_and(|trip| matches!(trip.atomicity, Atomicity::Script | Atomicity::Multi));
    let f = cx.program.function(site.function);
    let Some(dst) = f.op(site.at).dst else { return script };
    script || !matches!(fate::payload(cx.program, f, dst), Fate::Unseen | Fate::Logged)
}

/// The nearest expiry on the lock's key that follows the acquisition in a step of its own.
pub fn first_expiry(cx: &Context<'_>, lock: usize) -> Option<Observation> {
    let all = expiries(cx);
    let taken = &cx.locks.locks[lock].taken.id;
    // Seen in a helper, it belongs to the lock of each caller that says which key is meant.
    all.into_iter().find(|o| {
        cx.locks.of(&o.lock.via, o.lock.origin.effect) == Some(lock)
            || (o.lock.origin.effect == taken.1 && taken.0.ends_with(&o.lock.via))
    })
}

fn atomicity(cx: &Context<'_>, o: &Observation) -> Option<Atomicity> {
    let same = o.origin.site == o.lock.origin.site;
    let trip = origin_call(cx.program, o.origin.site)?.effect.as_ref()?;
    same.then_some(trip.atomicity)
}

/// `if ttl(key) == -1 { expire(key) }`: repairs a key that lost its expiry.
fn repairs(cx: &Context<'_>, o: &Observation) -> bool {
    let site = o.via[o.via.len() - 1];
    cx.repairs_expiry(site)
}

fn finding(cx: &Context<'_>, expiry: &Observation) -> Finding {
    let lock = cx.locks.of(&expiry.lock.via, expiry.lock.origin.effect).map(|i| &cx.locks.locks[i]);
    let command_span = cx.origin_span(expiry.lock.origin);
    let command = &cx.origin_command(expiry.lock.origin);
    let first = expiry.lock.via[0];
    let direct = expiry.lock.via.len() == 1;
    let span = if direct { command_span } else { cx.op_span(first) };
    let key = cx.show(expiry.function, &expiry.lock.acquire.key);
    let marker = lock.is_none_or(|l| l.decision != Decision::Lock);
    let thing = if marker { "marker" } else { "lock" };
    let multi = matches!(atomicity(cx, expiry), Some(Atomicity::Multi | Atomicity::Script));
    let message = if multi {
        format!("the EXPIRE behind {command} runs even if another client holds `{key}`, and prolongs its {thing}")
    } else {
        format!(
            "`{key}` is set by {command} without an expiry and gets one by a second command: a crash in between leaves the {thing} for ever"
        )
    };
    let mut f = Finding::new(&RULE, span, message);
    f.confidence = cx.confidence(expiry.lock.certainty);
    f.caret = format!("{command} sets no expiry");
    let later = if expiry.via.len() == 1 { expiry.effect.span } else { cx.op_span(expiry.via[0]) };
    f.label(later, "the expiry comes here, in a step of its own");
    if !direct {
        f.label(command_span, "the command");
    }
    if expiry.via.len() > 1 {
        f.label(expiry.effect.span, "the command");
    }
    f.help = format!("set value and expiry in one command: `SET {key} <token> NX PX <milliseconds>`");
    if multi {
        f.step(crate::finding::Actor::B, span, format!("holds `{key}`"));
        f.step(Actor::A, span, format!("sends its {command}, which fails: `{key}` is B's"));
        f.step(
            Actor::Store,
            later,
            format!("runs the EXPIRE all the same: the {thing} of B now lives as long as A keeps trying"),
        );
    } else {
        f.step(Actor::A, span, format!("sets `{key}` without an expiry"));
        f.step(Actor::A, later, "crashes, is killed or loses the connection before the expiry is sent");
        f.step(Actor::Store, span, format!("keeps `{key}` for ever"));
        f.step(Actor::B, span, format!("finds `{key}` taken, now and at every later try"));
    }
    f.lock = Some(key);
    f
}
