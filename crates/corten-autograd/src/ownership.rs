//! What tensors and nodes own, for a garbage collector of another language.
//!
//! Note [Walks over owners]: objects of another language and graphs own each other, so cycles arise
//! that reference counts never free. A collector asks its objects what they own. What lies behind a
//! tensor or a node is owned by its object alone only if nobody else owns anything on the way, so a
//! walk goes on from a tensor, a node or a list of hooks when it has come to it as often as the count
//! says that it is owned: also where two edges lead to one node, or where one node saved a tensor
//! twice. What somebody else owns is left out, and what only that would keep is not collected. The
//! alternative, an object of the collector for every node, would be paid by every recorded operator.
//!
//! A walk takes no lock that another thread may hold, and changes no count. It must give the same
//! answer when it is repeated within one collection, so nobody may change graphs meanwhile.

use crate::meta;
use crate::node::{Node, NodeRef};
use crate::saved::SavedVariable;
use corten_core::TensorBase;
use std::any::Any;
use std::collections::HashMap;

/// Who is told what a walk finds.
///
/// ```
/// use corten::autograd::ownership::{OwnershipWalk, Visitor};
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// /// Counts tensors with wrappers.
/// #[derive(Default)]
/// struct Count(usize);
///
/// impl Visitor for Count {
///     fn wrapped(&mut self, _: &corten::core::TensorBase) -> bool {
///         self.0 += 1;
///         true
///     }
///
///     fn foreign(&mut self, _: &dyn std::any::Any) {}
/// }
///
/// let mut count = Count::default();
/// let x = tensor![1.0]?;
/// OwnershipWalk::new(&mut count).from_tensor(&x);
/// assert_eq!(count.0, 0);
/// # Ok(())
/// # }
/// ```
pub trait Visitor {
    /// A tensor with a wrapper, which all owners but the wrapper were found of. Returns whether the
    /// wrapper has no owner but the tensor, so that the walk goes on with what the tensor owns.
    fn wrapped(&mut self, tensor: &TensorBase) -> bool;

    /// What the other language attached: the owner of a hook, a packed tensor, the foreign object of
    /// a node.
    fn foreign(&mut self, object: &dyn Any);
}

/// How many tensors and nodes a walk comes to at most: it is repeated for every young object.
const MOST: u32 = 1024;
/// How deep a walk goes: each step is a recursion.
const DEEPEST: u32 = 128;

/// A walk from an object over all that it owns alone.
///
/// ```
/// use corten::autograd::ownership::{OwnershipWalk, Visitor};
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// /// Sees nothing.
/// struct Blind;
///
/// impl Visitor for Blind {
///     fn wrapped(&mut self, _: &corten::core::TensorBase) -> bool {
///         false
///     }
///
///     fn foreign(&mut self, _: &dyn std::any::Any) {}
/// }
///
/// let x = tensor![1.0]?;
/// OwnershipWalk::new(&mut Blind).from_tensor(&x);
/// # Ok(())
/// # }
/// ```
pub struct OwnershipWalk<'a> {
    visitor: &'a mut dyn Visitor,
    /// How often something with several owners was come to.
    found: HashMap<usize, usize>,
    count: u32,
    depth: u32,
}

impl<'a> OwnershipWalk<'a> {
    /// A walk that has not begun.
    pub fn new(visitor: &'a mut dyn Visitor) -> Self {
        Self { visitor, found: HashMap::new(), count: 0, depth: 0 }
    }

    /// Walks from what a tensor owns, which the caller knows to be owned by nobody else.
    pub fn from_tensor(&mut self, tensor: &TensorBase) {
        tensor.of_kept_base(|base| self.tensor(base));
        if let Some(meta) = meta::known(tensor) {
            meta.reach(self);
        }
    }

    /// Walks from what a node owns, which the caller knows to be owned by nobody else.
    pub fn from_node(&mut self, node: &Node) {
        node.reach_contents(self);
    }

    /// Walks from tensors that an object saved.
    pub fn from_saved<'s>(&mut self, saved: impl IntoIterator<Item = &'s SavedVariable>) {
        saved.into_iter().for_each(|variable| variable.reach(self));
    }

    /// Something of the other language is owned by what was reached.
    pub fn foreign(&mut self, object: &dyn Any) {
        self.visitor.foreign(object);
    }

    /// One more owner of a tensor was reached.
    pub(crate) fn tensor(&mut self, tensor: &TensorBase) {
        if !tensor.defined() {
            return;
        }
        let wrapped = tensor.pyobject().is_some();
        let owners = tensor.use_count() - usize::from(wrapped);
        let address = std::ptr::from_ref(&**tensor).addr();
        if !self.is_last(address, owners) || (wrapped && !self.visitor.wrapped(tensor)) {
            return;
        }
        self.deeper(|walk| walk.from_tensor(tensor));
    }

    /// One more owner of a node was reached.
    pub(crate) fn node(&mut self, node: &NodeRef) {
        if self.is_last(node.address(), node.use_count()) {
            self.deeper(|walk| walk.from_node(node));
        }
    }

    /// Counts an owner of what lies at an address. Returns whether it was the last one.
    pub(crate) fn is_last(&mut self, address: usize, owners: usize) -> bool {
        if owners == 1 {
            return true;
        }
        let found = self.found.entry(address).or_default();
        *found += 1;
        *found == owners
    }

    fn deeper(&mut self, go_on: impl FnOnce(&mut Self)) {
        if self.count == MOST || self.depth == DEEPEST {
            return;
        }
        self.count += 1;
        self.depth += 1;
        go_on(self);
        self.depth -= 1;
    }
}

/// Drops what a tensor owns as far as a walk from it comes.
pub fn clear(tensor: &TensorBase) {
    if let Some(meta) = meta::known(tensor) {
        meta.clear();
    }
}
