//! Modules that hold modules.

use crate::module::{Module, Visitor};
use corten_core::Result;
use corten_ops::Tensor;
use std::ops::Deref;

/// Modules called one after another, each with the result of the one before.
#[derive(Default)]
pub struct Sequential {
    modules: Vec<Box<dyn Module>>,
}

impl Sequential {
    /// No modules: the identity.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a module at the end.
    #[must_use]
    pub fn with(mut self, module: impl Module + 'static) -> Self {
        self.push(module);
        self
    }

    /// Adds a module at the end.
    pub fn push(&mut self, module: impl Module + 'static) {
        self.modules.push(Box::new(module));
    }

    /// How many modules there are.
    pub fn len(&self) -> usize {
        self.modules.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.modules.is_empty()
    }
}

impl Module for Sequential {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        for (i, module) in self.modules.iter().enumerate() {
            visitor.part(&i.to_string(), module);
        }
    }

    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        self.modules.iter().try_fold(input.clone(), |x, module| module.forward(&x))
    }
}

/// A list of modules of one type, named by their positions.
pub struct ModuleList<M>(Vec<M>);

impl<M> FromIterator<M> for ModuleList<M> {
    fn from_iter<I: IntoIterator<Item = M>>(modules: I) -> Self {
        Self(modules.into_iter().collect())
    }
}

impl<M> Deref for ModuleList<M> {
    type Target = [M];

    fn deref(&self) -> &[M] {
        &self.0
    }
}

impl<M: Module> Module for ModuleList<M> {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        for (i, module) in self.0.iter().enumerate() {
            visitor.part(&i.to_string(), module);
        }
    }

    /// One after another, as in [`Sequential`].
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        self.0.iter().try_fold(input.clone(), |x, module| module.forward(&x))
    }
}
