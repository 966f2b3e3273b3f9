//! Macro input: what is taken from tokens by hand.

use proc_macro2::{TokenStream, TokenTree};
use syn::parse::{Parse, ParseStream};
use syn::{Expr, Pat, Token};

struct MatchesInput(Expr, Pat);

impl Parse for MatchesInput {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let value = input.parse()?;
        input.parse::<Token![,]>()?;
        let pat = Pat::parse_multi_with_leading_vert(input)?;
        let pat = if input.peek(Token![if]) {
            let if_token = input.parse()?;
            let guard = input.parse()?;
            Pat::Guard(syn::PatGuard { attrs: Vec::new(), pat: Box::new(pat), if_token, guard })
        } else {
            pat
        };
        input.parse::<Option<Token![,]>>()?;
        Ok(MatchesInput(value, pat))
    }
}

/// `value, pattern if guard`
pub(super) fn parse_matches(tokens: &TokenStream) -> Option<(Expr, Pat)> {
    syn::parse2::<MatchesInput>(tokens.clone()).ok().map(|input| (input.0, input.1))
}

/// A path that names a type: the first argument of `query_as!`.
pub(super) fn is_type_path(path: &syn::ExprPath) -> bool {
    path.path.segments.last().is_some_and(|s| {
        let name = s.ident.to_string();
        name == "_" || name.starts_with(|c: char| c.is_uppercase()) && name.contains(|c: char| c.is_lowercase())
    })
}

/// Splits at the commas that stand outside of groups. (Commas between `<` and `>` split too; callers cope.)
pub(super) fn split_commas(tokens: &TokenStream) -> Vec<TokenStream> {
    let mut parts = Vec::new();
    let mut part: Vec<TokenTree> = Vec::new();
    for token in tokens.clone() {
        match &token {
            TokenTree::Punct(p) if p.as_char() == ',' => parts.push(std::mem::take(&mut part).into_iter().collect()),
            TokenTree::Punct(p) if p.as_char() == ';' && part.is_empty() => {}
            _ => part.push(token),
        }
    }
    if !part.is_empty() {
        parts.push(part.into_iter().collect());
    }
    parts
}

/// What follows the first comma.
pub(super) fn rest_of(tokens: &TokenStream) -> TokenStream {
    let mut tokens = tokens.clone().into_iter();
    for token in tokens.by_ref() {
        if matches!(&token, TokenTree::Punct(p) if p.as_char() == ',') {
            break;
        }
    }
    tokens.collect()
}

/// The value of a tracing field: `name = %value`, `?value`, `target: "x"`.
pub(super) fn strip_field(tokens: TokenStream) -> TokenStream {
    let list: Vec<TokenTree> = tokens.into_iter().collect();
    let single = |at: usize, c: char| matches!(&list[at], TokenTree::Punct(p) if p.as_char() == c && p.spacing() == proc_macro2::Spacing::Alone);
    let named = (0..list.len()).take(8).find(|at| single(*at, '=') || single(*at, ':'));
    let named = named
        .filter(|at| list[..*at].iter().all(|t| matches!(t, TokenTree::Ident(_) | TokenTree::Literal(_)) || is_dot(t)));
    let mut from = named.map_or(0, |at| at + 1);
    if from < list.len() && matches!(&list[from], TokenTree::Punct(p) if matches!(p.as_char(), '%' | '?')) {
        from += 1;
    }
    list.into_iter().skip(from).collect()
}

fn is_dot(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Punct(p) if p.as_char() == '.')
}

/// Expressions in `key => value`, `key: value`, `{ .. }` and `[ .. ]` of literal-like macros.
pub(super) fn loose_expressions(tokens: TokenStream) -> Option<Vec<Expr>> {
    let mut out = Vec::new();
    let mut pending = vec![tokens];
    while let Some(tokens) = pending.pop() {
        if tokens.is_empty() {
            continue;
        }
        if let Ok(expr) = syn::parse2::<Expr>(tokens.clone()) {
            out.push(expr);
            continue;
        }
        let list: Vec<TokenTree> = tokens.into_iter().collect();
        if let [TokenTree::Group(group)] = &list[..] {
            pending.extend(split_commas(&group.stream()).into_iter().rev());
            continue;
        }
        let at = list.iter().position(|t| matches!(t, TokenTree::Punct(p) if matches!(p.as_char(), ':' | '=')))?;
        let mut value = list.into_iter().skip(at + 1).peekable();
        if matches!(value.peek(), Some(TokenTree::Punct(p)) if p.as_char() == '>') {
            value.next();
        }
        let value: TokenStream = value.collect();
        if value.is_empty() {
            return None;
        }
        pending.push(value);
    }
    Some(out)
}
