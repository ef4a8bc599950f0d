//! Hooks that decide how tensors are kept for the backward pass: offloading, compression,
//! recomputation.

use crate::ownership::OwnershipWalk;
use corten_core::{GradModeGuard, Result, bail};
use corten_ops::Tensor;
use std::any::Any;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a packing hook returns.
pub type Packed = Arc<dyn Any + Send + Sync>;

type Pack = dyn Fn(&Tensor) -> Result<Packed> + Send + Sync;
type Unpack = dyn Fn(&Packed) -> Result<Tensor> + Send + Sync;

/// A pair of hooks: one packs a tensor when it is saved, one gives it back when it is needed.
///
/// ```
/// use corten::autograd::saved_hooks::{Packed, SavedTensorHooks, saved_tensors_hooks};
/// use std::sync::Arc;
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// let pack = |tensor: &Tensor| -> Result<Packed> { Ok(Arc::new(tensor.to(DType::BFloat16)?)) };
/// let unpack = |packed: &Packed| match packed.downcast_ref::<Tensor>() {
///     Some(tensor) => tensor.to(DType::Float32),
///     None => Ok(Tensor::default()),
/// };
/// let x = tensor![3.0]?.requires_grad_(true)?;
/// let y = saved_tensors_hooks(SavedTensorHooks::new(pack, unpack), || &x * &x)?;
/// y.backward()?;
/// assert_eq!(x.grad().unwrap_or_default().to_vec::<f32>()?, [6.0]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct SavedTensorHooks {
    pack: Arc<Pack>,
    unpack: Arc<Unpack>,
    /// What the pair calls, where that is of another language.
    owner: Option<Arc<dyn Any + Send + Sync>>,
}

impl SavedTensorHooks {
    /// Makes a pair.
    pub fn new(
        pack: impl Fn(&Tensor) -> Result<Packed> + Send + Sync + 'static,
        unpack: impl Fn(&Packed) -> Result<Tensor> + Send + Sync + 'static,
    ) -> Self {
        Self { pack: Arc::new(pack), unpack: Arc::new(unpack), owner: None }
    }

    /// The pair with what it calls, of which it is the only owner.
    #[must_use]
    pub fn owning(mut self, owner: Arc<dyn Any + Send + Sync>) -> Self {
        self.owner = Some(owner);
        self
    }

    /// One owner of the pair was reached.
    pub(crate) fn reach(&self, walk: &mut OwnershipWalk<'_>) {
        let address = Arc::as_ptr(&self.unpack).addr();
        if let Some(owner) = &self.owner
            && walk.is_last(address, Arc::strong_count(&self.unpack))
        {
            walk.foreign(&**owner);
        }
    }

    pub(crate) fn pack_tensor(&self, tensor: &Tensor, detach: bool) -> Result<Packed> {
        let _mode = GradModeGuard::new(false);
        let given = if detach { crate::graph::visible_alias(tensor)? } else { tensor.clone() };
        let version = given.version()?;
        let packed = (self.pack)(&given)?;
        if given.version()? != version {
            bail!(
                Runtime,
                "A saved tensor pack hook is modifying its input in place. Tensors provided as \
                 input to pack hook can not be modified by in-place operations as this can lead \
                 to unexpected side-effects. Please open an issue if you need to perform in-place \
                 operations on the input to a pack hook."
            );
        }
        Ok(packed)
    }

    pub(crate) fn unpack_tensor(&self, packed: &Packed) -> Result<Tensor> {
        (self.unpack)(packed)
    }
}

#[derive(Default)]
struct Stack {
    hooks: Vec<SavedTensorHooks>,
    /// Why hooks are forbidden at the moment.
    disabled: Option<String>,
}

thread_local! {
    static STACK: RefCell<Stack> = RefCell::default();
}

/// Whether any thread has ever pushed hooks: most programs never do, and every saved tensor asks.
static EVER_PUSHED: AtomicBool = AtomicBool::new(false);

/// The hooks that apply to what this thread saves now.
#[inline]
pub(crate) fn current() -> Option<SavedTensorHooks> {
    if EVER_PUSHED.load(Ordering::Relaxed) { topmost() } else { None }
}

fn topmost() -> Option<SavedTensorHooks> {
    STACK.with_borrow(|stack| stack.hooks.last().cloned())
}

/// Every tensor saved on this thread passes `hooks` until [`pop`].
///
/// # Errors
/// While hooks are disabled.
pub fn push(hooks: SavedTensorHooks) -> Result<()> {
    STACK.with_borrow_mut(|stack| match &stack.disabled {
        Some(reason) => bail!(Runtime, "{reason}"),
        None => {
            EVER_PUSHED.store(true, Ordering::Relaxed);
            stack.hooks.push(hooks);
            Ok(())
        }
    })
}

/// Ends the last [`push`].
pub fn pop() -> Option<SavedTensorHooks> {
    STACK.with_borrow_mut(|stack| stack.hooks.pop())
}

/// Forbids hooks on this thread with a reason, or allows them again. Returns the old state.
///
/// # Errors
/// When hooks are active.
pub fn set_disabled(reason: Option<String>) -> Result<Option<String>> {
    STACK.with_borrow_mut(|stack| {
        if let (Some(reason), false) = (&reason, stack.hooks.is_empty()) {
            bail!(Runtime, "{reason}");
        }
        Ok(std::mem::replace(&mut stack.disabled, reason))
    })
}

/// Runs `body` with `hooks` applied to everything that is saved.
///
/// # Errors
/// While hooks are disabled, and those of `body`.
pub fn saved_tensors_hooks<R>(
    hooks: SavedTensorHooks,
    body: impl FnOnce() -> Result<R>,
) -> Result<R> {
    struct Pop;
    impl Drop for Pop {
        fn drop(&mut self) {
            drop(pop());
        }
    }
    push(hooks)?;
    let _pop = Pop;
    body()
}
