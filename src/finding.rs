//! Findings and their witnesses.

use crate::source::Span;

/// How bad a finding is. Ordered: `Note < Warning < Error`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// Advice.
    Note,
    /// The lock keeps its protocol but is trusted beyond it, or two unlucky events are needed.
    Warning,
    /// The protocol itself is broken: one ordinary event breaks it.
    Error,
}

/// How sure the tool is. Ordered: `Low < Medium < High`. `Low` is shown only on request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Confidence {
    Low,
    Medium,
    High,
}

/// Who acts in a witness step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Actor {
    /// The stalled or crashed holder.
    A,
    /// The successor.
    B,
    /// The store: Redis, the database, the pooler.
    Store,
}

impl Actor {
    /// Name in reports: `A`, `B`, `store`.
    pub fn name(self) -> &'static str {
        match self {
            Actor::A => "A",
            Actor::B => "B",
            Actor::Store => "store",
        }
    }
}

/// One step from cause to fault.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Step {
    /// Who.
    pub actor: Actor,
    /// Where in the sources.
    pub span: Span,
    /// What happens, e.g. `acquires lock:{id} for 30 s`.
    pub note: String,
}

/// The ordered steps that end in the fault.
pub type Witness = Vec<Step>;

/// A secondary place with its note.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Label {
    /// Where.
    pub span: Span,
    /// Short note.
    pub note: String,
}

/// One text replacement of a fix.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edit {
    /// Replaced range.
    pub span: Span,
    /// New text.
    pub text: String,
}

/// A certain, complete repair.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fix {
    /// What it does.
    pub title: String,
    /// Non-overlapping edits.
    pub edits: Vec<Edit>,
}

/// One reported defect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Rule id.
    pub rule: &'static str,
    /// The rule's severity or lower.
    pub severity: Severity,
    /// Confidence.
    pub confidence: Confidence,
    /// The call to change.
    pub span: Span,
    /// Note under the caret.
    pub caret: String,
    /// One sentence, lowercase, no final stop: what and why.
    pub message: String,
    /// Other places.
    pub labels: Vec<Label>,
    /// What to do next, with the very call to write.
    pub help: String,
    /// The interleaving.
    pub witness: Witness,
    /// A certain repair, if there is one.
    pub fix: Option<Fix>,
    /// Key template of the lock concerned, for `[[lock]]` declarations and the inventory.
    pub lock: Option<String>,
}

impl Finding {
    /// Every place of the finding: the call to change, its labels, the steps of the witness.
    pub fn spans(&self) -> impl Iterator<Item = Span> {
        let labels = self.labels.iter().map(|label| label.span);
        std::iter::once(self.span).chain(labels).chain(self.witness.iter().map(|step| step.span))
    }

    /// The same places, and those of its fix.
    pub fn spans_mut(&mut self) -> impl Iterator<Item = &mut Span> {
        let edits = self.fix.iter_mut().flat_map(|fix| &mut fix.edits).map(|edit| &mut edit.span);
        let labels = self.labels.iter_mut().map(|label| &mut label.span);
        let steps = self.witness.iter_mut().map(|step| &mut step.span);
        std::iter::once(&mut self.span).chain(labels).chain(steps).chain(edits)
    }
}
