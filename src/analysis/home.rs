//! Where the value of a field comes from, over constructors and their callers.

use super::{Analyzer, origin_call};
use crate::ir::Value;

impl Analyzer<'_> {
    /// A field's value where it comes from, if all constructors of its type were given one and the same: two types
    /// that were made of one key are then compared by that key.
    pub fn home(&self, value: &Value) -> Value {
        self.home_of(value, 0)
    }

    fn home_of(&self, value: &Value, depth: u32) -> Value {
        let Value::TypeField(owner, name) = value else { return value.clone() };
        if depth > 4 {
            return value.clone();
        }
        let mut found: Vec<Value> = Vec::new();
        for (function, stored) in self.program.field_values(owner, name) {
            match self.comparable(function, &stored) {
                Value::Param(i) => {
                    for site in
                        self.program.callers(function).iter().filter(|s| !self.program.function(s.function).test)
                    {
                        let Some(call) = origin_call(self.program, *site) else { continue };
                        let given = self.program.instantiate(&Value::Param(i), call, site.function);
                        found.push(self.comparable(site.function, &given));
                    }
                }
                other => found.push(other),
            }
        }
        found.dedup();
        match found.as_slice() {
            [Value::Unknown] => value.clone(),
            [one] => self.home_of(one, depth + 1),
            _ => value.clone(),
        }
    }
}
