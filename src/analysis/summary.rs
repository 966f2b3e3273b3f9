//! What a function does for its callers: its [`Outcome`]s, each with the lock transitions that go with it, and the
//! effects it reaches.

use std::rc::Rc;

use crate::ir::{Acquire, Certainty, Effect, Exit, FunctionId, Release, Shape, Site, Var};

/// Identity of one wire effect in the program: the op and the index of the effect in its round trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Origin {
    /// The op that sends it.
    pub site: Site,
    /// Index in [`crate::ir::RoundTrip::effects`].
    pub effect: u32,
}

/// World of an acquisition at one point of one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Status {
    /// Granted and still ours as far as this path knows.
    Held,
    /// Someone else has it.
    Lost,
    /// Error or timeout: unknown, may have been granted.
    Failed,
    /// Given back on this path.
    Released,
    /// Handed to code, a task or a place that the analysis does not follow.
    Escaped,
}

/// One acquisition, in the terms of the function that looks at it.
#[derive(Clone, Debug, PartialEq)]
pub struct Held {
    /// What is acquired; values in the terms of the looking function.
    pub acquire: Acquire,
    /// The wire effect.
    pub origin: Origin,
    /// Calls that lead there, outermost first; the last is the op that sends the command.
    pub via: Vec<Site>,
    /// How surely the command was recognised.
    pub certainty: Certainty,
    /// Variable of the looking function that receives the outcome.
    pub dst: Option<Var>,
}

/// A value stands for a held lock (guard, lock object): what becomes of the lock when the value is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Carry {
    /// Dropping it releases.
    Releases,
    /// Dropping it does nothing: a handle with an explicit release.
    Nothing,
}

/// One release that met no acquisition of the function itself, in its terms.
#[derive(Clone, Debug, PartialEq)]
pub struct Freed {
    /// What is released.
    pub release: Release,
    /// The wire effect.
    pub origin: Origin,
    /// Calls that lead there.
    pub via: Vec<Site>,
}

/// One way a function ends.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Shape of the returned value.
    pub ret: Shape,
    /// How it is left.
    pub exit: Exit,
    /// Acquisitions made and still Held, Lost, Failed or Escaped at the end, and whether the returned value carries them.
    pub acquired: Vec<(Rc<Held>, Status, Option<Carry>)>,
    /// Releases of locks that the caller may hold.
    pub freed: Vec<Rc<Freed>>,
    /// No test on the way was left open by a reply that could not be evaluated.
    pub proven: bool,
    /// The op that leaves.
    pub at: Option<crate::ir::OpRef>,
    /// What it assumes of the types of objects.
    pub kinds: Vec<super::impls::Kind>,
    /// Where a failed or lost acquisition, or one that could not be tried, was turned into an answer.
    pub arm: Option<crate::source::Span>,
}

impl Outcome {
    /// Whether one path can go both ways, as far as the types of objects are concerned.
    pub fn compatible(&self, other: &Outcome) -> bool {
        self.kinds.iter().all(|(object, types)| {
            let same = other.kinds.iter().find(|(value, _)| value == object);
            same.is_none_or(|(_, others)| !types.is_disjoint(others))
        })
    }

    /// Holds for what another path assumes too.
    pub fn widen(&mut self, kinds: &[super::impls::Kind]) {
        self.kinds.retain_mut(|(object, types)| {
            let other = kinds.iter().find(|(value, _)| value == object);
            types.extend(other.into_iter().flat_map(|(_, types)| types.iter().cloned()));
            other.is_some()
        });
    }
}

/// A non-lock effect that a function reaches, in its terms.
#[derive(Clone, Debug, PartialEq)]
pub struct Reached {
    /// The effect with values in the function's terms.
    pub effect: Effect,
    /// The wire effect.
    pub origin: Origin,
    /// Calls that lead there.
    pub via: Vec<Site>,
}

/// What a function does for its callers.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Its ways to end, at most [`MAX_OUTCOMES`].
    pub outcomes: Vec<Outcome>,
    /// Some ways are missing: recursion, or too many.
    pub incomplete: bool,
}

impl Summary {
    /// Of a function that shows its callers nothing of locks.
    pub fn idle() -> Summary {
        let outcome = Outcome {
            ret: Shape::Unknown,
            exit: Exit::Return,
            acquired: Vec::new(),
            freed: Vec::new(),
            proven: true,
            at: None,
            kinds: Vec::new(),
            arm: None,
        };
        Summary { outcomes: vec![outcome], incomplete: false }
    }
}

/// Bound of outcomes per summary.
pub const MAX_OUTCOMES: usize = 32;

/// Bound of states per exploration.
pub const MAX_STATES: usize = 4000;

/// What a summary depends on: the function and what is known of its parameters and captures.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// The function.
    pub function: FunctionId,
    /// Shapes of its parameters, then of its captures.
    pub known: Vec<Shape>,
}

/// An effect seen while acquisitions were in some world.
#[derive(Clone, Debug)]
pub struct Observation {
    /// Function whose exploration saw it; all values are in its terms.
    pub function: FunctionId,
    /// The effect.
    pub effect: Effect,
    /// The wire effect's identity.
    pub origin: Origin,
    /// Calls from `function` down to it; the first is the op of `function`.
    pub via: Vec<Site>,
    /// The acquisition and its world at that point.
    pub lock: Rc<Held>,
    /// World.
    pub status: Status,
    /// On a proven path.
    pub proven: bool,
    /// The arm that let control come here after the acquisition failed or was lost.
    pub arm: Option<crate::source::Span>,
    /// Keys agree: surely / possibly / unrelated (for releases and expiries).
    pub relation: Relation,
}

/// The blocks that one exploration of a function passed with an acquisition won or lost.
#[derive(Clone, Debug)]
pub struct Passed {
    /// Function explored.
    pub function: FunctionId,
    /// The acquisition.
    pub lock: Rc<Held>,
    /// Blocks entered after it was granted, and closures run then; each with the function it belongs to.
    pub won: std::collections::BTreeSet<(FunctionId, crate::ir::BlockId)>,
    /// The same after someone else had it.
    pub lost: std::collections::BTreeSet<(FunctionId, crate::ir::BlockId)>,
}

/// A block that an exploration entered with an acquisition in some world.
#[derive(Clone, Debug)]
pub struct Went {
    /// Function explored.
    pub function: FunctionId,
    /// The acquisition.
    pub lock: Rc<Held>,
    /// Its world.
    pub status: Status,
    /// The block.
    pub block: crate::ir::BlockId,
    /// The arm that let control come here after the acquisition failed or was lost.
    pub arm: Option<crate::source::Span>,
    /// Another acquisition is held here.
    pub other: bool,
    /// Proven path.
    pub proven: bool,
}

/// How an effect's key relates to the key of an acquisition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Relation {
    /// Another key, or none.
    Other,
    /// May be the same.
    May,
    /// Is the same.
    Must,
}

/// A function exit seen with an acquisition in some world.
#[derive(Clone, Debug)]
pub struct Leaving {
    /// Function explored.
    pub function: FunctionId,
    /// The op that leaves.
    pub at: Option<crate::ir::OpRef>,
    /// How.
    pub exit: Exit,
    /// What is returned.
    pub ret: Shape,
    /// The acquisition.
    pub lock: Rc<Held>,
    /// Its world at the exit.
    pub status: Status,
    /// The returned value stands for it.
    pub carried: bool,
    /// What dropping the returned value does for it.
    pub carry: Option<Carry>,
    /// Proven path.
    pub proven: bool,
}
