use redis::aio::ConnectionManager;

/// Whether a message is new.
pub async fn first_time(c: &mut ConnectionManager, id: &str) -> redis::RedisResult<bool> {
    redis::cmd("SET").arg(format!("seen:{id}")).arg(1).arg("NX").arg("EX").arg(3600).query_async(c).await
}
