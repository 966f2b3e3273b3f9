//! Hangs a [`RoundTrip`] on every call that is understood, and counts those that are not.

use std::collections::BTreeSet;

use super::matching::Imports;
use super::{Models, Row, Versions};
use crate::ir::{Callee, Certainty, EffectKind, FunctionId, FunctionKind, OpKind, OpRef, RoundTrip, Safety};
use crate::link::Program;
use crate::protocol::{Outcome, Passed, Site};
use crate::source::Span;

/// Levels of helpers between a command and the call that sends it.
const HELPERS: usize = 3;

/// How much was understood (DESIGN, invariant 9: blindness shows).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Understood {
    /// Lock operations understood: calls in live code with a lock effect.
    pub understood: usize,
    /// Calls in live code with a lock word or a modelled name that yielded no effect and reach no workspace function.
    pub missed: Vec<Missed>,
    /// Calls in live code whose command or statement is made where it cannot be followed, in functions that hold no lock word.
    pub open: Vec<Missed>,
}

/// A call that was not understood.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Missed {
    /// Where its name is written.
    pub span: Span,
    /// Name.
    pub name: String,
    /// Why, lowercase.
    pub why: String,
}

/// Sets [`crate::ir::Call::effect`] of every call that matches a row. `versions` maps package names to the versions of
/// `Cargo.lock`; where a crate is missing, rows are chosen by the number and shape of arguments. Code of tests is left as it
/// is unless `tests` asks for it.
pub fn apply(program: &mut Program, models: &Models, versions: &Versions, tests: bool) -> Understood {
    let own = program.functions().filter(|(_, f)| f.kind == FunctionKind::Item && models.builds(&f.path));
    let own = own.map(|(id, _)| id).collect();
    program.detach(&own);
    let mut found: Vec<(FunctionId, OpRef, RoundTrip)> = Vec::new();
    // Functions that run what their callers bring.
    let mut helpers: Vec<(FunctionId, Passed, &Row, Certainty)> = Vec::new();
    let mut result = Understood::default();
    // Steps that ask a store to create only what is absent.
    let mut conditional: Vec<(FunctionId, Missed)> = Vec::new();
    let sql = crate::protocol::sql::Context::of(program);
    let imports = Imports::of(program, models);
    for (id, function) in program.functions().filter(|(_, function)| tests || !function.test) {
        for (at, op, call) in function.calls() {
            if let Some(trip) = crate::protocol::sql::file_statement(program, id, at, call, &sql) {
                found.push((id, at, trip));
                continue;
            }
            if let Some(trip) = crate::protocol::redis::file_script(program, id, call) {
                found.push((id, at, trip));
                continue;
            }
            let site = models.find(program, &imports, id, call, versions).map(|hit| Site {
                program,
                models,
                versions,
                imports: &imports,
                sql: &sql,
                function: id,
                at,
                span: op.span,
                dst: op.dst,
                call,
                row: hit.row,
                certainty: hit.certainty,
                has_receiver: hit.receiver,
            });
            if let Some(site) = site.as_ref().filter(|site| !function.test && crate::protocol::external::creates(site))
            {
                conditional.push((id, Missed { span: op.span, name: site.call.name().to_owned(), why: UNSENT.into() }));
            }
            match site.as_ref().map(crate::protocol::call) {
                Some(Outcome::Effect(trip)) => found.push((id, at, *trip)),
                Some(Outcome::Passed(what)) => {
                    if let Some(site) = site {
                        helpers.push((id, *what, site.row, site.certainty));
                    }
                }
                Some(Outcome::Opaque(why)) if !function.test && call.targets.is_empty() => {
                    let missed = Missed { span: op.span, name: call.name().to_owned(), why };
                    match speaks(program, id) {
                        true => result.missed.push(missed),
                        false => result.open.push(missed),
                    }
                }
                Some(_) => {}
                None => {
                    let bare = matches!(call.callee, Callee::Method(_) | Callee::Path(_));
                    if bare && !function.test && call.targets.is_empty() && is_lock_name(call.name(), call.args.len()) {
                        let why = "no model row fits".to_owned();
                        result.missed.push(Missed { span: op.span, name: call.name().to_owned(), why });
                    }
                }
            }
        }
    }
    for round in 0..HELPERS {
        let mut outer = Vec::new();
        for (helper, what, row, certainty) in helpers {
            let callee = program.function(helper);
            let callers = program.callers(helper);
            if callers.is_empty() && !callee.test && round == 0 {
                let why = "it runs what its caller brings, and no caller is known".to_owned();
                result.missed.push(Missed { span: callee.span, name: callee.name.clone(), why });
            }
            for caller in callers {
                let function = program.function(caller.function);
                let op = function.op(caller.at);
                let OpKind::Call(call) = &op.kind else { continue };
                let site = Site {
                    program,
                    models,
                    versions,
                    imports: &imports,
                    sql: &sql,
                    function: caller.function,
                    at: caller.at,
                    span: op.span,
                    dst: op.dst,
                    call,
                    row,
                    certainty,
                    has_receiver: matches!(call.callee, Callee::Method(_)),
                };
                match crate::protocol::passed(&site, what.at_caller(&site, callee)) {
                    Outcome::Effect(trip) => found.push((caller.function, caller.at, *trip)),
                    Outcome::Passed(what) => outer.push((caller.function, *what, row, certainty)),
                    Outcome::Opaque(why) if !function.test => {
                        result.missed.push(Missed { span: op.span, name: call.name().to_owned(), why });
                    }
                    _ => {}
                }
            }
        }
        helpers = outer;
    }
    result.missed.extend(unsent(program, &conditional, &found));
    for (id, at, trip) in found {
        let function = &mut program.functions[id.0 as usize];
        let lock = trip.effects.iter().any(|effect| effect.kind.is_lock());
        if lock && !function.test {
            result.understood += 1;
        }
        if let OpKind::Call(call) = &mut function.blocks[at.block.0 as usize].ops[at.index as usize].kind {
            call.effect = Some(Box::new(trip));
        }
    }
    result.missed.sort();
    result.missed.dedup();
    result.open.sort();
    result.open.dedup();
    result
}

const UNSENT: &str = "a conditional create that is sent where it cannot be followed";

/// Conditional creates in functions of which nothing is known to take or write anything under a condition.
fn unsent<'m>(
    program: &'m Program,
    conditional: &'m [(FunctionId, Missed)],
    found: &'m [(FunctionId, OpRef, RoundTrip)],
) -> impl Iterator<Item = Missed> + 'm {
    let item = |mut id: FunctionId| {
        while let Some(parent) = program.function(id).parent {
            id = parent;
        }
        id
    };
    let decided = |trip: &RoundTrip| {
        trip.effects.iter().any(|e| match &e.kind {
            EffectKind::Acquire(_) => true,
            EffectKind::Write(write) => write.safety != Safety::None,
            _ => false,
        })
    };
    let understood: BTreeSet<FunctionId> =
        found.iter().filter(|(_, _, trip)| decided(trip)).map(|(id, ..)| item(*id)).collect();
    conditional.iter().filter(move |(id, _)| !understood.contains(&item(*id))).map(|(_, missed)| missed.clone())
}

/// Whether the text of the item that a function belongs to holds a lock word.
fn speaks(program: &Program, mut id: FunctionId) -> bool {
    while let Some(parent) = program.function(id).parent {
        id = parent;
    }
    let whole = program.function(id).whole;
    let text = &program.sources.get(whole.file).text;
    text.get(whole.start as usize..whole.end as usize).is_none_or(super::lock_word_in)
}

/// Method names that are hardly used for anything but a lock in a store. Names such as `lock`, `acquire`, `set` are
/// those of mutexes, pools and maps far more often, and count only when a row matches them.
fn is_lock_name(name: &str, args: usize) -> bool {
    match name {
        "set_nx" | "setnx" | "hset_nx" | "hsetnx" | "mset_nx" | "msetnx" | "set_if_not_exists" => args >= 2,
        "lease_grant" | "pg_advisory_lock" | "pg_try_advisory_lock" | "evalsha" => true,
        _ => false,
    }
}
