//! Names of dimensions: their inference through operators, and the methods that give and use them.
//!
//! A call with a named tensor arrives at the key `Named` (see Note [Place of the key `Named`] in
//! `corten-core`). Its kernel asks the rule that the operator's block names for the names of the
//! results, which checks those of the arguments, calls the operator without the key, and names the
//! results. An operator without a rule refuses named tensors.

mod call;
mod methods;
pub(crate) mod rules;
mod unify;

pub use call::Call;
pub use methods::IntoNames;
pub(crate) use methods::tuple_of;
pub use unify::unify_from_right;

use crate::boxed::{IValue, Stack};
use crate::dispatch::{BoxedCall, set_fallback};
use crate::registry::{OpDef, OpKind};
use crate::{Tensor, op};
use corten_core::{DimName, DispatchKey, ExcludeGuard, NAMED, Result, ShownNames, bail, ensure};
use std::sync::Arc;

/// How the names of an operator's results follow from those of its arguments.
///
/// ```
/// use corten::ops::registry;
///
/// let rule = registry::find("aten::exp").and_then(|op| op.def().names);
/// assert!(rule.is_some_and(|rule| !rule.is_given()));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// The name in the registry.
    pub name: &'static str,
    /// Checks the names of the arguments and gives those of the results.
    pub infer: fn(&Call<'_>) -> Result<Inferred>,
}

impl Rule {
    /// Whether a call gives the names of the result: a factory.
    pub fn is_given(&self) -> bool {
        self.name == "given"
    }

    /// Whether the operators that this one calls infer the names.
    pub fn is_of_parts(&self) -> bool {
        self.name == "parts"
    }
}

/// What a rule says of the results.
///
/// ```
/// use corten::ops::names::Inferred;
///
/// assert!(matches!(Inferred::All(vec![Some("N".into())]), Inferred::All(names) if names.len() == 1));
/// ```
#[derive(Clone, Debug)]
pub enum Inferred {
    /// All have these names.
    All(Vec<DimName>),
    /// None has names.
    Unnamed,
    /// The call needs no kernel: this is its result.
    Answer(bool),
}

/// Registers the kernel.
pub(crate) fn register() {
    set_fallback(DispatchKey::Named, Arc::new(named));
}

/// Calls `body` without inference: names are neither checked nor given to results.
pub fn without_names<R>(body: impl FnOnce() -> R) -> R {
    let _excluded = ExcludeGuard::new(NAMED);
    body()
}

fn named(call: &BoxedCall, stack: &mut Stack) -> Result<()> {
    let def = call.op().def();
    let Some(rule) = def.names else {
        bail!(
            Runtime,
            "{} is not yet supported with named tensors. Please drop names via `tensor = \
             tensor.rename(None)`, call the op with an unnamed tensor, and set names on the result \
             of the operation.",
            def.qualified_name()
        );
    };
    let inferred = (rule.infer)(&Call::new(call.op(), stack))?;
    if let Inferred::Answer(answer) = inferred {
        stack.replace(answer);
        return Ok(());
    }
    let (written, read) = tensors(call, stack);
    check_written(def, &written, &inferred)?;
    without_names(|| call.redispatch(stack))?;
    if stack.is_empty() {
        written.iter().try_for_each(|tensor| assign(tensor, &inferred))?;
    }
    for value in stack.iter_mut() {
        name_value(value, &inferred, &read)?;
    }
    Ok(())
}

/// The tensors that a call writes to, and those that it only reads.
fn tensors(call: &BoxedCall, stack: &Stack) -> (Vec<Tensor>, Vec<Tensor>) {
    let (mut written, mut read) = (Vec::new(), Vec::new());
    for (argument, value) in call.op().schema().arguments.iter().zip(stack.iter()) {
        let list = if argument.is_written() { &mut written } else { &mut read };
        value.for_each_tensor(&mut |tensor| list.push(tensor.clone()));
    }
    (written, read)
}

/// A tensor with names is only written to where the results have the same.
fn check_written(def: &OpDef, written: &[Tensor], inferred: &Inferred) -> Result<()> {
    if def.is_view_inplace {
        return Ok(());
    }
    for tensor in written.iter().filter(|tensor| tensor.has_names()) {
        let (own, rank) = (tensor.dim_names(), tensor.dim());
        let names = match inferred {
            Inferred::All(names) => names.clone(),
            // Bounded: dimensions.
            _ => vec![None; rank],
        };
        // In place, the operator itself refuses results of another shape.
        let other_shape = def.kind == OpKind::Inplace && names.len() != rank;
        ensure!(
            own == names || other_shape,
            Runtime,
            "Name mismatch: specified out tensor with names {} are not the same as the computed \
             output names {}. Please rename the out tensor's dims with `Tensor.rename`.",
            ShownNames(&own),
            ShownNames(&names)
        );
    }
    Ok(())
}

/// Names the tensors of one result.
fn name_value(value: &mut IValue, inferred: &Inferred, read: &[Tensor]) -> Result<()> {
    let one = |tensor: &mut Tensor| {
        // An argument that is given back keeps the names that it has.
        if !is_named_so(tensor, inferred) && read.iter().any(|other| other.is_same(tensor)) {
            *tensor = without_names(|| op::alias(tensor))?;
        }
        assign(tensor, inferred)
    };
    match value {
        IValue::Tensor(tensor) => one(tensor),
        IValue::TensorList(list) => list.iter_mut().try_for_each(one),
        _ => Ok(()),
    }
}

fn is_named_so(tensor: &Tensor, inferred: &Inferred) -> bool {
    match inferred {
        Inferred::All(names) => tensor.dim_names() == *names,
        _ => !tensor.has_names(),
    }
}

fn assign(tensor: &Tensor, inferred: &Inferred) -> Result<()> {
    if !tensor.defined() || is_named_so(tensor, inferred) {
        return Ok(());
    }
    match inferred {
        Inferred::All(names) => tensor.set_names(Some(names)),
        _ => tensor.set_names(None),
    }
}
