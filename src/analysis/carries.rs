//! Objects of the workspace that stand for a held lock, and what dropping them does for it.

use super::Analyzer;
use super::summary::Carry;
use crate::ir::{FunctionId, HandleKind, LockKind, OpKind, OwnerCheck, Piece, Rvalue, Ty, Value, Var};
use crate::model::Models;
use crate::protocol;

impl Analyzer<'_> {
    /// What dropping a value of a workspace struct does for the lock it stands for; `None` if it stands for none.
    pub fn carry_of(&self, path: &str) -> Option<Carry> {
        if let Some(known) = self.carries.borrow().get(path) {
            return *known;
        }
        self.carries.borrow_mut().insert(path.to_string(), None);
        let drops = self.program.drop_of(path).is_some_and(|d| !self.releases(d).is_empty());
        let carry = if drops {
            Some(Carry::Releases)
        } else {
            let own = self.program.functions().filter(|(_, f)| f.owner.as_deref() == Some(path));
            let releases = |id: FunctionId| {
                let own = |v: &Var| self.program.function(id).var(*v).name.as_deref() == Some("self");
                let method = self.program.function(id).params.first().is_some_and(own);
                let mine = |v: &Value| matches!(self.comparable(id, v), Value::TypeField(owner, _) if owner == path);
                self.releases(id).iter().any(|freed| {
                    let key = &freed.release.key;
                    let mut by_self = false;
                    let session = method && freed.release.kind == LockKind::Session;
                    mine(key)
                        // The object knows the owner's token, if not the key.
                        || matches!(&freed.release.check, OwnerCheck::Token(token) if mine(token))
                        || session && held_in(key, &mut by_self) && by_self
                        || session && !asks_caller(key) && self.keeps_connection(path)
                })
            };
            own.into_iter().any(|(id, _)| releases(id)).then_some(Carry::Nothing)
        };
        self.carries.borrow_mut().insert(path.to_string(), carry);
        carry
    }

    /// Whether a field of the type is a connection checked out of a pool.
    fn keeps_connection(&self, path: &str) -> bool {
        fn pinned(ty: &Ty) -> bool {
            let roles = Models::builtin().type_roles(&ty.path);
            roles.iter().any(|(_, role)| protocol::handle_kind(*role) == HandleKind::Pinned)
                || ty.args.iter().any(pinned)
        }
        self.program.type_def(path).is_some_and(|def| def.fields.iter().any(|(_, ty)| pinned(ty)))
    }

    /// What dropping does for the lock object that the function builds, if it builds one.
    pub(crate) fn guard_made(&self, id: FunctionId) -> Option<Carry> {
        self.program.function(id).ops().find_map(|(_, op)| match &op.kind {
            OpKind::Let(Rvalue::Struct(path, ..)) => self.carry_of(path),
            OpKind::Let(Rvalue::Closure(inner, _)) => self.guard_made(*inner),
            _ => None,
        })
    }

    /// Whether values of a workspace struct stand for a lock: dropping one, or one of its methods, gives the lock back.
    pub fn stands_for_lock(&self, path: &str) -> bool {
        self.carry_of(path).is_some()
    }

    /// Whether a value of the type can hold a lock object of the workspace (itself, or in `Option`, `Result`, a field).
    pub(super) fn holds_guard(&self, ty: &Ty) -> bool {
        self.holds(ty, 0)
    }

    /// Whether the type, or one that it wraps, has a `Drop` that gives a lock back.
    pub fn frees_by_drop(&self, ty: &Ty) -> bool {
        self.carry_of(&ty.path) == Some(Carry::Releases) || ty.args.iter().any(|arg| self.frees_by_drop(arg))
    }

    fn holds(&self, ty: &Ty, depth: u32) -> bool {
        depth < 4
            && (self.carry_of(&ty.path).is_some()
                || ty.args.iter().any(|arg| self.holds(arg, depth + 1))
                || self
                    .program
                    .type_def(&ty.path)
                    .is_some_and(|d| d.fields.iter().any(|(_, t)| self.holds(t, depth + 1))))
    }
}

/// Whether a key is made of nothing but fields of `self` and constants: the object knows which lock it is.
fn held_in(key: &Value, own: &mut bool) -> bool {
    match key {
        Value::Field(base, _) if matches!(**base, Value::Param(0)) => {
            *own = true;
            true
        }
        Value::Const(_) | Value::Path(_) => true,
        Value::Field(base, _) => held_in(base, own),
        Value::Call(call) => !call.args.is_empty() && call.args.iter().all(|v| held_in(v, own)),
        Value::Template(pieces) => pieces.iter().all(|p| !matches!(p, Piece::Hole(v) if !held_in(v, own))),
        Value::Aggregate(_, fields) => fields.iter().all(|(_, v)| held_in(v, own)),
        Value::Operation(_, list) => list.iter().all(|v| held_in(v, own)),
        _ => false,
    }
}

/// Whether a key depends on what a caller passes beside `self`.
fn asks_caller(key: &Value) -> bool {
    match key {
        Value::Param(i) => *i > 0,
        Value::Field(base, _) => asks_caller(base),
        Value::Call(call) => call.args.iter().any(asks_caller),
        Value::Template(pieces) => pieces.iter().any(|p| matches!(p, Piece::Hole(v) if asks_caller(v))),
        Value::Aggregate(_, fields) => fields.iter().any(|(_, v)| asks_caller(v)),
        Value::Operation(_, list) | Value::Join(list) => list.iter().any(asks_caller),
        _ => false,
    }
}
