//! Which connection a statement runs on.
//!
//! The type tells most: a pool gives any connection, a checked-out object one pooled connection, a transaction itself.
//! A bare connection type (`PgConnection`, `tokio_postgres::Client`) tells nothing as a parameter: nearly always the caller's
//! transaction. What made the value tells more than its type: `connect`, `detach`, `begin`. Inside a closure that is run
//! in a transaction, its parameter is that transaction.

use crate::ir::*;
use crate::model::{Role, TypeRole};
use crate::protocol::Site;

/// The handle of an executor operand.
pub(super) fn handle(site: &Site<'_>, operand: &Operand) -> Handle {
    let mut handle = site.handle(operand);
    let given = site.program.value(site.function, operand);
    let value = passed(site, given.clone());
    if value != given && matches!(value, Value::Param(_) | Value::Field(..) | Value::TypeField(..) | Value::Local(..)) {
        handle.identity = site.program.absolute(site.function, &value);
    }
    if matches!(&value, Value::Field(base, _) if matches!(**base, Value::Call(_)))
        && let Some(var) = crate::protocol::root(site.context(), operand)
    {
        // Two connections opened alike are equal as values.
        handle.identity = Value::Local(site.function, var.0);
    }
    if let Some((kind, made_in)) = kind_of(site, site.function, &value, 0) {
        handle.kind = kind;
        if kind == HandleKind::Transaction
            && let Some(identity) = made_in
        {
            handle.identity = identity;
        }
    }
    if handle.kind == HandleKind::Pinned && closes_on_drop(site, operand) {
        handle.kind = HandleKind::Dedicated;
    }
    handle
}

/// The value below calls that give their receiver back (`tx.acquire()` of a transaction).
fn passed(site: &Site<'_>, value: Value) -> Value {
    let mut value = value;
    for _ in 0..4 {
        let inner = match &value {
            Value::Call(call) => {
                let row = site.models.find_value(call, None, site.versions).map(|m| m.row);
                let passes =
                    row.is_some_and(|r| r.role == Role::PassThrough && r.protocol == crate::model::Protocol::Sql);
                call.args.first().filter(|_| passes).cloned()
            }
            _ => None,
        };
        match inner {
            Some(inner) => value = inner,
            None => break,
        }
    }
    value
}

/// Kind by what made the value; for parameters of transaction closures also the identity that all their views share.
fn kind_of(site: &Site<'_>, function: FunctionId, value: &Value, depth: usize) -> Option<(HandleKind, Option<Value>)> {
    if depth > 8 {
        return None;
    }
    match value {
        Value::Call(call) => {
            let found = site.models.find_value(call, None, site.versions);
            let fits = |row: &&crate::model::Row| {
                row.protocol == crate::model::Protocol::Sql && receiver_named(site, row, &call.receiver)
            };
            if let Some(row) = found.map(|m| m.row).filter(fits) {
                return match row.role {
                    Role::TxBegin => Some((HandleKind::Transaction, None)),
                    Role::Connection => row.gives.and_then(kind).map(|kind| (kind, None)),
                    Role::PassThrough => kind_of(site, function, call.args.first()?, depth + 1),
                    _ => None,
                };
            }
            // Views of another handle: `.as_mut()`, `.deref_mut()`.
            let view = matches!(
                call.name.as_str(),
                ".as_mut" | ".deref_mut" | ".as_ref" | ".deref" | ".by_ref" | ".borrow_mut" | ".clone"
            );
            if view && call.args.len() == 1 { kind_of(site, function, &call.args[0], depth + 1) } else { None }
        }
        Value::Param(_) => {
            if let Some(index) = in_transaction_closure(site, function, value) {
                return Some((HandleKind::Transaction, Some(index)));
            }
            let (outer, value) = site.program.outer(function, value)?;
            kind_of(site, outer, &value, depth + 1)
        }
        // The base decides: `connect(..).0`.
        Value::Field(base, _) if matches!(**base, Value::Call(_)) => kind_of(site, function, base, depth + 1),
        Value::Local(f, var) => {
            let param = site.program.function(*f).params.iter().position(|p| p.0 == *var);
            match param.and_then(|i| in_transaction_closure(site, *f, &Value::Param(i as u32))) {
                Some(identity) => Some((HandleKind::Transaction, Some(identity))),
                None => kind_of_local(site, value),
            }
        }
        Value::Join(members) => {
            let mut kinds = members.iter().map(|m| kind_of(site, function, m, depth + 1));
            let first = kinds.next()??;
            kinds.all(|k| k.as_ref().is_some_and(|k| k.0 == first.0)).then_some(first)
        }
        _ => None,
    }
}

/// Whether the type of a call's receiver, where it is known, is one that the row names.
fn receiver_named(site: &Site<'_>, row: &crate::model::Row, receiver: &str) -> bool {
    let last = |path: &str| path.rsplit("::").next().unwrap_or(path).to_string();
    let canonical = site.models.canonical(receiver);
    receiver.is_empty()
        || row.receiver.0.is_empty()
        || row.receiver.0.iter().any(|known| *known == canonical || last(known) == last(&canonical))
}

fn kind_of_local(site: &Site<'_>, value: &Value) -> Option<(HandleKind, Option<Value>)> {
    let Value::Local(function, var) = value else { return None };
    let operand = Operand::Var(Var(*var), Use::Ref);
    let handle = crate::protocol::handle(site.program, site.models, *function, &operand);
    (handle.kind != HandleKind::Unknown).then_some((handle.kind, None))
}

fn kind(role: TypeRole) -> Option<HandleKind> {
    Some(match role {
        TypeRole::Pool => HandleKind::Pool,
        TypeRole::Pinned => HandleKind::Pinned,
        TypeRole::Dedicated => HandleKind::Dedicated,
        TypeRole::Transaction => HandleKind::Transaction,
        _ => return None,
    })
}

/// Whether the value is the parameter of a closure that a transaction row runs; gives its identity.
fn in_transaction_closure(site: &Site<'_>, function: FunctionId, value: &Value) -> Option<Value> {
    let Value::Param(i) = value else { return None };
    let closure = site.program.function(function);
    let var = *closure.params.get(*i as usize)?;
    let made = site.program.closure_site(function)?;
    let outer = site.program.function(made.function);
    let dst = outer.op(made.at).dst?;
    let runs = outer.calls().any(|(_, _, call)| {
        let passed = call.args.iter().any(|a| matches!(a, Operand::Var(v, _) if *v == dst || flows(outer, dst, *v)));
        passed
            && site
                .models
                .find(site.program, site.imports, made.function, call, site.versions)
                .is_some_and(|m| m.row.role == Role::TxClosure)
    });
    runs.then_some(Value::Local(function, var.0))
}

/// Whether `to` is a plain copy of `from`.
fn flows(function: &Function, from: Var, to: Var) -> bool {
    let mut at = to;
    for _ in 0..4 {
        let source = function.ops().find(|(_, op)| op.dst == Some(at)).and_then(|(_, op)| match &op.kind {
            OpKind::Let(Rvalue::Use(Operand::Var(v, _))) => Some(*v),
            OpKind::Call(call) if call.name() == "pin" || call.name() == "new" || call.name() == "boxed" => {
                match call.args.first() {
                    Some(Operand::Var(v, _)) => Some(*v),
                    _ => None,
                }
            }
            _ => None,
        });
        match source {
            Some(v) if v == from => return true,
            Some(v) => at = v,
            None => return false,
        }
    }
    false
}

/// `conn.close_on_drop()` anywhere in the function.
fn closes_on_drop(site: &Site<'_>, operand: &Operand) -> bool {
    let function = site.context();
    let root = crate::protocol::root(function, operand);
    root.is_some()
        && function.calls().any(|(_, _, call)| {
            call.name() == "close_on_drop"
                && call.args.first().is_some_and(|a| crate::protocol::root(function, a) == root)
        })
}

/// The handle that a call's result is: the variable that it ends up in behind `await`, `?` and bindings.
pub(super) fn of_result(site: &Site<'_>) -> Handle {
    let Some(dst) = site.dst else { return Handle::unknown() };
    let function = site.context();
    let mut var = dst;
    for _ in 0..12 {
        let next = function.ops().find_map(|(_, op)| match &op.kind {
            OpKind::Let(Rvalue::Await(Operand::Var(v, _)) | Rvalue::Use(Operand::Var(v, _))) if *v == var => op.dst,
            OpKind::Call(call)
                if call.args.first().is_some_and(|a| matches!(a, Operand::Var(v, _) if *v == var))
                    && passes(call.name()) =>
            {
                op.dst
            }
            _ => None,
        });
        let bound = || {
            function.blocks.iter().flat_map(|b| &b.edges).find_map(|edge| match &edge.guard {
                Guard::Matches(Operand::Var(v, _), pattern) if *v == var => success_binding(pattern),
                _ => None,
            })
        };
        match next.or_else(bound) {
            Some(next) if next != var => var = next,
            _ => break,
        }
    }
    Handle { kind: HandleKind::Transaction, identity: Value::Local(site.function, var.0), origin: Value::Unknown }
}

fn passes(name: &str) -> bool {
    matches!(
        name,
        "map_err" | "unwrap" | "expect" | "context" | "with_context" | "into" | "ok" | "wrap_err" | "unwrap_or_else"
    )
}

/// The variable that `Ok(x)` or `Some(x)` binds.
fn success_binding(pattern: &Pattern) -> Option<Var> {
    match pattern {
        Pattern::Bind(var, None) => Some(*var),
        Pattern::Bind(_, Some(inner)) => success_binding(inner),
        Pattern::Variant(name, list, _) if !name.ends_with("Err") && list.len() == 1 => success_binding(&list[0]),
        _ => None,
    }
}
