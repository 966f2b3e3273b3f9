//! Routines of the database that take a session lock and unlock it on some of their paths. An error in the body rolls the
//! statement back and leaves the lock (PostgreSQL manual, 13.3.5).

use crate::analysis::lock::Lock;
use crate::analysis::summary::{Leaving, Status};
use crate::finding::{Actor, Confidence, Finding};
use crate::ir::{Backend, EdgeKind, Exit, Function, FunctionId, OpRef};
use crate::rule::Context;
use crate::source::Span;

use super::RULE;

/// Why control leaves with the lock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Why {
    /// RETURN, or the end.
    Returns,
    /// An error that nothing in the body catches.
    Fails,
    /// The query is cancelled, which `WHEN OTHERS` does not catch.
    Cancelled,
}

/// The finding on a lock that the body of `function` takes, if it unlocks it on some paths and leaves on others.
pub(super) fn leaked(cx: &Context<'_>, lock: &Lock, function: FunctionId, exits: &[&Leaving]) -> Option<Finding> {
    if lock.acquire()?.backend != Backend::Postgres {
        return None;
    }
    let f = cx.program.function(function);
    let unlocked: Vec<&&Leaving> = exits.iter().filter(|e| e.status == Status::Released).collect();
    if unlocked.is_empty() {
        return None;
    }
    // A routine that answers differently when it keeps the lock hands it to its caller.
    let told = |e: &Leaving| e.exit == Exit::Return && !f.ret.is_unit() && unlocked.iter().all(|u| u.ret != e.ret);
    let mut leaks: Vec<(Why, Span)> = exits
        .iter()
        .filter(|e| e.status == Status::Held && e.proven && !told(e))
        .filter_map(|e| e.at.map(|at| (why(f, e, at), f.op(at).span)))
        .collect();
    leaks.sort();
    leaks.dedup();
    let (first, _) = leaks.first()?;
    Some(finding(cx, lock, *first, &leaks))
}

fn why(f: &Function, exit: &Leaving, at: OpRef) -> Why {
    let cancelled = f.blocks.iter().flat_map(|b| &b.edges).any(|e| e.to == at.block && e.kind == EdgeKind::Cancel);
    match exit.exit {
        Exit::Return => Why::Returns,
        _ if cancelled => Why::Cancelled,
        _ => Why::Fails,
    }
}

fn finding(cx: &Context<'_>, lock: &Lock, first: Why, leaks: &[(Why, Span)]) -> Finding {
    let span = cx.place(&lock.taken);
    let command = &lock.taken.effect.command;
    let path = match first {
        Why::Returns => "a path returns without the unlock",
        Why::Fails => "an error leaves the body without the unlock: rolling back frees no session lock",
        Why::Cancelled => "a cancelled query leaves the body without the unlock: WHEN OTHERS does not catch it",
    };
    let mut f = Finding::new(&RULE, span, format!("{command} locks the session, and {path}"));
    f.confidence = cx.confidence(cx.certainty(&lock.taken));
    if first == Why::Cancelled {
        f.confidence = f.confidence.min(Confidence::Medium);
    }
    f.caret = "taken here".into();
    for (why, exit) in leaks.iter().take(6) {
        let note = match why {
            Why::Returns => "returns with the lock held",
            Why::Fails => "an error here keeps the lock",
            Why::Cancelled => "a cancelled query passes this handler and keeps the lock",
        };
        f.label(*exit, note);
    }
    f.help = match first {
        Why::Returns => "unlock before each RETURN, and in an EXCEPTION part for errors".into(),
        Why::Fails => {
            "put the work into a block whose EXCEPTION part unlocks and raises again (`WHEN OTHERS OR query_canceled`)"
                .into()
        }
        Why::Cancelled => "write `WHEN OTHERS OR query_canceled`".to_string(),
    };
    f.help += "; `pg_advisory_xact_lock` ends with the transaction by itself, where the body does not COMMIT";
    f.step(Actor::A, span, format!("takes the lock by {command}"));
    if let Some((why, exit)) = leaks.first() {
        let note = match why {
            Why::Returns => "returns: the session still holds the lock",
            Why::Fails => "fails: the statement is rolled back, the session still holds the lock",
            Why::Cancelled => "is cancelled, by a statement_timeout for instance: the session still holds the lock",
        };
        f.step(Actor::A, *exit, note);
    }
    f.step(Actor::B, span, "does not get the lock as long as that session lives");
    f.lock = Some(cx.key(lock));
    f
}
