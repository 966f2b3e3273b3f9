//! Variables that go out of scope: guards give their lock back, here or by the type's own `Drop`.

use super::explore::Explorer;
use super::state::State;
use super::summary::{Carry, Freed, Status};
use crate::ir::{Call, Callee, OpRef, Operand, Use, Var};

impl Explorer<'_, '_> {
    /// `var` goes out of scope.
    pub(super) fn drop_var(&mut self, at: OpRef, var: Var, state: &mut State) {
        let val = state.take(var);
        if val.carries.is_empty() {
            return;
        }
        if self.f.var(var).name.is_none() {
            for (lock, _) in val
                .carries
                .iter()
                .filter(|(lock, carry)| *carry == Carry::Releases && state.locks.get(lock) == Some(&Status::Held))
            {
                self.a.log.borrow_mut().dropped.push(super::Dropped {
                    function: self.id,
                    at,
                    var,
                    lock: self.held[*lock as usize].clone(),
                    proven: state.proven,
                });
            }
        }
        self.release_by_drop(at, var, state);
        for (lock, carry) in &val.carries {
            match carry {
                Carry::Releases => state.settle(&[(*lock, *carry)], Status::Released),
                // A handle without Drop: the lock stays held, and nobody can give it back any more.
                Carry::Nothing => {}
            }
        }
    }

    /// Runs the releases of the type's `Drop`, so that they are seen against the acquisition.
    fn release_by_drop(&mut self, at: OpRef, var: Var, state: &mut State) {
        let ty = self.a.program.receiver(self.id, &Operand::Var(var, Use::Ref));
        let path = if matches!(ty.last(), "Option" | "Result") { ty.arg(0).path } else { ty.path };
        let Some(drop) = self.a.program.drop_of(&path) else { return };
        let call = Call {
            callee: Callee::Method("drop".into()),
            args: vec![Operand::Var(var, Use::RefMut)],
            generics: Vec::new(),
            whole: self.f.op(at).span,
            cancel: None,
            targets: vec![drop],
            effect: None,
        };
        for freed in self.a.releases(drop) {
            let mut release = freed.release.clone();
            release.key = self.a.rebase(&release.key, &call, self.id, drop);
            let via = std::iter::once(self.site(at)).chain(freed.via.iter().copied()).collect();
            self.release(Freed { release, origin: freed.origin, via }, state);
        }
    }
}
