//! What the caller sees: a server reply converted to the type that the caller asks for.
//!
//! The tables are those of `FromRedisValue` (redis 0.25 to 2.0), `FromValue` (fred 8 to 10) and rustis' deserializer.

use super::command::Wire;
use crate::ir::{Reply, Shape, Ty};

/// How a client converts replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conversion {
    /// Nil read as `bool` is `false`; otherwise it is an error (fred without `default-nil-types`).
    pub nil_is_false: bool,
    /// An integer reply can be read as `String`.
    pub int_is_string: bool,
}

impl Conversion {
    /// redis-rs and clients like it.
    pub const REDIS: Conversion = Conversion { nil_is_false: true, int_is_string: true };
    /// fred.
    pub const FRED: Conversion = Conversion { nil_is_false: false, int_is_string: true };
}

impl Wire {
    /// The reply as a shape without a Rust type.
    pub fn shape(&self) -> Shape {
        match self {
            Wire::Status(text) => Shape::Status(text.clone()),
            Wire::Nil => Shape::Nil,
            Wire::Int(n) => Shape::Number(*n),
            Wire::Text(text) => Shape::Str(text.clone()),
            Wire::Bulk => Shape::Some(Box::new(Shape::Unknown)),
            Wire::Stored => Shape::Foreign.some(),
            Wire::Array(members) => Shape::Tuple(members.iter().map(Wire::shape).collect()),
            Wire::Error => Shape::err(),
            Wire::Unknown => Shape::Unknown,
            Wire::Mixed => Shape::Tainted,
        }
    }
}

const INTEGERS: &[&str] =
    &["i8", "i16", "i32", "i64", "i128", "isize", "u8", "u16", "u32", "u64", "u128", "usize", "f32", "f64"];

/// The call's result, with its `Result` layer, for a reply read as `ty`.
pub fn convert(wire: &Wire, ty: &Ty, how: Conversion) -> Shape {
    match payload(wire, ty, how) {
        Some(shape) => shape.ok(),
        None => Shape::err(),
    }
}

/// `None` is a conversion error.
fn payload(wire: &Wire, ty: &Ty, how: Conversion) -> Option<Shape> {
    if *wire == Wire::Error {
        return None;
    }
    if ty.is_unknown() {
        return Some(wire.shape());
    }
    if ty.is_unit() {
        return Some(Shape::Unit);
    }
    match wire {
        Wire::Unknown => return Some(Shape::Unknown),
        Wire::Mixed => return Some(Shape::Tainted),
        _ => {}
    }
    match ty.last() {
        "bool" => match wire {
            Wire::Status(text) => (text == "OK").then_some(Shape::Bool(true)),
            Wire::Nil if how.nil_is_false => Some(Shape::Bool(false)),
            Wire::Int(n) => Some(Shape::Bool(*n != 0)),
            Wire::Text(text) if text == "OK" || text == "1" => Some(Shape::Bool(true)),
            Wire::Text(text) if text == "0" => Some(Shape::Bool(false)),
            _ => None,
        },
        "Option" => match wire {
            Wire::Nil => Some(Shape::None),
            _ => payload(wire, &ty.arg(0), how).map(Shape::some),
        },
        "String" | "str" | "Str" | "RedisString" | "Bytes" => match wire {
            Wire::Status(text) | Wire::Text(text) => Some(Shape::Str(text.clone())),
            Wire::Bulk => Some(Shape::Unknown),
            Wire::Stored => Some(Shape::Foreign),
            Wire::Int(n) if how.int_is_string => Some(Shape::Str(n.to_string())),
            _ => None,
        },
        name if INTEGERS.contains(&name) => match wire {
            Wire::Int(n) => Some(Shape::Int(*n)),
            Wire::Text(text) => text.parse().ok().map(Shape::Int),
            Wire::Bulk => Some(Shape::Unknown),
            Wire::Stored => Some(Shape::Foreign),
            _ => None,
        },
        "Value" | "RedisValue" | "Resp3Frame" | "RespValue" => Some(wire.shape()),
        "()" => match wire {
            Wire::Array(members) if members.len() == ty.args.len() => members
                .iter()
                .zip(&ty.args)
                .map(|(wire, ty)| payload(wire, ty, how))
                .collect::<Option<_>>()
                .map(Shape::Tuple),
            // One command read as a one-tuple of the pipeline's only reply.
            _ => Some(Shape::Tainted),
        },
        "Vec" | "[]" => match wire {
            Wire::Array(members) => {
                members.iter().map(|wire| payload(wire, &ty.arg(0), how)).collect::<Option<_>>().map(Shape::Tuple)
            }
            Wire::Nil => Some(Shape::Tuple(Vec::new())),
            Wire::Bulk | Wire::Stored => Some(Shape::Unknown),
            _ => Some(Shape::Tainted),
        },
        "HashMap" | "BTreeMap" | "HashSet" | "BTreeSet" => Some(Shape::Unknown),
        _ => Some(Shape::Tainted),
    }
}

/// Reply by world for the replies of the lock effect's success and loss.
pub fn reply(held: &Wire, lost: &Wire, ty: &Ty, how: Conversion) -> Reply {
    Reply { held: convert(held, ty, how), lost: convert(lost, ty, how), failed: Shape::err() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ty(text: &str) -> Ty {
        match text.split_once('<') {
            Some((path, arg)) => Ty { path: path.into(), args: vec![ty(arg.trim_end_matches('>'))] },
            None => Ty::path(text),
        }
    }

    /// The table "Reply-type semantics": type, SET NX lost, SET NX won, SETNX lost, SETNX won.
    #[test]
    fn redis_table() {
        let ok = |shape: Shape| shape.ok();
        let status = || Wire::Status("OK".into());
        let rows = [
            ("()", ok(Shape::Unit), ok(Shape::Unit), ok(Shape::Unit), ok(Shape::Unit)),
            ("bool", ok(Shape::Bool(false)), ok(Shape::Bool(true)), ok(Shape::Bool(false)), ok(Shape::Bool(true))),
            (
                "Option<String>",
                ok(Shape::None),
                ok(Shape::Str("OK".into()).some()),
                ok(Shape::Str("0".into()).some()),
                ok(Shape::Str("1".into()).some()),
            ),
            ("Option<()>", ok(Shape::None), ok(Shape::Unit.some()), ok(Shape::Unit.some()), ok(Shape::Unit.some())),
            ("Option<i64>", ok(Shape::None), Shape::err(), ok(Shape::Int(0).some()), ok(Shape::Int(1).some())),
            (
                "String",
                Shape::err(),
                ok(Shape::Str("OK".into())),
                ok(Shape::Str("0".into())),
                ok(Shape::Str("1".into())),
            ),
            ("i64", Shape::err(), Shape::err(), ok(Shape::Int(0)), ok(Shape::Int(1))),
            (
                "redis::Value",
                ok(Shape::Nil),
                ok(Shape::Status("OK".into())),
                ok(Shape::Number(0)),
                ok(Shape::Number(1)),
            ),
        ];
        for (name, nil, won, zero, one) in rows {
            let see = |wire: &Wire| convert(wire, &ty(name), Conversion::REDIS);
            assert_eq!(see(&Wire::Nil), nil, "{name} nil");
            assert_eq!(see(&status()), won, "{name} OK");
            assert_eq!(see(&Wire::Int(0)), zero, "{name} 0");
            assert_eq!(see(&Wire::Int(1)), one, "{name} 1");
        }
        assert_eq!(convert(&Wire::Nil, &ty("bool"), Conversion::FRED), Shape::err());
        let old = Conversion { int_is_string: false, ..Conversion::REDIS };
        assert_eq!(convert(&Wire::Int(1), &ty("String"), old), Shape::err());
    }

    #[test]
    fn pipeline_by_position() {
        let wire = Wire::Array(vec![Wire::Int(0), Wire::Unknown]);
        let pair = Ty { path: "()".into(), args: vec![ty("bool"), ty("Option<String>")] };
        assert_eq!(
            convert(&wire, &pair, Conversion::REDIS),
            Shape::Tuple(vec![Shape::Bool(false), Shape::Unknown]).ok()
        );
        assert_eq!(convert(&wire, &Ty::unit(), Conversion::REDIS), Shape::Unit.ok());
    }
}
