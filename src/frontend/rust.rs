//! Rust: syn's trees to three-address code.
//!
//! ```text
//! parse   text -> items (what does not parse becomes a Problem, the rest goes on)
//! names   `use`, modules and local items: paths as written -> full paths
//! items   items -> types, impls, and one Function per fn, const, static, macro arm
//! lower   bodies -> Blocks of Ops; closures and async blocks become Functions of their own
//! ```

mod attrs;
mod items;
mod lower;
mod macro_rules;
mod names;
pub(crate) mod parse;
pub(crate) mod places;
mod types;
mod words;

use crate::frontend::ModuleContext;
use crate::ir::Unit;
use crate::source::SourceFile;

/// Lowers one Rust file that stands at `module` in its workspace. Never fails: what could not be read is in
/// [`Unit::problems`] and, where it holds lock words, in [`Unit::opaque`].
///
/// Needs a stack of 64 MB for the worst inputs that it accepts (nesting up to [`parse::MAX_DEPTH`]). No syn value outlives
/// the call: the span tables of this thread are cleared at the end.
pub fn lower(file: &SourceFile, module: &ModuleContext) -> Unit {
    let unit = {
        let parsed = parse::parse(file);
        items::lower(file, module, parsed)
    };
    proc_macro2::extra::invalidate_current_thread_spans();
    unit
}
