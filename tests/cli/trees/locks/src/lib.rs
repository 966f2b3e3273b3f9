pub mod admin;
pub mod charge;
pub mod lock;
pub mod orders;
pub mod report;
pub mod seen;
