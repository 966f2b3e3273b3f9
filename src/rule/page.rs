//! The page of a rule, `rules/<id>.md`: the one source of `explain`, of the SARIF rule metadata and of the tested examples.
//!
//! A page is TOML front matter between two `+++` lines, then markdown with the sections `## What`, `## Why`, `## Fix` and
//! `## Limits`, in this order:
//! ````text
//! +++
//! summary = "one sentence, lowercase, no final stop"
//! severity = "error"             # error | warning | note
//! group = "taking"               # taking | releasing | keeping | fencing | database | coordination | suppressing
//! tags = ["security", "reliability"]
//! cwe = [362, 667]
//! security-severity = "5.0"      # "0.1" to "10.0"; left out: no security rule
//! precision = "high"             # very-high | high | medium | low
//! +++
//! ## What
//! ..
//! ```rust bad
//! ..
//! ```
//! ````
//! The info string of an example is the language, then `bad`, `good` or `with`, then optionally the path the text is
//! checked under (`ini with pgbouncer.ini`). A `with` block is a further file of the example that follows it.
//! Every other fenced block is mere text.

use super::Group;
use crate::finding::Severity;

/// A parsed page.
#[derive(Clone, Debug)]
pub struct Page {
    /// One sentence: what the rule flags.
    pub summary: String,
    /// Highest severity of a finding.
    pub severity: Severity,
    /// Group.
    pub group: Group,
    /// `security`, `reliability`, ..
    pub tags: Vec<String>,
    /// CWE numbers.
    pub cwe: Vec<u32>,
    /// CVSS-like score `0.1` to `10.0`, as SARIF wants it: a string.
    pub security_severity: Option<String>,
    /// `very-high`, `high`, `medium`, `low`.
    pub precision: String,
    /// Everything after the front matter.
    pub markdown: String,
    /// What is flagged.
    pub what: String,
    /// What goes wrong.
    pub why: String,
    /// What to write instead.
    pub fix: String,
    /// What is not seen, what is not flagged.
    pub limits: String,
    /// The examples, in page order.
    pub examples: Vec<Example>,
}

impl Page {
    /// The page as markdown that any viewer shows well: what makes an example good or bad stands before it, not in its
    /// info string.
    pub fn rendered(&self) -> String {
        let mut out = String::new();
        let mut fence: Option<&str> = None;
        for line in self.markdown.lines() {
            let info = line.trim_start_matches('`');
            let marker = &line[..line.len() - info.len()];
            match fence {
                Some(open) if line.trim() == open => fence = None,
                None if marker.len() >= 3 => {
                    fence = Some(marker);
                    let mut words = info.split_whitespace();
                    let language = words.next().unwrap_or("");
                    let verdict = match words.next() {
                        Some("bad") => "Bad",
                        Some("good") => "Good",
                        Some("with") => "With",
                        _ => {
                            out.push_str(line);
                            out.push('\n');
                            continue;
                        }
                    };
                    let path = words.next().map_or_else(String::new, |path| format!(" `{path}`"));
                    out.push_str(&format!("{verdict}{path}:\n\n{marker}{language}\n"));
                    continue;
                }
                _ => {}
            }
            out.push_str(line);
            out.push('\n');
        }
        out
    }
}

/// An example that the tests run.
#[derive(Clone, Debug)]
pub struct Example {
    /// Whether the rule must report it (`bad`) or must stay silent (`good`).
    pub bad: bool,
    /// The files; the example itself is the last.
    pub files: Vec<ExampleFile>,
}

/// One file of an [`Example`].
#[derive(Clone, Debug)]
pub struct ExampleFile {
    /// Language of the info string: `rust`, `sql`, `lua`, `ini`, `yaml`, ..
    pub language: String,
    /// Path to check it under, if given.
    pub path: Option<String>,
    /// The text.
    pub text: String,
    /// 1-based line of the page on which the text starts.
    pub line: usize,
}

const SECTIONS: [&str; 4] = ["What", "Why", "Fix", "Limits"];

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct FrontMatter {
    summary: String,
    severity: String,
    group: String,
    #[serde(default)]
    tags: Vec<String>,
    #[serde(default)]
    cwe: Vec<u32>,
    security_severity: Option<String>,
    precision: String,
}

/// Parses a page.
///
/// # Errors
/// What is wrong with it, as one sentence with the line where known.
pub fn parse(text: &str) -> Result<Page, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n");
    let rest = text.strip_prefix("+++\n").ok_or("the page does not start with a `+++` line")?;
    let (front, body) = rest.split_once("\n+++\n").ok_or("the front matter has no closing `+++` line")?;
    let front_lines = front.lines().count() + 2;
    let front: FrontMatter = toml::from_str(front).map_err(|e| format!("front matter: {}", e.message()))?;
    let severity = severity(&front.severity).ok_or_else(|| format!("unknown severity `{}`", front.severity))?;
    let group = Group::from_name(&front.group).ok_or_else(|| format!("unknown group `{}`", front.group))?;
    if !["very-high", "high", "medium", "low"].contains(&front.precision.as_str()) {
        return Err(format!("unknown precision `{}`", front.precision));
    }
    if let Some(score) = &front.security_severity
        && !score.parse::<f64>().is_ok_and(|n| (0.1..=10.0).contains(&n))
    {
        return Err(format!("security-severity `{score}` is not between 0.1 and 10.0"));
    }
    let (sections, examples) = body_parts(body, front_lines)?;
    let [what, why, fix, limits] = sections;
    Ok(Page {
        summary: front.summary,
        severity,
        group,
        tags: front.tags,
        cwe: front.cwe,
        security_severity: front.security_severity,
        precision: front.precision,
        markdown: body.trim().to_owned(),
        what,
        why,
        fix,
        limits,
        examples,
    })
}

/// The severity of a name.
pub fn severity(name: &str) -> Option<Severity> {
    match name {
        "error" => Some(Severity::Error),
        "warning" => Some(Severity::Warning),
        "note" => Some(Severity::Note),
        _ => None,
    }
}

/// An open fenced block: its fence, and, if it is an example file, the verdict (`None` for `with`) and the file.
struct Fence {
    marker: String,
    file: Option<(Option<bool>, ExampleFile)>,
}

fn body_parts(body: &str, lines_before: usize) -> Result<([String; 4], Vec<Example>), String> {
    let mut sections: [String; 4] = Default::default();
    let mut current: Option<usize> = None;
    let mut examples = Vec::new();
    let mut pending = Vec::new();
    let mut fence: Option<Fence> = None;
    for (i, line) in body.lines().enumerate() {
        let number = lines_before + i + 1;
        if let Some(open) = &mut fence {
            if line.trim() == open.marker {
                match fence.take().and_then(|f| f.file) {
                    Some((Some(bad), file)) => {
                        let mut files = std::mem::take(&mut pending);
                        files.push(file);
                        examples.push(Example { bad, files });
                    }
                    Some((None, file)) => pending.push(file),
                    None => {}
                }
            } else if let Some((_, file)) = &mut open.file {
                file.text.push_str(line);
                file.text.push('\n');
            }
        } else if line.starts_with("```") {
            fence = Some(open_fence(line, number));
        } else if let Some(title) = line.strip_prefix("## ") {
            let index = SECTIONS.iter().position(|s| *s == title.trim());
            let index = index.ok_or_else(|| format!("line {number}: unknown section `{}`", title.trim()))?;
            if current.map_or(index != 0, |c| index != c + 1) {
                return Err(format!("line {number}: sections must be What, Why, Fix, Limits, in this order"));
            }
            current = Some(index);
            continue;
        }
        if let Some(section) = current {
            sections[section].push_str(line);
            sections[section].push('\n');
        } else if !line.trim().is_empty() {
            return Err(format!("line {number}: text before `## What`"));
        }
    }
    if fence.is_some() {
        return Err("a fenced block is not closed".to_owned());
    }
    if !pending.is_empty() {
        return Err("a `with` block is not followed by a `bad` or `good` one".to_owned());
    }
    if current != Some(SECTIONS.len() - 1) {
        return Err("a section is missing: a page has What, Why, Fix and Limits".to_owned());
    }
    Ok((sections.map(|s| s.trim().to_owned()), examples))
}

fn open_fence(line: &str, number: usize) -> Fence {
    let info = line.trim_start_matches('`');
    let marker = line[..line.len() - info.len()].to_owned();
    let mut words = info.split_whitespace();
    let language = words.next().unwrap_or("").to_owned();
    let verdict = match words.next() {
        Some("bad") => Some(Some(true)),
        Some("good") => Some(Some(false)),
        Some("with") => Some(None),
        _ => None,
    };
    let file = verdict.map(|verdict| {
        let path = words.next().map(str::to_owned);
        (verdict, ExampleFile { language, path, text: String::new(), line: number + 1 })
    });
    Fence { marker, file }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    const PAGE: &str = "+++\nsummary = \"s\"\nseverity = \"error\"\ngroup = \"taking\"\ntags = [\"security\"]\ncwe = [362]\n\
        security-severity = \"5.0\"\nprecision = \"high\"\n+++\n\n## What\nw\n\n```ini with pgbouncer.ini\na = b\n```\n\
        ```rust bad src/lib.rs\nfn f() {}\n```\n\n## Why\ny\n```text\n## no section\n```\n## Fix\n\n```rust good\nfn g() {}\n```\n## Limits\nl\n";

    #[test]
    fn reads_front_matter_sections_and_examples() {
        let page = parse(PAGE).unwrap();
        assert_eq!((page.summary.as_str(), page.severity, page.cwe.as_slice()), ("s", Severity::Error, &[362][..]));
        assert_eq!((page.limits.as_str(), page.why.contains("no section")), ("l", true));
        assert_eq!(page.examples.len(), 2);
        let bad = &page.examples[0];
        assert!(bad.bad && bad.files.len() == 2);
        assert_eq!(bad.files[0].path.as_deref(), Some("pgbouncer.ini"));
        assert_eq!(PAGE.lines().nth(bad.files[1].line - 1), Some("fn f() {}"));
        assert!(!page.examples[1].bad);
        let shown = page.rendered();
        assert!(
            shown.contains("With `pgbouncer.ini`:\n\n```ini\na = b\n```\nBad `src/lib.rs`:\n\n```rust\nfn f"),
            "{shown}"
        );
        assert!(shown.contains("```text\n## no section\n```\n"), "{shown}");
    }

    #[test]
    fn names_what_is_wrong() {
        let cases = [
            ("x", "does not start"),
            ("+++\nsummary = 1\n+++\n", "front matter"),
            (&PAGE.replace("\"taking\"", "\"stealing\""), "unknown group"),
            (&PAGE.replace("## Fix", "## Limits"), "in this order"),
            (&PAGE.replace("## Limits\nl\n", ""), "missing"),
            (&PAGE.replace("\"5.0\"", "\"11\""), "between"),
        ];
        for (text, part) in cases {
            let error = parse(text).expect_err(part);
            assert!(error.contains(part), "{error} lacks {part}");
        }
    }
}
