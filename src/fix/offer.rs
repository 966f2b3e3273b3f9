//! Which findings get a repair.

use super::tree::Tree;
use super::{advisory, expire, reply};
use crate::finding::{Finding, Fix};
use crate::model::Versions;
use crate::rule::Context;
use crate::source::{FileId, Language};
use std::collections::BTreeMap;

/// What a repair may ask.
pub(super) struct Ask<'a> {
    /// The facts.
    pub cx: &'a Context<'a>,
    /// Versions of the client crates, where they are known.
    pub versions: &'a Versions,
    /// The file of the finding.
    pub tree: &'a Tree<'a>,
}

/// Hangs a repair on each finding that has a certain one.
pub fn offer(cx: &Context<'_>, versions: &Versions, findings: &mut [Finding]) {
    let mut by_file: BTreeMap<FileId, Vec<&mut Finding>> = BTreeMap::new();
    for finding in findings.iter_mut().filter(|f| f.fix.is_none()) {
        let file = cx.program.sources.get(finding.span.file);
        let wanted = matches!(
            finding.rule,
            "setnx-expire"
                | "unchecked-acquire"
                | "session-lock-leak"
                | "session-lock-pooler"
                | "release-before-commit"
        );
        if wanted && file.language == Language::Rust {
            by_file.entry(finding.span.file).or_default().push(finding);
        }
    }
    for (file, list) in by_file {
        let tree = Tree::parse(cx.program.sources.get(file));
        let ask = Ask { cx, versions, tree: &tree };
        for finding in list {
            finding.fix = repair(&ask, finding);
        }
        drop(tree);
        // No syntax outlives this: the tables that its places come from grow with each file.
        proc_macro2::extra::invalidate_current_thread_spans();
    }
}

fn repair(ask: &Ask<'_>, finding: &Finding) -> Option<Fix> {
    match finding.rule {
        "setnx-expire" => expire::one_command(ask, finding),
        "unchecked-acquire" => reply::telling(ask, finding),
        _ => advisory::of_transaction(ask, finding),
    }
}
