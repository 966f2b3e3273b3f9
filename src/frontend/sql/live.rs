//! Which definition of a routine is the one that runs.
//!
//! Migrations define one routine again and again: only the last text is live. Files are ordered by their paths, numbers by
//! value; those below one folder of migrations belong together. Upgrade scripts of extensions (`x--1.0--1.1.sql`) are older
//! than the extension's own sources. What a later file drops and does not define again is gone, and down migrations never run.

use super::build::{DROP, FUNCTION};
use crate::ir::{Callee, Function, FunctionKind, Lit, Operand, Unit};
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// Empties the bodies of routines that are not live. `units` are the lowered `.sql` files with their paths.
pub fn supersede(units: &mut [(String, &mut Unit)]) {
    let mut definitions: BTreeMap<Key, Vec<At>> = BTreeMap::new();
    let mut drops: BTreeMap<(String, String), Vec<At>> = BTreeMap::new();
    let mut sources: std::collections::BTreeSet<String> = std::collections::BTreeSet::new();
    for (path, unit) in units.iter().filter(|(path, _)| !down(path)) {
        for f in &unit.functions {
            if f.kind == FunctionKind::SqlBody {
                definitions.entry(key(path, f)).or_default().push(At { path: path.clone(), start: f.span.start });
                if !upgrade(path) {
                    sources.insert(f.path.clone());
                }
            }
            for (_, op, call) in f.calls() {
                if let (Callee::Path(callee), Some(Operand::Lit(Lit::Str(name)))) = (&call.callee, call.args.first())
                    && callee == DROP
                {
                    let at = At { path: path.clone(), start: op.span.start };
                    drops.entry((root(path), format!("{FUNCTION}{name}"))).or_default().push(at);
                }
            }
        }
    }
    for (path, unit) in units.iter_mut() {
        for f in &mut unit.functions {
            let dead = match f.kind {
                FunctionKind::SqlFile => down(path),
                FunctionKind::SqlBody => {
                    let here = At { path: path.clone(), start: f.span.start };
                    let after = |list: Option<&Vec<At>>| {
                        list.is_some_and(|l| l.iter().any(|at| at.order(&here) == Ordering::Greater))
                    };
                    down(path)
                        || after(definitions.get(&key(path, f)))
                        || after(drops.get(&(root(path), f.path.clone())))
                        || upgrade(path) && sources.contains(&f.path)
                }
                _ => false,
            };
            if dead {
                f.blocks.clear();
            }
        }
    }
}

/// Folder, path and number of parameters of a routine.
type Key = (String, String, usize);

fn key(path: &str, f: &Function) -> Key {
    (root(path), f.path.clone(), f.params.len())
}

/// A place in the order in which files are run.
struct At {
    path: String,
    start: u32,
}

impl At {
    fn order(&self, other: &At) -> Ordering {
        natural(&self.path, &other.path).then(self.start.cmp(&other.start))
    }
}

/// Compares texts with runs of digits as numbers: `1.9.0` is before `1.10.0`.
fn natural(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (a, b);
    loop {
        let digits = |s: &str| s.bytes().take_while(u8::is_ascii_digit).count();
        match (digits(a), digits(b)) {
            (0, _) | (_, 0) => {
                let (x, y) = (a.chars().next(), b.chars().next());
                match (x, y) {
                    (Some(x), Some(y)) if x == y => {
                        a = &a[x.len_utf8()..];
                        b = &b[y.len_utf8()..];
                    }
                    _ => return x.cmp(&y),
                }
            }
            (n, m) => {
                let (x, y) = (a[..n].trim_start_matches('0'), b[..m].trim_start_matches('0'));
                let order = x.len().cmp(&y.len()).then_with(|| x.cmp(y));
                if order != Ordering::Equal {
                    return order;
                }
                a = &a[n..];
                b = &b[m..];
            }
        }
    }
}

fn down(path: &str) -> bool {
    path.ends_with("/down.sql") || path.ends_with(".down.sql") || path.ends_with("_down.sql")
}

/// `extension--1.0--1.1.sql`
fn upgrade(path: &str) -> bool {
    path.rsplit('/').next().unwrap_or(path).matches("--").count() >= 2
}

/// The folder whose files belong together: up to the component that names migrations, else the file's own.
fn root(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').collect();
    let folder = parts.len().saturating_sub(1);
    let at = parts[..folder].iter().rposition(|p| p.to_ascii_lowercase().contains("migrat"));
    parts[..at.map_or(folder, |i| i + 1)].join("/")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::frontend::sql::lower;
    use crate::source::{FileId, Language, SourceFile};

    fn live(texts: &[(&str, &str)]) -> Vec<usize> {
        let file = |path: &str, text: &str| SourceFile::new(FileId(0), path, Language::Sql, text);
        let mut units: Vec<Unit> = texts.iter().map(|(path, text)| lower(&file(path, text))).collect();
        let mut named: Vec<(String, &mut Unit)> =
            texts.iter().map(|(p, _)| (*p).to_string()).zip(units.iter_mut()).collect();
        supersede(&mut named);
        let bodies = |u: &Unit| u.functions.iter().filter(|f| f.kind == FunctionKind::SqlBody && f.has_body()).count();
        units.iter().map(bodies).collect()
    }

    const F: &str = "CREATE OR REPLACE FUNCTION f() RETURNS int LANGUAGE sql AS $$ SELECT pg_advisory_lock(1) $$;";

    #[test]
    fn the_last_definition_is_live() {
        let two = format!("{F} CREATE FUNCTION g() RETURNS int LANGUAGE sql AS $$ SELECT 2 $$;");
        let texts = [
            ("m/migrations/9_a.sql", F),
            ("m/migrations/10_b.sql", &two),
            ("m/migrations/10_b.down.sql", F),
            ("other/a.sql", F),
        ];
        assert_eq!(live(&texts), [0, 2, 0, 1]);
        assert_eq!(live(&[("m/a.sql", &format!("{F} {F}"))]), [1]);
    }

    #[test]
    fn drops_and_upgrade_scripts() {
        assert_eq!(
            live(&[("migrations/1.sql", F), ("migrations/2.sql", "DROP FUNCTION IF EXISTS public.f(int), g;")]),
            [0, 0]
        );
        assert_eq!(live(&[("migrations/1.sql", &format!("DROP FUNCTION f; {F}"))]), [1]);
        assert_eq!(live(&[("sql/f.sql", F), ("updates/x--1.0--1.1.sql", F)]), [1, 0]);
        assert_eq!(live(&[("updates/x--1.9--1.10.sql", F), ("updates/x--1.10--1.11.sql", F)]), [0, 1]);
    }
}
