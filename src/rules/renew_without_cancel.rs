//! `renew-without-cancel`: a renewal runs in a task of its own that nobody listens to, or that nobody stops.

use super::renew_failure_ignored;
use crate::analysis::lock::Decision;
use crate::finding::{Actor, Confidence, Finding, Severity};
use crate::ir::{EffectKind, OpRef, Ttl};
use crate::rule::loops::innermost;
use crate::rule::tasks::{Hold, Task};
use crate::rule::{Context, Group, Rule};

/// The rule.
pub const RULE: Rule = Rule {
    id: "renew-without-cancel",
    severity: Severity::Warning,
    group: Group::Keeping,
    page: include_str!("../../rules/renew-without-cancel.md"),
    check,
};

fn check(cx: &Context<'_>, findings: &mut Vec<Finding>) {
    for (id, _) in cx.program.functions().filter(|(id, _)| cx.judged(*id) && cx.analyzer.relevant(*id)) {
        for task in cx.tasks(id) {
            let hold = cx.hold(&task);
            if hold == Hold::Followed {
                continue;
            }
            let Some(keeper) = keeper(cx, &task) else { continue };
            if cx.tells(&task) {
                continue;
            }
            match hold {
                Hold::Aborted => {
                    let exits = cx.left_running(&task);
                    if !exits.is_empty() {
                        findings.push(outlives(cx, &task, &keeper, &exits));
                    } else if !keeper.unheard {
                        findings.push(alone(cx, &task, &keeper));
                    }
                }
                _ if !keeper.unheard => findings.push(alone(cx, &task, &keeper)),
                _ => {}
            }
        }
    }
}

/// The renewal that a task makes again and again, and the lock that it keeps.
struct Keeper {
    /// Index into the prolongations.
    renewal: usize,
    /// Index into the locks.
    lock: usize,
    /// Nobody acts on its answer: that is a finding of its own, and the task never ends by itself.
    unheard: bool,
}

/// What the task keeps, if keeping is all it does.
fn keeper(cx: &Context<'_>, task: &Task) -> Option<Keeper> {
    let inside = cx.done_by(task);
    let other = |k: &EffectKind| {
        matches!(k, EffectKind::Signal(_) | EffectKind::Write(_) | EffectKind::External(_) | EffectKind::Acquire(_))
    };
    if inside.iter().any(|r| other(&r.effect.kind))
        || !inside.iter().any(|r| matches!(r.effect.kind, EffectKind::Sleep(_)))
    {
        return None;
    }
    inside.iter().find_map(|r| {
        match &r.effect.kind {
            EffectKind::Renew(_) => {}
            EffectKind::Expire(e) if e.ttl != Ttl::Never => {}
            _ => return None,
        }
        let again = r.via[1..].iter().any(|s| innermost(cx.program.function(s.function), s.at).is_some());
        let renewal = cx.locks.prolongs.iter().position(|p| p.origin() == r.origin)?;
        let lock =
            cx.locks.locks.iter().position(|l| l.decision == Decision::Lock && l.prolongs.contains_key(&renewal))?;
        let unheard = !renew_failure_ignored::unheard(cx, &cx.locks.prolongs[renewal]).is_empty();
        again.then_some(Keeper { renewal, lock, unheard })
    })
}

/// The task ends when the lease is lost, and the work is not told.
fn alone(cx: &Context<'_>, task: &Task, keeper: &Keeper) -> Finding {
    let (key, mut f) = start(cx, task, keeper, |key| {
        format!(
            "the task that renews `{key}` is on its own: when it finds the lease lost and ends, the work is not told"
        )
    });
    let renewed = cx.place(&cx.locks.prolongs[keeper.renewal]);
    f.caret = "nobody waits for this task".into();
    f.step(Actor::A, f.span, format!("starts a task that renews `{key}`, and works"));
    f.step(Actor::Store, renewed, "answers the renewal that the lock has another owner by now");
    f.step(Actor::A, renewed, "ends the task; the work goes on, beside B");
    f
}

/// The task is aborted on some exits of the function and goes on after the others.
fn outlives(cx: &Context<'_>, task: &Task, keeper: &Keeper, exits: &[OpRef]) -> Finding {
    let (key, mut f) = start(cx, task, keeper, |key| {
        format!(
            "the task that renews `{key}` is aborted on some ways out only: after the others it keeps the lease alive"
        )
    });
    let body = cx.program.function(task.spawn.function);
    f.caret = "dropping the handle does not end the task".into();
    for exit in exits.iter().take(4) {
        f.label(body.op(*exit).span, "leaves with the renewal running");
    }
    f.step(Actor::A, f.span, format!("starts a task that renews `{key}`, and works"));
    f.step(Actor::A, body.op(exits[0]).span, "leaves before the abort");
    f.step(Actor::Store, f.span, format!("`{key}` is renewed as long as the process lives"));
    f.step(Actor::B, f.span, format!("never gets `{key}`, though nobody works on it"));
    f
}

fn start(cx: &Context<'_>, task: &Task, keeper: &Keeper, message: impl Fn(&str) -> String) -> (String, Finding) {
    let renewal = &cx.locks.prolongs[keeper.renewal];
    let key = cx.show(renewal.function, crate::analysis::lock::key(&renewal.effect));
    let mut f = Finding::new(&RULE, cx.op_span(task.spawn), message(&key));
    f.confidence = cx.confidence(cx.certainty(renewal)).min(Confidence::High);
    f.label(cx.place(renewal), "renewed here");
    f.help = "race the work against the renewal: `select! { r = work() => .., _ = &mut keeper => lost }`, or let the task cancel a `CancellationToken` that the work watches; keep the handle in an `AbortOnDropHandle`, so that every exit ends it".into();
    f.lock = Some(cx.key(&cx.locks.locks[keeper.lock]));
    (key, f)
}
