//! Checks documents against the schemas that are published for them.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use serde_json::Value;

/// Panics where `value` is not as `schema` says: the part of JSON Schema that the schemas here use. `at` names the value.
pub(crate) fn check(root: &Value, schema: &Value, value: &Value, at: &str) {
    if let Some(path) = schema["$ref"].as_str() {
        check(root, root.pointer(path.trim_start_matches('#')).expect(path), value, at);
    }
    for part in schema["allOf"].as_array().into_iter().flatten() {
        check(root, part, value, at);
    }
    if let Some(list) = schema["oneOf"].as_array() {
        let part = list.iter().find(|s| (s["type"] == "null") == value.is_null()).expect(at);
        check(root, part, value, at);
    }
    if let Some(list) = schema["enum"].as_array() {
        assert!(list.contains(value), "{at}: {value}");
    }
    if let Some(constant) = schema.get("const") {
        assert_eq!(constant, value, "{at}");
    }
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    match &schema["type"] {
        Value::String(one) => assert_eq!(one, kind, "{at}"),
        Value::Array(some) => assert!(some.iter().any(|s| s == kind), "{at}: {kind}"),
        _ => {}
    }
    for name in schema["required"].as_array().into_iter().flatten() {
        assert!(value.get(name.as_str().unwrap()).is_some(), "{at}: {name} is missing");
    }
    for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
        if let Some(value) = value.get(name) {
            check(root, inner, value, &format!("{at}.{name}"));
        }
    }
    for (i, value) in value.as_array().into_iter().flatten().enumerate() {
        check(root, &schema["items"], value, &format!("{at}[{i}]"));
    }
}
