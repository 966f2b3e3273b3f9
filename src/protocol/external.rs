//! Effects outside every store that could refuse them: HTTP, mail, payments, publishing, object stores, processes.

use super::lock::{consul, dynamo, object};
use super::{Outcome, Site};
use crate::ir::{Atomicity, CallValue, Effect, EffectKind, External, Handle, RoundTrip, Value};
use crate::model::Role;

/// Names of headers and options that make a request idempotent or conditional.
const KEYS: &[&str] = &["if-match", "if-none-match"];

/// Names of fields that do the same in a body, letters and digits only.
const BODY_KEYS: &[&str] =
    &["idempotencykey", "idempotencytoken", "clienttoken", "clientrequesttoken", "dedupkey", "deduplicationid"];

/// A request as far as it could be read: what its builder was told.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// `HTTP PUT`, `object PUT`, `DynamoDB put`
    pub method: String,
    /// URL, name of the object, table.
    pub url: Option<Value>,
    /// Parameters added by builder calls: lists of pairs.
    pub parameters: Vec<Value>,
    /// Body.
    pub body: Option<Value>,
    /// Other settings, the first one first.
    pub settings: Vec<Setting>,
}

/// A setting of a request.
#[derive(Clone, Debug)]
pub struct Setting {
    /// What is set, as the row says: `if-match`, `condition`.
    pub what: String,
    /// The name that is given with the value.
    pub name: Option<Value>,
    /// The value.
    pub value: Value,
    /// It may be left out.
    pub conditional: bool,
    /// The value is an `Option`.
    pub optional: bool,
}

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
    request.body = site.value_at(&site.row.body).or(request.body);
    request.settings.reverse();
    let stored = match site.models.file(site.row).head.backend.as_deref() {
        Some("object-store") => {
            let mode = site.value_at(&site.row.token);
            object::effects(&request, mode.as_ref()).map(|(kinds, reply)| (kinds, Some(reply)))
        }
        Some("dynamo-db") => dynamo::effects(&request),
        _ => None,
    };
    let asks = matches!(external.what.as_str(), "object GET" | "DynamoDB get");
    let (kinds, reply) = match stored {
        Some((kinds, reply)) if asks => (kinds, reply),
        Some((kinds, reply)) => (kinds.into_iter().chain([EffectKind::External(external)]).collect(), reply),
        None if asks => return Outcome::Silent,
        None => {
            let (kind, reply) = consul::request(&request).unwrap_or((EffectKind::External(external), None));
            (vec![kind], reply)
        }
    };
    let effect = |kind| Effect { span, command: command.clone(), kind, conditional: false };
    Outcome::Effect(Box::new(RoundTrip {
        handle: Handle::unknown(),
        effects: kinds.into_iter().map(effect).collect(),
        atomicity: Atomicity::Single,
        reply,
        certainty: site.certainty,
        model: site.row.id.clone(),
        guard: None,
    }))
}

/// Whether a builder's step asks the store to create only what is absent, in so many words.
pub fn creates(site: &Site<'_>) -> bool {
    let value = || site.value_at(&site.row.value).unwrap_or(Value::Unknown);
    match (site.row.role, site.row.what.as_deref()) {
        (Role::Idempotency, Some("if-none-match")) => object::is_any(&value()),
        (Role::Idempotency, Some("condition")) => dynamo::absent(&value()),
        _ => false,
    }
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
                    let value = arg(&found.row.value);
                    if let (Some(what), Some(value)) = (&found.row.what, &value) {
                        request.settings.push(setting(what, call, arg(&found.row.key), value.clone()));
                    }
                    if named {
                        external.idempotency = value;
                    }
                }
                Role::Setting => {
                    if let (Some(what), Some(value)) = (&found.row.what, arg(&found.row.value)) {
                        request.settings.push(setting(what, call, arg(&found.row.key), value));
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

fn setting(what: &str, call: &CallValue, name: Option<Value>, value: Value) -> Setting {
    let optional = call.name.starts_with(".set_");
    Setting { what: what.to_owned(), name, value, conditional: call.conditional, optional }
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

/// Whether the name of a header, as it is given, is such a one.
pub fn is_key(name: &Value) -> bool {
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
    let told = matches!(
        before,
        "delivery" | "request" | "event" | "message" | "msg" | "webhook" | "svix" | "ce" | "deduplication"
    );
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
