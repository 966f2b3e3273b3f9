//! Values inside a script, as terms over `KEYS`, `ARGV` and command replies.

use std::sync::Arc;

use crate::frontend::lua::tree::Function;

/// A term.
#[derive(Clone, Debug, PartialEq)]
pub enum Term {
    /// `nil`
    Nil,
    /// `true`, `false`
    Bool(bool),
    /// A number.
    Number(f64),
    /// A string.
    Text(String),
    /// `KEYS[n]`, counted from 1; 0 for one that is not known.
    Key(usize),
    /// `ARGV[n]`, counted from 1; 0 for one that is not known.
    Arg(usize),
    /// The table `KEYS`.
    Keys,
    /// The table `ARGV`.
    Args,
    /// Reply of the command with this number on the path.
    Reply(usize),
    /// Field or member of a term.
    Member(Box<Term>, String),
    /// `cjson.decode(x)`, `cmsgpack.unpack(x)`, `struct.unpack`
    Decoded(Box<Term>),
    /// `a .. b`
    Concat(Vec<Term>),
    /// Arithmetic, or a library function, of terms.
    Apply(String, Vec<Term>),
    /// A table.
    Table(Vec<(Term, Term)>),
    /// A function of the script.
    Function(Arc<Function>),
    /// A global: `redis`, `redis.call`, `string.find`.
    Global(String),
    /// Not known.
    Unknown,
}

impl Term {
    /// Whether a reply that satisfies `want` is part of the term.
    pub fn mentions(&self, want: &dyn Fn(usize) -> bool) -> bool {
        match self {
            Term::Reply(n) => want(*n),
            Term::Member(inner, _) | Term::Decoded(inner) => inner.mentions(want),
            Term::Concat(list) | Term::Apply(_, list) => list.iter().any(|term| term.mentions(want)),
            Term::Table(fields) => fields.iter().any(|(key, value)| key.mentions(want) || value.mentions(want)),
            _ => false,
        }
    }

    /// Whether `part` (not a constant) is the term or stands inside it.
    pub fn contains(&self, part: &Term) -> bool {
        matches!(part, Term::Arg(n) if *n > 0)
            && (self == part
                || match self {
                    Term::Member(inner, _) | Term::Decoded(inner) => inner.contains(part),
                    Term::Concat(list) | Term::Apply(_, list) => list.iter().any(|term| term.contains(part)),
                    _ => false,
                })
    }

    /// Constant text, with numbers as Redis would see them.
    pub fn constant(&self) -> Option<String> {
        match self {
            Term::Text(text) => Some(text.clone()),
            Term::Number(n) => Some(integer(*n).map_or_else(|| n.to_string(), |n| n.to_string())),
            _ => None,
        }
    }
}

/// The whole number that a Lua number is, if it is one.
pub fn integer(n: f64) -> Option<i64> {
    (n.fract() == 0.0 && n.abs() < 9e15).then_some(n as i64)
}

/// A comparison that the path has decided.
#[derive(Clone, Debug, PartialEq)]
pub struct Fact {
    /// `==`, `<`, `<=` or `truthy` (right side `Nil`).
    pub operator: &'static str,
    /// Left side.
    pub left: Term,
    /// Right side.
    pub right: Term,
    /// Whether it holds on this path.
    pub holds: bool,
    /// How many commands had run before.
    pub after: usize,
}

/// What is known of a command's reply.
#[derive(Clone, Debug, PartialEq)]
pub enum State {
    /// Nothing yet.
    Open,
    /// Status `OK`.
    Ok,
    /// Nil, which Lua sees as `false`.
    Nil,
    /// An integer.
    Number(i64),
    /// Some value.
    Present,
}

/// A command that the path has run.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Name in upper case.
    pub name: String,
    /// Arguments.
    pub args: Vec<Term>,
    /// Byte offset of the call in the script.
    pub offset: usize,
    /// What is known of its reply.
    pub state: State,
}

impl Event {
    /// The key: the first argument.
    pub fn key(&self) -> &Term {
        self.args.first().unwrap_or(&Term::Unknown)
    }

    /// An option word among the arguments from position `from`.
    pub fn has_word(&self, from: usize, word: &str) -> bool {
        self.args.iter().skip(from).any(|arg| matches!(arg, Term::Text(text) if text.eq_ignore_ascii_case(word)))
    }

    /// The command takes its key only if there is none.
    pub fn takes(&self) -> bool {
        match self.name.as_str() {
            "SETNX" | "HSETNX" | "MSETNX" => true,
            "SET" => self.has_word(2, "NX"),
            _ => false,
        }
    }
}

/// One way through a script.
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    /// Commands in order.
    pub events: Vec<Event>,
    /// Decided comparisons in order.
    pub facts: Vec<Fact>,
    /// What the script returns.
    pub result: Term,
}
