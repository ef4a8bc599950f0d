//! Differentiable views.
//!
//! Note [Views and in-place writes]: a view knows the root of its storage, its *base*. When the
//! base or another view is written to in place, the recorded history of this view is no longer
//! true. It is not updated then, nobody knows all the views; instead a view remembers the version
//! its `grad_fn` belongs to, and makes a new one (the view operation applied to the base's present
//! history) when it is read at another version. Views whose operation cannot be repeated for one
//! result alone, or that were made without recording, refuse.

use crate::graph;
use crate::inplace::AsStrided;
use crate::meta::{self, Meta};
use crate::node::{Edge, NodeRef};
use corten_core::geometry::ascending;
use corten_core::tls::ThreadState;
use corten_core::{AutogradMeta, Dims, FullView, GradModeGuard, Make, Result, TensorBase, bail};
use corten_ops::{Tensor, op};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

/// Repeats a view operation on another base.
pub type ViewFn = Arc<dyn Fn(&Tensor) -> Result<Tensor> + Send + Sync>;

/// How a view came to be, and with it whether it may be written to in place under recording.
///
/// ```
/// use corten::autograd::view::{CreationMeta, creation_meta};
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// let x = tensor![1.0, 2.0]?.requires_grad_(true)?;
/// let made = corten::no_grad(|| op::slice_tensor(&x, 0, Some(0), Some(1), 1))?;
/// assert_eq!(creation_meta(&made), CreationMeta::NoGradMode);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum CreationMeta {
    /// By a recorded operator with one result.
    Default = 0,
    /// By a user function.
    InCustomFunction = 1,
    /// By an operator that returns several views.
    MultiOutputNode = 2,
    /// Without recording.
    NoGradMode = 3,
    /// In inference mode.
    InferenceMode = 4,
}

impl CreationMeta {
    fn from_u8(value: u8) -> Self {
        match value {
            1 => Self::InCustomFunction,
            2 => Self::MultiOutputNode,
            3 => Self::NoGradMode,
            4 => Self::InferenceMode,
            _ => Self::Default,
        }
    }
}

/// What makes a tensor a differentiable view.
pub(crate) struct ViewMeta {
    base: Tensor,
    replay: Option<ViewFn>,
    creation: AtomicU8,
    attr_version: AtomicU32,
}

/// What the view state of a new view is made of.
struct NewView {
    base: Tensor,
    replay: Option<ViewFn>,
    creation: CreationMeta,
    version: u32,
}

impl Make<ViewMeta> for NewView {
    #[inline(always)]
    fn make(self) -> ViewMeta {
        ViewMeta {
            base: self.base,
            replay: self.replay,
            creation: AtomicU8::new(self.creation as u8),
            attr_version: AtomicU32::new(self.version),
        }
    }
}

impl ViewMeta {
    /// The root: a base is never a view itself.
    pub(crate) fn base(&self) -> &Tensor {
        &self.base
    }

    pub(crate) fn replay(&self) -> Option<&ViewFn> {
        self.replay.as_ref()
    }

    pub(crate) fn creation(&self) -> CreationMeta {
        CreationMeta::from_u8(self.creation.load(Ordering::Relaxed))
    }

    pub(crate) fn set_creation(&self, creation: CreationMeta) {
        self.creation.store(creation as u8, Ordering::Relaxed);
    }

    pub(crate) fn set_attr_version(&self, version: u32) {
        self.attr_version.store(version, Ordering::Release);
    }
}

/// The root that a tensor is a view of.
pub fn base_of(tensor: &TensorBase) -> Option<Tensor> {
    let compact = tensor.of_compact_base(TensorBase::clone).map(Tensor::from);
    compact.or_else(|| meta::get(tensor)?.view().map(|view| view.base().clone()))
}

/// Whether the tensor is a differentiable view.
pub fn is_view(tensor: &TensorBase) -> bool {
    tensor.is_compact_view() || meta::get(tensor).is_some_and(|meta| meta.view().is_some())
}

/// How the tensor became a view; `Default` also for tensors that are none.
pub fn creation_meta(tensor: &TensorBase) -> CreationMeta {
    let view = meta::get(tensor).and_then(Meta::view);
    view.map_or(CreationMeta::Default, ViewMeta::creation)
}

/// Changes how a view is treated when it is written to. Tensors that are no views stay as they
/// are.
pub fn set_creation_meta(tensor: &TensorBase, creation: CreationMeta) {
    if let Some(view) = meta::get(tensor).and_then(Meta::view) {
        view.set_creation(creation);
    }
}

/// Makes `result`, which shares the storage of `source`, a differentiable view of it.
///
/// # Errors
/// When `result` is a view of something already.
pub(crate) fn make_view(
    source: &Tensor,
    mut result: Tensor,
    creation: CreationMeta,
) -> Result<Tensor> {
    if result.is_inference() || !result.defined() {
        return Ok(result);
    }
    // The parts of a sparse tensor, and tensors of other parts, share no memory with it as a whole.
    if result.is_same(source) || source.is_sparse() || source.is_sparse_compressed() {
        return Ok(result);
    }
    if is_view(&result) {
        // A composite view operator: its parts have done the work.
        return Ok(result);
    }
    let parent = meta::get(source).and_then(Meta::view);
    let (mut replay, mut creation) = (None, creation);
    if parent.is_some() || !keeps_elements(source, &result) {
        replay = chain(source, parent, &result);
        creation = propagate(creation, parent.map(ViewMeta::creation));
    }
    let base = parent.map_or(source, ViewMeta::base).clone();
    let view = NewView { base, replay, creation, version: result.version()? };
    if result.is_fresh() {
        result.base_mut().adopt_autograd_meta(Meta::of_view(view));
    } else {
        meta::get_or_init(&result)?.set_view(view.make())?;
    }
    Ok(result)
}

/// [`make_view`] for views that need no autograd state yet; see Note [Compact views]. Returns whether
/// `result` is one.
#[inline]
pub(crate) fn make_compact_view(
    source: &Tensor,
    result: &mut Tensor,
    creation: CreationMeta,
) -> bool {
    let unrecorded = creation == CreationMeta::NoGradMode;
    (unrecorded || creation == CreationMeta::Default)
        && !result.is_inference()
        && keeps_elements(source, result)
        && meta::known(source).is_none_or(|meta| meta.view().is_none())
        && result.base_mut().become_compact_view(source, unrecorded)
}

/// The autograd state of a compact view.
pub(crate) fn full_state(view: FullView) -> Box<dyn AutogradMeta> {
    let creation = if view.unrecorded { CreationMeta::NoGradMode } else { CreationMeta::Default };
    let (base, version) = (view.base.into(), view.version);
    Meta::of_view(NewView { base, replay: None, creation, version })
}

/// What a view made in this state of the thread is.
#[inline]
pub(crate) fn creation_in(state: ThreadState, multi: bool) -> CreationMeta {
    if state.inference_mode() {
        CreationMeta::InferenceMode
    } else if !state.grad_mode() {
        CreationMeta::NoGradMode
    } else if multi {
        CreationMeta::MultiOutputNode
    } else {
        CreationMeta::Default
    }
}

fn propagate(new: CreationMeta, parent: Option<CreationMeta>) -> CreationMeta {
    match (new, parent) {
        (_, Some(CreationMeta::InferenceMode)) => CreationMeta::InferenceMode,
        (CreationMeta::Default, Some(parent)) => parent,
        _ => new,
    }
}

/// Whether the elements of the view are those of its source, in the same layout.
#[inline]
fn keeps_elements(source: &Tensor, result: &Tensor) -> bool {
    source.dtype() == result.dtype() && source.key_set() == result.key_set()
}

/// Operators that reinterpret elements cannot be expressed as strides over the base.
fn replay_of(source: &Tensor, result: &Tensor) -> Option<ViewFn> {
    if keeps_elements(source, result) {
        return None;
    }
    let (from, to) = (source.dtype(), result.dtype());
    if from != to {
        return Some(if from.is_complex() && to == from.to_real() {
            Arc::new(op::view_as_real)
        } else if to.is_complex() && from == to.to_real() {
            Arc::new(op::view_as_complex)
        } else {
            Arc::new(move |base: &Tensor| op::view_dtype(base, to))
        });
    }
    if source.is_conj() != result.is_conj() {
        return Some(Arc::new(op::_conj));
    }
    if source.is_neg() != result.is_neg() {
        return Some(Arc::new(op::_neg_view));
    }
    None
}

/// The replay of a view of a view: the parent's, then the own step. A step that is mere strides
/// needs no replay unless the parent has one; then, and before a reinterpreting step, the
/// geometry over the parent is put back by strides.
#[inline(never)]
fn chain(source: &Tensor, parent: Option<&ViewMeta>, result: &Tensor) -> Option<ViewFn> {
    let own = replay_of(source, result);
    let before = parent.and_then(ViewMeta::replay).cloned();
    match (before, own) {
        (None, None) => None,
        (Some(before), None) => {
            let strides = as_strided_fn(result);
            Some(Arc::new(move |base: &Tensor| strides(&before(base)?)))
        }
        (before, Some(own)) => {
            let before = before.or_else(|| parent.map(|_| as_strided_fn(source)));
            Some(match before {
                Some(before) => Arc::new(move |base: &Tensor| own(&before(base)?)),
                None => own,
            })
        }
    }
}

fn as_strided_fn(view: &Tensor) -> ViewFn {
    let (sizes, strides, offset): (Dims, Dims, i64) =
        (view.sizes(), view.strides(), view.storage_offset());
    Arc::new(move |base: &Tensor| strided(base, &sizes, &strides, offset))
}

/// `as_strided` with strides of any sign.
pub(crate) fn strided(
    base: &Tensor,
    sizes: &[i64],
    strides: &[i64],
    offset: i64,
) -> Result<Tensor> {
    let (strides, offset, reversed) = ascending(sizes, strides, offset);
    let view = op::as_strided(base, sizes, &strides, Some(offset))?;
    if reversed.is_empty() { Ok(view) } else { op::flip_view(&view, &reversed) }
}

/// The `grad_fn` of a view, renewed if its base was modified since it was made.
pub(crate) fn current_grad_fn(
    tensor: &Tensor,
    meta: &Meta,
    view: &ViewMeta,
) -> Result<Option<NodeRef>> {
    let stored = meta.stored_grad_fn();
    if stored.is_none() && !graph::requires_grad(view.base()) {
        return Ok(None);
    }
    let version = tensor.version()?;
    if view.attr_version.load(Ordering::Acquire) == version {
        return Ok(stored);
    }
    refuse_unless_default(meta, view, true)?;
    let renewed = regenerate(tensor, view)?;
    view.set_attr_version(version);
    let Some(renewed) = renewed else { return Ok(stored) };
    meta.set_edge(Edge::new(renewed.clone(), 0));
    graph::move_hooks(tensor, stored.as_ref(), &renewed);
    Ok(Some(renewed))
}

fn regenerate(tensor: &Tensor, view: &ViewMeta) -> Result<Option<NodeRef>> {
    if let Some(replay) = view.replay() {
        let _mode = GradModeGuard::new(true);
        return graph::grad_fn(&replay(view.base())?);
    }
    AsStrided::node(view.base(), tensor).map(Some)
}

/// Fails for views that must not be modified in place (`indirect`: through their base).
pub(crate) fn refuse_unless_default(meta: &Meta, view: &ViewMeta, indirect: bool) -> Result<()> {
    let creation = view.creation();
    if creation == CreationMeta::Default {
        return Ok(());
    }
    let grad_fn = meta.stored_grad_fn();
    let modified =
        if indirect { "its base or another view of its base has been" } else { "is being" };
    let nr = meta.output_nr();
    let node_name = grad_fn.as_ref().map(|node| node.name().into_owned());
    let name = node_name.as_deref().map(crate::saved::forward_name);
    let name = name.as_deref();
    let unrecorded = matches!(creation, CreationMeta::NoGradMode | CreationMeta::InferenceMode);
    let message = match name {
        Some(name) if !unrecorded => {
            format!("Output {nr} of {name} is a view and {modified} modified inplace.")
        }
        _ => {
            let prefix = match name {
                Some(name) => {
                    format!("Output {nr} of {name} is a view of a view which was created in")
                }
                None => "A view was created in".to_owned(),
            };
            let (made, used) = if creation == CreationMeta::InferenceMode {
                ("inference mode", "in normal mode")
            } else {
                ("no_grad mode", "with grad mode enabled")
            };
            format!("{prefix} {made} and {modified} modified inplace {used}.")
        }
    };
    bail!(Runtime, "{message}{}", advice(creation))
}

fn advice(creation: CreationMeta) -> &'static str {
    match creation {
        CreationMeta::MultiOutputNode => {
            " This view is the output of a function that returns multiple views. Such functions do \
             not allow the output views to be modified inplace. You should replace the inplace \
             operation by an out-of-place one."
        }
        CreationMeta::NoGradMode => {
            " Given that this use case is ambiguous and error-prone, it is forbidden. You can \
             clarify your code by moving both the view and the inplace either both inside the \
             no_grad block (if you don't want the inplace to be tracked) or both outside (if you \
             want the inplace to be tracked)."
        }
        CreationMeta::InferenceMode => {
            " Given that this use case is ambiguous and error-prone, it is forbidden. You can \
             clarify your code by moving both the view and the inplace either both inside the \
             inference_mode block (if you don't want the inplace to be tracked) or both outside \
             (if you want the inplace to be tracked)."
        }
        CreationMeta::InCustomFunction => {
            " This view was created inside a custom Function (or because an input was returned \
             as-is) and the autograd logic to handle view+inplace would override the custom \
             backward associated with the custom Function, leading to incorrect gradients. This \
             behavior is forbidden. You can fix this by cloning the output of the custom Function."
        }
        CreationMeta::Default => "",
    }
}
