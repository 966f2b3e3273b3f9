use sqlx::PgPool;

pub async fn mark_paid(db: &PgPool, id: i64) -> Result<(), Box<dyn std::error::Error>> {
    let state: String = sqlx::query_scalar("SELECT state FROM invoices WHERE id = $1").bind(id).fetch_one(db).await?;
    if state != "paid" {
        sqlx::query("UPDATE invoices SET state = 'paid' WHERE id = $1").bind(id).execute(db).await?;
    }
    Ok(())
}
