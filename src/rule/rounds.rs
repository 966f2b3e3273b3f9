//! What surely happens in each round of a loop that repeats an op.

use std::collections::BTreeSet;

use super::Context;
use super::loops::{Loop, innermost};
use crate::analysis::lock::Use;
use crate::analysis::origin_call;
use crate::analysis::summary::Reached;
use crate::ir::{
    BinaryOp, BlockId, EdgeKind, EffectKind, Function, FunctionId, OpKind, OpRef, Operand, Rvalue, Site, Var,
};
use crate::source::Span;

/// A loop around a command, in the function that has the loop.
#[derive(Clone, Debug)]
pub struct Round {
    /// The op of that function through which the command runs.
    pub site: Site,
    /// The loop.
    pub around: Loop,
}

/// Callers followed upwards in search of a loop.
const MAX_CLIMB: u32 = 4;

impl Context<'_> {
    /// The innermost loops around a command: in its own function, or in those that call it.
    pub fn rounds(&self, used: &Use) -> Vec<Round> {
        let mut out = Vec::new();
        let (wire, around) = match used.id.0.split_last() {
            Some((wire, around)) => (*wire, around),
            None => return out,
        };
        let mut seen = BTreeSet::new();
        let mut work = vec![(wire, around, 0)];
        while let Some((site, around, depth)) = work.pop() {
            if depth > MAX_CLIMB || !seen.insert(site) || !self.judged(site.function) {
                continue;
            }
            let f = self.program.function(site.function);
            if let Some(found) = innermost(f, site.at) {
                out.push(Round { site, around: found });
                continue;
            }
            // A neutral helper serves other keys too: only the calls that lead to this command count.
            match around.split_last() {
                Some((last, rest)) => work.push((*last, rest, depth + 1)),
                None => {
                    work.extend(self.program.callers(site.function).iter().map(|s| (*s, around, depth + 1)));
                    work.extend(self.program.closure_site(site.function).map(|s| (s, around, depth + 1)));
                }
            }
        }
        out.sort_by_key(|r| r.site);
        out
    }

    /// The pauses that lie on every way from one round of the op to its next, in the terms of the loop's function.
    pub fn pauses(&self, round: &Round) -> Vec<Reached> {
        let f = self.program.function(round.site.function);
        let reached = self.analyzer.reached(round.site.function);
        let sleeps: Vec<&Reached> = reached
            .iter()
            .filter(|r| matches!(r.effect.kind, EffectKind::Sleep(_)) && round.around.contains(r.via[0].at))
            .collect();
        let only = sleeps.len() == 1;
        let sure = |r: &&Reached| {
            (r.via.len() == 1 || only) && r.via[0].at != round.site.at && every_round(f, round, r.via[0].at)
                || r.via[0].at == round.site.at && only
        };
        sleeps.into_iter().filter(sure).cloned().collect()
    }
}

impl Context<'_> {
    /// Where the length that a pause waits for is computed, if that is a statement of its own in the same item: there it
    /// must be changed.
    pub fn divided(&self, pause: Site) -> Option<Span> {
        let call = origin_call(self.program, pause)?;
        let mut work: Vec<(FunctionId, Operand)> = call.args.iter().map(|x| (pause.function, x.clone())).collect();
        for _ in 0..8 {
            let (id, operand) = work.pop()?;
            let Operand::Var(var, _) = &operand else { continue };
            let f = self.program.function(id);
            let defs: Vec<_> = f.ops().filter(|(_, op)| op.dst == Some(*var)).collect();
            match defs.as_slice() {
                [] => work.extend(self.captured(id, *var)),
                [(_, op)] => match &op.kind {
                    OpKind::Let(Rvalue::Binary(BinaryOp::Div | BinaryOp::Mul, ..)) if f.var(*var).name.is_some() => {
                        return Some(op.span);
                    }
                    OpKind::Let(Rvalue::Binary(BinaryOp::Div | BinaryOp::Mul, ..)) => {
                        let outside = op.span.start < call.whole.start || op.span.end > call.whole.end;
                        return outside.then_some(op.span);
                    }
                    OpKind::Let(Rvalue::Use(x) | Rvalue::Cast(x, _)) => work.push((id, x.clone())),
                    OpKind::Call(made) => work.extend(made.args.iter().map(|x| (id, x.clone()))),
                    _ => {}
                },
                _ => return None,
            }
        }
        None
    }

    /// What a captured variable is in the function around the closure.
    pub(super) fn captured(&self, id: FunctionId, var: Var) -> Option<(FunctionId, Operand)> {
        let f = self.program.function(id);
        let index = f.captures.iter().position(|v| *v == var)?;
        let site = self.program.closure_site(id)?;
        match &self.program.function(site.function).op(site.at).kind {
            OpKind::Let(Rvalue::Closure(_, captures)) => captures.get(index).map(|x| (site.function, x.clone())),
            _ => None,
        }
    }
}

/// Whether control cannot come back to the op of the round without passing `pause`.
fn every_round(f: &Function, round: &Round, pause: OpRef) -> bool {
    let at = round.site.at;
    let mut seen: BTreeSet<BlockId> = BTreeSet::new();
    let mut work: Vec<BlockId> = Vec::new();
    if pause.block == at.block && pause.index > at.index {
        return true;
    }
    let next = |block: BlockId| {
        let edges = f.block(block).edges.iter().filter(|e| e.kind != EdgeKind::Cancel);
        edges.map(|e| e.to).filter(|to| round.around.blocks.contains(to)).collect::<Vec<_>>()
    };
    work.extend(next(at.block));
    while let Some(block) = work.pop() {
        if block == at.block {
            // Back at the op; a pause before it in its own block was passed on the way.
            if !(pause.block == block && pause.index < at.index) {
                return false;
            }
            continue;
        }
        if block == pause.block || !seen.insert(block) {
            continue;
        }
        work.extend(next(block));
    }
    true
}
