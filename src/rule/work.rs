//! The work that a function does under a lock, by the calls that do it: also where what they do is not understood.

use super::Context;
use crate::analysis::fate;
use crate::analysis::summary::{Held, Relation};
use crate::ir::{
    BlockId, Call, Callee, EffectKind, Function, FunctionId, LockKind, OpKind, OpRef, Operand, Rvalue, Use, Value,
};

/// A call that does work.
#[derive(Clone, Debug)]
pub struct Work {
    /// Where.
    pub at: OpRef,
    /// What is called.
    pub what: What,
    /// It is known to write or to reach out.
    pub known: bool,
}

/// What a call runs: two calls of the same thing are the same work.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// Functions of the workspace.
    Functions(Vec<FunctionId>),
    /// A closure, or a handler that is a parameter: the method, and whose it is.
    Given(String, Value),
}

impl Context<'_> {
    /// The calls of a block that do work under `held`, its own bookkeeping left out.
    pub fn work_in(&self, function: FunctionId, block: BlockId, held: &Held) -> Vec<Work> {
        let f = self.program.function(function);
        let mut out = Vec::new();
        for (index, op) in f.block(block).ops.iter().enumerate() {
            let OpKind::Call(call) = &op.kind else { continue };
            let at = OpRef { block, index: index as u32 };
            if let Some((what, known)) = self.work_of(f, function, call, op.dst, held) {
                out.push(Work { at, what, known });
            }
        }
        out
    }

    fn work_of(
        &self,
        f: &Function,
        function: FunctionId,
        call: &Call,
        dst: Option<crate::ir::Var>,
        held: &Held,
    ) -> Option<(What, bool)> {
        if call.effect.is_some() || fate::looks_only(call) {
            return None;
        }
        if !call.targets.is_empty() {
            let known = call.targets.iter().any(|t| self.acts(*t));
            let runs = call.targets.iter().all(|t| {
                let target = self.program.function(*t);
                !self.keeps_lock(*t, call, function, held) && (known || target.is_async && target.has_body())
            });
            return runs.then(|| (What::Functions(call.targets.clone()), known));
        }
        let given = |x: &Operand| matches!(self.program.value(function, x), Value::Param(_));
        match &call.callee {
            Callee::Value(x) if given(x) => Some((What::Given(String::new(), self.program.value(function, x)), true)),
            // `next.run(request)`, `service.call(request)`: what is wrapped here.
            Callee::Method(name) if matches!(name.as_str(), "run" | "call") => {
                let (receiver, rest) = call.args.split_first()?;
                let awaited = f.ops().any(
                    |(_, op)| matches!(&op.kind, OpKind::Let(Rvalue::Await(Operand::Var(v, _))) if Some(*v) == dst),
                );
                let moves = rest.iter().any(|x| matches!(x, Operand::Var(_, Use::Move)));
                (given(receiver) && awaited && moves)
                    .then(|| (What::Given(name.clone(), self.program.value(function, receiver)), true))
            }
            _ => None,
        }
    }

    /// Whether a function writes something or reaches out.
    fn acts(&self, id: FunctionId) -> bool {
        let acts = |kind: &EffectKind| matches!(kind, EffectKind::Write(_) | EffectKind::External(_));
        self.analyzer.reached(id).iter().any(|r| acts(&r.effect.kind))
    }

    /// Whether a call takes, keeps or gives back the lock itself.
    fn keeps_lock(&self, target: FunctionId, call: &Call, caller: FunctionId, held: &Held) -> bool {
        if held.via.iter().any(|site| site.function == target) {
            return true;
        }
        self.analyzer.reached(target).iter().any(|r| {
            let own = match &r.effect.kind {
                EffectKind::Acquire(a) => a.kind == held.acquire.kind,
                EffectKind::Release(r) => r.kind == held.acquire.kind || r.kind == LockKind::Lease,
                EffectKind::Renew(_) | EffectKind::Expire(_) => true,
                _ => false,
            };
            own && {
                let key = self.program.instantiate(crate::analysis::lock::key(&r.effect), call, caller);
                self.analyzer.relate(&self.analyzer.comparable(caller, &key), &held.acquire.key) != Relation::Other
            }
        })
    }
}
