//! A lock module: the key is said by its callers.

use redis::aio::ConnectionManager;
use std::time::Duration;

pub async fn acquire(c: &mut ConnectionManager, name: &str, ttl: u64) -> redis::RedisResult<Option<String>> {
    let token = uuid::Uuid::new_v4().to_string();
    let got: Option<String> =
        redis::cmd("SET").arg(format!("lock:{name}")).arg(&token).arg("NX").arg("EX").arg(ttl).query_async(c).await?;
    Ok(got.map(|_| token))
}

pub async fn release(c: &mut ConnectionManager, name: &str, token: &str) -> redis::RedisResult<bool> {
    redis::Script::new("if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end")
        .key(format!("lock:{name}"))
        .arg(token)
        .invoke_async(c)
        .await
}

/// Prolongs the lock every ten seconds until it is lost.
pub async fn keep(c: &mut ConnectionManager, name: &str, token: &str) -> redis::RedisResult<()> {
    let script = redis::Script::new(
        "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) else return 0 end",
    );
    loop {
        tokio::time::sleep(Duration::from_secs(10)).await;
        let kept: bool = script.key(format!("lock:{name}")).arg(token).arg(30_000).invoke_async(c).await?;
        if !kept {
            return Ok(());
        }
    }
}
