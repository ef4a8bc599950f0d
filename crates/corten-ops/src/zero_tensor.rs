//! Tensors that are zero everywhere and know it: derivatives that nobody has to compute.

// Note [Zero tensors]
// A tensor with the key `ZeroTensor` is immutable and has one element in memory, which all indices
// reach. Products with it are such tensors again, sums with it copies of the other operand; all other
// operators get ordinary zeros. Reading it without care is therefore right, too.

use crate::boxed::Stack;
use crate::dispatch::{BoxedCall, replace_arguments, set_fallback};
use crate::{Tensor, op};
use corten_core::{
    DType, Device, DispatchKey, KeySet, Layout, Result, Scalar, TensorBase, bail, ensure,
};
use std::sync::Arc;

const KEY: KeySet = KeySet::of(&[DispatchKey::ZeroTensor]);

/// Whether the tensor is known to be zero everywhere.
pub fn is_zero(tensor: &TensorBase) -> bool {
    tensor.key_set().has(DispatchKey::ZeroTensor)
}

/// A tensor that is known to be zero everywhere.
///
/// # Errors
/// `Runtime` for layouts other than strided ones; those of the allocation.
pub fn efficient(
    size: &[i64],
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    ensure!(
        layout.is_none_or(|layout| layout == Layout::Strided),
        Runtime,
        "_efficientzerotensor: only strided tensors are known to be zero"
    );
    let one = op::zeros(&[1], dtype, layout, device, pin_memory)?;
    let keys = KeySet::for_tensor(one.device().device_type, Layout::Strided, one.dtype()) | KEY;
    // Bounded: dimensions.
    let strides = vec![0; size.len()];
    let made = TensorBase::new_with_storage(one.storage()?, one.dtype(), keys, size, &strides, 0)?;
    Ok(made.into())
}

/// Such a tensor with the sizes, dtype and device of a result.
fn like(result: &Tensor) -> Result<Tensor> {
    efficient(&result.sizes(), Some(result.dtype()), None, Some(result.device()), None)
}

/// Ordinary zeros in place of such a tensor.
fn materialised(tensor: &Tensor) -> Result<Tensor> {
    let zeros = op::zeros(&[], Some(tensor.dtype()), None, Some(tensor.device()), None)?;
    op::expand(&zeros, &tensor.sizes(), false)
}

fn ordinary(tensor: &Tensor) -> Result<Tensor> {
    if is_zero(tensor) { materialised(tensor) } else { Ok(tensor.clone()) }
}

fn mul(self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    like(&op::mul_tensor(&ordinary(self_)?, &ordinary(other)?)?)
}

fn div(self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    let quotient = op::div_tensor(&ordinary(self_)?, &ordinary(other)?)?;
    if is_zero(self_) && !is_zero(other) { like(&quotient) } else { Ok(quotient) }
}

fn add(self_: &Tensor, other: &Tensor, alpha: Scalar) -> Result<Tensor> {
    let sum = op::add_tensor(&ordinary(self_)?, &ordinary(other)?, alpha)?;
    if is_zero(self_) && is_zero(other) { like(&sum) } else { Ok(sum) }
}

fn sub(self_: &Tensor, other: &Tensor, alpha: Scalar) -> Result<Tensor> {
    let difference = op::sub_tensor(&ordinary(self_)?, &ordinary(other)?, alpha)?;
    if is_zero(self_) && is_zero(other) { like(&difference) } else { Ok(difference) }
}

/// Runs an operator on ordinary zeros.
fn materialise(call: &BoxedCall, stack: &mut Stack) -> Result<()> {
    replace_arguments(call, stack, &mut |tensor, is_written| {
        if !is_zero(tensor) {
            return Ok(None);
        }
        if is_written {
            bail!(
                Runtime,
                "ZeroTensors are immutable. Please use the materialized zero tensor obtained using \
                 .clone() if you want a mutable tensor."
            );
        }
        materialised(tensor).map(Some)
    })?;
    call.op().call_boxed(stack)
}

pub(crate) fn register() {
    set_fallback(DispatchKey::ZeroTensor, Arc::new(materialise));
    op::MUL_TENSOR.implement(DispatchKey::ZeroTensor, mul);
    op::DIV_TENSOR.implement(DispatchKey::ZeroTensor, div);
    op::ADD_TENSOR.implement(DispatchKey::ZeroTensor, add);
    op::SUB_TENSOR.implement(DispatchKey::ZeroTensor, sub);
}
