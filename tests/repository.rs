//! What stands around a workspace: git (`--since`), hooks, the GitHub action, the walk in README. Each runs as it would for a
//! user, with the program of this build on the path.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "support/check.rs"]
#[allow(dead_code)]
mod check;

#[path = "support/project.rs"]
#[allow(dead_code)]
mod project;

use project::{PROGRAM, Project, all};
use std::path::Path;

/// A new bare DEL of the couriers' lock.
const BARE_DEL: &str = "
pub async fn free(conn: &mut redis::aio::ConnectionManager, order: u64) -> redis::RedisResult<()> {
    redis::cmd(\"DEL\").arg(format!(\"courier:{order}\")).exec_async(conn).await
}
";

#[test]
fn since_reports_only_on_files_that_differ() {
    let project = Project::new("since", "orders-fixed");
    let since = |revision: &str| project.leaselint(&["--rule", "bare-del", "--format", "github", "--since", revision]);
    assert_eq!(since("HEAD").0, Some(0));
    // Changed and not committed.
    project.append("src/couriers.rs", BARE_DEL);
    let (code, text) = since("HEAD");
    assert!(code == Some(1) && text.contains("src/couriers.rs"), "{text}");
    // Committed: nothing differs from HEAD, the file differs from the commit before.
    project.sh("git commit -qam free");
    assert_eq!(since("HEAD").0, Some(0));
    assert_eq!(since("HEAD~1").0, Some(1));
    // A file that git does not know yet, in a folder whose name is hard to print.
    project.write("src/more stuff/ü.rs", BARE_DEL.trim_start());
    let (code, text) = since("HEAD");
    assert!(
        code == Some(1) && text.contains("file=src/more stuff/ü.rs") && !text.contains("file=src/couriers.rs"),
        "{text}"
    );
    // From a folder below the root.
    let mut below = project.command(PROGRAM);
    below.args(["--rule", "bare-del", "--since", "HEAD~1"]).current_dir(project.path().join("src"));
    assert_eq!(below.output().unwrap().status.code(), Some(1));
}

#[test]
fn since_compares_with_where_the_branch_began() {
    let project = Project::new("branch", "orders-fixed");
    project.sh("git checkout -qb topic && git commit -q --allow-empty -m topic && git checkout -q main");
    project.append("src/couriers.rs", BARE_DEL);
    project.sh("git commit -qam 'on main' && git checkout -q topic && git merge -q main && git reset -q --hard HEAD~1");
    let since = |revision: &str| project.leaselint(&["--rule", "bare-del", "--format", "github", "--since", revision]);
    // The file differs from main's, but it is main that changed it.
    project.sh("git diff --quiet topic HEAD && ! git diff --quiet main");
    assert_eq!(since("main").0, Some(0));
    project.append("src/prices.rs", &BARE_DEL.replace("courier:{order}", "prices:computing"));
    let (code, text) = since("main");
    assert!(code == Some(1) && text.contains("src/prices.rs") && !text.contains("src/couriers.rs"), "{text}");
    // A renamed file is a changed one.
    project.sh("git checkout -q main && git mv src/couriers.rs src/riders.rs && sed -i s/couriers/riders/ src/main.rs");
    let (code, text) = since("main");
    assert!(code == Some(1) && text.contains("file=src/riders.rs"), "{text}");
    // Without a common history the trees are compared.
    project.sh("git checkout -qf --orphan other && git commit -qm other");
    assert_eq!(since("topic").0, Some(1));
}

/// A finding belongs to every file that its interleaving goes through.
#[test]
fn a_finding_touches_all_files_of_its_witness() {
    let project = Project::new("witness", "orders");
    let pooler = |args: &[&str]| project.leaselint(&[&["--rule", "session-lock-pooler"], args].concat());
    project.write("list.txt", "deploy/pgbouncer.ini\n");
    let (code, text) = pooler(&["--files-from", "list.txt", "--format", "github"]);
    assert!(code == Some(1) && text.contains("file=src/nightly.rs"), "{text}");
    project.write("list.txt", "src/prices.rs\n");
    assert_eq!(pooler(&["--files-from", "list.txt"]).0, Some(0));
    assert_eq!(pooler(&["--since", "HEAD"]).0, Some(0));
    project.append("deploy/pgbouncer.ini", "max_client_conn = 200\n");
    assert_eq!(pooler(&["--since", "HEAD"]).0, Some(1));
}

#[test]
fn a_revision_that_is_none_is_an_error() {
    let project = Project::new("revision", "orders-fixed");
    for revision in ["nosuch", "--output=/tmp/x", "HEAD~99"] {
        let (code, text) = project.leaselint(&["--since", revision]);
        assert!(code == Some(2) && text.starts_with("error: "), "{revision}: {code:?} {text}");
    }
    assert!(!Path::new("/tmp/x").exists());
}

#[test]
fn nothing_that_a_repository_configures_runs() {
    let project = Project::new("configured", "orders-fixed");
    let trap = project.path().join("trap");
    let set = |key: &str| project.sh(&format!("git config {key} 'touch {}'", trap.display()));
    for name in ["core.fsmonitor", "diff.external", "core.pager", "diff.rs.textconv"] {
        set(name);
    }
    project.write(".gitattributes", "*.rs diff=rs\n");
    assert_eq!(project.leaselint(&["--rule", "bare-del", "--since", "HEAD"]).0, Some(0));
    assert!(!trap.exists());
}

/// The hook as git runs it: the entry of `.pre-commit-hooks.yaml` as `.git/hooks/pre-commit`.
#[test]
fn the_hook_blocks_a_new_bare_del() {
    let project = Project::new("hook", "orders-fixed");
    let hooks = std::fs::read_to_string(check::repository(".pre-commit-hooks.yaml")).unwrap();
    let value = |key: &str| {
        let found =
            hooks.lines().find_map(|line| line.trim_start_matches("- ").trim().strip_prefix(&format!("{key}: ")));
        found.unwrap_or_else(|| panic!("no {key}")).to_owned()
    };
    assert_eq!((value("id").as_str(), value("pass_filenames").as_str()), ("leaselint", "false"));
    let entry = value("entry");
    project.write(".git/hooks/pre-commit", &format!("#!/bin/sh\nexec {entry}\n"));
    project.sh("chmod +x .git/hooks/pre-commit && git commit -q --allow-empty -m clean");
    project.append("src/couriers.rs", BARE_DEL);
    let output = project.command("git").args(["commit", "-qam", "free"]).output().unwrap();
    assert!(!output.status.success() && all(&output).contains("error[bare-del]"), "{}", all(&output));
    project.sh("git diff --quiet HEAD~0 -- Cargo.toml && test \"$(git log --oneline | wc -l)\" = 2");
}

/// The same through prek or pre-commit, where one of them is installed. The hook's `language: rust` would build the program
/// anew, so here it is the one of this build.
#[test]
fn a_hook_manager_blocks_it_too() {
    let project = Project::new("manager", "orders-fixed");
    let there = |name: &&str| project.command(name).arg("--version").output().is_ok_and(|o| o.status.success());
    let Some(manager) = ["prek", "pre-commit"].into_iter().find(there) else {
        eprintln!("neither prek nor pre-commit is installed: only the hook itself was tried");
        return;
    };
    let hooks = std::fs::read_to_string(check::repository(".pre-commit-hooks.yaml")).unwrap();
    let local: String = hooks.lines().map(|line| format!("      {line}\n")).collect();
    let local = local.replace("language: rust", "language: system");
    project.write(".pre-commit-config.yaml", &format!("repos:\n  - repo: local\n    hooks:\n{local}"));
    let home = project.0.join("home");
    let run = |script: &str| {
        let mut bash = project.command("bash");
        bash.args(["-c", script]).env("PREK_HOME", &home).env("PRE_COMMIT_HOME", &home).output().unwrap()
    };
    let output = run(&format!("git add -A && {manager} install && git commit -qm hook"));
    assert!(output.status.success(), "{}", all(&output));
    project.append("src/couriers.rs", BARE_DEL);
    let output = run("git commit -qam free");
    assert!(!output.status.success() && all(&output).contains("bare-del"), "{}", all(&output));
}

/// One transcript: the commands of README's `console` blocks after `<!-- walk -->` run in one shell, and what it shows of
/// their output is printed, in this order. `...` stands for more.
#[test]
fn the_walk_in_readme_is_a_transcript() {
    let readme = std::fs::read_to_string(check::repository("README.md")).unwrap();
    let project = Project::new("walk", "orders");
    let mut script = String::from("exec 2>&1\n");
    let mut shown: Vec<Vec<String>> = Vec::new();
    for block in readme.split("<!-- walk -->\n```console\n").skip(1) {
        for line in block.split("\n```").next().unwrap().lines() {
            if let Some(command) = line.strip_prefix("$ ") {
                script += &format!("echo '<<{}>>'\n{command}\n", shown.len());
                shown.push(Vec::new());
            } else if let Some(more) =
                line.strip_prefix("> ").or_else(|| line.strip_prefix(">").filter(|l| l.is_empty()))
            {
                script += &format!("{more}\n");
            } else {
                shown.last_mut().unwrap().push(line.to_owned());
            }
        }
    }
    assert!(shown.len() > 8, "README walks only {} steps", shown.len());
    let output = project.command("bash").args(["-c", &script]).env("SOURCE_DATE_EPOCH", "1769817600").output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    for (i, lines) in shown.iter().enumerate() {
        let start = printed.find(&format!("<<{i}>>\n")).unwrap_or_else(|| panic!("step {i} did not run\n{printed}"));
        let end = printed.find(&format!("<<{}>>\n", i + 1)).unwrap_or(printed.len());
        let mut real = printed[start..end].lines().skip(1);
        for line in lines.iter().filter(|line| *line != "...") {
            let fits = |real: &str| match line.strip_suffix("...") {
                Some(head) => real.starts_with(head),
                None => real.trim_end() == line,
            };
            assert!(real.any(fits), "step {i} does not print, or not here:\n{line}\n{}", &printed[start..end]);
        }
    }
}

/// Names and texts come from strangers: nothing that a terminal acts on gets through, in any format.
#[test]
fn control_characters_are_neutralised() {
    let project = Project::new("hostile", "orders-fixed");
    let text = "use redis::Commands;\npub fn f(c: &mut redis::Connection, t: &str) -> redis::RedisResult<()> {\n    \
        let won: bool = redis::cmd(\"SET\").arg(\"lock:\\u{1b}[31m\u{202e}x\").arg(t).arg(\"NX\").arg(\"EX\").arg(9).query(c)?;\n    \
        if won { let _: () = c.del(\"lock:\\u{1b}[31m\u{202e}x\")?; /* \u{1b}]0;title\u{7} */ }\n    Ok(())\n}\n";
    project.write("src/\u{1b}[2J.rs", text);
    for args in [
        vec!["--rule", "bare-del"],
        vec!["--rule", "bare-del", "--format", "github"],
        vec!["--rule", "bare-del", "--format", "cargo"],
        vec!["--rule", "bare-del", "--format", "sarif", "--fail-on", "error"],
        vec!["--rule", "bare-del", "--format", "json", "--verbose"],
        vec!["locks"],
        vec!["locks", "--format", "markdown"],
        vec!["locks", "--format", "json"],
    ] {
        let (code, text) = project.leaselint(&args);
        assert!(text.contains("lock:"), "{args:?}: {text}");
        assert!(code == Some(if args[0] == "locks" { 0 } else { 1 }), "{args:?}: {text}");
        let acts = |c: char| (c.is_control() && c != '\n') || ('\u{202a}'..='\u{202e}').contains(&c);
        // JSON may hold the overrides as they are: no terminal reads it, and its readers need the text.
        let json = args.iter().any(|arg| matches!(*arg, "json" | "sarif" | "cargo"));
        let bad = text.chars().find(|c| acts(*c) && (c.is_control() || !json));
        assert!(bad.is_none(), "{args:?}: {bad:?}\n{text:?}");
    }
}
