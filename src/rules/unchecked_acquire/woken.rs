//! A fired watch on the predecessor taken for the grant: the node before may have left without ever holding the lock
//! (ZooKeeper recipes, "Locks": after the notification the children are listed again).

use std::collections::BTreeSet;

use crate::analysis::lock::Lock;
use crate::analysis::slice::Slice;
use crate::analysis::summary::Reached;
use crate::ir::{Backend, BlockId, EdgeKind, EffectKind, Function, Lit, Look, OpKind, OpRef, Operand, Rvalue};
use crate::rule::Context;
use crate::rule::loops::innermost;
use crate::source::Span;

/// Where the predecessor is watched in the function that takes the lock, if that returns the lock without looking again.
pub fn takes_wake_for_grant(cx: &Context<'_>, lock: &Lock) -> Option<Span> {
    lock.acquire().filter(|a| a.backend == Backend::ZooKeeper)?;
    let home = lock.taken.function;
    let f = cx.program.function(home);
    let reached = cx.analyzer.reached(home);
    let lists: BTreeSet<OpRef> = reached.iter().filter(|r| look(r).is_some_and(|l| l.children)).map(at).collect();
    // Whoever calls it again and again lists again.
    let retried =
        || cx.program.callers(home).iter().any(|c| innermost(cx.program.function(c.function), c.at).is_some());
    if lists.is_empty() || retried() {
        return None;
    }
    let slice = Slice::of(f);
    let watches = reached.iter().filter(|r| look(r).is_some_and(|l| l.watch && !l.children) && !called_back(cx, r));
    // The node that is watched was found in the list.
    let found_in = |w: &Reached, list: OpRef| {
        let (OpKind::Call(_), OpKind::Call(call)) = (&f.op(list).kind, &f.op(at(w)).kind) else { return false };
        let Some(dst) = f.op(list).dst else { return false };
        call.args.iter().any(|arg| slice.sources(arg).contains(&dst))
    };
    let mut blind = watches.filter(|w| {
        let before = |list: &OpRef| slice.reaches(*list, at(w)) && found_in(w, *list);
        lists.iter().any(before) && returns_without(f, at(w), &lists)
    });
    blind.next().map(|w| w.effect.span)
}

/// Whether the watcher is a function that is told by its name: it holds nothing of the one who waits, so nobody waits here
/// for what it hears.
fn called_back(cx: &Context<'_>, watch: &Reached) -> bool {
    let site = watch.origin.site;
    let OpKind::Call(call) = &cx.program.function(site.function).op(site.at).kind else { return false };
    call.args.iter().skip(1).any(|arg| match arg {
        Operand::Path(path) => path.rsplit("::").next().is_some_and(|name| name.starts_with(char::is_lowercase)),
        _ => false,
    })
}

fn look(r: &Reached) -> Option<&Look> {
    match &r.effect.kind {
        EffectKind::Look(look) if look.backend == Backend::ZooKeeper => Some(look),
        _ => None,
    }
}

fn at(r: &Reached) -> OpRef {
    r.via[0].at
}

/// Whether control can go from `from` to a return that is no failure without passing any of `stops`.
fn returns_without(f: &Function, from: OpRef, stops: &BTreeSet<OpRef>) -> bool {
    let mut seen: BTreeSet<BlockId> = BTreeSet::new();
    let mut work = vec![(from.block, from.index + 1)];
    while let Some((block, first)) = work.pop() {
        let mut open = true;
        for (index, op) in f.block(block).ops.iter().enumerate().skip(first as usize) {
            if stops.contains(&OpRef { block, index: index as u32 }) {
                open = false;
                break;
            }
            if let OpKind::Return(value, exit) = &op.kind {
                open = false;
                if *exit == crate::ir::Exit::Return && grants(f, value) {
                    return true;
                }
            }
        }
        if open {
            for edge in &f.block(block).edges {
                if !matches!(edge.kind, EdgeKind::Question | EdgeKind::Cancel) && seen.insert(edge.to) {
                    work.push((edge.to, 0));
                }
            }
        }
    }
    false
}

/// Whether a returned value says that the lock was won, as far as it is written out: no `Err`, `None`, `false`.
fn grants(f: &Function, value: &Operand) -> bool {
    let mut value = value;
    for _ in 0..4 {
        match value {
            Operand::Lit(lit) => return *lit != Lit::Bool(false),
            Operand::Path(path) => return path.rsplit("::").next() != Some("None"),
            Operand::Var(var, _) => {
                let mut definitions = f.ops().filter(|(_, op)| op.dst == Some(*var));
                let (Some((_, op)), None) = (definitions.next(), definitions.next()) else { return false };
                match &op.kind {
                    OpKind::Let(Rvalue::Variant(path, args)) => match (path.rsplit("::").next(), args.first()) {
                        (Some("Ok" | "Some"), Some(inner)) => match inner {
                            // What is handed back is the lock, or the caller's business.
                            Operand::Var(..) => return true,
                            inner => value = inner,
                        },
                        _ => return false,
                    },
                    OpKind::Let(Rvalue::Use(inner)) => value = inner,
                    _ => return false,
                }
            }
        }
    }
    false
}
