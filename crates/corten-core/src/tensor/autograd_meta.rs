//! What autograd knows about a tensor, seen from below: a trait that the autograd crate implements.

use std::any::Any;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::{Result, TensorBase, bail};

/// The autograd state of a tensor. Absent until needed; an absent one reads as a leaf that
/// requires no gradient.
///
/// ```
/// use corten_core::{AutogradMeta, Result, TensorBase};
/// use std::any::Any;
///
/// /// The state of a leaf that never requires a gradient.
/// struct Constant;
///
/// impl AutogradMeta for Constant {
///     fn requires_grad(&self) -> bool {
///         false
///     }
///
///     fn set_requires_grad(&self, _: bool) -> Result<()> {
///         Ok(())
///     }
///
///     fn is_leaf(&self) -> bool {
///         true
///     }
///
///     fn grad(&self) -> Option<TensorBase> {
///         None
///     }
///
///     fn set_grad(&self, _: Option<TensorBase>) {}
///
///     fn as_any(&self) -> &dyn Any {
///         self
///     }
/// }
///
/// assert!(Constant.is_leaf());
/// ```
pub trait AutogradMeta: Any + Send + Sync {
    /// Whether a gradient flows to or through the tensor.
    fn requires_grad(&self) -> bool;

    /// Sets whether a leaf collects its gradient.
    fn set_requires_grad(&self, requires_grad: bool) -> Result<()>;

    /// Whether no recorded operator produced the tensor.
    fn is_leaf(&self) -> bool;

    /// The name of the node that produced the tensor, such as `AddBackward0`; `None` for leaves.
    fn grad_fn_name(&self, tensor: &TensorBase) -> Option<String> {
        let _ = tensor;
        None
    }

    /// The collected gradient.
    fn grad(&self) -> Option<TensorBase>;

    /// Replaces the collected gradient.
    fn set_grad(&self, grad: Option<TensorBase>);

    /// The implementation itself.
    fn as_any(&self) -> &dyn Any;
}

/// Makes a default autograd state.
pub type AutogradMetaFactory = fn() -> Box<dyn AutogradMeta>;

/// What the full state of a compact view is made of.
///
/// ```
/// use corten_core::{FullView, TensorBase, TensorOptions};
///
/// let base = TensorBase::empty(&[2], TensorOptions::default())?;
/// let view = FullView { base, version: 0, unrecorded: true };
/// assert!(view.unrecorded);
/// # Ok::<(), corten_core::Error>(())
/// ```
#[derive(Debug)]
pub struct FullView {
    /// What the tensor is a view of.
    pub base: TensorBase,
    /// The version at which it was made.
    pub version: u32,
    /// Whether it was made while nothing was recorded.
    pub unrecorded: bool,
}

/// Makes the autograd state of a view.
pub type ViewMetaFactory = fn(FullView) -> Box<dyn AutogradMeta>;

static FACTORIES: OnceLock<(AutogradMetaFactory, ViewMetaFactory)> = OnceLock::new();

/// Installs the makers of autograd states, once per process. Returns whether this call did it.
pub fn set_autograd_meta_factories(any: AutogradMetaFactory, view: ViewMetaFactory) -> bool {
    FACTORIES.set((any, view)).is_ok()
}

pub(super) fn make_autograd_meta() -> Box<dyn AutogradMeta> {
    match FACTORIES.get() {
        Some((factory, _)) => factory(),
        None => Box::new(WithoutAutograd { requires_grad: AtomicBool::new(false) }),
    }
}

pub(super) fn make_view_meta(view: FullView) -> Box<dyn AutogradMeta> {
    match FACTORIES.get() {
        Some((_, factory)) => factory(view),
        None => make_autograd_meta(),
    }
}

/// The state of tensors in programs that link no autograd: a flag and nothing else.
struct WithoutAutograd {
    requires_grad: AtomicBool,
}

impl AutogradMeta for WithoutAutograd {
    fn requires_grad(&self) -> bool {
        self.requires_grad.load(Ordering::Relaxed)
    }

    fn set_requires_grad(&self, requires_grad: bool) -> Result<()> {
        if requires_grad {
            bail!(NotImplemented, "requires_grad needs the autograd crate, which is not linked");
        }
        Ok(())
    }

    fn is_leaf(&self) -> bool {
        true
    }

    fn grad(&self) -> Option<TensorBase> {
        None
    }

    fn set_grad(&self, _: Option<TensorBase>) {}

    fn as_any(&self) -> &dyn Any {
        self
    }
}
