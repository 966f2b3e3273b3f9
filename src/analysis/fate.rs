//! What becomes of a call's result: nobody looks, somebody tests it, or it is handed on.

use std::collections::BTreeSet;

use super::flow::{bound, reads, tested};
use super::shapes;
use crate::ir::{Call, Callee, EdgeKind, Function, Guard, OpKind, Operand, Pattern, Rvalue, Var};
use crate::link::Program;

/// What becomes of the payload of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// Dropped unseen; at most the error layer was looked at.
    Unseen,
    /// Only printed or logged.
    Logged,
    /// A condition depends on it.
    Tested,
    /// Returned.
    Returned,
    /// Stored or passed on.
    Handed,
}

/// The fate of the success payload of `dst` (a `Result` whose error layer may be tested without seeing the payload).
pub fn payload(program: &Program, f: &Function, dst: Var) -> Fate {
    follow(program, f, dst, false)
}

/// The fate of the whole of `dst`: a test that only tells `Ok` from `Err` counts.
pub fn whole(program: &Program, f: &Function, dst: Var) -> Fate {
    follow(program, f, dst, true)
}

fn follow(program: &Program, f: &Function, dst: Var, whole: bool) -> Fate {
    let mut fate = Fate::Unseen;
    let mut seen = BTreeSet::new();
    let mut work = vec![dst];
    while let Some(var) = work.pop() {
        if !seen.insert(var) {
            continue;
        }
        for (_, op) in f.ops() {
            let mut used = false;
            reads(op, |x| used |= is(x, var));
            if !used {
                continue;
            }
            match &op.kind {
                OpKind::Let(
                    Rvalue::Use(_)
                    | Rvalue::Await(_)
                    | Rvalue::Field(..)
                    | Rvalue::Cast(..)
                    | Rvalue::Binary(..)
                    | Rvalue::Unary(..)
                    | Rvalue::Matches(..),
                ) => work.extend(op.dst),
                OpKind::Let(Rvalue::Format(_) | Rvalue::Unknown(_)) => fate = fate.max(Fate::Logged),
                OpKind::Let(Rvalue::Variant(path, _)) if matches!(shapes::last(path), "Ok" | "Some") => {
                    work.extend(op.dst);
                }
                OpKind::Let(_) | OpKind::Store(..) => fate = fate.max(Fate::Handed),
                OpKind::Return(..) => fate = fate.max(Fate::Returned),
                OpKind::Drop(_) => {}
                OpKind::Call(call) => match &call.callee {
                    // An error ends it here.
                    Callee::Method(name) if whole && matches!(name.as_str(), "unwrap" | "expect") => {
                        fate = fate.max(Fate::Tested);
                        work.extend(op.dst);
                    }
                    Callee::Method(name) if keeps(name) || asks(name) => work.extend(op.dst),
                    // A refusal by the server becomes an error: who looks at that has looked at the answer.
                    Callee::Method(name) if matches!(name.as_str(), "error_for_status" | "error_for_status_ref") => {
                        fate = fate.max(Fate::Tested);
                        work.extend(op.dst);
                    }
                    Callee::Method(name) if name == "map" && ignores(program, f, call) => {}
                    Callee::Method(name) if maps(name) => work.extend(op.dst),
                    Callee::Method(name) if matches!(name.as_str(), "is_err" | "is_ok" | "ok" | "err") => {
                        if whole || name == "ok" {
                            work.extend(op.dst);
                        }
                    }
                    Callee::Macro(name) if logs(name) => fate = fate.max(Fate::Logged),
                    _ => fate = fate.max(Fate::Handed),
                },
            }
        }
        for edge in f.blocks.iter().flat_map(|b| &b.edges) {
            if !tested(&edge.guard).is_some_and(|x| is(x, var)) {
                continue;
            }
            match &edge.guard {
                Guard::Matches(_, pattern) if layer_only(pattern, edge.kind, &mut work) && !whole => {}
                _ => fate = fate.max(Fate::Tested),
            }
        }
    }
    fate
}

/// Combinators whose result is made of the payload by a closure.
fn maps(name: &str) -> bool {
    matches!(name, "map" | "and_then" | "map_or" | "map_or_else" | "is_ok_and" | "is_some_and" | "filter" | "then")
}

/// `map(|_| ..)`: the closure does not look at the payload.
fn ignores(program: &Program, f: &Function, call: &Call) -> bool {
    let Some(Operand::Var(var, _)) = call.args.get(1) else { return false };
    let made = f.ops().find_map(|(_, op)| match &op.kind {
        OpKind::Let(Rvalue::Closure(id, _)) if op.dst == Some(*var) => Some(program.function(*id)),
        _ => None,
    });
    let Some(closure) = made else { return false };
    let Some(param) = closure.params.first() else { return true };
    let mut read =
        closure.blocks.iter().flat_map(|b| &b.edges).any(|e| tested(&e.guard).is_some_and(|x| is(x, *param)));
    for (_, op) in closure.ops().filter(|(_, op)| !matches!(op.kind, OpKind::Drop(_))) {
        reads(op, |x| read |= is(x, *param));
    }
    !read
}

fn is(operand: &Operand, var: Var) -> bool {
    matches!(operand, Operand::Var(v, _) if *v == var)
}

/// Whether a pattern only tells `Ok` from `Err`; what it binds of the payload is followed.
fn layer_only(pattern: &Pattern, kind: EdgeKind, work: &mut Vec<Var>) -> bool {
    match pattern {
        Pattern::Wild => true,
        Pattern::Bind(var, None) => {
            work.push(*var);
            true
        }
        Pattern::Variant(path, args, _) if matches!(shapes::last(path), "Ok" | "Err") => {
            if shapes::last(path) == "Err" {
                return true;
            }
            args.iter().all(|p| match p {
                Pattern::Wild => true,
                Pattern::Bind(var, None) => {
                    work.push(*var);
                    true
                }
                Pattern::Tuple(list, _) => list.is_empty(),
                _ => false,
            })
        }
        Pattern::Or(list) => {
            // The `?` pattern: `Ok(x) | Some(x)`.
            let mut vars = Vec::new();
            bound(pattern, &mut vars);
            work.extend(vars);
            kind != EdgeKind::Plain || list.iter().all(|p| matches!(p, Pattern::Variant(..)))
        }
        _ => false,
    }
}

/// Whether a call only prints, logs or converts: it changes nothing that another part of the program sees.
pub fn looks_only(call: &Call) -> bool {
    match &call.callee {
        Callee::Macro(name) => logs(name),
        Callee::Method(name) => {
            keeps(name)
                || matches!(
                    name.as_str(),
                    "to_string"
                        | "as_str"
                        | "as_deref"
                        | "as_ref"
                        | "clone"
                        | "display"
                        | "elapsed"
                        | "len"
                        | "is_ok"
                        | "is_err"
                        | "is_some"
                        | "is_none"
                )
        }
        _ => false,
    }
}

/// Methods whose answer is a fact about the payload.
fn asks(name: &str) -> bool {
    matches!(
        name,
        "is_some"
            | "is_none"
            | "as_deref"
            | "as_ref"
            | "as_str"
            | "eq"
            | "ne"
            | "clone"
            | "rows_affected"
            // Of a response.
            | "status"
            | "is_success"
            | "is_client_error"
    )
}

fn keeps(name: &str) -> bool {
    matches!(
        name,
        "map_err"
            | "context"
            | "with_context"
            | "inspect_err"
            | "unwrap"
            | "expect"
            | "unwrap_or_default"
            | "wrap_err"
            | "into"
            | "unwrap_or"
    )
}

fn logs(name: &str) -> bool {
    matches!(
        shapes::last(name),
        "trace"
            | "debug"
            | "info"
            | "warn"
            | "error"
            | "println"
            | "eprintln"
            | "event"
            | "log"
            | "format"
            | "format_args"
            | "print"
    )
}
