//! Options of SET and GETEX, in any order and case.

use super::command::Arg;
use crate::ir::{TimeUnit, Ttl, Value};
use crate::protocol::ttl;

/// Whether an option is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Seen {
    #[default]
    No,
    Maybe,
    Yes,
}

/// Options of SET and GETEX.
#[derive(Debug, Default)]
pub struct SetOptions {
    pub absent: Seen,
    pub present: bool,
    pub get: bool,
    pub keep: bool,
    pub equal: Option<Value>,
    expiry: Option<Ttl>,
    expiry_conditional: bool,
    /// An argument in option position that is no constant word.
    pub unread: bool,
    pub words: Vec<String>,
}

impl SetOptions {
    /// Reads the option at `i`; returns how many arguments it takes.
    pub fn read(&mut self, args: &[Arg], i: usize) -> usize {
        let arg = &args[i];
        let Some(word) = arg.word().filter(|_| !arg.many) else {
            self.unread = true;
            return 1;
        };
        let next = args.get(i + 1).map_or(Value::Unknown, |arg| arg.value.clone());
        let taken = match word.as_str() {
            "NX" => {
                self.absent = if arg.conditional { Seen::Maybe } else { Seen::Yes };
                1
            }
            "XX" => {
                self.present = true;
                1
            }
            "GET" => {
                self.get = true;
                1
            }
            "KEEPTTL" => {
                self.keep = true;
                1
            }
            "EX" | "PX" | "EXAT" | "PXAT" => {
                let unit = match word.as_str() {
                    "EX" => TimeUnit::Seconds,
                    "PX" => TimeUnit::Milliseconds,
                    "EXAT" => TimeUnit::UnixSeconds,
                    _ => TimeUnit::UnixMilliseconds,
                };
                self.expiry_conditional |= arg.conditional;
                self.expiry = Some(ttl(next, unit));
                2
            }
            "IFEQ" | "IFDEQ" => {
                self.equal = Some(next);
                2
            }
            "IFNE" | "IFDNE" => {
                self.unread = true;
                2
            }
            "PERSIST" => 1,
            _ => {
                self.unread = true;
                return 1;
            }
        };
        self.words.push(word);
        taken
    }

    /// The expiry that the options set.
    pub fn ttl(&self) -> Ttl {
        match &self.expiry {
            Some(_) if self.expiry_conditional => Ttl::Unknown,
            Some(ttl) => ttl.clone(),
            None if self.unread => Ttl::Unknown,
            None => Ttl::Never,
        }
    }
}
