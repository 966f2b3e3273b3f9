//! The combinators of `Option`, `Result` and `bool` on concrete [`Shape`]s.

use super::shapes::{Tri, blur, equal, flag, truth};
use crate::ir::Shape;

/// What a std combinator does with its receiver: done, or a closure must run first.
#[derive(Clone, Debug, PartialEq)]
pub enum Combined {
    /// The result.
    Done(Shape),
    /// Diverges (`unwrap` on a failure).
    Diverges,
    /// Not a std combinator, or nothing is known of the receiver.
    No,
    /// The closure (argument `usize`, counted after the receiver) runs with this payload; its result is wrapped.
    CallThen(usize, Shape, Wrap),
}

/// How a closure's result becomes the combinator's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrap {
    /// As it is.
    Plain,
    /// `Ok(_)`
    Ok,
    /// `Some(_)`
    Some,
    /// `filter`: keeps the payload if true.
    Filter,
    /// `inspect`: the receiver.
    Receiver,
}

impl Wrap {
    /// Applies the wrap to a closure's result.
    pub fn apply(self, result: Shape, receiver: &Shape) -> Shape {
        match self {
            Wrap::Plain => result,
            Wrap::Ok => result.ok(),
            Wrap::Some => result.some(),
            Wrap::Receiver => receiver.clone(),
            Wrap::Filter => match truth(&result) {
                Tri::Yes => receiver.clone(),
                Tri::No => Shape::None,
                Tri::Maybe => Shape::Tainted,
            },
        }
    }
}

/// Methods after which the shape is what it was: conversions, borrows, and what only touches the error side.
const KEEPS_SHAPE: &[&str] = &[
    "as_deref",
    "as_deref_mut",
    "as_mut",
    "as_ref",
    "as_str",
    "attach",
    "attach_printable",
    "borrow",
    "borrow_mut",
    "boxed",
    "by_ref",
    "change_context",
    "clone",
    "cloned",
    "context",
    "copied",
    "expect_none",
    "fuse",
    "in_current_span",
    "inspect_err",
    "instrument",
    "into",
    "into_future",
    "into_inner",
    "map_err",
    "take",
    "to_owned",
    "to_string",
    "trim",
    "with_context",
    "wrap_err",
    "wrap_err_with",
];

/// Evaluates a std method on a receiver's shape; `args` are the shapes after the receiver.
pub fn method(name: &str, recv: &Shape, args: &[Shape]) -> Combined {
    use Combined::{CallThen, Diverges, Done, No};
    use Shape::{Err, Nil, None, Number, Ok, Some, Status};
    if matches!(recv, Shape::Unknown) {
        return No;
    }
    if KEEPS_SHAPE.contains(&name) {
        return Done(recv.clone());
    }
    let arg = || args.first().cloned().unwrap_or(Shape::Unknown);
    let yes = Shape::Bool(true);
    let no = Shape::Bool(false);
    match (name, recv) {
        ("is_some", Some(_) | Status(_) | Number(_)) => Done(yes),
        ("is_some", None | Nil) => Done(no),
        ("is_none", Some(_) | Status(_) | Number(_)) => Done(no),
        ("is_none", None | Nil) => Done(yes),
        ("is_ok", Ok(_)) | ("is_err", Err(_)) => Done(yes),
        ("is_ok", Err(_)) | ("is_err", Ok(_)) => Done(no),
        ("unwrap" | "expect", Ok(x) | Some(x)) => Done((**x).clone()),
        ("unwrap" | "expect", Err(_) | None | Nil) => Diverges,
        ("unwrap" | "expect" | "unwrap_or" | "unwrap_or_default" | "unwrap_or_else", Status(_) | Number(_)) => {
            Done(recv.clone())
        }
        ("unwrap_or" | "unwrap_or_else" | "unwrap_or_default", Ok(x) | Some(x)) => Done((**x).clone()),
        ("unwrap_or", Err(_) | None | Nil) => Done(arg()),
        // The default of `bool` is `false` and of the integers 0: both read as "not won". Other types are not tested.
        ("unwrap_or_default", Err(_) | None | Nil) => Done(Number(0)),
        ("unwrap_or_else" | "or_else", Err(x)) => CallThen(0, (**x).clone(), Wrap::Plain),
        ("unwrap_or_else" | "or_else", None | Nil) => CallThen(0, Shape::Unit, Wrap::Plain),
        ("ok", Ok(x)) | ("err", Err(x)) => Done(x.as_ref().clone().some()),
        ("ok", Err(_)) | ("err", Ok(_)) => Done(None),
        ("ok_or" | "ok_or_else", Some(x)) => Done(x.as_ref().clone().ok()),
        ("ok_or" | "ok_or_else", Status(_) | Number(_)) => Done(recv.clone().ok()),
        ("ok_or" | "ok_or_else", None | Nil) => Done(Shape::err()),
        ("flatten", Some(x) | Ok(x)) => Done((**x).clone()),
        ("flatten", None | Nil | Err(_)) => Done(recv.clone()),
        ("transpose", _) => Done(transpose(recv)),
        ("inspect", _) => CallThen(0, payload(recv), Wrap::Receiver),
        ("map", Ok(x)) => CallThen(0, (**x).clone(), Wrap::Ok),
        ("map", Some(x)) => CallThen(0, (**x).clone(), Wrap::Some),
        ("map", Status(_) | Number(_)) => CallThen(0, recv.clone(), Wrap::Some),
        ("map" | "and_then" | "and", Err(_) | None | Nil) => Done(recv.clone()),
        ("and_then", Ok(x) | Some(x)) => CallThen(0, (**x).clone(), Wrap::Plain),
        ("or_else" | "or", Ok(_) | Some(_)) => Done(recv.clone()),
        ("or", Err(_) | None | Nil) | ("and", Ok(_) | Some(_)) => Done(arg()),
        ("filter", Some(x)) => CallThen(0, (**x).clone(), Wrap::Filter),
        ("filter", None) => Done(None),
        ("is_some_and" | "is_ok_and", Ok(x) | Some(x)) => CallThen(0, (**x).clone(), Wrap::Plain),
        ("is_some_and" | "is_ok_and", Status(_) | Number(_)) => CallThen(0, recv.clone(), Wrap::Plain),
        ("is_some_and" | "is_ok_and", Err(_) | None | Nil) => Done(no),
        ("is_none_or", Some(x)) | ("is_err_and", Err(x)) => CallThen(0, (**x).clone(), Wrap::Plain),
        ("is_none_or", None | Nil) => Done(yes),
        ("is_err_and", Ok(_)) => Done(no),
        ("map_or", Ok(x) | Some(x)) => CallThen(1, (**x).clone(), Wrap::Plain),
        ("map_or", Status(_) | Number(_)) => CallThen(1, recv.clone(), Wrap::Plain),
        ("map_or", Err(_) | None | Nil) => Done(arg()),
        ("map_or_else", Ok(x) | Some(x)) => CallThen(1, (**x).clone(), Wrap::Plain),
        ("map_or_else", Err(x)) => CallThen(0, (**x).clone(), Wrap::Plain),
        ("map_or_else", None | Nil) => CallThen(0, Shape::Unit, Wrap::Plain),
        ("then_some", _) => match truth(recv) {
            Tri::Yes => Done(arg().some()),
            Tri::No => Done(None),
            Tri::Maybe => Done(blur(recv)),
        },
        ("then", _) => match truth(recv) {
            Tri::Yes => CallThen(0, Shape::Unit, Wrap::Some),
            Tri::No => Done(None),
            Tri::Maybe => No,
        },
        ("eq", _) => Done(flag(equal(recv, &arg()), &[recv])),
        ("eq_ignore_ascii_case", _) => Done(flag(equal(&lower(recv), &lower(&arg())), &[recv])),
        ("ne", _) => Done(flag(equal(recv, &arg()).negate(), &[recv])),
        ("is_empty", Shape::Foreign) => Done(no),
        // Rows, finished statements, responses: `row.get(0)`, `done.rows_affected()`, `response.succeeded()`.
        _ => crate::protocol::access(recv, name, args).map_or(No, Done),
    }
}

fn payload(shape: &Shape) -> Shape {
    match shape {
        Shape::Ok(x) | Shape::Some(x) => (**x).clone(),
        other => blur(other),
    }
}

fn transpose(recv: &Shape) -> Shape {
    match recv {
        Shape::Ok(x) => match &**x {
            Shape::Some(y) => y.as_ref().clone().ok().some(),
            Shape::None => Shape::None,
            other => blur(other),
        },
        Shape::Some(x) => match &**x {
            Shape::Ok(y) => y.as_ref().clone().some().ok(),
            Shape::Err(_) => Shape::err(),
            other => blur(other),
        },
        Shape::None => Shape::None.ok(),
        Shape::Err(_) => recv.clone().some(),
        other => blur(other),
    }
}

/// A text in lower case.
fn lower(shape: &Shape) -> Shape {
    match shape {
        Shape::Str(text) => Shape::Str(text.to_ascii_lowercase()),
        Shape::Status(text) => Shape::Status(text.to_ascii_lowercase()),
        other => other.clone(),
    }
}
