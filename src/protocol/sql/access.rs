//! Methods of what a statement gave: rows, lists of rows, finished statements.

use super::reply::{DONE, ROW, ROWS};
use crate::ir::Shape;

/// What a method of a row, a list of rows or a finished statement gives: `row.get(0)`, `row.try_get("locked")`,
/// `done.rows_affected()`, `rows.is_empty()`. `None`: the method says nothing here.
pub fn access(shape: &Shape, method: &str, args: &[Shape]) -> Option<Shape> {
    let Shape::Struct(path, fields) = shape else { return None };
    let field = |name: &str| fields.iter().find(|(n, _)| n == name).map(|(_, s)| s.clone());
    match (path.as_str(), method) {
        (DONE, "rows_affected" | "affected_rows") => field("rows_affected"),
        (DONE, "total") => field("rows_affected"),
        (ROWS, "len") => field("len"),
        (ROWS, "is_empty") => match field("len") {
            Some(Shape::Int(n)) => Some(Shape::Bool(n == 0)),
            other => other,
        },
        (ROWS, "iter" | "into_iter" | "as_slice") => Some(shape.clone()),
        (ROWS, "first" | "pop" | "next" | "last") => match field("len") {
            Some(Shape::Int(0)) => Some(Shape::None),
            _ => field("0").map(Shape::some),
        },
        (
            ROW,
            "get" | "get_unchecked" | "try_get" | "try_get_unchecked" | "take" | "try_get_by" | "try_get_by_index",
        ) => {
            let name = match args.first()? {
                Shape::Int(n) | Shape::Number(n) => n.to_string(),
                Shape::Str(name) => name.clone(),
                _ => return None,
            };
            let found = field(&name).unwrap_or(Shape::Tainted);
            Some(if method.starts_with("try") { found.ok() } else { found })
        }
        _ => None,
    }
}
