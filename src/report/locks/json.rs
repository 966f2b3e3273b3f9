//! The inventory as one JSON document. The format is versioned; its schema is `schema.json` beside this file.

use super::Report;
use crate::inventory::{Effect, Marker, Place, backend_name, kind_name};
use crate::report::json::place;
use serde_json::{Value, json};

/// Version of the format. A change that a reader could stumble over raises it.
pub const VERSION: u32 = 1;

/// The schema of the format.
pub const SCHEMA: &str = include_str!("schema.json");

/// The document.
pub fn document(report: &Report<'_>) -> Value {
    let inventory = report.inventory;
    let locks = report.locks().map(|(entry, purpose)| {
        json!({
            "key": entry.key,
            "backend": backend_name(entry.backend),
            "kind": kind_name(entry.kind),
            "why": entry.why,
            "topology": entry.topology,
            "taken": steps(report, &entry.taken),
            "callers": entry.callers,
            "expiry": entry.ttl,
            "owner": entry.token,
            "renewed": steps(report, &entry.renewals),
            "released": steps(report, &entry.releases),
            "also_ends_by": entry.ends,
            "fence": steps(report, &entry.fence),
            "held": entry.hold,
            "under_it": effects(report, &entry.under),
            "without_it": effects(report, &entry.outside),
            "purpose": purpose.map(|reason| json!({ "purpose": "efficiency", "reason": reason })),
            "findings": entry.findings.iter().map(|(rule, span)| json!({
                "rule": rule, "at": place(report.sources, *span),
            })).collect::<Vec<_>>(),
        })
    });
    json!({
        "version": VERSION,
        "tool": { "name": "leaselint", "version": env!("CARGO_PKG_VERSION") },
        "locks": locks.collect::<Vec<_>>(),
        "markers": markers(report, &inventory.markers),
        "undecided": markers(report, &inventory.undecided),
    })
}

fn steps(report: &Report<'_>, list: &[Place]) -> Value {
    list.iter()
        .map(|p| json!({ "at": place(report.sources, p.span), "function": p.function, "what": p.what }))
        .collect()
}

fn effects(report: &Report<'_>, list: &[Effect]) -> Value {
    let one = |e: &Effect| {
        json!({
            "at": place(report.sources, e.span),
            "function": e.function,
            "verb": e.verb,
            "target": e.target,
            "guard": if e.guard.is_empty() { None } else { Some(&e.guard) },
        })
    };
    list.iter().map(one).collect()
}

fn markers(report: &Report<'_>, list: &[Marker]) -> Value {
    let one = |marker: &Marker| {
        json!({
            "key": marker.key,
            "backend": backend_name(marker.backend),
            "at": place(report.sources, marker.at.span),
            "function": marker.at.function,
            "command": marker.at.what,
            "why": marker.why,
        })
    };
    list.iter().map(one).collect()
}
