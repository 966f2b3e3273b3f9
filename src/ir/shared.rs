//! Parts of a [`Value`] that many values hold together.
//!
//! A builder chain of a hundred steps has a hundred prefixes, and each caller of a helper has its own copy of what the helper
//! returns: as plain trees they cost the square of what is written. So the children of a value are behind a counted
//! pointer, with what is asked of whole trees again and again kept beside them.

use super::{CallValue, Lit, Piece, Value};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

/// An immutable part of a value, cheap to clone and to compare. Equal parts are equal whether they are the same allocation or not.
#[derive(Clone)]
pub struct Shared<T>(Arc<Node<T>>);

struct Node<T> {
    weight: Weight,
    inner: T,
}

/// What is known of a value without walking it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weight {
    /// Nodes in it, as a tree.
    pub size: u32,
    /// Levels of nodes.
    pub depth: u32,
    /// Which kinds of [`leaf`] are in it.
    pub has: u8,
    /// Of all that takes part in comparison.
    hash: u64,
}

/// Kinds of values that rewriting looks for, as bits of [`Weight::has`].
pub mod leaf {
    /// Parameters.
    pub const PARAM: u8 = 1;
    /// Locals that nothing is known of.
    pub const LOCAL: u8 = 64;
    /// What means something else in another function.
    pub const FRAME: u8 = PARAM | LOCAL;
    /// Fields of some value.
    pub const FIELD: u8 = 2;
    /// Fields of any object of a type.
    pub const TYPE_FIELD: u8 = 4;
    /// What is made anew for each evaluation.
    pub const FRESH: u8 = 8;
    /// Readings of a clock.
    pub const CLOCK: u8 = 16;
    /// Calls that are not folded.
    pub const CALL: u8 = 32;
}

/// What can be weighed from its parts.
pub trait Weigh {
    /// The weight, in time of its direct children.
    fn weigh(&self) -> Weight;
}

impl<T: Weigh> From<T> for Shared<T> {
    fn from(inner: T) -> Shared<T> {
        Shared(Arc::new(Node { weight: inner.weigh(), inner }))
    }
}

impl<T> FromIterator<T> for Shared<Vec<T>>
where
    Vec<T>: Weigh,
{
    fn from_iter<I: IntoIterator<Item = T>>(iter: I) -> Shared<Vec<T>> {
        iter.into_iter().collect::<Vec<T>>().into()
    }
}

impl<T> Shared<T> {
    /// The weight of what is in it.
    pub fn weight(this: &Shared<T>) -> Weight {
        this.0.weight
    }

    /// Whether both are the same allocation.
    pub fn same(this: &Shared<T>, other: &Shared<T>) -> bool {
        Arc::ptr_eq(&this.0, &other.0)
    }

    /// What is in it, copied only if others hold it too.
    pub fn take(this: Shared<T>) -> T
    where
        T: Clone,
    {
        match Arc::try_unwrap(this.0) {
            Ok(node) => node.inner,
            Err(shared) => shared.inner.clone(),
        }
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0.inner
    }
}

impl<T: PartialEq> PartialEq for Shared<T> {
    fn eq(&self, other: &Shared<T>) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || (self.0.weight == other.0.weight && self.0.inner == other.0.inner)
    }
}

impl<T: fmt::Debug> fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.inner.fmt(f)
    }
}

impl<'a, T> IntoIterator for &'a Shared<Vec<T>> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.inner.iter()
    }
}

impl<T: Clone> IntoIterator for Shared<Vec<T>> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        Shared::take(self).into_iter()
    }
}

/// Adds up the children of a node.
struct Scale {
    weight: Weight,
    hasher: DefaultHasher,
}

impl Scale {
    fn new(kind: u8) -> Scale {
        let mut hasher = DefaultHasher::new();
        kind.hash(&mut hasher);
        Scale { weight: Weight { size: 1, ..Weight::default() }, hasher }
    }

    fn text(&mut self, text: &str) {
        text.hash(&mut self.hasher);
    }

    fn child(&mut self, child: Weight) {
        self.weight.size = self.weight.size.saturating_add(child.size);
        self.weight.depth = self.weight.depth.max(child.depth);
        self.weight.has |= child.has;
        child.hash.hash(&mut self.hasher);
    }

    fn done(self) -> Weight {
        Weight { depth: self.weight.depth.saturating_add(1), hash: self.hasher.finish(), ..self.weight }
    }
}

impl Weigh for Value {
    fn weigh(&self) -> Weight {
        let mut scale = Scale::new(0);
        match self {
            Value::Const(lit) => scale.lit(lit),
            Value::Template(pieces) => scale.within(1, pieces),
            Value::Param(i) => {
                scale.weight.has = leaf::PARAM;
                (2u8, i).hash(&mut scale.hasher);
            }
            Value::Field(base, name) => {
                scale.weight.has = leaf::FIELD;
                scale.within(3, base);
                scale.text(name);
            }
            Value::TypeField(ty, name) => {
                scale.weight.has = leaf::TYPE_FIELD;
                (4u8, ty, name).hash(&mut scale.hasher);
            }
            Value::Env(name) => (5u8, name).hash(&mut scale.hasher),
            Value::Fresh(name) => {
                scale.weight.has = leaf::FRESH;
                (6u8, name).hash(&mut scale.hasher);
            }
            Value::PerProcess(name) => (7u8, name).hash(&mut scale.hasher),
            Value::Identity(name) => (8u8, name).hash(&mut scale.hasher),
            Value::Clock { wall } => {
                scale.weight.has = leaf::CLOCK;
                (9u8, wall).hash(&mut scale.hasher);
            }
            Value::Call(call) => {
                scale.weight.has = leaf::CALL;
                scale.within(10, call);
            }
            Value::Aggregate(path, fields) => {
                scale.within(11, fields);
                scale.text(path);
            }
            Value::Path(path) => (12u8, path).hash(&mut scale.hasher),
            Value::Operation(name, operands) => {
                scale.within(13, operands);
                scale.text(name);
            }
            Value::Closure(id) => (14u8, id).hash(&mut scale.hasher),
            Value::Join(members) => scale.within(15, members),
            Value::Local(function, var) => {
                scale.weight.has = leaf::LOCAL;
                (16u8, function, var).hash(&mut scale.hasher);
            }
            Value::Unknown => 17u8.hash(&mut scale.hasher),
        }
        scale.done()
    }
}

impl Scale {
    fn within<T>(&mut self, kind: u8, part: &Shared<T>) {
        kind.hash(&mut self.hasher);
        self.child(Shared::weight(part));
    }

    fn lit(&mut self, lit: &Lit) {
        match lit {
            Lit::Int(n) => n.hash(&mut self.hasher),
            // Equal numbers may have different bits (0.0 and -0.0).
            Lit::Float(_) => 1u8.hash(&mut self.hasher),
            Lit::Bool(b) => b.hash(&mut self.hasher),
            Lit::Str(text) => text.hash(&mut self.hasher),
            Lit::Bytes(bytes) => bytes.hash(&mut self.hasher),
            Lit::Unit => 2u8.hash(&mut self.hasher),
            Lit::Duration(nanos) => nanos.hash(&mut self.hasher),
        }
    }
}

impl Value {
    /// Which kinds of [`leaf`] are in it, in constant time.
    pub fn has(&self) -> u8 {
        match self {
            Value::Param(_) => leaf::PARAM,
            Value::Local(..) => leaf::LOCAL,
            Value::TypeField(..) => leaf::TYPE_FIELD,
            Value::Fresh(_) => leaf::FRESH,
            Value::Clock { .. } => leaf::CLOCK,
            Value::Field(base, _) => leaf::FIELD | Shared::weight(base).has,
            Value::Call(call) => leaf::CALL | Shared::weight(call).has,
            _ => self.part().map_or(0, |weight| weight.has),
        }
    }

    /// Nodes of the tree, in constant time.
    pub fn size(&self) -> usize {
        self.part().map_or(1, |weight| weight.size as usize)
    }

    fn part(&self) -> Option<Weight> {
        match self {
            Value::Template(pieces) => Some(Shared::weight(pieces)),
            Value::Field(base, _) => Some(Shared::weight(base)),
            Value::Call(call) => Some(Shared::weight(call)),
            Value::Aggregate(_, fields) => Some(Shared::weight(fields)),
            Value::Operation(_, list) | Value::Join(list) => Some(Shared::weight(list)),
            _ => None,
        }
    }
}

impl Weigh for CallValue {
    fn weigh(&self) -> Weight {
        let mut scale = Scale::new(1);
        (&self.name, &self.receiver, self.conditional).hash(&mut scale.hasher);
        self.args.iter().for_each(|arg| scale.child(arg.weigh()));
        scale.done()
    }
}

impl Weigh for Vec<Value> {
    fn weigh(&self) -> Weight {
        let mut scale = Scale::new(2);
        self.iter().for_each(|value| scale.child(value.weigh()));
        scale.done()
    }
}

impl Weigh for Vec<Piece> {
    fn weigh(&self) -> Weight {
        let mut scale = Scale::new(3);
        for piece in self {
            match piece {
                Piece::Text(text) => scale.text(text),
                Piece::Hole(value) => scale.child(value.weigh()),
            }
        }
        scale.done()
    }
}

impl Weigh for Vec<(String, Value)> {
    fn weigh(&self) -> Weight {
        let mut scale = Scale::new(4);
        for (name, value) in self {
            scale.text(name);
            scale.child(value.weigh());
        }
        scale.done()
    }
}
