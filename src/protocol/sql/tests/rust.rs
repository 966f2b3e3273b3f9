//! From Rust text to effects.

use crate::discover::Workspace;
use crate::frontend;
use crate::ir::*;
use crate::link::Program;
use crate::model::{Models, Versions, apply};
use crate::source::Language;

pub(super) fn program(texts: &[(&str, &str)]) -> Program {
    let workspace = Workspace::of_texts(texts.iter().copied());
    let ids: Vec<_> = workspace.sources.iter().map(|f| f.id).collect();
    let units = ids
        .iter()
        .map(|id| {
            let file = workspace.sources.get(*id);
            match file.language {
                Language::Rust => frontend::rust::lower(file, &workspace.context(*id)),
                Language::Sql => frontend::sql::lower(file),
                _ => Unit::default(),
            }
        })
        .collect();
    let mut program = Program::link(workspace.sources, units);
    apply(&mut program, Models::builtin(), &Versions::new(), true);
    program
}

/// One line for each effect: handle, identity, command, key, reply.
pub(super) fn effects(program: &Program) -> Vec<String> {
    let mut out = Vec::new();
    for (_, function) in program.functions().filter(|(_, f)| !f.test) {
        for (_, op, call) in function.calls() {
            let Some(trip) = &call.effect else { continue };
            let file = program.sources.get(op.span.file);
            let line = match file.path.as_str() {
                "src/lib.rs" => file.line(op.span.start).to_string(),
                path => format!("{path}:{}", file.line(op.span.start)),
            };
            for effect in &trip.effects {
                let what = match &effect.kind {
                    EffectKind::Acquire(a) => format!("acquire {:?} {}", a.kind, show(&a.key)),
                    EffectKind::Release(r) => format!("release {:?} {} {:?}", r.kind, show(&r.key), r.check),
                    EffectKind::Write(w) => match &w.safety {
                        Safety::Conditions(list) => {
                            let list: Vec<String> =
                                list.iter().map(|(c, o, v)| format!("{c} {o} {}", show(v))).collect();
                            format!("write {:?} if {}", w.resource, list.join(" and "))
                        }
                        other => format!("write {:?} {other:?}", w.resource),
                    },
                    EffectKind::Read(r) => format!("read {r:?}"),
                    other => format!("{other:?}"),
                };
                out.push(format!(
                    "{line} {:?} {} | {} | {what}",
                    trip.handle.kind,
                    show(&trip.handle.identity),
                    effect.command
                ));
            }
            if let Some(reply) = &trip.reply {
                out.push(format!("{line}   held {:?} lost {:?}", reply.held, reply.lost));
            }
        }
    }
    out
}

fn show(value: &Value) -> String {
    match value {
        Value::Const(lit) => match lit {
            Lit::Str(s) => format!("{s:?}"),
            Lit::Int(n) => n.to_string(),
            other => format!("{other:?}"),
        },
        Value::Template(pieces) => pieces
            .iter()
            .map(|p| match p {
                Piece::Text(t) => t.clone(),
                Piece::Hole(v) => format!("{{{}}}", show(v)),
            })
            .collect(),
        Value::Param(i) => format!("param{i}"),
        Value::Local(f, v) => format!("local{}.{v}", f.0),
        Value::Call(c) => format!("{}({})", c.name, c.args.iter().map(show).collect::<Vec<_>>().join(", ")),
        Value::Field(base, name) => format!("{}.{name}", show(base)),
        Value::Aggregate(name, fields) => {
            format!("{name}[{}]", fields.iter().map(|(_, v)| show(v)).collect::<Vec<_>>().join(", "))
        }
        Value::Unknown => "_".into(),
        other => format!("{other:?}"),
    }
}

fn of(body: &str) -> Vec<String> {
    effects(&program(&[("src/lib.rs", body)]))
}

fn has(lines: &[String], parts: &str) {
    let found = lines.iter().any(|line| parts.split(" .. ").all(|part| line.contains(part)));
    assert!(found, "{parts} not in\n{}", lines.join("\n"));
}

const SQLX: &str = r#"
use sqlx::{PgPool, PgConnection, Postgres, Transaction, Executor, QueryBuilder};
use sqlx::postgres::PgAdvisoryLock;
const KEY: i64 = 42;
const SQL: &str = "SELECT pg_advisory_lock($1)";
struct Repo { pool: PgPool }
impl Repo {
    async fn on_pool(&self) -> anyhow::Result<bool> {
        sqlx::query(SQL).bind(KEY).execute(&self.pool).await?;
        Ok(sqlx::query_scalar::<_, bool>("SELECT pg_try_advisory_lock($1)").bind(KEY).fetch_one(&self.pool).await.unwrap_or(false))
    }
    async fn pinned(&self) -> anyhow::Result<()> {
        let mut conn = self.pool.acquire().await?;
        let (got,): (bool,) = sqlx::query_as("SELECT pg_try_advisory_lock(1)").fetch_one(&mut *conn).await?;
        conn.execute("SELECT pg_advisory_unlock(1)").await?;
        sqlx::query("BEGIN").execute(conn.as_mut()).await?;
        Ok(())
    }
    async fn dedicated(&self) -> anyhow::Result<()> {
        let mut conn = self.pool.acquire().await?.detach();
        sqlx::query("SELECT pg_advisory_lock(2)").execute(&mut conn).await?;
        let mut second = self.pool.acquire().await?;
        second.close_on_drop();
        sqlx::query("SELECT pg_advisory_lock(3)").execute(&mut *second).await?;
        Ok(())
    }
    async fn closure(&self) -> anyhow::Result<()> {
        let mut conn = self.pool.acquire().await?;
        conn.transaction(|txn| Box::pin(async move {
            sqlx::query("SELECT id FROM jobs WHERE id = $1 FOR UPDATE").bind(7).fetch_one(&mut **txn).await?;
            Ok(())
        })).await?;
        Ok(())
    }
    async fn guard(&self) -> anyhow::Result<()> {
        let lock = PgAdvisoryLock::new("jobs");
        let guard = lock.acquire(self.pool.acquire().await?).await?;
        guard.release_now().await?;
        sqlx::migrate!("./migrations").run(&self.pool).await?;
        Ok(())
    }
    async fn builder(&self) -> anyhow::Result<()> {
        let mut q = QueryBuilder::new("UPDATE jobs SET locked_by = ");
        q.push_bind("me");
        q.push(", locked_until = now() + interval '1 min' WHERE locked_until < now() AND id = ");
        q.push_bind(KEY);
        q.build().execute(&self.pool).await?;
        Ok(())
    }
    async fn unknown<'e, E: Executor<'e, Database = Postgres>>(conn: &mut PgConnection, e: E, id: i64) -> anyhow::Result<()> {
        sqlx::query("SELECT pg_advisory_xact_lock(hashtext($1))").bind("x").execute(conn).await?;
        sqlx::query(&format!("SELECT pg_advisory_xact_lock({id})")).execute(e).await?;
        Ok(())
    }
    async fn tx(&self) -> anyhow::Result<()> {
        let mut tx = self.pool.begin().await?;
        let row = sqlx::query!("SELECT id FROM q WHERE state = 'new' FOR UPDATE SKIP LOCKED LIMIT 1").fetch_optional(tx.as_mut()).await?;
        let ok = sqlx::query_scalar!("SELECT pg_try_advisory_lock($1) AS \"ok!\"", KEY).fetch_one(&mut *tx).await?;
        tx.commit().await?;
        Ok(())
    }
}
"#;

#[test]
fn sqlx() {
    let lines = of(SQLX.trim_start());
    has(&lines, "8 Pool TypeField(\"crate::Repo\", \"pool\") | pg_advisory_lock | acquire Session 42");
    has(&lines, "9   held Ok(Bool(true)) lost Ok(Bool(false))");
    has(&lines, "13 Pinned .. pg_try_advisory_lock");
    has(&lines, "14 Pinned .. release Session 1");
    has(&lines, "15 Pinned .. Begin");
    has(&lines, "20 Dedicated .. acquire Session 2");
    has(&lines, "23 Dedicated .. acquire Session 3");
    has(&lines, "29 Transaction .. FOR UPDATE .. acquire Row jobs:{7}");
    has(&lines, "36 Pinned .. acquire Session \"jobs\"");
    has(&lines, "37 .. release Session \"jobs\"");
    has(&lines, "38 Pinned .. migration lock");
    has(&lines, "46 Pool .. acquire LeaseRow jobs:{42}");
    has(&lines, "50 Unknown param0 .. acquire Transaction sql::hashtext(\"x\")");
    has(&lines, "51 Unknown param1 .. acquire Transaction param2");
    has(&lines, "56   held Ok(Some(Struct(\"sql::Row\"");
    has(&lines, "57   held Ok(Bool(true)) lost Ok(Bool(false))");
    // BEGIN, the statements and COMMIT share their handle.
    let handle = |n: &str| {
        let line = lines.iter().find(|l| l.starts_with(n)).map(|l| l.split(" | ").next().unwrap_or("").to_string());
        line.map(|l| l.split_once(' ').map(|(_, rest)| rest.to_string()).unwrap_or_default()).unwrap_or_default()
    };
    assert_eq!(handle("55 "), handle("56 "));
    assert_eq!(handle("55 "), handle("58 "));
}

#[test]
fn tokio_postgres_and_pools() {
    let lines = of(r#"
use tokio_postgres::{Client, GenericClient, NoTls};
use deadpool_postgres::Pool;
async fn a(client: &Client, k: i64) -> anyhow::Result<bool> {
    let row = client.query_one("SELECT pg_try_advisory_lock($1)", &[&k]).await?;
    let got: bool = row.get(0);
    client.execute("SELECT pg_advisory_unlock($1)", &[&k]).await?;
    Ok(got)
}
async fn b(pool: &Pool, k: i64) -> anyhow::Result<()> {
    let mut client = pool.get().await?;
    let tx = client.transaction().await?;
    let stmt = tx.prepare("SELECT * FROM jobs WHERE id = $1 FOR UPDATE").await?;
    let r = tx.query_opt(&stmt, &[&k]).await?;
    tx.commit().await?;
    client.batch_execute("BEGIN").await?;
    let (own, connection) = tokio_postgres::connect("x", NoTls).await?;
    own.query("SELECT pg_advisory_lock(1)", &[]).await?;
    Ok(())
}
async fn c<C: GenericClient>(c: &C) -> anyhow::Result<()> {
    c.execute("UPDATE jobs SET state = 'x' WHERE id = $1", &[&1]).await?;
    Ok(())
}
"#);
    has(&lines, "5 Unknown param0 .. acquire Session param1");
    has(&lines, "5   held Ok(Struct(\"sql::Row\", [(\"0\", Bool(true))");
    has(&lines, "7 Unknown .. release Session param1");
    has(&lines, "7   held Ok(Int(1)) lost Ok(Int(1))");
    has(&lines, "14 Transaction .. acquire Row jobs:{param1}");
    has(&lines, "15 Transaction .. Commit");
    has(&lines, "16 Pinned .. Begin");
    has(&lines, "18 Dedicated local .. acquire Session 1");
    has(&lines, "22 Unknown param0 .. write Table(\"jobs\") if id = 1");
}

#[test]
fn diesel() {
    let lines = of(r#"
use diesel::prelude::*;
use diesel::r2d2::{ConnectionManager, Pool};
use crate::schema::jobs;
use crate::schema::jobs::dsl::*;
type DbPool = Pool<ConnectionManager<PgConnection>>;
fn a(pool: &DbPool, k: i64) -> anyhow::Result<()> {
    let mut conn = pool.get()?;
    diesel::sql_query("SELECT pg_advisory_lock($1)").bind::<BigInt, _>(k).execute(&mut conn)?;
    let got: bool = diesel::select(pg_try_advisory_lock(k)).get_result(&mut conn)?;
    conn.transaction(|conn| {
        let job = jobs::table.filter(jobs::id.eq(k)).for_update().skip_locked().first::<Job>(conn)?;
        diesel::update(jobs::table.filter(jobs::id.eq(k).and(jobs::version.eq(3)))).set(jobs::state.eq("x")).execute(conn)?;
        diesel::insert_into(jobs::table).values(&NewJob { a: 1 }).on_conflict(jobs::id).do_nothing().execute(conn)?;
        diesel::delete(jobs.filter(id.eq(k))).execute(conn)?;
        Ok(())
    })
}
fn b(conn: &mut PgConnection) -> QueryResult<usize> {
    diesel::update(jobs.find(1)).set(locked_by.eq("me")).execute(conn)
}
"#);
    has(&lines, "9 Pinned .. acquire Session param1");
    has(&lines, "10   held Ok(Bool(true)) lost Ok(Bool(false))");
    has(&lines, "12 Transaction .. FOR UPDATE SKIP LOCKED .. acquire Row jobs:{param1}");
    has(&lines, "13 Transaction .. write Table(\"jobs\") if id = param1 and version = 3");
    has(&lines, "14 Transaction .. write Table(\"jobs\") Unique");
    has(&lines, "15 Transaction .. DELETE .. if id = param1");
    has(&lines, "20 Unknown param0 .. write Table(\"jobs\") if id = 1");
}

#[test]
fn sea_orm() {
    let lines = of(r#"
use sea_orm::*;
use sea_orm::sea_query::Expr;
use crate::entity::job;
async fn a(db: &DatabaseConnection, id: i64) -> Result<(), DbErr> {
    let txn = db.begin().await?;
    let j = job::Entity::find_by_id(id).lock_exclusive().one(&txn).await?;
    let k = job::Entity::find().filter(job::Column::State.eq("new")).lock_with_behavior(LockType::Update, LockBehavior::SkipLocked).one(&txn).await?;
    txn.execute(Statement::from_string(DbBackend::Postgres, "SELECT pg_advisory_xact_lock(1)".to_owned())).await?;
    let row = txn.query_one(Statement::from_sql_and_values(DbBackend::Postgres, "SELECT pg_try_advisory_xact_lock($1) AS got", [id.into()])).await?;
    txn.commit().await?;
    job::Entity::update_many().col_expr(job::Column::State, Expr::value("done")).filter(job::Column::Id.eq(id)).filter(job::Column::LockVersion.eq(3)).exec(db).await?;
    db.transaction::<_, (), DbErr>(|txn| Box::pin(async move {
        job::Entity::find_by_id(3).lock_exclusive().one(txn).await?;
        Ok(())
    })).await
}
async fn b(db: &impl ConnectionTrait) -> Result<(), DbErr> {
    db.execute_unprepared("SELECT pg_advisory_xact_lock(1)").await?;
    job::Entity::insert(job::ActiveModel { id: Set(1), ..Default::default() }).exec(db).await?;
    Ok(())
}
"#);
    has(&lines, "6 Transaction .. Begin");
    has(&lines, "7 Transaction .. FOR UPDATE .. acquire Row job:{param1}");
    has(&lines, "8 Transaction .. FOR UPDATE SKIP LOCKED");
    has(&lines, "9 Transaction .. acquire Transaction 1");
    has(&lines, "10 Transaction .. acquire Transaction param1");
    has(&lines, "12 Pool .. write Table(\"job\") if id = param1 and lock_version = 3");
    has(&lines, "14 Transaction .. acquire Row job:");
    has(&lines, "19 Unknown .. acquire Transaction 1");
    has(&lines, "20 Unknown .. INSERT .. None");
}

#[test]
fn routines_of_the_database() {
    let sql = "CREATE FUNCTION try_lease(p_name text, p_owner uuid) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  UPDATE leases SET owner = p_owner, expires_at = now() + interval '30 s' WHERE name = p_name AND expires_at < now();
  RETURN FOUND;
END $$;
CREATE FUNCTION lock_job(k bigint) RETURNS void LANGUAGE sql AS $$ SELECT pg_advisory_xact_lock(k) $$;";
    let rust = r#"
async fn a(pool: &sqlx::PgPool, owner: uuid::Uuid) -> anyhow::Result<bool> {
    sqlx::query("SELECT lock_job($1)").bind(7).execute(pool).await?;
    Ok(sqlx::query_scalar::<_, bool>("SELECT try_lease($1, $2)").bind("x").bind(owner).fetch_one(pool).await?)
}
"#;
    let lines = effects(&program(&[("migrations/1_a.sql", sql), ("src/lib.rs", rust)]));
    has(&lines, "3 Pool param0 | pg_advisory_xact_lock in lock_job() | acquire Transaction 7");
    has(&lines, "4 Pool param0 | claim of a row of leases in try_lease() | acquire LeaseRow leases:{\"x\"}");
    has(&lines, "4   held Ok(Bool(true)) lost Ok(Bool(false))");
}

#[test]
fn mysql() {
    let lines = of(r#"
use mysql_async::{prelude::*, Pool};
async fn a(pool: &Pool) -> anyhow::Result<()> {
    let mut conn = pool.get_conn().await?;
    let got: Option<i64> = conn.query_first("SELECT GET_LOCK('x', 10)").await?;
    let got: Option<Option<i64>> = conn.exec_first("SELECT GET_LOCK(?, ?)", ("y", 1)).await?;
    "SELECT RELEASE_LOCK(?)".with(("x",)).ignore(pool).await?;
    Ok(())
}
"#);
    has(&lines, "5 Dedicated .. acquire Session \"x\"");
    has(&lines, "5   held Ok(Some(Int(1))) lost Ok(Some(Int(0)))");
    has(&lines, "6 Dedicated .. acquire Session \"y\"");
    has(&lines, "6   held Ok(Some(Some(Int(1)))) lost Ok(Some(Some(Int(0))))");
    has(&lines, "7 Pool .. release Session \"x\"");
}

#[test]
fn tables_named_by_consts_of_crates_that_were_not_read() {
    let lines = of(r#"
async fn save(client: &tokio_postgres::Client, id: i64) -> anyhow::Result<()> {
    client.execute(&format!("update {} set a = 1 where id = $1", defs::REPOSITORIES), &[&id]).await?;
    client.execute(&format!("insert into {} (id) values ($1)", defs::REFS_TABLE), &[&id]).await?;
    Ok(())
}
"#);
    has(&lines, "3 .. write Table(\"repositories\")");
    has(&lines, "4 .. write Table(\"refs_table\")");
}
