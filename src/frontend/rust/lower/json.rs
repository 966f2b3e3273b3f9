//! `json!`: the object that is written, field by field.

use super::tokens::split_commas;
use super::{Lower, Want, used};
use crate::frontend::rust::parse;
use crate::ir::{Operand, Rvalue, Use};
use crate::source::Span;
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::Expr;

/// Type of what the macro makes.
const VALUE: &str = "serde_json::Value";

impl Lower<'_> {
    /// `json!({ "ttl": ttl, "tags": [a, b] })` as a struct with these fields; a key that is computed is named `*`.
    /// `None` if the tokens are not as `serde_json` wants them.
    pub(super) fn json(&mut self, tokens: &TokenStream, want: Want, span: Span) -> Option<Operand> {
        if parse::too_deep(tokens) || !readable(tokens) {
            return None;
        }
        Some(self.json_value(tokens, want, span))
    }

    fn json_value(&mut self, tokens: &TokenStream, want: Want, span: Span) -> Operand {
        match shape(tokens) {
            Shape::Object(stream) => {
                let mut fields = Vec::new();
                for part in split_commas(&stream) {
                    let Some((key, value)) = entry(part) else { continue };
                    let value = used(self.json_value(&value, Want::Value, span), Use::Ref);
                    fields.push((key, value));
                }
                self.compute(span, want, Rvalue::Struct(VALUE.into(), fields, None))
            }
            Shape::Array(stream) => {
                let parts = split_commas(&stream);
                let list = parts.iter().map(|part| used(self.json_value(part, Want::Value, span), Use::Ref)).collect();
                self.compute(span, want, Rvalue::Array(list))
            }
            Shape::Null => self.compute(span, want, Rvalue::Use(Operand::Path(format!("{VALUE}::Null")))),
            Shape::Expr(expr) => self.value(&expr, want),
            Shape::Other => self.compute(span, want, Rvalue::Unknown(Vec::new())),
        }
    }
}

enum Shape {
    Object(TokenStream),
    Array(TokenStream),
    Null,
    Expr(Box<Expr>),
    Other,
}

fn shape(tokens: &TokenStream) -> Shape {
    let mut list = tokens.clone().into_iter();
    match (list.next(), list.next()) {
        (Some(TokenTree::Group(group)), None) if group.delimiter() == Delimiter::Brace => Shape::Object(group.stream()),
        (Some(TokenTree::Group(group)), None) if group.delimiter() == Delimiter::Bracket => {
            Shape::Array(group.stream())
        }
        (Some(TokenTree::Ident(word)), None) if word == "null" => Shape::Null,
        _ => syn::parse2::<Expr>(tokens.clone()).map_or(Shape::Other, |expr| Shape::Expr(Box::new(expr))),
    }
}

/// `"key": value`.
fn entry(tokens: TokenStream) -> Option<(String, TokenStream)> {
    let mut tokens = tokens.into_iter();
    let mut key: Vec<TokenTree> = Vec::new();
    loop {
        match tokens.next()? {
            TokenTree::Punct(p) if p.as_char() == ':' && p.spacing() == proc_macro2::Spacing::Alone => break,
            token => key.push(token),
        }
    }
    let name = match syn::parse2::<syn::LitStr>(key.into_iter().collect()) {
        Ok(text) => text.value(),
        Err(_) => "*".to_owned(),
    };
    Some((name, tokens.collect()))
}

/// Whether every entry is a key with a value and every value can be read.
fn readable(tokens: &TokenStream) -> bool {
    match shape(tokens) {
        Shape::Object(stream) => {
            split_commas(&stream).into_iter().all(|part| entry(part).is_some_and(|(_, value)| readable(&value)))
        }
        Shape::Array(stream) => split_commas(&stream).iter().all(readable),
        Shape::Other => false,
        Shape::Null | Shape::Expr(_) => true,
    }
}
