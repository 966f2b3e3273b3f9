pub fn take(c: &mut redis::Connection, t: &str) -> redis::RedisResult<bool> {
    let won: bool = redis::cmd("SETNX").arg("lock:a").arg(t).query(c)?;
    if won {
        redis::cmd("EXPIRE").arg("lock:a").arg(30).exec(c)?;
    }
    Ok(won)
}

pub fn free(c: &mut redis::Connection) -> redis::RedisResult<()> {
    redis::cmd("DEL").arg("lock:a").exec(c)
}
