//! `macro_rules!`: arm bodies lowered as functions, their fragments as parameters. No expansion.

use super::lower::{Header, Lower};
use super::{names, parse, words};
use crate::ir::FunctionKind;
use crate::source::Span;
use proc_macro2::{Delimiter, Ident, TokenStream, TokenTree};
use syn::Block;
use syn::parse::Parser;

impl Lower<'_> {
    /// Lowers each arm of a macro that holds lock words. Arms that do not parse without expansion are opaque.
    pub(super) fn macro_rules(&mut self, ident: &Ident, tokens: &TokenStream, prefix: &str, span: Span) {
        let name = names::ident(ident);
        let mut number = 0;
        for (params, body, at) in arms(tokens) {
            if !words::in_tokens(&body) {
                continue;
            }
            let at = self.places.span(at);
            let path = format!("{prefix}::{name}!{{{number}}}");
            number += 1;
            let body = plain(body);
            if parse::too_deep(&body) {
                self.unit.opaque.push(at);
            } else if let Ok(file) = syn::parse2::<syn::File>(body.clone())
                && !file.items.is_empty()
            {
                self.items(&file.items, &path);
            } else if let Ok(stmts) = Block::parse_within.parse2(body) {
                let header = Header {
                    path,
                    name: name.clone(),
                    ..Header::new(FunctionKind::Macro, self.places.span(ident.span()), at)
                };
                self.fragment(&params, &stmts, header);
            } else {
                self.unit.opaque.push(at);
            }
        }
        if number == 0 {
            self.unit.opaque.push(span);
        }
    }
}

/// The arms of a macro: names of fragments, body, place of the body.
fn arms(tokens: &TokenStream) -> Vec<(Vec<String>, TokenStream, proc_macro2::Span)> {
    let mut out = Vec::new();
    let mut tokens = tokens.clone().into_iter();
    while let Some(matcher) = tokens.next() {
        let TokenTree::Group(matcher) = matcher else { continue };
        let body = tokens.by_ref().find_map(|token| match token {
            TokenTree::Group(group) => Some(group),
            _ => None,
        });
        let Some(body) = body else { break };
        out.push((fragments(&matcher.stream()), body.stream(), body.span()));
    }
    out
}

/// Names of `$name:kind` fragments, in order.
fn fragments(tokens: &TokenStream) -> Vec<String> {
    let mut out = Vec::new();
    let mut pending = vec![tokens.clone().into_iter()];
    let mut dollar = false;
    while let Some(stream) = pending.last_mut() {
        let Some(token) = stream.next() else {
            pending.pop();
            continue;
        };
        match token {
            TokenTree::Punct(p) if p.as_char() == '$' => {
                dollar = true;
                continue;
            }
            TokenTree::Ident(ident) if dollar => out.push(names::ident(&ident)),
            TokenTree::Group(group) => pending.push(group.stream().into_iter()),
            _ => {}
        }
        dollar = false;
    }
    out
}

/// A transcriber as plain Rust: `$x` is `x`, `$( .. ) sep op` is its content once, `$crate` is `crate`.
fn plain(tokens: TokenStream) -> TokenStream {
    plain_depth(tokens, 0)
}

fn plain_depth(tokens: TokenStream, depth: usize) -> TokenStream {
    if depth > parse::MAX_DEPTH {
        return tokens;
    }
    let mut out: Vec<TokenTree> = Vec::new();
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Punct(p) if p.as_char() == '$' => match tokens.next() {
                Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis => {
                    out.extend(plain_depth(group.stream(), depth + 1));
                    let mut separator = None;
                    if !is_repeat(tokens.peek()) {
                        separator = tokens.next();
                    }
                    if is_repeat(tokens.peek()) {
                        tokens.next();
                    } else {
                        out.extend(separator);
                    }
                }
                Some(other) => out.push(other),
                None => {}
            },
            TokenTree::Group(group) => {
                let mut inner = proc_macro2::Group::new(group.delimiter(), plain_depth(group.stream(), depth + 1));
                inner.set_span(group.span());
                out.push(TokenTree::Group(inner));
            }
            other => out.push(other),
        }
    }
    out.into_iter().collect()
}

fn is_repeat(token: Option<&TokenTree>) -> bool {
    matches!(token, Some(TokenTree::Punct(p)) if matches!(p.as_char(), '*' | '+' | '?'))
}
