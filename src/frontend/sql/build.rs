//! Builds one [`Function`] block by block.

use super::ast::{Expr, ExprKind};
use super::tokens::Dialect;
use crate::ir::*;
use crate::source::{FileId, Span};
use std::collections::BTreeMap;

/// Callee of every SQL statement in a lowered unit. Arguments: text, byte offset of the text in the file (negative: the
/// text was put together, its places are that of the call), kind of session ([`Session`]), then for each variable of the
/// routine that the text may name: its name, the variable.
pub const STATEMENT: &str = "sql::statement";
/// Callee of DROP FUNCTION and kin; the argument is the name.
pub const DROP: &str = "sql::drop";
/// Prefix of the paths of SQL functions and procedures.
pub const FUNCTION: &str = "sql::function::";

/// What a statement of a file runs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Session {
    /// Body of a function: the caller's transaction.
    Body,
    /// A file that its runner wraps in a transaction, or sends as one query.
    Transaction,
    /// A script for psql: one session, autocommit.
    Script,
    /// Unknown.
    Unknown,
}

impl Session {
    /// The word in the call's arguments.
    pub fn word(self) -> &'static str {
        match self {
            Session::Body => "body",
            Session::Transaction => "transaction",
            Session::Script => "script",
            Session::Unknown => "unknown",
        }
    }

    /// The session of a word.
    pub fn of(word: &str) -> Session {
        match word {
            "body" => Session::Body,
            "transaction" => Session::Transaction,
            "script" => Session::Script,
            _ => Session::Unknown,
        }
    }
}

/// A function under construction.
pub(super) struct Builder<'a> {
    pub file: FileId,
    pub text: &'a str,
    pub dialect: Dialect,
    pub session: Session,
    pub vars: Vec<VarInfo>,
    pub blocks: Vec<Block>,
    pub at: BlockId,
    /// Variables of the routine by name; inner declarations shadow outer ones.
    pub names: BTreeMap<String, Var>,
    /// `FOUND`: what the last statement said.
    pub found: Option<Var>,
    /// Where an error goes: the handler of the innermost block that has one.
    pub handlers: Vec<BlockId>,
    /// Number of `?` seen, for files.
    pub questions: usize,
    /// Texts of EXECUTE that define routines, as ranges of the text, and whether they are formats.
    pub definitions: Vec<(std::ops::Range<usize>, bool)>,
}

impl<'a> Builder<'a> {
    pub fn new(file: FileId, text: &'a str, dialect: Dialect, session: Session) -> Self {
        Builder {
            file,
            text,
            dialect,
            session,
            vars: Vec::new(),
            blocks: vec![Block::default()],
            at: BlockId(0),
            names: BTreeMap::new(),
            found: None,
            handlers: Vec::new(),
            questions: 0,
            definitions: Vec::new(),
        }
    }

    pub fn span(&self, range: std::ops::Range<usize>) -> Span {
        Span::new(self.file, range.start, range.end)
    }

    pub fn var(&mut self, name: Option<&str>, ty: Ty, span: Span) -> Var {
        let var = Var(self.vars.len() as u32);
        self.vars.push(VarInfo { name: name.map(str::to_string), ty, span, by_ref: false, mutable: name.is_some() });
        if let Some(name) = name {
            self.names.insert(name.to_string(), var);
        }
        var
    }

    pub fn block(&mut self) -> BlockId {
        self.blocks.push(Block::default());
        BlockId(self.blocks.len() as u32 - 1)
    }

    pub fn op(&mut self, span: Span, dst: Option<Var>, kind: OpKind) {
        self.blocks[self.at.0 as usize].ops.push(Op { span, dst, kind });
    }

    pub fn edge(&mut self, to: BlockId, kind: EdgeKind, guard: Guard, span: Span) {
        self.blocks[self.at.0 as usize].edges.push(Edge { to, kind, guard, span });
    }

    /// Whether the current block already ends in edges or a return.
    pub fn ended(&self) -> bool {
        let block = &self.blocks[self.at.0 as usize];
        !block.edges.is_empty() || matches!(block.ops.last().map(|o| &o.kind), Some(OpKind::Return(..)))
    }

    /// Goes on in `to`, unless the block has ended.
    pub fn go(&mut self, to: BlockId, kind: EdgeKind, span: Span) {
        if !self.ended() {
            self.edge(to, kind, Guard::Always, span);
        }
    }

    /// The statement at hand may fail: control may go to the handler, or leave the routine.
    pub fn may_raise(&mut self, span: Span) {
        let raised = self.var(None, Ty::path("bool"), span);
        self.op(span, Some(raised), OpKind::Let(Rvalue::Unknown(Vec::new())));
        let handler = self.handlers.last().copied();
        let target = handler.unwrap_or_else(|| self.block());
        let next = self.block();
        self.edge(target, EdgeKind::Question, Guard::True(Operand::Var(raised, Use::Ref)), span);
        self.edge(next, EdgeKind::Plain, Guard::Always, span);
        if handler.is_none() {
            self.at = target;
            self.op(span, None, OpKind::Return(Operand::Lit(Lit::Unit), Exit::Question));
        }
        self.at = next;
    }

    /// A statement: `text` as it is sent, `base` where it lies in the file. Gives the variable of its outcome.
    pub fn statement(&mut self, span: Span, whole: Span, text: String, base: Option<i64>, mentions: &[String]) -> Var {
        let dst = self.var(None, Ty::unknown(), span);
        let mut args = vec![
            Operand::Lit(Lit::Str(text)),
            Operand::Lit(Lit::Int(base.unwrap_or(-1))),
            Operand::Lit(Lit::Str(self.session.word().into())),
        ];
        for name in mentions {
            if let Some(var) = self.names.get(name) {
                args.push(Operand::Lit(Lit::Str(name.clone())));
                args.push(Operand::Var(*var, Use::Ref));
            }
        }
        self.call(span, whole, Callee::Path(STATEMENT.into()), args, dst);
        dst
    }

    pub fn call(&mut self, span: Span, whole: Span, callee: Callee, args: Vec<Operand>, dst: Var) {
        let call = Call { callee, args, generics: Vec::new(), whole, cancel: None, targets: Vec::new(), effect: None };
        self.op(span, Some(dst), OpKind::Call(Box::new(call)));
    }

    /// Field of a statement's outcome: a column by number, `found`, `row_count`.
    pub fn field(&mut self, span: Span, of: Var, name: &str, dst: Option<Var>) -> Var {
        let dst = dst.unwrap_or_else(|| self.var(None, Ty::unknown(), span));
        self.op(span, Some(dst), OpKind::Let(Rvalue::Field(Operand::Var(of, Use::Ref), name.into())));
        dst
    }

    /// Calls of workspace routines in an expression, as ops of their own.
    pub fn operand(&mut self, e: &Expr, depth: usize) -> Option<Operand> {
        let span = self.span(e.range.clone());
        if depth > 16 {
            return None;
        }
        match &e.kind {
            ExprKind::Str(s) => Some(Operand::Lit(Lit::Str(s.clone()))),
            ExprKind::Number(n) => n.parse().ok().map(|n| Operand::Lit(Lit::Int(n))),
            ExprKind::Bool(b) => Some(Operand::Lit(Lit::Bool(*b))),
            ExprKind::Column(path) if path.len() == 1 => {
                if path[0] == "found"
                    && let Some(found) = self.found
                {
                    return Some(Operand::Var(found, Use::Ref));
                }
                self.names.get(&path[0]).map(|var| Operand::Var(*var, Use::Ref))
            }
            ExprKind::Param(super::ast::Param::Position(i)) => {
                let var = Var(*i as u32);
                (self.session == Session::Body && *i < self.vars.len()).then_some(Operand::Var(var, Use::Ref))
            }
            ExprKind::Cast(inner, _) => self.operand(inner, depth + 1),
            ExprKind::List(list) if list.len() == 1 => self.operand(&list[0], depth + 1),
            ExprKind::Unary(op, inner) => {
                let inner = self.operand(inner, depth + 1)?;
                let rvalue = match op.as_str() {
                    "not" | "is not true" | "is false" => Rvalue::Unary(UnaryOp::Not, inner),
                    "is true" | "is not false" => Rvalue::Use(inner),
                    "-" => Rvalue::Unary(UnaryOp::Neg, inner),
                    _ => Rvalue::Unknown(vec![inner]),
                };
                Some(self.let_(span, rvalue))
            }
            ExprKind::Binary(op, l, r) => {
                let op = match op.as_str() {
                    "=" => BinaryOp::Eq,
                    "<>" => BinaryOp::Ne,
                    "<" => BinaryOp::Lt,
                    "<=" => BinaryOp::Le,
                    ">" => BinaryOp::Gt,
                    ">=" => BinaryOp::Ge,
                    "and" => BinaryOp::And,
                    "or" => BinaryOp::Or,
                    "+" => BinaryOp::Add,
                    "-" => BinaryOp::Sub,
                    _ => return None,
                };
                let (l, r) = (self.operand(l, depth + 1)?, self.operand(r, depth + 1)?);
                let (l, r) = (self.as_boolean(&r, &l), self.as_boolean(&l, &r));
                Some(self.let_(span, Rvalue::Binary(op, l, r)))
            }
            ExprKind::Call(f) if is_routine(&f.name) => Some(self.routine_call(f, span)),
            _ => None,
        }
    }

    /// `x`, or the truth value that a string is where it is compared with the boolean `other`.
    fn as_boolean(&self, other: &Operand, x: &Operand) -> Operand {
        let boolean = matches!(other, Operand::Var(v, _) if self.vars[v.0 as usize].ty == Ty::path("bool"));
        match x {
            Operand::Lit(Lit::Str(s)) if boolean => match s.to_ascii_lowercase().as_str() {
                "true" | "t" | "yes" | "on" | "1" => Operand::Lit(Lit::Bool(true)),
                "false" | "f" | "no" | "off" | "0" => Operand::Lit(Lit::Bool(false)),
                _ => x.clone(),
            },
            _ => x.clone(),
        }
    }

    /// A call of a routine that the workspace may define.
    pub fn routine_call(&mut self, f: &super::ast::Function, whole: Span) -> Operand {
        let args = f.args.iter().map(|a| self.operand(a, 8).unwrap_or_else(|| self.unknown(a))).collect();
        let span = self.span(f.range.clone());
        let dst = self.var(None, Ty::unknown(), span);
        self.call(span, whole, Callee::Path(format!("{FUNCTION}{}", f.last())), args, dst);
        Operand::Var(dst, Use::Ref)
    }

    fn unknown(&mut self, e: &Expr) -> Operand {
        let span = self.span(e.range.clone());
        self.let_(span, Rvalue::Unknown(Vec::new()))
    }

    fn let_(&mut self, span: Span, rvalue: Rvalue) -> Operand {
        let dst = self.var(None, Ty::unknown(), span);
        self.op(span, Some(dst), OpKind::Let(rvalue));
        Operand::Var(dst, Use::Ref)
    }
}

/// Whether a function name can be a routine of the workspace: it is none of the server's own.
pub(super) fn is_routine(name: &str) -> bool {
    const BUILTIN: &[&str] = &[
        "now",
        "coalesce",
        "count",
        "max",
        "min",
        "sum",
        "avg",
        "nextval",
        "currval",
        "setval",
        "array_agg",
        "string_agg",
        "json_agg",
        "jsonb_agg",
        "jsonb_build_object",
        "json_build_object",
        "jsonb_set",
        "to_jsonb",
        "to_json",
        "row_to_json",
        "lower",
        "upper",
        "length",
        "substring",
        "substr",
        "replace",
        "format",
        "concat",
        "concat_ws",
        "md5",
        "sha256",
        "digest",
        "encode",
        "decode",
        "abs",
        "greatest",
        "least",
        "nullif",
        "extract",
        "date_trunc",
        "age",
        "to_timestamp",
        "to_char",
        "clock_timestamp",
        "statement_timestamp",
        "hashtext",
        "hashtextextended",
        "gen_random_uuid",
        "uuid_generate_v4",
        "random",
        "generate_series",
        "unnest",
        "array_length",
        "array_append",
        "cardinality",
        "jsonb_array_elements",
        "jsonb_array_elements_text",
        "current_setting",
        "set_config",
        "quote_ident",
        "quote_literal",
        "exists",
        "any",
        "all",
        "some",
        "array",
        "row",
        "case",
        "interval",
        "make_interval",
        "row_number",
        "rank",
        "trim",
        "btrim",
        "left",
        "right",
        "floor",
        "ceil",
        "ceiling",
        "round",
        "mod",
        "power",
        "bool_and",
        "bool_or",
        "txid_current",
        "version",
        "to_regclass",
        "current_user",
        "session_user",
        "values",
        "cast",
        "position",
        "overlay",
        "regexp_replace",
        "split_part",
        "strpos",
        "convert_to",
        "dense_rank",
        "lag",
        "lead",
    ];
    let last = name.rsplit('.').next().unwrap_or(name);
    !last.is_empty() && !last.starts_with("pg_") && super::lock_function(last).is_none() && !BUILTIN.contains(&last)
}
