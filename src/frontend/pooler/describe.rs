//! The text of `cargo leaselint poolers`.

use std::fmt::Write as _;

use super::dsn::{Part, Target};
use super::facts::{Dsn, PoolerFacts, Resolution, Route};
use super::template::HOLE;
use crate::source::{Sources, Span};

/// Lists the poolers route by route, then the connection strings with what each meets, then what was not understood. Passwords are
/// not shown: they were not read.
pub fn describe(facts: &PoolerFacts, sources: &Sources) -> String {
    let mut out = String::new();
    if facts.poolers.is_empty() {
        out.push_str("no connection pooler found\n");
    }
    for (index, pooler) in facts.poolers.iter().enumerate() {
        let test = if pooler.test { ", for tests" } else { "" };
        let _ = writeln!(
            out,
            "{} `{}` ({}){test}",
            pooler.software.name(),
            shown(&pooler.name),
            line(sources, pooler.place)
        );
        for route in facts.routes.iter().filter(|route| route.pooler == index) {
            let _ = writeln!(out, "  {}: {}", clients(route), mode(route, sources));
        }
    }
    if !facts.dsns.is_empty() {
        out.push('\n');
    }
    for dsn in &facts.dsns {
        let scope = dsn.scope.as_ref().map_or(String::new(), |scope| format!(" of {scope}"));
        let _ = writeln!(out, "{}{scope} ({}): {}", dsn.name, line(sources, dsn.at), where_to(dsn, facts, sources));
    }
    if !facts.problems.is_empty() {
        out.push('\n');
    }
    for problem in &facts.problems {
        let place = problem.span.map_or(problem.path.clone(), |span| line(sources, span));
        let _ = writeln!(out, "not understood: {place}: {}", problem.message);
    }
    out
}

fn line(sources: &Sources, span: Span) -> String {
    let file = sources.get(span.file);
    format!("{}:{}", file.path, file.line(span.start))
}

fn clients(route: &Route) -> String {
    let mut parts = Vec::new();
    match &route.database {
        Some(database) => parts.push(format!("database {}", shown(database))),
        None => parts.push("any database".to_string()),
    }
    match (&route.user, &route.forced_user) {
        (Some(user), _) => parts.push(format!("user {}", shown(user))),
        (None, Some(forced)) => parts.push(format!("as user {}", shown(forced))),
        (None, None) => {}
    }
    if let Some(port) = route.port {
        parts.push(format!("port {port}"));
    }
    parts.join(", ")
}

fn shown(text: &str) -> String {
    text.replace(HOLE, "?")
}

fn mode(route: &Route, sources: &Sources) -> String {
    let default = if route.defaulted { " by default" } else { "" };
    let effect = match route {
        route if route.pins => ", pinned while a session lock is held",
        route if route.breaks_session_locks() && route.dropped_after_each_tx => {
            ", session locks are dropped after each transaction"
        }
        route if route.breaks_session_locks() => ", session locks leak",
        _ => "",
    };
    format!("{}{default} ({}){effect}", route.mode.name(), line(sources, route.at))
}

fn where_to(dsn: &Dsn, facts: &PoolerFacts, sources: &Sources) -> String {
    let Some(target) = &dsn.target else { return "its value is not in the repository: unknown".to_string() };
    let meets = match &dsn.resolution {
        Resolution::Direct => "direct".to_string(),
        Resolution::Unknown => "unknown".to_string(),
        Resolution::Through { mode, route, at, certain, .. } => {
            let route = &facts.routes[*route];
            let pooler = &facts.poolers[route.pooler];
            let may = if *certain { "through" } else { "perhaps through" };
            format!(
                "{may} {} `{}`, {} ({})",
                pooler.software.name(),
                shown(&pooler.name),
                mode.name(),
                line(sources, *at)
            )
        }
    };
    format!("{} -> {meets}", address(target))
}

fn address(target: &Target) -> String {
    let mut text = if target.hosts.is_empty() { "no host".to_string() } else { shown(&target.hosts.join(",")) };
    if let Some(port) = target.port {
        let _ = write!(text, ":{port}");
    }
    match &target.database {
        Part::Known(database) => text.push_str(&format!("/{database}")),
        Part::Unknown => text.push_str("/?"),
        Part::Absent => {}
    }
    match &target.user {
        Part::Known(user) => text.push_str(&format!(" as {user}")),
        Part::Unknown => text.push_str(" as ?"),
        Part::Absent => {}
    }
    text
}
