#![allow(clippy::unwrap_used, clippy::panic)]
use super::*;

mod rust;
use crate::source::FileId;

fn request_on(kind: HandleKind, sql: &str, asked: Asked, binds: usize) -> RoundTrip {
    let text = Value::str(sql);
    let place = |r: Range<usize>| Span::new(FileId(0), r.start, r.end);
    let request = Request {
        text: &text,
        binds: Binds::positional((0..binds).map(|i| Value::Param(i as u32)).collect()),
        handle: Handle { kind, ..Handle::unknown() },
        dialect: Dialect::Unknown,
        asked,
        enters: true,
        place: &place,
        certainty: Certainty::Full,
        model: "test".into(),
    };
    let mut context = Context::default();
    context.schema.unique.entry("runs".into()).or_default().insert(vec!["job_id".into()]);
    context.leases.learn(&text, Dialect::Unknown);
    context.leases.learn(
        &Value::str("UPDATE jobs SET locked_by = $1, locked_until = now() + interval '1 min' WHERE id = $2 AND locked_until < now()"),
        Dialect::Unknown,
    );
    round_trip(request, &context).unwrap()
}

fn trip(sql: &str, fetch: Fetch, row: RowType) -> RoundTrip {
    request_on(HandleKind::Unknown, sql, Asked { fetch, row }, 6)
}

fn one(sql: &str) -> EffectKind {
    let list = trip(sql, Fetch::Done, RowType::Unknown).effects;
    let aside = |e: &Effect| matches!(e.kind, EffectKind::Read(_) | EffectKind::Overdue(_));
    let mut list: Vec<Effect> = list.into_iter().filter(|e| !aside(e)).collect();
    assert_eq!(list.len(), 1, "{list:#?}");
    list.swap_remove(0).kind
}

fn acquire(sql: &str) -> Acquire {
    match one(sql) {
        EffectKind::Acquire(a) => a,
        other => panic!("{other:?}"),
    }
}

fn reply(sql: &str, fetch: Fetch, row: RowType) -> (Shape, Shape) {
    let reply = trip(sql, fetch, row).reply.unwrap();
    (reply.held, reply.lost)
}

fn bool_() -> Ty {
    Ty::path("bool")
}

#[test]
fn advisory_locks() {
    let a = acquire("SELECT pg_try_advisory_lock($1)");
    assert_eq!((a.kind, a.blocking, a.key), (LockKind::Session, false, Value::Param(0)));
    let a = acquire("SELECT pg_advisory_xact_lock(7, hashtext('job:' || $2))");
    assert_eq!((a.kind, a.blocking, a.backend), (LockKind::Transaction, true, Backend::Postgres));
    let Value::Aggregate(_, parts) = &a.key else { panic!("{a:?}") };
    assert_eq!(parts[0].1.as_int(), Some(7));
    assert!(
        matches!(&parts[1].1, Value::Call(c) if c.name == "sql::hashtext" && matches!(&c.args[0], Value::Template(_)))
    );
    assert!(
        matches!(one("SELECT pg_advisory_unlock($1)"), EffectKind::Release(r) if !r.all && r.kind == LockKind::Session)
    );
    assert!(matches!(one("SELECT pg_advisory_unlock_all()"), EffectKind::Release(r) if r.all));
    let a = acquire("SELECT GET_LOCK(?, 10)");
    assert_eq!((a.backend, a.blocking), (Backend::MySql, false));
    let a = acquire("EXEC sp_getapplock @Resource = @P2, @LockMode = 'Exclusive', @LockOwner = 'Session'");
    assert_eq!((a.kind, a.key), (LockKind::Session, Value::Param(1)));
    assert_eq!(acquire("EXEC sp_getapplock 'x', 'Exclusive'").kind, LockKind::Transaction);
}

#[test]
fn advisory_over_a_scan() {
    assert_eq!(
        acquire("SELECT pg_try_advisory_lock(id) FROM jobs WHERE state = 'new' ORDER BY id LIMIT 1").form,
        AcquireForm::PerRow
    );
    assert_eq!(
        acquire("SELECT id FROM jobs WHERE state = 'new' AND pg_try_advisory_lock(id)").form,
        AcquireForm::PerRow
    );
    for right in [
        "SELECT pg_advisory_lock(id) FROM jobs WHERE id = 12345",
        "SELECT pg_advisory_lock(q.id) FROM (SELECT id FROM jobs WHERE id > 12345 LIMIT 100) q",
        "WITH c AS (SELECT id FROM jobs LIMIT 1) SELECT id FROM c WHERE pg_try_advisory_lock(id)",
        "SELECT * FROM jobs WHERE pg_try_advisory_lock($1)",
    ] {
        assert_eq!(acquire(right).form, AcquireForm::LockApi, "{right}");
    }
}

#[test]
fn replies_of_try_locks() {
    let sql = "SELECT pg_try_advisory_lock($1)";
    let ok = |b| Shape::Bool(b).ok();
    assert_eq!(reply(sql, Fetch::One, RowType::Scalar(bool_())), (ok(true), ok(false)));
    assert_eq!(reply(sql, Fetch::One, RowType::Scalar(Ty::unknown())), (ok(true), ok(false)));
    let tuple = Ty { path: "()".into(), args: vec![bool_()] };
    assert_eq!(reply(sql, Fetch::One, RowType::Typed(tuple)).1, Shape::Tuple(vec![Shape::Bool(false)]).ok());
    assert_eq!(reply(sql, Fetch::One, RowType::CheckedScalar).1, Shape::Bool(false).some().ok());
    let forced = "SELECT pg_try_advisory_lock($1) AS \"locked!\"";
    assert_eq!(reply(forced, Fetch::One, RowType::CheckedScalar).1, ok(false));
    // Executed, the answer is lost: both worlds look the same.
    let (held, lost) = reply(sql, Fetch::Done, RowType::Unknown);
    assert_eq!(held, lost);
    let Shape::Ok(row) = reply(forced, Fetch::One, RowType::Dynamic).1 else { panic!() };
    assert_eq!(access(&row, "get", &[Shape::Int(0)]), Some(Shape::Bool(false)));
    assert_eq!(access(&row, "try_get", &[Shape::Str("locked".into())]), Some(Shape::Bool(false).ok()));
    let (held, lost) = reply("SELECT GET_LOCK(?, 0)", Fetch::One, RowType::Scalar(Ty::path("i64")));
    assert_eq!((held, lost), (Shape::Int(1).ok(), Shape::Int(0).ok()));
}

#[test]
fn replies_are_evaluated() {
    let held = |sql: &str| reply(sql, Fetch::One, RowType::Scalar(Ty::unknown()));
    assert_eq!(held("SELECT NOT pg_try_advisory_lock(1) AS busy"), (Shape::Bool(false).ok(), Shape::Bool(true).ok()));
    assert_eq!(held("SELECT CASE WHEN pg_try_advisory_lock(1) THEN 1 ELSE 0 END").1, Shape::Int(0).ok());
    assert_eq!(held("SELECT coalesce(GET_LOCK('a', 1), 0) = 1").1, Shape::Bool(false).ok());
    assert_eq!(held("WITH l AS (SELECT pg_try_advisory_lock(1) AS ok) SELECT ok FROM l").1, Shape::Bool(false).ok());
    assert_eq!(held("SELECT * FROM pg_try_advisory_lock(1) AS got").1, Shape::Bool(false).ok());
    assert_eq!(held("SELECT some_function(pg_try_advisory_lock(1))").1, Shape::Tainted.ok());
    let rows = reply("SELECT 1 WHERE pg_try_advisory_lock($1)", Fetch::Optional, RowType::Scalar(Ty::unknown()));
    assert_eq!(rows, (Shape::Int(1).some().ok(), Shape::None.ok()));
}

#[test]
fn row_locks() {
    let a = acquire("SELECT * FROM public.accounts WHERE id = $1 FOR UPDATE");
    assert_eq!((a.kind, a.blocking), (LockKind::Row, true));
    assert_eq!(table_of(&a.key), Some("public.accounts"));
    let list = trip(
        "SELECT * FROM a JOIN b ON a.x = b.x WHERE a.id = $1 FOR UPDATE OF b NOWAIT",
        Fetch::One,
        RowType::Dynamic,
    );
    let locks: Vec<_> = list.effects.iter().filter(|e| matches!(e.kind, EffectKind::Acquire(_))).collect();
    assert_eq!(locks.len(), 1);
    assert_eq!(locks[0].command, "FOR UPDATE NOWAIT");
    assert_eq!(list.reply.unwrap().lost, Shape::err());
    // Inside a statement that writes, the lock is that statement's own.
    let one = one("UPDATE t SET a = 1 WHERE id IN (SELECT id FROM t WHERE b FOR UPDATE SKIP LOCKED LIMIT 1)");
    assert!(matches!(one, EffectKind::Write(_)), "{one:?}");
    assert!(matches!(acquire("LOCK TABLE a IN ACCESS EXCLUSIVE MODE").kind, LockKind::Row));
    let (_, lost) =
        reply("SELECT id FROM jobs WHERE x FOR UPDATE SKIP LOCKED LIMIT 1", Fetch::Optional, RowType::Dynamic);
    assert_eq!(lost, Shape::None.ok());
}

fn safety(sql: &str) -> Safety {
    match one(sql) {
        EffectKind::Write(w) => w.safety,
        other => panic!("{other:?}"),
    }
}

fn pairs(safety: Safety) -> Vec<(String, String)> {
    match safety {
        Safety::Conditions(list) => list.into_iter().map(|(c, o, _)| (c, o)).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn writes_and_their_guards() {
    let p = |a: &str, b: &str| (a.to_string(), b.to_string());
    assert_eq!(
        pairs(safety(
            "UPDATE docs d SET body = $1, version = version + 1 WHERE d.id = $2 AND version = $3 AND fence <= $4"
        )),
        [p("id", "="), p("version", "="), p("fence", "<=")]
    );
    assert_eq!(
        pairs(safety("DELETE FROM docs WHERE id = ANY($1) AND (a = 1 OR b IS NULL)")),
        [p("id", "in"), p("a", "or ="), p("b", "or is null")]
    );
    assert_eq!(
        pairs(safety("UPDATE t SET a = $1 WHERE (x, y) = ($2, $3) AND $4 > z AND NOT done")),
        [p("x", "="), p("y", "="), p("z", "<"), p("done", "=")]
    );
    assert_eq!(safety("UPDATE t SET a = 1"), Safety::None);
    assert_eq!(safety("INSERT INTO t (a) VALUES ($1)"), Safety::None);
    assert_eq!(safety("INSERT INTO runs (job_id, note) VALUES ($1, $2)"), Safety::Unique);
    assert_eq!(safety("INSERT INTO t (a) VALUES ($1) ON CONFLICT DO NOTHING"), Safety::Unique);
    let upsert = "INSERT INTO t (id, older) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET older = excluded.older WHERE t.older < excluded.older";
    assert_eq!(safety(upsert), Safety::Conditions(vec![("older".into(), "<".into(), Value::Param(1))]));
    let text =
        Value::Template(vec![Piece::Text("UPDATE t SET a = 1 WHERE ".into()), Piece::Hole(Value::Param(0))].into());
    let place = |_: Range<usize>| Span::new(FileId(0), 0, 0);
    let request = Request {
        text: &text,
        binds: Binds::default(),
        handle: Handle::unknown(),
        dialect: Dialect::Unknown,
        asked: Asked::unknown(),
        enters: true,
        place: &place,
        certainty: Certainty::Name,
        model: String::new(),
    };
    let trip = round_trip(request, &Context::default()).unwrap();
    assert!(matches!(&trip.effects[0].kind, EffectKind::Write(w) if w.safety == Safety::Unknown));
}

#[test]
fn holes_become_values() {
    let text = Value::Template(
        vec![
            Piece::Text("SELECT pg_advisory_lock(".into()),
            Piece::Hole(Value::Param(3)),
            Piece::Text(", hashtext('job:".into()),
            Piece::Hole(Value::Param(4)),
            Piece::Text("')) FROM ".into()),
            Piece::Hole(Value::str("x")),
        ]
        .into(),
    );
    let text = Text::of(&text).unwrap();
    assert!(text.sql.ends_with("FROM x"));
    assert_eq!(text.holes, [Value::Param(3), Value::Param(4)]);
    assert_eq!(Text::of(&Value::Param(1)), None);
}

#[test]
fn several_statements_are_one_implicit_transaction() {
    let sql = "SELECT pg_advisory_xact_lock(1); UPDATE t SET a = 1 WHERE id = 2";
    let kinds =
        |kind| request_on(kind, sql, Asked::unknown(), 0).effects.iter().map(|e| e.command.clone()).collect::<Vec<_>>();
    assert_eq!(kinds(HandleKind::Pool).len(), 4);
    assert_eq!(kinds(HandleKind::Transaction).len(), 2);
    let list =
        request_on(HandleKind::Pool, "BEGIN; SELECT pg_advisory_xact_lock(1); COMMIT", Asked::unknown(), 0).effects;
    assert!(matches!(list[0].kind, EffectKind::Begin) && matches!(list[2].kind, EffectKind::Commit));
}

#[test]
fn lease_row_claims() {
    let a = acquire(
        "UPDATE jobs SET locked_by = $1, locked_until = now() + interval '30 seconds' WHERE id = \
         (SELECT id FROM jobs WHERE locked_until IS NULL OR locked_until < now() ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id",
    );
    assert_eq!((a.kind, a.form, a.token), (LockKind::LeaseRow, AcquireForm::RowClaim, Value::Param(0)));
    assert_eq!(a.ttl, Ttl::After(Value::Const(Lit::Duration(30_000_000_000)), TimeUnit::Duration));
    assert_eq!(table_of(&a.key), Some("jobs"));
    let a = acquire(
        "UPDATE leases SET owner = $1, expires_at = now() + $2 * interval '1 second' WHERE name = $3 AND (expires_at < now() OR owner = $1)",
    );
    assert_eq!(a.key, row_key("leases", vec![Value::Param(2)]));
    assert_eq!(a.ttl, Ttl::After(Value::Param(1), TimeUnit::Seconds));
    let a = acquire(
        "INSERT INTO leader (name, holder, expires_at) VALUES ($1, $2, now() + make_interval(secs => 15)) ON CONFLICT (name) DO UPDATE \
         SET holder = excluded.holder, expires_at = excluded.expires_at WHERE leader.expires_at < now() RETURNING holder",
    );
    assert_eq!((a.form, a.token), (AcquireForm::RowClaim, Value::Param(1)));
    assert_eq!(a.key, row_key("leader", vec![Value::Param(0)]));
    let a = acquire("INSERT INTO locks (name, owner, expires_at) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING");
    assert_eq!(a.form, AcquireForm::SetIfAbsent);
    let a = acquire(
        "WITH c AS (SELECT id FROM q WHERE state = 'new' OR (state = 'run' AND heartbeat_at < now() - interval '1 minute') FOR UPDATE SKIP LOCKED LIMIT 5) \
         UPDATE q SET state = 'run', worker_id = $1, heartbeat_at = now() FROM c WHERE q.id = c.id RETURNING q.*",
    );
    assert_eq!(a.kind, LockKind::LeaseRow);
}

#[test]
fn no_lease_rows() {
    for sql in [
        "UPDATE schedules SET next_run_at = now() + interval '1 hour' WHERE id = $1 AND next_run_at <= now()",
        "UPDATE jobs SET status = 'running' WHERE id = $1 AND status = 'queued'",
        "UPDATE users SET locked_until = now() + interval '15 minutes', failed_logins = 0 WHERE id = $1",
        "UPDATE sessions SET expires_at = now() + interval '1 day' WHERE id = $1 AND expires_at > now()",
        "UPDATE jobs SET status = 'queued', locked_by = NULL, locked_until = NULL WHERE locked_until < now()",
        "INSERT INTO sessions (token, user_id, expires_at) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
    ] {
        assert!(matches!(one(sql), EffectKind::Write(_)), "{sql}: {:?}", one(sql));
    }
}

#[test]
fn lease_row_upkeep() {
    let kind = one("UPDATE jobs SET locked_until = now() + interval '30 s' WHERE id = $1");
    assert!(matches!(kind, EffectKind::Expire(_)), "{kind:?}");
    let kind = one("UPDATE jobs SET locked_until = now() + interval '30 s' WHERE id = $1 AND locked_by = $2");
    assert!(
        matches!(&kind, EffectKind::Renew(r) if r.check == OwnerCheck::Token(Value::Param(1)) && r.key == row_key("jobs", vec![Value::Param(0)])),
        "{kind:?}"
    );
    let kind = one("UPDATE jobs SET locked_by = NULL, locked_until = NULL WHERE id = $1");
    assert!(matches!(&kind, EffectKind::Release(r) if r.check == OwnerCheck::None), "{kind:?}");
    let kind = one("DELETE FROM leases WHERE name = $1 AND owner = $2");
    assert!(matches!(&kind, EffectKind::Release(r) if matches!(r.check, OwnerCheck::Token(_))), "{kind:?}");
    let list =
        trip("UPDATE jobs SET status = 'done', locked_by = NULL WHERE id = $1", Fetch::Done, RowType::Unknown).effects;
    assert!(matches!(&list[0].kind, EffectKind::Write(_)));
    assert!(matches!(&list[1].kind, EffectKind::Release(r) if r.check == OwnerCheck::Unknown));
    let (held, lost) = reply(
        "UPDATE jobs SET locked_until = now() + interval '30 s' WHERE id = $1 AND locked_by = $2",
        Fetch::Done,
        RowType::Unknown,
    );
    let n = |shape: Shape| match shape {
        Shape::Ok(done) => access(&done, "rows_affected", &[]).unwrap(),
        other => panic!("{other:?}"),
    };
    assert_eq!((n(held), n(lost)), (Shape::Int(1), Shape::Int(0)));
}

#[test]
fn intervals() {
    for (text, secs) in [
        ("30 seconds", 30),
        ("5 min", 300),
        ("00:01:30", 90),
        ("1 hour 5 minutes", 3900),
        ("30s", 30),
        ("2 days", 172_800),
        ("15", 15),
    ] {
        assert_eq!(lease::parse_interval(text), Some(secs * 1_000_000_000), "{text}");
    }
}
