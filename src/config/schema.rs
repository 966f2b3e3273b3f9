//! The schema of `leaselint.toml` for editors. It is made from what the reader knows, so it never lags behind.

use crate::model;
use crate::rule::{Group, Rule};
use serde_json::{Map, Value, json};

/// JSON Schema of the configuration file. `rules` are all rules.
pub fn schema(rules: &[&'static Rule]) -> Value {
    let names = rules.iter().map(|rule| rule.id).chain(Group::ALL.iter().map(|group| group.name()));
    let levels: Map<String, Value> = names.map(|name| (name.to_owned(), json!({ "$ref": "#/$defs/level" }))).collect();
    let [head, row, roles] = model::vocabulary();
    let properties = |keys: Vec<String>, known: &[(&str, Value)]| -> Map<String, Value> {
        let value = |key: &str| known.iter().find(|(k, _)| *k == key).map_or(json!(true), |(_, value)| value.clone());
        keys.into_iter().map(|key| (key.clone(), value(&key))).collect()
    };
    let text = || json!({ "type": "string" });
    let words = || json!({ "oneOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }] });
    let row = properties(
        row,
        &[
            ("role", json!({ "enum": roles })),
            ("method", words()),
            ("path", words()),
            ("macro", words()),
            ("receiver", words()),
            ("wire", json!({ "type": "array", "items": { "type": "string" } })),
        ],
    );
    let mut head = properties(head, &[("crate", text()), ("source", text()), ("names", words()), ("words", words())]);
    head.insert(
        "call".to_owned(),
        json!({
            "description": "What the calls of the crate do.",
            "type": "array",
            "items": { "type": "object", "required": ["role"], "properties": row, "additionalProperties": false },
        }),
    );
    let strings = |what: &str| json!({ "description": what, "type": "array", "items": { "type": "string" } });
    let globs = json!({ "oneOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }] });
    json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "leaselint.toml",
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "exclude": strings("Paths that are not read, as in .gitignore."),
            "include-tests": { "description": "Also judge tests, benches, examples and mocks.", "type": "boolean" },
            "min-severity": { "description": "Least severity that is shown.", "enum": ["note", "warning", "error"] },
            "min-confidence": { "description": "Least confidence that is shown.", "enum": ["low", "medium", "high"] },
            "rules": { "description": "Levels of rules and groups.", "$ref": "#/$defs/levels" },
            "path": {
                "description": "Levels for a part of the tree; later entries win.",
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["glob"],
                    "additionalProperties": false,
                    "properties": { "glob": globs, "rules": { "$ref": "#/$defs/levels" } },
                },
            },
            "lock": {
                "description": "Locks whose loss costs work, not correctness.",
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["key", "purpose", "reason"],
                    "additionalProperties": false,
                    "properties": {
                        "key": { "description": "Key template; * stands for anything.", "type": "string" },
                        "purpose": { "enum": ["efficiency"] },
                        "reason": { "type": "string", "minLength": 1 },
                    },
                },
            },
            "dsn": {
                "description": "Which connection strings reach the database directly: variables, keys or hosts.",
                "type": "object",
                "additionalProperties": false,
                "properties": {
                    "direct": strings("These go around the pooler."),
                    "pooled": strings("These go through the pooler."),
                },
            },
            "model": {
                "description": "What the calls of your own client crates do.",
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["crate", "protocol", "source"],
                    "additionalProperties": false,
                    "properties": head,
                },
            },
        },
        "$defs": {
            "level": { "enum": ["off", "note", "warning", "error"] },
            "levels": { "type": "object", "properties": levels, "additionalProperties": false },
        },
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::config::parse;

    /// Whether a configuration is as the schema says: the part of JSON Schema used here that can refuse a key.
    fn unknown(root: &Value, schema: &Value, value: &Value, at: &str, out: &mut Vec<String>) {
        let schema = match schema["$ref"].as_str() {
            Some(path) => root.pointer(path.trim_start_matches('#')).expect(path),
            None => schema,
        };
        for (name, inner) in value.as_object().into_iter().flatten() {
            match schema["properties"].get(name) {
                Some(next) => unknown(root, next, inner, &format!("{at}.{name}"), out),
                None if schema["additionalProperties"] == false => out.push(format!("{at}.{name}")),
                None => {}
            }
        }
        for inner in value.as_array().into_iter().flatten() {
            unknown(root, &schema["items"], inner, at, out);
        }
    }

    #[test]
    fn the_schema_knows_what_the_reader_knows() {
        let rules: Vec<&'static Rule> = crate::report::sample_rules().iter().collect();
        let schema = schema(&rules);
        // Everything that the template shows, with its comment signs taken away.
        let text: String = crate::config::TEMPLATE
            .lines()
            .filter_map(|line| line.strip_prefix("# ").filter(|l| l.contains(" = ") || l.starts_with('[')))
            .filter(|line| !line.contains("unbounded-acquire"))
            .map(|line| format!("{line}\n"))
            .collect();
        let table: toml::Table = text.parse().expect(&text);
        let mut wrong = Vec::new();
        unknown(&schema, &schema, &serde_json::to_value(&table).unwrap(), "", &mut wrong);
        assert_eq!(wrong, [""; 0]);
        assert_eq!(table.len(), schema["properties"].as_object().unwrap().len(), "the template shows every key");
        // And the other way round: what the schema does not know is an error of the reader.
        for key in ["exlude", "locks"] {
            assert!(schema["properties"].get(key).is_none());
            assert!(parse(&format!("{key} = []"), &[], &rules).is_err());
        }
        let row = &schema["properties"]["model"]["items"]["properties"]["call"]["items"]["properties"];
        assert!(row["role"]["enum"].as_array().unwrap().len() > 20);
        assert!(row.get("wire").is_some() && row.get("example").is_some());
    }
}
