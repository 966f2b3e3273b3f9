//! Calls of SQL clients that matched a model row.
//!
//! `what` of the rows is a list of words. For statements, what one row becomes: `scalar`, `typed`, `checked`,
//! `checked-scalar`, else a row object; `file` where a file of the package holds the text. For what runs them, what is
//! fetched: `one`, `optional`, `all`, `count` (the number of rows), `done` (that number behind an accessor), `unit`, `stream`; `by-type` leaves the row to the type asked for.

use super::chain::{Builder, Built};
use super::handle::{self, handle};
use super::query::{self, Query};
use super::{Asked, Binds, Fetch, Request, RowType, round_trip};
use crate::frontend::sql::Dialect;
use crate::ir::*;
use crate::model::{OnDrop, ReplyKind, Role};
use crate::protocol::{Outcome, Site, api_acquire};
use std::ops::Range;

/// What a call does.
pub fn call(site: &Site<'_>) -> Outcome {
    match site.row.role {
        Role::Statement if site.row.on.is_some() => statement(site),
        Role::Terminal => terminal(site),
        Role::TxBegin => {
            let handle = Handle { kind: HandleKind::Transaction, ..handle::of_result(site) };
            control(site, "BEGIN", EffectKind::Begin, handle)
        }
        Role::TxCommit => control(site, "COMMIT", EffectKind::Commit, on(site)),
        Role::TxRollback => control(site, "ROLLBACK", EffectKind::Rollback, on(site)),
        Role::Migrate => migrate(site),
        Role::LockAcquire => lock_acquire(site),
        Role::LockRelease => lock_release(site),
        _ => Outcome::Silent,
    }
}

/// The executor: the row's `on`, else the receiver.
fn on(site: &Site<'_>) -> Handle {
    let operand = match &site.row.on {
        Some(place) => site.operand(place),
        None => site.receiver(),
    };
    operand.map_or_else(Handle::unknown, |operand| handle(site, operand))
}

fn control(site: &Site<'_>, command: &str, kind: EffectKind, handle: Handle) -> Outcome {
    effect(site, handle, vec![(command, kind)], None)
}

fn effect(site: &Site<'_>, handle: Handle, kinds: Vec<(&str, EffectKind)>, reply: Option<Reply>) -> Outcome {
    let effects = kinds
        .into_iter()
        .map(|(command, kind)| Effect { span: site.span, command: command.into(), kind, conditional: false })
        .collect();
    Outcome::Effect(Box::new(RoundTrip {
        handle,
        effects,
        atomicity: Atomicity::Single,
        reply,
        certainty: site.certainty,
        model: site.row.id.clone(),
        guard: None,
    }))
}

fn dialect(site: &Site<'_>) -> Dialect {
    match site.models.file(site.row).head.backend.as_deref() {
        Some("postgres") => Dialect::Postgres,
        Some("mysql") => Dialect::MySql,
        Some("sqlserver") => Dialect::SqlServer,
        Some("sqlite") => Dialect::Sqlite,
        _ => Dialect::Unknown,
    }
}

fn words(what: Option<&String>) -> impl Iterator<Item = &str> {
    what.map(String::as_str).unwrap_or_default().split_whitespace()
}

fn fetch(site: &Site<'_>) -> Fetch {
    let mut out = Fetch::Unknown;
    for word in words(site.row.what.as_ref()) {
        out = match word {
            "one" => Fetch::One,
            "optional" => Fetch::Optional,
            "all" => Fetch::All,
            "count" => Fetch::Count,
            "done" => Fetch::Done,
            "unit" => Fetch::Unit,
            _ => out,
        };
    }
    out
}

/// The type of one row as the caller asks for it, taken out of what `fetch` puts around it.
fn asked(site: &Site<'_>, fetch: Fetch, known: Option<&Ty>) -> Ty {
    if let Some(ty) = known.filter(|ty| !ty.is_unknown()) {
        return ty.clone();
    }
    let turbofish = site.row.asked.is_some() && !site.call.generics.is_empty();
    let ty = site.asked();
    match (fetch, ty.last()) {
        (Fetch::Optional, "Option") | (Fetch::All, "Vec") if !turbofish => ty.arg(0),
        (Fetch::Optional | Fetch::All, _) if !turbofish => Ty::unknown(),
        _ => ty,
    }
}

fn primitive(ty: &Ty) -> bool {
    matches!(
        ty.last(),
        "bool"
            | "i8"
            | "i16"
            | "i32"
            | "i64"
            | "u8"
            | "u16"
            | "u32"
            | "u64"
            | "f64"
            | "String"
            | "str"
            | "Uuid"
            | "usize"
            | "isize"
    ) || ty.last() == "Option" && primitive(&ty.arg(0))
}

fn by_type(ty: Ty) -> RowType {
    match () {
        () if ty.is_unknown() => RowType::Unknown,
        () if ty.is_unit() || primitive(&ty) => RowType::Scalar(ty),
        () => RowType::Typed(ty),
    }
}

/// What one row becomes, by the word of the statement's row and the type asked for.
fn row_type(site: &Site<'_>, kind: Option<&String>, fetch: Fetch, known: Option<&Ty>) -> RowType {
    let ty = || asked(site, fetch, known);
    let mut out = RowType::Dynamic;
    for word in words(kind) {
        out = match word {
            "scalar" => RowType::Scalar(ty()),
            "typed" => RowType::Typed(ty()),
            "checked" => RowType::Checked,
            "checked-scalar" => RowType::CheckedScalar,
            "by-type" => by_type(ty()),
            _ => out,
        };
    }
    out
}

/// A statement that is sent by the call that takes its text.
fn statement(site: &Site<'_>) -> Outcome {
    let Some(place) = &site.row.sql else { return Outcome::Silent };
    let fetch = fetch(site);
    let row = row_type(site, site.row.what.as_ref(), fetch, None);
    let text = site.value(place);
    let binds = site.value_at(&site.row.params).map(|v| super::chain::parameters(&v)).unwrap_or_default();
    // `client.query(&statement, ..)`: the text was given to `prepare`.
    let builder = builder(site);
    let (text, binds) = match builder.build(&text) {
        Some(Built::Statement(built)) => (built.text, if binds == Binds::default() { built.binds } else { binds }),
        _ => (text, binds),
    };
    send(site, &text, binds, on(site), Asked { fetch, row }, site.span)
}

fn builder<'a>(site: &'a Site<'_>) -> Builder<'a> {
    Builder {
        program: site.program,
        models: site.models,
        versions: site.versions,
        file: site.row.file,
        span: site.span,
    }
}

fn send(
    site: &Site<'_>,
    text: &Value,
    binds: Binds,
    handle: Handle,
    asked: Asked,
    span: crate::source::Span,
) -> Outcome {
    let place = |_: Range<usize>| span;
    let request = Request {
        text,
        binds,
        handle,
        dialect: dialect(site),
        asked,
        enters: true,
        place: &place,
        certainty: site.certainty,
        model: site.row.id.clone(),
    };
    match round_trip(request, site.sql) {
        Some(trip) => Outcome::Effect(Box::new(trip)),
        None => Outcome::Opaque("the SQL text is not known".into()),
    }
}

/// Runs what a chain has built.
fn terminal(site: &Site<'_>) -> Outcome {
    let runs = match &site.row.runs {
        Some(place) => site.operand(place),
        None => site.receiver(),
    };
    let Some(runs) = runs else { return Outcome::Silent };
    let value = site.value_of(runs);
    let fetch = fetch(site);
    let built = match words(site.row.what.as_ref()).any(|w| w == "model") {
        true => model(site, runs, &value).map(Built::Query),
        false => builder(site).build(&value),
    };
    match built {
        Some(Built::Statement(built)) => {
            let kind = if words(site.row.what.as_ref()).any(|w| w == "by-type") {
                site.row.what.as_ref()
            } else {
                built.row.as_ref()
            };
            let row = row_type(site, kind, fetch, built.asked.as_ref());
            let span = built.span.unwrap_or(site.span);
            let sent = send(site, &built.text, built.binds, on(site), Asked { fetch, row }, span);
            if built.may_lock { perhaps(sent) } else { sent }
        }
        Some(Built::Query(built)) => {
            let effects = query::effects(&built, site.span, dialect(site), site.sql);
            if effects.is_empty() {
                return Outcome::Silent;
            }
            let reply = query::reply(&effects, fetch);
            Outcome::Effect(Box::new(RoundTrip {
                handle: on(site),
                effects,
                atomicity: Atomicity::Single,
                reply,
                certainty: site.certainty,
                model: site.row.id.clone(),
                guard: None,
            }))
        }
        // `x.execute(y)`, `x.first(y)` of something else: common names.
        None => Outcome::Silent,
    }
}

/// The write of a row object by one of its own methods.
fn model(site: &Site<'_>, row: &Operand, value: &Value) -> Option<Query> {
    // Other things have methods of these names: only what is given a connection writes.
    if on(site).kind == HandleKind::Unknown && !is_executor(site) {
        return None;
    }
    let ty = site.program.receiver(site.function, row);
    Query::of_model(&site.program.resolve(site.function, &ty.path), site.call.name(), value, site.span)
}

/// Whether the executor's type is one that the client crate names.
fn is_executor(site: &Site<'_>) -> bool {
    let Some(operand) = site.row.on.as_ref().and_then(|place| site.operand(place)) else { return false };
    let types = crate::model::receiver_types(site.program, site.function, operand);
    types.iter().any(|ty| site.models.type_roles(ty).iter().any(|(file, _)| *file == site.row.file))
}

/// The row locks of a statement that has its locking clause on some paths only.
fn perhaps(mut sent: Outcome) -> Outcome {
    if let Outcome::Effect(trip) = &mut sent {
        let row = |e: &&mut Effect| matches!(&e.kind, EffectKind::Acquire(a) if a.kind == LockKind::Row);
        trip.effects.iter_mut().filter(row).for_each(|e| e.conditional = true);
    }
    sent
}

/// Migrations under the runner's own session lock (sqlx takes one unless `set_locking(false)`).
fn migrate(site: &Site<'_>) -> Outcome {
    let receiver = site.receiver().map(|r| site.value_of(r));
    if receiver.is_some_and(|value| unlocked(&value, 0)) {
        return Outcome::Silent;
    }
    // SQLite locks the file by itself.
    let on_type =
        site.row.on.as_ref().and_then(|place| site.operand(place)).map(|o| site.program.receiver(site.function, o));
    if on_type.is_some_and(|ty| ty.to_string().contains("Sqlite")) {
        return Outcome::Silent;
    }
    let backend = Backend::Sql;
    let key = Value::str("sqlx migrations");
    let acquire = Acquire {
        backend,
        kind: LockKind::Session,
        form: AcquireForm::LockApi,
        key: key.clone(),
        token: Value::Unknown,
        ttl: Ttl::Managed,
        blocking: true,
    };
    let release = Release { backend, kind: LockKind::Session, key, check: OwnerCheck::Server, all: false };
    // The lock is taken and given back on one connection inside the call, whatever the caller's handle is.
    let mut handle = on(site);
    if matches!(handle.kind, HandleKind::Pool | HandleKind::Unknown) {
        handle.kind = HandleKind::Pinned;
    }
    let kinds =
        vec![("migration lock", EffectKind::Acquire(acquire)), ("migration unlock", EffectKind::Release(release))];
    effect(site, handle, kinds, None)
}

fn unlocked(value: &Value, depth: usize) -> bool {
    let Value::Call(call) = value else { return false };
    let off = call.name == ".set_locking" && call.args.get(1) == Some(&Value::Const(Lit::Bool(false)));
    off || depth < 16 && call.args.first().is_some_and(|v| unlocked(v, depth + 1))
}

/// `PgAdvisoryLock::acquire(conn)`: a session lock whatever the connection is in.
fn lock_acquire(site: &Site<'_>) -> Outcome {
    let mut acquire = api_acquire(site, Backend::Postgres, LockKind::Session);
    acquire.ttl = Ttl::Managed;
    let guard = site.row.on_drop.map(|drop| match drop {
        OnDrop::Releases => GuardDrop::Releases,
        OnDrop::Later => GuardDrop::Later,
        OnDrop::Nothing => GuardDrop::Nothing,
    });
    let (held, lost) = match site.row.reply {
        Some(ReplyKind::Either) => {
            let side = |name: &str| Shape::Variant(format!("Either::{name}"), vec![Shape::Unknown]).ok();
            (side("Left"), side("Right"))
        }
        _ => (Shape::Unknown.ok(), Shape::err()),
    };
    let reply = Reply { held, lost, failed: Shape::err() };
    match effect(site, on(site), vec![("pg_advisory_lock", EffectKind::Acquire(acquire))], Some(reply)) {
        Outcome::Effect(mut trip) => {
            trip.guard = guard;
            Outcome::Effect(trip)
        }
        other => other,
    }
}

fn lock_release(site: &Site<'_>) -> Outcome {
    let key = site.value_at(&site.row.key).map_or(Value::Unknown, |value| lock_key(&value, 0));
    let release =
        Release { backend: Backend::Postgres, kind: LockKind::Session, key, check: OwnerCheck::Server, all: false };
    effect(site, on(site), vec![("pg_advisory_unlock", EffectKind::Release(release))], None)
}

/// The key of a guard or lock object: what `PgAdvisoryLock::new` was given.
fn lock_key(value: &Value, depth: usize) -> Value {
    match value {
        Value::Call(call) if depth < 8 && (call.name.starts_with('.') || call.name.contains("PgAdvisoryLock")) => {
            call.args.first().map_or(Value::Unknown, |inner| lock_key(inner, depth + 1))
        }
        other => other.clone(),
    }
}
