//! Macro invocations in bodies.

use super::format::arguments;
use super::pattern::{Bindings, unit};
use super::scope::Kind;
use super::tokens::{is_type_path, loose_expressions, parse_matches, rest_of, split_commas, strip_field};
use super::{Lower, Want, used};
use crate::frontend::rust::{attrs, names, parse, places, types, words};
use crate::ir::{BinaryOp, BlockId, EdgeKind, Exit, FunctionKind, Guard, Lit, Operand, Rvalue, Use};
use crate::source::Span;
use proc_macro2::{TokenStream, TokenTree};
use syn::parse::{ParseStream, Parser};
use syn::{Block, Expr, Macro, Pat, Token};

/// Macros of the file that are followed into each other.
const MAX_EXPANSIONS: usize = 6;

impl Lower<'_> {
    /// A macro as a statement.
    pub(super) fn statement_macro(&mut self, mac: &Macro) {
        self.macro_value(mac, Want::Nothing);
    }

    /// A macro as an expression.
    pub(super) fn macro_value(&mut self, mac: &Macro, want: Want) -> Operand {
        let name = mac.path.segments.last().map(|s| names::ident(&s.ident)).unwrap_or_default();
        let span = self.places.span(places::name(&mac.path));
        let tokens = &mac.tokens;
        let done = match name.as_str() {
            "format" | "format_args" | "formatdoc" => self.format(tokens, want, span),
            "concat" => self.concat(tokens, want, span),
            "println" | "print" | "eprintln" | "eprint" | "trace" | "debug" | "info" | "warn" | "error" | "log"
            | "event" | "span" | "trace_span" | "debug_span" | "info_span" | "warn_span" | "error_span" => {
                Some(self.logged(tokens, want, span))
            }
            "write" | "writeln" => self.write(mac, want),
            "dbg" => self.first_argument(tokens, want),
            "vec" | "smallvec" => self.list(tokens, want, span),
            "json" => self.json(tokens, want, span),
            "matches" => self.matches(mac, want, span),
            "assert" | "debug_assert" => self.assertion(tokens, None, span),
            "assert_eq" | "debug_assert_eq" => self.assertion(tokens, Some(BinaryOp::Eq), span),
            "assert_ne" | "debug_assert_ne" => self.assertion(tokens, Some(BinaryOp::Ne), span),
            "panic" | "unreachable" | "todo" | "unimplemented" => {
                self.logged(tokens, Want::Nothing, span);
                self.diverge(true, span);
                Some(unit())
            }
            "anyhow" | "eyre" | "format_err" => Some(self.error_value(tokens, want, span)),
            "bail" => {
                self.bail(tokens, span);
                Some(unit())
            }
            "ensure" => self.ensure(tokens, span),
            "include_str" => self.include(tokens, want, span),
            "lazy_static" | "thread_local" | "task_local" => {
                let prefix = self.body.path.clone();
                self.lazy_statics(tokens, &prefix).then(unit)
            }
            "cfg" => Some(match attrs::predicate(tokens).filter(|_| !self.test) {
                Some(value) => Operand::Lit(Lit::Bool(value)),
                None => self.compute(span, want, Rvalue::Unknown(Vec::new())),
            }),
            "stringify" => Some(Operand::Lit(Lit::Str(tokens.to_string()))),
            "indoc" => self.first_argument(tokens, want),
            "select" | "select_biased" => self.select(mac, want),
            "join" => self.join(mac, false, want),
            "try_join" => self.join(mac, true, want),
            "pin" | "pin_mut" => self.pin(tokens, want),
            "try" => self.try_macro(tokens, want, span),
            "defer" | "defer_on_unwind" | "defer_on_success" => self.defer(mac, span),
            "cfg_if" => self.cfg_if(tokens, want, span),
            "stream" | "try_stream" => self.stream(mac, span),
            name if name.starts_with("query") => self.query(mac, want),
            _ => None,
        };
        match done.or_else(|| self.expansion(mac, want)) {
            Some(value) => value,
            None => self.other_macro(mac, want),
        }
    }

    /// Logging: arguments are evaluated, fields may have names and `%`, `?`.
    fn logged(&mut self, tokens: &TokenStream, want: Want, span: Span) -> Operand {
        let mut operands = Vec::new();
        for arg in split_commas(tokens) {
            let arg = strip_field(arg);
            if let Ok(expr) = syn::parse2::<Expr>(arg)
                && !matches!(expr, Expr::Lit(_))
            {
                operands.push(used(self.value(&expr, Want::Value), Use::Ref));
            }
        }
        match want {
            Want::Nothing => unit(),
            want => self.compute(span, want, Rvalue::Unknown(operands)),
        }
    }

    /// `write!(to, "..", ..)`
    fn write(&mut self, mac: &Macro, want: Want) -> Option<Operand> {
        let args = arguments(&mac.tokens)?;
        let (to, rest) = args.split_first()?;
        let to = self.place(to.expr(), Use::RefMut);
        let mut list = vec![to];
        if let Some((template, values)) = rest.split_first() {
            let span = self.places.span(places::name(&mac.path));
            list.push(self.format_parts(template.expr(), values, Want::Value, span));
        }
        Some(self.macro_call(mac, list, want))
    }

    fn first_argument(&mut self, tokens: &TokenStream, want: Want) -> Option<Operand> {
        let args = arguments(tokens)?;
        let first = args.first()?.expr();
        Some(self.value(first, want))
    }

    fn list(&mut self, tokens: &TokenStream, want: Want, span: Span) -> Option<Operand> {
        let parser = |input: ParseStream| {
            let mut list = Vec::new();
            let mut repeat = false;
            while !input.is_empty() {
                list.push(input.parse::<Expr>()?);
                if input.peek(Token![;]) {
                    input.parse::<Token![;]>()?;
                    repeat = true;
                } else if !input.is_empty() {
                    input.parse::<Token![,]>()?;
                }
            }
            Ok((list, repeat))
        };
        let (list, repeat) = parser.parse2(tokens.clone()).ok()?;
        let operands = self.arguments(&list);
        let value = if repeat { Rvalue::Unknown(operands) } else { Rvalue::Array(operands) };
        Some(self.compute(span, want, value))
    }

    fn matches(&mut self, mac: &Macro, want: Want, span: Span) -> Option<Operand> {
        let (value, pat) = parse_matches(&mac.tokens)?;
        if let Pat::Guard(_) = pat {
            let (inner, result) = self.target(want, span);
            let (yes, no, end) = (self.new_block(), self.new_block(), self.new_block());
            self.branch_matches(mac, yes, no);
            for (block, outcome) in [(yes, true), (no, false)] {
                self.switch(block);
                if let Want::Into(dst) = inner {
                    self.assign(span, dst, Rvalue::Use(Operand::Lit(Lit::Bool(outcome))));
                }
                self.jump(end, span);
            }
            self.switch(end);
            return Some(result);
        }
        let (value, _) = self.scrutinee(&value);
        let pattern = self.pattern(&pat, true, &mut Bindings::new());
        Some(self.compute(span, want, Rvalue::Matches(used(value, Use::Ref), pattern)))
    }

    /// Branches on `matches!(value, pattern if guard)`.
    pub(super) fn branch_matches(&mut self, mac: &Macro, yes: BlockId, no: BlockId) {
        let span = self.places.span(places::name(&mac.path));
        let Some((value, pat)) = parse_matches(&mac.tokens) else {
            let guard = self.unknown_choice(span, Vec::new());
            self.edge(yes, EdgeKind::Plain, guard, span);
            self.edge(no, EdgeKind::Plain, Guard::Always, span);
            return;
        };
        let (value, _) = self.scrutinee(&value);
        let (pat, guard) = match &pat {
            Pat::Guard(p) => (&*p.pat, Some(&*p.guard)),
            pat => (pat, None),
        };
        self.push(Kind::Block);
        let mut bindings = Bindings::new();
        let pattern = self.pattern(pat, true, &mut bindings);
        let matched = if guard.is_some() { self.new_block() } else { yes };
        let at = self.places.pat(pat);
        self.edge(matched, EdgeKind::Plain, Guard::Matches(used(value, Use::Ref), pattern), at);
        self.edge(no, EdgeKind::Plain, Guard::Always, at);
        if let Some(guard) = guard {
            self.switch(matched);
            self.bind(&bindings);
            self.branch_dropping(guard, yes, no);
        }
        self.forget_scope();
    }

    fn assertion(&mut self, tokens: &TokenStream, compare: Option<BinaryOp>, span: Span) -> Option<Operand> {
        let args = arguments(tokens)?;
        let (holds, fails) = (self.new_block(), self.new_block());
        match (compare, &args[..]) {
            (None, [condition, ..]) => self.branch_dropping(condition.expr(), holds, fails),
            (Some(op), [left, right, ..]) => {
                let left = used(self.value(left.expr(), Want::Value), Use::Ref);
                let right = used(self.value(right.expr(), Want::Value), Use::Ref);
                let equal = self.compute(span, Want::Value, Rvalue::Binary(op, left, right));
                self.edge(holds, EdgeKind::Plain, Guard::True(equal.clone()), span);
                self.edge(fails, EdgeKind::Plain, Guard::False(equal), span);
            }
            _ => return None,
        }
        self.switch(fails);
        self.diverge(true, span);
        self.switch(holds);
        Some(unit())
    }

    /// `anyhow!(..)`: an error of which nothing is known but what it was made of.
    fn error_value(&mut self, tokens: &TokenStream, want: Want, span: Span) -> Operand {
        let text = self.format(tokens, Want::Value, span);
        let operands = text.into_iter().collect();
        self.compute(span, want, Rvalue::Unknown(operands))
    }

    fn bail(&mut self, tokens: &TokenStream, span: Span) {
        let error = self.error_value(tokens, Want::Value, span);
        let result = self.compute(span, Want::Value, Rvalue::Variant("Err".into(), vec![error]));
        self.exit_body(result, Exit::Return, span);
    }

    fn ensure(&mut self, tokens: &TokenStream, span: Span) -> Option<Operand> {
        let parts = split_commas(tokens);
        let condition = syn::parse2::<Expr>(parts.first()?.clone()).ok()?;
        let (holds, fails) = (self.new_block(), self.new_block());
        self.branch_dropping(&condition, holds, fails);
        self.switch(fails);
        self.bail(&rest_of(tokens), span);
        self.switch(holds);
        Some(unit())
    }

    fn include(&mut self, tokens: &TokenStream, want: Want, span: Span) -> Option<Operand> {
        let path = syn::parse2::<syn::LitStr>(tokens.clone()).ok()?;
        Some(self.compute(span, want, Rvalue::IncludeStr(path.value())))
    }

    /// `pin!(future)` is the future; `pin! { let f = future; }` is the statement.
    fn pin(&mut self, tokens: &TokenStream, want: Want) -> Option<Operand> {
        if let Some(args) = arguments(tokens) {
            return match &args[..] {
                [one] => Some(if matches!(one.expr(), Expr::Path(_)) && want == Want::Nothing {
                    unit()
                } else {
                    self.value(one.expr(), want)
                }),
                _ => Some(unit()),
            };
        }
        let stmts = Block::parse_within.parse2(tokens.clone()).ok()?;
        self.statements(&stmts, Want::Nothing);
        Some(unit())
    }

    fn try_macro(&mut self, tokens: &TokenStream, want: Want, span: Span) -> Option<Operand> {
        let expr = syn::parse2::<Expr>(tokens.clone()).ok()?;
        let value = self.value(&expr, Want::Value);
        Some(self.question_operand(value, span, want))
    }

    /// `defer! { .. }`: a value whose drop runs the statements.
    fn defer(&mut self, mac: &Macro, span: Span) -> Option<Operand> {
        let stmts = Block::parse_within.parse2(mac.tokens.clone()).ok()?;
        let whole = self.places.between(places::path_first(&mac.path), mac.delimiter.span().close());
        let closure = self.deferred(FunctionKind::Closure, false, &stmts, span, whole);
        let path = self.names.resolve(&names::segments(&mac.path), false);
        let path = if path.contains("::") { path } else { format!("scopeguard::{path}") };
        let callee = crate::ir::Callee::Macro(path);
        let value = self.emit_call(span, whole, callee, vec![closure], Vec::new(), Want::Value);
        self.hold_value(value);
        Some(unit())
    }

    /// `cfg_if! { if #[cfg(a)] { .. } else { .. } }` in a body: any of the blocks may be the one that is compiled.
    fn cfg_if(&mut self, tokens: &TokenStream, want: Want, span: Span) -> Option<Operand> {
        let mut blocks = Vec::new();
        let mut there = None;
        for token in tokens.clone() {
            let TokenTree::Group(group) = &token else { continue };
            match group.delimiter() {
                proc_macro2::Delimiter::Bracket => {
                    let cfg = syn::parse2::<syn::MetaList>(group.stream()).ok();
                    there = cfg.and_then(|cfg| attrs::predicate(&cfg.tokens));
                }
                proc_macro2::Delimiter::Brace if there == Some(false) && !self.test => there = None,
                proc_macro2::Delimiter::Brace => {
                    there = None;
                    blocks.push(syn::parse2::<Block>(token.into()).ok()?);
                }
                _ => {}
            }
        }
        Some(self.choose_one(blocks.len(), span, want, |this, at, inner| this.block_into(&blocks[at], inner)))
    }

    /// `stream! { .. yield x; .. }`
    fn stream(&mut self, mac: &Macro, span: Span) -> Option<Operand> {
        let stmts = Block::parse_within.parse2(mac.tokens.clone()).ok()?;
        let whole = self.places.between(places::path_first(&mac.path), mac.delimiter.span().close());
        Some(self.deferred(FunctionKind::AsyncBlock, true, &stmts, span, whole))
    }

    /// sqlx's `query!` family: a type argument first for the `_as` forms, then text and parameters.
    fn query(&mut self, mac: &Macro, want: Want) -> Option<Operand> {
        let parts = split_commas(&mac.tokens);
        let mut args = Vec::with_capacity(parts.len());
        for (at, part) in parts.into_iter().enumerate() {
            match syn::parse2::<Expr>(part.clone()) {
                Ok(Expr::Path(path)) if at == 0 && is_type_path(&path) => {
                    args.push(Operand::Path(self.value_path(&path)));
                }
                Ok(expr) => args.push(used(self.value(&expr, Want::Value), Use::Ref)),
                Err(_) => {
                    let ty = syn::parse2::<syn::Type>(part).ok()?;
                    args.push(Operand::Path(types::ty(&self.names, &ty).path));
                }
            }
        }
        Some(self.macro_call(mac, args, want))
    }

    /// What an invocation of a macro that this file defines stands for.
    pub(in crate::frontend::rust) fn expanded(&mut self, mac: &Macro) -> Option<TokenStream> {
        if self.expansions >= MAX_EXPANSIONS {
            return None;
        }
        let name = names::ident(&mac.path.segments.last()?.ident);
        self.macros.expand(&name, &mac.tokens)
    }

    /// The statements of a macro that this file defines, where it is invoked: `?` and `return` leave the function around.
    fn expansion(&mut self, mac: &Macro, want: Want) -> Option<Operand> {
        let tokens = self.expanded(mac)?;
        let stmts = Block::parse_within.parse2(tokens).ok()?;
        self.expansions += 1;
        if want == Want::Nothing {
            // As a statement: what it declares under names that it was given stays in scope.
            self.statements(&stmts, Want::Nothing);
            self.expansions -= 1;
            return Some(unit());
        }
        self.push(Kind::Block);
        let span = self.places.span(mac.delimiter.span().close());
        let value = self.statements(&stmts, want);
        let depth = self.scope_depth() - 1;
        let value = self.carry_out(value, depth, span);
        self.pop(span);
        self.expansions -= 1;
        Some(value)
    }

    /// A macro that is not known: whatever of it parses is evaluated, and the macro itself stays a call.
    fn other_macro(&mut self, mac: &Macro, want: Want) -> Operand {
        let mut args = Vec::new();
        if parse::too_deep(&mac.tokens) {
            self.blind(mac);
        } else if let Some(list) = arguments(&mac.tokens) {
            args = list.iter().map(|arg| used(self.value(arg.expr(), Want::Value), Use::Ref)).collect();
        } else if let Ok(stmts) = Block::parse_within.parse2(mac.tokens.clone()) {
            self.push(Kind::Block);
            let span = self.places.span(mac.delimiter.span().close());
            let value = self.statements(&stmts, Want::Value);
            let depth = self.scope_depth() - 1;
            args.push(self.carry_out(value, depth, span));
            self.pop(span);
        } else {
            let mut all = true;
            for part in split_commas(&mac.tokens) {
                match loose_expressions(part) {
                    Some(list) => {
                        for expr in &list {
                            args.push(used(self.value(expr, Want::Value), Use::Ref));
                        }
                    }
                    None => all = false,
                }
            }
            if !all {
                self.blind(mac);
            }
        }
        self.macro_call(mac, args, want)
    }

    /// Tokens that were not read are shown if they may hold a lock.
    fn blind(&mut self, mac: &Macro) {
        if words::in_tokens(&mac.tokens) {
            let span = self.places.between(places::path_first(&mac.path), mac.delimiter.span().close());
            self.unit.opaque.push(span);
        }
    }

    /// Syntax that syn keeps as tokens.
    pub(super) fn opaque_tokens(&mut self, tokens: &TokenStream, span: Span, want: Want) -> Operand {
        if tokens.is_empty() {
            return unit();
        }
        if words::in_tokens(tokens) {
            self.unit.opaque.push(span);
        }
        self.compute(span, want, Rvalue::Unknown(Vec::new()))
    }
}
