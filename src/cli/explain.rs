//! `explain`, `schema` and `--list`.

use super::args::{Check, Format, SchemaOf};
use super::{CLEAN, Failure, print, select};
use crate::report::{json, locks};
use crate::rule::{Group, page};

/// Prints the schema of a format.
pub fn schema(of: SchemaOf) -> Result<u8, Failure> {
    let text = match of {
        SchemaOf::Config => format!("{:#}\n", crate::config::schema(&select::all().collect::<Vec<_>>())),
        SchemaOf::Report => json::SCHEMA.to_owned(),
        SchemaOf::Locks => locks::SCHEMA.to_owned(),
    };
    print(&text)?;
    Ok(CLEAN)
}

/// Prints the page of a rule as text.
pub fn explain(id: &str) -> Result<u8, Failure> {
    let rule = select::rule(id)?;
    let page = page::parse(rule.page).map_err(|e| Failure(format!("the page of `{id}` is broken: {e}")))?;
    let head = format!("{} ({}, {}): {}\n\n", rule.id, rule.severity.name(), rule.group.name(), page.summary);
    print(&(head + &terminal(&page.markdown)))?;
    Ok(CLEAN)
}

/// Markdown as text for a terminal: headings underlined, code indented, emphasis left as it is.
fn terminal(markdown: &str) -> String {
    let mut out = String::new();
    let mut code = false;
    for line in markdown.lines() {
        if line.starts_with("```") {
            code = !code;
            let mut words = line.trim_start_matches('`').split_whitespace().skip(1);
            if let (true, Some(verdict)) = (code, words.next()) {
                out.push_str(&format!(
                    "    [{verdict}{}]\n",
                    words.next().map_or_else(String::new, |p| format!(": {p}"))
                ));
            }
        } else if code {
            out.push_str(if line.is_empty() { "" } else { "    " });
            out.push_str(line);
            out.push('\n');
        } else if let Some(title) = line.strip_prefix("## ") {
            out.push_str(&format!("{title}\n{}\n", "=".repeat(title.chars().count())));
        } else {
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}

/// Prints all rules with their summaries, by group; as JSON for `--format json`.
pub fn list(args: &Check) -> Result<u8, Failure> {
    let ids = select::rules(&args.rule, &args.exclude_rule)?;
    let rules: Vec<_> = select::all().filter(|r| ids.contains(&r.id)).collect();
    let summary = |r: &crate::rule::Rule| page::parse(r.page).map_or_else(|_| String::new(), |p| p.summary);
    if args.format == Format::Json {
        let rules: Vec<_> = rules
            .iter()
            .map(|r| {
                serde_json::json!({
                    "id": r.id, "severity": r.severity.name(), "group": r.group.name(), "summary": summary(r),
                })
            })
            .collect();
        print(&format!("{:#}\n", serde_json::Value::Array(rules)))?;
        return Ok(CLEAN);
    }
    let width = rules.iter().map(|r| r.id.len()).max().unwrap_or(0);
    let mut out = String::new();
    for group in Group::ALL {
        let members: Vec<_> = rules.iter().filter(|r| r.group == group).collect();
        if members.is_empty() {
            continue;
        }
        out.push_str(&format!("{}\n", group.name()));
        for rule in members {
            out.push_str(&format!("  {:width$}  {:7}  {}\n", rule.id, rule.severity.name(), summary(rule)));
        }
    }
    print(&out)?;
    Ok(CLEAN)
}
