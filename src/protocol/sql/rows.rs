//! Row locks, table locks, reads and writes.

use super::{Reading, lease, row_key, text};
use crate::frontend::sql::ast::*;
use crate::frontend::sql::walk;
use crate::ir::*;

/// A statement that writes, with its place.
pub(super) struct Dml<'a> {
    pub statement: &'a Statement,
    /// The outermost statement, for its CTEs.
    pub root: &'a Statement,
}

impl<'a> Dml<'a> {
    pub fn table(&self) -> Option<&'a Table> {
        match &self.statement.kind {
            StatementKind::Insert(i) => Some(&i.table),
            StatementKind::Update(u) => Some(&u.table),
            StatementKind::Delete(d) => Some(&d.table),
            StatementKind::Merge(t) => Some(t),
            _ => None,
        }
    }

    pub fn filter(&self) -> Option<&'a Expr> {
        match &self.statement.kind {
            StatementKind::Update(u) => u.filter.as_ref(),
            StatementKind::Delete(d) => d.filter.as_ref(),
            StatementKind::Insert(i) => i.conflict.as_ref()?.filter.as_ref(),
            _ => None,
        }
    }

    /// FROM and USING.
    pub fn from(&self) -> &'a [Source] {
        match &self.statement.kind {
            StatementKind::Update(u) => &u.from,
            StatementKind::Delete(d) => &d.from,
            _ => &[],
        }
    }

    /// Sub-selects on the target itself that choose the rows: `id IN (SELECT id FROM target ..)`, `FROM cte`.
    pub fn choosers(&self) -> Vec<&'a Select> {
        let Some(table) = self.table() else { return Vec::new() };
        let mut out = Vec::new();
        let mut seen = |s: &'a Statement| {
            if let StatementKind::Select(select) = &s.kind
                && select.from.iter().any(|f| matches!(f, Source::Table(t) if t.name == table.name))
            {
                out.push(&**select);
            }
        };
        if let Some(filter) = self.filter() {
            walk::walk_expr(filter, walk::Position::Filter, &mut seen, &mut |_, _| {});
        }
        for source in self.from() {
            if let Source::Query(q, _) = source {
                walk::walk(q, &mut seen, &mut |_, _| {});
            }
        }
        for (name, cte) in self.root.ctes.iter().chain(&self.statement.ctes) {
            let used = self.from().iter().any(|s| matches!(s, Source::Table(t) if t.name == *name))
                || self.filter().is_some_and(|f| reads_table(f, name));
            if used {
                walk::walk(cte, &mut seen, &mut |_, _| {});
            }
        }
        out
    }
}

fn reads_table(e: &Expr, name: &str) -> bool {
    let mut found = false;
    walk::walk_expr(
        e,
        walk::Position::Filter,
        &mut |s| {
            if let StatementKind::Select(select) = &s.kind {
                found |= select.from.iter().any(|f| matches!(f, Source::Table(t) if t.name == name));
            }
        },
        &mut |_, _| {},
    );
    found
}

/// All writing statements, CTEs first.
pub(super) fn dmls(root: &Statement) -> Vec<Dml<'_>> {
    let mut out = Vec::new();
    walk::walk(
        root,
        &mut |s| {
            use StatementKind::{Delete, Insert, Merge, Update};
            if matches!(s.kind, Insert(_) | Update(_) | Delete(_) | Merge(_)) {
                out.push(Dml { statement: s, root });
            }
        },
        &mut |_, _| {},
    );
    out.sort_by_key(|d| d.statement.head.start);
    out
}

/// Effects on rows and tables.
pub(super) fn effects(reading: &Reading<'_>, statement: &Statement) -> Vec<Effect> {
    let mut out = issues(reading, statement);
    out.extend(reads(reading, statement));
    match &statement.kind {
        StatementKind::LockTable { tables, mode, .. } => {
            let command = if mode.is_empty() {
                "LOCK TABLE".into()
            } else {
                format!("LOCK TABLE .. IN {} MODE", mode.to_uppercase())
            };
            out.extend(tables.iter().map(|t| {
                reading.effect(t.range.clone(), command.clone(), row_lock(reading, statement, t, Vec::new(), true))
            }));
            return out;
        }
        StatementKind::Truncate(tables) => {
            out.extend(tables.iter().map(|t| {
                let table = Resource::Table(text::plain_name(&t.name));
                let write = Write::new(table, "TRUNCATE", Safety::None, Vec::new(), None);
                reading.effect(statement.head.clone(), "TRUNCATE", EffectKind::Write(write))
            }));
            return out;
        }
        _ => {}
    }
    let writes = dmls(statement);
    if writes.is_empty() {
        out.extend(row_locks(reading, statement));
    }
    for dml in &writes {
        match lease::effects(reading, dml) {
            Some(effects) => out.extend(effects),
            None => out.extend(write(reading, dml)),
        }
    }
    out
}

fn issues(reading: &Reading<'_>, statement: &Statement) -> Vec<Effect> {
    let mut out = Vec::new();
    walk::walk(statement, &mut |_| {}, &mut |e, _| {
        if let ExprKind::Call(f) = &e.kind
            && f.last() == "nextval"
        {
            let value = f.args.first().map_or(Value::Unknown, |a| text::value(reading.text, reading.binds, a));
            out.push(reading.effect(f.range.clone(), "nextval", EffectKind::Issue(value)));
        }
    });
    out
}

/// Tables read by SELECTs of the statement, CTE names left out.
fn reads(reading: &Reading<'_>, statement: &Statement) -> Vec<Effect> {
    let mut out: Vec<Effect> = Vec::new();
    let ctes: Vec<&str> = statement.ctes.iter().map(|(name, _)| name.as_str()).collect();
    walk::walk(
        statement,
        &mut |s| {
            let StatementKind::Select(select) = &s.kind else { return };
            for source in &select.from {
                let Source::Table(t) = source else { continue };
                let kind = EffectKind::Read(Resource::Table(text::plain_name(&t.name)));
                if !ctes.contains(&t.name.as_str()) && !out.iter().any(|e| e.kind == kind) {
                    out.push(reading.effect(t.range.clone(), "SELECT", kind));
                }
            }
        },
        &mut |_, _| {},
    );
    out
}

fn row_lock(
    reading: &Reading<'_>,
    statement: &Statement,
    table: &Table,
    key: Vec<Value>,
    blocking: bool,
) -> EffectKind {
    EffectKind::Acquire(Acquire {
        backend: reading.backend(statement.dialect),
        kind: LockKind::Row,
        form: AcquireForm::LockApi,
        key: row_key(&table.name, key),
        token: Value::Unknown,
        ttl: Ttl::Managed,
        blocking,
    })
}

/// FOR UPDATE and kin of a statement that does not write, one effect for each locked table.
fn row_locks(reading: &Reading<'_>, statement: &Statement) -> Vec<Effect> {
    let mut out: Vec<Effect> = Vec::new();
    walk::walk(
        statement,
        &mut |s| {
            let StatementKind::Select(select) = &s.kind else { return };
            for lock in &select.locks {
                for source in &select.from {
                    let Source::Table(t) = source else { continue };
                    let named = lock.of.is_empty() || lock.of.iter().any(|of| of == t.reference() || of == t.last());
                    if !named {
                        continue;
                    }
                    let key = select.filter.as_ref().map_or_else(Vec::new, |f| key_values(reading, t, f));
                    let command = match lock.strength {
                        Strength::Update => "FOR UPDATE",
                        Strength::NoKeyUpdate => "FOR NO KEY UPDATE",
                        Strength::Share => "FOR SHARE",
                        Strength::KeyShare => "FOR KEY SHARE",
                    };
                    let suffix = match lock.wait {
                        Wait::Block => "",
                        Wait::NoWait => " NOWAIT",
                        Wait::SkipLocked => " SKIP LOCKED",
                    };
                    let kind = row_lock(reading, statement, t, key, lock.wait == Wait::Block);
                    let effect = reading.effect(lock.range.clone(), format!("{command}{suffix}"), kind);
                    // A table joined to itself is one lock to talk of.
                    if !out.contains(&effect) {
                        out.push(effect);
                    }
                }
            }
        },
        &mut |_, _| {},
    );
    out
}

/// Values that columns of `table` must equal, by the conjunction.
pub(super) fn key_values(reading: &Reading<'_>, table: &Table, filter: &Expr) -> Vec<Value> {
    let mut list = Vec::new();
    conditions(reading, table, filter, "", &mut list);
    // Literal words are states, not keys.
    let named = |value: &Value| {
        !matches!(
            value,
            Value::Const(Lit::Str(_) | Lit::Bool(_)) | Value::Path(_) | Value::Operation(..) | Value::Unknown
        )
    };
    list.into_iter().filter(|(_, op, value)| op == "=" && named(value)).map(|(_, _, v)| v).take(4).collect()
}

/// One comparison of a column: (column, operator, value).
pub(super) type Condition = (String, String, Value);

/// Comparisons of columns of `table` in a condition; those inside OR get `or ` before their operator. Returns whether a
/// part could not be read and may hold anything.
pub(super) fn conditions(
    reading: &Reading<'_>,
    table: &Table,
    e: &Expr,
    prefix: &str,
    out: &mut Vec<Condition>,
) -> bool {
    let mut opaque = false;
    for part in e.conjuncts() {
        let alternatives = part.disjuncts();
        if alternatives.len() > 1 {
            for alternative in alternatives {
                opaque |= conditions(reading, table, alternative, "or ", out);
            }
            continue;
        }
        opaque |= condition(reading, table, part, prefix, out);
    }
    opaque
}

fn condition(reading: &Reading<'_>, table: &Table, part: &Expr, prefix: &str, out: &mut Vec<Condition>) -> bool {
    let value = |e: &Expr| text::value(reading.text, reading.binds, e);
    match &part.kind {
        ExprKind::Hole(_) | ExprKind::Opaque => return true,
        ExprKind::Binary(op, l, r) => {
            if let (ExprKind::List(ls), ExprKind::List(rs)) = (&l.kind, &r.kind)
                && ls.len() == rs.len()
                && ls.len() > 1
            {
                for (l, r) in ls.iter().zip(rs) {
                    if let Some(column) = own_column(reading, table, l) {
                        out.push((column, format!("{prefix}{op}"), value(r)));
                    }
                }
            } else if let Some(column) = own_column(reading, table, l) {
                let op = if op == "is not distinct from" { "=" } else { op };
                // `status = ANY($1)` is `IN`.
                let (op, right) = match &r.kind {
                    ExprKind::Call(f) if f.name == "any" && op == "=" => {
                        ("in", f.args.first().map_or(Value::Unknown, value))
                    }
                    _ => (op, value(r)),
                };
                out.push((column, format!("{prefix}{op}"), right));
            } else if let Some(column) = own_column(reading, table, r) {
                out.push((column, format!("{prefix}{}", mirrored(op)), value(l)));
            } else if let Some(column) = first_column(reading, table, l).or_else(|| first_column(reading, table, r)) {
                // `coalesce(version, 0) = $1`, `locked_at + interval '1 min' < now()`.
                out.push((
                    column,
                    format!("{prefix}{op}"),
                    Value::Operation(op.clone(), vec![value(l), value(r)].into()),
                ));
            }
        }
        ExprKind::Unary(op, x) if op.starts_with("is ") => {
            if let Some(column) = own_column(reading, table, x) {
                out.push((column, format!("{prefix}{op}"), Value::Path("sql::null".into())));
            }
        }
        ExprKind::Unary(op, x) if op == "not" => {
            if let Some(column) = own_column(reading, table, x) {
                out.push((column, format!("{prefix}="), Value::Const(Lit::Bool(false))));
            } else if let Some(column) = first_column(reading, table, x) {
                out.push((column, format!("{prefix}not"), Value::Unknown));
            }
        }
        ExprKind::Column(_) => {
            if let Some(column) = own_column(reading, table, part) {
                out.push((column, format!("{prefix}="), Value::Const(Lit::Bool(true))));
            }
        }
        ExprKind::List(list) if list.len() == 1 => return conditions(reading, table, &list[0], prefix, out),
        _ => {}
    }
    false
}

fn mirrored(op: &str) -> &str {
    match op {
        "<" => ">",
        "<=" => ">=",
        ">" => "<",
        ">=" => "<=",
        other => other,
    }
}

/// A column of `table`: unqualified, or qualified by its name or alias; never a variable of the routine around.
pub(super) fn own_column(reading: &Reading<'_>, table: &Table, e: &Expr) -> Option<String> {
    let ExprKind::Column(path) = &e.bare().kind else { return None };
    let last = path.last()?;
    match path.len() {
        1 => {
            let other = reading.binds.variables.contains_key(last) || text::clock_name(last);
            (!other).then(|| text::plain_name(last))
        }
        n => {
            let qualifier = &path[n - 2];
            (qualifier == table.reference() || qualifier == table.last()).then(|| text::plain_name(last))
        }
    }
}

fn first_column(reading: &Reading<'_>, table: &Table, e: &Expr) -> Option<String> {
    let mut found = None;
    walk::walk_expr(e, walk::Position::Filter, &mut |_| {}, &mut |e, _| {
        if found.is_none() {
            found = own_column(reading, table, e);
        }
    });
    found
}

/// The conditions under which the statement touches a row, with those of the sub-selects that choose it; `None` if a part
/// could not be read.
pub(super) fn guard(reading: &Reading<'_>, dml: &Dml<'_>) -> Option<Vec<Condition>> {
    let table = dml.table()?;
    let mut list = Vec::new();
    let mut opaque = false;
    if let Some(filter) = dml.filter() {
        opaque |= conditions(reading, table, filter, "", &mut list);
    }
    for select in dml.choosers() {
        let inner = select.from.iter().find_map(|s| match s {
            Source::Table(t) if t.name == table.name => Some(t),
            _ => None,
        });
        if let (Some(inner), Some(filter)) = (inner, &select.filter) {
            opaque |= conditions(reading, inner, filter, "", &mut list);
        }
    }
    (!opaque).then_some(list)
}

pub(super) fn write(reading: &Reading<'_>, dml: &Dml<'_>) -> Option<Effect> {
    let table = dml.table()?;
    let value = |e: &Expr| text::value(reading.text, reading.binds, e);
    let conditioned = |list: Option<Vec<Condition>>| match list {
        None => Safety::Unknown,
        Some(list) if list.is_empty() && dml.filter().is_some() => Safety::Unknown,
        Some(list) if list.is_empty() => Safety::None,
        Some(mut list) => {
            list.retain(|condition| !reading.context.leases.claims_again(&table.name, condition));
            if list.is_empty() { Safety::None } else { Safety::Conditions(list) }
        }
    };
    let mut assigned = Vec::new();
    let (verb, safety, values) = match &dml.statement.kind {
        StatementKind::Update(u) => {
            assigned.extend(u.set.iter().map(|a| text::plain_name(&a.column)));
            ("UPDATE", conditioned(guard(reading, dml)), u.set.iter().map(|a| value(&a.value)).collect())
        }
        StatementKind::Delete(_) => ("DELETE", conditioned(guard(reading, dml)), Vec::new()),
        StatementKind::Merge(_) => ("MERGE", Safety::Unknown, Vec::new()),
        StatementKind::Insert(i) => {
            let mut values: Vec<Value> = i.rows.iter().flatten().map(value).collect();
            if let Some(conflict) = &i.conflict {
                assigned.extend(conflict.set.iter().map(|a| text::plain_name(&a.column)));
                let own = conflict.set.iter().filter(|a| !is_excluded(&a.value));
                values.extend(own.map(|a| value(&a.value)));
            }
            let safety = match &i.conflict {
                Some(c) if c.filter.is_some() => conditioned(conflict_guard(reading, i)),
                Some(c) if !c.set.is_empty() || c.replace => Safety::Upsert,
                Some(_) => Safety::Unique,
                None if unique_insert(reading, i) => Safety::Unique,
                None => Safety::None,
            };
            ("INSERT", safety, values)
        }
        _ => return None,
    };
    let write = Write {
        resource: Resource::Table(text::plain_name(&table.name)),
        verb: verb.into(),
        safety,
        values,
        assigned,
        ttl: None,
    };
    Some(reading.effect(dml.statement.head.clone(), verb, EffectKind::Write(write)))
}

fn is_excluded(e: &Expr) -> bool {
    matches!(&e.bare().kind, ExprKind::Column(path) if path.len() == 2 && path[0] == "excluded")
}

/// Conditions of `DO UPDATE .. WHERE`; `excluded.x` is the inserted value of column `x`.
pub(super) fn conflict_guard(reading: &Reading<'_>, insert: &Insert) -> Option<Vec<Condition>> {
    let filter = insert.conflict.as_ref()?.filter.as_ref()?;
    let mut list = Vec::new();
    if conditions(reading, &insert.table, filter, "", &mut list) {
        return None;
    }
    for (_, _, value) in &mut list {
        if let Value::Path(path) = value
            && let Some(column) = path.strip_prefix("sql::column::excluded.")
        {
            *value = inserted(reading, insert, column).unwrap_or(Value::Unknown);
        }
    }
    Some(list)
}

/// The value inserted into a column by a one-row INSERT.
pub(super) fn inserted(reading: &Reading<'_>, insert: &Insert, column: &str) -> Option<Value> {
    inserted_expr(insert, column).map(|e| text::value(reading.text, reading.binds, e))
}

/// The expression inserted into a column, from VALUES or the select list.
pub(super) fn inserted_expr<'a>(insert: &'a Insert, column: &str) -> Option<&'a Expr> {
    let i = insert.columns.iter().position(|c| c.eq_ignore_ascii_case(column))?;
    if let Some(row) = insert.rows.first() {
        return row.get(i);
    }
    match &insert.query.as_ref()?.kind {
        StatementKind::Select(select) => select.items.get(i).map(|(e, _)| e),
        _ => None,
    }
}

/// An INSERT that a unique key of the workspace's schema guards: all its columns get values that a second holder of the
/// same work would give again.
fn unique_insert(reading: &Reading<'_>, insert: &Insert) -> bool {
    let named: Vec<&str> = insert
        .columns
        .iter()
        .map(String::as_str)
        .filter(|c| match inserted(reading, insert, c) {
            Some(Value::Const(_) | Value::Fresh(_) | Value::Unknown | Value::Clock { .. }) | None => false,
            Some(Value::Call(call)) => !matches!(call.name.as_str(), "sql::nextval" | "sql::now"),
            Some(_) => true,
        })
        .collect();
    reading.context.schema.is_unique(&insert.table.name, &named)
}
