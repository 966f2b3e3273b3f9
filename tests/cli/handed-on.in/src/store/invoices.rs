use sqlx::PgPool;

pub async fn put_sum(db: &PgPool, month: &str, sum: i64) -> sqlx::Result<()> {
    sqlx::query("UPDATE months SET sum = $2 WHERE month = $1").bind(month).bind(sum).execute(db).await?;
    Ok(())
}
