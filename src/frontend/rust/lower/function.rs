//! Entering and finishing functions.

use super::closure::block_tail_async;
use super::scope::Kind;
use super::{Body, Carrier, Lower, Want, clean};
use crate::frontend::rust::{names, types};
use crate::ir::{Function, FunctionId, FunctionKind, Operand, Ty, Use, VarInfo};
use crate::source::Span;
use syn::{Block, Expr, FnArg, ReceiverKind, Signature};

/// What is known of a function besides its body.
pub(in crate::frontend::rust) struct Header {
    pub(in crate::frontend::rust) path: String,
    pub(in crate::frontend::rust) name: String,
    pub(in crate::frontend::rust) owner: Option<String>,
    pub(in crate::frontend::rust) owner_trait: Option<String>,
    pub(in crate::frontend::rust) parent: Option<FunctionId>,
    pub(in crate::frontend::rust) kind: FunctionKind,
    pub(in crate::frontend::rust) span: Span,
    pub(in crate::frontend::rust) whole: Span,
    pub(in crate::frontend::rust) ret: Ty,
    pub(in crate::frontend::rust) generics: Vec<(String, Vec<Ty>)>,
    pub(in crate::frontend::rust) is_async: bool,
    pub(in crate::frontend::rust) test: bool,
    pub(in crate::frontend::rust) public: bool,
}

impl Header {
    pub(in crate::frontend::rust) fn new(kind: FunctionKind, span: Span, whole: Span) -> Header {
        Header {
            path: String::new(),
            name: String::new(),
            owner: None,
            owner_trait: None,
            parent: None,
            kind,
            span,
            whole,
            ret: Ty::unknown(),
            generics: Vec::new(),
            is_async: false,
            test: false,
            public: false,
        }
    }
}

impl Lower<'_> {
    /// Begins a function; its id is taken now so that what stands inside can name it.
    pub(super) fn enter_body(&mut self, path: String, nested: bool, carrier: Carrier) {
        let id = FunctionId(self.functions.len() as u32);
        self.functions.push(None);
        let body = Body { id: Some(id), path, nested, carrier, ..Body::default() };
        self.outer.push(std::mem::replace(&mut self.body, body));
        let entry = self.new_block();
        self.switch(entry);
    }

    /// Ends the function and returns to the one around it.
    pub(super) fn leave_body(&mut self, header: Header) -> FunctionId {
        let outer = self.outer.pop().unwrap_or_default();
        let body = std::mem::replace(&mut self.body, outer);
        let id = body.id.unwrap_or(FunctionId(0));
        let mut function = Function {
            path: header.path,
            name: header.name,
            module: self.names.module.clone(),
            owner: header.owner,
            owner_trait: header.owner_trait,
            parent: header.parent,
            kind: header.kind,
            span: header.span,
            whole: header.whole,
            params: body.params,
            captures: body.captures.into_iter().map(|(_, inner)| inner).collect(),
            vars: body.vars,
            ret: header.ret,
            generics: header.generics,
            is_async: header.is_async,
            test: header.test || self.test,
            public: header.public,
            blocks: body.blocks,
        };
        clean::clean(&mut function);
        if let Some(slot) = self.functions.get_mut(id.0 as usize) {
            *slot = Some(function);
        }
        id
    }

    /// Lowers a function with a signature; without a body it keeps parameters only.
    pub(in crate::frontend::rust) fn function(&mut self, sig: &Signature, block: Option<&Block>, mut header: Header) {
        let params = self.names.params.len();
        self.names.params.extend(sig.generics.type_params().map(|p| names::ident(&p.ident)));
        header.generics.extend(types::generics(&self.names, &sig.generics));
        let declared = types::result(&self.names, &sig.output);
        let tail = if sig.asyncness.is_none() { block.and_then(block_tail_async) } else { None };
        header.is_async = sig.asyncness.is_some() || tail.is_some();
        header.ret = match (&tail, types::future_output(&declared)) {
            (Some(_), Some(output)) => output,
            _ => declared,
        };
        // A boxed future declared by a trait method is what an async fn of the implementation returns.
        if block.is_none()
            && let Some(output) = types::future_output(&header.ret)
        {
            header.ret = output;
            header.is_async = true;
        }
        self.enter_body(header.path.clone(), false, Carrier::of(&header.ret));
        self.body.tail = tail.map(std::ptr::from_ref);
        self.push(Kind::Function);
        for arg in &sig.inputs {
            self.fn_arg(arg, header.owner.as_deref());
        }
        match block {
            Some(block) => {
                let value = self.block(block, Want::Value);
                let span = self.places.span(block.brace_token.span.close());
                self.finish_body(value, span);
            }
            None => self.body.blocks.clear(),
        }
        self.leave_body(header);
        self.names.params.truncate(params);
    }

    /// Lowers the initialiser of a constant.
    pub(in crate::frontend::rust) fn constant(&mut self, value: &Expr, header: Header) {
        self.enter_body(header.path.clone(), false, Carrier::Unknown);
        self.push(Kind::Function);
        let value_span = self.places.expr(value);
        let value = self.value(value, Want::Value);
        self.finish_body(value, value_span);
        self.leave_body(header);
    }

    /// Lowers loose statements as a function with these parameters.
    pub(in crate::frontend::rust) fn fragment(&mut self, params: &[String], stmts: &[syn::Stmt], header: Header) {
        self.enter_body(header.path.clone(), false, Carrier::Unknown);
        self.push(Kind::Function);
        for name in params {
            let var = self.new_var(VarInfo {
                name: Some(name.clone()),
                ty: Ty::unknown(),
                span: header.span,
                by_ref: true,
                mutable: false,
            });
            self.body.params.push(var);
            self.declare(name, var, false);
        }
        let path = header.path.clone();
        self.names.enter_block(stmts, &path);
        let value = self.statements(stmts, Want::Value);
        self.names.leave_block();
        self.finish_body(value, header.span);
        self.leave_body(header);
    }

    fn fn_arg(&mut self, arg: &FnArg, owner: Option<&str>) {
        match arg {
            FnArg::Receiver(receiver) => {
                let (ty, by_ref, by_mut) = match &receiver.kind {
                    ReceiverKind::Reference(_, _, mutability) => (None, true, mutability.is_some()),
                    ReceiverKind::Typed(_, ty) => (Some(types::ty(&self.names, ty)), types::is_reference(ty), false),
                    _ => (None, false, false),
                };
                let ty = ty.unwrap_or_else(|| owner.map_or_else(Ty::unknown, Ty::path));
                let span = self.places.span(receiver.self_token.span);
                let var = self.new_var(VarInfo {
                    name: Some("self".into()),
                    ty,
                    span,
                    by_ref,
                    mutable: by_mut || receiver.mutability.is_some(),
                });
                self.body.params.push(var);
                self.declare("self", var, !by_ref);
            }
            FnArg::Typed(arg) => {
                let by_ref = types::is_reference(&arg.ty);
                let ty = types::ty(&self.names, &arg.ty);
                self.param(&arg.pat, Some((ty, by_ref)));
            }
        }
    }

    /// The operand of a variable visible by name, borrowed.
    pub(super) fn variable(&mut self, name: &str) -> Option<Operand> {
        self.lookup(name).map(|var| Operand::Var(var, Use::Ref))
    }
}
