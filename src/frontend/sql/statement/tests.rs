#![allow(clippy::unwrap_used, clippy::panic)]
use super::*;

fn one(text: &str) -> Statement {
    let mut list = statements(text, Dialect::Unknown);
    assert_eq!(list.len(), 1, "{list:#?}");
    list.swap_remove(0)
}

fn calls(statement: &Statement) -> Vec<String> {
    let mut out = Vec::new();
    walk::walk(statement, &mut |_| {}, &mut |e, _| {
        if let ExprKind::Call(f) = &e.kind {
            out.push(f.name.clone());
        }
    });
    out.extend(statement.loose.iter().map(|f| format!("loose {}", f.name)));
    out
}

fn conditions(e: &Expr, text: &str) -> Vec<String> {
    e.conjuncts()
        .iter()
        .map(|e| match &e.kind {
            ExprKind::Binary(op, l, r) => format!("{} {op} {}", &text[l.range.clone()], &text[r.range.clone()]),
            ExprKind::Unary(op, x) => format!("{op}: {}", &text[x.range.clone()]),
            _ => format!("? {}", &text[e.range.clone()]),
        })
        .collect()
}

#[test]
fn advisory_lock() {
    let s = one("SELECT pg_try_advisory_lock(hashtext($1)::bigint) AS \"locked!\"");
    let StatementKind::Select(select) = &s.kind else { panic!("{s:?}") };
    assert_eq!(select.items[0].1.as_deref(), Some("locked!"));
    assert_eq!(calls(&s), ["pg_try_advisory_lock", "hashtext"]);
    assert_eq!(s.dialect, Dialect::Postgres);
}

#[test]
fn lock_calls_anywhere() {
    assert_eq!(calls(&one("SELECT 1 FROM pg_advisory_xact_lock(1, 2)")), ["pg_advisory_xact_lock"]);
    assert_eq!(calls(&one("DO $$ x $$")), Vec::<String>::new());
    assert_eq!(
        calls(&one("WITH l AS (SELECT pg_advisory_lock(1)) INSERT INTO t SELECT * FROM l")),
        ["pg_advisory_lock"]
    );
    assert_eq!(calls(&one("EXPLAIN SELECT pg_advisory_lock(id) FROM t")), ["loose pg_advisory_lock"]);
    assert!(calls(&one("GRANT EXECUTE ON FUNCTION pg_advisory_lock(bigint) TO x")).is_empty());
    assert!(calls(&one("CREATE FUNCTION get_lock(a int) RETURNS int LANGUAGE c AS 'x'")).is_empty());
}

#[test]
fn application_locks_of_sql_server() {
    let text =
        "EXEC @r = sp_getapplock @Resource = 'x', @LockMode = 'Exclusive', @LockOwner = 'Session', @LockTimeout = 0";
    let s = one(text);
    let StatementKind::Call(f) = &s.kind else { panic!("{s:?}") };
    assert_eq!(f.name, "sp_getapplock");
    assert_eq!(f.arg("lockowner", 2).unwrap().kind, ExprKind::Str("Session".into()));
    let s = one("DECLARE @r int EXEC @r = sp_getapplock @Resource = @P1, @LockMode = 'Exclusive' SELECT @r");
    assert_eq!(s.loose.len(), 1);
    assert_eq!(s.loose[0].names[0].as_deref(), Some("resource"));
}

#[test]
fn row_locks() {
    let text =
        "SELECT id FROM jobs j WHERE state = 'new' AND run_at <= now() ORDER BY id FOR UPDATE OF j SKIP LOCKED LIMIT 5";
    let s = one(text);
    let StatementKind::Select(select) = &s.kind else { panic!("{s:?}") };
    assert_eq!(select.locks.len(), 1);
    assert_eq!(select.locks[0].of, ["j"]);
    assert_eq!(select.locks[0].wait, Wait::SkipLocked);
    assert!(select.limit);
    assert_eq!(conditions(select.filter.as_ref().unwrap(), text), ["state = 'new'", "run_at <= now()"]);
    let s = one("SELECT * FROM a FOR NO KEY UPDATE OF a FOR SHARE NOWAIT");
    let StatementKind::Select(select) = &s.kind else { panic!("{s:?}") };
    assert_eq!(select.locks.iter().map(|l| l.strength).collect::<Vec<_>>(), [Strength::NoKeyUpdate, Strength::Share]);
    let s = one("SELECT * FROM [dbo].[jobs] WITH (UPDLOCK, READPAST) WHERE id = @p1");
    let StatementKind::Select(select) = &s.kind else { panic!("{s:?}") };
    assert_eq!(select.locks[0].wait, Wait::SkipLocked);
    assert!(matches!(&select.from[0], Source::Table(t) if t.name == "dbo.jobs"), "{:?}", select.from);
    let s = one("SELECT id FROM t WHERE id = ? LOCK IN SHARE MODE");
    assert!(matches!(&s.kind, StatementKind::Select(s) if s.locks.len() == 1));
}

#[test]
fn queue_claim_in_a_sub_select() {
    let text = "UPDATE jobs AS j SET locked_by = $1, locked_until = now() + interval '30 seconds', attempts = attempts + 1 \
                WHERE id IN (SELECT id FROM jobs WHERE locked_until IS NULL OR locked_until < now() ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED) RETURNING j.id, payload";
    let s = one(text);
    let StatementKind::Update(update) = &s.kind else { panic!("{s:?}") };
    assert_eq!(update.table.name, "jobs");
    assert_eq!(update.table.alias.as_deref(), Some("j"));
    assert_eq!(
        update.set.iter().map(|a| a.column.as_str()).collect::<Vec<_>>(),
        ["locked_by", "locked_until", "attempts"]
    );
    assert_eq!(update.returning.as_ref().unwrap().len(), 2);
    let ExprKind::Binary(op, _, right) = &update.filter.as_ref().unwrap().kind else { panic!() };
    assert_eq!(op, "in");
    let ExprKind::List(list) = &right.kind else { panic!() };
    let ExprKind::Query(q) = &list[0].kind else { panic!() };
    assert!(
        matches!(&q.kind, StatementKind::Select(s) if s.locks.len() == 1 && s.filter.as_ref().unwrap().disjuncts().len() == 2)
    );
}

#[test]
fn insert_on_conflict() {
    let text = "INSERT INTO leases AS l (name, owner, expires_at) VALUES ($1, $2, now() + $3::interval) \
                ON CONFLICT (name) DO UPDATE SET owner = EXCLUDED.owner, expires_at = EXCLUDED.expires_at \
                WHERE l.expires_at < now() OR l.owner = EXCLUDED.owner RETURNING owner";
    let s = one(text);
    let StatementKind::Insert(insert) = &s.kind else { panic!("{s:?}") };
    assert_eq!(insert.columns, ["name", "owner", "expires_at"]);
    assert_eq!(insert.rows[0].len(), 3);
    let conflict = insert.conflict.as_ref().unwrap();
    assert_eq!(conflict.target, ["name"]);
    assert_eq!(conflict.set.len(), 2);
    assert_eq!(conflict.filter.as_ref().unwrap().disjuncts().len(), 2);
    assert_eq!(insert.returning.as_ref().unwrap().len(), 1);
    let s = one("INSERT INTO a (x) SELECT y FROM b WHERE z = ? ON CONFLICT DO NOTHING");
    assert!(
        matches!(&s.kind, StatementKind::Insert(i) if i.query.is_some() && i.conflict == Some(Conflict::default())),
        "{s:?}"
    );
    let s = one("INSERT IGNORE INTO `a` (x) VALUES (?)");
    assert!(matches!(&s.kind, StatementKind::Insert(i) if i.conflict.is_some() && i.table.name == "a"));
    let s = one("REPLACE INTO a VALUES (1)");
    assert!(matches!(&s.kind, StatementKind::Insert(i) if i.conflict.as_ref().unwrap().replace));
}

#[test]
fn templates_and_unfinished_text() {
    let s = one(&format!(
        "UPDATE {}.jobs_{} SET a = {} WHERE id = :id AND b",
        super::super::tokens::hole(0),
        super::super::tokens::hole(1),
        super::super::tokens::hole(2)
    ));
    let StatementKind::Update(update) = &s.kind else { panic!("{s:?}") };
    assert!(update.table.name.contains("jobs_"));
    assert!(matches!(update.set[0].value.kind, ExprKind::Hole(_)), "{:?}", update.set);
    let s = one("UPDATE @extschema@.part_config SET x = 1 WHERE parent_table = {table}");
    assert!(matches!(&s.kind, StatementKind::Update(u) if u.table.name == "@extschema@.part_config"), "{s:?}");
    let s = one("UPDATE {prefix}_jobs SET x = 1");
    assert!(matches!(&s.kind, StatementKind::Update(u) if u.table.name == "{prefix}_jobs"), "{s:?}");
    for text in [
        "UPDATE",
        "SELECT",
        "INSERT INTO",
        "WITH x AS (",
        "SELECT (((((",
        "DELETE FROM t WHERE",
        "(",
        "SELECT a FROM (SELECT",
    ] {
        statements(text, Dialect::Unknown);
    }
}

#[test]
fn transaction_control() {
    let kinds: Vec<StatementKind> =
        statements("BEGIN; START TRANSACTION; COMMIT; END; ROLLBACK TO a; ROLLBACK; BEGIN TRAN; SET LOCAL lock_timeout = '5s'; LOCK TABLE a, b IN EXCLUSIVE MODE NOWAIT", Dialect::Unknown)
            .into_iter()
            .map(|s| s.kind)
            .collect();
    use StatementKind::*;
    assert_eq!(kinds[..7], [Begin, Begin, Commit, Commit, Savepoint, Rollback, Begin]);
    assert_eq!(kinds[7], Set { name: "lock_timeout".into(), value: "5s".into(), local: true });
    assert!(matches!(&kinds[8], LockTable { tables, mode, nowait: true } if tables.len() == 2 && mode == "exclusive"));
}

#[test]
fn question_marks_count_over_the_text() {
    let list = statements(
        "UPDATE a SET x = ? WHERE y IN (SELECT z FROM b WHERE w = ?); DELETE FROM c WHERE d = ?",
        Dialect::Unknown,
    );
    let StatementKind::Delete(delete) = &list[1].kind else { panic!() };
    let ExprKind::Binary(_, _, right) = &delete.filter.as_ref().unwrap().kind else { panic!() };
    assert_eq!(right.kind, ExprKind::Param(Param::Position(2)));
}

#[test]
fn deep_nesting_stays_bounded() {
    let text = format!("SELECT {}pg_advisory_lock(1){}", "(".repeat(5000), ")".repeat(5000));
    let s = one(&text);
    assert_eq!(calls(&s).len(), 1);
    one(&format!("SELECT {}1", "NOT ".repeat(5000)));
    one(&format!("SELECT {}1", "- ".repeat(5000)));
    one(&format!("SELECT 1{}", " + 1".repeat(50_000)));
    one(&format!("SELECT 1{}", "::int".repeat(30_000)));
    one(&"SELECT 1 UNION ".repeat(2000));
    one(&"WITH a AS (".repeat(2000));
}
