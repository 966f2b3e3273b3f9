//! What a statement leaves behind inside a routine.

use super::{Outcome, ROW, Rows, column_name};
use crate::ir::Shape;

/// Variables of a routine: NULL where no row came.
pub(super) fn row(outcome: &Outcome) -> Shape {
    let (found, count) = match outcome.rows {
        Rows::None => (Shape::Bool(false), Shape::Int(0)),
        Rows::Some(n) => (Shape::Bool(true), Shape::Int(n.unwrap_or(1))),
        Rows::Unknown | Rows::Error => (Shape::Unknown, Shape::Unknown),
    };
    let mut fields = vec![("found".to_string(), found), ("row_count".to_string(), count)];
    for (i, (name, shape)) in outcome.columns.iter().enumerate() {
        let shape = if outcome.rows == Rows::None { Shape::None } else { shape.clone() };
        fields.push((i.to_string(), shape.clone()));
        fields.push((column_name(name).0.to_string(), shape));
    }
    Shape::Struct(ROW.into(), fields)
}
