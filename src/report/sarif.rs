//! SARIF 2.1.0 as GitHub code scanning reads it: one run, every rule with its help, exact line hashes, code-point columns.

mod place;
mod rules;

use super::{Entry, Report, Silence, SilencedBy, fingerprint, plain};
use crate::finding::{Finding, Severity};
use crate::source::{FileId, ProblemKind, Sources};
use place::{location, region, uri};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// GitHub rejects a run with more results.
const MAX_RESULTS: usize = 25_000;
/// GitHub shows no more results than this, the worst first.
const SHOWN_RESULTS: usize = 5_000;
/// GitHub shows no more steps of a code flow.
const MAX_STEPS: usize = 1_000;
/// GitHub shows no more related locations.
const MAX_RELATED: usize = 100;

/// The document, and how many results had to be left out.
pub fn document(report: &Report<'_>, with_silenced: bool) -> (Value, usize) {
    limited(report, with_silenced, MAX_RESULTS, SHOWN_RESULTS)
}

fn limited(report: &Report<'_>, with_silenced: bool, most: usize, shown: usize) -> (Value, usize) {
    let mut groups = groups(report, with_silenced);
    if groups.len() > shown {
        // Stable: within a severity the order of the report stays.
        groups.sort_by_key(|group| std::cmp::Reverse(group.worst()));
    }
    let left_out = groups.len().saturating_sub(most);
    groups.truncate(most);
    let mut hashes = BTreeMap::new();
    let results: Vec<Value> = groups.iter().map(|group| result(report, group, &mut hashes)).collect();
    let mut invocation = json!({ "executionSuccessful": true });
    let notifications = notifications(report, left_out);
    if !notifications.is_empty() {
        invocation["toolExecutionNotifications"] = Value::Array(notifications);
    }
    let document = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "leaselint",
                "semanticVersion": env!("CARGO_PKG_VERSION"),
                "version": env!("CARGO_PKG_VERSION"),
                "informationUri": "https://docs.rs/leaselint",
                "rules": report.rules.iter().map(|rule| rules::descriptor(rule)).collect::<Vec<_>>(),
            }},
            "invocations": [invocation],
            "columnKind": "unicodeCodePoints",
            "originalUriBaseIds": { "%SRCROOT%": { "description": { "text": "The root of the repository." } } },
            "results": results,
        }],
    });
    (document, left_out)
}

/// Findings of one rule on one line: code scanning would take them for one alert.
struct Group<'r> {
    entries: Vec<&'r Entry<'r>>,
    silence: Option<&'r Silence>,
}

impl Group<'_> {
    fn worst(&self) -> Severity {
        self.entries.iter().map(|e| e.finding.severity).max().unwrap_or(Severity::Note)
    }
}

fn groups<'r>(report: &'r Report<'_>, with_silenced: bool) -> Vec<Group<'r>> {
    let mut groups: Vec<Group<'r>> = Vec::new();
    let mut index = BTreeMap::new();
    let shown = report.findings.iter().map(|e| (e, None));
    let silenced = report.silenced.iter().filter(|_| with_silenced).map(|(e, s)| (e, Some(s)));
    for (entry, silence) in shown.chain(silenced) {
        let finding = entry.finding;
        let line = report.sources.get(finding.span.file).line(finding.span.start);
        let at = index.entry((finding.rule, finding.span.file, line, silence.is_some())).or_insert(groups.len());
        match groups.get_mut(*at) {
            Some(group) => group.entries.push(entry),
            None => groups.push(Group { entries: vec![entry], silence }),
        }
    }
    groups
}

fn result(report: &Report<'_>, group: &Group<'_>, hashes: &mut BTreeMap<FileId, Vec<String>>) -> Value {
    let sources = report.sources;
    let entry = group.entries[0];
    let finding = entry.finding;
    let file = sources.get(finding.span.file);
    let line = file.line(finding.span.start);
    let hash = hashes.entry(file.id).or_insert_with(|| fingerprint::line_hashes(&file.text)).get(line - 1).cloned();
    let mut related = Vec::new();
    let mut links = Vec::new();
    let mut labels: Vec<_> = group.entries.iter().flat_map(|e| &e.finding.labels).collect();
    unique(&mut labels);
    for label in labels.into_iter().take(MAX_RELATED) {
        let id = related.len() + 1;
        let mut place = location(sources, label.span);
        place["id"] = json!(id);
        if !label.note.is_empty() {
            place["message"] = json!({ "text": sentence(&label.note) });
            links.push(format!("[{}]({id})", link_text(&label.note)));
        }
        related.push(place);
    }
    let mut text = sentence(&finding.message);
    for other in &group.entries[1..] {
        if other.finding.message != finding.message {
            text.push(' ');
            text.push_str(&sentence(&other.finding.message));
        }
    }
    if !links.is_empty() {
        text.push_str(&format!(" See: {}.", links.join(", ")));
    }
    if !finding.help.is_empty() {
        text.push_str("\n\n");
        text.push_str(&sentence(&finding.help));
    }
    let mut flows: Vec<Value> = group.entries.iter().map(|e| code_flow(sources, e.finding)).collect();
    unique(&mut flows);
    let mut result = json!({
        "ruleId": finding.rule,
        "ruleIndex": report.rules.iter().position(|r| r.id == finding.rule),
        "level": group.worst().name(),
        "message": { "text": text },
        "locations": [location(sources, finding.span)],
        "partialFingerprints": {
            "primaryLocationLineHash": hash,
            "leaselintFinding/v1": fingerprint::own(sources, entry),
        },
        "codeFlows": flows,
    });
    let fields: [(&str, Option<Value>); 3] = [
        ("relatedLocations", (!related.is_empty()).then_some(Value::Array(related))),
        ("fixes", fixes(sources, group)),
        ("suppressions", group.silence.map(suppression)),
    ];
    if let Some(object) = result.as_object_mut() {
        object.extend(fields.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))));
        if object["ruleIndex"].is_null() {
            object.remove("ruleIndex");
        }
        let mut properties = Map::from_iter([("confidence".to_owned(), json!(finding.confidence.name()))]);
        if let Some(lock) = &finding.lock {
            properties.insert("lock".to_owned(), json!(lock));
        }
        object.insert("properties".to_owned(), Value::Object(properties));
    }
    result
}

/// Drops repetitions; the first of each stays.
fn unique<T: PartialEq>(items: &mut Vec<T>) {
    let mut kept = Vec::with_capacity(items.len());
    for item in items.drain(..) {
        if !kept.contains(&item) {
            kept.push(item);
        }
    }
    *items = kept;
}

/// The witness as a code flow; a finding without one has its labels and itself.
fn code_flow(sources: &Sources, finding: &Finding) -> Value {
    let mut steps: Vec<(crate::source::Span, String)> = finding
        .witness
        .iter()
        .map(|step| (step.span, format!("{}: {}", step.actor.name(), plain::one_line(&step.note))))
        .collect();
    if steps.is_empty() {
        steps.extend(finding.labels.iter().map(|l| (l.span, sentence(&l.note))));
        steps.push((finding.span, sentence(if finding.caret.is_empty() { &finding.message } else { &finding.caret })));
    }
    let locations: Vec<Value> = steps
        .iter()
        .take(MAX_STEPS)
        .enumerate()
        .map(|(i, (span, note))| {
            let mut place = location(sources, *span);
            if !note.is_empty() {
                place["message"] = json!({ "text": note });
            }
            json!({ "location": place, "executionOrder": i + 1 })
        })
        .collect();
    json!({ "threadFlows": [{ "locations": locations }] })
}

fn fixes(sources: &Sources, group: &Group<'_>) -> Option<Value> {
    let mut fixes: Vec<Value> = group
        .entries
        .iter()
        .filter_map(|e| e.finding.fix.as_ref())
        .map(|fix| {
            let mut changes: BTreeMap<FileId, Vec<Value>> = BTreeMap::new();
            for edit in &fix.edits {
                changes.entry(edit.span.file).or_default().push(json!({
                    "deletedRegion": region(sources.get(edit.span.file), edit.span, false),
                    "insertedContent": { "text": edit.text },
                }));
            }
            let changes: Vec<Value> = changes
                .into_iter()
                .map(|(file, replacements)| {
                    json!({ "artifactLocation": place::artifact(&sources.get(file).path), "replacements": replacements })
                })
                .collect();
            json!({ "description": { "text": sentence(&fix.title) }, "artifactChanges": changes })
        })
        .collect();
    unique(&mut fixes);
    (!fixes.is_empty()).then_some(Value::Array(fixes))
}

fn suppression(silence: &Silence) -> Value {
    let kind = if silence.by == SilencedBy::Comment { "inSource" } else { "external" };
    json!([{ "kind": kind, "justification": silence.reason }])
}

fn notifications(report: &Report<'_>, left_out: usize) -> Vec<Value> {
    let mut notifications: Vec<Value> = report
        .problems
        .iter()
        .map(|problem| {
            let level = if problem.kind == ProblemKind::Notice { "note" } else { "warning" };
            let mut place = json!({ "physicalLocation": { "artifactLocation": place::artifact(&problem.path) } });
            if let Some(span) = problem.span {
                place = location(report.sources, span);
            }
            json!({ "level": level, "message": { "text": sentence(&problem.message) }, "locations": [place] })
        })
        .collect();
    // A location must name something.
    for (notification, problem) in notifications.iter_mut().zip(report.problems) {
        if uri(&problem.path).is_empty()
            && let Some(object) = notification.as_object_mut()
        {
            object.remove("locations");
        }
    }
    if left_out > 0 {
        let text = format!("{left_out} results are left out: code scanning takes no more than {MAX_RESULTS}.");
        notifications.push(json!({ "level": "warning", "message": { "text": text } }));
    }
    notifications
}

/// A message as a sentence: capital letter, final stop. Names of commands and functions keep their letters.
fn sentence(text: &str) -> String {
    let text = plain::neutral(text.trim());
    let first = text.split_whitespace().next().unwrap_or("");
    let word = !first.is_empty() && first.trim_end_matches([',', ';', ':']).chars().all(|c| c.is_ascii_lowercase());
    let mut out = text.clone();
    if word {
        out = first[..1].to_ascii_uppercase() + &text[1..];
    }
    if !out.is_empty() && !out.ends_with(['.', '!', '?']) {
        out.push('.');
    }
    // `](` would be read as a link.
    out.replace("](", "] (")
}

/// Text of an embedded link: brackets would end it.
fn link_text(text: &str) -> String {
    plain::one_line(text).replace('[', "(").replace(']', ")")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::super::sample;
    use super::*;

    fn sample_document() -> Value {
        let (sources, mut findings) = sample::sample();
        let mut twin = findings[0].clone();
        twin.span.start += 1;
        twin.message = "the same line again".to_owned();
        findings.push(twin);
        let stats = crate::pipeline::Stats::default();
        document(&sample::report(&sources, &findings, &stats), false).0
    }

    #[test]
    fn the_whole_document() {
        insta::assert_snapshot!(format!("{:#}", sample_document()));
    }

    #[test]
    fn too_many_results_are_cut_worst_first_and_said() {
        let (mut sources, findings) = sample::sample();
        let file = sources.add("src/many.rs", crate::source::Language::Rust, "x\n".repeat(25));
        let many: Vec<Finding> = (0..25)
            .map(|line| {
                let mut finding = findings[1].clone();
                finding.span = crate::source::Span::new(file, line * 2, line * 2 + 1);
                if line == 24 {
                    finding.severity = Severity::Error;
                }
                finding
            })
            .collect();
        let stats = crate::pipeline::Stats::default();
        let (document, left_out) = limited(&sample::report(&sources, &many, &stats), false, 20, 10);
        let run = &document["runs"][0];
        assert_eq!((left_out, run["results"].as_array().map(Vec::len)), (5, Some(20)));
        assert_eq!(run["results"][0]["level"], "error");
        let said = &run["invocations"][0]["toolExecutionNotifications"][0]["message"]["text"];
        assert!(said.as_str().unwrap().starts_with("5 results are left out"));
    }

    #[test]
    fn another_reader_understands_it() {
        let read: serde_sarif::sarif::Sarif = serde_json::from_value(sample_document()).unwrap();
        assert_eq!(read.runs.len(), 1);
        assert_eq!(read.runs[0].results.as_ref().map(Vec::len), Some(2));
    }

    #[test]
    fn sentences() {
        assert_eq!(sentence("the lock is gone"), "The lock is gone.");
        assert_eq!(sentence("pg_advisory_lock waits"), "pg_advisory_lock waits.");
        assert_eq!(sentence("call `x`"), "Call `x`.");
    }
}
