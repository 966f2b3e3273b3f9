//! Rows used as leases, recognised by what a statement does with an owner and an expiry column; names only support.
//!
//! - **Claim**: one UPDATE (or INSERT .. ON CONFLICT .. DO UPDATE) tests a time column as expired, or the row as free,
//!   and sets owner or time of the same row.
//! - **Renewal**: moves the time column on and touches nothing else that counts.
//! - **Release**: empties owner or time; a statement that also writes an outcome is a completion: a Write, followed by a
//!   Release whose check says [`OwnerCheck::Unknown`] where nothing is compared, because the Write is what is judged.
//! - Statements that test rows as expired and empty them are sweeps: plain writes.

mod known;
mod time;

use super::rows::{Condition, Dml, conditions, guard, inserted_expr, own_column};
use super::{Binds, Reading, Text, row_key, text};
use crate::frontend::sql::ast::*;
use crate::frontend::sql::walk;
use crate::ir::*;
use known::Known;
use time::Expired;

pub use known::Leases;

fn short(table: &str) -> String {
    let plain = text::plain_name(table);
    plain.rsplit('.').next().unwrap_or(&plain).to_ascii_lowercase()
}

#[cfg(test)]
pub(super) use time::parse as parse_interval;

struct Claim<'a> {
    table: &'a Table,
    owner: Option<(String, &'a Expr)>,
    until: Option<(String, &'a Expr)>,
    form: AcquireForm,
}

/// Whether the parts of a name (`locked_until`: `locked`, `until`) begin like those of one of the words, in order:
/// `blocked_at` holds no `lock`.
fn has(name: &str, words: &[&str]) -> bool {
    let lower = name.to_ascii_lowercase();
    let parts: Vec<&str> = lower.split('_').collect();
    words.iter().any(|word| {
        let wanted: Vec<&str> = word.split('_').collect();
        parts.windows(wanted.len()).any(|have| have.iter().zip(&wanted).all(|(h, w)| h.starts_with(w)))
    })
}

/// Names that support an owner column.
fn owner_name(column: &str) -> bool {
    has(
        column,
        &[
            "owner",
            "holder",
            "locked_by",
            "claimed_by",
            "leased_by",
            "taken_by",
            "reserved_by",
            "picked_by",
            "worker",
            "lock_token",
            "lease_token",
            "lease_id",
            "lock_id",
            "instance",
            "node_id",
            "leader",
            "runner",
            "processor",
            "consumer",
            "executor",
        ],
    ) || column == "token"
}

/// Names that support an expiry or heartbeat column.
fn until_name(column: &str) -> bool {
    has(
        column,
        &[
            "lock",
            "lease",
            "claim",
            "reserv",
            "heartbeat",
            "visib",
            "renew",
            "expires",
            "expiry",
            "expire_at",
            "expiration",
            "deadline",
            "last_seen",
            "keepalive",
            "taken_at",
        ],
    ) || column == "vt"
        || column.ends_with("_until")
}

/// Time columns that plan work and lock nothing.
fn schedule_name(column: &str) -> bool {
    has(column, &["next", "run_at", "schedul", "due", "retry", "created", "updated", "published", "sent_at", "start"])
}

fn lock_table(table: &str) -> bool {
    has(&short(table), &["lock", "lease", "leader", "mutex", "semaphore", "election"])
}

fn assignments<'a>(dml: &Dml<'a>) -> Vec<(&'a str, &'a Expr)> {
    match &dml.statement.kind {
        StatementKind::Update(u) => u.set.iter().map(|a| (a.column.as_str(), &a.value)).collect(),
        StatementKind::Insert(i) => match &i.conflict {
            Some(c) if !c.set.is_empty() => c
                .set
                .iter()
                .map(|a| {
                    // `excluded.x` is what the row would have been.
                    let value = match &a.value.bare().kind {
                        ExprKind::Column(path) if path.len() == 2 && path[0] == "excluded" => {
                            inserted_expr(i, &path[1])
                        }
                        _ => None,
                    };
                    (a.column.as_str(), value.unwrap_or(&a.value))
                })
                .collect(),
            _ => i.columns.iter().filter_map(|c| Some((c.as_str(), inserted_expr(i, c)?))).collect(),
        },
        _ => Vec::new(),
    }
}

fn empty(e: &Expr) -> bool {
    match &e.bare().kind {
        ExprKind::Null => true,
        ExprKind::Str(s) => s.is_empty(),
        _ => false,
    }
}

/// Comparisons that find a time column in the past, and columns found empty, over the statement's own WHERE, CASE arms
/// and the sub-selects that choose its rows.
fn tests<'a>(reading: &Reading<'_>, dml: &Dml<'a>) -> (Vec<Expired<'a>>, Vec<String>) {
    let (mut expired, mut free) = (Vec::new(), Vec::new());
    let Some(table) = dml.table() else { return (expired, free) };
    let mut parts: Vec<(&Table, &Expr)> = dml.filter().map(|f| (table, f)).into_iter().collect();
    for select in dml.choosers() {
        let inner = select.from.iter().find_map(|s| match s {
            Source::Table(t) if t.name == table.name => Some(t),
            _ => None,
        });
        parts.extend(inner.zip(select.filter.as_ref()));
    }
    for (_, value) in assignments(dml) {
        if matches!(&value.kind, ExprKind::Call(f) if f.name == "case") {
            parts.push((table, value));
        }
    }
    for (table, e) in parts {
        walk::walk_expr(e, walk::Position::Filter, &mut |_| {}, &mut |e, _| match &e.kind {
            ExprKind::Binary(op, l, r) => expired.extend(time::expired(reading, table, op, l, r)),
            ExprKind::Unary(op, x) if op == "is null" => free.extend(own_column(reading, table, x)),
            ExprKind::Unary(op, x) if op == "not" => free.extend(own_column(reading, table, x)),
            _ => {}
        });
    }
    (expired, free)
}

fn claim<'a>(reading: &Reading<'_>, dml: &Dml<'a>) -> Option<Claim<'a>> {
    let table = dml.table()?;
    let set = assignments(dml);
    let taken = |e: &Expr| !empty(e);
    // A value made for this claim tells more than a name that the worker keeps.
    let anew =
        set.iter().find(|(c, e)| fresh(e) && has(c, &["token", "nonce", "claim", "lock", "lease", "owner", "run"]));
    let named = || set.iter().find(|(c, e)| owner_name(c) && taken(e) && !constant(e));
    let owner = anew.or_else(named).map(|(c, e)| ((*c).to_string(), *e));
    let (expired, free) = tests(reading, dml);
    let expired: Vec<String> = expired.into_iter().map(|e| e.column).collect();
    let future = |c: &str, e: &Expr| {
        taken(e) && (time::is_future(e) || time::may_be_time(e) && until_name(c)) && !schedule_name(c)
    };
    let clock = |c: &str, e: &Expr| taken(e) && until_name(c) && time::has_clock(e);
    let until_of =
        |pick: &dyn Fn(&str, &Expr) -> bool| set.iter().find(|(c, e)| pick(c, e)).map(|(c, e)| ((*c).to_string(), *e));
    if let StatementKind::Insert(i) = &dml.statement.kind
        && i.conflict.as_ref().is_none_or(|c| c.set.is_empty())
    {
        // Set-if-absent on a row: the unique key decides.
        if i.conflict.as_ref().is_some_and(|c| c.replace) {
            return None;
        }
        let until = until_of(&|c, e| future(c, e) || clock(c, e));
        let guarded = i.conflict.is_some() || reading.context.schema.unique.contains_key(&short(&table.name));
        let fits = guarded
            && (lock_table(&table.name) && (owner.is_some() || until.is_some())
                || owner.is_some() && until.is_some() && lock_table(&table.name));
        return fits.then_some(Claim { table, owner, until, form: AcquireForm::SetIfAbsent });
    }
    // The same column is tested as expired (or the row as free) and set.
    let lease_like = |c: &String| until_name(c) && !schedule_name(c);
    let again = |c: &&String| set.iter().any(|(s, e)| s == *c && taken(e));
    let set_again = expired.iter().find(|c| again(c) && lease_like(c)).or_else(|| expired.iter().find(again)).cloned();
    let skips = dml.choosers().iter().any(|s| s.locks.iter().any(|l| l.wait == Wait::SkipLocked));
    let freed = free.iter().any(|c| set.iter().any(|(s, e)| s == c && taken(e)));
    let until = match &set_again {
        Some(column) => set.iter().find(|(c, _)| c == column).map(|(c, e)| ((*c).to_string(), *e)),
        None => until_of(&|c, e| future(c, e)).or_else(|| until_of(&|c, e| clock(c, e))),
    };
    let takeover = expired.iter().any(|c| lease_like(c) || owner.is_some() && !schedule_name(c));
    let accepted = match (&owner, &until) {
        (Some(_), _) if takeover => true,
        (None, Some((c, _))) if set_again.is_some() => {
            lease_like(c) || lock_table(&table.name) || held_again(reading, dml, &set)
        }
        (Some(_), Some((c, _))) => (skips || freed || set_again.is_some()) && (lease_like(c) || set_again.is_some()),
        _ => false,
    };
    if !accepted {
        let begun = begun(reading, dml, &set, skips)?;
        return Some(Claim { table, owner, until: Some(begun), form: AcquireForm::RowClaim });
    }
    Some(Claim { table, owner, until, form: AcquireForm::RowClaim })
}

/// The time column that a claim by state sets, where another statement puts rows back that stay in that state too long: what
/// is begun is taken over by the time, though the claim itself says nothing of it.
fn begun<'a>(
    reading: &Reading<'_>,
    dml: &Dml<'_>,
    set: &[(&'a str, &'a Expr)],
    skips: bool,
) -> Option<(String, &'a Expr)> {
    let table = dml.table()?;
    let mut found = state_conditions(reading, dml);
    for select in dml.choosers() {
        if let (Some(inner), Some(filter)) = (own_source(select, table), &select.filter) {
            found.extend(states_of(reading, inner, filter));
        }
    }
    let to: Vec<(&str, String)> = set.iter().filter_map(|(c, e)| Some((*c, literal(e)?))).collect();
    let sweeps = reading.context.leases.sweeps(&table.name);
    sweeps.iter().find_map(|sweep| {
        let (_, state) = to.iter().find(|(column, _)| *column == sweep.column)?;
        let free = found.contains(&(sweep.column.clone(), sweep.to.clone()));
        let held = *state != sweep.to && sweep.from.as_ref().is_none_or(|from| from == state);
        let (name, e) = set
            .iter()
            .find(|(c, e)| *c == sweep.time && (time::has_clock(e) || time::may_be_time(e) && c.ends_with("_at")))?;
        (held && (free || skips)).then(|| ((*name).to_string(), *e))
    })
}

/// The target itself among what a sub-select reads.
fn own_source<'a>(select: &'a Select, table: &Table) -> Option<&'a Table> {
    select.from.iter().find_map(|s| match s {
        Source::Table(t) if t.name == table.name => Some(t),
        _ => None,
    })
}

/// Whether the statement finds a row in a state and sets that state again: work in hand is taken from whoever began it.
fn held_again(reading: &Reading<'_>, dml: &Dml<'_>, set: &[(&str, &Expr)]) -> bool {
    let found = state_conditions(reading, dml);
    set.iter().any(|(column, e)| literal(e).is_some_and(|to| found.contains(&((*column).to_string(), to))))
}

/// Columns that the statement's own WHERE finds equal to a literal.
fn state_conditions(reading: &Reading<'_>, dml: &Dml<'_>) -> Vec<(String, String)> {
    let (Some(table), Some(filter)) = (dml.table(), dml.filter()) else { return Vec::new() };
    states_of(reading, table, filter)
}

fn states_of(reading: &Reading<'_>, table: &Table, filter: &Expr) -> Vec<(String, String)> {
    let mut list = Vec::new();
    conditions(reading, table, filter, "", &mut list);
    let state = |(column, op, value): Condition| match value {
        Value::Const(Lit::Str(s)) if op == "=" => Some((column, s)),
        Value::Const(Lit::Bool(b)) if op == "=" => Some((column, b.to_string())),
        Value::Const(Lit::Int(n)) if op == "=" => Some((column, n.to_string())),
        _ => None,
    };
    list.into_iter().filter_map(state).collect()
}

/// A value that no two executions share.
fn fresh(e: &Expr) -> bool {
    matches!(text::value(&Text::default(), &Binds::default(), e.bare()), Value::Fresh(_))
}

/// Columns that say something else than who holds the row, whoever sends their value.
fn told_otherwise(column: &str) -> bool {
    let last = column.rsplit('_').next().unwrap_or(column);
    until_name(column) && !has(column, &["token", "id"])
        || schedule_name(column)
        || matches!(last, "status" | "state" | "phase" | "stage" | "kind" | "type" | "queue" | "at" | "until")
}

/// Conditions by which a writing statement compares a column with a value of its caller.
fn sent_to_compare(reading: &Reading<'_>, dml: &Dml<'_>) -> Vec<Condition> {
    let (Some(table), Some(filter)) = (dml.table(), dml.filter()) else { return Vec::new() };
    let mut list = Vec::new();
    conditions(reading, table, filter, "", &mut list);
    list.retain(|(_, op, v)| op == "=" && !matches!(v, Value::Const(_) | Value::Path(_) | Value::Operation(..)));
    list
}

fn literal(e: &Expr) -> Option<String> {
    match &e.bare().kind {
        ExprKind::Str(s) | ExprKind::Number(s) => Some(s.clone()),
        ExprKind::Bool(b) => Some(b.to_string()),
        _ => None,
    }
}

fn constant(e: &Expr) -> bool {
    matches!(e.bare().kind, ExprKind::Number(_) | ExprKind::Bool(_) | ExprKind::Str(_))
}

/// Columns compared to tell one holder from the next: owner, attempt, run, fence.
fn holder_column(known: Option<Known<'_>>, column: &str) -> bool {
    known.is_some_and(|k| k.owner(column))
        || owner_name(column)
        || has(column, &["attempt", "run_id", "generation", "epoch", "fence", "fencing", "version", "revision"])
}

fn owner_check(known: Option<Known<'_>>, conditions: Option<&[Condition]>) -> OwnerCheck {
    let Some(conditions) = conditions else { return OwnerCheck::Unknown };
    let found = |op: &str| conditions.iter().find(|(c, o, _)| o == op && holder_column(known, c));
    match (found("="), found("or =")) {
        (Some((_, _, value)), _) => OwnerCheck::Token(value.clone()),
        (None, Some(_)) => OwnerCheck::Unknown,
        (None, None) => OwnerCheck::None,
    }
}

/// Key of the row by the statement's own conditions: compared columns that are neither owner nor time nor constants.
/// Unknown where a sub-select chooses the rows.
fn key(reading: &Reading<'_>, known: Option<Known<'_>>, table: &Table, dml: &Dml<'_>) -> Value {
    let mut list = Vec::new();
    if let Some(filter) = dml.filter().filter(|_| dml.choosers().is_empty()) {
        conditions(reading, table, filter, "", &mut list);
    }
    let values = list
        .iter()
        .filter(|(c, op, v)| {
            let state = matches!(v, Value::Const(Lit::Bool(_)) | Value::Path(_) | Value::Operation(..))
                || has(c, &["status", "state"]);
            op == "=" && !holder_column(known, c) && !until_name(c) && !state && *v != Value::Unknown
        })
        .map(|(_, _, v)| v.clone())
        .take(4)
        .collect();
    row_key(&table.name, values)
}

/// The comparison by which a statement finds leases of a table over.
fn overdue(
    reading: &Reading<'_>,
    dml: &Dml<'_>,
    table: &Table,
    known: Option<Known<'_>>,
    value: &dyn Fn(&Expr) -> Value,
) -> Option<Effect> {
    let (expired, _) = tests(reading, dml);
    let leased = |c: &str| (until_name(c) || known.is_some_and(|k| k.until(c))) && !schedule_name(c);
    let found = expired.into_iter().find(|e| leased(&e.column))?;
    let now = found.now.map(value);
    let command = format!("comparison of {} with a clock", found.column);
    let kind = EffectKind::Overdue(Overdue { table: short(&table.name), column: found.column, now });
    Some(reading.effect(dml.statement.head.clone(), command, kind))
}

/// Lease effects of a writing statement; `None` if it is a plain write.
pub(super) fn effects(reading: &Reading<'_>, dml: &Dml<'_>) -> Option<Vec<Effect>> {
    let value = |e: &Expr| text::value(reading.text, reading.binds, e);
    let table = dml.table()?;
    let head = dml.statement.head.clone();
    let backend = reading.backend(dml.root.dialect);
    let known = reading.context.leases.known(&table.name);
    if let Some(claim) = claim(reading, dml) {
        let token = claim.owner.as_ref().map_or(Value::Unknown, |(_, e)| value(e));
        let ttl = claim.until.as_ref().map_or(Ttl::Unknown, |(_, e)| time::ttl(e, &value));
        let key = match &dml.statement.kind {
            StatementKind::Insert(i) => {
                let target = i.conflict.as_ref().map(|c| c.target.clone()).filter(|t| !t.is_empty());
                let columns = target.or_else(|| {
                    let names: Vec<&str> = i.columns.iter().map(String::as_str).collect();
                    reading.context.schema.key(&table.name, &names).map(<[String]>::to_vec)
                });
                let columns = columns.unwrap_or_else(|| i.columns.iter().take(1).cloned().collect());
                row_key(&table.name, columns.iter().filter_map(|c| inserted_expr(i, c)).map(value).collect())
            }
            _ => key(reading, known, table, dml),
        };
        let acquire = Acquire { backend, kind: LockKind::LeaseRow, form: claim.form, key, token, ttl, blocking: false };
        let command = match claim.form {
            AcquireForm::SetIfAbsent => format!("INSERT INTO {}", short(&table.name)),
            _ => format!("claim of a row of {}", short(&table.name)),
        };
        let mut out = vec![reading.effect(head.clone(), command, EffectKind::Acquire(acquire))];
        out.extend(overdue(reading, dml, table, known, &value));
        return Some(out);
    }
    let lock_like = lock_table(&table.name);
    if known.is_none() && !lock_like {
        return None;
    }
    let (expired, _) = tests(reading, dml);
    if !expired.is_empty() {
        // A sweep: a plain write, decided by a clock.
        let mut out: Vec<Effect> = super::rows::write(reading, dml).into_iter().collect();
        out.extend(overdue(reading, dml, table, known, &value));
        return Some(out);
    }
    let compared = guard(reading, dml);
    let check = owner_check(known, compared.as_deref());
    let key = key(reading, known, table, dml);
    // Without a key it is a repair or a backfill of many rows.
    if key == row_key(&table.name, Vec::new()) {
        return None;
    }
    let release = |check: OwnerCheck| {
        let release = Release { backend, kind: LockKind::LeaseRow, key: key.clone(), check, all: false };
        EffectKind::Release(release)
    };
    match &dml.statement.kind {
        // Work in hand is given up: what is done has another state.
        StatementKind::Delete(_) if !lock_like && known.is_some_and(|k| k.in_hand(&state_conditions(reading, dml))) => {
            Some(vec![reading.effect(head, format!("DELETE FROM {}", short(&table.name)), release(check))])
        }
        StatementKind::Delete(_) if lock_like => {
            let own = sent_to_compare(reading, dml);
            let by_row = known.and_then(|k| own.into_iter().find(|(c, ..)| k.made_with_the_row(c)).zip(Some(k)));
            let check = match by_row {
                // The row of the next holder is another one.
                Some((_, k)) if k.without_expiry() => return None,
                Some(((_, _, id), _)) => OwnerCheck::Token(id),
                None => check,
            };
            Some(vec![reading.effect(head, format!("DELETE FROM {}", short(&table.name)), release(check))])
        }
        StatementKind::Update(u) => {
            let owner = |c: &str| known.is_some_and(|k| k.owner(c)) || owner_name(c);
            let until = |c: &str| known.is_some_and(|k| k.until(c)) || until_name(c);
            let emptied = u.set.iter().any(|a| {
                let ended = empty(&a.value)
                    || time::is_now_or_past(&a.value) && !has(&a.column, &["heartbeat", "last_seen", "renew"]);
                owner(&a.column) && empty(&a.value) || until(&a.column) && ended
            });
            let bookkeeping =
                |c: &str| owner(c) || until(c) || has(c, &["updated", "modified", "attempt", "heartbeat"]);
            let outcome = u.set.iter().any(|a| !bookkeeping(&a.column));
            let command = format!("UPDATE {}", short(&table.name));
            if emptied && !outcome {
                return Some(vec![reading.effect(head, command, release(check))]);
            }
            if emptied {
                let ended = if check == OwnerCheck::None { OwnerCheck::Unknown } else { check };
                let mut out: Vec<Effect> = super::rows::write(reading, dml).into_iter().collect();
                out.push(reading.effect(head, command, release(ended)));
                return Some(out);
            }
            let moved = u.set.iter().find(|a| until(&a.column) && !empty(&a.value))?;
            if outcome {
                return None;
            }
            let ttl = time::ttl(&moved.value, &value);
            let kind = match check {
                OwnerCheck::None => EffectKind::Expire(Expire { key, ttl, only_if_none: false }),
                check => EffectKind::Renew(Renew { backend, key, check, ttl }),
            };
            Some(vec![reading.effect(head, command, kind)])
        }
        _ => None,
    }
}

/// For `INSERT .. ON CONFLICT`: `Some(true)` if a row comes back whoever holds the lease (DO UPDATE without WHERE).
pub(super) fn returned_owner(_: &Reading<'_>, statement: &Statement) -> Option<bool> {
    let StatementKind::Insert(i) = &statement.kind else { return None };
    let conflict = i.conflict.as_ref()?;
    Some(!conflict.set.is_empty() && conflict.filter.is_none())
}
