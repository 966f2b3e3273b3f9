//! Types as written to [`Ty`].

use super::names::{self, Names};
use crate::ir::Ty;
use syn::{GenericArgument, GenericParam, Generics, PathArguments, ReturnType, Type, TypeParamBound, WherePredicate};

/// Lowers a type, names resolved.
pub(super) fn ty(names: &Names, t: &Type) -> Ty {
    match t {
        Type::Array(t) => Ty { path: "[]".into(), args: vec![ty(names, &t.elem)] },
        Type::Slice(t) => Ty { path: "[]".into(), args: vec![ty(names, &t.elem)] },
        Type::FnPtr(t) => {
            let mut args: Vec<Ty> = t.inputs.iter().map(|arg| ty(names, &arg.ty)).collect();
            args.push(result(names, &t.output));
            Ty { path: "fn".into(), args }
        }
        Type::Group(t) => ty(names, &t.elem),
        Type::Paren(t) => ty(names, &t.elem),
        Type::Ptr(t) => ty(names, &t.elem),
        Type::Reference(t) => ty(names, &t.elem),
        Type::ImplTrait(t) => Ty { path: "impl".into(), args: bounds(names, t.bounds.iter()) },
        Type::TraitObject(t) => Ty { path: "dyn".into(), args: bounds(names, t.bounds.iter()) },
        Type::Never(_) => Ty::path("!"),
        Type::Tuple(t) => Ty { path: "()".into(), args: t.elems.iter().map(|t| ty(names, t)).collect() },
        Type::Path(t) => match &t.qself {
            Some(qself) => {
                let rest: Vec<String> = names::segments(&t.path).into_iter().skip(qself.position).collect();
                Ty::path(format!("{}::{}", ty(names, &qself.ty).path, rest.join("::")))
            }
            None => path(names, &t.path),
        },
        _ => Ty::unknown(),
    }
}

/// Lowers a path in type position.
pub(super) fn path(names: &Names, path: &syn::Path) -> Ty {
    if let Some(PathArguments::Parenthesized(call)) = path.segments.last().map(|s| &s.arguments) {
        let mut args: Vec<Ty> = call.inputs.iter().map(|arg| ty(names, &arg.ty)).collect();
        args.push(result(names, &call.output));
        return Ty { path: "fn".into(), args };
    }
    let written = names::segments(path);
    if let [first, second] = &written[..]
        && first == "Self"
        && let Some((_, ty)) = names.associated.iter().find(|(name, _)| name == second)
    {
        return ty.clone();
    }
    let resolved = names.resolve(&written, path.leading_colon.is_some());
    let args = path.segments.last().map(|s| arguments(names, &s.arguments)).unwrap_or_default();
    Ty { path: resolved, args }
}

/// Type arguments; associated types (`Output = T`) count as arguments.
pub(super) fn arguments(names: &Names, arguments: &PathArguments) -> Vec<Ty> {
    match arguments {
        PathArguments::AngleBracketed(list) => generic_arguments(names, list),
        _ => Vec::new(),
    }
}

/// The types of an angle-bracketed list.
pub(super) fn generic_arguments(names: &Names, list: &syn::AngleBracketedGenericArguments) -> Vec<Ty> {
    list.args
        .iter()
        .filter_map(|arg| match arg {
            GenericArgument::Type(t) => Some(ty(names, t)),
            GenericArgument::AssocType(t) => Some(ty(names, &t.ty)),
            _ => None,
        })
        .collect()
}

/// A return type; `()` if none is written.
pub(super) fn result(names: &Names, output: &ReturnType) -> Ty {
    match output {
        ReturnType::Default => Ty::unit(),
        ReturnType::Type(_, t) => ty(names, t),
    }
}

fn bounds<'a>(names: &Names, bounds: impl Iterator<Item = &'a TypeParamBound>) -> Vec<Ty> {
    bounds
        .filter_map(|bound| match bound {
            TypeParamBound::Trait(bound) => Some(path(names, &bound.path)),
            _ => None,
        })
        .collect()
}

/// Generic parameters with their bounds, where clauses included.
pub(super) fn generics(names: &Names, generics: &Generics) -> Vec<(String, Vec<Ty>)> {
    let mut out: Vec<(String, Vec<Ty>)> = generics
        .params
        .iter()
        .filter_map(|param| match param {
            GenericParam::Type(param) => Some((names::ident(&param.ident), bounds(names, param.bounds.iter()))),
            _ => None,
        })
        .collect();
    for predicate in generics.where_clause.iter().flat_map(|w| &w.predicates) {
        let WherePredicate::Type(predicate) = predicate else { continue };
        let subject = ty(names, &predicate.bounded_ty).path;
        let more = bounds(names, predicate.bounds.iter());
        match out.iter_mut().find(|(name, _)| *name == subject) {
            Some((_, list)) => list.extend(more),
            None => out.push((subject, more)),
        }
    }
    out
}

/// Whether a type is written as a reference.
pub(super) fn is_reference(t: &Type) -> bool {
    match t {
        Type::Reference(_) => true,
        Type::Group(t) => is_reference(&t.elem),
        Type::Paren(t) => is_reference(&t.elem),
        _ => false,
    }
}

/// Whether dropping a value of this type never does anything.
pub(super) fn is_plain(t: &Ty) -> bool {
    t.is_unit()
        || matches!(
            t.path.as_str(),
            "bool"
                | "char"
                | "str"
                | "u8"
                | "u16"
                | "u32"
                | "u64"
                | "u128"
                | "usize"
                | "i8"
                | "i16"
                | "i32"
                | "i64"
                | "i128"
                | "isize"
                | "f32"
                | "f64"
                | "!"
                | "std::time::Duration"
                | "tokio::time::Duration"
        )
}

/// The output of a future type: `impl Future<Output = T>`, `Pin<Box<dyn Future<Output = T>>>`, `BoxFuture<'_, T>`.
pub(super) fn future_output(t: &Ty) -> Option<Ty> {
    match t.last() {
        "impl" | "dyn" => t.args.iter().find(|bound| bound.last() == "Future").map(|bound| bound.arg(0)),
        "Pin" | "Box" => future_output(&t.arg(0)),
        name if name.ends_with("BoxFuture") || name.ends_with("BoxFut") => Some(t.arg(0)),
        _ => None,
    }
}
