//! `select!`: futures that race, all but one of which are dropped on the way.
//!
//! ```text
//!            +-> start 1 (future inline) ----> won 1 -> pattern 1 -> handler 1 -+
//! dispatch --|        '-Cancel-> lost 1 -> result 2 unknown -> won 2            |-> end
//!            +-> start 2 ...                                                    |
//!            '-> else -----------------------------------------------------------+
//! ```
//! A dropped future leads to the *result* of another arm, not to its start: that arm has run beside it, and control never
//! comes back.

use super::pattern::{Bindings, Rest, irrefutable};
use super::scope::Kind;
use super::{Lower, Want};
use crate::frontend::rust::{names, places};
use crate::ir::{BlockId, EdgeKind, Guard, Operand, Rvalue, Use, Var};
use crate::source::Span;
use syn::parse::{ParseStream, Parser};
use syn::{Block, Expr, Macro, Pat, Token};

struct Arm {
    pat: Pat,
    future: Expr,
    condition: Option<Expr>,
    handler: Expr,
}

struct Select {
    arms: Vec<Arm>,
    otherwise: Option<Expr>,
}

/// Blocks of one arm.
struct Lane {
    start: BlockId,
    won: BlockId,
    lost: BlockId,
    /// Sets the result to unknown, then goes to `won`.
    elsewhere: BlockId,
    result: Var,
    span: Span,
}

impl Lower<'_> {
    /// `tokio::select!` and `futures::select!`. `None` if it does not parse as one.
    pub(super) fn select(&mut self, mac: &Macro, want: Want) -> Option<Operand> {
        let select = parse.parse2(mac.tokens.clone()).ok()?;
        let span = self.places.span(places::name(&mac.path));
        let (inner, value) = self.target(want, span);
        let end = self.new_block();
        let otherwise = self.new_block();
        let lanes: Vec<Lane> = select
            .arms
            .iter()
            .map(|arm| {
                let span = self.places.pat(&arm.pat);
                Lane {
                    start: self.new_block(),
                    won: self.new_block(),
                    lost: self.new_block(),
                    elsewhere: self.new_block(),
                    result: self.temp(span),
                    span,
                }
            })
            .collect();
        self.dispatch(&select, &lanes, otherwise, span);
        for (at, (arm, lane)) in select.arms.iter().zip(&lanes).enumerate() {
            self.race(arm, lane, lanes.len() > 1);
            let others = || lanes.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, lane)| lane);
            self.switch(lane.lost);
            self.choose(others().map(|lane| lane.elsewhere).collect(), lane.span);
            self.switch(lane.elsewhere);
            self.assign(lane.span, lane.result, Rvalue::Unknown(Vec::new()));
            self.jump(lane.won, lane.span);
            self.switch(lane.won);
            let mut retry: Vec<BlockId> = others().map(|lane| lane.start).collect();
            if select.otherwise.is_some() || retry.is_empty() {
                retry.push(otherwise);
            }
            self.handle(arm, lane, retry, inner);
            self.jump(end, lane.span);
        }
        self.switch(otherwise);
        match &select.otherwise {
            Some(handler) => {
                self.with_temps(span, |this| this.value_as(handler, inner));
                self.jump(end, span);
            }
            None => self.diverge(true, span),
        }
        self.switch(end);
        Some(self.settle(want, value))
    }

    /// Chooses the arm that wins; preconditions switch arms off.
    fn dispatch(&mut self, select: &Select, lanes: &[Lane], otherwise: BlockId, span: Span) {
        let mut all_may_be_off = true;
        for (at, (arm, lane)) in select.arms.iter().zip(lanes).enumerate() {
            let last = at + 1 == lanes.len();
            let next = self.new_block();
            if let Some(condition) = &arm.condition {
                let on = self.new_block();
                self.branch_dropping(condition, on, next);
                self.switch(on);
            } else {
                all_may_be_off = false;
            }
            if last && select.otherwise.is_none() {
                self.jump(lane.start, lane.span);
            } else {
                let guard = self.unknown_choice(lane.span, Vec::new());
                self.edge(lane.start, EdgeKind::Plain, guard, lane.span);
                self.jump(next, lane.span);
            }
            self.switch(next);
        }
        if select.otherwise.is_some() || all_may_be_off {
            self.jump(otherwise, span);
        } else if let Some((_, lane)) = select.arms.iter().zip(lanes).find(|(arm, _)| arm.condition.is_none()) {
            self.jump(lane.start, span);
        }
    }

    /// Runs the future of an arm; at each await it can be dropped if there are others.
    fn race(&mut self, arm: &Arm, lane: &Lane, contested: bool) {
        self.switch(lane.start);
        self.push(if contested { Kind::Cancel { to: lane.lost } } else { Kind::Block });
        self.with_temps(lane.span, |this| {
            let value = this.future_value(&arm.future, this.places.expr(&arm.future));
            this.assign(lane.span, lane.result, Rvalue::Use(value));
        });
        self.forget_scope();
        self.jump(lane.won, lane.span);
    }

    /// Binds the result and runs the handler. A result that the pattern refuses leaves the race to the others.
    fn handle(&mut self, arm: &Arm, lane: &Lane, retry: Vec<BlockId>, want: Want) {
        self.push(Kind::Block);
        if irrefutable(&arm.pat) {
            self.destructure(&arm.pat, lane.result, false, Rest::Dropped, lane.span);
        } else {
            let mut bindings = Bindings::new();
            let pattern = self.pattern(&arm.pat, false, &mut bindings);
            let (matched, refused) = (self.new_block(), self.new_block());
            let guard = Lower::matching(&Operand::Var(lane.result, Use::Move), false, pattern, &bindings);
            self.edge(matched, EdgeKind::Plain, guard, lane.span);
            self.edge(refused, EdgeKind::Plain, Guard::Always, lane.span);
            self.switch(refused);
            self.choose(retry, lane.span);
            self.switch(matched);
            self.bind(&bindings);
        }
        let close = self.places.span(places::last(&arm.handler));
        self.with_temps(close, |this| this.value_as(&arm.handler, want));
        self.pop(close);
    }

    /// Goes to one of these, undecided.
    fn choose(&mut self, targets: Vec<BlockId>, span: Span) {
        let Some((last, others)) = targets.split_last() else { return };
        for target in others {
            let guard = self.unknown_choice(span, Vec::new());
            self.edge(*target, EdgeKind::Plain, guard, span);
        }
        self.jump(*last, span);
    }
}

fn parse(input: ParseStream<'_>) -> syn::Result<Select> {
    let mut select = Select { arms: Vec::new(), otherwise: None };
    if input.peek(syn::Ident) && input.peek2(Token![;]) {
        input.parse::<syn::Ident>()?;
        input.parse::<Token![;]>()?;
    }
    while !input.is_empty() {
        if input.peek(Token![else]) {
            input.parse::<Token![else]>()?;
            input.parse::<Token![=>]>()?;
            select.otherwise = Some(handler(input)?);
            continue;
        }
        if input.peek(syn::Ident) && input.peek2(Token![=>]) {
            let word: syn::Ident = input.parse()?;
            if !matches!(names::ident(&word).as_str(), "default" | "complete") {
                return Err(syn::Error::new(word.span(), "not an arm"));
            }
            input.parse::<Token![=>]>()?;
            select.otherwise = Some(handler(input)?);
            continue;
        }
        let pat = Pat::parse_multi_with_leading_vert(input)?;
        input.parse::<Token![=]>()?;
        let future: Expr = input.parse()?;
        let mut condition = None;
        if input.peek(Token![,]) {
            input.parse::<Token![,]>()?;
            input.parse::<Token![if]>()?;
            condition = Some(input.parse()?);
        }
        input.parse::<Token![=>]>()?;
        select.arms.push(Arm { pat, future, condition, handler: handler(input)? });
    }
    Ok(select)
}

/// A handler: a block, or an expression up to the comma.
fn handler(input: ParseStream<'_>) -> syn::Result<Expr> {
    let expr = if input.peek(syn::token::Brace) {
        let block: Block = input.parse()?;
        Expr::Block(syn::ExprBlock { attrs: Vec::new(), label: None, block })
    } else {
        input.parse()?
    };
    input.parse::<Option<Token![,]>>()?;
    Ok(expr)
}
