//! One call that matched a row, with what protocol modules ask about it.

use crate::ir::{
    Acquire, Call, CallValue, Callee, Certainty, Function, FunctionId, Handle, HandleKind, Lit, OpKind, OpRef, Operand,
    RoundTrip, Rvalue, Shared, TimeUnit, Ttl, Ty, Value, Var,
};
use crate::link::Program;
use crate::model::{Models, Place, Row, TypeRole, Unit, Versions};
use crate::source::Span;

/// What a protocol module makes of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It does this.
    Effect(Box<RoundTrip>),
    /// Understood, but nothing happens here: a builder step, a queued command, a constructor.
    Silent,
    /// It does something that could not be read: why.
    Opaque(String),
    /// It runs what a parameter of its function brings: the callers say what that is.
    Passed(Box<Passed>),
}

/// Something that is run but made by the caller, in the terms of the function that runs it.
#[derive(Clone, Debug, PartialEq)]
pub struct Passed {
    /// The command, pipeline, script or statement.
    pub runs: Value,
    /// Keys and arguments that the running call adds to a script.
    pub keys: Option<Value>,
    /// See `keys`.
    pub args: Option<Value>,
    /// The running call takes the script's text.
    pub is_text: bool,
    /// What it runs on.
    pub handle: Handle,
    /// The type the reply is read as.
    pub asked: Ty,
}

/// A call with its row.
#[derive(Clone, Copy, Debug)]
pub struct Site<'a> {
    /// Program.
    pub program: &'a Program,
    /// Models.
    pub models: &'a Models,
    /// Crate versions.
    pub versions: &'a Versions,
    /// Function the call stands in.
    pub function: FunctionId,
    /// Its place there.
    pub at: OpRef,
    /// Where its name is written.
    pub span: Span,
    /// Result variable.
    pub dst: Option<Var>,
    /// The call.
    pub call: &'a Call,
    /// Imports of all modules.
    pub imports: &'a crate::model::Imports,
    /// What the workspace says of its database.
    pub sql: &'a super::sql::Context,
    /// The row.
    pub row: &'a Row,
    /// How surely the row is meant.
    pub certainty: Certainty,
    /// The first operand is the receiver.
    pub has_receiver: bool,
}

impl Passed {
    /// The same at a call of the function that runs it, in the terms of the caller.
    pub fn at_caller(&self, site: &Site<'_>, callee: &Function) -> Passed {
        let bring = |value: &Value| site.program.instantiate(value, site.call, site.function);
        // The chain, not the plain value: the caller may keep the builder in a variable that later statements change.
        let operand = root_param(&self.runs).and_then(|index| site.call.args.get(index as usize));
        let runs = match operand {
            Some(operand) => on_root(&self.runs, site.value_of(operand), &bring),
            None => bring(&self.runs),
        };
        let ret = callee.ret.success();
        let generic = callee.generics.iter().any(|(name, _)| *name == ret.path);
        let expected = || site.dst.map(|dst| site.program.expected(site.function, dst)).unwrap_or_default();
        let asked = if ret.is_unknown() || generic { expected() } else { ret };
        let mut handle = self.handle.clone();
        if let Value::Param(index) = handle.identity
            && let Some(operand) = site.call.args.get(index as usize)
        {
            let outer = site.handle(operand);
            handle.identity = outer.identity;
            if handle.kind == HandleKind::Unknown {
                handle.kind = outer.kind;
            }
        } else {
            handle.identity = bring(&handle.identity);
        }
        Passed {
            runs,
            keys: self.keys.as_ref().map(bring),
            args: self.args.as_ref().map(bring),
            is_text: self.is_text,
            handle,
            asked,
        }
    }
}

/// The parameter that a builder chain begins with.
pub fn root_param(value: &Value) -> Option<u32> {
    let mut next = value;
    for _ in 0..512 {
        match next {
            Value::Param(index) => return Some(*index),
            Value::Call(call) if call.name.starts_with('.') => next = call.args.first()?,
            _ => return None,
        }
    }
    None
}

/// The steps of a chain on another beginning, their arguments brought into other terms.
fn on_root(chain: &Value, root: Value, bring: &dyn Fn(&Value) -> Value) -> Value {
    let mut steps: Vec<&CallValue> = Vec::new();
    let mut next = chain;
    while let Value::Call(call) = next {
        steps.push(call);
        match call.args.first() {
            Some(inner) => next = inner,
            None => break,
        }
    }
    steps.into_iter().rev().fold(root, |value, call| {
        let mut call = call.clone();
        let rest: Vec<Value> = call.args.iter().skip(1).map(bring).collect();
        call.args = std::iter::once(value).chain(rest).collect();
        Value::Call(Shared::from(call))
    })
}

impl<'a> Site<'a> {
    /// The function around.
    pub fn context(&self) -> &'a Function {
        self.program.function(self.function)
    }

    /// The receiver.
    pub fn receiver(&self) -> Option<&'a Operand> {
        if self.has_receiver { self.call.args.first() } else { None }
    }

    /// Argument `n` after the receiver.
    pub fn arg(&self, n: usize) -> Option<&'a Operand> {
        self.call.args.get(n + usize::from(self.has_receiver))
    }

    /// Arguments after the receiver.
    pub fn args(&self) -> &'a [Operand] {
        self.call.args.get(usize::from(self.has_receiver)..).unwrap_or(&[])
    }

    /// The operand at a position, without its steps.
    pub fn operand(&self, place: &Place) -> Option<&'a Operand> {
        match place.arg {
            None => self.receiver(),
            Some(n) => self.arg(n),
        }
    }

    /// The value of an operand here, later builder statements included.
    pub fn value_of(&self, operand: &Operand) -> Value {
        self.program.chain(self.function, operand, self.at)
    }

    /// The value at a position; unknown where the call has no such argument.
    pub fn value(&self, place: &Place) -> Value {
        let Some(operand) = self.operand(place) else { return Value::Unknown };
        let value = self.value_of(operand);
        let value = if place.path.is_empty() { value } else { self.made(value) };
        place.path.iter().fold(value, |value, step| project(&value, step))
    }

    /// What a field holds, if every constructor fills it alike; any other value as it is.
    fn made(&self, value: Value) -> Value {
        if !matches!(value, Value::Field(..) | Value::TypeField(..)) {
            return value;
        }
        let Value::TypeField(ty, field) = self.program.absolute(self.function, &value) else { return value };
        match self.program.field_values(&ty, &field).as_slice() {
            [(_, one)] => one.clone(),
            _ => value,
        }
    }

    /// The value at an optional position.
    pub fn value_at(&self, place: &Option<Place>) -> Option<Value> {
        place.as_ref().map(|place| self.value(place))
    }

    /// The payload type that the result is asked as: the turbofish where the row says so, else what the program expects.
    pub fn asked(&self) -> Ty {
        if let Some(position) = self.row.asked {
            let n = self.call.generics.len() as i64;
            let index = if position < 0 { n + i64::from(position) } else { i64::from(position) };
            let ty = usize::try_from(index).ok().and_then(|i| self.call.generics.get(i));
            if let Some(ty) = ty.filter(|ty| !ty.is_unknown()) {
                return ty.clone();
            }
        }
        self.dst.map(|dst| self.program.expected(self.function, dst)).unwrap_or_default()
    }

    /// The row's TTL.
    pub fn ttl(&self) -> Ttl {
        if self.row.renews {
            return Ttl::Managed;
        }
        match (&self.row.ttl, self.row.unit) {
            (Some(place), unit) => ttl(self.value(place), time_unit(unit.unwrap_or(Unit::Duration))),
            (None, _) => Ttl::Unknown,
        }
    }

    /// The connection, pool or client behind an operand.
    pub fn handle(&self, operand: &Operand) -> Handle {
        handle(self.program, self.models, self.function, operand)
    }

    /// The handle at the row's `on`, or the receiver.
    pub fn on(&self) -> Handle {
        let operand = match &self.row.on {
            Some(place) => self.operand(place),
            None => self.receiver(),
        };
        operand.map_or_else(Handle::unknown, |operand| self.handle(operand))
    }
}

/// `Duration` where number and unit are known, else the value with its unit.
pub fn ttl(value: Value, unit: TimeUnit) -> Ttl {
    let scale = match unit {
        TimeUnit::Seconds => 1_000_000_000,
        TimeUnit::Milliseconds => 1_000_000,
        _ => 0,
    };
    match value.as_int() {
        Some(n) if scale > 0 && n >= 0 => Ttl::After(Value::Const(Lit::Duration(n as u128 * scale)), unit),
        _ => Ttl::After(value, unit),
    }
}

fn time_unit(unit: Unit) -> TimeUnit {
    match unit {
        Unit::Seconds => TimeUnit::Seconds,
        Unit::Milliseconds => TimeUnit::Milliseconds,
        Unit::Duration => TimeUnit::Duration,
    }
}

/// A step into a value: argument or tuple member by number, field or builder call by name.
pub fn project(value: &Value, step: &str) -> Value {
    match value {
        Value::Aggregate(path, fields) if path.rsplit("::").next() == Some("Some") && step != "0" => {
            fields.first().map_or(Value::Unknown, |(_, inner)| project(inner, step))
        }
        Value::Aggregate(_, fields) => {
            fields.iter().find(|(name, _)| name == step).map_or(Value::Unknown, |(_, value)| value.clone())
        }
        Value::Call(call) => match step.parse::<usize>() {
            Ok(n) => {
                let skip = usize::from(call.name.starts_with('.'));
                call.args.get(n + skip).cloned().unwrap_or(Value::Unknown)
            }
            Err(_) => builder_step(call, step).cloned().unwrap_or(Value::Unknown),
        },
        Value::Join(members) => members.iter().map(|m| project(m, step)).reduce(Value::join).unwrap_or(Value::Unknown),
        Value::Param(_) | Value::Field(..) | Value::TypeField(..) if step.parse::<usize>().is_err() => {
            Value::Field(Shared::from(value.clone()), step.to_owned())
        }
        _ => Value::Unknown,
    }
}

/// The argument of the last builder call `.name(x)`, `.with_name(x)` or `.set_name(x)` of a chain.
fn builder_step<'v>(call: &'v CallValue, name: &str) -> Option<&'v Value> {
    let mut next = Some(call);
    while let Some(call) = next {
        let method = call.name.strip_prefix('.')?;
        let bare = method.strip_prefix("with_").or_else(|| method.strip_prefix("set_")).unwrap_or(method);
        if bare == name || method == name {
            return call.args.get(1);
        }
        next = match call.args.first() {
            Some(Value::Call(inner)) => Some(inner),
            _ => None,
        };
    }
    None
}

/// What an operand is as a connection: kind by its type, identity by its value or variable.
pub fn handle(program: &Program, models: &Models, function: FunctionId, operand: &Operand) -> Handle {
    let types = crate::model::receiver_types(program, function, operand);
    let mut kinds = types.iter().flat_map(|ty| models.type_roles(ty)).map(|(_, role)| handle_kind(role));
    let kind = kinds.next();
    // A guard of a pool, whatever connection it leads to.
    let kind = if kinds.any(|kind| kind == HandleKind::Pinned) { Some(HandleKind::Pinned) } else { kind };
    let value = strip_views(program.value(function, operand));
    let identity = match value {
        // Two calls that give a connection are equal as values, but not the same connection.
        Value::Call(_) | Value::Unknown | Value::Aggregate(..) => match root(program.function(function), operand) {
            Some(var) => Value::Local(function, var.0),
            None => Value::Unknown,
        },
        value => program.absolute(function, &value),
    };
    Handle { kind: kind.unwrap_or(HandleKind::Unknown), identity, origin: Value::Unknown }
}

/// The kind of handle that values of a type are.
pub fn handle_kind(role: TypeRole) -> HandleKind {
    match role {
        TypeRole::Pool => HandleKind::Pool,
        TypeRole::Pinned => HandleKind::Pinned,
        TypeRole::Dedicated => HandleKind::Dedicated,
        TypeRole::Multiplexed => HandleKind::Multiplexed,
        TypeRole::Transaction | TypeRole::Multi => HandleKind::Transaction,
        _ => HandleKind::Unknown,
    }
}

/// Methods that give another view of the same connection.
const VIEWS: &[&str] =
    &[".clone", ".deref_mut", ".deref", ".as_mut", ".as_ref", ".borrow_mut", ".borrow", ".by_ref", ".lock", ".unwrap"];

fn strip_views(value: Value) -> Value {
    match value {
        Value::Call(call) if VIEWS.contains(&call.name.as_str()) && call.args.len() == 1 => {
            strip_views(call.args[0].clone())
        }
        other => other,
    }
}

/// The variable that a chain of plain uses and views began with.
pub fn root(function: &Function, operand: &Operand) -> Option<Var> {
    let Operand::Var(mut var, _) = *operand else { return None };
    for _ in 0..16 {
        let mut definitions = function.ops().filter(|(_, op)| op.dst == Some(var));
        let (Some((_, op)), None) = (definitions.next(), definitions.next()) else { return Some(var) };
        let source = match &op.kind {
            OpKind::Let(Rvalue::Use(source) | Rvalue::Await(source) | Rvalue::Cast(source, _)) => source,
            OpKind::Call(call) => match &call.callee {
                Callee::Method(name)
                    if call.args.len() == 1 && VIEWS.iter().any(|view| view.strip_prefix('.') == Some(name)) =>
                {
                    &call.args[0]
                }
                _ => return Some(var),
            },
            _ => return Some(var),
        };
        // A named variable that holds an awaited or fallible result is itself the connection.
        if function.var(var).name.is_some() && !matches!(&op.kind, OpKind::Let(Rvalue::Use(_)) | OpKind::Call(_)) {
            return Some(var);
        }
        match source {
            Operand::Var(next, _) => var = *next,
            _ => return Some(var),
        }
    }
    Some(var)
}

/// A lock of a lock API, for protocol modules that only differ in backend and kind.
pub fn api_acquire(site: &Site<'_>, backend: crate::ir::Backend, kind: crate::ir::LockKind) -> Acquire {
    Acquire {
        backend,
        kind,
        form: crate::ir::AcquireForm::LockApi,
        key: site.value_at(&site.row.key).unwrap_or(Value::Unknown),
        token: site.value_at(&site.row.token).unwrap_or(Value::Unknown),
        ttl: site.ttl(),
        blocking: site.row.blocking,
    }
}
