//! No input makes the program panic, hang or pass over a file in silence.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A directory of its own for each test, gone when the test ends.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Dir {
        let path = std::env::temp_dir().join(format!("leaselint-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Dir(path)
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
        path
    }

    /// Runs the program here; it must end by itself with an exit code of its own.
    fn check(&self, args: &[&str]) -> Run {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-leaselint"));
        Run::of(command.arg("leaselint").args(args).current_dir(&self.0).output().unwrap())
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

struct Run {
    code: i32,
    stdout: String,
    stderr: String,
}

impl Run {
    fn of(output: Output) -> Run {
        let run = Run {
            code: output.status.code().expect("ended by a signal"),
            stdout: String::from_utf8(output.stdout).expect("standard output is UTF-8"),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        };
        assert!([0, 1, 2].contains(&run.code), "exit code {}: {}", run.code, run.stderr);
        assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
        run
    }

    /// The run worked, and says something about each of these.
    fn names(&self, words: &[&str]) {
        assert!(self.code < 2, "{}", self.stderr);
        let all = format!("{}{}", self.stdout, self.stderr);
        for word in words {
            assert!(all.contains(word), "`{word}` is not named:\n{all}");
        }
    }
}

const LOCK: &str = r#"
pub async fn lock(con: &mut redis::aio::ConnectionManager, token: &str) -> redis::RedisResult<bool> {
    let won: Option<String> = redis::cmd("SET").arg("k").arg(token).arg("NX").query_async(con).await?;
    Ok(won.is_some())
}
"#;

#[test]
fn broken_rust_is_named_and_the_rest_is_read() {
    let dir = Dir::new("broken");
    dir.write("merge.rs", format!("<<<<<<< HEAD\n{LOCK}\n=======\n>>>>>>> other\n"));
    dir.write("unclosed.rs", format!("{LOCK}\nfn f() {{ redis::cmd(\"SETNX\")"));
    dir.write("quote.rs", format!("{LOCK}\nconst S: &str = \"SETNX"));
    dir.write("item.rs", format!("{LOCK}\nfn gen_block() {{ gen {{ yield redis::cmd(\"SETNX\"); }} }}\n"));
    dir.write("half.rs", &LOCK[..LOCK.len() / 2]);
    dir.write("empty.rs", "");
    dir.write("good.rs", LOCK);
    dir.check(&["--verbose"]).names(&["merge.rs", "unclosed.rs", "quote.rs", "half.rs"]);
}

#[test]
fn broken_sql_lua_and_configuration() {
    let dir = Dir::new("languages");
    dir.write("a.sql", "SELECT pg_advisory_lock(1; $$ '\n");
    dir.write("b.sql", "CREATE FUNCTION f() RETURNS void AS $x$ BEGIN PERFORM pg_advisory_lock(1); -- no end");
    dir.write("c.lua", "if redis.call('SETNX', KEYS[1] then");
    dir.write("d.lua", "redis.call('GET', [==[ never closed");
    dir.write("pgbouncer.ini", "[pgbouncer\npool_mode = = transaction\n\u{0}\n[databases]\n* = host='");
    dir.write("docker-compose.yml", "services:\n  a: &x\n    <<: *x\n    environment:\n\t- POOL_MODE: [transaction");
    dir.write("pgcat.toml", "[pools.\npool_mode = \"transaction\"");
    dir.write("odyssey.conf", "database default { user default { pool \"transaction\"");
    dir.write("src/lib.rs", LOCK);
    dir.check(&["--verbose"]).names(&[]);
}

#[test]
fn deep_nesting_is_refused_and_not_fatal() {
    let dir = Dir::new("deep");
    let nest = |n: usize, open: &str, middle: &str, close: &str| open.repeat(n) + middle + &close.repeat(n);
    let call = "redis::cmd(\"SETNX\").arg(1)";
    for (name, depth) in [("some", 120), ("many", 5_000), ("monstrous", 20_000)] {
        dir.write(&format!("paren_{name}.rs"), format!("fn f() {{ let _ = {}; }}", nest(depth, "(", call, ")")));
        dir.write(&format!("block_{name}.rs"), format!("fn f() {{ {} }}", nest(depth, "{", call, "}")));
        dir.write(&format!("generic_{name}.rs"), format!("{LOCK}\ntype T = {};", nest(depth, "Vec<", "u8", ">")));
        dir.write(&format!("not_{name}.rs"), format!("{LOCK}\nconst B: bool = {}true;", "!".repeat(depth)));
        dir.write(&format!("plus_{name}.rs"), format!("{LOCK}\nconst N: u64 = {}1;", "1 + ".repeat(depth)));
        dir.write(&format!("else_{name}.rs"), format!("{LOCK}\nfn f() {{ {} {{}} }}", "if a {} else ".repeat(depth)));
        dir.write(&format!("chain_{name}.rs"), format!("fn f() {{ {call}{}; }}", ".arg(1)".repeat(depth)));
        dir.write(&format!("sql_{name}.sql"), format!("SELECT pg_advisory_lock({});", nest(depth, "(", "1", ")")));
        dir.write(&format!("lua_{name}.lua"), nest(depth, "if a then ", "redis.call('SETNX', KEYS[1], 1) ", "end "));
        dir.write(&format!("yaml_{name}.yaml"), format!("POOL_MODE: {}", nest(depth, "[", "transaction", "]")));
    }
    dir.check(&["--verbose"]).names(&[]);
}

#[test]
fn a_huge_line_is_read_or_refused() {
    let dir = Dir::new("huge");
    let mut line = String::with_capacity(100 << 20);
    line.push_str("pub const BLOB: &str = \"SETNX ");
    while line.len() < 100 << 20 {
        line.push_str("0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef");
    }
    line.push_str("\";\n");
    dir.write("blob.rs", line);
    dir.write("lib.rs", LOCK);
    dir.check(&["--verbose"]).names(&["blob.rs"]);
}

#[test]
fn text_that_is_no_utf_8() {
    let dir = Dir::new("encoding");
    let mut bytes = LOCK.as_bytes().to_vec();
    bytes.extend(b"// caf\xe9 \xff\xfe\n");
    dir.write("latin.rs", &bytes);
    dir.write("bom.rs", format!("\u{feff}{LOCK}"));
    dir.write("crlf.rs", LOCK.replace('\n', "\r\n"));
    dir.write("cr.rs", LOCK.replace('\n', "\r"));
    let utf16: Vec<u8> = LOCK.encode_utf16().flat_map(u16::to_le_bytes).collect();
    dir.write("utf16.rs", utf16);
    dir.write("binary.rs", b"\x7fELF\x00\x00SETNX\x00redis::cmd(\x00".repeat(100));
    dir.write("nul.rs", format!("{LOCK}\0\0\0"));
    dir.check(&["--verbose"]).names(&["latin.rs", "binary.rs"]);
}

#[cfg(unix)]
#[test]
fn hostile_names_and_links() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let dir = Dir::new("names");
    for name in [
        "with space.rs",
        "per%cent.rs",
        "hash#.rs",
        "-dash.rs",
        "\u{202e}sr.rs",
        "new\nline.rs",
        "quote'\".rs",
        "漢字.rs",
    ] {
        dir.write(name, LOCK);
    }
    let bytes: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(b"not\xffutf8.rs");
    std::fs::write(dir.0.join(bytes), LOCK).unwrap();
    dir.write("sub/a.rs", LOCK);
    symlink(&dir.0, dir.0.join("sub/loop")).unwrap();
    symlink("self", dir.0.join("self")).unwrap();
    symlink("nowhere", dir.0.join("dangling.rs")).unwrap();
    symlink("sub/a.rs", dir.0.join("linked.rs")).unwrap();
    let closed = dir.write("closed.rs", LOCK);
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o000)).unwrap();
    std::fs::create_dir_all(dir.0.join("folder.rs")).unwrap();
    for format in ["text", "json", "sarif", "cargo", "github"] {
        let run = dir.check(&["--format", format]);
        run.names(&[]);
        assert!(!run.stdout.contains(dir.0.to_str().unwrap()), "an absolute path in {format}");
    }
}

/// A named pipe would never end; it must not be opened.
#[cfg(unix)]
#[test]
fn special_files_are_passed_over() {
    let dir = Dir::new("special");
    let made = Command::new("mkfifo").arg(dir.0.join("pipe.rs")).status();
    if !made.is_ok_and(|status| status.success()) {
        return;
    }
    dir.write("lib.rs", LOCK);
    dir.check(&[]).names(&[]);
}

#[test]
fn what_cannot_run_exits_with_two() {
    let dir = Dir::new("usage");
    for args in [
        &["no-such-folder"][..],
        &["--rule", "no-such-rule", "."],
        &["--format", "no-such-format", "."],
        &["--no-such-flag"],
    ] {
        let run = dir.check(args);
        assert_eq!((run.code, run.stderr.is_empty()), (2, false), "{args:?}");
    }
}

#[test]
fn modules_that_go_in_circles() {
    let dir = Dir::new("circles");
    dir.write("Cargo.toml", "[package]\nname = \"c\"\nversion = \"0.1.0\"\n[dependencies]\nredis = \"1\"\n");
    dir.write("src/main.rs", format!("#[path = \"main.rs\"]\nmod again;\nmod a;\npub use a::*;\n{LOCK}"));
    dir.write(
        "src/a.rs",
        format!("pub use super::*;\npub type A = B;\npub type B = A;\nconst X: u8 = Y;\nconst Y: u8 = X;\n{LOCK}"),
    );
    let ring =
        "pub async fn f(c: &mut C) { g(c).await }\npub async fn g(c: &mut C) { f(c).await; c.del(\"k\").await }\n";
    dir.write(
        "src/ring.rs",
        format!("macro_rules! m {{ () => {{ m!() }} }}\nfn r() {{ m!(); redis::cmd(\"SETNX\"); }}\n{ring}{LOCK}"),
    );
    dir.check(&[]).names(&[]);
}

#[test]
fn a_workspace_without_anything_to_read() {
    let dir = Dir::new("nothing");
    dir.write("README.md", "nothing here");
    let run = dir.check(&[]);
    assert_eq!(run.code, 2, "{}", run.stdout);
    assert!(Path::new(&dir.0).exists());
}
