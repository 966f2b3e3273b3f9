//! What has been computed of each function, once.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, RwLock};

use super::flow::{DefUse, Flow};
use crate::ir::{Function, FunctionId, OpRef, Ty, Value};

/// Results by function. Cloning a program starts afresh.
#[derive(Debug, Default)]
pub(super) struct Memo {
    functions: Vec<OnceLock<Box<FunctionMemo>>>,
    /// What is stored in fields: type -> field -> (function, value).
    fields: RwLock<HashMap<String, HashMap<String, Stored>>>,
    /// What fields and parameters come to where they are the same for all objects and callers, by how many further ones
    /// may be looked at: without it, each way through constructors and callers is gone again and again.
    expanded: RwLock<HashMap<Asked, Option<Value>>>,
}

/// A field of a type, or a parameter of a function, and how many others lie between it and the question.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Asked {
    Field(String, String, usize),
    Param(FunctionId, u32, usize),
}

/// Values of a field, each in the terms of the function that stores it.
pub(super) type Stored = Vec<(FunctionId, Value)>;

/// Results of one function.
#[derive(Debug)]
pub(super) struct FunctionMemo {
    pub(super) defuse: DefUse,
    flow: OnceLock<Flow>,
    /// Types and values of variables.
    pub(super) types: Vec<OnceLock<Ty>>,
    pub(super) values: Vec<OnceLock<Value>>,
    pub(super) ret: OnceLock<Value>,
    /// Values of the arguments of calls.
    args: RwLock<HashMap<OpRef, Arc<Vec<Value>>>>,
}

impl Memo {
    pub(super) fn new(functions: usize) -> Memo {
        Memo {
            functions: std::iter::repeat_with(OnceLock::new).take(functions).collect(),
            fields: RwLock::default(),
            expanded: RwLock::default(),
        }
    }

    pub(super) fn of(&self, id: FunctionId, function: &Function) -> Option<&FunctionMemo> {
        let slot = self.functions.get(id.0 as usize)?;
        Some(slot.get_or_init(|| {
            let vars = function.vars.len();
            Box::new(FunctionMemo {
                defuse: DefUse::of(function),
                flow: OnceLock::new(),
                types: std::iter::repeat_with(OnceLock::new).take(vars).collect(),
                values: std::iter::repeat_with(OnceLock::new).take(vars).collect(),
                ret: OnceLock::new(),
                args: RwLock::default(),
            })
        }))
    }
}

impl Memo {
    /// The values of a field, computed once by `make`.
    pub(super) fn field(&self, ty: &str, field: &str, make: impl FnOnce() -> Stored) -> Stored {
        if let Ok(known) = self.fields.read()
            && let Some(found) = known.get(ty).and_then(|fields| fields.get(field))
        {
            return found.clone();
        }
        let made = make();
        if let Ok(mut known) = self.fields.write() {
            known.entry(ty.to_owned()).or_default().insert(field.to_owned(), made.clone());
        }
        made
    }
}

impl Memo {
    /// The answer to a question about a field or parameter, computed once by `make`.
    pub(super) fn expanded(&self, asked: Asked, make: impl FnOnce() -> Option<Value>) -> Option<Value> {
        if let Ok(known) = self.expanded.read()
            && let Some(found) = known.get(&asked)
        {
            return found.clone();
        }
        let made = make();
        if let Ok(mut known) = self.expanded.write() {
            known.insert(asked, made.clone());
        }
        made
    }
}

impl Clone for Memo {
    fn clone(&self) -> Memo {
        Memo::new(self.functions.len())
    }
}

impl FunctionMemo {
    /// The values of a call's arguments, computed once by `make`.
    pub(super) fn args(&self, at: OpRef, make: impl FnOnce() -> Vec<Value>) -> Arc<Vec<Value>> {
        if let Ok(known) = self.args.read()
            && let Some(found) = known.get(&at)
        {
            return found.clone();
        }
        let made = Arc::new(make());
        if let Ok(mut known) = self.args.write() {
            known.insert(at, made.clone());
        }
        made
    }

    pub(super) fn flow(&self, function: &Function) -> &Flow {
        self.flow.get_or_init(|| Flow::of(function))
    }
}
