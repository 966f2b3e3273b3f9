//! Evaluation of calls: workspace functions, closures, std combinators; the rest is folded or kept.

use super::fold;
use super::rebuild::{once, substitute};
use super::tables::tables;
use super::types::Infer;
use super::values::Eval;
use crate::ir::{At, Call, CallValue, Callee, FunctionId, FunctionKind, Lit, OpRef, Shared, Value};

impl Eval<'_> {
    pub(super) fn call(&mut self, f: FunctionId, at: OpRef, call: &Call) -> Value {
        let method = matches!(call.callee, Callee::Method(_)) && call.targets.is_empty();
        let args = call.args.iter().enumerate().map(|(i, arg)| {
            // A builder handed on has all its steps; a receiver is the chain so far.
            if !(i == 0 && method) && self.varies(f, arg) { self.chained(f, arg, at) } else { self.operand(f, arg) }
        });
        let args: Vec<Value> = args.collect();
        let mut value = CallValue {
            name: String::new(),
            receiver: String::new(),
            args,
            generics: call.generics.clone(),
            at: At(Some(self.function(f).op(at).span)),
            conditional: false,
        };
        match &call.callee {
            Callee::Value(operand) => {
                let callee = self.operand(f, operand);
                if let Value::Closure(id) = callee {
                    return self.apply(f, id, &value.args);
                }
                if let Value::Path(path) = &callee {
                    value.name = path.clone();
                } else {
                    value.name = "()".to_owned();
                    value.args.insert(0, callee);
                }
                Value::Call(Shared::from(value))
            }
            Callee::Macro(path) => {
                value.name = format!("{}!", self.program.resolve(f, path));
                fold::macro_(value)
            }
            Callee::Path(path) => {
                value.name = self.program.resolve(f, path);
                if let Some(folded) = self.once_cell(f, &value) {
                    return folded;
                }
                match fold::function(value) {
                    Value::Call(value) => self.workspace(call, Shared::take(value)),
                    folded => folded,
                }
            }
            Callee::Method(name) => {
                value.name = format!(".{name}");
                value.receiver = match call.args.first() {
                    Some(receiver) => {
                        let ty = Infer::new(self.program).operand(f, receiver);
                        self.program.peeled(f, ty).path
                    }
                    None => String::new(),
                };
                if !call.targets.is_empty() && name != "clone" {
                    return self.workspace(call, value);
                }
                if let Some(folded) = self.combinator(f, name, &value) {
                    return folded;
                }
                fold::method(value)
            }
        }
    }

    /// A call of workspace functions: what they return, in the caller's terms; kept as a call when that is not known.
    fn workspace(&mut self, call: &Call, value: CallValue) -> Value {
        let mut out: Option<Value> = None;
        for target in &call.targets {
            if self.function(*target).kind == FunctionKind::Macro {
                return Value::Call(Shared::from(value));
            }
            let one = substitute(&self.result(*target), &value.args);
            out = Some(match out {
                None => one,
                Some(before) => before.join(one),
            });
        }
        match out {
            None | Some(Value::Unknown | Value::Const(Lit::Unit)) => Value::Call(Shared::from(value)),
            Some(out) if out.size() > fold::MAX_NODES => Value::Call(Shared::from(value)),
            Some(out) => out,
        }
    }

    /// `LazyLock::new(|| ..)`, `CELL.get_or_init(|| ..)`: what the closure makes, once.
    fn once_cell(&mut self, f: FunctionId, value: &CallValue) -> Option<Value> {
        let (head, name) = value.name.rsplit_once("::")?;
        if !tables().is_once(head) || !(name == "new" || tables().is_once_init(name)) {
            return None;
        }
        let init = value.args.last()?;
        Some(once(&self.made_by(f, init)))
    }

    /// What calling a closure or function value without arguments gives.
    fn made_by(&mut self, f: FunctionId, callee: &Value) -> Value {
        match callee {
            Value::Closure(id) => self.apply(f, *id, &[]),
            Value::Path(path) => {
                let id = self.program.index.by_path.get(path).and_then(|ids| ids.first().copied());
                match id {
                    Some(id) => substitute(&self.result(id), &[]),
                    None => fold::function(CallValue {
                        name: path.clone(),
                        receiver: String::new(),
                        args: Vec::new(),
                        generics: Vec::new(),
                        at: At(None),
                        conditional: false,
                    }),
                }
            }
            other => other.clone(),
        }
    }

    /// The result of a closure of `f` called with `args`, in the terms of `f`.
    fn apply(&mut self, f: FunctionId, closure: FunctionId, args: &[Value]) -> Value {
        let result = self.result(closure);
        let function = self.function(closure);
        let own = function.params.len();
        let mut all: Vec<Value> = (0..own).map(|i| args.get(i).cloned().unwrap_or(Value::Unknown)).collect();
        for j in 0..function.captures.len() {
            let captured = self.program.captured(closure, j as u32);
            all.push(match captured {
                Some((parent, operand)) if parent == f => self.operand(f, &operand),
                _ => Value::Unknown,
            });
        }
        substitute(&result, &all)
    }

    /// std combinators that hand the payload to a closure.
    fn combinator(&mut self, f: FunctionId, name: &str, value: &CallValue) -> Option<Value> {
        let receiver = value.args.first()?.clone();
        let closure = value.args.iter().rev().find_map(|arg| match arg {
            Value::Closure(id) => Some(*id),
            _ => None,
        });
        if tables().is_once_init(name) {
            return value.args.get(1).map(|init| once(&self.made_by(f, init)));
        }
        match name {
            "unwrap_or_default" => Some(fold::payload(receiver)),
            "unwrap_or_else" | "or_else" | "get_or_insert_with" => {
                let other = self.made_by(f, value.args.get(1)?);
                let folded = CallValue { args: vec![receiver, other], ..value.clone() };
                Some(fold::method(CallValue { name: ".unwrap_or".to_owned(), ..folded }))
            }
            "map" | "and_then" if !matches!(receiver, Value::Fresh(_) | Value::Identity(_) | Value::PerProcess(_)) => {
                let path = value.args.get(1);
                match (closure, path) {
                    (Some(id), _) => {
                        let result = self.apply(f, id, &[fold::payload(receiver)]);
                        (result != Value::Unknown).then_some(result)
                    }
                    // `map(String::from)`, `map(Duration::from_secs)`
                    (None, Some(Value::Path(path))) => Some(fold::call(CallValue {
                        name: path.clone(),
                        args: vec![fold::payload(receiver)],
                        receiver: String::new(),
                        ..value.clone()
                    })),
                    _ => None,
                }
            }
            "map_or" => {
                let result = self.apply(f, closure?, &[fold::payload(receiver)]);
                Some(value.args.get(1)?.clone().join(result))
            }
            "map_or_else" => {
                let default = self.made_by(f, value.args.get(1)?);
                let result = self.apply(f, closure?, &[fold::payload(receiver)]);
                Some(default.join(result))
            }
            "then" => closure.map(|id| self.apply(f, id, &[])),
            "then_some" => value.args.get(1).cloned(),
            _ => None,
        }
    }
}
