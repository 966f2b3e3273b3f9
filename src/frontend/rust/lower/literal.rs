//! Literals.

use super::{Lower, Want, used};
use crate::ir::{Lit, Operand, Rvalue, Use};

impl Lower<'_> {
    /// A literal as operand. Strings with blanks in them (SQL, Lua, messages) get an op of their own, so that the place of
    /// the literal is known to whoever looks for a word inside it.
    pub(super) fn literal(&mut self, literal: &syn::Lit, want: Want) -> Operand {
        let value = lit(literal);
        match &value {
            Lit::Str(text) if text.len() >= 8 && text.contains(char::is_whitespace) => {
                let span = self.places.span(literal.span());
                used(self.compute(span, want, Rvalue::Use(Operand::Lit(value))), Use::Ref)
            }
            _ => Operand::Lit(value),
        }
    }
}

/// The value of a literal.
pub(super) fn lit(literal: &syn::Lit) -> Lit {
    match literal {
        syn::Lit::Str(s) => Lit::Str(s.value()),
        syn::Lit::Char(c) => Lit::Str(c.value().to_string()),
        syn::Lit::ByteStr(b) => Lit::Bytes(b.value()),
        syn::Lit::CStr(c) => Lit::Bytes(c.value().into_bytes()),
        syn::Lit::Byte(b) => Lit::Int(i64::from(b.value())),
        syn::Lit::Int(n) => {
            let negative = n.base10_digits().starts_with('-');
            let limit = if negative { i64::MIN } else { i64::MAX };
            Lit::Int(n.base10_digits().parse().unwrap_or(limit))
        }
        syn::Lit::Float(x) => Lit::Float(x.base10_digits().parse().unwrap_or(f64::NAN)),
        syn::Lit::Bool(b) => Lit::Bool(b.value()),
        _ => Lit::Str(String::new()),
    }
}
