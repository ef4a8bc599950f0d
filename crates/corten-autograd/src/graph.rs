//! How tensors hang together with the graph: edges, leaves and history.

use crate::accumulate::AccumulateGrad;
use crate::meta::{self, Meta};
use crate::node::{Edge, NodeRef, WeakNode};
use corten_core::tls::{local_exclude, local_include};
use corten_core::{
    AutogradMeta, BelowADInplaceOrViewGuard, DType, DispatchKey, KeySet, Result, TensorBase, bail,
};
use corten_ops::{Tensor, batched, op};

/// Whether tensors of this dtype have gradients.
#[inline]
pub fn is_differentiable_type(dtype: DType) -> bool {
    dtype.is_floating_point() || dtype.is_complex()
}

/// Whether operators on the tensor are recorded.
#[inline]
pub fn requires_grad(tensor: &TensorBase) -> bool {
    if let Some(required) = tensor.of_compact_base(requires_grad) {
        return required;
    }
    tensor.autograd_meta().is_some_and(AutogradMeta::requires_grad)
        || batched::innermost(tensor).is_some_and(|value| requires_grad(&value))
}

/// Whether the tensor is a view that needs no state to tell that it has no place in a graph.
#[inline]
fn is_view_without_graph(tensor: &TensorBase) -> bool {
    tensor.of_compact_base(requires_grad) == Some(false)
}

/// Whether the tensor is no result of a recorded operator.
pub fn is_leaf(tensor: &TensorBase) -> bool {
    if let Some(value) = batched::innermost(tensor) {
        return is_leaf(&value);
    }
    meta::known(tensor).is_none_or(AutogradMeta::is_leaf)
}

/// Which output of its `grad_fn` the tensor is.
pub fn output_nr(tensor: &TensorBase) -> u32 {
    meta::known(tensor).map_or(0, Meta::output_nr)
}

/// [`output_nr`] and [`is_leaf`], asked at once.
#[inline]
pub(crate) fn place_of(tensor: &TensorBase) -> (u32, bool) {
    if batched::is_batched(tensor) {
        return (output_nr(tensor), is_leaf(tensor));
    }
    meta::known(tensor).map_or((0, true), |meta| (meta.output_nr(), AutogradMeta::is_leaf(meta)))
}

/// The node that the tensor is a result of. That of a view is renewed when its base changed.
///
/// # Errors
/// When the view may no longer be used: it was made without recording, or together with others,
/// and its base was modified in place since.
pub fn grad_fn(tensor: &Tensor) -> Result<Option<NodeRef>> {
    if let Some(value) = batched::innermost(tensor) {
        return grad_fn(&value);
    }
    if is_view_without_graph(tensor) {
        return Ok(None);
    }
    let Some(meta) = meta::get(tensor) else { return Ok(None) };
    match meta.view() {
        Some(view) => crate::view::current_grad_fn(tensor, meta, view),
        None => Ok(meta.stored_grad_fn()),
    }
}

/// The edge along which the tensor's gradient flows.
///
/// # Errors
/// As [`grad_fn`].
#[inline]
pub fn gradient_edge(tensor: &Tensor) -> Result<Edge> {
    if batched::is_batched(tensor) {
        return edge_in_general(tensor);
    }
    if is_view_without_graph(tensor) {
        return Ok(Edge::default());
    }
    let Some(meta) = meta::get(tensor) else { return Ok(Edge::default()) };
    let node = match meta.view() {
        Some(view) => crate::view::current_grad_fn(tensor, meta, view)?,
        None => meta.stored_grad_fn(),
    };
    if let Some(node) = node {
        return Ok(Edge::new(node, meta.output_nr()));
    }
    Ok(Edge { node: accumulator_of(tensor, meta), nr: 0 })
}

/// The accumulator of a tensor that is known to be a leaf, if it requires a gradient.
#[inline]
fn accumulator_of(tensor: &Tensor, meta: &Meta) -> Option<NodeRef> {
    meta.requires_grad_flag()
        .then(|| meta.accumulator_or(|before| AccumulateGrad::node(tensor, meta, before)))
}

/// The edge of a batched tensor.
#[cold]
fn edge_in_general(tensor: &Tensor) -> Result<Edge> {
    if let Some(node) = grad_fn(tensor)? {
        return Ok(Edge::new(node, output_nr(tensor)));
    }
    Ok(Edge { node: grad_accumulator(tensor)?, nr: 0 })
}

/// The node that accumulates the gradient of a leaf; none unless the leaf requires one.
///
/// # Errors
/// For results of recorded operators.
pub fn grad_accumulator(tensor: &Tensor) -> Result<Option<NodeRef>> {
    let Some(meta) = meta::get(tensor) else { return Ok(None) };
    if meta.has_grad_fn() {
        bail!(Runtime, "grad_accumulator() should be only called on leaf Variables");
    }
    Ok(accumulator_of(tensor, meta))
}

/// Makes the tensor result `nr` of `node`.
///
/// # Errors
/// When the crate is not initialised.
pub fn set_gradient_edge(tensor: &Tensor, node: NodeRef, nr: u32) -> Result<()> {
    let meta = meta::get_or_init(tensor)?;
    meta.set_edge(Edge::new(node, nr));
    if let Some(view) = meta.view() {
        view.set_attr_version(tensor.version()?);
    }
    Ok(())
}

/// [`set_gradient_edge`] for a tensor that an operator has just made.
///
/// # Errors
/// As [`set_gradient_edge`].
#[inline]
pub(crate) fn set_first_edge(tensor: &mut Tensor, node: NodeRef, nr: u32) -> Result<()> {
    if !tensor.is_fresh() {
        return set_gradient_edge(tensor, node, nr);
    }
    let installed = tensor.base_mut().adopt_autograd_meta(Meta::of_result(node, nr));
    debug_assert!(installed, "nobody else holds a fresh tensor");
    Ok(())
}

/// Moves the bookkeeping of hooks when a tensor's `grad_fn` is replaced.
///
/// Hooks stay with the value they were registered for; `retain_grad` follows the tensor.
pub(crate) fn move_hooks(tensor: &Tensor, old: Option<&NodeRef>, new: &NodeRef) {
    let Some(meta) = meta::get(tensor) else { return };
    if meta.retains_grad() {
        let nr = meta.output_nr();
        if let Some(old) = old.filter(|old| old.has_hooks()) {
            old.hooks().stop_retaining(nr);
        }
        new.hooks().retain(nr, tensor);
    }
    meta.forget_hooks();
}

/// An alias without history that shares data and version counter.
pub(crate) fn detached_alias(tensor: &Tensor) -> Result<Tensor> {
    Ok(tensor.alias()?.into())
}

/// As [`detached_alias`]; functions of Python that see every call see this one, too: a class of its own
/// says what an alias of its tensors is.
pub(crate) fn visible_alias(tensor: &Tensor) -> Result<Tensor> {
    if is_seen_by_python(tensor) {
        let _below = BelowADInplaceOrViewGuard::new();
        return op::detach(tensor);
    }
    detached_alias(tensor)
}

/// Whether calls with a tensor are handed to a dispatch mode or to the tensor's class.
pub(crate) fn is_seen_by_python(tensor: &Tensor) -> bool {
    const KEYS: KeySet = KeySet::of(&[DispatchKey::Functionalize, DispatchKey::Python]);
    ((tensor.key_set() | local_include()) - local_exclude()).has_any(KEYS)
}

/// Makes `variable` a leaf that accumulates where `accumulator` does.
pub(crate) fn share_accumulator(variable: &Tensor, accumulator: Option<&WeakNode>) -> Result<()> {
    let meta = meta::get_or_init(variable)?;
    meta.set_requires_grad(true)?;
    meta.set_accumulator(accumulator.cloned());
    Ok(())
}

/// Arguments of an operator that may require a gradient.
///
/// ```
/// use corten::autograd::graph::In;
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// let x = tensor![1.0]?.requires_grad_(true)?;
/// assert!(In::One(&x).requires_grad());
/// assert!(!In::Opt(None).requires_grad());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy)]
pub enum In<'a> {
    /// A tensor.
    One(&'a Tensor),
    /// An optional tensor.
    Opt(Option<&'a Tensor>),
    /// A list.
    List(&'a [Tensor]),
    /// A list of optional tensors.
    OptList(&'a [Option<Tensor>]),
}

impl In<'_> {
    /// Whether any of the tensors requires a gradient.
    #[inline]
    pub fn requires_grad(&self) -> bool {
        match self {
            Self::One(tensor) => requires_grad(tensor),
            Self::Opt(tensor) => tensor.is_some_and(|tensor| requires_grad(tensor)),
            Self::List(list) => list.iter().any(|tensor| requires_grad(tensor)),
            Self::OptList(list) => list.iter().flatten().any(|tensor| requires_grad(tensor)),
        }
    }

    /// Calls `push` with the edge of every tensor.
    pub(crate) fn collect_edges(&self, push: &mut impl FnMut(Edge)) -> Result<()> {
        match self {
            Self::One(tensor) => push(gradient_edge(tensor)?),
            Self::Opt(tensor) => push(tensor.map_or(Ok(Edge::default()), gradient_edge)?),
            Self::List(list) => {
                for tensor in *list {
                    push(gradient_edge(tensor)?);
                }
            }
            Self::OptList(list) => {
                for tensor in *list {
                    push(tensor.as_ref().map_or(Ok(Edge::default()), gradient_edge)?);
                }
            }
        }
        Ok(())
    }
}

impl<'a> From<&'a Tensor> for In<'a> {
    fn from(tensor: &'a Tensor) -> Self {
        Self::One(tensor)
    }
}

impl<'a> From<Option<&'a Tensor>> for In<'a> {
    fn from(tensor: Option<&'a Tensor>) -> Self {
        Self::Opt(tensor)
    }
}

impl<'a> From<&'a [Tensor]> for In<'a> {
    fn from(list: &'a [Tensor]) -> Self {
        Self::List(list)
    }
}

impl<'a> From<&'a [Option<Tensor>]> for In<'a> {
    fn from(list: &'a [Option<Tensor>]) -> Self {
        Self::OptList(list)
    }
}
