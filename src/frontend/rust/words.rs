//! Lock words: decide whether something that could not be read must be shown as a blind spot.

use proc_macro2::{TokenStream, TokenTree};

/// Lower-case words that a lock or lease is written with.
const WORDS: &[&str] = &[
    "set_nx",
    "setnx",
    "set_options",
    "pexpire",
    "expire",
    "evalsha",
    "invoke_async",
    "advisory",
    "get_lock",
    "release_lock",
    "applock",
    "for update",
    "for_update",
    "lock_exclusive",
    "skip locked",
    "lease",
    "redlock",
    "try_lock",
    "acquire",
    "unlock",
];

/// Whether a text holds a lock word.
pub(super) fn in_text(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    WORDS.iter().any(|word| text.contains(word)) || text.contains("\"set\"") || text.contains("\"del\"")
}

/// Whether identifiers or literals of a token stream hold a lock word.
pub(super) fn in_tokens(tokens: &TokenStream) -> bool {
    let mut pending = vec![tokens.clone()];
    while let Some(stream) = pending.pop() {
        let mut doc = false;
        for token in stream {
            // `#[doc = ".."]` is a comment.
            let documents = std::mem::replace(&mut doc, matches!(&token, TokenTree::Ident(i) if i == "doc"));
            match token {
                TokenTree::Punct(p) if documents && p.as_char() == '=' => doc = true,
                TokenTree::Literal(_) if documents => {}
                TokenTree::Group(group) => pending.push(group.stream()),
                TokenTree::Ident(ident) if in_text(&ident.to_string()) => return true,
                TokenTree::Literal(literal) if in_text(&literal.to_string()) => return true,
                _ => {}
            }
        }
    }
    false
}
