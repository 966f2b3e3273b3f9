//! `wall-clock-lease`: a clock that can be wrong or jump decides whether a lease is still valid.

use std::collections::{BTreeMap, BTreeSet};

use crate::analysis::lock::{Decision, Lock, Use};
use crate::analysis::slice::Slice;
use crate::analysis::summary::Relation;
use crate::finding::{Actor, Confidence, Finding, Severity};
use crate::ir::{
    BinaryOp, Callee, EffectKind, FunctionId, LockKind, Op, OpKind, OpRef, Operand, OwnerCheck, Piece, Resource,
    Rvalue, Site, TimeUnit, Ttl, Use as Mode, Value, Var,
};
use crate::rule::{Context, Group, Rule};
use crate::source::Span;

/// The rule.
pub const RULE: Rule = Rule {
    id: "wall-clock-lease",
    severity: Severity::Warning,
    group: Group::Keeping,
    page: include_str!("../../rules/wall-clock-lease.md"),
    check,
};

fn check(cx: &Context<'_>, findings: &mut Vec<Finding>) {
    let mut found: BTreeMap<Span, Finding> = BTreeMap::new();
    let live: Vec<FunctionId> = cx.program.functions().map(|(id, _)| id).filter(|id| cx.judged(*id)).collect();
    rows(cx, &near_rows(cx, &live), &mut found);
    absolute_expiries(cx, &mut found);
    for id in near_locks(cx, &live) {
        for (at, op) in comparisons(cx, id) {
            let place = stored_deadline(cx, id, at, op).or_else(|| kept_deadline(cx, id, op));
            if let Some((what, key, sure)) = place {
                let mut f = finding(cx.op_span(Site { function: id, at }), &what, &key);
                f.confidence = sure;
                found.entry(f.span).or_insert(f);
            }
        }
    }
    findings.extend(found.into_values());
}

/// Functions that find lease rows over, and those that call them: a time may be handed down.
fn near_rows(cx: &Context<'_>, live: &[FunctionId]) -> Vec<FunctionId> {
    let direct = |id: &FunctionId| {
        cx.program.function(*id).calls().any(|(_, _, call)| {
            call.effect.as_ref().is_some_and(|t| t.effects.iter().any(|e| matches!(e.kind, EffectKind::Overdue(_))))
        })
    };
    let mut near: BTreeSet<FunctionId> = live.iter().copied().filter(direct).collect();
    for _ in 0..2 {
        let callers = near.iter().flat_map(|id| cx.program.callers(*id).iter().map(|site| site.function));
        let callers: Vec<FunctionId> = callers.filter(|id| cx.judged(*id)).collect();
        near.extend(callers);
    }
    near.into_iter().collect()
}

/// Functions in files that have to do with locks, and those of objects that stand for one.
fn near_locks(cx: &Context<'_>, live: &[FunctionId]) -> Vec<FunctionId> {
    let file = |id: &FunctionId| cx.program.function(*id).file();
    let files: BTreeSet<_> = live.iter().filter(|id| cx.analyzer.relevant(**id)).map(file).collect();
    let owned = |id: &FunctionId| {
        cx.program.function(*id).owner.as_deref().is_some_and(|owner| cx.analyzer.stands_for_lock(owner))
    };
    live.iter().copied().filter(|id| files.contains(&file(id)) || owned(id)).collect()
}

/// Lease rows whose time is compared with a clock that did not write it: the caller's, or the server's where callers write.
fn rows(cx: &Context<'_>, live: &[FunctionId], found: &mut BTreeMap<Span, Finding>) {
    let written = written_by_callers(cx, live);
    for id in live {
        for r in cx.analyzer.reached(*id).iter() {
            let EffectKind::Overdue(o) = &r.effect.kind else { continue };
            let what = match &o.now {
                Some(now) if wall(now) => "is compared with the clock of the calling host",
                None if written.contains(&(o.table.clone(), o.column.clone())) => {
                    "is written by the clock of the calling host and compared with the server's"
                }
                _ => continue,
            };
            found.entry(r.effect.span).or_insert_with(|| {
                finding(r.effect.span, &format!("`{}` of table `{}` {what}", o.column, o.table), &o.table)
            });
        }
    }
}

/// Tables and columns that a claim sets by the caller's clock.
fn written_by_callers(cx: &Context<'_>, live: &[FunctionId]) -> BTreeSet<(String, String)> {
    let mut out = BTreeSet::new();
    for id in live {
        let reached = cx.analyzer.reached(*id);
        for r in reached.iter() {
            let EffectKind::Acquire(a) = &r.effect.kind else { continue };
            let by_caller =
                matches!(&a.ttl, Ttl::After(v, TimeUnit::UnixSeconds | TimeUnit::UnixMilliseconds) if wall(v));
            if a.kind == LockKind::LeaseRow && by_caller {
                out.extend(reached.iter().filter(|o| o.origin.site == r.origin.site).filter_map(
                    |o| match &o.effect.kind {
                        EffectKind::Overdue(o) => Some((o.table.clone(), o.column.clone())),
                        _ => None,
                    },
                ));
            }
        }
    }
    out
}

/// `SET .. EXAT`, `EXPIREAT` with a time of the caller's clock.
fn absolute_expiries(cx: &Context<'_>, found: &mut BTreeMap<Span, Finding>) {
    for lock in cx.locks.locks.iter().filter(|l| l.decision == Decision::Lock) {
        if lock.acquire().is_none_or(|a| a.kind != LockKind::Lease) {
            continue;
        }
        let uses = lock.prolongs.keys().map(|p| &cx.locks.prolongs[*p]).chain([&lock.taken]);
        for used in uses.filter(|u| cx.judged(u.function) && by_callers_clock(cx, u)) {
            let span = cx.place(used);
            let what = format!("the expiry of `{}` is an absolute time of the calling host's clock", cx.key(lock));
            found.entry(span).or_insert_with(|| finding(span, &what, &cx.key(lock)));
        }
    }
}

fn by_callers_clock(cx: &Context<'_>, used: &Use) -> bool {
    let absolute = |ttl: &Ttl| {
        matches!(ttl, Ttl::After(v, TimeUnit::UnixSeconds | TimeUnit::UnixMilliseconds)
            if wall(v) || wall(&cx.program.expanded(&cx.analyzer.comparable(used.function, v))))
    };
    match &used.effect.kind {
        EffectKind::Acquire(a) => absolute(&a.ttl),
        EffectKind::Renew(r) => absolute(&r.ttl),
        EffectKind::Expire(e) => absolute(&e.ttl),
        _ => false,
    }
}

/// The orderings of a function of which one side, or what it is made of, is a wall clock.
fn comparisons<'c>(cx: &'c Context<'_>, id: FunctionId) -> Vec<(OpRef, &'c Op)> {
    use BinaryOp::{Ge, Gt, Le, Lt};
    let f = cx.program.function(id);
    let orders = |op: &&Op| match &op.kind {
        OpKind::Let(Rvalue::Binary(Lt | Le | Gt | Ge, ..)) => true,
        OpKind::Call(call) => {
            call.args.len() == 2
                && matches!(&call.callee, Callee::Method(m) if matches!(m.as_str(), "lt" | "le" | "gt" | "ge"))
        }
        _ => false,
    };
    f.ops().filter(|(_, op)| orders(op) && sides(op).iter().any(|x| wall(&cx.program.value(id, x)))).collect()
}

fn sides(op: &Op) -> Vec<&Operand> {
    match &op.kind {
        OpKind::Let(Rvalue::Binary(_, a, b)) => vec![a, b],
        OpKind::Call(call) => call.args.iter().collect(),
        _ => Vec::new(),
    }
}

/// What the lock's key holds is read as a time and compared with the clock of this host.
fn stored_deadline(cx: &Context<'_>, id: FunctionId, at: OpRef, op: &Op) -> Option<(String, String, Confidence)> {
    let f = cx.program.function(id);
    let slice = Slice::of(f);
    let sources: BTreeSet<Var> = sides(op).into_iter().flat_map(|x| slice.sources(x)).collect();
    for r in cx.analyzer.reached(id).iter() {
        let EffectKind::Read(Resource::Key(_, key)) = &r.effect.kind else { continue };
        let read = f.op(r.via[0].at).dst.is_some_and(|dst| sources.contains(&dst));
        if !read || first_word(&r.effect.command).ends_with("TTL") {
            continue;
        }
        let own = cx.analyzer.comparable(id, key);
        let lock = cx.locks.locks.iter().find(|l| {
            l.decision == Decision::Lock && cx.analyzer.relate(&own, &l.taken.key) == Relation::Must && near(cx, l, id)
        });
        let shown = cx.show(id, key);
        if lock.is_some() {
            return Some((
                format!("the time stored in `{shown}` is compared with the clock of this host"),
                shown,
                Confidence::High,
            ));
        }
        if op.dst.is_some_and(|dst| gates_release(cx, id, dst, key)) {
            let what =
                format!("whether `{shown}` is stale is judged by the clock of this host, which did not write it");
            return Some((what, shown, Confidence::Medium));
        }
    }
    let _ = at;
    given_deadline(cx, id, &sources)
}

/// The same of what a caller has read and given to this function.
fn given_deadline(cx: &Context<'_>, id: FunctionId, sources: &BTreeSet<Var>) -> Option<(String, String, Confidence)> {
    let f = cx.program.function(id);
    let given: Vec<usize> = (0..f.params.len()).filter(|i| sources.contains(&f.params[*i])).collect();
    for caller in cx.program.callers(id).iter().filter(|c| !given.is_empty() && cx.judged(c.function)) {
        let g = cx.program.function(caller.function);
        let OpKind::Call(call) = &g.op(caller.at).kind else { continue };
        let slice = Slice::of(g);
        let passed: BTreeSet<Var> =
            given.iter().filter_map(|i| call.args.get(*i)).flat_map(|arg| slice.sources(arg)).collect();
        for r in cx.analyzer.reached(caller.function).iter() {
            let EffectKind::Read(Resource::Key(_, key)) = &r.effect.kind else { continue };
            if !g.op(r.via[0].at).dst.is_some_and(|dst| passed.contains(&dst)) {
                continue;
            }
            let own = cx.analyzer.comparable(caller.function, key);
            let held = |l: &&Lock| {
                l.decision == Decision::Lock
                    && cx.analyzer.relate(&own, &l.taken.key) == Relation::Must
                    && near(cx, l, caller.function)
            };
            if cx.locks.locks.iter().any(|l| held(&l)) {
                let shown = cx.show(caller.function, key);
                let what = format!("the time stored in `{shown}` is compared with the clock of this host");
                return Some((what, shown, Confidence::High));
            }
        }
    }
    None
}

/// A lock whose key is a whole parameter is the same one only in its own module.
fn near(cx: &Context<'_>, lock: &Lock, id: FunctionId) -> bool {
    let (a, b) = (cx.program.function(lock.taken.function), cx.program.function(id));
    crate::analysis::lock::strong(&lock.taken.key) || a.module == b.module || lock.taken.function == id
}

/// Whether a lock of the same key is given back, with its owner compared, only where the test allows it.
fn gates_release(cx: &Context<'_>, id: FunctionId, test: Var, key: &Value) -> bool {
    let f = cx.program.function(id);
    let slice = Slice::of(f);
    cx.analyzer.reached(id).iter().any(|r| {
        let EffectKind::Release(release) = &r.effect.kind else { return false };
        matches!(release.check, OwnerCheck::Token(_))
            && (release.key == *key || cx.analyzer.relate(&release.key, key) == Relation::Must)
            && slice.tests_before(r.via[0].at).into_iter().any(|x| slice.sources(x).contains(&test))
    })
}

/// A lock object keeps its deadline, or the time at which it was taken, by a wall clock.
fn kept_deadline(cx: &Context<'_>, id: FunctionId, op: &Op) -> Option<(String, String, Confidence)> {
    let f = cx.program.function(id);
    let slice = Slice::of(f);
    for side in sides(op) {
        for var in slice.sources(side) {
            let value = cx.analyzer.comparable(id, &cx.program.value(id, &Operand::Var(var, Mode::Ref)));
            let mut fields = Vec::new();
            find(&value, &mut |v| {
                if let Value::TypeField(owner, name) = v {
                    fields.push((owner.clone(), name.clone()));
                }
                false
            });
            for (owner, name) in fields {
                let by_clock = cx.program.field_values(&owner, &name).iter().any(|(_, v)| wall(v));
                if by_clock && cx.analyzer.stands_for_lock(&owner) {
                    let short = owner.rsplit("::").next().unwrap_or(&owner).to_string();
                    let what =
                        format!("whether a `{short}` is still held is judged by `{name}`, a time of the wall clock");
                    return Some((what, format!("{short}.{name}"), Confidence::High));
                }
            }
        }
    }
    None
}

fn first_word(command: &str) -> &str {
    command.split_whitespace().next().unwrap_or("")
}

/// Whether a value is made of a reading of the wall clock.
fn wall(value: &Value) -> bool {
    find(value, &mut |v| matches!(v, Value::Clock { wall: true }))
}

/// Whether some part of a value passes the test.
fn find(value: &Value, test: &mut dyn FnMut(&Value) -> bool) -> bool {
    if test(value) {
        return true;
    }
    match value {
        Value::Field(base, _) => find(base, test),
        Value::Template(pieces) => pieces.iter().any(|p| match p {
            Piece::Hole(v) => find(v, test),
            Piece::Text(_) => false,
        }),
        Value::Call(call) => call.args.iter().any(|v| find(v, test)),
        Value::Aggregate(_, fields) => fields.iter().any(|(_, v)| find(v, test)),
        Value::Operation(_, list) | Value::Join(list) => list.iter().any(|v| find(v, test)),
        _ => false,
    }
}

fn finding(span: Span, what: &str, key: &str) -> Finding {
    let mut f = Finding::new(&RULE, span, format!("{what}: hosts whose clocks differ both hold the lease"));
    f.caret = "decided by a clock that can be wrong or jump".into();
    f.help = "let one clock decide: the server's (`now()` in the statement, the expiry of the key), and `Instant` for a deadline within this process".into();
    f.step(Actor::A, span, format!("holds `{key}` by a clock that is right"));
    f.step(Actor::B, span, "its clock is ahead, or was set forward: finds the lease over too early");
    f.step(Actor::B, span, format!("takes `{key}` and works beside A"));
    f
}
