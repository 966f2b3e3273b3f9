//! Clients of a store that no model names: crates of the house around redis-rs or fred, outside the workspace.
//!
//! What such a crate calls `set_nx` is SET NX. Whatever gives its receiver (`ctx.cache()`, `self.redis`) or is its type is
//! then a client of the store in that crate, so that `expire`, `get`, `del` on it are commands too.

use std::collections::BTreeSet;

use super::{Models, Row, matching::receiver_types};
use crate::ir::{Call, Callee, FunctionId, Operand, Value};
use crate::link::Program;
use crate::model::{Protocol, Role};

/// What receivers of a set-if-absent by name are.
#[derive(Clone, Debug, Default)]
pub struct Houses {
    /// Types of crates that are neither modelled nor in the workspace.
    types: BTreeSet<String>,
    /// Methods and fields that give such a receiver, each with the crate that it was seen in.
    accessors: BTreeSet<(String, String)>,
}

/// Methods that give another view of a receiver.
const VIEWS: &[&str] = &[".clone", ".as_ref", ".as_mut", ".borrow", ".borrow_mut", ".unwrap", ".expect", ".lock"];

impl Houses {
    /// Looks at every set-if-absent of the program that no modelled type answers to.
    pub(super) fn of(program: &Program, models: &Models) -> Houses {
        let mut houses = Houses::default();
        for (id, function) in program.functions() {
            for (_, _, call) in function.calls() {
                let Some(receiver) = foreign(program, models, id, call).filter(|_| models.takes(call)) else {
                    continue;
                };
                match receiver {
                    Receiver::Of(types) => houses.types.extend(types),
                    Receiver::Unknown(operand) => {
                        houses.accessors.extend(accessor(&program.value(id, operand)).map(|a| (krate(program, id), a)));
                    }
                }
            }
        }
        houses
    }

    /// Whether a call is made on such a client.
    pub(super) fn answer(&self, program: &Program, models: &Models, function: FunctionId, call: &Call) -> bool {
        if self.types.is_empty() && self.accessors.is_empty() {
            return false;
        }
        match foreign(program, models, function, call) {
            Some(Receiver::Of(types)) => types.iter().any(|ty| self.types.contains(ty)),
            Some(Receiver::Unknown(operand)) => accessor(&program.value(function, operand))
                .is_some_and(|accessor| self.accessors.contains(&(krate(program, function), accessor))),
            None => false,
        }
    }
}

enum Receiver<'c> {
    Of(Vec<String>),
    Unknown(&'c Operand),
}

/// The receiver of a method that neither the workspace nor a modelled crate defines.
fn foreign<'c>(program: &Program, models: &Models, function: FunctionId, call: &'c Call) -> Option<Receiver<'c>> {
    let (Callee::Method(_), true) = (&call.callee, call.targets.is_empty()) else { return None };
    let operand = call.args.first()?;
    let types = receiver_types(program, function, operand);
    if types.is_empty() {
        return Some(Receiver::Unknown(operand));
    }
    let outside = |ty: &String| {
        let known = ["std::", "core::", "alloc::"].iter().any(|root| ty.starts_with(root));
        ty.contains("::") && !known && program.type_def(ty).is_none() && models.type_roles(ty).is_empty()
    };
    types.iter().all(outside).then_some(Receiver::Of(types))
}

/// The name of what gives a receiver.
fn accessor(value: &Value) -> Option<String> {
    match value {
        Value::Call(call) if VIEWS.contains(&call.name.as_str()) => accessor(call.args.first()?),
        Value::Call(call) => Some(call.name.rsplit("::").next().unwrap_or_default().trim_start_matches('.').to_owned()),
        Value::Field(_, name) | Value::TypeField(_, name) => Some(name.clone()),
        _ => None,
    }
}

fn krate(program: &Program, function: FunctionId) -> String {
    program.function(function).module.split("::").next().unwrap_or_default().to_owned()
}

impl Models {
    /// Whether a method call takes a key by its name alone.
    fn takes(&self, call: &Call) -> bool {
        self.house_rows(call).any(|row| crate::protocol::redis::takes_by_name(&row.wire))
    }

    /// The rows of commands that a method of a house's client may mean.
    pub(super) fn house_rows<'m>(&'m self, call: &Call) -> impl Iterator<Item = &'m Row> {
        let name = match &call.callee {
            Callee::Method(name) => name.as_str(),
            _ => "",
        };
        let args = call.args.len().saturating_sub(1);
        let rows = self.by_method.get(name).into_iter().flatten().map(|row| &self.rows[*row]);
        rows.filter(move |row| {
            row.role == Role::Command && row.protocol == Protocol::Redis && !row.typed && row.args.fits(args)
        })
    }
}
