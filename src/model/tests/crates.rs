//! Other clients, lock crates, services, time.

use super::*;

#[test]
fn fred_commands_pipelines_and_scripts() {
    let text = |body: &str| {
        format!(
            "use fred::prelude::*; struct S {{ pool: fred::prelude::RedisPool }}
             impl S {{ async fn f(&self, client: &RedisClient, key: &str, token: String, ttl: i64) -> Result<(), Error> {{ {body} Ok(()) }}
             const UNLOCK: &'static str = \"if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end\"; }}"
        )
    };
    let cases = [
        (
            "let won: Option<String> = client.set(key, token, Some(Expiration::PX(ttl)), Some(SetOptions::NX), false).await?;",
            "2:acquire [SET PX NX] $2 token $3 ttl $4 Milliseconds; Single on Multiplexed $1; Ok(Some(Str(\"OK\"))) | Ok(None)",
        ),
        (
            "let won: bool = self.pool.set(key, token, Some(Expiration::EX(30)), Some(SetOptions::NX), false).await?;",
            "2:acquire [SET EX NX] $2 token $3 ttl Duration(30000000000) Seconds; Single on Pool S.pool; Ok(Bool(true)) | Err(Unknown)",
        ),
        ("let _: () = client.set(key, token, None, None, false).await?;", "2:write [SET] $2; Single on Multiplexed $1"),
        (
            "let pipeline = self.pool.next().pipeline();
             let _ = pipeline.msetnx::<RedisValue, _>((key, token)).await;
             let _ = pipeline.expire::<(), &str>(key, ttl).await;
             let output: Vec<RedisValue> = pipeline.all().await?;",
            "3:acquire [MSETNX] $2 token $3 ttl Never; 4:expire $2 ttl $4 Seconds; Pipeline on Multiplexed %5; \
             Ok(Tuple([Number(1), Unknown])) | Ok(Tuple([Number(0), Unknown]))",
        ),
        (
            "let n: i64 = client.eval(Self::UNLOCK, vec![key], vec![token]).await?;",
            "2:release [DEL] $2 = $3; Script on Multiplexed $1; Ok(Int(1)) | Ok(Int(0))",
        ),
        (
            "let args: Vec<RedisValue> = vec![Self::UNLOCK.into(), 1_i64.into(), key.into(), token.into()];
             let cmd = CustomCommand::new_static(\"EVAL\", None, false);
             let n: i64 = client.custom(cmd, args).await?;",
            "4:release [DEL] $2 = $3; Script on Multiplexed $1; Ok(Int(1)) | Ok(Int(0))",
        ),
    ];
    for (body, expected) in cases {
        let (program, understood) = program(&text(body));
        assert_eq!(trips(&program).join("\n"), expected, "{body} {understood:?}");
    }
}

#[test]
fn lock_crates_and_services() {
    let cases = [
        (
            "async fn f(rl: &rslock::LockManager, ttl: std::time::Duration) -> R<()> { let lock = rl.lock(\"job\".as_bytes(), ttl).await?; rl.unlock(&lock).await; }",
            "1:acquire [rslock::lock] Str(\"job\") token Unknown ttl $1 Duration; Single on Unknown $0; Ok(Unknown) | Err(Unknown)\n\
             1:release [rslock::unlock] Str(\"job\") Server; Single on Unknown $0; Unit | Unit",
        ),
        (
            "use etcd_client::*; async fn f(c: &mut Client) -> R<()> { let lease = c.lease_grant(10, None).await?;
             let options = LockOptions::new().with_lease(lease.id()); let lock = c.lock(\"job\", Some(options)).await?; c.unlock(lock.key()).await?; }",
            "1:grant(grant { backend: etcd, ttl: after(const(duration(10000000000)), seconds) }); Single on Multiplexed $0\n\
             2:acquire [etcd-client::lock] Str(\"job\") token .id(.lease_grant($0, Int(10), Path(\"None\"))) ttl Duration(10000000000) Seconds; Single on Multiplexed $0; Ok(Unknown) | Err(Unknown)\n\
             2:release [etcd-client::unlock] Str(\"job\") Server; Single on Multiplexed $0; Ok(Unknown) | Err(Unknown)",
        ),
        (
            "async fn f(c: &reqwest::Client, url: &str, id: &str) -> R<()> {
             let made: Made = c.put(format!(\"{url}/v1/session/create\")).json(&serde_json::json!({ \"TTL\": \"15s\" })).send().await?.json().await?;
             c.put(format!(\"{url}/v1/kv/job/{id}?acquire={}\", made.id)).body(\"x\").send().await?; }",
            "2:grant(grant { backend: consul, ttl: after(const(duration(15000000000)), seconds) }); Single on Unknown Unknown\n\
             3:acquire [HTTP PUT] job/{$2} token .json(.send(.json(.put($0, {$1}/v1/session/create), Aggregate(\"serde_json::Value\", [(\"TTL\", Const(Str(\"15s\")))])))).id \
             ttl Duration(15000000000) Seconds; Single on Unknown Unknown; Ok(Struct(\"reqwest::Response\", [(\"body\", Bool(true))])) | \
             Ok(Struct(\"reqwest::Response\", [(\"body\", Bool(false))]))",
        ),
        (
            "use kube::{Api, api::*}; use k8s_openapi::api::coordination::v1::Lease; async fn f(c: kube::Client, me: &str) -> R<()> {
             let leases: Api<Lease> = Api::namespaced(c, \"ns\");
             let patch = serde_json::json!({ \"metadata\": { \"name\": \"job\" }, \"spec\": { \"holderIdentity\": me, \"leaseDurationSeconds\": 15 } });
             leases.patch(\"job\", &PatchParams::apply(me), &Patch::Merge(&patch)).await?;
             leases.patch(\"job\", &PatchParams::apply(me), &Patch::Merge(serde_json::json!({ \"spec\": { \"renewTime\": now } }))).await?;
             leases.patch(\"job\", &PatchParams::apply(me), &Patch::Merge(serde_json::json!({ \"spec\": { \"holderIdentity\": null } }))).await?; }",
            "4:write [patch] Str(\"job\"); Single on Multiplexed %2\n\
             5:renew [kube::patch] Str(\"job\") None ttl Unknown; Single on Multiplexed %2; Ok(Unknown) | Err(Unknown)\n\
             6:release [kube::patch] Str(\"job\") None; Single on Multiplexed %2; Ok(Unknown) | Err(Unknown)",
        ),
        (
            "use etcd_client::*; async fn f(c: &mut Client) -> R<()> {
             let txn = Txn::new().when([Compare::create_revision(\"k\", CompareOp::Equal, 0)]).and_then([TxnOp::put(\"k\", \"me\", None)]);
             let won = c.txn(txn).await?.succeeded(); }",
            "2:acquire [etcd-client::txn] Str(\"k\") token Str(\"me\") ttl Never; Single on Multiplexed $0; \
             Ok(Struct(\"etcd_client::TxnResponse\", [(\"succeeded\", Bool(true))])) | Ok(Struct(\"etcd_client::TxnResponse\", [(\"succeeded\", Bool(false))]))",
        ),
        (
            "use kube_leader_election::{LeaseLock, LeaseLockParams}; struct S { lock: LeaseLock }
             fn new(c: C) -> S { S { lock: LeaseLock::new(c, \"ns\", LeaseLockParams { holder_id: \"me\".into(), lease_name: \"leader\".into(), lease_ttl: std::time::Duration::from_secs(15) }) } }
             async fn f(s: &S) -> R<()> { let lease = s.lock.try_acquire_or_renew().await?; }",
            "3:acquire [kube-leader-election::try_acquire_or_renew] Str(\"leader\") token Str(\"me\") ttl Duration(15000000000) Duration; Single on Unknown S.lock; Ok(Tainted) | Ok(Tainted)",
        ),
    ];
    for (text, expected) in cases {
        let (program, _) = program(text);
        assert_eq!(trips(&program).join("\n"), expected, "{text}");
    }
}

#[test]
fn time_tasks_and_requests() {
    let cases = [
        (
            "tokio::time::sleep(std::time::Duration::from_secs(5)).await;",
            "1:sleep Duration(5000000000); Single on Unknown Unknown",
        ),
        (
            "let mut t = tokio::time::interval(std::time::Duration::from_secs(5)); t.tick().await;",
            "1:sleep Duration(5000000000); Single on Unknown Unknown",
        ),
        (
            "let c = reqwest::Client::new(); c.post(key).header(\"Idempotency-Key\", token).send().await?;",
            "1:HTTP POST $1 key $2; Single on Unknown Unknown",
        ),
        ("reqwest::Client::new().get(key).send().await?;", "1:HTTP GET $1; Single on Unknown Unknown"),
    ];
    for (text, expected) in cases {
        assert_eq!(body("", text), expected, "{text}");
    }
}

#[test]
fn a_conditional_create_is_counted_where_its_sending_is_not_followed() {
    let text = "use aws_sdk_s3::Client;
        async fn claim(client: &Client, key: &str) -> Result<(), Error> {
            let request = client.put_object().bucket(\"b\").key(key).if_none_match(\"*\");
            hand_over(request).await
        }";
    let (_, understood) = super::program(text);
    let missed: Vec<&str> = understood.missed.iter().map(|m| m.name.as_str()).collect();
    assert_eq!((understood.understood, missed), (0, vec!["if_none_match"]));
    let text = "use aws_sdk_s3::Client;
        async fn claim(client: &Client, key: &str) -> Result<(), Error> {
            client.put_object().bucket(\"b\").key(key).if_none_match(\"*\").send().await?;
            Ok(())
        }";
    let (_, understood) = super::program(text);
    assert_eq!((understood.understood, understood.missed), (1, vec![]));
}
