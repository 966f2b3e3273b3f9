//! `explain`, `schema` and `--list`.

use super::args::{Check, Format, SchemaOf};
use super::{CLEAN, Failure, print, select};
use crate::report::{json, locks, plain};
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
    print(&(head + &terminal(&page.markdown, super::terminal::width())))?;
    Ok(CLEAN)
}

/// Widest line of prose: longer ones are hard to read.
const WIDEST: usize = 100;

/// Markdown as text for a terminal: headings underlined, code indented, prose wrapped to the width, links spelt out.
fn terminal(markdown: &str, width: usize) -> String {
    let mut out = String::new();
    let mut code = false;
    let mut prose = String::new();
    let flush = |out: &mut String, prose: &mut String| {
        if prose.is_empty() {
            return;
        }
        let indent = if prose.starts_with("- ") { "  " } else { "" };
        let lines = plain::wrap(&links(prose), width.min(WIDEST) - indent.len());
        for (i, line) in lines.iter().enumerate() {
            out.push_str(&format!("{}{line}\n", if i == 0 { "" } else { indent }));
        }
        prose.clear();
    };
    for line in markdown.lines() {
        if line.starts_with("```") {
            flush(&mut out, &mut prose);
            code = !code;
            let mut words = line.trim_start_matches('`').split_whitespace().skip(1);
            if let (true, Some(verdict)) = (code, words.next()) {
                let path = words.next().map_or_else(String::new, |path| format!(": {path}"));
                out.push_str(&format!("    [{verdict}{path}]\n"));
            }
        } else if code {
            out.push_str(if line.is_empty() { "" } else { "    " });
            out.push_str(line);
            out.push('\n');
        } else if let Some(title) = line.strip_prefix("## ") {
            flush(&mut out, &mut prose);
            out.push_str(&format!("{title}\n{}\n", "=".repeat(title.chars().count())));
        } else if line.trim().is_empty() {
            flush(&mut out, &mut prose);
            out.push('\n');
        } else {
            if line.starts_with("- ") {
                flush(&mut out, &mut prose);
            }
            if !prose.is_empty() {
                prose.push(' ');
            }
            prose.push_str(line.trim());
        }
    }
    flush(&mut out, &mut prose);
    out
}

/// `[text](address)` as `text (address)`; a link to another page as its text, which is the rule's id.
fn links(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('[') {
        out.push_str(before);
        let link = after.split_once("](").and_then(|(label, tail)| Some((label, tail.split_once(')')?)));
        match link {
            Some((label, (address, tail))) if !label.contains('[') && !address.contains(' ') => {
                out.push_str(label);
                if address.contains("://") {
                    out.push_str(&format!(" ({address})"));
                }
                rest = tail;
            }
            _ => {
                out.push('[');
                rest = after;
            }
        }
    }
    out + rest
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_is_wrapped_and_links_are_spelt_out() {
        let page = "## What\nOne two three\nfour [`SET`](https://a.b/c) five [`bare-del`](bare-del.md).\n\n- a list that is\n  long\n- x[0]\n\n\
            ```rust bad src/a.rs\nlet a =  1;\n```\nend\n";
        let text = terminal(page, 24);
        let wanted = "What\n====\nOne two three four `SET`\n(https://a.b/c) five\n`bare-del`.\n\n- a list that is long\n- x[0]\n\n    [bad: src/a.rs]\n    let a =  1;\nend\n";
        assert_eq!(text, wanted);
    }
}
