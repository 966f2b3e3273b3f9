//! Redis (and Valkey, KeyDB, Dragonfly): wire commands -> effects, replies by the type that the caller asks for.

mod wire;

pub use wire::Wire;

/// Words of the text search, and whether each makes a file worth parsing.
pub const WORDS: &[(&str, bool)] = &[
    ("\"nx\"", true),
    ("'nx'", true),
    (" nx ", true),
    ("::nx", true),
    ("conditional_set", true),
    ("setnx", true),
    ("set_if_not_exist", true),
    ("redis.call", true),
    ("redis.pcall", true),
    ("\"eval\"", true),
    ("\"evalsha\"", true),
    ("\"fcall\"", true),
    ("script::new", true),
    ("script::from_lua", true),
    ("invoke_script", true),
    ("evalsha", true),
    ("\"watch\"", true),
    ("watch_before", true),
    ("delifeq", true),
    ("delex", true),
    ("del_ex", true),
    ("ifeq", true),
    ("\"persist\"", false),
    ("\"expire\"", false),
    ("\"pexpire\"", false),
    ("\"del\"", false),
];

/// Commands that take a key if nobody has it.
const TAKING: &[&str] = &["SETNX", "MSETNX", "HSETNX"];

/// Whether the command with these wire words takes a key by its name alone, without options.
pub fn takes_by_name(wire: &[String]) -> bool {
    wire.first().is_some_and(|name| TAKING.contains(&name.as_str()))
}
