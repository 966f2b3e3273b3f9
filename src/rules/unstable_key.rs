//! `unstable-key`: processes that should exclude each other compute different keys, or a lock is released under another key.

use std::collections::{BTreeMap, BTreeSet};

use crate::analysis::lock::{Decision, Lock, Pairing, Use, UseId};
use crate::analysis::origin_call;
use crate::analysis::summary::Relation;
use crate::finding::{Actor, Finding, Severity};
use crate::ir::{Backend, CallValue, EffectKind, FunctionId, LockKind, Piece, Value};
use crate::rule::{Context, Group, Rule};
use crate::source::Span;

/// The rule.
pub const RULE: Rule = Rule {
    id: "unstable-key",
    severity: Severity::Error,
    group: Group::Taking,
    page: include_str!("../../rules/unstable-key.md"),
    check,
};

fn check(cx: &Context<'_>, findings: &mut Vec<Finding>) {
    let mut found: BTreeMap<UseId, (usize, FunctionId, Made)> = BTreeMap::new();
    for (id, _) in cx.program.functions().filter(|(id, _)| cx.judged(*id) && cx.analyzer.relevant(*id)) {
        for reached in cx.analyzer.reached(id).iter() {
            let EffectKind::Acquire(acquire) = &reached.effect.kind else { continue };
            // What a row is chosen by is what stands in it: nothing that a process makes up names a lock of rows.
            if acquire.kind == LockKind::Row {
                continue;
            }
            let Some(index) = cx.locks.of(&reached.via, reached.origin.effect) else { continue };
            if cx.locks.locks[index].decision != Decision::Lock {
                continue;
            }
            let key = cx.program.expanded(&cx.analyzer.comparable(id, &acquire.key));
            if let Some(cause) = unstable(&key, 0).filter(|(c, _)| !c.registers() || by_hand(&cx.locks.locks[index])) {
                found.insert((reached.via.clone(), reached.origin.effect), (index, id, cause));
            }
        }
    }
    let innermost = |id: &UseId| !(1..id.0.len()).any(|i| found.contains_key(&(id.0[i..].to_vec(), id.1)));
    // One hash is one cause, however many locks are named by it.
    let mut by_cause: BTreeMap<(Span, Cause), Vec<Place<'_>>> = BTreeMap::new();
    for (id, (index, _, (cause, made))) in found.iter().filter(|(id, _)| innermost(id)) {
        let place = stands_at(cx, &cx.locks.locks[*index], id);
        by_cause.entry((made.unwrap_or(place), *cause)).or_default().push((place, id, *index));
    }
    for ((_, cause), mut list) in by_cause {
        list.sort();
        let (first, id, index) = list[0];
        let mut f = another_key_each(cx, &cx.locks.locks[index], id, cause);
        let others: BTreeSet<Span> = list.iter().map(|(place, ..)| *place).filter(|place| *place != first).collect();
        for other in others.into_iter().take(MAX_PLACES) {
            f.label(other, "and this key");
        }
        findings.push(f);
    }
    for lock in &cx.locks.locks {
        released_by_name(cx, lock, findings);
    }
}

/// Why two processes do not agree on a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Cause {
    /// A hash whose seed is random in each process.
    RandomSeed,
    /// A hash whose algorithm is not promised for another build.
    Build,
    /// Number of the process, thread or task.
    Process,
    /// An address in memory.
    Address,
    /// Made at random once per process.
    Random,
}

/// Why, and where the hash or address is made.
type Made = (Cause, Option<Span>);

/// Where a lock is taken, and which.
type Place<'a> = (Span, &'a UseId, usize);

/// Other places of one cause that are shown.
const MAX_PLACES: usize = 8;

impl Cause {
    /// Such a part is also in the keys by which processes register themselves.
    fn registers(self) -> bool {
        matches!(self, Cause::Process | Cause::Random)
    }
}

/// Given back by hand and never renewed: not the key under which a process says that it is alive.
fn by_hand(lock: &Lock) -> bool {
    lock.prolongs.is_empty() && !lock.releases.is_empty()
        || lock.acquire().is_some_and(|a| matches!(a.backend, Backend::Postgres | Backend::Sql))
}

/// What makes the key another one in each process, if each of its possible values has such a part.
fn unstable(key: &Value, depth: u32) -> Option<Made> {
    if depth > 8 {
        return None;
    }
    let any = |list: &[Value]| list.iter().find_map(|v| unstable(v, depth + 1));
    match key {
        Value::PerProcess(_) => Some((Cause::Random, None)),
        Value::Identity(what) => {
            let last = what.rsplit("::").next().unwrap_or(what);
            let parent = what.rsplit("::").nth(1).unwrap_or("");
            let own = matches!((parent, last), ("process" | "task", "id") | ("thread", "current"))
                || matches!(last, "getpid" | "get_current_pid");
            own.then_some((Cause::Process, None))
        }
        Value::Template(pieces) => pieces.iter().find_map(|p| match p {
            Piece::Hole(v) => unstable(v, depth + 1),
            Piece::Text(_) => None,
        }),
        Value::Operation(_, list) => any(list),
        Value::Aggregate(path, fields) if matches!(path.as_str(), "()" | "[]" | "Some") => {
            fields.iter().find_map(|(_, v)| unstable(v, depth + 1))
        }
        Value::Join(list) => {
            let all: Option<Vec<Made>> = list.iter().map(|v| unstable(v, depth + 1)).collect();
            all.and_then(|causes| causes.first().copied())
        }
        Value::Call(call) => called(call, depth),
        _ => None,
    }
}

fn called(call: &CallValue, depth: u32) -> Option<Made> {
    let (head, last) = call.name.rsplit_once("::").unwrap_or(("", call.name.as_str()));
    match last {
        ".finish" | ".hash_one" | ".finish_ext" => hasher(call.args.first()?, 0).map(|cause| (cause, call.at.0)),
        // `Arc::as_ptr(&x)`: what an address is for one process it is for no other.
        "as_ptr" if matches!(head.rsplit("::").next(), Some("Arc" | "Rc")) => Some((Cause::Address, call.at.0)),
        "addr_of!" | "from_ref" if head.ends_with("ptr") => Some((Cause::Address, call.at.0)),
        // What keeps the difference: conversions, arithmetic, another hash over it.
        _ if KEEPS.contains(&last)
            || head.starts_with("sql") && matches!(last, "hashtext" | "hashtextextended" | "cast") =>
        {
            call.args.iter().find_map(|v| unstable(v, depth + 1))
        }
        _ => None,
    }
}

/// Methods and functions that give different numbers for different numbers, as a rule.
const KEEPS: &[&str] = &[
    ".abs",
    ".unsigned_abs",
    ".wrapping_abs",
    ".wrapping_add",
    ".wrapping_mul",
    ".rem_euclid",
    ".rotate_left",
    ".to_be_bytes",
    ".to_le_bytes",
    ".to_ne_bytes",
    ".cast_signed",
    ".cast_unsigned",
    "from_ne_bytes",
    "from_le_bytes",
    "from_be_bytes",
    ".min",
    ".unwrap_or",
    ".as_u128",
    ".as_u64_pair",
];

/// How a hasher, or what builds it, is made. Silent for hashers of fixed algorithm and seed (FNV, xxHash, SipHash by name)
/// and for those that nothing is known of.
///
/// std: "The internal algorithm is not specified, and so it and its hashes should not be relied upon over releases"
/// (`DefaultHasher`); `RandomState::new` "with random keys". ahash: `RandomState::new` has keys of its own for each
/// instance, `AHasher::default` such of the process. foldhash, twox-hash: `RandomState` has a random seed.
fn hasher(value: &Value, depth: u32) -> Option<Cause> {
    if depth > 4 {
        return None;
    }
    let Value::Call(call) = value else { return None };
    if matches!(call.name.as_str(), ".build_hasher" | ".clone") {
        return hasher(call.args.first()?, depth + 1);
    }
    let mut parts = call.name.rsplit("::");
    let (function, ty) = (parts.next()?, parts.next()?);
    let root = call.name.split("::").next()?;
    let known = |list: &[&str]| list.contains(&root);
    let made = matches!(function, "new" | "default");
    match ty {
        "RandomState" if made && known(&["std", "ahash", "foldhash", "twox_hash", "hashbrown"]) => {
            Some(Cause::RandomSeed)
        }
        "AHasher" if made && root == "ahash" => Some(Cause::RandomSeed),
        "DefaultHasher" if made && known(&["std", "core"]) => Some(Cause::Build),
        _ => None,
    }
}

/// Where the finding stands: the command, or the call that gives it the key.
fn stands_at(cx: &Context<'_>, lock: &Lock, id: &UseId) -> Span {
    if *id == lock.taken.id { cx.place(&lock.taken) } else { cx.op_span(id.0[0]) }
}

fn another_key_each(cx: &Context<'_>, lock: &Lock, id: &UseId, cause: Cause) -> Finding {
    let own = *id == lock.taken.id;
    let span = stands_at(cx, lock, id);
    let command = &lock.taken.effect.command;
    let message = match cause {
        Cause::RandomSeed => {
            format!("the key of {command} is a hash with a random seed: each process locks a key of its own")
        }
        Cause::Build => format!(
            "the key of {command} is made by `DefaultHasher`, whose algorithm may change with the Rust release: two builds lock different keys"
        ),
        Cause::Process => {
            format!("the key of {command} contains the id of the process or thread: nobody else asks for the same key")
        }
        Cause::Address => format!("the key of {command} is an address in memory: another process has another one"),
        Cause::Random => format!(
            "the key of {command} contains a value made at random in each process: nobody else asks for the same key"
        ),
    };
    let mut f = Finding::new(&RULE, span, message);
    if cause == Cause::Build {
        f = f.at_most(Severity::Warning);
    }
    f.confidence = cx.confidence(cx.certainty(&lock.taken));
    f.caret = "differs between processes".into();
    if own {
        f.labels = cx.through(&lock.taken, "the command");
    } else {
        f.label(lock.taken.effect.span, "the command");
    }
    f.help = match cause {
        Cause::RandomSeed | Cause::Build | Cause::Address => {
            "make the key from the name itself, with a hash of fixed algorithm and seed (FNV, xxHash, SHA-256, `hashtextextended(name, 0)`)"
        }
        Cause::Process | Cause::Random => {
            "name in the key only what is protected, and put what tells the holders apart into the value of the lock"
        }
    }
    .into();
    let who = if cause == Cause::Build { "a process of the old build" } else { "one process" };
    f.step(Actor::A, span, format!("{who} takes its key"));
    let who = if cause == Cause::Build { "a process of the new build" } else { "another process" };
    f.step(Actor::B, span, format!("{who} takes another key for the same thing, and gets it: both work at once"));
    f
}

/// etcd: `lock(name)` makes the key `name/<lease id>` and returns it; `unlock(name)` deletes nothing and reports no error
/// (etcd API reference, v3lock: "key: The key to unlock … returned by Lock").
fn released_by_name(cx: &Context<'_>, lock: &Lock, findings: &mut Vec<Finding>) {
    let Some(acquire) = lock.acquire().filter(|a| a.backend == Backend::Etcd) else { return };
    if !lock.taken.effect.command.ends_with("::lock") {
        return;
    }
    for (index, (how, relation)) in &lock.releases {
        let release = &cx.locks.releases[*index];
        let EffectKind::Release(r) = &release.effect.kind else { continue };
        let same = *relation == Relation::Must && cx.analyzer.relate(&release.key, &lock.taken.key) == Relation::Must;
        if !release.effect.command.ends_with("::unlock")
            || *how == Pairing::Module
            || !same
            || !cx.judged(release.function)
        {
            continue;
        }
        if returned(cx, &release.key) || !written_name(cx, release) {
            continue;
        }
        let span = cx.place(release);
        let name = cx.show(release.function, &r.key);
        let mut f = Finding::new(
            &RULE,
            span,
            format!(
                "`unlock` gets the name `{name}` instead of the key that `lock` returned: it deletes nothing, and the lock stays until its lease ends"
            ),
        );
        f.confidence = cx.confidence(cx.certainty(release));
        f.caret = "no such key".into();
        f.labels = cx.through(release, "the command");
        let taken = cx.place(&lock.taken);
        f.label(taken, "taken here");
        f.help = "keep the response of `lock` and release by its key: `client.unlock(response.key())`".into();
        f.step(Actor::A, taken, format!("acquires `{name}`: the server makes the key `{name}/<lease id>`"));
        f.step(Actor::A, span, format!("asks to delete the key `{name}`: there is none, and the answer is no error"));
        f.step(Actor::B, taken, format!("waits for `{name}` until A's lease ends"));
        f.lock = Some(cx.show(lock.taken.function, &acquire.key));
        findings.push(f);
    }
}

/// What is passed to the release is the name itself, and not the response of the acquisition, which stands for its key
/// elsewhere.
fn written_name(cx: &Context<'_>, release: &Use) -> bool {
    let site = release.origin().site;
    let Some(operand) = origin_call(cx.program, site).and_then(|call| call.args.get(1)) else { return false };
    let raw = cx.program.value(site.function, operand);
    is_name(&raw, release.id.0.len() == 1, 0)
}

/// Constants, parameters (of the function that holds both calls), fields, and texts made of them.
fn is_name(value: &Value, here: bool, depth: u32) -> bool {
    match value {
        _ if depth > 6 => false,
        Value::Const(_) | Value::Path(_) | Value::Env(_) | Value::TypeField(..) => true,
        Value::Param(_) => here,
        Value::Field(base, _) => matches!(**base, Value::Param(0)) || is_name(base, here, depth + 1),
        Value::Template(pieces) => pieces.iter().all(|p| match p {
            Piece::Text(_) => true,
            Piece::Hole(v) => is_name(v, here, depth + 1),
        }),
        _ => false,
    }
}

/// The field holds at some time what `lock` returned.
fn returned(cx: &Context<'_>, key: &Value) -> bool {
    let Value::TypeField(owner, name) = key else { return false };
    let stored = cx.program.field_values(owner, name);
    stored.iter().any(|(_, v)| matches!(v, Value::Call(_) | Value::Unknown | Value::Local(..)))
}
