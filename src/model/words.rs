//! The words of the text search that decides which files are worth parsing.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::{Models, Role, Weight};

/// A word to search for, in lower case; the search ignores ASCII case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// Text in lower case.
    pub text: String,
    /// Which files it brings in.
    pub reach: Reach,
}

/// Which files a word brings in. A later one includes the earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// Those of packages near one that has a file with a stronger word.
    Near,
    /// Those of packages that reach a modelled client.
    Clients,
    /// Those of all packages: hardly anything but a lock in a store is called so, whatever crate stands between.
    Everywhere,
}

/// All words, sorted by text: those of the protocols, of the model files, and the names of rows that take a lock.
pub fn words() -> &'static [Word] {
    static WORDS: LazyLock<Vec<Word>> = LazyLock::new(|| of(Models::builtin()));
    &WORDS
}

/// Words of a set of models (the built-in ones with the user's own).
pub fn of(models: &Models) -> Vec<Word> {
    let mut words: BTreeMap<String, Reach> = BTreeMap::new();
    let mut add = |text: &str, reach: Reach| {
        let entry = words.entry(text.to_ascii_lowercase()).or_insert(reach);
        *entry = reach.max(*entry);
    };
    for (text, reach) in crate::protocol::words() {
        add(text, reach);
    }
    for file in &models.files {
        file.head.words.0.iter().for_each(|word| add(word, Reach::Clients));
        file.head.near.0.iter().for_each(|word| add(word, Reach::Near));
    }
    for row in &models.rows {
        let paths = row.path.0.iter().chain(&row.macros.0).map(|path| path.rsplit("::").next().unwrap_or(path));
        for name in paths.chain(row.method.0.iter().map(String::as_str)) {
            let takes = row.role == Role::Command && crate::protocol::redis::takes_by_name(&row.wire);
            match row.word {
                Some(Weight::Strong) => add(name, Reach::Clients),
                Some(Weight::Near) => add(name, Reach::Near),
                Some(Weight::None) => {}
                None if takes => {
                    add(name, Reach::Clients);
                    add(&format!(".{name}("), Reach::Everywhere);
                }
                None => {}
            }
        }
    }
    words.into_iter().map(|(text, reach)| Word { text, reach }).collect()
}

/// Whether a text holds a lock word (`lease`, but not in `release`). The name of a client crate alone is none: it makes a
/// file worth reading, but what could not be read need not be a lock for that.
pub fn lock_word_in(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    words().iter().filter(|word| word.reach > Reach::Near && !word.text.ends_with("::")).any(|word| {
        text.match_indices(&word.text).any(|(at, _)| {
            let inside = word.text.starts_with(|c: char| c.is_ascii_alphanumeric());
            !(inside && text[..at].ends_with(|c: char| c.is_ascii_alphanumeric()))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_cover_the_usual_forms() {
        let reach = |text: &str| {
            let text = text.to_ascii_lowercase();
            words().iter().filter(|w| text.contains(&w.text)).map(|w| w.reach).max()
        };
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
            assert!(reach(text) >= Some(Reach::Clients), "{text}");
        }
        for text in ["use sqlx::PgPool;", "redis::cmd(\"DEL\")", "use diesel::prelude::*;"] {
            assert_eq!(reach(text), Some(Reach::Near), "{text}");
        }
        for text in ["fn main() {}", "let x = map.get(&key);", "mutex.lock().unwrap()"] {
            assert_eq!(reach(text), None, "{text}");
        }
        assert_eq!(reach("funs.cache().set_nx(&key, &token)"), Some(Reach::Everywhere));
        assert_eq!(reach("house.query(\"SELECT pg_advisory_lock(1)\")"), Some(Reach::Everywhere));
    }
}
