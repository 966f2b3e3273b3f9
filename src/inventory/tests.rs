#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::*;
use crate::discover::Workspace;
use crate::pipeline::{self, Options, Outcome};
use crate::report::locks::{Report, SCHEMA, json};
use crate::report::schema_tests::check;

fn run(texts: &[(&str, &str)]) -> (Outcome, Inventory) {
    let workspace = Workspace::of_texts(texts.iter().copied());
    pipeline::run_and(workspace, &Options::default(), |cx, findings| build(cx, Models::builtin(), findings))
}

/// A lock module with a guard, and whatever else a case adds.
fn with_module(rest: &str) -> (Outcome, Inventory) {
    let module = r#"
        use redis::aio::ConnectionManager;
        use redis::AsyncCommands;
        pub struct Lease { c: ConnectionManager, key: String, token: String }
        impl Lease {
            pub fn new(c: ConnectionManager, name: &str) -> Self {
                Lease { c, key: format!("lease:{name}"), token: uuid::Uuid::new_v4().to_string() }
            }
            pub async fn acquire(&mut self, ttl: u64) -> redis::RedisResult<bool> {
                let got: Option<String> = redis::cmd("SET").arg(&self.key).arg(&self.token).arg("NX").arg("PX").arg(ttl)
                    .query_async(&mut self.c).await?;
                Ok(got.is_some())
            }
            pub async fn release(&mut self) -> redis::RedisResult<()> {
                let _: () = self.c.del(&self.key).await?;
                Ok(())
            }
        }
    "#;
    run(&[("src/lib.rs", "mod lock; mod work;"), ("src/lock.rs", module), ("src/work.rs", rest)])
}

fn keys(inventory: &Inventory) -> Vec<&str> {
    inventory.locks.iter().map(|lock| lock.key.as_str()).collect()
}

#[test]
fn callers_say_what_is_locked() {
    let text = r#"
        async fn take(c: &mut redis::aio::ConnectionManager, name: &str, ttl: u64) -> redis::RedisResult<bool> {
            let got: Option<String> = redis::cmd("SET").arg(format!("lock:{name}")).arg("1").arg("NX").arg("EX").arg(ttl)
                .query_async(c).await?;
            Ok(got.is_some())
        }
        async fn free(c: &mut redis::aio::ConnectionManager, name: &str) -> redis::RedisResult<()> {
            redis::cmd("DEL").arg(format!("lock:{name}")).query_async(c).await
        }
        async fn a(c: &mut redis::aio::ConnectionManager) -> redis::RedisResult<()> {
            if take(c, "a", 30).await? { free(c, "a").await?; }
            Ok(())
        }
        async fn b(c: &mut redis::aio::ConnectionManager, id: u64) -> redis::RedisResult<()> {
            let name = format!("b:{id}");
            if take(c, &name, 60).await? { free(c, &name).await?; }
            Ok(())
        }
    "#;
    let (_, inventory) = run(&[("src/lib.rs", text)]);
    assert_eq!(keys(&inventory), ["lock:a", "lock:b:{id}"]);
    let ttl: Vec<&str> = inventory.locks.iter().map(|lock| lock.ttl[0].as_str()).collect();
    assert_eq!(ttl, ["30 s", "60 s"]);
    assert_eq!(inventory.locks[0].token, ["constant `1`"]);
    assert_eq!(inventory.locks[0].topology, ["one server"]);
}

#[test]
fn keys_in_fields_are_what_constructors_store() {
    let (_, inventory) = with_module(
        r#"
        pub async fn run(c: redis::aio::ConnectionManager) -> redis::RedisResult<()> {
            let mut lease = crate::lock::Lease::new(c, "report");
            if lease.acquire(30_000).await? { lease.release().await?; }
            Ok(())
        }
    "#,
    );
    assert_eq!(inventory.locks.len(), 1, "{inventory:#?}");
    let lock = &inventory.locks[0];
    assert!(lock.key.starts_with("lease:"), "{}", lock.key);
    assert_eq!((lock.releases.len(), lock.renewals.len()), (1, 0));
    assert!(lock.releases[0].what.contains("no owner check"));
}

#[test]
fn markers_and_what_is_undecided_stand_apart() {
    let text = r#"
        async fn seen(c: &mut redis::aio::ConnectionManager, id: &str) -> redis::RedisResult<bool> {
            redis::cmd("SET").arg(format!("seen:{id}")).arg(1).arg("NX").arg("EX").arg(60).query_async(c).await
        }
        async fn once(c: &mut redis::aio::ConnectionManager, id: &str) -> redis::RedisResult<()> {
            let got: Option<String> = redis::cmd("SET").arg(format!("done:{id}")).arg(1).arg("NX").arg("EX").arg(60)
                .query_async(c).await?;
            if got.is_none() { return Ok(()); }
            if let Err(e) = work().await {
                let _: () = redis::cmd("DEL").arg(format!("done:{id}")).query_async(c).await?;
                return Err(e);
            }
            Ok(())
        }
        async fn put_if_absent(c: &mut redis::aio::ConnectionManager, key: &str) -> redis::RedisResult<bool> {
            redis::cmd("SET").arg(key).arg(1).arg("NX").arg("EX").arg(60).query_async(c).await
        }
        async fn work() -> redis::RedisResult<()> { Ok(()) }
    "#;
    let (_, inventory) = run(&[("src/lib.rs", text)]);
    assert_eq!(keys(&inventory), [""; 0]);
    assert_eq!(inventory.markers.iter().map(|m| m.key.as_str()).collect::<Vec<_>>(), ["done:{id}"]);
    assert_eq!(inventory.undecided.iter().map(|m| m.key.as_str()).collect::<Vec<_>>(), ["seen:{id}", "{key}"]);
}

#[test]
fn a_cluster_is_seen_by_the_type_of_its_client() {
    let text = r#"
        use redis::AsyncCommands;
        async fn run(c: &mut redis::cluster_async::ClusterConnection) -> redis::RedisResult<()> {
            let got: Option<String> = redis::cmd("SET").arg("lock:a").arg("t").arg("NX").arg("EX").arg(30).query_async(c).await?;
            if got.is_some() { let _: () = c.del("lock:a").await?; }
            Ok(())
        }
    "#;
    let (_, inventory) = run(&[("src/lib.rs", text)]);
    assert_eq!(inventory.locks[0].topology, ["cluster"]);
}

#[test]
fn who_writes_without_the_lock_is_named() {
    let (outcome, inventory) = with_module(
        r#"
        pub async fn run(c: redis::aio::ConnectionManager, db: &sqlx::PgPool) -> Result<(), Box<dyn std::error::Error>> {
            let mut lease = crate::lock::Lease::new(c, "report");
            if lease.acquire(30_000).await? {
                store(db).await?;
                lease.release().await?;
            }
            Ok(())
        }
        async fn store(db: &sqlx::PgPool) -> Result<(), sqlx::Error> {
            sqlx::query("UPDATE reports SET n = n + 1 WHERE id = 1").execute(db).await?;
            Ok(())
        }
        pub async fn by_hand(db: &sqlx::PgPool) -> Result<(), sqlx::Error> { store(db).await }
        pub async fn reset(db: &sqlx::PgPool) -> Result<(), sqlx::Error> {
            sqlx::query("UPDATE public.Reports SET n = 0").execute(db).await?;
            Ok(())
        }
        pub async fn other(db: &sqlx::PgPool) -> Result<(), sqlx::Error> {
            sqlx::query("UPDATE invoices SET n = 0").execute(db).await?;
            Ok(())
        }
    "#,
    );
    let lock = &inventory.locks[0];
    assert_eq!(lock.under.iter().map(|e| e.function.as_str()).collect::<Vec<_>>(), ["store"]);
    assert_eq!(lock.outside.iter().map(|e| e.function.as_str()).collect::<Vec<_>>(), ["by_hand", "reset"]);
    let report = Report { sources: &outcome.sources, inventory: &inventory, purposes: vec![Some("why".to_owned())] };
    let schema: serde_json::Value = serde_json::from_str(SCHEMA).unwrap();
    let document = json(&report);
    check(&schema, &schema, &document, "");
    // Nothing is written that the schema does not describe.
    let described = schema["$defs"]["lock"]["properties"].as_object().unwrap();
    assert!(document["locks"][0].as_object().unwrap().keys().all(|name| described.contains_key(name)));
}
