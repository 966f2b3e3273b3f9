//! What says that a key or row which is looked at and then written is a lock.

use super::{Gate, Pair};
use crate::analysis::lock::{Use, words};
use crate::analysis::shapes_last;
use crate::analysis::summary::{Reached, Relation};
use crate::finding::Confidence;
use crate::ir::{Backend, EffectKind, FunctionId, LockKind, OpKind, OwnerCheck, Resource, Safety, Shape, Ttl, Value};
use crate::protocol::sql::table_of;
use crate::rule::Context;
use crate::source::Span;

/// How sure it is, and where the lock is given back.
pub(super) struct Evidence {
    /// Cap of the finding's confidence.
    pub confidence: Confidence,
    /// The release.
    pub release: Option<Span>,
}

/// Why the pair takes a lock, if it does.
pub(super) fn evidence(cx: &Context<'_>, pair: &Pair, gate: &Gate) -> Option<Evidence> {
    match &pair.take.effect.kind {
        EffectKind::Write(w) if matches!(w.resource, Resource::Table(_)) => row(cx, pair, &w.safety),
        _ => key(cx, pair, gate),
    }
}

/// A table of leases; or the very row that a locking SELECT did not find, in a schema that is known to have no key for it.
fn row(cx: &Context<'_>, pair: &Pair, safety: &Safety) -> Option<Evidence> {
    let Value::Operation(_, name) = &pair.key else { return None };
    let table = name.first()?.as_str()?;
    let of_table = |used: &&Use| {
        let effect = &used.effect.kind;
        let lease = matches!(effect, EffectKind::Release(r) if r.kind == LockKind::LeaseRow)
            || matches!(effect, EffectKind::Renew(_) | EffectKind::Expire(_));
        lease
            && table_of(crate::analysis::lock::key(&used.effect))
                .is_some_and(|t| t.rsplit('.').next().unwrap_or(t).eq_ignore_ascii_case(table))
    };
    let release = cx.locks.releases.iter().chain(&cx.locks.prolongs).find(of_table);
    let known = cx.program.schema.unique.contains_key(table) && *safety == Safety::None;
    let locks_row = matches!(pair.read.effect.kind, EffectKind::Acquire(_));
    match release {
        Some(release) => Some(Evidence {
            confidence: if known { Confidence::High } else { Confidence::Medium },
            release: Some(cx.place(release)),
        }),
        None if locks_row => {
            Some(Evidence { confidence: if known { Confidence::Medium } else { Confidence::Low }, release: None })
        }
        None => None,
    }
}

fn key(cx: &Context<'_>, pair: &Pair, gate: &Gate) -> Option<Evidence> {
    let belongs = |used: &&Use| gives_back(cx, used, &pair.key);
    let lease = |used: &&Use| matches!(&used.effect.kind, EffectKind::Release(r) if r.kind == LockKind::Lease);
    let compared = |used: &&Use| match &used.effect.kind {
        EffectKind::Release(r) => matches!(r.check, OwnerCheck::Token(_)),
        EffectKind::Renew(r) => matches!(r.check, OwnerCheck::Token(_)),
        _ => false,
    };
    let owned = cx.locks.releases.iter().chain(&cx.locks.prolongs).filter(compared).find(belongs);
    let surely = |used: &Use| Some(Evidence { confidence: Confidence::High, release: Some(cx.place(used)) });
    if let Some(used) = owned {
        return surely(used);
    }
    let releases: Vec<&Use> = cx.locks.releases.iter().filter(lease).filter(belongs).collect();
    // Each side of a reader-writer lock looks at what the other takes.
    if pair.looked != pair.key && cx.analyzer.relate(&pair.looked, &pair.key) != Relation::Must {
        let given_back = |used: &&Use| gives_back(cx, used, &pair.looked);
        let both = cx.locks.releases.iter().filter(lease).any(|used| given_back(&used));
        return releases.first().filter(|_| both).and_then(|used| surely(used));
    }
    if let Some(used) = releases.iter().find(|used| given_back(cx, pair, used)) {
        return surely(used);
    }
    if makes_guard(cx, pair.function) {
        return Some(Evidence { confidence: Confidence::High, release: releases.first().map(|used| cx.place(used)) });
    }
    // A key under a lease goes when its taker does: it stands for whoever put it there.
    if matches!(&pair.take.effect.kind, EffectKind::Write(w) if matches!(w.resource, Resource::Key(Backend::Etcd, _))
        && matches!(w.ttl, Some(Ttl::After(..))))
    {
        return Some(Evidence { confidence: Confidence::Medium, release: releases.first().map(|used| cx.place(used)) });
    }
    let tells = gate.with.iter().any(affirms) && gate.without.iter().any(denies);
    let beside = releases.iter().find(|used| beside(cx, used.function, pair.function));
    let named = lockish(cx, pair.function) && tells;
    beside.filter(|_| named).map(|used| Evidence { confidence: Confidence::Medium, release: Some(cx.place(used)) })
}

/// Whether a release or renewal is of this key, or of a member of the set or hash under it.
fn gives_back(cx: &Context<'_>, used: &Use, key: &Value) -> bool {
    let own = cx.analyzer.home(super::whole(&used.key));
    cx.analyzer.relate(&used.key, key) == Relation::Must
        || cx.analyzer.relate(&own, &cx.analyzer.home(key)) == Relation::Must
}

/// A function that takes it and afterwards, on an exit that tells no error, gives it back.
fn given_back(cx: &Context<'_>, pair: &Pair, release: &Use) -> bool {
    cx.program.functions().filter(|(id, _)| cx.judged(*id)).any(|(id, f)| {
        let reached = cx.analyzer.reached(id);
        let key = |r: &Reached| cx.analyzer.comparable(id, crate::analysis::lock::key(&r.effect));
        let called = |r: &&Reached| matches!(f.op(r.via[0].at).kind, OpKind::Call(_));
        let freed: Vec<Value> = reached.iter().filter(|r| r.origin == release.origin()).map(key).collect();
        reached.iter().filter(|r| r.origin == pair.take.origin).filter(called).any(|take| {
            let taken = key(take);
            freed.iter().any(|freed| cx.analyzer.relate(freed, &taken) == Relation::Must) && {
                let seen = cx.analyzer.probe(id, None, Some(take.via[0].at));
                !seen.cut && seen.released.contains(&release.origin())
            }
        })
    })
}

fn makes_guard(cx: &Context<'_>, id: FunctionId) -> bool {
    cx.analyzer.frees_by_drop(&cx.program.function(cx.analyzer.item(id)).ret)
}

/// Same function, type, module or file.
fn beside(cx: &Context<'_>, x: FunctionId, y: FunctionId) -> bool {
    let (f, g) = (cx.program.function(cx.analyzer.item(x)), cx.program.function(cx.analyzer.item(y)));
    f.module == g.module || f.file() == g.file() || f.owner.is_some() && f.owner == g.owner
}

/// The function's own or its type's name says lock.
fn lockish(cx: &Context<'_>, id: FunctionId) -> bool {
    let f = cx.program.function(cx.analyzer.item(id));
    let owner = f.owner.as_deref().map(shapes_last).unwrap_or("");
    let own = |name: &str| {
        words(name)
            .iter()
            .any(|w| matches!(w.as_str(), "lock" | "acquire" | "lease" | "mutex" | "leader" | "leadership" | "locker"))
    };
    own(&f.name) || own(owner)
}

/// An answer that says "it is yours".
fn affirms(shape: &Shape) -> bool {
    match shape {
        Shape::Bool(b) => *b,
        Shape::Ok(x) => !denies(x),
        Shape::Some(_) | Shape::Struct(..) => true,
        _ => false,
    }
}

/// An answer that says "someone else has it".
fn denies(shape: &Shape) -> bool {
    match shape {
        Shape::Bool(false) | Shape::None | Shape::Err(_) => true,
        Shape::Ok(x) => denies(x),
        _ => false,
    }
}
