//! Lengths of time that can be compared: constants, and multiples of one value that nothing more is known of.

use super::Context;
use crate::ir::{FunctionId, Lit, TimeUnit, Ttl, Value};
use crate::link::matching::must_match;

/// A length of time.
#[derive(Clone, Debug, PartialEq)]
pub enum Length {
    /// Nanoseconds.
    Fixed(u128),
    /// So many times the value, which is a `Duration` (unit 0) or a count of so many nanoseconds.
    Of(Value, u128, f64),
}

impl Length {
    /// How many times `other` this length is, where both are multiples of the same thing.
    pub fn ratio(&self, other: &Length) -> Option<f64> {
        match (self, other) {
            (Length::Fixed(a), Length::Fixed(b)) if *b > 0 => Some(*a as f64 / *b as f64),
            (Length::Of(a, x, f), Length::Of(b, y, g)) if must_match(a, b) && (*x == 0) == (*y == 0) && *g > 0.0 => {
                let units = if *x == 0 { 1.0 } else { *x as f64 / *y as f64 };
                Some(f / g * units)
            }
            _ => None,
        }
    }

    /// The length where it is a constant.
    pub fn fixed(&self) -> Option<u128> {
        match self {
            Length::Fixed(ns) => Some(*ns),
            Length::Of(..) => None,
        }
    }

    fn times(self, factor: f64) -> Length {
        match self {
            Length::Fixed(ns) => Length::Fixed((ns as f64 * factor) as u128),
            Length::Of(value, unit, times) => Length::Of(value, unit, times * factor),
        }
    }
}

impl Context<'_> {
    /// The lengths that a value of a function may be read as, the more general first: as written, with fields compared by
    /// their type, and as the constant that all constructors store. `unit` is that of a plain number.
    pub fn lengths(&self, function: FunctionId, value: &Value, unit: TimeUnit) -> Vec<Length> {
        let written = self.analyzer.comparable(function, value);
        let expanded = self.program.expanded(&written);
        let mut out: Vec<Length> = [written, expanded].iter().filter_map(|v| length(v, nanos(unit), 0)).collect();
        out.dedup();
        out
    }

    /// The lengths that an expiry may be read as.
    pub fn ttl_lengths(&self, function: FunctionId, ttl: &Ttl) -> Vec<Length> {
        match ttl {
            Ttl::After(value, unit) if !matches!(unit, TimeUnit::UnixSeconds | TimeUnit::UnixMilliseconds) => {
                self.lengths(function, value, *unit)
            }
            _ => Vec::new(),
        }
    }
}

/// Nanoseconds of one unit; 0 for a `Duration`.
fn nanos(unit: TimeUnit) -> u128 {
    match unit {
        TimeUnit::Seconds | TimeUnit::UnixSeconds => 1_000_000_000,
        TimeUnit::Milliseconds | TimeUnit::UnixMilliseconds => 1_000_000,
        TimeUnit::Duration => 0,
    }
}

fn length(value: &Value, unit: u128, depth: u32) -> Option<Length> {
    if depth > 8 {
        return None;
    }
    let again = |value: &Value, unit: u128| length(value, unit, depth + 1);
    match value {
        Value::Const(Lit::Duration(ns)) if *ns > 0 => Some(Length::Fixed(*ns)),
        Value::Const(Lit::Int(n)) if unit > 0 => u128::try_from(*n).ok().map(|n| Length::Fixed(n * unit)),
        Value::Const(_) | Value::Join(_) => None,
        Value::Operation(op, parts) => match (op.as_str(), parts.as_slice()) {
            ("/", [x, by]) => Some(again(x, unit)?.times(1.0 / number(by)?)),
            ("*", [x, by]) => match number(by) {
                Some(by) => Some(again(x, unit)?.times(by)),
                None => Some(again(by, unit)?.times(number(x)?)),
            },
            // At least what is not the constant floor.
            ("max", [x, floor] | [floor, x]) if number(floor).is_some() && number(x).is_none() => again(x, unit),
            ("max", [x, Value::Const(_)]) => again(x, unit),
            _ => None,
        },
        Value::Call(call) => {
            let name = call.name.rsplit(['.', ':']).next().unwrap_or("");
            let arg = |i: usize| call.args.get(i);
            match name {
                "from_secs" | "from_secs_f64" | "from_secs_f32" | "seconds" | "try_seconds" => {
                    again(arg(0)?, 1_000_000_000)
                }
                "from_millis" | "milliseconds" | "try_milliseconds" => again(arg(0)?, 1_000_000),
                "from_mins" | "minutes" => again(arg(0)?, 60_000_000_000),
                "as_secs" | "as_secs_f64" | "as_secs_f32" | "as_millis" | "num_seconds" | "num_milliseconds"
                | "as_micros" | "to_std" | "into" | "clone" | "unwrap_or_default" | "try_into" => again(arg(0)?, 0),
                "mul_f32" | "mul_f64" | "saturating_mul" => Some(again(arg(0)?, unit)?.times(number(arg(1)?)?)),
                "div_f32" | "div_f64" | "checked_div" | "saturating_div" | "div_ceil" => {
                    Some(again(arg(0)?, unit)?.times(1.0 / number(arg(1)?)?))
                }
                "max" => again(arg(0)?, unit),
                _ => base(value, unit),
            }
        }
        _ => base(value, unit),
    }
}

/// A value as the base of a length, if it is known to equal itself.
fn base(value: &Value, unit: u128) -> Option<Length> {
    must_match(value, value).then(|| Length::Of(value.clone(), unit, 1.0))
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Const(Lit::Int(n)) if *n > 0 => Some(*n as f64),
        Value::Const(Lit::Float(x)) if *x > 0.0 => Some(*x),
        _ => None,
    }
}
