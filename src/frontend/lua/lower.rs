//! A Lua file as functions: the whole script, or each function that a library registers. What its commands do is hung on
//! the one call in it by the Redis protocol module.

use super::tree::{Expression, Script, Statement};
use crate::frontend::ModuleContext;
use crate::ir::{
    Block, Call, Callee, Exit, Function, FunctionId, FunctionKind, Lit, Op, OpKind, Operand, Ty, Unit, Use, Var,
    VarInfo,
};
use crate::source::{Problem, ProblemKind, SourceFile, Span};

/// Path of the call that stands for running the file's script.
pub const RUN: &str = "lua::run";
/// Words without which a Lua file is no Redis script.
const MARKS: &[&str] = &["redis.call", "redis.pcall", "server.call", "server.pcall"];

/// Lowers a file. A script that cannot be parsed is a problem and gives no function.
pub fn lower(file: &SourceFile, context: &ModuleContext) -> Unit {
    let mut unit = Unit::default();
    if !MARKS.iter().any(|mark| file.text.contains(mark)) {
        return unit;
    }
    let script = match super::parse(&file.text) {
        Ok(script) => script,
        Err(why) => {
            let message = format!("the script was not read: {why}");
            let span = Some(Span::new(file.id, 0, 0));
            unit.problems.push(Problem { path: file.path.clone(), span, kind: ProblemKind::PartUnread, message });
            return unit;
        }
    };
    let registered = registered(&script);
    if registered.is_empty() {
        unit.functions.push(function(file, context, None));
    }
    unit.functions.extend(registered.iter().map(|name| function(file, context, Some(name))));
    unit
}

/// Names that a library registers with constant names, in order.
pub fn registered(script: &Script) -> Vec<String> {
    let mut names = Vec::new();
    for statement in &script.body {
        let Statement::Call(Expression::Call(callee, args, _)) = statement else { continue };
        let Expression::Index(_, field) = &**callee else { continue };
        if **field != Expression::Text("register_function".into()) {
            continue;
        }
        let name = match args.first() {
            Some(Expression::Text(name)) => Some(name.clone()),
            Some(Expression::Table(fields)) => fields.iter().find_map(|(key, value)| match (key, value) {
                (Some(Expression::Text(key)), Expression::Text(name)) if key == "function_name" => Some(name.clone()),
                _ => None,
            }),
            _ => None,
        };
        names.extend(name);
    }
    names
}

fn function(file: &SourceFile, context: &ModuleContext, entry: Option<&String>) -> Function {
    let whole = Span::new(file.id, 0, file.text.len());
    let first = entry.and_then(|name| file.text.find(name.as_str())).unwrap_or(0);
    let span = Span::new(file.id, first, first);
    let stem = file.path.rsplit('/').next().unwrap_or(&file.path).trim_end_matches(".lua").to_owned();
    let name = entry.cloned().unwrap_or(stem);
    let path = match entry {
        Some(entry) => format!("lua::{}::{entry}", file.path),
        None => format!("lua::{}", file.path),
    };
    let variable = |name: Option<&str>| VarInfo {
        name: name.map(str::to_owned),
        ty: Ty::unknown(),
        span,
        by_ref: true,
        mutable: false,
    };
    let mut args: Vec<Operand> = vec![Operand::Var(Var(0), Use::Ref), Operand::Var(Var(1), Use::Ref)];
    args.extend(entry.map(|entry| Operand::Lit(Lit::Str(entry.clone()))));
    let call = Call {
        callee: Callee::Path(RUN.to_owned()),
        args,
        generics: Vec::new(),
        whole,
        cancel: None,
        targets: Vec::new(),
        effect: None,
    };
    let ops = vec![
        Op { span, dst: Some(Var(2)), kind: OpKind::Call(Box::new(call)) },
        Op { span, dst: None, kind: OpKind::Return(Operand::Var(Var(2), Use::Move), Exit::Return) },
    ];
    Function {
        path,
        name,
        module: "lua".to_owned(),
        owner: None,
        owner_trait: None,
        parent: None::<FunctionId>,
        kind: FunctionKind::Script,
        span,
        whole,
        params: vec![Var(0), Var(1)],
        captures: Vec::new(),
        vars: vec![variable(Some("KEYS")), variable(Some("ARGV")), variable(None)],
        ret: Ty::unknown(),
        generics: Vec::new(),
        is_async: false,
        test: context.test,
        public: true,
        blocks: vec![Block { ops, edges: Vec::new() }],
    }
}
