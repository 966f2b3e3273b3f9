//! Questions about what was read and tested before an op.

use super::Context;
use crate::analysis::lock::Use;
use crate::analysis::slice::Slice;
use crate::analysis::summary::Relation;
use crate::ir::{Call, EffectKind, Function, FunctionId, Lit, OpRef, Operand, Resource, Site, Use as Mode, Value, Var};
use crate::source::Span;

impl Context<'_> {
    /// Whether `site` is reached only where a TTL read from the key was found to say "no expiry" (-1): a repair.
    pub fn repairs_expiry(&self, site: Site) -> bool {
        let f = self.program.function(site.function);
        let slice = Slice::of(f);
        let ttls: Vec<Var> = f
            .calls()
            .filter(|(_, _, call)| call.effect.as_ref().is_some_and(|trip| trip.effects.iter().any(reads_ttl)))
            .filter_map(|(_, op, _)| op.dst)
            .collect();
        if ttls.is_empty() {
            return false;
        }
        let none = |x: &Operand| matches!(self.program.value(site.function, x), Value::Const(Lit::Int(-2..=0)));
        let is_ttl = |x: &Operand| slice.sources(x).iter().any(|v| ttls.contains(v));
        slice.tests_before(site.at).into_iter().any(|test| {
            slice.relations(test).into_iter().any(|(a, b)| (is_ttl(a) && none(b)) || (is_ttl(b) && none(a)))
        })
    }

    /// The read of the release's own key whose value is compared in the client on the way to the release.
    pub fn compared_read(&self, release: &Use) -> Option<Span> {
        let site = release.site();
        let f = self.program.function(site.function);
        let slice = Slice::of(f);
        let tests = slice.tests_before(site.at);
        for (at, op, call) in f.calls() {
            let Some(dst) = op.dst else { continue };
            if !slice.reaches(at, site.at) {
                continue;
            }
            let Some(read) = self.read_of(site.function, at, call, &release.key) else { continue };
            for test in &tests {
                if !slice.sources(test).contains(&dst) {
                    continue;
                }
                // `stored < now` is a comparison too: a deadline that was found past may be another one by then.
                let pairs = slice.relations(test);
                let compared =
                    pairs.into_iter().any(|(a, b)| slice.sources(a).contains(&dst) != slice.sources(b).contains(&dst));
                let in_closure = slice.closures(test).into_iter().any(|id| self.compares_its_argument(id));
                let in_callee = call.effect.is_none() && call.targets.iter().any(|t| self.compares_a_read(*t));
                if compared || in_closure || in_callee || self.helper_compares(&slice, test, dst) {
                    return Some(read);
                }
            }
        }
        None
    }

    /// Where the call, or what it calls, reads the value of `key`.
    fn read_of(&self, function: FunctionId, at: OpRef, call: &Call, key: &Value) -> Option<Span> {
        let reads = |effect: &crate::ir::Effect| match &effect.kind {
            EffectKind::Read(Resource::Key(_, read)) => {
                let read = self.analyzer.comparable(function, read);
                first_word(&effect.command) != "TTL" && self.analyzer.relate(&read, key) == Relation::Must
            }
            _ => false,
        };
        if let Some(trip) = &call.effect {
            return trip.effects.iter().find(|e| reads(e)).map(|e| e.span);
        }
        if call.targets.is_empty() {
            return None;
        }
        let site = Site { function, at };
        let reached = self.analyzer.reached(function);
        reached.iter().find(|r| r.via[0] == site && reads(&r.effect)).map(|_| self.op_span(site))
    }

    /// Whether a helper compares the value that it reads.
    fn compares_a_read(&self, id: FunctionId) -> bool {
        let f = self.program.function(id);
        let slice = Slice::of(f);
        let read: Vec<Var> = f
            .calls()
            .filter(|(_, _, call)| {
                call.effect.as_ref().is_some_and(|t| t.effects.iter().any(|e| matches!(e.kind, EffectKind::Read(_))))
            })
            .filter_map(|(_, op, _)| op.dst)
            .collect();
        all_operands(f).iter().any(|x| {
            slice.comparisons(x).into_iter().any(|(a, b)| {
                let from = |o: &Operand| slice.sources(o).iter().any(|v| read.contains(v));
                from(a) != from(b)
            })
        })
    }

    /// Whether the test is the answer of a helper that compares what was read, its argument, with something else.
    fn helper_compares(&self, slice: &Slice<'_>, test: &Operand, read: Var) -> bool {
        slice.calls(test).into_iter().any(|call| {
            let given = call.args.iter().position(|arg| slice.sources(arg).contains(&read));
            given.is_some_and(|given| call.targets.iter().any(|id| self.compares_parameter(*id, given)))
        })
    }

    /// Whether a function compares the parameter with something that does not come from it.
    fn compares_parameter(&self, id: FunctionId, index: usize) -> bool {
        let f = self.program.function(id);
        let Some(param) = f.params.get(index) else { return false };
        let slice = Slice::of(f);
        let from = |o: &Operand| slice.sources(o).contains(param);
        all_operands(f).iter().any(|x| slice.comparisons(x).into_iter().any(|(a, b)| from(a) != from(b)))
    }

    /// Whether a closure compares what it is given with something else: `is_some_and(|owner| owner == token)`.
    fn compares_its_argument(&self, id: FunctionId) -> bool {
        let f = self.program.function(id);
        let slice = Slice::of(f);
        all_operands(f).iter().any(|x| {
            slice.comparisons(x).into_iter().any(|(a, b)| {
                let from = |o: &Operand| slice.sources(o).iter().any(|v| f.params.contains(v));
                from(a) != from(b)
            })
        })
    }

    /// Whether the key is watched (WATCH) where the release runs: a changed key makes EXEC fail.
    pub fn watched(&self, release: &Use) -> bool {
        [release.function, self.analyzer.item(release.function)].into_iter().any(|id| {
            self.analyzer.reached(id).iter().any(|r| {
                matches!(&r.effect.kind, EffectKind::Watch(key)
                    if self.analyzer.relate(&self.analyzer.comparable(id, key), &release.key).possible())
            })
        })
    }
}

fn reads_ttl(effect: &crate::ir::Effect) -> bool {
    matches!(effect.kind, EffectKind::Read(_))
        && matches!(first_word(&effect.command).as_str(), "TTL" | "PTTL" | "EXPIRETIME" | "PEXPIRETIME")
}

fn first_word(command: &str) -> String {
    command.split_whitespace().next().unwrap_or("").to_ascii_uppercase()
}

/// Every variable of a function, as an operand.
fn all_operands(f: &Function) -> Vec<Operand> {
    (0..f.vars.len()).map(|i| Operand::Var(Var(i as u32), Mode::Ref)).collect()
}
