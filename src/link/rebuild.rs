//! Values from one frame to another.

use super::fold;
use crate::ir::{CallValue, Piece, Value, leaf};

/// Nesting that is rewritten; deeper parts become unknown.
const DEPTH: usize = 256;

/// Replaces the parts that `map` answers for and folds again on the way up. Only values in which one of the `kinds` of
/// [`leaf`] is are looked into, so `map` must answer for no others; what nothing changes in stays shared.
pub(super) fn rewrite(value: &Value, kinds: u8, map: &dyn Fn(&Value) -> Option<Value>) -> Value {
    at(value, kinds, map, 0).unwrap_or_else(|| value.clone())
}

/// The rewritten value; `None` if it stays as it is.
fn at(value: &Value, kinds: u8, map: &dyn Fn(&Value) -> Option<Value>, depth: usize) -> Option<Value> {
    if value.has() & kinds == 0 {
        return None;
    }
    if let Some(new) = map(value) {
        return Some(new);
    }
    if depth > DEPTH {
        return Some(Value::Unknown);
    }
    let again = |value: &Value| at(value, kinds, map, depth + 1);
    match value {
        Value::Template(pieces) => {
            let inner = |piece: &Piece| match piece {
                Piece::Hole(hole) => again(hole).map(Piece::Hole),
                Piece::Text(_) => None,
            };
            each(pieces, inner).map(fold::template)
        }
        Value::Field(base, name) => again(base).map(|base| fold::field(base, name)),
        Value::Call(call) => each(&call.args, again).map(|args| {
            let CallValue { name, receiver, generics, at, conditional, .. } = &**call;
            let (name, receiver, generics) = (name.clone(), receiver.clone(), generics.clone());
            fold::call(CallValue { name, receiver, args, generics, at: *at, conditional: *conditional })
        }),
        Value::Aggregate(path, fields) => each(fields, |(name, value)| again(value).map(|new| (name.clone(), new)))
            .map(|fields| Value::Aggregate(path.clone(), fields.into())),
        Value::Operation(name, operands) => {
            each(operands, again).map(|operands| fold::operation(name.clone(), operands))
        }
        Value::Join(members) => {
            each(members, again).map(|new| new.into_iter().reduce(Value::join).unwrap_or(Value::Unknown))
        }
        _ => None,
    }
}

/// The list with what `change` gives instead; `None` if nothing changes.
fn each<T: Clone>(list: &[T], change: impl Fn(&T) -> Option<T>) -> Option<Vec<T>> {
    let (first, new) = list.iter().enumerate().find_map(|(i, item)| Some((i, change(item)?)))?;
    let mut out = Vec::with_capacity(list.len());
    out.extend_from_slice(&list[..first]);
    out.push(new);
    out.extend(list[first + 1..].iter().map(|item| change(item).unwrap_or_else(|| item.clone())));
    Some(out)
}

/// A callee's value with its parameters replaced by `args`. Its locals mean nothing to the caller.
pub(super) fn substitute(value: &Value, args: &[Value]) -> Value {
    rewrite(value, leaf::FRAME, &|leaf| match leaf {
        Value::Param(i) => Some(args.get(*i as usize).cloned().unwrap_or(Value::Unknown)),
        Value::Local(..) => Some(Value::Unknown),
        _ => None,
    })
}

/// Whether a value means the same in every frame.
pub(super) fn is_closed(value: &Value) -> bool {
    value.has() & leaf::FRAME == 0
}

/// What is fresh becomes made once per process (evaluated in a static or an initialiser that runs once).
pub(super) fn once(value: &Value) -> Value {
    rewrite(value, leaf::FRESH, &|leaf| match leaf {
        Value::Fresh(what) => Some(Value::PerProcess(what.clone())),
        _ => None,
    })
}
