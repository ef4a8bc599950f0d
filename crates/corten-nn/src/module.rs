//! What a module is: parameters, buffers and children, and a computation over them.

pub use corten_derive::Module;

use crate::copy::Memo;
use crate::hooks::Hooks;
use corten_autograd::Autograd;
use corten_core::{Result, bail};
use corten_ops::{Tensor, op};
use std::any::Any;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};

/// A part of a model: parameters, buffers, settings and children.
///
/// Implemented by `#[derive(Module)]` for structs of these; what every module can do is in
/// [`ModuleExt`](crate::ModuleExt). Tensors are handles, so a module is trained through `&self`.
///
/// ```
/// use corten::nn::{Linear, Module};
/// use corten::prelude::*;
///
/// #[derive(Module)]
/// struct Net {
///     hidden: Linear,
///     out: Linear,
/// }
///
/// impl Forward for Net {
///     fn forward(&self, x: &Tensor) -> Result<Tensor> {
///         self.out.forward(&self.hidden.forward(x)?.relu()?)
///     }
/// }
///
/// let net = Net { hidden: Linear::new(4, 8)?, out: Linear::new(8, 2)? };
/// assert_eq!(net.named_parameters()[3].0, "out.bias");
/// assert!(net.to_string().starts_with("Net(\n  (hidden): Linear(in_features=4"));
/// # Ok::<(), corten::Error>(())
/// ```
pub trait Module: Any + Send + Sync + AsModule {
    /// Shows each direct part with its name to the visitor.
    fn visit<'a>(&'a self, visitor: &mut Visitor<'a>);

    /// What is printed as the module's class: PyTorch's name of it.
    fn name(&self) -> &'static str;

    /// What is printed between the parentheses: the settings.
    fn extra_repr(&self) -> String {
        String::new()
    }

    /// The text of the whole module; see [`describe`](crate::describe).
    fn describe(&self) -> String {
        crate::print::module(self.name(), &self.extra_repr(), &crate::print::children(self))
    }

    /// The module's own hooks, if it has room for some: a field of type [`Hooks`].
    fn hooks(&self) -> Option<&Hooks> {
        None
    }

    /// The module that this one stands for: the inner one of a box.
    fn target(&self) -> &dyn Module {
        self.as_module()
    }

    /// Takes the shapes of tensors that are about to be loaded, where they are still open.
    ///
    /// # Errors
    /// When the shapes do not fit to the settings.
    fn materialize(&self, shape_of: &dyn Fn(&str) -> Option<Vec<i64>>) -> Result<()> {
        let _ = shape_of;
        Ok(())
    }

    /// A copy with tensors of its own; those of `memo` are shared by several copies.
    ///
    /// # Errors
    /// `NotImplemented` for modules that were written without `#[derive(Module)]` and without this.
    fn deep_clone_with(&self, memo: &mut Memo) -> Result<Self>
    where
        Self: Sized,
    {
        let _ = memo;
        bail!(NotImplemented, "{} has no deep_clone_with", self.name())
    }
}

/// The conversion of every module to `&dyn Module`.
///
/// ```
/// use corten::nn::AsModule;
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// assert_eq!(Linear::new(2, 1)?.as_module().name(), "Linear");
/// # Ok(())
/// # }
/// ```
pub trait AsModule {
    /// The module as an object.
    fn as_module(&self) -> &dyn Module;
}

impl<M: Module> AsModule for M {
    fn as_module(&self) -> &dyn Module {
        self
    }
}

impl dyn Module {
    /// The module as its type, if it is of that type.
    pub fn downcast_ref<M: Module>(&self) -> Option<&M> {
        (self as &dyn Any).downcast_ref()
    }
}

/// A module of one tensor in and one out.
///
/// Modules with other arguments (attention, recurrent networks, losses) have a method `forward` of
/// their own.
///
/// ```
/// use corten::prelude::*;
///
/// let layers: Vec<Box<dyn Forward>> = vec![Box::new(Relu), Box::new(Tanh)];
/// let x = op::zeros(&[2], None, None, None, None)?;
/// let y = layers.iter().try_fold(x, |x, layer| layer.call(&x))?;
/// assert_eq!(y.to_vec::<f32>()?, [0.0, 0.0]);
/// # Ok::<(), corten::Error>(())
/// ```
pub trait Forward: Module {
    /// The computation.
    ///
    /// # Errors
    /// Those of the operators: mostly shapes that do not fit.
    fn forward(&self, input: &Tensor) -> Result<Tensor>;

    /// [`forward`](Self::forward) with the module's [`Hooks`] around it, as PyTorch's
    /// `module(input)`.
    ///
    /// # Errors
    /// Those of `forward` and of the hooks.
    fn call(&self, input: &Tensor) -> Result<Tensor> {
        match self.hooks().and_then(Hooks::present) {
            None => self.forward(input),
            Some(hooks) => hooks.around(input, |input| self.forward(input)),
        }
    }
}

/// What a container holds: any [`Forward`], boxed as `Box<dyn Layer>`.
///
/// ```
/// use corten::nn::Layer;
/// use corten::prelude::*;
///
/// let layers: Vec<Box<dyn Layer>> = vec![Box::new(Relu), Box::new(Tanh)];
/// let net: Sequential = layers.into_iter().collect();
/// assert_eq!(net.len(), 2);
/// ```
pub trait Layer: Forward {
    /// A deep copy in a box of its own; see [`Module::deep_clone_with`].
    ///
    /// # Errors
    /// Those of the copies.
    fn boxed_copy(&self, memo: &mut Memo) -> Result<Box<dyn Layer>>;
}

impl<M: Forward> Layer for M {
    fn boxed_copy(&self, memo: &mut Memo) -> Result<Box<dyn Layer>> {
        Ok(Box::new(self.deep_clone_with(memo)?))
    }
}

/// A tensor that is trained.
///
/// ```
/// use corten::prelude::*;
///
/// let weight = Parameter::new(Tensor::from_vec(vec![1.0f32, 2.0], &[2])?)?;
/// assert!(weight.requires_grad());
/// # Ok::<(), corten::Error>(())
/// ```
#[derive(Clone)]
pub struct Parameter(Tensor);

impl Parameter {
    /// The tensor as a leaf that requires gradients.
    ///
    /// # Errors
    /// For dtypes without gradients.
    pub fn new(tensor: Tensor) -> Result<Self> {
        Self::with(tensor, true)
    }

    /// The tensor as a leaf that requires gradients, or one that is frozen.
    ///
    /// # Errors
    /// For dtypes without gradients.
    pub fn with(tensor: Tensor, requires_grad: bool) -> Result<Self> {
        // A parameter is a leaf: what it was computed from is not trained through it.
        let tensor = if tensor.is_leaf() { tensor } else { op::detach(&tensor)? };
        tensor.requires_grad_(requires_grad)?;
        Ok(Self(tensor))
    }
}

impl Deref for Parameter {
    type Target = Tensor;

    fn deref(&self) -> &Tensor {
        &self.0
    }
}

/// A tensor that is state but not trained.
///
/// ```
/// use corten::nn::Buffer;
/// use corten::prelude::*;
///
/// let mask = Buffer::transient(Tensor::from_vec(vec![1.0f32], &[1])?);
/// assert!(!mask.is_persistent());
/// # Ok::<(), corten::Error>(())
/// ```
#[derive(Clone)]
pub struct Buffer {
    tensor: Tensor,
    persistent: bool,
}

impl Buffer {
    /// A buffer that is part of the state dict.
    pub fn new(tensor: Tensor) -> Self {
        Self { tensor, persistent: true }
    }

    /// A buffer that is not part of the state dict.
    pub fn transient(tensor: Tensor) -> Self {
        Self { tensor, persistent: false }
    }

    /// Whether the buffer is part of the state dict.
    pub fn is_persistent(&self) -> bool {
        self.persistent
    }
}

impl Deref for Buffer {
    type Target = Tensor;

    fn deref(&self) -> &Tensor {
        &self.tensor
    }
}

/// Whether a module is being trained; changed by [`ModuleExt::train`](crate::ModuleExt::train).
///
/// ```
/// use corten::nn::Mode;
///
/// assert!(Mode::default().training());
/// ```
#[derive(Debug)]
pub struct Mode(AtomicBool);

impl Mode {
    /// Whether the module is being trained.
    pub fn training(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Sets it for one module.
    pub fn set(&self, training: bool) {
        self.0.store(training, Ordering::Relaxed);
    }
}

impl Default for Mode {
    fn default() -> Self {
        Self(AtomicBool::new(true))
    }
}

impl Clone for Mode {
    fn clone(&self) -> Self {
        Self(AtomicBool::new(self.training()))
    }
}

/// A direct part of a module.
///
/// ```
/// use corten::nn::{Item, Linear, Visitor};
///
/// let layer = Linear::new(2, 3)?;
/// let (name, item) = Visitor::parts(&layer).swap_remove(0);
/// assert_eq!(name, "weight");
/// assert!(matches!(item, Item::Parameter(weight) if weight.is_same(&layer.weight)));
/// # Ok::<(), corten::Error>(())
/// ```
#[derive(Clone, Copy)]
pub enum Item<'a> {
    /// A trained tensor.
    Parameter(&'a Parameter),
    /// A tensor that is state.
    Buffer(&'a Buffer),
    /// The switch between training and evaluation.
    Mode(&'a Mode),
    /// A child.
    Module(&'a dyn Module),
    /// What has the device and dtype of tensors whose shapes are still open.
    Uninitialized(&'a Tensor),
}

impl<'a> Item<'a> {
    /// The parameter or buffer.
    pub fn tensor(&self) -> Option<&'a Tensor> {
        match self {
            Self::Parameter(parameter) => Some(parameter),
            Self::Buffer(buffer) => Some(buffer),
            Self::Uninitialized(tensor) => Some(tensor),
            Self::Mode(_) | Self::Module(_) => None,
        }
    }

    /// Parameters come before buffers, these before children, as in PyTorch.
    fn order(&self) -> u8 {
        match self {
            Self::Parameter(_) => 0,
            Self::Buffer(_) => 1,
            Self::Mode(_) | Self::Uninitialized(_) => 2,
            Self::Module(_) => 3,
        }
    }
}

/// Collects the direct parts of a module; for modules that are written without `#[derive(Module)]`.
///
/// ```
/// use corten::nn::{Linear, Module, Visitor};
/// use corten::prelude::*;
///
/// struct Pair(Linear, Linear);
///
/// impl Module for Pair {
///     fn visit<'a>(&'a self, visitor: &mut Visitor<'a>) {
///         visitor.field("left", &self.0);
///         visitor.field("right", &self.1);
///     }
///
///     fn name(&self) -> &'static str {
///         "Pair"
///     }
/// }
///
/// let pair = Pair(Linear::new(1, 1)?, Linear::new(1, 1)?);
/// assert_eq!(pair.named_parameters()[2].0, "right.weight");
/// assert!(pair.deep_clone().is_err());
/// # Ok::<(), corten::Error>(())
/// ```
#[derive(Default)]
pub struct Visitor<'a> {
    name: String,
    items: Vec<(String, Item<'a>)>,
}

impl<'a> Visitor<'a> {
    /// The direct parts of a module with their names: parameters, buffers, children.
    pub fn parts(module: &'a (impl Module + ?Sized)) -> Vec<(String, Item<'a>)> {
        let mut visitor = Self::default();
        module.visit(&mut visitor);
        visitor.items.sort_by_key(|(_, item)| item.order());
        visitor.items
    }

    /// Shows one part under `name`.
    pub fn field(&mut self, name: &str, field: &'a dyn ModuleField) {
        name.clone_into(&mut self.name);
        field.show(self);
    }

    /// Shows a part of another module as one of this.
    pub fn named(&mut self, name: &str, item: Item<'a>) {
        name.clone_into(&mut self.name);
        self.item(item);
    }

    /// Shows one part under the present name.
    pub fn item(&mut self, item: Item<'a>) {
        self.items.push((self.name.clone(), item));
    }
}

/// What can be a field of a module: a parameter, a buffer, a mode, a module, an option of these,
/// or a setting of one of Rust's own types. Other settings are marked `#[module(skip)]`.
///
/// A tensor is none of these, so that none is forgotten:
///
/// ```compile_fail
/// use corten::prelude::*;
///
/// #[derive(Module)]
/// struct Wrong {
///     weight: Tensor,
/// }
/// ```
///
/// ```
/// use corten::prelude::*;
///
/// #[derive(Module)]
/// struct Right {
///     weight: Parameter,
///     heads: i64,
///     #[module(skip)]
///     pair: (i64, i64),
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no part of a module",
    note = "wrap tensors in `Parameter` or `Buffer`; mark settings with `#[module(skip)]`"
)]
pub trait ModuleField {
    /// Shows what is inside.
    fn show<'a>(&'a self, visitor: &mut Visitor<'a>);

    /// A copy with tensors of its own.
    ///
    /// # Errors
    /// Those of the copies.
    fn deep_clone_field(&self, memo: &mut Memo) -> Result<Self>
    where
        Self: Sized;
}
