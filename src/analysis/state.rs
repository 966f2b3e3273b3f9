//! One point of one path: what is known of variables, and in which world each acquisition is.

use std::collections::{BTreeMap, BTreeSet};

use super::shapes::{blur, informative};
use super::summary::{Carry, Status};
use crate::ir::{Shape, Var};
use crate::source::Span;

/// What is known of a variable.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Val {
    /// Its shape.
    pub shape: Shape,
    /// It stems from the reply of a lock operation: what is not evaluated of it spoils a proof.
    pub reply: bool,
    /// Acquisitions it stands for (guards, lock objects).
    pub carries: Vec<(u16, Carry)>,
}

impl Val {
    /// A value of which only the shape is known.
    pub fn of(shape: Shape) -> Val {
        Val { shape, reply: false, carries: Vec::new() }
    }

    /// Nothing is known.
    pub fn unknown() -> Val {
        Val::of(Shape::Unknown)
    }

    /// Nothing worth remembering.
    pub fn is_blank(&self) -> bool {
        // A struct whose fields are unknown still says its type: it may be the guard of a lock.
        !self.reply && self.carries.is_empty() && !informative(&self.shape) && !matches!(self.shape, Shape::Struct(..))
    }

    /// The same origin and burden with another shape.
    pub fn with(&self, shape: Shape) -> Val {
        Val { shape, reply: self.reply, carries: self.carries.clone() }
    }

    /// What is left when a value goes through something that is not evaluated.
    pub fn blurred(&self) -> Val {
        let shape = if self.reply { Shape::Tainted } else { blur(&self.shape) };
        Val { shape, reply: self.reply, carries: self.carries.clone() }
    }

    /// Whether a test on it that cannot be decided leaves the path unproven.
    pub fn spoils(&self) -> bool {
        self.reply || matches!(self.shape, Shape::Tainted)
    }
}

/// What of a probe's ops a path has passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Progress {
    /// The read whose answer is given.
    pub read: bool,
    /// The write that is looked for, after the read.
    pub wrote: bool,
}

/// One point of one path.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct State {
    env: BTreeMap<Var, Val>,
    /// World of each acquisition (index into the explorer's table).
    pub locks: BTreeMap<u16, Status>,
    /// Acquisitions of an earlier round of a loop that this one has not tried again: lost, failed, or not given back.
    pub stale: BTreeSet<u16>,
    /// Releases of what the caller may hold (index into the explorer's table).
    pub freed: BTreeSet<u16>,
    /// Decided correlated conditions.
    pub assumed: BTreeMap<u32, bool>,
    /// The arm that let control go on after an acquisition failed or was lost, if one did; before any acquisition, the
    /// arm that found nothing to acquire with (an error, `None`).
    pub arm: Option<Span>,
    /// The types that an object can be of on this path (see [`super::impls`]).
    pub impls: BTreeMap<u16, BTreeSet<u16>>,
    /// How far a probe has come (see [`super::probe`]).
    pub probed: Progress,
    /// Every test so far was decided or did not depend on a lock's reply.
    pub proven: bool,
}

impl Default for State {
    fn default() -> Self {
        State {
            env: BTreeMap::new(),
            locks: BTreeMap::new(),
            stale: BTreeSet::new(),
            freed: BTreeSet::new(),
            assumed: BTreeMap::new(),
            arm: None,
            impls: BTreeMap::new(),
            probed: Progress::default(),
            proven: true,
        }
    }
}

impl State {
    /// What is known of `var`.
    pub fn get(&self, var: Var) -> Val {
        self.env.get(&var).cloned().unwrap_or_else(Val::unknown)
    }

    /// Remembers `val`, or forgets the variable if there is nothing to remember.
    pub fn set(&mut self, var: Var, val: Val) {
        if val.is_blank() {
            self.env.remove(&var);
        } else {
            self.env.insert(var, val);
        }
    }

    /// Takes the value away (moved or dropped).
    pub fn take(&mut self, var: Var) -> Val {
        self.env.remove(&var).unwrap_or_else(Val::unknown)
    }

    /// The burden of a variable goes elsewhere; its shape stays readable (a moved `bool` or `Option<String>` is a copy).
    pub fn unburden(&mut self, var: Var) {
        if let Some(val) = self.env.get_mut(&var) {
            val.carries.clear();
            if val.is_blank() {
                self.env.remove(&var);
            }
        }
    }

    /// Forgets what is not live.
    pub fn keep(&mut self, live: &BTreeSet<Var>) {
        self.env.retain(|var, val| live.contains(var) || !val.carries.is_empty());
    }

    /// Whether a variable of `live` stems from the reply of a lock operation or stands for a lock.
    pub fn remembers(&self, live: &BTreeSet<Var>) -> bool {
        self.env.iter().any(|(var, val)| !val.carries.is_empty() || live.contains(var) && val.reply)
    }

    /// Sets the world of every acquisition in `list` that is held.
    pub fn settle(&mut self, list: &[(u16, Carry)], to: Status) {
        for (lock, _) in list {
            if let Some(status) = self.locks.get_mut(lock)
                && *status == Status::Held
            {
                *status = to;
            }
        }
    }
}
