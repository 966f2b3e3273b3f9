//! What the caller sees of a statement's outcome, by world.

mod body;
mod found;

use super::{Reading, lease};
use crate::frontend::sql::ast::{Expr, ExprKind, Function, Select, Source, Statement, StatementKind, Wait};
use crate::frontend::sql::{LockAction, lock_function};
use crate::ir::{Effect, EffectKind, Reply, Shape, Ty};

/// Shape path of a row whose columns are read by number or name; fields are named by both.
pub const ROW: &str = "sql::Row";
/// Shape path of a list of rows: field `len`, and `0` for the first row.
pub const ROWS: &str = "sql::Rows";
/// Shape path of the result of a statement without rows: field `rows_affected`.
pub const DONE: &str = "sql::Done";

/// How a statement's outcome is fetched.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// How many rows are taken.
    pub fetch: Fetch,
    /// What one row becomes.
    pub row: RowType,
}

impl Asked {
    /// Nobody can tell what becomes of the outcome.
    pub fn unknown() -> Asked {
        Asked { fetch: Fetch::Unknown, row: RowType::Unknown }
    }
}

/// How many rows are taken, with the `Result` around.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fetch {
    /// `Ok(done)` with the number of affected (for SELECT: returned) rows behind an accessor.
    Done,
    /// `Ok(n)`: the number itself.
    Count,
    /// `Ok(())`.
    Unit,
    /// `Ok(row)`; no row is an error.
    One,
    /// `Ok(Some(row))` / `Ok(None)`.
    Optional,
    /// `Ok(rows)`.
    All,
    /// Not evaluated (streams, row messages).
    Unknown,
    /// Inside a routine: the row itself, without a `Result` layer; its fields are the columns, and `found`, `row_count`.
    Body,
}

/// What one row becomes.
#[derive(Clone, Debug, PartialEq)]
pub enum RowType {
    /// A row object with `get`.
    Dynamic,
    /// The first column, as this type (unknown: as it comes).
    Scalar(Ty),
    /// A tuple or struct of this type.
    Typed(Ty),
    /// The record of a checked macro: columns of expressions are `Option` unless forced by `!`.
    Checked,
    /// The first column, as a checked macro gives it.
    CheckedScalar,
    /// Unknown.
    Unknown,
}

/// Rows of a result in one world.
#[derive(Clone, Debug, PartialEq)]
enum Rows {
    /// None.
    None,
    /// At least one; the number, if known.
    Some(Option<i64>),
    /// Unknown.
    Unknown,
    /// The statement fails.
    Error,
}

struct Outcome {
    rows: Rows,
    columns: Vec<(String, Shape)>,
}

/// The reply for the first lock effect of the statement; `None` when its result says nothing of any lock.
pub(super) fn of(reading: &Reading<'_>, statement: &Statement, effects: &[Effect], asked: &Asked) -> Option<Reply> {
    let (held, lost) = outcomes(reading, statement, effects, asked)?;
    Some(Reply { held: shape(&held, asked), lost: shape(&lost, asked), failed: Shape::err() })
}

fn outcomes(
    reading: &Reading<'_>,
    statement: &Statement,
    effects: &[Effect],
    asked: &Asked,
) -> Option<(Outcome, Outcome)> {
    if let StatementKind::Call(f) = &statement.kind
        && lock_function(&f.name).is_some()
        && matches!(asked.fetch, Fetch::Done | Fetch::Unit | Fetch::Count)
    {
        // `EXEC sp_getapplock`: its return code is no row, so what counts rows never sees it.
        let world = || Outcome { rows: Rows::Unknown, columns: Vec::new() };
        return Some((world(), world()));
    }
    let calls = lock_calls(statement);
    if let Some(first) = calls.first() {
        return Some((world(statement, first, true), world(statement, first, false)));
    }
    if reading.enters
        && super::routines::answers(reading.context, statement)
        && let StatementKind::Select(select) = &statement.kind
    {
        let world =
            |held: bool| Outcome { rows: Rows::Some(Some(1)), columns: columns(select, &|_| Shape::Bool(held)) };
        return Some((world(true), world(false)));
    }
    let claims = matches!(
        statement.kind,
        StatementKind::Update(_) | StatementKind::Insert(_) | StatementKind::Delete(_) | StatementKind::Merge(_)
    );
    let conditional = effects.iter().any(|e| match &e.kind {
        EffectKind::Acquire(_) | EffectKind::Release(_) | EffectKind::Renew(_) | EffectKind::Expire(_) => true,
        EffectKind::Write(w) => {
            matches!(w.safety, crate::ir::Safety::Conditions(_) | crate::ir::Safety::Unique | crate::ir::Safety::Upsert)
        }
        _ => false,
    });
    if claims && conditional {
        let columns = returned(statement);
        let held = Outcome { rows: Rows::Some(None), columns: columns.clone() };
        let compared = lease::returned_owner(reading, statement);
        // ON CONFLICT DO UPDATE without WHERE always gives a row: whether the caller has it shows only in its columns.
        let lost = match compared {
            Some(always) if always => Outcome { rows: Rows::Some(None), columns: tainted(columns) },
            _ => Outcome { rows: Rows::None, columns },
        };
        return Some((held, lost));
    }
    let StatementKind::Select(select) = &statement.kind else { return None };
    let Some(lock) = select.locks.first() else { return found::outcomes(select) };
    let columns = columns(select, &|_| Shape::Unknown);
    let lost = match lock.wait {
        Wait::NoWait => Rows::Error,
        Wait::SkipLocked | Wait::Block => Rows::None,
    };
    // A blocking lock may be granted on no row at all.
    let rows = if lock.wait == Wait::SkipLocked { Rows::Some(None) } else { Rows::Unknown };
    Some((Outcome { rows, columns: columns.clone() }, Outcome { rows: lost, columns }))
}

fn tainted(columns: Vec<(String, Shape)>) -> Vec<(String, Shape)> {
    columns.into_iter().map(|(name, _)| (name, Shape::Tainted)).collect()
}

/// Lock calls in textual order, with the statement-level calls of procedures.
fn lock_calls(statement: &Statement) -> Vec<&Function> {
    let mut out: Vec<&Function> = Vec::new();
    crate::frontend::sql::walk::walk(statement, &mut |_| {}, &mut |e, _| {
        if let ExprKind::Call(f) = &e.kind
            && lock_function(&f.name).is_some()
        {
            out.push(f);
        }
    });
    out.sort_by_key(|f| f.range.start);
    out
}

/// The result of a statement whose lock call `lock` answered `held`.
fn world(statement: &Statement, lock: &Function, held: bool) -> Outcome {
    let StatementKind::Select(select) = &statement.kind else {
        return Outcome { rows: Rows::Unknown, columns: Vec::new() };
    };
    let eval = Eval { statement, lock, held };
    let filter = select.filter.as_ref().map(|f| eval.expr(f, select, 0));
    let from = select.from.iter().find_map(|s| match s {
        Source::Query(q, _) => inner_rows(&eval, q),
        Source::Table(t) => {
            statement.ctes.iter().find(|(name, _)| *name == t.name).and_then(|(_, q)| inner_rows(&eval, q))
        }
        Source::Function(..) => None,
    });
    let rows = match filter {
        Some(Shape::Bool(false)) => Rows::None,
        Some(Shape::Bool(true)) => Rows::Some(None),
        // Over a table there may be no row whatever the lock says.
        _ => from.unwrap_or(if select.from.iter().any(|s| matches!(s, Source::Table(_))) {
            Rows::Unknown
        } else {
            Rows::Some(Some(1))
        }),
    };
    Outcome { rows, columns: columns(select, &|e| eval.expr(e, select, 0)) }
}

/// Rows of a sub-query whose WHERE is decided by the lock, or that reads nothing.
fn inner_rows(eval: &Eval<'_>, q: &Statement) -> Option<Rows> {
    let StatementKind::Select(inner) = &q.kind else { return None };
    let Some(filter) = &inner.filter else {
        return inner.from.is_empty().then_some(Rows::Some(Some(1)));
    };
    match eval.expr(filter, inner, 1) {
        Shape::Bool(true) => Some(Rows::Some(None)),
        Shape::Bool(false) => Some(Rows::None),
        _ => None,
    }
}

struct Eval<'a> {
    statement: &'a Statement,
    lock: &'a Function,
    held: bool,
}

impl Eval<'_> {
    /// The shape of an expression in this world: `Unknown` if the lock is not part of it, `Tainted` if it is in a way
    /// that is not evaluated.
    fn expr(&self, e: &Expr, select: &Select, depth: usize) -> Shape {
        if depth > 16 {
            return Shape::Tainted;
        }
        let sub = |e: &Expr| self.expr(e, select, depth + 1);
        match &e.kind {
            ExprKind::Call(f) if f.range == self.lock.range => self.answer(f),
            ExprKind::Call(f) if f.name == "coalesce" => f.args.first().map_or(Shape::Unknown, sub),
            ExprKind::Call(f) if f.name == "case" => self.case(f, select, depth),
            ExprKind::Call(f) => spread(f.args.iter().map(sub)),
            ExprKind::Bool(b) => Shape::Bool(*b),
            ExprKind::Number(n) => n.parse().map_or(Shape::Unknown, Shape::Int),
            ExprKind::Str(s) => Shape::Str(s.clone()),
            ExprKind::Cast(x, to) => match (sub(x), to.as_str()) {
                (Shape::Bool(b), "int" | "integer" | "int4" | "bigint" | "int8") => Shape::Int(i64::from(b)),
                (shape, _) => shape,
            },
            ExprKind::List(list) if list.len() == 1 => sub(&list[0]),
            ExprKind::List(list) => spread(list.iter().map(sub)),
            ExprKind::Unary(op, x) => match (op.as_str(), sub(x)) {
                ("not", Shape::Bool(b)) => Shape::Bool(!b),
                ("is true" | "is not false", shape @ Shape::Bool(_)) => shape,
                ("is not null", Shape::Bool(_) | Shape::Int(_)) => Shape::Bool(true),
                (_, Shape::Unknown | Shape::Bool(_) | Shape::Int(_) | Shape::Str(_)) if !self.mentions(x) => {
                    Shape::Unknown
                }
                _ => Shape::Tainted,
            },
            ExprKind::Binary(op, l, r) => match (op.as_str(), sub(l), sub(r)) {
                ("and", Shape::Bool(false), _) | ("and", _, Shape::Bool(false)) => Shape::Bool(false),
                ("and", Shape::Bool(true), Shape::Unknown) | ("and", Shape::Unknown, Shape::Bool(true)) => {
                    Shape::Unknown
                }
                ("and", Shape::Bool(true), x) | ("and", x, Shape::Bool(true)) => x,
                ("or", Shape::Bool(true), _) | ("or", _, Shape::Bool(true)) => Shape::Bool(true),
                ("or", Shape::Bool(false), x) | ("or", x, Shape::Bool(false)) => x,
                ("=", a, b) if known(&a) && known(&b) => Shape::Bool(a == b),
                ("<>", a, b) if known(&a) && known(&b) => Shape::Bool(a != b),
                (">=", Shape::Int(a), Shape::Int(b)) => Shape::Bool(a >= b),
                (">", Shape::Int(a), Shape::Int(b)) => Shape::Bool(a > b),
                ("<", Shape::Int(a), Shape::Int(b)) => Shape::Bool(a < b),
                (_, a, b) => {
                    if a == Shape::Tainted || b == Shape::Tainted || self.mentions(l) || self.mentions(r) {
                        Shape::Tainted
                    } else {
                        Shape::Unknown
                    }
                }
            },
            ExprKind::Column(path) => self.column(path, select, depth),
            ExprKind::Query(q) => match &q.kind {
                StatementKind::Select(inner) => {
                    inner.items.first().map_or(Shape::Unknown, |(e, _)| self.expr(e, inner, depth + 1))
                }
                _ => Shape::Unknown,
            },
            _ => Shape::Unknown,
        }
    }

    fn answer(&self, f: &Function) -> Shape {
        let Some(lock) = lock_function(&f.name) else { return Shape::Unknown };
        let mysql = f.last().ends_with("_lock") && !f.last().starts_with("pg_");
        match lock.action {
            LockAction::ReleaseAll => Shape::Unit,
            _ if mysql => Shape::Int(i64::from(self.held)),
            LockAction::Take if !lock.try_ => Shape::Unit,
            _ => Shape::Bool(self.held),
        }
    }

    fn mentions(&self, e: &Expr) -> bool {
        e.range.start <= self.lock.range.start && self.lock.range.end <= e.range.end
    }

    /// `CASE [x] WHEN a THEN b .. ELSE c`: arguments as the reader lists them.
    fn case(&self, f: &Function, select: &Select, depth: usize) -> Shape {
        let sub = |e: &Expr| self.expr(e, select, depth + 1);
        if let [when, then, rest @ ..] = f.args.as_slice()
            && rest.len() <= 1
        {
            match sub(when) {
                Shape::Bool(true) => return sub(then),
                Shape::Bool(false) => return rest.first().map_or(Shape::Unknown, sub),
                _ => {}
            }
        }
        spread(f.args.iter().map(sub))
    }

    /// A column of a CTE, a sub-query or a function in FROM.
    fn column(&self, path: &[String], select: &Select, depth: usize) -> Shape {
        let Some(name) = path.last() else { return Shape::Unknown };
        for source in &select.from {
            let query = match source {
                Source::Table(t) => self.statement.ctes.iter().find(|(cte, _)| *cte == t.name).map(|(_, q)| q),
                Source::Query(q, _) => Some(&**q),
                Source::Function(e, alias) => {
                    let own =
                        matches!(&e.kind, ExprKind::Call(f) if f.last() == name) || alias.as_deref() == Some(name);
                    if own && self.mentions(e) {
                        return self.expr(e, select, depth + 1);
                    }
                    None
                }
            };
            if let Some(StatementKind::Select(inner)) = query.map(|q| &q.kind)
                && let Some((e, _)) = inner.items.iter().find(|(_, alias)| alias.as_deref() == Some(name))
            {
                return self.expr(e, inner, depth + 1);
            }
        }
        Shape::Unknown
    }
}

fn known(shape: &Shape) -> bool {
    matches!(shape, Shape::Bool(_) | Shape::Int(_) | Shape::Str(_))
}

/// A function of shapes: tainted as soon as one of them depends on the lock.
fn spread(shapes: impl Iterator<Item = Shape>) -> Shape {
    let mut out = Shape::Unknown;
    for shape in shapes {
        if matches!(shape, Shape::Tainted | Shape::Bool(_) | Shape::Unit) {
            out = Shape::Tainted;
        }
    }
    out
}

fn columns(select: &Select, value: &dyn Fn(&Expr) -> Shape) -> Vec<(String, Shape)> {
    let mut out = Vec::new();
    for (e, name) in &select.items {
        if e.kind == ExprKind::Star {
            for source in &select.from {
                if let Source::Function(e, alias) = source {
                    let name = match (&e.kind, alias) {
                        (_, Some(alias)) => alias.clone(),
                        (ExprKind::Call(f), None) => f.last().to_string(),
                        _ => String::new(),
                    };
                    out.push((name, value(e)));
                }
            }
        } else {
            out.push((name.clone().unwrap_or_else(|| "column".into()), value(e)));
        }
    }
    out
}

fn returned(statement: &Statement) -> Vec<(String, Shape)> {
    let list = match &statement.kind {
        StatementKind::Insert(i) => &i.returning,
        StatementKind::Update(u) => &u.returning,
        StatementKind::Delete(d) => &d.returning,
        _ => &None,
    };
    list.iter().flatten().map(|(_, name)| (name.clone().unwrap_or_default(), Shape::Unknown)).collect()
}

/// `"name!: T"` of the checked macros: the name, and whether it is forced non-null.
fn column_name(name: &str) -> (&str, bool) {
    let end = name.find(['!', '?', ':']).unwrap_or(name.len());
    (&name[..end], name[end..].starts_with('!'))
}

fn shape(outcome: &Outcome, asked: &Asked) -> Shape {
    if asked.fetch == Fetch::Body {
        return body::row(outcome);
    }
    if outcome.rows == Rows::Error {
        return Shape::err();
    }
    let count = match outcome.rows {
        Rows::None => Shape::Int(0),
        Rows::Some(n) => Shape::Int(n.unwrap_or(1)),
        Rows::Unknown | Rows::Error => Shape::Unknown,
    };
    match asked.fetch {
        Fetch::Unit => Shape::Unit.ok(),
        Fetch::Count => count.ok(),
        Fetch::Done => Shape::Struct(DONE.into(), vec![("rows_affected".into(), count)]).ok(),
        Fetch::Unknown | Fetch::Body => Shape::Tainted,
        Fetch::One => match outcome.rows {
            Rows::None => Shape::err(),
            Rows::Unknown => Shape::Unknown,
            _ => row(outcome, &asked.row).ok(),
        },
        Fetch::Optional => match outcome.rows {
            Rows::None => Shape::None.ok(),
            Rows::Unknown => Shape::Unknown.ok(),
            _ => row(outcome, &asked.row).some().ok(),
        },
        Fetch::All => {
            let mut fields = vec![("len".into(), count)];
            if matches!(outcome.rows, Rows::Some(_)) {
                fields.push(("0".into(), row(outcome, &asked.row)));
            }
            Shape::Struct(ROWS.into(), fields).ok()
        }
    }
}

fn row(outcome: &Outcome, row: &RowType) -> Shape {
    let first = || outcome.columns.first().map_or(Shape::Unknown, |(_, s)| s.clone());
    match row {
        RowType::Dynamic => {
            let mut fields = Vec::new();
            for (i, (name, shape)) in outcome.columns.iter().enumerate() {
                fields.push((i.to_string(), shape.clone()));
                fields.push((column_name(name).0.to_string(), shape.clone()));
            }
            Shape::Struct(ROW.into(), fields)
        }
        RowType::Scalar(ty) => convert(first(), ty),
        RowType::Typed(ty) if ty.path == "()" => Shape::Tuple(
            ty.args
                .iter()
                .enumerate()
                .map(|(i, ty)| outcome.columns.get(i).map_or(Shape::Unknown, |(_, s)| convert(s.clone(), ty)))
                .collect(),
        ),
        RowType::Typed(ty) => {
            let fields =
                outcome.columns.iter().map(|(name, shape)| (column_name(name).0.to_string(), shape.clone())).collect();
            Shape::Struct(ty.path.clone(), fields)
        }
        RowType::Checked => {
            let fields = outcome.columns.iter().map(|(name, shape)| {
                let (plain, forced) = column_name(name);
                (plain.to_string(), nullable(shape.clone(), forced))
            });
            Shape::Struct(ROW.into(), fields.collect())
        }
        RowType::CheckedScalar => match outcome.columns.first() {
            Some((name, shape)) => nullable(shape.clone(), column_name(name).1),
            None => Shape::Unknown,
        },
        RowType::Unknown => match first() {
            Shape::Unknown => Shape::Unknown,
            _ => Shape::Tainted,
        },
    }
}

/// The checked macros cannot know that an expression is never NULL: they give `Option` unless told by `!`.
fn nullable(shape: Shape, forced: bool) -> Shape {
    match shape {
        shape if forced => shape,
        Shape::Unknown => Shape::Unknown,
        shape => shape.some(),
    }
}

fn convert(shape: Shape, ty: &Ty) -> Shape {
    match (ty.last(), shape) {
        ("Option", Shape::Unknown) => Shape::Unknown,
        ("Option", shape) => convert(shape, &ty.arg(0)).some(),
        ("()", _) if ty.is_unit() => Shape::Unit,
        ("()", shape) => Shape::Tuple(vec![convert(shape, &ty.arg(0))]),
        ("bool", Shape::Int(n)) => Shape::Bool(n != 0),
        ("i8" | "i16" | "i32" | "i64" | "u8" | "u32" | "u64", Shape::Bool(b)) => Shape::Int(i64::from(b)),
        (_, shape) => shape,
    }
}
