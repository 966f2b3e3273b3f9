//! Which implementation an object is of: on one path it is one and the same for all calls on it, in whatever function
//! they stand.

use std::collections::BTreeSet;

use super::explore::Explorer;
use super::state::State;
use super::summary::{Outcome, Summary};
use crate::ir::{Call, Callee, FunctionId, FunctionKind, Value};

/// The objects whose methods have several implementations, and the types that implement them, by index.
#[derive(Default)]
pub(super) struct Objects {
    values: Vec<Value>,
    types: Vec<String>,
}

/// What is assumed of an object: it is of one of these types.
pub type Kind = (Value, BTreeSet<String>);

fn index_of<T: PartialEq>(list: &mut Vec<T>, item: T) -> u16 {
    let at = list.iter().position(|x| *x == item).unwrap_or_else(|| {
        list.push(item);
        list.len() - 1
    });
    at as u16
}

impl Explorer<'_, '_> {
    /// The type that implements the trait method which a target is, or is a closure of.
    fn implements(&self, target: FunctionId) -> Option<&str> {
        let f = self.a.program.function(self.a.item(target));
        let tr = f.owner_trait.as_deref()?;
        f.owner.as_deref().filter(|owner| *owner != tr)
    }

    /// The ways a call of a trait's method can go, each with the implementations that are called then. What takes or gives
    /// back locks goes a way of its own for each type; types that do neither go one together.
    pub(super) fn by_implementation(
        &mut self,
        call: &Call,
        targets: &[FunctionId],
        state: State,
    ) -> Vec<(Vec<FunctionId>, State)> {
        let whole = |state| vec![(targets.to_vec(), state)];
        let Some(receiver) = call.args.first().filter(|_| matches!(call.callee, Callee::Method(_))) else {
            return whole(state);
        };
        if targets.len() < 2 || targets.iter().any(|t| self.implements(*t).is_none()) {
            return whole(state);
        }
        let value = self.a.comparable(self.id, &self.a.program.value(self.id, receiver));
        if matches!(value, Value::Unknown | Value::Join(_) | Value::Const(_)) {
            return whole(state);
        }
        let object = index_of(&mut self.objects.values, value);
        let typed: Vec<(FunctionId, u16)> = targets
            .iter()
            .filter_map(|t| Some((*t, self.implements(*t)?.to_string())))
            .collect::<Vec<_>>()
            .into_iter()
            .map(|(t, name)| (t, index_of(&mut self.objects.types, name)))
            .collect();
        let possible: Vec<(FunctionId, u16)> = match state.impls.get(&object) {
            Some(kinds) => typed.iter().copied().filter(|(_, kind)| kinds.contains(kind)).collect(),
            None => typed,
        };
        if possible.is_empty() {
            return whole(state);
        }
        let shows = |t: FunctionId| self.a.relevant(t) && self.a.worth(t);
        let (showing, idle): (Vec<_>, Vec<_>) = possible.into_iter().partition(|(t, _)| shows(*t));
        let mut ways: Vec<Vec<(FunctionId, u16)>> = Vec::new();
        for (target, kind) in showing {
            match ways.iter_mut().find(|way| way[0].1 == kind) {
                Some(way) => way.push((target, kind)),
                None => ways.push(vec![(target, kind)]),
            }
        }
        if ways.is_empty() {
            return vec![(idle.into_iter().map(|(t, _)| t).collect(), state)];
        }
        if !idle.is_empty() {
            ways.push(idle);
        }
        let mut out = Vec::new();
        for way in ways {
            let mut own = state.clone();
            own.impls.insert(object, way.iter().map(|(_, kind)| *kind).collect());
            out.push((way.into_iter().map(|(t, _)| t).collect(), own));
        }
        out
    }

    /// What a path assumes of objects that its caller knows too.
    pub(super) fn assumed_kinds(&self, state: &State) -> Vec<Kind> {
        let closure = self.f.kind == FunctionKind::Closure || self.f.parent.is_some();
        let shared = |value: &Value| match value {
            Value::TypeField(..) => true,
            Value::Param(_) => !closure,
            _ => false,
        };
        let objects = state.impls.iter().map(|(object, kinds)| (&self.objects.values[*object as usize], kinds));
        objects
            .filter(|(value, _)| shared(value))
            .map(|(value, kinds)| {
                (value.clone(), kinds.iter().map(|kind| self.objects.types[*kind as usize].clone()).collect())
            })
            .collect()
    }

    /// The ways of a callee that this path can go, with what it knows then.
    pub(super) fn agreeing<'s>(
        &mut self,
        summary: &'s Summary,
        call: &Call,
        target: FunctionId,
        state: &State,
    ) -> Vec<(&'s Outcome, State)> {
        let mut out = Vec::new();
        for outcome in &summary.outcomes {
            let mut own = state.clone();
            if self.agree(outcome, call, target, &mut own) {
                out.push((outcome, own));
            }
        }
        if out.is_empty() { summary.outcomes.iter().map(|o| (o, state.clone())).collect() } else { out }
    }

    /// Goes on with what a callee's way assumes; `false` where this path has assumed something else.
    fn agree(&mut self, outcome: &Outcome, call: &Call, target: FunctionId, state: &mut State) -> bool {
        for (value, names) in &outcome.kinds {
            let value = match value {
                field @ Value::TypeField(..) => field.clone(),
                other => self.a.comparable(self.id, &self.a.rebase(other, call, self.id, target)),
            };
            if matches!(value, Value::Unknown | Value::Join(_) | Value::Const(_)) {
                continue;
            }
            let object = index_of(&mut self.objects.values, value);
            let mut kinds: BTreeSet<u16> =
                names.iter().map(|name| index_of(&mut self.objects.types, name.clone())).collect();
            if let Some(known) = state.impls.get(&object) {
                kinds.retain(|kind| known.contains(kind));
            }
            if kinds.is_empty() {
                return false;
            }
            state.impls.insert(object, kinds);
        }
        true
    }

    /// The next round of a loop may be about another object, unless it is a field or parameter.
    pub(super) fn other_objects(&self, state: &mut State) {
        let values = &self.objects.values;
        state.impls.retain(|object, _| matches!(values[*object as usize], Value::TypeField(..) | Value::Param(_)));
    }
}
