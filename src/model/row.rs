//! What one row of `rules/models/*.toml` can say.

use serde::Deserialize;

/// What a call does, as far as its crate is concerned; the protocol module decides what that means for locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// A named wire command with its arguments in `wire`: sent at once on a connection, queued on a pipeline, or made
    /// into a command value (associated functions such as `redis::Cmd::set_nx`).
    Command,
    /// Starts a raw command, its name and first arguments in `wire`.
    CommandStart,
    /// Appends `wire` to the last command of its receiver.
    Arg,
    /// Starts a pipeline; `atomic = true` for MULTI/EXEC.
    Pipeline,
    /// Makes the pipeline atomic (MULTI/EXEC).
    Atomic,
    /// Drops the reply of the last command from the pipeline's reply.
    Ignore,
    /// Appends the command value at `value` to the pipeline.
    AddCommand,
    /// Script object: `script` is the position of the text.
    Script,
    /// Adds keys (`key`) to a script call.
    ScriptKey,
    /// Adds arguments (`value`) to a script call.
    ScriptArg,
    /// Runs the command, pipeline or script that `runs` names, on the handle `on`.
    Execute,
    /// Runs a script given as text, with keys and arguments in one call: `script`, `key`, `value`.
    Eval,
    /// Watches the keys at `key` on the connection `on` while its closure runs (`redis::transaction`).
    Watch,
    /// Registers a script or function (`SCRIPT LOAD`, `FUNCTION LOAD`).
    Load,
    /// Builds options that end up as words of a command, in `wire`.
    Options,
    /// Takes a lock through a lock API.
    LockAcquire,
    /// Gives it back.
    LockRelease,
    /// Prolongs it.
    LockRenew,
    /// Grants a lease or session with the TTL at `ttl`, which keys can be bound to.
    Lease,
    /// Creates a ZooKeeper node at `key` with the mode at `value`.
    CreateNode,
    /// Reads the node at `key`, or with `what = "children"` the names below it; with `watch` it asks to be told of the next
    /// change, unless the flag at `value` is `false`.
    Look,
    /// A call on a Kubernetes object that is named in `what`: `create`, `get`, `patch`, `replace`, `delete`; a lease is a lock.
    Object,
    /// Adds parameters to the URL of a request under construction, at `value`.
    Parameters,
    /// Sets the body of a request under construction, at `value`.
    Body,
    /// Sends a compare-and-set transaction of a key-value service, the transaction at `value`.
    Transact,
    /// SQL statement: text at `sql`, parameters at `params`; runs at once when `on` is given, else at its terminal.
    Statement,
    /// Adds text to a statement under construction (`QueryBuilder::push`).
    StatementText,
    /// Binds the parameter at `value`.
    Bind,
    /// Runs the statement in `runs` on the executor `on`.
    Terminal,
    /// Opens a database transaction on `on`.
    TxBegin,
    /// Commits it.
    TxCommit,
    /// Rolls it back.
    TxRollback,
    /// Runs the closure `body` in a transaction that commits on `Ok`.
    TxClosure,
    /// Row lock step of a query builder (`for_update`, `lock_exclusive`); mode in `what`.
    RowLock,
    /// Query builder step or start; verb in `what`.
    Query,
    /// Runs embedded migrations on `on`.
    Migrate,
    /// Gives a connection, pool or client; its kind in `handle`.
    Connection,
    /// Gives back its argument or receiver unchanged (`Box::pin`, `boxed`).
    PassThrough,
    /// Does nothing that matters here; the call counts as understood.
    Neutral,
    /// Effect outside every store that could refuse it; kind in `what`.
    External,
    /// Starts an external effect whose send is another row (`client.post(url)`); kind in `what`.
    ExternalStart,
    /// Adds an idempotency key or precondition to an external effect under construction.
    Idempotency,
    /// Sets what `what` names in a request under construction, to `value`; with a name of its own at `key`.
    Setting,
    /// Names the target (`value`) of an external effect under construction.
    ExternalTarget,
    /// Reads the store, the key at `key`.
    Read,
    /// Writes the store, the key at `key`.
    Write,
    /// Sleeps for the Duration at `value`.
    Sleep,
    /// Makes a ticker with the period at `value`.
    Interval,
    /// Waits for the ticker's next tick.
    Tick,
    /// Races the future `body` against the Duration at `value`.
    Timeout,
    /// Starts a task; body at `body`.
    Spawn,
    /// Tells another task (cancel, send, notify, abort).
    Signal,
    /// Listens to another task or flag (cancelled, recv, load, join).
    Observe,
    /// Takes a fencing token or sequence from the store.
    Issue,
}

/// The module under [`crate::protocol`] that knows what a row's call means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// Redis and its kin.
    Redis,
    /// SQL databases.
    Sql,
    /// Lock crates and coordination services whose API is the lock.
    Lock,
    /// Time, tasks, cancellation.
    Time,
    /// Effects that no store can refuse.
    External,
}

/// What kind of thing a value of a client crate's type is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TypeRole {
    /// Any connection per command.
    Pool,
    /// One pooled connection, checked out.
    Pinned,
    /// A connection of its own.
    Dedicated,
    /// One connection shared by many tasks.
    Multiplexed,
    /// An open database transaction.
    Transaction,
    /// A handle whose connection is not known (generic executor).
    Handle,
    /// A command value that is not sent yet.
    Command,
    /// Queued commands, executed one by one.
    Pipeline,
    /// Queued commands between MULTI and EXEC.
    Multi,
    /// A script with or without its keys and arguments.
    Script,
    /// Options of a command.
    Options,
    /// A statement that is not run yet.
    Statement,
    /// A lock object or lock manager.
    Lock,
    /// A guard.
    Guard,
    /// A trait whose methods are the commands.
    Trait,
    /// Any other object with modelled methods: a task handle, a channel, a token.
    Object,
    /// A reply type of the client itself, such as `redis::Value`.
    Value,
}

/// Wire reply or declared result of a call, inside its `Result` layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReplyKind {
    /// The type the caller asks for decides.
    Asked,
    /// Thrown away by the call itself: `Ok(())` whatever the server said.
    Discarded,
    /// The call's result has no `Result` layer and says nothing.
    Nothing,
    /// `true` / `false`.
    Bool,
    /// 1 / 0.
    Int,
    /// `Some` / `None`.
    Option,
    /// `()`, the loss is an error: `Ok` / `Err`.
    Unit,
    /// A value (lock, guard) / `Err`.
    Value,
    /// A value without `Result` layer; the call waits until it has it.
    Infallible,
    /// `Either::Left(guard)` / `Either::Right(_)`.
    Either,
    /// `(true, _)` / `(false, _)`
    BoolFirst,
    /// Struct or response with the outcome behind a method or field.
    Opaque,
}

/// Unit of a raw TTL argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
pub enum Unit {
    /// Seconds.
    #[serde(rename = "s")]
    Seconds,
    /// Milliseconds.
    #[serde(rename = "ms")]
    Milliseconds,
    /// A `Duration`.
    #[serde(rename = "duration")]
    Duration,
}

/// Owner check of a lock API's release or renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Check {
    /// None.
    None,
    /// The crate compares the token it stored.
    Token,
    /// The server knows the owner.
    Server,
}

/// What dropping a lock API's guard does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnDrop {
    /// Releases before drop returns.
    Releases,
    /// Queues or spawns the release.
    Later,
    /// Nothing: the lock stays until its expiry.
    Nothing,
}

/// Position of an argument: `0` (after the receiver), `"receiver"`, and from there into what made it: `"receiver.0"` is the
/// first argument of the constructor, `"0.key"` the field `key` or the builder call `.key(..)`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(try_from = "PlaceText")]
pub struct Place {
    /// `None` for the receiver.
    pub arg: Option<usize>,
    /// Steps into the value.
    pub path: Vec<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum PlaceText {
    Number(usize),
    Text(String),
}

impl TryFrom<PlaceText> for Place {
    type Error = String;

    fn try_from(text: PlaceText) -> Result<Place, String> {
        let text = match text {
            PlaceText::Number(n) => return Ok(Place { arg: Some(n), path: Vec::new() }),
            PlaceText::Text(text) => text,
        };
        let mut steps = text.split('.');
        let arg = match steps.next() {
            Some("receiver") => None,
            Some(first) => Some(first.parse().map_err(|_| {
                format!("`{text}` is no position: write an argument number or `receiver`, then `.field` or `.number`")
            })?),
            None => None,
        };
        Ok(Place { arg, path: steps.map(str::to_owned).collect() })
    }
}

/// One or several words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "WordsText")]
pub struct Words(pub Vec<String>);

#[derive(Deserialize)]
#[serde(untagged)]
enum WordsText {
    One(String),
    Many(Vec<String>),
}

impl From<WordsText> for Words {
    fn from(text: WordsText) -> Words {
        match text {
            WordsText::One(one) => Words(vec![one]),
            WordsText::Many(many) => Words(many),
        }
    }
}

/// One or several numbers of arguments (without the receiver).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "ArityText")]
pub struct Arity(pub Vec<usize>);

#[derive(Deserialize)]
#[serde(untagged)]
enum ArityText {
    One(usize),
    Many(Vec<usize>),
}

impl From<ArityText> for Arity {
    fn from(text: ArityText) -> Arity {
        match text {
            ArityText::One(one) => Arity(vec![one]),
            ArityText::Many(many) => Arity(many),
        }
    }
}

impl Arity {
    /// Whether `n` arguments fit; any number does when nothing is said.
    pub fn fits(&self, n: usize) -> bool {
        self.0.is_empty() || self.0.contains(&n)
    }
}

/// The keys of one `[[call]]` row, as written.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Spec {
    /// Full paths of free or associated functions.
    #[serde(default)]
    pub path: Words,
    /// Method names.
    #[serde(default)]
    pub method: Words,
    /// Full paths of macros.
    #[serde(default, rename = "macro")]
    pub macros: Words,
    /// Types (or traits as bounds) the receiver can have; those of the file's `[types]` that are no builder if nothing is said.
    #[serde(default)]
    pub receiver: Words,
    /// Number of arguments after the receiver.
    #[serde(default)]
    pub args: Arity,
    /// The name is so common that the receiver's type must be known; no import makes up for it.
    #[serde(default)]
    pub typed: bool,
    /// Versions of the crate: `>=0.26`, `>=0.4, <0.10`.
    pub version: Option<String>,
    /// Role.
    pub role: Role,
    /// Protocol, if not the file's.
    pub protocol: Option<Protocol>,
    /// Wire words: `WORD`, `$0` (argument), `$0..` (argument that expands to several), `$2:options`, `GET:if($4)`.
    #[serde(default)]
    pub wire: Vec<String>,
    /// Position of the key.
    pub key: Option<Place>,
    /// Position of the owner token.
    pub token: Option<Place>,
    /// Position of the TTL.
    pub ttl: Option<Place>,
    /// Unit of the TTL.
    pub unit: Option<Unit>,
    /// A lock call that makes a lease or session of its own (where no options are given), which nobody can keep alive.
    #[serde(default)]
    pub grants: Option<u64>,
    /// The API renews by itself as long as its guard lives.
    #[serde(default)]
    pub renews: bool,
    /// Position of the SQL text.
    pub sql: Option<Place>,
    /// Position of the statement's parameters.
    pub params: Option<Place>,
    /// Position of the connection, pool, transaction or client.
    pub on: Option<Place>,
    /// Position of the command, pipeline, script or statement that is run.
    pub runs: Option<Place>,
    /// Position of the script text.
    pub script: Option<Place>,
    /// Position of a closure or future, or of what is sent.
    pub body: Option<Place>,
    /// Position of a value (parameter, Duration, target).
    pub value: Option<Place>,
    /// Word for messages or for the protocol: `HTTP POST`, `FOR UPDATE`.
    pub what: Option<String>,
    /// MULTI/EXEC pipeline.
    #[serde(default)]
    pub atomic: bool,
    /// Waits until granted.
    #[serde(default)]
    pub blocking: bool,
    /// Sets a watch.
    #[serde(default)]
    pub watch: bool,
    /// Reply.
    pub reply: Option<ReplyKind>,
    /// Position of the asked type in the turbofish; negative counts from the end.
    pub asked: Option<i32>,
    /// Owner check of a release or renewal.
    pub check: Option<Check>,
    /// What dropping the result does.
    pub on_drop: Option<OnDrop>,
    /// Kind of handle or builder the call results in.
    pub gives: Option<TypeRole>,
    /// Full path of the type the call results in, inside `Result` and future.
    pub result: Option<String>,
    /// Crate version and place this was read in, if not the file's.
    pub source: Option<String>,
    /// Whether the name makes a file interesting for the text search.
    pub word: Option<Weight>,
    /// A Rust statement that this row matches; `c` is the receiver where none is written. Tests run it.
    pub example: Option<String>,
    /// For people.
    pub note: Option<String>,
}

/// Which files a word brings in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Weight {
    /// Makes the file worth parsing.
    Strong,
    /// Makes the file worth parsing where a strong word stands in a package near its own.
    Near,
    /// Not searched for.
    None,
}

/// One row, checked.
#[derive(Clone, Debug)]
pub struct Row {
    /// Unique name: `redis/set_nx`, with the version range where rows differ by it: `rslock/acquire >=0.10`.
    pub id: String,
    /// Index of its file in [`super::Models::files`].
    pub file: usize,
    /// Protocol.
    pub protocol: Protocol,
    /// Versions.
    pub versions: super::version::Range,
    /// The keys as written.
    pub spec: Spec,
}

impl std::ops::Deref for Row {
    type Target = Spec;

    fn deref(&self) -> &Spec {
        &self.spec
    }
}
