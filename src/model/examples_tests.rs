//! Every row's example is lowered, and must match that row.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::*;
use crate::frontend::{ModuleContext, rust};
use crate::link::Program;
use crate::source::{Language, Sources};

/// A version in the row's range: its lower bound, or a very old one.
fn version(row: &Row) -> String {
    let text = row.version.as_deref().unwrap_or(">=999");
    let lower = text.split(',').find_map(|part| part.trim().strip_prefix(">="));
    lower.map_or("0.0.1".to_owned(), |lower| lower.trim().to_owned())
}

/// The variable that the example's method is called on, and every other free name, as parameters. Only the receiver has a
/// type: the row's own, or the first connection of the crate.
fn function(row: &Row, file: &File) -> String {
    let example = row.example.as_deref().unwrap();
    let own = row.receiver.0.first().map(|ty| ty.replace("*::", "job::"));
    let connection = |role: &TypeRole| {
        matches!(
            role,
            TypeRole::Pool
                | TypeRole::Pinned
                | TypeRole::Dedicated
                | TypeRole::Multiplexed
                | TypeRole::Trait
                | TypeRole::Lock
        )
    };
    let ty = own.or_else(|| {
        let mut types = file.head.types.iter();
        types.find(|(_, role)| connection(role)).map(|(path, _)| path.clone())
    });
    let ty = ty.unwrap_or_else(|| "()".into());
    let is_trait = file.head.types.get(&ty) == Some(&TypeRole::Trait);
    let binds = example.starts_with("let ");
    let receiver = if binds { example.split_once(" = ").map_or(example, |(_, call)| call) } else { example };
    let end = receiver.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(receiver.len());
    let name = &receiver[..end];
    let path = receiver[end..].starts_with("::") || receiver[end..].starts_with('(');
    let parameter = match (path, is_trait) {
        (true, _) => String::new(),
        (false, true) => format!("{name}: &mut impl {ty}"),
        (false, false) => format!("{name}: &mut {ty}"),
    };
    let krate = file.head.names.0.first().cloned().unwrap_or_else(|| file.head.krate.replace('-', "_"));
    let krate = krate.split("::").next().unwrap();
    format!("use {krate}::*; async fn f({parameter}) -> Result<(), Error> {{ {example} Ok(()) }}")
}

#[test]
fn every_example_matches_its_row() {
    let models = Models::builtin();
    let mut failed = Vec::new();
    for row in &models.rows {
        let file = models.file(row);
        if row.example.is_none() {
            if row.protocol != Protocol::Sql {
                failed.push(format!("{}: no example", row.id));
            }
            continue;
        }
        let text = function(row, file);
        let mut sources = Sources::default();
        let id = sources.add("src/lib.rs", Language::Rust, text.as_str());
        let context = ModuleContext { krate: "app".into(), module: "app".into(), test: false };
        let unit = rust::lower(sources.get(id), &context);
        if !unit.problems.is_empty() {
            failed.push(format!("{}: {text}: {:?}", row.id, unit.problems));
            continue;
        }
        let program = Program::link(sources, vec![unit]);
        let imports = Imports::of(&program, models);
        let mut versions = Versions::new();
        versions.insert(file.head.krate.clone(), version(row));
        let mut seen = Vec::new();
        for (id, function) in program.functions() {
            for (_, _, call) in function.calls() {
                if let Some(hit) = models.find(&program, &imports, id, call, &versions) {
                    seen.push(hit.row.id.clone());
                }
            }
        }
        if !seen.contains(&row.id) {
            failed.push(format!("{}: {text}\n    matched {seen:?}", row.id));
        }
    }
    assert!(failed.is_empty(), "{} rows:\n{}", failed.len(), failed.join("\n"));
}
