use redis::aio::ConnectionManager;
use sqlx::PgPool;

pub async fn one(c: &mut ConnectionManager, db: &PgPool, invoice: i64) -> Result<(), Box<dyn std::error::Error>> {
    let name = format!("invoice:{invoice}");
    let Some(token) = crate::lock::acquire(c, &name, 30).await? else { return Ok(()) };
    let result = crate::orders::mark_paid(db, invoice).await;
    if !crate::lock::release(c, &name, &token).await? {
        eprintln!("the charge took longer than its lock");
    }
    result
}

pub async fn nightly(db: &PgPool) -> Result<(), sqlx::Error> {
    let mut tx = db.begin().await?;
    sqlx::query("SELECT pg_advisory_xact_lock(4711)").execute(&mut *tx).await?;
    sqlx::query("DELETE FROM totals WHERE day < now() - interval '1 year'").execute(&mut *tx).await?;
    tx.commit().await
}
