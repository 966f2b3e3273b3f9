//! How often a loop surely runs, and whether it runs over what was fetched.

use std::collections::BTreeSet;

use super::Context;
use super::loops::Loop;
use crate::analysis::slice::Slice;
use crate::ir::{Callee, EffectKind, Function, FunctionId, Lit, OpKind, OpRef, Operand, Rvalue, Site, Use, Value, Var};

impl Context<'_> {
    /// The number of rounds of a loop over a constant range or list.
    pub fn rounds_of(&self, id: FunctionId, found: &Loop) -> Option<u64> {
        match self.program.value(id, &Operand::Var(self.runs_over(id, found)?, Use::Ref)) {
            Value::Aggregate(path, fields) if path.ends_with("Range") => {
                let end = |name: &str| {
                    let value = fields.iter().find(|(n, _)| n == name).map(|(_, v)| self.program.expanded(v))?;
                    value.as_int()
                };
                u64::try_from(end("end")?.saturating_sub(end("start").unwrap_or(0))).ok()
            }
            Value::Aggregate(path, fields) if path == "[]" => Some(fields.len() as u64),
            _ => None,
        }
    }

    /// What a `for` loop runs over.
    fn runs_over(&self, id: FunctionId, found: &Loop) -> Option<Var> {
        let f = self.program.function(id);
        f.block(found.head).ops.iter().find_map(|op| match &op.kind {
            OpKind::Let(Rvalue::Unknown(list)) => match list.as_slice() {
                [Operand::Var(over, _)] => Some(*over),
                _ => None,
            },
            _ => None,
        })
    }

    /// Whether a loop runs over the result of something that was awaited, or fetches page after page itself. `from` is the
    /// call of the function, if it is known: a parameter is what that call passes.
    pub fn over_fetched(&self, id: FunctionId, found: &Loop, from: Option<Site>) -> bool {
        let f = self.program.function(id);
        match self.runs_over(id, found) {
            Some(over) => self.fetched(id, &Operand::Var(over, Use::Ref), from),
            None => empties(f, found) && !counts(f, found),
        }
    }

    fn fetched(&self, id: FunctionId, operand: &Operand, from: Option<Site>) -> bool {
        let f = self.program.function(id);
        let sources = Slice::of(f).sources(operand);
        if awaited(f, &sources) {
            return true;
        }
        let Some(site) = from else { return false };
        let OpKind::Call(call) = &self.program.function(site.function).op(site.at).kind else { return false };
        f.params.iter().enumerate().filter(|(_, p)| sources.contains(p)).any(|(i, _)| {
            f.params.first().is_none_or(|p| f.var(*p).name.as_deref() != Some("self") || i > 0)
                && call.args.get(i).is_some_and(|x| self.fetched(site.function, x, None))
        })
    }

    /// Whether a round of the loop looks at a clock, or is bounded by a timeout: it can stop in time.
    pub fn watches_time(&self, id: FunctionId, found: &Loop) -> bool {
        let f = self.program.function(id);
        f.calls().filter(|(at, ..)| found.contains(*at)).any(|(at, _, call)| {
            let by_name = match &call.callee {
                Callee::Method(name) => matches!(
                    name.as_str(),
                    "elapsed"
                        | "is_elapsed"
                        | "duration_since"
                        | "saturating_duration_since"
                        | "checked_duration_since"
                ),
                Callee::Path(path) => path.ends_with("Instant::now"),
                _ => false,
            };
            by_name || self.times_out(Site { function: id, at })
        })
    }

    fn times_out(&self, site: Site) -> bool {
        let own = super::Context::whole_trip(self, site);
        own.is_some_and(|t| t.effects.iter().any(|e| matches!(e.kind, EffectKind::Timeout(_))))
    }

    fn whole_trip(&self, site: Site) -> Option<&crate::ir::RoundTrip> {
        crate::analysis::origin_call(self.program, site)?.effect.as_deref()
    }
}

/// Whether one of the variables is the result of an `.await`.
fn awaited(f: &Function, sources: &BTreeSet<Var>) -> bool {
    f.ops().any(|(_, op)| {
        matches!(&op.kind, OpKind::Let(Rvalue::Await(_))) && op.dst.is_some_and(|dst| sources.contains(&dst))
    })
}

/// Whether the loop awaits a list in each round and ends when that is empty.
fn empties(f: &Function, found: &Loop) -> bool {
    let slice = Slice::of(f);
    let lists: BTreeSet<Var> = f
        .ops()
        .filter(|(at, op)| found.contains(*at) && matches!(&op.kind, OpKind::Let(Rvalue::Await(_))))
        .filter_map(|(_, op)| op.dst)
        .collect();
    f.calls().any(|(at, op, call)| {
        found.contains(at)
            && matches!(&call.callee, Callee::Method(name) if name == "is_empty")
            && call.args.iter().any(|x| slice.sources(x).iter().any(|v| lists.contains(v)))
            && op.dst.is_some()
    })
}

/// Whether the loop ends by a counter: `while n < MAX`, `if n >= MAX { break }`.
fn counts(f: &Function, found: &Loop) -> bool {
    let grows = |var: Var| {
        f.ops().any(|(at, op): (OpRef, _)| {
            found.contains(at)
                && op.dst == Some(var)
                && matches!(
                    &op.kind,
                    OpKind::Let(Rvalue::Binary(crate::ir::BinaryOp::Add, _, Operand::Lit(Lit::Int(_))))
                )
        })
    };
    f.ops().any(|(at, op)| {
        found.contains(at)
            && matches!(&op.kind, OpKind::Let(Rvalue::Binary(
                crate::ir::BinaryOp::Lt | crate::ir::BinaryOp::Le | crate::ir::BinaryOp::Gt | crate::ir::BinaryOp::Ge,
                Operand::Var(var, _),
                Operand::Lit(_) | Operand::Path(_),
            )) if grows(*var))
    })
}
