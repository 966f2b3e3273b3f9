//! What a SELECT that locks nothing answers.

use super::{Outcome, Rows, columns};
use crate::frontend::sql::ast::{ExprKind, Select, Source};
use crate::ir::Shape;

/// A plain SELECT that finds rows, which someone else wrote, and one that finds none. Aggregates give a row either way.
pub(super) fn outcomes(select: &Select) -> Option<(Outcome, Outcome)> {
    if let [(e, _)] = select.items.as_slice() {
        let answer = |held: Shape, lost: Shape| {
            let world =
                |shape| Outcome { rows: Rows::Some(Some(1)), columns: columns(select, &|_| Shape::clone(&shape)) };
            Some((world(held), world(lost)))
        };
        match &e.bare().kind {
            ExprKind::Call(f) if f.name == "count" => return answer(Shape::Int(1), Shape::Int(0)),
            ExprKind::Call(f) if f.name == "exists" => return answer(Shape::Bool(true), Shape::Bool(false)),
            ExprKind::Call(f) if matches!(f.name.as_str(), "max" | "min" | "sum" | "avg" | "coalesce") => return None,
            _ => {}
        }
    }
    select.from.iter().any(|s| matches!(s, Source::Table(_))).then(|| {
        let columns = columns(select, &|_| Shape::Foreign);
        (Outcome { rows: Rows::Some(None), columns: columns.clone() }, Outcome { rows: Rows::None, columns })
    })
}
