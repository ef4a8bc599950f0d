//! Operators on the entries alone: those that keep zero zero.

use super::Matrices;
use crate::boxed::Stack;
use crate::dispatch::{BoxedCall, replace_arguments, replace_tensors, restore, set_fallback};
use crate::registry::{self, OpDef, OpKind};
use crate::sparse::store;
use crate::{Tensor, op};
use corten_core::{DispatchKey, Generator, Result, Scalar, bail};
use std::sync::Arc;

/// The set of operators that are computed by the entries alone.
const KEEPS_ZERO: &str = "keeps_zero_compressed";

/// Registers what computes operators that have no kernel for compressed tensors.
pub(crate) fn register() {
    use DispatchKey::{SparseCsrCPU, SparseCsrCUDA, SparseCsrMeta};
    for key in [SparseCsrCPU, SparseCsrCUDA, SparseCsrMeta] {
        set_fallback(key, Arc::new(move |call, stack| on_values(key, call, stack)));
    }
}

/// Whether an operator is computed by the entries alone; forms that write are tagged by what they write.
fn keeps_zero(def: &OpDef) -> bool {
    let is_tagged = |def: &OpDef| def.tags.contains(&KEEPS_ZERO);
    if matches!(def.kind, OpKind::Functional | OpKind::View) || is_tagged(def) {
        return is_tagged(def);
    }
    let name = def.name.strip_suffix('_').unwrap_or(def.name);
    let declared = registry::find(&format!("{}::{name}", def.namespace));
    declared.is_some_and(|op| is_tagged(op.def()))
}

/// Runs an operator that keeps zero zero on the values of its compressed arguments.
fn on_values(key: DispatchKey, call: &BoxedCall, stack: &mut Stack) -> Result<()> {
    let def = call.op().def();
    let mut pattern: Option<Matrices> = None;
    for value in stack.iter() {
        value.for_each_tensor(&mut |tensor| {
            if pattern.is_none() {
                pattern = Matrices::of(tensor);
            }
        });
    }
    let Some(pattern) = pattern.filter(|_| keeps_zero(def)) else {
        bail!(
            NotImplemented,
            "Could not run '{}' with arguments from the '{key}' backend. This could be because the \
             operator doesn't exist for this backend, or was omitted during the selective/custom build \
             process (if using custom build).",
            def.qualified_name()
        );
    };
    if def.kind == OpKind::Out {
        return into_output(call, stack, &pattern);
    }
    let written = replace_arguments(call, stack, &mut |tensor, _| {
        Ok(Matrices::of(tensor).map(|x| x.parts.values))
    })?;
    call.op().call_boxed(stack)?;
    if def.kind == OpKind::Inplace {
        return restore(stack, &written);
    }
    for value in stack.iter_mut() {
        replace_tensors(value, &mut |values| pattern.with_values(values.clone()).tensor())?;
    }
    Ok(())
}

/// Runs an out form: the output is given the places of the argument.
fn into_output(call: &BoxedCall, stack: &mut Stack, pattern: &Matrices) -> Result<()> {
    let written = replace_arguments(call, stack, &mut |tensor, is_written| {
        if is_written {
            let (dtype, device) = (Some(tensor.dtype()), Some(tensor.device()));
            return op::empty_memory_format(&[0], dtype, None, device, None, None).map(Some);
        }
        Ok(Matrices::of(tensor).map(|x| x.parts.values))
    })?;
    call.op().call_boxed(stack)?;
    for (output, values) in &written {
        store(output, &pattern.with_values(values.clone()).tensor()?)?;
    }
    restore(stack, &written)
}

/// The gradient of `relu`: both tensors have entries at the same places.
///
/// # Errors
/// `Runtime` for tensors of which one is dense.
pub fn threshold_backward(
    grad_output: &Tensor,
    self_: &Tensor,
    threshold: Scalar,
) -> Result<Tensor> {
    let x = Matrices::expect(self_, "threshold_backward")?;
    let grad = super::entries_at(grad_output, &x)?;
    x.with_values(op::threshold_backward(&grad, &x.parts.values, threshold)?).tensor()
}

/// Entries from the normal distribution, at the same places.
///
/// # Errors
/// Those of the dense operator.
pub fn normal_(
    self_: &Tensor,
    mean: f64,
    std: f64,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    let x = Matrices::expect(self_, "normal_")?;
    op::normal_(&x.parts.values, mean, std, generator)?;
    Ok(self_.clone())
}

/// The conjugates of the entries, computed.
///
/// # Errors
/// Those of the dense operator.
pub fn conj_physical(self_: &Tensor) -> Result<Tensor> {
    let x = Matrices::expect(self_, "_conj_physical")?;
    x.with_values(op::_conj_physical(&x.parts.values)?).tensor()
}
