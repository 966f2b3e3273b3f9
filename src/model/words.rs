//! The words of the text search that decides which files are worth parsing.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::{Models, Role, Weight};

/// A word to search for, in lower case; the search ignores ASCII case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// Text in lower case.
    pub text: String,
    /// Makes a file worth parsing; other words only tell that a file may matter for one that is.
    pub strong: bool,
}

/// All words, sorted by text: those of the protocols, of the model files, and the names of rows that take a lock.
pub fn words() -> &'static [Word] {
    static WORDS: LazyLock<Vec<Word>> = LazyLock::new(|| of(Models::builtin()));
    &WORDS
}

/// Words of a set of models (the built-in ones with the user's own).
pub fn of(models: &Models) -> Vec<Word> {
    let mut words: BTreeMap<String, bool> = BTreeMap::new();
    let mut add = |text: &str, strong: bool| {
        let entry = words.entry(text.to_ascii_lowercase()).or_insert(false);
        *entry |= strong;
    };
    for (text, strong) in crate::protocol::words() {
        add(text, strong);
    }
    for file in &models.files {
        file.head.words.0.iter().for_each(|word| add(word, true));
    }
    for row in &models.rows {
        let names = row.path.0.iter().chain(&row.macros.0).map(|path| (path.rsplit("::").next().unwrap_or(path), true));
        let names = names.chain(row.method.0.iter().map(|name| (name.as_str(), false)));
        for (name, _) in names {
            let takes = row.role == Role::Command && crate::protocol::redis::takes_by_name(&row.wire);
            match row.word {
                Some(Weight::Strong) => add(name, true),
                Some(Weight::Weak) => add(name, false),
                Some(Weight::None) => {}
                None if takes => add(name, true),
                None => {}
            }
        }
    }
    words.into_iter().map(|(text, strong)| Word { text, strong }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_cover_the_usual_forms() {
        let strong = |text: &str| words().iter().any(|w| w.strong && text.to_ascii_lowercase().contains(&w.text));
        for text in [
            "conn.set_nx(&key, 1)",
            ".arg(\"NX\")",
            "ExistenceCheck::NX",
            "SetOptions::NX",
            "SELECT pg_try_advisory_lock($1)",
            "FOR UPDATE SKIP LOCKED",
            "select get_lock(?, 10)",
            "redis.call('set', KEYS[1], ARGV[1], 'NX')",
            "use rslock::LockManager;",
            "Script::new(UNLOCK)",
            "cmd(\"EVAL\")",
        ] {
            assert!(strong(text), "{text}");
        }
        for text in ["fn main() {}", "let x = map.get(&key);", "mutex.lock().unwrap()"] {
            assert!(!strong(text), "{text}");
        }
    }
}
