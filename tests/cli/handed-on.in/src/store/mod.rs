//! What the rest of the crate sees of the tables.

mod invoices;

pub use invoices::*;
