//! What can be a field of a module.

use crate::copy::Memo;
use crate::module::{Buffer, Forward, Item, Layer, Mode, Module, ModuleField, Parameter, Visitor};
use crate::print;
use corten_autograd::Autograd;
use corten_core::{Result, bug};
use corten_ops::Tensor;
use std::collections::{BTreeMap, HashMap};
use std::marker::PhantomData;
use std::sync::Arc;

impl ModuleField for Parameter {
    fn show<'a>(&'a self, visitor: &mut Visitor<'a>) {
        visitor.item(Item::Parameter(self));
    }

    fn deep_clone_field(&self, memo: &mut Memo) -> Result<Self> {
        Self::with(memo.copy(self)?, self.requires_grad())
    }
}

impl ModuleField for Buffer {
    fn show<'a>(&'a self, visitor: &mut Visitor<'a>) {
        visitor.item(Item::Buffer(self));
    }

    fn deep_clone_field(&self, memo: &mut Memo) -> Result<Self> {
        let tensor = memo.copy(self)?;
        Ok(if self.is_persistent() { Self::new(tensor) } else { Self::transient(tensor) })
    }
}

impl ModuleField for Mode {
    fn show<'a>(&'a self, visitor: &mut Visitor<'a>) {
        visitor.item(Item::Mode(self));
    }

    fn deep_clone_field(&self, _: &mut Memo) -> Result<Self> {
        Ok(self.clone())
    }
}

impl<F: ModuleField> ModuleField for Option<F> {
    fn show<'a>(&'a self, visitor: &mut Visitor<'a>) {
        if let Some(field) = self {
            field.show(visitor);
        }
    }

    fn deep_clone_field(&self, memo: &mut Memo) -> Result<Self> {
        self.as_ref().map(|field| field.deep_clone_field(memo)).transpose()
    }
}

impl<M: Module> ModuleField for M {
    fn show<'a>(&'a self, visitor: &mut Visitor<'a>) {
        visitor.item(Item::Module(self.target()));
    }

    fn deep_clone_field(&self, memo: &mut Memo) -> Result<Self> {
        self.deep_clone_with(memo)
    }
}

macro_rules! settings {
    (@one [$($parameters:tt)*] $type:ty) => {
        impl<$($parameters)*> ModuleField for $type {
            fn show<'a>(&'a self, _: &mut Visitor<'a>) {}

            fn deep_clone_field(&self, _: &mut Memo) -> Result<Self> {
                Ok(self.clone())
            }
        }
    };
    (arrays: $($type:ty),+) => {
        $(settings!(@one [const N: usize] [$type; N]);)+
    };
    ($($type:ty),+ $(,)?) => {
        $(settings!(@one [] $type);)+
    };
}

settings!(arrays: bool, i64, usize, f32, f64);
settings!(
    (),
    bool,
    char,
    i8,
    i16,
    i32,
    i64,
    isize,
    u8,
    u16,
    u32,
    u64,
    usize,
    f32,
    f64,
    String,
    &'static str,
    Vec<bool>,
    Vec<i64>,
    Vec<usize>,
    Vec<f32>,
    Vec<f64>,
    Vec<String>,
    corten_core::DType,
    corten_core::Device,
    corten_core::Scalar,
);

impl<T: Send + Sync + 'static> ModuleField for PhantomData<T> {
    fn show<'a>(&'a self, _: &mut Visitor<'a>) {}

    fn deep_clone_field(&self, _: &mut Memo) -> Result<Self> {
        Ok(*self)
    }
}

/// A module behind a pointer is the module.
macro_rules! pointer {
    ($($pointer:ident),+) => {$(
        impl<M: Module> Module for $pointer<M> {
            delegated!();

            fn deep_clone_with(&self, memo: &mut Memo) -> Result<Self> {
                Ok($pointer::new((**self).deep_clone_with(memo)?))
            }
        }

        impl<M: Forward> Forward for $pointer<M> {
            fn forward(&self, input: &Tensor) -> Result<Tensor> {
                (**self).call(input)
            }
        }
    )+};
}

macro_rules! delegated {
    () => {
        fn visit<'a>(&'a self, visitor: &mut Visitor<'a>) {
            (**self).visit(visitor);
        }

        fn name(&self) -> &'static str {
            (**self).name()
        }

        fn extra_repr(&self) -> String {
            (**self).extra_repr()
        }

        fn describe(&self) -> String {
            (**self).describe()
        }

        fn target(&self) -> &dyn Module {
            (**self).target()
        }

        fn materialize(&self, shape_of: &dyn Fn(&str) -> Option<Vec<i64>>) -> Result<()> {
            (**self).materialize(shape_of)
        }
    };
}

pointer!(Box, Arc);

impl Module for Box<dyn Layer> {
    delegated!();

    fn deep_clone_with(&self, memo: &mut Memo) -> Result<Self> {
        (**self).boxed_copy(memo)
    }
}

impl Forward for Box<dyn Layer> {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        (**self).call(input)
    }
}

/// Modules in a row, named by their positions.
macro_rules! row {
    ($([$($parameters:tt)*] $type:ty, |$items:ident, $memo:ident| $copy:expr;)+) => {$(
        impl<$($parameters)*> Module for $type {
            fn visit<'a>(&'a self, visitor: &mut Visitor<'a>) {
                for (i, module) in self.iter().enumerate() {
                    visitor.field(&i.to_string(), module);
                }
            }

            fn name(&self) -> &'static str {
                "ModuleList"
            }

            fn describe(&self) -> String {
                print::list(self.name(), &print::children(self))
            }

            fn deep_clone_with(&self, $memo: &mut Memo) -> Result<Self> {
                let $items = self;
                $copy
            }
        }
    )+};
}

row! {
    [M: Module] Vec<M>, |items, memo| items.iter().map(|m| m.deep_clone_with(memo)).collect();
    [M: Module, const N: usize] [M; N], |items, memo| {
        let copies = items.iter().map(|m| m.deep_clone_with(memo)).collect::<Result<Vec<M>>>()?;
        match copies.try_into() {
            Ok(copies) => Ok(copies),
            Err(_) => bug!("an array of another length"),
        }
    };
}

/// Modules by name.
macro_rules! dictionary {
    ($($type:ident, |$map:ident| $entries:expr;)+) => {$(
        impl<M: Module> Module for $type<String, M> {
            fn visit<'a>(&'a self, visitor: &mut Visitor<'a>) {
                let $map = self;
                for (name, module) in $entries {
                    visitor.field(name, module);
                }
            }

            fn name(&self) -> &'static str {
                "ModuleDict"
            }

            fn deep_clone_with(&self, memo: &mut Memo) -> Result<Self> {
                let copied = |(name, module): (&String, &M)| {
                    Ok((name.clone(), module.deep_clone_with(memo)?))
                };
                self.iter().map(copied).collect()
            }
        }
    )+};
}

dictionary! {
    BTreeMap, |map| map;
    HashMap, |map| sorted(map);
}

/// The order of a hash map is different in every process; that of names is not.
fn sorted<M>(map: &HashMap<String, M>) -> Vec<(&String, &M)> {
    let mut entries: Vec<(&String, &M)> = map.iter().collect();
    entries.sort_by_key(|(name, _)| *name);
    entries
}
