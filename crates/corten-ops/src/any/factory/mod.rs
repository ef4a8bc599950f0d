//! New tensors.
//!
//! What a factory writes into its fresh result is not recorded and does not count as a change:
//! see [`fresh`].

mod constant;
mod construct;
mod empty;
mod range;
mod special;
mod uninitialized;

pub(crate) use constant::check_number;
pub use constant::{
    fill_tensor, fill_tensor_, full, full_like, full_out, new_full, new_ones, new_zeros, ones,
    ones_like, ones_out, scalar_tensor, zero_, zeros, zeros_like, zeros_out,
};
pub use construct::{from_scalars, from_vec, infer_dtype};
pub use empty::{empty, empty_like, empty_out, empty_strided, new_empty, new_empty_strided};
pub use range::{
    arange, arange_end, arange_end_out, arange_start, linspace, linspace_scalar_tensor,
    linspace_tensor_scalar, linspace_tensor_tensor, logspace, logspace_scalar_tensor,
    logspace_tensor_scalar, logspace_tensor_tensor,
};
pub(crate) use special::{check_parts, write_complex_out};
pub use special::{
    complex, complex_out, diag_embed, eye, eye_m, eye_m_out, eye_out, tril_indices, triu_indices,
};
pub(super) use uninitialized::fill_grown;

pub use crate::zero_tensor::efficient as efficientzerotensor;
use crate::{Tensor, op};
use corten_core::{
    BelowADInplaceOrViewGuard, DType, Device, Layout, Result, Scalar, TensorOptions,
};

/// The options in a factory's arguments.
fn options(
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> TensorOptions {
    TensorOptions::new().dtype(dtype).layout(layout).device(device).pinned_memory(pin_memory)
}

/// Runs operators on a result that nobody else has seen: unrecorded, its version stays 0.
fn fresh<R>(write: impl FnOnce() -> Result<R>) -> Result<R> {
    let _below = BelowADInplaceOrViewGuard::new();
    write()
}

/// Fills a fresh tensor.
fn filled(tensor: Tensor, value: Scalar) -> Result<Tensor> {
    // Only zero is zero bytes in every dtype, and minus zero is not.
    let is_zero = matches!(value, Scalar::Int(0) | Scalar::Bool(false));
    if is_zero && tensor.clear_block()? {
        return Ok(tensor);
    }
    fresh(|| if is_zero { zero_(&tensor) } else { op::fill__scalar(&tensor, value) })?;
    Ok(tensor)
}
