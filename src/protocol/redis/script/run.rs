//! Runs a script symbolically along every path.
//!
//! A path is a list of decisions. The script is run again for each list: where a condition is not decided yet the first
//! answer is taken, and the others are queued. Scripts are short, so this is cheaper than keeping states apart.

use std::collections::BTreeMap;

use super::library::{arithmetic, concat};
use super::term::{Event, Fact, Path, State, Term};
use crate::frontend::lua::tree::{Expression, Function, Script, Statement};

/// Paths that are looked at; a script with more is opaque.
const MAX_PATHS: usize = 1024;
/// Steps of one path.
const MAX_STEPS: usize = 20_000;
/// Calls inside calls.
const MAX_CALLS: usize = 24;
/// Loop rounds over `KEYS`, `ARGV` or constant limits.
const MAX_ROUNDS: usize = 4;

/// How a script is entered.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Number of keys, if the caller shows it.
    pub keys: Option<usize>,
    /// Number of arguments, if the caller shows it.
    pub args: Option<usize>,
    /// Function of a function library (`redis.register_function`), by name.
    pub function: Option<String>,
}

/// All paths.
///
/// # Errors
/// Says why the script could not be followed.
pub fn paths(script: &Script, entry: &Entry) -> Result<Vec<Path>, String> {
    let mut queue: Vec<Vec<usize>> = vec![Vec::new()];
    let mut done = Vec::new();
    while let Some(decisions) = queue.pop() {
        if done.len() >= MAX_PATHS {
            return Err(format!("the script has more than {MAX_PATHS} paths"));
        }
        let given = decisions.len();
        let mut run = Run::new(entry, decisions);
        run.script(script, entry)?;
        for (i, (taken, choices)) in run.decisions.iter().enumerate().skip(given).rev() {
            for other in (taken + 1..*choices).rev() {
                let mut next: Vec<usize> = run.decisions[..i].iter().map(|(taken, _)| *taken).collect();
                next.push(other);
                queue.push(next);
            }
        }
        done.push(Path { events: run.events, facts: run.facts, result: run.result });
    }
    Ok(done)
}

/// How a statement ends.
enum Flow {
    Next,
    Break,
    Return(Term),
}

/// One run along one list of decisions.
pub(super) struct Run<'a> {
    entry: &'a Entry,
    /// Answers taken, and how many there were; `next` is the first that is not used yet.
    decisions: Vec<(usize, usize)>,
    next: usize,
    scopes: Vec<BTreeMap<String, Term>>,
    pub(super) events: Vec<Event>,
    facts: Vec<Fact>,
    pub(super) registered: Vec<(String, Term)>,
    result: Term,
    steps: usize,
    calls: usize,
}

impl<'a> Run<'a> {
    fn new(entry: &'a Entry, decisions: Vec<usize>) -> Run<'a> {
        Run {
            entry,
            decisions: decisions.into_iter().map(|taken| (taken, 0)).collect(),
            next: 0,
            scopes: vec![BTreeMap::new()],
            events: Vec::new(),
            facts: Vec::new(),
            registered: Vec::new(),
            result: Term::Nil,
            steps: 0,
            calls: 0,
        }
    }

    fn script(&mut self, script: &Script, entry: &Entry) -> Result<(), String> {
        let flow = self.block(&script.body)?;
        if let Flow::Return(term) = flow {
            self.result = term;
        }
        if let Some(name) = &entry.function {
            let found = self.registered.iter().find(|(known, _)| known == name).map(|(_, body)| body.clone());
            let Some(Term::Function(body)) = found else { return Err(format!("no function `{name}` is registered")) };
            self.result = self.invoke(&body, vec![Term::Keys, Term::Args])?;
        }
        self.settle();
        Ok(())
    }

    /// Which of `choices` answers this path takes.
    fn decide(&mut self, choices: usize) -> usize {
        let i = self.next;
        self.next += 1;
        match self.decisions.get_mut(i) {
            Some((taken, known)) => {
                *known = choices;
                *taken
            }
            None => {
                self.decisions.push((0, choices));
                0
            }
        }
    }

    fn step(&mut self) -> Result<(), String> {
        self.steps += 1;
        if self.steps > MAX_STEPS { Err("the script is too long to follow".into()) } else { Ok(()) }
    }

    fn block(&mut self, list: &[Statement]) -> Result<Flow, String> {
        self.scopes.push(BTreeMap::new());
        let mut flow = Flow::Next;
        for statement in list {
            flow = self.statement(statement)?;
            if !matches!(flow, Flow::Next) {
                break;
            }
        }
        self.scopes.pop();
        Ok(flow)
    }

    fn statement(&mut self, statement: &Statement) -> Result<Flow, String> {
        self.step()?;
        match statement {
            Statement::Local(names, values) => {
                let values = self.values(values, names.len())?;
                for (name, value) in names.iter().zip(values) {
                    self.declare(name, value);
                }
            }
            Statement::Assign(targets, values) => {
                let values = self.values(values, targets.len())?;
                for (target, value) in targets.iter().zip(values) {
                    self.assign(target, value)?;
                }
            }
            Statement::Call(call) => {
                self.eval(call)?;
            }
            Statement::If(arms, otherwise) => {
                for (condition, body) in arms {
                    let condition = self.eval(condition)?;
                    if self.truthy(&condition) {
                        return self.block(body);
                    }
                }
                return self.block(otherwise);
            }
            Statement::While(condition, body) => {
                let condition = self.eval(condition)?;
                if self.truthy(&condition) {
                    return self.round(body);
                }
            }
            Statement::Repeat(body, _) => return self.round(body),
            Statement::Numeric(name, limits, body) => return self.numeric(name, limits, body),
            Statement::Generic(names, values, body) => return self.generic(names, values, body),
            Statement::Function(name, body) => self.declare(name, Term::Function(body.clone())),
            Statement::Do(body) => return self.block(body),
            Statement::Return(values) => {
                let values = self.values(values, 1)?;
                return Ok(Flow::Return(values.into_iter().next().unwrap_or(Term::Nil)));
            }
            Statement::Break => return Ok(Flow::Break),
        }
        Ok(Flow::Next)
    }

    /// One round of a loop whose number of rounds is not known.
    fn round(&mut self, body: &[Statement]) -> Result<Flow, String> {
        Ok(match self.block(body)? {
            Flow::Break => Flow::Next,
            flow => flow,
        })
    }

    fn rounds(&mut self, bindings: Vec<Vec<(String, Term)>>, body: &[Statement]) -> Result<Flow, String> {
        for binding in bindings {
            self.scopes.push(binding.into_iter().collect());
            let flow = self.block(body);
            self.scopes.pop();
            match flow? {
                Flow::Next => {}
                Flow::Break => break,
                flow => return Ok(flow),
            }
        }
        Ok(Flow::Next)
    }

    fn numeric(&mut self, name: &str, limits: &[Expression], body: &[Statement]) -> Result<Flow, String> {
        let limits = self.values(limits, limits.len())?;
        let list: Vec<Term> = match (limits.first(), limits.get(1), limits.get(2)) {
            (Some(Term::Number(from)), Some(Term::Number(to)), None) if to - from < MAX_ROUNDS as f64 => {
                let count = if to < from { 0 } else { (to - from) as usize + 1 };
                (0..count).map(|i| Term::Number(from + i as f64)).collect()
            }
            _ => vec![Term::Unknown],
        };
        self.rounds(list.into_iter().map(|i| vec![(name.to_owned(), i)]).collect(), body)
    }

    fn generic(&mut self, names: &[String], values: &[Expression], body: &[Statement]) -> Result<Flow, String> {
        let over = match values.first() {
            Some(Expression::Call(_, args, _)) if !args.is_empty() => self.eval(&args[0])?,
            Some(other) => self.eval(other)?,
            None => Term::Unknown,
        };
        let member = |n: usize| match over {
            Term::Keys => Term::Key(n),
            Term::Args => Term::Arg(n),
            _ => Term::Unknown,
        };
        let count = match over {
            Term::Keys => self.entry.keys,
            Term::Args => self.entry.args,
            _ => None,
        };
        let list: Vec<(Term, Term)> = match (&over, count) {
            (Term::Table(fields), _) if fields.len() <= MAX_ROUNDS => fields.clone(),
            (_, Some(count)) if count <= MAX_ROUNDS => {
                (1..=count).map(|n| (Term::Number(n as f64), member(n))).collect()
            }
            _ => vec![(Term::Unknown, member(0))],
        };
        let bindings = list.into_iter().map(|(key, value)| names.iter().cloned().zip([key, value]).collect()).collect();
        self.rounds(bindings, body)
    }

    fn declare(&mut self, name: &str, value: Term) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name.to_owned(), value);
        }
    }

    fn assign(&mut self, target: &Expression, value: Term) -> Result<(), String> {
        match target {
            Expression::Name(name) => {
                let scope = self.scopes.iter_mut().rev().find(|scope| scope.contains_key(name));
                match scope {
                    Some(scope) => {
                        scope.insert(name.clone(), value);
                    }
                    None => {
                        self.scopes[0].insert(name.clone(), value);
                    }
                }
            }
            Expression::Index(base, key) => {
                let key = self.eval(key)?;
                if let Expression::Name(name) = &**base
                    && let Some(scope) = self.scopes.iter_mut().rev().find(|scope| scope.contains_key(name))
                    && let Some(table) = scope.get_mut(name)
                {
                    match table {
                        Term::Table(fields) => {
                            fields.retain(|(known, _)| *known != key);
                            fields.push((key, value));
                        }
                        // A changed member of a decoded value: what it was decoded from is no longer what it is.
                        other => *other = Term::Apply("changed".into(), vec![other.clone(), value]),
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Values of an expression list, at least `want` of them; missing ones are nil.
    fn values(&mut self, list: &[Expression], want: usize) -> Result<Vec<Term>, String> {
        let mut values = Vec::with_capacity(list.len().max(want));
        for value in list {
            values.push(self.eval(value)?);
        }
        // `local ok, reply = pcall(redis.call, ..)`: the call gives both.
        if let [Term::Table(fields)] = values.as_slice()
            && fields.first().is_some_and(|(key, _)| *key == Term::Text("pcall".into()))
        {
            values = fields.iter().map(|(_, value)| value.clone()).collect();
        }
        let filler = if matches!(list.last(), Some(Expression::Call(..) | Expression::Rest)) {
            Term::Unknown
        } else {
            Term::Nil
        };
        while values.len() < want {
            values.push(filler.clone());
        }
        Ok(values)
    }

    pub(super) fn eval(&mut self, value: &Expression) -> Result<Term, String> {
        self.step()?;
        Ok(match value {
            Expression::Nil => Term::Nil,
            Expression::Bool(b) => Term::Bool(*b),
            Expression::Number(n) => Term::Number(*n),
            Expression::Text(text) => Term::Text(text.clone()),
            Expression::Name(name) => self.name(name),
            Expression::Rest => self.name("..."),
            Expression::Function(body) => Term::Function(body.clone()),
            Expression::Index(base, key) => {
                let (base, key) = (self.eval(base)?, self.eval(key)?);
                self.index(base, key)
            }
            Expression::Table(fields) => {
                let mut list = Vec::with_capacity(fields.len());
                let mut n = 0.0;
                for (key, value) in fields {
                    let value = self.eval(value)?;
                    let key = match key {
                        Some(key) => self.eval(key)?,
                        None => {
                            n += 1.0;
                            Term::Number(n)
                        }
                    };
                    list.push((key, value));
                }
                Term::Table(list)
            }
            Expression::Unary(operator, inner) => {
                let inner = self.eval(inner)?;
                match (*operator, &inner) {
                    ("not", term) => Term::Bool(!self.truthy(term)),
                    ("-", Term::Number(n)) => Term::Number(-n),
                    ("#", Term::Keys) if self.entry.keys.is_some() => Term::Number(self.entry.keys.unwrap_or(0) as f64),
                    ("#", Term::Args) if self.entry.args.is_some() => Term::Number(self.entry.args.unwrap_or(0) as f64),
                    ("#", Term::Table(fields)) => Term::Number(fields.len() as f64),
                    (operator, _) => Term::Apply(operator.to_owned(), vec![inner]),
                }
            }
            Expression::Binary("and", a, b) => {
                let a = self.eval(a)?;
                if self.truthy(&a) { self.eval(b)? } else { a }
            }
            Expression::Binary("or", a, b) => {
                let a = self.eval(a)?;
                if self.truthy(&a) { a } else { self.eval(b)? }
            }
            Expression::Binary(operator, a, b) => {
                let (a, b) = (self.eval(a)?, self.eval(b)?);
                match *operator {
                    "==" => Term::Bool(self.equal(&a, &b)),
                    "~=" => Term::Bool(!self.equal(&a, &b)),
                    "<" => Term::Bool(self.less("<", a, b)),
                    ">" => Term::Bool(self.less("<", b, a)),
                    "<=" => Term::Bool(self.less("<=", a, b)),
                    ">=" => Term::Bool(self.less("<=", b, a)),
                    ".." => concat(a, b),
                    operator => arithmetic(operator, a, b),
                }
            }
            Expression::Call(callee, args, offset) => {
                let callee = self.eval(callee)?;
                let mut list = Vec::with_capacity(args.len());
                for arg in args {
                    list.push(self.eval(arg)?);
                }
                self.call(callee, list, *offset)?
            }
        })
    }

    fn name(&self, name: &str) -> Term {
        if let Some(term) = self.scopes.iter().rev().find_map(|scope| scope.get(name)) {
            return term.clone();
        }
        match name {
            "KEYS" => Term::Keys,
            "ARGV" => Term::Args,
            _ => Term::Global(name.to_owned()),
        }
    }

    fn index(&mut self, base: Term, key: Term) -> Term {
        let number = match &key {
            Term::Number(n) if *n >= 1.0 && *n < 1e6 => *n as usize,
            _ => 0,
        };
        match base {
            Term::Keys => Term::Key(number),
            Term::Args => match self.entry.args {
                Some(count) if number > count => Term::Nil,
                _ => Term::Arg(number),
            },
            Term::Global(path) => match key {
                Term::Text(field) => {
                    let path = format!("{path}.{field}");
                    self.scopes.iter().rev().find_map(|scope| scope.get(&path)).cloned().unwrap_or(Term::Global(path))
                }
                _ => Term::Unknown,
            },
            Term::Table(fields) => {
                fields.into_iter().find(|(known, _)| *known == key).map_or(Term::Nil, |(_, value)| value)
            }
            Term::Nil | Term::Unknown => Term::Unknown,
            base => match key.constant() {
                Some(field) => Term::Member(Box::new(base), field),
                None => Term::Apply("index".into(), vec![base, key]),
            },
        }
    }

    /// Calls a function of the script.
    pub(super) fn invoke(&mut self, body: &Function, args: Vec<Term>) -> Result<Term, String> {
        if self.calls >= MAX_CALLS {
            return Err("the script calls itself too deeply".into());
        }
        self.calls += 1;
        let mut scope = BTreeMap::new();
        let mut args = args.into_iter();
        for parameter in &body.parameters {
            scope.insert(parameter.clone(), args.next().unwrap_or(Term::Nil));
        }
        self.scopes.push(scope);
        let flow = self.block(&body.body);
        self.scopes.pop();
        self.calls -= 1;
        Ok(match flow? {
            Flow::Return(term) => term,
            _ => Term::Nil,
        })
    }

    /// Records a decided comparison, or gives the answer that the path already has.
    pub(super) fn fact(&mut self, operator: &'static str, left: Term, right: Term) -> bool {
        let same = |fact: &&Fact| {
            fact.operator == operator
                && ((fact.left == left && fact.right == right)
                    || (operator == "==" && fact.left == right && fact.right == left))
        };
        if let Some(known) = self.facts.iter().find(same) {
            return known.holds;
        }
        let holds = self.decide(2) == 0;
        self.facts.push(Fact { operator, left, right, holds, after: self.events.len() });
        holds
    }

    pub(super) fn choose(&mut self, states: &[State]) -> State {
        let choice = if states.len() == 1 { 0 } else { self.decide(states.len()) };
        states[choice.min(states.len() - 1)].clone()
    }

    /// At the end, replies that the result is made of get a concrete value where they have two.
    fn settle(&mut self) {
        let result = self.result.clone();
        for n in 0..self.events.len() {
            if self.events[n].state == State::Open && result.mentions(&|reply| reply == n) {
                let states = super::reply::states(&self.events[n]);
                if states.len() == 2 {
                    self.events[n].state = self.choose(&states);
                }
            }
        }
    }
}
