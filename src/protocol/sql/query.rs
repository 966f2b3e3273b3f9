//! Queries of builders (diesel, sea-orm, sea-query): table, verb, conditions and row locks instead of text.
//!
//! `what` of their rows is one word: `select`, `update`, `delete`, `insert` begin a query (the table is argument 0 or the
//! receiver), `upsert` makes an INSERT decided by the store, `do-update` one that overwrites, `filter` adds conditions, `set` values, `key` the primary
//! key, `returning` keeps rows; row locks name their clause.

use super::chain::{Builder, Built};
use super::{Context, Fetch, row_key, text};
use crate::frontend::sql::Dialect;
use crate::ir::*;
use crate::model::{Role, Row};
use crate::source::Span;

/// A query under construction.
#[derive(Clone, Debug, Default)]
pub(super) struct Query {
    table: Option<String>,
    verb: &'static str,
    conditions: Vec<(String, String, Value)>,
    columns: Vec<String>,
    values: Vec<Value>,
    lock: Option<(String, bool)>,
    upsert: bool,
    /// A row that is there is overwritten.
    overwrites: bool,
    /// The first of the columns that an upsert overwrites.
    overwritten: Option<usize>,
    /// Something of the condition could not be read.
    opaque: bool,
    /// A row of the model was part of it.
    pub known: bool,
    /// Where the verb of a write is written: `diesel::update(`, `Entity::insert(`.
    pub verb_at: Option<Span>,
    /// `diesel::select(..)` of declared SQL functions: name and arguments.
    functions: Vec<(String, Vec<Value>)>,
}

impl Query {
    /// A chain that begins with a path: `jobs::table`, `dsl::jobs`, `Entity`.
    pub fn of_path(path: &str) -> Option<Query> {
        table_name(path).map(|table| Query { table: Some(table), verb: "SELECT", ..Query::default() })
    }

    /// The write that a method of a row object of this type makes.
    pub fn of_model(path: &str, method: &str, value: &Value, at: Span) -> Option<Query> {
        let verb = match method {
            "insert" => "INSERT",
            "delete" => "DELETE",
            // `save` inserts where the key is not set, and then no row is there to overwrite.
            _ => "UPDATE",
        };
        let table = table_name(path).filter(|_| path.contains("::"))?;
        let mut query = Query { table: Some(table), verb, known: true, verb_at: Some(at), ..Query::default() };
        if verb != "INSERT" {
            query.conditions.push(("id".into(), "=".into(), Value::Unknown));
        }
        if let Value::Aggregate(..) = value {
            query.assign(value);
        }
        Some(query)
    }

    /// Adds a builder call.
    pub fn step(&mut self, builder: &Builder<'_>, row: &Row, args: &[Value], depth: usize) {
        self.known = true;
        if row.role == Role::RowLock {
            let words = row.what.clone().unwrap_or_else(|| "FOR UPDATE".into());
            match (words.as_str(), &mut self.lock) {
                ("SKIP LOCKED" | "NOWAIT", Some((clause, blocking))) => {
                    clause.push(' ');
                    clause.push_str(&words);
                    *blocking = false;
                }
                ("SKIP LOCKED" | "NOWAIT", None) => {}
                ("by-argument", lock) => *lock = Some(lock_by_argument(args)),
                _ => self.lock = Some((words, true)),
            }
            return;
        }
        for word in row.what.as_deref().unwrap_or("").split_whitespace() {
            self.word(word, builder, args, depth);
        }
    }

    fn word(&mut self, word: &str, builder: &Builder<'_>, args: &[Value], depth: usize) {
        match word {
            verb @ ("select" | "update" | "delete" | "insert") => {
                self.verb = match verb {
                    "update" => "UPDATE",
                    "delete" => "DELETE",
                    "insert" => "INSERT",
                    _ => "SELECT",
                };
                // `Entity::update(model)`: the table is known by the path before.
                if self.table.is_none() {
                    self.target(builder, args, depth);
                }
            }
            "functions" => {
                self.verb = "SELECT";
                self.functions.extend(args.iter().flat_map(functions));
            }
            "filter" => {
                for arg in args {
                    self.opaque |= !conditions(arg, "", 0, &mut self.conditions);
                }
            }
            "key" => self.conditions.push(("id".into(), "=".into(), args.first().cloned().unwrap_or(Value::Unknown))),
            "set" => args.iter().for_each(|arg| self.assign(arg)),
            "col" => {
                let column = args.first().map(column_name).unwrap_or_default();
                self.columns.push(column.unwrap_or_default());
                self.values.push(args.get(1).map_or(Value::Unknown, plain));
            }
            // `Entity::update(model)` compares the primary key.
            "model" => self.conditions.push(("id".into(), "=".into(), Value::Unknown)),
            "upsert" => {
                self.upsert = true;
                if args.iter().any(|arg| updates(arg, 0)) {
                    self.overwrites = true;
                }
            }
            "do-update" => {
                (self.upsert, self.overwrites) = (true, true);
                self.overwritten = Some(self.columns.len());
            }
            _ => {}
        }
    }

    fn target(&mut self, builder: &Builder<'_>, args: &[Value], depth: usize) {
        match args.first() {
            Some(Value::Path(path)) => self.table = table_name(path),
            Some(Value::Call(_)) => {
                if let Some(Built::Query(inner)) = args.first().and_then(|v| builder.build_at(v, depth + 1)) {
                    self.table = inner.table;
                    self.conditions = inner.conditions;
                    self.opaque = inner.opaque;
                } else if let Some(Value::Call(inner)) = args.first() {
                    // `jobs::table.find(id)` with steps that no row names.
                    self.table = root_path(inner).and_then(table_name);
                }
            }
            _ => {}
        }
    }

    fn assign(&mut self, value: &Value) {
        match value {
            Value::Aggregate(path, fields) if path == "()" || path == "[]" => {
                fields.iter().for_each(|(_, v)| self.assign(v))
            }
            Value::Call(call) if call.name == ".eq" && call.args.len() == 2 => {
                self.columns.push(column_name(&call.args[0]).unwrap_or_default());
                self.values.push(plain(&call.args[1]));
            }
            Value::Aggregate(_, fields) => {
                for (name, value) in fields {
                    self.columns.push(name.clone());
                    self.values.push(plain(value));
                }
            }
            other => {
                self.columns.push(String::new());
                self.values.push(text::bounded(other));
            }
        }
    }
}

/// Whether an `OnConflict::column(..)` chain overwrites: `update_column`, `update_columns`, `value`, `values`.
fn updates(value: &Value, depth: usize) -> bool {
    let Value::Call(call) = value else { return false };
    let last = call.name.rsplit([':', '.']).next().unwrap_or("");
    matches!(last, "update_column" | "update_columns" | "value" | "values" | "update_expr" | "update_exprs")
        || depth < 16 && call.args.first().is_some_and(|inner| updates(inner, depth + 1))
}

fn root_path(call: &CallValue) -> Option<&str> {
    let mut next = call.args.first()?;
    for _ in 0..64 {
        match next {
            Value::Path(path) => return Some(path),
            Value::Call(inner) => next = inner.args.first()?,
            _ => return None,
        }
    }
    None
}

/// `crate::schema::jobs::table`, `entity::job::Entity`, `schema::jobs::dsl::jobs` -> the table.
fn table_name(path: &str) -> Option<String> {
    let parts: Vec<&str> = path.split("::").collect();
    let last = *parts.last()?;
    let name = match last {
        "table" | "Entity" | "dsl" | "Model" | "ActiveModel" | "Column" => {
            parts.get(parts.len().checked_sub(2)?).copied()?
        }
        // `JobEntity`, `Jobs` under an alias.
        _ => last,
    };
    (!name.is_empty()).then(|| name.to_string())
}

/// `jobs::id`, `job::Column::LockedBy` -> `id`, `locked_by`.
fn column_name(value: &Value) -> Option<String> {
    match value {
        Value::Path(path) => {
            let last = path.rsplit("::").next()?;
            if !last.starts_with(char::is_uppercase) {
                return Some(last.to_string());
            }
            let mut out = String::new();
            for (i, c) in last.chars().enumerate() {
                if c.is_uppercase() && i > 0 {
                    out.push('_');
                }
                out.extend(c.to_lowercase());
            }
            Some(out)
        }
        Value::Call(call) if !call.args.is_empty() => column_name(&call.args[0]),
        _ => None,
    }
}

/// Wrappers of values: `Set(x)`, `Expr::value(x)`, `x.into()`.
fn plain(value: &Value) -> Value {
    match value {
        Value::Call(call)
            if call.args.len() == 1
                && matches!(
                    call.name.rsplit([':', '.']).next(),
                    Some("value" | "val" | "into" | "nullable" | "into_sql" | "clone")
                ) =>
        {
            plain(&call.args[0])
        }
        Value::Aggregate(path, fields)
            if fields.len() == 1 && matches!(path.rsplit("::").next(), Some("Set" | "Some" | "ActiveValue")) =>
        {
            plain(&fields[0].1)
        }
        other => text::bounded(other),
    }
}

/// `col.eq(v).and(..)`; `false` if a part could not be read.
fn conditions(value: &Value, prefix: &str, depth: usize, out: &mut Vec<(String, String, Value)>) -> bool {
    if depth > 16 {
        return false;
    }
    let Value::Call(call) = value else { return false };
    let name = call.name.rsplit([':', '.']).next().unwrap_or("");
    let sub = |v: &Value, prefix: &str, out: &mut Vec<_>| conditions(v, prefix, depth + 1, out);
    let op = match name {
        "eq" => "=",
        "ne" => "<>",
        "lt" => "<",
        "le" | "lte" => "<=",
        "gt" => ">",
        "ge" | "gte" => ">=",
        "eq_any" | "is_in" => "in",
        "is_null" => "is null",
        "is_not_null" => "is not null",
        "like" | "ilike" | "contains" | "between" | "ne_all" | "is_not_in" => name,
        "and" => return call.args.iter().all(|v| sub(v, prefix, out)),
        "or" => return call.args.iter().all(|v| sub(v, "or ", out)),
        // `Condition::all().add(a).add(b)`, `Condition::any()..`
        "add" if call.args.len() == 2 => {
            let any = matches!(&call.args[0], Value::Call(inner) if begins_any(inner));
            let first = match &call.args[0] {
                Value::Call(inner)
                    if matches!(inner.name.rsplit([':', '.']).next(), Some("all" | "any")) && inner.args.is_empty() =>
                {
                    true
                }
                inner => sub(inner, prefix, out),
            };
            return sub(&call.args[1], if any { "or " } else { prefix }, out) && first;
        }
        _ => return false,
    };
    let Some(column) = call.args.first().and_then(column_name) else { return false };
    let right = match op {
        "is null" | "is not null" => Value::Path("sql::null".into()),
        _ => call.args.get(1).map_or(Value::Unknown, plain),
    };
    out.push((column, format!("{prefix}{op}"), right));
    true
}

fn begins_any(call: &CallValue) -> bool {
    let mut next = call;
    for _ in 0..64 {
        if next.name.ends_with("::any") {
            return true;
        }
        match next.args.first() {
            Some(Value::Call(inner)) => next = inner,
            _ => return false,
        }
    }
    false
}

/// `lock(LockType::Update)`, `lock_with_behavior(LockType::Update, LockBehavior::SkipLocked)`
fn lock_by_argument(args: &[Value]) -> (String, bool) {
    let last = |v: Option<&Value>| match v {
        Some(Value::Path(path)) => path.rsplit("::").next().unwrap_or("").to_string(),
        _ => String::new(),
    };
    let clause = match last(args.first()).as_str() {
        "NoKeyUpdate" => "FOR NO KEY UPDATE",
        "Share" => "FOR SHARE",
        "KeyShare" => "FOR KEY SHARE",
        _ => "FOR UPDATE",
    };
    match last(args.get(1)).as_str() {
        "SkipLocked" => (format!("{clause} SKIP LOCKED"), false),
        "Nowait" => (format!("{clause} NOWAIT"), false),
        _ => (clause.into(), true),
    }
}

/// Declared SQL functions in `diesel::select((a(x), b(y)))`.
fn functions(value: &Value) -> Vec<(String, Vec<Value>)> {
    match value {
        Value::Call(call) if !call.name.starts_with('.') => {
            vec![(call.name.rsplit("::").next().unwrap_or("").to_string(), call.args.clone())]
        }
        Value::Call(call) => call.args.first().map(functions).unwrap_or_default(),
        Value::Aggregate(path, fields) if path == "()" => fields.iter().flat_map(|(_, v)| functions(v)).collect(),
        _ => Vec::new(),
    }
}

fn backend(dialect: Dialect) -> Backend {
    match dialect {
        Dialect::Postgres => Backend::Postgres,
        Dialect::MySql => Backend::MySql,
        Dialect::SqlServer => Backend::SqlServer,
        _ => Backend::Sql,
    }
}

/// The effects of a finished query.
pub(super) fn effects(query: &Query, span: Span, dialect: Dialect, context: &Context) -> Vec<Effect> {
    // A write stands where its verb and target are named, not where the finished statement is sent.
    let span = if query.verb == "SELECT" { span } else { query.verb_at.unwrap_or(span) };
    let effect = |command: String, kind: EffectKind| Effect { span, command, kind, conditional: false };
    let mut out = Vec::new();
    for (name, args) in &query.functions {
        out.extend(super::advisory::declared(name, args).map(|kind| effect(name.clone(), kind)));
    }
    let Some(table) = &query.table else { return out };
    let resource = Resource::Table(text::plain_name(table));
    if query.verb == "SELECT" {
        if let Some((clause, blocking)) = &query.lock {
            let key = query.conditions.iter().filter(|(_, op, v)| op == "=" && !matches!(v, Value::Const(_)));
            let acquire = Acquire {
                backend: backend(dialect),
                kind: LockKind::Row,
                form: AcquireForm::LockApi,
                key: row_key(table, key.map(|(_, _, v)| v.clone()).take(4).collect()),
                token: Value::Unknown,
                ttl: Ttl::Managed,
                blocking: *blocking,
            };
            out.push(effect(clause.clone(), EffectKind::Acquire(acquire)));
        }
        out.push(effect("SELECT".into(), EffectKind::Read(resource)));
        return out;
    }
    let safety = match query.verb {
        "INSERT" if query.overwrites => Safety::Upsert,
        "INSERT" if query.upsert => Safety::Unique,
        "INSERT" => {
            let named = query
                .columns
                .iter()
                .zip(&query.values)
                .filter(|(_, v)| !matches!(v, Value::Const(_) | Value::Unknown | Value::Fresh(_)));
            let columns: Vec<&str> = named.map(|(c, _)| c.as_str()).collect();
            if context.schema.is_unique(table, &columns) { Safety::Unique } else { Safety::None }
        }
        _ if query.opaque => Safety::Unknown,
        _ if query.conditions.is_empty() => Safety::None,
        _ => Safety::Conditions(query.conditions.clone()),
    };
    let assigned = match (query.verb, query.overwritten) {
        ("UPDATE", _) => query.columns.clone(),
        (_, Some(first)) => query.columns[first.min(query.columns.len())..].to_vec(),
        _ => Vec::new(),
    };
    let write = Write { resource, verb: query.verb.into(), safety, values: query.values.clone(), assigned, ttl: None };
    out.push(effect(query.verb.into(), EffectKind::Write(write)));
    out
}

/// What the caller sees of a row lock, a conditional write or a lock function.
pub(super) fn reply(effects: &[Effect], fetch: Fetch) -> Option<Reply> {
    let first = effects.iter().find_map(|e| match &e.kind {
        EffectKind::Acquire(a) => Some((a.kind == LockKind::Row, a.blocking, e.command.contains("NOWAIT"))),
        EffectKind::Release(_) => Some((false, false, false)),
        EffectKind::Write(w) if matches!(w.safety, Safety::Conditions(_) | Safety::Unique | Safety::Upsert) => {
            Some((true, false, false))
        }
        // Of a plain read: rows that someone else wrote, or none.
        EffectKind::Read(_) if effects.len() == 1 => Some((true, false, false)),
        _ => None,
    })?;
    let (rows, blocking, nowait) = first;
    let done = |n: i64| Shape::Struct(super::reply::DONE.into(), vec![("rows_affected".into(), Shape::Int(n))]).ok();
    let (held, lost) = match (rows, fetch) {
        (_, Fetch::Unit) => (Shape::Unit.ok(), Shape::Unit.ok()),
        (true, Fetch::Count) => (Shape::Int(1).ok(), Shape::Int(0).ok()),
        (true, Fetch::Done) => (done(1), done(0)),
        (true, Fetch::One) => (Shape::Unknown.ok(), Shape::err()),
        (true, Fetch::Optional) if blocking => (Shape::Unknown.ok(), Shape::None.ok()),
        (true, Fetch::Optional) => (Shape::Unknown.some().ok(), Shape::None.ok()),
        (true, Fetch::All) => {
            let list = |n: i64| Shape::Struct(super::reply::ROWS.into(), vec![("len".into(), Shape::Int(n))]).ok();
            (if blocking { Shape::Unknown.ok() } else { list(1) }, list(0))
        }
        // A lock function in `diesel::select`.
        (false, Fetch::One) => (Shape::Bool(!blocking).ok(), Shape::Bool(false).ok()),
        (false, Fetch::Count) => (Shape::Int(1).ok(), Shape::Int(1).ok()),
        _ => (Shape::Tainted, Shape::Tainted),
    };
    let lost = if nowait { Shape::err() } else { lost };
    Some(Reply { held, lost, failed: Shape::err() })
}
