//! Small programs, lowered and linked.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod chains;
mod targets;
mod types;
mod values;

use super::Program;
use crate::frontend::{ModuleContext, rust};
use crate::ir::{FunctionId, Lit, OpKind, OpRef, Operand, Piece, Use, Value, Var};
use crate::source::{Language, Sources};

/// A program of files: (module path, text).
pub(super) fn link(files: &[(&str, &str)]) -> Program {
    let mut sources = Sources::default();
    let mut units = Vec::new();
    for (module, text) in files {
        let id = sources.add(format!("{}.rs", module.replace("::", "/")), Language::Rust, *text);
        let krate = module.split("::").next().unwrap().to_owned();
        let context = ModuleContext { krate, module: (*module).to_owned(), test: false };
        units.push(rust::lower(sources.get(id), &context));
    }
    Program::link(sources, units)
}

/// The function whose path ends so.
pub(super) fn function(program: &Program, path: &str) -> FunctionId {
    let found = program.functions().find(|(_, f)| f.path == path || f.path.ends_with(&format!("::{path}")));
    found.unwrap_or_else(|| panic!("no function {path}")).0
}

/// The last variable of that name.
pub(super) fn var(program: &Program, f: FunctionId, name: &str) -> Operand {
    let vars = &program.function(f).vars;
    let at = vars.iter().rposition(|v| v.name.as_deref() == Some(name)).unwrap_or_else(|| panic!("no variable {name}"));
    Operand::Var(Var(at as u32), Use::Ref)
}

/// Result and place of the call of that name.
pub(super) fn call(program: &Program, f: FunctionId, name: &str) -> (OpRef, Var) {
    let found = program.function(f).calls().find(|(_, _, call)| call.name() == name);
    let (at, op, _) = found.unwrap_or_else(|| panic!("no call {name}"));
    (at, op.dst.unwrap())
}

/// Value of a variable as text.
pub(super) fn value(program: &Program, f: &str, name: &str) -> String {
    let f = function(program, f);
    show(&program.value(f, &var(program, f, name)))
}

/// Type of a variable as text.
pub(super) fn ty(program: &Program, f: &str, name: &str) -> String {
    let f = function(program, f);
    program.ty(f, &var(program, f, name)).to_string()
}

/// Chain of the receiver of the call `name`, as text.
pub(super) fn chain(program: &Program, f: &str, name: &str) -> String {
    let f = function(program, f);
    let (at, _) = call(program, f, name);
    let OpKind::Call(call) = &program.function(f).op(at).kind else { panic!() };
    show(&program.chain(f, &call.args[0], at))
}

/// Expected type of the call `name`.
pub(super) fn expected(program: &Program, f: &str, name: &str) -> String {
    let f = function(program, f);
    program.expected(f, call(program, f, name).1).to_string()
}

pub(super) fn show(value: &Value) -> String {
    let list = |values: &[Value]| values.iter().map(show).collect::<Vec<_>>().join(", ");
    match value {
        Value::Const(Lit::Str(s)) => format!("{s:?}"),
        Value::Const(Lit::Int(n)) => n.to_string(),
        Value::Const(Lit::Bool(b)) => b.to_string(),
        Value::Const(Lit::Duration(n)) => format!("{}ms", n / 1_000_000),
        Value::Const(other) => format!("{other:?}"),
        Value::Template(pieces) => {
            let text = pieces.iter().map(|p| match p {
                Piece::Text(t) => t.clone(),
                Piece::Hole(h) => format!("{{{}}}", show(h)),
            });
            format!("`{}`", text.collect::<String>())
        }
        Value::Param(i) => format!("${i}"),
        Value::Field(base, name) => format!("{}.{name}", show(base)),
        Value::TypeField(ty, name) => format!("<{ty}>.{name}"),
        Value::Env(name) => format!("env {name}"),
        Value::Fresh(_) => "fresh".to_owned(),
        Value::PerProcess(_) => "per-process".to_owned(),
        Value::Identity(_) => "identity".to_owned(),
        Value::Clock { wall } => if *wall { "wall" } else { "monotonic" }.to_owned(),
        Value::Call(call) => {
            let q = if call.conditional { "?" } else { "" };
            match call.name.strip_prefix('.') {
                Some(name) => format!("{}{q}.{name}({})", show(&call.args[0]), list(&call.args[1..])),
                None => format!("{}({})", call.name, list(&call.args)),
            }
        }
        Value::Aggregate(path, fields) => {
            let fields: Vec<String> = fields.iter().map(|(n, v)| format!("{n}: {}", show(v))).collect();
            format!("{path}{{{}}}", fields.join(", "))
        }
        Value::Path(path) => path.clone(),
        Value::Operation(sign, operands) => format!("({})", operands.iter().map(show).collect::<Vec<_>>().join(sign)),
        Value::Closure(_) => "closure".to_owned(),
        Value::Join(members) => members.iter().map(show).collect::<Vec<_>>().join(" | "),
        Value::Local(..) => "local".to_owned(),
        Value::Unknown => "?".to_owned(),
    }
}
