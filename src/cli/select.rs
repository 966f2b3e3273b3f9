//! Which rules run.

use super::Failure;
use crate::rule::{Group, Rule};
use crate::suggest;
use std::collections::BTreeSet;

/// Ids of the rules that names of rules and groups select: those of `only` (all if empty) without those of `without`.
pub fn rules(only: &[String], without: &[String]) -> Result<Vec<&'static str>, Failure> {
    let wanted = if only.is_empty() { all().map(|r| r.id).collect() } else { expand(only)? };
    let unwanted = expand(without)?;
    Ok(all().map(|r| r.id).filter(|id| wanted.contains(id) && !unwanted.contains(id)).collect())
}

/// Every rule there is, in the order of lists.
pub fn all() -> impl Iterator<Item = &'static Rule> {
    crate::rules::all().iter().chain(&crate::suppress::RULES)
}

/// The rule of an id.
pub fn rule(id: &str) -> Result<&'static Rule, Failure> {
    all().find(|r| r.id == id).ok_or_else(|| unknown(id, false))
}

fn expand(names: &[String]) -> Result<BTreeSet<&'static str>, Failure> {
    let mut ids = BTreeSet::new();
    for name in names {
        let group = Group::from_name(name);
        let before = ids.len();
        ids.extend(all().filter(|r| r.id == name || Some(r.group) == group).map(|r| r.id));
        if group.is_none() && ids.len() == before && !all().any(|r| r.id == name) {
            return Err(unknown(name, true));
        }
    }
    Ok(ids)
}

fn unknown(name: &str, groups: bool) -> Failure {
    let known = all().map(|r| r.id).chain(Group::ALL.iter().map(|g| g.name()).filter(|_| groups));
    let kind = if groups { "rule or group" } else { "rule" };
    Failure(match suggest::nearest(name, known) {
        Some(near) => format!("no {kind} `{name}`, did you mean `{near}`?"),
        None => format!("no {kind} `{name}`; `cargo leaselint --list` shows all"),
    })
}
