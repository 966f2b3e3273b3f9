//! Connection strings: `postgres://` URLs and libpq keyword strings. Passwords are dropped while reading.

use super::template::HOLE;

/// A part of a connection string.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Part {
    /// Written out.
    Known(String),
    /// There, but filled in from outside the repository.
    Unknown,
    /// Not there.
    #[default]
    Absent,
}

impl Part {
    /// The text, if known.
    pub fn known(&self) -> Option<&str> {
        match self {
            Part::Known(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn of(text: &str) -> Part {
        match text {
            "" => Part::Absent,
            text if text.contains(HOLE) => Part::Unknown,
            text => Part::Known(text.to_string()),
        }
    }
}

/// Where a connection string leads.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Target {
    /// Host names as written, lower case; parts that are not known are [`HOLE`]s. Empty when there is none.
    pub hosts: Vec<String>,
    /// Port; `None` when absent or not known.
    pub port: Option<u16>,
    /// Database.
    pub database: Part,
    /// User.
    pub user: Part,
    /// `pgbouncer=true`: the client was told that a transaction pooler is in front (Prisma, and kin).
    pub says_pooled: bool,
    /// `replication=..`: poolers give such connections a server of their own.
    pub replication: bool,
}

/// True if the text is the address of a PostgreSQL database: a URL, or keywords and values.
pub fn is_dsn(text: &str) -> bool {
    scheme_end(text).is_some() || keyword_pairs(text).is_some()
}

fn scheme_end(text: &str) -> Option<usize> {
    let text = text.strip_prefix("jdbc:").unwrap_or(text);
    let offset = if text.len() > 64 { 64 } else { text.len() };
    let at = text.as_bytes()[..offset].windows(3).position(|w| w == b"://")?;
    let scheme = text[..at].to_ascii_lowercase();
    let base = scheme.split('+').next().unwrap_or("");
    matches!(base, "postgres" | "postgresql" | "pgsql" | "postgis" | "timescaledb" | "cockroachdb").then_some(at + 3)
}

fn keyword_pairs(text: &str) -> Option<Vec<(String, String)>> {
    if text.len() > 4096 || !text.contains("host") || text.contains("://") {
        return None;
    }
    let pairs = super::ini::connect_string(text);
    let known = [
        "host",
        "hostaddr",
        "port",
        "user",
        "dbname",
        "password",
        "sslmode",
        "options",
        "connect_timeout",
        "application_name",
    ];
    (pairs.iter().any(|(key, _)| key == "host") && pairs.iter().all(|(key, _)| known.contains(&key.as_str())))
        .then_some(pairs)
}

/// Reads an expanded connection string; `None` if it is none of PostgreSQL.
pub(super) fn parse(text: &str) -> Option<Target> {
    let text = text.trim().trim_matches(['"', '\'']);
    if let Some(start) = scheme_end(text) {
        let text = text.strip_prefix("jdbc:").unwrap_or(text);
        return Some(url(&text[start..]));
    }
    let mut target = Target::default();
    for (key, value) in keyword_pairs(text)? {
        parameter(&key, &value, &mut target);
    }
    Some(target)
}

fn url(rest: &str) -> Target {
    let mut target = Target::default();
    let rest = rest.split('#').next().unwrap_or("");
    let (before, query) = rest.split_once('?').unwrap_or((rest, ""));
    // a password may hold `/`; the authority ends at the first `/` after the last `@`
    let (userinfo, place) = before.rsplit_once('@').unwrap_or(("", before));
    let (authority, path) = place.split_once('/').unwrap_or((place, ""));
    target.user = Part::of(&decode(userinfo.split(':').next().unwrap_or("")));
    target.database = Part::of(&decode(path.split('/').next().unwrap_or("")));
    for one in authority.split(',').map(str::trim).filter(|one| !one.is_empty()) {
        host_and_port(one, &mut target);
    }
    for pair in query.split(['&', ';']) {
        if let Some((key, value)) = pair.split_once('=') {
            parameter(&key.to_ascii_lowercase(), &decode(value), &mut target);
        }
    }
    target
}

fn host_and_port(text: &str, target: &mut Target) {
    let (host, port) = match text.strip_prefix('[').and_then(|v6| v6.split_once(']')) {
        Some((host, rest)) => (host, rest.strip_prefix(':')),
        None => match text.rsplit_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let host = host.trim();
    if !host.is_empty() {
        target.hosts.push(decode(host).to_ascii_lowercase());
    }
    target.port = target.port.or_else(|| port.and_then(|port| port.parse().ok()));
}

fn parameter(key: &str, value: &str, target: &mut Target) {
    match key {
        "host" | "hostaddr" if !value.is_empty() => {
            target.hosts = value.split(',').map(str::to_ascii_lowercase).collect();
        }
        "port" => target.port = value.split(',').next().and_then(|port| port.parse().ok()),
        "user" => target.user = Part::of(value),
        "dbname" => target.database = Part::of(value),
        "pgbouncer" => target.says_pooled = matches!(value, "true" | "1" | "on" | "yes"),
        "replication" => target.replication = matches!(value, "database" | "true" | "on" | "yes" | "1"),
        _ => {}
    }
}

fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let hex = (*first == b'%').then(|| tail.get(..2).and_then(|two| std::str::from_utf8(two).ok())).flatten();
        match hex.and_then(|two| u8::from_str_radix(two, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn urls() {
        let t = parse("postgresql://app:p%40/x@PgBouncer:6432/shop?sslmode=disable&pgbouncer=true").unwrap();
        assert_eq!(t.hosts, ["pgbouncer"]);
        assert_eq!((t.port, t.says_pooled), (Some(6432), true));
        assert_eq!((t.user.known(), t.database.known()), (Some("app"), Some("shop")));
        let t = parse("postgres://db").unwrap();
        assert_eq!((t.hosts.len(), t.port, &t.database), (1, None, &Part::Absent));
        let t = parse(&format!("postgres://{HOLE}:{HOLE}@a,b:1/{HOLE}?host=/run&replication=database")).unwrap();
        assert_eq!(
            (t.hosts, t.user, t.database, t.replication),
            (vec!["/run".to_string()], Part::Unknown, Part::Unknown, true)
        );
        let t = parse("postgres://[::1]:5433/x").unwrap();
        assert_eq!((t.hosts[0].as_str(), t.port), ("::1", Some(5433)));
    }

    #[test]
    fn keywords_and_others() {
        let t = parse("host=pgbouncer port=6432 user=app dbname=shop").unwrap();
        assert_eq!((t.hosts[0].as_str(), t.port, t.user.known()), ("pgbouncer", Some(6432), Some("app")));
        assert!(parse("redis://cache:6379").is_none());
        assert!(parse("the host=of it all").is_none());
        assert!(parse("ééééééééééééééééééééééééééééééééééééééééé://").is_none());
    }
}
