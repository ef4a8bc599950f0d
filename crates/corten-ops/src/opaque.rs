//! Opaque tensors: the layout `_mkldnn`, in which elements lie as the kernels like them best.

// Note [Opaque tensors]
// An opaque tensor has sizes and a dtype, but no storage. Its elements are those of a dense tensor,
// its value, which nobody else sees. A kernel that multiplies by it again and again may prepare it:
// another object then keeps the elements, in an order of its own, in place of the value, and gives
// them back to whoever asks.
//
// An operator without a kernel at the key `MkldnnCPU` runs on the values. What it returns is opaque
// where its first tensor is, if the layout holds the dtype and the number of dimensions; the rest is
// dense: truth values, positions, sums of everything. Views are refused, since a write to one would
// have to reach a tensor whose elements lie in another order.

use crate::boxed::{IValue, Stack};
use crate::dispatch::{BoxedCall, replace_arguments, replace_tensors, restore, set_fallback};
use crate::registry::{OpDef, OpKind};
use crate::{Tensor, op};
use corten_core::{
    BackendMeta, DType, Device, DeviceType, DispatchKey, Error, KeySet, Layout, Result, TensorBase,
    bail, ensure, err,
};
use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The most dimensions that the layout holds.
pub(crate) const MOST_DIMS: usize = 5;

/// Elements in the order of a kernel.
///
/// ```
/// use corten::ops::opaque::Prepared;
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// /// Rows from the last to the first.
/// struct Reversed(Tensor);
///
/// impl Prepared for Reversed {
///     fn to_dense(&self) -> Result<Tensor> {
///         op::flip(&self.0, &[0])
///     }
/// }
///
/// let kept = Reversed(tensor![2.0, 1.0]?);
/// assert_eq!(kept.to_dense()?.to_vec::<f32>()?, [1.0, 2.0]);
/// # Ok(())
/// # }
/// ```
pub trait Prepared: Any + Send + Sync {
    /// A dense tensor of the same elements.
    ///
    /// # Errors
    /// Those of making a tensor.
    fn to_dense(&self) -> Result<Tensor>;

    /// Whether the elements are kept in fewer bits than their dtype has. Such tensors are not written to, and what is
    /// computed from them is dense.
    fn is_quantised(&self) -> bool {
        false
    }
}

/// What holds the elements of an opaque tensor.
#[derive(Clone)]
enum Form {
    Plain(Tensor),
    Prepared(Arc<dyn Prepared>),
}

/// The elements of an opaque tensor and of its shallow copies.
struct Opaque(Mutex<Form>);

impl BackendMeta for Opaque {
    fn for_copy(self: Arc<Self>) -> Arc<dyn BackendMeta> {
        self
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Opaque {
    fn form(&self) -> MutexGuard<'_, Form> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether this is an opaque tensor.
#[inline]
pub fn is_opaque(tensor: &TensorBase) -> bool {
    tensor.key_set().has(DispatchKey::MkldnnCPU)
}

/// Whether the layout holds elements of a dtype in so many dimensions.
pub(crate) fn holds(dtype: DType, dims: usize) -> bool {
    holds_dtype(dtype) && (1..=MOST_DIMS).contains(&dims)
}

pub(crate) fn holds_dtype(dtype: DType) -> bool {
    use DType::{BFloat16, Float16, Float32, Int8, UInt8};
    matches!(dtype, Float32 | BFloat16 | Float16 | UInt8 | Int8)
}

/// An opaque tensor with the elements of a dense one that nobody else writes to, and whose dtype and
/// number of dimensions the layout holds.
///
/// # Errors
/// Those of making a tensor.
pub fn wrap(value: Tensor) -> Result<Tensor> {
    let (dtype, sizes) = (value.dtype(), value.sizes());
    made(Form::Plain(value), dtype, &sizes)
}

/// An opaque tensor of the host whose elements are kept by something else.
///
/// # Errors
/// Those of making a tensor.
pub fn of_prepared(prepared: Arc<dyn Prepared>, dtype: DType, sizes: &[i64]) -> Result<Tensor> {
    made(Form::Prepared(prepared), dtype, sizes)
}

fn made(form: Form, dtype: DType, sizes: &[i64]) -> Result<Tensor> {
    let keys = KeySet::for_tensor(DeviceType::Cpu, Layout::Mkldnn, dtype);
    let tensor = TensorBase::new_without_storage(dtype, Device::CPU, keys, sizes)?;
    tensor.update_extra_meta(|extra| {
        extra.storage_error = Some("Cannot access storage of OpaqueTensorImpl".to_owned());
        extra.data_ptr_error =
            Some("Cannot access data pointer of Tensor that doesn't have storage".to_owned());
        extra.backend = Some(Arc::new(Opaque(Mutex::new(form))));
    });
    Ok(tensor.into())
}

/// Calls `f` with what holds the elements; `None` for a tensor that is not opaque.
fn with_form<R>(tensor: &TensorBase, f: impl FnOnce(&mut Form) -> R) -> Option<R> {
    if !is_opaque(tensor) {
        return None;
    }
    let backend = tensor.extra_meta()?.backend?;
    let opaque = backend.as_any().downcast_ref::<Opaque>()?;
    Some(f(&mut opaque.form()))
}

/// The elements of an opaque tensor as a dense one, which is not to be written to; `None` for other
/// tensors.
///
/// # Errors
/// Those of making a tensor.
pub fn value(tensor: &TensorBase) -> Result<Option<Tensor>> {
    let form = with_form(tensor, |form| form.clone());
    form.map(|form| match form {
        Form::Plain(value) => Ok(value),
        Form::Prepared(prepared) => prepared.to_dense(),
    })
    .transpose()
}

/// The dense tensor that an opaque tensor is changed through.
fn value_to_write(tensor: &TensorBase) -> Result<Option<Tensor>> {
    let value = with_form(tensor, |form| {
        if let Form::Prepared(prepared) = form {
            ensure!(
                !prepared.is_quantised(),
                NotImplemented,
                "A quantised tensor cannot be written to in place. Convert it with to_dense() first."
            );
            *form = Form::Plain(prepared.to_dense()?);
        }
        match form {
            Form::Plain(value) => Ok(Some(value.clone())),
            Form::Prepared(_) => Ok(None),
        }
    });
    value.unwrap_or(Ok(None))
}

/// Writes the elements of one tensor to another; either may be opaque.
///
/// # Errors
/// Those of `copy_`, and `NotImplemented` for quantised elements.
pub(crate) fn copy_(to: &Tensor, from: &Tensor, non_blocking: bool) -> Result<()> {
    let (written, read) = (value_to_write(to)?, value(from)?);
    let (to, from) = (written.as_ref().unwrap_or(to), read.as_ref().unwrap_or(from));
    op::copy_(to, from, non_blocking).map(drop)
}

/// What keeps the elements of an opaque tensor in the order of a kernel: what was prepared before, or
/// what `prepare` makes of the value, which is given up then. `None` where it makes nothing.
///
/// # Errors
/// Those of `prepare`.
pub fn prepared(
    tensor: &TensorBase,
    prepare: impl FnOnce(&Tensor) -> Result<Option<Arc<dyn Prepared>>>,
) -> Result<Option<Arc<dyn Prepared>>> {
    let found = with_form(tensor, |form| match form {
        Form::Prepared(prepared) => Ok(Some(prepared.clone())),
        Form::Plain(value) => {
            let made = prepare(value)?;
            if let Some(made) = &made {
                *form = Form::Prepared(made.clone());
            }
            Ok(made)
        }
    });
    found.unwrap_or(Ok(None))
}

/// What keeps the elements, where that is not a dense tensor.
pub fn kept_by(tensor: &TensorBase) -> Option<Arc<dyn Prepared>> {
    with_form(tensor, |form| match form {
        Form::Prepared(prepared) => Some(prepared.clone()),
        Form::Plain(_) => None,
    })?
}

/// Whether what is computed from a tensor is opaque too.
pub fn stays_opaque(tensor: &TensorBase) -> bool {
    is_opaque(tensor) && kept_by(tensor).is_none_or(|prepared| !prepared.is_quantised())
}

/// Registers the fallback of opaque tensors.
pub(crate) fn register() {
    set_fallback(DispatchKey::MkldnnCPU, Arc::new(on_values));
}

/// Views share memory with what they are of, which another order of elements cannot. Quantised elements are not
/// written to through views: a dense copy of them does.
fn refuse_view(def: &OpDef, stack: &Stack) -> Result<()> {
    if let Some(IValue::Tensor(tensor)) = stack.iter().next()
        && is_opaque(tensor)
        && !stays_opaque(tensor)
    {
        return Ok(());
    }
    if def.qualified_name() == "aten::view" {
        bail!(
            Runtime,
            "Currently Mkldnn tensor does not support view. Change to use reshape instead"
        );
    }
    match def.kind {
        OpKind::View => Err(no_views(&def.qualified_name())),
        _ => Ok(()),
    }
}

/// Why an operator that makes views does not run.
pub(crate) fn no_views(operator: &str) -> Error {
    err!(
        NotImplemented,
        "Could not run '{operator}' with arguments from the 'MkldnnCPU' backend: a tensor of layout \
         torch._mkldnn has no views. Convert it with to_dense() first."
    )
}

/// Runs an operator on the values of its opaque arguments.
fn on_values(call: &BoxedCall, stack: &mut Stack) -> Result<()> {
    let def = call.op().def();
    refuse_view(def, stack)?;
    let mut stays = None;
    for value in stack.iter_mut() {
        if let IValue::Layout(layout) = *value {
            stays = Some(layout == Layout::Mkldnn);
            *value = IValue::None;
        }
    }
    let written = replace_arguments(call, stack, &mut |tensor, is_written| {
        if tensor.defined() {
            stays.get_or_insert_with(|| stays_opaque(tensor));
        }
        if is_written { value_to_write(tensor) } else { value(tensor) }
    })?;
    call.op().call_boxed(stack)?;
    for (original, dense) in &written {
        if original.sizes() != dense.sizes() {
            let strides = corten_core::geometry::contiguous_strides(&dense.sizes())?;
            original.set_sizes_and_strides(&dense.sizes(), &strides, None)?;
        }
    }
    restore(stack, &written)?;
    // Others return what they wrote to.
    if def.kind != OpKind::Functional || !stays.unwrap_or(false) {
        return Ok(());
    }
    for value in stack.iter_mut() {
        replace_tensors(value, &mut |tensor| {
            let wraps =
                tensor.defined() && !is_opaque(tensor) && holds(tensor.dtype(), tensor.dim());
            if wraps { wrap(tensor.clone()) } else { Ok(tensor.clone()) }
        })?;
    }
    Ok(())
}

/// The gradient of an operator's argument in its layout.
///
/// # Errors
/// Those of copying.
pub fn in_layout_of(grad: &Tensor, argument: &Tensor) -> Result<Tensor> {
    if !grad.defined() || is_opaque(grad) == is_opaque(argument) {
        return Ok(grad.clone());
    }
    if is_opaque(argument) { op::to_mkldnn(grad, None) } else { op::to_dense(grad, None, None) }
}
