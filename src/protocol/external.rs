//! Effects outside every store that could refuse them: HTTP, mail, payments, publishing, object stores, processes.

use super::lock::consul::{self, Request};
use super::lock::object;
use super::{Outcome, Site};
use crate::ir::{Atomicity, CallValue, Effect, EffectKind, External, Handle, RoundTrip, Value};
use crate::model::Role;

/// Names of headers and options that make a request idempotent or conditional.
const KEYS: &[&str] = &["if-match", "if-none-match"];

/// Names of fields that do the same in a body, letters and digits only.
const BODY_KEYS: &[&str] =
    &["idempotencykey", "idempotencytoken", "clienttoken", "clientrequesttoken", "dedupkey", "deduplicationid"];

/// A call that matched a row of this protocol.
pub fn call(site: &Site<'_>) -> Outcome {
    if site.row.role != Role::External {
        return Outcome::Silent;
    }
    let mut external = External {
        what: site.row.what.clone().unwrap_or_default(),
        target: site.value_at(&site.row.value).unwrap_or(Value::Unknown),
        idempotency: site.value_at(&site.row.token).filter(conditional),
    };
    let mut span = site.span;
    let mut request = Request::default();
    if let Some(runs) = &site.row.runs
        && let Some(operand) = site.operand(runs)
    {
        let chain = site.value_of(operand);
        // Steps under a condition make several chains.
        for chain in chain.alternatives() {
            follow(site, chain, &mut external, &mut span, &mut request);
        }
    }
    if external.what == "process" && !acts_elsewhere(&external.target) {
        return Outcome::Silent;
    }
    if external.what.is_empty() {
        return Outcome::Silent;
    }
    if external.what == "HTTP" {
        external.what = "HTTP request".into();
    }
    let command = external.what.clone();
    request.method = external.what.clone();
    request.url = Some(external.target.clone());
    let mode = site.value_at(&site.row.token);
    let locks = object::effect(site, &external.what, &external.target, mode.as_ref());
    let (kind, reply) = consul::request(&request).unwrap_or((EffectKind::External(external), None));
    let (lock, reply) = match locks {
        Some((lock, reply)) => (Some(lock), Some(reply)),
        None => (None, reply),
    };
    let effect = |kind| Effect { span, command: command.clone(), kind, conditional: false };
    Outcome::Effect(Box::new(RoundTrip {
        handle: Handle::unknown(),
        effects: lock.into_iter().chain([kind]).map(effect).collect(),
        atomicity: Atomicity::Single,
        reply,
        certainty: site.certainty,
        model: site.row.id.clone(),
        guard: None,
    }))
}

/// Reads the builder chain before the send: what is sent where, and its idempotency key.
fn follow(
    site: &Site<'_>,
    chain: &Value,
    external: &mut External,
    span: &mut crate::source::Span,
    request: &mut Request,
) {
    let mut next = Some(chain);
    let mut steps = 0;
    while let Some(Value::Call(call)) = next {
        steps += 1;
        if steps > 256 {
            return;
        }
        if let Some(found) = site.models.find_value(call, Some(site.row.file), site.versions) {
            let skip = usize::from(found.receiver);
            let arg = |place: &Option<crate::model::Place>| {
                place.as_ref().and_then(|place| call.args.get(place.arg? + skip)).cloned()
            };
            match found.row.role {
                Role::ExternalStart => {
                    external.what = found.row.what.clone().unwrap_or_default();
                    if let Some(method) = arg(&found.row.key) {
                        external.what = method_of(&method);
                    }
                    if let Some(target) = arg(&found.row.value) {
                        external.target = target;
                    }
                    *span = call.at.0.unwrap_or(*span);
                    return;
                }
                Role::Idempotency => {
                    let named = arg(&found.row.key).is_none_or(|name| is_key(&name));
                    if named {
                        external.idempotency = arg(&found.row.value);
                    }
                }
                Role::ExternalTarget => external.target = arg(&found.row.value).unwrap_or(Value::Unknown),
                Role::Parameters => request.parameters.extend(arg(&found.row.value)),
                Role::Body => request.body = arg(&found.row.value),
                _ => {}
            }
        }
        if external.idempotency.is_none() {
            external.idempotency = call.args.iter().skip(1).find_map(|body| key_in(body, 0));
        }
        next = receiver(call);
    }
}

fn receiver(call: &CallValue) -> Option<&Value> {
    if call.name.starts_with('.') { call.args.first() } else { None }
}

/// An idempotency key in the body of a request: `{ "idempotency_key": k }`, `Charge { idempotency_key: k, .. }`.
fn key_in(body: &Value, depth: usize) -> Option<Value> {
    let Value::Aggregate(_, fields) = body else { return None };
    if depth > 4 {
        return None;
    }
    let named = |name: &str| {
        let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
        BODY_KEYS.contains(&plain.as_str())
    };
    let own = fields.iter().find(|(name, _)| named(name)).map(|(_, value)| value.clone());
    own.or_else(|| fields.iter().find_map(|(_, inner)| key_in(inner, depth + 1)))
}

/// Programs that act on another machine or a service; others work on the node's own files.
const REMOTE_PROGRAMS: &[&str] = &[
    "ssh",
    "scp",
    "rsync",
    "sftp",
    "curl",
    "wget",
    "kubectl",
    "helm",
    "terraform",
    "tofu",
    "ansible-playbook",
    "aws",
    "gcloud",
    "gsutil",
    "az",
    "s3cmd",
    "rclone",
    "sendmail",
    "mail",
    "mailx",
    "msmtp",
    "psql",
    "mysql",
    "redis-cli",
];

fn acts_elsewhere(program: &Value) -> bool {
    program.as_str().is_some_and(|path| REMOTE_PROGRAMS.contains(&path.rsplit('/').next().unwrap_or(path)))
}

fn is_key(name: &Value) -> bool {
    match name {
        Value::Path(path) => names_key(path.rsplit("::").next().unwrap_or(path)),
        _ => name.as_str().is_some_and(names_key),
    }
}

/// Whether a header's name says that its value tells a repetition: `Idempotency-Key`, `X-GitHub-Delivery`, `webhook-id`.
pub fn names_key(name: &str) -> bool {
    let plain = name.to_ascii_lowercase().replace('_', "-");
    let mut words = plain.split('-').rev();
    let (last, before) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    let told =
        matches!(before, "delivery" | "request" | "event" | "message" | "webhook" | "svix" | "ce" | "deduplication");
    KEYS.contains(&plain.as_str())
        || plain.split('-').any(|word| word == "idempotency")
        || last == "id" && told
        || last == "delivery" && !before.is_empty()
}

/// `Method::POST` -> `HTTP POST`.
fn method_of(value: &Value) -> String {
    match value {
        Value::Path(path) => format!("HTTP {}", path.rsplit("::").next().unwrap_or(path)),
        _ => "HTTP request".to_owned(),
    }
}

/// A mode or options value that lets the store refuse the write.
fn conditional(value: &Value) -> bool {
    let word = |path: &str| {
        let path = path.to_ascii_lowercase();
        path.contains("create") || path.contains("update")
    };
    match value {
        Value::Path(path) => word(path),
        Value::Aggregate(path, fields) => word(path) || fields.iter().any(|(_, field)| conditional(field)),
        Value::Call(call) => word(&call.name) || call.args.iter().any(conditional),
        _ => false,
    }
}
