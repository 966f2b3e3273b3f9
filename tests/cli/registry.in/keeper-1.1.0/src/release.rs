pub async fn release(con: &mut redis::aio::MultiplexedConnection, key: &str) -> redis::RedisResult<()> {
    redis::cmd("DEL").arg(key).query_async(con).await
}
