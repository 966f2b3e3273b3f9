//! Values from one frame to another.

use super::fold;
use crate::ir::{CallValue, Piece, Value};

/// Nesting that is rewritten; deeper parts become unknown.
const DEPTH: usize = 256;

/// Replaces the leaves that `map` answers for and folds again on the way up.
pub(super) fn rewrite(value: &Value, map: &dyn Fn(&Value) -> Option<Value>) -> Value {
    at(value, map, 0)
}

fn at(value: &Value, map: &dyn Fn(&Value) -> Option<Value>, depth: usize) -> Value {
    if let Some(new) = map(value) {
        return new;
    }
    if depth > DEPTH {
        return Value::Unknown;
    }
    let again = |value: &Value| at(value, map, depth + 1);
    match value {
        Value::Template(pieces) => fold::template(
            pieces
                .iter()
                .map(|piece| match piece {
                    Piece::Text(text) => Piece::Text(text.clone()),
                    Piece::Hole(hole) => Piece::Hole(again(hole)),
                })
                .collect(),
        ),
        Value::Field(base, name) => fold::field(again(base), name),
        Value::Call(call) => {
            let new = CallValue { args: call.args.iter().map(again).collect(), ..(**call).clone() };
            // A call that nothing changed in was not folded before and is not now.
            if new.args == call.args { value.clone() } else { fold::call(new) }
        }
        Value::Aggregate(path, fields) => {
            Value::Aggregate(path.clone(), fields.iter().map(|(n, v)| (n.clone(), again(v))).collect())
        }
        Value::Operation(name, operands) => fold::operation(name.clone(), operands.iter().map(again).collect()),
        Value::Join(members) => members.iter().map(again).reduce(Value::join).unwrap_or(Value::Unknown),
        leaf => leaf.clone(),
    }
}

/// A callee's value with its parameters replaced by `args`. Its locals mean nothing to the caller.
pub(super) fn substitute(value: &Value, args: &[Value]) -> Value {
    rewrite(value, &|leaf| match leaf {
        Value::Param(i) => Some(args.get(*i as usize).cloned().unwrap_or(Value::Unknown)),
        Value::Local(..) => Some(Value::Unknown),
        _ => None,
    })
}

/// Whether a value means the same in every frame.
pub(super) fn is_closed(value: &Value) -> bool {
    let mut closed = true;
    visit(value, &mut |leaf| closed &= !matches!(leaf, Value::Param(_) | Value::Local(..)));
    closed
}

/// Calls `f` with every node.
pub(super) fn visit(value: &Value, f: &mut dyn FnMut(&Value)) {
    let mut pending = vec![value];
    while let Some(value) = pending.pop() {
        f(value);
        match value {
            Value::Template(pieces) => pending.extend(pieces.iter().filter_map(|p| match p {
                Piece::Hole(hole) => Some(hole),
                Piece::Text(_) => None,
            })),
            Value::Field(base, _) => pending.push(base),
            Value::Call(call) => pending.extend(&call.args),
            Value::Aggregate(_, fields) => pending.extend(fields.iter().map(|f| &f.1)),
            Value::Operation(_, list) | Value::Join(list) => pending.extend(list),
            _ => {}
        }
    }
}

/// What is fresh becomes made once per process (evaluated in a static or an initialiser that runs once).
pub(super) fn once(value: &Value) -> Value {
    rewrite(value, &|leaf| match leaf {
        Value::Fresh(what) => Some(Value::PerProcess(what.clone())),
        _ => None,
    })
}
