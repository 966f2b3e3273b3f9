//! What a rule may ask, and how it words its findings.

use std::cell::RefCell;
use std::collections::HashMap;

use crate::analysis::lock::{self, Lock, Locks, Use};
use crate::analysis::summary::{Held, Observation, Origin, Relation, Status};
use crate::analysis::{Analyzer, origin_call};
use crate::finding::{Actor, Confidence, Finding, Label, Severity, Step};
use crate::ir::{
    CallValue, Certainty, EffectKind, Function, FunctionId, FunctionKind, Piece, Site, TimeUnit, Ttl, Value,
};
use crate::link::Program;
use crate::rule::Rule;
use crate::source::Span;

/// Everything a rule may ask.
pub struct Context<'a> {
    /// The linked program.
    pub program: &'a Program,
    /// Summaries, observations, exits.
    pub analyzer: &'a Analyzer<'a>,
    /// Locks, claims and what belongs to them.
    pub locks: &'a Locks,
    /// Pooler and connection-string facts.
    pub poolers: &'a crate::frontend::pooler::PoolerFacts,
    /// Judge test code too.
    pub include_tests: bool,
    /// Which observations were made against which lock; see [`Context::observed`].
    by_lock: RefCell<Indexed>,
}

/// Observations of the log by lock, as many as there were when it was made.
#[derive(Default)]
struct Indexed {
    seen: usize,
    of: HashMap<usize, Vec<usize>>,
}

impl<'a> Context<'a> {
    /// A context on finished analyses.
    pub fn new(
        program: &'a Program,
        analyzer: &'a Analyzer<'a>,
        locks: &'a Locks,
        poolers: &'a crate::frontend::pooler::PoolerFacts,
        include_tests: bool,
    ) -> Context<'a> {
        Context { program, analyzer, locks, poolers, include_tests, by_lock: RefCell::default() }
    }
}

impl Context<'_> {
    /// Where a finding about a use stands: the command's own name, or the call that makes its key definite.
    pub fn place(&self, used: &Use) -> Span {
        let sites = &used.id.0;
        let mut depth = 0;
        // A part of the function that was given a name of its own is no helper: there the command is written.
        while depth + 1 < sites.len() && self.is_part(sites[depth + 1].function, sites[depth].function) {
            depth += 1;
        }
        if depth + 1 == sites.len() { used.effect.span } else { self.op_span(sites[depth]) }
    }

    /// Whether a function is a part of another one: private, called by it alone, and more than one command long.
    fn is_part(&self, part: FunctionId, whole: FunctionId) -> bool {
        let f = self.program.function(part);
        let alone = self.program.callers(part).iter().all(|site| site.function == whole);
        let other = self.program.function(whole);
        alone && !f.public && f.owner_trait.is_none() && f.file() == other.file() && {
            let store = |kind: &EffectKind| {
                kind.is_lock() || matches!(kind, EffectKind::Read(_) | EffectKind::Write(_) | EffectKind::External(_))
            };
            let reached = self.analyzer.reached(part);
            let commands: std::collections::BTreeSet<Origin> =
                reached.iter().filter(|r| store(&r.effect.kind)).map(|r| r.origin).collect();
            commands.len() > 1
        }
    }

    /// The name of the call at a site.
    pub fn op_span(&self, site: Site) -> Span {
        self.program.function(site.function).op(site.at).span
    }

    /// Where a wire effect's command is written.
    pub fn origin_span(&self, origin: Origin) -> Span {
        self.origin_effect(origin).map_or_else(|| self.op_span(origin.site), |e| e.span)
    }

    /// The command of a wire effect.
    pub fn origin_command(&self, origin: Origin) -> String {
        self.origin_effect(origin).map_or_else(String::new, |e| e.command.clone())
    }

    /// What a wire effect is.
    pub fn origin_kind(&self, origin: Origin) -> Option<&EffectKind> {
        self.origin_effect(origin).map(|e| &e.kind)
    }

    /// The key of a wire effect in terms that can be compared across functions.
    pub fn origin_key(&self, origin: Origin) -> Option<Value> {
        let effect = self.origin_effect(origin)?;
        Some(self.analyzer.comparable(origin.site.function, lock::key(effect)))
    }

    fn origin_effect(&self, origin: Origin) -> Option<&crate::ir::Effect> {
        let trip = origin_call(self.program, origin.site)?.effect.as_ref()?;
        trip.effects.get(origin.effect as usize)
    }

    /// The whole call expression at a site.
    pub fn whole(&self, site: Site) -> Span {
        origin_call(self.program, site).map_or_else(|| self.op_span(site), |call| call.whole)
    }

    /// A value as people read it, with the names of `function`'s parameters: `lock:{id}`.
    pub fn show(&self, function: FunctionId, value: &Value) -> String {
        let shown = lock::show(&self.named(function, value, 0));
        // What a closure captured is known to the function around it.
        match self.program.outer(function, value) {
            Some((parent, outer)) if lock::vague(&shown) > 0 && outer != Value::Unknown => {
                let further = self.show(parent, &outer);
                if lock::vague(&further) < lock::vague(&shown) { further } else { shown }
            }
            _ => shown,
        }
    }

    fn named(&self, function: FunctionId, value: &Value, depth: u32) -> Value {
        if depth > 6 {
            return value.clone();
        }
        let f = self.program.function(function);
        match value {
            Value::Param(i) => {
                let name = f.params.get(*i as usize).and_then(|v| f.var(*v).name.clone());
                name.map_or_else(|| value.clone(), |n| Value::Path(format!("{{{n}}}")))
            }
            Value::Field(base, name) if !matches!(**base, Value::Param(0)) => {
                let base = lock::show(&self.named(function, base, depth + 1));
                let base = base.trim_matches(['{', '}']);
                // Nothing is known of what it is a part of; a place in a tuple has no name.
                match (lock::vague(base) > 0, name.parse::<u32>().is_ok()) {
                    (true, true) => Value::Unknown,
                    (true, false) => Value::Path(format!("{{{name}}}")),
                    (false, true) => Value::Path(format!("{{{base}}}")),
                    (false, false) => Value::Path(format!("{{{base}.{name}}}")),
                }
            }
            Value::Local(home, var) => {
                let home = self.program.function(*home);
                let name = home.vars.get(*var as usize).and_then(|v| v.name.clone());
                name.map_or_else(|| value.clone(), |n| Value::Path(format!("{{{n}}}")))
            }
            Value::Call(call) if self.const_of(call).is_some() => Value::Path(self.const_of(call).unwrap_or_default()),
            Value::Call(call) => {
                let mut call = (**call).clone();
                call.args = call.args.iter().map(|v| self.named(function, v, depth + 1)).collect();
                Value::Call(call.into())
            }
            Value::Operation(op, parts) => {
                Value::Operation(op.clone(), parts.iter().map(|v| self.named(function, v, depth + 1)).collect())
            }
            Value::Aggregate(path, fields) => Value::Aggregate(
                path.clone(),
                fields.iter().map(|(n, v)| (n.clone(), self.named(function, v, depth + 1))).collect(),
            ),
            Value::Template(pieces) => Value::Template(
                pieces
                    .iter()
                    .map(|p| match p {
                        Piece::Hole(v) => Piece::Hole(self.named(function, v, depth + 1)),
                        text => text.clone(),
                    })
                    .collect(),
            ),
            other => other.clone(),
        }
    }

    /// The const that a call computes: its name says more than what it is computed with.
    fn const_of(&self, call: &CallValue) -> Option<String> {
        let at = call.at.0?;
        let holds = |f: &&Function| {
            f.kind == FunctionKind::Const
                && f.whole.file == at.file
                && f.whole.start <= at.start
                && at.end <= f.whole.end
        };
        self.program.functions().map(|(_, f)| f).find(holds).map(|f| f.name.clone())
    }

    /// The key of a lock for messages.
    pub fn key(&self, lock: &Lock) -> String {
        lock.acquire().map_or_else(String::new, |a| self.show(lock.taken.function, &a.key))
    }

    /// The key of a lock that a use is of, as the use has it or, if that says more, as the lock is taken.
    pub fn one_key(&self, lock: &Lock, used: &Use) -> String {
        let own = self.show(used.function, lock::key(&used.effect));
        let taken = self.key(lock);
        let says_more =
            lock::spelled(&own) == 0 && lock::spelled(&taken) > 0 && lock::vague(&taken) <= lock::vague(&own);
        if says_more || lock::vague(&taken) < lock::vague(&own) { taken } else { own }
    }

    /// The key of an acquisition as a function far above it has it, or, if that says more, as the lock is taken.
    pub fn key_seen(&self, lock: &Lock, function: FunctionId, held: &Held) -> String {
        let own = self.show(function, &held.acquire.key);
        if lock::vague(&own) == 0 {
            return own;
        }
        let taken = self.key(lock);
        // A place in a helper that gets its key whole says nothing of which key it is.
        if lock::vague(&taken) < lock::vague(&own) && lock::spelled(&taken) >= lock::spelled(&own) {
            taken
        } else {
            own
        }
    }

    /// The key of a lock as the function of an observation asks for it: what a caller of a lock module calls its lock, and
    /// what a `[[lock]]` declaration names.
    pub fn key_as_asked(&self, lock: &Lock, o: &Observation) -> String {
        match self.show(o.function, &o.lock.acquire.key) {
            shown if shown == ".." => self.key(lock),
            shown => shown,
        }
    }

    /// Observations of a kind against one lock, nearest first.
    pub fn observed(&self, lock: usize, pick: impl Fn(&Observation) -> bool) -> Vec<Observation> {
        let log = self.analyzer.log.borrow();
        let mut index = self.by_lock.borrow_mut();
        // A rule may have made the analyzer look at more.
        let fresh = log.observations.iter().enumerate().skip(index.seen);
        for (i, o) in fresh {
            if let Some(lock) = self.locks.of(&o.lock.via, o.lock.origin.effect) {
                index.of.entry(lock).or_default().push(i);
            }
        }
        index.seen = log.observations.len();
        let of_lock = index.of.get(&lock).cloned().unwrap_or_default();
        drop(index);
        let of_lock = of_lock.into_iter().map(|i| &log.observations[i]);
        let mut out: Vec<Observation> = of_lock.filter(|o| pick(o)).cloned().collect();
        out.sort_by_key(|o| (o.lock.via.len() + o.via.len(), o.via.clone(), o.effect.span, o.origin));
        out.dedup_by(|a, b| {
            a.function == b.function
                && a.via == b.via
                && a.origin == b.origin
                && a.status == b.status
                && a.proven == b.proven
        });
        out
    }

    /// Whether the function is live code that is to be judged.
    pub fn judged(&self, function: FunctionId) -> bool {
        self.include_tests || !self.program.function(function).test
    }

    /// Cap of a finding's confidence by how surely the command was recognised.
    pub fn confidence(&self, certainty: Certainty) -> Confidence {
        match certainty {
            Certainty::Full | Certainty::Inferred => Confidence::High,
            Certainty::Name => Confidence::Medium,
        }
    }

    /// How surely the command at the end of a use was recognised.
    pub fn certainty(&self, used: &Use) -> Certainty {
        let site = used.origin().site;
        origin_call(self.program, site).and_then(|c| c.effect.as_ref()).map_or(Certainty::Name, |t| t.certainty)
    }

    /// Labels for the calls between a finding's place and the wire command.
    pub fn through(&self, used: &Use, note: &str) -> Vec<Label> {
        let mut labels = Vec::new();
        if used.id.0.len() > 1 {
            labels.push(Label { span: used.effect.span, note: note.to_string() });
        }
        labels
    }

    /// A TTL as people read it: `30 s`.
    pub fn ttl(&self, ttl: &Ttl) -> Option<String> {
        let Ttl::After(value, unit) = ttl else { return None };
        let seconds = |n: i64| Some(format!("{n} s"));
        match (value, unit) {
            (Value::Const(crate::ir::Lit::Int(n)), TimeUnit::Seconds) => seconds(*n),
            (Value::Const(crate::ir::Lit::Int(n)), TimeUnit::Milliseconds) if n % 1000 == 0 => seconds(n / 1000),
            (Value::Const(crate::ir::Lit::Int(n)), TimeUnit::Milliseconds) => Some(format!("{n} ms")),
            (Value::Const(crate::ir::Lit::Duration(ns)), _) => {
                Some(format!("{:?}", std::time::Duration::from_nanos(*ns as u64)))
            }
            _ => None,
        }
    }

    /// The steps of the usual story: A takes the lock, stalls, the lease expires, B takes it.
    pub fn expiry_story(&self, lock: &Lock) -> Vec<Step> {
        self.expiry_story_of(lock, &self.key(lock))
    }

    /// The same with the key as a finding names it.
    pub fn expiry_story_of(&self, lock: &Lock, key: &str) -> Vec<Step> {
        let span = self.place(&lock.taken);
        let ttl = lock.acquire().and_then(|a| self.ttl(&a.ttl)).map_or(String::new(), |t| format!(" for {t}"));
        vec![
            Step { actor: Actor::A, span, note: format!("acquires `{key}`{ttl}") },
            Step { actor: Actor::A, span, note: "stalls: a pause, a slow call, a lost network".into() },
            Step { actor: Actor::Store, span, note: format!("the lease on `{key}` expires") },
            Step { actor: Actor::B, span, note: format!("acquires `{key}`") },
        ]
    }
}

impl Finding {
    /// A finding of `rule` with its highest severity; the rest is filled in by `with`-style assignments.
    pub fn new(rule: &Rule, span: Span, message: impl Into<String>) -> Finding {
        Finding {
            rule: rule.id,
            severity: rule.severity,
            confidence: Confidence::High,
            span,
            caret: String::new(),
            message: message.into(),
            labels: Vec::new(),
            help: String::new(),
            witness: Vec::new(),
            fix: None,
            lock: None,
        }
    }

    /// Lowers the severity.
    pub fn at_most(mut self, severity: Severity) -> Finding {
        self.severity = self.severity.min(severity);
        self
    }

    /// Adds a step to the witness.
    pub fn step(&mut self, actor: Actor, span: Span, note: impl Into<String>) {
        self.witness.push(Step { actor, span, note: note.into() });
    }

    /// Adds a label.
    pub fn label(&mut self, span: Span, note: impl Into<String>) {
        let note = note.into();
        if span != self.span && !self.labels.iter().any(|l| l.span == span) {
            self.labels.push(Label { span, note });
        }
    }
}

/// Whether an observation is a plain expiry on the lock's own key.
pub fn is_expiry(o: &Observation) -> bool {
    matches!(&o.effect.kind, EffectKind::Expire(e) if e.ttl != Ttl::Never && !e.only_if_none)
        && o.relation == Relation::Must
}

/// Whether an observation was made while the lock was held, on a proven path.
pub fn proven_held(o: &Observation) -> bool {
    o.status == Status::Held && o.proven
}
