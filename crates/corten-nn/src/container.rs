//! Modules that hold modules or parameters.

use crate::copy::Memo;
use crate::hooks::Hooks;
use crate::module::{Forward, Layer, Module, ModuleField, Parameter, Visitor};
use crate::print;
use corten_core::{DType, Result};
use corten_ops::Tensor;
use std::ops::{Deref, DerefMut};

/// One entry of a [`Sequential`].
struct Entry {
    name: String,
    module: Box<dyn Layer>,
    /// For modules that have no room for hooks of their own.
    hooks: Hooks,
}

/// Modules called one after another, each with the result of the one before.
#[doc = example!("let net = Sequential::new()
    .with(Linear::new(4, 8)?)
    .with(Relu)
    .with_named(\"out\", Linear::new(8, 2)?);
assert_eq!(net.named_parameters()[3].0, \"out.bias\");
assert_eq!(net.forward(&op::ones(&[3, 4], None, None, None, None)?)?.size(1)?, 2);")]
#[derive(Default)]
pub struct Sequential {
    entries: Vec<Entry>,
    hooks: Hooks,
}

impl Sequential {
    /// No modules: the identity.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a module at the end.
    #[must_use]
    pub fn with(mut self, module: impl Forward) -> Self {
        self.push(module);
        self
    }

    /// Adds a module at the end, under a name instead of its position.
    #[must_use]
    pub fn with_named(mut self, name: &str, module: impl Forward) -> Self {
        self.add(name.to_owned(), Box::new(module));
        self
    }

    /// Adds a module at the end.
    pub fn push(&mut self, module: impl Forward) {
        self.push_boxed(Box::new(module));
    }

    /// Adds a boxed module at the end.
    pub fn push_boxed(&mut self, module: Box<dyn Layer>) {
        // A name that was given may be a number.
        let is_free = |name: &String| self.entries.iter().all(|entry| entry.name != *name);
        let name = (self.entries.len()..).map(|number| number.to_string()).find(is_free);
        self.add(name.unwrap_or_default(), module);
    }

    /// A module of a known name takes the place of the one there, as names are those of a state dict.
    fn add(&mut self, name: String, module: Box<dyn Layer>) {
        let entry = Entry { name, module, hooks: Hooks::default() };
        match self.entries.iter_mut().find(|known| known.name == entry.name) {
            Some(known) => *known = entry,
            None => self.entries.push(entry),
        }
    }

    /// How many modules there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The module at a position.
    pub fn get(&self, position: usize) -> Option<&dyn Layer> {
        self.entries.get(position).map(|entry| &*entry.module)
    }

    /// The modules in their order.
    pub fn iter(&self) -> impl Iterator<Item = &dyn Layer> {
        self.entries.iter().map(|entry| &*entry.module)
    }

    /// The hooks of a place, for modules that have none of their own.
    pub(crate) fn hooks_at(&self, name: &str) -> Option<&Hooks> {
        self.entries.iter().find(|entry| entry.name == name).map(|entry| &entry.hooks)
    }
}

impl Module for Sequential {
    fn visit<'a>(&'a self, visitor: &mut Visitor<'a>) {
        for entry in &self.entries {
            visitor.field(&entry.name, &entry.module);
        }
    }

    fn name(&self) -> &'static str {
        "Sequential"
    }

    fn hooks(&self) -> Option<&Hooks> {
        Some(&self.hooks)
    }

    fn deep_clone_with(&self, memo: &mut Memo) -> Result<Self> {
        // Bounded: the modules that there are.
        let mut copy = Self { entries: Vec::with_capacity(self.len()), hooks: self.hooks.clone() };
        for Entry { name, module, hooks } in &self.entries {
            let (name, module, hooks) = (name.clone(), module.boxed_copy(memo)?, hooks.clone());
            copy.entries.push(Entry { name, module, hooks });
        }
        Ok(copy)
    }
}

impl Forward for Sequential {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        self.entries.iter().try_fold(input.clone(), |x, entry| match entry.hooks.present() {
            None => entry.module.call(&x),
            Some(hooks) => hooks.around(&x, |x| entry.module.call(x)),
        })
    }
}

impl FromIterator<Box<dyn Layer>> for Sequential {
    fn from_iter<I: IntoIterator<Item = Box<dyn Layer>>>(modules: I) -> Self {
        let mut made = Self::new();
        modules.into_iter().for_each(|module| made.push_boxed(module));
        made
    }
}

print::printed!(Sequential);

/// A list of modules of one type, named by their positions; `Vec` is one too.
#[doc = example!("let layers: ModuleList<Linear> = (0..2).map(|_| Linear::new(3, 3)).collect::<Result<_>>()?;
assert_eq!(
    layers.to_string(),
    \"ModuleList(\\n  (0-1): 2 x Linear(in_features=3, out_features=3, bias=True)\\n)\"
);")]
pub struct ModuleList<M>(Vec<M>);

impl<M> Default for ModuleList<M> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<M> From<Vec<M>> for ModuleList<M> {
    fn from(modules: Vec<M>) -> Self {
        Self(modules)
    }
}

impl<M> FromIterator<M> for ModuleList<M> {
    fn from_iter<I: IntoIterator<Item = M>>(modules: I) -> Self {
        Self(modules.into_iter().collect())
    }
}

impl<M> Deref for ModuleList<M> {
    type Target = Vec<M>;

    fn deref(&self) -> &Vec<M> {
        &self.0
    }
}

impl<M> DerefMut for ModuleList<M> {
    fn deref_mut(&mut self) -> &mut Vec<M> {
        &mut self.0
    }
}

impl<M: Module> Module for ModuleList<M> {
    fn visit<'a>(&'a self, visitor: &mut Visitor<'a>) {
        self.0.visit(visitor);
    }

    fn name(&self) -> &'static str {
        "ModuleList"
    }

    fn describe(&self) -> String {
        self.0.describe()
    }

    fn deep_clone_with(&self, memo: &mut Memo) -> Result<Self> {
        self.0.deep_clone_with(memo).map(Self)
    }
}

impl<M: Forward> Forward for ModuleList<M> {
    /// One after another, as in [`Sequential`].
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        self.0.iter().try_fold(input.clone(), |x, module| module.call(&x))
    }
}

print::printed!(ModuleList<M: Module>);

/// Entries by name, in the order in which they were added.
macro_rules! dictionary {
    ($(#[$attribute:meta])* $name:ident [$($generic:tt)*] [$($argument:tt)*], $type:ty) => {
        $(#[$attribute])*
        pub struct $name $($generic)* (Vec<(String, $type)>);

        impl $($generic)* $name $($argument)* {
            /// No entries.
            pub fn new() -> Self {
                Self(Vec::new())
            }

            /// Adds an entry, or replaces the one of this name.
            pub fn insert(&mut self, name: &str, value: $type) -> Option<$type> {
                match self.0.iter_mut().find(|(known, _)| known == name) {
                    Some((_, held)) => Some(std::mem::replace(held, value)),
                    None => {
                        self.0.push((name.to_owned(), value));
                        None
                    }
                }
            }

            /// Takes an entry out.
            pub fn remove(&mut self, name: &str) -> Option<$type> {
                let position = self.0.iter().position(|(known, _)| known == name)?;
                Some(self.0.remove(position).1)
            }

            /// The entry of a name.
            pub fn get(&self, name: &str) -> Option<&$type> {
                self.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
            }

            /// The entries in the order in which they were added.
            pub fn iter(&self) -> impl Iterator<Item = (&str, &$type)> {
                self.0.iter().map(|(name, value)| (&**name, value))
            }

            /// How many entries there are.
            pub fn len(&self) -> usize {
                self.0.len()
            }

            /// Whether there are none.
            pub fn is_empty(&self) -> bool {
                self.0.is_empty()
            }

            fn copied(&self, memo: &mut Memo) -> Result<Self> {
                let copy = |(name, value): (&str, &$type)| {
                    Ok((name.to_owned(), value.deep_clone_field(memo)?))
                };
                self.iter().map(copy).collect::<Result<_>>().map(Self)
            }
        }

        impl $($generic)* Default for $name $($argument)* {
            fn default() -> Self {
                Self::new()
            }
        }

        impl $($generic)* FromIterator<(String, $type)> for $name $($argument)* {
            fn from_iter<I: IntoIterator<Item = (String, $type)>>(entries: I) -> Self {
                let mut made = Self::new();
                for (name, value) in entries {
                    made.insert(&name, value);
                }
                made
            }
        }
    };
}

dictionary!(
    /// Modules of one type by name, in the order in which they were added; `HashMap` and `BTreeMap`
    /// are modules too, in the order of their keys.
    #[doc = example!("let mut heads = ModuleDict::new();
heads.insert(\"left\", Linear::new(2, 2)?);
assert_eq!(heads.named_parameters()[0].0, \"left.weight\");")]
    ModuleDict [<M: Module>] [<M>], M
);

impl<M: Module> Module for ModuleDict<M> {
    fn visit<'a>(&'a self, visitor: &mut Visitor<'a>) {
        for (name, module) in &self.0 {
            visitor.field(name, module);
        }
    }

    fn name(&self) -> &'static str {
        "ModuleDict"
    }

    fn deep_clone_with(&self, memo: &mut Memo) -> Result<Self> {
        self.copied(memo)
    }
}

print::printed!(ModuleDict<M: Module>);

dictionary!(
    /// Parameters by name, in the order in which they were added.
    #[doc = example!("let mut scales = ParameterDict::new();
scales.insert(\"left\", Parameter::new(op::ones(&[2], None, None, None, None)?)?);
assert_eq!(scales.named_parameters()[0].0, \"left\");")]
    ParameterDict [] [], Parameter
);

impl Module for ParameterDict {
    fn visit<'a>(&'a self, visitor: &mut Visitor<'a>) {
        for (name, parameter) in &self.0 {
            visitor.field(name, parameter);
        }
    }

    fn name(&self) -> &'static str {
        "ParameterDict"
    }

    fn extra_repr(&self) -> String {
        let line = |(name, one): (&str, &Parameter)| line(name, one, &type_name(one));
        self.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    fn deep_clone_with(&self, memo: &mut Memo) -> Result<Self> {
        self.copied(memo)
    }
}

print::printed!(ParameterDict);

/// Parameters named by their positions.
#[doc = example!("let scales: ParameterList =
    (0..2).map(|_| Parameter::new(op::ones(&[2], None, None, None, None)?)).collect::<Result<_>>()?;
assert_eq!(scales.parameter_count(), 4);")]
#[derive(Default)]
pub struct ParameterList(Vec<Parameter>);

impl FromIterator<Parameter> for ParameterList {
    fn from_iter<I: IntoIterator<Item = Parameter>>(parameters: I) -> Self {
        Self(parameters.into_iter().collect())
    }
}

impl Deref for ParameterList {
    type Target = Vec<Parameter>;

    fn deref(&self) -> &Vec<Parameter> {
        &self.0
    }
}

impl DerefMut for ParameterList {
    fn deref_mut(&mut self) -> &mut Vec<Parameter> {
        &mut self.0
    }
}

impl Module for ParameterList {
    fn visit<'a>(&'a self, visitor: &mut Visitor<'a>) {
        for (i, parameter) in self.0.iter().enumerate() {
            visitor.field(&i.to_string(), parameter);
        }
    }

    fn name(&self) -> &'static str {
        "ParameterList"
    }

    fn extra_repr(&self) -> String {
        let line = |(i, one): (usize, &Parameter)| {
            line(&i.to_string(), one, &format!("torch.{}", one.dtype().name()))
        };
        self.0.iter().enumerate().map(line).collect::<Vec<_>>().join("\n")
    }

    fn deep_clone_with(&self, memo: &mut Memo) -> Result<Self> {
        let copy = |parameter: &Parameter| parameter.deep_clone_field(memo);
        self.0.iter().map(copy).collect::<Result<_>>().map(Self)
    }
}

print::printed!(ParameterList);

/// What is printed of one parameter of a type.
fn line(name: &str, parameter: &Parameter, kind: &str) -> String {
    let sizes: Vec<String> = parameter.sizes().iter().map(i64::to_string).collect();
    let device = parameter.device();
    let place = if device.is_cpu() { String::new() } else { format!(" (GPU {})", device.index) };
    format!("  ({name}): Parameter containing: [{kind} of size {}{place}]", sizes.join("x"))
}

/// PyTorch's older name of the type of a tensor, which dictionaries print.
fn type_name(parameter: &Parameter) -> String {
    let name = match parameter.dtype() {
        DType::Float64 => "Double",
        DType::Float16 => "Half",
        DType::BFloat16 => "BFloat16",
        DType::Complex64 => "ComplexFloat",
        DType::Complex128 => "ComplexDouble",
        _ => "Float",
    };
    let place = if parameter.device().is_cpu() { "" } else { "cuda." };
    format!("torch.{place}{name}Tensor")
}
