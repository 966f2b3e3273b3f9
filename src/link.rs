//! Linking: one [`Program`] out of all units. Resolves names, infers types, evaluates values across files.

use crate::ir::{Function, FunctionId, Operand, Ty, Value};

/// The linked workspace.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// All functions.
    pub functions: Vec<Function>,
}

impl Program {
    /// The function of an id.
    pub fn function(&self, id: FunctionId) -> &Function {
        &self.functions[id.0 as usize]
    }

    /// What the operand can be, in the terms of `function` (its parameters stay [`Value::Param`]).
    pub fn value(&self, _function: FunctionId, _operand: &Operand) -> Value {
        Value::Unknown
    }

    /// Inferred type of an operand.
    pub fn ty(&self, _function: FunctionId, _operand: &Operand) -> Ty {
        Ty::unknown()
    }

    /// The type that the result of a call is used as, layers of `Future` and `Result` included as declared: from turbofish of
    /// later conversions, `let` annotations, patterns, the function's return type, fields. Unknown when nothing says.
    pub fn expected(&self, _function: FunctionId, _dst: crate::ir::Var) -> Ty {
        Ty::unknown()
    }
}
