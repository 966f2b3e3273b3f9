//! Time, tasks and cancellation: sleeping, ticking, racing against a deadline, starting and telling tasks.

use super::{Outcome, Site};
use crate::ir::{Atomicity, EffectKind, Handle, RoundTrip, Value};
use crate::model::Role;

/// A call that matched a row of this protocol.
pub fn call(site: &Site<'_>) -> Outcome {
    let value = || site.value_at(&site.row.value).unwrap_or(Value::Unknown);
    let mut span = site.span;
    let kind = match site.row.role {
        Role::Sleep => EffectKind::Sleep(length(value())),
        Role::Tick => {
            let (period, made) = period(site, &value());
            span = made.unwrap_or(span);
            EffectKind::Sleep(period)
        }
        Role::Timeout => EffectKind::Timeout(length(value())),
        Role::Spawn => EffectKind::Spawn(site.value_at(&site.row.body).unwrap_or(Value::Unknown)),
        Role::Signal => EffectKind::Signal(value()),
        Role::Observe => EffectKind::Observe(value()),
        _ => return Outcome::Silent,
    };
    let command = site.row.what.clone().unwrap_or_else(|| site.call.name().to_owned());
    let effect = crate::ir::Effect { span, command, kind, conditional: false };
    Outcome::Effect(Box::new(RoundTrip {
        handle: Handle::unknown(),
        effects: vec![effect],
        atomicity: Atomicity::Single,
        reply: None,
        certainty: site.certainty,
        model: site.row.id.clone(),
        guard: None,
    }))
}

/// The Duration that is waited: of a deadline `now + d`, the `d`.
fn length(value: Value) -> Value {
    match value {
        Value::Operation(operator, parts) if operator == "+" => {
            let mut rest = parts.iter().filter(|part| !matches!(part, Value::Clock { .. }));
            match (rest.next(), rest.next()) {
                (Some(one), None) => one.clone(),
                _ => Value::Operation(operator, parts),
            }
        }
        other => other,
    }
}

/// Period of the ticker that a value is, and where it is made: that is where a finding about the period stands.
fn period(site: &Site<'_>, value: &Value) -> (Value, Option<crate::source::Span>) {
    let Value::Call(call) = value else { return (Value::Unknown, None) };
    match site.models.find_value(call, None, site.versions) {
        Some(found) if found.row.role == Role::Interval => {
            let place = found.row.value.as_ref().and_then(|place| place.arg).unwrap_or(0);
            (call.args.get(place).cloned().unwrap_or(Value::Unknown), call.at.0)
        }
        _ => (Value::Unknown, None),
    }
}
