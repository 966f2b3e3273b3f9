//! Removes blocks that nothing reaches and joins those that only follow each other.

use crate::ir::{Block, BlockId, EdgeKind, Function, Guard, OpKind};

/// Makes the blocks of a function few: unreached ones go, empty ones are skipped, chains become one block.
pub(super) fn clean(function: &mut Function) {
    if function.blocks.is_empty() {
        return;
    }
    skip_empty(&mut function.blocks);
    join_chains(&mut function.blocks);
    renumber(function);
}

fn is_plain_jump(block: &Block) -> Option<BlockId> {
    match &block.edges[..] {
        [edge] if edge.kind == EdgeKind::Plain && matches!(edge.guard, Guard::Always) => Some(edge.to),
        _ => None,
    }
}

/// Edges into an empty block that only jumps on lead to where it jumps.
fn skip_empty(blocks: &mut [Block]) {
    let targets: Vec<BlockId> = (0..blocks.len())
        .map(|start| {
            let mut at = BlockId(start as u32);
            for _ in 0..blocks.len() {
                let block = &blocks[at.0 as usize];
                match is_plain_jump(block) {
                    Some(to) if block.ops.is_empty() && to != at => at = to,
                    _ => break,
                }
            }
            at
        })
        .collect();
    for block in blocks {
        for edge in &mut block.edges {
            edge.to = targets[edge.to.0 as usize];
        }
        for op in &mut block.ops {
            if let OpKind::Call(call) = &mut op.kind
                && let Some(to) = &mut call.cancel
            {
                *to = targets[to.0 as usize];
            }
        }
    }
}

/// A block that is entered only by one plain jump is appended to the block it is jumped to from.
fn join_chains(blocks: &mut [Block]) {
    let mut entries = vec![0u32; blocks.len()];
    entries[0] = 2;
    let reached = reached(blocks);
    for (at, block) in blocks.iter().enumerate() {
        if !reached[at] {
            continue;
        }
        for edge in &block.edges {
            entries[edge.to.0 as usize] += 1;
        }
        for op in &block.ops {
            if let OpKind::Call(call) = &op.kind
                && let Some(to) = call.cancel
            {
                entries[to.0 as usize] += 2;
            }
        }
    }
    for at in 0..blocks.len() {
        if !reached[at] {
            continue;
        }
        while let Some(to) = is_plain_jump(&blocks[at]) {
            let to = to.0 as usize;
            if entries[to] != 1 || to == at {
                break;
            }
            let next = std::mem::take(&mut blocks[to]);
            entries[to] = 0;
            blocks[at].ops.extend(next.ops);
            blocks[at].edges = next.edges;
        }
    }
}

fn reached(blocks: &[Block]) -> Vec<bool> {
    let mut reached = vec![false; blocks.len()];
    let mut pending = vec![0usize];
    while let Some(at) = pending.pop() {
        if std::mem::replace(&mut reached[at], true) {
            continue;
        }
        let block = &blocks[at];
        pending.extend(block.edges.iter().map(|edge| edge.to.0 as usize));
        pending.extend(block.ops.iter().filter_map(|op| match &op.kind {
            OpKind::Call(call) => call.cancel.map(|to| to.0 as usize),
            _ => None,
        }));
    }
    reached
}

/// Keeps what is reached, in the order of the source, and numbers it anew.
fn renumber(function: &mut Function) {
    let reached = reached(&function.blocks);
    let mut numbers = vec![BlockId(0); reached.len()];
    let mut next = 0;
    for (at, keep) in reached.iter().enumerate() {
        if *keep {
            numbers[at] = BlockId(next);
            next += 1;
        }
    }
    let mut keep = reached.iter();
    function.blocks.retain(|_| keep.next().copied().unwrap_or(false));
    for block in &mut function.blocks {
        for edge in &mut block.edges {
            edge.to = numbers[edge.to.0 as usize];
        }
        for op in &mut block.ops {
            if let OpKind::Call(call) = &mut op.kind
                && let Some(to) = &mut call.cancel
            {
                *to = numbers[to.0 as usize];
            }
        }
    }
}
