//! Consul by plain HTTP requests.
//!
//! `PUT /v1/kv/K?acquire=S` answers 200 either way, with `true` or `false` in the body; `PUT /v1/session/renew/S` answers 404 once
//! the session is gone; a session without a TTL ends only with its node (Consul API, "KV Store" and "Session").

use super::super::external::Request;
use super::access::RESPONSE;
use crate::ir::{
    Acquire, AcquireForm, Backend, EffectKind, Grant, Lit, LockKind, OwnerCheck, Piece, Release, Renew, Reply,
    Resource, Safety, Shape, TimeUnit, Ttl, Value, Write,
};

const BACKEND: Backend = Backend::Consul;
/// Parts of URLs that nothing else is called by, for the text search.
pub const TELLING_WORDS: &[&str] = &["v1/session/create", "v1/session/renew", "v1/kv/"];
/// Stands for a hole in a URL that is read as text, followed by its number and itself again.
const HOLE: char = '\u{1}';

/// What a request does if it goes to the key-value store or the sessions of Consul.
pub fn request(request: &Request) -> Option<(EffectKind, Option<Reply>)> {
    let url = Url::of(request)?;
    if let Some(rest) = url.after("v1/session/") {
        let (verb, id) = rest.split_once('/').unwrap_or((rest, ""));
        let id = || url.value(id);
        return match (request.method.as_str(), verb) {
            ("HTTP PUT", "create") => {
                Some((EffectKind::Grant(Grant { backend: BACKEND, ttl: session_ttl(request) }), None))
            }
            ("HTTP PUT", "renew") => Some((
                EffectKind::Renew(Renew { backend: BACKEND, key: id(), check: OwnerCheck::Server, ttl: Ttl::Managed }),
                Some(reply(response("ok", true), response("ok", false))),
            )),
            ("HTTP PUT", "destroy") => {
                Some((release(id(), OwnerCheck::Server), Some(reply(answer(true), answer(false)))))
            }
            _ => None,
        };
    }
    let key = url.value(url.after("v1/kv/")?);
    let compared = url.parameter("cas").is_some();
    let outcome = Some(reply(answer(true), answer(false)));
    match request.method.as_str() {
        "HTTP PUT" => {
            if let Some(session) = url.parameter("acquire") {
                let acquire = Acquire {
                    backend: BACKEND,
                    kind: LockKind::Lease,
                    form: AcquireForm::LockApi,
                    key,
                    // Without a TTL of its own the session is at fault, not what is taken with it.
                    ttl: granted(&session, 0).filter(|ttl| *ttl != Ttl::Never).unwrap_or(Ttl::Managed),
                    token: session,
                    blocking: false,
                };
                return Some((EffectKind::Acquire(acquire), outcome));
            }
            if url.parameter("release").is_some() {
                return Some((release(key, OwnerCheck::Server), outcome));
            }
            let conditions = vec![("ModifyIndex".into(), "=".into(), url.parameter("cas").unwrap_or(Value::Unknown))];
            let write = Write {
                resource: Resource::Key(BACKEND, key),
                verb: "put".into(),
                safety: if compared { Safety::Conditions(conditions) } else { Safety::None },
                values: request.body.iter().cloned().collect(),
                assigned: Vec::new(),
                ttl: None,
            };
            Some((EffectKind::Write(write), None))
        }
        "HTTP DELETE" => {
            let check = if compared { OwnerCheck::Server } else { OwnerCheck::None };
            Some((release(key, check), outcome))
        }
        "HTTP GET" => Some((EffectKind::Read(Resource::Key(BACKEND, key)), None)),
        _ => None,
    }
}

fn release(key: Value, check: OwnerCheck) -> EffectKind {
    EffectKind::Release(Release { backend: BACKEND, kind: LockKind::Lease, key, check, all: false })
}

fn reply(held: Shape, lost: Shape) -> Reply {
    Reply { held, lost, failed: Shape::err() }
}

fn answer(won: bool) -> Shape {
    response("body", won)
}

fn response(field: &str, value: bool) -> Shape {
    Shape::Struct(RESPONSE.into(), vec![(field.into(), Shape::Bool(value))]).ok()
}

/// A duration as Consul writes it: `15s`, `1m30s`.
pub fn duration(value: &Value) -> Option<Ttl> {
    let value = match value {
        Value::Aggregate(path, fields) if path.rsplit("::").next() == Some("Some") => &fields.first()?.1,
        other => other,
    };
    let Some(text) = value.as_str() else {
        return match value {
            // `format!("{}s", seconds)`
            Value::Template(pieces) => match pieces.as_slice() {
                [Piece::Hole(number), Piece::Text(unit)] if unit == "s" => {
                    Some(super::ttl(number.clone(), TimeUnit::Seconds))
                }
                _ => None,
            },
            _ => None,
        };
    };
    let mut total: u128 = 0;
    let mut number = String::new();
    let mut unit = String::new();
    let mut parts = Vec::new();
    for c in text.chars() {
        if c.is_ascii_digit() {
            if !unit.is_empty() {
                parts.push((std::mem::take(&mut number), std::mem::take(&mut unit)));
            }
            number.push(c);
        } else {
            unit.push(c);
        }
    }
    parts.push((number, unit));
    for (number, unit) in parts {
        let scale: u128 = match unit.as_str() {
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        total = total.checked_add(number.parse::<u32>().ok().map(u128::from)?.checked_mul(scale)?)?;
    }
    Some(Ttl::After(Value::Const(Lit::Duration(total)), TimeUnit::Seconds))
}

/// The TTL in the body of a request that creates a session.
fn session_ttl(request: &Request) -> Ttl {
    let Some(body) = &request.body else { return Ttl::Never };
    match body {
        Value::Aggregate(_, fields) => match fields.iter().find(|(name, _)| name.eq_ignore_ascii_case("ttl")) {
            Some((_, value)) if super::is_none(value) => Ttl::Never,
            Some((_, value)) => duration(value).unwrap_or(Ttl::Unknown),
            // A name that is computed may be this one.
            None if fields.iter().any(|(name, _)| name == "*") => Ttl::Unknown,
            None => Ttl::Never,
        },
        Value::Const(Lit::Str(text)) => match text.split("\"TTL\"").nth(1) {
            None => Ttl::Never,
            Some(rest) => {
                let quoted = rest.split('"').nth(1).unwrap_or("");
                duration(&Value::str(quoted)).unwrap_or(Ttl::Unknown)
            }
        },
        _ => Ttl::Unknown,
    }
}

/// The TTL of the session that a value comes from: the request that created it stands in the chain.
pub(super) fn granted(value: &Value, depth: usize) -> Option<Ttl> {
    if depth > 16 {
        return None;
    }
    match value {
        Value::Call(call) => {
            let mut body = None;
            let mut next = Some(call);
            // `.put(url).json(&body).send()`: the body is set after the URL.
            while let Some(step) = next {
                match step.name.as_str() {
                    ".json" | ".body" if step.args.len() == 2 => body = step.args.get(1).cloned(),
                    ".put" | ".request" => {
                        let url = step.args.last().cloned();
                        let request = Request { method: "HTTP PUT".into(), url, body, ..Request::default() };
                        let url = Url::of(&request)?;
                        return url.after("v1/session/create").map(|_| session_ttl(&request));
                    }
                    _ => {}
                }
                next = match step.args.first() {
                    Some(Value::Call(inner)) => Some(inner),
                    _ => None,
                };
            }
            call.args.iter().find_map(|arg| granted(arg, depth + 1))
        }
        Value::Field(inner, _) => granted(inner, depth + 1),
        _ => None,
    }
}

/// A URL as text with numbered holes.
struct Url {
    path: String,
    parameters: Vec<(String, String)>,
    added: Vec<(String, Value)>,
    holes: Vec<Value>,
}

impl Url {
    fn of(request: &Request) -> Option<Url> {
        let mut text = String::new();
        let mut holes = Vec::new();
        flatten(request.url.as_ref()?, &mut text, &mut holes, 0);
        if !text.contains("v1/kv/") && !text.contains("v1/session/") {
            return None;
        }
        let (path, query) = text.split_once('?').unwrap_or((&text, ""));
        let pair = |pair: &str| match pair.split_once('=') {
            Some((name, value)) => (name.to_owned(), value.to_owned()),
            None => (pair.to_owned(), String::new()),
        };
        let parameters = query.split('&').filter(|part| !part.is_empty()).map(pair).collect();
        let mut added = Vec::new();
        request.parameters.iter().for_each(|list| pairs(list, &mut added));
        Some(Url { path: path.to_owned(), parameters, added, holes })
    }

    /// What follows this part of the path.
    fn after(&self, part: &str) -> Option<&str> {
        self.path.split_once(part).map(|(_, rest)| rest)
    }

    fn parameter(&self, name: &str) -> Option<Value> {
        let own = self.parameters.iter().find(|(n, _)| n == name).map(|(_, text)| self.value(text));
        own.or_else(|| self.added.iter().find(|(n, _)| n == name).map(|(_, value)| value.clone()))
    }

    /// Text with holes as a value.
    fn value(&self, text: &str) -> Value {
        let mut pieces: Vec<Piece> = Vec::new();
        for (at, part) in text.split(HOLE).enumerate() {
            if at % 2 == 0 {
                if !part.is_empty() {
                    pieces.push(Piece::Text(part.to_owned()));
                }
            } else if let Some(hole) = part.parse::<usize>().ok().and_then(|n| self.holes.get(n)) {
                pieces.push(Piece::Hole(hole.clone()));
            }
        }
        match pieces.as_slice() {
            [] => Value::Unknown,
            [Piece::Text(text)] => Value::str(text.clone()),
            [Piece::Hole(value)] => value.clone(),
            _ => Value::Template(pieces.into()),
        }
    }
}

fn flatten(value: &Value, text: &mut String, holes: &mut Vec<Value>, depth: usize) {
    match value {
        Value::Const(Lit::Str(part)) => text.push_str(part),
        Value::Template(pieces) if depth < 6 => {
            for piece in pieces {
                match piece {
                    Piece::Text(part) => text.push_str(part),
                    Piece::Hole(hole) => flatten(hole, text, holes, depth + 1),
                }
            }
        }
        // `base.join("v1/kv/..")`
        Value::Call(call) if depth < 6 && matches!(call.name.as_str(), ".join") => {
            call.args.iter().for_each(|arg| flatten(arg, text, holes, depth + 1));
        }
        other => {
            text.push(HOLE);
            text.push_str(&holes.len().to_string());
            text.push(HOLE);
            holes.push(other.clone());
        }
    }
}

fn pairs(list: &Value, out: &mut Vec<(String, Value)>) {
    let Value::Aggregate(_, members) = list else { return };
    for (_, member) in members {
        if let Value::Aggregate(_, pair) = member
            && let [(_, name), (_, value)] = pair.as_slice()
            && let Some(name) = name.as_str()
        {
            out.push((name.to_owned(), value.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn durations_are_read_as_consul_writes_them() {
        let read = |text: &str| match duration(&Value::str(text)) {
            Some(Ttl::After(Value::Const(Lit::Duration(ns)), _)) => Some(ns / 1_000_000),
            _ => None,
        };
        assert_eq!(read("15s"), Some(15_000));
        assert_eq!(read("1m30s"), Some(90_000));
        assert_eq!(read("500ms"), Some(500));
        assert_eq!(read("soon"), None);
        assert_eq!(read(""), None);
    }
}
