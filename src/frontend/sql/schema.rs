//! Schema facts: which columns of which tables are unique.

use super::split::{Piece, split};
use super::tokens::{Dialect, Token, TokenKind};
use std::collections::{BTreeMap, BTreeSet};

/// Unique keys of tables, from `CREATE TABLE`, `CREATE UNIQUE INDEX` and `ALTER TABLE`; joined over a workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchemaFacts {
    /// Table (last segment, lower case) -> its keys, each the sorted column names.
    pub unique: BTreeMap<String, BTreeSet<Vec<String>>>,
}

impl SchemaFacts {
    /// Adds the facts of another file.
    pub fn join(&mut self, other: &SchemaFacts) {
        for (table, keys) in &other.unique {
            self.unique.entry(table.clone()).or_default().extend(keys.iter().cloned());
        }
    }

    /// Whether two rows of `table` cannot agree in all of `columns`.
    pub fn is_unique(&self, table: &str, columns: &[&str]) -> bool {
        self.key(table, columns).is_some()
    }

    /// A unique key of `table` that `columns` cover.
    pub fn key(&self, table: &str, columns: &[&str]) -> Option<&[String]> {
        let last = table.rsplit('.').next().unwrap_or(table).to_ascii_lowercase();
        let keys = self.unique.get(&last)?;
        keys.iter()
            .find(|key| key.iter().all(|c| columns.iter().any(|have| have.eq_ignore_ascii_case(c))))
            .map(Vec::as_slice)
    }

    fn add(&mut self, table: &str, mut columns: Vec<String>) {
        if columns.is_empty() {
            return;
        }
        columns.sort();
        columns.dedup();
        self.unique.entry(table.to_string()).or_default().insert(columns);
    }
}

/// The facts of one text.
pub fn facts(text: &str, dialect: Dialect) -> SchemaFacts {
    let mut out = SchemaFacts::default();
    for piece in split(text, dialect) {
        if !piece.too_long() {
            statement(text, &piece, &mut out);
        }
    }
    out
}

/// Adds the facts of one statement.
pub fn statement(text: &str, piece: &Piece, out: &mut SchemaFacts) {
    let t = Reader { text, tokens: &piece.tokens };
    let mut at = 1;
    let skip = |at: &mut usize, words: &[&str]| {
        while words.iter().any(|w| t.is(*at, w)) {
            *at += 1;
        }
    };
    if t.is(0, "create") {
        skip(&mut at, &["or", "replace", "global", "local", "temp", "temporary", "unlogged"]);
        if t.is(at, "unique") && t.is(at + 1, "index") || t.is(at, "unique") && t.is(at + 2, "index") {
            unique_index(&t, at, out);
        } else if t.is(at, "table") {
            at += 1;
            skip(&mut at, &["if", "not", "exists"]);
            let (table, next) = t.name(at);
            if let Some(open) = (next..t.tokens.len()).find(|i| t.sign(*i, "(")) {
                for entry in t.entries(open) {
                    table_entry(&t, &entry, &table, out);
                }
            }
        }
    } else if t.is(0, "alter") && t.is(1, "table") {
        at = 2;
        skip(&mut at, &["if", "exists", "only"]);
        let (table, next) = t.name(at);
        for i in next..t.tokens.len() {
            if t.is(i, "add") {
                let mut entry: Vec<usize> = (i + 1..t.tokens.len()).collect();
                if t.is(i + 1, "column") {
                    entry.remove(0);
                }
                let cut = entry.iter().scan(0i32, |depth, i| {
                    *depth += i32::from(t.sign(*i, "(")) - i32::from(t.sign(*i, ")"));
                    Some((*depth, *i))
                });
                let end = cut.into_iter().find(|(depth, i)| *depth == 0 && t.sign(*i, ",")).map(|(_, i)| i);
                entry.retain(|i| end.is_none_or(|end| *i < end));
                table_entry(&t, &entry, &table, out);
            }
        }
    }
}

/// `UNIQUE INDEX [CONCURRENTLY] [IF NOT EXISTS] [name] ON table [USING m] (columns) [WHERE ..]`: a partial index is unique
/// only among the rows of its WHERE and does not count.
fn unique_index(t: &Reader<'_>, at: usize, out: &mut SchemaFacts) {
    let Some(on) = (at..t.tokens.len()).find(|i| t.is(*i, "on")) else { return };
    let from = if t.is(on + 1, "only") { on + 2 } else { on + 1 };
    let (table, next) = t.name(from);
    let Some(open) = (next..t.tokens.len()).find(|i| t.sign(*i, "(")) else { return };
    let entries = t.entries(open);
    let partial = (open..t.tokens.len()).any(|i| t.is(i, "where"));
    let columns: Option<Vec<String>> = entries.iter().map(|e| t.plain_column(e)).collect();
    if let (Some(columns), false) = (columns, partial) {
        out.add(&table, columns);
    }
}

/// A column with UNIQUE or PRIMARY KEY, or a table constraint.
fn table_entry(t: &Reader<'_>, entry: &[usize], table: &str, out: &mut SchemaFacts) {
    let mut rest = entry;
    if rest.first().is_some_and(|i| t.is(*i, "constraint")) {
        rest = rest.get(2..).unwrap_or(&[]);
    }
    let Some(&first) = rest.first() else { return };
    let constraint = t.is(first, "unique") || t.is(first, "primary");
    if constraint {
        if let Some(open) = rest.iter().find(|i| t.sign(**i, "(")) {
            let columns: Option<Vec<String>> = t.entries(*open).iter().map(|e| t.plain_column(e)).collect();
            out.add(table, columns.unwrap_or_default());
        }
        return;
    }
    let inline = rest.windows(2).any(|w| t.is(w[0], "primary") && t.is(w[1], "key"))
        || rest.iter().skip(1).any(|i| t.is(*i, "unique"));
    if inline && matches!(t.tokens[first].kind, TokenKind::Word | TokenKind::Quoted) {
        out.add(table, vec![t.tokens[first].identifier(t.text).to_ascii_lowercase()]);
    }
}

struct Reader<'a> {
    text: &'a str,
    tokens: &'a [Token],
}

impl Reader<'_> {
    fn is(&self, i: usize, word: &str) -> bool {
        self.tokens.get(i).is_some_and(|t| t.is(self.text, word))
    }

    fn sign(&self, i: usize, sign: &str) -> bool {
        self.tokens.get(i).is_some_and(|t| t.is_sign(self.text, sign))
    }

    /// Last part of the name at `i`, and the index behind it.
    fn name(&self, i: usize) -> (String, usize) {
        let mut at = i;
        let mut last = String::new();
        while let Some(t) = self.tokens.get(at) {
            last = t.identifier(self.text).to_ascii_lowercase();
            at += 1;
            if !self.sign(at, ".") {
                break;
            }
            at += 1;
        }
        (last, at)
    }

    /// Entries between the parenthesis at `open` and its end, cut at commas of that level.
    fn entries(&self, open: usize) -> Vec<Vec<usize>> {
        let mut out = vec![Vec::new()];
        let mut depth = 0usize;
        for i in open..self.tokens.len() {
            if self.sign(i, "(") {
                depth += 1;
                if depth == 1 {
                    continue;
                }
            } else if self.sign(i, ")") {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    break;
                }
            }
            if depth == 1 && self.sign(i, ",") {
                out.push(Vec::new());
            } else if let Some(entry) = out.last_mut() {
                entry.push(i);
            }
        }
        out.retain(|e| !e.is_empty());
        out
    }

    /// The column of an index entry; `None` for expressions.
    fn plain_column(&self, entry: &[usize]) -> Option<String> {
        let first = self.tokens.get(*entry.first()?)?;
        let call = entry.get(1).is_some_and(|i| self.sign(*i, "("));
        let named = matches!(first.kind, TokenKind::Word | TokenKind::Quoted) && !call;
        named.then(|| first.identifier(self.text).to_ascii_lowercase())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_tables() {
        let facts = facts(
            "CREATE TABLE IF NOT EXISTS public.jobs (id bigserial PRIMARY KEY, name text NOT NULL UNIQUE, a int, b int DEFAULT (1),
               CONSTRAINT ab UNIQUE (b, a), CHECK (a > 0));
             CREATE UNIQUE INDEX CONCURRENTLY jobs_a ON jobs USING btree (a, lower(name));
             CREATE UNIQUE INDEX part ON jobs (a) WHERE b IS NULL;
             ALTER TABLE ONLY leases ADD CONSTRAINT pk PRIMARY KEY (k), ADD COLUMN x int UNIQUE;",
            Dialect::Unknown,
        );
        assert!(facts.is_unique("jobs", &["id"]));
        assert!(facts.is_unique("public.jobs", &["a", "b", "z"]));
        assert!(facts.is_unique("jobs", &["name"]));
        assert!(!facts.is_unique("jobs", &["a"]));
        assert!(facts.is_unique("leases", &["k"]) && facts.is_unique("leases", &["x"]));
        assert_eq!(facts.key("jobs", &["a", "b"]).unwrap(), ["a", "b"]);
    }
}
