//! What summaries say, in the terms of the function that calls, found once for each call and not for each path through it.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use super::explore::Explorer;
use super::summary::{Freed, Held, Origin, Status};
use crate::ir::{Call, FunctionId, OpRef, Site, Ttl, Var};
use crate::source::Span;

/// Effects noted, by the calls that lead to them: acquisition, its world, whether the path is proven, and its arm.
pub(super) type Observed = HashMap<(Origin, Vec<Site>), HashSet<(u16, Status, bool, Option<Span>)>>;

/// By the call and the callee's entry; that entry is kept so that its address stays its own.
#[derive(Default)]
pub(super) struct Lifted {
    held: HashMap<(OpRef, *const Held), (Rc<Held>, u16)>,
    freed: HashMap<(OpRef, *const Freed), (Rc<Freed>, Freed)>,
}

impl Explorer<'_, '_> {
    /// Index of the acquisition that a call of `target` makes.
    pub(super) fn lift_held(
        &mut self,
        (at, call): (OpRef, &Call),
        dst: Option<Var>,
        target: FunctionId,
        held: &Rc<Held>,
    ) -> u16 {
        let entry = (at, Rc::as_ptr(held));
        if let Some((_, lock)) = self.lifted.held.get(&entry) {
            return *lock;
        }
        let mut acquire = held.acquire.clone();
        acquire.key = self.a.rebase(&acquire.key, call, self.id, target);
        acquire.token = self.a.rebase(&acquire.token, call, self.id, target);
        if let Ttl::After(value, unit) = &acquire.ttl {
            acquire.ttl = self.a.ttl(self.a.rebase(value, call, self.id, target), *unit);
        }
        let via = self.through(at, &held.via);
        let lock = self.intern(Held { acquire, origin: held.origin, via, certainty: held.certainty, dst });
        self.lifted.held.insert(entry, (held.clone(), lock));
        lock
    }

    /// The release that a call of `target` makes.
    pub(super) fn lift_freed(&mut self, (at, call): (OpRef, &Call), target: FunctionId, freed: &Rc<Freed>) -> Freed {
        let entry = (at, Rc::as_ptr(freed));
        if let Some((_, known)) = self.lifted.freed.get(&entry) {
            return known.clone();
        }
        let mut release = freed.release.clone();
        release.key = self.a.rebase(&release.key, call, self.id, target);
        let via = self.through(at, &freed.via);
        let new = Freed { release, origin: freed.origin, via };
        self.lifted.freed.insert(entry, (freed.clone(), new.clone()));
        new
    }
}
