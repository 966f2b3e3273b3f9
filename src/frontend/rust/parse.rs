//! Text to items. One construct that syn does not know costs its item, not the file.

use super::macro_rules::fill::Macros;
use super::places::Places;
use super::words;
use crate::source::{Problem, ProblemKind, SourceFile, Span};
use proc_macro2::{Delimiter, Group, Spacing, TokenStream, TokenTree};
use syn::{ImplItem, Item, TraitItem};

/// Deepest nesting of brackets, generics or prefix operators that is parsed: syn and what follows recurse on it.
pub(super) const MAX_DEPTH: usize = 256;

/// What could be parsed of a file.
pub(crate) struct Parsed<'a> {
    pub(crate) places: Places<'a>,
    pub(crate) items: Vec<Item>,
    pub(super) problems: Vec<Problem>,
    pub(super) opaque: Vec<Span>,
    /// Macros that the file defines.
    pub(super) macros: Macros,
}

/// Parses a file.
pub(crate) fn parse(file: &SourceFile) -> Parsed<'_> {
    let base = prefix_len(&file.text);
    let places = Places::new(file, file.text[..base].chars().count());
    let mut parsed =
        Parsed { places, items: Vec::new(), problems: Vec::new(), opaque: Vec::new(), macros: Macros::default() };
    let tokens = match file.text[base..].parse::<TokenStream>() {
        Ok(tokens) => tokens,
        Err(error) => {
            let message = if words::in_text(&file.text) {
                "not Rust: the text does not lex, and it holds lock words"
            } else {
                "not Rust: the text does not lex"
            };
            let span = Some(places.span(error.span()));
            parsed.problems.push(Problem {
                path: file.path.clone(),
                span,
                kind: ProblemKind::FileUnread,
                message: message.into(),
            });
            return parsed;
        }
    };
    if file.text.contains("macro_rules!") {
        parsed.macros = Macros::of(&tokens);
    }
    if !too_deep(&tokens) {
        match syn::parse2::<syn::File>(tokens.clone()) {
            Ok(tree) => {
                parsed.items = tree.items;
                return parsed;
            }
            Err(_) => parse_each(file, tokens, &mut parsed),
        }
    } else {
        parse_each(file, tokens, &mut parsed);
    }
    parsed
}

/// Bytes of byte-order mark and shebang, which the lexer must not see.
fn prefix_len(text: &str) -> usize {
    let bom = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let rest = &text[bom..];
    let Some(after) = rest.strip_prefix("#!") else { return bom };
    if after.trim_start().starts_with('[') {
        return bom;
    }
    bom + rest.find('\n').unwrap_or(rest.len())
}

/// Whether brackets, generics or runs of prefix operators nest deeper than [`MAX_DEPTH`]. Iterative.
pub(super) fn too_deep(tokens: &TokenStream) -> bool {
    let mut stack = vec![(tokens.clone().into_iter(), 0usize)];
    let mut run = 0usize;
    while let Some((stream, angles)) = stack.last_mut() {
        let Some(token) = stream.next() else {
            stack.pop();
            continue;
        };
        match token {
            TokenTree::Group(group) => {
                run = 0;
                stack.push((group.stream().into_iter(), 0));
                if stack.len() > MAX_DEPTH {
                    return true;
                }
            }
            TokenTree::Punct(punct) => {
                run += 1;
                match punct.as_char() {
                    '<' => *angles += 1,
                    '>' => *angles = angles.saturating_sub(1),
                    ';' => *angles = 0,
                    _ => {}
                }
                if *angles > MAX_DEPTH || run > MAX_DEPTH {
                    return true;
                }
            }
            TokenTree::Ident(_) | TokenTree::Literal(_) => run = 0,
        }
    }
    false
}

/// Splits a stream into items and parses each; what fails becomes a problem.
fn parse_each(file: &SourceFile, tokens: TokenStream, parsed: &mut Parsed<'_>) {
    for chunk in split(tokens) {
        if !too_deep(&stream(&chunk))
            && let Ok(item) = syn::parse2::<Item>(stream(&chunk))
            && !matches!(item, Item::Verbatim(_))
        {
            parsed.items.push(item);
        } else if let Some(item) = parse_inner(file, &chunk, parsed) {
            parsed.items.push(item);
        } else {
            fail(file, &chunk, parsed);
        }
    }
}

/// An `impl`, `trait` or `mod` that failed is parsed again without the members that fail by themselves.
fn parse_inner(file: &SourceFile, chunk: &[TokenTree], parsed: &mut Parsed<'_>) -> Option<Item> {
    let Some((TokenTree::Group(body), head)) = chunk.split_last() else { return None };
    if body.delimiter() != Delimiter::Brace {
        return None;
    }
    let keyword = head.iter().find_map(|t| match t {
        TokenTree::Ident(ident) => {
            let word = ident.to_string();
            ["impl", "trait", "mod"].into_iter().find(|k| *k == word)
        }
        _ => None,
    })?;
    let mut good = Vec::new();
    let mut bad = Vec::new();
    for member in split(body.stream()) {
        let member_stream = stream(&member);
        let deep = too_deep(&member_stream);
        let parses = !deep
            && match keyword {
                "impl" => syn::parse2::<ImplItem>(member_stream).is_ok(),
                "trait" => syn::parse2::<TraitItem>(member_stream).is_ok(),
                _ => syn::parse2::<Item>(member_stream).is_ok(),
            };
        if parses {
            good.extend(member);
        } else {
            bad.push(member);
        }
    }
    let mut group = Group::new(Delimiter::Brace, stream(&good));
    group.set_span(body.span());
    let mut whole = head.to_vec();
    whole.push(TokenTree::Group(group));
    let item = syn::parse2::<Item>(stream(&whole)).ok()?;
    for member in &bad {
        fail(file, member, parsed);
    }
    Some(item)
}

fn fail(file: &SourceFile, chunk: &[TokenTree], parsed: &mut Parsed<'_>) {
    let (Some(first), Some(last)) = (chunk.first(), chunk.last()) else { return };
    let span = parsed.places.between(first.span(), last.span());
    let tokens = stream(chunk);
    let why = if too_deep(&tokens) {
        "it nests too deeply".to_owned()
    } else {
        match syn::parse2::<Item>(tokens.clone()) {
            Err(error) => error.to_string(),
            Ok(_) => "its syntax is not known".to_owned(),
        }
    };
    let name = chunk.iter().filter_map(ident).find(|word| !KEYWORDS.contains(&word.as_str()));
    let name = name.map_or_else(String::new, |name| format!(" near `{name}`"));
    parsed.problems.push(Problem {
        path: file.path.clone(),
        span: Some(span),
        kind: ProblemKind::PartUnread,
        message: format!("an item{name} was not read: {why}"),
    });
    if words::in_tokens(&tokens) {
        parsed.opaque.push(span);
    }
}

const KEYWORDS: &[&str] = &[
    "pub", "crate", "fn", "async", "unsafe", "const", "static", "struct", "enum", "impl", "mod", "trait", "use",
    "type", "extern", "mut", "cfg", "derive", "allow", "doc",
];

fn ident(token: &TokenTree) -> Option<String> {
    match token {
        TokenTree::Ident(ident) => Some(ident.to_string()),
        _ => None,
    }
}

fn stream(tokens: &[TokenTree]) -> TokenStream {
    tokens.iter().cloned().collect()
}

/// Splits a stream at the ends of items: `;`, or a brace group unless the item is one that only `;` ends.
fn split(tokens: TokenStream) -> Vec<Vec<TokenTree>> {
    let mut out = Vec::new();
    let mut chunk: Vec<TokenTree> = Vec::new();
    let mut tokens = without_inner_attributes(tokens).into_iter().peekable();
    while let Some(token) = tokens.next() {
        let ends = match &token {
            TokenTree::Punct(punct) => punct.as_char() == ';',
            TokenTree::Group(group) => group.delimiter() == Delimiter::Brace && !needs_semicolon(&chunk),
            _ => false,
        };
        let marker = merge_marker(&token, &chunk);
        chunk.push(token);
        if marker {
            continue;
        }
        if ends {
            if let Some(TokenTree::Punct(next)) = tokens.peek()
                && next.as_char() == ';'
                && next.spacing() == Spacing::Alone
            {
                chunk.extend(tokens.next());
            }
            out.push(std::mem::take(&mut chunk));
        }
    }
    if !chunk.is_empty() {
        out.push(chunk);
    }
    out
}

/// Cuts off the attributes of the whole (`//!`, `#![..]`), which no item begins with.
fn without_inner_attributes(tokens: TokenStream) -> Vec<TokenTree> {
    let is = |token: Option<&TokenTree>, c: char| matches!(token, Some(TokenTree::Punct(p)) if p.as_char() == c);
    let mut rest: &[TokenTree] = &tokens.into_iter().collect::<Vec<_>>();
    while is(rest.first(), '#') && is(rest.get(1), '!') && matches!(rest.get(2), Some(TokenTree::Group(_))) {
        rest = &rest[3..];
    }
    rest.to_vec()
}

/// `<<<<<<<`, `=======`, `>>>>>>>`: part of whatever follows.
fn merge_marker(token: &TokenTree, chunk: &[TokenTree]) -> bool {
    matches!(token, TokenTree::Punct(p) if matches!(p.as_char(), '<' | '=' | '>')) && chunk.is_empty()
}

/// Whether the item begun by these tokens ends only at `;` (`use a::{b};`, `const X: T = T { .. };`).
fn needs_semicolon(chunk: &[TokenTree]) -> bool {
    let mut words = chunk.iter().filter_map(ident).filter(|w| w != "pub" && w != "crate" && w != "super");
    match words.next().as_deref() {
        Some("use" | "static" | "type" | "let") => true,
        Some("const") => !matches!(words.next().as_deref(), Some("fn" | "unsafe" | "async" | "extern" | "trait")),
        _ => false,
    }
}
