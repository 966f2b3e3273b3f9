//! Rust text -> units -> program -> effects, as a run does it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod crates;

use super::*;
use crate::frontend::{ModuleContext, rust};
use crate::ir::{EffectKind, OwnerCheck, RoundTrip, Ttl, Value};
use crate::link::Program;
use crate::source::{Language, Sources};

/// The program of one file, with its effects, and what was not understood.
pub(super) fn program(text: &str) -> (Program, Understood) {
    let mut sources = Sources::default();
    let id = sources.add("src/lib.rs", Language::Rust, text);
    let context = ModuleContext { krate: "app".into(), module: "app".into(), test: false };
    let unit = rust::lower(sources.get(id), &context);
    assert!(unit.problems.is_empty(), "{:?}", unit.problems);
    let mut program = Program::link(sources, vec![unit]);
    let understood = apply(&mut program, Models::builtin(), &Versions::new(), true);
    (program, understood)
}

fn show(value: &Value) -> String {
    match value {
        Value::Const(lit) => format!("{lit:?}"),
        Value::Param(n) => format!("${n}"),
        Value::Local(_, n) => format!("%{n}"),
        Value::Field(base, name) => format!("{}.{name}", show(base)),
        Value::TypeField(ty, name) => format!("{}.{name}", ty.rsplit("::").next().unwrap_or(ty)),
        Value::Template(pieces) => pieces
            .iter()
            .map(|piece| match piece {
                crate::ir::Piece::Text(text) => text.clone(),
                crate::ir::Piece::Hole(value) => format!("{{{}}}", show(value)),
            })
            .collect(),
        Value::Fresh(name) => format!("fresh({name})"),
        Value::Operation(name, list) => format!("({name} {})", list.iter().map(show).collect::<Vec<_>>().join(" ")),
        Value::Call(call) => format!("{}({})", call.name, call.args.iter().map(show).collect::<Vec<_>>().join(", ")),
        other => format!("{other:?}"),
    }
}

fn ttl(ttl: &Ttl) -> String {
    match ttl {
        Ttl::After(value, unit) => format!("{} {unit:?}", show(value)),
        other => format!("{other:?}"),
    }
}

fn check(check: &OwnerCheck) -> String {
    match check {
        OwnerCheck::Token(value) => format!("= {}", show(value)),
        other => format!("{other:?}"),
    }
}

fn trip(trip: &RoundTrip, sources: &Sources) -> String {
    let mut line = String::new();
    for effect in &trip.effects {
        let place = sources.get(effect.span.file).line(effect.span.start);
        line.push_str(&format!("{place}:"));
        line.push_str(&match &effect.kind {
            EffectKind::Acquire(a) => {
                format!("acquire [{}] {} token {} ttl {}", effect.command, show(&a.key), show(&a.token), ttl(&a.ttl))
            }
            EffectKind::Release(r) => format!("release [{}] {} {}", effect.command, show(&r.key), check(&r.check)),
            EffectKind::Renew(r) => {
                format!("renew [{}] {} {} ttl {}", effect.command, show(&r.key), check(&r.check), ttl(&r.ttl))
            }
            EffectKind::Expire(e) => {
                let nx = if e.only_if_none { " nx" } else { "" };
                format!("expire {} ttl {}{nx}", show(&e.key), ttl(&e.ttl))
            }
            EffectKind::Write(w) => match &w.resource {
                crate::ir::Resource::Key(_, key) => format!("write [{}] {}", w.verb, show(key)),
                other => format!("write [{}] {other:?}", w.verb),
            },
            EffectKind::Read(crate::ir::Resource::Key(_, key)) => format!("read {}", show(key)),
            EffectKind::Issue(key) => format!("issue {}", show(key)),
            EffectKind::Watch(key) => format!("watch {}", show(key)),
            EffectKind::Sleep(value) => format!("sleep {}", show(value)),
            EffectKind::Timeout(value) => format!("timeout {}", show(value)),
            EffectKind::External(e) => {
                let key = e.idempotency.as_ref().map(|key| format!(" key {}", show(key))).unwrap_or_default();
                format!("{} {}{key}", e.what, show(&e.target))
            }
            EffectKind::Spawn(_) => "spawn".into(),
            EffectKind::Signal(_) => format!("signal {}", effect.command),
            EffectKind::Observe(_) => format!("observe {}", effect.command),
            other => format!("{other:?}").to_lowercase(),
        });
        if effect.conditional {
            line.push_str(" maybe");
        }
        line.push_str("; ");
    }
    line.push_str(&format!("{:?} on {:?} {}", trip.atomicity, trip.handle.kind, show(&trip.handle.identity)));
    if let Some(reply) = &trip.reply {
        line.push_str(&format!("; {:?} | {:?}", reply.held, reply.lost));
    }
    line
}

/// All round trips of a file, in the order of the text.
pub(super) fn trips(program: &Program) -> Vec<String> {
    let mut list: Vec<(crate::source::Span, String)> = Vec::new();
    for function in &program.functions {
        for (_, op, call) in function.calls() {
            if let Some(effect) = &call.effect {
                list.push((op.span, trip(effect, &program.sources)));
            }
        }
    }
    list.sort();
    list.into_iter().map(|(_, line)| line).collect()
}

/// Effects of a function body; the line numbers are those of the body.
fn body(head: &str, body: &str) -> String {
    let text = format!(
        "async fn f(con: &mut redis::aio::MultiplexedConnection, key: &str, token: &str, ttl: u64) -> Result<(), Error> {{ {body}\nOk(()) }} {head}"
    );
    let (program, understood) = program(&text);
    let mut lines = trips(&program);
    lines.extend(understood.missed.into_iter().map(|missed| format!("missed {}: {}", missed.name, missed.why)));
    lines.join("\n")
}

#[test]
fn set_nx_px_in_its_forms() {
    let expected = "1:acquire [SET NX PX] $1 token $2 ttl $3 Milliseconds; Single on Multiplexed $0; \
        Ok(Some(Str(\"OK\"))) | Ok(None)";
    for text in [
        "let won: Option<String> = redis::cmd(\"SET\").arg(key).arg(token).arg(\"NX\").arg(\"PX\").arg(ttl).query_async(con).await?;",
        "let won = redis::cmd(\"SET\").arg(key).arg(token).arg(&[\"NX\", \"PX\"]).arg(ttl).query_async::<Option<String>>(&mut *con).await?;",
        "let won = redis::cmd(\"set\").arg((key, token, \"nx\", \"px\", ttl)).query_async::<_, Option<String>>(con).await?;",
        "let mut cmd = redis::cmd(\"SET\"); cmd.arg(key).arg(token); cmd.arg(\"NX\").arg(\"PX\").arg(ttl); let won: Option<String> = cmd.query_async(con).await?;",
        "let won: Option<String> = redis::Cmd::set(key, token).arg(\"NX\").arg(\"PX\").arg(ttl).query_async(con).await?;",
    ] {
        assert_eq!(body("", text), expected, "{text}");
    }
}

#[test]
fn other_acquires() {
    let cases = [
        (
            "let won: bool = con.set_nx(key, token).await?;",
            "1:acquire [SETNX] $1 token $2 ttl Never; Single on Multiplexed $0; Ok(Bool(true)) | Ok(Bool(false))",
        ),
        (
            "let won = redis::AsyncCommands::set_nx::<_, _, bool>(con, key, token).await?;",
            "1:acquire [SETNX] $1 token $2 ttl Never; Single on Multiplexed $0; Ok(Bool(true)) | Ok(Bool(false))",
        ),
        (
            "let o = redis::SetOptions::default().conditional_set(redis::ExistenceCheck::NX).with_expiration(redis::SetExpiry::EX(30));
             let won: bool = con.set_options(key, token, o).await?;",
            "2:acquire [SET NX EX] $1 token $2 ttl Duration(30000000000) Seconds; Single on Multiplexed $0; Ok(Bool(true)) | Ok(Bool(false))",
        ),
        (
            "let old: Option<String> = con.set_options(key, token, redis::SetOptions::default().get(true).conditional_set(redis::ExistenceCheck::NX)).await?;",
            "1:acquire [SET GET NX] $1 token $2 ttl Never; Single on Multiplexed $0; Ok(None) | Ok(Some(Unknown))",
        ),
        (
            "let (won, _): (bool, i64) = redis::pipe().atomic().set_nx(key, token).expire(key, 30).query_async(con).await?;",
            "1:acquire [SETNX] $1 token $2 ttl Never; 1:expire $1 ttl Duration(30000000000) Seconds; Multi on Multiplexed $0; \
             Ok(Tuple([Bool(true), Unknown])) | Ok(Tuple([Bool(false), Unknown]))",
        ),
        (
            "let mut pipe = redis::pipe(); pipe.set_nx(key, token).ignore(); pipe.cmd(\"EXPIRE\").arg(key).arg(ttl); let (n,): (i64,) = pipe.query_async(con).await?;",
            "1:acquire [SETNX] $1 token $2 ttl Never; 1:expire $1 ttl $3 Seconds; Pipeline on Multiplexed $0; \
             Ok(Tuple([Unknown])) | Ok(Tuple([Unknown]))",
        ),
        (
            "con.hset_nx::<_, _, _, bool>(key, \"f\", token).await?;",
            "1:acquire [HSETNX] (field $1 Str(\"f\")) token $2 ttl Never; Single on Multiplexed $0; Ok(Bool(true)) | Ok(Bool(false))",
        ),
        (
            "redis::cmd(\"SET\").arg(key).arg(token).arg(\"NX\").exec_async(con).await?;",
            "1:acquire [SET NX] $1 token $2 ttl Never; Single on Multiplexed $0; Ok(Unit) | Ok(Unit)",
        ),
        (
            "let mut cmd = redis::Cmd::set(key, token); cmd.arg(\"PX\"); let ms: u64 = ttl.into(); cmd.arg(ms); cmd.arg(\"NX\");
             let won: Option<()> = cmd.query_async(con).await?;",
            "1:acquire [SET PX NX] $1 token $2 ttl $3 Milliseconds; Single on Multiplexed $0; Ok(Some(Unit)) | Ok(None)",
        ),
        (
            "let mut cmd = redis::cmd(\"SET\"); cmd.arg(key).arg(token).arg(\"NX\");
             if ttl > 0 { cmd.arg(\"EX\").arg(ttl); }
             let won: bool = cmd.query_async(con).await?;",
            "1:acquire [SET NX EX] $1 token $2 ttl Unknown; Single on Multiplexed $0; Ok(Bool(true)) | Ok(Bool(false))",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(body("", text), expected, "{text}");
    }
}

#[test]
fn releases_renewals_and_the_rest() {
    let cases = [
        ("let _: () = con.del(key).await?;", "1:release [DEL] $1 None; Single on Multiplexed $0; Ok(Unit) | Ok(Unit)"),
        (
            "let n: i64 = con.del_ex(key, redis::ValueComparison::ifeq(token)).await?;",
            "1:release [DELEX] $1 = $2; Single on Multiplexed $0; Ok(Int(1)) | Ok(Int(0))",
        ),
        (
            "let ok: bool = con.expire(key, 30).await?;",
            "1:expire $1 ttl Duration(30000000000) Seconds; Single on Multiplexed $0; Ok(Bool(true)) | Ok(Bool(false))",
        ),
        ("let _: () = con.set_ex(key, token, 30).await?;", "1:write [SETEX] $1; Single on Multiplexed $0"),
        ("let v: Option<String> = con.get(key).await?;", "1:read $1; Single on Multiplexed $0; Ok(Some(Foreign)) | Ok(None)"),
        ("let n: i64 = con.incr(key, 1).await?;", "1:issue $1; 1:write [INCRBY] $1; Single on Multiplexed $0"),
        ("redis::cmd(\"WATCH\").arg(key).query_async::<()>(con).await?;", "1:watch $1; Single on Multiplexed $0"),
        (
            "let n: i32 = redis::Script::new(\"if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end\")
                .key(key).arg(token).invoke_async(con).await?;",
            "1:release [DEL] $1 = $2; Script on Multiplexed $0; Ok(Int(1)) | Ok(Int(0))",
        ),
        (
            "let n: i32 = redis::cmd(\"EVAL\").arg(UNLOCK).arg(1).arg(key).arg(token).query_async(con).await?;",
            "1:release [DEL] $1 = $2; Script on Multiplexed $0; Ok(Int(1)) | Ok(Int(0))",
        ),
        (
            "let script = redis::Script::new(UNLOCK); let mut inv = script.prepare_invoke(); inv.key(key); inv.arg(token);
             let _: () = inv.invoke_async(con).await?;",
            "1:release [DEL] $1 = $2; Script on Multiplexed $0; Ok(Unit) | Ok(Unit)",
        ),
        (
            "let n: i32 = SCRIPT.key(key).arg(token).invoke_async(con).await?;",
            "1:release [DEL] $1 = $2; Script on Multiplexed $0; Ok(Int(1)) | Ok(Int(0))",
        ),
    ];
    let head = "const UNLOCK: &str = \"if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end\";
        static SCRIPT: std::sync::LazyLock<redis::Script> = std::sync::LazyLock::new(|| redis::Script::new(UNLOCK));";
    for (text, expected) in cases {
        assert_eq!(body(head, text), expected, "{text}");
    }
}

#[test]
fn names_alone_do_not_count() {
    for text in [
        "let m = std::collections::HashMap::new(); m.get(key);",
        "let m = std::sync::Mutex::new(1); m.lock().unwrap();",
        "let x = cache.get(key); cache.del(key); cache.set(key, token);",
    ] {
        assert_eq!(body("", text), "", "{text}");
    }
    assert_eq!(body("", "store.set_nx(key, token).await?;"), "missed set_nx: no model row fits");
    assert_eq!(
        body(
            "struct Store; impl Store { fn set_nx(&self, k: &str, v: &str) {} }",
            "let store = Store; store.set_nx(key, token);"
        ),
        ""
    );
}

#[test]
fn helpers_that_run_what_they_are_given() {
    let text = "use redis::aio::MultiplexedConnection;
        struct S { con: MultiplexedConnection }
        const UNLOCK: &str = \"if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end\";
        impl S {
            async fn run<T: redis::FromRedisValue>(&self, cmd: &redis::Cmd) -> redis::RedisResult<T> {
                let mut con = self.con.clone();
                cmd.query_async(&mut con).await
            }
            async fn eval(&self, script: &redis::Script, key: &str, token: &str) -> redis::RedisResult<i64> {
                script.key(key).arg(token).invoke_async(&mut self.con.clone()).await
            }
            async fn lock(&self, key: &str, token: &str) -> redis::RedisResult<bool> {
                let mut cmd = redis::cmd(\"SET\");
                cmd.arg(key).arg(token).arg(\"NX\").arg(\"EX\").arg(30);
                let won: Option<String> = self.run(&cmd).await?;
                Ok(won.is_some())
            }
            async fn unlock(&self, name: &str, mine: &str) -> redis::RedisResult<()> {
                let script = redis::Script::new(UNLOCK);
                self.eval(&script, name, mine).await?;
                Ok(())
            }
        }";
    let (program, understood) = program(text);
    assert_eq!(understood.missed, []);
    assert_eq!(
        trips(&program).join("\n"),
        "13:acquire [SET NX EX] $1 token $2 ttl Duration(30000000000) Seconds; Single on Multiplexed S.con; Ok(Some(Str(\"OK\"))) | Ok(None)\n\
         19:release [DEL] $1 = $2; Script on Multiplexed S.con; Ok(Int(1)) | Ok(Int(0))"
    );
}

#[test]
fn lua_files_and_function_libraries() {
    let mut sources = Sources::default();
    let script = sources.add(
        "lua/unlock.lua",
        Language::Lua,
        "-- frees\nif redis.call('get', KEYS[1]) == ARGV[1] then\n  return redis.call('del', KEYS[1])\nend\nreturn 0\n",
    );
    let library = sources.add(
        "lua/locks.lua",
        Language::Lua,
        "#!lua name=locks\nlocal function free(keys, args)\n  return redis.call('DEL', keys[1])\nend\nredis.register_function('free', free)\n",
    );
    let broken = sources.add("lua/broken.lua", Language::Lua, "if redis.call('get' then");
    let rust_file = sources.add(
        "src/lib.rs",
        Language::Rust,
        "async fn f(con: &mut redis::aio::MultiplexedConnection, key: &str, token: &str) -> R<()> {
            let n: i64 = redis::Script::new(include_str!(\"../lua/unlock.lua\")).key(key).arg(token).invoke_async(con).await?;
            let m: i64 = redis::cmd(\"FCALL\").arg(\"free\").arg(1).arg(key).query_async(con).await?;
        }",
    );
    let context = ModuleContext { krate: "app".into(), module: "app".into(), test: false };
    let lua = |id| crate::frontend::lua::lower(sources.get(id), &context);
    let units = vec![lua(script), lua(library), lua(broken), rust::lower(sources.get(rust_file), &context)];
    assert_eq!(units[2].problems.len(), 1);
    let mut program = Program::link(sources, units);
    let understood = apply(&mut program, Models::builtin(), &Versions::new(), true);
    assert_eq!(understood.missed, []);
    assert_eq!(
        trips(&program),
        [
            "3:release [DEL] $0.1 = $1.1; Script on Body Unknown; Ok(Number(1)) | Ok(Number(0))",
            "3:release [DEL] $0.1 None; Script on Body Unknown; Ok(Number(1)) | Ok(Number(0))",
            "2:release [DEL] $1 = $2; Script on Multiplexed $0; Ok(Int(1)) | Ok(Int(0))",
            "3:release [DEL] $1 None; Script on Multiplexed $0; Ok(Int(1)) | Ok(Int(0))",
        ]
    );
}

#[test]
fn wrappers_of_other_crates_by_distinctive_names() {
    let text = "use redis::AsyncCommands; async fn f(c: &mut some_pool::Conn, m: &moka::Cache) -> R<()> {
        let won: bool = c.set_nx(\"k\", 1).await?; m.get(\"k\"); m.del(\"k\"); }";
    assert_eq!(
        trips(&program(text).0),
        ["2:acquire [SETNX] Str(\"k\") token Int(1) ttl Never; Single on Unknown $0; Ok(Bool(true)) | Ok(Bool(false))"]
    );
}

#[test]
fn handles() {
    let cases = [
        ("c: &redis::Client", "use redis::Commands;", "Pool $0"),
        ("c: &mut redis::Connection", "use redis::Commands;", "Dedicated $0"),
        ("c: redis::aio::ConnectionManager", "use redis::AsyncCommands;", "Multiplexed $0"),
        ("c: &mut deadpool_redis::Connection", "use deadpool_redis::redis::AsyncCommands;", "Pinned $0"),
        (
            "c: &mut bb8::PooledConnection<'_, bb8_redis::RedisConnectionManager>",
            "use bb8_redis::redis::AsyncCommands;",
            "Pinned $0",
        ),
        ("c: &mut impl redis::AsyncCommands", "", "Unknown $0"),
        ("c: &mut C", "use redis::AsyncCommands;", "Unknown $0"),
    ];
    for (parameter, import, expected) in cases {
        let generics = if parameter.ends_with(" C") { "<C: AsyncCommands>" } else { "" };
        let text = format!(
            "{import} async fn f{generics}({parameter}) -> R<()> {{ let won: bool = c.set_nx(\"k\", 1).await?; }}"
        );
        let (program, _) = program(&text);
        let lines = trips(&program).join("\n");
        let expected = format!(
            "1:acquire [SETNX] Str(\"k\") token Int(1) ttl Never; Single on {expected}; Ok(Bool(true)) | Ok(Bool(false))"
        );
        assert_eq!(lines, expected, "{parameter}");
    }
    let text = "use deadpool_redis::redis::AsyncCommands; struct S { pool: deadpool_redis::Pool }
        impl S { async fn f(&self) -> R<()> { let mut con = self.pool.get().await?; let won: bool = con.set_nx(\"k\", 1).await?; } }";
    assert!(trips(&program(text).0).join("\n").contains("on Pinned %"), "{:?}", trips(&program(text).0));
}
