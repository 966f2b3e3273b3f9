//! Facts of one lock in words.

use super::{Entry, Member};
use crate::analysis::lock::{Lock, Use};
use crate::analysis::origin_call;
use crate::ir::{
    Acquire, CallValue, Effect, EffectKind, FunctionId, FunctionKind, GuardDrop, Lit, LockKind, OwnerCheck, Piece,
    Site, TimeUnit, Ttl, Ty, Value,
};
use crate::model::Models;
use crate::rule::Context;
use std::collections::BTreeSet;
use std::time::Duration;

/// Whether a prolongation is only the expiry that belongs to taking the lock.
pub(super) fn first_expiry(lock: &Lock, prolong: &Use) -> bool {
    let bare = lock.acquire().is_some_and(|a| a.ttl == Ttl::Never);
    bare && prolong.function == lock.taken.function && matches!(prolong.effect.kind, EffectKind::Expire(_))
}

/// Expiry of an acquisition.
pub(super) fn ttl(cx: &Context<'_>, member: &Member<'_>, acquire: &Acquire) -> String {
    let function = member.taker.function;
    if acquire.ttl == Ttl::Never {
        let later = member.lock.prolongs.keys().map(|i| &cx.locks.prolongs[*i]).find(|p| first_expiry(member.lock, p));
        if let Some(Use { function, effect: Effect { kind: EffectKind::Expire(expire), .. }, .. }) = later {
            return format!("{}, by a second command", expiry(cx, *function, &expire.ttl));
        }
    }
    expiry(cx, function, &acquire.ttl)
}

fn expiry(cx: &Context<'_>, function: FunctionId, ttl: &Ttl) -> String {
    if let Ttl::After(Value::Const(Lit::Duration(ns)), _) = ttl {
        return time(*ns);
    }
    if let Some(known) = cx.ttl(ttl) {
        return known;
    }
    match ttl {
        Ttl::Never => "none".to_owned(),
        Ttl::Unknown => UNSEEN.to_owned(),
        Ttl::After(Value::Path(path), _) if path.starts_with("sql::column::") => {
            format!("column `{}`", path.trim_start_matches("sql::column::"))
        }
        Ttl::Managed => "kept by the service".to_owned(),
        Ttl::After(value, unit) => {
            let unit = match unit {
                TimeUnit::Seconds => " s",
                TimeUnit::Milliseconds => " ms",
                TimeUnit::Duration => "",
                TimeUnit::UnixSeconds => ", a Unix time in seconds",
                TimeUnit::UnixMilliseconds => ", a Unix time in milliseconds",
            };
            let shown = cx.show(function, value);
            if shown == ".." {
                format!("computed{unit}")
            } else {
                format!("`{}`{unit}", shown.trim_matches(['{', '}']))
            }
        }
    }
}

/// `30 s`, `1500 ms`.
fn time(ns: u128) -> String {
    match ns {
        ns if ns % 1_000_000_000 == 0 => format!("{} s", ns / 1_000_000_000),
        ns if ns % 1_000_000 == 0 => format!("{} ms", ns / 1_000_000),
        ns => format!("{:?}", Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))),
    }
}

/// What tells one holder from another: what is stored, or where that is not seen, what later steps compare.
pub(super) fn owner(cx: &Context<'_>, member: &Member<'_>, acquire: &Acquire) -> String {
    let stored = token(cx, member.taker.function, acquire);
    if stored != UNSEEN {
        return stored;
    }
    let releases = member.lock.releases.keys().map(|i| &cx.locks.releases[*i]);
    let steps = releases.chain(member.lock.prolongs.keys().map(|i| &cx.locks.prolongs[*i]));
    let compared = steps.filter(|used| cx.judged(used.function)).find_map(|used| {
        let check = match &used.effect.kind {
            EffectKind::Release(release) => &release.check,
            EffectKind::Renew(renew) => &renew.check,
            _ => return None,
        };
        let OwnerCheck::Token(value) = check else { return None };
        Some(cx.show(used.function, value)).filter(|shown| shown != "..")
    });
    compared.map_or(stored, |shown| format!("later steps compare `{}`", shown.trim_matches(['{', '}'])))
}

/// What is shown for a fact that is not known.
const UNSEEN: &str = "not seen";

fn token(cx: &Context<'_>, function: FunctionId, acquire: &Acquire) -> String {
    let token = cx.analyzer.comparable(function, &acquire.token);
    let token = match token {
        Value::TypeField(..) => cx.program.expanded(&token),
        other => other,
    };
    if let Some(what) = find(&token, &|v| matches!(v, Value::Fresh(_))) {
        return match what {
            Value::Fresh(how) if !how.is_empty() => format!("new each time ({how})"),
            _ => "new each time".to_owned(),
        };
    }
    if find(&token, &|v| matches!(v, Value::PerProcess(_))).is_some() {
        return "one per process".to_owned();
    }
    if find(&token, &|v| matches!(v, Value::Clock { .. })).is_some() {
        return "a clock".to_owned();
    }
    if let Some(Value::Identity(what)) = find(&token, &|v| matches!(v, Value::Identity(_))) {
        return format!("names the process or host ({what})");
    }
    match &token {
        Value::Const(Lit::Unit) | Value::Unknown => UNSEEN.to_owned(),
        Value::Const(_) | Value::Path(_) => format!("constant `{}`", cx.show(function, &token)),
        Value::Param(_) | Value::Field(..) => {
            format!("given: `{}`", cx.show(function, &token).trim_matches(['{', '}']))
        }
        other => match cx.show(function, other) {
            shown if shown == ".." => "computed".to_owned(),
            shown => format!("`{shown}`"),
        },
    }
}

/// The first part of a value, outside in, that `wanted` picks.
fn find<'v>(value: &'v Value, wanted: &dyn Fn(&Value) -> bool) -> Option<&'v Value> {
    if wanted(value) {
        return Some(value);
    }
    let each = |list: &'v [Value]| list.iter().find_map(|v| find(v, wanted));
    match value {
        Value::Template(pieces) => pieces.iter().find_map(|p| match p {
            Piece::Hole(hole) => find(hole, wanted),
            Piece::Text(_) => None,
        }),
        Value::Field(base, _) => find(base, wanted),
        Value::Call(call) => each(&call.args),
        Value::Aggregate(_, fields) => fields.iter().find_map(|(_, v)| find(v, wanted)),
        Value::Operation(_, list) | Value::Join(list) => each(list),
        _ => None,
    }
}

/// A release or renewal with what it compares in the same step.
pub(super) fn step(effect: &Effect) -> String {
    let check = match &effect.kind {
        EffectKind::Release(release) => &release.check,
        EffectKind::Renew(renew) => &renew.check,
        _ => &OwnerCheck::None,
    };
    let check = match check {
        OwnerCheck::None => "no owner check",
        OwnerCheck::Token(_) => "compares the owner",
        OwnerCheck::Server => "the server knows the owner",
        OwnerCheck::Unknown => "whether it compares the owner is not seen",
    };
    format!("{}, {check}", effect.command)
}

/// How a lock ends besides by its releases.
pub(super) fn ends(cx: &Context<'_>, lock: &Lock, acquire: &Acquire) -> Vec<String> {
    let mut out = Vec::new();
    let trip = origin_call(cx.program, lock.taken.origin().site).and_then(|call| call.effect.as_ref());
    match trip.and_then(|trip| trip.guard) {
        Some(GuardDrop::Releases) => out.push("drop of the guard".to_owned()),
        Some(GuardDrop::Later) => out.push("drop of the guard, some time later".to_owned()),
        Some(GuardDrop::Nothing) | None => {}
    }
    for release in lock.releases.keys().map(|i| &cx.locks.releases[*i]) {
        let f = cx.program.function(cx.analyzer.item(release.function));
        let direct = std::iter::once(f);
        let callers = cx.program.callers(cx.analyzer.item(release.function)).iter();
        let callers = callers.map(|site| cx.program.function(cx.analyzer.item(site.function)));
        for drop in direct.chain(callers).filter(|f| f.kind == FunctionKind::Drop && !f.test) {
            let owner = drop.owner.as_deref().and_then(|o| o.rsplit("::").next()).unwrap_or("the guard");
            out.push(format!("drop of {owner}"));
        }
    }
    match acquire.kind {
        LockKind::Lease | LockKind::LeaseRow => match acquire.ttl {
            Ttl::Never => {}
            Ttl::Managed => out.push("end of the session or lease at the service".to_owned()),
            _ => out.push("expiry".to_owned()),
        },
        LockKind::Session => out.push("end of the session".to_owned()),
        LockKind::Transaction | LockKind::Row => out.push("commit or rollback".to_owned()),
    }
    out
}

/// How long it can stay taken, and what is known of the work under it. `pauses` are sleeps and, marked, deadlines.
pub(super) fn hold(members: &[Member<'_>], entry: &Entry, pauses: &[(Value, bool)]) -> Vec<String> {
    let mut out = Vec::new();
    match entry.kind {
        LockKind::Session => out.push("until the unlock or the end of the session".to_owned()),
        LockKind::Transaction | LockKind::Row => out.push("until the transaction ends".to_owned()),
        LockKind::Lease | LockKind::LeaseRow => {
            let ttl = entry.ttl.join(" or ");
            let never = members.iter().any(|m| m.lock.acquire().is_some_and(|a| a.ttl == Ttl::Never));
            let bare = never && entry.ttl.iter().any(|t| t == "none" || t.ends_with("second command"));
            out.push(match (bare, entry.renewals.is_empty()) {
                (true, _) => "for ever, if the holder dies before it has set an expiry".to_owned(),
                (false, true) => format!("{ttl}, never prolonged"),
                (false, false) => format!("as long as it is renewed, then {ttl}"),
            });
        }
    }
    let known: BTreeSet<(u128, bool)> = pauses
        .iter()
        .filter_map(|(value, deadline)| match value {
            Value::Const(Lit::Duration(ns)) => Some((*ns, *deadline)),
            _ => None,
        })
        .collect();
    for (ns, deadline) in known {
        let what = if deadline { "a step under it is bounded by" } else { "the work sleeps" };
        out.push(format!("{what} {}", time(ns)));
    }
    out
}

/// What keeps the lock: said by the type of the client that sends the command, or of the one that made it.
pub(super) fn topology(cx: &Context<'_>, models: &Models, site: Site) -> Vec<&'static str> {
    let Some(call) = origin_call(cx.program, site) else { return Vec::new() };
    let mut types = BTreeSet::new();
    for operand in &call.args {
        paths(&cx.program.receiver(site.function, operand), &mut types, 0);
        makers(&cx.program.value(site.function, operand), &mut types, 0);
    }
    let found: BTreeSet<&'static str> = types.iter().filter_map(|path| models.topology(path)).collect();
    // A client of a cluster may be wrapped in types that by themselves say one server.
    let special = found.iter().any(|t| *t != "one server");
    found.into_iter().filter(|t| !special || *t != "one server").collect()
}

fn paths(ty: &Ty, out: &mut BTreeSet<String>, depth: usize) {
    if depth < 6 {
        out.insert(ty.path.clone());
        ty.args.iter().for_each(|arg| paths(arg, out, depth + 1));
    }
}

/// Types on which the calls that made a value were made.
fn makers(value: &Value, out: &mut BTreeSet<String>, depth: usize) {
    if depth > 12 {
        return;
    }
    match value {
        Value::Call(call) => {
            let CallValue { name, receiver, args, .. } = &**call;
            out.insert(receiver.clone());
            out.extend(name.rsplit_once("::").map(|(owner, _)| owner.to_owned()));
            args.iter().for_each(|arg| makers(arg, out, depth + 1));
        }
        Value::Field(base, _) => makers(base, out, depth + 1),
        Value::Join(list) => list.iter().for_each(|v| makers(v, out, depth + 1)),
        _ => {}
    }
}
