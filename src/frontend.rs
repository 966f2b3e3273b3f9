//! Front ends: syntax to IR. They know no client crate and report no finding.

pub mod lua;
pub mod pooler;
pub mod rust;
pub mod sql;

/// Where a file stands in the workspace, for naming what it defines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModuleContext {
    /// Crate name as code writes it (`my_service`); `crate` resolves to it.
    pub krate: String,
    /// Full path of the file's module (`my_service::locks::redis`); equals `krate` for a crate root.
    pub module: String,
    /// The whole file is test, bench or example code by its place.
    pub test: bool,
}
