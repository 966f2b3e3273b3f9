//! Probes: one function walked with the answer of one read given, to learn what that answer decides.

use std::collections::BTreeSet;

use super::Analyzer;
use super::explore::Explorer;
use super::state::{State, Val};
use super::summary::Origin;
use crate::ir::{EffectKind, Exit, FunctionId, Op, OpRef, Shape, Site};

/// Answers of a helper that are followed.
const MAX_ANSWERS: usize = 4;
/// Helpers between a read and the function that acts on it.
const MAX_HELPERS: usize = 4;

/// What is asked, and what was seen.
#[derive(Debug, Default)]
pub struct Probe {
    read: Option<(OpRef, Shape)>,
    write: Option<OpRef>,
    /// What the walk saw.
    pub seen: Seen,
}

/// What a walk saw behind the read whose answer was given.
#[derive(Debug, Default)]
pub struct Seen {
    /// The write is reached on a proven path.
    pub writes: bool,
    /// Exits reached without the write.
    pub spared: BTreeSet<OpRef>,
    /// What is returned without the write.
    pub without: BTreeSet<Shape>,
    /// What is returned after the write.
    pub with: BTreeSet<Shape>,
    /// Releases after the write, on exits that tell no error.
    pub released: BTreeSet<Origin>,
    /// Too many paths.
    pub cut: bool,
}

/// What a read says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Something is there, and someone else wrote it.
    Taken,
    /// There is nothing.
    Free,
}

impl Analyzer<'_> {
    /// Walks `function` with the call at `read` answering `shape`, and looks for the call at `write`. Without a read the
    /// walk counts from the beginning.
    pub fn probe(&self, function: FunctionId, read: Option<(OpRef, Shape)>, write: Option<OpRef>) -> Seen {
        // Another question to a function with too many paths would only cost as much again.
        if self.wide.borrow().contains(&function) {
            return Seen { cut: true, ..Seen::default() };
        }
        // What a probe meets under a given answer is no observation of the program.
        let kept = self.log.take();
        let mut explorer = Explorer::new(self, function);
        let mut start = State::default();
        start.probed.read = read.is_none();
        explorer.probe = Some(Probe { read, write, seen: Seen::default() });
        explorer.walk(start);
        let mut seen = explorer.probe.take().map(|probe| probe.seen).unwrap_or_default();
        seen.cut = explorer.incomplete;
        if seen.cut {
            self.wide.borrow_mut().insert(function);
        }
        self.log.replace(kept);
        seen
    }

    /// What the call at the head of `via` gives when the read at its end answers so: several shapes where a helper does
    /// not decide by the answer alone. Empty if the read's own answer is not understood.
    pub fn answers(&self, via: &[Site], answer: Answer) -> Vec<Shape> {
        let [site, inner @ ..] = via else { return Vec::new() };
        if inner.len() > MAX_HELPERS {
            return Vec::new();
        }
        let Some(next) = inner.first() else { return own_answer(self, *site, answer).into_iter().collect() };
        let mut out = BTreeSet::new();
        for shape in self.answers(inner, answer) {
            let seen = self.probe(next.function, Some((next.at, shape)), None);
            if seen.cut {
                return Vec::new();
            }
            out.extend(seen.without.into_iter().filter(|shape| !matches!(shape, Shape::Err(_))));
        }
        if out.len() > MAX_ANSWERS { Vec::new() } else { out.into_iter().collect() }
    }
}

fn own_answer(a: &Analyzer<'_>, site: Site, answer: Answer) -> Option<Shape> {
    let trip = super::origin_call(a.program, site)?.effect.as_ref()?;
    let reply = trip.reply.as_ref()?;
    let row_lock = trip.effects.iter().any(|e| matches!(e.kind, EffectKind::Acquire(_)));
    match answer {
        Answer::Free => Some(reply.lost.clone()),
        Answer::Taken if row_lock => Some(some_row(&reply.lost)),
        Answer::Taken => Some(reply.held.clone()),
    }
}

/// A locking SELECT that found a row, from what it gives where it finds none.
fn some_row(none: &Shape) -> Shape {
    match none {
        Shape::Ok(x) if **x == Shape::None => Shape::Unknown.some().ok(),
        Shape::Err(_) => Shape::Unknown.ok(),
        _ => Shape::Unknown,
    }
}

impl Explorer<'_, '_> {
    /// Gives the probe's answer in place of the call, if this is the call.
    pub(super) fn answer(&self, at: OpRef, op: &Op, state: &mut State) -> bool {
        let Some((place, shape)) = self.probe.as_ref().and_then(|p| p.read.as_ref()) else { return false };
        if *place != at {
            return false;
        }
        state.probed.read = true;
        if let Some(dst) = op.dst {
            self.assign(state, dst, Val::of(shape.clone()));
        }
        true
    }

    /// Marks the states behind the probe's write.
    pub(super) fn note_write(&mut self, at: OpRef, mut states: Vec<State>) -> Vec<State> {
        let Some(probe) = &mut self.probe else { return states };
        if probe.write == Some(at) {
            for state in states.iter_mut().filter(|state| state.probed.read) {
                state.probed.wrote = true;
                // What was given back before is another one's, or an older one.
                state.freed.clear();
                probe.seen.writes |= state.proven;
            }
        }
        states
    }

    /// Notes how the function is left.
    pub(super) fn note_exit(&mut self, at: OpRef, val: &Val, exit: Exit, state: &State) {
        let Some(probe) = &mut self.probe else { return };
        if !state.probed.read {
            return;
        }
        let ret = val.shape.clone();
        if !state.probed.wrote {
            probe.seen.spared.insert(at);
            probe.seen.without.insert(ret);
            return;
        }
        if exit == Exit::Return && !matches!(ret, Shape::Err(_)) {
            probe.seen.released.extend(state.freed.iter().map(|i| self.freed[*i as usize].origin));
        }
        probe.seen.with.insert(ret);
    }
}
