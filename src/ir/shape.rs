//! Concrete shapes of a reply in one world, which conditions are evaluated on.

/// What a value looks like at one point of one path.
///
/// `Status`, `Nil` and `Number` are wire replies whose Rust type is not known: a test such as `.is_some()`, `!x`,
/// `== 1` or `Value::Okay` decides them as the conversion to the type that the test needs would.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Shape {
    /// Nothing is known, and it does not come from a lock's reply.
    Unknown,
    /// Derived from the reply of a lock operation in a way that is not evaluated: a test on it makes the path unproven.
    Tainted,
    /// `()`
    Unit,
    /// `true`, `false`
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A string.
    Str(String),
    /// Wire status reply (`OK`).
    Status(String),
    /// Wire nil.
    Nil,
    /// Wire integer.
    Number(i64),
    /// `Ok(x)`
    Ok(Box<Shape>),
    /// `Err(_)`; the text names the error for the witness.
    Err(Box<Shape>),
    /// `Some(x)`
    Some(Box<Shape>),
    /// `None`
    None,
    /// Other enum variant or tuple struct: path and fields.
    Variant(String, Vec<Shape>),
    /// `(a, b)`
    Tuple(Vec<Shape>),
    /// Struct: path and fields.
    Struct(String, Vec<(String, Shape)>),
    /// A stored value that someone else has written: it equals nothing that this program knows.
    Foreign,
    /// A known closure or async block.
    Closure(super::FunctionId),
}

impl Shape {
    /// `Ok(x)`
    pub fn ok(self) -> Shape {
        Shape::Ok(Box::new(self))
    }

    /// `Err(_)` of an unknown error.
    pub fn err() -> Shape {
        Shape::Err(Box::new(Shape::Unknown))
    }

    /// `Some(x)`
    pub fn some(self) -> Shape {
        Shape::Some(Box::new(self))
    }
}
