//! Builders over several statements.

use super::{chain, link};

fn program(body: &str) -> super::Program {
    let text = format!(
        "use redis::{{AsyncCommands, SetOptions, ExistenceCheck, SetExpiry}}; \
         fn add(cmd: &mut redis::Cmd, n: u64) {{ cmd.arg(\"EX\").arg(n); }} \
         async fn f(k: &str, x: bool, c: &mut C) -> anyhow::Result<()> {{ {body} Ok(()) }}"
    );
    link(&[("app", &text)])
}

#[test]
fn one_expression() {
    let p = program(r#"redis::cmd("SET").arg(k).arg("NX").query_async(c).await?;"#);
    assert_eq!(chain(&p, "f", "query_async"), r#"redis::cmd("SET").arg($0).arg("NX")"#);
}

#[test]
fn statements_in_order() {
    let p = program(r#"let mut cmd = redis::cmd("SET"); cmd.arg(k).arg(1); cmd.arg("NX"); cmd.query_async(c).await?;"#);
    assert_eq!(chain(&p, "f", "query_async"), r#"redis::cmd("SET").arg($0).arg(1).arg("NX")"#);
}

#[test]
fn conditional_steps_are_marked() {
    let p = program(
        r#"let mut cmd = redis::cmd("SET"); cmd.arg(k); if x { cmd.arg("NX"); } cmd.arg(5); cmd.query_async(c).await?;"#,
    );
    assert_eq!(chain(&p, "f", "query_async"), r#"redis::cmd("SET").arg($0)?.arg("NX").arg(5)"#);
}

#[test]
fn helpers_that_get_the_builder() {
    let p = program(r#"let mut cmd = redis::cmd("SET"); cmd.arg(k); add(&mut cmd, 30); cmd.query_async(c).await?;"#);
    assert_eq!(chain(&p, "f", "query_async"), r#"redis::cmd("SET").arg($0).arg("EX").arg(30)"#);
}

#[test]
fn pipelines() {
    let p = program(
        r#"let mut pipe = redis::pipe(); pipe.atomic(); pipe.set_nx(k, 1).expire(k, 10); pipe.query_async(c).await?;"#,
    );
    assert_eq!(chain(&p, "f", "query_async"), "redis::pipe().atomic().set_nx($0, 1).expire($0, 10)");
    let p = program(
        r#"let mut pipe = redis::pipe(); let pipe = pipe.atomic(); for i in 0..3 { pipe.del(i); } pipe.query_async(c).await?;"#,
    );
    assert_eq!(chain(&p, "f", "query_async"), "redis::pipe().atomic()?.del(local)");
}

#[test]
fn options_reassigned() {
    let p = program(
        r#"let mut o = SetOptions::default().conditional_set(ExistenceCheck::NX);
           if x { o = o.with_expiration(SetExpiry::PX(10)); }
           o.run_it();"#,
    );
    assert_eq!(
        chain(&p, "f", "run_it"),
        "redis::SetOptions::default().conditional_set(redis::ExistenceCheck::NX)?.with_expiration(redis::SetExpiry::PX{0: 10})"
    );
}

#[test]
fn text_that_grows() {
    let p = program(
        r#"let mut s = String::from("SELECT 1"); s.push_str(" FROM t"); if x { s.push_str(" FOR UPDATE"); } s.run_it();"#,
    );
    assert_eq!(chain(&p, "f", "run_it"), r#""SELECT 1 FROM t" | "SELECT 1 FROM t FOR UPDATE""#);
    let p = program(r#"let mut s = "a".to_string(); s += "b"; s.run_it();"#);
    assert_eq!(chain(&p, "f", "run_it"), r#""ab""#);
}

#[test]
fn overwritten_builders_start_anew() {
    let p = program(
        r#"let mut cmd = redis::cmd("GET"); cmd.arg(k); cmd = redis::cmd("DEL"); cmd.arg(2); cmd.query_async(c).await?;"#,
    );
    assert_eq!(chain(&p, "f", "query_async"), r#"redis::cmd("DEL").arg(2)"#);
}

#[test]
fn only_steps_before_the_use() {
    let p = program(r#"let mut cmd = redis::cmd("SET"); cmd.arg(k); cmd.query_async(c).await?; cmd.arg("late");"#);
    assert_eq!(chain(&p, "f", "query_async"), r#"redis::cmd("SET").arg($0)"#);
}

#[test]
fn builders_made_by_helpers() {
    let p = link(&[(
        "app",
        r#"
        use std::fmt::Write;
        fn set(k: &str) -> redis::Cmd { let mut cmd = redis::cmd("SET"); cmd.arg(k).arg(1); cmd.arg("NX"); cmd }
        fn key(id: &str) -> String { let mut k = String::with_capacity(20); k.push_str("lock:"); write!(k, "{}:x", id).unwrap(); k }
        async fn run(cmd: &redis::Cmd, c: &mut C) { cmd.query_async(c).await; }
        async fn f(c: &mut C) {
            set("k").query_async(c).await;
            let k = key("7");
            let mut cmd = redis::cmd("DEL");
            cmd.arg("z");
            run(&cmd, c).await;
        }"#,
    )]);
    assert_eq!(chain(&p, "app::f", "query_async"), r#"redis::cmd("SET").arg("k").arg(1).arg("NX")"#);
    assert_eq!(super::value(&p, "app::f", "k"), r#""lock:7:x""#);
    let (f, run) = (super::function(&p, "app::f"), super::function(&p, "app::run"));
    let at = p.callers(run)[0].at;
    let crate::ir::OpKind::Call(call) = &p.function(f).op(at).kind else { panic!() };
    assert_eq!(super::show(&p.instantiate(&crate::ir::Value::Param(0), call, f)), r#"redis::cmd("DEL").arg("z")"#);
}

#[test]
fn scripts_in_fields() {
    let p = link(&[(
        "app",
        r#"
        struct L { release: redis::Script }
        impl L {
            fn new() -> Self { L { release: redis::Script::new("return 1") } }
            async fn f(&self, k: &str, c: &mut C) { self.release.key(k).arg(1).invoke_async(c).await; }
        }"#,
    )]);
    assert_eq!(chain(&p, "L::f", "invoke_async"), r#"redis::Script::new("return 1").key($1).arg(1)"#);
}

#[test]
fn text_and_binds_built_in_loops() {
    let p = program(
        r#"let mut sql = String::from("SELECT 1"); if x { sql = format!("{sql} WHERE a"); }
           let mut q = sqlx::query(&sql); for i in 0..3 { if x { q = q.bind(i); } else { q = q.bind(2); } }
           q.fetch_all(c).await?;"#,
    );
    assert_eq!(chain(&p, "f", "fetch_all"), r#"sqlx::query("SELECT 1" | "SELECT 1 WHERE a")?.bind(local)?.bind(2)"#);
}

#[test]
fn long_chains_keep_their_beginning() {
    let steps = ".set_nx(\"k\", 1)".repeat(80);
    let text = format!(
        "fn build(k: &str) -> redis::Pipeline {{ let mut pipe = redis::pipe(); pipe.del(k){steps}; pipe }} \
         async fn f(c: &mut C) {{ build(\"first\").query_async(c).await; redis::pipe(){steps}.exec_async(c).await; }}"
    );
    let p = link(&[("app", &text)]);
    assert!(chain(&p, "app::f", "query_async").starts_with("redis::pipe().del(\"first\").set_nx("));
    assert!(chain(&p, "app::f", "exec_async").starts_with("redis::pipe().set_nx("));
}
