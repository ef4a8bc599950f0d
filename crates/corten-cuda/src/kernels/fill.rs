//! One number everywhere.

use crate::memory::set_bytes;
use crate::pointwise::{Expression, run_as};
use crate::stream::Stream;
use corten_core::{Result, Scalar};
use corten_ops::TensorIterator;
use corten_ops::meta::Domain;

static FILL: Expression =
    Expression { name: "fill_cuda", operator: "Fill", text: "", inputs: 0, domain: Domain::Every };

/// Writes the scalar to every element of the output.
///
/// # Errors
/// Those of the driver.
pub fn fill(iter: &mut TensorIterator, scalars: &[Scalar]) -> Result<()> {
    let dtype = iter.dtype(0);
    let is_zero = match scalars.first() {
        Some(Scalar::Float(value)) => value.to_bits() == 0,
        Some(number) => !number.is_complex() && !number.to_bool(),
        None => false,
    };
    // Zeros of every dtype but powers of two are zero bytes.
    // A list's tensors are filled together.
    if is_zero
        && !crate::joint::is_open()
        && !crate::fused::is_recording()
        && iter.is_contiguous()
        && iter.numel() > 0
        && dtype != corten_core::DType::Float8E8m0fnu
    {
        let bytes = iter.numel() as usize * dtype.itemsize();
        let stream = Stream::current(iter.device().index);
        let to = iter.data_ptr(0)? as u64;
        // SAFETY: the iterator holds that many bytes, which are used again only later in the stream.
        return unsafe { set_bytes(stream, to, 0, bytes) };
    }
    run_as(&FILL, iter, scalars, dtype)
}
