use redis::AsyncCommands;
use redis::aio::ConnectionManager;

pub async fn rebuild(conn: &mut ConnectionManager, token: &str) -> redis::RedisResult<bool> {
    let reply: Option<String> =
        redis::cmd("SET").arg("lock:rebuild").arg(token).arg("NX").arg("EX").arg(30).query_async(conn).await?;
    if reply.is_none() {
        return Ok(false);
    }
    build_index().await;
    let _: () = conn
        .del("lock:rebuild")
        .await?;
    Ok(true)
}

async fn build_index() {}
