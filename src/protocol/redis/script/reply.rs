//! Replies of commands inside a script, and tests on them (redis.io, "Lua scripting", data type conversion: a nil reply is
//! `false`, a status reply a table with the field `ok`).

use super::run::Run;
use super::term::{Event, State, Term};

/// Commands that answer a string or nil.
const VALUES: &[&str] =
    &["GET", "HGET", "GETSET", "GETDEL", "GETEX", "LINDEX", "LPOP", "RPOP", "ZSCORE", "SPOP", "SRANDMEMBER", "ZRANK"];

/// Commands that answer 1 or 0 for one key or member.
const FLAGS: &[&str] = &[
    "SETNX",
    "HSETNX",
    "MSETNX",
    "EXISTS",
    "HEXISTS",
    "SISMEMBER",
    "EXPIRE",
    "PEXPIRE",
    "EXPIREAT",
    "PEXPIREAT",
    "PERSIST",
    "DEL",
    "UNLINK",
    "HDEL",
    "SADD",
    "SREM",
    "ZREM",
    "DELEX",
    "DELIFEQ",
    "RENAMENX",
];

/// The replies that a command can give, if they are few.
pub fn states(event: &Event) -> Vec<State> {
    match event.name.as_str() {
        "SET" if event.has_word(2, "GET") => vec![State::Present, State::Nil],
        "SET" if event.takes() || event.has_word(2, "XX") || event.has_word(2, "IFEQ") => vec![State::Ok, State::Nil],
        "SET" | "SETEX" | "PSETEX" | "MSET" | "HMSET" | "RENAME" => vec![State::Ok],
        name if VALUES.contains(&name) => vec![State::Present, State::Nil],
        name if FLAGS.contains(&name) && (event.args.len() == 1 || !matches!(name, "DEL" | "UNLINK" | "EXISTS")) => {
            vec![State::Number(1), State::Number(0)]
        }
        _ => Vec::new(),
    }
}

/// Commands whose reply is a number that has grown.
pub fn counts_up(event: &Event) -> bool {
    matches!(event.name.as_str(), "INCR" | "INCRBY" | "HINCRBY")
}

fn reads(name: &str) -> bool {
    VALUES.contains(&name) && !matches!(name, "GETSET" | "GETDEL" | "GETEX" | "LPOP" | "RPOP" | "SPOP")
        || matches!(name, "EXISTS" | "HEXISTS" | "SISMEMBER" | "TTL" | "PTTL" | "HGETALL" | "HMGET" | "TIME")
}

impl Run<'_> {
    /// `redis.call(name, ..)`
    pub(super) fn command(&mut self, args: Vec<Term>, offset: usize) -> Term {
        let mut args = args.into_iter();
        let name = match args.next() {
            Some(Term::Text(name)) => name.to_ascii_uppercase(),
            _ => String::new(),
        };
        let event = Event { name, args: args.collect(), offset, state: State::Open };
        // The same read again, with nothing written between, gives the same reply.
        if reads(&event.name) {
            let known = self.events.iter().enumerate().rev().take_while(|(_, past)| reads(&past.name));
            if let Some((n, _)) = known.into_iter().find(|(_, past)| past.name == event.name && past.args == event.args)
            {
                return Term::Reply(n);
            }
        }
        let n = self.events.len();
        let taken = event.takes();
        self.events.push(event);
        if taken {
            let states = match self.absent(n) {
                Some(true) => vec![states(&self.events[n])[0].clone()],
                _ => states(&self.events[n]),
            };
            self.events[n].state = self.choose(&states);
        } else if self.events[n].name == "SET" && self.events[n].has_word(2, "XX") && self.absent(n) == Some(false) {
            self.events[n].state = State::Ok;
        } else if matches!(self.events[n].name.as_str(), "DEL" | "UNLINK" | "EXPIRE" | "PEXPIRE" | "PERSIST")
            && self.events[n].args.len() <= 2
            && self.absent(n) == Some(false)
        {
            self.events[n].state = State::Number(1);
        }
        Term::Reply(n)
    }

    /// Whether the key of event `n` is known to be absent or present before it.
    fn absent(&self, n: usize) -> Option<bool> {
        let key = self.events[n].key();
        for past in self.events[..n].iter().rev().filter(|past| past.key() == key) {
            match (past.name.as_str(), &past.state) {
                ("EXISTS", State::Number(count)) => return Some(*count == 0),
                ("GET" | "GETSET", State::Nil) => return Some(true),
                ("GET" | "HGET" | "GETSET", State::Present) => return Some(false),
                ("HEXISTS", State::Number(1)) => return Some(false),
                ("SETNX", State::Number(_)) | ("SET", State::Ok) => return Some(false),
                ("SET" | "SETEX" | "PSETEX" | "HSET" | "HINCRBY" | "INCR" | "INCRBY", _) => return Some(false),
                ("GET" | "HGET" | "TTL" | "PTTL" | "EXISTS" | "HEXISTS" | "EXPIRE" | "PEXPIRE", _) => {}
                _ => return None,
            }
        }
        None
    }

    /// The state of a reply, decided now if it has few possible ones.
    fn state(&mut self, n: usize) -> State {
        if self.events[n].state == State::Open {
            let states = states(&self.events[n]);
            if !states.is_empty() {
                self.events[n].state = self.choose(&states);
            }
        }
        self.events[n].state.clone()
    }

    /// Lua's truth: only `nil` and `false` are false.
    pub(super) fn truthy(&mut self, term: &Term) -> bool {
        match term {
            Term::Nil | Term::Bool(false) => false,
            Term::Reply(n) => match self.state(*n) {
                State::Nil => false,
                State::Open => match self.events[*n].name.as_str() {
                    // Integers and arrays are true whatever they hold.
                    "TTL" | "PTTL" | "INCR" | "INCRBY" | "DECR" | "DECRBY" | "HINCRBY" | "LLEN" | "SCARD" | "ZCARD"
                    | "HGETALL" | "SMEMBERS" | "TIME" | "ZADD" | "LPUSH" | "RPUSH" => true,
                    _ => self.fact("truthy", term.clone(), Term::Nil),
                },
                _ => true,
            },
            // `reply.ok`, `reply.err`
            Term::Member(base, field) if matches!(field.as_str(), "ok" | "err") => match &**base {
                Term::Reply(n) => match self.state(*n) {
                    State::Ok => field == "ok",
                    _ => false,
                },
                _ => self.fact("truthy", term.clone(), Term::Nil),
            },
            Term::Member(base, _) => match &**base {
                Term::Reply(n) if self.events[*n].name == "TIME" => true,
                _ => self.fact("truthy", term.clone(), Term::Nil),
            },
            Term::Arg(n) if *n > 0 => true,
            Term::Apply(..) | Term::Arg(_) | Term::Key(_) | Term::Unknown | Term::Global(_) => {
                self.fact("truthy", term.clone(), Term::Nil)
            }
            _ => true,
        }
    }

    /// `a == b`
    pub(super) fn equal(&mut self, a: &Term, b: &Term) -> bool {
        match (a, b) {
            (Term::Reply(n), other) | (other, Term::Reply(n)) if !matches!(other, Term::Reply(_)) => {
                self.reply_equal(*n, other)
            }
            (Term::Member(base, field), other) | (other, Term::Member(base, field))
                if field == "ok" && matches!(**base, Term::Reply(_)) =>
            {
                let Term::Reply(n) = **base else { return false };
                match self.state(n) {
                    State::Ok => matches!(other, Term::Text(text) if text == "OK"),
                    State::Open => self.fact("==", a.clone(), b.clone()),
                    _ => matches!(other, Term::Nil),
                }
            }
            (Term::Bool(x), Term::Bool(y)) => x == y,
            (Term::Nil, Term::Nil) => true,
            (Term::Nil | Term::Bool(_), other) | (other, Term::Nil | Term::Bool(_)) => {
                let nil = matches!(a, Term::Nil) || matches!(b, Term::Nil);
                match other {
                    Term::Nil | Term::Bool(_) | Term::Number(_) | Term::Text(_) | Term::Table(_) => false,
                    // A key or argument is never a truth value, and nil only where it was not given.
                    Term::Arg(n) | Term::Key(n) if *n > 0 => false,
                    other if nil => !self.truthy(other),
                    _ => self.fact("==", a.clone(), b.clone()),
                }
            }
            (Term::Number(x), Term::Number(y)) => x == y,
            (Term::Text(x), Term::Text(y)) => x == y,
            // Loosely: scripts that compare a number with its text are meant to be equal.
            (Term::Number(_), Term::Text(_)) | (Term::Text(_), Term::Number(_)) => a.constant() == b.constant(),
            (a, b) if a == b && !matches!(a, Term::Unknown) => true,
            _ => {
                let holds = self.fact("==", a.clone(), b.clone());
                if holds {
                    self.present_in(a);
                    self.present_in(b);
                }
                holds
            }
        }
    }

    fn reply_equal(&mut self, n: usize, other: &Term) -> bool {
        match other {
            Term::Bool(false) | Term::Nil => {
                let name = self.events[n].name.as_str();
                if super::reply::states(&self.events[n]).is_empty() && !matches!(name, "TTL" | "PTTL") {
                    return self.fact("==", Term::Reply(n), other.clone());
                }
                // `nil` is never equal to the `false` of a nil reply, but is always meant so.
                self.state(n) == State::Nil
            }
            Term::Bool(true) => false,
            _ => match states(&self.events[n]).first() {
                Some(State::Number(_)) => match (self.state(n), other.constant()) {
                    (State::Number(n), Some(text)) => text.parse() == Ok(n),
                    _ => self.fact("==", Term::Reply(n), other.clone()),
                },
                Some(State::Ok) => match self.state(n) {
                    State::Ok => matches!(other, Term::Text(text) if text == "OK"),
                    _ => false,
                },
                _ => {
                    if self.events[n].state == State::Nil {
                        return false;
                    }
                    let holds = self.fact("==", Term::Reply(n), other.clone());
                    if holds {
                        self.present_in(&Term::Reply(n));
                    }
                    holds
                }
            },
        }
    }

    /// A value that equals something is there.
    fn present_in(&mut self, term: &Term) {
        for n in 0..self.events.len() {
            let there = matches!(states(&self.events[n]).first(), Some(State::Present));
            if there && self.events[n].state == State::Open && term.mentions(&|reply| reply == n) {
                self.events[n].state = State::Present;
            }
        }
    }

    /// `a < b` or `a <= b`
    pub(super) fn less(&mut self, operator: &'static str, a: Term, b: Term) -> bool {
        let number = |run: &mut Self, term: &Term| match term {
            Term::Number(n) => Some(*n),
            Term::Reply(n) if matches!(states(&run.events[*n]).first(), Some(State::Number(_))) => {
                match run.state(*n) {
                    State::Number(n) => Some(n as f64),
                    _ => None,
                }
            }
            _ => None,
        };
        match (number(self, &a), number(self, &b)) {
            (Some(x), Some(y)) => {
                if operator == "<" {
                    x < y
                } else {
                    x <= y
                }
            }
            _ => self.fact(operator, a, b),
        }
    }
}
