//! One invocation of a macro, matched against an arm and put into its transcriber (Rust Reference, "Macros By Example").
//! Repetitions are matched greedily and nothing is tried twice: enough for what real matchers hold.

use crate::frontend::rust::{names, parse, words};
use proc_macro2::{Delimiter, Group, Ident, Spacing, TokenStream, TokenTree};
use std::collections::BTreeMap;

/// Tokens that the invocations of one file are filled with at most.
const MAX_TOKENS: usize = 20_000;

/// Invocations of one macro name in a file that are kept.
const MAX_INVOCATIONS: usize = 8;

/// What a fragment stands for.
#[derive(Clone, Debug)]
enum Bound {
    One(TokenStream),
    Many(Vec<Bindings>),
}

type Bindings = BTreeMap<String, Bound>;

/// One arm of a macro.
#[derive(Clone)]
pub(in crate::frontend::rust) struct Arm {
    /// What it matches.
    pub(super) matcher: TokenStream,
    /// What it makes of that.
    pub(super) body: TokenStream,
    /// Place of the body.
    pub(super) at: proc_macro2::Span,
}

/// The macros that a file defines and holds lock words in, and the tokens of their invocations outside of test modules.
#[derive(Default)]
pub(in crate::frontend::rust) struct Macros {
    arms: BTreeMap<String, Vec<Arm>>,
    invocations: BTreeMap<String, Vec<TokenStream>>,
    /// Tokens that invocations may still be filled with.
    left: usize,
}

impl Macros {
    /// Those of a file.
    pub(in crate::frontend::rust) fn of(tokens: &TokenStream) -> Macros {
        let mut found = Macros { left: MAX_TOKENS, ..Macros::default() };
        let mut pending = vec![tokens.clone().into_iter()];
        // The last words before a group: `name !`, `macro_rules ! name`, `mod tests`.
        let mut before: [Option<TokenTree>; 3] = [None, None, None];
        while let Some(stream) = pending.last_mut() {
            let Some(token) = stream.next() else {
                pending.pop();
                before = [None, None, None];
                continue;
            };
            if let TokenTree::Group(group) = &token {
                let word = |token: &Option<TokenTree>| match token {
                    Some(TokenTree::Ident(ident)) => Some(names::ident(ident)),
                    _ => None,
                };
                let bang = |token: &Option<TokenTree>| is_punct(token.as_ref(), '!');
                match (word(&before[0]), word(&before[1]), word(&before[2])) {
                    (Some(first), _, Some(name))
                        if first == "macro_rules"
                            && bang(&before[1])
                            && words::in_tokens(&group.stream())
                            && !parse::too_deep(&group.stream()) =>
                    {
                        found.arms.insert(name, arms(&group.stream()));
                    }
                    (_, Some(name), _) if bang(&before[2]) => {
                        let list = found.invocations.entry(name).or_default();
                        if list.len() < MAX_INVOCATIONS {
                            list.push(group.stream());
                        }
                    }
                    (_, Some(keyword), Some(name)) if keyword == "mod" && matches!(name.as_str(), "test" | "tests") => {
                        before = [None, None, None];
                        continue;
                    }
                    _ => {}
                }
                pending.push(group.stream().into_iter());
                before = [None, None, None];
                continue;
            }
            before.rotate_left(1);
            before[2] = Some(token);
        }
        found
    }

    /// Whether an invocation in the file fits the arm: it is lowered there.
    pub(super) fn is_invoked(&self, name: &str, arm: &Arm) -> bool {
        let list = self.invocations.get(name).map_or(&[][..], Vec::as_slice);
        list.iter().any(|invocation| filled(arm, invocation).is_some())
    }

    /// What an invocation of a macro of this file stands for.
    pub(in crate::frontend::rust) fn expand(&mut self, name: &str, invocation: &TokenStream) -> Option<TokenStream> {
        let tokens = self.arms.get(name)?.iter().find_map(|arm| filled(arm, invocation))?;
        self.left = self.left.checked_sub(count(&tokens))?;
        (!parse::too_deep(&tokens)).then_some(tokens)
    }
}

fn count(tokens: &TokenStream) -> usize {
    let mut pending = vec![tokens.clone().into_iter()];
    let mut n = 0;
    while let Some(stream) = pending.last_mut() {
        match stream.next() {
            Some(TokenTree::Group(group)) => pending.push(group.stream().into_iter()),
            Some(_) => n += 1,
            None => {
                pending.pop();
            }
        }
    }
    n
}

/// The arms of a macro's definition.
pub(super) fn arms(tokens: &TokenStream) -> Vec<Arm> {
    let mut out = Vec::new();
    let mut tokens = tokens.clone().into_iter();
    while let Some(matcher) = tokens.next() {
        let TokenTree::Group(matcher) = matcher else { continue };
        let body = tokens.by_ref().find_map(|token| match token {
            TokenTree::Group(group) => Some(group),
            _ => None,
        });
        let Some(body) = body else { break };
        out.push(Arm { matcher: matcher.stream(), body: body.stream(), at: body.span() });
    }
    out
}

/// The transcriber of an arm, filled by an invocation that its matcher fits.
fn filled(arm: &Arm, invocation: &TokenStream) -> Option<TokenStream> {
    if parse::too_deep(invocation) {
        return None;
    }
    let pattern: Vec<TokenTree> = arm.matcher.clone().into_iter().collect();
    let input: Vec<TokenTree> = invocation.clone().into_iter().collect();
    let mut bindings = Bindings::new();
    if matched(&pattern, &input, &mut bindings, 0)? != input.len() {
        return None;
    }
    transcribe(&arm.body, &bindings, &mut { MAX_TOKENS }, 0)
}

/// Matches tokens against a matcher from the front: how many are taken.
fn matched(pattern: &[TokenTree], input: &[TokenTree], out: &mut Bindings, depth: usize) -> Option<usize> {
    if depth > parse::MAX_DEPTH {
        return None;
    }
    let mut taken = 0;
    let mut at = 0;
    while at < pattern.len() {
        match step(&pattern[at..]) {
            Step::Fragment(name, kind, used) => {
                at += used;
                let n = fragment(&kind, &pattern[at..], &input[taken..])?;
                out.insert(name, Bound::One(input[taken..taken + n].iter().cloned().collect()));
                taken += n;
            }
            Step::Repeat(inner, separator, op, used) => {
                at += used;
                let inner: Vec<TokenTree> = inner.into_iter().collect();
                let mut rounds = Vec::new();
                loop {
                    let mut round = Bindings::new();
                    let from = match (&separator, rounds.is_empty()) {
                        (Some(separator), false) if !same(separator, input.get(taken)) => break,
                        (Some(_), false) => taken + 1,
                        _ => taken,
                    };
                    // With no token left, an empty round would go on for ever.
                    let Some(n) = matched(&inner, &input[from.min(input.len())..], &mut round, depth + 1) else {
                        break;
                    };
                    if n == 0 {
                        break;
                    }
                    taken = from + n;
                    rounds.push(round);
                    if op == '?' {
                        break;
                    }
                }
                if op == '+' && rounds.is_empty() {
                    return None;
                }
                for name in names_in(&inner) {
                    out.insert(name, Bound::Many(rounds.clone()));
                }
            }
            Step::Token(token) => {
                at += 1;
                match (token, input.get(taken)) {
                    (TokenTree::Group(want), Some(TokenTree::Group(have))) if want.delimiter() == have.delimiter() => {
                        let want: Vec<TokenTree> = want.stream().into_iter().collect();
                        let have: Vec<TokenTree> = have.stream().into_iter().collect();
                        if matched(&want, &have, out, depth + 1)? != have.len() {
                            return None;
                        }
                    }
                    (want, have) if same(want, have) => {}
                    _ => return None,
                }
                taken += 1;
            }
        }
    }
    Some(taken)
}

/// The next part of a matcher.
enum Step<'t> {
    /// `$name:kind`: name, kind, tokens of the pattern.
    Fragment(String, String, usize),
    /// `$( .. ) sep op`.
    Repeat(TokenStream, Option<TokenTree>, char, usize),
    Token(&'t TokenTree),
}

fn step(pattern: &[TokenTree]) -> Step<'_> {
    let first = &pattern[0];
    if !is_punct(Some(first), '$') {
        return Step::Token(first);
    }
    match pattern.get(1) {
        Some(TokenTree::Ident(name)) if is_punct(pattern.get(2), ':') => match pattern.get(3) {
            Some(TokenTree::Ident(kind)) => Step::Fragment(names::ident(name), kind.to_string(), 4),
            _ => Step::Token(first),
        },
        Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis => {
            if let Some(op) = repeat(pattern.get(2)) {
                return Step::Repeat(group.stream(), None, op, 3);
            }
            match (pattern.get(2), repeat(pattern.get(3))) {
                (Some(separator), Some(op)) => Step::Repeat(group.stream(), Some(separator.clone()), op, 4),
                _ => Step::Token(first),
            }
        }
        _ => Step::Token(first),
    }
}

/// Tokens that a fragment takes from the front of `input`; `rest` is the matcher behind it.
fn fragment(kind: &str, rest: &[TokenTree], input: &[TokenTree]) -> Option<usize> {
    let first = input.first()?;
    match kind {
        "ident" => matches!(first, TokenTree::Ident(_)).then_some(1),
        "tt" => Some(1),
        "block" => matches!(first, TokenTree::Group(g) if g.delimiter() == Delimiter::Brace).then_some(1),
        "literal" => match first {
            TokenTree::Literal(_) => Some(1),
            TokenTree::Ident(word) if word == "true" || word == "false" => Some(1),
            TokenTree::Punct(p) if p.as_char() == '-' && matches!(input.get(1), Some(TokenTree::Literal(_))) => Some(2),
            _ => None,
        },
        "lifetime" => is_punct(Some(first), '\'').then_some(2),
        // The others end where the matcher goes on: at its next token, or at a token that cannot follow them.
        _ => {
            let stop = rest.first().filter(|token| !is_punct(Some(token), '$'));
            let mut angles = 0usize;
            let end = input.iter().enumerate().position(|(at, token)| {
                if kind == "ty" || kind == "path" {
                    match token {
                        TokenTree::Punct(p) if p.as_char() == '<' => angles += 1,
                        TokenTree::Punct(p) if p.as_char() == '>' && !arrow(input, at) => {
                            angles = angles.saturating_sub(1);
                        }
                        _ => {}
                    }
                }
                angles == 0
                    && (stop.is_some_and(|stop| same(stop, Some(token)))
                        || is_punct(Some(token), ',')
                        || is_punct(Some(token), ';')
                        || is_punct(Some(token), '=') && is_punct(input.get(at + 1), '>'))
            });
            let n = end.unwrap_or(input.len());
            (n > 0).then_some(n)
        }
    }
}

fn arrow(input: &[TokenTree], at: usize) -> bool {
    at > 0
        && matches!(&input[at - 1], TokenTree::Punct(p) if matches!(p.as_char(), '-' | '=') && p.spacing() == Spacing::Joint)
}

/// Puts the bindings into a transcriber. `None` where it asks for what was not bound, or grows too large.
fn transcribe(body: &TokenStream, bindings: &Bindings, left: &mut usize, depth: usize) -> Option<TokenStream> {
    if depth > parse::MAX_DEPTH {
        return None;
    }
    let list: Vec<TokenTree> = body.clone().into_iter().collect();
    let mut out: Vec<TokenTree> = Vec::new();
    let mut at = 0;
    while at < list.len() {
        *left = left.checked_sub(1)?;
        match &list[at] {
            TokenTree::Punct(p) if p.as_char() == '$' => match list.get(at + 1) {
                Some(TokenTree::Ident(name)) => {
                    at += 2;
                    match bindings.get(&names::ident(name)) {
                        Some(Bound::One(tokens)) => {
                            let mut tokens: Vec<TokenTree> = tokens.clone().into_iter().collect();
                            *left = left.checked_sub(tokens.len())?;
                            // A name stands where the arm asks for it: that is the line to change.
                            if let [TokenTree::Ident(ident)] = &mut tokens[..] {
                                ident.set_span(name.span());
                            }
                            out.extend(tokens);
                        }
                        Some(Bound::Many(_)) => return None,
                        None => out.push(TokenTree::Ident(Ident::new("crate", name.span()))),
                    }
                }
                Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis => {
                    let (separator, used) = match (repeat(list.get(at + 2)), repeat(list.get(at + 3))) {
                        (Some(_), _) => (None, 3),
                        (None, Some(_)) => (list.get(at + 2).cloned(), 4),
                        _ => return None,
                    };
                    at += used;
                    let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                    let rounds = used_in(&inner).into_iter().find_map(|name| match bindings.get(&name) {
                        Some(Bound::Many(rounds)) => Some(rounds.clone()),
                        _ => None,
                    })?;
                    for (index, round) in rounds.into_iter().enumerate() {
                        let mut own = bindings.clone();
                        own.extend(round);
                        if index > 0 {
                            out.extend(separator.clone());
                        }
                        out.extend(transcribe(&group.stream(), &own, left, depth + 1)?);
                    }
                }
                _ => return None,
            },
            TokenTree::Group(group) => {
                at += 1;
                let mut inner = Group::new(group.delimiter(), transcribe(&group.stream(), bindings, left, depth + 1)?);
                inner.set_span(group.span());
                out.push(TokenTree::Group(inner));
            }
            token => {
                at += 1;
                out.push(token.clone());
            }
        }
    }
    Some(out.into_iter().collect())
}

/// Names of the fragments that a matcher binds.
fn names_in(pattern: &[TokenTree]) -> Vec<String> {
    dollars(pattern, true)
}

/// Names that a transcriber uses.
fn used_in(body: &[TokenTree]) -> Vec<String> {
    dollars(body, false)
}

fn dollars(tokens: &[TokenTree], typed: bool) -> Vec<String> {
    let mut out = Vec::new();
    let mut pending = vec![tokens.to_vec()];
    while let Some(list) = pending.pop() {
        for (at, token) in list.iter().enumerate() {
            match token {
                TokenTree::Group(group) => pending.push(group.stream().into_iter().collect()),
                TokenTree::Ident(name)
                    if at > 0 && is_punct(list.get(at - 1), '$') && (!typed || is_punct(list.get(at + 1), ':')) =>
                {
                    out.push(names::ident(name));
                }
                _ => {}
            }
        }
    }
    out
}

fn same(want: &TokenTree, have: Option<&TokenTree>) -> bool {
    match (want, have) {
        (TokenTree::Punct(a), Some(TokenTree::Punct(b))) => a.as_char() == b.as_char(),
        (TokenTree::Ident(a), Some(TokenTree::Ident(b))) => a == b,
        (TokenTree::Literal(a), Some(TokenTree::Literal(b))) => a.to_string() == b.to_string(),
        _ => false,
    }
}

fn is_punct(token: Option<&TokenTree>, c: char) -> bool {
    matches!(token, Some(TokenTree::Punct(p)) if p.as_char() == c)
}

fn repeat(token: Option<&TokenTree>) -> Option<char> {
    match token {
        Some(TokenTree::Punct(p)) if matches!(p.as_char(), '*' | '+' | '?') => Some(p.as_char()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn fill(matcher: &str, body: &str, invocation: &str) -> Option<String> {
        let stream = |text: &str| text.parse::<TokenStream>().unwrap();
        let arm = Arm { matcher: stream(matcher), body: stream(body), at: proc_macro2::Span::call_site() };
        filled(&arm, &stream(invocation)).map(|tokens| tokens.to_string().replace(' ', ""))
    }

    #[test]
    fn fragments_and_repetitions() {
        assert_eq!(fill("$k:expr", "del($k)", "a + b").as_deref(), Some("del(a+b)"));
        assert_eq!(
            fill(
                "$t:ty, $($async:ident)?, $($await:tt)*",
                "$($async)? fn f(t: $t) { g()$($await)*? }",
                "R<a, b>, async, .await"
            )
            .as_deref(),
            Some("asyncfnf(t:R<a,b>){g().await?}")
        );
        assert_eq!(
            fill("$t:ty, $($async:ident)?, $($await:tt)*", "$($async)? fn f(t: $t) { g()$($await)*? }", "R,,")
                .as_deref(),
            Some("fnf(t:R){g()?}")
        );
        assert_eq!(
            fill("$($k:ident => $v:expr),* $(,)?", "$(set($k, $v);)*", "a => 1, b => 2,").as_deref(),
            Some("set(a,1);set(b,2);")
        );
        assert_eq!(fill("($a:ident) $b:block", "$crate::x!($a); $b", "(z) { 1 }").as_deref(), Some("crate::x!(z);{1}"));
    }

    #[test]
    fn what_does_not_fit_is_left() {
        assert_eq!(fill("$k:ident", "$k", "1"), None);
        assert_eq!(fill("$k:ident", "$k", "a b"), None);
        assert_eq!(fill("$($k:ident),+", "$($k)*", ""), None);
        assert_eq!(fill("$($k:ident),*", "$k", "a"), None);
    }
}
