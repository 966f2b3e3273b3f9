//! `ttl-unit`: an expiry is given in another unit than the command reads it in, or is zero.

use crate::analysis::lock::{Decision, Lock, Use, words};
use crate::analysis::origin_call;
use crate::analysis::slice::Slice;
use crate::finding::{Actor, Finding, Severity};
use crate::ir::{EffectKind, Function, Lit, OpKind, Operand, TimeUnit, Ttl, Use as Mode, Value};
use crate::rule::{Context, Group, Rule};

/// The rule.
pub const RULE: Rule = Rule {
    id: "ttl-unit",
    severity: Severity::Warning,
    group: Group::Taking,
    page: include_str!("../../rules/ttl-unit.md"),
    check,
};

/// What is wrong with an expiry.
struct Wrong {
    what: String,
    story: String,
}

fn check(cx: &Context<'_>, findings: &mut Vec<Finding>) {
    for lock in cx.locks.locks.iter().filter(|l| l.decision == Decision::Lock) {
        let prolongs = lock.prolongs.keys().map(|p| &cx.locks.prolongs[*p]);
        for used in std::iter::once(&lock.taken).chain(prolongs) {
            let ttl = match &used.effect.kind {
                EffectKind::Acquire(a) => &a.ttl,
                EffectKind::Renew(r) => &r.ttl,
                EffectKind::Expire(e) => &e.ttl,
                _ => continue,
            };
            let Ttl::After(value, unit) = ttl else { continue };
            if let Some(wrong) = wrong(cx, used, value, *unit) {
                let f = finding(cx, lock, used, &wrong);
                if !findings.iter().any(|other| other.rule == RULE.id && other.span == f.span) {
                    findings.push(f);
                }
            }
        }
    }
}

fn wrong(cx: &Context<'_>, used: &Use, value: &Value, unit: TimeUnit) -> Option<Wrong> {
    let other = match unit {
        TimeUnit::Seconds => "milliseconds",
        TimeUnit::Milliseconds => "seconds",
        _ => return None,
    };
    let reads = if unit == TimeUnit::Seconds { "seconds" } else { "milliseconds" };
    if matches!(value, Value::Const(Lit::Duration(0))) {
        return Some(Wrong {
            what: "is zero".into(),
            story: "the server refuses an expiry of 0, or deletes the key at once".into(),
        });
    }
    (named(value, other) || written(cx, used, value, unit, other)).then(|| Wrong {
        what: format!("is given in {other}, and the command reads {reads}"),
        story: if unit == TimeUnit::Seconds {
            "keeps the lock a thousand times as long as it should: a crashed holder blocks everybody for hours".into()
        } else {
            "ends a thousand times too early: the work has hardly begun".into()
        },
    })
}

/// Whether the value's own name, or the conversion that makes it, says the unit.
fn named(value: &Value, unit: &str) -> bool {
    match value {
        Value::Call(call) => converts(call.name.trim_start_matches('.'), unit),
        Value::Field(_, name) | Value::TypeField(_, name) | Value::Path(name) | Value::Env(name) => says(name, unit),
        _ => false,
    }
}

fn converts(method: &str, unit: &str) -> bool {
    match unit {
        "seconds" => matches!(method, "as_secs" | "as_secs_f64" | "as_secs_f32" | "num_seconds"),
        _ => matches!(method, "as_millis" | "num_milliseconds"),
    }
}

fn says(name: &str, unit: &str) -> bool {
    let last = name.rsplit("::").next().unwrap_or(name);
    let list = words(last);
    let of = |unit: &str| match unit {
        "seconds" => ["secs", "seconds", "sec"],
        _ => ["ms", "millis", "milliseconds"],
    };
    let opposite = if unit == "seconds" { "milliseconds" } else { "seconds" };
    let has = |unit: &str| list.iter().any(|w| of(unit).contains(&w.as_str()));
    has(unit) && !has(opposite)
}

/// Whether the number that the command gets is written as a constant, variable or conversion of the other unit.
fn written(cx: &Context<'_>, used: &Use, value: &Value, unit: TimeUnit, other: &str) -> bool {
    let Value::Const(Lit::Duration(ns)) = value else { return false };
    let scale = if unit == TimeUnit::Seconds { 1_000_000_000 } else { 1_000_000 };
    let site = used.site();
    let f = cx.program.function(site.function);
    let Some(call) = origin_call(cx.program, site) else { return false };
    let same =
        |x: &Operand| cx.program.value(site.function, x).as_int().is_some_and(|n| n >= 0 && n as u128 * scale == *ns);
    operands(f, call).iter().any(|x| match x {
        Operand::Path(path) => says(path, other) && same(x),
        Operand::Var(var, _) => {
            let made = f.ops().any(|(_, op)| {
                op.dst == Some(*var) && matches!(&op.kind, OpKind::Call(c) if converts(c.name(), other))
            });
            let name = f.var(*var).name.as_deref().is_some_and(|n| says(n, other));
            (made || name) && same(x)
        }
        Operand::Lit(_) => false,
    })
}

/// What takes part in a command: the operands of its builder chain and what they come from.
fn operands(f: &Function, call: &crate::ir::Call) -> Vec<Operand> {
    let slice = Slice::of(f);
    let mut out: Vec<Operand> = call.args.clone();
    let sources: Vec<_> = call.args.iter().flat_map(|x| slice.sources(x)).collect();
    for (_, op) in f.ops() {
        if op.dst.is_some_and(|dst| sources.contains(&dst)) {
            crate::analysis::flow_reads(op, |x| out.push(x.clone()));
        }
    }
    out.extend(sources.into_iter().map(|v| Operand::Var(v, Mode::Ref)));
    out
}

fn finding(cx: &Context<'_>, lock: &Lock, used: &Use, wrong: &Wrong) -> Finding {
    let key = cx.show(used.function, crate::analysis::lock::key(&used.effect));
    let span = cx.place(used);
    let command = &used.effect.command;
    let mut f = Finding::new(&RULE, span, format!("the expiry that {command} gives `{key}` {}", wrong.what));
    f.confidence = cx.confidence(cx.certainty(used));
    f.caret = "this expiry".into();
    f.labels = cx.through(used, "the command");
    f.help = "keep the lease as a `Duration` and convert it where the command is built: `PX` with `as_millis()`, `EX` with `as_secs()`".into();
    f.step(Actor::A, span, format!("takes `{key}`"));
    f.step(Actor::Store, span, wrong.story.clone());
    f.lock = Some(cx.key(lock));
    f
}
