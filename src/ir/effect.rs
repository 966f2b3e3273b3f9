//! Effects: what a call does on the wire, in the terms of locks. Written by protocol modules, read by the analysis.

use super::{Shape, Value};
use crate::source::Span;

/// One exchange with a server (or one pipeline, MULTI, script): its effects and what the caller sees of the outcome.
#[derive(Clone, Debug, PartialEq)]
pub struct RoundTrip {
    /// What it runs on.
    pub handle: Handle,
    /// Effects in order. Several for pipelines, MULTI, scripts and multi-statement SQL.
    pub effects: Vec<Effect>,
    /// Whether the effects are one atomic step.
    pub atomicity: Atomicity,
    /// The call's result (with its `Result` layer) in each world of the first lock effect (Acquire, Renew, Release,
    /// conditional write); of a plain read: `held` where there is a value, `lost` where there is none. `None`: the result
    /// says nothing of either.
    pub reply: Option<Reply>,
    /// How surely the call was recognised.
    pub certainty: Certainty,
    /// Model row that matched: `redis/query_async`.
    pub model: String,
    /// The result (inside its held shape) is a guard or lock object of an API: what dropping it does. `None`: no guard.
    pub guard: Option<GuardDrop>,
}

/// What dropping a lock API's guard does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GuardDrop {
    /// Releases before drop returns.
    Releases,
    /// Queues or spawns the release.
    Later,
    /// Nothing: the lock stays until its expiry.
    Nothing,
}

/// How atomic the effects of one [`RoundTrip`] are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Atomicity {
    /// One command or statement.
    Single,
    /// Sent together, executed one by one; a crash of the server or another client can come between.
    Pipeline,
    /// MULTI/EXEC: all run, whatever the first one answered.
    Multi,
    /// A Lua script or one SQL statement with several effects: its own control flow is already evaluated.
    Script,
}

/// How surely the call was recognised. Caps the confidence of findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Certainty {
    /// By method name and shape of arguments only.
    Name,
    /// By an imported trait, or inferred receiver type.
    Inferred,
    /// By full path or declared type.
    Full,
}

/// What the caller sees, by world. Shapes include the `Result` layer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reply {
    /// It succeeded.
    pub held: Shape,
    /// Someone else has the lock (or: not the owner any more, nothing matched).
    pub lost: Shape,
    /// Error or timeout: the caller does not know; it may have been granted.
    pub failed: Shape,
}

/// What an SQL or Redis command runs on.
#[derive(Clone, Debug, PartialEq)]
pub struct Handle {
    /// Kind.
    pub kind: HandleKind,
    /// Which variable, field or parameter, in the terms of the function.
    pub identity: Value,
    /// Value of the DSN it was opened with, if seen.
    pub origin: Value,
}

/// Kind of a [`Handle`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HandleKind {
    /// Any connection per command (`PgPool`, `fred::Pool`, `redis::Client`).
    Pool,
    /// One pooled connection, checked out; goes back to the pool.
    Pinned,
    /// A connection of its own, closed with the session.
    Dedicated,
    /// Shared by many tasks (`MultiplexedConnection`, `ConnectionManager`).
    Multiplexed,
    /// An open database transaction.
    Transaction,
    /// Inside a server-side script or function body: the caller's transaction.
    Body,
    /// Not known (generic executor, parameter).
    Unknown,
}

impl Handle {
    /// Nothing is known.
    pub fn unknown() -> Handle {
        Handle { kind: HandleKind::Unknown, identity: Value::Unknown, origin: Value::Unknown }
    }
}

/// One effect with its own place (the command word in a pipeline, the function name inside SQL text, or the call).
#[derive(Clone, Debug, PartialEq)]
pub struct Effect {
    /// Place for labels.
    pub span: Span,
    /// Command as people write it, for messages: `SET .. NX PX`, `DEL`, `pg_try_advisory_lock`.
    pub command: String,
    /// What happens.
    pub kind: EffectKind,
    /// Only under a condition inside the same round trip that the analysis may take as unknown (builder step under `if`).
    pub conditional: bool,
}

/// Which server-side thing a lock is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Backend {
    Redis,
    Postgres,
    MySql,
    SqlServer,
    /// SQL whose dialect is not known.
    Sql,
    Etcd,
    ZooKeeper,
    Consul,
    Kubernetes,
    Nats,
    ObjectStore,
    DynamoDb,
}

/// Kind of lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LockKind {
    /// Key with an expiry, or meant to have one.
    Lease,
    /// SQL row used as a lease.
    LeaseRow,
    /// Belongs to the database session.
    Session,
    /// Ends with the database transaction.
    Transaction,
    /// Row or table lock of the transaction.
    Row,
}

/// An effect.
#[derive(Clone, Debug, PartialEq)]
pub enum EffectKind {
    /// Takes a lock, or a marker that may be one (the analysis decides: lock, claim or neither).
    Acquire(Acquire),
    /// Gives it back.
    Release(Release),
    /// Prolongs it with an owner check, or through a lock crate.
    Renew(Renew),
    /// Sets, changes or (with `Ttl::Never`: PERSIST) removes an expiry without looking at the owner.
    Expire(Expire),
    /// Reads the key or rows.
    Read(Resource),
    /// Changes state.
    Write(Write),
    /// Effect outside every store that could refuse it.
    External(External),
    /// Opens a transaction on the handle (or MULTI).
    Begin,
    /// Commits it (or EXEC).
    Commit,
    /// Rolls it back (or DISCARD).
    Rollback,
    /// WATCH on keys.
    Watch(Value),
    /// Sleeps for a Duration.
    Sleep(Value),
    /// A future raced against a deadline: (Duration).
    Timeout(Value),
    /// Starts a task that outlives the statement; value of its body.
    Spawn(Value),
    /// Tells another task: cancellation token, channel, notify, abort.
    Signal(Value),
    /// Listens to another task or flag.
    Observe(Value),
    /// Takes a value (fencing token, sequence) from the store: INCR, nextval, revision.
    Issue(Value),
    /// Decides by a time that is stored in the rows of a table whether the lease on a row is over.
    Overdue(Overdue),
    /// Makes a lease or session that keys can be bound to.
    Grant(Grant),
    /// Reads a node of a coordination service, or the names of those below it, and may ask to be told of its next change.
    Look(Look),
}

impl EffectKind {
    /// Takes, gives back or prolongs a lock (or what may be one).
    pub fn is_lock(&self) -> bool {
        matches!(self, EffectKind::Acquire(_) | EffectKind::Release(_) | EffectKind::Renew(_) | EffectKind::Expire(_))
    }
}

/// A [`EffectKind::Grant`].
#[derive(Clone, Debug, PartialEq)]
pub struct Grant {
    /// Backend.
    pub backend: Backend,
    /// How long it lives without being kept alive; `Never` for a session that only ends with its node.
    pub ttl: Ttl,
}

/// A [`EffectKind::Look`].
#[derive(Clone, Debug, PartialEq)]
pub struct Look {
    /// Backend.
    pub backend: Backend,
    /// The node.
    pub key: Value,
    /// The names of the nodes below it, not the node itself.
    pub children: bool,
    /// Sets a watch.
    pub watch: bool,
}

/// A [`EffectKind::Acquire`].
#[derive(Clone, Debug, PartialEq)]
pub struct Acquire {
    /// Backend.
    pub backend: Backend,
    /// Kind; `Lease` for every set-if-absent.
    pub kind: LockKind,
    /// How it is taken.
    pub form: AcquireForm,
    /// Key, in the terms of the function.
    pub key: Value,
    /// What is stored as owner; `Unknown` if the API makes it.
    pub token: Value,
    /// Expiry set in the same step.
    pub ttl: Ttl,
    /// Waits until granted (no `lost` world).
    pub blocking: bool,
}

/// How a lock is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AcquireForm {
    /// Plain set-if-absent (SET NX, SETNX, HSETNX, Lua doing so): may be a lock or a marker.
    SetIfAbsent,
    /// A lock API: lock crate, advisory lock, GET_LOCK, etcd lock.
    LockApi,
    /// Row claim.
    RowClaim,
    /// A lock API called once for each row that a statement scans: it locks more than the rows that come back
    /// (PostgreSQL manual, 13.3.5: `SELECT pg_advisory_lock(id) FROM foo WHERE id > 12345 LIMIT 100`).
    PerRow,
}

/// Expiry of an acquire or renewal.
#[derive(Clone, Debug, PartialEq)]
pub enum Ttl {
    /// None is set: lives until deleted.
    Never,
    /// Set to this value: `Const(Duration)` when unit and number are known, else the value with its unit.
    After(Value, TimeUnit),
    /// May or may not be set (an optional value, options made elsewhere).
    Unknown,
    /// The service keeps it alive by itself (session, own default).
    Managed,
}

/// Unit of a raw number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum TimeUnit {
    Seconds,
    Milliseconds,
    /// A `Duration` value.
    Duration,
    /// Unix time in seconds.
    UnixSeconds,
    /// Unix time in milliseconds.
    UnixMilliseconds,
}

/// What a release, renewal or write compares in the same atomic step.
#[derive(Clone, Debug, PartialEq)]
pub enum OwnerCheck {
    /// Nothing.
    None,
    /// The stored owner with this value.
    Token(Value),
    /// The server knows the owner (session, transaction, lease id).
    Server,
    /// Something that could not be read.
    Unknown,
}

/// A [`EffectKind::Release`].
#[derive(Clone, Debug, PartialEq)]
pub struct Release {
    /// Backend.
    pub backend: Backend,
    /// Kind.
    pub kind: LockKind,
    /// Key. For session locks released as a whole: `Unknown`.
    pub key: Value,
    /// Owner check in the same step.
    pub check: OwnerCheck,
    /// Releases every lock of the session.
    pub all: bool,
}

/// A [`EffectKind::Renew`].
#[derive(Clone, Debug, PartialEq)]
pub struct Renew {
    /// Backend.
    pub backend: Backend,
    /// Key.
    pub key: Value,
    /// Owner check in the same step.
    pub check: OwnerCheck,
    /// New expiry.
    pub ttl: Ttl,
}

/// A [`EffectKind::Expire`].
#[derive(Clone, Debug, PartialEq)]
pub struct Expire {
    /// Key.
    pub key: Value,
    /// New expiry; `Never` for PERSIST.
    pub ttl: Ttl,
    /// `EXPIRE .. NX`: only where none is set (a repair).
    pub only_if_none: bool,
}

/// A [`EffectKind::Overdue`].
#[derive(Clone, Debug, PartialEq)]
pub struct Overdue {
    /// Table.
    pub table: String,
    /// Column with the stored time.
    pub column: String,
    /// The time that it is compared with, where the caller sends it; `None`: the server's own clock.
    pub now: Option<Value>,
}

/// What is read or written.
#[derive(Clone, Debug, PartialEq)]
pub enum Resource {
    /// Redis key (or key of another key-value store).
    Key(Backend, Value),
    /// SQL table.
    Table(String),
    /// Something else, by name.
    Other(String),
}

/// A [`EffectKind::Write`].
#[derive(Clone, Debug, PartialEq)]
pub struct Write {
    /// Target.
    pub resource: Resource,
    /// Verb for messages: `UPDATE`, `INSERT`, `SET`, `HSET`.
    pub verb: String,
    /// What makes it safe against a stale holder, by its own text.
    pub safety: Safety,
    /// Values written (parameters and constants of the statement), in order.
    pub values: Vec<Value>,
    /// Columns that rows which are there already get anew: those of UPDATE and DO UPDATE.
    pub assigned: Vec<String>,
    /// Redis: has a TTL of its own (`SET .. EX`, SETEX).
    pub ttl: Option<Ttl>,
}

impl Write {
    /// A write that assigns no columns.
    pub fn new(resource: Resource, verb: &str, safety: Safety, values: Vec<Value>, ttl: Option<Ttl>) -> Write {
        Write { resource, verb: verb.to_owned(), safety, values, assigned: Vec::new(), ttl }
    }
}

/// Why a write may be safe against a stale holder.
#[derive(Clone, Debug, PartialEq)]
pub enum Safety {
    /// Nothing in the statement guards it.
    None,
    /// Conditioned on columns compared with values: (column, operator, value).
    Conditions(Vec<(String, String, Value)>),
    /// INSERT .. ON CONFLICT DO NOTHING, INSERT under a unique key, SET NX: the store refuses the second.
    Unique,
    /// INSERT .. ON CONFLICT DO UPDATE, REPLACE: the last one wins, so all depends on the values.
    Upsert,
    /// Not readable: not a write as far as rules are concerned.
    Unknown,
}

/// A [`EffectKind::External`].
#[derive(Clone, Debug, PartialEq)]
pub struct External {
    /// `HTTP POST`, `mail`, `publish`, `object PUT`, `process`.
    pub what: String,
    /// Target as far as known.
    pub target: Value,
    /// Idempotency key or precondition, if one is sent.
    pub idempotency: Option<Value>,
}

impl External {
    /// Whether it changes something where it arrives: anything but HTTP GET, HEAD, OPTIONS, and requests whose method is
    /// not known.
    pub fn mutates(&self) -> bool {
        match self.what.strip_prefix("HTTP ") {
            Some(method) => matches!(method, "POST" | "PUT" | "PATCH" | "DELETE"),
            None => true,
        }
    }
}
