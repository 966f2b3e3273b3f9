//! Types and expected types.

use super::{expected, function, link, ty, var};

#[test]
fn client_types() {
    let p = link(&[(
        "app",
        r#"
        use redis::aio::ConnectionManager;
        use std::sync::Arc;
        use tokio::sync::Mutex;
        type Conn = ConnectionManager;
        struct Locker { conn: Arc<Mutex<Conn>>, pool: deadpool_redis::Pool, pg: sqlx::PgPool }
        impl Locker {
            async fn f(&self) -> anyhow::Result<()> {
                let client = redis::Client::open("redis://x")?;
                let a = client.get_multiplexed_async_connection().await?;
                let b = self.conn.lock().await;
                let c = self.pool.get().await?;
                let cmd = deadpool_redis::redis::cmd("SET");
                let mut tx = self.pg.begin().await?;
                let d = self.pg.acquire().await?.detach();
                let e = Arc::clone(&self.conn);
                let g = self.pool.get().await.map_err(|e| anyhow::anyhow!(e)).unwrap();
                Ok(())
            }
        }"#,
    )]);
    let f = function(&p, "Locker::f");
    let receiver = |name: &str| p.receiver(f, &var(&p, f, name)).to_string();
    assert_eq!(ty(&p, "Locker::f", "a"), "redis::aio::MultiplexedConnection");
    assert_eq!(receiver("b"), "redis::aio::ConnectionManager");
    assert_eq!(ty(&p, "Locker::f", "c"), "deadpool_redis::Connection");
    assert_eq!(ty(&p, "Locker::f", "g"), "deadpool_redis::Connection");
    assert_eq!(ty(&p, "Locker::f", "cmd"), "redis::Cmd");
    assert_eq!(ty(&p, "Locker::f", "tx"), "sqlx::Transaction<sqlx::Postgres>");
    assert_eq!(ty(&p, "Locker::f", "d"), "sqlx::PgConnection");
    assert_eq!(receiver("self"), "app::Locker");
    assert!(ty(&p, "Locker::f", "e").starts_with("std::sync::Arc<"));
}

#[test]
fn workspace_results_across_crates() {
    let p = link(&[
        ("store", "pub mod redis_store; pub use redis_store::{Store, connect};"),
        (
            "store::redis_store",
            r#"
            pub struct Store { pub url: String }
            impl Store { pub fn builder() -> Builder { Builder } pub async fn owner(&self) -> Result<Option<Lease>, ()> { todo!() } }
            pub struct Builder;
            impl Builder { pub fn build(self) -> Result<Store, ()> { todo!() } }
            pub struct Lease { pub id: u64 }
            pub async fn connect() -> Result<Store, ()> { todo!() }"#,
        ),
        (
            "app",
            r#"
            use store::*;
            async fn f() -> Result<(), ()> {
                let a = connect().await?;
                let b = Store::builder().build().unwrap();
                let c = a.owner().await?;
                if let Some(d) = c { let e = d.id; }
                let leases: Vec<_> = vec![a.owner().await?.unwrap()];
                for l in &leases { let id = l.id; }
                let g = leases.iter().map(|l| l.id).next().unwrap();
                Ok(())
            }"#,
        ),
    ]);
    assert_eq!(ty(&p, "app::f", "a"), "store::redis_store::Store");
    assert_eq!(ty(&p, "app::f", "b"), "store::redis_store::Store");
    assert_eq!(ty(&p, "app::f", "c"), "Option<store::redis_store::Lease>");
    assert_eq!(ty(&p, "app::f", "d"), "store::redis_store::Lease");
    assert_eq!(ty(&p, "app::f", "e"), "u64");
    assert_eq!(ty(&p, "app::f", "id"), "u64");
    assert_eq!(ty(&p, "app::f", "g"), "u64");
}

#[test]
fn generic_wrappers() {
    let p = link(&[(
        "app",
        r#"
        struct Guarded<T> { inner: T }
        impl<T> Guarded<T> { fn get(&self) -> &T { &self.inner } fn into(self) -> Option<T> { Some(self.inner) } }
        impl std::ops::Deref for Wrapper { type Target = Inner; fn deref(&self) -> &Inner { &self.0 } }
        struct Wrapper(Inner);
        struct Inner { n: u32 }
        impl Inner { fn name(&self) -> String { String::new() } }
        async fn with<F, Fut, T>(f: F) -> Result<T, ()> where F: FnOnce() -> Fut, Fut: std::future::Future<Output = Result<T, ()>> { f().await }
        async fn f(w: Wrapper, g: Guarded<Inner>) -> Result<(), ()> {
            let a = w.name();
            let b = w.n;
            let c = g.get();
            let d = with(|| async { Ok(5u64) }).await?;
            let e = g.inner;
            Ok(())
        }"#,
    )]);
    assert_eq!(ty(&p, "app::f", "a"), "String");
    assert_eq!(ty(&p, "app::f", "b"), "u32");
    assert_eq!(ty(&p, "app::f", "c"), "app::Inner");
    assert_eq!(ty(&p, "app::f", "e"), "app::Inner");
    assert_eq!(ty(&p, "app::f", "d"), "i64");
}

#[test]
fn extractors_hold_one_thing() {
    let p = link(&[(
        "app",
        r#"
        use axum::extract::State; use std::sync::Arc;
        struct App { pool: sqlx::PgPool }
        async fn f(State(app): State<Arc<App>>, data: actix_web::web::Data<App>) { let a = app.pool.clone(); let b = &data.0.pool; }"#,
    )]);
    assert_eq!(ty(&p, "app::f", "a"), "sqlx::PgPool");
    assert_eq!(ty(&p, "app::f", "b"), "sqlx::PgPool");
}

fn reply(body: &str) -> String {
    let text = format!(
        "use redis::AsyncCommands; struct W {{ won: bool }} fn take(b: bool) {{}} \
         async fn g(c: &mut C) -> redis::RedisResult<bool> {{ c.set_nx(1, 2).await }} {body}"
    );
    expected(&link(&[("app", &text)]), "app::f", "set_nx")
}

#[test]
fn reply_types() {
    let f = |ret: &str, body: &str| reply(&format!("async fn f(c: &mut C) {ret} {{ {body} }}"));
    let r = "-> anyhow::Result<()>";
    assert_eq!(f(r, "let ok: bool = c.set_nx(1, 2).await?; Ok(())"), "bool");
    assert_eq!(f(r, "let ok: Result<bool, _> = c.set_nx(1, 2).await; Ok(())"), "bool");
    assert_eq!(f(r, "let ok: redis::RedisResult<Option<String>> = c.set_nx(1, 2).await; Ok(())"), "Option<String>");
    assert_eq!(f("-> redis::RedisResult<bool>", "c.set_nx(1, 2).await"), "bool");
    assert_eq!(f("-> anyhow::Result<bool>", "Ok(c.set_nx(1, 2).await?)"), "bool");
    assert_eq!(f("-> anyhow::Result<bool>", "c.set_nx(1, 2).await.map_err(|e| e.into())"), "bool");
    assert_eq!(f("-> anyhow::Result<bool>", "let r = c.set_nx(1, 2).await.context(\"x\")?; Ok(r)"), "bool");
    assert_eq!(f(r, "if !c.set_nx(1, 2).await? { return Ok(()); } Ok(())"), "bool");
    assert_eq!(f(r, "let won = c.set_nx(1, 2).await?; if won { go(); } Ok(())"), "bool");
    assert_eq!(f(r, "let n = c.set_nx(1, 2).await?; if n == 1 { go(); } Ok(())"), "i64");
    assert_eq!(f(r, "let _: () = c.set_nx(1, 2).await?; Ok(())"), "()");
    assert_eq!(f(r, "take(c.set_nx(1, 2).await?); Ok(())"), "bool");
    assert_eq!(f("-> anyhow::Result<W>", "Ok(W { won: c.set_nx(1, 2).await? })"), "bool");
    assert_eq!(f("-> bool", "c.set_nx(1, 2).await.unwrap_or(false)"), "bool");
    assert_eq!(f("", "let x = c.set_nx(1, 2).await.unwrap_or(false);"), "bool");
    assert_eq!(f("", "match c.set_nx(1, 2).await { Ok(true) => go(), Ok(false) => {}, Err(_) => {} }"), "bool");
    assert_eq!(f("", "match c.set_nx(1, 2).await { Ok(Some(x)) => go(x), Ok(None) => {}, Err(_) => {} }"), "Option<_>");
    assert_eq!(f(r, "let x = c.set_nx(1, 2).await?; if x.is_some() { go(); } Ok(())"), "Option<_>");
    assert_eq!(f("", "if let Ok(1) = c.set_nx(1, 2).await { go(); }"), "i64");
    assert_eq!(f("-> Option<bool>", "c.set_nx(1, 2).await.ok()"), "bool");
    assert_eq!(f("-> bool", "matches!(c.set_nx(1, 2).await, Ok(true))"), "bool");
    assert_eq!(f("-> bool", "c.set_nx(1, 2).await.is_ok_and(|won| won)"), "bool");
    assert_eq!(f(r, "let x: bool = tokio::time::timeout(d, c.set_nx(1, 2)).await??; Ok(())"), "bool");
    assert_eq!(f("", "let v = match c.set_nx(1, 2).await { Ok(v) => v, Err(_) => false };"), "bool");
    assert_eq!(f("-> anyhow::Result<Option<String>>", "let x = c.set_nx(1, 2).await?; Ok(Some(x))"), "String");
    assert_eq!(f("-> anyhow::Result<bool>", "let x = async { c.set_nx(1, 2).await }.await?; Ok(x)"), "bool");
}
