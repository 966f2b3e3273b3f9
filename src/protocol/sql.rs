//! SQL: a statement with its values, handle and fetch form -> [`RoundTrip`].
//!
//! # What the effects say
//! - Advisory locks (PostgreSQL manual, 9.28.10 and 13.3.5), `GET_LOCK` (MySQL manual, 14.14), `sp_getapplock`:
//!   Acquire or Release of kind Session or Transaction. Their key is the argument, two arguments are an aggregate `()`.
//! - `FOR UPDATE` and kin at the top level, `LOCK TABLE`: Acquire of kind Row, one for each table. Inside a statement that
//!   itself writes they are part of that statement and no effect of their own.
//! - Lease rows: Acquire of kind LeaseRow, Renew or Expire, Release; see [`lease`].
//! - Keys of rows are templates `table:{values of the key columns}`, see [`table_of`].
//! - Writes carry the columns that their WHERE compares; a comparison inside OR has its operator prefixed by `or `.
//! - Several statements in one text outside a transaction are one implicit transaction (PostgreSQL manual, 55.2.2.1):
//!   Begin and Commit stand around them.
//! - Server-side values are calls `sql::now`, `sql::hashtext` and so on; columns are paths `sql::column::name`.

mod access;
mod advisory;
mod call;
mod chain;
mod file;
mod handle;
mod lease;
mod query;
mod reply;
mod routines;
mod rows;
mod text;

pub use access::access;
pub use call::call;
pub use file::statement as file_statement;
pub use lease::Leases;
pub use reply::{Asked, Fetch, RowType};
pub use text::{Binds, Text};

use crate::frontend::sql::schema::SchemaFacts;
use crate::frontend::sql::{Dialect, Statement, StatementKind, statements};
use crate::ir::*;
use crate::link::Program;
use crate::source::Span;
use std::ops::Range;

/// What the workspace says beyond the statement.
#[derive(Clone, Debug, Default)]
pub struct Context {
    /// Unique keys.
    pub schema: SchemaFacts,
    /// Tables whose rows are leases.
    pub leases: Leases,
    /// Routines of the database that take or give back locks.
    routines: std::collections::BTreeMap<String, routines::Routine>,
}

impl Context {
    /// What the statements of a program say: keys of tables and claims of lease rows, in `.sql` files and in string
    /// literals of code.
    pub fn of(program: &Program) -> Context {
        let mut context = Context { schema: program.schema.clone(), ..Context::default() };
        let live = || program.functions().filter(|(_, function)| !function.test);
        // What is put back after a time says which claims can be lost.
        for (_, op) in live().flat_map(|(_, function)| function.ops()) {
            texts(&op.kind, &mut |text| context.learn_sweeps(&text));
        }
        for (_, op) in live().flat_map(|(_, function)| function.ops()) {
            texts(&op.kind, &mut |text| context.learn(&text));
        }
        context.routines = routines::of(program, &context);
        context
    }

    fn learn_sweeps(&mut self, value: &Value) {
        let Some(text) = Text::of(value) else { return };
        let lower = text.sql.to_ascii_lowercase();
        if lower.contains("update") && lower.contains("where") && lower.contains(['<', '>']) {
            self.leases.learn_sweeps(value, Dialect::Unknown);
        }
    }

    fn learn(&mut self, value: &Value) {
        let Some(text) = Text::of(value) else { return };
        let lower = text.sql.to_ascii_lowercase();
        let head = lower.trim_start();
        if head.starts_with("create table")
            || head.starts_with("create unique index")
            || head.starts_with("alter table")
        {
            self.schema.join(&crate::frontend::sql::schema::facts(&text.sql, Dialect::Unknown));
        } else if (lower.contains("update") || lower.contains("insert"))
            && (lower.contains("set") || lower.contains("values") || lower.contains("select"))
            || head.starts_with("delete")
        {
            self.leases.learn(value, Dialect::Unknown);
        }
    }
}

/// String literals and format strings of an op.
fn texts(kind: &OpKind, f: &mut dyn FnMut(Value)) {
    let mut operand = |o: &Operand| {
        if let Operand::Lit(Lit::Str(s)) = o
            && s.len() > 16
        {
            f(Value::str(s.clone()));
        }
    };
    match kind {
        OpKind::Call(call) => call.args.iter().for_each(operand),
        OpKind::Let(Rvalue::Use(o)) | OpKind::Return(o, _) => operand(o),
        OpKind::Let(Rvalue::Format(pieces)) => {
            let pieces = pieces.iter().map(|p| match p {
                FormatPiece::Text(text) => Piece::Text(text.clone()),
                FormatPiece::Hole(Operand::Lit(Lit::Str(text))) => Piece::Text(text.clone()),
                FormatPiece::Hole(_) => Piece::Hole(Value::Unknown),
            });
            f(Value::Template(pieces.collect()));
        }
        _ => {}
    }
}

/// A statement as code sends it.
pub struct Request<'a> {
    /// SQL text.
    pub text: &'a Value,
    /// Values of its parameters.
    pub binds: Binds,
    /// What it runs on.
    pub handle: Handle,
    /// Server, if the client crate tells.
    pub dialect: Dialect,
    /// How the outcome is fetched.
    pub asked: Asked,
    /// Whether routines that the statement calls are entered here; `.sql` files call them by ops of their own.
    pub enters: bool,
    /// Place of a byte range of the text, or of the call where the text has no place of its own.
    pub place: &'a dyn Fn(Range<usize>) -> Span,
    /// How surely the call was recognised.
    pub certainty: Certainty,
    /// Model row.
    pub model: String,
}

/// What one statement does, before it is put together.
pub(crate) struct Reading<'a> {
    pub text: &'a Text,
    pub binds: &'a Binds,
    pub dialect: Dialect,
    pub place: &'a dyn Fn(Range<usize>) -> Span,
    pub context: &'a Context,
    pub enters: bool,
}

impl Reading<'_> {
    fn backend(&self, own: Dialect) -> Backend {
        match if own == Dialect::Unknown { self.dialect } else { own } {
            Dialect::Postgres => Backend::Postgres,
            Dialect::MySql => Backend::MySql,
            Dialect::SqlServer => Backend::SqlServer,
            Dialect::Unknown | Dialect::Sqlite => Backend::Sql,
        }
    }

    fn effect(&self, range: Range<usize>, command: impl Into<String>, kind: EffectKind) -> Effect {
        Effect { span: (self.place)(range), command: command.into(), kind, conditional: false }
    }
}

/// The round trip of a request; `None` when its text is not known.
pub fn round_trip(request: Request<'_>, context: &Context) -> Option<RoundTrip> {
    let mut found: Option<(Vec<Effect>, Atomicity, Option<Reply>)> = None;
    let mut differs = false;
    // One of several texts: that with the most to lose counts, and only may have run.
    for value in request.text.alternatives().iter().flat_map(Text::spelled_out) {
        let Some(text) = Text::of(&value) else { continue };
        let reading = Reading {
            text: &text,
            binds: &request.binds,
            dialect: request.dialect,
            place: request.place,
            context,
            enters: request.enters,
        };
        let one = read(&reading, &request);
        found = match found {
            None => Some(one),
            Some(before) if before.0 == one.0 => Some(before),
            Some(before) => {
                differs = true;
                Some(if weight(&before.0) >= weight(&one.0) { before } else { one })
            }
        };
    }
    let (mut effects, atomicity, reply) = found?;
    if differs {
        for effect in &mut effects {
            effect.conditional = true;
        }
    }
    Some(RoundTrip {
        handle: request.handle,
        effects,
        atomicity,
        reply,
        certainty: request.certainty,
        model: request.model,
        guard: None,
    })
}

/// How much there is to lose: a session lock outlives its transaction, any other lock does not.
fn weight(effects: &[Effect]) -> u8 {
    let session = |kind: &EffectKind| match kind {
        EffectKind::Acquire(a) => a.kind == LockKind::Session,
        EffectKind::Release(r) => r.kind == LockKind::Session,
        _ => false,
    };
    match () {
        () if effects.iter().any(|e| session(&e.kind)) => 2,
        () => u8::from(effects.iter().any(|e| e.kind.is_lock())),
    }
}

fn read(reading: &Reading<'_>, request: &Request<'_>) -> (Vec<Effect>, Atomicity, Option<Reply>) {
    let list = statements(&reading.text.sql, reading.dialect);
    let mut effects = Vec::new();
    for statement in &list {
        effects.extend(statement_effects(reading, statement));
    }
    // Of several statements a later one may give the return code of a procedure: `EXEC @r = ..; SELECT @r`.
    let tells = |s: &&Statement| list.len() == 1 || !matches!(s.kind, StatementKind::Call(_));
    let reply = list.iter().rev().filter(tells).find_map(|s| reply::of(reading, s, &effects, &request.asked));
    let control = list.iter().any(|s| {
        matches!(
            s.kind,
            StatementKind::Begin | StatementKind::Commit | StatementKind::Rollback | StatementKind::Savepoint
        )
    });
    let outside = matches!(request.handle.kind, HandleKind::Pool | HandleKind::Pinned | HandleKind::Dedicated);
    let atomicity = match list.len() {
        0 | 1 if effects.len() < 2 => Atomicity::Single,
        0 | 1 => Atomicity::Script,
        _ if !control && reading.dialect != Dialect::MySql => Atomicity::Script,
        _ => Atomicity::Pipeline,
    };
    if list.len() > 1 && !control && outside && !effects.is_empty() && atomicity == Atomicity::Script {
        effects.insert(0, reading.effect(0..0, "implicit transaction", EffectKind::Begin));
        effects.push(reading.effect(0..0, "end of the implicit transaction", EffectKind::Commit));
    }
    (effects, atomicity, reply)
}

/// The effects of one statement, in the order in which they happen.
pub(crate) fn statement_effects(reading: &Reading<'_>, statement: &Statement) -> Vec<Effect> {
    let head = statement.head.clone();
    match &statement.kind {
        StatementKind::Begin => return vec![reading.effect(head, "BEGIN", EffectKind::Begin)],
        StatementKind::Commit => return vec![reading.effect(head, "COMMIT", EffectKind::Commit)],
        StatementKind::Rollback => return vec![reading.effect(head, "ROLLBACK", EffectKind::Rollback)],
        StatementKind::Utility(word) if word == "execute" => {
            let write = Write {
                resource: Resource::Other("EXECUTE".into()),
                verb: "EXECUTE".into(),
                safety: Safety::Unknown,
                values: Vec::new(),
                assigned: Vec::new(),
                ttl: None,
            };
            return vec![reading.effect(head, "EXECUTE", EffectKind::Write(write))];
        }
        StatementKind::Discard => return vec![advisory::release_all(reading, head, "DISCARD ALL", statement.dialect)],
        _ => {}
    }
    let mut out = if reading.enters { routines::effects(reading, statement) } else { Vec::new() };
    out.extend(advisory::effects(reading, statement));
    out.extend(rows::effects(reading, statement));
    out
}

/// The table of a row key made by this module, without its schema.
pub fn table_of(key: &Value) -> Option<&str> {
    let Value::Template(pieces) = key else { return None };
    let Some(Piece::Text(text)) = pieces.first() else { return None };
    text.strip_suffix(':')
}

/// The key of rows of a table: `table:{value}`.
pub(crate) fn row_key(table: &str, mut values: Vec<Value>) -> Value {
    let hole = match values.len() {
        0 => Value::Unknown,
        1 => values.swap_remove(0),
        _ => Value::Aggregate("()".into(), values.into_iter().enumerate().map(|(i, v)| (i.to_string(), v)).collect()),
    };
    Value::Template(vec![Piece::Text(format!("{}:", text::plain_name(table))), Piece::Hole(hole)].into())
}

#[cfg(test)]
mod tests;
