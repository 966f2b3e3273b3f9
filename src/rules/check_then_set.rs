//! `check-then-set`: a lock is found free by one command and taken by another.

use std::collections::{BTreeMap, BTreeSet};

mod evidence;

use crate::analysis::probe::Answer;
use crate::analysis::slice::Slice;
use crate::analysis::summary::{Origin, Reached, Relation, Status};
use crate::finding::{Actor, Confidence, Finding};
use crate::ir::{
    Acquire, Backend, EffectKind, FunctionId, FunctionKind, LockKind, OpKind, OpRef, Resource, Safety, Shape, Value,
    Write,
};
use crate::protocol::sql::table_of;
use crate::rule::{Context, Group, Rule, advice};
use crate::source::Span;
use evidence::{Evidence, evidence};

/// The rule.
pub const RULE: Rule = Rule {
    id: "check-then-set",
    severity: crate::finding::Severity::Error,
    group: Group::Taking,
    page: include_str!("../../rules/check-then-set.md"),
    check,
};

/// Calls between the function that sees both commands, and each of them.
const MAX_DEPTH: usize = 4;

/// A command that takes what a read has found free, in the function that sends both, itself or through helpers.
struct Pair {
    /// The function; values are in its terms.
    pub function: FunctionId,
    /// The read.
    pub read: Reached,
    /// What takes it.
    pub take: Reached,
    /// The key that is taken, or the table.
    pub key: Value,
    /// The key that is looked at.
    pub looked: Value,
}

impl Pair {
    fn take_at(&self) -> OpRef {
        self.take.via[0].at
    }
}

/// What a read decides.
struct Gate {
    /// Returned after the take.
    pub with: BTreeSet<Shape>,
    /// Returned where something was found.
    pub without: BTreeSet<Shape>,
}

fn check(cx: &Context<'_>, findings: &mut Vec<Finding>) {
    let mut best: BTreeMap<Origin, (usize, Finding)> = BTreeMap::new();
    let (own, crossed): (Vec<Pair>, Vec<Pair>) = pairs(cx).into_iter().partition(|p| same_thing(cx, p));
    for pair in own.iter().chain(mutual(cx, &crossed)) {
        if guarded(cx, pair) {
            continue;
        }
        let evidence = if names_holder(pair) {
            Some(Evidence { confidence: Confidence::High, release: None })
        } else {
            gate(cx, pair).and_then(|gate| evidence(cx, pair, &gate))
        };
        let Some(evidence) = evidence else { continue };
        let depth = pair.read.via.len() + pair.take.via.len();
        if best.get(&pair.take.origin).is_none_or(|(old, _)| depth < *old) {
            best.insert(pair.take.origin, (depth, finding(cx, pair, &evidence)));
        }
    }
    findings.extend(best.into_values().map(|(_, finding)| finding));
}

/// Reads and takes of one function in this order, in two steps.
fn pairs(cx: &Context<'_>) -> Vec<Pair> {
    let mut out = Vec::new();
    for (id, f) in cx.program.functions() {
        if !cx.judged(id) || !f.has_body() || matches!(f.kind, FunctionKind::Const | FunctionKind::Script) {
            continue;
        }
        let reached = cx.analyzer.reached(id);
        let near = |r: &&Reached| r.via.len() <= MAX_DEPTH && matches!(f.op(r.via[0].at).kind, OpKind::Call(_));
        let reads: Vec<(&Reached, Value)> =
            reached.iter().filter(near).filter_map(|r| Some((r, looked_at(cx, id, r)?))).collect();
        if reads.is_empty() {
            continue;
        }
        let takes: Vec<(&Reached, Value)> =
            reached.iter().filter(near).filter_map(|r| Some((r, taken(cx, id, r)?))).collect();
        if takes.is_empty() {
            continue;
        }
        let slice = Slice::of(f);
        for (take, key) in &takes {
            for (read, looked) in &reads {
                if read.via[0] != take.via[0] && slice.reaches(read.via[0].at, take.via[0].at) {
                    out.push(Pair {
                        function: id,
                        read: (*read).clone(),
                        take: (*take).clone(),
                        key: key.clone(),
                        looked: looked.clone(),
                    });
                }
            }
        }
    }
    out
}

/// The key or table that a read, or a row lock that may find no row, looks at.
fn looked_at(cx: &Context<'_>, id: FunctionId, r: &Reached) -> Option<Value> {
    match &r.effect.kind {
        EffectKind::Read(Resource::Key(_, key)) => Some(cx.analyzer.comparable(id, key)),
        EffectKind::Read(Resource::Table(table)) => Some(table_value(table)),
        EffectKind::Acquire(a) if a.kind == LockKind::Row => Some(table_value(table_of(&a.key)?)),
        _ => None,
    }
}

/// The key or table that an effect takes: a plain write, or a set-if-absent that looks at one key only.
fn taken(cx: &Context<'_>, id: FunctionId, r: &Reached) -> Option<Value> {
    match &r.effect.kind {
        EffectKind::Write(write) => match &write.resource {
            Resource::Key(backend, key) if sets(*backend, write) => Some(cx.analyzer.comparable(id, key)),
            Resource::Table(table) if write.verb == "INSERT" && write.safety == Safety::None => {
                Some(table_value(table))
            }
            _ => None,
        },
        EffectKind::Acquire(Acquire { kind: LockKind::Lease, backend: Backend::Redis, key, .. }) => {
            Some(cx.analyzer.comparable(id, whole(key)))
        }
        _ => None,
    }
    .filter(|key| *key != Value::Unknown)
}

fn table_value(table: &str) -> Value {
    Value::Operation(
        "table".into(),
        vec![Value::str(table.rsplit('.').next().unwrap_or(table).to_ascii_lowercase())].into(),
    )
}

/// The key that the server knows: that of the set or hash whose member or field is meant.
fn whole(key: &Value) -> &Value {
    match key {
        Value::Operation(op, parts) if op == "field" => parts.first().unwrap_or(key),
        _ => key,
    }
}

/// A command that puts a value under the key whatever is there.
fn sets(backend: Backend, write: &Write) -> bool {
    let verb = write.verb.split(' ').next().unwrap_or("");
    let puts = match backend {
        Backend::Redis => matches!(verb, "SET" | "SETEX" | "PSETEX" | "GETSET") && !write.verb.contains(" XX"),
        Backend::Kubernetes => verb == "patch",
        _ => verb == "put",
    };
    puts && write.safety == Safety::None
}

/// A patch that names a new holder whatever is there: a lease has no other way to be taken by two commands, so what was
/// read before is what it was taken for.
fn names_holder(pair: &Pair) -> bool {
    matches!(&pair.take.effect.kind, EffectKind::Write(Write { resource: Resource::Key(Backend::Kubernetes, _), .. }))
}

/// The read looks at what is taken.
fn same_thing(cx: &Context<'_>, pair: &Pair) -> bool {
    // NX decides by itself what a look before has said.
    let decided = matches!(&pair.take.effect.kind, EffectKind::Acquire(_));
    !decided && (pair.looked == pair.key || cx.analyzer.relate(&pair.looked, &pair.key) == Relation::Must)
}

/// Two sides of a reader-writer lock: one looks at X and takes Y, the other looks at Y and takes X.
fn mutual<'p>(cx: &Context<'_>, crossed: &'p [Pair]) -> Vec<&'p Pair> {
    let homes: Vec<(Value, Value)> =
        crossed.iter().map(|p| (cx.analyzer.home(&p.looked), cx.analyzer.home(&p.key))).collect();
    let agree = |a: &Value, b: &Value| a == b || cx.analyzer.relate(a, b) == Relation::Must;
    let other = |i: usize| {
        crossed.iter().zip(&homes).any(|(q, (looked, key))| {
            q.function != crossed[i].function
                && agree(looked, &homes[i].1)
                && agree(key, &homes[i].0)
                && gate(cx, q).is_some()
        })
    };
    let known = |i: usize| !matches!(homes[i].0, Value::Unknown) && !agree(&homes[i].0, &homes[i].1);
    (0..crossed.len()).filter(|i| known(*i) && other(*i)).map(|i| &crossed[i]).collect()
}

/// Whether the take runs under another lock, or fails if the key changed since it was looked at.
fn guarded(cx: &Context<'_>, pair: &Pair) -> bool {
    let held = cx.analyzer.log.borrow().observations.iter().any(|o| {
        o.origin == pair.take.origin && o.status == Status::Held && o.lock.origin.site != pair.read.origin.site
    });
    let watched = || {
        [pair.function, cx.analyzer.item(pair.function)].into_iter().any(|id| {
            cx.analyzer.reached(id).iter().any(|r| {
                matches!(&r.effect.kind, EffectKind::Watch(key)
                    if cx.analyzer.relate(&cx.analyzer.comparable(id, key), &pair.key).possible())
            })
        })
    };
    held || watched()
}

/// The read decides: nothing there leads to the take, and something there lets control go without it.
fn gate(cx: &Context<'_>, pair: &Pair) -> Option<Gate> {
    let site = pair.read.via[0].at;
    let mut gate = Gate { with: BTreeSet::new(), without: BTreeSet::new() };
    let mut spared = BTreeSet::new();
    let free = cx.analyzer.answers(&pair.read.via, Answer::Free);
    let held = cx.analyzer.answers(&pair.read.via, Answer::Taken);
    if free.is_empty() || held.is_empty() || free == held {
        return None;
    }
    for shape in free {
        let seen = cx.analyzer.probe(pair.function, Some((site, shape)), Some(pair.take_at()));
        if seen.cut || !seen.writes {
            return None;
        }
        spared.extend(seen.spared);
        gate.with.extend(seen.with);
    }
    for shape in held {
        let seen = cx.analyzer.probe(pair.function, Some((site, shape)), Some(pair.take_at()));
        if seen.cut || (seen.writes && seen.spared.is_subset(&spared)) {
            return None;
        }
        gate.without.extend(seen.without);
    }
    Some(gate)
}

/// Where the command is written, or the call that gives a neutral helper its key.
fn place(cx: &Context<'_>, at: &Reached) -> Span {
    let named = cx.origin_key(at.origin).is_some_and(|key| crate::analysis::lock::strong(whole(&key)));
    let table = matches!(&at.effect.kind, EffectKind::Write(Write { resource: Resource::Table(_), .. }));
    if at.via.len() == 1 || named || table { at.effect.span } else { cx.op_span(at.via[0]) }
}

fn finding(cx: &Context<'_>, pair: &Pair, evidence: &Evidence) -> Finding {
    let row = matches!(&pair.key, Value::Operation(op, _) if op == "table");
    let shown = |at: &Reached| match &at.effect.kind {
        EffectKind::Write(Write { resource: Resource::Table(table), .. }) => table.clone(),
        _ => cx.show(pair.function, whole(crate::analysis::lock::key(&at.effect))),
    };
    let key = shown(&pair.take);
    let (look, take) = (&pair.read.effect.command, &pair.take.effect.command);
    let (read_at, span) = (place(cx, &pair.read), place(cx, &pair.take));
    let message = if row {
        format!(
            "a row of `{key}` is looked for by {look} and inserted by a second statement: two clients can both find none"
        )
    } else if same_thing(cx, pair) {
        format!("`{key}` is found free by {look} and taken by a separate {take}: two clients can both find it free")
    } else {
        format!(
            "`{}` is found free by {look} and `{key}` taken by a separate {take}: the other side can take its own in between",
            shown(&pair.read)
        )
    };
    let mut f = Finding::new(&RULE, span, message);
    let site = pair.take.via[pair.take.via.len() - 1];
    let trip = crate::analysis::origin_call(cx.program, site).and_then(|c| c.effect.as_ref());
    let certain = trip.map_or(Confidence::Medium, |t| cx.confidence(t.certainty));
    f.confidence = evidence.confidence.min(certain);
    f.caret =
        if row { "inserts what another client may have inserted" } else { "takes it whatever has happened since" }
            .into();
    f.label(read_at, "looked at here");
    if let Some(release) = evidence.release {
        f.label(release, "given back here");
    }
    if span != pair.take.effect.span {
        f.label(pair.take.effect.span, "the command");
    }
    f.help = if row {
        "let the database decide: a unique key on the columns that name the lock, `INSERT .. ON CONFLICT DO NOTHING`, and `rows_affected() == 1`; FOR UPDATE locks only rows that are there".into()
    } else if same_thing(cx, pair) {
        let backend = match &pair.take.effect.kind {
            EffectKind::Write(Write { resource: Resource::Key(backend, _), .. }) => *backend,
            _ => Backend::Redis,
        };
        advice::atomic_take(backend, &key)
    } else {
        "test both keys and take in one script: `if redis.call('exists', KEYS[1]) == 0 then .. end`".into()
    };
    f.step(Actor::A, read_at, format!("{look}: it is free"));
    f.step(Actor::B, read_at, format!("{look}: it is free"));
    f.step(Actor::A, span, format!("{take}: goes to work"));
    f.step(Actor::B, span, format!("{take}: goes to work beside A"));
    f.lock = Some(key);
    f
}
