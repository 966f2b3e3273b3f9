//! Statements of `.sql` files and routine bodies.

use super::{Asked, Binds, Context, Fetch, Request, RowType, round_trip};
use crate::frontend::sql::{Dialect, STATEMENT, Session};
use crate::ir::*;
use crate::link::Program;
use crate::source::Span;
use std::ops::Range;

/// The round trip of a call of [`STATEMENT`]; `None` for other calls.
pub fn statement(program: &Program, id: FunctionId, at: OpRef, call: &Call, context: &Context) -> Option<RoundTrip> {
    if !matches!(&call.callee, Callee::Path(path) if path == STATEMENT) {
        return None;
    }
    let [Operand::Lit(Lit::Str(text)), Operand::Lit(Lit::Int(base)), Operand::Lit(Lit::Str(session)), variables @ ..] =
        call.args.as_slice()
    else {
        return None;
    };
    let function = program.function(id);
    let span = function.op(at).span;
    let kind = match Session::of(session) {
        Session::Body => HandleKind::Body,
        Session::Transaction => HandleKind::Transaction,
        Session::Script => HandleKind::Dedicated,
        Session::Unknown => HandleKind::Unknown,
    };
    // One file or body has one session.
    let identity = Value::Local(id, u32::MAX);
    let mut binds = Binds::default();
    if kind == HandleKind::Body {
        // `$1` of SQL bodies are the parameters.
        binds.positional = (0..function.params.len() as u32).map(Value::Param).collect();
    }
    for pair in variables.chunks(2) {
        if let [Operand::Lit(Lit::Str(name)), variable] = pair {
            binds.variables.insert(name.clone(), program.value(id, variable));
        }
    }
    let value = Value::str(text.clone());
    let place = |r: Range<usize>| match usize::try_from(*base) {
        Ok(base) if !r.is_empty() => Span::new(span.file, base + r.start, base + r.end),
        _ => span,
    };
    let fetch = if kind == HandleKind::Body { Fetch::Body } else { Fetch::Unknown };
    let request = Request {
        text: &value,
        binds,
        handle: Handle { kind, identity, origin: Value::Unknown },
        dialect: Dialect::Unknown,
        asked: Asked { fetch, row: RowType::Dynamic },
        enters: false,
        place: &place,
        certainty: Certainty::Full,
        model: "sql/statement".into(),
    };
    round_trip(request, context)
}
