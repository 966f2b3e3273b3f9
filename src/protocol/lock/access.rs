//! Methods of what a coordination service answered.

use crate::ir::{Backend, Reply, Shape};

/// Reply of an etcd transaction.
pub(super) const TXN: &str = "etcd_client::TxnResponse";
/// An HTTP response whose body says whether the request had the effect.
pub(super) const RESPONSE: &str = "reqwest::Response";
/// Reply of an etcd read.
const RANGE: &str = "etcd_client::GetResponse";
/// Its list of pairs.
const PAIRS: &str = "etcd_client::KeyValue[]";
/// Statuses: 200, and the other.
const OK: &str = "StatusCode::OK";
const NOT_FOUND: &str = "StatusCode::NOT_FOUND";

/// What a read answers where there is a value, and where there is none.
pub(super) fn found(backend: Backend) -> Option<Reply> {
    let (held, lost) = match backend {
        Backend::Etcd => {
            let range = |n| Shape::Struct(RANGE.into(), vec![("len".into(), Shape::Int(n))]).ok();
            (range(1), range(0))
        }
        Backend::Nats => (Shape::Unknown.some().ok(), Shape::None.ok()),
        _ => return None,
    };
    Some(Reply { held, lost, failed: Shape::err() })
}

/// What a method of a reply gives. `None`: the method says nothing here.
pub fn access(shape: &Shape, method: &str, args: &[Shape]) -> Option<Shape> {
    match shape {
        Shape::Struct(path, fields) => {
            let field = |name: &str| fields.iter().find(|(n, _)| n == name).map(|(_, s)| s.clone());
            match (path.as_str(), method) {
                (TXN, "succeeded") => field("succeeded"),
                (RANGE, "kvs" | "take_kvs") => Some(Shape::Struct(PAIRS.into(), vec![("len".into(), field("len")?)])),
                (RANGE, "count") | (PAIRS, "len") => field("len"),
                (PAIRS, "is_empty") => Some(Shape::Bool(field("len")? == Shape::Int(0))),
                (PAIRS, "iter" | "into_iter" | "as_slice") => Some(shape.clone()),
                (PAIRS, "first" | "last" | "next" | "pop") => {
                    Some(if field("len")? == Shape::Int(0) { Shape::None } else { Shape::Unknown.some() })
                }
                (RESPONSE, "json" | "into_json" | "read_json") => field("body").map(Shape::ok),
                (RESPONSE, "text" | "text_with_charset" | "into_string" | "read_to_string") => match field("body")? {
                    Shape::Bool(held) => Some(Shape::Str(held.to_string()).ok()),
                    other => Some(other.ok()),
                },
                (RESPONSE, "error_for_status" | "error_for_status_ref") => {
                    Some(if field("ok") == Some(Shape::Bool(false)) { Shape::err() } else { shape.clone().ok() })
                }
                (RESPONSE, "body_mut" | "into_body") => Some(shape.clone()),
                (RESPONSE, "status") => {
                    let status = if field("ok") == Some(Shape::Bool(false)) { NOT_FOUND } else { OK };
                    Some(Shape::Variant(status.into(), Vec::new()))
                }
                _ => None,
            }
        }
        Shape::Variant(path, _) if path == OK || path == NOT_FOUND => match method {
            "is_success" => Some(Shape::Bool(path == OK)),
            "is_client_error" => Some(Shape::Bool(path == NOT_FOUND)),
            "is_server_error" | "is_redirection" | "is_informational" => Some(Shape::Bool(false)),
            "as_u16" => Some(Shape::Int(if path == OK { 200 } else { 404 })),
            _ => None,
        },
        Shape::Bool(_) if method == "as_bool" => Some(shape.clone().some()),
        Shape::Str(text) => match (method, args) {
            ("contains", [Shape::Str(part)]) => Some(Shape::Bool(text.contains(part.as_str()))),
            ("starts_with", [Shape::Str(part)]) => Some(Shape::Bool(text.starts_with(part.as_str()))),
            ("eq_ignore_ascii_case", [Shape::Str(other)]) => Some(Shape::Bool(text.eq_ignore_ascii_case(other))),
            ("parse", _) if matches!(text.as_str(), "true" | "false") => Some(Shape::Bool(text == "true").ok()),
            _ => None,
        },
        _ => None,
    }
}
