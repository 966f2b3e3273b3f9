//! Items: types, impls, and one function per `fn`, constant and macro arm.

use super::lower::{Header, Lower};
use super::names::{self, Names};
use super::parse::Parsed;
use super::{attrs, types, words};
use crate::frontend::ModuleContext;
use crate::ir::{FunctionKind, ImplDef, TypeDef, TypeKind, Unit};
use crate::source::{SourceFile, Span};
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::parse::{ParseStream, Parser};
use syn::spanned::Spanned;
use syn::{Attribute, Expr, Fields, ImplItem, Item, TraitItem, Type, Visibility};

/// Lowers the items of a file.
pub(super) fn lower(file: &SourceFile, module: &ModuleContext, parsed: Parsed<'_>) -> Unit {
    let names = Names::new(&module.krate, &module.module, &parsed.items);
    let mut lower = Lower::new(file, module, parsed.places, names);
    lower.unit.problems = parsed.problems;
    lower.unit.opaque = parsed.opaque;
    lower.macros = parsed.macros;
    lower.items(&parsed.items, &module.module);
    let mut unit = lower.unit;
    unit.functions = lower.functions.into_iter().flatten().collect();
    unit.uses = lower.names.declared;
    unit.opaque.sort_by_key(|span| (span.start, span.end));
    unit.opaque.dedup();
    unit
}

impl Lower<'_> {
    /// Lowers items that are named below `prefix`.
    pub(super) fn items(&mut self, items: &[Item], prefix: &str) {
        for item in items {
            self.item(item, prefix);
        }
    }

    /// Lowers one item.
    pub(super) fn item(&mut self, item: &Item, prefix: &str) {
        let attributes: &[Attribute] = match item {
            Item::Const(i) => &i.attrs,
            Item::Enum(i) => &i.attrs,
            Item::Fn(i) => &i.attrs,
            Item::Impl(i) => &i.attrs,
            Item::Macro(i) => &i.attrs,
            Item::Mod(i) => &i.attrs,
            Item::Static(i) => &i.attrs,
            Item::Struct(i) => &i.attrs,
            Item::Trait(i) => &i.attrs,
            Item::Type(i) => &i.attrs,
            _ => &[],
        };
        let test = self.test;
        self.test |= attrs::is_test(attributes);
        // An item inside a body sees neither `Self` nor the generic parameters around it.
        let owner = self.names.owner.take();
        let params = std::mem::take(&mut self.names.params);
        self.item_inner(item, prefix);
        self.names.owner = owner;
        self.names.params = params;
        self.test = test;
    }

    fn item_inner(&mut self, item: &Item, prefix: &str) {
        match item {
            Item::Fn(i) => {
                let whole = self.places.function(&i.attrs, &i.vis, &i.sig, i.block.brace_token.span.close());
                let header = self.header(prefix, &i.sig.ident, FunctionKind::Item, whole, &i.vis);
                self.function(&i.sig, Some(&i.block), header);
            }
            Item::Const(i) => self.const_item(prefix, &i.ident, &i.ty, &i.expr, &i.vis),
            Item::Static(i) => self.const_item(prefix, &i.ident, &i.ty, &i.expr, &i.vis),
            Item::Struct(i) => {
                let mut def = self.type_def(prefix, &i.ident, TypeKind::Struct, &i.generics, &i.attrs);
                self.fields(&i.fields, "", &mut def);
                self.unit.types.push(def);
            }
            Item::Enum(i) => {
                let mut def = self.type_def(prefix, &i.ident, TypeKind::Enum, &i.generics, &i.attrs);
                for variant in &i.variants {
                    let name = names::ident(&variant.ident);
                    self.fields(&variant.fields, &format!("{name}."), &mut def);
                    def.variants.push(name);
                }
                self.unit.types.push(def);
            }
            Item::Type(i) => {
                let mut def = self.type_def(prefix, &i.ident, TypeKind::Alias, &i.generics, &i.attrs);
                def.fields.push(("0".into(), types::ty(&self.names, &i.ty)));
                self.unit.types.push(def);
            }
            Item::Trait(i) => self.trait_item(i, prefix),
            Item::Impl(i) => self.impl_item(i),
            Item::Mod(i) => self.module_item(i, prefix),
            Item::Macro(i) => self.macro_item(i, prefix),
            Item::Verbatim(tokens) => self.unread(tokens, self.places.span(tokens.span())),
            _ => {}
        }
    }

    fn header(
        &self,
        prefix: &str,
        ident: &syn::Ident,
        kind: FunctionKind,
        whole: Span,
        visibility: &Visibility,
    ) -> Header {
        let name = names::ident(ident);
        Header {
            path: format!("{prefix}::{name}"),
            name,
            public: matches!(visibility, Visibility::Public(_)),
            ..Header::new(kind, self.places.span(ident.span()), whole)
        }
    }

    fn const_item(&mut self, prefix: &str, ident: &syn::Ident, ty: &Type, value: &Expr, visibility: &Visibility) {
        let whole = self.places.between(ident.span(), super::places::last(value));
        let mut header = self.header(prefix, ident, FunctionKind::Const, whole, visibility);
        header.ret = types::ty(&self.names, ty);
        header.owner = self.names.owner.clone();
        self.constant(value, header);
    }

    /// A type item; its generic parameters are in scope to the end of the item.
    fn type_def(
        &mut self,
        prefix: &str,
        ident: &syn::Ident,
        kind: TypeKind,
        generics: &syn::Generics,
        attributes: &[Attribute],
    ) -> TypeDef {
        self.names.params = generics.type_params().map(|p| names::ident(&p.ident)).collect();
        TypeDef {
            path: format!("{prefix}::{}", names::ident(ident)),
            kind,
            generics: types::generics(&self.names, generics),
            fields: Vec::new(),
            variants: Vec::new(),
            attributes: attrs::names(attributes),
            span: self.places.span(ident.span()),
            test: self.test,
        }
    }

    fn fields(&mut self, fields: &Fields, prefix: &str, def: &mut TypeDef) {
        for (at, field) in fields.iter().enumerate() {
            let name = field.ident.as_ref().map_or_else(|| at.to_string(), names::ident);
            def.fields.push((format!("{prefix}{name}"), types::ty(&self.names, &field.ty)));
        }
    }

    fn trait_item(&mut self, i: &syn::ItemTrait, prefix: &str) {
        let def = self.type_def(prefix, &i.ident, TypeKind::Trait, &i.generics, &i.attrs);
        let path = def.path.clone();
        self.unit.types.push(def);
        self.names.owner = Some(path.clone());
        for item in &i.items {
            match item {
                TraitItem::Fn(f) => {
                    let last = match (&f.default, &f.semi_token) {
                        (Some(block), _) => block.brace_token.span.close(),
                        (None, Some(semi)) => semi.span,
                        (None, None) => f.sig.paren_token.span.close(),
                    };
                    let whole = self.places.function(&f.attrs, &Visibility::Inherited, &f.sig, last);
                    let mut header = self.header(&path, &f.sig.ident, FunctionKind::Item, whole, &i.vis);
                    header.owner = Some(path.clone());
                    header.owner_trait = Some(path.clone());
                    self.function(&f.sig, f.default.as_ref(), header);
                }
                TraitItem::Const(c) => {
                    if let Some((_, value)) = &c.default {
                        self.const_item(&path, &c.ident, &c.ty, value, &i.vis);
                    }
                }
                TraitItem::Macro(m) => self.unread(&m.mac.tokens, self.places.span(m.span())),
                TraitItem::Verbatim(tokens) => self.unread(tokens, self.places.span(tokens.span())),
                _ => {}
            }
        }
        self.names.owner = None;
    }

    fn impl_item(&mut self, i: &syn::ItemImpl) {
        self.names.params = i.generics.type_params().map(|p| names::ident(&p.ident)).collect();
        let self_ty = types::ty(&self.names, &i.self_ty);
        let trait_ = i.trait_.as_ref().map(|(path, _)| types::path(&self.names, path).path);
        let owner_path = match self_ty.path.as_str() {
            "dyn" | "impl" if !self_ty.args.is_empty() => self_ty.args[0].path.clone(),
            "" | "()" | "[]" | "fn" => self_ty.to_string(),
            path => path.to_owned(),
        };
        self.names.owner = Some(owner_path.clone());
        let mut def = ImplDef {
            trait_: trait_.clone(),
            self_ty,
            types: Vec::new(),
            span: self.places.span(i.impl_token.span),
            test: self.test,
        };
        for item in &i.items {
            if let ImplItem::Type(t) = item {
                def.types.push((names::ident(&t.ident), types::ty(&self.names, &t.ty)));
            }
        }
        self.names.associated = def.types.clone();
        self.unit.impls.push(def);
        let generics = types::generics(&self.names, &i.generics);
        for item in &i.items {
            match item {
                ImplItem::Fn(f) => {
                    let test = self.test;
                    self.test |= attrs::is_test(&f.attrs);
                    let whole = self.places.function(&f.attrs, &f.vis, &f.sig, f.block.brace_token.span.close());
                    let is_drop = trait_.as_deref().is_some_and(|t| t.rsplit("::").next() == Some("Drop"));
                    let kind = if is_drop && f.sig.ident == "drop" { FunctionKind::Drop } else { FunctionKind::Item };
                    let mut header = self.header(&owner_path, &f.sig.ident, kind, whole, &f.vis);
                    header.public |= trait_.is_some();
                    header.owner = Some(owner_path.clone());
                    header.owner_trait = trait_.clone();
                    header.generics = generics.clone();
                    self.function(&f.sig, Some(&f.block), header);
                    self.test = test;
                }
                ImplItem::Const(c) => self.const_item(&owner_path, &c.ident, &c.ty, &c.expr, &c.vis),
                ImplItem::Macro(m) => self.unread(&m.mac.tokens, self.places.span(m.span())),
                ImplItem::Verbatim(tokens) => self.unread(tokens, self.places.span(tokens.span())),
                _ => {}
            }
        }
        self.names.owner = None;
        self.names.associated.clear();
    }

    fn module_item(&mut self, i: &syn::ItemMod, prefix: &str) {
        let name = names::ident(&i.ident);
        let path = format!("{prefix}::{name}");
        let Some((_, items)) = &i.content else {
            let at = i.attrs.iter().find(|a| a.path().is_ident("path")).and_then(|a| match &a.meta {
                syn::Meta::NameValue(pair) => match &pair.value {
                    Expr::Lit(e) => match &e.lit {
                        syn::Lit::Str(s) => Some(s.value()),
                        _ => None,
                    },
                    _ => None,
                },
                _ => None,
            });
            self.unit.modules.push((path, at));
            return;
        };
        let test = self.test;
        self.test |= matches!(name.as_str(), "test" | "tests");
        let module = std::mem::replace(&mut self.names.module, path.clone());
        self.items(items, &path);
        self.names.module = module;
        self.test = test;
    }

    fn macro_item(&mut self, i: &syn::ItemMacro, prefix: &str) {
        let name = i.mac.path.segments.last().map(|s| names::ident(&s.ident)).unwrap_or_default();
        let span = self.places.span(i.span());
        match name.as_str() {
            "macro_rules" => {
                if let Some(ident) = &i.ident
                    && words::in_tokens(&i.mac.tokens)
                {
                    self.macro_rules(ident, &i.mac.tokens, prefix, span);
                }
            }
            "lazy_static" | "thread_local" | "task_local" => {
                if !self.lazy_statics(&i.mac.tokens, prefix) {
                    self.unread(&i.mac.tokens, span);
                }
            }
            _ => {
                if let Some(items) = self.expanded(&i.mac).as_ref().and_then(super::macro_rules::items_of) {
                    self.expansions += 1;
                    self.items(&items, prefix);
                    self.expansions -= 1;
                } else if super::parse::too_deep(&i.mac.tokens) || !self.items_in(&i.mac.tokens, prefix) {
                    self.unread(&i.mac.tokens, span);
                }
            }
        }
    }

    /// Items inside the tokens of a macro (`cfg_if!`, wrappers that only add attributes). False if there are none.
    fn items_in(&mut self, tokens: &TokenStream, prefix: &str) -> bool {
        if let Ok(file) = syn::parse2::<syn::File>(tokens.clone()) {
            self.items(&file.items, prefix);
            return true;
        }
        let mut all = true;
        let mut any = false;
        for token in tokens.clone() {
            if let TokenTree::Group(group) = token
                && group.delimiter() == Delimiter::Brace
            {
                any = true;
                match syn::parse2::<syn::File>(group.stream()) {
                    Ok(file) => self.items(&file.items, prefix),
                    Err(_) => all = false,
                }
            }
        }
        any && all
    }

    /// `[pub] static [ref] NAME: T = value;` of `lazy_static!` and `thread_local!`.
    pub(super) fn lazy_statics(&mut self, tokens: &TokenStream, prefix: &str) -> bool {
        let parser = |input: ParseStream| {
            let mut list = Vec::new();
            while !input.is_empty() {
                input.call(Attribute::parse_outer)?;
                let visibility: Visibility = input.parse()?;
                input.parse::<syn::Token![static]>()?;
                input.parse::<Option<syn::Token![ref]>>()?;
                let ident: syn::Ident = input.parse()?;
                input.parse::<syn::Token![:]>()?;
                let ty: Type = input.parse()?;
                let value = if input.peek(syn::Token![=]) {
                    input.parse::<syn::Token![=]>()?;
                    input.parse::<Option<syn::Token![const]>>()?;
                    Some(input.parse::<Expr>()?)
                } else {
                    None
                };
                input.parse::<Option<syn::Token![;]>>()?;
                list.push((visibility, ident, ty, value));
            }
            Ok(list)
        };
        let Ok(list) = parser.parse2(tokens.clone()) else { return false };
        for (visibility, ident, ty, value) in &list {
            if let Some(value) = value {
                self.const_item(prefix, ident, ty, value, visibility);
            }
        }
        true
    }

    /// Tokens that nothing was read of: shown if they may hold a lock.
    pub(super) fn unread(&mut self, tokens: &TokenStream, span: Span) {
        if words::in_tokens(tokens) {
            self.unit.opaque.push(span);
        }
    }
}
