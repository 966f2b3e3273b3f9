//! Builder chains as values -> statements and queries, with the help of the model rows.

use super::Binds;
use super::query::Query;
use super::text::bounded;
use crate::ir::{CallValue, Lit, Piece, Shared, Ty, Value};
use crate::link::Program;
use crate::model::{Match, Models, Role, Row, Versions};
use crate::source::Span;

/// What a chain builds.
#[derive(Clone, Debug)]
pub(super) enum Built {
    /// A statement given as text.
    Statement(TextQuery),
    /// A query of a query builder.
    Query(Query),
}

/// A statement given as text.
#[derive(Clone, Debug)]
pub(super) struct TextQuery {
    pub text: Value,
    pub binds: Binds,
    /// `what` of the row that began it.
    pub row: Option<String>,
    /// Row type named where it began.
    pub asked: Option<Ty>,
    /// Where the call that takes the text is written.
    pub span: Option<Span>,
    /// The clause that locks rows is added on some paths only.
    pub may_lock: bool,
}

/// What building needs to know.
pub(super) struct Builder<'a> {
    pub program: &'a Program,
    pub models: &'a Models,
    pub versions: &'a Versions,
    /// Model file of the crate.
    pub file: usize,
    pub span: Span,
}

/// Steps of a chain that are followed.
const MAX_STEPS: usize = 256;

impl Builder<'_> {
    /// What a value builds; `None` if no row knows how it begins.
    pub fn build(&self, value: &Value) -> Option<Built> {
        self.build_at(value, 0)
    }

    pub(super) fn build_at(&self, value: &Value, depth: usize) -> Option<Built> {
        if depth > 6 {
            return None;
        }
        if let Value::Join(members) = value {
            return members.iter().find_map(|m| self.build_at(m, depth + 1));
        }
        let mut steps: Vec<&CallValue> = Vec::new();
        let mut next = value;
        let root = loop {
            match next {
                Value::Call(call) if steps.len() < MAX_STEPS => {
                    steps.push(call);
                    match call.args.first() {
                        Some(receiver) if call.name.starts_with('.') => next = receiver,
                        _ => break None,
                    }
                }
                other => break Some(other),
            }
        };
        // `jobs::table.filter(..)`: a chain that begins with a path.
        let mut built = match root {
            Some(Value::Path(path)) => Query::of_path(path).map(Built::Query),
            Some(Value::Const(Lit::Str(_)) | Value::Template(_)) => root.map(|text| {
                // `"SELECT ..".with(params).run(conn)`
                Built::Statement(TextQuery {
                    text: text.clone(),
                    binds: Binds::default(),
                    row: None,
                    asked: None,
                    span: None,
                    may_lock: false,
                })
            }),
            _ => None,
        };
        while let Some(call) = steps.pop() {
            built = match built {
                None => self.start(call, depth),
                Some(built) => Some(self.step(built, call, depth)),
            };
        }
        match built {
            Some(Built::Query(q)) if !q.known => None,
            other => other,
        }
    }

    fn find(&self, call: &CallValue) -> Option<Match<'_>> {
        self.models.find_value(call, Some(self.file), self.versions).or_else(|| {
            // Statements are also built by a crate's own query builder (`sea_query` under sea-orm).
            self.models.find_value(call, None, self.versions).filter(|m| m.row.protocol == crate::model::Protocol::Sql)
        })
    }

    fn place(&self, call: &CallValue) -> Span {
        call.at.0.unwrap_or(self.span)
    }

    fn start(&self, call: &CallValue, depth: usize) -> Option<Built> {
        let Some(Match { row, receiver, .. }) = self.find(call) else { return self.of_entity(call, depth) };
        let args = call.args.get(usize::from(receiver)..).unwrap_or(&[]);
        match row.role {
            Role::Statement => Some(Built::Statement(self.statement(row, args, call))),
            Role::Query => {
                let mut query = Query::default();
                query.verb_at = Some(self.place(call));
                query.step(self, row, args, depth);
                Some(Built::Query(query))
            }
            Role::PassThrough => args.first().and_then(|inner| self.build_at(inner, depth + 1)),
            _ => None,
        }
    }

    /// `job::Entity::find_by_id(id)`: a function of a type of the workspace that the crate's rows know as a method.
    fn of_entity(&self, call: &CallValue, depth: usize) -> Option<Built> {
        let (owner, method) = call.name.rsplit_once("::")?;
        let entity = owner.rsplit("::").next().is_some_and(|name| name.starts_with(|c: char| c.is_ascii_uppercase()));
        let rows = self.models.rows.iter().filter(|row| row.file == self.file && row.role == Role::Query);
        let row =
            rows.into_iter().find(|row| row.method.0.iter().any(|m| m == method) && row.args.fits(call.args.len()))?;
        let mut query = Query::of_path(owner).filter(|_| entity)?;
        query.verb_at = Some(self.place(call));
        query.step(self, row, &call.args, depth);
        Some(Built::Query(query))
    }

    fn statement(&self, row: &Row, args: &[Value], call: &CallValue) -> TextQuery {
        let at = row.sql.as_ref().and_then(|place| place.arg).unwrap_or(0);
        let text = args.get(at).cloned().unwrap_or(Value::Unknown);
        let text = match row.what.as_deref().is_some_and(|what| what.split_whitespace().any(|word| word == "file")) {
            true => text.as_str().and_then(|path| self.file_text(path, call)).unwrap_or(Value::Unknown),
            false => text,
        };
        // The values of the checked macros follow the text.
        let binds = if call.name.ends_with('!') {
            Binds::positional(args.get(at + 1..).unwrap_or(&[]).iter().map(bounded).collect())
        } else {
            row.params.as_ref().and_then(|p| args.get(p.arg?)).map(parameters).unwrap_or_default()
        };
        let asked = row.asked.and_then(|position| {
            let n = call.generics.len() as i64;
            let index = if position < 0 { n + i64::from(position) } else { i64::from(position) };
            usize::try_from(index).ok().and_then(|i| call.generics.get(i)).cloned()
        });
        TextQuery { text, binds, row: row.what.clone(), asked, span: Some(self.place(call)), may_lock: false }
    }

    /// The text of a file that is named relative to the root of the package that the call stands in.
    fn file_text(&self, path: &str, call: &CallValue) -> Option<Value> {
        let own = &self.program.sources.get(self.place(call).file).path;
        let wanted = path.trim_start_matches("./");
        // The nearest folder above that has it.
        let roots = own.char_indices().rev().filter(|(_, c)| *c == '/').map(|(i, _)| &own[..=i]).chain([""]);
        let files: Vec<String> = roots.map(|root| format!("{root}{wanted}")).collect();
        let found = files.iter().find_map(|name| self.program.sources.iter().find(|file| file.path == *name));
        found.map(|file| Value::str(&*file.text))
    }

    fn step(&self, built: Built, call: &CallValue, depth: usize) -> Built {
        let Some(Match { row, receiver: true, .. }) = self.find(call) else { return built };
        let args = call.args.get(1..).unwrap_or(&[]);
        let value = row.value.as_ref().and_then(|place| args.get(place.arg?)).map(bounded);
        match (built, row.role) {
            (Built::Statement(mut s), Role::Bind) => {
                match value {
                    Some(Value::Aggregate(..)) | None if row.params.is_some() => {
                        let list = row.params.as_ref().and_then(|p| args.get(p.arg?));
                        s.binds = list.map(parameters).unwrap_or_default();
                    }
                    _ => s.binds.positional.push(value.unwrap_or(Value::Unknown)),
                }
                Built::Statement(s)
            }
            (Built::Statement(mut s), Role::StatementText) => {
                s.may_lock |= call.conditional && value.as_ref().and_then(Value::as_str).is_some_and(locks_rows);
                let mut pieces = match s.text {
                    Value::Template(pieces) => Shared::take(pieces),
                    text => vec![Piece::Hole(text)],
                };
                if row.what.as_deref() == Some("bind") {
                    s.binds.positional.push(value.unwrap_or(Value::Unknown));
                    pieces.push(Piece::Text(format!(" ${} ", s.binds.positional.len())));
                } else {
                    pieces.push(Piece::Hole(value.unwrap_or(Value::Unknown)));
                }
                s.text = Value::Template(pieces.into());
                Built::Statement(s)
            }
            (Built::Statement(mut s), Role::Statement) => {
                // `.build_query_scalar::<T>()` of a builder.
                s.row.clone_from(&row.what);
                s.asked = call.generics.first().cloned();
                Built::Statement(s)
            }
            (Built::Query(mut query), Role::Query | Role::RowLock) => {
                query.step(self, row, args, depth);
                Built::Query(query)
            }
            (built, _) => built,
        }
    }
}

/// Whether a piece of a SELECT holds its locking clause.
fn locks_rows(piece: &str) -> bool {
    let words: Vec<String> = piece.split_whitespace().map(str::to_ascii_uppercase).collect();
    words.windows(2).any(|pair| pair[0] == "FOR" && matches!(pair[1].as_str(), "UPDATE" | "SHARE" | "NO" | "KEY"))
}

/// The parameters in `&[&a, &b]`, `(a, b)`, `vec![..]`, `params! { "x" => a }`.
pub(super) fn parameters(value: &Value) -> Binds {
    let mut binds = Binds::default();
    match value {
        Value::Aggregate(path, fields) if path == "[]" || path == "()" => {
            binds.positional = fields.iter().map(|(_, v)| parameter(v)).collect();
        }
        Value::Aggregate(_, fields) => {
            binds.named = fields.iter().map(|(name, v)| (name.to_ascii_lowercase(), parameter(v))).collect();
        }
        Value::Call(call) if call.name.ends_with("params!") => {
            binds.positional = call.args.iter().map(parameter).collect();
        }
        _ => {}
    }
    binds
}

/// `(value, Type::INT8)`, `value.into()`: the value.
fn parameter(value: &Value) -> Value {
    match value {
        Value::Aggregate(path, fields) if path == "()" && fields.len() == 2 => {
            fields.first().map_or(Value::Unknown, |(_, v)| bounded(v))
        }
        Value::Call(call) if matches!(call.name.as_str(), ".into" | ".to_sql" | ".clone") => {
            call.args.first().map_or(Value::Unknown, bounded)
        }
        other => bounded(other),
    }
}
