//! The fixtures, damaged at random in ways that editors and merges damage files: nothing may panic, and the same text must
//! give the same answer twice. The seed is fixed, so a failure comes back; `MUTATIONS=50 cargo test --test mutations` does more.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "support/check.rs"]
#[allow(dead_code)]
mod check;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Xorshift: small, and the same everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n.max(1) as u64) as usize
    }
}

/// One damage. Works on characters, so that the text stays UTF-8.
fn damage(text: &str, random: &mut Random) -> String {
    let chars: Vec<char> = text.chars().collect();
    let lines: Vec<&str> = text.lines().collect();
    let at = random.below(chars.len());
    let to = (at + 1 + random.below(40)).min(chars.len());
    let line = random.below(lines.len());
    let join = |parts: &[&[char]]| parts.concat().into_iter().collect::<String>();
    match random.below(9) {
        0 => join(&[&chars[..at]]),
        1 => join(&[&chars[..at], &chars[to..]]),
        2 => join(&[&chars[..to], &chars[at..]]),
        3 => {
            let odd = ['"', '\'', '(', '{', '}', ')', '\\', '$', '-', '\u{0}', 'é', '\u{1f512}', '<', '#', ';'];
            join(&[&chars[..at], &[odd[random.below(odd.len())]], &chars[at..]])
        }
        4 => [&lines[..line], &["<<<<<<< HEAD"], &lines[line..], &["=======", ">>>>>>> theirs"]].concat().join("\n"),
        5 => [&lines[..line], &lines[(line + 1).min(lines.len())..]].concat().join("\n"),
        6 => [&lines[..line], &lines[line..], &lines[line..]].concat().join("\n"),
        7 => text.replace('\n', "\r\n"),
        _ => {
            let words: Vec<&str> = text.split_inclusive(|c: char| !c.is_alphanumeric() && c != '_').collect();
            if words.is_empty() {
                return text.to_owned();
            }
            let (a, b) = (random.below(words.len()), random.below(words.len()));
            let mut words = words;
            words.swap(a, b);
            words.concat()
        }
    }
}

fn inputs() -> Vec<PathBuf> {
    let known = ["rs", "sql", "lua", "ini", "toml", "yml", "yaml", "conf"];
    let mut paths = check::files(&check::repository("fixtures"));
    paths.retain(|path| path.extension().is_some_and(|e| known.iter().any(|k| e == *k)));
    paths
}

/// Damages one file some times; what went wrong.
fn check(index: usize, path: &Path, rounds: u64) -> Vec<String> {
    let Ok(original) = std::fs::read_to_string(path) else { return Vec::new() };
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ ((index as u64 + 1) << 20));
    let mut failed = Vec::new();
    for round in 0..rounds {
        let mut text = original.clone();
        for _ in 0..=random.below(3) {
            text = damage(&text, &mut random);
        }
        let texts = BTreeMap::from([(name.clone(), text)]);
        let run = || check::found(&check::run_texts(&texts, None));
        match std::panic::catch_unwind(|| (run(), run())) {
            Ok((first, second)) if first == second => {}
            Ok(_) => failed.push(format!("{} round {round}: two runs differ", path.display())),
            Err(_) => failed.push(format!("{} round {round}: panics on\n{}", path.display(), texts[&name])),
        }
    }
    failed
}

#[test]
fn damaged_files_never_panic() {
    let rounds: u64 = std::env::var("MUTATIONS").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    let inputs = inputs();
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    // Threads, not rayon's: a worker that waits for the pool of the run would begin the next file on the same stack.
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(path) = inputs.get(index) else { return };
                    failures.lock().unwrap().extend(check(index, path, rounds));
                }
            });
        }
    });
    let mut failures = failures.into_inner().unwrap();
    failures.sort();
    assert!(failures.is_empty(), "{} failures, the first:\n{}", failures.len(), failures[0]);
}
