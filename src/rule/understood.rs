//! Whether all that a call does is seen: where something is not, nothing can be said of what a section does not do.

use std::collections::BTreeSet;

use super::Context;
use super::section::converts;
use crate::analysis::fate;
use crate::analysis::origin_call;
use crate::ir::{Call, Callee, FunctionId, HandleKind, OpKind, OpRef, Operand, Rvalue, Site, Use, Var};

/// Calls followed downwards, as deep as effects are followed.
const MAX_DEPTH: usize = 6;

impl Context<'_> {
    /// Whether an op calls nothing but what is known to do no more than the effects that are listed for it.
    pub fn understood(&self, function: FunctionId, at: OpRef) -> bool {
        self.op_understood(function, at, &mut BTreeSet::new(), 0)
    }

    fn op_understood(&self, id: FunctionId, at: OpRef, seen: &mut BTreeSet<FunctionId>, depth: usize) -> bool {
        let op = self.program.function(id).op(at);
        match &op.kind {
            OpKind::Let(Rvalue::Closure(inner, _)) => self.body_understood(*inner, seen, depth),
            // Something that others may look at is changed.
            OpKind::Store(..) => false,
            OpKind::Call(call) if call.effect.is_some() => true,
            OpKind::Call(call) if !call.targets.is_empty() => {
                call.targets.iter().all(|t| self.body_understood(*t, seen, depth))
            }
            OpKind::Call(call) => self.changes_nothing(id, at, call, op.dst),
            _ => true,
        }
    }

    fn body_understood(&self, id: FunctionId, seen: &mut BTreeSet<FunctionId>, depth: usize) -> bool {
        if !seen.insert(id) {
            return true;
        }
        let f = self.program.function(id);
        // A body that does not come back when it is called may be anything.
        f.has_body() && depth < MAX_DEPTH && f.ops().all(|(at, _)| self.op_understood(id, at, seen, depth + 1))
    }

    fn changes_nothing(&self, id: FunctionId, at: OpRef, call: &Call, dst: Option<Var>) -> bool {
        let awaited = dst.and_then(|dst| self.awaited(id, dst));
        if dst.is_some_and(|v| self.makes_handle(id, v)) || awaited.is_some_and(|v| self.makes_handle(id, v)) {
            return true;
        }
        if awaited.is_some() || origin_call(self.program, Site { function: id, at }).is_none() {
            return false;
        }
        let last = |path: &str| path.rsplit("::").next().unwrap_or("").to_owned();
        match &call.callee {
            Callee::Macro(name) => fate::looks_only(call) || PURE_MACROS.contains(&last(name).trim_end_matches('!')),
            Callee::Method(name) => fate::looks_only(call) || PURE.contains(&name.as_str()) || plain(name),
            Callee::Path(path) => {
                let name = last(path);
                PURE.contains(&name.as_str()) || PURE_PATHS.contains(&name.as_str()) || plain(&name)
            }
            Callee::Value(_) => false,
        }
    }

    fn awaited(&self, id: FunctionId, dst: Var) -> Option<Var> {
        self.program.function(id).ops().find_map(|(_, op)| match &op.kind {
            OpKind::Let(Rvalue::Await(Operand::Var(v, _))) if *v == dst => op.dst,
            _ => None,
        })
    }

    fn makes_handle(&self, id: FunctionId, var: Var) -> bool {
        let models = crate::model::Models::builtin();
        let operand = Operand::Var(var, Use::Ref);
        crate::protocol::handle(self.program, models, id, &operand).kind != HandleKind::Unknown
    }
}

/// Conversions whose names are not also those of methods that change a store.
fn plain(name: &str) -> bool {
    const BOTH: &[&str] = &[
        "insert",
        "push",
        "extend",
        "insert_into",
        "update",
        "set",
        "set_ex",
        "hset",
        "hset_multiple",
        "values",
        "filter",
        "query",
        "query_with",
        "map",
        "and_then",
        "then",
        "join",
        "do_update",
        "do_nothing",
        "on_conflict",
    ];
    converts(name) && !BOTH.contains(&name)
}

/// Methods and functions that only look.
const PURE: &[&str] = &[
    "rows_affected",
    "elapsed",
    "now",
    "new_v4",
    "now_v7",
    "from_secs",
    "from_millis",
    "from_mins",
    "format",
    "is_empty",
    "contains",
    "starts_with",
    "ends_with",
    "eq",
    "ne",
    "cmp",
    "checked_add",
    "saturating_sub",
    "saturating_add",
    "to_rfc3339",
    "drop",
];

/// Functions of libraries that start a statement.
const PURE_PATHS: &[&str] = &["query", "query_as", "query_scalar", "query_with", "insert_into", "update"];

/// Macros that print, make values or count.
const PURE_MACROS: &[&str] = &[
    "anyhow",
    "bail",
    "ensure",
    "json",
    "vec",
    "format",
    "matches",
    "assert",
    "debug_assert",
    "counter",
    "gauge",
    "histogram",
    "write",
    "concat",
    "include_str",
    "eyre",
];
