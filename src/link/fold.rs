//! Folding of calls and operators whose operands are known: strings, numbers, durations, wrappers.

use super::tables::tables;
use crate::ir::{BinaryOp, CallValue, Lit, Piece, Shared, Ty, Value};

/// Larger values are cut off where they grow.
pub(super) const MAX_NODES: usize = 600;

/// Nanoseconds of a second.
const SECOND: u128 = 1_000_000_000;

/// A function call by canonical path: folded, or kept as a call.
pub(super) fn function(call: CallValue) -> Value {
    let tables = tables();
    let path = call.name.as_str();
    if tables.fresh().function(path) {
        return Value::Fresh(path.to_owned());
    }
    if tables.identity().function(path) {
        return Value::Identity(path.to_owned());
    }
    if tables.monotonic_clock().function(path) {
        return Value::Clock { wall: false };
    }
    if tables.wall_clock().function(path) {
        return Value::Clock { wall: true };
    }
    if tables.env().function(path)
        && let Some(name) = call.args.first().and_then(Value::as_str)
    {
        return environment(name);
    }
    if let Some(unit) = tables.duration(path)
        && let Some(value) = call.args.first().and_then(|n| scaled(n, unit))
    {
        return value;
    }
    match (last_two(path), call.args.as_slice()) {
        (Some(("Duration", "new")), [Value::Const(Lit::Int(s)), Value::Const(Lit::Int(n))]) => {
            let (Ok(s), Ok(n)) = (u128::try_from(*s), u128::try_from(*n)) else {
                return Value::Call(Shared::from(call));
            };
            return Value::Const(Lit::Duration(s * SECOND + n));
        }
        (Some(("String", "new" | "with_capacity" | "default")), _)
            if !path.contains("::String") || path.starts_with("std::") =>
        {
            return Value::str("");
        }
        (Some(("cmp", name @ ("min" | "max"))), [a, b]) => return extreme(name, a.clone(), b.clone()),
        _ => {}
    }
    if tables.sees_through_function(path) && call.args.len() == 1 {
        return call.args.into_iter().next().unwrap_or(Value::Unknown);
    }
    Value::Call(Shared::from(call))
}

/// A method call (`name` without the dot): folded, or kept as a call.
pub(super) fn method(call: CallValue) -> Value {
    let tables = tables();
    let name = call.name.strip_prefix('.').unwrap_or(&call.name).to_owned();
    let Some(receiver) = call.args.first() else { return Value::Unknown };
    let arguments = call.args.len() - 1;
    if (tables.is_unwrap(&name) && arguments == 0 || tables.is_unwrap_with(&name) && arguments == 1)
        && !is_builder(&call)
    {
        return payload(receiver.clone());
    }
    if tables.is_unwrap_or(&name)
        && let [receiver, other] = call.args.as_slice()
    {
        return unwrap_or(receiver.clone(), other.clone());
    }
    if let Some(unit) = tables.duration_read(&name) {
        return match receiver {
            Value::Const(Lit::Duration(n)) => int(n / unit.unsigned_abs() as u128),
            Value::Clock { .. } => receiver.clone(),
            _ => Value::Call(Shared::from(call)),
        };
    }
    if let Some(folded) = text_method(&name, &call.args) {
        return folded;
    }
    if let Some(folded) = number_method(&name, &call.args) {
        return folded;
    }
    match receiver {
        Value::Fresh(_) | Value::Identity(_) | Value::PerProcess(_) => return receiver.clone(),
        Value::Clock { .. } if !matches!(name.as_str(), "checked_add" | "checked_sub" | "add" | "sub") => {
            return receiver.clone();
        }
        _ => {}
    }
    if tables.fresh().method(&name) {
        return Value::Fresh(name);
    }
    if tables.sees_through_method(&name) {
        return receiver.clone();
    }
    Value::Call(Shared::from(call))
}

/// A macro that stays a call (`name!`).
pub(super) fn macro_(call: CallValue) -> Value {
    let path = call.name.strip_suffix('!').unwrap_or(&call.name);
    if tables().fresh().macro_(path) {
        return Value::Fresh(path.to_owned());
    }
    if tables().env().macro_(path)
        && let Some(name) = call.args.first().and_then(Value::as_str)
    {
        return environment(name);
    }
    Value::Call(Shared::from(call))
}

/// Rebuilds a call whose arguments have changed.
pub(super) fn call(call: CallValue) -> Value {
    if call.name.starts_with('.') {
        method(call)
    } else if call.name.ends_with('!') {
        macro_(call)
    } else {
        function(call)
    }
}

/// Builder methods of client crates share names with `Option`'s (`take`, `read`, `lock`).
fn is_builder(call: &CallValue) -> bool {
    let builder = |ty: &str| ty.contains("::") && tables().builder(ty).is_some();
    builder(&call.receiver) || matches!(&call.args[0], Value::Call(inner) if builder(&inner.receiver))
}

fn environment(name: &str) -> Value {
    if tables().is_identity_env(name) { Value::Identity(name.to_owned()) } else { Value::Env(name.to_owned()) }
}

fn last_two(path: &str) -> Option<(&str, &str)> {
    let (head, name) = path.rsplit_once("::")?;
    Some((head.rsplit("::").next().unwrap_or(head), name))
}

fn int(n: u128) -> Value {
    Value::Const(Lit::Int(i64::try_from(n).unwrap_or(i64::MAX)))
}

fn scaled(n: &Value, unit: i64) -> Option<Value> {
    match n {
        Value::Const(Lit::Int(n)) => {
            Some(Value::Const(Lit::Duration(u128::try_from(*n).ok()?.saturating_mul(u128::try_from(unit).ok()?))))
        }
        Value::Const(Lit::Float(x)) if *x >= 0.0 && x.is_finite() => {
            Some(Value::Const(Lit::Duration((x * unit as f64) as u128)))
        }
        Value::Join(members) => {
            let list: Option<Vec<Value>> = members.iter().map(|m| scaled(m, unit)).collect();
            list?.into_iter().reduce(Value::join)
        }
        _ => None,
    }
}

/// The payload of an `Option`: `Some(x)` gives `x`, `None` nothing; everything else is seen through.
pub(super) fn payload(value: Value) -> Value {
    match value {
        Value::Aggregate(path, fields) if matches!(path.as_str(), "Some" | "Ok") && fields.len() == 1 => {
            fields[0].1.clone()
        }
        Value::Path(path) if path == "None" => Value::Unknown,
        Value::Aggregate(path, _) if path == "Err" => Value::Unknown,
        Value::Join(members) => {
            members.into_iter().filter(|m| !is_absent(m)).map(payload).reduce(Value::join).unwrap_or(Value::Unknown)
        }
        other => other,
    }
}

/// `None` or `Err(..)`.
pub(super) fn is_absent(value: &Value) -> bool {
    match value {
        Value::Path(path) => path == "None",
        Value::Aggregate(path, _) => path == "Err",
        _ => false,
    }
}

fn unwrap_or(receiver: Value, other: Value) -> Value {
    match receiver {
        Value::Path(path) if path == "None" => other,
        Value::Aggregate(path, fields) if path == "Some" => payload(Value::Aggregate(path, fields)),
        Value::Const(lit) => Value::Const(lit),
        // The saturating end of a conversion (`try_into().unwrap_or(u64::MAX)`) says nothing.
        receiver if receiver != Value::Unknown && matches!(&other, Value::Path(p) if p.ends_with("::MAX")) => {
            payload(receiver)
        }
        // Nothing is known of it but that it may be absent: then it is the other.
        Value::Unknown => Value::Unknown,
        receiver => payload(receiver).join(other),
    }
}

/// Text operations on known text.
fn text_method(name: &str, args: &[Value]) -> Option<Value> {
    let receiver = args.first()?;
    match (name, args) {
        ("to_lowercase" | "to_ascii_lowercase", [Value::Const(Lit::Str(s))]) => Some(Value::str(s.to_lowercase())),
        ("to_uppercase" | "to_ascii_uppercase", [Value::Const(Lit::Str(s))]) => Some(Value::str(s.to_uppercase())),
        ("trim", [Value::Const(Lit::Str(s))]) => Some(Value::str(s.trim())),
        ("to_string", [Value::Const(Lit::Int(n))]) => Some(Value::str(n.to_string())),
        ("replace" | "replacen", [_, from, to, ..]) => replace(receiver, from.as_str()?, to),
        ("join" | "concat", [Value::Aggregate(path, members), rest @ ..]) if path == "[]" => {
            let separator = match rest {
                [] => String::new(),
                [separator] => separator.as_str()?.to_owned(),
                _ => return None,
            };
            let mut pieces = Vec::new();
            for (i, (_, member)) in members.iter().enumerate() {
                if i > 0 {
                    pieces.push(Piece::Text(separator.clone()));
                }
                pieces.push(Piece::Hole(member.clone()));
            }
            Some(template(pieces))
        }
        ("parse", [Value::Const(Lit::Str(s))]) => s.trim().parse().ok().map(|n| Value::Const(Lit::Int(n))),
        ("parse", [value]) => Some(value.clone()),
        ("len", [Value::Const(Lit::Str(s))]) => Some(int(s.len() as u128)),
        _ => None,
    }
}

/// `text.replace(from, to)` where `from` lies within constant parts.
fn replace(value: &Value, from: &str, to: &Value) -> Option<Value> {
    if from.is_empty() {
        return None;
    }
    let pieces = match value {
        Value::Const(Lit::Str(s)) => vec![Piece::Text(s.clone())],
        Value::Template(pieces) => pieces.to_vec(),
        _ => return None,
    };
    let mut out = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Text(text) => {
                for (i, part) in text.split(from).enumerate() {
                    if i > 0 {
                        out.push(Piece::Hole(to.clone()));
                    }
                    out.push(Piece::Text(part.to_owned()));
                }
            }
            hole => out.push(hole),
        }
    }
    Some(template(out))
}

fn number_method(name: &str, args: &[Value]) -> Option<Value> {
    let [a, b] = args else {
        return match (name, args) {
            ("to_std" | "unsigned_abs" | "get" | "as_duration", [v @ Value::Const(Lit::Duration(_) | Lit::Int(_))]) => {
                Some(v.clone())
            }
            ("abs", [Value::Const(Lit::Int(n))]) => Some(Value::Const(Lit::Int(n.saturating_abs()))),
            ("clamp", [v, low, high]) => Some(extreme("min", extreme("max", v.clone(), low.clone()), high.clone())),
            _ => None,
        };
    };
    let op = match name {
        "saturating_add" | "checked_add" | "wrapping_add" | "add" => BinaryOp::Add,
        "saturating_sub" | "checked_sub" | "wrapping_sub" | "sub" => BinaryOp::Sub,
        "saturating_mul" | "checked_mul" | "wrapping_mul" | "mul" | "mul_f64" | "mul_f32" => BinaryOp::Mul,
        "checked_div" | "saturating_div" | "div" | "div_f64" | "div_f32" | "div_ceil" => BinaryOp::Div,
        "min" | "max" if plain(a) && plain(b) => return Some(extreme(name, a.clone(), b.clone())),
        _ => return None,
    };
    match binary(op, a, b) {
        Value::Operation(..) if matches!(name, "add" | "sub" | "mul" | "div") => None,
        value => Some(value),
    }
}

/// Numbers, durations and what may be some.
fn plain(value: &Value) -> bool {
    !matches!(value, Value::Aggregate(..) | Value::Closure(_) | Value::Template(_))
}

fn extreme(name: &str, a: Value, b: Value) -> Value {
    let first_wins = match (&a, &b) {
        (Value::Const(Lit::Int(x)), Value::Const(Lit::Int(y))) => (x < y) == (name == "min"),
        (Value::Const(Lit::Duration(x)), Value::Const(Lit::Duration(y))) => (x < y) == (name == "min"),
        _ => return Value::Operation(name.to_owned(), vec![a, b].into()),
    };
    if first_wins { a } else { b }
}

/// An operator on two values; each member of a small join by itself.
pub(super) fn binary(op: BinaryOp, a: &Value, b: &Value) -> Value {
    if let (Value::Join(members), Value::Const(_)) = (a, b) {
        return members.iter().map(|m| binary(op, m, b)).reduce(Value::join).unwrap_or(Value::Unknown);
    }
    if let (Value::Const(_), Value::Join(members)) = (a, b) {
        return members.iter().map(|m| binary(op, a, m)).reduce(Value::join).unwrap_or(Value::Unknown);
    }
    folded(op, a, b).unwrap_or_else(|| Value::Operation(sign(op).to_owned(), vec![a.clone(), b.clone()].into()))
}

fn folded(op: BinaryOp, a: &Value, b: &Value) -> Option<Value> {
    use Lit::{Bool, Duration, Float, Int, Str};
    let (Value::Const(x), Value::Const(y)) = (a, b) else {
        let textual = |v: &Value| matches!(v, Value::Const(Str(_)) | Value::Template(_));
        if op == BinaryOp::Add && (textual(a) || textual(b)) {
            return Some(template(vec![Piece::Hole(a.clone()), Piece::Hole(b.clone())]));
        }
        return None;
    };
    Some(Value::Const(match (op, x, y) {
        (BinaryOp::Add, Int(x), Int(y)) => Int(x.saturating_add(*y)),
        (BinaryOp::Sub, Int(x), Int(y)) => Int(x.saturating_sub(*y)),
        (BinaryOp::Mul, Int(x), Int(y)) => Int(x.saturating_mul(*y)),
        (BinaryOp::Div, Int(x), Int(y)) => Int(x.checked_div(*y)?),
        (BinaryOp::Rem, Int(x), Int(y)) => Int(x.checked_rem(*y)?),
        (BinaryOp::Add, Duration(x), Duration(y)) => Duration(x.saturating_add(*y)),
        (BinaryOp::Sub, Duration(x), Duration(y)) => Duration(x.saturating_sub(*y)),
        (BinaryOp::Mul, Duration(x), Int(y)) | (BinaryOp::Mul, Int(y), Duration(x)) => {
            Duration(x.saturating_mul(u128::try_from(*y).ok()?))
        }
        (BinaryOp::Div, Duration(x), Int(y)) => Duration(x.checked_div(u128::try_from(*y).ok()?)?),
        (BinaryOp::Mul, Duration(x), Float(y)) if *y >= 0.0 => Duration((*x as f64 * y) as u128),
        (BinaryOp::Div, Duration(x), Float(y)) if *y > 0.0 => Duration((*x as f64 / y) as u128),
        (BinaryOp::Add, Float(x), Float(y)) => Float(x + y),
        (BinaryOp::Sub, Float(x), Float(y)) => Float(x - y),
        (BinaryOp::Mul, Float(x), Float(y)) => Float(x * y),
        (BinaryOp::Div, Float(x), Float(y)) => Float(x / y),
        (BinaryOp::Add, Str(x), Str(y)) => Str(format!("{x}{y}")),
        (BinaryOp::Eq, x, y) => Bool(x == y),
        (BinaryOp::Ne, x, y) => Bool(x != y),
        (BinaryOp::Lt, Int(x), Int(y)) => Bool(x < y),
        (BinaryOp::Le, Int(x), Int(y)) => Bool(x <= y),
        (BinaryOp::Gt, Int(x), Int(y)) => Bool(x > y),
        (BinaryOp::Ge, Int(x), Int(y)) => Bool(x >= y),
        (BinaryOp::And, Bool(x), Bool(y)) => Bool(*x && *y),
        (BinaryOp::Or, Bool(x), Bool(y)) => Bool(*x || *y),
        _ => return None,
    }))
}

/// The operator as written.
pub(super) fn sign(op: BinaryOp) -> &'static str {
    match op {
        BinaryOp::Eq => "==",
        BinaryOp::Ne => "!=",
        BinaryOp::Lt => "<",
        BinaryOp::Le => "<=",
        BinaryOp::Gt => ">",
        BinaryOp::Ge => ">=",
        BinaryOp::Add => "+",
        BinaryOp::Sub => "-",
        BinaryOp::Mul => "*",
        BinaryOp::Div => "/",
        BinaryOp::Rem => "%",
        BinaryOp::And => "&&",
        BinaryOp::Or => "||",
        BinaryOp::Bits => "^",
    }
}

/// Rebuilds an operation whose operands have changed.
pub(super) fn operation(name: String, operands: Vec<Value>) -> Value {
    const OPS: [BinaryOp; 14] = [
        BinaryOp::Eq,
        BinaryOp::Ne,
        BinaryOp::Lt,
        BinaryOp::Le,
        BinaryOp::Gt,
        BinaryOp::Ge,
        BinaryOp::Add,
        BinaryOp::Sub,
        BinaryOp::Mul,
        BinaryOp::Div,
        BinaryOp::Rem,
        BinaryOp::And,
        BinaryOp::Or,
        BinaryOp::Bits,
    ];
    match (name.as_str(), operands.as_slice()) {
        ("min" | "max", [a, b]) => extreme(&name, a.clone(), b.clone()),
        (sign_, [a, b]) => match OPS.into_iter().find(|op| sign(*op) == sign_) {
            Some(op) => binary(op, a, b),
            None => Value::Operation(name, operands.into()),
        },
        _ => Value::Operation(name, operands.into()),
    }
}

/// A template: constants become text, inner templates are flattened, adjacent texts joined. Without holes it is a constant.
pub(super) fn template(pieces: Vec<Piece>) -> Value {
    let mut out: Vec<Piece> = Vec::new();
    append(&mut out, pieces);
    match out.as_slice() {
        [] => Value::str(""),
        [Piece::Text(_)] => match out.swap_remove(0) {
            Piece::Text(text) => Value::Const(Lit::Str(text)),
            Piece::Hole(hole) => hole,
        },
        _ => Value::Template(out.into()),
    }
}

fn append(out: &mut Vec<Piece>, pieces: Vec<Piece>) {
    let text = |out: &mut Vec<Piece>, text: String| match out.last_mut() {
        Some(Piece::Text(last)) => last.push_str(&text),
        _ if text.is_empty() => {}
        _ => out.push(Piece::Text(text)),
    };
    for piece in pieces {
        match piece {
            Piece::Text(t) => text(out, t),
            Piece::Hole(Value::Const(Lit::Str(s))) => text(out, s),
            Piece::Hole(Value::Const(Lit::Int(n))) => text(out, n.to_string()),
            Piece::Hole(Value::Const(Lit::Bool(b))) => text(out, b.to_string()),
            Piece::Hole(Value::Template(inner)) => append(out, Shared::take(inner)),
            // A newtype is written as what it holds.
            Piece::Hole(Value::Aggregate(path, fields))
                if fields.len() == 1 && fields[0].0 == "0" && !matches!(path.as_str(), "()" | "[]") =>
            {
                append(out, vec![Piece::Hole(fields[0].1.clone())]);
            }
            hole => out.push(hole),
        }
    }
}

/// `value as ty`.
pub(super) fn cast(value: Value, ty: &Ty) -> Value {
    match (value, ty.path.as_str()) {
        (Value::Const(Lit::Float(x)), "u64" | "i64" | "u32" | "i32" | "usize" | "isize" | "u128" | "i128" | "u16") => {
            Value::Const(Lit::Int(x as i64))
        }
        (Value::Const(Lit::Int(n)), "f64" | "f32") => Value::Const(Lit::Float(n as f64)),
        (Value::Const(Lit::Bool(b)), path) if path.starts_with(['u', 'i']) => Value::Const(Lit::Int(i64::from(b))),
        (value, _) => value,
    }
}

/// Member `name` of a value.
pub(super) fn field(base: Value, name: &str) -> Value {
    match base {
        Value::Aggregate(path, fields) => {
            if let Some((_, value)) = fields.iter().find(|(n, _)| n == name) {
                return value.clone();
            }
            match fields.into_iter().find(|(n, _)| n == "..") {
                Some((_, rest)) => field(rest, name),
                // Reached through `Some` or a newtype whose layer was not seen.
                None if path == "Some" => Value::Unknown,
                None => Value::Unknown,
            }
        }
        Value::Join(members) => members
            .into_iter()
            .filter(|m| !is_absent(m))
            .map(|m| field(payload(m), name))
            .reduce(Value::join)
            .unwrap_or(Value::Unknown),
        Value::Unknown | Value::Const(_) | Value::Template(_) => Value::Unknown,
        // Members of what is random or names the host are so themselves.
        value @ (Value::Fresh(_) | Value::PerProcess(_) | Value::Identity(_)) => value,
        base => Value::Field(Shared::from(base), name.to_owned()),
    }
}
