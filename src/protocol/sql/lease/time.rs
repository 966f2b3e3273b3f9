//! Time in SQL expressions: clocks, intervals, comparisons of deadlines.

use super::super::Reading;
use super::super::rows::own_column;
use super::super::text::clock_name;
use crate::frontend::sql::ast::{Expr, ExprKind, Table};
use crate::frontend::sql::walk::{Position, walk_expr};
use crate::ir::{Lit, TimeUnit, Ttl, Value};

fn any(e: &Expr, test: impl Fn(&Expr) -> bool) -> bool {
    let mut found = false;
    walk_expr(e, Position::Value, &mut |_| {}, &mut |e, _| found |= test(e));
    found
}

fn is_clock(e: &Expr) -> bool {
    match &e.kind {
        ExprKind::Call(f) => clock_name(f.last()),
        ExprKind::Column(path) => path.len() == 1 && clock_name(&path[0]),
        _ => false,
    }
}

/// Reads the server's clock.
pub(super) fn has_clock(e: &Expr) -> bool {
    any(e, is_clock)
}

/// A value of the caller, which may be a time.
pub(super) fn may_be_time(e: &Expr) -> bool {
    has_clock(e) || any(e, |e| matches!(e.kind, ExprKind::Param(_) | ExprKind::Hole(_)))
}

/// `clock + something`.
pub(super) fn is_future(e: &Expr) -> bool {
    match &e.bare().kind {
        ExprKind::Binary(op, l, r) if op == "+" => has_clock(l) || has_clock(r),
        ExprKind::Call(f) => {
            matches!(f.last(), "date_add" | "dateadd" | "timestampadd" | "datetime" | "unixepoch") && f.args.len() > 1
        }
        _ => false,
    }
}

/// The clock itself, or `clock - something`.
pub(super) fn is_now_or_past(e: &Expr) -> bool {
    match &e.bare().kind {
        ExprKind::Binary(op, l, _) if op == "-" => has_clock(l),
        _ => is_clock(e.bare()),
    }
}

/// A time column that a comparison finds in the past.
pub(super) struct Expired<'a> {
    /// The column.
    pub(super) column: String,
    /// The time of the caller that it is compared with; `None`: the server's clock.
    pub(super) now: Option<&'a Expr>,
}

/// The value of the caller in an expression.
fn sent(e: &Expr) -> Option<&Expr> {
    let sent = |e: &Expr| matches!(e.kind, ExprKind::Param(_) | ExprKind::Hole(_));
    match &e.bare().kind {
        _ if sent(e.bare()) => Some(e.bare()),
        ExprKind::Binary(_, l, r) => self::sent(l).or_else(|| self::sent(r)),
        _ => None,
    }
}

/// The column of `table` that `l op r` finds in the past: `until < now()`, `now() - heartbeat > interval '1 min'`,
/// `locked_at + interval '5 min' <= $2`.
pub(super) fn expired<'a>(
    reading: &Reading<'_>,
    table: &Table,
    op: &str,
    l: &'a Expr,
    r: &'a Expr,
) -> Option<Expired<'a>> {
    let less = match op {
        "<" | "<=" => true,
        ">" | ">=" => false,
        _ => return None,
    };
    let column = |e: &Expr| {
        let mut found = None;
        walk_expr(e, Position::Filter, &mut |_| {}, &mut |e, _| {
            if found.is_none() {
                found = own_column(reading, table, e);
            }
        });
        found
    };
    let (left, right) = (column(l), column(r));
    let (name, on_left, side, other) = match (left, right) {
        (Some(name), None) => (name, true, l, r),
        (None, Some(name)) => (name, false, r, l),
        _ => return None,
    };
    // `now() - heartbeat`: the older the column, the larger the difference.
    let negated = any(
        side,
        |e| matches!(&e.kind, ExprKind::Binary(op, a, b) if op == "-" && may_be_time(a) && column(b).is_some()),
    );
    let timed = negated
        || has_clock(side)
        || has_clock(other)
        || matches!(other.bare().kind, ExprKind::Param(_) | ExprKind::Hole(_));
    let past = less == on_left;
    let now = if has_clock(side) || has_clock(other) { None } else { sent(other).or_else(|| sent(side)) };
    (timed && past != negated).then_some(Expired { column: name, now })
}

/// The time to live that an expression sets: `now() + interval '30 seconds'`.
pub(super) fn ttl(e: &Expr, value: &dyn Fn(&Expr) -> Value) -> Ttl {
    match &e.bare().kind {
        ExprKind::Binary(op, l, r) if op == "+" && has_clock(l) => interval(r, value),
        ExprKind::Binary(op, l, r) if op == "+" && has_clock(r) => interval(l, value),
        ExprKind::Call(f) if matches!(f.last(), "date_add" | "timestampadd" | "dateadd") => {
            f.args.iter().find(|a| !has_clock(a)).map_or(Ttl::Unknown, |a| interval(a, value))
        }
        ExprKind::Param(_) | ExprKind::Hole(_) => match value(e) {
            // A deadline by the caller's clock.
            Value::Unknown => Ttl::Unknown,
            deadline => Ttl::After(deadline, TimeUnit::UnixSeconds),
        },
        _ => Ttl::Unknown,
    }
}

fn interval(e: &Expr, value: &dyn Fn(&Expr) -> Value) -> Ttl {
    match &e.bare().kind {
        ExprKind::Str(s) => match parse(s) {
            Some(nanos) => Ttl::After(Value::Const(Lit::Duration(nanos)), TimeUnit::Duration),
            None => Ttl::Unknown,
        },
        ExprKind::Call(f) if f.name == "interval" => match f.args.as_slice() {
            [n, unit] => match (&n.bare().kind, &unit.kind) {
                (ExprKind::Number(n) | ExprKind::Str(n), ExprKind::Str(unit)) => match parse(&format!("{n} {unit}")) {
                    Some(nanos) => Ttl::After(Value::Const(Lit::Duration(nanos)), TimeUnit::Duration),
                    None => Ttl::Unknown,
                },
                (_, ExprKind::Str(unit)) if unit == "second" => Ttl::After(value(n), TimeUnit::Seconds),
                _ => Ttl::Unknown,
            },
            [one] => interval(one, value),
            _ => Ttl::Unknown,
        },
        ExprKind::Call(f) if f.last() == "make_interval" => match (f.arg("secs", 6), f.args.len()) {
            (Some(secs), 1) => seconds(value(secs)),
            _ => Ttl::Unknown,
        },
        // `$1 * interval '1 second'`
        ExprKind::Binary(op, l, r) if op == "*" => {
            let unit = |e: &Expr| match interval(e, value) {
                Ttl::After(Value::Const(Lit::Duration(n)), _) => Some(n),
                _ => None,
            };
            let (factor, unit) = match (unit(l), unit(r)) {
                (Some(n), _) => (value(r), n),
                (_, Some(n)) => (value(l), n),
                _ => return Ttl::Unknown,
            };
            match (factor.as_int(), unit) {
                (Some(n), unit) if n >= 0 => {
                    Ttl::After(Value::Const(Lit::Duration(unit.saturating_mul(n as u128))), TimeUnit::Duration)
                }
                (None, 1_000_000_000) => Ttl::After(factor, TimeUnit::Seconds),
                (None, 1_000_000) => Ttl::After(factor, TimeUnit::Milliseconds),
                _ => Ttl::Unknown,
            }
        }
        // `($1 || ' seconds')::interval`
        ExprKind::Binary(op, l, r) if op == "||" => match &r.bare().kind {
            ExprKind::Str(unit) => match unit.trim() {
                "second" | "seconds" | "s" | "sec" | "secs" => seconds(value(l.bare())),
                "millisecond" | "milliseconds" | "ms" => Ttl::After(value(l.bare()), TimeUnit::Milliseconds),
                _ => Ttl::Unknown,
            },
            _ => Ttl::Unknown,
        },
        ExprKind::Param(_) | ExprKind::Hole(_) => match value(e.bare()) {
            v @ Value::Const(Lit::Duration(_)) => Ttl::After(v, TimeUnit::Duration),
            _ => Ttl::Unknown,
        },
        // Each row says how long it may be held.
        ExprKind::Column(_) => Ttl::After(value(e.bare()), TimeUnit::Duration),
        _ => Ttl::Unknown,
    }
}

fn seconds(value: Value) -> Ttl {
    match value.as_int() {
        Some(n) if n >= 0 => Ttl::After(Value::Const(Lit::Duration(n as u128 * 1_000_000_000)), TimeUnit::Duration),
        _ => Ttl::After(value, TimeUnit::Seconds),
    }
}

/// Nanoseconds of `30 seconds`, `1 hour 5 min`, `00:05:00` (PostgreSQL manual, 8.5.4).
pub(in crate::protocol::sql) fn parse(text: &str) -> Option<u128> {
    let mut total: u128 = 0;
    let mut number: Option<f64> = None;
    let spaced: String = text
        .chars()
        .zip(text.chars().skip(1).chain([' ']))
        .flat_map(|(a, b)| if a.is_ascii_digit() && b.is_alphabetic() { vec![a, ' '] } else { vec![a] })
        .collect();
    for word in spaced.split_whitespace() {
        if let Ok(n) = word.parse::<f64>() {
            number = Some(n);
            continue;
        }
        let clock: Vec<f64> = word.split(':').map(str::parse).collect::<Result<_, _>>().unwrap_or_default();
        if let [h, m, rest @ ..] = clock.as_slice() {
            let s = rest.first().copied().unwrap_or(0.0);
            total += ((h * 3600.0 + m * 60.0 + s).max(0.0) * 1e9) as u128;
            continue;
        }
        let unit = match word.to_ascii_lowercase().trim_end_matches('s') {
            "microsecond" | "u" => 1e3,
            "millisecond" | "m" if word.len() < 3 || word.starts_with("milli") => 1e6,
            "" | "second" | "sec" => 1e9,
            "minute" | "min" | "m" => 60e9,
            "hour" | "h" | "hr" => 3600e9,
            "day" | "d" => 86400e9,
            "week" | "w" => 604800e9,
            _ => return None,
        };
        total += (number.take()?.max(0.0) * unit) as u128;
    }
    match number {
        // A bare number is seconds.
        Some(n) => Some(total + (n.max(0.0) * 1e9) as u128),
        None => (total > 0).then_some(total),
    }
}
