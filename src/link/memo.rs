//! What has been computed of each function, once.

use std::sync::OnceLock;

use super::flow::{DefUse, Flow};
use crate::ir::{Function, FunctionId, Ty, Value};

/// Results by function. Cloning a program starts afresh.
#[derive(Debug, Default)]
pub(super) struct Memo(Vec<OnceLock<Box<FunctionMemo>>>);

/// Results of one function.
#[derive(Debug)]
pub(super) struct FunctionMemo {
    pub(super) defuse: DefUse,
    flow: OnceLock<Flow>,
    /// Types and values of variables.
    pub(super) types: Vec<OnceLock<Ty>>,
    pub(super) values: Vec<OnceLock<Value>>,
    pub(super) ret: OnceLock<Value>,
}

impl Memo {
    pub(super) fn new(functions: usize) -> Memo {
        Memo(std::iter::repeat_with(OnceLock::new).take(functions).collect())
    }

    pub(super) fn of(&self, id: FunctionId, function: &Function) -> Option<&FunctionMemo> {
        let slot = self.0.get(id.0 as usize)?;
        Some(slot.get_or_init(|| {
            let vars = function.vars.len();
            Box::new(FunctionMemo {
                defuse: DefUse::of(function),
                flow: OnceLock::new(),
                types: std::iter::repeat_with(OnceLock::new).take(vars).collect(),
                values: std::iter::repeat_with(OnceLock::new).take(vars).collect(),
                ret: OnceLock::new(),
            })
        }))
    }
}

impl Clone for Memo {
    fn clone(&self) -> Memo {
        Memo::new(self.0.len())
    }
}

impl FunctionMemo {
    pub(super) fn flow(&self, function: &Function) -> &Flow {
        self.flow.get_or_init(|| Flow::of(function))
    }
}
