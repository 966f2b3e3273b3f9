//! Items of DynamoDB as locks: put under the condition that there is none (or that the one there is over), changed and
//! deleted under a condition on what was read (Amazon DynamoDB Developer Guide, "Condition expressions"). Its own TTL deletes
//! within days: until when a lock is held is compared by its clients.

use super::super::external::{Request, Setting};
use super::store::{self, Condition};
use crate::ir::{Backend, EffectKind, Overdue, Piece, Reply, Resource, Shape, Value};

const BACKEND: Backend = Backend::DynamoDb;

/// What a request does to the item that it names.
pub fn effects(request: &Request) -> Option<(Vec<EffectKind>, Option<Reply>)> {
    let key = item(request);
    if matches!(&key, Value::Template(pieces) if pieces.iter().any(|p| matches!(p, Piece::Hole(v) if made_anew(v)))) {
        return None;
    }
    let value = written(request);
    let condition = condition(request);
    let mut effects = match request.method.as_str() {
        "DynamoDB put" | "DynamoDB update" => store::put(BACKEND, key, value.as_ref(), &condition),
        "DynamoDB delete" => vec![store::release(BACKEND, key, &condition)],
        "DynamoDB get" => return Some((vec![EffectKind::Read(Resource::Key(BACKEND, key))], None)),
        _ => return None,
    };
    if condition == Condition::Absent {
        effects.extend(overdue(request).map(EffectKind::Overdue));
    }
    Some((effects, Some(Reply { held: Shape::Unknown.ok(), lost: Shape::err(), failed: Shape::err() })))
}

/// The table, and the key of the item in it: of an item that is put, what comes first.
fn item(request: &Request) -> Value {
    let table = request.url.clone().unwrap_or(Value::Unknown);
    let named = |what: &str| request.settings.iter().find(|s| s.what == what).map(|s| attribute(&s.value));
    let key = named("key").or_else(|| named("item")).unwrap_or(Value::Unknown);
    Value::Template(vec![Piece::Hole(table), Piece::Text("/".into()), Piece::Hole(key)].into())
}

fn made_anew(value: &Value) -> bool {
    !matches!(value, Value::Unknown) && store::is_fresh(value)
}

/// What is in `AttributeValue::S(..)`.
fn attribute(value: &Value) -> Value {
    match value {
        Value::Aggregate(path, fields) if fields.len() == 1 && path.contains("AttributeValue") => fields[0].1.clone(),
        Value::Call(call) if call.args.len() == 1 && call.name.contains("AttributeValue::") => call.args[0].clone(),
        other => other.clone(),
    }
}

/// What the item holds afterwards, by the names of its attributes or of the values that the expressions use.
fn written(request: &Request) -> Option<Value> {
    let fields: Vec<(String, Value)> = request
        .settings
        .iter()
        .filter(|s| matches!(s.what.as_str(), "item" | "value") && !compared_only(request, s.name.as_ref()))
        .map(|s| {
            let name = s.name.as_ref().and_then(Value::as_str).unwrap_or("").trim_start_matches(':').to_owned();
            (name, attribute(&s.value))
        })
        .collect();
    (!fields.is_empty()).then(|| Value::Aggregate("DynamoDB item".into(), fields.into()))
}

/// A value that stands in the condition and nowhere in what is set.
fn compared_only(request: &Request, name: Option<&Value>) -> bool {
    let Some(name) = name.and_then(Value::as_str).filter(|n| n.starts_with(':')) else { return false };
    let within = |what: &str| text_of(request, what).is_some_and(|text| places(&text).any(|place| place == name));
    within("condition") && !within("update")
}

/// The `:names` in an expression.
fn places(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':' || c == '#'))
        .filter(|w| w.starts_with(':'))
}

/// The constant text of an expression, holes left out.
fn text_of(request: &Request, what: &str) -> Option<String> {
    let setting = request.settings.iter().find(|s| s.what == what)?;
    text(&setting.value, 0)
}

fn text(value: &Value, depth: usize) -> Option<String> {
    match value {
        Value::Template(pieces) => {
            let parts = pieces.iter().map(|piece| match piece {
                Piece::Text(text) => text.clone(),
                Piece::Hole(hole) => text(hole, depth + 1).unwrap_or_else(|| "_".into()),
            });
            Some(parts.collect())
        }
        Value::Call(call) if depth < 8 && call.args.len() == 1 => text(&call.args[0], depth + 1),
        other => other.as_str().map(str::to_owned),
    }
}

fn condition(request: &Request) -> Condition {
    let Some(setting) = request.settings.iter().find(|s| s.what == "condition") else { return Condition::None };
    match text(&setting.value, 0) {
        _ if setting.conditional => Condition::Unknown,
        Some(_) if absent(&setting.value) => Condition::Absent,
        Some(text) if !text.is_empty() => Condition::Is(Value::str(text)),
        _ => Condition::Unknown,
    }
}

/// Whether a condition lets through what is not there yet.
pub fn absent(condition: &Value) -> bool {
    text(condition, 0).is_some_and(|text| text.to_ascii_lowercase().contains("attribute_not_exists"))
}

/// A time in the item that the condition compares with one that the caller sends: `expires < :now`.
fn overdue(request: &Request) -> Option<Overdue> {
    let condition = text_of(request, "condition")?;
    let words: Vec<&str> = condition.split_whitespace().map(|w| w.trim_matches(['(', ')', ','])).collect();
    words.windows(3).find_map(|w| {
        let (column, place) = match (w[1], w[0].starts_with(':'), w[2].starts_with(':')) {
            ("<" | "<=", false, true) => (w[0], w[2]),
            (">" | ">=", true, false) => (w[2], w[0]),
            _ => return None,
        };
        let sent = request
            .settings
            .iter()
            .find(|s| s.what == "value" && s.name.as_ref().and_then(Value::as_str) == Some(place))?;
        let column = attribute_name(request, column);
        if !store::names_time(&column) {
            return None;
        }
        let table = request.url.as_ref().and_then(Value::as_str).unwrap_or("items").to_owned();
        Some(Overdue { table, column, now: Some(attribute(&sent.value)) })
    })
}

/// The attribute that a name in an expression stands for: `#until`.
fn attribute_name(request: &Request, name: &str) -> String {
    let given = |s: &&Setting| s.what == "name" && s.name.as_ref().and_then(Value::as_str) == Some(name);
    let found = request.settings.iter().find(given).and_then(|s| s.value.as_str());
    found.unwrap_or(name).to_owned()
}
