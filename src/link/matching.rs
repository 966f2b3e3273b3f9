//! Whether two values are the same lock: [`must_match`] accuses, [`may_match`] acquits.
//!
//! Both values must be in the terms of one function, or made absolute ([`super::Program::absolute`]).

use crate::ir::{Lit, Piece, Value};

/// A template with fewer constant letters than this matches only through the same [`Value`].
const LETTERS: usize = 3;

/// Whether both values surely name the same thing: constant parts and hole positions agree, and holes whose values are
/// known agree too. Unknown holes are taken as the same hole of one template.
pub fn must_match(a: &Value, b: &Value) -> bool {
    if same(a, b) {
        return true;
    }
    match (a, b) {
        (Value::Join(members), other) | (other, Value::Join(members)) => {
            // One of several: only if every alternative is the same thing.
            members.iter().all(|member| other.alternatives().iter().any(|o| must_match(member, o)))
                && other.alternatives().iter().all(|o| members.iter().any(|member| must_match(member, o)))
        }
        _ => match (Pattern::of(a), Pattern::of(b)) {
            (Some(x), Some(y)) => x.letters() >= LETTERS && y.letters() >= LETTERS && x.agrees(&y),
            _ => false,
        },
    }
}

/// Fields of different types that stand at one place of both templates and have one name: their values may still differ.
pub fn namesakes<'v>(a: &'v Value, b: &'v Value) -> Vec<(&'v Value, &'v Value)> {
    let (Some(x), Some(y)) = (Pattern::of(a), Pattern::of(b)) else { return Vec::new() };
    let holes = x.0.into_iter().zip(y.0).filter_map(|pair| match pair {
        (Part::Hole(v), Part::Hole(w)) => Some((v, w)),
        _ => None,
    });
    holes
        .filter(|(v, w)| v != w && (matches!((v, w), (Value::TypeField(..), Value::TypeField(..))) || parts(v, w)))
        .collect()
}

/// Whether both are fields of two parts of one object: `self.locks.prefix`, `self.results.prefix`.
fn parts(a: &Value, b: &Value) -> bool {
    let (Value::Field(a, _), Value::Field(b, _)) = (a, b) else { return false };
    match (&**a, &**b) {
        (Value::TypeField(x, a), Value::TypeField(y, b)) => x == y && a != b,
        (Value::Field(x, a), Value::Field(y, b)) => x == y && a != b && !vague(x),
        _ => false,
    }
}

/// Whether both values can name the same thing: enough to close a Scope. Unknown values may be anything that has no
/// constant text against it.
pub fn may_match(a: &Value, b: &Value) -> bool {
    if same(a, b) {
        return true;
    }
    if let (Value::Join(_), _) | (_, Value::Join(_)) = (a, b) {
        return a.alternatives().iter().any(|x| b.alternatives().iter().any(|y| may_match(x, y)));
    }
    match (Pattern::of(a), Pattern::of(b)) {
        (Some(x), Some(y)) => x.overlaps(&y),
        (Some(_), None) => opaque(b),
        (None, Some(_)) => opaque(a),
        (None, None) => match (field_name(a), field_name(b)) {
            (Some(x), Some(y)) => x == y,
            _ => opaque(a) || opaque(b),
        },
    }
}

/// The same [`Value`], known well enough to be equal to itself.
fn same(a: &Value, b: &Value) -> bool {
    a == b && known(a)
}

/// Whether equal trees mean equal values: nothing unknown and nothing made anew by each evaluation inside.
fn known(value: &Value) -> bool {
    match value {
        Value::Unknown | Value::Fresh(_) | Value::Clock { .. } => false,
        Value::Const(_)
        | Value::Param(_)
        | Value::TypeField(..)
        | Value::Env(_)
        | Value::PerProcess(_)
        | Value::Identity(_)
        | Value::Path(_)
        | Value::Closure(_)
        | Value::Local(..) => true,
        Value::Template(pieces) => pieces.iter().all(|piece| match piece {
            Piece::Text(_) => true,
            Piece::Hole(hole) => known(hole),
        }),
        Value::Field(base, _) => known(base),
        Value::Call(call) => call.args.iter().all(known),
        Value::Aggregate(_, fields) => fields.iter().all(|(_, v)| known(v)),
        Value::Operation(_, operands) => operands.iter().all(known),
        // Each side of a join may be another member.
        Value::Join(_) => false,
    }
}

/// Whether a value says nothing of its text.
fn opaque(value: &Value) -> bool {
    !matches!(value, Value::Const(_) | Value::Template(_) | Value::Aggregate(..) | Value::Closure(_) | Value::Path(_))
}

fn field_name(value: &Value) -> Option<&str> {
    match value {
        Value::Field(_, name) | Value::TypeField(_, name) => Some(name),
        _ => None,
    }
}

/// Text with holes.
struct Pattern<'a>(Vec<Part<'a>>);

enum Part<'a> {
    Text(String),
    Hole(&'a Value),
}

impl<'a> Pattern<'a> {
    /// The value as text with holes, adjacent texts joined; `None` when it has no constant text at all.
    fn of(value: &'a Value) -> Option<Pattern<'a>> {
        let mut parts = Vec::new();
        flatten(value, &mut parts, 0);
        let text = parts.iter().any(|part| matches!(part, Part::Text(t) if !t.is_empty()));
        text.then_some(Pattern(parts))
    }

    fn letters(&self) -> usize {
        self.0
            .iter()
            .map(|part| match part {
                Part::Text(text) => text.chars().filter(|c| c.is_alphanumeric()).count(),
                Part::Hole(_) => 0,
            })
            .sum::<usize>()
            .max(if self.constant() { LETTERS } else { 0 })
    }

    fn constant(&self) -> bool {
        self.0.iter().all(|part| matches!(part, Part::Text(_)))
    }

    /// Same constant parts and hole positions, and the same holes.
    fn agrees(&self, other: &Pattern<'_>) -> bool {
        self.0.len() == other.0.len()
            && self.0.iter().zip(&other.0).all(|(a, b)| match (a, b) {
                (Part::Text(a), Part::Text(b)) => a == b,
                (Part::Hole(a), Part::Hole(b)) => same_hole(a, b),
                _ => false,
            })
    }

    /// Whether some text fits both: a hole stands for any text. Known holes that differ at the same position of one
    /// template (`lock:{from}`, `lock:{to}`) are two texts.
    fn overlaps(&self, other: &Pattern<'_>) -> bool {
        if self.shape() == other.shape() {
            return self.agrees(other);
        }
        glob(&self.symbols(), &other.symbols())
    }

    fn shape(&self) -> Vec<Option<&str>> {
        self.0.iter().map(|part| if let Part::Text(text) = part { Some(text.as_str()) } else { None }).collect()
    }

    fn symbols(&self) -> Vec<Option<char>> {
        let mut out = Vec::new();
        for part in &self.0 {
            match part {
                Part::Text(text) => out.extend(text.chars().map(Some)),
                Part::Hole(_) => out.push(None),
            }
        }
        out.truncate(256);
        out
    }
}

fn flatten<'a>(value: &'a Value, parts: &mut Vec<Part<'a>>, depth: usize) {
    match value {
        Value::Const(Lit::Str(s)) => flatten_text(s, parts),
        Value::Const(Lit::Bytes(b)) => flatten_text(&String::from_utf8_lossy(b), parts),
        Value::Const(Lit::Int(n)) => flatten_text(&n.to_string(), parts),
        Value::Const(Lit::Bool(b)) => flatten_text(&b.to_string(), parts),
        Value::Template(pieces) if depth < 8 => {
            for piece in pieces {
                match piece {
                    Piece::Text(t) => flatten_text(t, parts),
                    Piece::Hole(hole) => flatten(hole, parts, depth + 1),
                }
            }
        }
        other => parts.push(Part::Hole(other)),
    }
}

fn flatten_text(text: &str, parts: &mut Vec<Part<'_>>) {
    match parts.last_mut() {
        Some(Part::Text(last)) => last.push_str(text),
        _ => parts.push(Part::Text(text.to_owned())),
    }
}

/// Whether two holes of one template are the same: known values must agree, unknown ones are not held against it.
/// Two different variables of one function (`lock:{from}`, `lock:{to}`) are two things.
fn same_hole(a: &Value, b: &Value) -> bool {
    a == b
        || (vague(a) || vague(b))
        || (field_name(a).is_some() && field_name(a) == field_name(b))
        || matches!((a, b), (Value::Local(f, _), Value::Local(g, _)) if f != g)
}

/// A value that says nothing of what it is.
fn vague(value: &Value) -> bool {
    match value {
        Value::Unknown | Value::Call(_) | Value::Operation(..) | Value::Join(_) => true,
        Value::Field(base, _) => vague(base),
        _ => false,
    }
}

/// Whether two patterns of characters and `None` (any text) have a common text.
fn glob(a: &[Option<char>], b: &[Option<char>]) -> bool {
    // reach[j]: a[..i] and b[..j] can cover the same text.
    let mut reach = vec![false; b.len() + 1];
    reach[0] = true;
    for j in 0..b.len() {
        reach[j + 1] = reach[j] && b[j].is_none();
    }
    for x in a {
        let mut next = vec![false; b.len() + 1];
        next[0] = reach[0] && x.is_none();
        for j in 0..b.len() {
            next[j + 1] = match (x, b[j]) {
                (Some(c), Some(d)) => reach[j] && *c == d,
                _ => reach[j] || (x.is_none() && next[j]) || (b[j].is_none() && reach[j + 1]),
            };
            if x.is_none() {
                next[j + 1] |= reach[j + 1];
            }
            if b[j].is_none() {
                next[j + 1] |= next[j];
            }
        }
        reach = next;
    }
    reach[b.len()]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    fn template(prefix: &str, hole: Value) -> Value {
        Value::Template(vec![Piece::Text(prefix.to_owned()), Piece::Hole(hole)].into())
    }

    #[test]
    fn same_constants_match() {
        assert!(must_match(&Value::str("lock:a"), &Value::str("lock:a")));
        assert!(!must_match(&Value::str("lock:a"), &Value::str("lock:b")));
        assert!(!may_match(&Value::str("lock:a"), &Value::str("lock:b")));
        assert!(must_match(&Value::str("k"), &Value::str("k")));
    }

    #[test]
    fn templates_compare_constant_parts() {
        let a = template("lock:", Value::Param(1));
        assert!(must_match(&a, &template("lock:", Value::Param(1))));
        assert!(!must_match(&a, &template("seen:", Value::Param(1))));
        assert!(must_match(&a, &template("lock:", Value::Unknown)));
        assert!(!must_match(&template("lock:", Value::Param(1)), &template("lock:", Value::Param(2))));
        assert!(!may_match(&template("lock:", Value::Param(1)), &template("lock:", Value::Param(2))));
    }

    #[test]
    fn nested_templates_are_flattened() {
        let inner = template("a:", Value::Param(0));
        let outer = Value::Template(vec![Piece::Text("lock:".to_owned()), Piece::Hole(inner)].into());
        assert!(must_match(&outer, &template("lock:a:", Value::Param(0))));
    }

    #[test]
    fn few_letters_match_only_through_the_same_value() {
        assert!(!must_match(&template("l:", Value::Unknown), &template("l:", Value::Param(0))));
        assert!(must_match(&template("l:", Value::Param(0)), &template("l:", Value::Param(0))));
    }

    #[test]
    fn fields_of_one_type_are_one_value() {
        let field = |ty: &str, name: &str| Value::TypeField(ty.to_owned(), name.to_owned());
        assert!(must_match(&field("a::Lease", "key"), &field("a::Lease", "key")));
        assert!(!must_match(&field("a::Lease", "key"), &field("a::Lease", "token")));
        assert!(may_match(&field("a::Lease", "key"), &template("lock:", Value::Unknown)));
    }

    #[test]
    fn unknown_accuses_nobody() {
        assert!(!must_match(&Value::Unknown, &Value::Unknown));
        assert!(may_match(&Value::Unknown, &Value::Unknown));
        assert!(may_match(&Value::str("lock:1"), &template("lock:", Value::Unknown)));
        assert!(!may_match(&Value::str("seen:1"), &template("lock:", Value::Unknown)));
        assert!(!must_match(&Value::Fresh("uuid".into()), &Value::Fresh("uuid".into())));
    }

    #[test]
    fn joins() {
        let join = Value::str("a:lock").join(Value::str("b:lock"));
        assert!(may_match(&join, &Value::str("a:lock")));
        assert!(!must_match(&join, &Value::str("a:lock")));
        assert!(must_match(&join, &join.clone()));
    }
}
