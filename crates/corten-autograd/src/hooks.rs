//! Hooks on tensors and nodes.
//!
//! Order of one node's hooks: the hooks of the tensor whose gradient enters (in order of
//! registration), retained gradients, the node's pre-hooks, its function, its post-hooks. For a
//! leaf the post-accumulate-grad hooks come between the function and the post-hooks.

use crate::forward::Tangent;
use crate::meta;
use crate::node::Grads;
use crate::ownership::OwnershipWalk;
use corten_core::{Result, TensorBase, WeakTensor};
use corten_ops::Tensor;
use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Sees a gradient and may replace it.
pub type TensorHook = Arc<dyn Fn(&Tensor) -> Result<Option<Tensor>> + Send + Sync>;
/// Sees the gradients that enter a node and may replace them.
pub type NodePreHook = Arc<dyn Fn(&[Tensor]) -> Result<Option<Vec<Tensor>>> + Send + Sync>;
/// Sees the gradients that leave a node, then those that entered, and may replace the former.
pub type NodePostHook =
    Arc<dyn Fn(&[Tensor], &[Tensor]) -> Result<Option<Vec<Tensor>>> + Send + Sync>;
/// Sees a leaf whose gradient has just been accumulated.
pub type PostAccumulateHook = Arc<dyn Fn(&Tensor) -> Result<()> + Send + Sync>;

static NEXT_ID: AtomicU64 = AtomicU64::new(0);

/// What a hook of another language calls. The hook owns it too, and nobody else does.
pub type HookOwner = Arc<dyn Any + Send + Sync>;

/// A registered hook.
#[derive(Clone)]
struct Registered<H> {
    id: u64,
    hook: H,
    /// Cloned with the hook, so that its count tells whether the hook is running.
    owner: Option<HookOwner>,
}

/// Hooks of one kind in order of registration, shared with the handles that remove them.
pub(crate) struct HookList<H>(Arc<Mutex<Vec<Registered<H>>>>);

impl<H> Clone for HookList<H> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<H> Default for HookList<H> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<H: Clone + Send + 'static> HookList<H> {
    pub(crate) fn add(&self, hook: H) -> HookHandle {
        self.add_owning(hook, None)
    }

    /// [`add`](Self::add) with what the hook calls.
    pub(crate) fn add_owning(&self, hook: H, owner: Option<HookOwner>) -> HookHandle {
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        lock(&self.0).push(Registered { id, hook, owner });
        HookHandle { list: Arc::downgrade(&self.0) as Weak<dyn Removable>, id }
    }

    /// Runs each hook. It works on a copy, so that a hook may add and remove hooks.
    pub(crate) fn for_each(&self, mut run: impl FnMut(&H) -> Result<()>) -> Result<()> {
        let registered = lock(&self.0).clone();
        registered.iter().try_for_each(|registered| run(&registered.hook))
    }

    /// Removes all hooks.
    pub(crate) fn clear(&self) {
        let old = std::mem::take(&mut *lock(&self.0));
        drop(old);
    }

    /// One owner of the list was reached.
    pub(crate) fn reach(&self, walk: &mut OwnershipWalk<'_>) {
        if !walk.is_last(Arc::as_ptr(&self.0).addr(), Arc::strong_count(&self.0)) {
            return;
        }
        let Ok(registered) = self.0.try_lock() else { return };
        for owner in registered.iter().filter_map(|registered| registered.owner.as_ref()) {
            // The hook and its place in the list own it.
            if Arc::strong_count(owner) == 2 {
                walk.foreign(&**owner);
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.0).is_empty()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

trait Removable: Send + Sync {
    fn remove(&self, id: u64);
}

impl<H: Send> Removable for Mutex<Vec<Registered<H>>> {
    fn remove(&self, id: u64) {
        let mut hooks = lock(self);
        let found = hooks.iter().position(|registered| registered.id == id);
        let removed = found.map(|position| hooks.remove(position));
        // Dropped without the lock: a hook may own anything.
        drop(hooks);
        drop(removed);
    }
}

/// Removes a hook. Dropping the handle leaves the hook in place.
#[derive(Clone)]
pub struct HookHandle {
    list: Weak<dyn Removable>,
    id: u64,
}

impl HookHandle {
    /// Removes the hook, if it is still there.
    pub fn remove(&self) {
        if let Some(list) = self.list.upgrade() {
            list.remove(self.id);
        }
    }

    /// A number that no other hook of this process has.
    pub fn id(&self) -> u64 {
        self.id
    }
}

/// The hooks of one node and other things that most nodes have not.
#[derive(Default)]
pub(crate) struct NodeHooks {
    tensor: Mutex<Vec<(u32, HookList<TensorHook>)>>,
    retained: Mutex<Vec<(u32, WeakTensor)>>,
    pub(crate) pre: HookList<NodePreHook>,
    pub(crate) post: HookList<NodePostHook>,
    trace: Mutex<Option<Arc<str>>>,
    foreign: Mutex<Option<Arc<dyn Any + Send + Sync>>>,
    /// Tangents of the node's outputs, for those that it saved.
    tangents: Mutex<Vec<(u32, Tangent)>>,
}

impl NodeHooks {
    /// The node was reached from all its owners.
    pub(crate) fn reach(&self, walk: &mut OwnershipWalk<'_>) {
        if let Ok(lists) = self.tensor.try_lock() {
            lists.iter().for_each(|(_, hooks)| hooks.reach(walk));
        }
        self.pre.reach(walk);
        self.post.reach(walk);
        if let Ok(tangents) = self.tangents.try_lock() {
            tangents.iter().for_each(|(_, tangent)| tangent.reach(walk));
        }
        if let Ok(foreign) = self.foreign.try_lock()
            && let Some(foreign) = &*foreign
        {
            walk.foreign(&**foreign);
        }
    }

    /// Removes all hooks.
    pub(crate) fn clear(&self) {
        let lists = std::mem::take(&mut *lock(&self.tensor));
        lists.iter().for_each(|(_, hooks)| hooks.clear());
        self.pre.clear();
        self.post.clear();
        self.clear_tangents();
    }

    pub(crate) fn set_tangent(&self, nr: u32, tangent: Tangent) {
        let mut tangents = lock(&self.tangents);
        tangents.retain(|(other, _)| *other != nr);
        tangents.push((nr, tangent));
    }

    pub(crate) fn clear_tangents(&self) {
        let old = std::mem::take(&mut *lock(&self.tangents));
        drop(old);
    }

    pub(crate) fn tangent(&self, nr: u32) -> Option<Tangent> {
        let tangents = lock(&self.tangents);
        tangents.iter().find(|(other, _)| *other == nr).map(|(_, tangent)| tangent.clone())
    }

    pub(crate) fn add_tensor_hooks(&self, nr: u32, hooks: HookList<TensorHook>) {
        lock(&self.tensor).push((nr, hooks));
    }

    pub(crate) fn retain(&self, nr: u32, variable: &TensorBase) {
        let mut retained = lock(&self.retained);
        retained.retain(|(other, _)| *other != nr);
        retained.push((nr, variable.downgrade()));
    }

    pub(crate) fn stop_retaining(&self, nr: u32) {
        lock(&self.retained).retain(|(other, _)| *other != nr);
    }

    pub(crate) fn set_trace(&self, trace: Arc<str>) {
        *lock(&self.trace) = Some(trace);
    }

    pub(crate) fn trace(&self) -> Option<Arc<str>> {
        lock(&self.trace).clone()
    }

    /// An object that another language attached to the node.
    pub(crate) fn foreign(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        lock(&self.foreign).clone()
    }

    pub(crate) fn set_foreign(&self, object: Option<Arc<dyn Any + Send + Sync>>) {
        let old = std::mem::replace(&mut *lock(&self.foreign), object);
        drop(old);
    }

    /// Tensor hooks, then retained gradients.
    pub(crate) fn run_tensor_hooks(&self, grads: &mut Grads) -> Result<()> {
        let tensor_hooks = lock(&self.tensor).clone();
        for (nr, hooks) in tensor_hooks {
            if let Some(grad) = grads.get_mut(nr as usize) {
                run_hook_list(&hooks, grad)?;
            }
        }
        let retained: Vec<_> = lock(&self.retained).iter().cloned().collect();
        for (nr, variable) in retained {
            let grad = grads.get(nr as usize).filter(|grad| grad.defined());
            if let (Some(grad), Some(variable)) = (grad, variable.upgrade()) {
                retain_into(&variable.into(), grad)?;
            }
        }
        Ok(())
    }

    pub(crate) fn run_pre_hooks(&self, grads: &mut Grads) -> Result<()> {
        self.pre.for_each(|hook| {
            if let Some(replaced) = hook(grads)? {
                *grads = replaced.into();
            }
            Ok(())
        })
    }

    pub(crate) fn run_post_hooks(&self, outputs: &mut Grads, inputs: &Grads) -> Result<()> {
        self.post.for_each(|hook| {
            if let Some(replaced) = hook(outputs, inputs)? {
                *outputs = replaced.into();
            }
            Ok(())
        })
    }
}

/// Lets every hook of a tensor see and replace `grad`. Hooks see undefined gradients never.
pub(crate) fn run_hook_list(hooks: &HookList<TensorHook>, grad: &mut Tensor) -> Result<()> {
    if !grad.defined() {
        return Ok(());
    }
    hooks.for_each(|hook| {
        if let Some(replaced) = hook(grad)? {
            check_replacement(&replaced, grad)?;
            *grad = replaced;
        }
        Ok(())
    })
}

fn check_replacement(new: &Tensor, old: &Tensor) -> Result<()> {
    if !new.defined() || !old.defined() {
        return Ok(());
    }
    corten_core::ensure!(
        new.dtype() == old.dtype(),
        Runtime,
        "hook has changed the type of value (was {} got {})",
        old.dtype(),
        new.dtype()
    );
    corten_core::ensure!(
        new.device() == old.device(),
        Runtime,
        "hook has changed the device of value"
    );
    corten_core::ensure!(new.sizes() == old.sizes(), Runtime, "hook has changed the size of value");
    Ok(())
}

fn retain_into(variable: &Tensor, grad: &Tensor) -> Result<()> {
    let meta = meta::get_or_init(variable)?;
    let new = match meta.grad_tensor() {
        Some(old) => (&old + grad)?,
        None => {
            let format = grad.has_storage().then_some(corten_core::MemoryFormat::Contiguous);
            corten_ops::op::clone(grad, format)?
        }
    };
    meta.replace_grad(Some(new));
    Ok(())
}
