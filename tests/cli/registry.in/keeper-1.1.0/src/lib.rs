mod release;

pub async fn keep(con: &mut redis::aio::MultiplexedConnection, job: &str, token: &str) -> redis::RedisResult<()> {
    let key = format!("keeper:{job}");
    let won: Option<String> =
        redis::cmd("SET").arg(&key).arg(token).arg("NX").arg("PX").arg(30_000).query_async(con).await?;
    if won.is_some() {
        work(job).await;
        release::release(con, &key).await?;
    }
    Ok(())
}
