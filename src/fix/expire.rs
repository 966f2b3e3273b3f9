//! SETNX and EXPIRE of one key in one function become one SET NX with an expiry.

use super::offer::Ask;
use super::reply::as_bool;
use super::tree::{Chain, Node, Tree, binding, body, bound, chain, expression, innermost, thrown_away, uses};
use crate::finding::{Edit, Finding, Fix};
use crate::source::Span;
use syn::{Block, Expr, Stmt};

/// The repair of a `setnx-expire` finding: it stands at the SETNX, its first label at the EXPIRE.
pub(super) fn one_command(ask: &Ask<'_>, finding: &Finding) -> Option<Fix> {
    let tree = ask.tree;
    let later = finding.labels.first()?.span;
    // Further labels are commands inside helpers.
    if finding.labels.len() != 1 || later.file != finding.span.file {
        return None;
    }
    let (take, expire) = (tree.around(finding.span)?, tree.around(later)?);
    let (set, ttl) = (Take::of(&chain(&take)?)?, Expiry::of(tree, &chain(&expire)?)?);
    if key_text(tree, set.key) != key_text(tree, ttl.key) {
        return None;
    }
    let at = apart(&take, &expire)?;
    if !at.runs_when_won(tree, &take) || !fixed(ttl.time) || !known_before(&at, ttl.time) {
        return None;
    }
    let mut edits = gone(tree, &at, &expire)?;
    let stmt = &at.block.stmts[at.take];
    let whole = chain(&take)?;
    match set.form {
        Form::Typed => edits.extend(typed(ask, &at, &take, &whole, &ttl)?),
        Form::Command(nx) => {
            if !nx {
                // SETNX answers 1 or 0, SET OK or nil: only a flag reads both.
                let flags = as_bool(ask, finding.span, &take)?;
                // The test of a branch that goes altogether.
                let gone = |edit: &Edit| {
                    edits.iter().any(|e: &Edit| e.span.start <= edit.span.start && edit.span.end <= e.span.end)
                };
                let kept: Vec<Edit> = flags.into_iter().filter(|edit| !gone(edit)).collect();
                edits.extend(kept);
            }
            edits.push(command(tree, &whole, &ttl)?);
        }
    }
    if overlapping(&edits) || !spans_lie_in(tree, stmt, at.block) {
        return None;
    }
    Some(Fix { title: format!("set value and expiry by one SET NX {}", ttl.unit), edits })
}

/// How the key is set.
struct Take<'t> {
    form: Form,
    key: &'t Expr,
}

enum Form {
    /// `conn.set_nx(key, value)`.
    Typed,
    /// `cmd("SETNX")`, or (flag) `cmd("SET")` with NX.
    Command(bool),
}

impl<'t> Take<'t> {
    fn of(chain: &Chain<'t>) -> Option<Take<'t>> {
        if let Some(name) = chain.command() {
            let args: Vec<&'t Expr> = arguments(chain)?;
            return match (name.value().to_ascii_uppercase().as_str(), args.len()) {
                ("SETNX", 2) => Some(Take { form: Form::Command(false), key: args[0] }),
                ("SET", 3) if is_word(args[2], "NX") => Some(Take { form: Form::Command(true), key: args[0] }),
                _ => None,
            };
        }
        let link = chain.links.iter().find(|link| link.name == "set_nx" || link.name == "setnx")?;
        let first = chain.links.first().is_some_and(|first| std::ptr::eq(first, link)) || plain(chain, link.upto);
        (link.name == "set_nx" && link.args.len() == 2 && first).then(|| Take { form: Form::Typed, key: link.args[0] })
    }
}

/// Whether everything before a link is `self.a.b` or `conn.clone()`: no part of a builder.
fn plain(chain: &Chain<'_>, upto: &Expr) -> bool {
    let before = chain.links.iter().take_while(|link| !std::ptr::eq(link.upto, upto));
    before.into_iter().all(|link| link.name == "clone" || link.name == "as_mut" || link.name == "deref_mut")
}

/// An expiry set by a command of its own.
struct Expiry<'t> {
    key: &'t Expr,
    time: &'t Expr,
    /// `EX` or `PX`.
    unit: &'static str,
}

impl<'t> Expiry<'t> {
    fn of(tree: &Tree<'_>, chain: &Chain<'t>) -> Option<Expiry<'t>> {
        let unit = |name: &str| match name {
            "expire" => Some("EX"),
            "pexpire" => Some("PX"),
            _ => None,
        };
        let _ = tree;
        if let Some(name) = chain.command() {
            let args = arguments(chain)?;
            let unit = unit(&name.value().to_ascii_lowercase())?;
            return (args.len() == 2).then(|| Expiry { key: args[0], time: args[1], unit });
        }
        let link = chain.links.iter().find(|link| unit(&link.name).is_some())?;
        (link.args.len() == 2 && plain(chain, link.upto)).then(|| Expiry {
            key: link.args[0],
            time: link.args[1],
            unit: unit(&link.name).unwrap_or("EX"),
        })
    }
}

/// The arguments of `cmd(..).arg(a).arg(b)`, which ends by being sent.
fn arguments<'t>(chain: &Chain<'t>) -> Option<Vec<&'t Expr>> {
    let mut args = Vec::new();
    for link in &chain.links {
        match (link.name.as_str(), link.args.as_slice()) {
            ("arg", [one]) => args.push(*one),
            ("query_async" | "query" | "exec_async" | "exec", [_]) => return Some(args),
            _ => return None,
        }
    }
    None
}

fn is_word(expr: &Expr, word: &str) -> bool {
    matches!(expr, Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) if text.value().eq_ignore_ascii_case(word))
}

/// A key without what does not change it.
fn key_text(tree: &Tree<'_>, expr: &Expr) -> String {
    let mut text: &str = &tree.source(expr).split_whitespace().collect::<Vec<_>>().join(" ");
    loop {
        let shorter = text.trim_start_matches('&').trim_start();
        let shorter = [".clone()", ".as_str()", ".to_string()", ".to_owned()"]
            .iter()
            .find_map(|end| shorter.strip_suffix(end))
            .unwrap_or(shorter);
        if shorter == text {
            return text.to_owned();
        }
        text = shorter;
    }
}

/// Where both commands stand: one block, and the statements of it that hold them.
struct Apart<'t> {
    block: &'t Block,
    take: usize,
    expire: usize,
    /// The `if` that the expiry stands in, directly.
    branch: Option<&'t syn::ExprIf>,
    take_inside: &'t [Node<'t>],
}

/// The block that holds both commands; the first one not in a block of its own below it.
fn apart<'t>(take: &'t [Node<'t>], expire: &'t [Node<'t>]) -> Option<Apart<'t>> {
    let (at, block, index) = innermost(take)?;
    let same = |node: &Node<'t>| matches!(node, Node::Stmt(b, _) if std::ptr::eq(*b, block));
    let place = expire.iter().position(same)?;
    let Node::Stmt(_, later) = expire[place] else { return None };
    let (inner_at, inner, _) = innermost(expire)?;
    let branch = if inner_at == place {
        None
    } else {
        // Directly in the then-block of an `if` that is the whole statement.
        let Stmt::Expr(Expr::If(branch), _) = &block.stmts[later] else { return None };
        if !std::ptr::eq(&raw const branch.then_branch, inner) {
            return None;
        }
        Some(branch)
    };
    (later > index || (later == index && branch.is_some())).then_some(Apart {
        block,
        take: index,
        expire: later,
        branch,
        take_inside: &take[at..],
    })
}

impl Apart<'_> {
    /// Whether the expiry is set exactly when the key was won, a crash aside.
    fn runs_when_won(&self, tree: &Tree<'_>, take: &[Node<'_>]) -> bool {
        // The take is not under a condition of its own statement, `while !take {}` excepted.
        let conditional = self.take_inside.iter().any(|node| match node {
            Node::Expr(Expr::Match(_) | Expr::Closure(_) | Expr::Async(_) | Expr::ForLoop(_)) => true,
            Node::Expr(Expr::Binary(binary)) => matches!(binary.op, syn::BinOp::And(_) | syn::BinOp::Or(_)),
            _ => false,
        });
        if conditional {
            return false;
        }
        let Some(branch) = self.branch else { return true };
        let condition = tree.source(&branch.cond);
        if self.take == self.expire {
            return chain(take).is_some_and(|chain| tree.source(chain.whole) == condition);
        }
        let Some((name, _)) = binding(&self.block.stmts[self.take]) else { return false };
        let name = name.to_string();
        let tests = ["", " == 1", " > 0", " != 0", ".is_some()", " == true"];
        tests.iter().any(|test| format!("{name}{test}") == condition)
    }
}

/// Whether evaluating the time earlier gives the same.
fn fixed(expr: &Expr) -> bool {
    match expr {
        Expr::Lit(_) | Expr::Path(_) => true,
        Expr::Field(e) => fixed(&e.base),
        Expr::Cast(e) => fixed(&e.expr),
        Expr::Paren(e) => fixed(&e.expr),
        Expr::Reference(e) => fixed(&e.expr),
        Expr::Unary(e) => fixed(&e.expr),
        Expr::Binary(e) => fixed(&e.left) && fixed(&e.right),
        Expr::MethodCall(e) => {
            let reads = ["as_secs", "as_millis", "clone", "get", "max", "min", "as_u64", "try_into"];
            reads.iter().any(|name| e.method == name) && fixed(&e.receiver) && e.args.iter().all(fixed)
        }
        _ => false,
    }
}

/// Whether all names in the time are known where the key is set.
fn known_before(at: &Apart<'_>, time: &Expr) -> bool {
    struct Names(Vec<syn::Ident>);
    impl<'t> syn::visit::Visit<'t> for Names {
        fn visit_expr_path(&mut self, path: &'t syn::ExprPath) {
            self.0.extend(path.path.get_ident().cloned());
        }
    }
    let mut names = Names(Vec::new());
    syn::visit::Visit::visit_expr(&mut names, time);
    let between = at.block.stmts.get(at.take..=at.expire).unwrap_or_default();
    names.0.iter().all(|name| {
        between.iter().all(|stmt| {
            let alone = Block { brace_token: at.block.brace_token, stmts: vec![stmt.clone()] };
            bound(&alone, name) == 0
        })
    })
}

/// Takes the expiry away, and the branch that held nothing else.
fn gone(tree: &Tree<'_>, at: &Apart<'_>, expire: &[Node<'_>]) -> Option<Vec<Edit>> {
    let (_, inner, index) = innermost(expire)?;
    let stmt = &inner.stmts[index];
    let whole = chain(expire)?.whole;
    if !thrown_away(stmt) || !std::ptr::eq(expression(stmt)?, whole) {
        return None;
    }
    if inner.stmts.len() > 1 || at.branch.is_none() {
        return Some(vec![tree.remove(tree.stmt(stmt)?)?]);
    }
    // The branch set the expiry and did nothing else.
    let branch = at.branch?;
    if branch.else_branch.is_some() || at.take == at.expire {
        return None;
    }
    let (name, _) = binding(&at.block.stmts[at.take])?;
    let body = body(expire)?;
    // What tells won from lost must still be looked at by somebody.
    (uses(body, name).len() > 1).then_some(())?;
    Some(vec![tree.remove(tree.stmt(&at.block.stmts[at.expire])?)?])
}

/// `set_nx(k, v)` becomes `set_options(k, v, options)`, with the options made before the statement.
fn typed(ask: &Ask<'_>, at: &Apart<'_>, take: &[Node<'_>], whole: &Chain<'_>, ttl: &Expiry<'_>) -> Option<Vec<Edit>> {
    let tree = ask.tree;
    // There the reply types of both calls differ.
    if tree.mentions("TypedCommands") || take.iter().any(|n| matches!(n, Node::Expr(Expr::While(_) | Expr::Loop(_)))) {
        return None;
    }
    let old = ask.versions.get("redis").is_some_and(|version| {
        let mut numbers = version.trim_start_matches(['^', '=', '~', ' ']).split('.').map(|n| n.parse::<u32>().ok());
        numbers.next().flatten() == Some(0) && numbers.next().flatten().is_none_or(|minor| minor < 25)
    });
    if old {
        return None;
    }
    let name = free_name(take)?;
    let krate = tree.redis()?;
    let mut edits = as_bool(ask, tree.places.span(method(whole)?.method.span()), take)?;
    let time = seconds(ask, take, ttl)?;
    let stmt = tree.stmt(&at.block.stmts[at.take])?;
    let indent = tree.indent(stmt.start)?;
    let options = format!(
        "let {name} = {krate}::SetOptions::default()\n{indent}    .conditional_set({krate}::ExistenceCheck::NX)\n{indent}    .with_expiration({krate}::SetExpiry::{}({time}));\n{indent}",
        ttl.unit
    );
    let before = Span { end: stmt.start, ..stmt };
    let written = tree.places.expr(whole.whole);
    let call = method(whole)?;
    let mut links = whole.link_texts(tree);
    let position = whole.links.iter().position(|link| link.name == "set_nx")?;
    let args: Vec<&str> = call.args.iter().map(|arg| tree.source(arg)).collect();
    *links.get_mut(position)? = format!(".set_options({}, {name})", args.join(", "));
    let text = tree.layout(written, tree.source(whole.root), &links)?;
    edits.push(Edit { span: before, text: options });
    edits.push(Edit { span: written, text });
    Some(edits)
}

fn method<'t>(chain: &Chain<'t>) -> Option<&'t syn::ExprMethodCall> {
    let link = chain.links.iter().find(|link| link.name == "set_nx")?;
    match link.upto {
        Expr::MethodCall(call) => Some(call),
        _ => None,
    }
}

/// A name that nothing in the function has.
fn free_name(take: &[Node<'_>]) -> Option<&'static str> {
    let body = body(take)?;
    ["options", "set_options", "once"].into_iter().find(|name| {
        let ident = syn::Ident::new(name, proc_macro2::Span::call_site());
        bound(body, &ident) == 0 && uses(body, &ident).is_empty()
    })
}

/// The time as an unsigned number.
fn seconds(ask: &Ask<'_>, take: &[Node<'_>], ttl: &Expiry<'_>) -> Option<String> {
    let tree = ask.tree;
    let _ = take;
    match ttl.time {
        Expr::Lit(syn::ExprLit { lit: syn::Lit::Int(number), .. }) => {
            Some(number.to_string().trim_end_matches(number.suffix()).trim_end_matches('_').to_owned())
        }
        // `d.as_secs() as i64` was made signed for `expire` alone.
        Expr::Cast(cast) => match &*cast.expr {
            Expr::MethodCall(call) if call.method == "as_secs" => Some(tree.source(&cast.expr).to_owned()),
            _ => Some(format!("{} as u64", tree.source(ttl.time))),
        },
        Expr::Path(_) | Expr::Field(_) => Some(format!("{} as u64", tree.source(ttl.time))),
        _ => None,
    }
}

/// `cmd("SETNX").arg(k).arg(v)` becomes `cmd("SET").arg(k).arg(v).arg("NX").arg("EX").arg(30)`.
fn command(tree: &Tree<'_>, whole: &Chain<'_>, ttl: &Expiry<'_>) -> Option<Edit> {
    let name = whole.command()?;
    let nx = name.value().eq_ignore_ascii_case("SET");
    let written = tree.places.expr(whole.whole);
    let literal = tree.text(tree.places.span(name.span())).to_owned();
    let root = tree.source(whole.root).replace(&literal, "\"SET\"");
    let mut links = whole.link_texts(tree);
    let sent = whole.links.iter().position(|link| link.name != "arg")?;
    let mut more = vec![format!(".arg(\"{}\")", ttl.unit), format!(".arg({})", tree.source(ttl.time))];
    if !nx {
        more.insert(0, ".arg(\"NX\")".to_owned());
    }
    links.splice(sent..sent, more);
    Some(Edit { span: written, text: tree.layout(written, &root, &links)? })
}

fn overlapping(edits: &[Edit]) -> bool {
    let meets = |a: &Edit, b: &Edit| a.span.start < b.span.end && b.span.start < a.span.end;
    edits.iter().enumerate().any(|(i, a)| edits[i + 1..].iter().any(|b| meets(a, b)))
}

/// Statements made by macros or attributes have no lines of their own.
fn spans_lie_in(tree: &Tree<'_>, stmt: &Stmt, block: &Block) -> bool {
    let Some(inner) = tree.stmt(stmt) else { return false };
    let outer = tree.places.span(block.brace_token.span.join());
    outer.start <= inner.start && inner.end <= outer.end
}
