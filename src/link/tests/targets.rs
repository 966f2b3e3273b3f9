//! Call targets.

use super::{call, function, link};
use crate::ir::OpKind;

fn targets(p: &super::Program, f: &str, name: &str) -> Vec<String> {
    let f = function(p, f);
    let (at, _) = call(p, f, name);
    let OpKind::Call(call) = &p.function(f).op(at).kind else { panic!() };
    call.targets.iter().map(|id| p.function(*id).path.clone()).collect()
}

#[test]
fn paths_and_methods() {
    let p = link(&[(
        "app",
        r#"
        mod util { pub fn key() {} }
        use util::key as make_key;
        struct A; impl A { fn go(&self) { self.inner(); Self::make(); } fn inner(&self) {} fn make() {} }
        struct B { a: std::sync::Arc<A> }
        impl B { fn run_all(&self) { self.a.go(); make_key(); } }"#,
    )]);
    assert_eq!(targets(&p, "A::go", "inner"), ["app::A::inner"]);
    assert_eq!(targets(&p, "A::go", "make"), ["app::A::make"]);
    assert_eq!(targets(&p, "B::run_all", "go"), ["app::A::go"]);
    assert_eq!(targets(&p, "B::run_all", "key"), ["app::util::key"]);
    let a = function(&p, "A::go");
    assert_eq!(p.callers(a).len(), 1);
}

#[test]
fn traits_join_real_implementations() {
    let p = link(&[(
        "app",
        r#"
        #[async_trait::async_trait]
        pub trait Store { async fn put_if_absent(&self, k: &str) -> bool; async fn twice(&self) -> bool { self.put_if_absent("x").await } }
        struct RedisStore; struct PgStore; struct MockStore; struct InMemoryStore;
        impl Store for RedisStore { async fn put_if_absent(&self, k: &str) -> bool { true } }
        impl Store for PgStore { async fn put_if_absent(&self, k: &str) -> bool { true } }
        impl Store for MockStore { async fn put_if_absent(&self, k: &str) -> bool { true } }
        impl Store for InMemoryStore { async fn put_if_absent(&self, k: &str) -> bool { true } }
        struct S<T> { store: T, dynamic: std::sync::Arc<dyn Store>, }
        impl<T: Store> S<T> {
            async fn generic(&self) { self.store.put_if_absent("k").await; }
            async fn object(&self) { self.dynamic.put_if_absent("k").await; }
        }
        async fn by_impl(s: &impl Store) { s.twice().await; }
        async fn exact(s: RedisStore) { s.put_if_absent("k").await; Store::put_if_absent(&s, "k").await; s.twice().await; }"#,
    )]);
    let real = ["app::RedisStore::put_if_absent", "app::PgStore::put_if_absent"];
    assert_eq!(targets(&p, "generic", "put_if_absent"), real);
    assert_eq!(targets(&p, "object", "put_if_absent"), real);
    assert_eq!(targets(&p, "by_impl", "twice"), ["app::Store::twice"]);
    assert_eq!(targets(&p, "exact", "put_if_absent"), ["app::RedisStore::put_if_absent"]);
    assert_eq!(targets(&p, "exact", "twice"), ["app::Store::twice"]);
}

#[test]
fn unknown_receivers_resolve_by_a_unique_uncommon_name() {
    let p = link(&[(
        "app",
        r#"
        struct A; impl A { fn take_lease(&self, k: &str) {} fn release(&self) {} }
        fn f() { let x = external::thing(); x.take_lease("k"); x.release(); x.take_lease("k", 2); }"#,
    )]);
    let f = function(&p, "f");
    let found: Vec<usize> = p.function(f).calls().map(|(_, _, c)| c.targets.len()).collect();
    assert_eq!(found, [0, 1, 0, 0]);
}
