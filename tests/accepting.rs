//! The life of a baseline in a repository: old findings are accepted at once, new ones count, and the file follows the code.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "support/check.rs"]
#[allow(dead_code)]
mod check;
#[path = "support/project.rs"]
#[allow(dead_code)]
mod project;

use project::{PROGRAM, Project, all};

const NAME: &str = "leaselint-baseline.toml";

fn baseline(project: &Project) -> String {
    std::fs::read_to_string(project.path().join(NAME)).unwrap()
}

fn accepted(name: &str) -> Project {
    let project = Project::new(name, "orders");
    let (code, text) = project.leaselint(&["--write-baseline", "--reason", "old debt"]);
    assert_eq!((code, text.as_str()), (Some(0), "leaselint-baseline.toml accepts 6 findings\n"));
    assert_eq!(project.leaselint(&[]).0, Some(0));
    project
}

#[test]
fn fifty_old_findings_and_one_new_one() {
    let project = Project::new("fifty", "orders-fixed");
    let one = |i: usize| {
        format!(
            "pub async fn f{i}(c: &mut redis::aio::ConnectionManager, t: &str) -> redis::RedisResult<()> {{\n    \
            let got: bool = redis::cmd(\"SET\").arg(\"old:{i}\").arg(t).arg(\"NX\").arg(\"EX\").arg(9).query_async(c).await?;\n    \
            if got {{\n        redis::cmd(\"DEL\").arg(\"old:{i}\").exec_async(c).await?;\n    }}\n    Ok(())\n}}\n"
        )
    };
    project.write("src/old.rs", &(0..50).map(one).collect::<String>());
    project.append("src/main.rs", "mod old;\n");
    let (_, text) = project.leaselint(&["--rule", "bare-del", "--quiet", "--write-baseline"]);
    assert!(text.contains("accepts 50 findings"), "{text}");
    assert_eq!(project.leaselint(&["--rule", "bare-del"]).0, Some(0));
    // The new one stands before the old ones, whose lines move.
    project.write("src/old.rs", &(0..50).map(one).fold(one(77), |text, one| text + "\n\n" + &one));
    for format in ["text", "json", "sarif", "cargo", "github"] {
        let (code, text) = project.leaselint(&["--rule", "bare-del", "--format", format, "--fail-on", "error"]);
        assert_eq!(code, Some(1), "{format}");
        let shown = if format == "json" { text.split("\"suppressed\": [").next().unwrap() } else { &text };
        assert!(shown.contains("old:77") && !shown.contains("old:3"), "{format}: {shown}");
    }
}

#[test]
fn what_is_gone_leaves_the_file_by_itself() {
    let project = accepted("gone");
    let before = baseline(&project);
    project.sh("sed -i 's/.arg(\"NX\")/.arg(\"NX\").arg(\"PX\").arg(5000)/' src/prices.rs");
    // A run that sees a part, or does not run the rule, says nothing of it; nor does one in CI write.
    for args in [vec!["src"], vec!["--rule", "bare-del"], vec!["--diff"], vec!["src/prices.rs"]] {
        project.leaselint(&args);
        assert_eq!(baseline(&project), before, "{args:?}");
    }
    let output = project.command(PROGRAM).env("CI", "true").output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(all(&output).contains("1 accepted finding is gone: a run outside of CI"), "{}", all(&output));
    assert_eq!(baseline(&project), before);
    let (code, text) = project.leaselint(&[]);
    assert!(code == Some(0) && text.contains("1 accepted finding is gone"), "{text}");
    let after = baseline(&project);
    assert!(before.contains("missing-ttl") && !after.contains("missing-ttl") && after.contains("bare-del"), "{after}");
    assert!(!project.leaselint(&[]).1.contains("gone"));
    // It does not come back unseen.
    project.sh("git checkout -q src/prices.rs");
    assert_eq!(project.leaselint(&[]).0, Some(1));
}

#[test]
fn what_cannot_be_judged_now_stays() {
    let project = accepted("unjudged");
    let text = std::fs::read_to_string(project.path().join("src/lock.rs")).unwrap();
    project.write("src/lock.rs", &format!("{text}\nfn broken( {{\n"));
    project.leaselint(&[]);
    for args in [["--exclude", "src/lock.rs"], ["--exclude-rule", "bare-del,setnx-expire"]] {
        project.write("src/lock.rs", &text);
        project.leaselint(&args);
        assert!(baseline(&project).contains("bare-del") && baseline(&project).contains("setnx-expire"), "{args:?}");
    }
    project.write(
        "leaselint.toml",
        "[[path]]\nglob = [\"src/lock.rs\"]\nrules = { taking = \"off\", bare-del = \"off\" }\n",
    );
    project.leaselint(&[]);
    assert!(baseline(&project).contains("bare-del"), "{}", baseline(&project));
    // A test module is not judged unless asked for.
    project.sh(&format!("rm leaselint.toml; git checkout -q . ; rm -f {NAME}"));
    let module = text.replace("pub async fn acquire", "#[cfg(test)]\npub async fn acquire");
    project.write("src/lock.rs", &module);
    project.leaselint(&["--include-tests", "--write-baseline"]);
    let before = baseline(&project);
    assert!(before.contains("setnx-expire"), "{before}");
    project.leaselint(&[]);
    assert!(baseline(&project).contains("setnx-expire"), "{}", baseline(&project));
}

#[test]
fn entries_follow_a_renamed_file() {
    let project = accepted("renamed");
    project
        .sh("git mv src/prices.rs src/rates.rs && sed -i 's/mod prices/mod rates/; s/prices::/rates::/' src/main.rs");
    let (code, text) = project.leaselint(&[]);
    assert!(code == Some(0) && text.contains("1 accepted finding is in a renamed file"), "{text}");
    assert!(baseline(&project).contains("src/rates.rs") && !baseline(&project).contains("src/prices.rs"));
    // A copy is new.
    project.sh("cp src/rates.rs src/more.rs && sed -i 's/mod rates;/mod rates;\\nmod more;/' src/main.rs");
    let (code, text) = project.leaselint(&["--format", "github"]);
    assert!(code == Some(1) && text.contains("file=src/more.rs") && !text.contains("file=src/rates.rs"), "{text}");
}
