//! What a backward function sees and returns.

use crate::node::{Grads, Node, NodeRef, undefined_grads};
use crate::slots::{ONE, SlotLocation};
use corten_core::{DType, Dims, Result, TensorOptions, bug};
use corten_ops::Tensor;
use corten_ops::{FromIValue, IValue};
use smallvec::SmallVec;

/// The view of a node that its backward function gets: what was saved and what is wanted.
///
/// ```
/// use corten::autograd::backward::{Backward, Gradients};
/// use corten::prelude::*;
///
/// /// The backward function of `2x`.
/// fn double_backward<'a>(ctx: &Backward<'a>, grads: &[Tensor]) -> Result<Gradients<'a>> {
///     let mut found = Gradients::new(ctx);
///     if ctx.needs(0) {
///         found.set(0, (&grads[0] * 2.0)?);
///     }
///     Ok(found)
/// }
/// let _: corten::autograd::node::BackwardFn = double_backward;
/// ```
pub struct Backward<'a> {
    node: &'a NodeRef,
    /// One per edge.
    needs: SmallVec<[bool; 4]>,
}

impl<'a> Backward<'a> {
    /// A context in which the gradients of the edges for which `needs` is true are wanted.
    pub(crate) fn new(node: &'a NodeRef, needs: SmallVec<[bool; 4]>) -> Self {
        Self { node, needs }
    }

    /// The node whose function runs.
    pub fn node(&self) -> &'a NodeRef {
        self.node
    }

    /// Whether the gradient along edge `edge` is wanted.
    pub fn needs_edge(&self, edge: usize) -> bool {
        self.needs.get(edge).copied().unwrap_or(false)
    }

    /// One flag per edge.
    pub fn needed_edges(&self) -> &[bool] {
        &self.needs
    }

    /// Whether the gradient of a differentiable argument is wanted; of a list, of any element.
    pub fn needs(&self, argument: usize) -> bool {
        self.node.edges_of(argument).any(|edge| self.needs_edge(edge))
    }

    /// [`needs`](Self::needs) of every differentiable argument.
    pub fn needs_all(&self) -> Vec<bool> {
        (0..self.node.argument_count()).map(|argument| self.needs(argument)).collect()
    }

    /// The saved tensor in a slot; undefined when nothing was saved.
    ///
    /// # Errors
    /// When the graph was freed or the tensor was modified in place since.
    pub fn tensor(&self, slot: usize) -> Result<Tensor> {
        Node::unpack(self.node, slot)
    }

    /// The saved optional tensor in a slot.
    ///
    /// # Errors
    /// As [`tensor`](Self::tensor).
    pub fn opt_tensor(&self, slot: usize) -> Result<Option<Tensor>> {
        Ok(Some(self.tensor(slot)?).filter(|tensor| tensor.defined()))
    }

    /// The saved list of tensors in a slot.
    ///
    /// # Errors
    /// As [`tensor`](Self::tensor).
    pub fn tensors(&self, slot: usize) -> Result<Vec<Tensor>> {
        Node::unpack_list(self.node, slot)
    }

    /// The saved list of optional tensors in a slot.
    ///
    /// # Errors
    /// As [`tensor`](Self::tensor).
    pub fn opt_tensors(&self, slot: usize) -> Result<Vec<Option<Tensor>>> {
        let tensors = Node::unpack_list(self.node, slot)?;
        Ok(tensors.into_iter().map(|tensor| Some(tensor).filter(|t| t.defined())).collect())
    }

    /// The saved value in a slot.
    ///
    /// # Errors
    /// `Internal` when the slot holds something else.
    pub fn value<T: FromIValue<'a>>(&self, slot: usize) -> Result<T> {
        self.raw(slot)?.get()
    }

    /// Whether what a slot tells holds.
    pub fn flag(&self, slot: usize) -> bool {
        self.node.places.of(slot) == Some(SlotLocation::One)
    }

    fn raw(&self, slot: usize) -> Result<&'a IValue> {
        let found = match self.node.places.of(slot) {
            Some(SlotLocation::Value(place)) => self.node.values.get(place),
            Some(SlotLocation::One) => Some(&ONE),
            _ => None,
        };
        match found {
            Some(value) => Ok(value),
            None => bug!("{} saved no value in slot {slot}", self.node.name()),
        }
    }

    fn object<T: 'static>(&self, slot: usize) -> Result<&'a T> {
        let found = match self.raw(slot)? {
            IValue::Object(object) => object.downcast_ref(),
            _ => None,
        };
        match found {
            Some(value) => Ok(value),
            None => bug!("slot {slot} of {} has another type", self.node.name()),
        }
    }

    /// The saved shapes of a list of tensors.
    ///
    /// # Errors
    /// `Internal` when the slot holds something else.
    pub fn shapes(&self, slot: usize) -> Result<&'a [Dims]> {
        self.object::<Vec<Dims>>(slot).map(Vec::as_slice)
    }

    /// The saved dtypes of a list of tensors.
    ///
    /// # Errors
    /// `Internal` when the slot holds something else.
    pub fn dtypes(&self, slot: usize) -> Result<&'a [DType]> {
        self.object::<Vec<DType>>(slot).map(Vec::as_slice)
    }

    /// The saved options of a tensor.
    ///
    /// # Errors
    /// `Internal` when the slot holds something else.
    pub fn options(&self, slot: usize) -> Result<TensorOptions> {
        self.object::<TensorOptions>(slot).copied()
    }
}

/// The gradients that a backward function returns: one per edge, undefined where not wanted.
///
/// ```
/// use corten::autograd::backward::{Backward, Gradients};
/// use corten::prelude::*;
///
/// /// No gradients at all.
/// fn none<'a>(ctx: &Backward<'a>, _: &[Tensor]) -> Result<Gradients<'a>> {
///     Ok(Gradients::new(ctx))
/// }
/// let _: corten::autograd::node::BackwardFn = none;
/// ```
pub struct Gradients<'a> {
    grads: Grads,
    node: &'a NodeRef,
}

impl<'a> Gradients<'a> {
    /// All undefined.
    pub fn new(ctx: &Backward<'a>) -> Self {
        Self { grads: undefined_grads(ctx.node.edges.len()), node: ctx.node }
    }

    /// Stores the gradient of a differentiable argument.
    pub fn set(&mut self, argument: usize, grad: Tensor) {
        if let Some(slot) = self.grads.get_mut(self.node.edges_of(argument).start) {
            *slot = grad;
        }
    }

    /// Stores the gradients of an argument that is a list. Missing ones stay undefined.
    pub fn set_list(&mut self, argument: usize, grads: Vec<Tensor>) {
        for (edge, grad) in self.node.edges_of(argument).zip(grads) {
            self.grads[edge] = grad;
        }
    }

    /// Stores one gradient per differentiable argument.
    pub fn set_all(&mut self, grads: Vec<Tensor>) {
        for (argument, grad) in grads.into_iter().enumerate() {
            self.set(argument, grad);
        }
    }

    pub(crate) fn into_inner(self) -> Grads {
        self.grads
    }
}

/// Whether any of the gradients is defined.
pub fn any_defined(grads: &[Tensor]) -> bool {
    grads.iter().any(|grad| grad.defined())
}
