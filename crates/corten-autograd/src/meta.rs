//! The autograd state of a tensor.

use crate::forward::Tangent;
use crate::hooks::{HookList, PostAccumulateHook, TensorHook};
use crate::node::{Edge, Node, NodeRef, WeakNode};
use crate::ownership::OwnershipWalk;
use crate::view::ViewMeta;
use corten_core::{
    AutogradMeta, BriefCell, DType, Make, Result, TensorBase, Unshared, bug, make_boxed,
};
use corten_ops::Tensor;
use std::any::Any;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// The autograd state of a tensor. It is absent until something needs it.
pub(crate) struct Meta {
    requires_grad: AtomicBool,
    has_grad_fn: AtomicBool,
    retains_grad: AtomicBool,
    output_nr: AtomicU32,
    state: BriefCell<State>,
    /// The view state of a tensor that was made as a view: no lock is needed to set it.
    view: Option<ViewMeta>,
    /// The view state of a tensor that had a state before it became a view.
    later_view: OnceLock<Box<ViewMeta>>,
    rare: OnceLock<Box<Rare>>,
}

/// A gradient behind a second counter, so that it can be read without holding a lock while its
/// own counter changes. See Note [Saved tensors and foreign locks].
type SharedGrad = Arc<Tensor>;

struct State {
    grad: Option<SharedGrad>,
    grad_fn: Option<NodeRef>,
    accumulator: Option<WeakNode>,
}

/// What few tensors have.
#[derive(Default)]
struct Rare {
    hooks: Mutex<Option<HookList<TensorHook>>>,
    post_accumulate: HookList<PostAccumulateHook>,
    grad_dtype: Mutex<GradDType>,
    tangent: Mutex<Option<Tangent>>,
}

/// Which dtype the gradient of a leaf has.
///
/// ```
/// use corten::autograd::GradDType;
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// let weight = tensor![1.0, 2.0]?.requires_grad_(true)?;
/// weight.set_grad_dtype(GradDType::Fixed(DType::BFloat16))?;
/// assert_eq!(weight.grad_dtype(), GradDType::Fixed(DType::BFloat16));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum GradDType {
    /// That of the tensor.
    #[default]
    Same,
    /// Whatever arrives.
    Any,
    /// This one.
    Fixed(DType),
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl AutogradMeta for Meta {
    fn requires_grad(&self) -> bool {
        self.requires_grad.load(Ordering::Relaxed)
            || self.has_grad_fn()
            || self.view().is_some_and(|view| crate::graph::requires_grad(view.base()))
    }

    fn set_requires_grad(&self, requires_grad: bool) -> Result<()> {
        self.requires_grad.store(requires_grad, Ordering::Relaxed);
        Ok(())
    }

    fn is_leaf(&self) -> bool {
        !self.has_grad_fn()
    }

    fn grad_fn_name(&self, tensor: &TensorBase) -> Option<String> {
        if !self.has_grad_fn() {
            return None;
        }
        // A view whose base changed in a way that forbids asking has no name to show.
        match crate::graph::grad_fn(&Tensor::from(tensor.clone())) {
            Ok(node) => node.map(|node| node.name().into_owned()),
            Err(_) => Some("Invalid".to_owned()),
        }
    }

    fn grad(&self) -> Option<TensorBase> {
        self.grad_tensor().map(Into::into)
    }

    fn set_grad(&self, grad: Option<TensorBase>) {
        self.replace_grad(grad.map(Into::into));
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The result of a node.
struct OfResult {
    node: NodeRef,
    nr: u32,
}

impl Make<Meta> for OfResult {
    #[inline(always)]
    fn make(self) -> Meta {
        Meta::new(Some(self.node), self.nr, None)
    }
}

/// A view.
struct OfView<V>(V);

impl<V: Make<ViewMeta>> Make<Meta> for OfView<V> {
    #[inline(always)]
    fn make(self) -> Meta {
        Meta::new(None, 0, Some(self.0.make()))
    }
}

impl Meta {
    /// All that differs between new states. Neither result nor view: those of leaves.
    #[inline(always)]
    fn new(grad_fn: Option<NodeRef>, output_nr: u32, view: Option<ViewMeta>) -> Self {
        Self {
            requires_grad: AtomicBool::new(false),
            has_grad_fn: AtomicBool::new(grad_fn.is_some()),
            retains_grad: AtomicBool::new(false),
            output_nr: AtomicU32::new(output_nr),
            state: BriefCell::new(State { grad: None, grad_fn, accumulator: None }),
            view,
            later_view: OnceLock::new(),
            rare: OnceLock::new(),
        }
    }

    pub(crate) fn boxed() -> Box<dyn AutogradMeta> {
        Box::new(Self::new(None, 0, None))
    }

    /// The state of result `nr` of `node`.
    pub(crate) fn of_result(node: NodeRef, nr: u32) -> Box<dyn AutogradMeta> {
        make_boxed(OfResult { node, nr })
    }

    /// The state of a differentiable view.
    #[inline(always)]
    pub(crate) fn of_view(view: impl Make<ViewMeta>) -> Box<dyn AutogradMeta> {
        make_boxed(OfView(view))
    }

    /// The gradient.
    pub(crate) fn grad_tensor(&self) -> Option<Tensor> {
        let shared = self.state.with(|state| state.grad.clone());
        shared.map(|grad| Tensor::clone(&grad))
    }

    pub(crate) fn replace_grad(&self, grad: Option<Tensor>) {
        let grad = grad.filter(|grad| grad.defined()).map(Arc::new);
        let old = self.state.with(|state| std::mem::replace(&mut state.grad, grad));
        drop(old);
    }

    /// The flag of a leaf.
    pub(crate) fn requires_grad_flag(&self) -> bool {
        self.requires_grad.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn has_grad_fn(&self) -> bool {
        self.has_grad_fn.load(Ordering::Acquire)
    }

    /// The `grad_fn` as it is stored: that of a view may be stale.
    #[inline]
    pub(crate) fn stored_grad_fn(&self) -> Option<NodeRef> {
        if !self.has_grad_fn() {
            return None;
        }
        self.state.with(|state| state.grad_fn.clone())
    }

    #[inline]
    pub(crate) fn output_nr(&self) -> u32 {
        self.output_nr.load(Ordering::Relaxed)
    }

    /// Makes the tensor a result of `edge`'s node, or a leaf.
    pub(crate) fn set_edge(&self, edge: Edge) {
        let old = self.state.with(|state| {
            self.has_grad_fn.store(edge.is_valid(), Ordering::Release);
            self.output_nr.store(edge.nr, Ordering::Relaxed);
            std::mem::replace(&mut state.grad_fn, edge.node)
        });
        drop(old);
    }

    /// The accumulator of a leaf, made by `make` when there is none alive, in the memory of the one
    /// before where that is left.
    pub(crate) fn accumulator_or(
        &self,
        make: impl FnOnce(Option<WeakNode>) -> Unshared<Node>,
    ) -> NodeRef {
        let known = |state: &mut State| state.accumulator.as_ref().and_then(WeakNode::upgrade);
        let found = self.state.with(|state| known(state).ok_or_else(|| state.accumulator.take()));
        let before = match found {
            Ok(node) => return node,
            Err(before) => before,
        };
        let mut made = make(before);
        let weak = made.downgrade();
        let kept = self.state.with(|state| match known(state) {
            // Another thread was faster; ours is dropped without the lock.
            Some(node) => Err((node, weak)),
            None => Ok(state.accumulator.replace(weak)),
        });
        match kept {
            Ok(_old) => made.share(),
            Err((node, _weak)) => node,
        }
    }

    pub(crate) fn set_accumulator(&self, accumulator: Option<WeakNode>) {
        let old = self.state.with(|state| std::mem::replace(&mut state.accumulator, accumulator));
        drop(old);
    }

    /// The view state, if the tensor is a differentiable view.
    #[inline]
    pub(crate) fn view(&self) -> Option<&ViewMeta> {
        self.view.as_ref().or_else(|| self.later_view.get().map(|view| &**view))
    }

    /// Makes the tensor a differentiable view. It must not be one already.
    pub(crate) fn set_view(&self, view: ViewMeta) -> Result<()> {
        if self.view.is_some() || self.later_view.set(Box::new(view)).is_err() {
            bug!("the tensor is a view already");
        }
        Ok(())
    }

    pub(crate) fn retains_grad(&self) -> bool {
        self.retains_grad.load(Ordering::Relaxed)
    }

    pub(crate) fn set_retains_grad(&self, retains: bool) {
        self.retains_grad.store(retains, Ordering::Relaxed);
    }

    /// The tensor was reached from all its owners.
    pub(crate) fn reach(&self, walk: &mut OwnershipWalk<'_>) {
        self.state.try_with(|state| {
            if let Some(grad) = &state.grad
                && walk.is_last(Arc::as_ptr(grad).addr(), Arc::strong_count(grad))
            {
                walk.tensor(grad);
            }
            if let Some(node) = &state.grad_fn {
                walk.node(node);
            }
        });
        if let Some(view) = self.view() {
            walk.tensor(view.base());
        }
        let Some(rare) = self.rare.get() else { return };
        if let Ok(hooks) = rare.hooks.try_lock()
            && let Some(hooks) = &*hooks
        {
            hooks.reach(walk);
        }
        rare.post_accumulate.reach(walk);
        if let Ok(tangent) = rare.tangent.try_lock()
            && let Some(tangent) = &*tangent
        {
            tangent.reach(walk);
        }
    }

    /// Forgets gradient, history and hooks.
    pub(crate) fn clear(&self) {
        self.replace_grad(None);
        self.set_edge(Edge::default());
        if let Some(rare) = self.rare.get() {
            if let Some(hooks) = self.hooks() {
                hooks.clear();
            }
            rare.post_accumulate.clear();
            self.set_tangent(None);
        }
    }

    fn rare(&self) -> &Rare {
        self.rare.get_or_init(Box::default)
    }

    /// The hooks of the tensor, if it has any.
    pub(crate) fn hooks(&self) -> Option<HookList<TensorHook>> {
        lock(&self.rare.get()?.hooks).clone()
    }

    /// The hooks of the tensor and whether the list is new.
    pub(crate) fn hooks_or_new(&self) -> (HookList<TensorHook>, bool) {
        let mut slot = lock(&self.rare().hooks);
        let is_new = slot.is_none();
        (slot.get_or_insert_default().clone(), is_new)
    }

    /// Leaves the hooks to the old `grad_fn`.
    pub(crate) fn forget_hooks(&self) {
        if let Some(rare) = self.rare.get() {
            let old = lock(&rare.hooks).take();
            drop(old);
        }
    }

    pub(crate) fn post_accumulate(&self) -> Option<&HookList<PostAccumulateHook>> {
        self.rare.get().map(|rare| &rare.post_accumulate)
    }

    pub(crate) fn post_accumulate_or_new(&self) -> &HookList<PostAccumulateHook> {
        &self.rare().post_accumulate
    }

    pub(crate) fn grad_dtype(&self) -> GradDType {
        self.rare.get().map_or(GradDType::Same, |rare| *lock(&rare.grad_dtype))
    }

    /// The tangent of the last level of forward differentiation at which it got one.
    pub(crate) fn tangent(&self) -> Option<Tangent> {
        lock(&self.rare.get()?.tangent).clone()
    }

    pub(crate) fn set_tangent(&self, tangent: Option<Tangent>) {
        let old = std::mem::replace(&mut *lock(&self.rare().tangent), tangent);
        drop(old);
    }

    pub(crate) fn set_grad_dtype(&self, dtype: GradDType) {
        *lock(&self.rare().grad_dtype) = dtype;
    }
}

/// The autograd state of a tensor where it says anything besides what a compact view is a view of.
#[inline]
pub(crate) fn known(tensor: &TensorBase) -> Option<&Meta> {
    if tensor.is_compact_view() { None } else { get(tensor) }
}

/// The autograd state of a tensor, if it has any.
#[inline]
pub(crate) fn get(tensor: &TensorBase) -> Option<&Meta> {
    tensor.autograd_meta()?.as_any().downcast_ref()
}

/// The autograd state of a tensor, made if it has none.
///
/// # Errors
/// When this crate was not initialised before the first gradient was asked for.
pub(crate) fn get_or_init(tensor: &TensorBase) -> Result<&Meta> {
    match tensor.autograd_meta_or_init().as_any().downcast_ref() {
        Some(meta) => Ok(meta),
        None => bug!("another autograd engine is installed"),
    }
}
