//! Hosted databases whose host names or ports say whether a pooler answers. Each row names where that is documented.

use super::facts::{Mode, Software};
use super::template::HOLE;

/// What a hosted address means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hosted {
    /// A pooler of the host.
    Pooled(Software, Mode),
    /// The database.
    Direct,
}

/// Reads a host name (lower case) and a port.
pub(super) fn hosted(host: &str, port: Option<u16>) -> Option<Hosted> {
    let first = host.split('.').next().unwrap_or("");
    let within = |domain: &str| host.ends_with(domain);
    // Supabase, "Connect to your database": the shared pooler has session mode on 5432 and transaction mode on 6543
    if within(".pooler.supabase.com") {
        let mode = match port {
            Some(6543) => Mode::Transaction,
            Some(5432) | None => Mode::Session,
            Some(_) => Mode::Unknown,
        };
        return Some(Hosted::Pooled(Software::Supavisor, mode));
    }
    // the same page: the dedicated pooler answers on 6543 of the database's own host
    if host.starts_with("db.") && within(".supabase.co") {
        return Some(if port == Some(6543) {
            Hosted::Pooled(Software::PgBouncer, Mode::Transaction)
        } else {
            Hosted::Direct
        });
    }
    // Neon, "Connection pooling": `-pooler` behind the endpoint id is PgBouncer in transaction mode; Vercel Postgres is Neon
    if within(".neon.tech") || within(".neon.build") || within(".postgres.vercel-storage.com") {
        let pooled = first.ends_with("-pooler");
        return Some(if pooled { Hosted::Pooled(Software::PgBouncer, Mode::Transaction) } else { Hosted::Direct });
    }
    // Amazon RDS user guide, "RDS Proxy endpoints" and "Avoiding pinning"
    if within(".rds.amazonaws.com") || within(".rds.amazonaws.com.cn") {
        let proxy = host.split('.').nth(1).is_some_and(|label| label.starts_with("proxy-")) || first.contains("proxy");
        return Some(if proxy { Hosted::Pooled(Software::RdsProxy, Mode::Transaction) } else { Hosted::Direct });
    }
    // Azure Database for PostgreSQL, "PgBouncer": port 6432 of the server, `pgbouncer.pool_mode` is transaction by default
    if within(".postgres.database.azure.com") {
        return Some(if port == Some(6432) {
            Hosted::Pooled(Software::PgBouncer, Mode::Transaction)
        } else {
            Hosted::Direct
        });
    }
    // DigitalOcean, "Manage connection pools": pools answer on 25061, their mode is chosen for each pool
    if within(".db.ondigitalocean.com") {
        return Some(if port == Some(25061) {
            Hosted::Pooled(Software::PgBouncer, Mode::Unknown)
        } else {
            Hosted::Direct
        });
    }
    // Fly Managed Postgres: the pooled and the direct address of a cluster
    if within(".flympg.net") {
        return match first {
            "pgbouncer" => Some(Hosted::Pooled(Software::PgBouncer, Mode::Unknown)),
            "direct" => Some(Hosted::Direct),
            _ => None,
        };
    }
    // `-pooler.` before a domain that is filled in from outside: Neon's form, no other host is known to use it
    (first.ends_with("-pooler") && host.contains('.') && host.contains(HOLE) && !host.contains("svc"))
        .then_some(Hosted::Pooled(Software::PgBouncer, Mode::Transaction))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows() {
        let pooled = |software, mode| Some(Hosted::Pooled(software, mode));
        for (host, port, expected) in [
            ("aws-0-eu-central-1.pooler.supabase.com", Some(6543), pooled(Software::Supavisor, Mode::Transaction)),
            ("aws-0-eu-central-1.pooler.supabase.com", Some(5432), pooled(Software::Supavisor, Mode::Session)),
            ("db.abc.supabase.co", Some(5432), Some(Hosted::Direct)),
            ("db.abc.supabase.co", Some(6543), pooled(Software::PgBouncer, Mode::Transaction)),
            ("ep-x-1-pooler.eu-central-1.aws.neon.tech", None, pooled(Software::PgBouncer, Mode::Transaction)),
            ("ep-x-1.eu-central-1.aws.neon.tech", None, Some(Hosted::Direct)),
            ("app.proxy-abc.eu-west-1.rds.amazonaws.com", None, pooled(Software::RdsProxy, Mode::Transaction)),
            ("app.abc.eu-west-1.rds.amazonaws.com", None, Some(Hosted::Direct)),
            ("x.postgres.database.azure.com", Some(6432), pooled(Software::PgBouncer, Mode::Transaction)),
            ("shop-pooler.prod.svc.cluster.local", None, None),
            ("db.example.com", Some(6432), None),
        ] {
            assert_eq!(hosted(host, port), expected, "{host}");
        }
    }
}
