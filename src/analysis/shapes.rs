//! Evaluates conditions and patterns on concrete [`Shape`]s.
//!
//! Wire shapes (`Status`, `Nil`, `Number`) stand for a reply whose Rust type is inferred from its use; each test decides
//! them as redis-rs' `FromRedisValue` would convert them for a type that admits the test.

use crate::ir::{BinaryOp, Lit, Pattern, Shape, Var};

/// Three-valued answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tri {
    /// Surely.
    Yes,
    /// Surely not.
    No,
    /// Cannot be told.
    Maybe,
}

impl Tri {
    fn of(b: bool) -> Tri {
        if b { Tri::Yes } else { Tri::No }
    }

    /// Both.
    pub fn and(self, other: Tri) -> Tri {
        match (self, other) {
            (Tri::No, _) | (_, Tri::No) => Tri::No,
            (Tri::Yes, Tri::Yes) => Tri::Yes,
            _ => Tri::Maybe,
        }
    }

    /// Negation.
    pub fn negate(self) -> Tri {
        match self {
            Tri::Yes => Tri::No,
            Tri::No => Tri::Yes,
            Tri::Maybe => Tri::Maybe,
        }
    }
}

/// Last segment of a path.
pub fn last(path: &str) -> &str {
    path.rsplit("::").next().unwrap_or(path)
}

/// Nothing evaluated is left of the shape: the remains carry only whether it came from a lock's reply.
pub fn blur(shape: &Shape) -> Shape {
    if derived(shape) { Shape::Tainted } else { Shape::Unknown }
}

/// Whether a reply still says that the acquisition failed or was lost: a test of one that says `true` decides nothing new.
pub fn shows_failure(shape: &Shape) -> bool {
    match shape {
        Shape::Err(_) | Shape::None | Shape::Nil | Shape::Bool(false) => true,
        Shape::Ok(x) | Shape::Some(x) => shows_failure(x),
        _ => false,
    }
}

/// Whether the shape says anything that can decide a test, or must spoil a proof.
pub fn informative(shape: &Shape) -> bool {
    match shape {
        Shape::Unknown | Shape::Unit => false,
        Shape::Tuple(list) => list.iter().any(informative),
        Shape::Struct(_, fields) => fields.iter().any(|(_, s)| informative(s)),
        _ => true,
    }
}

/// Whether a shape can stem from a reply (constants such as numbers and strings alone do not).
fn derived(shape: &Shape) -> bool {
    match shape {
        Shape::Tainted | Shape::Status(_) | Shape::Nil | Shape::Number(_) => true,
        Shape::Ok(x) | Shape::Err(x) | Shape::Some(x) => derived(x),
        Shape::Tuple(list) | Shape::Variant(_, list) => list.iter().any(derived),
        Shape::Struct(_, fields) => fields.iter().any(|(_, s)| derived(s)),
        _ => false,
    }
}

/// `Tainted` if any of the shapes carries something of a lock's reply that is lost here, else `Unknown`.
pub fn taint(parts: &[&Shape]) -> Shape {
    if parts.iter().any(|s| derived(s)) { Shape::Tainted } else { Shape::Unknown }
}

/// The payload that an unknown or tainted shape has inside any constructor.
fn inner(shape: &Shape) -> Shape {
    match shape {
        Shape::Tainted => Shape::Tainted,
        _ => Shape::Unknown,
    }
}

/// The shape of a literal.
pub fn literal(lit: &Lit) -> Shape {
    match lit {
        Lit::Int(n) => Shape::Int(*n),
        Lit::Bool(b) => Shape::Bool(*b),
        Lit::Str(s) => Shape::Str(s.clone()),
        Lit::Unit => Shape::Unit,
        Lit::Float(_) | Lit::Bytes(_) | Lit::Duration(_) => Shape::Unknown,
    }
}

/// The shape of a path operand: `None`, a unit variant (`redis::Value::Nil` and `Okay` become wire shapes).
pub fn path(path: &str) -> Shape {
    let name = last(path);
    match name {
        "None" => Shape::None,
        "Nil" if path.contains("Value") => Shape::Nil,
        "Okay" if path.contains("Value") => Shape::Status("OK".into()),
        _ if path.contains("::")
            && name.starts_with(|c: char| c.is_ascii_uppercase())
            && name != name.to_uppercase() =>
        {
            Shape::Variant(path.to_string(), Vec::new())
        }
        _ => Shape::Unknown,
    }
}

/// Truth of a shape used as a condition.
pub fn truth(shape: &Shape) -> Tri {
    match shape {
        Shape::Bool(b) => Tri::of(*b),
        Shape::Number(n) => Tri::of(*n != 0),
        Shape::Status(_) => Tri::Yes,
        Shape::Nil => Tri::No,
        _ => Tri::Maybe,
    }
}

/// A boolean answer as a shape; an open one is tainted if `parts` are.
pub fn flag(answer: Tri, parts: &[&Shape]) -> Shape {
    match answer {
        Tri::Yes => Shape::Bool(true),
        Tri::No => Shape::Bool(false),
        Tri::Maybe => taint(parts),
    }
}

/// Matches a shape against a pattern and collects what the pattern's variables are bound to.
pub fn matches(shape: &Shape, pattern: &Pattern, binds: &mut Vec<(Var, Shape)>) -> Tri {
    match pattern {
        Pattern::Wild => Tri::Yes,
        Pattern::Bind(var, sub) => {
            let answer = sub.as_ref().map_or(Tri::Yes, |p| matches(shape, p, binds));
            binds.push((*var, shape.clone()));
            answer
        }
        Pattern::Lit(lit) => equal(shape, &literal(lit)),
        Pattern::Path(name) => match (shape, self::path(name)) {
            (Shape::Unknown | Shape::Tainted, _) | (_, Shape::Unknown) => Tri::Maybe,
            (Shape::None | Shape::Nil, Shape::None) => Tri::Yes,
            (_, Shape::None) => Tri::No,
            (shape, other) => equal(shape, &other),
        },
        Pattern::Variant(name, args, _) => variant(shape, name, args, binds),
        Pattern::Struct(name, fields) => {
            let (known, mut answer): (&[(String, Shape)], Tri) = match shape {
                Shape::Struct(path, known) => (known, Tri::of(last(path) == last(name))),
                Shape::Variant(path, _) => (&[], Tri::of(last(path) == last(name))),
                Shape::Unknown | Shape::Tainted => (&[], Tri::Maybe),
                _ => (&[], Tri::No),
            };
            for (field, sub) in fields {
                let value = known.iter().find(|(n, _)| n == field).map_or_else(|| inner(shape), |(_, s)| s.clone());
                answer = answer.and(matches(&value, sub, binds));
            }
            answer
        }
        Pattern::Tuple(parts, rest) => match shape {
            Shape::Tuple(list) if list.len() == parts.len() || *rest => {
                list.iter().zip(parts).fold(Tri::Yes, |answer, (s, p)| answer.and(matches(s, p, binds)))
            }
            other => {
                let payload = inner(other);
                parts.iter().fold(Tri::Yes, |answer, p| answer.and(matches(&payload, p, binds)))
            }
        },
        Pattern::Or(list) => any_of(shape, list, binds),
        Pattern::Opaque(vars) => {
            let payload = blur(shape);
            binds.extend(vars.iter().map(|v| (*v, payload.clone())));
            Tri::Maybe
        }
    }
}

fn any_of(shape: &Shape, list: &[Pattern], binds: &mut Vec<(Var, Shape)>) -> Tri {
    let mut answer = Tri::No;
    let mut open: Vec<(Var, Shape)> = Vec::new();
    for sub in list {
        let mut own = Vec::new();
        match matches(shape, sub, &mut own) {
            Tri::Yes => {
                binds.extend(own);
                return Tri::Yes;
            }
            Tri::Maybe => {
                answer = Tri::Maybe;
                for (var, bound) in own {
                    match open.iter_mut().find(|(v, _)| *v == var) {
                        Some((_, old)) if *old != bound => *old = taint(&[old, &bound]),
                        Some(_) => {}
                        None => open.push((var, bound)),
                    }
                }
            }
            Tri::No => {}
        }
    }
    binds.extend(open);
    answer
}

fn variant(shape: &Shape, name: &str, args: &[Pattern], binds: &mut Vec<(Var, Shape)>) -> Tri {
    let mut all = |payload: &Shape| args.iter().fold(Tri::Yes, |answer, p| answer.and(matches(payload, p, binds)));
    match (last(name), shape) {
        (_, Shape::Unknown | Shape::Tainted) => {
            all(&inner(shape));
            Tri::Maybe
        }
        ("Ok", Shape::Ok(x)) | ("Err", Shape::Err(x)) | ("Some", Shape::Some(x)) => all(x),
        ("Some", Shape::Status(_) | Shape::Number(_)) => all(shape),
        ("Int", Shape::Number(n)) => all(&Shape::Int(*n)),
        ("SimpleString" | "Status", Shape::Status(s)) => all(&Shape::Str(s.clone())),
        (wanted, Shape::Variant(path, fields)) if last(path) == wanted => {
            let mut answer = Tri::Yes;
            for (i, sub) in args.iter().enumerate() {
                let payload = fields.get(i).cloned().unwrap_or(Shape::Unknown);
                answer = answer.and(matches(&payload, sub, binds));
            }
            answer
        }
        _ => {
            all(&Shape::Unknown);
            Tri::No
        }
    }
}

/// Equality of two shapes, wire shapes converted as needed.
pub fn equal(a: &Shape, b: &Shape) -> Tri {
    use Shape::{
        Bool, Err, Foreign, Int, Nil, None, Number, Ok, Some, Status, Str, Struct, Tainted, Tuple, Unit, Unknown,
        Variant,
    };
    match (a, b) {
        (Foreign, Foreign) => Tri::Maybe,
        (Foreign, _) | (_, Foreign) => Tri::No,
        (Unknown | Tainted, _) | (_, Unknown | Tainted) => Tri::Maybe,
        (Bool(x), Bool(y)) => Tri::of(x == y),
        (Int(x) | Number(x), Int(y) | Number(y)) => Tri::of(x == y),
        (Str(x) | Status(x), Str(y) | Status(y)) => Tri::of(x == y),
        (Bool(x), Number(n)) | (Number(n), Bool(x)) => Tri::of((*n != 0) == *x),
        (Bool(x), Status(_)) | (Status(_), Bool(x)) => Tri::of(*x),
        (Bool(x), Nil) | (Nil, Bool(x)) => Tri::of(!*x),
        (Nil | None, Nil | None) | (Unit, Unit) => Tri::Yes,
        (Some(x), wire @ (Status(_) | Number(_))) | (wire @ (Status(_) | Number(_)), Some(x)) => equal(x, wire),
        (Ok(x), Ok(y)) | (Some(x), Some(y)) | (Err(x), Err(y)) => equal(x, y),
        (Variant(p, xs), Variant(q, ys)) if last(p) == last(q) => {
            xs.iter().zip(ys).fold(Tri::Yes, |answer, (x, y)| answer.and(equal(x, y)))
        }
        (Tuple(xs), Tuple(ys)) if xs.len() == ys.len() => {
            xs.iter().zip(ys).fold(Tri::Yes, |answer, (x, y)| answer.and(equal(x, y)))
        }
        (Struct(..), Struct(..)) => Tri::Maybe,
        _ => Tri::No,
    }
}

/// Result of a binary operator.
pub fn binary(op: BinaryOp, a: &Shape, b: &Shape) -> Shape {
    let number = |s: &Shape| match s {
        Shape::Int(n) | Shape::Number(n) => Some(*n),
        _ => None,
    };
    match op {
        BinaryOp::Eq => flag(equal(a, b), &[a, b]),
        BinaryOp::Ne => flag(equal(a, b).negate(), &[a, b]),
        BinaryOp::And => flag(truth(a).and(truth(b)), &[a, b]),
        BinaryOp::Or => flag(truth(a).negate().and(truth(b).negate()).negate(), &[a, b]),
        BinaryOp::Lt | BinaryOp::Le | BinaryOp::Gt | BinaryOp::Ge => match (number(a), number(b)) {
            (Some(x), Some(y)) => Shape::Bool(match op {
                BinaryOp::Lt => x < y,
                BinaryOp::Le => x <= y,
                BinaryOp::Gt => x > y,
                _ => x >= y,
            }),
            _ => taint(&[a, b]),
        },
        BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Div | BinaryOp::Rem | BinaryOp::Bits => {
            taint(&[a, b])
        }
    }
}

/// A field of a shape (`.0`, `.name`).
pub fn field(shape: &Shape, name: &str) -> Shape {
    match shape {
        Shape::Tuple(list) | Shape::Variant(_, list) => {
            name.parse::<usize>().ok().and_then(|i| list.get(i).cloned()).unwrap_or(Shape::Unknown)
        }
        Shape::Struct(_, fields) => fields.iter().find(|(n, _)| n == name).map_or(Shape::Unknown, |(_, s)| s.clone()),
        other => inner(other),
    }
}
