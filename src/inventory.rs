//! The inventory: every lock of the workspace with what is known of it, whether anything is wrong with it or not.
//!
//! It is built from the facts that rules ask too ([`Context`]), not from findings; those are only attached. It answers what a
//! reviewer asks of a lock: do we need it at all, and what happens when it ends while its holder still works?

mod describe;
mod keys;
mod outside;
mod under;

use crate::analysis::lock::{Decision, Lock, Use};
use crate::analysis::origin_call;
use crate::analysis::summary::{Origin, Reached};
use crate::finding::Finding;
use crate::ir::{AcquireForm, Backend, EffectKind, FunctionId, LockKind};
use crate::model::Models;
use crate::rule::Context;
use crate::source::Span;
use keys::Taker;
use std::collections::{BTreeMap, BTreeSet};

/// All locks, and what only looks like one.
#[derive(Clone, Debug, Default)]
pub struct Inventory {
    /// Locks: leases first, then database locks; by key.
    pub locks: Vec<Entry>,
    /// Set-if-absents that are given back on failing exits only: idempotency markers.
    pub markers: Vec<Marker>,
    /// Set-if-absents of which nothing says whether they are locks.
    pub undecided: Vec<Marker>,
}

/// One lock: all places that take one key template in one way.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Key template as people read it: `lock:{id}`.
    pub key: String,
    /// Who keeps it.
    pub backend: Backend,
    /// What it is.
    pub kind: LockKind,
    /// What makes it a lock.
    pub why: &'static str,
    /// What keeps it is one server, a cluster, ..; empty where nothing shows it.
    pub topology: Vec<&'static str>,
    /// Where it is taken, by place.
    pub taken: Vec<Place>,
    /// Live call sites of the functions that take it.
    pub callers: usize,
    /// Expiry: `30 s`, `none`.
    pub ttl: Vec<String>,
    /// What is stored as owner.
    pub token: Vec<String>,
    /// What prolongs it.
    pub renewals: Vec<Place>,
    /// What gives it back.
    pub releases: Vec<Place>,
    /// How it ends besides: expiry, drop of a guard, commit, end of the session.
    pub ends: Vec<String>,
    /// Fencing tokens that are issued for it or under it.
    pub fence: Vec<Place>,
    /// Longest that it can stay taken after a holder died, and what the work under it is known to take.
    pub hold: Vec<String>,
    /// What is written or called under it, by place.
    pub under: Vec<Effect>,
    /// Functions that write the same tables or keys without it.
    pub outside: Vec<Effect>,
    /// Findings about it.
    pub findings: Vec<(&'static str, Span)>,
}

/// A place with what happens there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Where.
    pub span: Span,
    /// What: `SET NX PX`, `DEL, no owner check`.
    pub what: String,
    /// The function it stands in.
    pub function: String,
}

/// A write or call to the outside.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Effect {
    /// Where.
    pub span: Span,
    /// `UPDATE`, `HTTP POST`.
    pub verb: String,
    /// What it changes: table `orders`.
    pub target: String,
    /// What the store compares before it does so: columns and operators, `unique key`; empty for nothing.
    pub guard: String,
    /// The function it stands in.
    pub function: String,
}

/// A set-if-absent that is no lock as far as can be seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marker {
    /// Key template.
    pub key: String,
    /// Who keeps it.
    pub backend: Backend,
    /// The command and the function.
    pub at: Place,
    /// Why it is taken for this.
    pub why: &'static str,
}

/// Name of a backend for people and in JSON.
pub fn backend_name(backend: Backend) -> &'static str {
    match backend {
        Backend::Redis => "Redis",
        Backend::Postgres => "PostgreSQL",
        Backend::MySql => "MySQL",
        Backend::SqlServer => "SQL Server",
        Backend::Sql => "SQL",
        Backend::Etcd => "etcd",
        Backend::ZooKeeper => "ZooKeeper",
        Backend::Consul => "Consul",
        Backend::Kubernetes => "Kubernetes",
        Backend::Nats => "NATS",
        Backend::ObjectStore => "object store",
        Backend::DynamoDb => "DynamoDB",
    }
}

/// Name of a kind of lock for people and in JSON.
pub fn kind_name(kind: LockKind) -> &'static str {
    match kind {
        LockKind::Lease => "lease",
        LockKind::LeaseRow => "lease row",
        LockKind::Session => "session lock",
        LockKind::Transaction => "transaction lock",
        LockKind::Row => "row lock",
    }
}

/// Keys of all locks as those who ask for them call them.
pub fn keys(cx: &Context<'_>) -> BTreeSet<String> {
    let locks = cx.locks.locks.iter().filter(|lock| lock.decision == Decision::Lock && cx.judged(lock.taken.function));
    locks.flat_map(|lock| keys::takers(cx, &lock.taken)).map(|taker| keys::show(cx, &taker)).collect()
}

/// Builds the inventory. `findings` are those of a run over the same program.
pub fn build(cx: &Context<'_>, models: &Models, findings: &[Finding]) -> Inventory {
    let mut out = Inventory::default();
    let mut groups: BTreeMap<(LockKind, Backend, String), Group<'_>> = BTreeMap::new();
    for (index, lock) in cx.locks.locks.iter().enumerate() {
        let Some(acquire) = lock.acquire() else { continue };
        if !cx.judged(lock.taken.function) {
            continue;
        }
        let marker = || marker(cx, lock, acquire.backend);
        match lock.decision {
            Decision::ClaimWithUndo => out.markers.push(marker()),
            Decision::Claim => out.undecided.push(marker()),
            Decision::Lock => {
                for taker in keys::takers(cx, &lock.taken) {
                    let id = (acquire.kind, acquire.backend, keys::identity(cx, &taker));
                    let group = groups.entry(id).or_default();
                    group.members.push(Member { index, lock, taker });
                }
            }
        }
    }
    out.locks = groups.into_values().filter_map(|group| group.entry(cx, models, findings)).collect();
    out.locks.sort_by(|a, b| (a.kind, a.backend, &a.key, &a.taken).cmp(&(b.kind, b.backend, &b.key, &b.taken)));
    out.undecided.extend(neutral(cx));
    for list in [&mut out.markers, &mut out.undecided] {
        list.sort_by(|a, b| (&a.at, &a.key).cmp(&(&b.at, &b.key)));
        list.dedup_by(|a, b| a.at.span == b.at.span && a.key == b.key);
    }
    out
}

/// One acquisition of a group, and who asks for it.
struct Member<'a> {
    index: usize,
    lock: &'a Lock,
    taker: Taker,
}

/// Acquisitions of one key template.
#[derive(Default)]
struct Group<'a> {
    members: Vec<Member<'a>>,
}

impl Group<'_> {
    fn entry(&self, cx: &Context<'_>, models: &Models, findings: &[Finding]) -> Option<Entry> {
        let first = self.members.iter().min_by_key(|m| (m.taker.via.len(), cx.op_span(m.taker.via[0])))?;
        let acquire = first.lock.acquire()?;
        let mut entry = Entry {
            key: keys::show(cx, &first.taker),
            backend: acquire.backend,
            kind: acquire.kind,
            why: first.lock.why,
            topology: Vec::new(),
            taken: Vec::new(),
            callers: 0,
            ttl: Vec::new(),
            token: Vec::new(),
            renewals: Vec::new(),
            releases: Vec::new(),
            ends: Vec::new(),
            fence: Vec::new(),
            hold: Vec::new(),
            under: Vec::new(),
            outside: Vec::new(),
            findings: Vec::new(),
        };
        let mut calls = BTreeSet::new();
        for member in &self.members {
            entry.take(cx, models, member);
            let taking = cx.analyzer.item(member.taker.function);
            calls.extend(cx.program.callers(taking).iter().copied().filter(|site| cx.judged(site.function)));
        }
        entry.callers = calls.len();
        let seen = under::observe(cx, &self.members);
        entry.under = seen.effects;
        entry.fence.extend(seen.issued);
        entry.hold = describe::hold(&self.members, &entry, &seen.pauses);
        entry.outside = outside::writers(cx, &self.members, &seen.writes, &seen.scopes);
        for list in [&mut entry.taken, &mut entry.renewals, &mut entry.releases, &mut entry.fence] {
            list.sort();
            list.dedup();
        }
        for list in [&mut entry.ttl, &mut entry.token, &mut entry.ends] {
            list.sort();
            list.dedup();
        }
        entry.topology.sort_unstable();
        entry.topology.dedup();
        entry.attach(cx, &self.members, findings);
        Some(entry)
    }
}

impl Entry {
    /// Adds what one acquisition says.
    fn take(&mut self, cx: &Context<'_>, models: &Models, member: &Member<'_>) {
        let Member { lock, taker, .. } = member;
        // In the terms of who asks for the lock a parameter may have become a constant.
        let seen = as_seen(cx, taker, lock.taken.id.1);
        let effect = seen.as_ref().map_or(&lock.taken.effect, |reached| &reached.effect);
        let EffectKind::Acquire(acquire) = &effect.kind else { return };
        let span = if taker.via.len() == 1 { effect.span } else { cx.op_span(taker.via[0]) };
        let waits = if acquire.blocking { ", waits" } else { "" };
        self.taken.push(Place {
            span,
            what: format!("{}{waits}", effect.command),
            function: function_name(cx, taker.function),
        });
        self.topology.extend(describe::topology(cx, models, taker.via[taker.via.len() - 1]));
        let lease = matches!(acquire.kind, LockKind::Lease | LockKind::LeaseRow);
        if lease {
            self.ttl.push(describe::ttl(cx, member, acquire));
            self.token.push(describe::owner(cx, member, acquire));
        }
        let releases = lock.releases.keys().map(|i| &cx.locks.releases[*i]);
        self.releases.extend(releases.filter(|used| keys::concern(cx, used, taker)).filter_map(|used| step(cx, used)));
        let renewals = lock.prolongs.keys().map(|i| &cx.locks.prolongs[*i]);
        let renewals = renewals.filter(|used| !describe::first_expiry(lock, used) && keys::concern(cx, used, taker));
        self.renewals.extend(renewals.filter_map(|used| step(cx, used)));
        self.ends.extend(describe::ends(cx, lock, acquire));
    }

    /// Findings that name this lock's key or stand at one of its places.
    fn attach(&mut self, cx: &Context<'_>, members: &[Member<'_>], findings: &[Finding]) {
        let mut places: BTreeSet<Span> = BTreeSet::new();
        for list in [&self.taken, &self.renewals, &self.releases] {
            places.extend(list.iter().map(|place| place.span));
        }
        places.extend(members.iter().map(|m| cx.place(&m.lock.taken)));
        let mut keys: BTreeSet<String> = members.iter().map(|m| cx.key(m.lock)).collect();
        keys.insert(self.key.clone());
        for finding in findings {
            let labels = finding.labels.iter().map(|label| label.span);
            let here = std::iter::once(finding.span).chain(labels).any(|span| places.contains(&span));
            let named = finding.lock.as_ref().is_some_and(|key| keys.contains(key) && key.len() > 3);
            if here || (named && self.under.iter().any(|effect| effect.span == finding.span)) {
                self.findings.push((finding.rule, finding.span));
            }
        }
        self.findings.sort();
        self.findings.dedup();
    }
}

/// The acquisition in the terms of the function that asks for it.
fn as_seen(cx: &Context<'_>, taker: &Taker, effect: u32) -> Option<Reached> {
    let reached = cx.analyzer.reached(taker.function);
    reached.iter().find(|r| r.via == taker.via && r.origin.effect == effect).cloned()
}

/// A release or renewal with what it compares.
fn step(cx: &Context<'_>, used: &Use) -> Option<Place> {
    let idle = if keys::is_called(cx, used.function) { "" } else { ", called by nothing that was seen" };
    cx.judged(used.function).then(|| Place {
        span: cx.place(used),
        what: format!("{}{idle}", describe::step(&used.effect)),
        function: function_name(cx, used.function),
    })
}

fn marker(cx: &Context<'_>, lock: &Lock, backend: Backend) -> Marker {
    let taken = &lock.taken;
    let at = Place {
        span: cx.place(taken),
        what: taken.effect.command.clone(),
        function: function_name(cx, taken.function),
    };
    Marker { key: cx.key(lock), backend, at, why: lock.why }
}

/// Set-if-absents whose key is a parameter that no caller makes definite.
fn neutral(cx: &Context<'_>) -> Vec<Marker> {
    let known: BTreeSet<Origin> = cx.locks.locks.iter().map(|lock| lock.taken.origin()).collect();
    let mut out = Vec::new();
    for (id, f) in cx.program.functions() {
        if !cx.judged(id) {
            continue;
        }
        for (at, _, call) in f.calls() {
            let site = crate::ir::Site { function: id, at };
            let Some(trip) = origin_call(cx.program, site).and(call.effect.as_ref()) else { continue };
            for (i, effect) in trip.effects.iter().enumerate() {
                let EffectKind::Acquire(acquire) = &effect.kind else { continue };
                let origin = Origin { site, effect: i as u32 };
                if acquire.form == AcquireForm::SetIfAbsent && !known.contains(&origin) {
                    let function = function_name(cx, id);
                    out.push(Marker {
                        key: cx.show(id, &acquire.key),
                        backend: acquire.backend,
                        at: Place { span: effect.span, what: effect.command.clone(), function },
                        why: "its key is not known here, and no caller that is known gives one",
                    });
                }
            }
        }
    }
    out
}

/// `Type::method` or `function` of the item that holds it.
fn function_name(cx: &Context<'_>, id: FunctionId) -> String {
    let f = cx.program.function(cx.analyzer.item(id));
    match f.owner.as_deref().and_then(|owner| owner.rsplit("::").next()) {
        Some(owner) => format!("{owner}::{}", f.name),
        None => f.name.clone(),
    }
}

#[cfg(test)]
mod tests;
