//! What a path through a script knows at a command: owner checks, absence, expiry; and what the script answers.

use super::term::{Event, Fact, Path, State, Term};
use crate::ir::{At, CallValue, EffectKind, Shared, Value, leaf};
use crate::protocol::redis::WireReply;

/// What a command does on one path.
#[derive(Clone, Debug, PartialEq)]
pub enum Role {
    /// Takes its key; whether it won.
    Take(bool),
    /// Removes the key or field, after this owner check.
    Give(Option<Term>),
    /// Sets an expiry: on a key just taken, after an owner check, only where there was none, or bare.
    Expiry(Expiry),
    /// Writes the key again after an owner check (a renewal), with the token compared.
    Rewrite(Term),
    /// Anything else.
    Other,
}

/// What an expiry is on one path.
#[derive(Clone, Debug, PartialEq)]
pub enum Expiry {
    /// Of a key just taken.
    OfTaken,
    /// After an owner check.
    Owned(Term),
    /// Only where there was none.
    Repair,
    /// Without looking.
    Bare,
}

/// A server-side value that is no constant.
pub fn call(name: &str, args: Vec<Value>) -> Value {
    Value::Call(Shared::from(CallValue {
        name: name.to_owned(),
        receiver: String::new(),
        args,
        generics: Vec::new(),
        at: At(None),
        conditional: false,
    }))
}

/// `SET .. NX PX` as people write it.
pub fn shown(event: &Event) -> String {
    let mut text = event.name.clone();
    for arg in event.args.iter().skip(2) {
        if let Term::Text(word) = arg
            && matches!(
                word.to_ascii_uppercase().as_str(),
                "NX" | "XX" | "GET" | "EX" | "PX" | "EXAT" | "PXAT" | "KEEPTTL"
            )
            && event.name == "SET"
        {
            text.push(' ');
            text.push_str(&word.to_ascii_uppercase());
        }
    }
    text
}

pub fn lock_key(kind: &EffectKind) -> Option<Value> {
    match kind {
        EffectKind::Acquire(lock) => Some(lock.key.clone()),
        EffectKind::Release(lock) => Some(lock.key.clone()),
        EffectKind::Renew(lock) => Some(lock.key.clone()),
        _ => None,
    }
}

/// The token that the path has compared with the owner stored under `key`, before event `e`.
pub fn owner_check(path: &Path, e: usize, key: &Term) -> Option<Term> {
    let reads = |n: usize| path.events[..e].get(n).is_some_and(|event| event.key() == key && event.name != "TIME");
    for fact in path.facts.iter().filter(|fact| fact.after <= e && fact.operator == "==" && fact.holds) {
        let any = |_: usize| true;
        if is_type(&fact.left) || is_type(&fact.right) || ordered(path, fact) {
            continue;
        }
        for (stored, token) in [(&fact.left, &fact.right), (&fact.right, &fact.left)] {
            let value = stored.mentions(&|n| {
                reads(n) && matches!(path.events[n].name.as_str(), "GET" | "HGET" | "HMGET" | "HGETALL" | "LINDEX")
            });
            if value && !token.mentions(&any) && !matches!(token, Term::Nil | Term::Bool(_)) {
                return Some(token.clone());
            }
        }
    }
    path.events[..e].iter().find_map(|event| {
        let field = matches!(event.name.as_str(), "HEXISTS" | "SISMEMBER") && event.state == State::Number(1);
        (field && event.key() == key).then(|| event.args.get(1).cloned()).flatten()
    })
}

/// `type(x)`: what is compared with it is no stored value.
fn is_type(term: &Term) -> bool {
    matches!(term, Term::Apply(name, _) if name == "type")
}

/// Whether the two sides of a test for equality are also tested for which is less: numbers, not owners.
fn ordered(path: &Path, equal: &Fact) -> bool {
    path.facts.iter().filter(|fact| matches!(fact.operator, "<" | "<=" | ">" | ">=")).any(|fact| {
        (fact.left == equal.left && fact.right == equal.right) || (fact.left == equal.right && fact.right == equal.left)
    })
}

/// Whether the path knows, before event `e`, that what the event writes is not there: its key, or its field of a hash.
pub fn is_absent(path: &Path, e: usize, key: &Term) -> bool {
    let written = &path.events[e].args;
    path.events[..e].iter().any(|event| {
        event.key() == key
            && match event.name.as_str() {
                "EXISTS" | "SCARD" | "HLEN" => event.state == State::Number(0),
                "GET" => event.state == State::Nil,
                // Another field of the hash says nothing about this one.
                "HGET" => event.state == State::Nil && event.args.get(1).is_some_and(|field| written.contains(field)),
                _ => false,
            }
    })
}

/// Whether the path has found, before event `e`, that what is stored is less than what the event writes: by `stored < new`, or
/// by a function of the script, `compare(stored, new) < 0`.
pub fn moves_on(path: &Path, e: usize, event: &Event) -> bool {
    let stored = |term: &Term| term.mentions(&|_| true);
    let written = |term: &Term| event.args.iter().skip(1).any(|arg| term.contains(arg));
    path.facts.iter().filter(|fact| fact.after <= e && matches!(fact.operator, "<" | "<=")).any(|fact| {
        [(&fact.left, &fact.right), (&fact.right, &fact.left)]
            .iter()
            .any(|(old, new)| stored(old) && (written(old) || !stored(new) && written(new)))
    })
}

/// Whether a write happens only where nothing is stored or less than what it writes, on all paths to it: nothing newer is lost.
pub fn only_raises(paths: &[Path], places: &[(usize, usize)], event: &Event) -> bool {
    let raises = |(p, e): &(usize, usize)| moves_on(&paths[*p], *e, event);
    let fills = |(p, e): &(usize, usize)| paths[*p].events[..*e].iter().any(|past| past.state == State::Nil);
    places.iter().any(raises) && places.iter().all(|place| raises(place) || fills(place))
}

/// Whether a term is a stored value or a number made of it, not a piece of its text.
pub fn is_whole(term: &Term) -> bool {
    match term {
        Term::Reply(_) | Term::Number(_) | Term::Key(_) | Term::Arg(_) => true,
        Term::Member(base, _) | Term::Decoded(base) => is_whole(base),
        Term::Apply(name, list) => {
            matches!(name.as_str(), "tonumber" | "tostring" | "+" | "-" | "*" | "/") && list.iter().all(is_whole)
        }
        _ => false,
    }
}

/// Whether a path of the script counts under `key` with INCR or DECR: what it removes then is a counter that reached its end.
pub fn counts(paths: &[Path], key: &Term) -> bool {
    let counter = |event: &Event| matches!(event.name.as_str(), "INCR" | "DECR" | "INCRBY" | "DECRBY");
    paths.iter().flat_map(|path| &path.events).any(|event| counter(event) && event.key() == key)
}

/// Whether the path has seen, before event `e`, that the key has no expiry (`TTL` answers -1).
pub fn has_no_ttl(path: &Path, e: usize, key: &Term) -> bool {
    path.facts.iter().filter(|fact| fact.after <= e).any(|fact| {
        let ttl = |term: &Term| {
            term.mentions(&|n| {
                path.events
                    .get(n)
                    .is_some_and(|event| event.key() == key && matches!(event.name.as_str(), "TTL" | "PTTL"))
            })
        };
        let limit = |term: &Term| matches!(term, Term::Number(n) if *n <= 0.0);
        match fact.operator {
            "==" => fact.holds && ((ttl(&fact.left) && limit(&fact.right)) || (ttl(&fact.right) && limit(&fact.left))),
            "<" | "<=" => fact.holds && ttl(&fact.left) && limit(&fact.right),
            _ => false,
        }
    })
}

/// The server's reply for what the script returns: numbers lose their fraction, `false` and `nil` are nil, `true` is 1.
pub fn wire(path: &Path, term: &Term) -> WireReply {
    match term {
        Term::Nil | Term::Bool(false) => WireReply::Nil,
        Term::Bool(true) => WireReply::Int(1),
        Term::Number(n) => WireReply::Int(n.trunc() as i64),
        Term::Text(text) => WireReply::Text(text.clone()),
        Term::Table(fields) => {
            let field =
                |name: &str| fields.iter().find(|(key, _)| *key == Term::Text(name.into())).map(|(_, value)| value);
            if field("err").is_some() {
                return WireReply::Error;
            }
            if let Some(ok) = field("ok") {
                return WireReply::Status(ok.constant().unwrap_or_default());
            }
            WireReply::Array(fields.iter().map(|(_, value)| wire(path, value)).collect())
        }
        Term::Reply(n) => match &path.events[*n].state {
            State::Ok => WireReply::Status("OK".into()),
            State::Nil => WireReply::Nil,
            State::Number(n) => WireReply::Int(*n),
            State::Present => WireReply::Bulk,
            State::Open => WireReply::Mixed,
        },
        Term::Key(_) | Term::Arg(_) | Term::Concat(_) => WireReply::Bulk,
        _ => WireReply::Mixed,
    }
}

/// One reply for all paths of a world. Errors stand beside what is answered, not instead of it.
pub fn one(mut list: Vec<WireReply>) -> WireReply {
    if list.len() > 1 {
        list.retain(|wire| *wire != WireReply::Error);
    }
    match list.len() {
        0 => WireReply::Mixed,
        1 => list.swap_remove(0),
        _ => WireReply::Mixed,
    }
}

/// A property of something that the caller has (`quote.seen`, `quote.seen()`), and no reading of a clock.
pub fn of_data(value: &Value) -> bool {
    matches!(value, Value::Field(..) | Value::Call(_))
        && value.has() & (leaf::CLOCK | leaf::FRESH) == 0
        && value.has() & leaf::PARAM != 0
}
