//! Values.

use super::{function, link, show, value, var};

#[test]
fn constants_and_templates() {
    let p = link(&[(
        "app",
        r#"
        const PREFIX: &str = "lock:";
        static KIND: &str = "job";
        fn key(id: &str) -> String { format!("{PREFIX}{}:{id}", KIND) }
        fn f(order: u64) {
            let a = key("x");
            let b = key(&order.to_string());
            let c = PREFIX.to_owned() + "c";
            let d = String::from("d").as_str().to_owned();
            let e = concat!("a", "b", 1);
            let g = format!("{}-{}", 1, true);
        }"#,
    )]);
    assert_eq!(value(&p, "f", "a"), r#""lock:job:x""#);
    assert_eq!(value(&p, "f", "b"), "`lock:job:{$0}`");
    assert_eq!(value(&p, "f", "c"), r#""lock:c""#);
    assert_eq!(value(&p, "f", "d"), r#""d""#);
    assert_eq!(value(&p, "f", "e"), r#""ab1""#);
    assert_eq!(value(&p, "f", "g"), r#""1-true""#);
}

#[test]
fn durations_fold() {
    let p = link(&[(
        "app",
        r#"
        use std::time::Duration;
        const TTL: Duration = Duration::from_secs(30);
        const N: u64 = 15 * 60;
        fn f(t: Duration, n: u64) {
            let half = TTL / 2;
            let ms = TTL.as_millis() as u64;
            let s: usize = TTL.as_secs().try_into().unwrap();
            let third = TTL.as_secs() / 3;
            let min = Duration::from_mins(2).min(TTL);
            let more = Duration::from_millis(N * 1000) + TTL;
            let chrono = chrono::Duration::seconds(5);
            let open = t.as_secs();
            let made = Duration::from_secs(n);
            let at_least = N.max(1);
        }"#,
    )]);
    assert_eq!(value(&p, "f", "half"), "15000ms");
    assert_eq!(value(&p, "f", "ms"), "30000");
    assert_eq!(value(&p, "f", "s"), "30");
    assert_eq!(value(&p, "f", "third"), "10");
    assert_eq!(value(&p, "f", "min"), "30000ms");
    assert_eq!(value(&p, "f", "more"), "930000ms");
    assert_eq!(value(&p, "f", "chrono"), "5000ms");
    assert_eq!(value(&p, "f", "open"), "$0.as_secs()");
    assert_eq!(value(&p, "f", "made"), "std::time::Duration::from_secs($1)");
    assert_eq!(value(&p, "f", "at_least"), "900");
}

#[test]
fn conversions_in_a_helper_fold_at_the_caller() {
    let p = link(&[(
        "app",
        r#"
        use std::time::Duration;
        fn millis(d: Duration) -> u64 { d.as_millis() as u64 }
        fn f() { let ms = millis(Duration::from_secs(10)); }"#,
    )]);
    assert_eq!(value(&p, "f", "ms"), "10000");
}

#[test]
fn fresh_identity_clock() {
    let p = link(&[(
        "app",
        r#"
        use uuid::Uuid;
        use std::sync::LazyLock;
        use rand::{Rng, distributions::Alphanumeric};
        static NODE: LazyLock<String> = LazyLock::new(|| Uuid::new_v4().to_string());
        static CELL: std::sync::OnceLock<String> = std::sync::OnceLock::new();
        struct Token(String);
        impl Token { fn generate() -> Self { Token(Uuid::new_v4().simple().to_string()) } fn as_str(&self) -> &str { &self.0 } }
        fn f() {
            let a = Uuid::new_v4().to_string();
            let b = NODE.clone();
            let c = CELL.get_or_init(|| Uuid::now_v7().to_string());
            let t = Token::generate();
            let d = t.as_str();
            let e = std::process::id().to_string();
            let g = std::env::var("POD_NAME").unwrap_or_else(|_| "x".into());
            let h = chrono::Utc::now().timestamp_millis();
            let i: String = rand::thread_rng().sample_iter(&Alphanumeric).take(20).map(char::from).collect();
            let j = std::time::Instant::now();
            let k = nanoid::nanoid!();
            let mut l = [0u8; 16];
            rand::thread_rng().fill_bytes(&mut l);
            let m = std::env::var("LOCK_TTL").ok().and_then(|s| s.parse::<u64>().ok()).unwrap_or(30);
            let n = format!("{}:{}", std::process::id(), Uuid::new_v4());
        }"#,
    )]);
    for (name, want) in [
        ("a", "fresh"),
        ("b", "per-process"),
        ("c", "per-process"),
        ("d", "fresh"),
        ("e", "identity"),
        ("g", "identity | \"x\""),
        ("h", "wall"),
        ("i", "fresh"),
        ("j", "monotonic"),
        ("k", "fresh"),
        ("l", "fresh"),
        ("m", "env LOCK_TTL | 30"),
        ("n", "`{identity}:{fresh}`"),
    ] {
        assert_eq!(value(&p, "f", name), want, "{name}");
    }
}

#[test]
fn scripts_in_statics() {
    let p = link(&[(
        "app",
        r#"
        use once_cell::sync::Lazy;
        use redis::Script;
        const LUA: &str = "return 1";
        static RELEASE: Lazy<Script> = Lazy::new(|| Script::new(LUA));
        lazy_static::lazy_static! { static ref EXTEND: Script = Script::new("return 2"); }
        fn f() { let a = &*RELEASE; let b = &*EXTEND; }"#,
    )]);
    assert_eq!(value(&p, "f", "a"), r#"redis::Script::new("return 1")"#);
    assert_eq!(value(&p, "f", "b"), r#"redis::Script::new("return 2")"#);
}

#[test]
fn fields_and_constructors() {
    let p = link(&[
        (
            "app::lease",
            r#"
        use uuid::Uuid;
        pub struct Lease { pub key: String, token: String, ttl: u64 }
        impl Lease {
            pub fn new(name: &str) -> Self { Lease { key: format!("lock:{name}"), token: Uuid::new_v4().to_string(), ttl: 30 } }
            pub fn with_ttl(mut self, ttl: u64) -> Self { self.ttl = ttl; self }
            fn renew(&self) { let k = &self.key; let t = self.token.clone(); }
        }"#,
        ),
        (
            "app",
            r#"
        mod lease;
        use crate::lease::Lease;
        fn f(id: u64) { let l = Lease::new("jobs"); let k = &l.key; let t = l.token; let Lease { ttl, .. } = l; }"#,
        ),
    ]);
    assert_eq!(value(&p, "app::f", "k"), r#""lock:jobs""#);
    assert_eq!(value(&p, "app::f", "t"), "fresh");
    assert_eq!(value(&p, "app::f", "ttl"), "30");
    assert_eq!(value(&p, "Lease::renew", "k"), "$0.key");
    let renew = function(&p, "Lease::renew");
    let k = p.absolute(renew, &p.value(renew, &var(&p, renew, "k")));
    assert_eq!(show(&k), "<app::lease::Lease>.key");
    assert_eq!(show(&p.expanded(&k)), "`lock:{?}`");
    let ttl: Vec<String> = p.field_values("app::lease::Lease", "ttl").iter().map(|(_, v)| show(v)).collect();
    assert_eq!(ttl, ["30", "$1"]);
}

#[test]
fn question_mark_results_and_matches() {
    let p = link(&[(
        "app",
        r#"
        struct E;
        fn key(id: &str) -> Result<String, E> { if id.is_empty() { return Err(E); } Ok(format!("lock:{id}")) }
        async fn token() -> Option<String> { if x() { return None; } Some("tok".to_string()) }
        async fn f() -> Result<(), E> {
            let a = key("a")?;
            let b = match key("b") { Ok(k) => k, Err(e) => return Err(e) };
            let c = token().await.unwrap();
            if let Some(d) = token().await { use_it(d); }
            let (e, g) = ("e", 5);
            let h = key("h").map(|k| format!("{k}:suffix")).unwrap();
            Ok(())
        }"#,
    )]);
    assert_eq!(value(&p, "f", "a"), r#""lock:a""#);
    assert_eq!(value(&p, "f", "b"), r#""lock:b""#);
    assert_eq!(value(&p, "f", "c"), r#""tok""#);
    assert_eq!(value(&p, "f", "d"), r#""tok""#);
    assert_eq!(value(&p, "f", "e"), r#""e""#);
    assert_eq!(value(&p, "f", "g"), "5");
    assert_eq!(value(&p, "f", "h"), r#""lock:h:suffix""#);
}

#[test]
fn branches_join_and_loops_stay_local() {
    let p = link(&[(
        "app",
        r#"
        fn f(fast: bool, ids: Vec<u64>) {
            let key = if fast { "a" } else { "b" };
            let mut n = 0;
            loop { n += 1; if n > 3 { break; } }
            for id in ids { let k = format!("lock:{id}"); }
        }"#,
    )]);
    assert_eq!(value(&p, "f", "key"), r#""a" | "b""#);
    assert_eq!(value(&p, "f", "n"), "local");
    assert_eq!(value(&p, "f", "k"), "`lock:{local}`");
}

#[test]
fn captures_are_parameters_or_known() {
    let p = link(&[(
        "app",
        r#"
        fn f(id: String) {
            let key = format!("lock:{id}");
            let prefix = "p:";
            tokio::spawn(async move { let k = key; let q = format!("{prefix}x"); });
        }"#,
    )]);
    let inner = p.functions().find(|(_, f)| f.parent.is_some()).expect("async block").0;
    let k = p.value(inner, &var(&p, inner, "k"));
    assert_eq!(show(&k), "$0");
    assert_eq!(show(&p.outer(inner, &k).expect("outer").1), "`lock:{$0}`");
    assert_eq!(show(&p.value(inner, &var(&p, inner, "q"))), r#""p:x""#);
}

#[test]
fn recursion_and_cycles_end() {
    let p = link(&[(
        "app",
        r#"
        fn a(n: u64) -> String { if n > 0 { b(n - 1) } else { "end".into() } }
        fn b(n: u64) -> String { a(n) }
        fn f() { let x = a(3); let mut s = String::new(); for i in 0..3 { s = s.clone() + &b(i); } }"#,
    )]);
    assert!(!value(&p, "f", "x").is_empty());
    assert!(!value(&p, "f", "s").is_empty());
}

#[test]
fn same_field_is_the_same_lock() {
    let p = link(&[(
        "app",
        r#"
        struct L { key: String }
        impl L {
            fn new(n: &str) -> Self { Self { key: format!("lock:{n}") } }
            fn a(&self) { let k = &self.key; }
            fn b(&self) { let k = self.key.clone(); }
        }
        fn other(id: &str) { let k = format!("lock:{id}"); let n = format!("seen:{id}"); }"#,
    )]);
    let get = |f: &str, name: &str| {
        let f = function(&p, f);
        (f, p.value(f, &var(&p, f, name)))
    };
    let (a, ka) = get("L::a", "k");
    let (b, kb) = get("L::b", "k");
    let (o, ko) = get("app::other", "k");
    let (_, kn) = get("app::other", "n");
    assert!(p.must_match((a, &ka), (b, &kb)));
    assert!(p.must_match((a, &ka), (o, &ko)));
    assert!(!p.may_match((a, &ka), (o, &kn)));
}

#[test]
fn consts_behind_a_facade_that_was_not_read() {
    let p = link(&[
        (
            "app",
            r#"
            fn f() {
                let a = crate::limits::TTL;
                let b = crate::limits::TWICE;
            }"#,
        ),
        ("app::limits::worker", "pub const TTL: u64 = 9 * 60; pub const TWICE: u64 = 1;"),
        ("app::limits::other", "pub const TWICE: u64 = 2;"),
        ("app::elsewhere", "pub const TTL: u64 = 3;"),
    ]);
    assert_eq!(value(&p, "f", "a"), "540");
    assert!(!value(&p, "f", "b").chars().all(|c| c.is_ascii_digit()), "{}", value(&p, "f", "b"));
}
