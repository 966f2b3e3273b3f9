//! Loops of a function, as its control flow shows them.

use std::collections::{BTreeMap, BTreeSet};

use crate::ir::{BlockId, EdgeKind, Function, OpRef};
use crate::source::Span;

/// A loop: the blocks from which control comes back to its head.
#[derive(Clone, Debug)]
pub struct Loop {
    /// Where each round begins.
    pub head: BlockId,
    /// Its blocks, the head included.
    pub blocks: BTreeSet<BlockId>,
    /// The `loop`, `while` or `for`.
    pub span: Span,
}

impl Loop {
    /// Whether the op stands in the loop.
    pub fn contains(&self, at: OpRef) -> bool {
        self.blocks.contains(&at.block)
    }
}

/// All loops of a function, inner ones included.
pub fn loops(f: &Function) -> Vec<Loop> {
    let mut out: BTreeMap<BlockId, Loop> = BTreeMap::new();
    let mut before: BTreeMap<BlockId, Vec<BlockId>> = BTreeMap::new();
    let all = || f.blocks.iter().enumerate().map(|(b, block)| (BlockId(b as u32), block));
    for (id, block) in all() {
        for edge in &block.edges {
            before.entry(edge.to).or_default().push(id);
        }
    }
    for (id, block) in all() {
        for edge in block.edges.iter().filter(|e| e.kind == EdgeKind::Back) {
            let entry = all().flat_map(|(_, b)| &b.edges).find(|e| e.to == edge.to && e.kind != EdgeKind::Back);
            let span = entry.map_or(edge.span, |e| e.span);
            let new = || Loop { head: edge.to, blocks: BTreeSet::from([edge.to]), span };
            let found = out.entry(edge.to).or_insert_with(new);
            let mut work = vec![id];
            while let Some(block) = work.pop() {
                if found.blocks.insert(block) {
                    work.extend(before.get(&block).into_iter().flatten());
                }
            }
        }
    }
    out.into_values().collect()
}

/// The innermost loop around an op.
pub fn innermost(f: &Function, at: OpRef) -> Option<Loop> {
    loops(f).into_iter().filter(|l| l.contains(at)).min_by_key(|l| l.blocks.len())
}
