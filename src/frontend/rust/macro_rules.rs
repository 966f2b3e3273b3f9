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
            let body = plain(body, &params);
            let params: Vec<String> = params.into_iter().map(|(name, _)| name).collect();
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
fn arms(tokens: &TokenStream) -> Vec<(Fragments, TokenStream, proc_macro2::Span)> {
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

/// Names and kinds of `$name:kind`, in order.
type Fragments = Vec<(String, String)>;

fn fragments(tokens: &TokenStream) -> Fragments {
    let mut out = Fragments::new();
    let mut pending = vec![tokens.clone().into_iter()];
    let mut last: [Option<TokenTree>; 3] = [None, None, None];
    while let Some(stream) = pending.last_mut() {
        let Some(token) = stream.next() else {
            pending.pop();
            continue;
        };
        if let (Some(TokenTree::Punct(dollar)), Some(TokenTree::Ident(name)), Some(TokenTree::Punct(colon))) =
            (&last[0], &last[1], &last[2])
            && dollar.as_char() == '$'
            && colon.as_char() == ':'
            && let TokenTree::Ident(kind) = &token
        {
            out.push((names::ident(name), kind.to_string()));
        }
        if let TokenTree::Group(group) = &token {
            pending.push(group.stream().into_iter());
        }
        last.rotate_left(1);
        last[2] = Some(token);
    }
    out
}

/// A transcriber as plain Rust: `$x` is `x` (`{ x }` for a block, `x;` for a statement), `$( .. ) sep op` is its content
/// once, `$crate` is `crate`.
fn plain(tokens: TokenStream, params: &Fragments) -> TokenStream {
    plain_depth(tokens, params, 0)
}

fn plain_depth(tokens: TokenStream, params: &Fragments, depth: usize) -> TokenStream {
    if depth > parse::MAX_DEPTH {
        return tokens;
    }
    let mut out: Vec<TokenTree> = Vec::new();
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Punct(p) if p.as_char() == '$' => match tokens.next() {
                Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis => {
                    out.extend(plain_depth(group.stream(), params, depth + 1));
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
                Some(TokenTree::Ident(name)) => fragment(name, params, &mut out),
                Some(other) => out.push(other),
                None => {}
            },
            TokenTree::Group(group) => {
                let stream = plain_depth(group.stream(), params, depth + 1);
                out.push(spanned_group(group.delimiter(), stream, group.span()));
            }
            other => out.push(other),
        }
    }
    out.into_iter().collect()
}

/// One `$name` of a transcriber.
fn fragment(name: Ident, params: &Fragments, out: &mut Vec<TokenTree>) {
    let text = names::ident(&name);
    let kind = params.iter().find(|(param, _)| *param == text).map_or("", |(_, kind)| kind);
    let span = name.span();
    match kind {
        "block" => out.push(spanned_group(Delimiter::Brace, TokenTree::Ident(name).into(), span)),
        "stmt" => {
            let mut end = proc_macro2::Punct::new(';', proc_macro2::Spacing::Alone);
            end.set_span(span);
            out.extend([TokenTree::Ident(name), TokenTree::Punct(end)]);
        }
        _ => out.push(TokenTree::Ident(name)),
    }
}

fn spanned_group(delimiter: Delimiter, stream: TokenStream, span: proc_macro2::Span) -> TokenTree {
    let mut group = proc_macro2::Group::new(delimiter, stream);
    group.set_span(span);
    TokenTree::Group(group)
}

fn is_repeat(token: Option<&TokenTree>) -> bool {
    matches!(token, Some(TokenTree::Punct(p)) if matches!(p.as_char(), '*' | '+' | '?'))
}
