//! Names of locks: words that say lock, and keys and resources as people read them.

use super::{Analyzer, key_of};
use crate::ir::{CallValue, Effect, EffectKind, FunctionId, Lit, Piece, Resource, Value};

/// Words that name locks.
const LOCK_WORDS: &[&str] = &[
    "lock",
    "locks",
    "locker",
    "locking",
    "locked",
    "unlock",
    "dlock",
    "redlock",
    "lease",
    "leases",
    "mutex",
    "leader",
    "leadership",
    "election",
    "acquire",
    "release",
    "renew",
    "mutual",
    "exclusive",
    "semaphore",
];

/// Whether the function's own, its type's or its module's name says lock.
pub fn lockish(a: &Analyzer<'_>, id: FunctionId) -> bool {
    let f = a.program.function(a.item(id));
    let owner = f.owner.as_deref().map(super::shapes::last).unwrap_or("");
    let tr = f.owner_trait.as_deref().map(super::shapes::last).unwrap_or("");
    let module = super::shapes::last(&f.module);
    [f.name.as_str(), owner, tr, module].iter().any(|name| words(name).iter().any(|w| LOCK_WORDS.contains(&w.as_str())))
}

/// Whether the function's own name says that it prolongs something.
pub(super) fn named_renewal(a: &Analyzer<'_>, id: FunctionId) -> bool {
    let name = words(&a.program.function(a.item(id)).name);
    name.iter().any(|w| matches!(w.as_str(), "extend" | "prolong" | "heartbeat" | "keepalive" | "renewal"))
}

pub(super) fn lockish_key(key: &Value) -> bool {
    let text = match key {
        Value::Const(Lit::Str(s)) => s.clone(),
        Value::Template(pieces) => pieces
            .iter()
            .filter_map(|p| if let Piece::Text(t) = p { Some(t.as_str()) } else { None })
            .collect::<Vec<_>>()
            .join(" "),
        Value::Path(path) | Value::TypeField(_, path) => path.clone(),
        _ => return false,
    };
    words(&text).iter().any(|w| LOCK_WORDS.contains(&w.as_str()))
}

/// Lower-case words of an identifier or key: split at `_`, `-`, `:`, `.`, `/`, blanks and before capitals.
pub fn words(name: &str) -> Vec<String> {
    let mut out = vec![String::new()];
    let mut lower = false;
    for c in name.chars() {
        if !c.is_alphanumeric() || (c.is_uppercase() && lower) {
            out.push(String::new());
        }
        lower = c.is_lowercase();
        if c.is_alphanumeric()
            && let Some(word) = out.last_mut()
        {
            word.extend(c.to_lowercase());
        }
    }
    out.retain(|w| !w.is_empty());
    out
}

/// How many parts of a key that is shown are not known.
pub fn vague(shown: &str) -> usize {
    shown.matches("..").count() + shown.matches('*').count()
}

/// Letters of a key that is shown, what stands for a value left out.
pub fn spelled(shown: &str) -> usize {
    let letters = |text: &str| text.chars().filter(|c| c.is_alphanumeric()).count();
    if shown.starts_with("self.") { 0 } else { shown.split(['{', '}']).step_by(2).map(letters).sum() }
}

/// The key as people read it: `lock:{id}`, `self.key`, `{key}`; `*` is a part of which nothing is known, `..` such a whole.
pub fn show(value: &Value) -> String {
    match value {
        Value::Const(Lit::Str(s)) => s.clone(),
        Value::Const(Lit::Int(n)) => n.to_string(),
        Value::Template(pieces) if pieces.iter().all(|p| matches!(p, Piece::Hole(v) if show(v) == "..")) => "..".into(),
        Value::Template(pieces) => pieces
            .iter()
            .map(|p| match p {
                Piece::Text(t) => t.clone(),
                Piece::Hole(v) => match show(v) {
                    unknown if unknown == ".." => "*".into(),
                    inner if inner.starts_with('{') || !matches!(v, Value::Template(_) | Value::Const(_)) => {
                        format!("{{{}}}", inner.trim_matches(['{', '}']))
                    }
                    inner => inner,
                },
            })
            .collect(),
        Value::Path(path) => super::shapes::last(path).to_string(),
        Value::Field(base, name) => match &**base {
            Value::Param(0) => format!("self.{name}"),
            // `pair.0`: the place in a tuple says less than what it is a place in.
            base if name.parse::<u32>().is_ok() => show(base),
            _ => name.clone(),
        },
        Value::TypeField(_, name) => format!("self.{name}"),
        Value::Env(name) => format!("${name}"),
        Value::Identity(name) if !name.is_empty() => super::shapes::last(name).to_string(),
        Value::Operation(op, parts) if op == "field" && parts.len() == 2 => {
            format!("{}[{}]", show(&parts[0]), show(&parts[1]))
        }
        Value::Aggregate(path, fields) if path == "()" => {
            let shown: Vec<String> = fields.iter().map(|(_, v)| show(v)).collect();
            if shown.iter().all(|part| vague(part) > 0) { "..".into() } else { format!("({})", shown.join(", ")) }
        }
        // One of several: the one that says most.
        Value::Join(list) => {
            let shown = list.iter().map(show);
            shown.min_by_key(|text| (vague(text), text.matches('{').count())).unwrap_or("..".into())
        }
        // A key with a type of its own.
        Value::Aggregate(path, _) if path.len() > 2 => format!("{}(..)", super::shapes::last(path)),
        Value::Call(call) => shown_call(call),
        _ => "..".into(),
    }
}

/// A conversion as what it converts, another call by its name and what it is given, if that is known and short.
fn shown_call(call: &CallValue) -> String {
    const LONGEST: usize = 40;
    let name = super::shapes::last(call.name.trim_start_matches('.'));
    let inner = call.args.first().map_or_else(|| "..".into(), show);
    let converts = ["as_", "to_", "into_"].iter().any(|start| name.starts_with(start))
        || matches!(name, "clone" | "into" | "from" | "unwrap" | "expect" | "trim" | "bind" | "deref")
        || matches!(name, "parse" | "parse_str" | "from_str" | "try_from" | "from_utf8" | "from_slice");
    let method = call.name.starts_with('.');
    let named = call.name.contains("::") && !call.name.starts_with("sql::");
    match () {
        () if converts || method && inner != ".." => inner,
        () if !method && named => {
            let given: Vec<String> = call.args.iter().map(show).collect();
            let given = given.iter().map(|x| x.trim_matches(['{', '}'])).collect::<Vec<_>>().join(", ");
            let told =
                !given.is_empty() && vague(&given) == 0 && !given.contains('(') && given.chars().count() <= LONGEST;
            if told { format!("{name}({given})") } else { format!("{name}(..)") }
        }
        () => "..".into(),
    }
}

/// The SQL table or Redis key of a resource, for messages.
pub fn show_resource(resource: &Resource) -> String {
    match resource {
        Resource::Key(_, key) => format!("key `{}`", show(key)),
        Resource::Table(name) => format!("table `{name}`"),
        Resource::Other(name) => name.clone(),
    }
}

/// The key of a lock effect.
pub fn key(effect: &Effect) -> &Value {
    key_of(effect).unwrap_or(&Value::Unknown)
}

/// What an effect does, in a few words, for `ir`.
pub fn summary(effect: &Effect) -> String {
    match &effect.kind {
        EffectKind::Acquire(a) => {
            format!("acquire {:?} {:?} token {} ttl {:?}", a.kind, a.form, show(&a.token), a.ttl)
        }
        EffectKind::Release(r) => format!("release {:?} check {:?}", r.kind, r.check),
        EffectKind::Renew(r) => format!("renew check {:?} ttl {:?}", r.check, r.ttl),
        EffectKind::Expire(e) => format!("expire ttl {:?}", e.ttl),
        EffectKind::Read(r) => format!("read {}", show_resource(r)),
        EffectKind::Write(w) => format!("write {} {:?}", show_resource(&w.resource), w.safety),
        other => format!("{other:?}"),
    }
}
