//! Rules in SARIF, from their pages.

use super::sentence;
use crate::finding::Severity;
use crate::rule::{Group, Rule, page};
use serde_json::{Map, Value, json};

/// Longest description that is taken.
const MAX_DESCRIPTION: usize = 1024;
/// GitHub shows no more tags.
const MAX_TAGS: usize = 10;

/// Where the pages can be read.
const PAGES: &str = "https://docs.rs/crate/leaselint/latest/source/rules/";

/// The text with links to other pages made absolute: where it is shown nothing lies beside it.
fn absolute(markdown: &str) -> String {
    let mut parts = markdown.split("](");
    let mut out = parts.next().unwrap_or("").to_owned();
    for part in parts {
        let address = part.split(')').next().unwrap_or("");
        let page = address.ends_with(".md") && !address.contains([':', '/', ' ']);
        out.push_str("](");
        out.push_str(if page { PAGES } else { "" });
        out.push_str(part);
    }
    out
}

/// What SARIF says of a rule. It does not depend on what was scanned.
pub(super) fn descriptor(rule: &Rule) -> Value {
    let Ok(page) = page::parse(rule.page) else {
        // Tests parse every page; a rule without one still must not make the document invalid.
        let text = json!({ "text": rule.id });
        return json!({ "id": rule.id, "shortDescription": text, "fullDescription": text, "help": text });
    };
    let folder = if rule.group == Group::Suppressing { "suppression/" } else { "" };
    let uri = format!("{PAGES}{folder}{}.md", rule.id);
    let rendered = absolute(&page.rendered());
    let mut tags = page.tags.clone();
    tags.push(rule.group.name().to_owned());
    tags.extend(page.cwe.iter().map(|n| format!("external/cwe/cwe-{n:03}")));
    tags.truncate(MAX_TAGS);
    let mut properties = Map::from_iter([
        ("tags".to_owned(), json!(tags)),
        ("precision".to_owned(), json!(page.precision)),
        ("problem.severity".to_owned(), json!(problem_severity(rule.severity))),
    ]);
    if let Some(score) = &page.security_severity {
        properties.insert("security-severity".to_owned(), json!(score));
    }
    json!({
        "id": rule.id,
        "name": pascal(rule.id),
        "shortDescription": { "text": cut(&sentence(&page.summary)) },
        "fullDescription": { "text": cut(&sentence(prose(&page.what).trim_end_matches(':'))) },
        "helpUri": uri,
        "help": { "text": rendered, "markdown": format!("# {}\n\n{rendered}", rule.id) },
        "defaultConfiguration": { "level": rule.severity.name() },
        "properties": properties,
    })
}

fn problem_severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "recommendation",
    }
}

fn pascal(id: &str) -> String {
    id.split('-').filter_map(|word| Some(word.get(..1)?.to_ascii_uppercase() + &word[1..])).collect()
}

/// A section without its code blocks, as one paragraph.
fn prose(markdown: &str) -> String {
    let mut code = false;
    let mut words = Vec::new();
    for line in markdown.lines() {
        if line.starts_with("```") {
            code = !code;
        } else if !code {
            words.extend(line.split_whitespace());
        }
    }
    words.join(" ")
}

/// At most 1024 characters, cut after a sentence if one ends in the second half.
fn cut(text: &str) -> String {
    if text.chars().count() <= MAX_DESCRIPTION {
        return text.to_owned();
    }
    let head: String = text.chars().take(MAX_DESCRIPTION - 1).collect();
    match head.rfind(". ") {
        Some(end) if end > head.len() / 2 => head[..=end].to_owned(),
        _ => head + "…",
    }
}
