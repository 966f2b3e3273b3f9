//! What code scanning takes and shows: the document of a workspace with names and texts that are hard to point into.
//! `tests/sarif/validate.sh` asks Microsoft's validator besides; here are the things it does not know.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;

/// A directory of its own for each test, gone when the test ends.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Dir {
        let path = std::env::temp_dir().join(format!("leaselint-sarif-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Dir(path)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn run(&self, args: &[&str]) -> (Value, String) {
        let output = Command::new(env!("CARGO_BIN_EXE_cargo-leaselint"))
            .args(["--format", "sarif"])
            .args(args)
            .current_dir(&self.0)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        (serde_json::from_str(&text).unwrap(), text)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const MANIFEST: &str = "[package]\nname = \"shop\"\nversion = \"0.1.0\"\n[dependencies]\nredis = \"0.27\"\n";

/// A lock that is deleted bare; `before` stands on the line of the DEL before it.
fn lock(before: &str, end: &str) -> String {
    [
        "pub async fn f(c: &mut redis::aio::ConnectionManager, t: &str) -> redis::RedisResult<()> {",
        "    let got: Option<String> = redis::cmd(\"SET\").arg(\"lock:a\").arg(t).arg(\"NX\").arg(\"EX\").arg(30).query_async(c).await?;",
        "    if got.is_none() { return Ok(()); }",
        &format!("\t{before} let _: () = redis::cmd(\"DEL\").arg(\"lock:a\").query_async(c).await?;"),
        "    Ok(())",
        "}",
    ]
    .join(end)
}

fn hostile() -> Dir {
    let dir = Dir::new(&format!("hostile-{:?}", std::thread::current().id()));
    dir.write("Cargo.toml", MANIFEST);
    dir.write("src/lib.rs", "mod bom;\nmod crlf;\n#[path = \"a b/#ü%25.rs\"]\nmod odd;\n");
    dir.write("src/bom.rs", &format!("\u{feff}{}", lock("let _ = \"é🔒漢\";", "\n")));
    dir.write("src/crlf.rs", &lock("", "\r\n"));
    dir.write("src/a b/#ü%25.rs", &lock("", "\n"));
    dir
}

/// Workspaces with hard names and texts, suppressed findings and repairs, each with its document, for `tests/sarif/validate.sh`.
#[test]
fn documents_for_the_validator() {
    let root = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("sarif");
    let _ = std::fs::remove_dir_all(&root);
    let place = |name: &str, files: &[(&str, String)], args: &[&str]| {
        let dir = Dir(root.join(name));
        // The root of a repository, so that addresses are relative to it.
        dir.write(".git/HEAD", "");
        dir.write("Cargo.toml", MANIFEST);
        files.iter().for_each(|(name, text)| dir.write(name, text));
        let (document, text) = dir.run(args);
        dir.write("leaselint.sarif", &text);
        std::mem::forget(dir);
        results(&document).clone()
    };
    let lib = "mod bom;\nmod crlf;\n#[path = \"a b/#ü%25.rs\"]\nmod odd;\nmod broken;\n".to_owned();
    let bom = format!("\u{feff}{}", lock("let _ = \"é🔒漢\";", "\n"));
    let hard = [
        ("src/lib.rs", lib),
        ("src/bom.rs", bom),
        ("src/crlf.rs", lock("", "\r\n")),
        ("src/a b/#ü%25.rs", lock("", "\n")),
        ("src/broken.rs", lock("", "\n") + "\nfn g() -> { }\n"),
    ];
    assert!(place("hard", &hard, &[]).len() >= 4);
    let allowed = lock("", "\n").replace("\t let", "    // leaselint: allow(bare-del) one worker\n    let");
    let found = place("suppressed", &[("src/lib.rs", allowed)], &["--sarif-suppressed"]);
    assert!(found.iter().any(|result| result["suppressions"][0]["kind"] == "inSource"));
    let fixes = ["advisory", "expire_cmd", "expire_typed", "reply"].map(|name| {
        let path = format!("{}/fixtures/fix/{name}.rs", env!("CARGO_MANIFEST_DIR"));
        (format!("src/{name}.rs"), std::fs::read_to_string(path).unwrap())
    });
    let fixes: Vec<(&str, String)> = fixes.iter().map(|(name, text)| (name.as_str(), text.clone())).collect();
    assert!(place("fixes", &fixes, &[]).iter().filter(|result| !result["fixes"].is_null()).count() >= 4);
    let many: String =
        (0..600).map(|i| lock("", "\n").replace("fn f", &format!("fn f{i}"))).collect::<Vec<_>>().join("\n");
    assert!(place("many", &[("src/lib.rs", many)], &["--rule", "bare-del"]).len() >= 600);
}

fn results(document: &Value) -> &Vec<Value> {
    document["runs"][0]["results"].as_array().unwrap()
}

#[test]
fn every_result_can_be_shown() {
    let (document, text) = hostile().run(&["--rule", "bare-del"]);
    let runs = document["runs"].as_array().unwrap();
    assert_eq!((runs.len(), results(&document).len()), (1, 3), "{text}");
    let rules = runs[0]["tool"]["driver"]["rules"].as_array().unwrap();
    for result in results(&document) {
        let index = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
        assert_eq!(result["ruleId"], rules[index]["id"]);
        let locations = result["locations"].as_array().unwrap();
        assert_eq!(locations.len(), 1);
        let place = &locations[0]["physicalLocation"];
        assert_eq!(place["region"]["startLine"], place["region"]["endLine"]);
        assert!(place["region"]["startColumn"].as_u64() < place["region"]["endColumn"].as_u64());
        let steps = result["codeFlows"][0]["threadFlows"][0]["locations"].as_array().unwrap();
        assert!((2..=1_000).contains(&steps.len()));
        let first = result["message"]["text"].as_str().unwrap();
        assert!(first.starts_with(char::is_uppercase) && first.contains(". ") || first.ends_with('.'), "{first}");
    }
    let uris: Vec<&str> = results(&document)
        .iter()
        .map(|r| r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"].as_str().unwrap())
        .collect();
    assert_eq!(uris, ["src/a%20b/%23%C3%BC%2525.rs", "src/bom.rs", "src/crlf.rs"]);
}

#[test]
fn columns_count_code_points() {
    let (document, _) = hostile().run(&["--rule", "bare-del"]);
    let columns: Vec<u64> = results(&document)
        .iter()
        .map(|r| r["locations"][0]["physicalLocation"]["region"]["startColumn"].as_u64().unwrap())
        .collect();
    let column = |before: &str| {
        let line = lock(before, "\n").lines().nth(3).unwrap().to_owned();
        line[..line.find("cmd").unwrap()].chars().count() as u64 + 1
    };
    assert_eq!(columns, [column(""), column("let _ = \"é🔒漢\";"), column("")]);
    assert_eq!(document["runs"][0]["columnKind"], "unicodeCodePoints");
}

#[test]
fn the_line_hash_is_that_of_the_line() {
    let dir = Dir::new("hash");
    dir.write("Cargo.toml", MANIFEST);
    let text = lock("", "\n");
    dir.write("src/lib.rs", &text);
    let (document, _) = dir.run(&["--rule", "bare-del"]);
    let hash = &results(&document)[0]["partialFingerprints"]["primaryLocationLineHash"];
    assert_eq!(hash.as_str(), Some(leaselint::report::fingerprint::line_hashes(&text)[3].as_str()));
}

#[test]
fn every_rule_is_described_within_the_limits() {
    let dir = Dir::new("rules");
    dir.write("src/lib.rs", "fn main() {}\n");
    let (document, text) = dir.run(&[]);
    assert_eq!(results(&document).len(), 0);
    assert!(text.len() < 10 << 20);
    let rules = document["runs"][0]["tool"]["driver"]["rules"].as_array().unwrap();
    assert_eq!(rules.len(), leaselint::rules::all().len() + leaselint::suppress::RULES.len());
    let mut ids = std::collections::BTreeSet::new();
    for rule in rules {
        let id = rule["id"].as_str().unwrap();
        assert!(ids.insert(id), "{id} is there twice");
        assert_ne!(rule["name"], rule["id"]);
        for key in ["shortDescription", "fullDescription"] {
            let text = rule[key]["text"].as_str().unwrap();
            assert!((10..=1024).contains(&text.chars().count()), "{id}: {key}: {text}");
        }
        let help = rule["help"]["markdown"].as_str().unwrap();
        let links = help.split("](").skip(1).map(|rest| rest.split(')').next().unwrap());
        assert!(
            links.into_iter().all(|to| to.starts_with("https://") || !to.ends_with(".md")),
            "{id}: a link leads nowhere"
        );
        assert!(help.lines().all(|line| line.chars().count() < 220), "{id}: a line is too long");
        assert!(help.contains("Bad") && help.contains("Good") && help.contains("```"), "{id}: no examples");
        assert!(!rule["help"]["text"].as_str().unwrap().is_empty());
        assert!(rule["helpUri"].as_str().unwrap().ends_with(&format!("/{id}.md")));
        assert!(["note", "warning", "error"].contains(&rule["defaultConfiguration"]["level"].as_str().unwrap()));
        let properties = &rule["properties"];
        let tags = properties["tags"].as_array().unwrap();
        assert!(tags.len() <= 10 && tags.iter().all(Value::is_string), "{id}: {tags:?}");
        assert!(properties["precision"].is_string());
        if tags.iter().any(|tag| tag == "security") {
            let score: f64 = properties["security-severity"].as_str().unwrap().parse().unwrap();
            assert!((0.1..=10.0).contains(&score), "{id}: {score}");
        }
    }
}

#[test]
fn the_same_bytes_for_any_number_of_threads_and_from_any_folder() {
    let dir = hostile();
    std::fs::create_dir_all(dir.0.join(".git")).unwrap();
    let (_, one) = dir.run(&["--threads", "1"]);
    let (_, four) = dir.run(&["--threads", "4"]);
    assert_eq!(one, four);
    assert!(!one.contains(dir.0.to_str().unwrap()), "an absolute path");
    let inner = Dir(dir.0.join("src"));
    let (document, _) = inner.run(&["--rule", "bare-del"]);
    let uri = &results(&document)[1]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"];
    assert_eq!(uri, "src/bom.rs", "relative to the repository, not to the current folder");
    std::mem::forget(inner);
}

#[test]
fn suppressed_results_are_left_out_unless_asked_for() {
    let dir = Dir::new("suppressed");
    dir.write("Cargo.toml", MANIFEST);
    dir.write("src/lib.rs", &lock("", "\n").replace("\t let", "    // leaselint: allow(bare-del) one worker\n    let"));
    assert_eq!(results(&dir.run(&["--rule", "bare-del"]).0).len(), 0);
    let (document, _) = dir.run(&["--rule", "bare-del", "--sarif-suppressed"]);
    let suppression = &results(&document)[0]["suppressions"][0];
    assert_eq!(
        (suppression["kind"].as_str(), suppression["justification"].as_str()),
        (Some("inSource"), Some("one worker"))
    );
}

#[test]
fn what_cannot_be_read_is_a_notification() {
    let dir = Dir::new("unread");
    dir.write("src/lib.rs", "fn f() { redis::cmd(\"SETNX\"); }\nfn g( { }\n");
    dir.write("src/big.rs", &format!("// SETNX\n{}", "x".repeat(9 << 20)));
    let (document, text) = dir.run(&[]);
    let notes = document["runs"][0]["invocations"][0]["toolExecutionNotifications"].as_array().unwrap();
    assert_eq!(document["runs"][0]["invocations"][0]["executionSuccessful"], true);
    assert!(notes.iter().any(|n| n.to_string().contains("src/big.rs")), "{text}");
}
