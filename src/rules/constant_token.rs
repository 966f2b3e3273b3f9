//! `constant-token`: the value stored in the lock is the same for every acquisition, so no owner check can tell holders apart.

use crate::analysis::lock::{Decision, Lock, Pairing, words};
use crate::analysis::summary::{Observation, Relation};
use crate::finding::{Actor, Confidence, Finding, Severity};
use crate::ir::{Backend, EffectKind, FunctionId, LockKind, OwnerCheck, Piece, Site, Ty, Value};
use crate::rule::{Context, Group, Rule};

/// The rule.
pub const RULE: Rule = Rule {
    id: "constant-token",
    severity: Severity::Warning,
    group: Group::Taking,
    page: include_str!("../../rules/constant-token.md"),
    check,
};

/// Of a value that names the host, the process or its user: a good name for who holds a lock, but not for which grant.
const SAME_HOST: &str = "the same for everything this host or process does";

fn check(cx: &Context<'_>, findings: &mut Vec<Finding>) {
    for (index, lock) in cx.locks.locks.iter().enumerate() {
        let Some(acquire) = lock.acquire() else { continue };
        let by_hand = !lock.releases.is_empty() || !lock.prolongs.is_empty();
        if lock.decision != Decision::Lock || acquire.kind != LockKind::Lease || !by_hand || replaced(cx, index) {
            continue;
        }
        // Where the store knows the holder by a revision, session or lease, the value proves nothing and need not.
        let proof = compared(cx, lock);
        if acquire.backend != Backend::Redis && !proof {
            continue;
        }
        let own = (lock.taken.function, lock.taken.site(), acquire.token.clone());
        let seen = std::iter::once(own).chain(tokens(cx, index));
        if let Some((function, site, token, what)) = seen
            .into_iter()
            .find_map(|(f, site, token)| weak(&token, &acquire.key, 0).map(|what| (f, site, token, what)))
            .filter(|(_, _, _, what)| proof || *what != SAME_HOST)
        {
            findings.push(finding(cx, lock, function, site, &token, what));
        } else if names_user(cx, lock.taken.function, &acquire.token, 0) && given_back_at_once(cx, lock) {
            let what = "the same for all that one user does at a time";
            let (function, site) = (lock.taken.function, lock.taken.site());
            let mut f = finding(cx, lock, function, site, &acquire.token, what);
            f.confidence = f.confidence.min(Confidence::Medium);
            findings.push(f);
        }
    }
}

/// Whether a release or a renewal compares the stored value.
fn compared(cx: &Context<'_>, lock: &Lock) -> bool {
    let by_value = |check: &OwnerCheck| matches!(check, OwnerCheck::Token(_));
    let releases = lock.releases.keys().map(|r| &cx.locks.releases[*r].effect.kind);
    releases.chain(lock.prolongs.keys().map(|p| &cx.locks.prolongs[*p].effect.kind)).any(|kind| match kind {
        EffectKind::Release(r) => by_value(&r.check),
        EffectKind::Renew(r) => by_value(&r.check),
        _ => false,
    })
}

/// The holder puts its result in the place of the value: that says how far the work is, and not whose it is.
fn replaced(cx: &Context<'_>, lock: usize) -> bool {
    let result = |o: &Observation| match &o.effect.kind {
        EffectKind::Write(w) => {
            let puts = ["SET", "SETEX", "PSETEX", "HSET"].iter().any(|verb| w.verb.split(' ').next() == Some(verb));
            puts && o.relation == Relation::Must && !w.values.contains(&o.lock.acquire.token)
        }
        _ => false,
    };
    !cx.observed(lock, result).is_empty()
}

/// Tokens that callers pass: function, call, value.
fn tokens(cx: &Context<'_>, lock: usize) -> Vec<(FunctionId, Site, Value)> {
    let log = cx.analyzer.log.borrow();
    let mut out: Vec<(FunctionId, Site, Value)> = log
        .leavings
        .iter()
        .filter(|l| cx.judged(l.function) && cx.locks.of(&l.lock.via, l.lock.origin.effect) == Some(lock))
        .map(|l| (l.function, l.lock.via[0], l.lock.acquire.token.clone()))
        .collect();
    out.sort_by_key(|(_, site, _)| *site);
    out.dedup_by_key(|(_, site, _)| *site);
    out
}

/// The lock is held by a piece of work, not by the user (an edit lock stays from one request to the next): what takes it
/// gives it back, by this value.
fn given_back_at_once(cx: &Context<'_>, lock: &Lock) -> bool {
    lock.releases.iter().any(|(r, (how, relation))| {
        let checked = matches!(&cx.locks.releases[*r].effect.kind,
            EffectKind::Release(r) if matches!(r.check, OwnerCheck::Token(_)));
        checked && *how == Pairing::Path && *relation == Relation::Must
    })
}

/// Whether the value is the id of a user: by the name of the field or parameter, or its type's.
fn names_user(cx: &Context<'_>, function: FunctionId, token: &Value, depth: u32) -> bool {
    let user = |name: &str| match words(name).as_slice() {
        [who, id] => id == "id" && matches!(who.as_str(), "user" | "customer" | "member"),
        _ => false,
    };
    let f = cx.program.function(function);
    match token {
        Value::Call(call) if depth < 6 && call.name.starts_with('.') && call.args.len() == 1 => {
            call.args.first().is_some_and(|x| names_user(cx, function, x, depth + 1))
        }
        Value::Param(i) => f.params.get(*i as usize).is_some_and(|v| {
            let var = f.var(*v);
            var.name.as_deref().is_some_and(user) || user(var.ty.last())
        }),
        Value::Field(_, name) => {
            user(name)
                || match cx.program.absolute(function, token) {
                    Value::TypeField(ty, name) => user(cx.program.field_ty(function, &Ty::path(&*ty), &name).last()),
                    _ => false,
                }
        }
        Value::TypeField(ty, name) => user(name) || user(cx.program.field_ty(function, &Ty::path(&**ty), name).last()),
        _ => false,
    }
}

/// What makes the value the same for each acquisition, if it is.
fn weak(token: &Value, key: &Value, depth: u32) -> Option<&'static str> {
    if depth > 4 {
        return None;
    }
    if token == key && !matches!(token, Value::Param(_) | Value::Unknown) {
        return Some("the key itself");
    }
    match token {
        Value::Const(_) => Some("a constant"),
        Value::Path(path) if path.rsplit("::").next().is_some_and(|n| n.starts_with(char::is_uppercase)) => {
            Some("a constant")
        }
        Value::Identity(_) => Some(SAME_HOST),
        Value::Clock { .. } => Some("a clock reading, which two holders can share"),
        Value::Aggregate(_, fields) if !fields.is_empty() => {
            let all: Option<Vec<_>> = fields.iter().map(|(_, v)| weak(v, key, depth + 1)).collect();
            all.and_then(|list| list.first().copied())
        }
        Value::Template(pieces) => {
            let holes: Vec<&Value> =
                pieces.iter().filter_map(|p| if let Piece::Hole(v) = p { Some(v) } else { None }).collect();
            let all: Option<Vec<_>> = holes.iter().map(|v| weak(v, key, depth + 1)).collect();
            all.map(|list| list.first().copied().unwrap_or("a constant"))
        }
        Value::Join(list) => {
            let all: Option<Vec<_>> = list.iter().map(|v| weak(v, key, depth + 1)).collect();
            all.and_then(|list| list.first().copied())
        }
        _ => None,
    }
}

fn finding(cx: &Context<'_>, lock: &Lock, function: FunctionId, site: Site, token: &Value, what: &str) -> Finding {
    let span = if site == lock.taken.site() { cx.place(&lock.taken) } else { cx.op_span(site) };
    let key = cx.key(lock);
    let shown = cx.show(function, token);
    let shown = if shown == ".." { String::new() } else { format!(" `{shown}`") };
    let mut f = Finding::new(
        &RULE,
        span,
        format!(
            "the value{shown} stored in the lock `{key}` is {what}: a release cannot tell its own lock from the next holder's"
        ),
    );
    f.confidence = cx.confidence(cx.certainty(&lock.taken));
    f.caret = "every holder stores the same value".into();
    f.labels = cx.through(&lock.taken, "the command");
    if let Some(release) = lock.releases.keys().next() {
        f.label(cx.place(&cx.locks.releases[*release]), "released here");
    }
    f.help = "store a value that is new for each acquisition (`Uuid::new_v4()`), keep it with the holder, and compare it in the script that releases".into();
    f.witness = cx.expiry_story(lock);
    let compared = |check: &OwnerCheck| matches!(check, OwnerCheck::Token(_));
    let compares = lock.releases.keys().any(|r| match &cx.locks.releases[*r].effect.kind {
        EffectKind::Release(r) => compared(&r.check),
        _ => false,
    });
    let end = match (lock.releases.is_empty(), compares) {
        (true, _) => "wakes up and prolongs the lock of B as if it were its own",
        (_, true) => "wakes up, finds its own value in the key (it is B's too), and releases the lock of B",
        _ => "wakes up and deletes the key: it holds the value of B, which A could not have told from its own",
    };
    f.step(Actor::A, span, end);
    f.lock = Some(key);
    f
}
