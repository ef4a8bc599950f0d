//! What every module can do.

use crate::copy::Memo;
use crate::hooks::Hooks;
use crate::module::{Item, Module, Visitor};
use crate::state::{self, LoadReport, StateDict};
use corten_autograd::{Autograd, no_grad};
use corten_core::{DType, Device, Result, bail};
use corten_ops::{Tensor, op};
use std::any::{Any, TypeId};
use std::collections::HashSet;

/// What every module can do.
///
/// ```
/// use corten::nn::Linear;
/// use corten::prelude::*;
///
/// let net = Sequential::new().with(Linear::new(2, 3)?).with(Dropout::new(0.5)?);
/// net.eval();
/// net.to_dtype(DType::Float64)?;
/// let copy = net.deep_clone()?;
/// copy.load_state_dict(net.state_dict()?, true)?;
/// assert_eq!(copy.parameter_count(), 9);
/// # Ok::<(), corten::Error>(())
/// ```
pub trait ModuleExt: Module {
    /// All parts of the module and of its children with their dotted paths: parameters, buffers,
    /// modes and modules, in PyTorch's order.
    fn items(&self) -> Vec<(String, Item<'_>)> {
        let mut found = Vec::new();
        collect(self, "", &mut found);
        found
    }

    /// The direct children with their names.
    fn named_children(&self) -> Vec<(String, &dyn Module)> {
        let parts = Visitor::parts(self).into_iter();
        parts.filter_map(|(name, item)| item.module().map(|module| (name, module))).collect()
    }

    /// The module itself, under the empty name, and all below it; a shared one appears once.
    fn named_modules(&self) -> Vec<(String, &dyn Module)> {
        let mut known = HashSet::new();
        let below = self.items().into_iter();
        let below = below.filter_map(|(path, item)| item.module().map(|module| (path, module)));
        std::iter::once((String::new(), self.target()))
            .chain(below)
            .filter(|(_, module)| identity(*module).is_none_or(|key| known.insert(key)))
            .collect()
    }

    /// The module at a dotted path.
    ///
    /// # Errors
    /// `Value` when there is none.
    fn module(&self, path: &str) -> Result<&dyn Module> {
        if path.is_empty() {
            return Ok(self.target());
        }
        let found = self
            .items()
            .into_iter()
            .find(|(known, item)| known == path && matches!(item, Item::Module(_)));
        match found {
            Some((_, Item::Module(module))) => Ok(module),
            _ => bail!(Value, "{} has no module `{path}`", self.name()),
        }
    }

    /// The hooks of the module at a dotted path. They run where the module is called by
    /// [`Forward::call`](crate::Forward::call), as in containers.
    ///
    /// # Errors
    /// `Value` when there is no such module, or none that can have hooks: a struct needs a field
    /// of type [`Hooks`] for them.
    fn hooks_of(&self, path: &str) -> Result<&Hooks> {
        // The place of a module in a container has hooks where the module has none.
        let mut hooks = self.module(path)?.hooks();
        if hooks.is_none()
            && let Some((parent, name)) = path.rsplit_once('.').or(Some(("", path)))
        {
            let parent = self.module(parent)?;
            let sequential = parent.downcast_ref::<crate::Sequential>();
            hooks = sequential.and_then(|parent| parent.hooks_at(name));
        }
        let Some(hooks) = hooks else {
            bail!(Value, "the module `{path}` has no hooks: its struct needs a field of type Hooks")
        };
        Ok(hooks)
    }

    /// Calls `function` with every module, children first.
    ///
    /// # Errors
    /// Those of the function.
    fn apply(&self, function: &mut dyn FnMut(&dyn Module) -> Result<()>) -> Result<()> {
        for (_, child) in self.named_children() {
            child.apply(function)?;
        }
        function(self.target())
    }

    /// Names and parameters; a shared one appears once.
    fn named_parameters(&self) -> Vec<(String, Tensor)> {
        once(self.items(), |item| match item {
            Item::Parameter(parameter) => Some(Tensor::clone(parameter)),
            _ => None,
        })
    }

    /// The parameters.
    fn parameters(&self) -> Vec<Tensor> {
        self.named_parameters().into_iter().map(|(_, tensor)| tensor).collect()
    }

    /// How many elements the parameters have.
    fn parameter_count(&self) -> i64 {
        self.parameters().iter().map(|parameter| parameter.numel()).sum()
    }

    /// Names and buffers; a shared one appears once.
    fn named_buffers(&self) -> Vec<(String, Tensor)> {
        once(self.items(), |item| match item {
            Item::Buffer(buffer) => Some(Tensor::clone(buffer)),
            _ => None,
        })
    }

    /// The buffers.
    fn buffers(&self) -> Vec<Tensor> {
        self.named_buffers().into_iter().map(|(_, tensor)| tensor).collect()
    }

    /// Switches the module and its children to training.
    fn train(&self) {
        self.set_training(true);
    }

    /// Switches the module and its children to evaluation.
    fn eval(&self) {
        self.set_training(false);
    }

    /// Switches the module and its children.
    fn set_training(&self, training: bool) {
        for (_, item) in self.items() {
            if let Item::Mode(mode) = item {
                mode.set(training);
            }
        }
    }

    /// Freezes all parameters, or lets them be trained again.
    ///
    /// # Errors
    /// For dtypes without gradients.
    fn requires_grad_(&self, requires_grad: bool) -> Result<()> {
        self.parameters().iter().try_for_each(|p| p.set_requires_grad_flag(requires_grad))
    }

    /// Drops the gradients of all parameters.
    ///
    /// # Errors
    /// Those of [`Autograd::set_grad`].
    fn zero_grad(&self) -> Result<()> {
        self.parameters().iter().try_for_each(|parameter| parameter.set_grad(None))
    }

    /// All parameters and persistent buffers by name, detached; they share the module's memory.
    ///
    /// # Errors
    /// Those of `detach`.
    fn state_dict(&self) -> Result<StateDict> {
        state::state_dict(self, "")
    }

    /// [`state_dict`](Self::state_dict) with a prefix before every name.
    ///
    /// # Errors
    /// Those of `detach`.
    fn state_dict_with_prefix(&self, prefix: &str) -> Result<StateDict> {
        state::state_dict(self, prefix)
    }

    /// Copies tensors by name into the module.
    ///
    /// # Errors
    /// `Runtime`, in PyTorch's words, when a shape differs or, if `strict`, when a name occurs on
    /// one side only; nothing is copied then.
    fn load_state_dict<N: AsRef<str>>(
        &self,
        state: impl IntoIterator<Item = (N, Tensor)>,
        strict: bool,
    ) -> Result<LoadReport> {
        state::load_state_dict(self, state, strict)
    }

    /// Moves all parameters and buffers to a device, in place.
    ///
    /// # Errors
    /// Those of the copies.
    fn to_device(&self, device: Device) -> Result<()> {
        self.to(Some(device), None)
    }

    /// Casts all floating-point parameters and buffers, in place.
    ///
    /// # Errors
    /// Those of the casts.
    fn to_dtype(&self, dtype: DType) -> Result<()> {
        self.to(None, Some(dtype))
    }

    /// Moves all parameters and buffers and casts those of floating point, with their gradients.
    ///
    /// # Errors
    /// `Type` for a dtype that is neither of floating point nor complex, `Runtime` between the meta
    /// device and others (the tensors stay the same objects), and those of the copies.
    fn to(&self, device: Option<Device>, dtype: Option<DType>) -> Result<()> {
        if let Some(dtype) = dtype
            && !(dtype.is_floating_point() || dtype.is_complex())
        {
            bail!(
                Type,
                "nn.Module.to only accepts floating point or complex dtypes, but got desired dtype=torch.{}",
                dtype.name()
            );
        }
        convert_all(self, device, dtype, true)
    }

    /// Casts floating-point parameters and buffers to `Float16`; complex ones stay.
    ///
    /// # Errors
    /// Those of the casts.
    fn half(&self) -> Result<()> {
        convert_all(self, None, Some(DType::Float16), false)
    }

    /// Casts floating-point parameters and buffers to `BFloat16`; complex ones stay.
    ///
    /// # Errors
    /// Those of the casts.
    fn bfloat16(&self) -> Result<()> {
        convert_all(self, None, Some(DType::BFloat16), false)
    }

    /// Casts floating-point parameters and buffers to `Float32`; complex ones stay.
    ///
    /// # Errors
    /// Those of the casts.
    fn float(&self) -> Result<()> {
        convert_all(self, None, Some(DType::Float32), false)
    }

    /// Casts floating-point parameters and buffers to `Float64`; complex ones stay.
    ///
    /// # Errors
    /// Those of the casts.
    fn double(&self) -> Result<()> {
        convert_all(self, None, Some(DType::Float64), false)
    }

    /// A copy with parameters, buffers and modes of its own. What the module shares between its
    /// parts, the copy shares too.
    ///
    /// # Errors
    /// Those of the copies.
    fn deep_clone(&self) -> Result<Self>
    where
        Self: Sized,
    {
        self.deep_clone_with(&mut Memo::default())
    }
}

impl<M: Module + ?Sized> ModuleExt for M {}

impl<'a> Item<'a> {
    fn module(&self) -> Option<&'a dyn Module> {
        if let Self::Module(module) = self { Some(*module) } else { None }
    }
}

fn collect<'a, M: Module + ?Sized>(
    module: &'a M,
    prefix: &str,
    found: &mut Vec<(String, Item<'a>)>,
) {
    for (name, item) in Visitor::parts(module) {
        let path = if prefix.is_empty() { name } else { format!("{prefix}.{name}") };
        found.push((path.clone(), item));
        if let Item::Module(child) = item {
            collect(child, &path, found);
        }
    }
}

/// What tells modules apart: modules without fields are never the same one.
fn identity(module: &dyn Module) -> Option<(usize, TypeId)> {
    let address = std::ptr::from_ref(module).cast::<()>() as usize;
    (size_of_val(module) > 0).then(|| (address, (module as &dyn Any).type_id()))
}

fn once(
    items: Vec<(String, Item<'_>)>,
    pick: impl Fn(&Item<'_>) -> Option<Tensor>,
) -> Vec<(String, Tensor)> {
    let mut known = HashSet::new();
    items
        .into_iter()
        .filter_map(|(path, item)| pick(&item).map(|tensor| (path, tensor)))
        .filter(|(_, tensor)| known.insert(tensor.impl_ptr() as usize))
        .collect()
}

fn convert_all<M: Module + ?Sized>(
    module: &M,
    device: Option<Device>,
    dtype: Option<DType>,
    casts_complex: bool,
) -> Result<()> {
    let items = module.items().into_iter();
    items.filter_map(|(_, item)| item.tensor()).try_for_each(|tensor| {
        let is_cast =
            tensor.dtype().is_floating_point() || casts_complex && tensor.dtype().is_complex();
        convert(tensor, device, dtype.filter(|_| is_cast))
    })
}

fn convert(tensor: &Tensor, device: Option<Device>, dtype: Option<DType>) -> Result<()> {
    let dtype = dtype.unwrap_or(tensor.dtype());
    let device = device.unwrap_or(tensor.device());
    let move_one = |one: &Tensor| no_grad(|| op::to_device(one, device, dtype, false, false, None));
    // Both are made before either is replaced: an error leaves the gradient where it is.
    let grad = tensor.grad().map(|grad| move_one(&grad)).transpose()?;
    let moved = move_one(tensor)?;
    if grad.is_some() {
        tensor.set_grad(None)?;
    }
    tensor.set_data(&moved)?;
    if grad.is_some() { tensor.set_grad(grad.as_ref()) } else { Ok(()) }
}
