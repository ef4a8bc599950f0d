//! Functions called around a module's computation.

use corten_autograd::Autograd;
use corten_core::Result;
use corten_ops::{Tensor, op};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

type PreHook = dyn Fn(&Tensor) -> Result<Option<Tensor>> + Send + Sync;
type ForwardHook = dyn Fn(&Tensor, &Tensor) -> Result<Option<Tensor>> + Send + Sync;
type BackwardHook = dyn Fn(Option<&Tensor>, &Tensor) -> Result<Option<Tensor>> + Send + Sync;

#[derive(Clone)]
enum Hook {
    Pre(Arc<PreHook>),
    Forward(Arc<ForwardHook>),
    BackwardPre(Arc<PreHook>),
    Backward(Arc<BackwardHook>),
}

/// The hooks of one module. They run in [`Forward::call`](crate::Forward::call), in the order of
/// their registration, and are found by path with
/// [`ModuleExt::hooks_of`](crate::ModuleExt::hooks_of).
///
/// ```
/// use corten::nn::Linear;
/// use corten::prelude::*;
/// use std::sync::{Arc, Mutex};
///
/// let net = Sequential::new().with(Linear::new(2, 3)?).with(Relu);
/// let seen = Arc::new(Mutex::new(vec![]));
/// let kept = seen.clone();
/// let handle = net.hooks_of("0")?.register_forward(move |_, output| {
///     kept.lock().unwrap().extend_from_slice(output.sizes().as_slice());
///     Ok(None)
/// });
/// net.forward(&Tensor::from_vec(vec![1.0f32; 8], &[4, 2])?)?;
/// handle.remove();
/// assert_eq!(*seen.lock().unwrap(), [4, 3]);
/// # Ok::<(), corten::Error>(())
/// ```
#[derive(Default)]
pub struct Hooks(OnceLock<Arc<HookList>>);

/// The hooks of a module that has some.
#[derive(Default)]
pub(crate) struct HookList {
    hooks: Mutex<Vec<(u64, Hook)>>,
}

/// Removes a hook of a module. Dropping the handle leaves the hook in place.
///
/// ```
/// use corten::nn::{Hooks, ModuleHookHandle};
///
/// let hooks = Hooks::default();
/// let handle: ModuleHookHandle = hooks.register_forward_pre(|_| Ok(None));
/// handle.remove();
/// ```
#[derive(Clone)]
pub struct ModuleHookHandle {
    list: Weak<HookList>,
    id: u64,
}

impl ModuleHookHandle {
    /// Removes the hook, if it is still there.
    pub fn remove(&self) {
        if let Some(list) = self.list.upgrade() {
            list.lock().retain(|(id, _)| *id != self.id);
        }
    }
}

impl Clone for Hooks {
    /// The same functions in a list of its own, as PyTorch's `deepcopy` makes.
    fn clone(&self) -> Self {
        let copy = Self::default();
        if let Some(list) = self.0.get() {
            let hooks = Mutex::new(list.lock().clone());
            copy.0.get_or_init(|| Arc::new(HookList { hooks }));
        }
        copy
    }
}

impl Hooks {
    /// Calls `hook` with the input before the computation; it may return another input.
    pub fn register_forward_pre(
        &self,
        hook: impl Fn(&Tensor) -> Result<Option<Tensor>> + Send + Sync + 'static,
    ) -> ModuleHookHandle {
        self.add(Hook::Pre(Arc::new(hook)))
    }

    /// Calls `hook` with input and output after the computation; it may return another output.
    pub fn register_forward(
        &self,
        hook: impl Fn(&Tensor, &Tensor) -> Result<Option<Tensor>> + Send + Sync + 'static,
    ) -> ModuleHookHandle {
        self.add(Hook::Forward(Arc::new(hook)))
    }

    /// Calls `hook` with the gradient of the output when it is known; it may return another one.
    pub fn register_full_backward_pre(
        &self,
        hook: impl Fn(&Tensor) -> Result<Option<Tensor>> + Send + Sync + 'static,
    ) -> ModuleHookHandle {
        self.add(Hook::BackwardPre(Arc::new(hook)))
    }

    /// Calls `hook` with the gradients of input and output when they are known; it may return
    /// another gradient of the input. Inputs that require no gradient have none.
    pub fn register_full_backward(
        &self,
        hook: impl Fn(Option<&Tensor>, &Tensor) -> Result<Option<Tensor>> + Send + Sync + 'static,
    ) -> ModuleHookHandle {
        self.add(Hook::Backward(Arc::new(hook)))
    }

    /// The hooks, if there ever were some.
    pub(crate) fn present(&self) -> Option<&HookList> {
        self.0.get().map(|list| &**list)
    }

    fn add(&self, hook: Hook) -> ModuleHookHandle {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let list = self.0.get_or_init(Arc::default);
        list.lock().push((id, hook));
        ModuleHookHandle { list: Arc::downgrade(list), id }
    }
}

impl HookList {
    fn lock(&self) -> MutexGuard<'_, Vec<(u64, Hook)>> {
        self.hooks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The computation between its hooks, which run without the lock: they may register others.
    pub(crate) fn around(
        &self,
        input: &Tensor,
        forward: impl FnOnce(&Tensor) -> Result<Tensor>,
    ) -> Result<Tensor> {
        let hooks: Vec<Hook> = self.lock().iter().map(|(_, hook)| hook.clone()).collect();
        let mut input = input.clone();
        for hook in &hooks {
            if let Hook::Pre(hook) = hook
                && let Some(other) = hook(&input)?
            {
                input = other;
            }
        }
        let backward = Backward::of(&hooks);
        if backward.is_some() && input.requires_grad() {
            input = op::alias(&input)?;
        }
        let mut output = forward(&input)?;
        for hook in &hooks {
            if let Hook::Forward(hook) = hook
                && let Some(other) = hook(&input, &output)?
            {
                output = other;
            }
        }
        match backward {
            Some(backward) => backward.watch(&input, &output),
            None => Ok(output),
        }
    }
}

/// The hooks that gradients are handed to.
struct Backward {
    before: Vec<Arc<PreHook>>,
    after: Vec<Arc<BackwardHook>>,
}

impl Backward {
    fn of(hooks: &[Hook]) -> Option<Self> {
        let (mut before, mut after) = (Vec::new(), Vec::new());
        for hook in hooks {
            match hook {
                Hook::BackwardPre(hook) => before.push(hook.clone()),
                Hook::Backward(hook) => after.push(hook.clone()),
                Hook::Pre(_) | Hook::Forward(_) => {}
            }
        }
        (!before.is_empty() || !after.is_empty()).then_some(Self { before, after })
    }

    /// An output whose gradient is kept until that of the input is there, and handed over with it;
    /// at once if the input will have none.
    fn watch(self, input: &Tensor, output: &Tensor) -> Result<Tensor> {
        if !output.requires_grad() {
            return Ok(output.clone());
        }
        let Self { before, after } = self;
        let waits = input.requires_grad();
        let kept: Arc<Mutex<Option<Tensor>>> = Arc::default();
        let output = op::alias(output)?;
        let (keep, at_once) = (kept.clone(), after.clone());
        output.register_hook(move |grad| {
            let changed = changed(grad, &before, |hook, grad| hook(grad))?;
            let present = changed.as_ref().unwrap_or(grad);
            if waits {
                *keep.lock().unwrap_or_else(PoisonError::into_inner) = Some(present.clone());
            } else {
                at_once.iter().try_for_each(|hook| hook(None, present).map(drop))?;
            }
            Ok(changed)
        })?;
        if waits {
            input.register_hook(move |grad| {
                let of_output = kept.lock().unwrap_or_else(PoisonError::into_inner).take();
                let Some(of_output) = of_output else { return Ok(None) };
                changed(grad, &after, |hook, grad| hook(Some(grad), &of_output))
            })?;
        }
        Ok(output)
    }
}

/// What hooks make of a gradient, one after the other, if they change it.
fn changed<H>(
    grad: &Tensor,
    hooks: &[H],
    call: impl Fn(&H, &Tensor) -> Result<Option<Tensor>>,
) -> Result<Option<Tensor>> {
    let mut changed = None;
    for hook in hooks {
        if let Some(other) = call(hook, changed.as_ref().unwrap_or(grad))? {
            changed = Some(other);
        }
    }
    Ok(changed)
}
