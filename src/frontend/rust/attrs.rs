//! Attributes: test code, and names that other layers ask for.

use proc_macro2::{TokenStream, TokenTree};
use syn::{Attribute, Meta};

/// Whether an item with these attributes is test code: `#[cfg(test)]`, `#[test]`, `#[tokio::test]` and kin, `#[bench]`.
pub(super) fn is_test(attrs: &[Attribute]) -> bool {
    attrs.iter().any(|attr| match &attr.meta {
        Meta::List(list) if list.path.is_ident("cfg") => cfg_names_test(&list.tokens),
        meta => meta
            .path()
            .segments
            .last()
            .is_some_and(|s| matches!(s.ident.to_string().as_str(), "test" | "rstest" | "test_case" | "bench")),
    })
}

/// Whether a `cfg` predicate holds only, or also, under `test`. What stands in `not(..)` does not count.
fn cfg_names_test(tokens: &TokenStream) -> bool {
    let mut pending = vec![tokens.clone()];
    while let Some(stream) = pending.pop() {
        let mut negated = false;
        for token in stream {
            match token {
                TokenTree::Group(group) if !negated => pending.push(group.stream()),
                TokenTree::Ident(ident) if ident == "test" => return true,
                TokenTree::Ident(ident) => {
                    negated = ident == "not";
                    continue;
                }
                _ => {}
            }
            negated = false;
        }
    }
    false
}

/// Names of the attributes and derives of a type, by last segment.
pub(super) fn names(attrs: &[Attribute]) -> Vec<String> {
    let mut out = Vec::new();
    for attr in attrs {
        let Some(name) = attr.path().segments.last().map(|s| s.ident.to_string()) else { continue };
        match &attr.meta {
            Meta::List(list) if name == "derive" => {
                let parser = syn::punctuated::Punctuated::<syn::Path, syn::Token![,]>::parse_terminated;
                if let Ok(paths) = syn::parse::Parser::parse2(parser, list.tokens.clone()) {
                    out.extend(paths.iter().filter_map(|p| p.segments.last()).map(|s| s.ident.to_string()));
                }
            }
            _ if name == "doc" => {}
            _ => out.push(name),
        }
    }
    out
}
