//! A session lock taken and given back inside one transaction becomes a lock of that transaction.

use super::offer::Ask;
use super::tree::{chain, expression, innermost, thrown_away};
use crate::analysis::lock::{Lock, Pairing, Use};
use crate::analysis::origin_call;
use crate::finding::{Edit, Finding, Fix};
use crate::ir::{Backend, EffectKind, HandleKind, LockKind};
use crate::source::Span;
use std::collections::BTreeSet;
use syn::visit::Visit;
use syn::{Block, LitStr};

/// The repair of a finding about a session lock, where the lock and all its unlocks stand in one function and run on one
/// open transaction: then COMMIT and ROLLBACK give the lock back, and nothing can keep it.
pub(super) fn of_transaction(ask: &Ask<'_>, finding: &Finding) -> Option<Fix> {
    let (cx, tree) = (ask.cx, ask.tree);
    let lock = cx.locks.locks.iter().find(|lock| {
        let frees = lock.releases.iter().filter(|(_, (how, _))| *how == Pairing::Path);
        let here = cx.place(&lock.taken) == finding.span
            || frees.into_iter().any(|(i, _)| cx.place(&cx.locks.releases[*i]) == finding.span);
        here && lock.acquire().is_some_and(|a| a.kind == LockKind::Session && a.backend == Backend::Postgres)
    })?;
    let on = |used: &Use| {
        let trip = origin_call(cx.program, used.origin().site)?.effect.as_ref()?;
        let one = used.id.0.len() == 1 && trip.effects.len() == 1 && trip.handle.kind == HandleKind::Transaction;
        one.then(|| (used.function, trip.handle.identity.clone()))
    };
    let held = on(&lock.taken)?;
    // Other functions unlock what they lock themselves.
    let met = |lock: &Lock| -> BTreeSet<usize> {
        lock.releases.iter().filter(|(_, (how, _))| *how == Pairing::Path).map(|(i, _)| *i).collect()
    };
    let own = met(lock);
    let releases: Vec<&Use> = own.iter().map(|i| &cx.locks.releases[*i]).collect();
    let all = releases.iter().all(|used| matches!(&used.effect.kind, EffectKind::Release(r) if !r.all));
    if releases.is_empty() || !all || releases.iter().any(|used| on(used).as_ref() != Some(&held)) {
        return None;
    }
    // Another lock of the function that the same unlocks belong to would keep its own lock for ever.
    let shared = |other: &Lock| other.taken.id != lock.taken.id && met(other).intersection(&own).next().is_some();
    if cx.locks.locks.iter().any(shared) {
        return None;
    }
    let taken = tree.around(cx.place(&lock.taken))?;
    let mut edits = vec![renamed(ask, chain(&taken)?.whole)?];
    for release in releases {
        let nodes = tree.around(cx.place(release))?;
        let (_, block, index) = innermost(&nodes)?;
        let stmt = &block.stmts[index];
        if !thrown_away(stmt) || !std::ptr::eq(expression(stmt)?, chain(&nodes)?.whole) || block.stmts.len() < 2 {
            return None;
        }
        edits.push(tree.remove(tree.stmt(stmt)?)?);
    }
    Some(Fix { title: "take a lock of the transaction, which its end gives back".to_owned(), edits })
}

/// The function's name inside the one literal that holds it.
fn renamed(ask: &Ask<'_>, expr: &syn::Expr) -> Option<Edit> {
    struct Literals<'t>(Vec<&'t LitStr>);
    impl<'t> Visit<'t> for Literals<'t> {
        fn visit_lit_str(&mut self, literal: &'t LitStr) {
            self.0.push(literal);
        }

        fn visit_block(&mut self, _: &'t Block) {}
    }
    let mut literals = Literals(Vec::new());
    literals.visit_expr(expr);
    let mut found = Vec::new();
    for literal in literals.0 {
        let span = ask.tree.places.span(literal.span());
        let text = ask.tree.text(span);
        for (from, to) in
            [("pg_advisory_lock(", "pg_advisory_xact_lock("), ("pg_try_advisory_lock(", "pg_try_advisory_xact_lock(")]
        {
            for (at, _) in text.match_indices(from) {
                let start = span.start as usize + at;
                let place = Span::new(span.file, start, start + from.len());
                found.push(Edit { span: place, text: to.to_owned() });
            }
        }
    }
    (found.len() == 1).then(|| found.swap_remove(0))
}
