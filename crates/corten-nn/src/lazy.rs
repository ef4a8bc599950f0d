//! Modules that learn their sizes from their first input.

use crate::copy::Memo;
use crate::empty;
use crate::ext::ModuleExt;
use crate::module::{Item, Mode, Module, Visitor};
use corten_core::{Result, bug, default_cpu_generator};
use corten_ops::Tensor;
use std::sync::{Arc, OnceLock};

/// Looks up the shape of a tensor that is about to be loaded.
pub(crate) type Shapes<'a> = &'a dyn Fn(&str) -> Option<Vec<i64>>;

type Build<M> = dyn Fn(i64) -> Result<M> + Send + Sync;
type SizeIn = dyn Fn(Shapes<'_>) -> Option<i64> + Send + Sync;

/// A module that is made once its number of inputs is known.
pub(crate) struct Lazy<M> {
    made: OnceLock<M>,
    mode: Mode,
    /// Carries the device and dtype that the module is to have.
    placeholder: OnceLock<Tensor>,
    repr: String,
    build: Arc<Build<M>>,
    size_of: fn(&Tensor) -> Result<i64>,
    size_in: Arc<SizeIn>,
}

impl<M: Module> Lazy<M> {
    /// A module made by `build` from the number that `size_of` finds in its first input, or
    /// `size_in` in the shapes of a state dict.
    pub(crate) fn new(
        repr: String,
        build: impl Fn(i64) -> Result<M> + Send + Sync + 'static,
        size_of: fn(&Tensor) -> Result<i64>,
        size_in: impl Fn(Shapes<'_>) -> Option<i64> + Send + Sync + 'static,
    ) -> Self {
        let placeholder = empty(&[0]).map(OnceLock::from).unwrap_or_default();
        let (made, mode) = (OnceLock::new(), Mode::default());
        let (build, size_in) = (Arc::new(build), Arc::new(size_in));
        Self { made, mode, placeholder, repr, build, size_of, size_in }
    }

    /// The module, made now if this is its first input.
    pub(crate) fn made_for(&self, input: &Tensor) -> Result<&M> {
        match self.made.get() {
            Some(made) => Ok(made),
            None => self.make((self.size_of)(input)?),
        }
    }

    fn make(&self, size: i64) -> Result<&M> {
        let made = (self.build)(size)?;
        if let Some(placeholder) = self.placeholder.get() {
            made.to(Some(placeholder.device()), Some(placeholder.dtype()))?;
        }
        made.set_training(self.mode.training());
        // Another thread may have been faster: its module counts.
        Ok(self.made.get_or_init(|| made))
    }

    pub(crate) fn made(&self) -> Option<&M> {
        self.made.get()
    }

    pub(crate) fn visit<'a>(&'a self, visitor: &mut Visitor<'a>) {
        if let Some(made) = self.made.get() {
            return made.visit(visitor);
        }
        visitor.item(Item::Mode(&self.mode));
        if let Some(placeholder) = self.placeholder.get() {
            visitor.item(Item::Uninitialized(placeholder));
        }
    }

    pub(crate) fn repr(&self) -> String {
        self.made.get().map_or(self.repr.clone(), M::extra_repr)
    }

    pub(crate) fn materialize(&self, shape_of: Shapes<'_>) -> Result<()> {
        if self.made.get().is_some() {
            return Ok(());
        }
        let Some(size) = (self.size_in)(shape_of) else { return Ok(()) };
        // What is loaded replaces the numbers that are drawn now.
        let generator = default_cpu_generator();
        let before = generator.get_state();
        let made = self.make(size).map(drop);
        generator.set_state(&before)?;
        made
    }

    pub(crate) fn deep_clone_with(&self, memo: &mut Memo) -> Result<Self> {
        let made = match self.made.get() {
            Some(made) => OnceLock::from(made.deep_clone_with(memo)?),
            None => OnceLock::new(),
        };
        let Some(placeholder) = self.placeholder.get() else { bug!("a lazy module without dtype") };
        Ok(Self {
            made,
            mode: self.mode.clone(),
            placeholder: OnceLock::from(memo.copy(placeholder)?),
            repr: self.repr.clone(),
            build: self.build.clone(),
            size_of: self.size_of,
            size_in: self.size_in.clone(),
        })
    }
}

/// The type of a lazy module: a [`Lazy`] that is printed and visited as what it becomes.
macro_rules! lazy_module {
    ($(#[$attribute:meta])* $name:ident => $made:ident) => {
        $(#[$attribute])*
        pub struct $name(crate::lazy::Lazy<$made>);

        impl $name {
            /// The module, once there was an input.
            pub fn made(&self) -> Option<&$made> {
                self.0.made()
            }
        }

        impl crate::module::Module for $name {
            fn visit<'a>(&'a self, visitor: &mut crate::module::Visitor<'a>) {
                self.0.visit(visitor);
            }

            fn name(&self) -> &'static str {
                self.0.made().map_or(stringify!($name), |made| made.name())
            }

            fn extra_repr(&self) -> String {
                self.0.repr()
            }

            fn target(&self) -> &dyn crate::module::Module {
                match self.0.made() {
                    Some(made) => made,
                    None => self,
                }
            }

            fn hooks(&self) -> Option<&crate::hooks::Hooks> {
                self.0.made().and_then(|made| made.hooks())
            }

            fn materialize(&self, shape_of: crate::lazy::Shapes<'_>) -> corten_core::Result<()> {
                self.0.materialize(shape_of)
            }

            fn deep_clone_with(
                &self,
                memo: &mut crate::copy::Memo,
            ) -> corten_core::Result<Self> {
                Ok(Self(self.0.deep_clone_with(memo)?))
            }
        }

        crate::print::printed!($name);

        impl crate::module::Forward for $name {
            fn forward(
                &self,
                input: &corten_ops::Tensor,
            ) -> corten_core::Result<corten_ops::Tensor> {
                self.0.made_for(input)?.call(input)
            }
        }
    };
}

pub(crate) use lazy_module;
