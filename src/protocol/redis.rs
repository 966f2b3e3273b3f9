//! Redis (and Valkey, KeyDB, Dragonfly): wire commands -> effects, replies by the type that the caller asks for.

mod build;
mod command;
mod known;
mod options;
mod reply;
mod script;
mod wire;

use build::{Builder, Built, ScriptCall};
pub use command::{Arg, Command, Meaning, Reading, Wire as WireReply, member};
pub use reply::{Conversion, convert};
pub use wire::Wire;

use super::{Outcome, Passed, Site, root_param};
use crate::ir::{
    Atomicity, Call, Callee, Certainty, Effect, EffectKind, FunctionId, Handle, HandleKind, Lit, Operand, OwnerCheck,
    Reply, RoundTrip, Shape, Shared, Ttl, Ty, Value,
};
use crate::link::Program;
use crate::model::{ReplyKind, Role, TypeRole};
use crate::source::{Language, Span};

/// Words of the text search: each makes a file worth parsing.
pub const WORDS: &[&str] = &[
    "\"nx\"",
    "'nx'",
    " nx ",
    "::nx",
    "conditional_set",
    "setnx",
    "set_if_not_exist",
    "\"eval\"",
    "\"evalsha\"",
    "\"fcall\"",
    "script::new",
    "script::from_lua",
    "invoke_script",
    "evalsha",
    "\"watch\"",
    "watch_before",
    "delifeq",
    "delex",
    "del_ex",
    "ifeq",
    "transaction_async",
    "redis::transaction",
];

/// Words of scripts, whatever runs them.
pub const TELLING_WORDS: &[&str] = &["redis.call", "redis.pcall"];

/// Commands that matter for a lock which another file takes.
pub const NEAR_WORDS: &[&str] = &["\"persist\"", "\"expire\"", "\"pexpire\"", "\"del\""];

/// Commands that take a key if nobody has it.
const TAKING: &[&str] = &["SETNX", "MSETNX", "HSETNX"];

/// Whether the command with these wire words takes a key by its name alone, without options.
pub fn takes_by_name(wire: &[String]) -> bool {
    let takes = wire.first().is_some_and(|name| TAKING.contains(&name.as_str()));
    takes || wire.first().is_some_and(|name| name == "SET") && wire.iter().any(|word| word == "NX")
}

/// A call that matched a row of this protocol.
pub fn call(site: &Site<'_>) -> Outcome {
    match site.row.role {
        Role::Command => command(site, &builder(site)),
        Role::Execute => execute(site),
        Role::Eval => eval(site),
        Role::Watch => watch(site),
        _ => Outcome::Silent,
    }
}

/// A named command: sent at once, unless its receiver only queues it.
fn command(site: &Site<'_>, builder: &Builder<'_>) -> Outcome {
    let Some(receiver) = site.receiver() else { return Outcome::Silent };
    let types = crate::model::receiver_types(site.program, site.function, receiver);
    let queues = |role: TypeRole| matches!(role, TypeRole::Pipeline | TypeRole::Multi | TypeRole::Command);
    if types.iter().flat_map(|ty| site.models.type_roles(ty)).any(|(_, role)| queues(role)) {
        return Outcome::Silent;
    }
    if builder.build(&site.value_of(receiver)).is_some() {
        return Outcome::Silent;
    }
    let args: Vec<Value> = site.args().iter().map(|arg| site.value_of(arg)).collect();
    // `list.get(0)` on something whose type is not known is no GET.
    if site.certainty != Certainty::Full && args.first().is_some_and(|key| key.as_int().is_some()) {
        return Outcome::Silent;
    }
    let line = builder.line(&site.row.wire, &args, site.span);
    send(site, vec![line], Atomicity::Single, site.handle(receiver), asked(site))
}

/// WATCH on the keys of a retried closure.
fn watch(site: &Site<'_>) -> Outcome {
    let keys = site.value_at(&site.row.key).unwrap_or(Value::Unknown);
    let mut line = builder(site).line(&["WATCH".to_owned()], &[], site.span);
    line.args = builder(site).flatten(&keys, 0);
    send(site, vec![line], Atomicity::Single, site.on(), Ty::unknown())
}

/// Runs what a chain has built.
fn execute(site: &Site<'_>) -> Outcome {
    let runs = match &site.row.runs {
        Some(place) => site.operand(place),
        None => site.receiver(),
    };
    let Some(runs) = runs else { return Outcome::Opaque("nothing to run".into()) };
    let runs = site.value_of(runs);
    let mut handle = site.on();
    if let Some(kind) = client_kind(site, &runs) {
        handle.kind = kind;
    }
    let (keys, args) = (site.value_at(&site.row.key), site.value_at(&site.row.value));
    run(site, Passed { runs, keys, args, is_text: false, handle, asked: asked(site) })
}

/// Runs what was brought here, or says that a parameter brings it.
pub fn run(site: &Site<'_>, passed: Passed) -> Outcome {
    let builder = builder(site);
    let more = |value: &Option<Value>| value.as_ref().map(|value| builder.flatten(value, 0)).unwrap_or_default();
    if passed.is_text {
        if root_param(&passed.runs).is_some() {
            return Outcome::Passed(Box::new(passed));
        }
        let (keys, args) = (more(&passed.keys), more(&passed.args));
        let script = ScriptCall { text: passed.runs, keys, args, span: site.span };
        return run_script(site, &script, passed.handle, &passed.asked);
    }
    match builder.build(&passed.runs) {
        Some(Built::Command(line)) => send(site, vec![line], Atomicity::Single, passed.handle, passed.asked),
        Some(Built::Pipeline(lines, atomic)) => {
            let atomicity = if atomic || site.row.atomic { Atomicity::Multi } else { Atomicity::Pipeline };
            send(site, lines, atomicity, passed.handle, passed.asked)
        }
        Some(Built::Script(script)) if root_param(&script.text).is_some() => Outcome::Passed(Box::new(passed)),
        Some(Built::Script(mut script)) => {
            script.keys.extend(more(&passed.keys));
            script.args.extend(more(&passed.args));
            run_script(site, &script, passed.handle, &passed.asked)
        }
        None if root_param(&passed.runs).is_some() => Outcome::Passed(Box::new(passed)),
        Some(Built::Options(_)) | None => Outcome::Opaque("the command is built where it cannot be followed".into()),
    }
}

fn builder<'a>(site: &Site<'a>) -> Builder<'a> {
    Builder {
        models: site.models,
        versions: site.versions,
        file: site.row.file,
        span: site.span,
        scope: Some((site.program, site.function)),
    }
}

/// Kind of the client that a queue of commands was made by (`client.pipeline()`), where the queue runs itself.
fn client_kind(site: &Site<'_>, value: &Value) -> Option<HandleKind> {
    if site.row.on.as_ref().is_some_and(|on| on.arg.is_some()) {
        return None;
    }
    let mut next = value;
    let mut client = "";
    while let Value::Call(call) = next {
        if !call.name.starts_with('.') {
            break;
        }
        let roles = site.models.type_roles(&call.receiver);
        if roles.iter().any(|(_, role)| !matches!(role, TypeRole::Pipeline | TypeRole::Multi | TypeRole::Script)) {
            client = &call.receiver;
            break;
        }
        next = call.args.first()?;
    }
    let (_, role) = *site.models.type_roles(client).first()?;
    Some(super::handle_kind(role))
}

/// A script given with its keys and arguments in one call.
fn eval(site: &Site<'_>) -> Outcome {
    let runs = site.value_at(&site.row.script).unwrap_or(Value::Unknown);
    let (keys, args) = (site.value_at(&site.row.key), site.value_at(&site.row.value));
    run(site, Passed { runs, keys, args, is_text: true, handle: site.on(), asked: asked(site) })
}

/// The script of a Lua file, in the terms of its own `KEYS` and `ARGV`; `None` for any other call.
pub fn file_script(program: &Program, function: FunctionId, call: &Call) -> Option<RoundTrip> {
    if call.callee != Callee::Path(crate::frontend::lua::RUN.to_owned()) {
        return None;
    }
    let file = program.sources.get(program.function(function).file());
    let name = match call.args.get(2) {
        Some(Operand::Lit(Lit::Str(name))) => Some(name.clone()),
        _ => None,
    };
    let entry = script::Entry { keys: None, args: None, function: name };
    let element = |param: u32, n: usize| Value::Field(Shared::from(Value::Param(param)), n.to_string());
    let bindings = script::Bindings {
        keys: &|n| element(0, n),
        args: &|n| element(1, n),
        place: &|offset| Span::new(file.id, offset, offset + 1),
    };
    let summary = script::summary(&file.text, &entry, &bindings).ok().filter(|found| !found.effects.is_empty())?;
    let body = HandleKind::Body;
    Some(RoundTrip {
        handle: Handle { kind: body, ..Handle::unknown() },
        effects: summary.effects,
        atomicity: Atomicity::Script,
        reply: summary.replies.map(|(held, lost)| reply::reply(&held, &lost, &Ty::unknown(), Conversion::REDIS)),
        certainty: Certainty::Full,
        model: "redis/script file".to_owned(),
        guard: None,
    })
}

/// The text of the library in the workspace that registers this function.
fn library(program: &Program, function: &str) -> Option<Value> {
    let lua = program.sources.iter().filter(|file| file.language == Language::Lua);
    let file = lua.into_iter().find(|file| {
        crate::frontend::lua::parse(&file.text)
            .is_ok_and(|script| crate::frontend::lua::registered(&script).iter().any(|name| name == function))
    })?;
    Some(Value::str(&*file.text))
}

/// A script that is called with these keys and arguments.
fn run_script(site: &Site<'_>, call: &ScriptCall, handle: Handle, asked: &Ty) -> Outcome {
    run_function(site, call, None, handle, asked)
}

fn run_function(site: &Site<'_>, call: &ScriptCall, name: Option<String>, handle: Handle, asked: &Ty) -> Outcome {
    let Some(text) = call.text.as_str() else { return Outcome::Opaque("the script's text is not known".into()) };
    let exact = |list: &[Arg]| (!list.iter().any(|arg| arg.many || arg.conditional)).then_some(list.len());
    let entry = script::Entry { keys: exact(&call.keys), args: exact(&call.args), function: name };
    let nth = |list: &[Arg], n: usize| list.get(n - 1).map_or(Value::Unknown, |arg| arg.value.clone());
    // A script made in this function is named where it is made, one from elsewhere where it is run.
    let whole = site.context().whole;
    let inside = whole.file == call.span.file && whole.start <= call.span.start && call.span.end <= whole.end;
    let place = if inside { call.span } else { site.span };
    let bindings = script::Bindings { keys: &|n| nth(&call.keys, n), args: &|n| nth(&call.args, n), place: &|_| place };
    let mut summary = match script::summary(text, &entry, &bindings) {
        Ok(summary) => summary,
        Err(why) => return Outcome::Opaque(why),
    };
    if summary.effects.is_empty() {
        return Outcome::Silent;
    }
    // What the script does wrong alone stands at its own line, if the text lies in a file as it is.
    if summary.effects.iter().any(|effect| script_alone(&effect.kind))
        && let Some(start) = locate(site, text)
    {
        let own = |offset: usize| {
            let from = start.start as usize + offset;
            Span::new(start.file, from, from + "redis.call".len())
        };
        let bindings = script::Bindings { place: &own, ..bindings };
        if let Ok(placed) = script::summary(text, &entry, &bindings) {
            for (effect, placed) in summary.effects.iter_mut().zip(placed.effects) {
                if script_alone(&effect.kind) {
                    effect.span = placed.span;
                }
            }
        }
    }
    let how = conversion(site);
    let reply = summary.replies.map(|(held, lost)| by_kind(site, &held, &lost, asked, how));
    Outcome::Effect(Box::new(RoundTrip {
        handle,
        effects: summary.effects,
        atomicity: Atomicity::Script,
        reply,
        certainty: site.certainty,
        model: site.row.id.clone(),
        guard: None,
    }))
}

/// Whether the effect would be the same whatever the caller passes: no owner is compared, no expiry set.
fn script_alone(kind: &EffectKind) -> bool {
    match kind {
        EffectKind::Acquire(lock) => lock.ttl == Ttl::Never,
        EffectKind::Release(lock) => lock.check == OwnerCheck::None,
        EffectKind::Expire(_) => true,
        _ => false,
    }
}

/// Where a script's text begins: a Lua file that is the text, or a literal without escapes, first in the file of the call.
fn locate(site: &Site<'_>, text: &str) -> Option<Span> {
    if text.len() < 16 {
        return None;
    }
    let sources = &site.program.sources;
    let whole = sources.iter().find(|file| file.language == Language::Lua && *file.text == *text);
    let own = sources.get(site.context().file());
    let within = || std::iter::once(own).chain(sources.iter()).find(|file| file.text.contains(text));
    let file = whole.or_else(within)?;
    let start = file.text.find(text)?;
    Some(Span::new(file.id, start, start + text.len()))
}

/// One round trip of one or several commands.
fn send(site: &Site<'_>, lines: Vec<Command>, atomicity: Atomicity, handle: Handle, asked: Ty) -> Outcome {
    let single = atomicity == Atomicity::Single;
    let reading = match asked.last() {
        "bool" | "i32" | "i64" | "u32" | "u64" | "usize" | "isize" if single => Reading::Tested,
        _ => Reading::Other,
    };
    if let [line] = lines.as_slice()
        && single
        && matches!(line.name.as_str(), "EVAL" | "EVALSHA" | "EVAL_RO" | "EVALSHA_RO" | "FCALL" | "FCALL_RO")
    {
        return match script_line(line) {
            Some(script) if line.name.starts_with("FCALL") => {
                let name = script.text.as_str().unwrap_or("").to_owned();
                match library(site.program, &name) {
                    Some(text) => run_function(site, &ScriptCall { text, ..script }, Some(name), handle, &asked),
                    None => Outcome::Opaque(format!("no library of the workspace registers `{name}`")),
                }
            }
            Some(script) => run_script(site, &script, handle, &asked),
            None => Outcome::Opaque("the number of keys is not known".into()),
        };
    }
    let mut effects: Vec<Effect> = Vec::new();
    let mut shown: Option<(usize, WireReply, WireReply)> = None;
    let mut replies = 0;
    let read = |effect: &Effect| matches!(effect.kind, EffectKind::Read(_));
    for line in &lines {
        let Some(meaning) = line.meaning(reading) else {
            if single {
                return match line.name.as_str() {
                    "" => Outcome::Opaque("the command's name is not known".into()),
                    _ => Outcome::Silent,
                };
            }
            replies += usize::from(!line.ignored);
            continue;
        };
        if let (Some((held, lost)), None) = (meaning.replies, &shown)
            && meaning.effects.iter().any(|effect| effect.kind.is_lock() || (single && read(effect)))
        {
            // The reply of a command whose reply is left out is at no position: held and lost look alike.
            shown = Some((if line.ignored { usize::MAX } else { replies }, held, lost));
        }
        replies += usize::from(!line.ignored);
        effects.extend(meaning.effects);
    }
    if effects.is_empty() {
        return Outcome::Silent;
    }
    let how = conversion(site);
    let reply = shown.map(|(position, held, lost)| {
        if single {
            return by_kind(site, &held, &lost, &asked, how);
        }
        let at = |wire: WireReply| {
            let mut list = vec![WireReply::Unknown; replies];
            if let Some(place) = list.get_mut(position) {
                *place = wire;
            }
            WireReply::Array(list)
        };
        by_kind(site, &at(held), &at(lost), &asked, how)
    });
    Outcome::Effect(Box::new(RoundTrip {
        handle,
        effects,
        atomicity,
        reply,
        certainty: site.certainty,
        model: site.row.id.clone(),
        guard: None,
    }))
}

/// `EVAL text numkeys key.. arg..`
fn script_line(line: &Command) -> Option<ScriptCall> {
    let numkeys =
        usize::try_from(line.args.get(1)?.value.as_int().or_else(|| line.args[1].value.as_str()?.parse().ok())?)
            .ok()?;
    let rest = line.args.get(2..)?;
    let keys = rest.get(..numkeys)?.to_vec();
    Some(ScriptCall { text: line.args[0].value.clone(), keys, args: rest[numkeys..].to_vec(), span: line.span })
}

/// The type asked for; unit where the call itself throws the reply away.
fn asked(site: &Site<'_>) -> Ty {
    match site.row.reply {
        Some(ReplyKind::Discarded) => Ty::unit(),
        Some(ReplyKind::Bool) => Ty::path("bool"),
        Some(ReplyKind::Int) => Ty::path("i64"),
        _ => site.asked(),
    }
}

fn conversion(site: &Site<'_>) -> Conversion {
    match site.models.file(site.row).head.krate.as_str() {
        "fred" if site.versions.contains_key("fred/default-nil-types") => Conversion::REDIS,
        "fred" => Conversion::FRED,
        "redis" => {
            let old = crate::model::Range::parse("<0.32")
                .is_ok_and(|old| site.versions.get("redis").is_some_and(|version| old.contains(Some(version))));
            Conversion { int_is_string: !old, ..Conversion::REDIS }
        }
        _ => Conversion::REDIS,
    }
}

/// Reply shapes by the row's kind of reply.
fn by_kind(site: &Site<'_>, held: &WireReply, lost: &WireReply, asked: &Ty, how: Conversion) -> Reply {
    let same = |shape: Shape| Reply { held: shape.clone(), lost: shape.clone(), failed: Shape::err() };
    match site.row.reply {
        Some(ReplyKind::Unit | ReplyKind::Discarded) => same(Shape::Unit.ok()),
        Some(ReplyKind::Nothing) => Reply { failed: Shape::Unit, ..same(Shape::Unit) },
        _ => reply::reply(held, lost, asked, how),
    }
}
