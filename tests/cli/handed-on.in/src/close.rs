use redis::aio::ConnectionManager;
use redis::Script;
use sqlx::PgPool;

use crate::store::put_sum;

const FREE: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

pub async fn close(redis: &mut ConnectionManager, db: &PgPool, month: &str) -> anyhow::Result<()> {
    let key = format!("close:{month}");
    let token = uuid::Uuid::new_v4().to_string();
    let won: Option<String> =
        redis::cmd("SET").arg(&key).arg(&token).arg("NX").arg("EX").arg(60).query_async(redis).await?;
    if won.is_none() {
        return Ok(());
    }
    let sum = sqlx::query_scalar("SELECT sum(amount) FROM invoices WHERE month = $1").bind(month).fetch_one(db).await;
    let stored = match sum {
        Ok(sum) => put_sum(db, month, sum).await,
        Err(e) => Err(e),
    };
    let _: i64 = Script::new(FREE).key(&key).arg(&token).invoke_async(redis).await?;
    Ok(stored?)
}
