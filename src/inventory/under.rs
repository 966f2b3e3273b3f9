//! What happens while a lock is held.

use super::{Effect, Member, Place, function_name};
use crate::analysis::lock::{show_resource, strong};
use crate::analysis::summary::{Observation, Origin, Relation, Status};
use crate::ir::{EffectKind, OpKind, Resource, Rvalue, Safety, Site, Value, Write};
use crate::rule::Context;
use std::collections::BTreeSet;

/// What was seen under one lock.
#[derive(Default)]
pub(super) struct Seen {
    /// Writes and calls to the outside, by place.
    pub effects: Vec<Effect>,
    /// Fencing tokens issued.
    pub issued: Vec<Place>,
    /// Pauses and deadlines.
    pub pauses: Vec<(Value, bool)>,
    /// The writes with the function in whose terms they are.
    pub writes: Vec<(crate::ir::FunctionId, Resource, Origin)>,
    /// Which ops run under the lock.
    pub scopes: Scopes,
}

/// Ops that run under a lock.
#[derive(Default)]
pub(super) struct Scopes {
    /// Ops of functions that hold the lock there.
    pub entries: BTreeSet<Site>,
    /// Ops below such an op, seen on the way from it to an effect.
    pub inner: BTreeSet<Site>,
}

/// Everything that was observed while one of the acquisitions was held.
pub(super) fn observe(cx: &Context<'_>, members: &[Member<'_>]) -> Seen {
    let mut seen = Seen::default();
    let own = bookkeeping(cx, members);
    for member in members {
        let list = cx.observed(member.index, |o| o.status == Status::Held && cx.judged(o.function));
        for o in &list {
            if asked_by(cx, o, member) {
                seen.note(cx, o, &own);
            }
        }
    }
    seen.effects.sort_by(|a, b| (a.span, &a.target).cmp(&(b.span, &b.target)));
    seen.effects.dedup_by(|a, b| a.span == b.span && a.target == b.target);
    seen
}

/// The locks' own commands.
fn bookkeeping(cx: &Context<'_>, members: &[Member<'_>]) -> BTreeSet<Origin> {
    let mut own = BTreeSet::new();
    for lock in members.iter().map(|m| m.lock) {
        own.insert(lock.taken.origin());
        own.extend(lock.releases.keys().map(|i| cx.locks.releases[*i].origin()));
        own.extend(lock.prolongs.keys().map(|i| cx.locks.prolongs[*i].origin()));
    }
    own
}

/// Whether an observation belongs to who asks for the lock here: one path leads through the other.
fn asked_by(cx: &Context<'_>, o: &Observation, member: &Member<'_>) -> bool {
    let calls = |via: &[Site]| -> Vec<Site> {
        let closure = |site: &Site| {
            matches!(cx.program.function(site.function).op(site.at).kind, OpKind::Let(Rvalue::Closure(..)))
        };
        via.iter().copied().filter(|site| !closure(site)).collect()
    };
    let (seen, asked) = (calls(&o.lock.via), calls(&member.taker.via));
    seen.ends_with(&asked) || asked.ends_with(&seen)
}

impl Seen {
    fn note(&mut self, cx: &Context<'_>, o: &Observation, own: &BTreeSet<Origin>) {
        if own.contains(&o.origin) {
            return;
        }
        let last = o.via[o.via.len() - 1];
        let function = || function_name(cx, last.function);
        match &o.effect.kind {
            EffectKind::Write(write) if !is_lock_key(o, write) && write.safety != Safety::Unknown => {
                self.effects.push(of_write(cx, o, write, function()));
                self.writes.push((o.function, write.resource.clone(), o.origin));
            }
            EffectKind::External(external) => {
                let target = cx.show(o.function, &external.target);
                let guard = if external.idempotency.is_some() { "idempotency key or precondition" } else { "" };
                self.effects.push(Effect {
                    span: o.effect.span,
                    verb: external.what.clone(),
                    target: if target == ".." { String::new() } else { format!("`{target}`") },
                    guard: guard.to_owned(),
                    function: function(),
                });
            }
            EffectKind::Issue(key) => self.issued.push(Place {
                span: o.effect.span,
                what: format!("{} `{}`", o.effect.command, cx.show(o.function, key)),
                function: function(),
            }),
            EffectKind::Sleep(value) => self.pauses.push((value.clone(), false)),
            EffectKind::Timeout(value) => self.pauses.push((value.clone(), true)),
            _ => return,
        }
        self.scopes.entries.insert(o.via[0]);
        self.scopes.inner.extend(o.via.iter().skip(1));
    }
}

/// Whether a write is of the lock's own key.
fn is_lock_key(o: &Observation, write: &Write) -> bool {
    match (&write.resource, o.relation) {
        (_, Relation::Must) => true,
        (Resource::Key(_, key), Relation::May) => !strong(key),
        _ => false,
    }
}

fn of_write(cx: &Context<'_>, o: &Observation, write: &Write, function: String) -> Effect {
    Effect {
        span: o.effect.span,
        verb: write.verb.clone(),
        target: target(cx, o.function, &write.resource),
        guard: guard(&write.safety),
        function,
    }
}

/// A resource with the names of a function's parameters.
pub(super) fn target(cx: &Context<'_>, function: crate::ir::FunctionId, resource: &Resource) -> String {
    match resource {
        Resource::Key(_, key) => format!("key `{}`", cx.show(function, key)),
        other => show_resource(other),
    }
}

/// What the store compares before it writes.
pub(super) fn guard(safety: &Safety) -> String {
    match safety {
        Safety::None | Safety::Unknown | Safety::Upsert => String::new(),
        Safety::Unique => "unique key".to_owned(),
        Safety::Conditions(list) => {
            let mut columns: Vec<String> = list
                .iter()
                .map(|(column, op, _)| if op == "=" { column.clone() } else { format!("{column} {op}") })
                .collect();
            columns.dedup();
            format!("where {}", columns.join(", "))
        }
    }
}
