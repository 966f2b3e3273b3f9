//! The burden of held locks on its way through calls: into what a constructor builds, into a callee, into its result.

use super::explore::Explorer;
use super::state::State;
use super::summary::{Carry, Reached, Status};
use crate::ir::{EffectKind, FunctionId, Operand, Shape, Use, Var};

impl Explorer<'_, '_> {
    /// A lock object that a constructor builds while locks are held stands for them.
    pub(super) fn constructed(&self, target: FunctionId, dst: Option<Var>, state: &mut State) {
        let takes = |r: &Reached| matches!(r.effect.kind, EffectKind::Acquire(_));
        if !state.locks.values().any(|s| *s == Status::Held) {
            return;
        }
        if let Some(dst) = dst
            && let Some(carry) = self.a.guard_made(target)
            && !self.a.reached(target).iter().any(takes)
        {
            let mut val = state.get(dst);
            self.burden(state, &mut val, carry);
            state.set(dst, val);
        }
    }

    /// Burden that goes into a callee by value.
    pub(super) fn hand_over(
        &self,
        callee: &crate::ir::Function,
        args: &[Operand],
        state: &mut State,
    ) -> Vec<(u16, Carry)> {
        let mut moved = Vec::new();
        for (i, arg) in args.iter().enumerate() {
            let Operand::Var(var, mode) = arg else { continue };
            let by_value = callee.params.get(i).is_none_or(|p| !callee.var(*p).by_ref);
            let is_self =
                i == 0 && callee.params.first().is_some_and(|p| callee.var(*p).name.as_deref() == Some("self"));
            if (*mode == Use::Move || is_self) && by_value {
                moved.extend(state.get(*var).carries);
                state.unburden(*var);
            }
        }
        moved
    }

    /// Where burden is after a callee took it: in its result if that is a lock object, else dropped there.
    pub(super) fn arrive(
        &self,
        callee: &crate::ir::Function,
        moved: &[(u16, Carry)],
        dst: Option<Var>,
        state: &mut State,
    ) {
        if moved.is_empty() {
            return;
        }
        if self.a.holds_guard(&callee.ret)
            && let Some(dst) = dst
            && let mut val = state.get(dst)
            && !matches!(val.shape, Shape::Err(_))
        {
            val.carries.extend(moved.iter().copied());
            state.set(dst, val);
            return;
        }
        for (lock, carry) in moved {
            let to = if *carry == Carry::Releases { Status::Released } else { Status::Escaped };
            state.settle(&[(*lock, *carry)], to);
        }
    }
}
