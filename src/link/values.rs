//! Evaluation of operands to [`Value`]s.

use std::collections::HashMap;

use super::Program;
use super::flow::{Def, Step, UseSite};
use super::fold;
use super::rebuild::{is_closed, once, rewrite, substitute};
use super::tables::tables;
use crate::ir::{
    At, Call, CallValue, Callee, Exit, FormatPiece, Function, FunctionId, FunctionKind, Lit, OpKind, OpRef, Operand,
    Piece, Rvalue, Shared, TypeKind, UnaryOp, Use, Value, Var, leaf,
};

/// Nested variables and calls that one question may follow, beyond receiver chains.
const DEPTH: usize = 40;

/// Stands for a function's result among variables.
const RESULT: u32 = u32::MAX;

/// One question.
///
/// Results are kept per function once they depend on nothing that is still being evaluated; `low` is the lowest entry of
/// the stack that the current evaluation ran into.
pub(super) struct Eval<'p> {
    pub(super) program: &'p Program,
    stack: Vec<(FunctionId, u32)>,
    low: usize,
    /// Results that are not final, for this question only.
    local: HashMap<(FunctionId, u32), Value>,
    /// Builder variables being followed, each at a place.
    pub(super) active: Vec<(FunctionId, Var, OpRef)>,
    /// Those followed already.
    pub(super) built: HashMap<(FunctionId, Var, OpRef), Value>,
}

impl<'p> Eval<'p> {
    pub(super) fn new(program: &'p Program) -> Eval<'p> {
        Eval {
            program,
            stack: Vec::new(),
            low: usize::MAX,
            local: HashMap::new(),
            active: Vec::new(),
            built: HashMap::new(),
        }
    }

    /// The current results must not be kept.
    pub(super) fn not_final(&mut self) {
        self.low = 0;
    }

    pub(super) fn function(&self, id: FunctionId) -> &'p Function {
        self.program.function(id)
    }

    pub(super) fn operand(&mut self, f: FunctionId, operand: &Operand) -> Value {
        match operand {
            Operand::Lit(lit) => Value::Const(lit.clone()),
            Operand::Path(path) => self.path(f, path),
            Operand::Var(var, _) => self.var(f, *var),
        }
    }

    /// Const, static, unit variant or function item.
    fn path(&mut self, f: FunctionId, path: &str) -> Value {
        let path = self.program.resolve(f, path);
        if tables().fresh().path(&path) {
            return Value::Fresh(path);
        }
        let mut consts = self.consts(&path);
        if consts.is_empty()
            && let Some((parent, name)) = path.rsplit_once("::")
        {
            // An associated const of a trait: whatever its impls say.
            consts = self.program.implementations(parent, name);
            consts.retain(|id| self.function(*id).kind == FunctionKind::Const && self.function(*id).has_body());
        }
        if consts.is_empty() {
            consts = self.below(&path);
        }
        let live: Vec<FunctionId> = consts.iter().copied().filter(|id| !self.function(*id).test).collect();
        let consts = if live.is_empty() { consts } else { live };
        let value = consts.into_iter().map(|id| once(&self.result(id))).reduce(Value::join);
        match value {
            None | Some(Value::Unknown) => Value::Path(path),
            Some(value) => value,
        }
    }

    /// The one const of that name below the module that the path names: a module that only re-exports what is below it
    /// (`mod limits; pub use limits::*;`) may be in a file that nobody has read.
    fn below(&self, path: &str) -> Vec<FunctionId> {
        let Some((module, name)) = path.rsplit_once("::") else { return Vec::new() };
        let below = |id: &FunctionId| {
            let rest = self.function(*id).path.strip_prefix(module).and_then(|rest| rest.strip_prefix("::"));
            rest.is_some_and(|rest| rest.ends_with(&format!("::{name}")))
        };
        let all = self.program.index.consts.get(name).map_or(&[][..], Vec::as_slice);
        let found: Vec<FunctionId> = all.iter().copied().filter(below).filter(|id| !self.function(*id).test).collect();
        if found.len() == 1 { found } else { Vec::new() }
    }

    fn consts(&self, path: &str) -> Vec<FunctionId> {
        let ids = self.program.index.by_path.get(path).map_or(&[][..], Vec::as_slice);
        ids.iter().copied().filter(|id| self.function(*id).kind == FunctionKind::Const).collect()
    }

    pub(super) fn var(&mut self, f: FunctionId, var: Var) -> Value {
        for link in self.chain(f, var).into_iter().rev() {
            self.once(f, link.0);
        }
        self.once(f, var.0)
    }

    /// What a function returns, in its own terms.
    pub(super) fn result(&mut self, f: FunctionId) -> Value {
        self.once(f, RESULT)
    }

    /// Variables below `var` along receivers that have no value yet.
    fn chain(&self, f: FunctionId, var: Var) -> Vec<Var> {
        let function = self.function(f);
        let Some(memo) = self.program.memo.of(f, function) else { return Vec::new() };
        let mut out: Vec<Var> = Vec::new();
        let mut at = var;
        while out.len() < 512 {
            let Some([Def::Op(op)]) = memo.defuse.defs.get(at.0 as usize).map(Vec::as_slice) else { break };
            let below = match &function.op(*op).kind {
                OpKind::Call(call) if matches!(call.callee, Callee::Method(_)) => call.args.first(),
                OpKind::Let(Rvalue::Use(o) | Rvalue::Await(o) | Rvalue::Field(o, _)) => Some(o),
                _ => None,
            };
            let Some(Operand::Var(next, _)) = below else { break };
            if out.contains(next) || memo.values.get(next.0 as usize).is_none_or(|slot| slot.get().is_some()) {
                break;
            }
            out.push(*next);
            at = *next;
        }
        out
    }

    fn once(&mut self, f: FunctionId, what: u32) -> Value {
        let function = self.function(f);
        let Some(memo) = self.program.memo.of(f, function) else { return Value::Unknown };
        let slot = if what == RESULT { Some(&memo.ret) } else { memo.values.get(what as usize) };
        let Some(slot) = slot else { return Value::Unknown };
        if let Some(known) = slot.get() {
            return known.clone();
        }
        if let Some(known) = self.local.get(&(f, what)) {
            // Not final, so neither is what is made of it.
            self.low = 0;
            return known.clone();
        }
        if let Some(at) = self.stack.iter().position(|entry| *entry == (f, what)) {
            self.low = self.low.min(at);
            return Value::Unknown;
        }
        if self.stack.len() > DEPTH {
            self.low = 0;
            return Value::Unknown;
        }
        let outer = std::mem::replace(&mut self.low, usize::MAX);
        let level = self.stack.len();
        self.stack.push((f, what));
        let mut value = if what == RESULT { self.compute_result(f) } else { self.compute(f, Var(what)) };
        self.stack.pop();
        // What depends on itself is another value at each turn; it only equals itself.
        if self.low == level || value.size() > fold::MAX_NODES {
            value = Value::Unknown;
        }
        if value == Value::Unknown && what != RESULT {
            value = Value::Local(f, what);
        }
        if self.low >= level {
            let _ = slot.set(value.clone());
            self.low = outer;
        } else {
            self.local.insert((f, what), value.clone());
            self.low = self.low.min(outer);
        }
        value
    }

    fn compute_result(&mut self, f: FunctionId) -> Value {
        let returns = self.function(f).ops().filter_map(|(at, op)| match &op.kind {
            OpKind::Return(operand, Exit::Return) => Some((at, operand)),
            _ => None,
        });
        let values = returns.map(|(at, operand)| self.chained(f, operand, at));
        let values: Vec<Value> = values.filter(|v| !matches!(v, Value::Aggregate(path, _) if path == "Err")).collect();
        values.into_iter().reduce(Value::join).unwrap_or(Value::Unknown)
    }

    fn compute(&mut self, f: FunctionId, var: Var) -> Value {
        let function = self.function(f);
        let Some(memo) = self.program.memo.of(f, function) else { return Value::Unknown };
        if memo.defuse.uses[var.0 as usize].iter().any(|site| self.fills(f, site, var)) {
            return Value::Fresh("fill_bytes".to_owned());
        }
        match self.grown_text(f, var) {
            Some(text) => text,
            None => self.defined(f, var),
        }
    }

    /// All definitions of a variable joined.
    pub(super) fn defined(&mut self, f: FunctionId, var: Var) -> Value {
        let function = self.function(f);
        let Some(memo) = self.program.memo.of(f, function) else { return Value::Unknown };
        let mut out: Option<Value> = None;
        for def in &memo.defuse.defs[var.0 as usize] {
            let value = match def {
                Def::Param(i) => Value::Param(*i),
                Def::Capture(j) => self.capture(f, *j),
                Def::Op(at) => self.op_value(f, *at),
                Def::Pattern(scrutinee, way) => {
                    let base = self.operand(f, scrutinee);
                    self.project(f, base, way)
                }
            };
            out = Some(match out {
                None => value,
                Some(before) => before.join(value),
            });
        }
        out.unwrap_or(Value::Unknown)
    }

    /// Whether a call writes random bytes into the variable.
    fn fills(&self, f: FunctionId, site: &UseSite, var: Var) -> bool {
        let UseSite::Op(at) = site else { return false };
        let OpKind::Call(call) = &self.function(f).op(*at).kind else { return false };
        let target = call.args.iter().any(|a| matches!(a, Operand::Var(v, Use::RefMut) if *v == var));
        target
            && match &call.callee {
                Callee::Method(name) => tables().fresh().method(name),
                Callee::Path(path) => tables().fresh().function(&self.program.resolve(f, path)),
                _ => false,
            }
    }

    /// A captured variable: its value where that means the same everywhere, else a further parameter.
    fn capture(&mut self, f: FunctionId, j: u32) -> Value {
        if let Some((parent, operand)) = self.program.captured(f, j) {
            let value = self.operand(parent, &operand);
            if value != Value::Unknown && is_closed(&value) && !evaluated_anew(&value) {
                return value;
            }
        }
        Value::Param(self.function(f).params.len() as u32 + j)
    }

    /// The value of one definition alone.
    pub(super) fn op_value(&mut self, f: FunctionId, at: OpRef) -> Value {
        match &self.function(f).op(at).kind {
            OpKind::Let(value) => self.rvalue(f, value),
            OpKind::Call(call) => self.call(f, at, call),
            _ => Value::Unknown,
        }
    }

    fn rvalue(&mut self, f: FunctionId, value: &Rvalue) -> Value {
        match value {
            Rvalue::Use(operand) | Rvalue::Await(operand) => self.operand(f, operand),
            Rvalue::Cast(operand, ty) => fold::cast(self.operand(f, operand), ty),
            Rvalue::Field(base, name) => fold::field(self.operand(f, base), name),
            Rvalue::Tuple(list) => self.aggregate(f, "()".to_owned(), list),
            Rvalue::Array(list) => self.aggregate(f, "[]".to_owned(), list),
            Rvalue::Struct(path, fields, rest) => {
                let path = self.program.resolve(f, path);
                let mut out: Vec<(String, Value)> =
                    fields.iter().map(|(name, value)| (name.clone(), self.operand(f, value))).collect();
                if let Some(rest) = rest {
                    out.push(("..".to_owned(), self.operand(f, rest)));
                }
                Value::Aggregate(path, out.into())
            }
            Rvalue::Variant(path, list) => match (path.as_str(), list.as_slice()) {
                ("Ok", [value]) => self.operand(f, value),
                ("Some" | "Err", _) => self.aggregate(f, path.clone(), list),
                (_, [value]) if tables().sees_through_function(&self.program.resolve(f, path)) => {
                    self.operand(f, value)
                }
                _ => {
                    let path = self.program.resolve(f, path);
                    self.aggregate(f, path, list)
                }
            },
            Rvalue::Format(pieces) => fold::template(
                pieces
                    .iter()
                    .map(|piece| match piece {
                        FormatPiece::Text(text) => Piece::Text(text.clone()),
                        FormatPiece::Hole(operand) => Piece::Hole(self.operand(f, operand)),
                    })
                    .collect(),
            ),
            Rvalue::Unary(op, operand) => match (op, self.operand(f, operand)) {
                (UnaryOp::Not, Value::Const(Lit::Bool(b))) => Value::Const(Lit::Bool(!b)),
                (UnaryOp::Neg, Value::Const(Lit::Int(n))) => Value::Const(Lit::Int(n.saturating_neg())),
                (UnaryOp::Not, value) => Value::Operation("!".to_owned(), vec![value].into()),
                (UnaryOp::Neg, value) => Value::Operation("-".to_owned(), vec![value].into()),
            },
            Rvalue::Binary(op, a, b) => {
                let (a, b) = (self.operand(f, a), self.operand(f, b));
                fold::binary(*op, &a, &b)
            }
            Rvalue::Index(base, index) => {
                let (base, index) = (self.operand(f, base), self.operand(f, index));
                match (&base, index.as_int()) {
                    (Value::Aggregate(path, _), Some(i)) if path == "[]" => fold::field(base, &i.to_string()),
                    _ => Value::Operation("[]".to_owned(), vec![base, index].into()),
                }
            }
            Rvalue::Closure(id, _) => Value::Closure(*id),
            Rvalue::IncludeStr(path) => self.include(f, path),
            // The element of a `for` over a list that is written out.
            Rvalue::Unknown(of) if of.len() == 1 => match self.operand(f, &of[0]) {
                Value::Aggregate(path, members) if path == "[]" => {
                    members.into_iter().map(|m| m.1).reduce(Value::join).unwrap_or(Value::Unknown)
                }
                _ => Value::Unknown,
            },
            Rvalue::Matches(..) | Rvalue::Unknown(_) => Value::Unknown,
        }
    }

    fn aggregate(&mut self, f: FunctionId, path: String, list: &[Operand]) -> Value {
        let fields = list.iter().enumerate().map(|(i, operand)| (i.to_string(), self.operand(f, operand)));
        Value::Aggregate(path, fields.collect())
    }

    /// The text of an included file, if it is among the sources.
    fn include(&self, f: FunctionId, path: &str) -> Value {
        let own = &self.program.sources.get(self.function(f).file()).path;
        let mut parts: Vec<&str> = own.split('/').collect();
        parts.pop();
        for part in path.split(['/', '\\']) {
            match part {
                "" | "." => {}
                ".." => {
                    parts.pop();
                }
                part => parts.push(part),
            }
        }
        let wanted = parts.join("/");
        match self.program.sources.iter().find(|file| file.path == wanted) {
            Some(file) => Value::str(&*file.text),
            None => Value::Call(Shared::from(CallValue {
                name: "include_str!".to_owned(),
                receiver: String::new(),
                args: vec![Value::str(path)],
                generics: Vec::new(),
                at: At(None),
                conditional: false,
            })),
        }
    }

    fn project(&self, f: FunctionId, mut value: Value, way: &[Step]) -> Value {
        for step in way {
            value = match step {
                Step::Variant(path, 0) if matches!(path.as_str(), "Ok" | "Some") => fold::payload(value),
                Step::Variant(path, _) if path == "Err" => Value::Unknown,
                Step::Variant(path, i) => self.variant_field(f, value, path, &i.to_string()),
                Step::Field(path, name) => self.variant_field(f, value, path, name),
                Step::Tuple(i) => fold::field(value, &i.to_string()),
                Step::Opaque => Value::Unknown,
            };
        }
        value
    }

    /// Member of a struct or enum variant that a pattern has matched.
    fn variant_field(&self, f: FunctionId, value: Value, path: &str, member: &str) -> Value {
        let path = self.program.resolve(f, path);
        if self.program.type_def(&path).is_some_and(|def| def.kind == TypeKind::Struct) {
            return fold::field(value, member);
        }
        let variant = path.rsplit("::").next().unwrap_or(&path).to_owned();
        let same = |p: &str| p.rsplit("::").next() == Some(variant.as_str());
        match value {
            Value::Join(members) => members
                .into_iter()
                .filter(|m| !matches!(m, Value::Aggregate(p, _) | Value::Path(p) if !same(p)))
                .map(|m| self.variant_field(f, m, &path, member))
                .reduce(Value::join)
                .unwrap_or(Value::Unknown),
            Value::Aggregate(p, fields) if same(&p) => fold::field(Value::Aggregate(p, fields), member),
            Value::Aggregate(..) | Value::Path(_) => Value::Unknown,
            other => fold::field(other, &format!("{variant}.{member}")),
        }
    }
}

/// Whether a value is another one at each evaluation.
fn evaluated_anew(value: &Value) -> bool {
    value.has() & (leaf::FRESH | leaf::CLOCK | leaf::CALL) != 0
}

impl Program {
    /// See [`Program::instantiate`].
    pub(super) fn instantiate_with(&self, value: &Value, call: &Call, caller: FunctionId) -> Value {
        if value.has() & leaf::PARAM == 0 {
            return value.clone();
        }
        let function = self.function(caller);
        let at = function.calls().find(|(_, _, c)| std::ptr::eq(*c, call)).map(|(at, _, _)| at);
        let mut eval = Eval::new(self);
        match (at, self.memo.of(caller, function)) {
            (Some(at), Some(memo)) => {
                let args = memo.args(at, || call.args.iter().map(|arg| eval.chained(caller, arg, at)).collect());
                substitute(value, &args)
            }
            _ => substitute(value, &call.args.iter().map(|arg| eval.operand(caller, arg)).collect::<Vec<Value>>()),
        }
    }

    /// A value of `f` for frames in which its parameters mean nothing: they become [`Value::Local`]s of `f`.
    pub fn frozen(&self, f: FunctionId, value: &Value) -> Value {
        let params = &self.function(f).params;
        rewrite(value, leaf::FRAME, &|leaf| match leaf {
            Value::Param(i) => params.get(*i as usize).map(|var| Value::Local(f, var.0)),
            _ => None,
        })
    }

    /// A value for comparison with one of another function: parameters are not the same because their numbers are.
    pub fn abroad(&self, value: &Value) -> Value {
        rewrite(value, leaf::FRAME, &|leaf| matches!(leaf, Value::Param(_)).then_some(Value::Unknown))
    }

    /// A value in which parameters of `f` itself were [`Program::frozen`], back in the terms of `f`.
    pub fn thawed(&self, f: FunctionId, value: &Value) -> Value {
        let params = &self.function(f).params;
        rewrite(value, leaf::FRAME, &|leaf| match leaf {
            Value::Local(of, var) if *of == f => {
                params.iter().position(|param| param.0 == *var).map(|i| Value::Param(i as u32))
            }
            _ => None,
        })
    }

    /// See [`Program::outer`].
    pub(super) fn outer_of(&self, f: FunctionId, value: &Value) -> Option<(FunctionId, Value)> {
        let function = self.function(f);
        let parent = function.parent?;
        let own = function.params.len() as u32;
        let new = rewrite(value, leaf::FRAME, &|leaf| match leaf {
            Value::Param(i) if *i >= own => Some(match self.captured(f, i - own) {
                Some((_, operand)) => self.value(parent, &operand),
                None => Value::Unknown,
            }),
            // Its own parameters: nothing outside says what they are, but they equal themselves.
            Value::Param(i) => Some(match function.params.get(*i as usize) {
                Some(var) => Value::Local(f, var.0),
                None => Value::Unknown,
            }),
            _ => None,
        });
        Some((parent, new))
    }
}
