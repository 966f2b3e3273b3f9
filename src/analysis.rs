//! Analysis: summaries bottom-up, paths on (block, worlds), the lock decision. Rules ask it; it accuses nobody.

mod burden;
mod calls;
mod carries;
mod combinators;
pub mod database;
mod drops;
pub mod dsn;
mod explore;
pub mod fate;
mod flow;
mod home;
pub mod impls;
mod lifted;
pub mod lock;
mod names;
mod owning;
pub mod probe;
mod reach;
mod shapes;
pub mod slice;
mod state;
pub mod summary;
mod told;
mod wire;

pub use reach::MAX_REACHED;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

use crate::ir::{
    Acquire, AcquireForm, Backend, Call, Effect, EffectKind, FunctionId, FunctionKind, LockKind, OpKind, OwnerCheck,
    Release, Rvalue, Site, TimeUnit, Ttl, Value,
};
use crate::link::Program;
use crate::link::matching::{may_match, must_match, namesakes};
use explore::Explorer;
use flow::Flow;
pub use flow::{behind_failure, reads as flow_reads, tested as flow_tested};
pub use shapes::last as shapes_last;
use summary::{
    Carry, Freed, Held, Key, Leaving, Observation, Origin, Passed, Reached, Relation, Status, Summary, Went,
};

/// What exploring all functions saw.
#[derive(Debug, Default)]
pub struct Log {
    /// Effects while acquisitions were in some world.
    pub observations: Vec<Observation>,
    /// Releases against acquisitions.
    pub releases: Vec<Released>,
    /// Function exits with acquisitions in some world.
    pub leavings: Vec<Leaving>,
    /// Blocks passed with an acquisition won or lost.
    pub passed: Vec<Passed>,
    /// Blocks entered with acquisitions in some world.
    pub went: Vec<Went>,
    /// Blocks entered without an acquisition, in functions that make one elsewhere, and the arm that led there because
    /// there was nothing to acquire with.
    pub untried: Vec<(FunctionId, crate::ir::BlockId, crate::source::Span)>,
    /// Guards that went out of scope with their lock held.
    pub dropped: Vec<Dropped>,
    /// Acquisitions while the same key is held.
    pub nested: Vec<Nested>,
    /// Acquisitions tried again after they were lost or failed, and the function that does it.
    pub retried: BTreeSet<(FunctionId, Origin)>,
    /// Acquisitions made again while they are held: a loop that claims one thing after the other, or the same from time
    /// to time.
    pub repeated: BTreeSet<(FunctionId, Origin)>,
    /// Functions whose exploration was cut short.
    pub cut: BTreeSet<FunctionId>,
}

/// A release seen while an acquisition with a matching key was in some world.
#[derive(Clone, Debug)]
pub struct Released {
    /// Function explored; values are in its terms.
    pub function: FunctionId,
    /// The release.
    pub freed: Freed,
    /// The acquisition.
    pub lock: Rc<Held>,
    /// Its world.
    pub status: Status,
    /// How the keys relate.
    pub relation: Relation,
    /// Proven path.
    pub proven: bool,
}

/// A value without a name that stood for a held lock and went out of scope.
#[derive(Clone, Debug)]
pub struct Dropped {
    /// Function explored.
    pub function: FunctionId,
    /// The op that drops it.
    pub at: crate::ir::OpRef,
    /// The value.
    pub var: crate::ir::Var,
    /// The acquisition.
    pub lock: Rc<Held>,
    /// Proven path.
    pub proven: bool,
}

/// An acquisition of a key that is already held.
#[derive(Clone, Debug)]
pub struct Nested {
    /// Function explored; values are in its terms.
    pub function: FunctionId,
    /// The acquisition that holds.
    pub outer: Rc<Held>,
    /// Key of the second acquisition.
    pub key: Value,
    /// Its owner: for lease services the lease or session.
    pub token: Value,
    /// Calls that lead to it from `function`.
    pub via: Vec<Site>,
    /// Proven path.
    pub proven: bool,
}

/// Explores a program on demand and remembers.
pub struct Analyzer<'p> {
    /// The program.
    pub program: &'p Program,
    relevant: Vec<bool>,
    effectful: Vec<bool>,
    flows: RefCell<HashMap<FunctionId, Rc<Flow>>>,
    memo: RefCell<HashMap<Key, Rc<Summary>>>,
    active: RefCell<Vec<FunctionId>>,
    reached: RefCell<HashMap<FunctionId, Rc<Vec<Reached>>>>,
    carries: RefCell<BTreeMap<String, Option<Carry>>>,
    worth: RefCell<HashMap<FunctionId, bool>>,
    idle: Rc<Summary>,
    /// Functions with too many paths for a probe.
    wide: RefCell<BTreeSet<FunctionId>>,
    /// What was seen.
    pub log: RefCell<Log>,
}

impl<'p> Analyzer<'p> {
    /// Explores every function that has to do with locks.
    pub fn new(program: &'p Program, include_tests: bool) -> Self {
        let analyzer = Analyzer {
            program,
            relevant: reaching(program, is_lock_effect),
            effectful: reaching(program, |_| true),
            flows: RefCell::default(),
            memo: RefCell::default(),
            active: RefCell::default(),
            reached: RefCell::default(),
            carries: RefCell::default(),
            worth: RefCell::default(),
            idle: Rc::new(Summary::idle()),
            wide: RefCell::default(),
            log: RefCell::default(),
        };
        for (id, f) in program.functions() {
            if analyzer.relevant(id) && (include_tests || !f.test) && f.has_body() && f.kind != FunctionKind::Const {
                analyzer.summary(Key { function: id, known: Vec::new() });
            }
        }
        analyzer
    }

    /// Whether a function takes, gives back, renews or expires a lock key, itself or through what it calls.
    pub fn relevant(&self, id: FunctionId) -> bool {
        self.relevant[id.0 as usize]
    }

    /// Whether walking the function can show anything: it has lock effects or closures with them, or something it calls
    /// leaves a lock held or gives one back, or takes a closure that could run under a lock.
    fn worth(&self, id: FunctionId) -> bool {
        if !self.relevant(id) {
            return true;
        }
        if let Some(known) = self.worth.borrow().get(&id) {
            return *known;
        }
        // Recursion: what is being computed shows nothing new.
        self.worth.borrow_mut().insert(id, false);
        let f = self.program.function(id);
        let worth = f.ops().any(|(_, op)| match &op.kind {
            OpKind::Call(call) => {
                call.effect.as_ref().is_some_and(|t| t.effects.iter().any(|e| is_lock_effect(&e.kind)))
                    || call
                        .targets
                        .iter()
                        .any(|t| self.relevant(*t) && (self.exposes(*t) || self.takes_closure(*t, call)))
            }
            OpKind::Let(Rvalue::Closure(inner, _)) => self.relevant(*inner) && self.worth(*inner),
            _ => false,
        });
        self.worth.borrow_mut().insert(id, worth);
        worth
    }

    /// Whether a caller can see a lock come or go through the function.
    fn exposes(&self, id: FunctionId) -> bool {
        if self.active.borrow().contains(&id) {
            return false;
        }
        let summary = self.summary(Key { function: id, known: Vec::new() });
        summary.incomplete || summary.outcomes.iter().any(|o| !o.acquired.is_empty() || !o.freed.is_empty())
    }

    /// Whether one of the arguments may be a closure or future that the function runs.
    fn takes_closure(&self, id: FunctionId, call: &Call) -> bool {
        let f = self.program.function(id);
        let runs = f.calls().any(|(_, _, c)| matches!(c.callee, crate::ir::Callee::Value(_)));
        runs && !call.args.is_empty()
    }

    /// Small enough to be walked only to learn what it makes of a reply.
    fn small(&self, id: FunctionId) -> bool {
        let f = self.program.function(id);
        f.has_body() && f.blocks.len() <= 40 && self.active.borrow().len() < 6
    }

    fn flow(&self, id: FunctionId) -> Rc<Flow> {
        self.flows.borrow_mut().entry(id).or_insert_with(|| Rc::new(Flow::of(self.program.function(id)))).clone()
    }

    /// What a function does, given what is known of its parameters. Recursion and depth over 12 give an incomplete summary.
    pub fn summary(&self, mut key: Key) -> Rc<Summary> {
        if !key.known.iter().any(shapes::informative) {
            key.known.clear();
        }
        if let Some(known) = self.memo.borrow().get(&key) {
            return known.clone();
        }
        if !self.worth(key.function) {
            return self.idle.clone();
        }
        let incomplete = || Rc::new(Summary { outcomes: Vec::new(), incomplete: true });
        if !self.program.function(key.function).has_body()
            || self.active.borrow().contains(&key.function)
            || self.active.borrow().len() > 12
        {
            return incomplete();
        }
        self.active.borrow_mut().push(key.function);
        let summary = Rc::new(Explorer::run(self, &key));
        self.active.borrow_mut().pop();
        if summary.incomplete {
            self.log.borrow_mut().cut.insert(key.function);
        }
        self.memo.borrow_mut().insert(key, summary.clone());
        summary
    }

    /// Releases that a function reaches, in its terms.
    fn releases(&self, id: FunctionId) -> Vec<Freed> {
        let reached = self.reached(id);
        let pick = |r: &Reached| match &r.effect.kind {
            EffectKind::Release(release) => {
                Some(Freed { release: release.clone(), origin: r.origin, via: r.via.clone() })
            }
            _ => None,
        };
        reached.iter().filter_map(pick).collect()
    }

    /// The item that a closure or async block stands in; the function itself if it is none.
    pub fn item(&self, mut id: FunctionId) -> FunctionId {
        while let Some(parent) = self.program.function(id).parent {
            id = parent;
        }
        id
    }

    /// A value of a function in terms that can be compared across functions: captures replaced, fields by their types.
    pub fn comparable(&self, id: FunctionId, value: &Value) -> Value {
        match self.program.outer(id, value) {
            Some((parent, outer)) => self.comparable(parent, &outer),
            None => self.program.absolute(id, value),
        }
    }

    /// How two keys relate.
    pub fn relate(&self, a: &Value, b: &Value) -> Relation {
        if must_match(a, b) {
            let surely = namesakes(a, b).into_iter().all(|(x, y)| self.program.stores_alike(x, y));
            if surely { Relation::Must } else { Relation::May }
        } else if may_match(a, b) {
            Relation::May
        } else {
            Relation::Other
        }
    }

    /// How the key of an expiry or write relates to an acquired one: a hash field or set member lives and dies with its key.
    pub fn relate_whole(&self, key: &Value, acquired: &Value) -> Relation {
        match acquired {
            Value::Operation(op, parts) if op == "field" && !matches!(key, Value::Operation(..)) => {
                parts.first().map_or(Relation::Other, |whole| self.relate(key, whole))
            }
            _ => self.relate(key, acquired),
        }
    }

    /// How a release relates to an acquisition: backend and kind must agree before keys are asked.
    pub fn relate_release(&self, release: &Release, acquire: &Acquire) -> Relation {
        if release.backend != acquire.backend || !same_family(release.kind, acquire.kind) {
            return Relation::Other;
        }
        // The key that etcd's lock and election make ends with the id of the lease: who spells a key out deletes another
        // one (etcd concurrency API reference, "Lock": "key is ... returned in the response").
        let spelled =
            release.backend == Backend::Etcd && release.check == OwnerCheck::None && lock::strong(&release.key);
        if spelled && acquire.form == AcquireForm::LockApi {
            return Relation::Other;
        }
        if release.all { Relation::Must } else { self.relate(&release.key, &acquire.key) }
    }

    /// A value of `target` in the terms of its caller.
    fn rebase(&self, value: &Value, call: &Call, caller: FunctionId, target: FunctionId) -> Value {
        match self.program.outer(target, value) {
            Some((parent, outer)) if parent == caller => outer,
            // Run by a function that it was handed to: its captures mean nothing there, and something again further out.
            Some((parent, outer)) => self.program.frozen(parent, &self.program.absolute(parent, &outer)),
            None => self.program.thawed(caller, &self.program.instantiate(value, call, caller)),
        }
    }

    fn ttl(&self, value: Value, unit: TimeUnit) -> Ttl {
        match value {
            Value::Aggregate(path, _) if shapes::last(&path) == "None" => Ttl::Never,
            Value::Path(path) if shapes::last(&path) == "None" => Ttl::Never,
            value => Ttl::After(value, unit),
        }
    }

    fn observe_release(
        &self,
        function: FunctionId,
        freed: &Freed,
        lock: &Rc<Held>,
        status: Status,
        relation: Relation,
        proven: bool,
    ) {
        self.log.borrow_mut().releases.push(Released {
            function,
            freed: freed.clone(),
            lock: lock.clone(),
            status,
            relation,
            proven,
        });
    }
}

impl Relation {
    /// May be the same key.
    pub fn possible(self) -> bool {
        self != Relation::Other
    }
}

fn same_family(a: LockKind, b: LockKind) -> bool {
    a == b
}

/// The key or resource of an effect, if it has one.
pub(crate) fn key_of(effect: &Effect) -> Option<&Value> {
    match &effect.kind {
        EffectKind::Acquire(a) => Some(&a.key),
        EffectKind::Release(r) => Some(&r.key),
        EffectKind::Renew(r) => Some(&r.key),
        EffectKind::Expire(e) => Some(&e.key),
        EffectKind::Read(crate::ir::Resource::Key(_, key)) => Some(key),
        EffectKind::Look(look) => Some(&look.key),
        EffectKind::Write(w) => match &w.resource {
            crate::ir::Resource::Key(_, key) => Some(key),
            _ => None,
        },
        EffectKind::Watch(key) | EffectKind::Issue(key) => Some(key),
        _ => None,
    }
}

/// Functions that send a lock command themselves, and the closures' items.
pub fn lock_functions(program: &Program) -> BTreeSet<FunctionId> {
    let mut out = BTreeSet::new();
    for (mut id, f) in program.functions() {
        let sends =
            |call: &Call| call.effect.as_ref().is_some_and(|t| t.effects.iter().any(|e| is_lock_effect(&e.kind)));
        if f.calls().any(|(_, _, call)| sends(call)) {
            out.insert(id);
            while let Some(parent) = program.function(id).parent {
                id = parent;
                out.insert(id);
            }
        }
    }
    out
}

/// Functions with an effect of a kind, themselves or through calls and inner closures.
fn reaching(program: &Program, kind: impl Fn(&EffectKind) -> bool) -> Vec<bool> {
    let n = program.functions().count();
    let mut found = vec![false; n];
    let mut users: Vec<Vec<usize>> = vec![Vec::new(); n];
    for (id, f) in program.functions() {
        let me = id.0 as usize;
        for (_, op) in f.ops() {
            match &op.kind {
                OpKind::Call(call) => {
                    found[me] |= call.effect.as_ref().is_some_and(|trip| trip.effects.iter().any(|e| kind(&e.kind)));
                    for target in &call.targets {
                        users[target.0 as usize].push(me);
                    }
                }
                OpKind::Let(Rvalue::Closure(inner, _)) => users[inner.0 as usize].push(me),
                _ => {}
            }
        }
    }
    let mut work: Vec<usize> = (0..n).filter(|i| found[*i]).collect();
    while let Some(i) = work.pop() {
        for user in &users[i] {
            if !found[*user] {
                found[*user] = true;
                work.push(*user);
            }
        }
    }
    found
}

fn is_lock_effect(kind: &EffectKind) -> bool {
    matches!(kind, EffectKind::Acquire(_) | EffectKind::Release(_) | EffectKind::Renew(_) | EffectKind::Expire(_))
}

/// Where an effect's command is written: the op's own span if the effect has none of its own.
pub fn origin_call(program: &Program, site: Site) -> Option<&Call> {
    match &program.function(site.function).op(site.at).kind {
        OpKind::Call(call) => Some(call),
        _ => None,
    }
}
