//! `.env` files: `NAME=value` lines, with `export`, quotes and comments as dotenv readers take them.

use std::ops::Range;

/// One variable.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Var {
    /// Name.
    pub name: String,
    /// Unexpanded value; `None` if it comes from a secret or from the environment of whoever deploys.
    pub value: Option<String>,
    /// Bytes of the whole entry.
    pub place: Range<usize>,
}

/// True for `.env`, `.env.example`, `prod.env`, `env.sample` and kin.
pub(super) fn is_env_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let stem = name.trim_end_matches(".tmpl").trim_end_matches(".template");
    stem == ".env"
        || stem.starts_with(".env.")
        || stem.starts_with(".env-")
        || stem.starts_with(".env_")
        || stem == ".envrc"
        || stem.ends_with(".env")
        || stem == "env"
        || ((stem.starts_with("env.") || stem.starts_with("dotenv")) && !has_code_extension(stem))
        || (stem.contains(".env.") && !has_code_extension(stem))
}

fn has_code_extension(name: &str) -> bool {
    matches!(
        name.rsplit('.').next(),
        Some("rs" | "ts" | "js" | "mjs" | "py" | "go" | "rb" | "json" | "md" | "d" | "sh" | "yml" | "yaml" | "toml")
    )
}

/// Reads `text[range]`.
pub(super) fn read(text: &str, range: Range<usize>) -> Vec<Var> {
    let mut out = Vec::new();
    let mut at = range.start;
    for raw in text.get(range).unwrap_or("").split_inclusive('\n') {
        let start = at + (raw.len() - raw.trim_start().len());
        at += raw.len();
        let line = raw.trim();
        if line.starts_with('#') {
            continue;
        }
        let body = line.strip_prefix("export ").map_or(line, str::trim_start);
        let Some((name, value)) = body.split_once('=') else { continue };
        let name = name.trim();
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c)) {
            continue;
        }
        out.push(Var { name: name.to_string(), value: Some(unquote(value)), place: start..start + line.len() });
    }
    out
}

/// The value without its quotes and without a comment behind it (a `#` after a blank).
pub(super) fn unquote(value: &str) -> String {
    let value = value.trim();
    if let Some(quote) = value.chars().next().filter(|c| matches!(c, '"' | '\'')) {
        let inner = &value[1..];
        let end = inner.find(quote).unwrap_or(inner.len());
        return inner[..end].to_string();
    }
    let end = value.find(" #").or_else(|| value.find("\t#")).unwrap_or(value.len());
    if value.starts_with('#') { String::new() } else { value[..end].trim().to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for name in [
            ".env",
            ".env.example",
            "prod.env",
            "env.sample",
            ".env.prod.tmpl",
            "app.env.example",
            ".envrc",
            "pgbouncer.env",
        ] {
            assert!(is_env_name(name), "{name}");
        }
        for name in ["env.rs", "environment.yml", "envoy.yaml", "dotenv.ts", "env.d.ts"] {
            assert!(!is_env_name(name), "{name}");
        }
    }

    #[test]
    fn values() {
        let text = "# DATABASE_URL=postgres://x\nexport A=\"b # c\" # d\n B = c # d\nnot a line\nC='x'\nD=#none\n";
        let vars = read(text, 0..text.len());
        let values: Vec<_> = vars.iter().map(|v| (v.name.as_str(), v.value.as_deref().unwrap_or("?"))).collect();
        assert_eq!(values, [("A", "b # c"), ("B", "c"), ("C", "x"), ("D", "")]);
        assert_eq!(&text[vars[1].place.clone()], "B = c # d");
    }
}
