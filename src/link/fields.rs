//! Fields across functions: what constructors and setters store in them, and values in terms of fields.

use super::Program;
use super::matching;
use super::memo::{Asked, Stored};
use super::rebuild::{is_closed, once, rewrite};
use super::types::Infer;
use super::values::Eval;
use crate::ir::{Callee, Function, FunctionId, OpKind, OpRef, Operand, Rvalue, Site, Ty, Use, Value, Var, leaf};

/// Field accesses that one value is resolved through.
const DEPTH: usize = 6;

impl Program {
    /// See [`Program::field_values`].
    pub(super) fn stored_in(&self, type_path: &str, field: &str) -> Stored {
        self.memo.field(type_path, field, || self.find_stored(type_path, field))
    }

    fn find_stored(&self, type_path: &str, field: &str) -> Stored {
        let mut out: Vec<(FunctionId, Value)> = Vec::new();
        let mut eval = Eval::new(self);
        let mut add = |f: FunctionId, value: Value| {
            if !out.contains(&(f, value.clone())) {
                out.push((f, value));
            }
        };
        for site in self.struct_sites(type_path) {
            if let Some(operand) = stored_by(self.function(site.function), site.at, field) {
                add(site.function, eval.operand(site.function, operand));
            }
        }
        for site in self.index.stores.get(field).map_or(&[][..], Vec::as_slice) {
            let OpKind::Store(base, path, value) = &self.function(site.function).op(site.at).kind else { continue };
            let mut infer = Infer::new(self);
            let mut ty = infer.operand(site.function, base);
            let mut names: Vec<&str> = path.split('.').filter(|n| *n != "*").collect();
            names.pop();
            for name in names {
                ty = self.field_ty(site.function, &ty, name);
            }
            if self.reaches_type(site.function, ty, type_path) {
                add(site.function, eval.operand(site.function, value));
            }
        }
        let live: Vec<(FunctionId, Value)> = out.iter().filter(|(f, _)| !self.function(*f).test).cloned().collect();
        if live.is_empty() { out } else { live }
    }

    fn reaches_type(&self, f: FunctionId, mut ty: Ty, type_path: &str) -> bool {
        for _ in 0..6 {
            if ty.path == type_path {
                return true;
            }
            match self.deref(f, &ty) {
                Some(next) => ty = next,
                None => return false,
            }
        }
        false
    }

    /// See [`Program::absolute`].
    pub(super) fn absolute_of(&self, f: FunctionId, value: &Value) -> Value {
        rewrite(value, leaf::FIELD, &|leaf| match leaf {
            Value::Field(..) => self.type_field(f, leaf),
            _ => None,
        })
    }

    /// `Field(.., name)` of a typed base as `TypeField`.
    fn type_field(&self, f: FunctionId, value: &Value) -> Option<Value> {
        let Value::Field(base, name) = value else { return None };
        let ty = self.value_ty(f, base, 0);
        let mut ty = self.peeled(f, ty);
        for _ in 0..6 {
            if let Some(def) = self.type_def(&ty.path)
                && def.fields.iter().any(|(n, _)| n == name)
            {
                return Some(Value::TypeField(ty.path, name.clone()));
            }
            ty = self.deref(f, &ty)?;
        }
        None
    }

    /// Type of a value as far as its leaves show.
    pub(super) fn value_ty(&self, f: FunctionId, value: &Value, depth: usize) -> Ty {
        if depth > DEPTH {
            return Ty::unknown();
        }
        let function = self.function(f);
        match value {
            Value::Param(i) => {
                let own = function.params.len();
                let i = *i as usize;
                let var = if i < own { function.params.get(i) } else { function.captures.get(i - own) };
                var.map_or_else(Ty::unknown, |var| self.ty(f, &Operand::Var(*var, Use::Ref)))
            }
            Value::Local(owner, var) if (var_exists(self.functions.get(owner.0 as usize), *var)) => {
                self.ty(*owner, &Operand::Var(Var(*var), Use::Ref))
            }
            Value::Field(base, name) => {
                let base = self.value_ty(f, base, depth + 1);
                self.field_ty(f, &base, name)
            }
            Value::TypeField(ty, name) => self.field_ty(f, &Ty::path(ty.clone()), name),
            Value::Aggregate(path, _) => Ty::path(path.clone()),
            Value::Call(call) => {
                let id = self.index.by_path.get(&call.name).and_then(|ids| ids.first());
                id.map_or_else(Ty::unknown, |id| Infer::new(self).ret(*id))
            }
            _ => Ty::unknown(),
        }
    }

    /// The value with each [`Value::TypeField`] replaced by what the type's constructors store there: constants, templates
    /// (holes that are parameters of the constructor become [`Value::Unknown`]), environment variables, what is made once.
    /// A fresh value stays [`Value::Fresh`] when each object is used by the function that makes it, and becomes
    /// [`Value::PerProcess`] when the constructor runs where services are set up. Fields of which nothing is known stay.
    pub fn expanded(&self, value: &Value) -> Value {
        self.expanded_at(value, 0)
    }

    fn expanded_at(&self, value: &Value, depth: usize) -> Value {
        if depth > DEPTH {
            return value.clone();
        }
        rewrite(value, leaf::TYPE_FIELD, &|leaf| match leaf {
            Value::TypeField(ty, field) => Some(self.expanded_field(ty, field, depth).unwrap_or_else(|| leaf.clone())),
            _ => None,
        })
    }

    fn expanded_field(&self, ty: &str, field: &str, depth: usize) -> Option<Value> {
        let asked = Asked::Field(ty.to_owned(), field.to_owned(), depth);
        self.memo.expanded(asked, || self.expand_field(ty, field, depth))
    }

    fn expand_field(&self, ty: &str, field: &str, depth: usize) -> Option<Value> {
        let mut out: Option<Value> = None;
        for (f, value) in self.stored_in(ty, field) {
            let value = self.absolute_of(f, &value);
            let value = if fresh(&value) && self.is_service(ty, f) { once(&value) } else { value };
            let value = match value {
                // Copied from another object of the type (`..self`, clones): says nothing new.
                Value::TypeField(t, n) if t == ty && n == field => continue,
                // A parameter: what the callers of the constructor pass.
                Value::Param(i) => self.passed(f, i, depth + 1).unwrap_or(Value::Unknown),
                value if is_closed(&value) => self.expanded_at(&value, depth + 1),
                value => rewrite(&value, leaf::FRAME, &|leaf| match leaf {
                    Value::Param(_) | Value::Local(..) => Some(Value::Unknown),
                    _ => None,
                }),
            };
            out = Some(match out {
                None => value,
                Some(before) => before.join(value),
            });
        }
        out.filter(|value| *value != Value::Unknown)
    }

    /// What all callers pass for a parameter, where that means the same everywhere.
    fn passed(&self, f: FunctionId, i: u32, depth: usize) -> Option<Value> {
        self.memo.expanded(Asked::Param(f, i, depth), || self.pass(f, i, depth))
    }

    fn pass(&self, f: FunctionId, i: u32, depth: usize) -> Option<Value> {
        if depth > DEPTH {
            return None;
        }
        let sites: Vec<&Site> = self.callers(f).iter().collect();
        let live: Vec<&Site> = sites.iter().copied().filter(|s| !self.function(s.function).test).collect();
        let sites = if live.is_empty() { sites } else { live };
        if sites.is_empty() || sites.len() > 8 {
            return None;
        }
        let mut out: Option<Value> = None;
        for site in sites {
            let OpKind::Call(call) = &self.function(site.function).op(site.at).kind else { return None };
            let value = self.value(site.function, call.args.get(i as usize)?);
            let value = self.absolute_of(site.function, &value);
            let value = match value {
                Value::Param(n) => self.passed(site.function, n, depth + 1)?,
                value => self.expanded_at(&value, depth + 1),
            };
            let value = rewrite(&value, leaf::FRAME, &|leaf| match leaf {
                Value::Param(_) | Value::Local(..) => Some(Value::Unknown),
                _ => None,
            });
            out = Some(match out {
                None => value,
                Some(before) => before.join(value),
            });
        }
        out.filter(|value| *value != Value::Unknown)
    }

    /// Whether objects of the type are set up once and used from then on: no caller of its constructor `f` calls a method
    /// on the object that it has just made.
    fn is_service(&self, ty: &str, f: FunctionId) -> bool {
        let callers = self.callers(f);
        let used_at_once = |site: &Site| {
            let function = self.function(site.function);
            if function.test || function.owner.as_deref().is_some_and(|o| self.resolve(site.function, o) == ty) {
                return false;
            }
            self.local_receivers(site.function, site.at)
        };
        // Made by a method of an object (`manager.acquire()` makes the guard): once per call.
        let maker = self.function(f);
        let method = maker.params.first().is_some_and(|v| maker.var(*v).name.as_deref() == Some("self"));
        !method && !callers.iter().any(used_at_once)
    }

    /// Whether the result of a call is bound to a local on which the same function calls a workspace method.
    fn local_receivers(&self, f: FunctionId, at: OpRef) -> bool {
        let function = self.function(f);
        let Some(dst) = function.op(at).dst else { return false };
        let Some(memo) = self.memo.of(f, function) else { return false };
        let mut pending = vec![dst];
        let mut seen: Vec<Var> = Vec::new();
        while let Some(var) = pending.pop() {
            if seen.contains(&var) || seen.len() > 16 {
                continue;
            }
            seen.push(var);
            for (i, defs) in memo.defuse.defs.iter().enumerate() {
                let derived = defs.iter().any(|def| match def {
                    super::flow::Def::Pattern(Operand::Var(v, _), _) => *v == var,
                    super::flow::Def::Op(op) => matches!(&function.op(*op).kind,
                        OpKind::Let(Rvalue::Use(Operand::Var(v, _)) | Rvalue::Await(Operand::Var(v, _))) if *v == var),
                    _ => false,
                });
                if derived {
                    pending.push(Var(i as u32));
                }
            }
            for (_, _, call) in function.calls() {
                if matches!(call.callee, Callee::Method(_))
                    && !call.targets.is_empty()
                    && matches!(call.args.first(), Some(Operand::Var(v, _)) if *v == var)
                {
                    return true;
                }
            }
        }
        false
    }

    /// [`matching::must_match`] of two values, each in the terms of its function: made absolute, and fields compared with
    /// what their constructors store.
    pub fn must_match(&self, a: (FunctionId, &Value), b: (FunctionId, &Value)) -> bool {
        let (x, y) = self.one_frame(a, b);
        matching::must_match(&x, &y) || {
            let (ex, ey) = (self.expanded(&x), self.expanded(&y));
            (ex != x || ey != y) && matching::must_match(&ex, &ey)
        }
    }

    /// [`matching::may_match`] likewise.
    pub fn may_match(&self, a: (FunctionId, &Value), b: (FunctionId, &Value)) -> bool {
        let (x, y) = self.one_frame(a, b);
        x == y || matching::may_match(&self.expanded(&x), &self.expanded(&y))
    }

    /// Whether two fields of different types surely hold the same: one is filled from the other, both from one value, or what
    /// is stored in them is known and equal.
    pub fn stores_alike(&self, a: &Value, b: &Value) -> bool {
        let stored = |field: &Value| match field {
            Value::TypeField(ty, name) => self.field_values(ty, name),
            _ => Vec::new(),
        };
        let (x, y) = (stored(a), stored(b));
        let copies = |list: &[(FunctionId, Value)], of: &Value| {
            let Value::TypeField(_, name) = of else { return false };
            list.iter().any(|(f, v)| match self.absolute_of(*f, v) {
                Value::TypeField(..) if self.absolute_of(*f, v) == *of => true,
                // Of an object whose type is not known.
                Value::Field(_, n) => n == *name,
                _ => false,
            })
        };
        let common = || {
            x.iter().any(|(f, v)| {
                y.iter().any(|(g, w)| {
                    let (v, w) = (self.absolute_of(*f, v), self.absolute_of(*g, w));
                    v == w && (f == g && v != Value::Unknown || is_closed(&v))
                })
            })
        };
        let equal = || {
            let (ex, ey) = (self.expanded(a), self.expanded(b));
            (ex != *a || ey != *b) && matching::must_match(&ex, &ey)
        };
        copies(&x, b) || copies(&y, a) || common() || equal()
    }

    /// Both values absolute; parameters of two functions are not the same because their numbers are.
    fn one_frame(&self, a: (FunctionId, &Value), b: (FunctionId, &Value)) -> (Value, Value) {
        let (x, y) = (self.absolute_of(a.0, a.1), self.absolute_of(b.0, b.1));
        if a.0 == b.0 { (x, y) } else { (self.abroad(&x), self.abroad(&y)) }
    }
}

fn var_exists(function: Option<&Function>, var: u32) -> bool {
    function.is_some_and(|f| (var as usize) < f.vars.len())
}

fn fresh(value: &Value) -> bool {
    value.has() & leaf::FRESH != 0
}

/// The operand that a constructing op stores in a field.
fn stored_by<'f>(function: &'f Function, at: OpRef, field: &str) -> Option<&'f Operand> {
    match &function.op(at).kind {
        OpKind::Let(Rvalue::Struct(_, fields, _)) => fields.iter().find(|(name, _)| name == field).map(|(_, v)| v),
        OpKind::Let(Rvalue::Variant(_, list)) => list.get(field.parse::<usize>().ok()?),
        OpKind::Call(call) => call.args.get(field.parse::<usize>().ok()?),
        _ => None,
    }
}
