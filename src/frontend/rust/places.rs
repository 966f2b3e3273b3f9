//! Places: proc-macro2's lines and columns to byte spans, and the first and last token of an expression.
//!
//! `Spanned::span` prints the whole tree to tokens; asked at each link of a method chain that is quadratic. So the ends
//! of the common expressions are found by hand.

use crate::source::{SourceFile, Span};
use proc_macro2::{LineColumn, Span as Token};
use syn::spanned::Spanned;
use syn::{Attribute, Expr, Pat, Path, PathArguments, Signature, Visibility};

/// Maps token spans to places in the file.
#[derive(Clone, Copy)]
pub(crate) struct Places<'a> {
    file: &'a SourceFile,
    /// Characters of line 1 that were cut off before lexing (byte-order mark, shebang).
    prefix: usize,
}

impl<'a> Places<'a> {
    pub(super) fn new(file: &'a SourceFile, prefix: usize) -> Self {
        Places { file, prefix }
    }

    fn offset(&self, at: LineColumn) -> usize {
        let column = if at.line == 1 { at.column + self.prefix } else { at.column };
        self.file.offset(at.line, column)
    }

    /// The span of one token or joined tokens.
    pub(crate) fn span(&self, token: Token) -> Span {
        Span::new(self.file.id, self.offset(token.start()), self.offset(token.end()))
    }

    /// From the start of one token to the end of another.
    pub(crate) fn between(&self, first: Token, last: Token) -> Span {
        Span::new(self.file.id, self.offset(first.start()), self.offset(last.end()))
    }

    /// The whole expression.
    pub(crate) fn expr(&self, expr: &Expr) -> Span {
        self.between(first(expr), last(expr))
    }

    /// The whole pattern.
    pub(crate) fn pat(&self, pat: &Pat) -> Span {
        match pat {
            Pat::Ident(p) if p.by_ref.is_none() && p.mutability.is_none() && p.subpat.is_none() => {
                self.span(p.ident.span())
            }
            Pat::Wild(p) => self.span(p.underscore_token.span),
            Pat::Path(p) if p.qself.is_none() => self.between(path_first(&p.path), path_last(&p.path)),
            Pat::TupleStruct(p) if p.qself.is_none() => self.between(path_first(&p.path), p.paren_token.span.close()),
            Pat::Struct(p) if p.qself.is_none() => self.between(path_first(&p.path), p.brace_token.span.close()),
            Pat::Tuple(p) => self.between(p.paren_token.span.open(), p.paren_token.span.close()),
            other => self.span(other.span()),
        }
    }

    /// A function item, from its attributes to the end of its body.
    pub(super) fn function(&self, attrs: &[Attribute], vis: &Visibility, sig: &Signature, last: Token) -> Span {
        let first = match (attrs.first(), vis) {
            (Some(attr), _) => attr.pound_token.span,
            (None, Visibility::Public(token)) => token.span,
            (None, Visibility::Restricted(vis)) => vis.pub_token.span,
            (None, Visibility::Inherited) => match (&sig.constness, &sig.asyncness) {
                (Some(token), _) => token.span,
                (None, Some(token)) => token.span,
                (None, None) => sig.fn_token.span,
            },
        };
        self.between(first, last)
    }
}

/// First token of an expression.
pub(super) fn first(mut expr: &Expr) -> Token {
    loop {
        expr = match expr {
            Expr::Assign(e) => &e.left,
            Expr::Await(e) => &e.base,
            Expr::Binary(e) => &e.left,
            Expr::Call(e) => &e.func,
            Expr::Cast(e) => &e.expr,
            Expr::Field(e) => &e.base,
            Expr::Index(e) => &e.expr,
            Expr::MethodCall(e) => &e.receiver,
            Expr::Try(e) => &e.expr,
            Expr::Group(e) => &e.expr,
            Expr::Async(e) => return e.async_token.span,
            Expr::Block(e) => return e.block.brace_token.span.open(),
            Expr::If(e) => return e.if_token.span,
            Expr::Let(e) => return e.let_token.span,
            Expr::Lit(e) => return e.lit.span(),
            Expr::Loop(e) => return e.loop_token.span,
            Expr::Macro(e) => return path_first(&e.mac.path),
            Expr::Match(e) => return e.match_token.span,
            Expr::Paren(e) => return e.paren_token.span.open(),
            Expr::Path(e) if e.qself.is_none() => return path_first(&e.path),
            Expr::Reference(e) => return e.and_token.span,
            Expr::Struct(e) if e.qself.is_none() => return path_first(&e.path),
            Expr::Tuple(e) => return e.paren_token.span.open(),
            Expr::Array(e) => return e.bracket_token.span.open(),
            Expr::While(e) => return e.while_token.span,
            Expr::ForLoop(e) => return e.for_token.span,
            Expr::Return(e) => return e.return_token.span,
            Expr::Unary(e) => return e.op.span(),
            Expr::Unsafe(e) => return e.unsafe_token.span,
            Expr::Break(e) => return e.break_token.span,
            Expr::Continue(e) => return e.continue_token.span,
            Expr::Repeat(e) => return e.bracket_token.span.open(),
            Expr::Closure(e) => {
                return match (&e.asyncness, &e.capture) {
                    (Some(token), _) => token.span,
                    (None, Some(token)) => token.span,
                    (None, None) => e.inputs_begin.span,
                };
            }
            other => return other.span(),
        };
    }
}

/// Last token of an expression.
pub(super) fn last(mut expr: &Expr) -> Token {
    loop {
        expr = match expr {
            Expr::Assign(e) => &e.right,
            Expr::Binary(e) => &e.right,
            Expr::Reference(e) => &e.expr,
            Expr::Unary(e) => &e.expr,
            Expr::Closure(e) => &e.body,
            Expr::Group(e) => &e.expr,
            Expr::Let(e) => &e.expr,
            Expr::Await(e) => return e.await_token.span,
            Expr::Call(e) => return e.paren_token.span.close(),
            Expr::MethodCall(e) => return e.paren_token.span.close(),
            Expr::Try(e) => return e.question_token.span,
            Expr::Index(e) => return e.bracket_token.span.close(),
            Expr::Paren(e) => return e.paren_token.span.close(),
            Expr::Tuple(e) => return e.paren_token.span.close(),
            Expr::Array(e) => return e.bracket_token.span.close(),
            Expr::Async(e) => return e.block.brace_token.span.close(),
            Expr::Block(e) => return e.block.brace_token.span.close(),
            Expr::Struct(e) => return e.brace_token.span.close(),
            Expr::Match(e) => return e.brace_token.span.close(),
            Expr::Loop(e) => return e.body.brace_token.span.close(),
            Expr::While(e) => return e.body.brace_token.span.close(),
            Expr::ForLoop(e) => return e.body.brace_token.span.close(),
            Expr::Macro(e) => return e.mac.delimiter.span().close(),
            Expr::Lit(e) => return e.lit.span(),
            Expr::Path(e) => return path_last(&e.path),
            Expr::Field(e) => return e.member.span(),
            Expr::If(e) => match &e.else_branch {
                Some((_, other)) => other,
                None => return e.then_branch.brace_token.span.close(),
            },
            Expr::Return(e) => match &e.expr {
                Some(value) => value,
                None => return e.return_token.span,
            },
            Expr::Unsafe(e) => return e.block.brace_token.span.close(),
            Expr::Continue(e) => return e.label.as_ref().map_or(e.continue_token.span, |label| label.ident.span()),
            Expr::Repeat(e) => return e.bracket_token.span.close(),
            other => return other.span(),
        };
    }
}

/// First token of a path.
pub(super) fn path_first(path: &Path) -> Token {
    match (&path.leading_colon, path.segments.first()) {
        (Some(colons), _) => colons.spans[0],
        (None, Some(segment)) => segment.ident.span(),
        (None, None) => path.span(),
    }
}

fn path_last(path: &Path) -> Token {
    match path.segments.last() {
        Some(segment) => match &segment.arguments {
            PathArguments::None => segment.ident.span(),
            PathArguments::AngleBracketed(args) => args.gt_token.span,
            PathArguments::Parenthesized(args) => args.paren_token.span.close(),
        },
        None => path.span(),
    }
}

/// The name token of a path: its last segment.
pub(super) fn name(path: &Path) -> Token {
    path.segments.last().map_or_else(|| path.span(), |segment| segment.ident.span())
}
