//! Abstract values: what an operand can be, as far as the workspace shows.

use super::{FunctionId, Shared};
use crate::source::Span;

/// A literal or folded constant.
#[derive(Clone, Debug, PartialEq)]
pub enum Lit {
    /// Integer (128-bit values saturate).
    Int(i64),
    /// Floating point.
    Float(f64),
    /// Boolean.
    Bool(bool),
    /// String or char.
    Str(String),
    /// Byte string.
    Bytes(Vec<u8>),
    /// `()`.
    Unit,
    /// A `Duration`, in nanoseconds.
    Duration(u128),
}

/// A span that does not take part in comparison: two values made at different places are equal.
#[derive(Clone, Copy, Debug)]
pub struct At(pub Option<Span>);

impl PartialEq for At {
    fn eq(&self, _: &At) -> bool {
        true
    }
}

/// An abstract value, as a tree whose branches values share. Joins hold at most four members.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Constant.
    Const(Lit),
    /// `format!`, `concat!`, `+`: constant parts and holes.
    Template(Shared<Vec<Piece>>),
    /// Parameter of the function in whose terms the value is, `self` being 0.
    Param(u32),
    /// Field of a value: `base.name`.
    Field(Shared<Value>, String),
    /// Field of any object of a workspace type (type path, field name): what all its constructors have in common is not known.
    TypeField(String, String),
    /// Environment variable or configuration key.
    Env(String),
    /// New for each evaluation: random, uuid v4 and kin.
    Fresh(String),
    /// Made once per process (a fresh value in a static or in a field set once).
    PerProcess(String),
    /// Names the host, process, user or thread: the same for each acquisition.
    Identity(String),
    /// Reading of a clock; `wall` for the system clock.
    Clock {
        /// The adjustable clock, not the monotonic one.
        wall: bool,
    },
    /// A call that is not folded: path (`redis::cmd`), method (`.arg`, receiver first) or macro (`query!`). Builder chains are trees of these.
    Call(Shared<CallValue>),
    /// `Path { .. }`, `Variant(..)` (fields named `0`, `1`), tuples (path `()`), arrays (path `[]`).
    Aggregate(String, Shared<Vec<(String, Value)>>),
    /// Path to a const, static, unit variant or function that is not folded (`redis::ExistenceCheck::NX`).
    Path(String),
    /// `a + b` and kin where it does not fold: operator and operands.
    Operation(String, Shared<Vec<Value>>),
    /// Closure or async block.
    Closure(FunctionId),
    /// One of several.
    Join(Shared<Vec<Value>>),
    /// Local variable that nothing is known of: function and its number, so that it equals itself.
    Local(FunctionId, u32),
    /// Unknown.
    Unknown,
}

/// A call kept as a value.
#[derive(Clone, Debug, PartialEq)]
pub struct CallValue {
    /// `path::to::function`, `.method` or `macro!`.
    pub name: String,
    /// Type of the receiver as inferred (its path), or empty.
    pub receiver: String,
    /// Arguments; the receiver first for methods.
    pub args: Vec<Value>,
    /// Turbofish.
    pub generics: Vec<super::Ty>,
    /// Where its name is written.
    pub at: At,
    /// This builder step is under a condition that the use is not under (`if x { cmd.arg("NX"); }`).
    pub conditional: bool,
}

/// Part of a [`Value::Template`].
#[derive(Clone, Debug, PartialEq)]
pub enum Piece {
    /// Constant text.
    Text(String),
    /// Hole with its value.
    Hole(Value),
}

impl Value {
    /// A string constant.
    pub fn str(text: impl Into<String>) -> Value {
        Value::Const(Lit::Str(text.into()))
    }

    /// The constant string, if it is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::Const(Lit::Str(s)) => Some(s),
            _ => None,
        }
    }

    /// The constant integer, if it is one.
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Value::Const(Lit::Int(n)) => Some(*n),
            _ => None,
        }
    }

    /// The members of a join, or the value itself.
    pub fn alternatives(&self) -> &[Value] {
        match self {
            Value::Join(members) => members,
            other => std::slice::from_ref(other),
        }
    }

    /// Joins two values; over four members nothing is known.
    pub fn join(self, other: Value) -> Value {
        let mut members: Vec<Value> = Vec::new();
        for value in [self, other] {
            let list = match value {
                Value::Join(list) => list.to_vec(),
                one => vec![one],
            };
            for member in list {
                if member == Value::Unknown {
                    return Value::Unknown;
                }
                if !members.contains(&member) {
                    members.push(member);
                }
            }
        }
        match members.len() {
            1 => members.swap_remove(0),
            2..=4 => Value::Join(members.into()),
            _ => Value::Unknown,
        }
    }
}
