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
    // The way into a loop keeps the place of the loop.
    let heads: Vec<BlockId> =
        blocks.iter().flat_map(|b| &b.edges).filter(|e| e.kind == EdgeKind::Back).map(|e| e.to).collect();
    let targets: Vec<BlockId> = (0..blocks.len())
        .map(|start| {
            let mut at = BlockId(start as u32);
            for _ in 0..blocks.len() {
                let block = &blocks[at.0 as usize];
                match is_plain_jump(block) {
                    Some(to) if block.ops.is_empty() && to != at && !heads.contains(&to) => at = to,
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
        if !std::mem::replace(&mut reached[at], true) {
            pending.extend(successors(&blocks[at]));
        }
    }
    reached
}

/// Keeps what is reached and numbers it anew, each block before those it leads to (loops aside).
fn renumber(function: &mut Function) {
    let order = reverse_postorder(&function.blocks);
    let mut numbers = vec![BlockId(0); function.blocks.len()];
    for (number, at) in order.iter().enumerate() {
        numbers[*at] = BlockId(number as u32);
    }
    function.blocks = order.iter().map(|at| std::mem::take(&mut function.blocks[*at])).collect();
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

fn successors(block: &Block) -> Vec<usize> {
    let cancels = block.ops.iter().filter_map(|op| match &op.kind {
        OpKind::Call(call) => call.cancel,
        _ => None,
    });
    block.edges.iter().map(|edge| edge.to).chain(cancels).map(|to| to.0 as usize).collect()
}

fn reverse_postorder(blocks: &[Block]) -> Vec<usize> {
    let mut order = Vec::with_capacity(blocks.len());
    let mut seen = vec![false; blocks.len()];
    seen[0] = true;
    // Last edges first, so that first edges come first in the result.
    let mut stack = vec![(0usize, successors(&blocks[0]))];
    while let Some((at, rest)) = stack.last_mut() {
        match rest.pop() {
            Some(next) if !seen[next] => {
                seen[next] = true;
                stack.push((next, successors(&blocks[next])));
            }
            Some(_) => {}
            None => {
                order.push(*at);
                stack.pop();
            }
        }
    }
    order.reverse();
    order
}
