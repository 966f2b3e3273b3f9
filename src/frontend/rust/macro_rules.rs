//! `macro_rules!`. What the file itself invokes is lowered where it is invoked, filled in (see [`fill`]). An arm that only other
//! files invoke is lowered as a function with its fragments as parameters.

pub(super) mod fill;

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
        for arm in fill::arms(tokens) {
            if !words::in_tokens(&arm.body) {
                continue;
            }
            let params = fragments(&arm.matcher);
            let at = self.places.span(arm.at);
            let path = format!("{prefix}::{name}!{{{number}}}");
            number += 1;
            if self.macros.is_invoked(&name, &arm) {
                continue;
            }
            let body = plain(arm.body, &params);
            let params: Vec<String> = params.into_iter().map(|(name, _)| name).collect();
            if parse::too_deep(&body) {
                self.unit.opaque.push(at);
            } else if let Some(items) = items_of(&body) {
                self.items(&items, &path);
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

/// The items that tokens consist of, if they do.
pub(super) fn items_of(tokens: &TokenStream) -> Option<Vec<syn::Item>> {
    syn::parse2::<syn::File>(tokens.clone()).ok().map(|file| file.items).filter(|items| !items.is_empty())
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
