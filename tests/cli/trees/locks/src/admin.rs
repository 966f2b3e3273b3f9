//! Says nothing of locks, and writes what they protect.

use sqlx::PgPool;

pub async fn reopen(db: &PgPool, id: i64) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE invoices SET state = 'open' WHERE id = $1").bind(id).execute(db).await?;
    Ok(())
}

pub async fn force(db: &PgPool, id: i64) -> Result<(), Box<dyn std::error::Error>> {
    crate::orders::mark_paid(db, id).await
}
