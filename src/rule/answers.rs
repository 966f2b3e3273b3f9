//! Who learns what a release or renewal answered: followed from the command through the helpers around it to their callers.

use std::collections::BTreeSet;

use super::Context;
use crate::analysis::fate::{self, Fate};
use crate::analysis::lock::Use;
use crate::analysis::slice::Slice;
use crate::analysis::{flow_tested, origin_call};
use crate::ir::{
    Atomicity, BlockId, Edge, EdgeKind, Exit, Function, FunctionId, FunctionKind, Guard, HandleKind, Lit, OpKind,
    Operand, Pattern, Rvalue, Shape, Site, Var,
};

use crate::source::Span;

/// What may be made of an answer without anybody having heard it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heed {
    /// A log line is enough.
    Logging,
    /// Something must come of it.
    Acting,
}

/// A call at which an answer gets lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lost {
    /// The call.
    pub site: Site,
    /// It is the command itself, or a helper whose own result is thrown away.
    pub command: bool,
}

/// What is asked about one call.
#[derive(Clone, Copy)]
struct Asked<'u> {
    site: Site,
    /// Its type cannot show the loss.
    silent: bool,
    command: bool,
    /// The loss comes as an error, or a helper has turned it into one: who looks at that has looked at the answer.
    as_error: bool,
    heed: Heed,
    /// Calls of neutral helpers that lead there, outermost first.
    around: &'u [Site],
    depth: u32,
}

impl Context<'_> {
    /// The calls at which the answer of a command gets lost, innermost first: the command itself, or calls of the helpers
    /// that hand it on. Empty where somebody hears it, or where that cannot be told.
    pub fn lost_answers(&self, used: &Use, heed: Heed) -> Vec<Lost> {
        let site = used.origin().site;
        let trip = origin_call(self.program, site).and_then(|c| c.effect.as_ref());
        let Some(reply) = trip.and_then(|t| t.reply.as_ref()) else { return Vec::new() };
        let silent = reply.held == reply.lost;
        if silent && !matches!(reply.held, Shape::Ok(_) | Shape::Unit) {
            return Vec::new();
        }
        let mut out = BTreeSet::new();
        let (_, around) = used.id.0.split_last().unwrap_or((&site, &[]));
        let as_error = matches!((&reply.held, &reply.lost), (Shape::Ok(_), Shape::Err(_)));
        self.follow(Asked { site, silent, command: true, as_error, heed, around, depth: 0 }, &mut out);
        out.into_iter().collect()
    }

    /// The calls at which an error of a command gets lost, of one whose answer says nothing of the owner.
    pub fn lost_errors(&self, used: &Use) -> Vec<Lost> {
        let site = used.origin().site;
        let (_, around) = used.id.0.split_last().unwrap_or((&site, &[]));
        let mut out = BTreeSet::new();
        let asked = Asked { site, silent: false, command: true, as_error: true, heed: Heed::Acting, around, depth: 0 };
        self.follow(asked, &mut out);
        out.into_iter().collect()
    }

    fn follow(&self, asked: Asked<'_>, out: &mut BTreeSet<Lost>) {
        let Asked { site, silent, command, heed, .. } = asked;
        let f = self.program.function(site.function);
        let lost = Lost { site, command };
        let Some(dst) = f.op(site.at).dst else {
            out.insert(lost);
            return;
        };
        if silent {
            // A type that cannot show the loss, wherever it goes.
            out.insert(lost);
            return;
        }
        let fate = if asked.as_error { fate::whole } else { fate::payload };
        match fate(self.program, f, dst) {
            Fate::Unseen => {
                out.insert(lost);
            }
            // Whoever calls is told by the error.
            Fate::Tested | Fate::Handed if asked.as_error && hands_error_on(f, dst) => self.callers_of(asked, out),
            Fate::Logged if heed == Heed::Acting => {
                out.insert(lost);
            }
            Fate::Tested if heed == Heed::Acting && only_logged(f, dst) => {
                out.insert(lost);
            }
            Fate::Returned => self.callers_of(asked, out),
            Fate::Tested if asked.as_error => {}
            Fate::Tested if refuses(f, dst) => self.callers_of(Asked { as_error: true, ..asked }, out),
            Fate::Tested if decides(f) => self.callers_of(asked, out),
            _ => {}
        }
    }

    /// The same question about the calls of a helper that hands the answer on.
    fn callers_of(&self, asked: Asked<'_>, out: &mut BTreeSet<Lost>) {
        let f = self.program.function(asked.site.function);
        if f.kind != FunctionKind::Item || asked.depth > 3 {
            return;
        }
        // A neutral helper serves other keys too: only the calls that lead to this one count.
        let (callers, around) = match asked.around.split_last() {
            Some((last, rest)) => (std::slice::from_ref(last), rest),
            None => (self.program.callers(asked.site.function), asked.around),
        };
        for site in callers.iter().copied().filter(|s| self.judged(s.function)) {
            if !self.in_drop(site.function) {
                let next = Asked { site, silent: false, command: false, around, depth: asked.depth + 1, ..asked };
                self.follow(next, out);
            }
        }
    }

    /// Where the answer of a command comes back: its name, or the call that runs a script made elsewhere in the function.
    pub fn answer_place(&self, used: &Use) -> Span {
        let site = used.origin().site;
        let whole = self.whole(site);
        let span = used.effect.span;
        let inside = span.file == whole.file && whole.start <= span.start && span.end <= whole.end;
        let trip = origin_call(self.program, site).and_then(|c| c.effect.as_ref());
        let script = trip.is_some_and(|t| t.atomicity == Atomicity::Script && t.handle.kind != HandleKind::Transaction);
        if script && !inside { self.op_span(site) } else { span }
    }

    /// Whether a function is a `Drop`, or a task or closure of one: nobody is left to tell.
    pub fn in_drop(&self, id: FunctionId) -> bool {
        let mut at = Some(id);
        while let Some(id) = at {
            let f = self.program.function(id);
            if f.kind == FunctionKind::Drop {
                return true;
            }
            at = f.parent;
        }
        false
    }

    /// Whether nothing but logging becomes of the whole result of a call, its error included.
    pub fn result_ignored(&self, site: Site) -> bool {
        let f = self.program.function(site.function);
        let Some(dst) = f.op(site.at).dst else { return true };
        match fate::whole(self.program, f, dst) {
            Fate::Unseen | Fate::Logged => true,
            Fate::Tested => only_logged(f, dst),
            _ => false,
        }
    }

    /// Whether every way on from a call leaves the function with an error: what failed there is told.
    pub fn fails_after(&self, site: Site) -> bool {
        let f = self.program.function(site.function);
        let slice = Slice::of(f);
        let exits: Vec<_> = f
            .ops()
            .filter(|(at, op)| {
                matches!(&op.kind, OpKind::Return(_, exit) if *exit != Exit::Diverge) && slice.reaches(site.at, *at)
            })
            .collect();
        !exits.is_empty()
            && exits.iter().all(|(at, op)| match &op.kind {
                OpKind::Return(_, Exit::Question) => true,
                OpKind::Return(value, _) => f.block(at.block).ops.iter().any(|o| makes_error(o, value)),
                _ => false,
            })
    }
}

/// Whether the error of a result leaves the function by `?`.
fn hands_error_on(f: &Function, dst: Var) -> bool {
    let slice = Slice::of(f);
    f.blocks
        .iter()
        .flat_map(|b| &b.edges)
        .any(|e| e.kind == EdgeKind::Question && flow_tested(&e.guard).is_some_and(|x| slice.sources(x).contains(&dst)))
}

/// Whether the op makes the `Err` that a value is.
fn makes_error(op: &crate::ir::Op, value: &crate::ir::Operand) -> bool {
    let is = |v: Var| matches!(value, crate::ir::Operand::Var(x, _) if *x == v);
    op.dst.is_some_and(is)
        && matches!(&op.kind, OpKind::Let(Rvalue::Variant(path, _)) if path.rsplit("::").next() == Some("Err"))
}

/// The function answers yes or no itself: what it tested decides what it says.
fn decides(f: &Function) -> bool {
    let ret = match f.ret.last() {
        "Option" => return true,
        last if last.ends_with("Result") => f.ret.success(),
        _ => f.ret.clone(),
    };
    !ret.is_unit() && !ret.is_unknown()
}

/// Whether an answer that is no error is made one: some way on from a test of it, and not all, ends with an `Err`.
fn refuses(f: &Function, dst: Var) -> bool {
    let slice = Slice::of(f);
    let failing = |block: &BlockId| {
        f.block(*block).ops.iter().any(
            |op| matches!(&op.kind, OpKind::Let(Rvalue::Variant(path, _)) if path.rsplit("::").next() == Some("Err")),
        )
    };
    f.blocks.iter().any(|block| {
        let answers: Vec<&Edge> = block.edges.iter().filter(|e| answered(e)).collect();
        let asks = answers.iter().any(|e| flow_tested(&e.guard).is_some_and(|x| slice.sources(x).contains(&dst)));
        if !asks {
            return false;
        }
        let ways: Vec<BTreeSet<BlockId>> = answers.iter().map(|e| ahead(f, e.to)).collect();
        ways.iter().flatten().any(|b| failing(b) && !ways.iter().all(|way| way.contains(b)))
    })
}

/// Whether an edge is taken for an answer, not for an error or a dropped future.
fn answered(edge: &Edge) -> bool {
    let error =
        matches!(&edge.guard, Guard::Matches(_, Pattern::Variant(path, ..)) if path.rsplit("::").next() == Some("Err"));
    !error && !matches!(edge.kind, EdgeKind::Question | EdgeKind::Cancel)
}

/// The blocks that control can come to from `from` on without a next round of a loop.
pub fn ahead(f: &Function, from: BlockId) -> BTreeSet<BlockId> {
    let mut seen = BTreeSet::new();
    let mut work = vec![from];
    while let Some(block) = work.pop() {
        if seen.insert(block) {
            let on = |e: &&Edge| !matches!(e.kind, EdgeKind::Cancel | EdgeKind::Back);
            work.extend(f.block(block).edges.iter().filter(on).map(|e| e.to));
        }
    }
    seen
}

/// Each test of the answer leads to the same place, whatever it says, with nothing but logging on the way.
fn only_logged(f: &Function, dst: Var) -> bool {
    let slice = Slice::of(f);
    let mut tests = 0;
    for (index, block) in f.blocks.iter().enumerate() {
        let asks = block.edges.iter().any(|e| flow_tested(&e.guard).is_some_and(|x| slice.sources(x).contains(&dst)));
        if !asks {
            continue;
        }
        tests += 1;
        let ways: Vec<BTreeSet<BlockId>> = block
            .edges
            .iter()
            .filter(|e| e.kind != EdgeKind::Cancel)
            .map(|e| quiet_way(f, e.to, BlockId(index as u32)))
            .collect();
        let Some((first, rest)) = ways.split_first() else { return false };
        if !first.iter().any(|b| rest.iter().all(|way| way.contains(b))) {
            return false;
        }
    }
    tests > 0
}

/// The blocks that control surely passes from `from` on while nothing but logging happens.
fn quiet_way(f: &Function, from: BlockId, test: BlockId) -> BTreeSet<BlockId> {
    let mut way = BTreeSet::new();
    let mut at = from;
    while at != test && way.insert(at) {
        let block = f.block(at);
        let acts = block.ops.iter().any(|op| match &op.kind {
            OpKind::Call(call) => !fate::looks_only(call),
            OpKind::Store(..) | OpKind::Return(..) => true,
            // An answer of its own, for a variable that other ways set too.
            OpKind::Let(Rvalue::Tuple(list)) => !list.is_empty(),
            OpKind::Let(Rvalue::Use(Operand::Lit(Lit::Unit))) => false,
            OpKind::Let(Rvalue::Use(_) | Rvalue::Variant(..) | Rvalue::Struct(..)) => true,
            OpKind::Let(_) => op.dst.is_some_and(|dst| f.var(dst).name.is_some()),
            OpKind::Drop(_) => false,
        });
        let mut next = block.edges.iter().filter(|e| e.kind != EdgeKind::Cancel);
        match (acts, next.next(), next.next()) {
            (false, Some(edge), None) => at = edge.to,
            _ => break,
        }
    }
    way
}
