//! Sections: what happens while a lock is held, where each effect names its target, and what its values are made of.

use std::collections::{BTreeMap, BTreeSet};

use super::Context;
use super::context::proven_held;
use crate::analysis::database;
use crate::analysis::slice::Slice;
use crate::analysis::summary::{Observation, Origin, Status};
use crate::analysis::{behind_failure, origin_call};
use crate::ir::{
    BlockId, Call, Callee, Effect, EffectKind, FunctionId, HandleKind, LockKind, Operand, Piece, Resource, Site, Value,
    Var,
};
use crate::source::Span;

/// The calls that lead to an effect, and what is looked for among the sources of its values.
struct Way<'w> {
    via: &'w [Site],
    made: &'w dyn Fn(FunctionId, Var, &Call) -> bool,
}

/// Calls between the function that sees both, and the acquire or the effect.
const MAX_DEPTH: usize = 8;
/// Functions that a value is followed through.
const MAX_HOPS: usize = 8;

/// Effects that some open transaction with locked rows or an advisory lock covers, by the calls that lead to them.
pub struct Covered(BTreeSet<(Vec<Site>, u32)>);

impl Covered {
    /// Whether the effect happens while rows or a transaction lock are held, seen from any of the functions on the way.
    pub fn holds(&self, o: &Observation) -> bool {
        (0..o.via.len()).any(|i| self.0.contains(&(o.via[i..].to_vec(), o.origin.effect)))
    }
}

impl Context<'_> {
    /// What is done under one lock on proven paths: one list for each function that sees the acquisition, in source order,
    /// what is done only after a failure last.
    pub fn sections(&self, lock: usize, pick: impl Fn(&Observation) -> bool) -> Vec<Vec<Observation>> {
        let near = self.observed(lock, |o| {
            proven_held(o)
                && self.judged(o.function)
                && !self.stands_alone(o)
                && o.via.len() <= MAX_DEPTH
                && o.lock.via.len() <= MAX_DEPTH
                && pick(o)
        });
        let functions: BTreeSet<FunctionId> = near.iter().map(|o| o.function).collect();
        let mut failing: BTreeMap<FunctionId, BTreeSet<BlockId>> = BTreeMap::new();
        for site in near.iter().flat_map(|o| &o.via) {
            failing.entry(site.function).or_insert_with(|| behind_failure(self.program.function(site.function)));
        }
        let late = |site: &Site| failing.get(&site.function).is_some_and(|blocks| blocks.contains(&site.at.block));
        let list = |function: FunctionId| {
            let mut list: Vec<Observation> = near.iter().filter(|o| o.function == function).cloned().collect();
            list.sort_by_key(|o| {
                let places: Vec<_> = o.via.iter().map(|s| self.op_span(*s).start).collect();
                (o.via.iter().any(late), places, o.effect.span)
            });
            list
        };
        functions.into_iter().map(list).collect()
    }

    /// Whether an effect belongs to the first thing that a function does under a lock: what does it enters the section. The
    /// last thing, such as a record of how it went, is also done by who was refused.
    pub fn begins_section(&self, lock: usize, function: FunctionId, origin: Origin) -> bool {
        let works = |o: &Observation| matches!(o.effect.kind, EffectKind::Write(_) | EffectKind::External(_));
        let own = self.sections(lock, |o| o.function == function && works(o));
        own.iter()
            .filter_map(|list| Some((list, list.first()?.via.first()?)))
            .any(|(list, first)| list.iter().any(|o| o.origin == origin && o.via.first() == Some(first)))
    }

    /// Whether the claim is one of the statements of an `.sql` file: programs send each by itself, in no order.
    fn stands_alone(&self, o: &Observation) -> bool {
        o.lock.acquire.kind == LockKind::LeaseRow
            && self.program.function(o.function).kind == crate::ir::FunctionKind::SqlFile
    }

    /// Effects that happen while rows or a transaction-level lock are held, or before the claim of a row has committed.
    pub fn covered(&self) -> Covered {
        let log = self.analyzer.log.borrow();
        let held = log.observations.iter().filter(|o| {
            let kind = o.lock.acquire.kind;
            let locks = matches!(kind, LockKind::Row | LockKind::Transaction | LockKind::LeaseRow);
            let writes = matches!(o.effect.kind, EffectKind::Write(_));
            locks && writes && o.status == Status::Held && self.in_transaction(o, kind != LockKind::LeaseRow)
        });
        Covered(held.map(|o| (o.via.clone(), o.origin.effect)).collect())
    }

    /// Whether the transaction in which the lock was taken is open still; `unknown` where the connection is not known.
    fn in_transaction(&self, o: &Observation, unknown: bool) -> bool {
        let Some(handle) = database::seen(self.analyzer, &o.lock.via) else { return unknown };
        match handle.kind {
            HandleKind::Transaction => database::open_at(self.analyzer, &handle, o.lock.via[0], o.via[0]),
            HandleKind::Unknown | HandleKind::Body => unknown,
            _ => false,
        }
    }

    /// Where an effect stands: where its own text names its target, or at the call that brings the target.
    pub fn target_place(&self, o: &Observation) -> Span {
        let level = self.target_level(o);
        if level == o.via.len() - 1 { o.effect.span } else { self.op_span(o.via[level]) }
    }

    /// The index in `via` of the call that names the target of an effect. One of several implementations that get it from
    /// their caller does not: which of them runs is chosen elsewhere.
    fn target_level(&self, o: &Observation) -> usize {
        let last = o.via.len() - 1;
        let naming = |to: usize| (0..=to).rev().find(|i| self.effect_at(o, *i).is_some_and(|e| names_target(&e)));
        let Some(mut level) = naming(last) else { return last };
        while let Some(call) = (0..level).rev().find(|i| self.chosen(o, *i)) {
            let Some(next) = naming(call) else { return call };
            level = next;
        }
        level
    }

    /// Whether the call at a level is of a method with several implementations, and hands on what the target is made of.
    fn chosen(&self, o: &Observation, level: usize) -> bool {
        let several = origin_call(self.program, o.via[level]).is_some_and(|call| call.targets.len() > 1);
        several && self.effect_at(o, level + 1).is_some_and(|e| target(&e).is_some_and(|v| handed_in(v, 0)))
    }

    /// The effect in the terms of the function of `via[level]`.
    fn effect_at(&self, o: &Observation, level: usize) -> Option<Effect> {
        if level == 0 {
            return Some(o.effect.clone());
        }
        let reached = self.analyzer.reached(o.via[level].function);
        let found = reached.iter().find(|r| r.origin == o.origin && r.via == o.via[level..]);
        found.map(|r| r.effect.clone())
    }

    /// Whether what an effect writes holds the result of some operation (a read, a clock, a computation that is not known),
    /// so that a holder who is late writes something old. Parameters of the function that takes the lock, and constants, do
    /// not, whatever they are converted to.
    pub fn holds_result(&self, o: &Observation, values: &[Value]) -> bool {
        if values.iter().any(|v| depends_on_time(v, 0)) {
            return true;
        }
        if !values.is_empty() && values.iter().all(|v| settled(v, 0)) {
            return false;
        }
        let level = o.via.len() - 1;
        let Some(call) = origin_call(self.program, o.via[level]) else { return true };
        let data: Vec<&Operand> = call.args.iter().filter(|x| !self.is_handle(o.via[level].function, x)).collect();
        let way = Way { via: &o.via, made: &|id, dst, call| self.is_operation(id, dst, call) };
        data.into_iter().any(|x| self.comes_from(&way, level, o.via[level].function, x, MAX_HOPS))
    }

    /// Whether the result of a call that fits goes into an effect.
    pub fn goes_into(&self, o: &Observation, fits: &dyn Fn(&Call) -> bool) -> bool {
        let level = o.via.len() - 1;
        let Some(call) = origin_call(self.program, o.via[level]) else { return false };
        let way = Way { via: &o.via, made: &|_, _, call| fits(call) };
        call.args.iter().any(|x| self.comes_from(&way, level, o.via[level].function, x, MAX_HOPS))
    }

    fn is_handle(&self, function: FunctionId, operand: &Operand) -> bool {
        let models = crate::model::Models::builtin();
        crate::protocol::handle(self.program, models, function, operand).kind != HandleKind::Unknown
    }

    fn comes_from(&self, way: &Way<'_>, level: usize, id: FunctionId, operand: &Operand, hops: usize) -> bool {
        if hops == 0 {
            return false;
        }
        let via = way.via;
        let f = self.program.function(id);
        let sources = Slice::of(f).sources(operand);
        let made_here = f
            .calls()
            .any(|(_, op, call)| op.dst.is_some_and(|dst| sources.contains(&dst) && (way.made)(id, dst, call)));
        if made_here {
            return true;
        }
        sources.iter().any(|var| {
            if let Some((parent, x)) = self.captured(id, *var) {
                let level = via.iter().position(|s| s.function == parent).unwrap_or(0);
                return self.comes_from(way, level, parent, &x, hops - 1);
            }
            let Some(k) = f.params.iter().position(|p| p == var) else { return false };
            if level == 0 || via[level].function != id {
                return false;
            }
            let outer = origin_call(self.program, via[level - 1]).and_then(|call| call.args.get(k));
            outer.is_some_and(|x| self.comes_from(way, level - 1, via[level - 1].function, x, hops - 1))
        })
    }

    /// Whether a call fetches something: from a store, a service, a clock, or by code that is waited for and not known.
    fn is_operation(&self, id: FunctionId, dst: Var, call: &Call) -> bool {
        let fetches = |kind: &EffectKind| {
            matches!(kind, EffectKind::Read(_) | EffectKind::Issue(_) | EffectKind::External(_) | EffectKind::Write(_))
        };
        if let Some(trip) = &call.effect {
            return trip.effects.iter().any(|e| fetches(&e.kind));
        }
        let operand = Operand::Var(dst, crate::ir::Use::Ref);
        if depends_on_time(&self.program.value(id, &operand), 0) {
            return true;
        }
        if !call.targets.is_empty() {
            let fetch = |t: &FunctionId| self.analyzer.reached(*t).iter().any(|r| fetches(&r.effect.kind));
            return call.targets.iter().any(|t| self.program.function(*t).is_async || fetch(t));
        }
        let unknown = match &call.callee {
            Callee::Method(name) => !converts(name),
            Callee::Path(path) => !converts(path.rsplit("::").next().unwrap_or(path)),
            Callee::Macro(_) => false,
            Callee::Value(_) => true,
        };
        unknown && !self.is_handle(id, &operand)
    }
}

/// What an effect outside every store is done to.
fn target(effect: &Effect) -> Option<&Value> {
    match &effect.kind {
        EffectKind::External(external) => Some(&external.target),
        _ => None,
    }
}

/// Whether a parameter, the object itself apart, is part of a value.
fn handed_in(value: &Value, depth: usize) -> bool {
    if depth > 16 {
        return false;
    }
    let inner = |v: &Value| handed_in(v, depth + 1);
    match value {
        Value::Param(i) => *i > 0,
        Value::Field(base, _) => inner(base),
        Value::Template(pieces) => pieces.iter().any(|p| matches!(p, Piece::Hole(v) if inner(v))),
        Value::Call(call) => call.args.iter().any(inner),
        Value::Aggregate(_, fields) => fields.iter().any(|(_, v)| inner(v)),
        Value::Operation(_, list) | Value::Join(list) => list.iter().any(inner),
        _ => false,
    }
}

/// Whether the effect's own text says what it is done to.
fn names_target(effect: &Effect) -> bool {
    match &effect.kind {
        EffectKind::Write(write) => match &write.resource {
            Resource::Key(_, key) => names(key, 0),
            _ => true,
        },
        EffectKind::External(external) => names(&external.target, 0),
        _ => true,
    }
}

/// Whether a value says which key or address is meant: not merely handed in.
fn names(value: &Value, depth: usize) -> bool {
    if depth > 16 {
        return true;
    }
    match value {
        Value::Param(_) => false,
        Value::Template(pieces) => {
            let letters = |t: &str| t.chars().filter(|c| c.is_alphanumeric()).count();
            pieces.iter().map(|p| if let Piece::Text(t) = p { letters(t) } else { 0 }).sum::<usize>() >= 3
                || pieces.iter().any(|p| matches!(p, Piece::Hole(v) if names(v, depth + 1) && !setting(v)))
                || !handed_in(value, depth)
        }
        // `key.as_str()`, `Path::from(key)`
        Value::Call(call) if call.args.len() == 1 => names(&call.args[0], depth + 1),
        Value::Call(call) if !call.args.is_empty() => {
            !handed_in(value, 0) || call.args.iter().any(|arg| tells(arg, depth + 1))
        }
        Value::Aggregate(_, fields) if !fields.is_empty() => fields.iter().any(|(_, v)| names(v, depth + 1)),
        _ => true,
    }
}

/// Whether a part of a target that is put together says which one is meant: no setting, no empty builder, no constant.
fn tells(value: &Value, depth: usize) -> bool {
    match value {
        Value::Call(call) if call.args.is_empty() => false,
        Value::Call(call) if depth < 16 => call.args.iter().any(|arg| tells(arg, depth + 1)),
        Value::Const(_) | Value::Path(_) | Value::Unknown => false,
        other => !setting(other) && names(other, depth),
    }
}

/// What the object was set up with, as its base address: the same for all that it does.
fn setting(value: &Value) -> bool {
    match value {
        Value::TypeField(..) => true,
        Value::Field(base, _) => matches!(**base, Value::Param(0)),
        _ => false,
    }
}

/// Constants and parameters, and what they are converted to.
fn settled(value: &Value, depth: usize) -> bool {
    if depth > 16 {
        return false;
    }
    let inner = |v: &Value| settled(v, depth + 1);
    match value {
        Value::Const(_) | Value::Param(_) | Value::Path(_) | Value::TypeField(..) | Value::Env(_) => true,
        Value::Field(base, _) => inner(base),
        Value::Template(pieces) => pieces.iter().all(|p| match p {
            Piece::Text(_) => true,
            Piece::Hole(v) => inner(v),
        }),
        Value::Aggregate(_, fields) => fields.iter().all(|(_, v)| inner(v)),
        // The server's own clock is read when the statement runs.
        Value::Call(call) if call.name == "sql::now" => true,
        Value::Call(call) => converts(call.name.rsplit([':', '.']).next().unwrap_or("")) && call.args.iter().all(inner),
        _ => false,
    }
}

/// Calls that bring a value into another form, or put it into a command or statement.
pub fn converts(name: &str) -> bool {
    const FORMS: &[&str] = &[
        "to_string",
        "to_owned",
        "clone",
        "cloned",
        "copied",
        "into",
        "try_into",
        "from",
        "try_from",
        "new",
        "as_str",
        "as_ref",
        "as_bytes",
        "as_slice",
        "as_deref",
        "as_mut",
        "deref",
        "borrow",
        "to_vec",
        "into_bytes",
        "into_iter",
        "iter",
        "map",
        "collect",
        "unwrap",
        "expect",
        "unwrap_or",
        "unwrap_or_default",
        "unwrap_or_else",
        "ok",
        "ok_or",
        "ok_or_else",
        "map_err",
        "context",
        "with_context",
        "len",
        "to_value",
        "to_string_pretty",
        "to_json",
        "pin",
        "timestamp",
        "timestamp_millis",
        "to_rfc3339",
        "as_secs",
        "as_millis",
        "lower",
        "upper",
        "coalesce",
        "json!",
        "format!",
        "vec!",
        "trim",
        "to_lowercase",
        "min",
        "max",
        "encode",
        "serialize",
        "with_capacity",
        "default",
        "push",
        "extend",
        "insert",
        "and_then",
        "filter",
        "then",
        "join",
        "int4",
    ];
    const BUILDERS: &[&str] = &[
        "cmd",
        "arg",
        "query",
        "query_as",
        "query_scalar",
        "bind",
        "push_bind",
        "push_values",
        "separated",
        "build",
        "pipe",
        "atomic",
        "ignore",
        "key",
        "values",
        "set",
        "eq",
        "value",
        "insert_into",
        "update",
        "on_conflict",
        "do_update",
        "do_nothing",
        "map",
        "Set",
        "persistent",
        "query_with",
        "boxed",
        "set_ex",
        "hset",
        "hset_multiple",
    ];
    FORMS.contains(&name) || BUILDERS.contains(&name)
}

/// A clock, a fresh value, or something computed from what the row already holds.
fn depends_on_time(value: &Value, depth: usize) -> bool {
    if depth > 16 {
        return false;
    }
    let inner = |v: &Value| depends_on_time(v, depth + 1);
    match value {
        Value::Clock { .. } | Value::Fresh(_) => true,
        Value::Path(path) => path.starts_with("sql::column::"),
        Value::Template(pieces) => pieces.iter().any(|p| matches!(p, Piece::Hole(v) if inner(v))),
        Value::Call(call) => call.args.iter().any(inner),
        Value::Aggregate(_, fields) => fields.iter().any(|(_, v)| inner(v)),
        Value::Operation(_, list) | Value::Join(list) => list.iter().any(inner),
        Value::Field(base, _) => inner(base),
        _ => false,
    }
}
