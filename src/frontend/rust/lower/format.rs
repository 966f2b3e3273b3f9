//! Format strings.

use super::{Lower, Want, used};
use crate::frontend::rust::names;
use crate::ir::{FormatPiece, Lit, Operand, Rvalue, Use};
use crate::source::Span;
use proc_macro2::TokenStream;
use syn::parse::{ParseStream, Parser};
use syn::{Expr, Ident, Token};

/// An argument of a formatting macro: its name, if it has one, and its value.
pub(super) struct Argument {
    name: Option<String>,
    value: Expr,
}

impl Argument {
    pub(super) fn expr(&self) -> &Expr {
        &self.value
    }

    pub(super) fn into_expr(self) -> Expr {
        self.value
    }
}

/// Parses `a, b, name = c` as the arguments of a formatting macro.
pub(super) fn arguments(tokens: &TokenStream) -> Option<Vec<Argument>> {
    let parser = |input: ParseStream| {
        let mut list = Vec::new();
        while !input.is_empty() {
            let name = if input.peek(Ident) && input.peek2(Token![=]) && !input.peek2(Token![==]) {
                let name: Ident = input.parse()?;
                input.parse::<Token![=]>()?;
                Some(names::ident(&name))
            } else {
                None
            };
            list.push(Argument { name, value: input.parse()? });
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(list)
    };
    parser.parse2(tokens.clone()).ok()
}

/// A part of a format string.
#[derive(Debug, PartialEq)]
enum Part {
    Text(String),
    Next,
    Index(usize),
    Name(String),
}

impl Lower<'_> {
    /// `format!` and kin: the text with holes. `None` if the arguments do not parse.
    pub(super) fn format(&mut self, tokens: &TokenStream, want: Want, span: Span) -> Option<Operand> {
        let args = arguments(tokens)?;
        let (first, rest) = args.split_first()?;
        Some(self.format_parts(&first.value, rest, want, span))
    }

    /// A format string with its arguments.
    pub(super) fn format_parts(&mut self, template: &Expr, args: &[Argument], want: Want, span: Span) -> Operand {
        let values: Vec<Operand> = args.iter().map(|arg| used(self.value(&arg.value, Want::Value), Use::Ref)).collect();
        let (text, span) = match template_text(template) {
            Some((text, token)) => (text, self.places.span(token)),
            None => {
                // `format!(concat!(..), ..)` and other generated templates.
                let template = used(self.value(template, Want::Value), Use::Ref);
                let mut all = vec![template];
                all.extend(values);
                return self.compute(span, want, Rvalue::Unknown(all));
            }
        };
        let mut next = 0;
        let mut pieces = Vec::new();
        for part in split(&text) {
            let hole = match part {
                Part::Text(text) => {
                    pieces.push(FormatPiece::Text(text));
                    continue;
                }
                Part::Next => {
                    next += 1;
                    values.get(next - 1).cloned()
                }
                Part::Index(at) => values.get(at).cloned(),
                Part::Name(name) => match args.iter().position(|arg| arg.name.as_deref() == Some(&name)) {
                    Some(at) => values.get(at).cloned(),
                    None => {
                        Some(self.variable(&name).unwrap_or_else(|| Operand::Path(self.names.resolve(&[name], false))))
                    }
                },
            };
            match hole {
                // A literal argument is text.
                Some(Operand::Lit(Lit::Str(text))) => pieces.push(FormatPiece::Text(text)),
                Some(Operand::Lit(Lit::Int(n))) => pieces.push(FormatPiece::Text(n.to_string())),
                Some(hole) => pieces.push(FormatPiece::Hole(hole)),
                None => pieces.push(FormatPiece::Hole(Operand::Lit(Lit::Unit))),
            }
        }
        self.compute(span, want, Rvalue::Format(pieces))
    }

    /// `concat!("a", B, 1)`
    pub(super) fn concat(&mut self, tokens: &TokenStream, want: Want, span: Span) -> Option<Operand> {
        let args = arguments(tokens)?;
        let mut pieces = Vec::new();
        for arg in &args {
            let value = match &arg.value {
                Expr::Lit(e) => Operand::Lit(super::literal::lit(&e.lit)),
                other => used(self.value(other, Want::Value), Use::Ref),
            };
            pieces.push(match value {
                Operand::Lit(Lit::Str(text)) => FormatPiece::Text(text),
                Operand::Lit(Lit::Int(n)) => FormatPiece::Text(n.to_string()),
                Operand::Lit(Lit::Bool(b)) => FormatPiece::Text(b.to_string()),
                other => FormatPiece::Hole(other),
            });
        }
        Some(self.compute(span, want, Rvalue::Format(pieces)))
    }
}

fn template_text(template: &Expr) -> Option<(String, proc_macro2::Span)> {
    match template {
        Expr::Lit(e) => match &e.lit {
            syn::Lit::Str(s) => Some((s.value(), s.span())),
            _ => None,
        },
        Expr::Group(e) => template_text(&e.expr),
        Expr::Paren(e) => template_text(&e.expr),
        _ => None,
    }
}

/// Splits a format string (`std::fmt` syntax): `{}`, `{0}`, `{name}`, `{name:>8}`, `{{`, `}}`.
fn split(text: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut literal = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '{' if chars.peek() == Some(&'{') => {
                chars.next();
                literal.push('{');
            }
            '}' if chars.peek() == Some(&'}') => {
                chars.next();
                literal.push('}');
            }
            '{' => {
                let inside: String = chars.by_ref().take_while(|c| *c != '}').collect();
                if !literal.is_empty() {
                    parts.push(Part::Text(std::mem::take(&mut literal)));
                }
                let (name, spec) = inside.split_once(':').unwrap_or((&inside, ""));
                // `{:.*}` takes its precision from the argument before.
                if spec.contains(".*") {
                    parts.push(Part::Next);
                }
                let name = name.trim();
                parts.push(match name.parse() {
                    Ok(index) => Part::Index(index),
                    Err(_) if name.is_empty() => Part::Next,
                    Err(_) => Part::Name(name.strip_prefix("r#").unwrap_or(name).to_owned()),
                });
            }
            c => literal.push(c),
        }
    }
    if !literal.is_empty() {
        parts.push(Part::Text(literal));
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::{Part, split};

    #[test]
    fn splits_format_strings() {
        let text = |t: &str| Part::Text(t.into());
        assert_eq!(split("lock:{}:{id}"), [text("lock:"), Part::Next, text(":"), Part::Name("id".into())]);
        assert_eq!(split("{{x}}{0:>4}"), [text("{x}"), Part::Index(0)]);
        assert_eq!(split("{:?}"), [Part::Next]);
        assert_eq!(split("{unclosed"), [Part::Name("unclosed".into())]);
    }
}
