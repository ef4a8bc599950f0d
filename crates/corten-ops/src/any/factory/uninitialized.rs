//! What new memory holds while the same results are asked for in every run.

use super::filled;
use crate::Tensor;
use corten_core::{
    DType, Result, Scalar, TensorBase, are_deterministic_algorithms_enabled,
    fill_uninitialized_memory,
};

fn fills() -> bool {
    are_deterministic_algorithms_enabled() && fill_uninitialized_memory()
}

/// A number that stands out where it is used unwritten: NaN, the greatest integer or `true`.
fn striking(dtype: DType) -> Scalar {
    let bits = 8 * dtype.itemsize();
    match dtype {
        DType::Bool => Scalar::Bool(true),
        DType::UInt64 => Scalar::UInt(u64::MAX),
        _ if !dtype.is_integral(false) => Scalar::Float(f64::NAN),
        _ if dtype.is_signed() => Scalar::Int(i64::MAX >> (64 - bits)),
        _ => Scalar::Int((1 << bits) - 1),
    }
}

/// A tensor with arbitrary contents, as a factory returns it.
#[inline]
pub(super) fn settled(tensor: TensorBase) -> Result<Tensor> {
    match fills() {
        false => Ok(tensor.into()),
        true => filled_strikingly(tensor.into()),
    }
}

#[cold]
fn filled_strikingly(tensor: Tensor) -> Result<Tensor> {
    let value = striking(tensor.dtype());
    filled(tensor, value)
}

/// Fills what a storage of `bytes_before` bytes has gained.
pub(in crate::any) fn fill_grown(tensor: &Tensor, bytes_before: usize) -> Result<()> {
    let bytes = tensor.storage_opt().map_or(0, |storage| storage.nbytes());
    if !fills() || bytes <= bytes_before {
        return Ok(());
    }
    let [from, to] = [bytes_before, bytes].map(|bytes| (bytes / tensor.itemsize()) as i64);
    let (dtype, keys) = (tensor.dtype(), tensor.key_set());
    let gained = tensor.as_view_with(dtype, keys, &[to - from], &[1], from)?;
    filled_strikingly(gained.into()).map(drop)
}
