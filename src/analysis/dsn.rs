//! With which connection string a database handle was opened: back from the handle through fields, parameters, pools and builders
//! to the text.

use crate::frontend::pooler;
use crate::ir::{CallValue, FunctionId, Lit, OpKind, Operand, Piece, Site, Use, Value, Var};
use crate::link::Program;

/// Calls, fields and parameters between a handle and its string.
const DEPTH: usize = 12;
/// Callers that one parameter is followed to.
const CALLERS: usize = 8;

/// The connection string of a handle as a value for [`pooler::PoolerFacts::harm_to`]: a literal, a variable, a configuration field, a template,
/// or a join of these; unknown where one of the ways leads nowhere.
///
/// `identity` is a handle's [`crate::ir::Handle::identity`] in the innermost function of `via`, the calls that lead to the command.
pub fn origin(program: &Program, via: &[Site], identity: &Value) -> Value {
    let Some(last) = via.last() else { return Value::Unknown };
    Search { program, via }.handle(last.function, identity, 0)
}

struct Search<'a> {
    program: &'a Program,
    via: &'a [Site],
}

impl Search<'_> {
    /// The string that the handle `value` was opened with.
    fn handle(&self, f: FunctionId, value: &Value, depth: usize) -> Value {
        if depth > DEPTH {
            return Value::Unknown;
        }
        match value {
            Value::Local(of, var) => {
                let inner = self.program.value(*of, &Operand::Var(Var(*var), Use::Ref));
                if inner == *value { Value::Unknown } else { self.handle(*of, &inner, depth + 1) }
            }
            Value::Call(call) => self.opened(f, call, depth),
            Value::Param(index) => self.passed(f, *index, depth, &|f, value, depth| self.handle(f, value, depth)),
            Value::TypeField(ty, name) => self.stored(ty, name, depth, &|f, value, depth| self.handle(f, value, depth)),
            Value::Field(base, _) => match self.program.absolute(f, value) {
                absolute @ Value::TypeField(..) => self.handle(f, &absolute, depth + 1),
                // a part of what a call gave: `connect(..).0`
                _ => self.handle(f, base, depth + 1),
            },
            Value::Aggregate(_, fields) => self.first(fields.iter().map(|(_, field)| self.handle(f, field, depth + 1))),
            Value::Join(members) => self.all(members.iter().map(|member| self.handle(f, member, depth + 1))),
            _ => Value::Unknown,
        }
    }

    /// The string among the arguments of the call that gave a handle, or of the call that gave the handle it came from.
    fn opened(&self, f: FunctionId, call: &CallValue, depth: usize) -> Value {
        if let Some(template) = self.options(f, call, depth) {
            return template;
        }
        let text = self.first(call.args.iter().rev().map(|argument| self.text(f, argument, depth + 1)));
        if text != Value::Unknown {
            return text;
        }
        if call.args.is_empty() {
            return self.configured(call, depth);
        }
        let inner = self.first(call.args.iter().map(|argument| self.handle(f, argument, depth + 1)));
        if inner != Value::Unknown || call.name.starts_with('.') {
            return inner;
        }
        self.returned(f, call, depth)
    }

    /// `Config::new()` whose fields are set one by one: `cfg.url = Some(url)`, `cfg.host = Some(host)`.
    fn configured(&self, call: &CallValue, depth: usize) -> Value {
        let ty = call.name.strip_suffix("::new").or_else(|| call.name.strip_suffix("::default"));
        let Some(ty) = ty else { return Value::Unknown };
        let url = self.stored(ty, "url", depth, &|f, value, depth| self.text(f, peeled(value), depth));
        if url != Value::Unknown {
            return url;
        }
        let part = |name: &str| self.stored(ty, name, depth, &|f, value, depth| self.plain(f, peeled(value), depth));
        match part("host") {
            Value::Unknown => Value::Unknown,
            host => address(Some(part("user")), host, None, Some(part("dbname"))),
        }
    }

    /// What a function of the workspace returns, its parameters replaced by this call's arguments.
    fn returned(&self, f: FunctionId, call: &CallValue, depth: usize) -> Value {
        let [callee] = self.program.find_path(&call.name)[..] else { return Value::Unknown };
        let result = self.program.return_value(callee);
        match self.handle_in(callee, &result, depth + 1) {
            Value::Param(index) => match call.args.get(index as usize) {
                Some(argument) => self.text(f, argument, depth + 1),
                None => Value::Unknown,
            },
            other => other,
        }
    }

    /// As [`Self::handle`], but a string that is a parameter stays one: the caller is known.
    fn handle_in(&self, f: FunctionId, value: &Value, depth: usize) -> Value {
        match value {
            Value::Call(call) if depth <= DEPTH => {
                let direct = call.args.iter().rev().find(|argument| matches!(argument, Value::Param(_)));
                match direct {
                    Some(parameter) => parameter.clone(),
                    None => self.opened(f, call, depth),
                }
            }
            _ => self.handle(f, value, depth),
        }
    }

    /// Options built step by step: `PgConnectOptions::new().host(h).port(p).username(u).database(d)`, `Config` of tokio-postgres.
    fn options(&self, f: FunctionId, call: &CallValue, depth: usize) -> Option<Value> {
        let mut parts: [Option<Value>; 4] = [None, None, None, None];
        let mut pending: Vec<&CallValue> = vec![call];
        let mut steps = 0;
        while let Some(call) = pending.pop() {
            steps += 1;
            let slot = match call.name.as_str() {
                ".username" | ".user" => Some(0),
                ".host" => Some(1),
                ".port" => Some(2),
                ".database" | ".dbname" => Some(3),
                _ => None,
            };
            if let (Some(slot), Some(value)) = (slot, call.args.get(1)) {
                parts[slot].get_or_insert_with(|| self.plain(f, value, depth + 1));
            }
            if steps < 64 {
                pending.extend(call.args.iter().filter_map(|argument| match argument {
                    Value::Call(inner) => Some(&**inner),
                    _ => None,
                }));
            }
        }
        let [user, host, port, database] = parts;
        host.map(|host| address(user, host, port, database))
    }

    /// A value that is a connection string, or a variable or field that holds one.
    fn text(&self, f: FunctionId, value: &Value, depth: usize) -> Value {
        if depth > DEPTH {
            return Value::Unknown;
        }
        match value {
            Value::Env(_) => value.clone(),
            Value::Const(Lit::Str(text)) if pooler::is_dsn(text) => value.clone(),
            Value::Template(pieces) => {
                let database = pieces.iter().any(|piece| matches!(piece, Piece::Text(text) if is_head(text)));
                if database { self.filled(f, pieces, depth) } else { Value::Unknown }
            }
            Value::Param(index) => self.passed(f, *index, depth, &|f, value, depth| self.text(f, value, depth)),
            Value::TypeField(ty, name) => {
                match self.stored(ty, name, depth, &|f, value, depth| self.text(f, value, depth)) {
                    // read from a file by serde: the field is a key of the configuration
                    Value::Unknown if pooler::names_database(name) => value.clone(),
                    known => known,
                }
            }
            Value::Field(_, name) => match self.program.absolute(f, value) {
                absolute @ Value::TypeField(..) => match self.text(f, &absolute, depth + 1) {
                    // the path of keys tells more than the last one: `settings.database.url`
                    Value::TypeField(..) | Value::Unknown if pooler::names_database(&path_of(value)) => value.clone(),
                    known => known,
                },
                _ if pooler::names_database(name) || pooler::names_database(&path_of(value)) => value.clone(),
                _ => Value::Unknown,
            },
            Value::Call(call) => {
                let inner = self.first(call.args.iter().map(|argument| self.text(f, argument, depth + 1)));
                if inner == Value::Unknown && !call.name.starts_with('.') {
                    self.returned_text(call, depth)
                } else {
                    inner
                }
            }
            Value::Join(members) => self.all(members.iter().map(|member| self.text(f, member, depth + 1))),
            Value::Local(of, var) => {
                let inner = self.program.value(*of, &Operand::Var(Var(*var), Use::Ref));
                if inner == *value { Value::Unknown } else { self.text(*of, &inner, depth + 1) }
            }
            _ => Value::Unknown,
        }
    }

    fn returned_text(&self, call: &CallValue, depth: usize) -> Value {
        match self.program.find_path(&call.name)[..] {
            [callee] => self.text(callee, &self.program.return_value(callee), depth + 1),
            _ => Value::Unknown,
        }
    }

    /// A template with its holes followed to variables and constants.
    fn filled(&self, f: FunctionId, pieces: &[Piece], depth: usize) -> Value {
        let fill = |piece: &Piece| match piece {
            Piece::Hole(value) => Piece::Hole(self.plain(f, value, depth + 1)),
            text => text.clone(),
        };
        Value::Template(pieces.iter().map(fill).collect())
    }

    /// A part of an address: a constant or variable, followed through parameters and fields.
    fn plain(&self, f: FunctionId, value: &Value, depth: usize) -> Value {
        if depth > DEPTH {
            return Value::Unknown;
        }
        match value {
            Value::Const(_) | Value::Env(_) => value.clone(),
            Value::Param(index) => self.passed(f, *index, depth, &|f, value, depth| self.plain(f, value, depth)),
            Value::TypeField(ty, name) => self.stored(ty, name, depth, &|f, value, depth| self.plain(f, value, depth)),
            Value::Field(..) => match self.program.absolute(f, value) {
                absolute @ Value::TypeField(..) => self.plain(f, &absolute, depth + 1),
                _ => Value::Unknown,
            },
            Value::Call(call) => self.first(call.args.iter().map(|argument| self.plain(f, argument, depth + 1))),
            _ => Value::Unknown,
        }
    }

    /// What is stored in a field, each followed in the function that stores it.
    fn stored(&self, ty: &str, name: &str, depth: usize, follow: &dyn Fn(FunctionId, &Value, usize) -> Value) -> Value {
        let values = self.program.field_values(ty, name);
        let same = |value: &Value| matches!(value, Value::TypeField(t, n) if t == ty && n == name);
        let own: Vec<_> = values.iter().filter(|(f, value)| !same(&self.program.absolute(*f, value))).collect();
        self.all(own.into_iter().map(|(f, value)| follow(*f, value, depth + 1)))
    }

    /// What is passed for a parameter: by the call that leads here, else by all callers.
    fn passed(
        &self,
        f: FunctionId,
        index: u32,
        depth: usize,
        follow: &dyn Fn(FunctionId, &Value, usize) -> Value,
    ) -> Value {
        let value = Value::Param(index);
        if let Some((outer, value)) = self.program.outer(f, &value) {
            return follow(outer, &value, depth + 1);
        }
        let inner = self.via.iter().position(|site| site.function == f).filter(|at| *at > 0);
        let sites: Vec<Site> = match inner {
            Some(at) => vec![self.via[at - 1]],
            None => self
                .program
                .callers(f)
                .iter()
                .filter(|site| !self.program.function(site.function).test)
                .copied()
                .collect(),
        };
        if sites.len() > CALLERS {
            return Value::Unknown;
        }
        self.all(sites.into_iter().map(|site| {
            let OpKind::Call(call) = &self.program.function(site.function).op(site.at).kind else {
                return Value::Unknown;
            };
            let value = self.program.instantiate(&value, call, site.function);
            follow(site.function, &value, depth + 1)
        }))
    }

    fn first(&self, values: impl Iterator<Item = Value>) -> Value {
        let mut known = values.filter(|value| *value != Value::Unknown);
        known.next().unwrap_or(Value::Unknown)
    }

    /// The join of all; unknown if one is, or if there is none.
    fn all(&self, values: impl Iterator<Item = Value>) -> Value {
        values.reduce(Value::join).unwrap_or(Value::Unknown)
    }
}

/// The parts of an address as one template.
fn address(user: Option<Value>, host: Value, port: Option<Value>, database: Option<Value>) -> Value {
    let text = |text: &str| Piece::Text(text.to_owned());
    let hole = |value: Option<Value>| Piece::Hole(value.unwrap_or(Value::Unknown));
    let mut pieces = vec![text("postgres://"), hole(user), text("@"), Piece::Hole(host)];
    if let Some(port) = port {
        pieces.extend([text(":"), Piece::Hole(port)]);
    }
    if database.is_some() {
        pieces.extend([text("/"), hole(database)]);
    }
    Value::Template(pieces.into())
}

/// `Some(x)` as `x`.
fn peeled(value: &Value) -> &Value {
    match value {
        Value::Aggregate(name, fields) if name.ends_with("Some") && fields.len() == 1 => &fields[0].1,
        other => other,
    }
}

fn is_head(text: &str) -> bool {
    text.contains("postgres://") || text.contains("postgresql://") || text.contains("host=")
}

/// The names of a chain of fields.
fn path_of(value: &Value) -> String {
    match value {
        Value::Field(base, name) => match path_of(base) {
            outer if outer.is_empty() => name.clone(),
            outer => format!("{outer}.{name}"),
        },
        Value::TypeField(_, name) => name.clone(),
        _ => String::new(),
    }
}
