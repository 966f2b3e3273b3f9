//! Library functions that scripts call, and operators on terms.

use super::run::Run;
use super::term::Term;

impl Run<'_> {
    /// Calls a value: a function of the script, a command, or a library function.
    pub(super) fn call(&mut self, callee: Term, mut args: Vec<Term>, offset: usize) -> Result<Term, String> {
        let path = match callee {
            Term::Function(body) => return self.invoke(&body, args),
            Term::Global(path) => path,
            _ => return Ok(Term::Apply("call".into(), args)),
        };
        Ok(match path.as_str() {
            "redis.call" | "redis.pcall" | "server.call" | "server.pcall" => self.command(args, offset),
            "pcall" | "xpcall" if !args.is_empty() => {
                let inner = args.remove(0);
                let result = self.call(inner, args, offset)?;
                Term::Table(vec![(Term::Text("pcall".into()), Term::Bool(true)), (Term::Number(2.0), result)])
            }
            "tonumber" | "tostring" => match args.into_iter().next() {
                Some(Term::Text(text)) if path == "tonumber" => text.trim().parse().map_or(Term::Nil, Term::Number),
                Some(Term::Number(n)) if path == "tostring" => {
                    Term::Text(Term::Number(n).constant().unwrap_or_default())
                }
                Some(term) => term,
                None => Term::Nil,
            },
            "cjson.decode" | "cmsgpack.unpack" => {
                Term::Decoded(Box::new(args.into_iter().next().unwrap_or(Term::Unknown)))
            }
            "assert" => args.into_iter().next().unwrap_or(Term::Nil),
            "redis.error_reply" | "server.error_reply" => {
                Term::Table(vec![(Term::Text("err".into()), args.into_iter().next().unwrap_or(Term::Unknown))])
            }
            "redis.status_reply" | "server.status_reply" => {
                Term::Table(vec![(Term::Text("ok".into()), args.into_iter().next().unwrap_or(Term::Unknown))])
            }
            "redis.register_function" | "server.register_function" => {
                self.register(args);
                Term::Nil
            }
            "redis.log" | "redis.replicate_commands" | "redis.setresp" | "redis.set_repl" | "redis.debug" => Term::Nil,
            "unpack" | "table.unpack" => match args.into_iter().next() {
                Some(Term::Table(fields)) if fields.len() == 1 => fields.into_iter().next().map_or(Term::Nil, |f| f.1),
                other => Term::Apply("unpack".into(), other.into_iter().collect()),
            },
            _ => Term::Apply(path, args),
        })
    }

    /// `redis.register_function('name', f)` or `{function_name = .., callback = ..}`
    fn register(&mut self, args: Vec<Term>) {
        let mut args = args.into_iter();
        match (args.next(), args.next()) {
            (Some(Term::Text(name)), Some(body)) => self.registered.push((name, body)),
            (Some(Term::Table(fields)), _) => {
                let field = |name: &str| {
                    fields.iter().find(|(key, _)| *key == Term::Text(name.into())).map(|(_, value)| value.clone())
                };
                if let (Some(Term::Text(name)), Some(body)) = (field("function_name"), field("callback")) {
                    self.registered.push((name, body));
                }
            }
            _ => {}
        }
    }
}

/// `a .. b`
pub fn concat(a: Term, b: Term) -> Term {
    let mut list = Vec::new();
    for term in [a, b] {
        match term {
            Term::Concat(inner) => list.extend(inner),
            Term::Number(_) => list.push(Term::Text(term.constant().unwrap_or_default())),
            other => list.push(other),
        }
    }
    let mut joined: Vec<Term> = Vec::new();
    for term in list {
        match (joined.last_mut(), term) {
            (Some(Term::Text(before)), Term::Text(text)) => before.push_str(&text),
            (_, term) => joined.push(term),
        }
    }
    match <[Term; 1]>::try_from(joined) {
        Ok([one @ Term::Text(_)]) => one,
        Ok(one) => Term::Concat(one.to_vec()),
        Err(joined) => Term::Concat(joined),
    }
}

/// `a + b` and kin.
pub fn arithmetic(operator: &str, a: Term, b: Term) -> Term {
    match (&a, &b, operator) {
        (Term::Number(x), Term::Number(y), "+") => Term::Number(x + y),
        (Term::Number(x), Term::Number(y), "-") => Term::Number(x - y),
        (Term::Number(x), Term::Number(y), "*") => Term::Number(x * y),
        (Term::Number(x), Term::Number(y), "/") if *y != 0.0 => Term::Number(x / y),
        _ => Term::Apply(operator.to_owned(), vec![a, b]),
    }
}
