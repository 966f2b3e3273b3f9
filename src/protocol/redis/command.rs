//! Wire commands -> effects. Facts are those of the command pages at redis.io/commands and valkey.io/commands.

use super::known::{NEUTRAL, READS, WRITES, found};
use super::options::{Seen, SetOptions};
use crate::ir::{
    Acquire, AcquireForm, Backend, Effect, EffectKind, Expire, External, Lit, LockKind, OwnerCheck, Release, Renew,
    Resource, Safety, TimeUnit, Ttl, Value, Write,
};
use crate::protocol::ttl;
use crate::source::Span;

/// A command with its arguments as they go over the wire.
#[derive(Clone, Debug, PartialEq)]
pub struct Command {
    /// Name in upper case, two words for containers (`SCRIPT LOAD`); empty when it is not a constant.
    pub name: String,
    /// Arguments after the name.
    pub args: Vec<Arg>,
    /// Where the name is written.
    pub span: Span,
    /// Queued only under a condition.
    pub conditional: bool,
    /// Its reply is left out of a pipeline's reply.
    pub ignored: bool,
}

/// One argument.
#[derive(Clone, Debug, PartialEq)]
pub struct Arg {
    /// Value.
    pub value: Value,
    /// Given only under a condition.
    pub conditional: bool,
    /// Stands for any number of wire arguments (a slice or vector that is not known).
    pub many: bool,
}

impl Arg {
    /// A plain argument.
    pub fn new(value: Value) -> Arg {
        Arg { value, conditional: false, many: false }
    }

    /// The constant text in upper case, for option words.
    pub(super) fn word(&self) -> Option<String> {
        self.value.as_str().map(str::to_ascii_uppercase)
    }
}

/// What the server answers in one world, before the client converts it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wire {
    /// Status, `OK`.
    Status(String),
    /// Nil.
    Nil,
    /// Integer.
    Int(i64),
    /// Some string whose text is not known.
    Bulk,
    /// A stored string that someone else wrote.
    Stored,
    /// A string.
    Text(String),
    /// Array.
    Array(Vec<Wire>),
    /// An error reply.
    Error,
    /// Not known, and not part of a lock's reply.
    Unknown,
    /// One of several that the lock's outcome does not decide.
    Mixed,
}

/// Effects of one command and its replies.
#[derive(Clone, Debug, PartialEq)]
pub struct Meaning {
    /// Effects in order.
    pub effects: Vec<Effect>,
    /// Replies where the lock effect succeeds and where it does not; of a read, where there is a value and where there is none.
    pub replies: Option<(Wire, Wire)>,
}

/// How an unset reply type is read where that decides what a command is for (SADD).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// The reply is looked at as a number or truth value.
    Tested,
    /// It is thrown away or unknown.
    Other,
}

/// The key that stands for one field of a hash or one member of a set: `field(key, name)`. Its first operand is the
/// server's key, which an EXPIRE goes by.
pub fn member(key: Value, name: Value) -> Value {
    Value::Operation("field".into(), vec![key, name].into())
}

impl Command {
    /// Argument `n`, unknown if there is none.
    fn value(&self, n: usize) -> Value {
        self.args.get(n).map_or(Value::Unknown, |arg| arg.value.clone())
    }

    fn effect(&self, command: &str, kind: EffectKind) -> Effect {
        Effect { span: self.span, command: command.to_owned(), kind, conditional: self.conditional }
    }

    fn only(&self, kind: EffectKind) -> Meaning {
        Meaning { effects: vec![self.effect(&self.name, kind)], replies: None }
    }

    fn write(&self, ttl: Option<Ttl>, safety: Safety) -> Effect {
        let values = self.args.iter().skip(1).map(|arg| arg.value.clone()).collect();
        let resource = Resource::Key(Backend::Redis, self.value(0));
        self.effect(&self.name, EffectKind::Write(Write::new(resource, &self.name, safety, values, ttl)))
    }

    fn acquire(&self, shown: &str, key: Value, token: Value, ttl: Ttl) -> Effect {
        let form = AcquireForm::SetIfAbsent;
        let (backend, kind) = (Backend::Redis, LockKind::Lease);
        self.effect(shown, EffectKind::Acquire(Acquire { backend, kind, form, key, token, ttl, blocking: false }))
    }

    fn release(&self, shown: &str, key: Value, check: OwnerCheck) -> Effect {
        let (backend, kind) = (Backend::Redis, LockKind::Lease);
        self.effect(shown, EffectKind::Release(Release { backend, kind, key, check, all: false }))
    }

    /// What the command does. `None` for a command that is not known.
    pub fn meaning(&self, reading: Reading) -> Option<Meaning> {
        let one_zero = Some((Wire::Int(1), Wire::Int(0)));
        let meaning = match self.name.as_str() {
            "SET" => self.set(),
            "SETNX" => Meaning {
                effects: vec![self.acquire("SETNX", self.value(0), self.value(1), Ttl::Never)],
                replies: one_zero,
            },
            "MSETNX" => {
                let pairs = self.args.chunks(2);
                let token = |pair: &[Arg]| pair.get(1).map_or(Value::Unknown, |arg| arg.value.clone());
                let effects =
                    pairs.map(|pair| self.acquire("MSETNX", pair[0].value.clone(), token(pair), Ttl::Never)).collect();
                Meaning { effects, replies: one_zero }
            }
            "HSETNX" => {
                let key = member(self.value(0), self.value(1));
                Meaning { effects: vec![self.acquire("HSETNX", key, self.value(2), Ttl::Never)], replies: one_zero }
            }
            // SADD answers how many members were new: a test on it makes the member a claim.
            "SADD" if reading == Reading::Tested && self.args.len() == 2 && !self.args[1].many => {
                let key = member(self.value(0), self.value(1));
                Meaning { effects: vec![self.acquire("SADD", key, self.value(1), Ttl::Never)], replies: one_zero }
            }
            "SADD" => Meaning { effects: vec![self.write(None, Safety::Unique)], replies: None },
            "RENAMENX" => Meaning {
                effects: vec![self.acquire("RENAMENX", self.value(1), Value::Unknown, Ttl::Unknown)],
                replies: one_zero,
            },
            "SETEX" | "PSETEX" => {
                let unit = if self.name == "SETEX" { TimeUnit::Seconds } else { TimeUnit::Milliseconds };
                let resource = Resource::Key(Backend::Redis, self.value(0));
                let ttl = Some(ttl(self.value(1), unit));
                let write = Write::new(resource, &self.name, Safety::None, vec![self.value(2)], ttl);
                self.only(EffectKind::Write(write))
            }
            "GETSET" => Meaning { effects: vec![self.write(None, Safety::None)], replies: None },
            "GETDEL" => Meaning {
                effects: vec![self.release("GETDEL", self.value(0), OwnerCheck::None)],
                replies: Some((Wire::Bulk, Wire::Nil)),
            },
            "DEL" | "UNLINK" => Meaning {
                effects: self
                    .args
                    .iter()
                    .map(|arg| self.release(&self.name, arg.value.clone(), OwnerCheck::None))
                    .collect(),
                replies: one_zero,
            },
            "DELEX" => {
                let check = match self.args.get(1).and_then(Arg::word).as_deref() {
                    Some("IFEQ" | "IFDEQ") => OwnerCheck::Token(self.value(2)),
                    Some(_) => OwnerCheck::None,
                    None if self.args.len() == 1 => OwnerCheck::None,
                    None => OwnerCheck::Unknown,
                };
                Meaning { effects: vec![self.release("DELEX", self.value(0), check)], replies: one_zero }
            }
            "DELIFEQ" => Meaning {
                effects: vec![self.release("DELIFEQ", self.value(0), OwnerCheck::Token(self.value(1)))],
                replies: one_zero,
            },
            // HDEL of a field gives back what HSETNX took, SREM of a member what SADD took; both are ordinary writes too.
            "HDEL" | "SREM" if self.args.len() == 2 => {
                let key = member(self.value(0), self.value(1));
                Meaning {
                    effects: vec![self.release(&self.name, key, OwnerCheck::None), self.write(None, Safety::None)],
                    replies: one_zero,
                }
            }
            "EXPIRE" | "PEXPIRE" | "EXPIREAT" | "PEXPIREAT" => self.expire(),
            "PERSIST" => {
                let expire = Expire { key: self.value(0), ttl: Ttl::Never, only_if_none: false };
                Meaning { effects: vec![self.effect("PERSIST", EffectKind::Expire(expire))], replies: one_zero }
            }
            "GETEX" => self.getex(),
            "INCR" | "DECR" | "INCRBY" | "DECRBY" | "INCRBYFLOAT" | "INCREX" => Meaning {
                effects: vec![
                    self.effect(&self.name, EffectKind::Issue(self.value(0))),
                    self.write(None, Safety::None),
                ],
                replies: None,
            },
            "WATCH" => Meaning {
                effects: self
                    .args
                    .iter()
                    .map(|arg| self.effect("WATCH", EffectKind::Watch(arg.value.clone())))
                    .collect(),
                replies: None,
            },
            "MULTI" => self.only(EffectKind::Begin),
            "EXEC" => self.only(EffectKind::Commit),
            "DISCARD" => self.only(EffectKind::Rollback),
            "PUBLISH" | "SPUBLISH" => self.only(EffectKind::External(External {
                what: "publish".into(),
                target: self.value(0),
                idempotency: None,
            })),
            name if READS.contains(&name) => Meaning {
                effects: vec![self.effect(name, EffectKind::Read(Resource::Key(Backend::Redis, self.value(0))))],
                replies: found(name),
            },
            name if WRITES.contains(&name) => Meaning { effects: vec![self.write(None, Safety::None)], replies: None },
            name if NEUTRAL.contains(&name.split(' ').next().unwrap_or(name)) => {
                Meaning { effects: Vec::new(), replies: None }
            }
            _ => return None,
        };
        Some(meaning)
    }

    /// `SET key value [NX | XX | IFEQ v | IFNE v | IFDEQ d | IFDNE d] [GET] [EX s | PX ms | EXAT s | PXAT ms | KEEPTTL]`,
    /// options in any order and case.
    fn set(&self) -> Meaning {
        let mut options = SetOptions::default();
        let mut i = 2;
        while i < self.args.len() {
            i += options.read(&self.args, i);
        }
        let (key, value) = (self.value(0), self.value(1));
        let ttl = options.ttl();
        let mut shown = "SET".to_owned();
        options.words.iter().for_each(|word| {
            shown.push(' ');
            shown.push_str(word);
        });
        let won = || Wire::Status("OK".into());
        if options.absent == Seen::Yes {
            // With GET the old value comes back: nil means that there was none, so the key was set.
            let replies = if options.get { (Wire::Nil, Wire::Bulk) } else { (won(), Wire::Nil) };
            let ttl = match ttl {
                Ttl::Unknown if options.keep => Ttl::Never,
                ttl => ttl,
            };
            return Meaning { effects: vec![self.acquire(&shown, key, value, ttl)], replies: Some(replies) };
        }
        let resource = Resource::Key(Backend::Redis, key.clone());
        let write_ttl = match &ttl {
            Ttl::Never if !options.keep => None,
            other => Some(other.clone()),
        };
        if let Some(expected) = options.equal {
            let replies = Some(if options.get { (Wire::Bulk, Wire::Bulk) } else { (won(), Wire::Nil) });
            let kind = if write_ttl.is_some() || options.keep {
                let ttl = if options.keep { Ttl::Unknown } else { ttl };
                EffectKind::Renew(Renew { backend: Backend::Redis, key, check: OwnerCheck::Token(expected), ttl })
            } else {
                let safety = Safety::Conditions(vec![("value".into(), "=".into(), expected)]);
                EffectKind::Write(Write::new(resource, &shown, safety, vec![value], None))
            };
            return Meaning { effects: vec![self.effect(&shown, kind)], replies };
        }
        // Options that are not known may hold NX: then nothing can be said of the command.
        let safety = if options.unread || options.absent == Seen::Maybe { Safety::Unknown } else { Safety::None };
        let replies = options.present.then(|| (won(), Wire::Nil));
        // `SET .. XX EX n` gives a key that is there a new expiry, whoever wrote it.
        let prolongs = options.present && matches!(write_ttl, Some(Ttl::After(..)));
        let expire = Expire { key, ttl: ttl.clone(), only_if_none: false };
        let write = Write::new(resource, &shown, safety, vec![value], write_ttl);
        let mut effects = vec![self.effect(&shown, EffectKind::Write(write))];
        if prolongs {
            effects.push(self.effect(&shown, EffectKind::Expire(expire)));
        }
        Meaning { effects, replies }
    }

    /// `EXPIRE key n [NX | XX | GT | LT]`
    fn expire(&self) -> Meaning {
        let unit = match self.name.as_str() {
            "EXPIRE" => TimeUnit::Seconds,
            "PEXPIRE" => TimeUnit::Milliseconds,
            "EXPIREAT" => TimeUnit::UnixSeconds,
            _ => TimeUnit::UnixMilliseconds,
        };
        let only_if_none = self.args.iter().skip(2).any(|arg| arg.word().as_deref() == Some("NX"));
        let ttl = ttl(self.value(1), unit);
        // "a key with a non-positive expiry is deleted rather than expired" (EXPIRE command page).
        let gone = match &ttl {
            Ttl::After(Value::Const(Lit::Int(n)), _) => *n <= 0,
            Ttl::After(Value::Const(Lit::Duration(n)), _) => *n == 0,
            _ => false,
        };
        let effect = if gone {
            self.release(&self.name, self.value(0), OwnerCheck::None)
        } else {
            self.effect(&self.name, EffectKind::Expire(Expire { key: self.value(0), ttl, only_if_none }))
        };
        Meaning { effects: vec![effect], replies: Some((Wire::Int(1), Wire::Int(0))) }
    }

    /// `GETEX key [EX s | PX ms | EXAT s | PXAT ms | PERSIST]`
    fn getex(&self) -> Meaning {
        let mut options = SetOptions::default();
        let mut i = 1;
        while i < self.args.len() {
            i += options.read(&self.args, i);
        }
        let mut effects = vec![self.effect("GETEX", EffectKind::Read(Resource::Key(Backend::Redis, self.value(0))))];
        if self.args.len() > 1 {
            let expire = Expire { key: self.value(0), ttl: options.ttl(), only_if_none: false };
            effects.push(self.effect("GETEX", EffectKind::Expire(expire)));
        }
        Meaning { effects, replies: Some((Wire::Bulk, Wire::Nil)) }
    }
}
