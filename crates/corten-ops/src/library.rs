//! Operators and kernels from outside the tree.

use crate::boxed::Stack;
use crate::dispatch::{BoxedCall, BoxedKernel, OpTable, Registration, Target, set_fallback};
use crate::registry::{self, AnyOp, Cost, Gradient, OpDef, OpKind};
use crate::schema::Schema;
use corten_core::{DispatchKey, Result, bail, bug};
use std::sync::Arc;

/// A namespace to define operators in and to add kernels to.
///
/// ```
/// use corten_ops::{IValue, Library, Target, Tensor};
///
/// corten_ops::init();
/// let library = Library::new("my_ops");
/// let twice = library.define("twice(Tensor self) -> Tensor")?;
/// library.implement("twice", Target::CompositeImplicitAutograd, |_call, stack| {
///     let input: &Tensor = stack[0].get()?;
///     let result = corten_ops::op::add_tensor(input, input, 1.into())?;
///     stack.replace(result);
///     Ok(())
/// })?.keep();
/// assert_eq!(twice.def().qualified_name(), "my_ops::twice");
/// # Ok::<(), corten_core::Error>(())
/// ```
pub struct Library {
    namespace: &'static str,
}

impl Library {
    /// A library for a namespace.
    pub fn new(namespace: &str) -> Self {
        Self { namespace: leak(namespace) }
    }

    /// Defines an operator from its schema, written without the namespace.
    ///
    /// # Errors
    /// `Runtime` when the schema does not parse or the operator exists.
    pub fn define(&self, schema: &str) -> Result<&'static dyn AnyOp> {
        let parsed = match Schema::parse(schema) {
            Ok(parsed) => parsed,
            Err(error) => bail!(Runtime, "{error}"),
        };
        let def = OpDef {
            name: leak(&parsed.name),
            overload: leak(&parsed.overload),
            namespace: self.namespace,
            schema: leak(schema),
            kind: kind_of(&parsed),
            function: true,
            method: false,
            python: &[],
            doc: "",
            source: "",
            implementation: "library",
            gradient: Gradient::Unknown,
            batch: None,
            names: None,
            cost: Cost::Stream,
            autocast: None,
            autocast_cuda: None,
            tags: &[],
            is_view_inplace: false,
            uint64: None,
            numbers: false,
            deprecated: &[],
            formulas: &[],
        };
        let name = def.qualified_name();
        if registry::find(&name).is_some() {
            bail!(Runtime, "Tried to register an operator ({name}) that is already registered.");
        }
        // Operators live as long as the program, as those of the registry do.
        let def: &'static OpDef = Box::leak(Box::new(def));
        let op: &'static OpTable = Box::leak(Box::new(OpTable::outside(def)));
        registry::add_from_outside(op);
        Ok(op)
    }

    /// Adds a kernel to an operator: `name.overload` of this namespace, or qualified by another.
    ///
    /// # Errors
    /// `Runtime` when there is no such operator.
    pub fn implement(
        &self,
        name: &str,
        target: impl Into<Target>,
        kernel: impl Fn(&BoxedCall, &mut Stack) -> Result<()> + Send + Sync + 'static,
    ) -> Result<Registration> {
        Ok(self.find(name)?.implement_boxed(target.into(), Arc::new(kernel)))
    }

    /// Lets calls of an operator pass a key.
    ///
    /// # Errors
    /// `Runtime` when there is no such operator.
    pub fn fallthrough(&self, name: &str, target: impl Into<Target>) -> Result<Registration> {
        Ok(self.find(name)?.pass_through(target.into()))
    }

    /// Sets the kernel for every operator that has none at `key`.
    pub fn fallback(&self, key: DispatchKey, kernel: BoxedKernel) {
        set_fallback(key, kernel);
    }

    fn find(&self, name: &str) -> Result<&'static dyn AnyOp> {
        let qualified = match name.contains("::") {
            true => name.to_owned(),
            false => format!("{}::{name}", self.namespace),
        };
        match registry::find(&qualified) {
            Some(op) => Ok(op),
            None => bail!(Runtime, "operator {qualified} does not exist"),
        }
    }
}

fn leak(text: &str) -> &'static str {
    Box::leak(text.to_owned().into_boxed_str())
}

fn kind_of(schema: &Schema) -> OpKind {
    let mut written = schema.arguments.iter().filter(|argument| argument.is_written());
    match written.next_back() {
        Some(argument) if argument.kwarg_only => OpKind::Out,
        Some(_) => OpKind::Inplace,
        None if schema.arguments.iter().any(|argument| argument.is_aliased()) => OpKind::View,
        None => OpKind::Functional,
    }
}

/// Calls an operator by name with arguments in schema order.
///
/// # Errors
/// `Runtime` when there is no such operator; its own errors.
pub fn call(name: &str, stack: &mut Stack) -> Result<()> {
    match registry::find(name) {
        Some(op) => op.call_boxed(stack),
        None => bug!("operator {name} does not exist"),
    }
}
