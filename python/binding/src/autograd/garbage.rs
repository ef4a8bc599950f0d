//! What tensors, nodes and contexts show the garbage collector.
//!
//! Note [Cycles through graphs]: an object of a tensor shows what the tensor owns, found by a walk;
//! see Note [Walks over owners]. The rule says which walk shows what, so that everything is shown
//! once: an object that somebody besides its tensor owns, or whose tensor nobody else owns, shows
//! what the tensor owns; else the walk that comes to the tensor from all its owners does. Contexts
//! follow the same rule with their nodes. While any call runs without the interpreter lock nothing
//! of graphs is shown, since that call may change them between the passes of one collection.

use super::node::Backlink;
use super::saved::Pair;
use crate::py::collect::{Referents, has_one_owner};
use crate::py::ffi;
use crate::py::gil::{self, Shared};
use corten_autograd::ownership::{self, OwnershipWalk, Visitor};
use corten_core::TensorBase;
use corten_ops::Tensor;
use std::any::Any;

/// Shows the collector what a walk finds.
pub(super) struct Found<'a>(pub(super) &'a mut Referents);

impl Visitor for Found<'_> {
    fn wrapped(&mut self, tensor: &TensorBase) -> bool {
        let Some(object) = tensor.pyobject() else { return true };
        let object = object.as_ptr().cast::<ffi::PyObject>();
        let goes_on = has_one_owner(object);
        // SAFETY: the walk came from an owner of the tensor besides its object, so that the tensor
        // owns the object.
        unsafe { self.0.add(object) };
        goes_on
    }

    fn foreign(&mut self, object: &dyn Any) {
        if let Some(object) = object.downcast_ref::<Shared>() {
            self.0.shared(object);
        } else if let Some(pair) = object.downcast_ref::<Pair>() {
            self.0.shared(&pair.pack);
            self.0.shared(&pair.unpack);
        } else if let Some(backlink) = object.downcast_ref::<Backlink>() {
            backlink.traverse(self.0);
        }
    }
}

/// Shows the collector what `object`'s tensor owns, where that is its part.
pub(crate) fn traverse(object: *mut ffi::PyObject, tensor: &Tensor, referents: &mut Referents) {
    if gil::all_attached() && (tensor.use_count() == 1 || !has_one_owner(object)) {
        OwnershipWalk::new(&mut Found(referents)).from_tensor(tensor);
    }
}

/// Drops what `traverse` showed.
pub(crate) fn clear(tensor: &Tensor) {
    ownership::clear(tensor);
}
