//! On which connection a database command runs, seen from any of the functions that lead to it.

use super::flow::bound;
use super::{Analyzer, origin_call};
use crate::ir::{
    Call, Effect, EffectKind, Function, FunctionId, Guard, Handle, HandleKind, LockKind, Op, OpKind, OpRef, Operand,
    RoundTrip, Rvalue, Site, Use, Value, Var,
};
use crate::model::Models;
use crate::protocol;

/// Callers that one parameter is followed to.
const CALLERS: usize = 16;
/// Calls that a connection is followed up through.
const LEVELS: usize = 3;

/// A command together with the calls that lead to it from a function in which its connection is known.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Calls, outermost first; the last is the op that sends the command.
    pub via: Vec<Site>,
    /// The connection, in the terms of the first function of `via`.
    pub handle: Handle,
}

impl Run {
    /// The outermost call.
    pub fn site(&self) -> Site {
        self.via[0]
    }

    /// The variable of the outermost function that owns the connection: neither parameter nor captured, and not lent by
    /// a struct that holds it and may do more with it.
    pub fn owned(&self, a: &Analyzer<'_>) -> Option<Var> {
        let Value::Local(function, var) = self.handle.identity else { return None };
        let f = a.program.function(function);
        let var = Var(var);
        let own = function == self.site().function && !f.params.contains(&var) && !f.captures.contains(&var);
        (own && !is_part(f, var)).then_some(var)
    }
}

/// Whether what a variable holds is a field of something, behind borrows, bindings and unwrapping.
fn is_part(f: &Function, var: Var) -> bool {
    let mut at = var;
    for _ in 0..12 {
        let made = f.ops().find(|(_, op)| op.dst == Some(at)).map(|(_, op)| &op.kind);
        let source = match made {
            Some(OpKind::Let(Rvalue::Field(..))) => return true,
            Some(OpKind::Let(Rvalue::Use(x) | Rvalue::Await(x) | Rvalue::Cast(x, _))) => Some(x),
            Some(OpKind::Call(call)) if unwraps(call.name()) => call.args.first(),
            Some(_) => None,
            None => f.blocks.iter().flat_map(|b| &b.edges).find_map(|edge| match &edge.guard {
                Guard::Matches(x, pattern) => {
                    let mut vars = Vec::new();
                    bound(pattern, &mut vars);
                    vars.contains(&at).then_some(x)
                }
                _ => None,
            }),
        };
        match source {
            Some(Operand::Var(next, _)) if *next != at => at = *next,
            _ => return false,
        }
    }
    false
}

/// Calls whose result is their receiver, or what is in it.
fn unwraps(name: &str) -> bool {
    ["as_mut", "as_ref", "as_deref_mut", "deref_mut", "borrow_mut", "lock", "unwrap", "expect", "take", "map_err"]
        .contains(&name)
        || ["ok_or", "ok_or_else", "context", "with_context", "get_mut"].contains(&name)
}

/// The exchange at a site.
pub fn trip<'a>(a: &Analyzer<'a>, site: Site) -> Option<&'a RoundTrip> {
    let program: &'a crate::link::Program = a.program;
    origin_call(program, site)?.effect.as_deref()
}

/// Whether the exchange at a site frees a session lock as well: several statements in one text, or a routine of the
/// database that takes and frees.
pub fn gives_back_itself(a: &Analyzer<'_>, site: Site) -> bool {
    let frees = |e: &Effect| matches!(&e.kind, EffectKind::Release(r) if r.kind == LockKind::Session);
    trip(a, site).is_some_and(|trip| trip.effects.iter().any(frees))
}

/// The connection of the command at the end of `via`, seen from the function of its first site.
pub fn seen(a: &Analyzer<'_>, via: &[Site]) -> Option<Handle> {
    let (last, outer) = via.split_last()?;
    let mut handle = trip(a, *last)?.handle.clone();
    let mut inner = last.function;
    for site in outer.iter().rev() {
        handle = at_caller(a, handle, *site, inner);
        inner = site.function;
    }
    Some(handle)
}

/// The command seen from the innermost function in which the connection is not merely a parameter of unknown origin: of
/// `via` first, then of the callers of its first function.
pub fn runs(a: &Analyzer<'_>, via: &[Site], known: impl Fn(&Run) -> bool) -> Vec<Run> {
    for start in (0..via.len()).rev() {
        let Some(handle) = seen(a, &via[start..]) else { return Vec::new() };
        let run = Run { via: via[start..].to_vec(), handle };
        if known(&run) {
            return vec![run];
        }
    }
    let Some(handle) = seen(a, via) else { return Vec::new() };
    let mut out = Vec::new();
    up(a, Run { via: via.to_vec(), handle }, LEVELS, &known, &mut out);
    out
}

fn up(a: &Analyzer<'_>, run: Run, levels: usize, known: &impl Fn(&Run) -> bool, out: &mut Vec<Run>) {
    let function = run.site().function;
    if levels == 0 || !matches!(run.handle.identity, Value::Param(_)) {
        return;
    }
    for site in a.program.callers(function).iter().take(CALLERS) {
        if a.program.function(site.function).test || run.via.iter().any(|s| s.function == site.function) {
            continue;
        }
        let handle = at_caller(a, run.handle.clone(), *site, function);
        let via = std::iter::once(*site).chain(run.via.iter().copied()).collect();
        let outer = Run { via, handle };
        if known(&outer) {
            out.push(outer);
        } else {
            up(a, outer, levels - 1, known, out);
        }
    }
}

/// A connection of `inner` in the terms of the function that calls it, or makes it if it is a closure.
fn at_caller(a: &Analyzer<'_>, handle: Handle, site: Site, inner: FunctionId) -> Handle {
    if let Some((_, identity)) = a.program.outer(inner, &handle.identity) {
        return Handle { identity, ..handle };
    }
    let Some(call) = origin_call(a.program, site) else { return handle };
    match &handle.identity {
        Value::Param(index) => match call.args.get(*index as usize) {
            Some(operand) => {
                let outer = protocol::handle(a.program, Models::builtin(), site.function, operand);
                let kind = if handle.kind == HandleKind::Unknown { outer.kind } else { handle.kind };
                Handle { kind, identity: outer.identity, origin: handle.origin }
            }
            None => Handle { identity: Value::Unknown, ..handle },
        },
        identity => Handle { identity: a.program.instantiate(identity, call, site.function), ..handle },
    }
}

/// Whether each statement of the run is a transaction of its own, whatever the callers do: a pool, or a connection that
/// the function itself has opened or checked out and on which it begins no transaction.
pub fn autocommits(a: &Analyzer<'_>, run: &Run) -> bool {
    match run.handle.kind {
        HandleKind::Pool => true,
        HandleKind::Pinned | HandleKind::Dedicated => run.owned(a).is_some_and(|var| !begins(a, run, var)),
        _ => false,
    }
}

/// Whether the function may begin a transaction on the connection by a statement, itself or through what it calls.
fn begins(a: &Analyzer<'_>, run: &Run, var: Var) -> bool {
    let function = run.site().function;
    let f = a.program.function(function);
    let by_text = a.reached(function).iter().any(|r| {
        matches!(r.effect.kind, EffectKind::Begin)
            && seen(a, &r.via).is_none_or(|h| {
                h.kind != HandleKind::Transaction && (h.identity == run.handle.identity || h.identity == Value::Unknown)
            })
    });
    by_text
        || f.calls().any(|(_, _, call)| {
            call.effect.is_none()
                && call.targets.is_empty()
                && names_transaction(call.name())
                && call.args.iter().any(|x| is_on(a, function, x, var))
        })
}

/// Calls that are not understood and may begin a transaction.
fn names_transaction(name: &str) -> bool {
    ["begin", "transaction", "execute", "simple_query", "query"].iter().any(|word| name.contains(word))
}

/// Whether the operand is the connection in `var`, or a view of it.
pub fn is_on(a: &Analyzer<'_>, function: FunctionId, operand: &Operand, var: Var) -> bool {
    protocol::root(a.program.function(function), operand) == Some(var)
}

/// Where the connection in `var` goes on to other code: returned, stored, captured or moved into a call.
pub fn handed_on(a: &Analyzer<'_>, function: FunctionId, var: Var) -> Vec<OpRef> {
    let f = a.program.function(function);
    let mine = |x: &Operand| is_on(a, function, x, var);
    let moved = |x: &Operand| matches!(x, Operand::Var(_, Use::Move)) && mine(x);
    let hands = |op: &Op| match &op.kind {
        OpKind::Return(x, _) | OpKind::Store(_, _, x) => mine(x),
        OpKind::Let(Rvalue::Closure(_, list)) => list.iter().any(moved),
        OpKind::Let(Rvalue::Variant(_, list) | Rvalue::Tuple(list) | Rvalue::Array(list) | Rvalue::Unknown(list)) => {
            list.iter().any(mine)
        }
        OpKind::Let(Rvalue::Struct(_, fields, rest)) => fields.iter().map(|(_, x)| x).chain(rest).any(mine),
        OpKind::Call(call) => {
            call.effect.is_none() && call.name() != "drop" && call.args.iter().skip(method(call)).any(moved)
        }
        _ => false,
    };
    f.ops().filter(|(_, op)| hands(op)).map(|(at, _)| at).collect()
}

fn method(call: &Call) -> usize {
    usize::from(matches!(call.callee, crate::ir::Callee::Method(_)))
}

/// Whether a call of one of these names is made on the connection in `var`.
pub fn called_on(a: &Analyzer<'_>, function: FunctionId, var: Var, names: &[&str]) -> bool {
    a.program.function(function).calls().any(|(_, _, call)| {
        names.contains(&call.name()) && call.args.first().is_some_and(|x| is_on(a, function, x, var))
    })
}

/// Whether the effect changes rows: a write, or a claim, renewal or release of a row that is a lease.
pub fn changes_rows(effect: &Effect) -> bool {
    match &effect.kind {
        EffectKind::Write(_) => true,
        EffectKind::Acquire(acquire) => acquire.kind == LockKind::LeaseRow,
        EffectKind::Release(release) => release.kind == LockKind::LeaseRow,
        EffectKind::Renew(_) | EffectKind::Expire(_) => true,
        _ => false,
    }
}

/// Whether the transaction in which a lock was taken at one call of a function can still be open at another: some way
/// leads there past no COMMIT, ROLLBACK, drop or handing over of the transaction.
pub fn open_at(a: &Analyzer<'_>, handle: &Handle, taken: Site, at: Site) -> bool {
    if taken.function != at.function || taken == at {
        return false;
    }
    let f = a.program.function(at.function);
    let var = match handle.identity {
        Value::Local(function, var) if function == at.function => Some(Var(var)),
        Value::Local(function, _) if a.item(function) == a.item(at.function) => None,
        Value::Param(_) | Value::Field(..) | Value::TypeField(..) => None,
        // A transaction of a callee has ended with it.
        _ => return false,
    };
    let keepers = var.map_or_else(Vec::new, |var| keepers(a, f, var));
    let ends = |at: OpRef, op: &Op| match &op.kind {
        OpKind::Drop(v) => var.is_some_and(|var| *v == var || rooted(f, *v) == rooted(f, var)) || keepers.contains(v),
        OpKind::Call(call) => {
            let site = Site { function: taken.function, at };
            ends_here(a, site, call, handle)
                || call.effect.is_none() && var.is_some_and(|var| call.args.iter().any(|x| gives(a, site, x, var)))
                || keepers.iter().any(|keeper| ends_with(a, f, call, *keeper))
        }
        _ => false,
    };
    let mut seen = std::collections::BTreeSet::new();
    let mut work = vec![(taken.at.block, taken.at.index + 1)];
    while let Some((block, start)) = work.pop() {
        let ops = f.block(block).ops.iter().enumerate().skip(start as usize);
        let mut over = false;
        for (index, op) in ops {
            let here = OpRef { block, index: index as u32 };
            if here == at.at {
                return true;
            }
            if ends(here, op) {
                over = true;
                break;
            }
        }
        // `if let Some(guard) = guard { guard.release() }`: whoever takes it out of its variable decides.
        let moved = |guard: &Guard| match guard {
            Guard::Matches(Operand::Var(v, Use::Move), _) => keepers.contains(v),
            _ => false,
        };
        if !over && !f.block(block).edges.iter().any(|e| moved(&e.guard)) {
            work.extend(f.block(block).edges.iter().map(|e| e.to).filter(|to| seen.insert(*to)).map(|to| (to, 0)));
        }
    }
    false
}

/// The variables of the objects that the connection in `var` is a part of: `guard` of `guard.tx_mut()`, `guard.tx.as_mut()`.
pub fn keepers(a: &Analyzer<'_>, f: &Function, var: Var) -> Vec<Var> {
    let mut out = Vec::new();
    let mut at = var;
    for _ in 0..8 {
        let Some(root) = rooted(f, at) else { break };
        let mut made = f.ops().filter(|(_, op)| op.dst == Some(root)).map(|(_, op)| &op.kind);
        let base = match (made.next(), made.next()) {
            (Some(OpKind::Let(Rvalue::Field(base, _))), None) => base,
            (Some(OpKind::Call(call)), None) if unwraps(call.name()) || lends(a, call) => match call.args.first() {
                Some(base) => base,
                None => break,
            },
            _ => break,
        };
        let Operand::Var(next, _) = base else { break };
        let next = rooted(f, *next).unwrap_or(*next);
        if next == root || out.contains(&next) {
            break;
        }
        out.push(next);
        at = next;
    }
    out
}

/// Whether a call of the workspace gives back a reference to a part of its receiver.
fn lends(a: &Analyzer<'_>, call: &Call) -> bool {
    let part = |target: &FunctionId| {
        let f = a.program.function(*target);
        f.params.first().is_some_and(|this| f.var(*this).by_ref && f.owner.is_some()) && !f.is_async
    };
    !call.targets.is_empty() && call.targets.iter().all(part)
}

/// Whether a call takes the object that keeps a transaction, or commits or rolls back with it.
fn ends_with(a: &Analyzer<'_>, f: &Function, call: &Call, keeper: Var) -> bool {
    let over = |effect: &Effect| matches!(effect.kind, EffectKind::Commit | EffectKind::Rollback);
    call.args.iter().enumerate().any(|(i, x)| {
        let Operand::Var(var, how) = x else { return false };
        let mine = *var == keeper || rooted(f, *var) == Some(keeper);
        let taken = |target: &FunctionId| {
            let inner = a.program.function(*target);
            inner.params.get(i).is_some_and(|p| !inner.var(*p).by_ref)
        };
        mine && (*how == Use::Move && call.effect.is_none() && call.targets.is_empty()
            || call.targets.iter().any(taken)
            || call.targets.iter().any(|t| a.reached(*t).iter().any(|r| over(&r.effect))))
    })
}

/// Whether a call commits or rolls back, itself or below, on this connection or one that is not known.
fn ends_here(a: &Analyzer<'_>, site: Site, call: &Call, handle: &Handle) -> bool {
    let over = |effect: &Effect| matches!(effect.kind, EffectKind::Commit | EffectKind::Rollback);
    // `let mut tx = match pool.begin().await { Ok(tx) => tx, .. }` has two names.
    let one = |value: &Value| match value {
        Value::Local(f, v) if *f == site.function => {
            Value::Local(*f, rooted(a.program.function(*f), Var(*v)).map_or(*v, |v| v.0))
        }
        other => other.clone(),
    };
    let known = |h: &Handle| h.identity != Value::Unknown && one(&h.identity) != one(&handle.identity);
    match &call.effect {
        Some(trip) => trip.effects.iter().any(over) && !known(&trip.handle),
        None => call.targets.iter().any(|target| {
            a.reached(*target).iter().filter(|r| over(&r.effect)).any(|r| {
                let via: Vec<Site> = std::iter::once(site).chain(r.via.iter().copied()).collect();
                seen(a, &via).is_none_or(|h| !known(&h))
            })
        }),
    }
}

/// The variable that another one is a binding or view of.
fn rooted(f: &Function, var: Var) -> Option<Var> {
    protocol::root(f, &Operand::Var(var, Use::Ref))
}

/// Whether the operand gives the connection in `var` away.
fn gives(a: &Analyzer<'_>, site: Site, operand: &Operand, var: Var) -> bool {
    matches!(operand, Operand::Var(_, Use::Move)) && is_on(a, site.function, operand, var)
}

/// The pool that a handle, seen from `function`, is or was taken from.
pub fn pool_of(a: &Analyzer<'_>, function: FunctionId, handle: &Handle) -> Option<Value> {
    if handle.kind == HandleKind::Pool {
        return Some(handle.identity.clone()).filter(|v| *v != Value::Unknown);
    }
    let Value::Local(owner, var) = handle.identity else { return None };
    if owner != function {
        return None;
    }
    let mut value = a.program.value(function, &Operand::Var(Var(var), Use::Ref));
    for _ in 0..6 {
        match value {
            Value::Call(call) => value = call.args.first()?.clone(),
            Value::Local(f, v) if f == function && v != var => {
                let inner = protocol::handle(a.program, Models::builtin(), f, &Operand::Var(Var(v), Use::Ref));
                return if inner.kind == HandleKind::Pool { Some(inner.identity) } else { None };
            }
            Value::Param(_) | Value::Field(..) | Value::TypeField(..) | Value::Path(_) => {
                return Some(a.program.absolute(function, &value));
            }
            _ => return None,
        }
    }
    None
}
