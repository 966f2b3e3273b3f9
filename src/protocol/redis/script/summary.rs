//! All paths of a script -> its effects, and what it answers in each world.

use std::collections::BTreeMap;

use super::facts::{
    Expiry, Role, call, counts, has_no_ttl, is_absent, is_whole, lock_key, moves_on, of_data, one, only_raises,
    owner_check, shown, wire,
};
use super::run::{Entry, paths};
use super::term::{Event, Fact, Path, State, Term};
use crate::frontend::lua;
use crate::ir::{
    Acquire, AcquireForm, Backend, Effect, EffectKind, Expire, External, LockKind, OwnerCheck, Piece, Release, Renew,
    Resource, Safety, TimeUnit, Ttl, Value, Write,
};
use crate::protocol::redis::command::{Arg, Reading, member};
use crate::protocol::redis::{Command, WireReply};
use crate::protocol::ttl;
use crate::source::Span;

/// What a caller passes, and where labels go.
pub struct Bindings<'a> {
    /// `KEYS`.
    pub keys: &'a dyn Fn(usize) -> Value,
    /// `ARGV`.
    pub args: &'a dyn Fn(usize) -> Value,
    /// Span of a byte offset in the script.
    pub place: &'a dyn Fn(usize) -> Span,
}

/// A script as its caller sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// Effects, in the order in which they can happen.
    pub effects: Vec<Effect>,
    /// Replies where the first lock effect succeeds and where it does not; `None` without lock effect.
    pub replies: Option<(WireReply, WireReply)>,
}

/// Reads a script text for one caller.
///
/// # Errors
/// Says why the script could not be read or followed.
pub fn summary(text: &str, entry: &Entry, bindings: &Bindings<'_>) -> Result<Summary, String> {
    let script = lua::parse(text)?;
    let paths = paths(&script, entry)?;
    Ok(Reader { paths: &paths, bindings }.read())
}

struct Reader<'a> {
    paths: &'a [Path],
    bindings: &'a Bindings<'a>,
}

impl Reader<'_> {
    fn read(&self) -> Summary {
        // Sites in order of first appearance; a site is a place in the text with its key.
        let mut order: Vec<(usize, String)> = Vec::new();
        let mut sites: BTreeMap<(usize, String), Vec<(usize, usize)>> = BTreeMap::new();
        for (p, path) in self.paths.iter().enumerate() {
            for (e, event) in path.events.iter().enumerate() {
                let site = (event.offset, format!("{} {:?}", event.name, event.key()));
                if !sites.contains_key(&site) {
                    order.push(site.clone());
                }
                sites.entry(site).or_default().push((p, e));
            }
        }
        let mut effects: Vec<(Effect, Vec<(usize, usize)>)> = Vec::new();
        for site in &order {
            let Some(places) = sites.get(site) else { continue };
            for effect in self.effects(places) {
                effects.push((effect, places.clone()));
            }
        }
        // Reads of a lock's own key inside the script are part of the lock's step.
        let own: Vec<Value> = effects.iter().filter_map(|(effect, _)| lock_key(&effect.kind)).collect();
        effects.retain(|(effect, _)| match &effect.kind {
            EffectKind::Read(Resource::Key(_, key)) => !own.contains(key),
            _ => true,
        });
        let replies = self.replies(&effects);
        Summary { effects: effects.into_iter().map(|(effect, _)| effect).collect(), replies }
    }

    fn event(&self, (p, e): (usize, usize)) -> &Event {
        &self.paths[p].events[e]
    }

    /// Effects of one site, from all paths that reach it.
    fn effects(&self, places: &[(usize, usize)]) -> Vec<Effect> {
        let Some(first) = places.first().copied() else { return Vec::new() };
        let event = self.event(first);
        let roles: Vec<Role> = places.iter().map(|place| self.role(*place)).collect();
        let key = self.key(event);
        let span = (self.bindings.place)(event.offset);
        let effect = |kind: EffectKind| Effect { span, command: shown(event), kind, conditional: false };
        if roles.iter().any(|role| matches!(role, Role::Take(_)))
            && (event.takes() || self.gates(places))
            && !self.is_fence(event, places)
        {
            let mut list = vec![effect(EffectKind::Acquire(self.acquire(event, key.clone(), places)))];
            // The same command prolongs the lease of a holder that comes again.
            if let Some(Role::Rewrite(token)) = roles.iter().find(|role| matches!(role, Role::Rewrite(_))) {
                list.push(effect(EffectKind::Renew(self.renew(event, key, token))));
            }
            return list;
        }
        if roles.iter().all(|role| matches!(role, Role::Give(_))) {
            let checks: Vec<Option<&Term>> =
                roles.iter().map(|role| if let Role::Give(check) = role { check.as_ref() } else { None }).collect();
            let check = match checks.iter().copied().collect::<Option<Vec<&Term>>>() {
                Some(tokens) => OwnerCheck::Token(self.value(tokens[0])),
                None => OwnerCheck::None,
            };
            let keys = if event.name == "HDEL" { 1 } else { event.args.len().max(1) };
            let release = |key: Value| {
                let (backend, kind) = (Backend::Redis, LockKind::Lease);
                effect(EffectKind::Release(Release { backend, kind, key, check: check.clone(), all: false }))
            };
            return if keys == 1 {
                vec![release(key)]
            } else {
                event.args.iter().map(|key| release(self.value(key))).collect()
            };
        }
        if roles.iter().all(|role| matches!(role, Role::Expiry(_))) {
            return self.expiry(event, key, &roles).into_iter().map(effect).collect();
        }
        if let Some(Role::Rewrite(token)) = roles.iter().find(|role| matches!(role, Role::Rewrite(_)))
            && roles.iter().all(|role| matches!(role, Role::Rewrite(_)))
        {
            return vec![effect(EffectKind::Renew(self.renew(event, key, token)))];
        }
        self.plain(event, span, places)
    }

    /// Whether a write that is no set-if-absent by itself runs only where the key was absent, belongs to the caller, or
    /// holds a value that was compared (a deadline). One that runs whatever is stored is a change, not a lock.
    fn gates(&self, places: &[(usize, usize)]) -> bool {
        places.iter().all(|place| {
            let event = self.event(*place);
            let derived = event.args.iter().skip(1).any(|arg| {
                arg.mentions(&|n| self.paths[place.0].events.get(n).is_some_and(|read| read.key() == event.key()))
            });
            !derived
                && (!matches!(self.role(*place), Role::Other)
                    || !self.conditions(std::slice::from_ref(place)).is_empty())
        })
    }

    /// A write of the very value that the stored one was compared with (`if stored < new then SET new`), or of something
    /// whose own property was: a fence that moves forward, not a lock, also where nothing was stored yet.
    fn is_fence(&self, event: &Event, places: &[(usize, usize)]) -> bool {
        if !event.takes() && places.iter().any(|(p, e)| moves_on(&self.paths[*p], *e, event)) {
            return true;
        }
        !event.takes()
            && self.conditions(places).iter().any(|(_, operator, value)| {
                matches!(operator.as_str(), "<" | "<=" | ">" | ">=")
                    && (event.args.iter().skip(1).any(|arg| self.value(arg) == *value) || of_data(value))
            })
    }

    /// Effects of a command that is no lock operation by its surroundings.
    fn plain(&self, event: &Event, span: Span, places: &[(usize, usize)]) -> Vec<Effect> {
        let args = event.args.iter().map(|arg| Arg::new(self.value(arg))).collect();
        let command = Command { name: event.name.clone(), args, span, conditional: false, ignored: false };
        let Some(meaning) = command.meaning(Reading::Other) else { return Vec::new() };
        let mut conditions = self.conditions(places);
        if conditions.is_empty() && only_raises(self.paths, places, event) {
            conditions.extend(event.args.get(1).map(|new| ("value".into(), "<".into(), self.value(new))));
        }
        let mut effects = meaning.effects;
        for effect in &mut effects {
            if let EffectKind::Write(Write { safety, .. }) = &mut effect.kind
                && *safety == Safety::None
                && !conditions.is_empty()
            {
                *safety = Safety::Conditions(conditions.clone());
            }
            if let EffectKind::External(External { idempotency, .. }) = &mut effect.kind
                && !conditions.is_empty()
            {
                *idempotency = conditions.first().map(|(_, _, value)| value.clone());
            }
        }
        effects
    }

    fn role(&self, place: (usize, usize)) -> Role {
        let (p, e) = place;
        let (path, event) = (&self.paths[p], self.event(place));
        let key = event.key();
        if event.takes() {
            return Role::Take(matches!(event.state, State::Ok | State::Number(1)));
        }
        let owner = owner_check(path, e, key);
        let absent = is_absent(path, e, key);
        match event.name.as_str() {
            // A fixed field is a counter; re-entries are counted under the owner's name.
            "HINCRBY" if absent && matches!(event.args.get(1), Some(Term::Text(_))) => Role::Other,
            "SET" | "SETEX" | "PSETEX" | "HSET" | "HMSET" | "HINCRBY" if absent => Role::Take(true),
            "SET" | "SETEX" | "PSETEX" => match owner {
                Some(token) => Role::Rewrite(token),
                None => Role::Other,
            },
            // A counter of re-entries kept in the lease's own hash.
            "HINCRBY" => match owner {
                Some(token) => Role::Rewrite(token),
                None => Role::Other,
            },
            // A field removed without looking at its owner is an ordinary change of the hash.
            "HDEL" if owner.is_none() => Role::Other,
            "DEL" | "UNLINK" if counts(self.paths, key) => Role::Other,
            "DEL" | "UNLINK" | "HDEL" | "GETDEL" => Role::Give(owner),
            "EXPIRE" | "PEXPIRE" | "EXPIREAT" | "PEXPIREAT" => {
                let taken = path.events[..e]
                    .iter()
                    .enumerate()
                    .any(|(i, past)| past.key() == key && matches!(self.role_of_take((p, i)), Some(true)));
                Role::Expiry(if taken {
                    Expiry::OfTaken
                } else if let Some(token) = owner {
                    Expiry::Owned(token)
                } else if event.has_word(2, "NX") || has_no_ttl(path, e, key) {
                    Expiry::Repair
                } else {
                    Expiry::Bare
                })
            }
            _ => Role::Other,
        }
    }

    fn role_of_take(&self, place: (usize, usize)) -> Option<bool> {
        let event = self.event(place);
        let may = event.takes()
            || matches!(event.name.as_str(), "SET" | "SETEX" | "PSETEX" | "HSET" | "HMSET" | "HINCRBY" | "INCR");
        if !may {
            return None;
        }
        if event.takes() {
            return Some(matches!(event.state, State::Ok | State::Number(1)));
        }
        is_absent(&self.paths[place.0], place.1, event.key()).then_some(true)
    }

    fn acquire(&self, event: &Event, key: Value, places: &[(usize, usize)]) -> Acquire {
        let token = match event.name.as_str() {
            "SET" | "SETNX" => event.args.get(1),
            "SETEX" | "PSETEX" | "HSETNX" => event.args.get(2),
            // A hash that names its owner in a field or in a value.
            "HINCRBY" => event.args.get(1),
            _ => event.args.get(2),
        };
        let own = self.own_ttl(event);
        // An expiry under the branch that won belongs to the same atomic step.
        let later = places.iter().filter(|place| self.role_of_take(**place) == Some(true)).find_map(|(p, e)| {
            let events = &self.paths[*p].events;
            events[e + 1..].iter().find_map(|next| {
                let same = next.key() == event.key();
                (same && next.name.contains("EXPIRE") && next.name != "PEXPIRETIME").then(|| self.expiry_ttl(next))
            })
        });
        let everywhere = self.expires_losers(event);
        let ttl = match (own, later) {
            (Some(ttl), _) => ttl,
            (None, Some(ttl)) if !everywhere => ttl,
            _ => Ttl::Never,
        };
        let token = token.map_or(Value::Unknown, |token| self.value(token));
        let (backend, kind, form) = (Backend::Redis, LockKind::Lease, AcquireForm::SetIfAbsent);
        Acquire { backend, kind, form, key, token, ttl, blocking: false }
    }

    /// Whether an expiry of the key also runs on a path where the key was not won.
    fn expires_losers(&self, event: &Event) -> bool {
        self.paths.iter().enumerate().any(|(p, path)| {
            path.events.iter().enumerate().any(|(e, next)| {
                next.key() == event.key()
                    && next.name.contains("EXPIRE")
                    && self.role((p, e)) == Role::Expiry(Expiry::Bare)
            })
        })
    }

    fn own_ttl(&self, event: &Event) -> Option<Ttl> {
        match event.name.as_str() {
            "SETEX" => Some(self.ttl(event.args.get(1), TimeUnit::Seconds)),
            "PSETEX" => Some(self.ttl(event.args.get(1), TimeUnit::Milliseconds)),
            "SET" => event.args.iter().enumerate().skip(2).find_map(|(i, arg)| {
                let unit = match arg {
                    Term::Text(word) if word.eq_ignore_ascii_case("EX") => TimeUnit::Seconds,
                    Term::Text(word) if word.eq_ignore_ascii_case("PX") => TimeUnit::Milliseconds,
                    Term::Text(word) if word.eq_ignore_ascii_case("EXAT") => TimeUnit::UnixSeconds,
                    Term::Text(word) if word.eq_ignore_ascii_case("PXAT") => TimeUnit::UnixMilliseconds,
                    // The option's name comes from the caller.
                    Term::Text(_) => return None,
                    _ if i >= 2 && !matches!(arg, Term::Number(_)) && i + 1 < event.args.len() => {
                        return Some(Ttl::Unknown);
                    }
                    _ => return None,
                };
                Some(self.ttl(event.args.get(i + 1), unit))
            }),
            _ => None,
        }
    }

    fn expiry_ttl(&self, event: &Event) -> Ttl {
        let unit = match event.name.as_str() {
            "EXPIRE" => TimeUnit::Seconds,
            "PEXPIRE" => TimeUnit::Milliseconds,
            "EXPIREAT" => TimeUnit::UnixSeconds,
            _ => TimeUnit::UnixMilliseconds,
        };
        self.ttl(event.args.get(1), unit)
    }

    fn ttl(&self, term: Option<&Term>, unit: TimeUnit) -> Ttl {
        ttl(term.map_or(Value::Unknown, |term| self.value(term)), unit)
    }

    fn renew(&self, event: &Event, key: Value, token: &Term) -> Renew {
        let ttl = self.own_ttl(event).unwrap_or(if event.name == "SET" { Ttl::Never } else { Ttl::Unknown });
        Renew { backend: Backend::Redis, key, check: OwnerCheck::Token(self.value(token)), ttl }
    }

    /// What an expiry is, from all paths that set it.
    fn expiry(&self, event: &Event, key: Value, roles: &[Role]) -> Vec<EffectKind> {
        let kinds: Vec<&Expiry> =
            roles.iter().filter_map(|role| if let Role::Expiry(kind) = role { Some(kind) } else { None }).collect();
        let ttl = self.expiry_ttl(event);
        let bare = kinds.iter().any(|kind| matches!(kind, Expiry::Bare));
        let owned = kinds.iter().find_map(|kind| if let Expiry::Owned(token) = kind { Some(token) } else { None });
        if bare || kinds.iter().all(|kind| matches!(kind, Expiry::Repair)) {
            return vec![EffectKind::Expire(Expire { key, ttl, only_if_none: !bare })];
        }
        match owned {
            Some(token) => {
                let check = OwnerCheck::Token(self.value(token));
                vec![EffectKind::Renew(Renew { backend: Backend::Redis, key, check, ttl })]
            }
            None => Vec::new(),
        }
    }

    /// Comparisons with stored values that hold on every path to the site: what makes its write conditional.
    fn conditions(&self, places: &[(usize, usize)]) -> Vec<(String, String, Value)> {
        let mut common: Option<Vec<(String, String, Value)>> = None;
        for (p, e) in places {
            let path = &self.paths[*p];
            let list: Vec<(String, String, Value)> = path
                .facts
                .iter()
                .filter(|fact| fact.after <= *e && fact.operator != "truthy")
                .filter_map(|fact| self.condition(path, fact))
                .collect();
            common = Some(match common {
                None => list,
                // A value that is absent on one path and compared on the other (`if not cur or cur < new`) still is
                // the condition of the write.
                Some(known) if list.is_empty() && self.absent_read(path, *e) => known,
                Some(known) if known.is_empty() => list,
                Some(known) => known.into_iter().filter(|one| list.contains(one)).collect(),
            });
        }
        common.unwrap_or_default()
    }

    fn absent_read(&self, path: &Path, before: usize) -> bool {
        path.events[..before].iter().any(|event| event.state == State::Nil)
    }

    fn condition(&self, path: &Path, fact: &Fact) -> Option<(String, String, Value)> {
        let stored = |term: &Term| {
            term.mentions(&|n| {
                matches!(
                    path.events.get(n).map(|e| e.name.as_str()),
                    Some("GET" | "HGET" | "HGETALL" | "ZSCORE" | "HMGET")
                )
            })
        };
        let (stored_left, other) = match (stored(&fact.left), stored(&fact.right)) {
            (true, false) if is_whole(&fact.left) => (true, &fact.right),
            (false, true) if is_whole(&fact.right) => (false, &fact.left),
            _ => return None,
        };
        let operator = match (fact.operator, fact.holds, stored_left) {
            ("==", true, _) => "=",
            ("==", false, _) => "<>",
            ("<", true, true) | ("<=", false, false) => "<",
            ("<=", true, true) | ("<", false, false) => "<=",
            ("<", true, false) | ("<=", false, true) => ">",
            ("<=", true, false) | ("<", false, true) => ">=",
            _ => return None,
        };
        let read = if stored_left { &fact.left } else { &fact.right };
        let mut name = "value".to_owned();
        for (n, event) in path.events.iter().enumerate() {
            if event.name == "HGET"
                && read.mentions(&|reply| reply == n)
                && let Some(Term::Text(field)) = event.args.get(1)
            {
                name.clone_from(field);
            }
        }
        if let Term::Member(_, field) = read {
            name.clone_from(field);
        }
        Some((name, operator.to_owned(), self.value(other)))
    }

    /// Replies by world of the first lock effect.
    fn replies(&self, effects: &[(Effect, Vec<(usize, usize)>)]) -> Option<(WireReply, WireReply)> {
        let rank = |kind: &EffectKind| match kind {
            EffectKind::Acquire(_) => Some(0),
            EffectKind::Release(_) => Some(1),
            EffectKind::Renew(_) => Some(2),
            EffectKind::Write(Write { safety: Safety::Conditions(_), .. }) => Some(3),
            EffectKind::Expire(_) => Some(4),
            _ => None,
        };
        let best = effects.iter().filter_map(|(effect, _)| rank(&effect.kind)).min()?;
        let wins = |(p, e): (usize, usize)| match self.role((p, e)) {
            Role::Take(won) if best == 0 => won,
            Role::Give(_) | Role::Expiry(_) => self.event((p, e)).state != State::Number(0),
            _ => true,
        };
        // A holder that takes its own lock again has it too.
        let counts = |kind: &EffectKind| rank(kind) == Some(best) || (best == 0 && rank(kind) == Some(2));
        let mut held = Vec::new();
        let mut lost = Vec::new();
        for (p, path) in self.paths.iter().enumerate() {
            let won = effects
                .iter()
                .filter(|(effect, _)| counts(&effect.kind))
                .flat_map(|(_, places)| places)
                .any(|place| place.0 == p && wins(*place));
            let list = if won { &mut held } else { &mut lost };
            // A counter drawn with the lock is 1 or more: the first number stands for all.
            let counts = won && matches!(&path.result, Term::Reply(n) if super::reply::counts_up(&path.events[*n]));
            let wire = if counts { WireReply::Int(1) } else { wire(path, &path.result) };
            if !list.contains(&wire) {
                list.push(wire);
            }
        }
        let (held, lost) = (one(held), one(lost));
        // An expiry beside other work: what the script answers is not about the expiry.
        let unrelated = best == 4 && held == WireReply::Mixed;
        (!unrelated).then_some((held, lost))
    }

    fn key(&self, event: &Event) -> Value {
        match (event.name.as_str(), event.args.get(1)) {
            ("HSETNX", Some(field)) => member(self.value(event.key()), self.value(field)),
            _ => self.value(event.key()),
        }
    }

    /// A term in the terms of the caller.
    fn value(&self, term: &Term) -> Value {
        match term {
            Term::Text(text) => Value::str(text.clone()),
            Term::Number(n) => match super::term::integer(*n) {
                Some(n) => Value::Const(crate::ir::Lit::Int(n)),
                None => Value::Const(crate::ir::Lit::Float(*n)),
            },
            Term::Bool(b) => Value::Const(crate::ir::Lit::Bool(*b)),
            Term::Key(n) if *n > 0 => (self.bindings.keys)(*n),
            Term::Arg(n) if *n > 0 => (self.bindings.args)(*n),
            Term::Concat(list) => {
                let pieces = list.iter().map(|term| match self.value(term) {
                    Value::Const(crate::ir::Lit::Str(text)) => Piece::Text(text),
                    other => Piece::Hole(other),
                });
                Value::Template(pieces.collect())
            }
            Term::Apply(name, list) => {
                let list: Vec<Value> = list.iter().map(|term| self.value(term)).collect();
                if matches!(name.as_str(), "+" | "-" | "*" | "/") {
                    Value::Operation(name.clone(), list.into())
                } else {
                    call(name, list)
                }
            }
            Term::Member(base, _) | Term::Decoded(base) => match &**base {
                Term::Reply(_) => self.value(base),
                base => self.value(base),
            },
            Term::Reply(n) => {
                let time = self.paths.iter().any(|path| path.events.get(*n).is_some_and(|event| event.name == "TIME"));
                if time { call("redis:TIME", Vec::new()) } else { call("redis:reply", Vec::new()) }
            }
            _ => Value::Unknown,
        }
    }
}
