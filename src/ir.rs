//! The intermediate representation: [`Function`]s made of [`Block`]s and [`Edge`]s that carry [`Op`]s.
//!
//! A front end lowers syntax to three-address code: every call, field read and operator is an [`Op`] of its own with a
//! destination [`Var`], in evaluation order, with a real span. It knows no client crate. The model layer then hangs a
//! [`RoundTrip`] on each [`Call`] that it understands; from there on nobody looks at syntax again.

pub mod dump;
mod effect;
mod shape;
mod shared;
mod ty;
mod value;

pub use effect::*;
pub use shape::Shape;
pub use shared::{Shared, Weigh, Weight, leaf};
pub use ty::*;
pub use value::*;

use crate::source::{FileId, Problem, Span};

/// Index of a [`Function`]; per [`Unit`] as the front end numbers them, per program after linking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FunctionId(pub u32);

/// Index of a [`Block`] in its function. Block 0 is the entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockId(pub u32);

/// Index of a variable (named or temporary) in its function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Var(pub u32);

/// What a front end returns for one file.
#[derive(Clone, Debug, Default)]
pub struct Unit {
    /// All lowered functions, closures, async blocks, consts and scripts of the file; ids are indices into this.
    pub functions: Vec<Function>,
    /// Structs, enums, traits, aliases.
    pub types: Vec<TypeDef>,
    /// `impl` blocks.
    pub impls: Vec<ImplDef>,
    /// `use` declarations that other modules can see or that could not be resolved inside the file (globs, `pub use`).
    pub uses: Vec<UseDef>,
    /// Modules declared here without a body (`mod x;`): full module path, and the `#[path]` if given.
    pub modules: Vec<(String, Option<String>)>,
    /// What could not be read.
    pub problems: Vec<Problem>,
    /// Macro bodies or opaque tokens that hold lock words but could not be lowered (DESIGN: "blindness shows").
    pub opaque: Vec<Span>,
}

/// Why a [`Function`] exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FunctionKind {
    /// `fn` item, method, associated function.
    Item,
    /// `fn drop` of an `impl Drop`.
    Drop,
    /// Closure (sync or async).
    Closure,
    /// `async` block that is not awaited where it stands.
    AsyncBlock,
    /// Initialiser of a `const`, `static`, associated const; returns its value.
    Const,
    /// Body of a `macro_rules!` arm; the `$x` fragments are its parameters.
    Macro,
    /// A Lua script.
    Script,
    /// Statements of one SQL file.
    SqlFile,
    /// Body of a SQL function, procedure or trigger.
    SqlBody,
}

/// A lowered unit: parameters and control flow.
#[derive(Clone, Debug)]
pub struct Function {
    /// Full path: `krate::module::Type::name`; closures and async blocks get `parent::{closure#n}`.
    pub path: String,
    /// Last segment.
    pub name: String,
    /// Module the function stands in (`krate::module`), for resolving names through globs.
    pub module: String,
    /// Self type's path, for methods and associated functions.
    pub owner: Option<String>,
    /// Trait implemented (for `impl Trait for Owner`) or defined in (a default method).
    pub owner_trait: Option<String>,
    /// Enclosing function of a closure or async block.
    pub parent: Option<FunctionId>,
    /// Why it exists.
    pub kind: FunctionKind,
    /// The name (or the `|`, `async`), where "in this function" points.
    pub span: Span,
    /// The whole item.
    pub whole: Span,
    /// Parameters in order, `self` first. A destructured parameter gets a var here and [`Op`]s that take it apart.
    pub params: Vec<Var>,
    /// Captured outer variables, as inner vars; aligned with [`Rvalue::Closure`]'s operands.
    pub captures: Vec<Var>,
    /// All variables, indexed by [`Var`].
    pub vars: Vec<VarInfo>,
    /// Declared return type (inside the future for `async fn`).
    pub ret: Ty,
    /// Generic parameters with their bounds: `T` -> types of the bounds.
    pub generics: Vec<(String, Vec<Ty>)>,
    /// `async fn`, async closure or async block.
    pub is_async: bool,
    /// Under `#[cfg(test)]`, `#[test]` and kin, or in a tests/benches/examples folder.
    pub test: bool,
    /// Visible outside its crate as far as can be seen (`pub`).
    pub public: bool,
    /// Control flow; never empty for a function with a body. A trait method without body has none.
    pub blocks: Vec<Block>,
}

/// A variable.
#[derive(Clone, Debug)]
pub struct VarInfo {
    /// Source name; `None` for temporaries.
    pub name: Option<String>,
    /// Declared type ([`Ty::unknown`] when inferred).
    pub ty: Ty,
    /// Where it is declared.
    pub span: Span,
    /// Declared as a reference (`&T`, `&mut T`, `&self`): going out of scope drops nothing.
    pub by_ref: bool,
    /// `let mut`, `mut x`, `&mut`.
    pub mutable: bool,
}

/// Straight-line [`Op`]s, then a choice of [`Edge`]s. A block without edges ends in [`OpKind::Return`] or diverges.
#[derive(Clone, Debug, Default)]
pub struct Block {
    /// Ops in evaluation order.
    pub ops: Vec<Op>,
    /// Tried in order: the first whose guard surely holds is taken; those that may hold are all taken.
    pub edges: Vec<Edge>,
}

/// A transfer of control.
#[derive(Clone, Debug)]
pub struct Edge {
    /// Target.
    pub to: BlockId,
    /// Why control moves.
    pub kind: EdgeKind,
    /// When it is taken.
    pub guard: Guard,
    /// The `?`, the arm's pattern, the condition.
    pub span: Span,
}

/// Why control moves along an [`Edge`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EdgeKind {
    /// Ordinary flow.
    Plain,
    /// The failing side of `?`.
    Question,
    /// The future is dropped here: another arm of `select!` won, a `timeout` elapsed, a sibling of `try_join!` failed.
    Cancel,
    /// Back edge of a loop.
    Back,
}

/// When an [`Edge`] is taken. `Always` after others means "otherwise".
#[derive(Clone, Debug)]
pub enum Guard {
    /// Unconditionally.
    Always,
    /// The operand is `true`.
    True(Operand),
    /// The operand is `false`.
    False(Operand),
    /// The operand matches; the pattern's bindings are assigned on the way.
    Matches(Operand, Pattern),
}

/// One step.
#[derive(Clone, Debug)]
pub struct Op {
    /// Where: for calls the method or function **name** (the line on which a finding stands).
    pub span: Span,
    /// Result variable, if any.
    pub dst: Option<Var>,
    /// What happens.
    pub kind: OpKind,
}

/// What an [`Op`] does.
#[derive(Clone, Debug)]
pub enum OpKind {
    /// Pure data flow.
    Let(Rvalue),
    /// A call; effects, if any are known, hang on it.
    Call(Box<Call>),
    /// A variable goes out of scope (block end, `?`, `return`, `break`, reassignment, end of statement for temporaries,
    /// `let _ = ..`, `drop(x)`). No-op if on this path it was moved away, dropped before, or never assigned. Dropping guards is decided by the analysis from this.
    Drop(Var),
    /// Assignment to a place behind a field: `self.leader = x`, `*flag = x` (base, field path joined by `.`, value). The path is
    /// `*` for a plain dereference; elements of an indexed place are `[]`.
    Store(Operand, String, Operand),
    /// Leaves the function.
    Return(Operand, Exit),
}

/// How a function is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Exit {
    /// Tail expression or `return`.
    Return,
    /// `?`.
    Question,
    /// `panic!`, `unwrap` on a known failure, `process::exit`, `unreachable!`.
    Diverge,
}

/// An operand of an op.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    /// Literal.
    Lit(Lit),
    /// Variable and how it is used.
    Var(Var, Use),
    /// Const, static, unit struct, unit variant or function item: its path, resolved through `use` as far as the file shows.
    Path(String),
}

/// How a variable is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Use {
    /// By value: a non-`Copy` value is gone afterwards.
    Move,
    /// `&x`, method receivers whose mode is not known, field reads.
    Ref,
    /// `&mut x`.
    RefMut,
}

/// Pure data flow.
#[derive(Clone, Debug)]
pub enum Rvalue {
    /// Copy or move.
    Use(Operand),
    /// `base.name`, `base.0`.
    Field(Operand, String),
    /// `(a, b)`; `()` is the empty tuple.
    Tuple(Vec<Operand>),
    /// `[a, b]`, `vec![a, b]`.
    Array(Vec<Operand>),
    /// `Path { f: x, ..rest }`.
    Struct(String, Vec<(String, Operand)>, Option<Operand>),
    /// `Some(x)`, `Ok(x)`, `Err(e)`, `Enum::V(x)`, `Newtype(x)`.
    Variant(String, Vec<Operand>),
    /// `format!`, `concat!`, `format_args!` and string `+`.
    Format(Vec<FormatPiece>),
    /// `!x`, `-x`.
    Unary(UnaryOp, Operand),
    /// `a == b`, `a && b` (only when both sides are pure; otherwise lowered to control flow).
    Binary(BinaryOp, Operand, Operand),
    /// `x as T`.
    Cast(Operand, Ty),
    /// `x.await`.
    Await(Operand),
    /// `a[i]`.
    Index(Operand, Operand),
    /// Closure or un-awaited async block with its captured outer variables.
    Closure(FunctionId, Vec<Operand>),
    /// `matches!(x, pattern)` without guard.
    Matches(Operand, Pattern),
    /// `include_str!("path")`: the path as written, relative to the file.
    IncludeStr(String),
    /// Anything else: depends on these.
    Unknown(Vec<Operand>),
}

/// Part of a format string.
#[derive(Clone, Debug)]
pub enum FormatPiece {
    /// Constant text.
    Text(String),
    /// `{}` with its argument.
    Hole(Operand),
}

/// Unary operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnaryOp {
    /// `!`
    Not,
    /// `-`
    Neg,
}

/// Binary operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum BinaryOp {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    Add,
    Sub,
    Mul,
    Div,
    Rem,
    And,
    Or,
    /// `^ & | << >>`
    Bits,
}

/// A pattern.
#[derive(Clone, Debug)]
pub enum Pattern {
    /// `_`, `..`
    Wild,
    /// `x`, `ref x`, `x @ sub`.
    Bind(Var, Option<Box<Pattern>>),
    /// Literal.
    Lit(Lit),
    /// `None`, `Enum::Unit`, `CONST`.
    Path(String),
    /// `Some(p)`, `Enum::V(p, ..)`; the flag says that `..` was present (fewer patterns than fields).
    Variant(String, Vec<Pattern>, bool),
    /// `Type { f: p, .. }`.
    Struct(String, Vec<(String, Pattern)>),
    /// `(p, q)`; the flag as in `Variant`.
    Tuple(Vec<Pattern>, bool),
    /// `p | q`.
    Or(Vec<Pattern>),
    /// Ranges, slices and what else is not evaluated, with the variables it binds.
    Opaque(Vec<Var>),
}

/// A call.
#[derive(Clone, Debug)]
pub struct Call {
    /// What is called.
    pub callee: Callee,
    /// Arguments; for a method call the receiver is the first.
    pub args: Vec<Operand>,
    /// Turbofish types.
    pub generics: Vec<Ty>,
    /// The whole call expression from the start of its receiver chain, for fixes and labels.
    pub whole: Span,
    /// If the future of this call can be dropped half way (operand of `select!`, `timeout`, `try_join!`): where control goes then.
    pub cancel: Option<BlockId>,
    /// Workspace functions this may reach, filled by linking; several for trait methods.
    pub targets: Vec<FunctionId>,
    /// What it does on the wire, filled by the model layer.
    pub effect: Option<Box<RoundTrip>>,
}

/// What is called.
#[derive(Clone, Debug, PartialEq)]
pub enum Callee {
    /// Free or associated function, path resolved through `use`, `Self` replaced by the owner's path.
    Path(String),
    /// Method by name; the receiver is `args[0]`.
    Method(String),
    /// A closure or function value: `f(x)`, `(self.hook)(x)`.
    Value(Operand),
    /// A macro that is not lowered itself (`sqlx::query!`, `json!`, a workspace `macro_rules!`), path resolved through `use`;
    /// its arguments as far as they parse as expressions.
    Macro(String),
}

impl Function {
    /// Whether the function has a body.
    pub fn has_body(&self) -> bool {
        !self.blocks.is_empty()
    }

    /// The block of an id.
    pub fn block(&self, id: BlockId) -> &Block {
        &self.blocks[id.0 as usize]
    }

    /// The variable of an id.
    pub fn var(&self, var: Var) -> &VarInfo {
        &self.vars[var.0 as usize]
    }

    /// All ops with their places, in block order.
    pub fn ops(&self) -> impl Iterator<Item = (OpRef, &Op)> {
        self.blocks.iter().enumerate().flat_map(|(b, block)| {
            block.ops.iter().enumerate().map(move |(i, op)| (OpRef { block: BlockId(b as u32), index: i as u32 }, op))
        })
    }

    /// The op at a place.
    pub fn op(&self, at: OpRef) -> &Op {
        &self.blocks[at.block.0 as usize].ops[at.index as usize]
    }

    /// All calls with their places.
    pub fn calls(&self) -> impl Iterator<Item = (OpRef, &Op, &Call)> {
        self.ops().filter_map(|(at, op)| match &op.kind {
            OpKind::Call(call) => Some((at, op, &**call)),
            _ => None,
        })
    }

    /// File of the function.
    pub fn file(&self) -> FileId {
        self.span.file
    }
}

/// Place of an [`Op`] in its function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OpRef {
    /// Block.
    pub block: BlockId,
    /// Index in the block.
    pub index: u32,
}

/// Place of an [`Op`] in the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Site {
    /// Function.
    pub function: FunctionId,
    /// Op in it.
    pub at: OpRef,
}

impl Call {
    /// Name of the method, function or macro, without its path.
    pub fn name(&self) -> &str {
        match &self.callee {
            Callee::Path(path) | Callee::Macro(path) => path.rsplit("::").next().unwrap_or(path),
            Callee::Method(name) => name,
            Callee::Value(_) => "",
        }
    }
}
