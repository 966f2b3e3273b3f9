//! Questions about tasks that a function starts and leaves to themselves.

use std::collections::BTreeSet;

use super::Context;
use crate::analysis::fate;
use crate::analysis::summary::Reached;
use crate::analysis::{flow_reads, origin_call};
use crate::ir::{
    BlockId, Call, Callee, EdgeKind, EffectKind, Exit, Function, FunctionId, OpKind, OpRef, Operand, Rvalue, Site, Ty,
    Value, Var,
};

/// A task that a function starts.
#[derive(Clone, Copy, Debug)]
pub struct Task {
    /// The call that starts it.
    pub spawn: Site,
    /// The op of the same function that makes its body: a closure, an async block, a call of an `async fn`.
    pub body: OpRef,
    /// Variable that receives its handle.
    pub handle: Option<Var>,
}

/// What a function does with the handle of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// Nothing: the task lives as long as it likes.
    Detached,
    /// It aborts the task, at least on some paths, and does nothing else with it.
    Aborted,
    /// Awaits it, stores it, hands it on.
    Followed,
}

impl Context<'_> {
    /// The tasks that a function starts by itself; members of a `JoinSet` end with it and are none.
    pub fn tasks(&self, id: FunctionId) -> Vec<Task> {
        let f = self.program.function(id);
        let mut out = Vec::new();
        for (at, op, call) in f.calls() {
            let spawns =
                call.effect.as_ref().is_some_and(|t| t.effects.iter().any(|e| matches!(e.kind, EffectKind::Spawn(_))));
            if !spawns || self.in_a_set(id, call) {
                continue;
            }
            if let Some(body) = call.args.iter().find_map(|x| self.body(id, &self.program.value(id, x), 0)) {
                out.push(Task { spawn: Site { function: id, at }, body, handle: op.dst });
            }
        }
        out
    }

    fn in_a_set(&self, id: FunctionId, call: &Call) -> bool {
        let Callee::Method(_) = &call.callee else { return false };
        let receiver = call.args.first().map(|x| self.program.receiver(id, x)).unwrap_or_default();
        matches!(receiver.last(), "JoinSet" | "TaskTracker" | "LocalSet" | "Scope")
    }

    /// The op that makes the future or closure which a value is.
    fn body(&self, id: FunctionId, value: &Value, depth: u32) -> Option<OpRef> {
        let f = self.program.function(id);
        match value {
            Value::Closure(inner) => f
                .ops()
                .find(|(_, op)| matches!(&op.kind, OpKind::Let(Rvalue::Closure(x, _)) if x == inner))
                .map(|x| x.0),
            Value::Call(made) => {
                let own = f.calls().find(|(_, op, call)| Some(op.span) == made.at.0 && !call.targets.is_empty());
                match own {
                    Some((at, ..)) => Some(at),
                    // Adapters around the future: `.instrument(..)`, `Box::pin(..)`.
                    None if depth < 3 => made.args.first().and_then(|x| self.body(id, x, depth + 1)),
                    None => None,
                }
            }
            _ => None,
        }
    }

    /// What a task does, in the terms of the function that starts it.
    pub fn done_by(&self, task: &Task) -> Vec<Reached> {
        let reached = self.analyzer.reached(task.spawn.function);
        reached.iter().filter(|r| r.via[0].at == task.body).cloned().collect()
    }

    /// Whether anything that the task does or is given can carry word of its end to somebody: a signal, a callback, a
    /// flag or channel, or something that is not known.
    pub fn tells(&self, task: &Task) -> bool {
        let f = self.program.function(task.spawn.function);
        let given: &[Operand] = match &f.op(task.body).kind {
            OpKind::Let(Rvalue::Closure(_, captures)) => captures,
            OpKind::Call(call) => &call.args,
            _ => return true,
        };
        if given.iter().any(|x| self.carries_word(task.spawn.function, x)) {
            return true;
        }
        let bodies: Vec<FunctionId> = match &f.op(task.body).kind {
            OpKind::Let(Rvalue::Closure(inner, _)) => vec![*inner],
            OpKind::Call(call) => call.targets.clone(),
            _ => Vec::new(),
        };
        let mut seen = BTreeSet::new();
        bodies.into_iter().any(|body| self.speaks(body, &mut seen, 0))
    }

    fn carries_word(&self, id: FunctionId, operand: &Operand) -> bool {
        let ty = self.program.ty(id, operand);
        let value = self.program.value(id, operand);
        telling(&ty)
            || made_by_channel(&value, 0)
            || self
                .program
                .type_def(&self.program.receiver(id, operand).path)
                .is_some_and(|def| def.fields.iter().any(|(_, ty)| telling(ty)))
    }

    /// Whether a function, or what it calls, says something to the world outside, or does what is not known.
    fn speaks(&self, id: FunctionId, seen: &mut BTreeSet<FunctionId>, depth: u32) -> bool {
        if !seen.insert(id) || depth > 4 {
            return false;
        }
        let f = self.program.function(id);
        f.ops().any(|(_, op)| match &op.kind {
            OpKind::Store(_, path, _) => path.starts_with('*'),
            OpKind::Let(Rvalue::Closure(inner, _)) => self.speaks(*inner, seen, depth + 1),
            OpKind::Call(call) => match &call.effect {
                Some(trip) => trip.effects.iter().any(|e| matches!(e.kind, EffectKind::Signal(_))),
                None if matches!(call.callee, Callee::Value(_)) => true,
                None if !call.targets.is_empty() => call.targets.iter().any(|t| self.speaks(*t, seen, depth + 1)),
                None => awaited(f, op.dst) && !fate::looks_only(call) && !self.opens(id, call),
            },
            _ => false,
        })
    }

    /// Whether a call that is awaited only gets a connection or waits: its receiver is a client of a store.
    fn opens(&self, id: FunctionId, call: &Call) -> bool {
        let Callee::Method(name) = &call.callee else { return false };
        let receiver = call.args.first().map(|x| self.program.receiver(id, x)).unwrap_or_default();
        !receiver.is_unknown() && self.program.type_def(&receiver.path).is_none()
            || matches!(name.as_str(), "get" | "acquire" | "conn" | "connection" | "get_connection")
    }

    /// What becomes of the handle of a task in the function that starts it.
    pub fn hold(&self, task: &Task) -> Hold {
        let f = self.program.function(task.spawn.function);
        let Some(handle) = task.handle else { return Hold::Detached };
        let mut hold = Hold::Detached;
        let mut work = vec![handle];
        let mut seen = BTreeSet::new();
        while let Some(var) = work.pop() {
            if !seen.insert(var) {
                continue;
            }
            for (_, op) in f.ops() {
                let mut used = false;
                flow_reads(op, |x| used |= matches!(x, Operand::Var(v, _) if *v == var));
                if !used {
                    continue;
                }
                match &op.kind {
                    OpKind::Let(Rvalue::Use(_)) => work.extend(op.dst),
                    OpKind::Call(call) => match &call.callee {
                        Callee::Method(name) if matches!(name.as_str(), "abort" | "is_finished") => {
                            hold = Hold::Aborted
                        }
                        Callee::Method(name) if name == "abort_handle" => work.extend(op.dst),
                        _ => return Hold::Followed,
                    },
                    _ => return Hold::Followed,
                }
            }
            let tested = f.blocks.iter().flat_map(|b| &b.edges).any(|e| {
                crate::analysis::flow_tested(&e.guard).is_some_and(|x| matches!(x, Operand::Var(v, _) if *v == var))
            });
            if tested {
                return Hold::Followed;
            }
        }
        hold
    }

    /// The exits that control can reach from the start of a task without ending it: no abort, no signal on the way.
    pub fn left_running(&self, task: &Task) -> Vec<OpRef> {
        let f = self.program.function(task.spawn.function);
        let mut exits = Vec::new();
        let mut seen: BTreeSet<BlockId> = BTreeSet::new();
        let mut work = vec![(task.spawn.at.block, task.spawn.at.index as usize + 1)];
        while let Some((block, from)) = work.pop() {
            let ops = &f.block(block).ops;
            let mut stopped = false;
            for (i, op) in ops.iter().enumerate().skip(from) {
                let at = OpRef { block, index: i as u32 };
                match &op.kind {
                    OpKind::Call(_) if self.signals(Site { function: task.spawn.function, at }) => stopped = true,
                    OpKind::Return(_, exit) if *exit != Exit::Diverge => {
                        exits.push(at);
                        stopped = true;
                    }
                    _ => {}
                }
                if stopped {
                    break;
                }
            }
            if !stopped {
                for edge in f.block(block).edges.iter().filter(|e| e.kind != EdgeKind::Cancel) {
                    if seen.insert(edge.to) {
                        work.push((edge.to, 0));
                    }
                }
            }
        }
        exits.sort();
        exits
    }

    /// Whether a call tells another task something, itself or through what it calls.
    fn signals(&self, site: Site) -> bool {
        let told = |k: &EffectKind| matches!(k, EffectKind::Signal(_));
        match origin_call(self.program, site) {
            Some(call) if call.effect.is_some() => {
                call.effect.as_ref().is_some_and(|t| t.effects.iter().any(|e| told(&e.kind)))
            }
            Some(_) => {
                let reached = self.analyzer.reached(site.function);
                reached.iter().any(|r| r.via[0] == site && told(&r.effect.kind))
            }
            None => false,
        }
    }
}

/// Whether the result of an op is awaited.
fn awaited(f: &Function, dst: Option<Var>) -> bool {
    dst.is_some_and(|dst| {
        f.ops().any(|(_, op)| matches!(&op.kind, OpKind::Let(Rvalue::Await(Operand::Var(v, _))) if *v == dst))
    })
}

/// Types whose values are seen by more than one task: what is done to one end shows at the other.
fn telling(ty: &Ty) -> bool {
    matches!(
        ty.last(),
        "CancellationToken"
            | "DropGuard"
            | "Sender"
            | "UnboundedSender"
            | "SyncSender"
            | "Receiver"
            | "UnboundedReceiver"
            | "Notify"
            | "Mutex"
            | "RwLock"
            | "Weak"
            | "AbortHandle"
            | "Semaphore"
            | "Barrier"
            | "Cell"
            | "RefCell"
            | "fn"
            | "impl"
            | "dyn"
    ) || ty.last().starts_with("Atomic")
        || ty.args.iter().any(telling)
}

/// Whether a value comes from a call that makes the two ends of a channel, or a shared flag.
fn made_by_channel(value: &Value, depth: u32) -> bool {
    if depth > 6 {
        return false;
    }
    match value {
        Value::Call(call) => {
            let name = call.name.rsplit(['.', ':']).next().unwrap_or("");
            name.contains("channel")
                || name == "child_token"
                || telling(&Ty::path(call.name.rsplit_once("::").map_or("", |(ty, _)| ty)))
                || call.args.iter().any(|x| made_by_channel(x, depth + 1))
        }
        Value::Field(base, _) => made_by_channel(base, depth + 1),
        Value::Join(list) => list.iter().any(|x| made_by_channel(x, depth + 1)),
        _ => false,
    }
}
