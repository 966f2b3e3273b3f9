//! The lock decision: which set-if-absent is a lock, which a claim, and which releases, renewals and expiries belong to it.
//!
//! A wire command in a helper that gets its key as a parameter is neutral: what its caller does decides. So everything
//! here is a [`Use`]: a command together with the calls that lead to it from the innermost function in which its key is
//! definite.

mod documents;
mod evidence;

use std::collections::{BTreeMap, BTreeSet};

pub use super::names::{key, lockish, show, show_resource, spelled, summary, vague, words};
use super::names::{lockish_key, named_renewal};
use super::owning::owning_types;
use super::summary::{Origin, Reached, Relation, Status};
use super::{Analyzer, key_of};
use crate::ir::{
    Acquire, AcquireForm, Backend, Effect, EffectKind, FunctionId, LockKind, OwnerCheck, Piece, Site, Ttl, Value,
};
use documents::{compares_revisions, named_lock, rewritten};
use evidence::Evidence;

/// Calls from the function where a key is definite down to the command, and the effect's index there.
pub type UseId = (Vec<Site>, u32);

/// A lock effect at the innermost function in which its key is definite.
#[derive(Clone, Debug)]
pub struct Use {
    /// Identity.
    pub id: UseId,
    /// Function; values are in its terms.
    pub function: FunctionId,
    /// The effect.
    pub effect: Effect,
    /// The key with fields made comparable across functions.
    pub key: Value,
}

impl Use {
    /// The op in [`Use::function`] where it happens.
    pub fn site(&self) -> Site {
        self.id.0[0]
    }

    /// The wire effect.
    pub fn origin(&self) -> Origin {
        Origin { site: self.id.0[self.id.0.len() - 1], effect: self.id.1 }
    }
}

/// What a set-if-absent is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Decision {
    /// A lock.
    Lock,
    /// Given back on failing exits only: an idempotency marker with undo.
    ClaimWithUndo,
    /// A marker: dedup, cooldown, seen.
    Claim,
}

impl Decision {
    /// Word for people.
    pub fn name(self) -> &'static str {
        match self {
            Decision::Lock => "lock",
            Decision::ClaimWithUndo => "claim with undo",
            Decision::Claim => "claim",
        }
    }
}

/// How a release is known to belong to a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Pairing {
    /// Same type or module, keys are whole parameters, and the names say lock.
    Module,
    /// Same key template in the same crate.
    Template,
    /// A path runs from the acquisition to the release.
    Path,
}

impl Pairing {
    /// Words for people.
    pub fn name(self) -> &'static str {
        match self {
            Pairing::Module => "beside it, same parameter",
            Pairing::Template => "same key",
            Pairing::Path => "on a path from it",
        }
    }
}

/// An acquisition and what is known of it.
#[derive(Clone, Debug)]
pub struct Lock {
    /// Where it is taken.
    pub taken: Use,
    /// Lock, claim or neither.
    pub decision: Decision,
    /// The row of the decision table that matched.
    pub why: &'static str,
    /// Releases that belong to it: index into [`Locks::releases`], how sure.
    pub releases: BTreeMap<usize, (Pairing, Relation)>,
    /// Renewals and expiries on its key: index into [`Locks::prolongs`].
    pub prolongs: BTreeMap<usize, Pairing>,
}

impl Lock {
    /// The acquire effect.
    pub fn acquire(&self) -> Option<&Acquire> {
        match &self.taken.effect.kind {
            EffectKind::Acquire(acquire) => Some(acquire),
            _ => None,
        }
    }
}

/// All locks and what belongs to them.
#[derive(Debug, Default)]
pub struct Locks {
    /// Acquisitions.
    pub locks: Vec<Lock>,
    /// Releases.
    pub releases: Vec<Use>,
    /// Renewals and expiries.
    pub prolongs: Vec<Use>,
    by_id: ByUse,
    release_by_id: ByUse,
}

/// Uses by the calls that lead to them: effects and indices.
type ByUse = BTreeMap<Vec<Site>, Vec<(u32, usize)>>;

/// The use that the innermost calls of `via` lead to. A closure counts for what it reaches where it is made, and is walked
/// where it is run: then only the two ends of the chain agree.
fn found(uses: &ByUse, via: &[Site], effect: u32) -> Option<usize> {
    let of = |list: &[(u32, usize)]| list.iter().find(|(e, _)| *e == effect).map(|(_, index)| *index);
    let exact = (0..via.len()).find_map(|i| of(uses.get(&via[i..])?));
    exact.or_else(|| {
        let last = via.last()?;
        via.iter().take(via.len() - 1).find_map(|start| {
            let own = uses.range(vec![*start]..).take_while(|(sites, _)| sites.first() == Some(start));
            own.filter(|(sites, _)| sites.last() == Some(last)).find_map(|(_, list)| of(list))
        })
    })
}

impl Locks {
    /// The lock that an acquisition seen by the path search is.
    pub fn of(&self, via: &[Site], effect: u32) -> Option<usize> {
        found(&self.by_id, via, effect)
    }

    /// The release use that a release seen by the path search is.
    pub fn release_of(&self, via: &[Site], effect: u32) -> Option<usize> {
        found(&self.release_by_id, via, effect)
    }

    /// Finds all uses, pairs them and decides.
    pub fn decide(a: &Analyzer<'_>, include_tests: bool) -> Locks {
        let mut locks = Locks::default();
        for used in uses(a, include_tests) {
            match &used.effect.kind {
                EffectKind::Acquire(_) => {
                    locks.by_id.entry(used.id.0.clone()).or_default().push((used.id.1, locks.locks.len()));
                    locks.locks.push(Lock {
                        taken: used,
                        decision: Decision::Claim,
                        why: "no release, renewal or owner check on its key",
                        releases: BTreeMap::new(),
                        prolongs: BTreeMap::new(),
                    });
                }
                EffectKind::Release(_) => {
                    locks.release_by_id.entry(used.id.0.clone()).or_default().push((used.id.1, locks.releases.len()));
                    locks.releases.push(used);
                }
                _ => locks.prolongs.push(used),
            }
        }
        locks.pair_by_path(a);
        locks.pair_by_key(a);
        let evidence = Evidence::of(a, &locks);
        for i in 0..locks.locks.len() {
            let (decision, why) = locks.judge(a, i, &evidence);
            locks.locks[i].decision = decision;
            locks.locks[i].why = why;
        }
        locks
    }

    fn pair_by_path(&mut self, a: &Analyzer<'_>) {
        for seen in &a.log.borrow().releases {
            let lock = self.of(&seen.lock.via, seen.lock.origin.effect);
            let release = self.release_of(&seen.freed.via, seen.freed.origin.effect);
            if let (Some(lock), Some(release)) = (lock, release)
                && matches!(seen.status, Status::Held | Status::Released)
            {
                let entry = self.locks[lock].releases.entry(release).or_insert((Pairing::Path, seen.relation));
                *entry = (*entry).max((Pairing::Path, seen.relation));
            }
        }
        let log = a.log.borrow();
        for seen in &log.observations {
            if !matches!(seen.effect.kind, EffectKind::Expire(_) | EffectKind::Renew(_))
                || seen.relation != Relation::Must
            {
                continue;
            }
            let Some(lock) = self.of(&seen.lock.via, seen.lock.origin.effect) else { continue };
            let prolong =
                self.prolongs.iter().position(|p| p.id.1 == seen.origin.effect && seen.via.ends_with(&p.id.0));
            if let Some(prolong) = prolong {
                self.locks[lock].prolongs.insert(prolong, Pairing::Path);
            }
        }
    }

    fn pair_by_key(&mut self, a: &Analyzer<'_>) {
        for lock in &mut self.locks {
            let Some(acquire) = lock.acquire().cloned() else { continue };
            for (i, release) in self.releases.iter().enumerate() {
                let EffectKind::Release(r) = &release.effect.kind else { continue };
                if r.backend == acquire.backend
                    && r.kind == acquire.kind
                    && let Some(how) = pairing(a, &lock.taken, release)
                {
                    lock.releases.entry(i).or_insert((how, Relation::Must));
                }
            }
            let mut prolongs = Vec::new();
            for (i, prolong) in self.prolongs.iter().enumerate() {
                if matches!(acquire.kind, LockKind::Lease | LockKind::LeaseRow)
                    && let Some(how) = pairing(a, &lock.taken, prolong).or_else(|| by_owner(a, lock, prolong))
                {
                    prolongs.push((i, how));
                }
            }
            for (i, how) in prolongs {
                lock.prolongs.entry(i).or_insert(how);
            }
        }
    }

    fn judge(&self, a: &Analyzer<'_>, index: usize, evidence: &Evidence) -> (Decision, &'static str) {
        let lock = &self.locks[index];
        let Some(acquire) = lock.acquire() else { return (Decision::Claim, "no acquisition") };
        if acquire.form == AcquireForm::LockApi || acquire.kind != LockKind::Lease {
            return (Decision::Lock, "lock API");
        }
        if compares_revisions(acquire) {
            if !named_lock(a, lock, acquire) {
                return (
                    Decision::Claim,
                    "a value that is created and replaced under conditions, and no name says lock",
                );
            }
            if !lock.prolongs.is_empty() {
                return (Decision::Lock, "renewed, and the names say lock");
            }
        }
        if acquire.ttl == Ttl::Never && !named_lock(a, lock, acquire) && rewritten(a, lock, acquire.backend) {
            return (Decision::Claim, "a document: created if absent, then replaced under the version that was read");
        }
        if evidence.carried.contains(&index) {
            return (Decision::Lock, "guard type");
        }
        if evidence.retried.contains(&index) {
            return (Decision::Lock, "taken in a wait loop");
        }
        let checked = lock.releases.iter().any(|(r, (_, relation))| match &self.releases[*r].effect.kind {
            _ if *relation != Relation::Must && acquire.backend == Backend::Redis => false,
            EffectKind::Release(r) => matches!(r.check, OwnerCheck::Token(_)),
            _ => false,
        }) || lock.prolongs.keys().any(|p| match &self.prolongs[*p].effect.kind {
            EffectKind::Renew(r) => matches!(r.check, OwnerCheck::Token(_)),
            _ => false,
        });
        if checked {
            return (Decision::Lock, "owner check on its key");
        }
        let renewed = lock.prolongs.iter().any(|(p, how)| {
            let other = &self.prolongs[*p];
            *how == Pairing::Module && other.function != lock.taken.function && named_renewal(a, other.function)
        });
        if renewed {
            return (Decision::Lock, "renewed beside it");
        }
        if evidence.prolonged_by_owner.contains(&index) {
            return (Decision::Lock, "prolonged by its owner");
        }
        let surely = lock.releases.values().any(|(how, relation)| {
            *how == Pairing::Path && (*relation == Relation::Must || acquire.backend != Backend::Redis)
        });
        if surely && evidence.released_well.contains(&index) {
            return (Decision::Lock, "released after success");
        }
        if evidence.released_failing.contains(&index) {
            return (Decision::ClaimWithUndo, "released on failing exits only");
        }
        let named = lock.releases.iter().any(|(r, (how, _))| {
            let other = &self.releases[*r];
            *how >= Pairing::Module
                && neighbours(a, lock.taken.function, other.function)
                && (lockish(a, other.function) || lockish(a, lock.taken.function) || lockish_key(&lock.taken.key))
        });
        if named {
            return (Decision::Lock, "release beside it, and the names say lock");
        }
        (Decision::Claim, "no release on a succeeding path, no renewal, no owner check")
    }
}

/// Whether a renewal is of the lease or session that the lock is bound to: there its id is the lock's owner.
fn by_owner(a: &Analyzer<'_>, lock: &Lock, renewal: &Use) -> Option<Pairing> {
    let acquire = lock.acquire().filter(|x| matches!(x.backend, Backend::Etcd | Backend::Consul))?;
    if !matches!(&renewal.effect.kind, EffectKind::Renew(r) if r.backend == acquire.backend) {
        return None;
    }
    let (taken, renewed) = (lock.taken.function, renewal.function);
    let owner = a.comparable(taken, &acquire.token);
    if owner == Value::Unknown || a.relate(&owner, &renewal.key) != Relation::Must || !same_crate(a, taken, renewed) {
        return None;
    }
    let (taken, renewed) = (a.item(taken), a.item(renewed));
    let alike = matches!((&owner, &renewal.key), (Value::Param(_), Value::Param(_)));
    match () {
        () if taken == renewed || matches!(owner, Value::TypeField(..)) => Some(Pairing::Template),
        () if alike && neighbours(a, taken, renewed) => Some(Pairing::Module),
        () => None,
    }
}

/// Whether two uses are of one key by the keys alone.
fn pairing(a: &Analyzer<'_>, x: &Use, y: &Use) -> Option<Pairing> {
    if !same_crate(a, x.function, y.function) {
        return None;
    }
    if stored(a, x, y) || stored(a, y, x) {
        return Some(Pairing::Template);
    }
    let strong = strong(&x.key) && strong(&y.key);
    let same = a.relate(&x.key, &y.key) == Relation::Must;
    // The holes of a row's key are of columns: another function's parameter may be of another one.
    let lease = matches!(&x.effect.kind, EffectKind::Acquire(acquire) if acquire.kind == LockKind::Lease);
    let abroad = || a.relate(&a.program.abroad(&x.key), &a.program.abroad(&y.key));
    if strong && (same || (lease && x.function != y.function && abroad() == Relation::Must)) {
        return Some(Pairing::Template);
    }
    if !same {
        return None;
    }
    if x.function == y.function {
        return Some(Pairing::Template);
    }
    let both_whole = matches!((&x.key, &y.key), (Value::Param(_), Value::Param(_)));
    (both_whole && neighbours(a, x.function, y.function)).then_some(Pairing::Module)
}

/// One key is a field of a type; the other is what a constructor stores there, in the function of the other use.
fn stored(a: &Analyzer<'_>, field: &Use, other: &Use) -> bool {
    let Value::TypeField(owner, name) = &field.key else { return false };
    let Some(raw) = key_of(&other.effect) else { return false };
    let (home, raw) = at_item(a, other.function, raw);
    a.program.field_values(owner, name).iter().any(|(function, value)| {
        let (function, value) = at_item(a, *function, value);
        (function == home && value == raw) || (strong(&value) && a.relate(&value, &other.key) == Relation::Must)
    })
}

/// A value of a closure in the terms of the item it stands in.
fn at_item(a: &Analyzer<'_>, id: FunctionId, value: &Value) -> (FunctionId, Value) {
    match a.program.outer(id, value) {
        Some((parent, outer)) => at_item(a, parent, &outer),
        None => (id, value.clone()),
    }
}

/// Whether the function also does the other half on the same key: takes and gives back, or takes and sets an expiry.
fn whole_story(a: &Analyzer<'_>, id: FunctionId, reached: &Reached) -> bool {
    let takes = |r: &Reached| matches!(r.effect.kind, EffectKind::Acquire(_));
    let Some(key) = key_of(&reached.effect) else { return false };
    if matches!(key, Value::Unknown | Value::Join(_)) {
        return false;
    }
    a.reached(id).iter().any(|other| {
        let halves = match &reached.effect.kind {
            EffectKind::Acquire(acquire) => match &other.effect.kind {
                EffectKind::Release(_) => true,
                // SETNX and EXPIRE in one helper are the whole of that defect.
                EffectKind::Expire(_) => acquire.ttl == Ttl::Never,
                _ => false,
            },
            _ => takes(other),
        };
        halves && key_of(&other.effect) == Some(key)
    })
}

fn same_crate(a: &Analyzer<'_>, x: FunctionId, y: FunctionId) -> bool {
    let krate = |id| a.program.function(id).module.split("::").next().unwrap_or("").to_string();
    krate(x) == krate(y)
}

/// Same function, same type, same module, or one's type is made by the other.
fn neighbours(a: &Analyzer<'_>, x: FunctionId, y: FunctionId) -> bool {
    let (x, y) = (a.item(x), a.item(y));
    let (f, g) = (a.program.function(x), a.program.function(y));
    x == y || (f.owner.is_some() && f.owner == g.owner) || f.module == g.module || f.file() == g.file()
}

/// Lock effects of all live functions at the innermost level with a definite key.
fn uses(a: &Analyzer<'_>, include_tests: bool) -> Vec<Use> {
    let mut definite: BTreeMap<UseId, Use> = BTreeMap::new();
    let own = owning_types(a, include_tests);
    for (id, f) in a.program.functions() {
        if (f.test && !include_tests) || !a.relevant(id) {
            continue;
        }
        for reached in a.reached(id).iter() {
            if let Some(used) = definite_use(a, id, reached, &own) {
                definite.insert(used.id.clone(), used);
            }
        }
    }
    let ids: BTreeSet<UseId> = definite.keys().cloned().collect();
    definite
        .into_values()
        .filter(|used| !(1..used.id.0.len()).any(|i| ids.contains(&(used.id.0[i..].to_vec(), used.id.1))))
        .collect()
}

fn definite_use(a: &Analyzer<'_>, id: FunctionId, reached: &Reached, own: &BTreeSet<String>) -> Option<Use> {
    if !matches!(
        reached.effect.kind,
        EffectKind::Acquire(_) | EffectKind::Release(_) | EffectKind::Renew(_) | EffectKind::Expire(_)
    ) {
        return None;
    }
    let key = a.comparable(id, key_of(&reached.effect)?);
    let api = match &reached.effect.kind {
        EffectKind::Acquire(x) => x.form == AcquireForm::LockApi || x.kind != LockKind::Lease,
        EffectKind::Release(x) => x.kind != LockKind::Lease,
        _ => false,
    };
    if reached.via.len() > MAX_NEUTRAL {
        return None;
    }
    let renews = matches!(reached.effect.kind, EffectKind::Expire(_) | EffectKind::Renew(_)) && named_renewal(a, id);
    let own = |owner: &String| own.contains(owner);
    let owns = matches!(key, Value::Param(_))
        && !matches!(reached.effect.kind, EffectKind::Expire(_))
        && a.program.function(id).owner.as_ref().is_some_and(own);
    let definite = api || owns || strong(&key) || lockish(a, id) || renews;
    if !(definite || a.guard_made(id).is_some() || whole_story(a, id, reached)) {
        return None;
    }
    Some(Use { id: (reached.via.clone(), reached.origin.effect), function: id, effect: reached.effect.clone(), key })
}

/// At least three constant letters, or a field of a workspace type: enough to say which key it is.
pub fn strong(key: &Value) -> bool {
    match key {
        Value::Const(crate::ir::Lit::Str(s)) => letters(s) >= 3,
        Value::Const(_) | Value::TypeField(..) | Value::Path(_) => true,
        Value::Template(pieces) => {
            pieces.iter().map(|p| if let Piece::Text(t) = p { letters(t) } else { 0 }).sum::<usize>() >= 3
                || pieces.iter().any(|p| matches!(p, Piece::Hole(v) if strong(v)))
        }
        Value::Join(list) => !list.is_empty() && list.iter().all(strong),
        Value::Call(call) => call.args.iter().any(strong),
        Value::Operation(_, list) => list.iter().any(strong),
        _ => false,
    }
}

fn letters(text: &str) -> usize {
    text.chars().filter(|c| c.is_alphanumeric()).count()
}

/// Neutral helpers between a command and the function that gives it its key.
const MAX_NEUTRAL: usize = 4;
