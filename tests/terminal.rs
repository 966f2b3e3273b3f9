//! Manners on a terminal: colours, width, completion scripts as the shells take them. What is not installed is not tried.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "support/check.rs"]
#[allow(dead_code)]
mod check;

use std::process::{Command, Stdio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_cargo-leaselint");

/// What a program prints; `None` where it is not installed.
fn output(program: &str, args: &[&str], env: &[(&str, &str)]) -> Option<String> {
    let mut command = Command::new(program);
    for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "CI"] {
        command.env_remove(name);
    }
    command.env("TERM", "xterm").envs(env.iter().copied()).stdin(Stdio::null()).args(args);
    let output = command.current_dir(check::repository("fixtures/programs/orders")).output();
    let Ok(output) = output else {
        eprintln!("{program} is not installed");
        return None;
    };
    Some(String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr))
}

/// What is printed on a terminal of some columns, by `script` of util-linux.
fn on_terminal(args: &str, columns: usize, env: &[(&str, &str)]) -> Option<String> {
    let line = format!("stty rows 40 cols {columns}; {PROGRAM} leaselint --rule bare-del {args}");
    output("script", &["-qec", &line, "/dev/null"], env)
}

const COLOR: &str = "\u{1b}[";

#[test]
fn colours_only_where_they_are_wanted() {
    type Variables<'a> = &'a [(&'a str, &'a str)];
    let cases: [(&str, Variables<'_>, bool); 8] = [
        ("", &[], true),
        ("--color never", &[], false),
        ("", &[("NO_COLOR", "1")], false),
        ("", &[("NO_COLOR", "")], true),
        ("", &[("CLICOLOR", "0")], false),
        ("", &[("TERM", "dumb")], false),
        ("", &[("NO_COLOR", "1"), ("CLICOLOR_FORCE", "1")], false),
        ("--color always", &[("NO_COLOR", "1")], true),
    ];
    for (args, env, colored) in cases {
        let Some(text) = on_terminal(args, 100, env) else { return };
        assert_eq!(text.contains(COLOR), colored, "{args} {env:?}\n{text}");
    }
    let piped = |args: &[&str], env: &[(&str, &str)]| {
        let all = [&["leaselint", "--rule", "bare-del"], args].concat();
        output(PROGRAM, &all, env).unwrap().contains(COLOR)
    };
    assert!(!piped(&[], &[]) && piped(&[], &[("CLICOLOR_FORCE", "1")]) && piped(&["--color", "always"], &[]));
    for format in ["json", "sarif", "cargo", "github"] {
        assert!(!piped(&["--format", format, "--color", "always"], &[]), "{format}");
    }
}

#[test]
fn text_fits_the_terminal() {
    for columns in [70, 100, 140] {
        let Some(text) = on_terminal("", columns, &[("NO_COLOR", "1")]) else { return };
        let (_, notes) = text.split_once("= how it fails").unwrap();
        let notes = notes.split("\r\n\r\n").next().unwrap();
        let widest = notes.lines().map(|line| line.trim_end().chars().count()).max().unwrap();
        assert!(widest <= columns && widest > columns - 30, "{columns}: {widest}\n{text}");
    }
}

#[test]
fn nothing_but_the_report_goes_to_standard_output() {
    let Some(text) = output("bash", &["-c", &format!("{PROGRAM} leaselint --format json 2>/dev/null")], &[]) else {
        return;
    };
    serde_json::from_str::<serde_json::Value>(&text).unwrap();
}

fn completions(shell: &str) -> std::path::PathBuf {
    let path = std::env::temp_dir().join(format!("leaselint-completions-{}-{shell}", std::process::id()));
    std::fs::write(&path, output(PROGRAM, &["leaselint", "--completions", shell], &[]).unwrap()).unwrap();
    path
}

/// What a word on the command line can become: of options, of their values, of subcommands and of theirs.
const WORDS: [(&str, &[&str]); 6] = [
    ("--forma", &["--format"]),
    ("--format ", &["text", "json", "sarif", "cargo", "github"]),
    ("--rule bare", &["bare-del", "bare-renew"]),
    ("expl", &["explain"]),
    ("explain bare", &["bare-del", "bare-renew"]),
    ("locks --format ", &["text", "json", "markdown"]),
];

#[test]
fn bash_completes() {
    let script = completions("bash");
    for (line, wanted) in WORDS {
        let words: Vec<String> = line.split(' ').map(|word| format!("'{word}'")).collect();
        let previous = if words.len() > 1 { &words[words.len() - 2] } else { "cargo-leaselint" };
        let call = format!(
            "source {}; COMP_WORDS=(cargo-leaselint {}); COMP_CWORD={}; \
             $(complete -p cargo-leaselint | sed 's/.*-F \\([^ ]*\\) .*/\\1/') cargo-leaselint {} {previous}; \
             printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            script.display(),
            words.join(" "),
            words.len(),
            words[words.len() - 1],
        );
        let Some(text) = output("bash", &["-c", &call], &[]) else { return };
        let found: Vec<&str> = text.lines().collect();
        assert!(wanted.iter().all(|word| found.contains(word)), "{line}: {found:?}");
    }
    let _ = std::fs::remove_file(script);
}

#[test]
fn fish_completes_with_and_without_cargo() {
    let script = completions("fish");
    for (line, wanted) in WORDS {
        for program in ["cargo-leaselint", "cargo leaselint"] {
            let call = format!("source {}; complete -C '{program} {line}'", script.display());
            let Some(text) = output("fish", &["--no-config", "-c", &call], &[]) else { return };
            let found: Vec<&str> = text.lines().map(|line| line.split('\t').next().unwrap()).collect();
            assert!(wanted.iter().all(|word| found.contains(word)), "{program} {line}: {found:?}");
        }
    }
    let _ = std::fs::remove_file(script);
}

#[test]
fn zsh_takes_its_script() {
    let script = completions("zsh");
    let call =
        format!("autoload -U compinit; compinit -D; source {}; print $_comps[cargo-leaselint]", script.display());
    if let Some(text) = output("zsh", &["-f", "-c", &call], &[]) {
        assert_eq!(text.trim(), "_cargo-leaselint");
    }
    let _ = std::fs::remove_file(script);
}
