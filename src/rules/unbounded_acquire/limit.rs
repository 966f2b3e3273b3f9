//! Limits that nobody sets: `if let Some(limit) = wait.limit { .. }` where each `wait` has `None` there.

use std::collections::BTreeSet;

use crate::analysis::{flow_tested as tested, origin_call, shapes_last};
use crate::ir::{BlockId, FunctionId, Guard, Operand, Pattern, Value};
use crate::rule::Context;
use crate::rule::loops::Loop;

/// Callers followed from a parameter to what is passed.
const MAX_DEPTH: usize = 3;

/// The blocks of a loop that run only where an option is set which is never set.
pub(super) fn never_entered(cx: &Context<'_>, id: FunctionId, waits: &Loop) -> BTreeSet<BlockId> {
    let f = cx.program.function(id);
    let mut open = BTreeSet::from([waits.head]);
    let mut work = vec![waits.head];
    while let Some(block) = work.pop() {
        for edge in f.block(block).edges.iter().filter(|e| waits.blocks.contains(&e.to)) {
            let some =
                matches!(&edge.guard, Guard::Matches(_, Pattern::Variant(path, ..)) if shapes_last(path) == "Some");
            let unset = some && tested(&edge.guard).is_some_and(|x| never_set(cx, id, x));
            if !unset && open.insert(edge.to) {
                work.push(edge.to);
            }
        }
    }
    waits.blocks.difference(&open).copied().collect()
}

/// Whether an option is `None` whoever calls the function, and however its settings are made.
fn never_set(cx: &Context<'_>, id: FunctionId, option: &Operand) -> bool {
    let value = cx.program.value(id, option);
    none(&cx.program.expanded(&cx.analyzer.comparable(id, &value))) || none_given(cx, id, &value, 0).unwrap_or(false)
}

fn none(value: &Value) -> bool {
    matches!(value, Value::Path(path) | Value::Aggregate(path, _) if shapes_last(path) == "None")
}

/// Whether each caller passes `None`; nothing where no caller is known.
fn none_given(cx: &Context<'_>, id: FunctionId, value: &Value, depth: usize) -> Option<bool> {
    let Value::Param(_) = value else { return Some(none(value)) };
    if depth > MAX_DEPTH {
        return Some(false);
    }
    let callers = cx.program.callers(id).iter().filter(|site| cx.judged(site.function));
    let given = callers.filter_map(|site| {
        let call = origin_call(cx.program, *site)?;
        none_given(cx, site.function, &cx.program.instantiate(value, call, site.function), depth + 1)
    });
    given.reduce(|a, b| a && b)
}
