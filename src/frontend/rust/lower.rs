//! Bodies to blocks. One [`Lower`] per file; a [`Body`] per function on the way, closures nested in it.

mod call;
mod clean;
mod closure;
mod cond;
mod control;
mod expr;
mod format;
mod function;
mod join;
mod json;
mod literal;
mod macros;
mod pattern;
mod scope;
mod select;
mod stmt;
mod tokens;

use super::names::Names;
use super::places::Places;
use crate::frontend::ModuleContext;
use crate::ir::{
    Block, BlockId, Edge, EdgeKind, Function, FunctionId, Guard, Op, OpKind, Operand, Rvalue, Ty, Unit, Use, Var,
    VarInfo,
};
use crate::source::{Problem, ProblemKind, SourceFile, Span};
use scope::Scope;

use super::places::last as places_last;
pub(super) use function::Header;

/// Deepest nesting of expressions that is lowered; what is deeper becomes one unknown value and a problem.
const MAX_DEPTH: usize = 400;

/// What `?` yields on failure in a body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Carrier {
    Result,
    Option,
    #[default]
    Unknown,
}

impl Carrier {
    fn of(ty: &Ty) -> Carrier {
        match ty.last() {
            "Option" => Carrier::Option,
            name if name.ends_with("Result") => Carrier::Result,
            _ => Carrier::Unknown,
        }
    }
}

/// What the surroundings want of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Want {
    /// Its value, wherever it is.
    Value,
    /// Its value in this variable.
    Into(Var),
    /// Nothing but its effects.
    Nothing,
}

/// A function on the way.
#[derive(Default)]
struct Body {
    id: Option<FunctionId>,
    path: String,
    vars: Vec<VarInfo>,
    params: Vec<Var>,
    blocks: Vec<Block>,
    current: Current,
    scopes: Vec<Scope>,
    /// Temporaries that were consumed by value.
    moved: Vec<bool>,
    /// Outer variable, inner variable.
    captures: Vec<(Var, Var)>,
    /// `move` closure or block.
    by_move: bool,
    /// Sees the variables of the body around it (closures, async blocks).
    nested: bool,
    carrier: Carrier,
    /// Closures and async blocks so far, for their names.
    closures: u32,
    /// Address of the async block that is this body's own tail: lowered as part of it.
    tail: Option<*const syn::ExprAsync>,
}

/// The block that ops go to.
#[derive(Clone, Copy)]
struct Current(BlockId);

impl Default for Current {
    fn default() -> Self {
        Current(BlockId(0))
    }
}

/// Lowers the items of one file.
pub(super) struct Lower<'a> {
    pub(super) file: &'a SourceFile,
    pub(super) places: Places<'a>,
    pub(super) names: Names,
    pub(super) unit: Unit,
    /// Finished functions by id; `None` while on the way.
    pub(super) functions: Vec<Option<Function>>,
    /// Macros that the file defines.
    pub(super) macros: crate::frontend::rust::macro_rules::fill::Macros,
    /// Invocations around the current place.
    pub(super) expansions: usize,
    /// Current item is test code.
    pub(super) test: bool,
    body: Body,
    outer: Vec<Body>,
    depth: usize,
}

impl<'a> Lower<'a> {
    pub(super) fn new(file: &'a SourceFile, module: &ModuleContext, places: Places<'a>, names: Names) -> Self {
        Lower {
            file,
            places,
            names,
            unit: Unit::default(),
            functions: Vec::new(),
            macros: Default::default(),
            expansions: 0,
            test: module.test,
            body: Body::default(),
            outer: Vec::new(),
            depth: 0,
        }
    }

    /// Reports a part that was not lowered.
    pub(super) fn problem(&mut self, span: Span, message: impl Into<String>) {
        self.unit.problems.push(Problem {
            path: self.file.path.clone(),
            span: Some(span),
            kind: ProblemKind::PartUnread,
            message: message.into(),
        });
    }

    fn new_block(&mut self) -> BlockId {
        self.body.blocks.push(Block::default());
        BlockId(self.body.blocks.len() as u32 - 1)
    }

    fn current(&self) -> BlockId {
        self.body.current.0
    }

    fn switch(&mut self, block: BlockId) {
        self.body.current = Current(block);
    }

    /// What follows is not reached from here.
    fn unreachable(&mut self) {
        let block = self.new_block();
        self.switch(block);
    }

    fn new_var(&mut self, info: VarInfo) -> Var {
        self.body.vars.push(info);
        self.body.moved.push(false);
        Var(self.body.vars.len() as u32 - 1)
    }

    /// A temporary that nothing drops.
    fn temp(&mut self, span: Span) -> Var {
        self.new_var(VarInfo { name: None, ty: Ty::unknown(), span, by_ref: false, mutable: false })
    }

    /// A temporary that holds the result of a call: dropped at the end of its statement unless it is consumed.
    fn result(&mut self, want: Want, span: Span) -> Var {
        match want {
            Want::Into(var) => var,
            Want::Value | Want::Nothing => {
                let var = self.temp(span);
                self.register_temp(var);
                var
            }
        }
    }

    /// Destination of pure data flow: never dropped.
    fn plain(&mut self, want: Want, span: Span) -> Var {
        match want {
            Want::Into(var) => var,
            Want::Value | Want::Nothing => self.temp(span),
        }
    }

    fn block_mut(&mut self, id: BlockId) -> &mut Block {
        let at = (id.0 as usize).min(self.body.blocks.len().saturating_sub(1));
        if self.body.blocks.is_empty() {
            self.body.blocks.push(Block::default());
        }
        &mut self.body.blocks[at]
    }

    fn emit(&mut self, span: Span, dst: Option<Var>, kind: OpKind) {
        match &kind {
            OpKind::Let(rvalue) => {
                for operand in rvalue_operands(rvalue) {
                    mark(&mut self.body.moved, operand);
                }
            }
            OpKind::Call(call) => {
                for operand in &call.args {
                    mark(&mut self.body.moved, operand);
                }
            }
            OpKind::Store(_, _, operand) | OpKind::Return(operand, _) => mark(&mut self.body.moved, operand),
            OpKind::Drop(_) => {}
        }
        let current = self.current();
        self.block_mut(current).ops.push(Op { span, dst, kind });
    }

    fn assign(&mut self, span: Span, dst: Var, rvalue: Rvalue) {
        self.emit(span, Some(dst), OpKind::Let(rvalue));
    }

    /// Pure data flow into what is wanted.
    fn compute(&mut self, span: Span, want: Want, rvalue: Rvalue) -> Operand {
        let dst = self.plain(want, span);
        self.assign(span, dst, rvalue);
        Operand::Var(dst, Use::Move)
    }

    fn edge_from(&mut self, from: BlockId, to: BlockId, kind: EdgeKind, guard: Guard, span: Span) {
        self.block_mut(from).edges.push(Edge { to, kind, guard, span });
    }

    fn edge(&mut self, to: BlockId, kind: EdgeKind, guard: Guard, span: Span) {
        self.edge_from(self.current(), to, kind, guard, span);
    }

    fn jump(&mut self, to: BlockId, span: Span) {
        self.edge(to, EdgeKind::Plain, Guard::Always, span);
    }

    /// An unknown boolean made here: a choice that nothing decides.
    fn unknown_choice(&mut self, span: Span, on: Vec<Operand>) -> Guard {
        let var = self.temp(span);
        self.assign(span, var, Rvalue::Unknown(on));
        Guard::True(Operand::Var(var, Use::Ref))
    }
}

fn mark(moved: &mut [bool], operand: &Operand) {
    if let Operand::Var(var, Use::Move) = operand
        && let Some(flag) = moved.get_mut(var.0 as usize)
    {
        *flag = true;
    }
}

/// The operands of an rvalue.
fn rvalue_operands(rvalue: &Rvalue) -> Vec<&Operand> {
    match rvalue {
        Rvalue::Use(a) | Rvalue::Field(a, _) | Rvalue::Unary(_, a) | Rvalue::Cast(a, _) | Rvalue::Await(a) => vec![a],
        Rvalue::Matches(a, _) => vec![a],
        Rvalue::Tuple(list) | Rvalue::Array(list) | Rvalue::Variant(_, list) => list.iter().collect(),
        Rvalue::Closure(_, list) | Rvalue::Unknown(list) => list.iter().collect(),
        Rvalue::Struct(_, fields, rest) => fields.iter().map(|(_, o)| o).chain(rest).collect(),
        Rvalue::Format(pieces) => pieces
            .iter()
            .filter_map(|p| match p {
                crate::ir::FormatPiece::Hole(o) => Some(o),
                crate::ir::FormatPiece::Text(_) => None,
            })
            .collect(),
        Rvalue::Binary(_, a, b) | Rvalue::Index(a, b) => vec![a, b],
        Rvalue::IncludeStr(_) => Vec::new(),
    }
}

/// The same operand, used another way.
fn used(operand: Operand, mode: Use) -> Operand {
    match operand {
        Operand::Var(var, _) => Operand::Var(var, mode),
        other => other,
    }
}
