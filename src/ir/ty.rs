//! Types as far as syntax shows them, and the type items of a file.

use crate::source::Span;

/// A type: a path with arguments, references and lifetimes stripped.
///
/// Special paths: `""` unknown or inferred; `()` tuple (arguments are its members, none for unit); `[]` slice or array;
/// `fn` function pointer or `Fn*` bound (last argument is the result); `impl` and `dyn` with the bounds as arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ty {
    /// Path, resolved through `use` as far as the file shows (`redis::aio::MultiplexedConnection`).
    pub path: String,
    /// Generic arguments.
    pub args: Vec<Ty>,
}

impl Ty {
    /// Unknown or inferred.
    pub fn unknown() -> Ty {
        Ty::default()
    }

    /// A path without arguments.
    pub fn path(path: impl Into<String>) -> Ty {
        Ty { path: path.into(), args: Vec::new() }
    }

    /// `()`.
    pub fn unit() -> Ty {
        Ty::path("()")
    }

    /// Nothing is known.
    pub fn is_unknown(&self) -> bool {
        self.path.is_empty()
    }

    /// `()`.
    pub fn is_unit(&self) -> bool {
        self.path == "()" && self.args.is_empty()
    }

    /// Last segment of the path.
    pub fn last(&self) -> &str {
        self.path.rsplit("::").next().unwrap_or(&self.path)
    }

    /// Argument `i`, or unknown.
    pub fn arg(&self, i: usize) -> Ty {
        self.args.get(i).cloned().unwrap_or_default()
    }

    /// The payload type of `?` on this type: `T` of `Result<T, _>` and `Option<T>` (also crate aliases whose name ends
    /// in `Result`); unknown otherwise.
    pub fn success(&self) -> Ty {
        let last = self.last();
        if last == "Option" || last.ends_with("Result") { self.arg(0) } else { Ty::unknown() }
    }
}

impl std::fmt::Display for Ty {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let list = |f: &mut std::fmt::Formatter<'_>| -> std::fmt::Result {
            for (i, arg) in self.args.iter().enumerate() {
                if i > 0 {
                    f.write_str(", ")?;
                }
                write!(f, "{arg}")?;
            }
            Ok(())
        };
        match self.path.as_str() {
            "" => f.write_str("_"),
            "()" => {
                f.write_str("(")?;
                list(f)?;
                f.write_str(")")
            }
            path => {
                f.write_str(path)?;
                if !self.args.is_empty() {
                    f.write_str("<")?;
                    list(f)?;
                    f.write_str(">")?;
                }
                Ok(())
            }
        }
    }
}

/// Kind of a [`TypeDef`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum TypeKind {
    Struct,
    Enum,
    Trait,
    /// `type A = B;` (the target is the only field's type).
    Alias,
}

/// A struct, enum, trait or alias of the workspace.
#[derive(Clone, Debug)]
pub struct TypeDef {
    /// Full path.
    pub path: String,
    /// Kind.
    pub kind: TypeKind,
    /// Generic parameters with the types of their bounds.
    pub generics: Vec<(String, Vec<Ty>)>,
    /// Fields (tuple fields are named `0`, `1`; enum fields `Variant.0`, `Variant.name`).
    pub fields: Vec<(String, Ty)>,
    /// Variant names of an enum.
    pub variants: Vec<String>,
    /// Derives and other attributes by last segment (`Clone`, `must_use`).
    pub attributes: Vec<String>,
    /// The name.
    pub span: Span,
    /// Under `#[cfg(test)]` or in a test folder.
    pub test: bool,
}

/// An `impl` block.
#[derive(Clone, Debug)]
pub struct ImplDef {
    /// Trait path, if any.
    pub trait_: Option<String>,
    /// Self type.
    pub self_ty: Ty,
    /// Associated types: name and type (`Target`, `Error`).
    pub types: Vec<(String, Ty)>,
    /// Where.
    pub span: Span,
    /// Under `#[cfg(test)]` or in a test folder.
    pub test: bool,
}

/// A `use` that names travel through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UseDef {
    /// Module it stands in.
    pub module: String,
    /// Name it introduces; `*` for a glob.
    pub name: String,
    /// Path it refers to, made absolute for `crate`, `self`, `super`.
    pub path: String,
    /// `pub use` in any form.
    pub public: bool,
}
