//! What the claims of a workspace say of its lease tables, for its other statements.

use super::super::rows::{Condition, dmls};
use super::super::{Binds, Context, Reading, Text};
use super::{
    assignments, claim, fresh, literal, sent_to_compare, short, state_conditions, tests, time, told_otherwise,
};
use crate::frontend::sql::ast::*;
use crate::frontend::sql::{Dialect, statements};
use crate::ir::*;
use crate::source::{FileId, Span};
use std::collections::{BTreeMap, BTreeSet};

/// Tables whose rows are leases, by last segment of their name, with the columns that make them so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leases {
    tables: BTreeMap<String, LeaseColumns>,
    /// Columns that a writing statement compares for equality with a value of its caller, by table, leases or not.
    compared: BTreeMap<String, BTreeSet<String>>,
    /// What statements that claim nothing set columns to, by table.
    set: BTreeMap<String, BTreeSet<(String, String)>>,
    /// Statements that put rows back which stay in a state too long, by table.
    sweeps: BTreeMap<String, Vec<Sweep>>,
}

/// A statement that finds rows by an old time and sets their state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sweep {
    /// The column whose time is found old.
    pub(super) time: String,
    /// The state column.
    pub(super) column: String,
    /// The state it is found in, where the statement says so.
    pub(super) from: Option<String>,
    /// What it is set to.
    pub(super) to: String,
}

/// Columns of a lease table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct LeaseColumns {
    /// Who holds the row, by name, or by a value that a claim makes anew.
    owner: BTreeSet<String>,
    /// What a claim sets to a value of its caller and does not itself compare: an owner where a later statement compares it.
    sent: BTreeSet<String>,
    until: BTreeSet<String>,
    /// What the INSERTs that take a row name, if no claim takes a row that is there: the others are made anew with each row.
    inserted: Option<BTreeSet<String>>,
    /// What each claim sets other columns to: `status` = `running`.
    states: BTreeSet<(String, String)>,
}

impl Leases {
    /// Learns which rows a text puts back after a time.
    pub fn learn_sweeps(&mut self, value: &Value, dialect: Dialect) {
        let Some(text) = Text::of(value) else { return };
        let place = |_| Span::new(FileId(0), 0, 0);
        let (binds, context) = (Binds::default(), Context::default());
        let reading = Reading { text: &text, binds: &binds, dialect, place: &place, context: &context, enters: false };
        for statement in statements(&text.sql, dialect) {
            for dml in dmls(&statement) {
                let (StatementKind::Update(_), Some(table)) = (&dml.statement.kind, dml.table()) else { continue };
                let set = assignments(&dml);
                let (expired, _) = tests(&reading, &dml);
                let found = state_conditions(&reading, &dml);
                for old in expired.iter().filter(|e| !set.iter().any(|(c, v)| *c == e.column && time::has_clock(v))) {
                    for (column, to) in set.iter().filter_map(|(c, e)| Some((*c, literal(e)?))) {
                        let from = found.iter().find(|(c, _)| c == column).map(|(_, state)| state.clone());
                        let sweep = Sweep { time: old.column.clone(), column: column.to_string(), from, to };
                        let known = self.sweeps.entry(short(&table.name)).or_default();
                        if sweep.from.as_ref() != Some(&sweep.to) && !known.contains(&sweep) {
                            known.push(sweep);
                        }
                    }
                }
            }
        }
    }

    /// Statements that put rows of the table back after a time.
    pub(super) fn sweeps(&self, table: &str) -> &[Sweep] {
        self.sweeps.get(&short(table)).map_or(&[], Vec::as_slice)
    }

    /// Learns from the claims of a text.
    pub fn learn(&mut self, value: &Value, dialect: Dialect) {
        let Some(text) = Text::of(value) else { return };
        let place = |_| Span::new(FileId(0), 0, 0);
        let binds = Binds::default();
        let known = Leases { sweeps: self.sweeps.clone(), ..Leases::default() };
        let context = Context { leases: known, ..Context::default() };
        let reading = Reading { text: &text, binds: &binds, dialect, place: &place, context: &context, enters: false };
        for statement in statements(&text.sql, dialect) {
            for dml in dmls(&statement) {
                let compared: BTreeSet<String> = sent_to_compare(&reading, &dml).into_iter().map(|(c, ..)| c).collect();
                let Some(claim) = claim(&reading, &dml) else {
                    if let Some(table) = dml.table() {
                        self.compared.entry(short(&table.name)).or_default().extend(compared);
                        if matches!(dml.statement.kind, StatementKind::Update(_)) {
                            let set = assignments(&dml);
                            let literals = set.iter().filter_map(|(c, e)| Some(((*c).to_string(), literal(e)?)));
                            self.set.entry(short(&table.name)).or_default().extend(literals);
                        }
                    }
                    continue;
                };
                let known = self.tables.contains_key(&short(&claim.table.name));
                let entry = self.tables.entry(short(&claim.table.name)).or_default();
                entry.owner.extend(claim.owner.map(|(column, _)| column));
                let set = assignments(&dml);
                let sent = |e: &Expr| matches!(e.bare().kind, ExprKind::Param(_) | ExprKind::Hole(_));
                // The columns of an INSERT also name the row.
                let overwrites = claim.form != AcquireForm::SetIfAbsent;
                let told =
                    set.iter().filter(|(c, e)| overwrites && sent(e) && !told_otherwise(c) && !compared.contains(*c));
                entry.sent.extend(told.map(|(c, _)| (*c).to_string()));
                entry.owner.extend(set.iter().filter(|(_, e)| fresh(e)).map(|(c, _)| (*c).to_string()));
                entry.until.extend(claim.until.map(|(column, _)| column));
                entry.inserted = match (&dml.statement.kind, claim.form) {
                    (StatementKind::Insert(i), AcquireForm::SetIfAbsent) if !known || entry.inserted.is_some() => {
                        let mut all = entry.inserted.take().unwrap_or_default();
                        all.extend(i.columns.iter().cloned());
                        Some(all)
                    }
                    _ => None,
                };
                entry.states.extend(set.iter().filter_map(|(c, e)| Some(((*c).to_string(), literal(e)?))));
            }
        }
    }

    /// Whether the next holder's claim brings the row to this state again, so that comparing it turns no stale holder away.
    pub fn claims_again(&self, table: &str, (column, op, value): &Condition) -> bool {
        let Some(known) = self.tables.get(&short(table)) else { return false };
        let text = match value {
            Value::Const(Lit::Str(s)) => s.clone(),
            Value::Const(Lit::Bool(b)) => b.to_string(),
            Value::Const(Lit::Int(n)) => n.to_string(),
            _ => return false,
        };
        op == "=" && known.states.contains(&(column.clone(), text))
    }

    pub(super) fn known(&self, table: &str) -> Option<Known<'_>> {
        let name = short(table);
        Some(Known { columns: self.tables.get(&name)?, compared: self.compared.get(&name), set: self.set.get(&name) })
    }

    /// Whether rows of the table are leases.
    pub fn contains(&self, table: &str) -> bool {
        self.tables.contains_key(&short(table))
    }
}

/// What is known of a lease table.
#[derive(Clone, Copy)]
pub(super) struct Known<'a> {
    columns: &'a LeaseColumns,
    compared: Option<&'a BTreeSet<String>>,
    set: Option<&'a BTreeSet<(String, String)>>,
}

impl Known<'_> {
    /// Whether the column says who holds the row.
    pub(super) fn owner(&self, column: &str) -> bool {
        self.columns.owner.contains(column)
            || self.columns.sent.contains(column) && self.compared.is_some_and(|c| c.contains(column))
    }

    /// Whether the column says until when.
    pub(super) fn until(&self, column: &str) -> bool {
        self.columns.until.contains(column)
    }

    /// Whether rows found in one of these states are claimed and not done, in a table where what is done is marked by another
    /// value of that column.
    pub(super) fn in_hand(&self, found: &[(String, String)]) -> bool {
        let marked = |(column, state): &(String, String)| {
            self.set.is_some_and(|set| set.iter().any(|(c, to)| c == column && to != state))
        };
        found.iter().any(|state| self.columns.states.contains(state) && marked(state))
    }

    /// Whether nobody takes a row over by the time.
    pub(super) fn without_expiry(&self) -> bool {
        self.columns.until.is_empty()
    }

    /// Whether each row that is taken has its own value of the column: only INSERTs take rows, and none of them sets it.
    pub(super) fn made_with_the_row(&self, column: &str) -> bool {
        self.columns.inserted.as_ref().is_some_and(|named| !named.is_empty() && !named.contains(column))
    }
}
