//! Lock words: decide whether something that could not be read must be shown as a blind spot.

pub(super) use crate::model::lock_word_in as in_text;
use proc_macro2::{TokenStream, TokenTree};

/// Whether a token stream holds a lock word. Documentation (`#[doc = ".."]`) does not count.
pub(super) fn in_tokens(tokens: &TokenStream) -> bool {
    in_text(&text(tokens))
}

/// The tokens as dense text: `redis::cmd("SET")`.
fn text(tokens: &TokenStream) -> String {
    let mut out = String::new();
    let mut pending = vec![(tokens.clone().into_iter(), "")];
    let mut doc = false;
    while let Some((stream, close)) = pending.last_mut() {
        let Some(token) = stream.next() else {
            out.push_str(close);
            pending.pop();
            continue;
        };
        let documents = std::mem::replace(&mut doc, matches!(&token, TokenTree::Ident(ident) if ident == "doc"));
        match token {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    proc_macro2::Delimiter::Parenthesis => ("(", ")"),
                    proc_macro2::Delimiter::Brace => ("{", "}"),
                    proc_macro2::Delimiter::Bracket => ("[", "]"),
                    proc_macro2::Delimiter::None => ("", ""),
                };
                out.push_str(open);
                pending.push((group.stream().into_iter(), close));
            }
            TokenTree::Punct(punct) => {
                doc = documents && punct.as_char() == '=';
                out.push(punct.as_char());
            }
            TokenTree::Literal(_) if documents => {}
            word => {
                if out.ends_with(|c: char| c.is_alphanumeric() || c == '_') {
                    out.push(' ');
                }
                out.push_str(&word.to_string());
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_begin_where_they_are_written() {
        let tokens = |text: &str| in_tokens(&text.parse().unwrap_or_default());
        assert!(tokens("let x = conn.set_nx(k, v);"));
        assert!(tokens("opts(ExistenceCheck::NX)"));
        assert!(tokens("query(\"SELECT pg_advisory_lock(1)\")"));
        assert!(!tokens("self.release(x)"));
        assert!(!tokens("R: ::sqlx::Row"));
        assert!(!tokens("/// set_nx\nfn f() {}"));
    }
}
