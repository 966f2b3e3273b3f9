//! Attributes: test code, and names that other layers ask for.

use proc_macro2::TokenStream;
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, ExprLit, Lit, Meta, Token};

/// Whether what has these attributes is test code: `#[cfg(test)]`, `#[cfg(feature = "integration-tests")]`, `#[test]`,
/// `#[tokio::test]` and kin, `#[bench]`.
pub(super) fn is_test(attrs: &[Attribute]) -> bool {
    configured(attrs) == Some(false)
        || attrs.iter().any(|attr| {
            let last = attr.path().segments.last();
            last.is_some_and(|s| matches!(s.ident.to_string().as_str(), "test" | "rstest" | "test_case" | "bench"))
        })
}

/// Whether what has these attributes is there in a build that is not for tests: `None` where that depends on more.
pub(super) fn configured(attrs: &[Attribute]) -> Option<bool> {
    let cfgs = attrs.iter().filter(|attr| attr.path().is_ident("cfg"));
    all(cfgs.map(|attr| attr.meta.require_list().ok().and_then(|list| predicate(&list.tokens))))
}

/// The value of a `cfg` predicate in a build that is not for tests.
pub(super) fn predicate(tokens: &TokenStream) -> Option<bool> {
    syn::parse2::<Meta>(tokens.clone()).ok().and_then(|meta| holds(&meta, 0))
}

fn holds(meta: &Meta, depth: u32) -> Option<bool> {
    match meta {
        Meta::Path(path) => {
            let name = path.get_ident()?.to_string();
            matches!(name.as_str(), "test" | "doctest" | "bench" | "miri" | "loom" | "fuzzing" | "kani")
                .then_some(false)
        }
        Meta::NameValue(pair) if pair.path.is_ident("feature") => match &pair.value {
            Expr::Lit(ExprLit { lit: Lit::Str(name), .. }) => tests(&name.value()).then_some(false),
            _ => None,
        },
        Meta::List(list) if depth < MAX_NESTED => {
            let parts = Punctuated::<Meta, Token![,]>::parse_terminated.parse2(list.tokens.clone()).ok()?;
            let mut values = parts.iter().map(|part| holds(part, depth + 1));
            match list.path.get_ident()?.to_string().as_str() {
                "all" => all(values),
                "any" => all(values.map(|value| value.map(|v| !v))).map(|v| !v),
                "not" => values.next().flatten().map(|v| !v),
                _ => None,
            }
        }
        _ => None,
    }
}

fn all(values: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    let mut out = Some(true);
    for value in values {
        match value {
            Some(false) => return Some(false),
            None => out = None,
            Some(true) => {}
        }
    }
    out
}

/// Whether a feature is for tests by its name: `test-utils`, `functional_tests`, `mock`.
fn tests(feature: &str) -> bool {
    let words = feature.split(|c: char| !c.is_alphanumeric());
    words.map(str::to_ascii_lowercase).any(|word| {
        matches!(word.as_str(), "test" | "tests" | "testing" | "testutil" | "testutils" | "mock" | "mocks" | "fuzzing")
    })
}

/// Predicates in predicates that are followed.
const MAX_NESTED: u32 = 32;

/// Names of the attributes and derives of a type, by last segment.
pub(super) fn names(attrs: &[Attribute]) -> Vec<String> {
    let mut out = Vec::new();
    for attr in attrs {
        let Some(name) = attr.path().segments.last().map(|s| s.ident.to_string()) else { continue };
        match &attr.meta {
            Meta::List(list) if name == "derive" => {
                let parser = Punctuated::<syn::Path, Token![,]>::parse_terminated;
                if let Ok(paths) = parser.parse2(list.tokens.clone()) {
                    out.extend(paths.iter().filter_map(|p| p.segments.last()).map(|s| s.ident.to_string()));
                }
            }
            _ if name == "doc" => {}
            _ => out.push(name),
        }
    }
    out
}
