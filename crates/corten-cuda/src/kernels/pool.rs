//! The inverses of maximum pooling.

use crate::operands::{empty, like_planned, on_meta};
use corten_core::{DType, Result, not_implemented_for};
use corten_ops::{Tensor, op};

/// Floats and signed or byte integers, which have an order.
fn check_ordered(tensor: &Tensor, name: &'static str) -> Result<()> {
    let dtype = tensor.dtype();
    let integers = [DType::UInt8, DType::Int8, DType::Int16, DType::Int32, DType::Int64];
    match dtype.is_floating_point() && dtype.itemsize() > 1 || integers.contains(&dtype) {
        true => Ok(()),
        false => Err(not_implemented_for(name, dtype)),
    }
}

/// Planes of elements: all but the last `rank` dimensions as one, and those as the other.
fn planes(tensor: &Tensor, rank: usize) -> Result<Tensor> {
    let sizes = tensor.sizes();
    let lead = sizes.len() - rank;
    let (planes, plane): (i64, i64) =
        (sizes[..lead].iter().product(), sizes[lead..].iter().product());
    op::reshape(tensor, &[planes, plane])
}

/// Zeros of the planned shape with values at places of their planes.
fn scattered(planned: &Tensor, values: &Tensor, places: &Tensor, rank: usize) -> Result<Tensor> {
    let out = op::zero_(&empty(&planned.sizes(), planned.dtype(), values)?)?;
    if out.numel() > 0 && values.numel() > 0 {
        let flat = planes(&out, rank)?;
        op::scatter__src(&flat, 1, &planes(places, rank)?, &planes(values, rank)?)?;
    }
    match out.strides() == planned.strides() {
        true => Ok(out),
        false => op::copy_(&like_planned(planned, &out)?, &out, false),
    }
}

/// Zeros with maxima of images at their places.
///
/// # Errors
/// Those of the arguments' checks; an index out of bounds is reported later.
pub fn max_unpool2d(self_: &Tensor, indices: &Tensor, output_size: &[i64]) -> Result<Tensor> {
    let planned = op::max_unpool2d(&on_meta(self_)?, &on_meta(indices)?, output_size)?;
    check_ordered(self_, "max_unpooling2d_forward_kernel")?;
    scattered(&planned, self_, indices, 2)
}

/// Zeros with maxima of volumes at their places.
///
/// # Errors
/// As for [`max_unpool2d`].
pub fn max_unpool3d(
    self_: &Tensor,
    indices: &Tensor,
    output_size: &[i64],
    stride: &[i64],
    padding: &[i64],
) -> Result<Tensor> {
    let (input, places) = (on_meta(self_)?, on_meta(indices)?);
    let planned = op::max_unpool3d(&input, &places, output_size, stride, padding)?;
    check_ordered(self_, "max_unpooling3d_forward_kernel")?;
    scattered(&planned, self_, indices, 3)
}
