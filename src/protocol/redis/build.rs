//! Builder chains as values -> commands, pipelines, scripts and options, with the help of the model rows.

use super::command::{Arg, Command};
use super::wire::Wire as Word;
use crate::ir::{CallValue, FunctionId, Lit, Value};
use crate::link::Program;
use crate::model::{Match, Models, Role, Versions};
use crate::source::Span;

/// What a chain builds.
#[derive(Clone, Debug, PartialEq)]
pub enum Built {
    /// One command.
    Command(Command),
    /// Commands sent together.
    Pipeline(Vec<Command>, bool),
    /// A script with what it is called with.
    Script(ScriptCall),
    /// Words of options.
    Options(Vec<Arg>),
}

/// A script call.
#[derive(Clone, Debug, PartialEq)]
pub struct ScriptCall {
    /// Text.
    pub text: Value,
    /// `KEYS`.
    pub keys: Vec<Arg>,
    /// `ARGV`.
    pub args: Vec<Arg>,
    /// Where the script is named or called.
    pub span: Span,
}

/// What building needs to know.
#[derive(Clone, Copy, Debug)]
pub struct Builder<'a> {
    /// Models.
    pub models: &'a Models,
    /// Versions.
    pub versions: &'a Versions,
    /// Model file of the crate; methods of builder chains are those of this crate.
    pub file: usize,
    /// Place for what has none of its own.
    pub span: Span,
    /// Program and function, for builders kept in fields.
    pub scope: Option<(&'a Program, FunctionId)>,
}

/// Steps of a chain that are followed; longer ones are not hand-written.
const MAX_STEPS: usize = 512;
/// How deep options and arguments nest.
const MAX_DEPTH: usize = 16;

impl Builder<'_> {
    /// What a value builds; `None` if its beginning is not known.
    pub fn build(&self, value: &Value) -> Option<Built> {
        self.build_at(value, 0)
    }

    fn build_at(&self, value: &Value, depth: usize) -> Option<Built> {
        if depth > MAX_DEPTH {
            return None;
        }
        let mut steps: Vec<&CallValue> = Vec::new();
        let mut next = value;
        while let Value::Call(call) = next {
            steps.push(call);
            match call.args.first() {
                Some(receiver) if call.name.starts_with('.') && steps.len() < MAX_STEPS => next = receiver,
                _ => break,
            }
        }
        let mut built: Option<Built> = match steps.last() {
            Some(call) if !call.name.starts_with('.') => None,
            Some(call) => call.args.first().and_then(|base| self.field(base, depth)),
            None => self.field(value, depth),
        };
        while let Some(call) = steps.pop() {
            built = match built {
                None => self.start(call, depth),
                Some(built) => Some(self.step(built, call, depth)),
            };
        }
        built
    }

    /// What a field holds that every constructor fills alike: a `Script` made once.
    fn field(&self, value: &Value, depth: usize) -> Option<Built> {
        let (program, function) = self.scope?;
        if !matches!(value, Value::Field(..) | Value::TypeField(..)) {
            return None;
        }
        let Value::TypeField(ty, field) = program.absolute(function, value) else { return None };
        let values = program.field_values(&ty, &field);
        let mut built = values.iter().map(|(_, value)| self.build_at(value, depth + 1));
        let first = built.next()??;
        let same = |other: Option<Built>| matches!((&other, &first), (Some(Built::Script(a)), Built::Script(b)) if a.text == b.text);
        built.all(same).then_some(first)
    }

    /// The beginning of a chain: a path call, or a method that makes a builder (`client.multi()`).
    fn start(&self, call: &CallValue, depth: usize) -> Option<Built> {
        let Match { row, receiver, .. } = self.models.find_value(call, Some(self.file), self.versions)?;
        let args = &call.args[usize::from(receiver).min(call.args.len())..];
        match row.role {
            Role::CommandStart | Role::Command if !receiver => {
                Some(Built::Command(self.command(&row.wire, args, call, depth)))
            }
            Role::Pipeline => Some(Built::Pipeline(Vec::new(), row.atomic)),
            Role::Script => {
                let text = row.script.as_ref().and_then(|place| args.get(place.arg?)).cloned();
                let text = text.unwrap_or(Value::Unknown);
                Some(Built::Script(ScriptCall { text, keys: Vec::new(), args: Vec::new(), span: self.place(call) }))
            }
            Role::Options => Some(Built::Options(self.words(&row.wire, args, depth))),
            _ => None,
        }
    }

    fn step(&self, built: Built, call: &CallValue, depth: usize) -> Built {
        let Some(Match { row, receiver: true, .. }) = self.models.find_value(call, Some(self.file), self.versions)
        else {
            return built;
        };
        let args = call.args.get(1..).unwrap_or(&[]);
        let conditional = |mut list: Vec<Arg>| {
            list.iter_mut().for_each(|arg| arg.conditional |= call.conditional);
            list
        };
        let wire = || conditional(self.words(&row.wire, args, depth));
        match (built, row.role) {
            (Built::Command(mut command), Role::Arg) => {
                command.append(wire());
                Built::Command(command)
            }
            (Built::Pipeline(mut commands, atomic), Role::Arg) => {
                if let Some(last) = commands.last_mut() {
                    last.append(wire());
                }
                Built::Pipeline(commands, atomic)
            }
            (Built::Pipeline(mut commands, atomic), Role::Command | Role::CommandStart) => {
                commands.push(self.command(&row.wire, args, call, depth));
                Built::Pipeline(commands, atomic)
            }
            (Built::Pipeline(mut commands, atomic), Role::AddCommand) => {
                let value = row.value.as_ref().and_then(|place| args.get(place.arg?));
                match value.and_then(|value| self.build_at(value, depth + 1)) {
                    Some(Built::Command(mut command)) => {
                        command.conditional |= call.conditional;
                        commands.push(command);
                    }
                    _ => commands.push(Command::unknown(self.place(call))),
                }
                Built::Pipeline(commands, atomic)
            }
            (Built::Pipeline(mut commands, atomic), Role::Ignore) => {
                if let Some(last) = commands.last_mut() {
                    last.ignored = true;
                }
                Built::Pipeline(commands, atomic)
            }
            (Built::Pipeline(commands, _), Role::Atomic) => Built::Pipeline(commands, true),
            (Built::Script(mut script), Role::ScriptKey) => {
                script.keys.extend(conditional(args.iter().flat_map(|arg| self.flatten(arg, depth)).collect()));
                Built::Script(script)
            }
            (Built::Script(mut script), Role::ScriptArg) => {
                script.args.extend(conditional(args.iter().flat_map(|arg| self.flatten(arg, depth)).collect()));
                Built::Script(script)
            }
            (Built::Options(mut words), Role::Options) => {
                words.extend(wire());
                Built::Options(words)
            }
            (built, _) => built,
        }
    }

    fn place(&self, call: &CallValue) -> Span {
        call.at.0.unwrap_or(self.span)
    }

    fn command(&self, wire: &[String], args: &[Value], call: &CallValue, depth: usize) -> Command {
        let mut command = Command::unknown(self.place(call));
        command.conditional = call.conditional;
        command.append(self.words(wire, args, depth));
        command
    }

    /// The command of a row's `wire` with these arguments.
    pub fn line(&self, wire: &[String], args: &[Value], span: Span) -> Command {
        let mut command = Command::unknown(span);
        command.append(self.words(wire, args, 0));
        command
    }

    /// Wire arguments of a row's `wire`.
    fn words(&self, wire: &[String], args: &[Value], depth: usize) -> Vec<Arg> {
        let mut list = Vec::new();
        for word in wire {
            let arg = |n: usize| args.get(n).unwrap_or(&Value::Unknown);
            match Word::parse(word) {
                Ok(Word::Word(text)) => list.push(Arg::new(Value::str(text))),
                Ok(Word::One(n)) if n < args.len() => match arg(n) {
                    // A command value in place of a name: `custom(cmd!("DELEX"), ..)`.
                    value @ Value::Call(_) if list.is_empty() => match self.build_at(value, depth + 1) {
                        Some(Built::Command(command)) => {
                            list.push(Arg::new(Value::str(command.name)));
                            list.extend(command.args);
                        }
                        _ => list.push(Arg::new(value.clone())),
                    },
                    value => list.push(Arg::new(value.clone())),
                },
                Ok(Word::Many(n)) if n < args.len() => list.extend(self.flatten(arg(n), depth)),
                Ok(Word::Options(n)) if n < args.len() => list.extend(self.options(arg(n), depth)),
                Ok(Word::If(text, n)) => match arg(n) {
                    Value::Const(Lit::Bool(true)) => list.push(Arg::new(Value::str(text))),
                    Value::Const(_) => {}
                    _ => list.push(Arg { conditional: true, ..Arg::new(Value::str(text)) }),
                },
                _ => {}
            }
        }
        list
    }

    /// An argument that may stand for several: arrays, tuples, `Option`s, option builders.
    pub fn flatten(&self, value: &Value, depth: usize) -> Vec<Arg> {
        if depth > MAX_DEPTH {
            return vec![Arg { many: true, ..Arg::new(Value::Unknown) }];
        }
        match value {
            Value::Aggregate(path, fields) if matches!(path.as_str(), "()" | "[]") => {
                fields.iter().flat_map(|(_, field)| self.flatten(field, depth + 1)).collect()
            }
            Value::Aggregate(path, fields) if last(path) == "Some" => {
                fields.iter().flat_map(|(_, field)| self.flatten(field, depth + 1)).collect()
            }
            Value::Path(path) if last(path) == "None" => Vec::new(),
            Value::Call(call) => match self.build_at(value, depth + 1) {
                Some(Built::Options(words)) => words,
                // `.to_vec()`, `.as_slice()`, `.clone()` of what can be read.
                None if call.args.len() == 1
                    && matches!(
                        call.name.as_str(),
                        ".to_vec" | ".as_slice" | ".clone" | ".as_ref" | ".into_iter" | ".iter" | ".into" | ".as_str"
                    ) =>
                {
                    self.flatten(&call.args[0], depth + 1)
                }
                _ => vec![Arg::new(value.clone())],
            },
            _ => vec![Arg::new(value.clone())],
        }
    }

    /// Option words of enum variants and option builders: `Some(Expiration::EX(5))` -> `EX 5`, `SetOptions::NX` -> `NX`.
    pub fn options(&self, value: &Value, depth: usize) -> Vec<Arg> {
        if depth > MAX_DEPTH {
            return vec![Arg::new(Value::Unknown)];
        }
        let word = |path: &str| Arg::new(Value::str(last(path).to_ascii_uppercase()));
        match value {
            Value::Path(path) if last(path) == "None" => Vec::new(),
            Value::Path(path) => vec![word(path)],
            Value::Aggregate(path, fields) if last(path) == "Some" => {
                fields.iter().flat_map(|(_, field)| self.options(field, depth + 1)).collect()
            }
            Value::Aggregate(path, fields) if path.contains("::") => {
                let mut list = vec![word(path)];
                list.extend(fields.iter().flat_map(|(_, field)| self.flatten(field, depth + 1)));
                list
            }
            Value::Call(call) => match self.build_at(value, depth + 1) {
                Some(Built::Options(words)) => words,
                _ if call.name.contains("::") => {
                    let mut list = vec![word(&call.name)];
                    list.extend(call.args.iter().flat_map(|arg| self.flatten(arg, depth + 1)));
                    list
                }
                _ if call.args.len() == 1 && matches!(call.name.as_str(), ".clone" | ".into") => {
                    self.options(&call.args[0], depth + 1)
                }
                _ => vec![Arg::new(value.clone())],
            },
            // One of several: each word may or may not be there.
            Value::Join(members) => {
                let mut list: Vec<Arg> = Vec::new();
                let all: Vec<Vec<Arg>> = members.iter().map(|member| self.options(member, depth + 1)).collect();
                for arg in all.iter().flatten() {
                    let everywhere = all.iter().all(|words| words.contains(arg));
                    if !list.iter().any(|known| known.value == arg.value) {
                        list.push(Arg { conditional: !everywhere || arg.conditional, ..arg.clone() });
                    }
                }
                list
            }
            Value::Const(Lit::Bool(_)) => Vec::new(),
            _ => vec![Arg::new(value.clone())],
        }
    }
}

impl Command {
    /// A command whose name is not known yet.
    pub fn unknown(span: Span) -> Command {
        Command { name: String::new(), args: Vec::new(), span, conditional: false, ignored: false }
    }

    /// Appends wire arguments; the first of all is the name. `cmd("SET key 1")` is one word of which the first counts.
    fn append(&mut self, list: Vec<Arg>) {
        for arg in list {
            if !self.name.is_empty() || !self.args.is_empty() {
                self.args.push(arg);
                continue;
            }
            match arg.value.as_str() {
                Some(text) => {
                    let mut parts = text.split_ascii_whitespace();
                    self.name = parts.next().unwrap_or("").to_ascii_uppercase();
                    self.args.extend(parts.map(|part| Arg::new(Value::str(part))));
                }
                None => self.args.push(arg),
            }
        }
    }
}

fn last(path: &str) -> &str {
    path.rsplit("::").next().unwrap_or(path)
}
