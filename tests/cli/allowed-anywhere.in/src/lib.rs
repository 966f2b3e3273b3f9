use redis::AsyncCommands;
use redis::aio::ConnectionManager;

// One comment at the acquire: it is a label of the finding and a step of its witness.
pub async fn at_the_acquire(conn: &mut ConnectionManager, token: &str) -> redis::RedisResult<()> {
    // leaselint: allow(bare-del) at a label
    let reply: Option<String> =
        redis::cmd("SET").arg("lock:a").arg(token).arg("NX").arg("EX").arg(30).query_async(conn).await?;
    if reply.is_some() {
        work().await;
        let _: () = conn.del("lock:a").await?;
    }
    Ok(())
}

// Inside the chain, below the line of the finding.
pub async fn inside(conn: &mut ConnectionManager, token: &str) -> redis::RedisResult<()> {
    let reply: Option<String> = redis::cmd("SET")
        .arg("lock:b")
        .arg(token)
        // leaselint: allow(missing-ttl) inside the statement
        .arg("NX")
        .query_async(conn)
        .await?;
    if reply.is_some() {
        work().await;
        // leaselint: allow(bare-del) above the statement
        let _: () =
            conn.del("lock:b").await?;
    }
    Ok(())
}

// Behind the code of the last line of the statement.
pub async fn behind(conn: &mut ConnectionManager, token: &str) -> redis::RedisResult<()> {
    let reply: Option<String> =
        redis::cmd("SET").arg("lock:c").arg(token).arg("NX").arg("EX").arg(30).query_async(conn).await?;
    if reply.is_some() {
        work().await;
        let _: () = conn
            .del("lock:c")
            .await?; // leaselint: allow(bare-del) behind it
    }
    Ok(())
}

// The next statement is not meant.
pub async fn elsewhere(conn: &mut ConnectionManager, token: &str) -> redis::RedisResult<()> {
    let reply: Option<String> =
        redis::cmd("SET").arg("lock:d").arg(token).arg("NX").arg("EX").arg(30).query_async(conn).await?;
    if reply.is_some() {
        // leaselint: allow(bare-del) not here
        work().await;
        let _: () = conn.del("lock:d").await?;
    }
    Ok(())
}

pub async fn nightly(pool: &sqlx::PgPool) -> sqlx::Result<()> {
    let mut conn = pool.acquire().await?;
    let got: bool = sqlx::query_scalar("SELECT pg_try_advisory_lock(81)").fetch_one(&mut *conn).await?;
    if got {
        work().await;
        sqlx::query("SELECT pg_advisory_unlock(81)").execute(&mut *conn).await?;
    }
    Ok(())
}

async fn work() {}
