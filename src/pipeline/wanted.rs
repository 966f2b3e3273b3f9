//! Which further files a run needs.

use crate::discover::Names;
use crate::ir::{FunctionId, FunctionKind};
use crate::link::Program;
use std::collections::BTreeSet;

/// Names that say too little to look for: nearly every file calls or defines one.
const COMMON: &[&str] = &[
    "build",
    "call",
    "clone",
    "close",
    "collect",
    "connect",
    "create",
    "default",
    "delete",
    "drop",
    "execute",
    "fetch",
    "filter",
    "find",
    "flush",
    "from",
    "handle",
    "init",
    "insert",
    "into",
    "iter",
    "join",
    "list",
    "load",
    "main",
    "next",
    "open",
    "parse",
    "poll",
    "process",
    "push",
    "query",
    "read",
    "recv",
    "remove",
    "reset",
    "save",
    "send",
    "setup",
    "sleep",
    "spawn",
    "start",
    "stop",
    "store",
    "test",
    "unwrap",
    "update",
    "with",
    "write",
    "expect",
    "map_err",
    "to_string",
    "as_str",
    "unwrap_or",
    "context",
    "await",
    "bind",
    "fetch_one",
    "fetch_all",
    "fetch_optional",
    "get_mut",
    "len",
    "is_empty",
    "contains",
    "as_ref",
    "unwrap_or_default",
    "unwrap_or_else",
    "ok_or_else",
    "and_then",
    "is_some",
    "is_none",
    "is_ok",
    "is_err",
    "from_str",
    "try_from",
    "try_into",
    "commit",
    "rollback",
    "begin",
    "acquire",
    "release",
    "query_async",
];

/// Common names of methods that a free function seldom has, unless it is one of a lock module.
const FREE: &[&str] = &["acquire", "release", "lock", "unlock", "renew"];

/// Names whose files are needed next: callers of functions that have to do with locks, and what those functions call.
pub(super) fn names(program: &Program) -> Names {
    let mut names = Names::default();
    let telling = |name: &str| name.len() > 3 && !COMMON.contains(&name);
    // What an object holds is said where its type stands, which need not be beside its methods.
    for (_, f) in program.functions().filter(|(_, f)| f.kind == FunctionKind::Item && !f.test) {
        if let Some(owner) = f.owner.as_deref().filter(|owner| program.type_def(owner).is_none()) {
            names.defined.extend(owner.rsplit("::").next().filter(|name| telling(name)).map(str::to_owned));
        }
    }
    // Only these and their direct callers: what lies further up sees no lock come or go.
    let direct = crate::analysis::lock_functions(program);
    let callers = direct.iter().flat_map(|id| program.callers(*id).iter().map(|site| site.function));
    let mut near: BTreeSet<FunctionId> = callers.chain(direct.iter().copied()).collect();
    // A closure is called where its function is.
    for mut id in near.clone() {
        while let Some(parent) = program.function(id).parent {
            near.insert(parent);
            id = parent;
        }
    }
    for id in near {
        let f = program.function(id);
        if f.kind == FunctionKind::Item && !f.test {
            match f.owner.as_deref().and_then(|o| o.rsplit("::").next()) {
                Some(owner) if !telling(&f.name) => {
                    let spoken = f.owner_trait.as_deref().and_then(|t| t.rsplit("::").next());
                    names.mentioned.extend([Some(owner), spoken].into_iter().flatten().map(str::to_string));
                }
                None if FREE.contains(&f.name.as_str()) => {
                    names.free.insert(f.name.clone());
                }
                _ if telling(&f.name) => {
                    names.called.insert(f.name.clone());
                }
                _ => {}
            }
        }
        for (_, _, call) in f.calls() {
            let open = call.targets.is_empty() && call.effect.is_none();
            if open && !matches!(call.callee, crate::ir::Callee::Value(_)) && telling(call.name()) {
                names.defined.insert(call.name().to_string());
            }
        }
        for (_, op) in f.ops() {
            crate::analysis::flow_reads(op, |operand| {
                if let crate::ir::Operand::Path(path) = operand
                    && let Some(name) = path.rsplit("::").next()
                    && telling(name)
                {
                    names.defined.insert(name.to_string());
                }
            });
        }
    }
    names
}
