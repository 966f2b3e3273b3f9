//! `hashtext-key`: an advisory key of 32 bits made by hashing.

use crate::finding::{Actor, Finding, Severity};
use crate::frontend::sql::FUNCTION;
use crate::ir::{Backend, LockKind, Value};
use crate::rule::{Context, Group, Rule};

/// The rule.
pub const RULE: Rule = Rule {
    id: "hashtext-key",
    severity: Severity::Note,
    group: Group::Taking,
    page: include_str!("../../rules/hashtext-key.md"),
    check,
};

fn check(cx: &Context<'_>, findings: &mut Vec<Finding>) {
    // What a routine hashes itself is its own defect, and not one of each statement that calls it.
    let own: Vec<String> = cx
        .locks
        .locks
        .iter()
        .filter(|lock| lock.acquire().is_some_and(|a| narrow(&a.key, 0).is_some()))
        .filter_map(|lock| cx.program.function(lock.taken.function).path.strip_prefix(FUNCTION))
        .map(|name| format!(" in {name}()"))
        .collect();
    for lock in &cx.locks.locks {
        let Some(acquire) = lock.acquire() else { continue };
        let advisory = matches!(acquire.kind, LockKind::Session | LockKind::Transaction)
            && matches!(acquire.backend, Backend::Postgres | Backend::Sql);
        let elsewhere = own.iter().any(|routine| lock.taken.effect.command.ends_with(routine.as_str()));
        if !advisory || elsewhere || !cx.judged(lock.taken.function) {
            continue;
        }
        let Some(hash) = narrow(&acquire.key, 0) else { continue };
        let span = cx.place(&lock.taken);
        let mut f = Finding::new(
            &RULE,
            span,
            format!(
                "the key of {} has the 32 bits of `{hash}`: different names share a lock",
                lock.taken.effect.command
            ),
        );
        f.confidence = cx.confidence(cx.certainty(&lock.taken));
        f.caret = "key of 32 bits".into();
        f.labels = cx.through(&lock.taken, "the command");
        f.help = "use `hashtextextended(name, 0)`, which has 64 bits, or a class id and an id as two integers".into();
        f.step(Actor::A, span, "takes the lock of one name");
        f.step(Actor::B, span, "waits, or gives up, for another name that has the same hash");
        findings.push(f);
    }
}

/// The hash of 32 bits that makes a key of one number. In the form with two numbers each has 32 bits anyway.
fn narrow(key: &Value, depth: u32) -> Option<&'static str> {
    if depth > 6 {
        return None;
    }
    match key {
        Value::Call(call) => match call.name.as_str() {
            "sql::hashtext" => Some("hashtext"),
            "sql::crc32" => Some("crc32"),
            name if name.rsplit("::").next() == Some("hash") && name.starts_with("crc32fast") => Some("crc32"),
            // Conversions keep the bits.
            "sql::cast" | "sql::abs" | ".into" | "i64::from" | "std::convert::From::from" => {
                call.args.first().and_then(|x| narrow(x, depth + 1))
            }
            _ => None,
        },
        Value::Join(members) => members.iter().find_map(|m| narrow(m, depth + 1)),
        _ => None,
    }
}
