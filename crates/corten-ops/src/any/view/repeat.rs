//! Copies with elements repeated, reversed or rotated.

use super::inplace::transpose_;
use super::shape::dim_mask;
use super::{geometry_of, with_geometry};
use crate::iter::{allocate, allocate_like};
use crate::{Tensor, op};
use corten_core::keys::NEGATIVE_STRIDES;
use corten_core::{Dims, MemoryFormat, Result, ensure, geometry};

/// The tensor repeated along each dimension; additional leading counts add dimensions.
///
/// # Errors
/// `Runtime` for fewer counts than dimensions, or a negative one.
pub fn repeat(self_: &Tensor, repeats: &[i64]) -> Result<Tensor> {
    let (sizes, strides) = geometry_of(self_);
    ensure!(
        repeats.len() >= sizes.len(),
        Runtime,
        "Number of dimensions of repeat dims can not be smaller than number of dimensions of \
         tensor"
    );
    let new = repeats.len() - sizes.len();
    let size_of = |dim: usize| if dim < new { 1 } else { sizes[dim - new] };
    let shape: Dims =
        repeats.iter().enumerate().map(|(dim, &n)| n.saturating_mul(size_of(dim))).collect();
    let out = allocate(&shape, None, self_.dtype(), self_.device())?;
    if out.numel() == 0 {
        return Ok(out);
    }
    // Each dimension as two: the repetitions and the elements.
    let (mut split, mut to, mut from) = (Dims::new(), Dims::new(), Dims::new());
    for (dim, (&count, &stride)) in repeats.iter().zip(&out.strides()).enumerate() {
        split.extend([count, size_of(dim)]);
        to.extend([stride * size_of(dim), stride]);
        from.extend([0, if dim < new { 0 } else { strides[dim - new] }]);
    }
    let target = with_geometry(&out, &split, &to, 0)?;
    let source = with_geometry(self_, &split, &from, self_.storage_offset())?;
    op::copy_(&target, &source, false)?;
    Ok(out)
}

/// The order of elements reversed along the given dimensions.
///
/// # Errors
/// `Index` for a dimension out of range, `Runtime` for one given twice.
pub fn flip(self_: &Tensor, dims: &[i64]) -> Result<Tensor> {
    let (sizes, mut strides) = geometry_of(self_);
    let mask = dim_mask(dims, sizes.len())?;
    let out = allocate_like(self_, self_.dtype())?;
    if self_.numel() == 0 {
        return Ok(out);
    }
    let offset = reverse(&sizes, &mut strides, self_.storage_offset(), mask);
    let reversed = with_geometry(self_, &sizes, &strides, offset)?;
    // The loop that copies takes strides of any sign; see Note [Negative strides].
    reversed.set_keys(NEGATIVE_STRIDES, false);
    op::copy_(&out, &reversed, false)?;
    Ok(out)
}

/// The order of elements reversed along the given dimensions, as a view: their strides change sign.
///
/// # Errors
/// `Index` for a dimension out of range, `Runtime` for one given twice.
pub fn flip_view(self_: &Tensor, dims: &[i64]) -> Result<Tensor> {
    let (sizes, mut strides) = geometry_of(self_);
    let mask = dim_mask(dims, sizes.len())?;
    let offset = reverse(&sizes, &mut strides, self_.storage_offset(), mask);
    with_geometry(self_, &sizes, &strides, offset)
}

/// Changes the sign of the strides of dimensions in a mask. Returns where the first element is then.
fn reverse(sizes: &[i64], strides: &mut [i64], mut offset: i64, mask: u64) -> i64 {
    for dim in (0..sizes.len()).filter(|dim| mask & (1 << dim) != 0) {
        offset += (sizes[dim] - 1).max(0) * strides[dim];
        strides[dim] = -strides[dim];
    }
    offset
}

/// Elements shifted along dimensions, those that leave at one end come back at the other. Without
/// dimensions, the flattened tensor is rotated.
///
/// # Errors
/// `Runtime` when shifts and dimensions do not align, `Index` for a dimension out of range.
pub fn roll(self_: &Tensor, shifts: &[i64], dims: &[i64]) -> Result<Tensor> {
    ensure!(!shifts.is_empty(), Runtime, "`shifts` required");
    if dims.is_empty() && shifts.len() == 1 {
        let flat = op::reshape(&op::contiguous(self_, MemoryFormat::Contiguous)?, &[-1])?;
        return super::view(&roll_one(&flat, shifts[0], 0)?, &self_.sizes());
    }
    ensure!(
        shifts.len() == dims.len(),
        Runtime,
        "shifts and dimensions must align. shifts: {}, dims:{}",
        shifts.len(),
        dims.len()
    );
    let mut rolled = roll_one(self_, shifts[0], dims[0])?;
    for (&shift, &dim) in shifts.iter().zip(dims).skip(1) {
        rolled = roll_one(&rolled, shift, dim)?;
    }
    Ok(rolled)
}

fn roll_one(self_: &Tensor, shift: i64, dim: i64) -> Result<Tensor> {
    if self_.numel() == 0 {
        return op::clone(self_, Some(MemoryFormat::Preserve));
    }
    let size = self_.size(dim)?;
    let start = (size - shift.rem_euclid(size)) % size;
    let back = super::slice(self_, dim, Some(start), None, 1)?;
    let front = super::slice(self_, dim, None, Some(start), 1)?;
    op::cat(&[back, front], dim)
}

/// The plane of two dimensions turned by `k` right angles.
///
/// # Errors
/// `Runtime` unless two different dimensions are given.
pub fn rot90(self_: &Tensor, k: i64, dims: &[i64]) -> Result<Tensor> {
    let rank = self_.dim() as i64;
    ensure!(
        dims.len() == 2,
        Runtime,
        "expected total rotation dims == 2, but got dims = {}",
        dims.len()
    );
    ensure!(rank >= 2, Runtime, "expected total dims >= 2, but got total dims = {rank}");
    let (a, b) = (dims[0], dims[1]);
    geometry::wrap_dim(a, rank as usize)?;
    geometry::wrap_dim(b, rank as usize)?;
    ensure!(
        a != b && (a - b).abs() != rank,
        Runtime,
        "expected rotation dims to be different, but got dim0 = {a} and dim1 = {b}"
    );
    match k.rem_euclid(4) {
        1 => transpose_(&flip(self_, &[b])?, a, b),
        2 => flip(self_, dims),
        3 => transpose_(&flip(self_, &[a])?, a, b),
        _ => op::clone(self_, Some(MemoryFormat::Contiguous)),
    }
}
