use redis::aio::ConnectionManager;
use sqlx::PgPool;

pub async fn run(c: &mut ConnectionManager, db: &PgPool) -> Result<(), Box<dyn std::error::Error>> {
    let Some(token) = crate::lock::acquire(c, "report", 60).await? else { return Ok(()) };
    let result = write(db).await;
    if !crate::lock::release(c, "report", &token).await? {
        eprintln!("the report took longer than its lock");
    }
    result
}

async fn write(db: &PgPool) -> Result<(), Box<dyn std::error::Error>> {
    let total: i64 = sqlx::query_scalar("SELECT sum(amount) FROM invoices").fetch_one(db).await?;
    sqlx::query("UPDATE totals SET amount = $1 WHERE id = 1").bind(total).execute(db).await?;
    Ok(())
}
