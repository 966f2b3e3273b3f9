//! Control flow of one function: reachability between ops, dominance, definitions and uses of variables.

use crate::ir::{BlockId, Function, Guard, OpKind, OpRef, Operand, Pattern, Rvalue, Var};

/// How a pattern reaches into a value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// Payload `i` of variant or tuple struct `path`.
    Variant(String, usize),
    /// Field of struct pattern `path`.
    Field(String, String),
    /// Member of a tuple.
    Tuple(usize),
    /// In a way that is not evaluated.
    Opaque,
}

/// One definition of a variable.
#[derive(Clone, Debug)]
pub(super) enum Def {
    /// Result of an op.
    Op(OpRef),
    /// Parameter.
    Param(u32),
    /// Captured variable `j`.
    Capture(u32),
    /// Bound by a pattern on an edge: scrutinee and the way into it.
    Pattern(Operand, Vec<Step>),
}

/// Where a variable is used.
#[derive(Clone, Debug)]
pub(super) enum UseSite {
    /// Operand of an op.
    Op(OpRef),
    /// Condition of an edge: block and index of the edge.
    Edge(BlockId, usize),
}

/// Definitions and uses of all variables of a function, indexed by [`Var`].
#[derive(Clone, Debug, Default)]
pub(super) struct DefUse {
    pub(super) defs: Vec<Vec<Def>>,
    pub(super) uses: Vec<Vec<UseSite>>,
}

impl DefUse {
    pub(super) fn of(function: &Function) -> DefUse {
        let count = function.vars.len();
        let mut out = DefUse { defs: vec![Vec::new(); count], uses: vec![Vec::new(); count] };
        for (i, var) in function.params.iter().enumerate() {
            out.define(*var, Def::Param(i as u32));
        }
        for (j, var) in function.captures.iter().enumerate() {
            out.define(*var, Def::Capture(j as u32));
        }
        for (at, op) in function.ops() {
            if let Some(var) = op.dst {
                out.define(var, Def::Op(at));
            }
            each_operand(&op.kind, &mut |operand| out.used(operand, UseSite::Op(at)));
        }
        for (b, block) in function.blocks.iter().enumerate() {
            for (e, edge) in block.edges.iter().enumerate() {
                let site = UseSite::Edge(BlockId(b as u32), e);
                match &edge.guard {
                    Guard::Always => {}
                    Guard::True(operand) | Guard::False(operand) => out.used(operand, site),
                    Guard::Matches(operand, pattern) => {
                        out.used(operand, site);
                        out.bind(operand, pattern, &mut Vec::new());
                    }
                }
            }
        }
        out
    }

    fn define(&mut self, var: Var, def: Def) {
        if let Some(list) = self.defs.get_mut(var.0 as usize) {
            list.push(def);
        }
    }

    fn used(&mut self, operand: &Operand, site: UseSite) {
        if let Operand::Var(var, _) = operand
            && let Some(list) = self.uses.get_mut(var.0 as usize)
        {
            list.push(site);
        }
    }

    fn bind(&mut self, scrutinee: &Operand, pattern: &Pattern, way: &mut Vec<Step>) {
        if way.len() > 32 {
            return;
        }
        let mut into = |this: &mut Self, step: Step, inner: &Pattern| {
            way.push(step);
            this.bind(scrutinee, inner, way);
            way.pop();
        };
        match pattern {
            Pattern::Wild | Pattern::Lit(_) | Pattern::Path(_) => {}
            Pattern::Bind(var, sub) => {
                self.define(*var, Def::Pattern(scrutinee.clone(), way.clone()));
                if let Some(sub) = sub {
                    self.bind(scrutinee, sub, way);
                }
            }
            Pattern::Variant(path, members, _) => {
                for (i, member) in members.iter().enumerate() {
                    into(self, Step::Variant(path.clone(), i), member);
                }
            }
            Pattern::Struct(path, members) => {
                for (name, member) in members {
                    into(self, Step::Field(path.clone(), name.clone()), member);
                }
            }
            Pattern::Tuple(members, _) => {
                for (i, member) in members.iter().enumerate() {
                    into(self, Step::Tuple(i), member);
                }
            }
            Pattern::Or(members) => members.iter().for_each(|member| self.bind(scrutinee, member, way)),
            Pattern::Opaque(vars) => {
                way.push(Step::Opaque);
                for var in vars {
                    self.define(*var, Def::Pattern(scrutinee.clone(), way.clone()));
                }
                way.pop();
            }
        }
    }
}

/// Calls `f` with every operand an op reads.
pub(super) fn each_operand<'a>(kind: &'a OpKind, f: &mut dyn FnMut(&'a Operand)) {
    match kind {
        OpKind::Let(value) => each_rvalue_operand(value, f),
        OpKind::Call(call) => {
            if let crate::ir::Callee::Value(operand) = &call.callee {
                f(operand);
            }
            call.args.iter().for_each(f);
        }
        OpKind::Drop(_) => {}
        OpKind::Store(base, _, value) => {
            f(base);
            f(value);
        }
        OpKind::Return(operand, _) => f(operand),
    }
}

fn each_rvalue_operand<'a>(value: &'a Rvalue, f: &mut dyn FnMut(&'a Operand)) {
    use crate::ir::FormatPiece;
    match value {
        Rvalue::Use(a)
        | Rvalue::Field(a, _)
        | Rvalue::Unary(_, a)
        | Rvalue::Cast(a, _)
        | Rvalue::Await(a)
        | Rvalue::Matches(a, _) => f(a),
        Rvalue::Binary(_, a, b) | Rvalue::Index(a, b) => {
            f(a);
            f(b);
        }
        Rvalue::Tuple(list)
        | Rvalue::Array(list)
        | Rvalue::Variant(_, list)
        | Rvalue::Closure(_, list)
        | Rvalue::Unknown(list) => list.iter().for_each(f),
        Rvalue::Struct(_, fields, rest) => {
            fields.iter().for_each(|(_, value)| f(value));
            rest.iter().for_each(f);
        }
        Rvalue::Format(pieces) => {
            for piece in pieces {
                if let FormatPiece::Hole(hole) = piece {
                    f(hole);
                }
            }
        }
        Rvalue::IncludeStr(_) => {}
    }
}

/// Block-level reachability and dominance of a function.
#[derive(Clone, Debug, Default)]
pub(super) struct Flow {
    /// Immediate dominator of each reachable block.
    idom: Vec<Option<usize>>,
    /// Place of each block in reverse postorder.
    order: Vec<usize>,
    /// Blocks that can be reached from each block's end, as bits.
    reach: Vec<Vec<u64>>,
    successors: Vec<Vec<usize>>,
}

impl Flow {
    pub(super) fn of(function: &Function) -> Flow {
        let count = function.blocks.len();
        let successors: Vec<Vec<usize>> = function
            .blocks
            .iter()
            .map(|b| b.edges.iter().map(|e| e.to.0 as usize).filter(|to| *to < count).collect())
            .collect();
        let mut flow = Flow { idom: vec![None; count], order: vec![usize::MAX; count], reach: Vec::new(), successors };
        flow.dominators();
        flow.reach = (0..count).map(|from| flow.reachable(from)).collect();
        flow
    }

    /// The iterative algorithm of Cooper, Harvey and Kennedy.
    fn dominators(&mut self) {
        let count = self.successors.len();
        if count == 0 {
            return;
        }
        let order = self.postorder();
        let mut number = vec![usize::MAX; count];
        for (i, block) in order.iter().enumerate() {
            number[*block] = i;
            self.order[*block] = order.len() - i;
        }
        let mut predecessors = vec![Vec::new(); count];
        for (from, list) in self.successors.iter().enumerate() {
            for to in list {
                predecessors[*to].push(from);
            }
        }
        self.idom[0] = Some(0);
        let mut changed = true;
        while changed {
            changed = false;
            for block in order.iter().rev().copied().filter(|b| *b != 0) {
                let mut new: Option<usize> = None;
                for from in predecessors[block].iter().copied().filter(|p| self.idom[*p].is_some()) {
                    new = Some(match new {
                        None => from,
                        Some(other) => self.intersect(&number, from, other),
                    });
                }
                if new.is_some() && self.idom[block] != new {
                    self.idom[block] = new;
                    changed = true;
                }
            }
        }
    }

    fn intersect(&self, number: &[usize], mut a: usize, mut b: usize) -> usize {
        while a != b {
            while number[a] < number[b] {
                a = self.idom[a].unwrap_or(0);
            }
            while number[b] < number[a] {
                b = self.idom[b].unwrap_or(0);
            }
        }
        a
    }

    fn postorder(&self) -> Vec<usize> {
        let mut seen = vec![false; self.successors.len()];
        let mut order = Vec::new();
        let mut stack = vec![(0usize, 0usize)];
        seen[0] = true;
        while let Some((block, next)) = stack.last_mut() {
            // The last successor first: bodies of loops then stand before what follows the loop, as in the source.
            let successors = &self.successors[*block];
            match successors.len().checked_sub(*next + 1).map(|i| successors[i]) {
                Some(to) => {
                    *next += 1;
                    if !seen[to] {
                        seen[to] = true;
                        stack.push((to, 0));
                    }
                }
                None => {
                    order.push(*block);
                    stack.pop();
                }
            }
        }
        order
    }

    /// Every path from the entry to `b` passes `a`.
    pub(super) fn dominates(&self, a: OpRef, b: OpRef) -> bool {
        if a.block == b.block {
            return a.index <= b.index;
        }
        let (target, mut at) = (a.block.0 as usize, b.block.0 as usize);
        loop {
            match self.idom.get(at).copied().flatten() {
                Some(next) if next == target => return true,
                Some(next) if next != at => at = next,
                _ => return false,
            }
        }
    }

    /// Whether control can come from after op `a` to op `b`.
    pub(super) fn reaches(&self, a: OpRef, b: OpRef) -> bool {
        if a.block == b.block && a.index < b.index {
            return true;
        }
        let to = b.block.0 as usize;
        self.reach
            .get(a.block.0 as usize)
            .is_some_and(|bits| bits.get(to / 64).is_some_and(|w| w & (1 << (to % 64)) != 0))
    }

    /// Sorts ops in the order in which control meets them.
    pub(super) fn position(&self, at: OpRef) -> (usize, u32) {
        (self.order.get(at.block.0 as usize).copied().unwrap_or(usize::MAX), at.index)
    }

    fn reachable(&self, from: usize) -> Vec<u64> {
        let mut seen = vec![0u64; self.successors.len().div_ceil(64)];
        let mut stack: Vec<usize> = self.successors[from].clone();
        while let Some(block) = stack.pop() {
            let (word, bit) = (block / 64, 1 << (block % 64));
            if seen[word] & bit == 0 {
                seen[word] |= bit;
                stack.extend(&self.successors[block]);
            }
        }
        seen
    }
}
