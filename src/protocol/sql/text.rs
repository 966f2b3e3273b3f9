//! From values to SQL text with holes, and from SQL expressions back to values.

use crate::frontend::sql::ast::{Expr, ExprKind, Function, Param};
use crate::frontend::sql::tokens::{hole, hole_index};
use crate::ir::{At, CallValue, Lit, Piece, Shared, Value};
use std::collections::BTreeMap;

/// SQL text made of a value: constant parts as they are, every other part one hole character.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Text {
    /// The text.
    pub sql: String,
    /// Values of the holes, by number.
    pub holes: Vec<Value>,
}

impl Text {
    /// The text of a value; `None` when nothing of it is constant text.
    pub fn of(value: &Value) -> Option<Text> {
        let mut out = Text::default();
        out.push(value, 0);
        let constant = out.sql.chars().any(|c| c.is_alphabetic() && hole_index(c).is_none());
        constant.then_some(out)
    }

    /// The texts that a template can be where one of its holes is one of several texts, as when the name of a function is
    /// chosen by a flag.
    pub fn spelled_out(value: &Value) -> Vec<Value> {
        let Value::Template(pieces) = value else { return vec![value.clone()] };
        let choice = pieces.iter().find_map(|p| match p {
            Piece::Hole(join @ Value::Join(list)) => {
                let texts = list.iter().all(|v| matches!(v, Value::Const(Lit::Str(_)) | Value::Template(_)));
                texts.then_some((join, list))
            }
            _ => None,
        });
        let Some((join, list)) = choice else { return vec![value.clone()] };
        let with = |text: &Value| {
            let piece = |p: &Piece| match p {
                Piece::Hole(hole) if hole == join => Piece::Hole(text.clone()),
                other => other.clone(),
            };
            Value::Template(pieces.iter().map(piece).collect())
        };
        list.iter().map(with).collect()
    }

    fn push(&mut self, value: &Value, depth: usize) {
        match value {
            Value::Const(Lit::Str(s)) => self.sql.push_str(s),
            Value::Const(Lit::Int(n)) => self.sql.push_str(&n.to_string()),
            Value::Const(Lit::Bool(b)) => self.sql.push_str(if *b { "true" } else { "false" }),
            Value::Template(pieces) if depth < 8 => {
                for piece in pieces {
                    match piece {
                        Piece::Text(text) => self.sql.push_str(text),
                        Piece::Hole(value) => self.push(value, depth + 1),
                    }
                }
            }
            Value::Call(call) if depth < 8 && depth_free(call) => {
                if let Some(inner) = call.args.first() {
                    self.push(inner, depth + 1);
                }
            }
            // The name of a table that is a const of a crate that was not read: two such are two tables.
            Value::Path(path) if self.at_table() && constant(path).is_some() => {
                self.sql.push_str(constant(path).unwrap_or_default());
            }
            other => {
                self.sql.push(hole(self.holes.len()));
                self.holes.push(bounded(other));
            }
        }
    }

    /// Whether the name of a table comes next.
    fn at_table(&self) -> bool {
        let mut words = self.sql.split_whitespace().rev();
        let last = words.next().unwrap_or("").to_ascii_lowercase();
        self.sql.ends_with(char::is_whitespace) && matches!(last.as_str(), "update" | "from" | "into" | "join" | "only")
    }

    /// A string of the text as a value: its hole characters become holes again.
    pub(super) fn string(&self, text: &str) -> Value {
        if !text.contains(|c| hole_index(c).is_some()) {
            return Value::str(text);
        }
        let mut pieces = Vec::new();
        let mut plain = String::new();
        for c in text.chars() {
            match hole_index(c).and_then(|i| self.holes.get(i)) {
                Some(value) => {
                    if !plain.is_empty() {
                        pieces.push(Piece::Text(std::mem::take(&mut plain)));
                    }
                    pieces.push(Piece::Hole(value.clone()));
                }
                None => plain.push(c),
            }
        }
        if !plain.is_empty() {
            pieces.push(Piece::Text(plain));
        }
        match <[Piece; 1]>::try_from(pieces) {
            Ok([Piece::Hole(value)]) => value,
            Ok([piece]) => Value::Template(vec![piece].into()),
            Err(pieces) => Value::Template(pieces.into()),
        }
    }
}

/// The name of a const by its path.
fn constant(path: &str) -> Option<&str> {
    let name = path.rsplit("::").next()?;
    let upper = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    (name.len() > 2 && name.chars().all(upper) && name.starts_with(|c: char| c.is_ascii_uppercase())).then_some(name)
}

/// Nodes of a value that is kept; larger ones (rows of earlier queries, passed on and on) say nothing of a key.
const VALUE_LIMIT: usize = 96;

/// The value, or unknown if its tree is larger than anybody writes a key.
pub(super) fn bounded(value: &Value) -> Value {
    fn count(value: &Value, left: &mut usize) {
        if *left == 0 {
            return;
        }
        *left -= 1;
        match value {
            Value::Template(pieces) => pieces.iter().for_each(|p| {
                if let Piece::Hole(v) = p {
                    count(v, left);
                }
            }),
            Value::Field(base, _) => count(base, left),
            Value::Call(call) => call.args.iter().for_each(|v| count(v, left)),
            Value::Aggregate(_, fields) => fields.iter().for_each(|(_, v)| count(v, left)),
            Value::Operation(_, list) | Value::Join(list) => list.iter().for_each(|v| count(v, left)),
            _ => {}
        }
    }
    let mut left = VALUE_LIMIT;
    count(value, &mut left);
    if left == 0 { Value::Unknown } else { value.clone() }
}

/// Wrappers around SQL text that change nothing.
fn depth_free(call: &CallValue) -> bool {
    matches!(
        call.name.rsplit([':', '.']).next().unwrap_or(""),
        "AssertSqlSafe" | "indoc!" | "as_str" | "to_string" | "to_owned" | "as_ref" | "into" | "clone" | "trim"
    ) && !call.args.is_empty()
}

/// Values of a statement's parameters.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Binds {
    /// By position; [`Value::Unknown`] beyond what is known.
    pub positional: Vec<Value>,
    /// By name, lower case.
    pub named: BTreeMap<String, Value>,
    /// Names of columns that are variables of the routine around the statement, with their values.
    pub variables: BTreeMap<String, Value>,
}

impl Binds {
    /// Parameters given by position.
    pub fn positional(values: Vec<Value>) -> Binds {
        Binds { positional: values, ..Binds::default() }
    }

    fn get(&self, param: &Param) -> Value {
        match param {
            Param::Position(i) => self.positional.get(*i).cloned().unwrap_or(Value::Unknown),
            Param::Name(name) => self.named.get(name).cloned().unwrap_or_else(|| {
                // `@P1` of SQL Server is a position.
                let number = name.strip_prefix('p').and_then(|n| n.parse::<usize>().ok()).filter(|n| *n > 0);
                number.and_then(|n| self.positional.get(n - 1).cloned()).unwrap_or(Value::Unknown)
            }),
        }
    }
}

/// The value of an SQL expression.
pub(super) fn value(text: &Text, binds: &Binds, e: &Expr) -> Value {
    value_at(text, binds, e, 0)
}

fn call_value(name: &str, args: Vec<Value>) -> Value {
    Value::Call(Shared::from(CallValue {
        name: format!("sql::{name}"),
        receiver: String::new(),
        args,
        generics: Vec::new(),
        at: At(None),
        conditional: false,
    }))
}

fn value_at(text: &Text, binds: &Binds, e: &Expr, depth: usize) -> Value {
    if depth > 24 {
        return Value::Unknown;
    }
    let sub = |e: &Expr| value_at(text, binds, e, depth + 1);
    match &e.kind {
        ExprKind::Str(s) => text.string(s),
        ExprKind::Number(n) => match n.parse::<i64>() {
            Ok(n) => Value::Const(Lit::Int(n)),
            Err(_) => radix(n).or_else(|| n.parse::<f64>().ok().map(Lit::Float)).map_or(Value::Unknown, Value::Const),
        },
        ExprKind::Bool(b) => Value::Const(Lit::Bool(*b)),
        ExprKind::Null => Value::Path("sql::null".into()),
        ExprKind::Param(param) => binds.get(param),
        ExprKind::Hole(name) => {
            let index = name.chars().next().and_then(hole_index);
            index.and_then(|i| text.holes.get(i).cloned()).unwrap_or(Value::Unknown)
        }
        ExprKind::Column(path) => {
            let last = path.last().map_or("", String::as_str);
            if let Some(known) = binds.variables.get(last).filter(|_| path.len() == 1) {
                return known.clone();
            }
            if path.len() == 1 && clock_name(last) {
                return call_value("now", Vec::new());
            }
            Value::Path(format!("sql::column::{}", plain_name(&path.join("."))))
        }
        ExprKind::Cast(inner, to) => {
            let value = sub(inner);
            // A cast to 32 bits narrows a key; others keep it.
            match to.as_str() {
                "int" | "int4" | "integer" | "oid" | "int2" | "smallint" if !matches!(value, Value::Const(_)) => {
                    call_value("int4", vec![value])
                }
                _ => value,
            }
        }
        ExprKind::List(list) if list.len() == 1 => sub(&list[0]),
        ExprKind::List(list) => Value::Aggregate(
            "()".into(),
            list.iter().take(16).enumerate().map(|(i, e)| (i.to_string(), sub(e))).collect(),
        ),
        ExprKind::Call(f) => function_value(f, f.args.iter().take(8).map(sub).collect()),
        ExprKind::Binary(op, l, r) if op == "||" => {
            let mut pieces = Vec::new();
            for side in [sub(l), sub(r)] {
                match side {
                    Value::Const(Lit::Str(s)) => pieces.push(Piece::Text(s)),
                    Value::Const(Lit::Int(n)) => pieces.push(Piece::Text(n.to_string())),
                    Value::Template(more) => pieces.extend(more),
                    other => pieces.push(Piece::Hole(other)),
                }
            }
            match pieces.as_slice() {
                [Piece::Text(a), Piece::Text(b)] => Value::str(format!("{a}{b}")),
                _ => Value::Template(pieces.into()),
            }
        }
        ExprKind::Binary(op, l, r) => Value::Operation(op.clone(), vec![sub(l), sub(r)].into()),
        ExprKind::Unary(op, x) => Value::Operation(op.clone(), vec![sub(x)].into()),
        ExprKind::Query(_) | ExprKind::Star | ExprKind::Opaque => Value::Unknown,
    }
}

fn radix(n: &str) -> Option<Lit> {
    let hex = n.strip_prefix("0x").or_else(|| n.strip_prefix("0X"))?;
    i64::from_str_radix(hex, 16).ok().map(Lit::Int)
}

fn function_value(f: &Function, args: Vec<Value>) -> Value {
    let name = f.last();
    match name {
        _ if clock_name(name) => call_value("now", Vec::new()),
        "concat" => {
            let pieces = args.into_iter().map(|v| match v {
                Value::Const(Lit::Str(s)) => Piece::Text(s),
                Value::Const(Lit::Int(n)) => Piece::Text(n.to_string()),
                other => Piece::Hole(other),
            });
            Value::Template(pieces.collect())
        }
        "gen_random_uuid" | "uuid_generate_v4" | "uuidv4" | "uuidv7" | "uuid_generate_v7" | "uuid" | "newid"
        | "random" => Value::Fresh(format!("{name}()")),
        "pg_backend_pid" | "inet_client_addr" | "inet_server_addr" | "connection_id" | "hostname" => {
            Value::Identity(format!("{name}()"))
        }
        "coalesce" | "lower" | "upper" | "trim" | "text" | "quote_literal" if args.len() == 1 => {
            args.into_iter().next().unwrap_or(Value::Unknown)
        }
        _ => call_value(name, args),
    }
}

/// Names that read the server's clock (PostgreSQL manual, 9.9.5; MySQL and SQL Server equivalents).
pub(super) fn clock_name(name: &str) -> bool {
    matches!(
        name,
        "now"
            | "current_timestamp"
            | "clock_timestamp"
            | "statement_timestamp"
            | "transaction_timestamp"
            | "localtimestamp"
            | "current_time"
            | "current_date"
            | "utc_timestamp"
            | "unix_timestamp"
            | "sysdate"
            | "getdate"
            | "getutcdate"
            | "sysdatetime"
            | "sysutcdatetime"
            | "sysdatetimeoffset"
            | "datetime"
            | "strftime"
            | "unixepoch"
            | "julianday"
    )
}

/// A name of the text for people: hole characters become `{}`.
pub(super) fn plain_name(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for c in name.chars() {
        match hole_index(c) {
            Some(_) => out.push_str("{}"),
            None => out.push(c),
        }
    }
    out
}
