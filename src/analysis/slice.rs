//! Backward data dependence inside one function, and order on its control flow.

use std::cell::OnceCell;
use std::collections::BTreeSet;

use super::flow::{bound, reads, tested};
use crate::ir::{
    BinaryOp, BlockId, Call, Callee, EdgeKind, Function, FunctionId, Guard, Op, OpKind, OpRef, Operand, Rvalue, Var,
};

/// Data dependences of one function.
pub struct Slice<'f> {
    f: &'f Function,
    index: OnceCell<Index<'f>>,
}

/// Definitions by variable, each in the order of the function.
struct Index<'f> {
    defs: Vec<(Var, &'f Op)>,
    binds: Vec<(Var, &'f Operand)>,
}

impl<'f> Index<'f> {
    fn of(f: &'f Function) -> Self {
        let mut defs: Vec<(Var, &'f Op)> = f.ops().filter_map(|(_, op)| Some((op.dst?, op))).collect();
        let mut binds = Vec::new();
        for edge in f.blocks.iter().flat_map(|b| &b.edges) {
            if let Guard::Matches(operand, pattern) = &edge.guard {
                let mut vars = Vec::new();
                bound(pattern, &mut vars);
                binds.extend(vars.into_iter().map(|var| (var, operand)));
            }
        }
        defs.sort_by_key(|(var, _)| *var);
        binds.sort_by_key(|(var, _)| *var);
        Index { defs, binds }
    }
}

/// The entries of one variable in a list sorted by variable.
fn entries<'a, T: Copy>(list: &'a [(Var, T)], var: Var) -> impl Iterator<Item = T> + 'a {
    let start = list.partition_point(|(v, _)| *v < var);
    list[start..].iter().take_while(move |(v, _)| *v == var).map(|(_, item)| *item)
}

impl<'f> Slice<'f> {
    /// The slice of `f`; its definitions are collected when first asked for.
    pub fn of(f: &'f Function) -> Self {
        Slice { f, index: OnceCell::new() }
    }

    fn defs(&self, var: Var) -> impl Iterator<Item = &'f Op> + '_ {
        entries(&self.index.get_or_init(|| Index::of(self.f)).defs, var)
    }

    fn binds(&self, var: Var) -> impl Iterator<Item = &'f Operand> + '_ {
        entries(&self.index.get_or_init(|| Index::of(self.f)).binds, var)
    }

    /// All variables that the value of `operand` can come from.
    pub fn sources(&self, operand: &Operand) -> BTreeSet<Var> {
        let mut seen = BTreeSet::new();
        let mut work: Vec<Var> = var_of(operand).into_iter().collect();
        while let Some(var) = work.pop() {
            if !seen.insert(var) {
                continue;
            }
            for op in self.defs(var) {
                reads(op, |x| work.extend(var_of(x)));
            }
            work.extend(self.binds(var).filter_map(var_of));
        }
        seen
    }

    /// The values that are compared with each other on the way to `operand` (`a == b`, `a.eq(b)`), as pairs.
    pub fn comparisons(&self, operand: &Operand) -> Vec<(&'f Operand, &'f Operand)> {
        let mut out = Vec::new();
        for var in self.sources(operand) {
            for op in self.defs(var) {
                match &op.kind {
                    OpKind::Let(Rvalue::Binary(BinaryOp::Eq | BinaryOp::Ne, a, b)) => out.push((a, b)),
                    OpKind::Call(call) if call.args.len() == 2 => {
                        let name = match &call.callee {
                            Callee::Method(name) => name.as_str(),
                            Callee::Path(path) => super::shapes::last(path),
                            _ => "",
                        };
                        if matches!(name, "eq" | "ne" | "ct_eq" | "constant_time_eq") {
                            out.push((&call.args[0], &call.args[1]));
                        }
                    }
                    _ => {}
                }
            }
        }
        out
    }

    /// Closures that take part in computing `operand`.
    pub fn closures(&self, operand: &Operand) -> Vec<FunctionId> {
        let made = |op: &'f Op| match &op.kind {
            OpKind::Let(Rvalue::Closure(id, _)) => Some(*id),
            _ => None,
        };
        self.sources(operand).iter().flat_map(|v| self.defs(*v)).filter_map(made).collect()
    }

    /// Calls that take part in computing `operand`.
    pub fn calls(&self, operand: &Operand) -> Vec<&'f Call> {
        let made = |op: &'f Op| match &op.kind {
            OpKind::Call(call) => Some(&**call),
            _ => None,
        };
        self.sources(operand).iter().flat_map(|v| self.defs(*v)).filter_map(made).collect()
    }

    /// As [`Slice::comparisons`], orderings (`<`, `>=`) included.
    pub fn relations(&self, operand: &Operand) -> Vec<(&'f Operand, &'f Operand)> {
        let mut out = self.comparisons(operand);
        for op in self.sources(operand).iter().flat_map(|v| self.defs(*v)) {
            if let OpKind::Let(Rvalue::Binary(BinaryOp::Lt | BinaryOp::Le | BinaryOp::Gt | BinaryOp::Ge, a, b)) =
                &op.kind
            {
                out.push((a, b));
            }
        }
        out
    }

    /// Guards whose edges lead to `at` and that were decided before it: operands tested on some path to `at`.
    pub fn tests_before(&self, at: OpRef) -> Vec<&'f Operand> {
        let before = self.blocks_before(at.block);
        let mut out = Vec::new();
        for block in &before {
            for edge in &self.f.block(*block).edges {
                let leads = edge.to == at.block || before.contains(&edge.to);
                if leads && let Some(operand) = tested(&edge.guard) {
                    out.push(operand);
                }
            }
        }
        out
    }

    /// Blocks from which `to` can be reached without going backwards through a loop.
    pub fn blocks_before(&self, to: BlockId) -> BTreeSet<BlockId> {
        let mut seen = BTreeSet::new();
        let mut work = vec![to];
        while let Some(block) = work.pop() {
            for (b, candidate) in self.f.blocks.iter().enumerate() {
                let id = BlockId(b as u32);
                if candidate.edges.iter().any(|e| e.to == block && e.kind != EdgeKind::Back) && seen.insert(id) {
                    work.push(id);
                }
            }
        }
        seen
    }

    /// Whether control can go from `from` to `to` (later in the same block, or through edges).
    pub fn reaches(&self, from: OpRef, to: OpRef) -> bool {
        if from.block == to.block && from.index < to.index {
            return true;
        }
        let mut seen = BTreeSet::new();
        let mut work: Vec<BlockId> = self.f.block(from.block).edges.iter().map(|e| e.to).collect();
        while let Some(block) = work.pop() {
            if block == to.block {
                return true;
            }
            if seen.insert(block) {
                work.extend(self.f.block(block).edges.iter().map(|e| e.to));
            }
        }
        false
    }
}

fn var_of(operand: &Operand) -> Option<Var> {
    match operand {
        Operand::Var(var, _) => Some(*var),
        _ => None,
    }
}
