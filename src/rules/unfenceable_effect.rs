//! `unfenceable-effect`: something is sent under a lock that nobody can refuse, and nothing in it tells a repetition.

use std::collections::{BTreeMap, BTreeSet};

use crate::analysis::database;
use crate::analysis::lock::{Decision, Lock, words};
use crate::analysis::slice::Slice;
use crate::analysis::summary::Observation;
use crate::finding::{Actor, Confidence, Finding, Severity};
use crate::ir::{
    AcquireForm, Call, EffectKind, External, FunctionId, HandleKind, LockKind, OpKind, Operand, Piece, Rvalue, Value,
    Var,
};
use crate::protocol::external::{is_key, names_key};
use crate::rule::{Context, Group, Rule};
use crate::source::Span;

/// The rule.
pub const RULE: Rule = Rule {
    id: "unfenceable-effect",
    severity: Severity::Warning,
    group: Group::Fencing,
    page: include_str!("../../rules/unfenceable-effect.md"),
    check,
};

fn check(cx: &Context<'_>, findings: &mut Vec<Finding>) {
    let mut by_place: BTreeMap<Span, Finding> = BTreeMap::new();
    for (index, lock) in cx.locks.locks.iter().enumerate() {
        let Some(acquire) = lock.acquire() else { continue };
        if lock.decision != Decision::Lock {
            continue;
        }
        let named = acquire.form != AcquireForm::SetIfAbsent || !matches!(acquire.key, Value::Unknown);
        let sections = cx.sections(index, |o| {
            named && repeats(o).is_some() && !told_by_helper(cx, o) && !told_by_header(cx, o) && !harmless_again(cx, o)
        });
        for section in sections {
            let open: Vec<Observation> = section.into_iter().filter(|o| in_scope(cx, o, acquire.kind)).collect();
            if let Some(first) = open.first() {
                let f = finding(cx, lock, first, &open);
                let entry = by_place.entry(f.span).or_insert_with(|| f.clone());
                if f.confidence > entry.confidence {
                    *entry = f;
                }
            }
        }
    }
    findings.extend(by_place.into_values());
}

/// The effect, if it changes something outside and nothing in it tells the receiver that it is the same work again.
fn repeats(o: &Observation) -> Option<&External> {
    let EffectKind::External(external) = &o.effect.kind else { return None };
    // Stores that compare are judged by what they compare; a second removal removes nothing more.
    let refusable =
        matches!(external.what.as_str(), "object DELETE" | "HTTP DELETE") || external.what.starts_with("DynamoDB");
    let told = external.idempotency.as_ref().is_some_and(|key| !made_anew(key, 0));
    (external.mutates() && !refusable && !told).then_some(external)
}

/// Whether the second time leaves everything as the first one did.
fn harmless_again(cx: &Context<'_>, o: &Observation) -> bool {
    same_object(cx, o) || content_names_it(cx, o) || own_name(o)
}

/// Whether what is stored has a name that no other holder makes: a new id, or one that the database gave to a row just
/// inserted.
fn own_name(o: &Observation) -> bool {
    matches!(&o.effect.kind, EffectKind::External(e) if e.what == "object PUT" && named_anew(&e.target, 0))
}

fn named_anew(name: &Value, depth: usize) -> bool {
    if depth > 16 {
        return false;
    }
    let inner = |v: &Value| named_anew(v, depth + 1);
    match name {
        Value::Fresh(_) => true,
        Value::Template(pieces) => pieces.iter().any(|p| matches!(p, Piece::Hole(v) if inner(v))),
        Value::Field(base, _) => inner(base),
        Value::Call(call) if call.name.starts_with('.') => call.args.first().is_some_and(inner),
        Value::Call(call) => call.args.iter().any(|arg| inner(arg) || arg.as_str().is_some_and(inserts)),
        _ => false,
    }
}

/// Whether a statement makes a row and hands back what the database gave it.
fn inserts(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    text.trim_start().starts_with("insert") && text.contains("returning")
}

/// Whether an object of a fixed name and fixed content is put: the second time changes nothing.
fn same_object(cx: &Context<'_>, o: &Observation) -> bool {
    if !matches!(&o.effect.kind, EffectKind::External(e) if e.what == "object PUT") {
        return false;
    }
    let site = o.origin.site;
    let OpKind::Call(call) = &cx.program.function(site.function).op(site.at).kind else { return false };
    call.args.len() > 2 && call.args.iter().skip(1).all(|x| fixed(&cx.program.value(site.function, x), 0))
}

/// Made of constants alone.
fn fixed(value: &Value, depth: usize) -> bool {
    let inner = |v: &Value| depth < 16 && fixed(v, depth + 1);
    match value {
        Value::Const(_) | Value::Path(_) => true,
        Value::Template(pieces) => pieces.iter().all(|p| !matches!(p, Piece::Hole(v) if !inner(v))),
        Value::Call(call) => call.args.iter().all(inner),
        Value::Aggregate(_, fields) => fields.iter().all(|(_, v)| inner(v)),
        _ => false,
    }
}

/// Whether what is stored is named by a digest of what it is: the second one stores the same bytes under the same name.
fn content_names_it(cx: &Context<'_>, o: &Observation) -> bool {
    let EffectKind::External(external) = &o.effect.kind else { return false };
    let target = &external.target;
    match external.what.as_str() {
        "HTTP PUT" | "object PUT" => by_digest(cx, o.function, target, 0),
        // An upload by POST: the name is what the address ends with.
        "HTTP POST" => match target {
            Value::Template(pieces) => matches!(pieces.last(), Some(Piece::Hole(v)) if by_digest(cx, o.function, v, 0)),
            _ => false,
        },
        _ => false,
    }
}

/// Words in names of values that are computed from all of some content.
const DIGESTS: &[&str] = &["digest", "sha256", "sha512", "sha1", "blake3", "md5", "checksum"];

fn by_digest(cx: &Context<'_>, function: FunctionId, value: &Value, depth: usize) -> bool {
    if depth > 16 {
        return false;
    }
    let says = |name: &str| words(name).iter().any(|w| DIGESTS.contains(&w.as_str()));
    let inner = |v: &Value| by_digest(cx, function, v, depth + 1);
    match value {
        Value::Param(i) => {
            let f = cx.program.function(function);
            f.params.get(*i as usize).and_then(|v| f.var(*v).name.as_deref()).is_some_and(says)
        }
        Value::Local(home, var) => {
            let named = cx.program.function(*home).vars.get(*var as usize);
            named.and_then(|v| v.name.as_deref()).is_some_and(says)
        }
        Value::Field(base, name) => says(name) || inner(base),
        Value::TypeField(_, name) => says(name),
        Value::Template(pieces) => pieces.iter().any(|p| matches!(p, Piece::Hole(v) if inner(v))),
        Value::Call(call) => says(&call.name) || call.args.iter().any(inner),
        Value::Operation(_, list) => list.iter().any(inner),
        Value::Join(list) => !list.is_empty() && list.iter().all(inner),
        _ => false,
    }
}

/// Whether a header that tells repetitions was put among those of a request or message, or its builder was told the id.
fn told_by_header(cx: &Context<'_>, o: &Observation) -> bool {
    let site = o.origin.site;
    let sent = |e: &External| e.idempotency.is_none() && (e.what == "publish" || e.what.starts_with("HTTP"));
    let f = cx.program.function(site.function);
    let (EffectKind::External(external), OpKind::Call(sends)) = (&o.effect.kind, &f.op(site.at).kind) else {
        return false;
    };
    if !sent(external) {
        return false;
    }
    let slice = Slice::of(f);
    let parts: BTreeSet<Var> = sends.args.iter().skip(1).flat_map(|x| slice.sources(x)).collect();
    let value = |x: &Operand| cx.program.value(site.function, x);
    f.calls().any(|(_, _, call)| {
        let added = match (call.name(), call.args.as_slice()) {
            ("insert" | "append" | "header", [to, name, id]) if is_key(plain(&value(name))) => Some((to, id)),
            ("message_id", [to, id]) => Some((to, id)),
            _ => None,
        };
        added.is_some_and(|(to, id)| {
            matches!(to, Operand::Var(var, _) if parts.contains(var)) && !made_anew(&value(id), 0)
        })
    })
}

/// Whether the headers of a request are made by a function of the workspace that puts a key among them.
fn told_by_helper(cx: &Context<'_>, o: &Observation) -> bool {
    let site = o.origin.site;
    if !matches!(&o.effect.kind, EffectKind::External(e) if e.what.starts_with("HTTP") && e.idempotency.is_none()) {
        return false;
    }
    let f = cx.program.function(site.function);
    let slice = Slice::of(f);
    let adds = |call: &Call| matches!(call.name(), "header" | "headers" | "append" | "insert" | "extend");
    let made =
        |x: &Operand| slice.calls(x).into_iter().flat_map(|call| call.targets.iter().copied()).collect::<Vec<_>>();
    f.calls()
        .filter(|(_, _, call)| adds(call))
        .flat_map(|(_, _, call)| call.args.iter().skip(1).flat_map(made))
        .any(|maker| holds_key(cx, maker))
}

/// Whether a function makes a pair of a header's name that tells repetitions and a value that the next holder makes too.
fn holds_key(cx: &Context<'_>, id: FunctionId) -> bool {
    let f = cx.program.function(id);
    f.ops().any(|(_, op)| {
        let list: &[Operand] = match &op.kind {
            OpKind::Let(Rvalue::Tuple(list)) => list,
            OpKind::Call(call) => &call.args,
            _ => return false,
        };
        list.windows(2).any(|pair| {
            let name = cx.program.value(id, &pair[0]);
            plain(&name).as_str().is_some_and(names_key) && !made_anew(&cx.program.value(id, &pair[1]), 0)
        })
    })
}

/// What a value is converted from.
fn plain(value: &Value) -> &Value {
    match value {
        Value::Call(call) if call.args.len() == 1 => &call.args[0],
        other => other,
    }
}

/// A key that the next holder would not make again.
fn made_anew(key: &Value, depth: usize) -> bool {
    if depth > 16 {
        return false;
    }
    let inner = |v: &Value| made_anew(v, depth + 1);
    match key {
        Value::Fresh(_) | Value::Clock { .. } => true,
        Value::Template(pieces) => pieces.iter().any(|p| matches!(p, Piece::Hole(v) if inner(v))),
        Value::Call(call) => call.args.iter().any(inner),
        Value::Aggregate(_, fields) => fields.iter().any(|(_, v)| inner(v)),
        _ => false,
    }
}

/// Whether the lock is still held there: rows and transaction locks until the transaction ends.
fn in_scope(cx: &Context<'_>, o: &Observation, kind: LockKind) -> bool {
    if !matches!(kind, LockKind::Row | LockKind::Transaction) {
        return true;
    }
    database::seen(cx.analyzer, &o.lock.via).is_some_and(|handle| {
        handle.kind == HandleKind::Transaction && database::open_at(cx.analyzer, &handle, o.lock.via[0], o.via[0])
    })
}

/// Words in addresses behind which a POST asks for something and leaves nothing.
const ASKS: &[&str] =
    &["token", "oauth", "oauth2", "search", "query", "graphql", "rpc", "jsonrpc", "login", "auth", "health", "metrics"];

/// Whether a request only asks, by the constant words at the end of its address.
fn only_asks(external: &External) -> bool {
    let text = match &external.target {
        Value::Const(crate::ir::Lit::Str(s)) => s.clone(),
        Value::Template(pieces) => match pieces.last() {
            Some(Piece::Text(text)) => text.clone(),
            _ => return false,
        },
        Value::Field(_, name) | Value::TypeField(_, name) | Value::Path(name) => {
            return words(name).iter().any(|w| ASKS.contains(&w.as_str()) || w == "rpc");
        }
        _ => return false,
    };
    let end = text.split(['?', '#']).next().unwrap_or("");
    let last = end.trim_end_matches('/').rsplit('/').next().unwrap_or("");
    external.what.starts_with("HTTP") && words(last).iter().any(|w| ASKS.contains(&w.as_str()))
}

fn finding(cx: &Context<'_>, lock: &Lock, first: &Observation, all: &[Observation]) -> Finding {
    let EffectKind::External(external) = &first.effect.kind else {
        return Finding::new(&RULE, first.effect.span, String::new());
    };
    let kind = first.lock.acquire.kind;
    let span = cx.target_place(first);
    let what = &external.what;
    let key = cx.key_seen(lock, first.function, &first.lock);
    let under = match kind {
        LockKind::Lease | LockKind::LeaseRow => format!("the lease `{key}`"),
        LockKind::Session => "a session lock".to_owned(),
        _ => "the open transaction's lock".to_owned(),
    };
    let fresh = external.idempotency.is_some();
    let why = if fresh { "its idempotency key is made anew by every holder" } else { "it carries no idempotency key" };
    let mut f = Finding::new(
        &RULE,
        span,
        format!("{what} under {under} can happen twice, and no store can refuse the second: {why}"),
    );
    f.confidence = Confidence::High.min(cx.confidence(first.lock.certainty));
    if only_asks(external) {
        f.confidence = Confidence::Low;
    } else if external.what == "publish" && first.effect.command.ends_with("PUBLISH") || kind == LockKind::Session {
        // A message on a Redis channel is news for whoever listens just now; a session lock ends with its connection.
        f.confidence = f.confidence.min(Confidence::Medium);
    }
    f.caret = "cannot be taken back".into();
    let taken = cx.op_span(first.lock.via[0]);
    f.label(taken, "the lock is taken here");
    if first.effect.span != span {
        f.label(first.effect.span, format!("the {what}"));
    }
    for other in all.iter().skip(1).take(4) {
        let place = cx.target_place(other);
        if place != span {
            f.label(place, "and this");
        }
    }
    f.help = match what.as_str() {
        "object PUT" => "write under a condition (`if_match`, `if_none_match`, a create or update mode), or under a name of its own for each holder",
        "mail" | "publish" => "write the message into an outbox table in the transaction that decides it, and send it from there by its id; or give it an id that is the same for every holder of this work",
        _ => "send a key that is the same for every holder of this work item, e.g. `.header(\"Idempotency-Key\", format!(\"order-{id}\"))`; or record the intent first and send it from an outbox",
    }
    .into();
    f.step(Actor::A, taken, format!("takes {under}"));
    if matches!(kind, LockKind::Lease | LockKind::LeaseRow) {
        f.step(Actor::A, taken, "stalls: a pause, a slow call, a lost network");
        f.step(Actor::Store, taken, "the lease expires");
        f.step(Actor::B, taken, format!("takes {under}"));
        f.step(Actor::B, span, format!("does it: {what}"));
        f.step(Actor::A, span, "wakes up and does it again");
    } else {
        f.step(Actor::A, span, format!("does it: {what}"));
        f.step(
            Actor::Store,
            taken,
            "the connection breaks before the work is recorded: the lock is free, and nothing says that it was done",
        );
        f.step(Actor::B, span, format!("takes {under} and does it again"));
    }
    f.lock = Some(cx.key_as_asked(lock, first));
    f
}
