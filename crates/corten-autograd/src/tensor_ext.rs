//! The methods of a tensor that need the graph.

use crate::api::{self, BackwardOptions};
use crate::graph;
use crate::hooks::{HookHandle, HookOwner, PostAccumulateHook, TensorHook};
use crate::meta::{self, GradDType};
use crate::node::NodeRef;
use crate::view::{self, CreationMeta};
use corten_core::{
    AutogradMeta, DType, Result, TensorBase, VersionCounter, bail, ensure, inference_mode_enabled,
};
use corten_ops::{Tensor, op};
use std::sync::Arc;

/// Gradients of tensors.
///
/// ```
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// let x = tensor![1.0, 2.0]?.requires_grad_(true)?;
/// op::sum(&(&x * &x)?, None)?.backward()?;
/// assert_eq!(x.grad().unwrap_or_default().to_vec::<f32>()?, [2.0, 4.0]);
/// # Ok(())
/// # }
/// ```
pub trait Autograd {
    /// Accumulates the gradients of this scalar into the leaves it depends on.
    ///
    /// # Errors
    /// As [`crate::backward`].
    fn backward(&self) -> Result<()>;

    /// [`backward`](Self::backward) with a gradient for this tensor and options.
    ///
    /// # Errors
    /// As [`crate::backward`].
    fn backward_with(&self, gradient: Option<&Tensor>, options: BackwardOptions) -> Result<()>;

    /// The accumulated gradient.
    fn grad(&self) -> Option<Tensor>;

    /// Replaces the accumulated gradient.
    ///
    /// # Errors
    /// When shape, dtype or device differ from this tensor's.
    fn set_grad(&self, grad: Option<&Tensor>) -> Result<()>;

    /// Whether operators on this tensor are recorded.
    fn requires_grad(&self) -> bool;

    /// Sets whether this leaf collects a gradient, and returns it.
    ///
    /// # Errors
    /// For results of recorded operators and for dtypes without gradients.
    fn requires_grad_(&self, requires_grad: bool) -> Result<Tensor>;

    /// Sets the flag behind [`requires_grad_`](Self::requires_grad_).
    ///
    /// # Errors
    /// As there.
    fn set_requires_grad_flag(&self, requires_grad: bool) -> Result<()>;

    /// Whether this tensor is no result of a recorded operator.
    fn is_leaf(&self) -> bool;

    /// Makes this non-leaf keep its gradient in [`grad`](Self::grad).
    ///
    /// # Errors
    /// When it requires no gradient.
    fn retain_grad(&self) -> Result<()>;

    /// Whether a non-leaf keeps its gradient.
    fn retains_grad(&self) -> bool;

    /// Calls `hook` with every gradient of this tensor; what it returns replaces the gradient.
    ///
    /// # Errors
    /// When the tensor requires no gradient.
    fn register_hook(
        &self,
        hook: impl Fn(&Tensor) -> Result<Option<Tensor>> + Send + Sync + 'static,
    ) -> Result<HookHandle>;

    /// Calls `hook` after a gradient was accumulated into this leaf.
    ///
    /// # Errors
    /// For non-leaves and leaves that require no gradient.
    fn register_post_accumulate_grad_hook(
        &self,
        hook: impl Fn(&Tensor) -> Result<()> + Send + Sync + 'static,
    ) -> Result<HookHandle>;

    /// The node that this tensor is a result of.
    ///
    /// # Errors
    /// For views that may no longer be used; see [`crate::graph::grad_fn`].
    fn grad_fn(&self) -> Result<Option<NodeRef>>;

    /// Which result of its node this tensor is.
    fn output_nr(&self) -> u32;

    /// The same data without history and with a version counter of its own: writes through it are
    /// not noticed.
    ///
    /// # Errors
    /// Those of the copy.
    fn data(&self) -> Result<Tensor>;

    /// Replaces data and geometry, keeping history, gradient and version counter.
    ///
    /// # Errors
    /// For tensors of an incompatible kind, or without a gradient where one is required.
    fn set_data(&self, new: &Tensor) -> Result<()>;

    /// The tensor that this one is a differentiable view of.
    fn view_base(&self) -> Option<Tensor>;

    /// Whether this tensor is a differentiable view.
    fn is_view(&self) -> bool;

    /// The dtype that accumulated gradients must have.
    fn grad_dtype(&self) -> GradDType;

    /// Sets the dtype that accumulated gradients must have.
    ///
    /// # Errors
    /// For non-leaves, or when a gradient of another dtype is there.
    fn set_grad_dtype(&self, dtype: GradDType) -> Result<()>;
}

impl Autograd for Tensor {
    fn backward(&self) -> Result<()> {
        self.backward_with(None, BackwardOptions::default())
    }

    fn backward_with(&self, gradient: Option<&Tensor>, options: BackwardOptions) -> Result<()> {
        let gradient = gradient.map(|gradient| [Some(gradient.clone())]);
        let gradients = gradient.as_ref().map(<[_; 1]>::as_slice);
        api::backward(std::slice::from_ref(self), gradients, options, None)
    }

    fn grad(&self) -> Option<Tensor> {
        match meta::get(self) {
            Some(meta) => meta.grad_tensor(),
            None => self.autograd_meta()?.grad().map(Tensor::from),
        }
    }

    fn set_grad(&self, grad: Option<&Tensor>) -> Result<()> {
        if let Some(grad) = grad.filter(|grad| grad.defined()) {
            check_grad(self, grad)?;
        } else if meta::get(self).is_none() {
            return Ok(());
        }
        meta::get_or_init(self)?.replace_grad(grad.cloned());
        Ok(())
    }

    fn requires_grad(&self) -> bool {
        graph::requires_grad(self)
    }

    fn requires_grad_(&self, requires_grad: bool) -> Result<Tensor> {
        self.set_requires_grad_flag(requires_grad)?;
        Ok(self.clone())
    }

    fn set_requires_grad_flag(&self, requires_grad: bool) -> Result<()> {
        if let Some(value) = corten_ops::batched::innermost(self) {
            return value.set_requires_grad_flag(requires_grad);
        }
        check_requires_grad(self, requires_grad)?;
        if requires_grad == graph::requires_grad(self) {
            return Ok(());
        }
        meta::get_or_init(self)?.set_requires_grad(requires_grad)
    }

    fn is_leaf(&self) -> bool {
        graph::is_leaf(self)
    }

    fn retain_grad(&self) -> Result<()> {
        retain_grad(self)
    }

    fn retains_grad(&self) -> bool {
        meta::known(self).is_some_and(meta::Meta::retains_grad)
    }

    fn register_hook(
        &self,
        hook: impl Fn(&Tensor) -> Result<Option<Tensor>> + Send + Sync + 'static,
    ) -> Result<HookHandle> {
        register_hook(self, Arc::new(hook), None)
    }

    fn register_post_accumulate_grad_hook(
        &self,
        hook: impl Fn(&Tensor) -> Result<()> + Send + Sync + 'static,
    ) -> Result<HookHandle> {
        register_post_accumulate_grad_hook(self, Arc::new(hook), None)
    }

    fn grad_fn(&self) -> Result<Option<NodeRef>> {
        graph::grad_fn(self)
    }

    fn output_nr(&self) -> u32 {
        graph::output_nr(self)
    }

    fn data(&self) -> Result<Tensor> {
        Ok(self.shallow_copy_and_detach(VersionCounter::Own, false)?.into())
    }

    fn set_data(&self, new: &Tensor) -> Result<()> {
        set_data(self, new)
    }

    fn view_base(&self) -> Option<Tensor> {
        view::base_of(self)
    }

    fn is_view(&self) -> bool {
        view::is_view(self)
    }

    fn grad_dtype(&self) -> GradDType {
        meta::known(self).map_or(GradDType::Same, meta::Meta::grad_dtype)
    }

    fn set_grad_dtype(&self, dtype: GradDType) -> Result<()> {
        ensure!(graph::is_leaf(self), Runtime, "grad_dtype can only be set on leaf tensors.");
        let wanted = match dtype {
            GradDType::Same => Some(self.dtype()),
            GradDType::Fixed(dtype) => Some(dtype),
            GradDType::Any => None,
        };
        if let (Some(wanted), Some(grad)) = (wanted, self.grad()) {
            ensure!(
                grad.dtype() == wanted,
                Runtime,
                "Cannot set grad_dtype to '{}' because there is already a gradient with dtype '{}'.",
                wanted.type_name(),
                grad.dtype().type_name()
            );
        }
        let meta = meta::get_or_init(self)?;
        meta.set_grad_dtype(dtype);
        // The accumulator has the old dtype in mind.
        meta.set_accumulator(None);
        Ok(())
    }
}

fn check_requires_grad(tensor: &Tensor, requires_grad: bool) -> Result<()> {
    if tensor.is_inference() && !inference_mode_enabled() && requires_grad {
        bail!(
            Runtime,
            "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed."
        );
    }
    if !requires_grad && !graph::is_leaf(tensor) {
        bail!(
            Runtime,
            "you can only change requires_grad flags of leaf variables. If you want to use a \
             computed variable in a subgraph that doesn't require differentiation use \
             var_no_grad = var.detach()."
        );
    }
    ensure!(
        !requires_grad || graph::is_differentiable_type(tensor.dtype()),
        Runtime,
        "only Tensors of floating point and complex dtype can require gradients"
    );
    Ok(())
}

/// The name of the element type, as that message has it.
fn native_name(dtype: DType) -> String {
    match dtype {
        DType::Float32 => "float".to_owned(),
        DType::Float64 => "double".to_owned(),
        DType::Complex64 => "c10::complex<float>".to_owned(),
        DType::Complex128 => "c10::complex<double>".to_owned(),
        other => format!("c10::{}", other.type_name()),
    }
}

fn check_grad(tensor: &Tensor, grad: &Tensor) -> Result<()> {
    ensure!(!tensor.is_same(grad), Runtime, "can't assign Variable as its own grad");
    let wanted = match tensor.grad_dtype() {
        GradDType::Same => Some(tensor.dtype()),
        GradDType::Fixed(dtype) => Some(dtype),
        GradDType::Any => None,
    };
    if let Some(wanted) = wanted {
        ensure!(
            grad.dtype() == wanted,
            Runtime,
            "attempting to assign a gradient with dtype '{}' to a tensor with grad_dtype '{}'. The \
             gradient must match the tensor's grad_dtype (defaults to the tensor's dtype). You can \
             set the tensor's grad_dtype attribute with a specific dtype, or None to allow any \
             dtype. Set grad_dtype with caution. Diverging the dtypes of a tensor and its gradient \
             may break downstream systems that assume they match.",
            native_name(grad.dtype()),
            wanted.type_name()
        );
    }
    ensure!(
        grad.device().device_type == tensor.device().device_type,
        Runtime,
        "attempting to assign a gradient with device type '{}' to a tensor with device type '{}'. \
         Please ensure that the gradient and the tensor are on the same device",
        grad.device().device_type,
        tensor.device().device_type
    );
    ensure!(
        grad.sizes() == tensor.sizes(),
        Runtime,
        "attempting to assign a gradient of size '{}' to a tensor of size '{}'. Please ensure that \
         the gradient and the tensor are the same size",
        crate::saved::display_sizes(&grad.sizes()),
        crate::saved::display_sizes(&tensor.sizes())
    );
    Ok(())
}

fn set_data(tensor: &Tensor, new: &Tensor) -> Result<()> {
    ensure!(
        !graph::requires_grad(tensor) || graph::is_differentiable_type(new.dtype()),
        Runtime,
        "data set to a tensor that requires gradients must be floating point or complex dtype"
    );
    let fits = new.dtype() == tensor.dtype()
        && new.device() == tensor.device()
        && new.layout() == tensor.layout()
        && new.sizes() == tensor.sizes();
    TensorBase::set_data(tensor, new)?;
    if let (false, Some(meta)) = (fits, meta::get(tensor)) {
        // The accumulator expects gradients like the old data.
        meta.set_accumulator(None);
    }
    Ok(())
}

/// Makes a non-leaf keep its gradient.
///
/// # Errors
/// When it requires no gradient.
pub fn retain_grad(tensor: &Tensor) -> Result<()> {
    ensure!(
        graph::requires_grad(tensor),
        Runtime,
        "can't retain_grad on Tensor that has requires_grad=False"
    );
    if graph::is_leaf(tensor) {
        return Ok(());
    }
    let meta = meta::get_or_init(tensor)?;
    if meta.retains_grad() {
        return Ok(());
    }
    if let Some(node) = graph::grad_fn(tensor)? {
        node.hooks().retain(meta.output_nr(), tensor);
        meta.set_retains_grad(true);
    }
    Ok(())
}

/// Registers a shared hook on a tensor; see [`Autograd::register_hook`].
///
/// # Errors
/// When the tensor requires no gradient.
pub fn register_hook(
    tensor: &Tensor,
    hook: TensorHook,
    owner: Option<HookOwner>,
) -> Result<HookHandle> {
    ensure!(
        graph::requires_grad(tensor),
        Runtime,
        "cannot register a hook on a tensor that doesn't require gradient"
    );
    let grad_fn = graph::grad_fn(tensor)?;
    let meta = meta::get_or_init(tensor)?;
    let (hooks, is_new) = meta.hooks_or_new();
    if let (true, Some(node)) = (is_new, grad_fn) {
        node.hooks().add_tensor_hooks(meta.output_nr(), hooks.clone());
    }
    Ok(hooks.add_owning(hook, owner))
}

/// Registers a shared hook on a leaf; see [`Autograd::register_post_accumulate_grad_hook`].
///
/// # Errors
/// As there.
pub fn register_post_accumulate_grad_hook(
    tensor: &Tensor,
    hook: PostAccumulateHook,
    owner: Option<HookOwner>,
) -> Result<HookHandle> {
    ensure!(
        graph::requires_grad(tensor),
        Runtime,
        "cannot register a hook on a tensor that doesn't require gradient"
    );
    ensure!(
        graph::is_leaf(tensor),
        Runtime,
        "post accumulate grad hooks cannot be registered on non-leaf tensors"
    );
    Ok(meta::get_or_init(tensor)?.post_accumulate_or_new().add_owning(hook, owner))
}

/// Makes a leaf of a tensor: it forgets its history. Views cannot.
///
/// # Errors
/// For views.
pub(crate) fn detach_in_place(tensor: &Tensor) -> Result<()> {
    if view::is_view(tensor) {
        bail!(
            Runtime,
            "Can't detach views in-place. Use detach() instead. If you are using \
             DistributedDataParallel (DDP) for training, and gradient_as_bucket_view is set as \
             True, gradients are views of DDP buckets, and hence detach_() cannot be called on \
             these gradients. To fix this error, please refer to the Optimizer.zero_grad() \
             function in torch/optim/optimizer.py as the solution."
        );
    }
    if let Some(meta) = meta::get(tensor) {
        meta.set_requires_grad(false)?;
        meta.set_edge(crate::node::Edge::default());
    }
    Ok(())
}

/// Makes `view` what a user function returned as it came: a view whose history the function is.
pub(crate) fn view_as_self(tensor: &Tensor) -> Result<Tensor> {
    let alias = {
        let _below = corten_core::BelowADInplaceOrViewGuard::new();
        op::alias(tensor)?
    };
    view::make_view(tensor, alias, CreationMeta::InCustomFunction)
}
