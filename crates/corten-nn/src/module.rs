//! What a module is, and walking over its parts.

use crate::state::{self, LoadReport, StateDict};
use corten_autograd::Autograd;
use corten_core::{DType, Result};
use corten_ops::{Tensor, op};
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};

/// A part of a model: parameters, buffers and children, and a computation over them.
///
/// Tensors are handles, so a module is trained through `&self`.
pub trait Module: Send + Sync {
    /// The computation.
    ///
    /// # Errors
    /// Those of the operators: mostly shapes that do not fit.
    fn forward(&self, input: &Tensor) -> Result<Tensor>;

    /// Shows each part with its name to the visitor; written by [`parts!`](crate::parts).
    fn visit(&self, visitor: &mut Visitor<'_>);
}

/// Writes [`Module::visit`] for the named fields, in PyTorch's order: parameters, buffers, children.
#[macro_export]
macro_rules! parts {
    ($($field:ident),* $(,)?) => {
        fn visit(&self, visitor: &mut $crate::Visitor<'_>) {
            let _ = &visitor;
            $(visitor.part(stringify!($field), &self.$field);)*
        }
    };
}

/// A tensor that is trained.
#[derive(Clone)]
pub struct Parameter(Tensor);

impl Parameter {
    /// The tensor as a leaf that requires gradients.
    ///
    /// # Errors
    /// For dtypes without gradients.
    pub fn new(tensor: Tensor) -> Result<Self> {
        tensor.requires_grad_(true)?;
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
#[derive(Clone)]
pub struct Buffer(Tensor);

impl Buffer {
    /// The tensor as it is.
    pub fn new(tensor: Tensor) -> Self {
        Self(tensor)
    }
}

impl Deref for Buffer {
    type Target = Tensor;

    fn deref(&self) -> &Tensor {
        &self.0
    }
}

/// Whether a module is being trained; changed by [`ModuleExt::train`].
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

/// What a visitor sees at the end of a path.
pub enum Item<'a> {
    /// A trained tensor.
    Parameter(&'a Parameter),
    /// A tensor that is state.
    Buffer(&'a Buffer),
    /// The switch between training and evaluation.
    Mode(&'a Mode),
}

/// Walks over a module and calls a function with each item and its dotted path.
pub struct Visitor<'v> {
    path: String,
    see: &'v mut dyn FnMut(&str, Item<'_>),
}

impl Visitor<'_> {
    /// Shows one part under `name`.
    pub fn part(&mut self, name: &str, part: &dyn ModuleField) {
        let before = self.path.len();
        if before > 0 {
            self.path.push('.');
        }
        self.path.push_str(name);
        part.show(self);
        self.path.truncate(before);
    }

    fn item(&mut self, item: Item<'_>) {
        (self.see)(&self.path, item);
    }
}

/// What can be a field of a module: a parameter, a buffer, a mode, a module, or an option of these.
pub trait ModuleField {
    /// Shows what is inside.
    fn show(&self, visitor: &mut Visitor<'_>);
}

impl ModuleField for Parameter {
    fn show(&self, visitor: &mut Visitor<'_>) {
        visitor.item(Item::Parameter(self));
    }
}

impl ModuleField for Buffer {
    fn show(&self, visitor: &mut Visitor<'_>) {
        visitor.item(Item::Buffer(self));
    }
}

impl ModuleField for Mode {
    fn show(&self, visitor: &mut Visitor<'_>) {
        visitor.item(Item::Mode(self));
    }
}

impl<P: ModuleField> ModuleField for Option<P> {
    fn show(&self, visitor: &mut Visitor<'_>) {
        if let Some(part) = self {
            part.show(visitor);
        }
    }
}

impl<M: Module + ?Sized> ModuleField for M {
    fn show(&self, visitor: &mut Visitor<'_>) {
        self.visit(visitor);
    }
}

impl<M: Module + ?Sized> Module for Box<M> {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        (**self).forward(input)
    }

    fn visit(&self, visitor: &mut Visitor<'_>) {
        (**self).visit(visitor);
    }
}

/// What every module can do.
pub trait ModuleExt: Module {
    /// Calls `see` with each item and its dotted path.
    fn walk(&self, see: &mut dyn FnMut(&str, Item<'_>)) {
        self.visit(&mut Visitor { path: String::new(), see });
    }

    /// Names and parameters; a shared one appears once.
    fn named_parameters(&self) -> Vec<(String, Tensor)> {
        let mut found: Vec<(String, Tensor)> = Vec::new();
        self.walk(&mut |path, item| {
            if let Item::Parameter(parameter) = item
                && !found.iter().any(|(_, known)| known.is_same(parameter))
            {
                found.push((path.to_owned(), (**parameter).clone()));
            }
        });
        found
    }

    /// The parameters.
    fn parameters(&self) -> Vec<Tensor> {
        self.named_parameters().into_iter().map(|(_, tensor)| tensor).collect()
    }

    /// Names and buffers.
    fn named_buffers(&self) -> Vec<(String, Tensor)> {
        let mut found = Vec::new();
        self.walk(&mut |path, item| {
            if let Item::Buffer(buffer) = item {
                found.push((path.to_owned(), (**buffer).clone()));
            }
        });
        found
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
        self.walk(&mut |_, item| {
            if let Item::Mode(mode) = item {
                mode.set(training);
            }
        });
    }

    /// Drops the gradients of all parameters.
    ///
    /// # Errors
    /// Those of [`Autograd::set_grad`].
    fn zero_grad(&self) -> Result<()> {
        self.parameters().iter().try_for_each(|parameter| parameter.set_grad(None))
    }

    /// All parameters and buffers by name, detached; they share the module's memory.
    ///
    /// # Errors
    /// Those of `detach`.
    fn state_dict(&self) -> Result<StateDict> {
        state::state_dict(self)
    }

    /// Copies tensors by name into the module.
    ///
    /// # Errors
    /// `Runtime` when a shape differs or, if `strict`, when a name occurs on one side only; nothing
    /// is copied then.
    fn load_state_dict<N: AsRef<str>>(
        &self,
        state: impl IntoIterator<Item = (N, Tensor)>,
        strict: bool,
    ) -> Result<LoadReport> {
        state::load_state_dict(self, state, strict)
    }

    /// Casts all floating-point parameters and buffers, in place.
    ///
    /// # Errors
    /// Those of the casts.
    fn to_dtype(&self, dtype: DType) -> Result<()> {
        let mut result = Ok(());
        self.walk(&mut |_, item| {
            let tensor: &Tensor = match &item {
                Item::Parameter(parameter) => parameter,
                Item::Buffer(buffer) => buffer,
                Item::Mode(_) => return,
            };
            if result.is_ok() && tensor.dtype().is_floating_point() {
                result = cast(tensor, dtype);
            }
        });
        result
    }
}

impl<M: Module + ?Sized> ModuleExt for M {}

fn cast(tensor: &Tensor, dtype: DType) -> Result<()> {
    let cast = corten_autograd::no_grad(|| op::to_dtype(tensor, dtype, false, false, None))?;
    tensor.set_data(&cast)
}
