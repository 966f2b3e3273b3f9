//! What to write instead, in the words of the backend.

use crate::ir::Backend;

/// The table of a row that is a lease, as its key is shown: `jobs:{id}`.
fn table(key: &str) -> &str {
    key.split(':').next().unwrap_or(key)
}

/// How to give the lock `key` back so that only its owner can.
pub fn checked_release(backend: Backend, key: &str) -> String {
    match backend {
        Backend::Etcd => format!(
            "give it back by what the service knows: `lease_revoke(id)`, `unlock` with the key that `lock` returned, or a transaction that compares the create revision of `{key}` before it deletes"
        ),
        Backend::Consul => format!(
            "release it with its session: `PUT /v1/kv/{key}?release=<session>`, or delete it with `cas=<ModifyIndex>`"
        ),
        Backend::Nats => format!(
            "delete only what you wrote: `delete_expect_revision(\"{key}\", Some(revision))` with the revision that `create` or the last `update` returned"
        ),
        Backend::ZooKeeper => format!(
            "delete `{key}` with the version that you wrote, or take the lock as an ephemeral node, which only its session owns"
        ),
        Backend::Kubernetes => format!(
            "send `metadata.resourceVersion` of the lease `{key}` that was read with the patch, or `replace` the object that was read: the server then refuses it with 409 once somebody else has written"
        ),
        Backend::ObjectStore | Backend::DynamoDb => {
            format!("delete `{key}` under a condition on the version or owner that you wrote")
        }
        Backend::Sql | Backend::Postgres | Backend::MySql | Backend::SqlServer => format!(
            "name the holder in the same statement: store a token made for each claim in the row of `{}`, release it `WHERE <key> = .. AND <token column> = <this claim's token>`, and check the number of rows",
            table(key)
        ),
        _ => format!(
            "compare and delete in one step: a script `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end` with `{key}` and the holder's own token"
        ),
    }
}

/// How to prolong the lock `key` so that only its owner can.
pub fn checked_renewal(backend: Backend, key: &str) -> String {
    match backend {
        Backend::Etcd => "prolong the lease (`lease_keep_alive(id)`), not the key".into(),
        Backend::Consul => "renew the session (`PUT /v1/session/renew/<id>`), and stop the work when it answers 404".into(),
        Backend::Nats => format!("prolong only what you wrote: `update(\"{key}\", value, revision)`, and stop the work when it fails"),
        Backend::Kubernetes => format!("send `metadata.resourceVersion` of the lease `{key}` that was read with the patch, or `replace` the object that was read, and stop the work on 409"),
        Backend::ObjectStore => format!("put `{key}` only over the version that you wrote (`if_match(etag)`, `PutMode::Update(version)`), and stop the work when the store refuses"),
        Backend::DynamoDb => "prolong under a condition on the version or owner that you wrote (`condition_expression(\"owner = :me\")`), and stop the work when it fails".into(),
        Backend::Sql | Backend::Postgres | Backend::MySql | Backend::SqlServer => format!(
            "name the holder in the same statement: store a token made for each claim in the row of `{}`, prolong it `WHERE <key> = .. AND <token column> = <this claim's token>`, and stop the work when no row was updated",
            table(key)
        ),
        _ => "compare and prolong in one step: a script `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) else return 0 end`, and stop the work when it answers 0".into(),
    }
}

/// How to ask whether `key` is free and take it in one step.
pub fn atomic_take(backend: Backend, key: &str) -> String {
    match backend {
        Backend::Etcd => format!(
            "ask and take in one transaction: `Txn::new().when([Compare::create_revision(\"{key}\", CompareOp::Equal, 0)]).and_then([TxnOp::put(..)])`, and go on only if it `succeeded()`"
        ),
        Backend::Consul => {
            format!(
                "take it with a session (`PUT /v1/kv/{key}?acquire=<session>`) or `cas=0`, and go on only if the body is `true`"
            )
        }
        Backend::ObjectStore => format!(
            "create `{key}` only if it is absent (`if_none_match(\"*\")`, `PutMode::Create`), or put it over the version that was read (`if_match(etag)`)"
        ),
        Backend::DynamoDb => {
            "put it under a condition (`attribute_not_exists(..)`), and go on only if the condition held".into()
        }
        Backend::Nats => format!("take it by `create(\"{key}\", ..)`, which fails where the key exists"),
        Backend::Kubernetes => format!(
            "send `metadata.resourceVersion` of the lease `{key}` that was read, or `replace` the object that was read, and go on only if the server does not answer 409"
        ),
        _ => format!(
            "ask and take in one command: `SET {key} <token> NX PX <milliseconds>`, and go on only if it answers OK"
        ),
    }
}
