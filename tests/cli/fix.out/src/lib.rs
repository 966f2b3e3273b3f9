pub fn take(c: &mut redis::Connection, t: &str) -> redis::RedisResult<bool> {
    let won: bool = redis::cmd("SET")
        .arg("lock:a")
        .arg(t)
        .arg("NX")
        .arg("EX")
        .arg(30)
        .query(c)?;
    Ok(won)
}

pub fn free(c: &mut redis::Connection) -> redis::RedisResult<()> {
    redis::cmd("DEL").arg("lock:a").exec(c)
}
