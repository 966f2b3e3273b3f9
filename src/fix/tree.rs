//! The syntax around a place: statements, method chains, and texts to put in their stead.

use crate::finding::Edit;
use crate::frontend::rust::parse::parse;
use crate::frontend::rust::places::Places;
use crate::source::{SourceFile, Span};
use syn::visit::Visit;
use syn::{Block, Expr, ImplItemFn, Item, ItemFn, Local, Pat, Stmt};

/// Columns of a method chain that rustfmt leaves on one line.
const CHAIN: usize = 60;
/// Columns of a line.
const LINE: usize = 100;

/// A parsed file.
pub(super) struct Tree<'a> {
    pub file: &'a SourceFile,
    pub places: Places<'a>,
    items: Vec<Item>,
}

/// What stands around an expression, outermost first.
#[derive(Clone, Copy)]
pub(super) enum Node<'t> {
    /// The body of a function.
    Body(&'t Block),
    /// A statement of a block.
    Stmt(&'t Block, usize),
    /// An expression.
    Expr(&'t Expr),
}

/// A method chain: `root.a(..).b(..).await?`.
pub(super) struct Chain<'t> {
    /// What it begins with: `conn`, `redis::cmd("SET")`.
    pub root: &'t Expr,
    /// `.a(..)`, `.await?` in order: name, arguments, the expression up to here.
    pub links: Vec<Link<'t>>,
    /// The whole.
    pub whole: &'t Expr,
}

/// One link of a chain.
pub(super) struct Link<'t> {
    /// Method; empty for `.await` and `?`.
    pub name: String,
    /// Its arguments.
    pub args: Vec<&'t Expr>,
    /// The chain up to and with this link.
    pub upto: &'t Expr,
}

impl<'a> Tree<'a> {
    pub fn parse(file: &'a SourceFile) -> Tree<'a> {
        let parsed = parse(file);
        Tree { file, places: parsed.places, items: parsed.items }
    }

    /// What stands around the call whose name begins where `at` does, the call itself included.
    pub fn around(&self, at: Span) -> Option<Vec<Node<'_>>> {
        let mut finder = Finder { places: &self.places, target: at.start, stack: Vec::new(), found: None };
        self.items.iter().for_each(|item| finder.visit_item(item));
        finder.found
    }

    /// The text of a span.
    pub fn text(&self, span: Span) -> &str {
        self.file.slice(span)
    }

    /// The text of an expression.
    pub fn source(&self, expr: &Expr) -> &str {
        self.text(self.places.expr(expr))
    }

    /// The whole of a statement, its semicolon included.
    pub fn stmt(&self, stmt: &Stmt) -> Option<Span> {
        match stmt {
            Stmt::Local(local) => Some(self.places.between(local.let_token.span, local.semi_token.span)),
            Stmt::Expr(expr, semi) => {
                let span = self.places.expr(expr);
                let end = semi.as_ref().map_or(span.end, |semi| self.places.span(semi.span).end);
                Some(Span { end, ..span })
            }
            _ => None,
        }
    }

    /// Blanks before the first thing on the line of an offset; `None` where something else stands before it.
    pub fn indent(&self, offset: u32) -> Option<&str> {
        let range = self.file.line_range(self.file.line(offset));
        let before = self.file.text.get(range.start..offset as usize)?;
        before.trim().is_empty().then_some(before)
    }

    /// Takes a statement away with its line. `None` where something else stands on its lines.
    pub fn remove(&self, span: Span) -> Option<Edit> {
        let indent = self.indent(span.start)?.len();
        let range = self.file.line_range(self.file.line(span.end));
        let rest = self.file.text.get(span.end as usize..range.end)?;
        if !rest.trim().is_empty() {
            return None;
        }
        let mut end = range.end;
        if self.file.text[end..].starts_with("\r\n") {
            end += 2;
        } else if self.file.text[end..].starts_with('\n') {
            end += 1;
        }
        Some(Edit { span: Span::new(self.file.id, span.start as usize - indent, end), text: String::new() })
    }

    /// A chain laid out as rustfmt would: on one line where it fits, else one link a line. `written` is what stands there now;
    /// `links` are the texts of the new links.
    pub fn layout(&self, written: Span, root: &str, links: &[String]) -> Option<String> {
        let old = self.text(written);
        let one = format!("{root}{}", links.concat());
        let line = self.file.line_range(self.file.line(written.start));
        let text = &self.file.text[line.start..line.end];
        let indent = text.len() - text.trim_start().len();
        let before = written.start as usize - line.start;
        if one.contains('\n') {
            return None;
        }
        if !old.contains('\n') {
            let total = text.chars().count() - old.chars().count() + one.chars().count();
            // Whoever keeps longer chains on a line has told rustfmt so.
            let (chain, line) = if old.chars().count() > CHAIN || text.chars().count() > LINE {
                (usize::MAX, LINE.max(text.chars().count()).max(120))
            } else {
                (CHAIN, LINE)
            };
            if one.chars().count() <= chain && total <= line {
                return Some(one);
            }
        }
        let deeper = format!("\n{}    ", &text[..indent]);
        let _ = before;
        let mut out = root.to_owned();
        let mut links = links.iter();
        // A short root shares its line with the first link.
        if root.chars().count() <= 4
            && let Some(first) = links.next()
        {
            out.push_str(first);
        }
        for link in links {
            out.push_str(&deeper);
            out.push_str(link);
        }
        Some(out)
    }

    /// The name by which the file calls the redis crate: the path before a trait or type that it imports.
    pub fn redis(&self) -> Option<String> {
        let mut names: Vec<String> = Vec::new();
        for item in &self.items {
            if let Item::Use(item) = item {
                collect(&item.tree, &mut Vec::new(), &mut names);
            }
        }
        names.sort_by_key(String::len);
        names.into_iter().next()
    }

    /// Whether the file names something.
    pub fn mentions(&self, word: &str) -> bool {
        self.file.text.contains(word)
    }
}

fn collect(tree: &syn::UseTree, path: &mut Vec<String>, names: &mut Vec<String>) {
    match tree {
        syn::UseTree::Path(inner) => {
            path.push(inner.ident.to_string());
            collect(&inner.tree, path, names);
            path.pop();
        }
        syn::UseTree::Group(group) => group.items.iter().for_each(|item| collect(item, path, names)),
        syn::UseTree::Name(name) => note(&name.ident.to_string(), path, names),
        syn::UseTree::Rename(_) | syn::UseTree::Glob(_) => note("*", path, names),
    }
}

fn note(name: &str, path: &[String], names: &mut Vec<String>) {
    if let Some(i) = path.iter().position(|segment| segment == "redis") {
        names.push(path[..=i].join("::"));
    } else if name == "redis" {
        // `use deadpool_redis::redis;` brings the name itself into scope.
        names.push("redis".to_owned());
    }
}

struct Finder<'t, 'a> {
    places: &'t Places<'a>,
    target: u32,
    stack: Vec<Node<'t>>,
    found: Option<Vec<Node<'t>>>,
}

impl<'t> Visit<'t> for Finder<'t, '_> {
    fn visit_item_fn(&mut self, item: &'t ItemFn) {
        self.stack.push(Node::Body(&item.block));
        syn::visit::visit_item_fn(self, item);
        self.stack.pop();
    }

    fn visit_impl_item_fn(&mut self, item: &'t ImplItemFn) {
        self.stack.push(Node::Body(&item.block));
        syn::visit::visit_impl_item_fn(self, item);
        self.stack.pop();
    }

    fn visit_block(&mut self, block: &'t Block) {
        for (i, stmt) in block.stmts.iter().enumerate() {
            self.stack.push(Node::Stmt(block, i));
            self.visit_stmt(stmt);
            self.stack.pop();
        }
    }

    fn visit_expr(&mut self, expr: &'t Expr) {
        if self.found.is_some() {
            return;
        }
        self.stack.push(Node::Expr(expr));
        let name = match expr {
            Expr::MethodCall(call) => Some(call.method.span()),
            Expr::Call(call) => match &*call.func {
                Expr::Path(path) => path.path.segments.last().map(|segment| segment.ident.span()),
                _ => None,
            },
            _ => None,
        };
        if name.is_some_and(|name| self.places.span(name).start == self.target) {
            self.found = Some(self.stack.clone());
        } else {
            syn::visit::visit_expr(self, expr);
        }
        self.stack.pop();
    }
}

/// The innermost statement in a list of nodes, with its place in the list.
pub(super) fn innermost<'t>(nodes: &[Node<'t>]) -> Option<(usize, &'t Block, usize)> {
    nodes.iter().enumerate().rev().find_map(|(at, node)| match node {
        Node::Stmt(block, i) => Some((at, *block, *i)),
        _ => None,
    })
}

/// The body of the function around.
pub(super) fn body<'t>(nodes: &[Node<'t>]) -> Option<&'t Block> {
    nodes.iter().rev().find_map(|node| match node {
        Node::Body(block) => Some(*block),
        _ => None,
    })
}

/// The chain that the last node is a link or the root of, as far as it goes up.
pub(super) fn chain<'t>(nodes: &[Node<'t>]) -> Option<Chain<'t>> {
    let Some(Node::Expr(mut whole)) = nodes.last().copied() else { return None };
    for node in nodes.iter().rev().skip(1) {
        let Node::Expr(outer) = node else { break };
        let goes_on = match outer {
            Expr::MethodCall(call) => std::ptr::eq(&*call.receiver, whole),
            Expr::Await(await_) => std::ptr::eq(&*await_.base, whole),
            Expr::Try(try_) => std::ptr::eq(&*try_.expr, whole),
            _ => false,
        };
        if !goes_on {
            break;
        }
        whole = outer;
    }
    let mut links = Vec::new();
    let mut root = whole;
    loop {
        let (inner, name, args) = match root {
            Expr::MethodCall(call) => {
                if call.turbofish.is_some() && call.method != "expire" && call.method != "pexpire" {
                    return None;
                }
                (&*call.receiver, call.method.to_string(), call.args.iter().collect())
            }
            Expr::Await(await_) => (&*await_.base, String::new(), Vec::new()),
            Expr::Try(try_) => (&*try_.expr, String::new(), Vec::new()),
            _ => break,
        };
        links.push(Link { name, args, upto: root });
        root = inner;
    }
    links.reverse();
    Some(Chain { root, links, whole })
}

impl Chain<'_> {
    /// The texts of the links as rustfmt sets them: `.await?` is one.
    pub fn link_texts(&self, tree: &Tree<'_>) -> Vec<String> {
        let mut out: Vec<String> = Vec::new();
        let mut at = tree.places.expr(self.root).end;
        for link in &self.links {
            let end = tree.places.expr(link.upto).end;
            let text = tree.text(Span { start: at, end, file: tree.file.id }).trim().to_owned();
            match out.last_mut() {
                Some(last) if text == "?" => last.push('?'),
                _ => out.push(text),
            }
            at = end;
        }
        out
    }

    /// The arguments of `cmd("NAME")` at the root, if it is that.
    pub fn command(&self) -> Option<&syn::LitStr> {
        let Expr::Call(call) = self.root else { return None };
        let Expr::Path(path) = &*call.func else { return None };
        if path.path.segments.last()?.ident != "cmd" || call.args.len() != 1 {
            return None;
        }
        match call.args.first()? {
            Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text),
            _ => None,
        }
    }
}

/// The `let name: Type = ..` of a statement: the name, and the type if it is written.
pub(super) fn binding(stmt: &Stmt) -> Option<(&syn::Ident, Option<&syn::Type>)> {
    let Stmt::Local(Local { pat, .. }) = stmt else { return None };
    match pat {
        Pat::Ident(ident) => Some((&ident.ident, None)),
        Pat::Type(typed) => match &*typed.pat {
            Pat::Ident(ident) => Some((&ident.ident, Some(&typed.ty))),
            _ => None,
        },
        _ => None,
    }
}

/// Whether a statement throws its value away: `expr;`, `let _ = ..`, `let _: T = ..`, `let () = ..`.
pub(super) fn thrown_away(stmt: &Stmt) -> bool {
    let nothing = |pat: &Pat| matches!(pat, Pat::Wild(_)) || matches!(pat, Pat::Tuple(t) if t.elems.is_empty());
    match stmt {
        Stmt::Expr(_, Some(_)) => true,
        Stmt::Local(local) => {
            local.init.as_ref().is_some_and(|init| init.diverge.is_none())
                && match &local.pat {
                    Pat::Type(typed) => nothing(&typed.pat),
                    pat => nothing(pat),
                }
        }
        _ => false,
    }
}

/// The expression of a statement.
pub(super) fn expression(stmt: &Stmt) -> Option<&Expr> {
    match stmt {
        Stmt::Expr(expr, _) => Some(expr),
        Stmt::Local(local) => local.init.as_ref().map(|init| &*init.expr),
        _ => None,
    }
}

/// All uses of a name as an expression in a body, with the expressions around each, innermost last.
pub(super) fn uses<'t>(body: &'t Block, name: &syn::Ident) -> Vec<Vec<&'t Expr>> {
    struct Uses<'t, 'n> {
        name: &'n syn::Ident,
        stack: Vec<&'t Expr>,
        found: Vec<Vec<&'t Expr>>,
    }
    impl<'t> Visit<'t> for Uses<'t, '_> {
        fn visit_expr(&mut self, expr: &'t Expr) {
            self.stack.push(expr);
            if matches!(expr, Expr::Path(path) if path.path.is_ident(self.name)) {
                self.found.push(self.stack.clone());
            }
            syn::visit::visit_expr(self, expr);
            self.stack.pop();
        }

        // A name inside a macro cannot be told: it counts as a use that nobody understands.
        fn visit_macro(&mut self, mac: &'t syn::Macro) {
            if mentions(&mac.tokens, self.name) {
                self.found.push(Vec::new());
            }
        }
    }
    let mut visitor = Uses { name, stack: Vec::new(), found: Vec::new() };
    visitor.visit_block(body);
    visitor.found
}

fn mentions(tokens: &proc_macro2::TokenStream, name: &syn::Ident) -> bool {
    let mut open = vec![tokens.clone()];
    while let Some(stream) = open.pop() {
        for token in stream {
            match token {
                proc_macro2::TokenTree::Ident(ident) if ident == *name => return true,
                proc_macro2::TokenTree::Group(group) => open.push(group.stream()),
                // `"{won}"` in a format string.
                proc_macro2::TokenTree::Literal(lit) if lit.to_string().contains(&format!("{{{name}")) => return true,
                _ => {}
            }
        }
    }
    false
}

/// How often a name is bound in a body.
pub(super) fn bound(body: &Block, name: &syn::Ident) -> usize {
    struct Bound<'n>(&'n syn::Ident, usize);
    impl<'t> Visit<'t> for Bound<'_> {
        fn visit_pat_ident(&mut self, pat: &'t syn::PatIdent) {
            self.1 += usize::from(pat.ident == *self.0);
            syn::visit::visit_pat_ident(self, pat);
        }
    }
    let mut visitor = Bound(name, 0);
    visitor.visit_block(body);
    visitor.1
}
