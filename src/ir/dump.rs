//! Stable text form of the IR, for `cargo leaselint ir FILE` and golden tests.
//!
//! ```text
//! async fn app::lock(&self: app::Locker, key: str) -> Result<bool>
//! b0:
//!   _3 = call redis::cmd("SET")                 12:20
//!   _4 = call .arg(&_3, key)                    12:33
//!   _5 = await _4                               12:60
//!   Ok(ok) = _5 -> b1
//!   ? Err(_7) = _5 -> b2
//! ```
//! `x` is a use by value, `&x` by reference. Names that are declared twice in a function get their number: `x#5`.
//! Temporaries are `_n`.

use super::{
    Block, Callee, EdgeKind, Exit, FormatPiece, Function, FunctionKind, Guard, Lit, Op, OpKind, Operand, Pattern,
    Rvalue, Ty, TypeKind, UnaryOp, Unit, Use, Var,
};
use crate::source::SourceFile;
use std::fmt::Write;

/// All of a unit: types, impls, uses, functions, problems.
pub fn unit(unit: &Unit, file: &SourceFile) -> String {
    let mut out = String::new();
    for def in &unit.types {
        let kind = match def.kind {
            TypeKind::Struct => "struct",
            TypeKind::Enum => "enum",
            TypeKind::Trait => "trait",
            TypeKind::Alias => "type",
        };
        let fields: Vec<String> = def.fields.iter().map(|(name, ty)| format!("{name}: {ty}")).collect();
        let variants = if def.variants.is_empty() { String::new() } else { format!(" = {}", def.variants.join(" | ")) };
        let derives =
            if def.attributes.is_empty() { String::new() } else { format!(" #[{}]", def.attributes.join(", ")) };
        let _ = writeln!(
            out,
            "{kind} {}{} {{{}}}{variants}{derives}{}",
            def.path,
            generics(&def.generics),
            fields.join(", "),
            test(def.test)
        );
    }
    for def in &unit.impls {
        let of = def.trait_.as_ref().map(|t| format!("{t} for ")).unwrap_or_default();
        let types: Vec<String> = def.types.iter().map(|(name, ty)| format!("{name} = {ty}")).collect();
        let _ = writeln!(out, "impl {of}{} {{{}}}{}", def.self_ty, types.join(", "), test(def.test));
    }
    for item in &unit.uses {
        let public = if item.public { "pub " } else { "" };
        let _ = writeln!(out, "{public}use {} = {} in {}", item.name, item.path, item.module);
    }
    for (path, at) in &unit.modules {
        let at = at.as_ref().map(|at| format!(" = {at:?}")).unwrap_or_default();
        let _ = writeln!(out, "mod {path}{at}");
    }
    for (id, f) in unit.functions.iter().enumerate() {
        if !out.is_empty() {
            out.push('\n');
        }
        let _ = write!(out, "f{id}: ");
        out.push_str(&function(f, file));
    }
    for span in &unit.opaque {
        let (line, column) = file.line_column(span.start);
        let _ = writeln!(out, "\nopaque {line}:{column}");
    }
    for problem in &unit.problems {
        let place = problem.span.map(|s| file.line_column(s.start)).map(|(l, c)| format!("{l}:{c} "));
        let _ = writeln!(out, "\nproblem {}{}", place.unwrap_or_default(), problem.message);
    }
    out
}

/// One function.
pub fn function(function: &Function, file: &SourceFile) -> String {
    let printer = Printer { function, file };
    let mut out = String::new();
    printer.header(&mut out);
    for (at, block) in function.blocks.iter().enumerate() {
        let _ = writeln!(out, "b{at}:");
        printer.block(block, &mut out);
    }
    out
}

fn test(test: bool) -> &'static str {
    if test { " [test]" } else { "" }
}

fn generics(list: &[(String, Vec<Ty>)]) -> String {
    if list.is_empty() {
        return String::new();
    }
    let list: Vec<String> = list
        .iter()
        .map(|(name, bounds)| {
            let bounds: Vec<String> = bounds.iter().map(Ty::to_string).collect();
            if bounds.is_empty() { name.clone() } else { format!("{name}: {}", bounds.join(" + ")) }
        })
        .collect();
    format!("<{}>", list.join(", "))
}

struct Printer<'a> {
    function: &'a Function,
    file: &'a SourceFile,
}

impl Printer<'_> {
    fn header(&self, out: &mut String) {
        let f = self.function;
        let kind = match f.kind {
            FunctionKind::Item => "fn",
            FunctionKind::Drop => "drop fn",
            FunctionKind::Closure => "closure",
            FunctionKind::AsyncBlock => "block",
            FunctionKind::Const => "const",
            FunctionKind::Macro => "macro",
            FunctionKind::Script => "script",
            FunctionKind::SqlFile => "sql",
            FunctionKind::SqlBody => "sql body",
        };
        let params: Vec<String> = f.params.iter().map(|p| self.declaration(*p)).collect();
        let public = if f.public { "pub " } else { "" };
        let is_async = if f.is_async { "async " } else { "" };
        let _ = write!(out, "{public}{is_async}{kind} {}{}({})", f.path, generics(&f.generics), params.join(", "));
        if !f.ret.is_unknown() && !f.ret.is_unit() {
            let _ = write!(out, " -> {}", f.ret);
        }
        if !f.captures.is_empty() {
            let captures: Vec<String> = f.captures.iter().map(|p| self.declaration(*p)).collect();
            let _ = write!(out, " captures ({})", captures.join(", "));
        }
        if let Some(of) = &f.owner_trait {
            let _ = write!(out, " of {of}");
        }
        out.push_str(test(f.test));
        if f.blocks.is_empty() {
            out.push(';');
        }
        out.push('\n');
    }

    fn declaration(&self, var: Var) -> String {
        let info = self.function.var(var);
        let by_ref = if info.by_ref { "&" } else { "" };
        let ty = if info.ty.is_unknown() { String::new() } else { format!(": {}", info.ty) };
        format!("{by_ref}{}{ty}", self.name(var))
    }

    fn name(&self, var: Var) -> String {
        let Some(info) = self.function.vars.get(var.0 as usize) else { return format!("_{}?", var.0) };
        match &info.name {
            None => format!("_{}", var.0),
            Some(name) => {
                let unique = self.function.vars.iter().filter(|v| v.name.as_ref() == Some(name)).count() == 1;
                if unique { name.clone() } else { format!("{name}#{}", var.0) }
            }
        }
    }

    fn block(&self, block: &Block, out: &mut String) {
        let mut ops = block.ops.iter().peekable();
        while let Some(op) = ops.next() {
            let OpKind::Drop(var) = &op.kind else {
                self.op(op, &self.text(&op.kind), out);
                continue;
            };
            let mut names = vec![self.name(*var)];
            while let Some(next) = ops.next_if(|next| next.span == op.span) {
                let OpKind::Drop(var) = &next.kind else {
                    self.op(op, &format!("drop {}", names.join(", ")), out);
                    names.clear();
                    self.op(next, &self.text(&next.kind), out);
                    break;
                };
                names.push(self.name(*var));
            }
            if !names.is_empty() {
                self.op(op, &format!("drop {}", names.join(", ")), out);
            }
        }
        for edge in &block.edges {
            let kind = match edge.kind {
                EdgeKind::Plain => "",
                EdgeKind::Question => "? ",
                EdgeKind::Cancel => "cancel ",
                EdgeKind::Back => "back ",
            };
            let guard = match &edge.guard {
                Guard::Always => String::new(),
                Guard::True(o) => format!("if {} ", self.operand(o)),
                Guard::False(o) => format!("if !{} ", self.operand(o)),
                Guard::Matches(o, p) => format!("{} = {} ", self.pattern(p), self.operand(o)),
            };
            let _ = writeln!(out, "  {kind}{guard}-> b{}", edge.to.0);
        }
    }

    fn op(&self, op: &Op, text: &str, out: &mut String) {
        let dst = op.dst.map(|dst| format!("{}{} = ", self.name(dst), self.annotation(dst))).unwrap_or_default();
        let (line, column) = self.file.line_column(op.span.start);
        let _ = writeln!(out, "  {:<76} {line}:{column}", format!("{dst}{text}"));
    }

    fn text(&self, kind: &OpKind) -> String {
        match kind {
            OpKind::Let(rvalue) => self.rvalue(rvalue),
            OpKind::Call(call) => {
                let callee = match &call.callee {
                    Callee::Path(path) => path.clone(),
                    Callee::Method(name) => format!(".{name}"),
                    Callee::Value(value) => format!("({})", self.operand(value)),
                    Callee::Macro(path) => format!("{path}!"),
                };
                let generics: Vec<String> = call.generics.iter().map(Ty::to_string).collect();
                let generics = if generics.is_empty() { String::new() } else { format!("::<{}>", generics.join(", ")) };
                let cancel = call.cancel.map(|to| format!(" cancel b{}", to.0)).unwrap_or_default();
                format!("call {callee}{generics}({}){cancel}", self.list(&call.args))
            }
            OpKind::Drop(var) => format!("drop {}", self.name(*var)),
            OpKind::Store(base, path, value) => {
                format!("store {}.{path} = {}", self.operand(base), self.operand(value))
            }
            OpKind::Return(value, exit) => {
                let how = match exit {
                    Exit::Return => "return",
                    Exit::Question => "return?",
                    Exit::Diverge => "diverge",
                };
                format!("{how} {}", self.operand(value))
            }
        }
    }

    /// The declared type of a local, where it is assigned.
    fn annotation(&self, var: Var) -> String {
        match self.function.vars.get(var.0 as usize) {
            Some(info) if !info.ty.is_unknown() && !self.function.params.contains(&var) => format!(": {}", info.ty),
            _ => String::new(),
        }
    }

    fn list(&self, operands: &[Operand]) -> String {
        operands.iter().map(|o| self.operand(o)).collect::<Vec<_>>().join(", ")
    }

    fn operand(&self, operand: &Operand) -> String {
        match operand {
            Operand::Lit(value) => lit(value),
            Operand::Var(var, Use::Move) => self.name(*var),
            Operand::Var(var, Use::Ref) => format!("&{}", self.name(*var)),
            Operand::Var(var, Use::RefMut) => format!("&mut {}", self.name(*var)),
            Operand::Path(path) => path.clone(),
        }
    }

    fn rvalue(&self, rvalue: &Rvalue) -> String {
        match rvalue {
            Rvalue::Use(o) => self.operand(o),
            Rvalue::Field(o, name) => format!("{} . {name}", self.operand(o)),
            Rvalue::Tuple(list) => format!("({})", self.list(list)),
            Rvalue::Array(list) => format!("[{}]", self.list(list)),
            Rvalue::Struct(path, fields, rest) => {
                let mut parts: Vec<String> =
                    fields.iter().map(|(name, o)| format!("{name}: {}", self.operand(o))).collect();
                parts.extend(rest.iter().map(|o| format!("..{}", self.operand(o))));
                format!("{path} {{{}}}", parts.join(", "))
            }
            Rvalue::Variant(path, list) => format!("{path}({})", self.list(list)),
            Rvalue::Format(pieces) => {
                let parts: Vec<String> = pieces
                    .iter()
                    .map(|piece| match piece {
                        FormatPiece::Text(text) => format!("{text:?}"),
                        FormatPiece::Hole(o) => self.operand(o),
                    })
                    .collect();
                format!("format {}", parts.join(" "))
            }
            Rvalue::Unary(UnaryOp::Not, o) => format!("!{}", self.operand(o)),
            Rvalue::Unary(UnaryOp::Neg, o) => format!("-{}", self.operand(o)),
            Rvalue::Binary(op, a, b) => format!("{op:?} {} {}", self.operand(a), self.operand(b)),
            Rvalue::Cast(o, ty) => format!("{} as {ty}", self.operand(o)),
            Rvalue::Await(o) => format!("await {}", self.operand(o)),
            Rvalue::Index(a, b) => format!("{}[{}]", self.operand(a), self.operand(b)),
            Rvalue::Closure(id, captured) => format!("closure f{}({})", id.0, self.list(captured)),
            Rvalue::Matches(o, pattern) => format!("{} is {}", self.operand(o), self.pattern(pattern)),
            Rvalue::IncludeStr(path) => format!("include_str {path:?}"),
            Rvalue::Unknown(list) => format!("unknown({})", self.list(list)),
        }
    }

    fn pattern(&self, pattern: &Pattern) -> String {
        let list = |list: &[Pattern], rest: bool| {
            let mut parts: Vec<String> = list.iter().map(|p| self.pattern(p)).collect();
            if rest {
                parts.push("..".into());
            }
            parts.join(", ")
        };
        match pattern {
            Pattern::Wild => "_".into(),
            Pattern::Bind(var, None) => format!("{}{}", self.name(*var), self.annotation(*var)),
            Pattern::Bind(var, Some(sub)) => format!("{} @ {}", self.name(*var), self.pattern(sub)),
            Pattern::Lit(value) => lit(value),
            Pattern::Path(path) => path.clone(),
            Pattern::Variant(path, parts, rest) => format!("{path}({})", list(parts, *rest)),
            Pattern::Struct(path, fields) => {
                let fields: Vec<String> =
                    fields.iter().map(|(name, p)| format!("{name}: {}", self.pattern(p))).collect();
                format!("{path} {{{}}}", fields.join(", "))
            }
            Pattern::Tuple(parts, rest) => format!("({})", list(parts, *rest)),
            Pattern::Or(parts) => parts.iter().map(|p| self.pattern(p)).collect::<Vec<_>>().join(" | "),
            Pattern::Opaque(vars) => {
                let vars: Vec<String> = vars.iter().map(|v| self.name(*v)).collect();
                format!("opaque({})", vars.join(", "))
            }
        }
    }
}

fn lit(value: &Lit) -> String {
    match value {
        Lit::Int(n) => n.to_string(),
        Lit::Float(x) => format!("{x:?}"),
        Lit::Bool(b) => b.to_string(),
        Lit::Str(s) => format!("{s:?}"),
        Lit::Bytes(b) => format!("b\"{}\"", b.escape_ascii()),
        Lit::Unit => "()".into(),
        Lit::Duration(nanos) => format!("{nanos}ns"),
    }
}
