use redis::AsyncCommands;
use redis::aio::ConnectionManager;

// leaselint: allow(bare-dell) the name is misspelt
pub async fn report(conn: &mut ConnectionManager) -> redis::RedisResult<()> {
    let taken: bool = conn.set_nx("counter", 1).await?;
    // leaselint: allow(missing-ttl)
    println!("{taken}");
    Ok(())
}
