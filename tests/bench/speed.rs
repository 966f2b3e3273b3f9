//! How long a run takes, as a ratio to two things that cannot be avoided.
//!
//! `cargo bench --bench speed -- FOLDER [ROUNDS]` measures, each the best of some rounds on the same folder:
//! the program itself; `rg -c` with the words it selects files by; reading and parsing the Rust files that have such a word.
//! On Linux it also prints the program's peak memory beside the bytes in the folder.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use leaselint::model::Models;
use rayon::prelude::*;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let Some(folder) = args.first() else {
        println!("usage: cargo bench --bench speed -- FOLDER [ROUNDS]");
        return;
    };
    let rounds: u32 = args.get(1).map_or(3, |n| n.parse().expect("ROUNDS is a number"));
    let words: Vec<String> = leaselint::model::words_of(Models::builtin())
        .into_iter()
        .filter(|word| word.reach > leaselint::model::Reach::Near)
        .map(|word| word.text)
        .collect();

    let mut peak = 0;
    let own = best(rounds, || peak = peak.max(leaselint(folder)));
    println!("leaselint        {:>8.3} s{}", own.as_secs_f64(), memory(peak));
    if has_rg() {
        let search = best(rounds, || search(folder, &words, "-c").map_or((), drop));
        println!("rg -c            {:>8.3} s, ratio {:.2}", search.as_secs_f64(), ratio(own, search));
        let hits = search_hits(folder, &words);
        let parse = best(rounds, || parse(&hits));
        let bytes: u64 = hits.iter().filter_map(|path| path.metadata().ok()).map(|meta| meta.len()).sum();
        let size = bytes as f64 / 1e6;
        println!(
            "read and parse   {:>8.3} s, ratio {:.2} ({} files, {size:.1} MB)",
            parse.as_secs_f64(),
            ratio(own, parse),
            hits.len()
        );
    } else {
        println!("rg is not installed: nothing to compare with");
    }
}

fn best(rounds: u32, mut work: impl FnMut()) -> Duration {
    let times = (0..rounds.max(1)).map(|_| {
        let start = Instant::now();
        work();
        start.elapsed()
    });
    times.min().unwrap_or_default()
}

fn ratio(own: Duration, other: Duration) -> f64 {
    own.as_secs_f64() / other.as_secs_f64().max(1e-6)
}

fn memory(peak: u64) -> String {
    if peak == 0 { String::new() } else { format!(", peak memory {} MB", peak / 1024) }
}

/// Runs the program; its peak memory in KB, as far as it was seen from outside.
fn leaselint(folder: &str) -> u64 {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-leaselint"));
    let command = command.args(["leaselint", "--exit-zero", "--format", "json"]).arg(folder);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program starts");
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    loop {
        if let Some(status) = child.try_wait().expect("the program can be waited for") {
            assert!(status.success(), "the program failed: {status}");
            return peak;
        }
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        peak = peak.max(line.and_then(|kb| kb.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0));
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn has_rg() -> bool {
    Command::new("rg").arg("--version").stdout(Stdio::null()).status().is_ok_and(|status| status.success())
}

fn search(folder: &str, words: &[String], mode: &str) -> Option<String> {
    let mut command = Command::new("rg");
    command.args([mode, "--ignore-case", "--fixed-strings", "--hidden", "--no-messages"]);
    for word in words {
        command.args(["-e", word]);
    }
    let output = command.arg(folder).output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn search_hits(folder: &str, words: &[String]) -> Vec<PathBuf> {
    let listing = search(folder, words, "-l").unwrap_or_default();
    let mut hits: Vec<PathBuf> = listing.lines().map(PathBuf::from).collect();
    hits.retain(|path| path.extension().is_some_and(|e| e == "rs"));
    hits.sort();
    hits
}

/// Reads and parses in parallel; on threads that can hold deep syntax.
fn parse(paths: &[PathBuf]) {
    let pool = rayon::ThreadPoolBuilder::new().stack_size(64 << 20).build().expect("threads start");
    let parsed: usize = pool.install(|| {
        paths
            .par_iter()
            .filter(|path| std::fs::read_to_string(path).is_ok_and(|text| syn::parse_file(&text).is_ok()))
            .count()
    });
    assert!(parsed <= paths.len());
}
