//! A reply type that hides a loss becomes one that shows it.

use super::offer::Ask;
use super::tree::{Chain, Node, Tree, binding, body, bound, chain, expression, innermost, thrown_away, uses};
use crate::finding::{Edit, Finding, Fix};
use crate::source::Span;
use syn::{Expr, Stmt, Type};

/// The repair of an `unchecked-acquire` finding.
pub(super) fn telling(ask: &Ask<'_>, finding: &Finding) -> Option<Fix> {
    let nodes = ask.tree.around(finding.span)?;
    let whole = chain(&nodes)?;
    option_of_setnx(ask, finding.span, &nodes, &whole).or_else(|| answered(ask, &nodes, &whole))
}

/// `let r: Option<_> = conn.set_nx(..)`, tested by `is_some()`: SETNX answers 0 or 1, never nil.
fn option_of_setnx(ask: &Ask<'_>, at: Span, nodes: &[Node<'_>], whole: &Chain<'_>) -> Option<Fix> {
    let setnx = whole.links.iter().any(|link| link.name == "set_nx")
        || whole.command().is_some_and(|name| name.value().eq_ignore_ascii_case("SETNX"));
    let (_, block, index) = innermost(nodes)?;
    let (_, ty) = binding(&block.stmts[index])?;
    let option = matches!(ty?, Type::Path(path) if path.path.segments.last().is_some_and(|s| s.ident == "Option"));
    if !setnx || !option {
        return None;
    }
    Some(Fix { title: "read the reply of SETNX as a flag".to_owned(), edits: as_bool(ask, at, nodes)? })
}

/// The command is sent, its reply thrown away, and `Ok(true)` answered: the reply is the answer.
fn answered(ask: &Ask<'_>, nodes: &[Node<'_>], whole: &Chain<'_>) -> Option<Fix> {
    let tree = ask.tree;
    let (_, block, index) = innermost(nodes)?;
    let stmt = &block.stmts[index];
    let Stmt::Expr(tail, None) = block.stmts.get(index + 1)? else { return None };
    let is_end = index + 2 == block.stmts.len();
    if !is_end || !thrown_away(stmt) || !std::ptr::eq(expression(stmt)?, whole.whole) || !is_ok_true(tail) {
        return None;
    }
    // The answer is the function's own: its body ends here.
    if !std::ptr::eq(body(nodes)?, block) {
        return None;
    }
    let sets =
        whole.command().is_some_and(|name| matches!(name.value().to_ascii_uppercase().as_str(), "SET" | "SETNX"))
            || whole.links.iter().any(|link| matches!(link.name.as_str(), "set_nx" | "set_options"));
    if !sets || tree.mentions("TypedCommands") {
        return None;
    }
    let taken = ["won"].into_iter().find(|name| {
        let ident = syn::Ident::new(name, proc_macro2::Span::call_site());
        bound(block, &ident) == 0 && uses(block, &ident).is_empty()
    })?;
    let links: Vec<String> = whole
        .link_texts(tree)
        .into_iter()
        .map(|link| match link.strip_prefix(".exec_async(") {
            Some(rest) => format!(".query_async({rest}"),
            None => match link.strip_prefix(".exec(") {
                Some(rest) => format!(".query({rest}"),
                None => link,
            },
        })
        .collect();
    let span = tree.stmt(stmt)?;
    let chain =
        tree.layout(Span { start: span.start, ..tree.places.expr(whole.whole) }, tree.source(whole.root), &links);
    let statement = Edit { span, text: format!("let {taken}: bool = {};", chain?) };
    let answer = Edit { span: tree.places.expr(tail), text: format!("Ok({taken})") };
    let last = statement.text.lines().next()?.chars().count();
    (last <= 120).then(|| Fix { title: "answer what the store answers".to_owned(), edits: vec![statement, answer] })
}

fn is_ok_true(expr: &Expr) -> bool {
    let Expr::Call(call) = expr else { return false };
    let ok = matches!(&*call.func, Expr::Path(path) if path.path.is_ident("Ok"));
    let yes = matches!(call.args.first(), Some(Expr::Lit(syn::ExprLit { lit: syn::Lit::Bool(lit), .. })) if lit.value);
    ok && call.args.len() == 1 && yes
}

/// Edits that make the reply of a set-if-absent a `bool`, whatever it was read as, and its tests those of a flag. Empty where it
/// is one already; `None` where something else is made of it.
pub(super) fn as_bool(ask: &Ask<'_>, at: Span, nodes: &[Node<'_>]) -> Option<Vec<Edit>> {
    let tree = ask.tree;
    let (_, block, index) = innermost(nodes)?;
    let stmt = &block.stmts[index];
    let whole = chain(nodes)?;
    let Some((name, ty)) = binding(stmt) else {
        // Tested where it stands: `if c.set_nx(..).await? {`, `if !..`.
        return tested_here(nodes, &whole).then(Vec::new);
    };
    if !std::ptr::eq(expression(stmt)?, whole.whole) {
        return None;
    }
    let Some(ty) = ty else {
        // The type comes from how it is used: only if the analysis says that it is a flag.
        return flag(ask, at).then(Vec::new);
    };
    let written = tree.places.between(first(ty)?, last(ty)?);
    let text = tree.text(written);
    if text == "bool" {
        return Some(Vec::new());
    }
    let number = ["i8", "i16", "i32", "i64", "isize", "u8", "u16", "u32", "u64", "usize"].contains(&text);
    if !(number || text.starts_with("Option<")) {
        return None;
    }
    let body = body(nodes)?;
    if bound(body, name) != 1 {
        return None;
    }
    let mut edits = vec![Edit { span: written, text: "bool".to_owned() }];
    for around in uses(body, name) {
        edits.push(test(tree, &around, &name.to_string(), number)?);
    }
    Some(edits)
}

/// The test of a number or option as the test of a flag.
fn test(tree: &Tree<'_>, around: &[&Expr], name: &str, number: bool) -> Option<Edit> {
    let outer = around.len().checked_sub(2).map(|i| around[i])?;
    let negated = around.len().checked_sub(3).is_some_and(|i| matches!(around[i], Expr::Unary(_)));
    let positive = match outer {
        Expr::Binary(binary) if number => {
            let (left, right) = (tree.source(&binary.left), tree.source(&binary.right));
            if left != name {
                return None;
            }
            match (&binary.op, right) {
                (syn::BinOp::Eq(_), "1") | (syn::BinOp::Gt(_) | syn::BinOp::Ne(_), "0") | (syn::BinOp::Ge(_), "1") => {
                    true
                }
                (syn::BinOp::Eq(_), "0") | (syn::BinOp::Ne(_), "1") | (syn::BinOp::Lt(_), "1") => false,
                _ => return None,
            }
        }
        Expr::MethodCall(call) if !number && call.args.is_empty() => match call.method.to_string().as_str() {
            "is_some" => true,
            "is_none" if !negated => false,
            _ => return None,
        },
        _ => return None,
    };
    let text = if positive { name.to_owned() } else { format!("!{name}") };
    Some(Edit { span: tree.places.expr(outer), text })
}

fn tested_here(nodes: &[Node<'_>], whole: &Chain<'_>) -> bool {
    let parent =
        nodes.iter().rev().skip_while(|node| !matches!(node, Node::Expr(e) if std::ptr::eq(*e, whole.whole))).nth(1);
    match parent {
        Some(Node::Expr(Expr::If(outer))) => std::ptr::eq(&*outer.cond, whole.whole),
        Some(Node::Expr(Expr::Unary(outer))) => matches!(outer.op, syn::UnOp::Not(_)),
        _ => false,
    }
}

/// Whether the analysis knows that the reply is read as a flag.
fn flag(ask: &Ask<'_>, at: Span) -> bool {
    ask.cx.program.functions().any(|(id, f)| {
        f.file() == at.file
            && f.calls().any(|(_, op, _)| {
                op.span.start == at.start && op.dst.is_some_and(|dst| ask.cx.program.expected(id, dst).path == "bool")
            })
    })
}

fn first(ty: &Type) -> Option<proc_macro2::Span> {
    match ty {
        Type::Path(path) => path.path.segments.first().map(|segment| segment.ident.span()),
        _ => None,
    }
}

fn last(ty: &Type) -> Option<proc_macro2::Span> {
    let Type::Path(path) = ty else { return None };
    let segment = path.path.segments.last()?;
    match &segment.arguments {
        syn::PathArguments::AngleBracketed(args) => Some(args.gt_token.span),
        _ => Some(segment.ident.span()),
    }
}
