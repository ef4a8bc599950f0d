//! Products and matrices of vectors, and guarded indexing.

use crate::{Tensor, op};
use corten_core::{DType, Result, Scalar, bail, ensure};

/// Rows of a factor from this length on are multiplied as they lie.
const LONG_ROW: i64 = 64;

/// So often at least a row must be used that it pays to write it out as long as those of the product.
const OFTEN: i64 = 8;

/// The product of every element of one tensor with the whole of another.
///
/// # Errors
/// Those of the product.
pub fn kron(self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    let rank = self_.dim().max(other.dim());
    let padded = |tensor: &Tensor| {
        let mut sizes = vec![1; rank - tensor.dim()];
        sizes.extend(tensor.sizes().iter());
        sizes
    };
    let (a, b) = (padded(self_), padded(other));
    let (mut first, mut second, mut joined) = (Vec::new(), Vec::new(), Vec::new());
    for (&a, &b) in a.iter().zip(&b) {
        first.extend([a, 1]);
        second.extend([1, b]);
        joined.push(a.saturating_mul(b));
    }
    let (mut left, mut right) = (op::reshape(self_, &first)?, op::reshape(other, &second)?);
    if let (Some((&a, of_a)), Some((&b, of_b))) = (a.split_last(), b.split_last()) {
        let often = |rows: &[i64]| rows.iter().product::<i64>() >= OFTEN;
        if a > 1 && (1..LONG_ROW).contains(&b) && often(of_a) && often(of_b) {
            (left, right) = (spread(&left, [a, b])?, spread(&right, [a, b])?);
        }
    }
    op::reshape(&op::mul_tensor(&left, &right)?, &joined)
}

/// A tensor expanded to these two last sizes, which become one dimension.
fn spread(tensor: &Tensor, last: [i64; 2]) -> Result<Tensor> {
    let sizes = tensor.sizes();
    let outer = &sizes[..sizes.len() - 2];
    op::flatten_using_ints(&op::expand(tensor, &[outer, &last].concat(), false)?, -2, -1)
}

/// The cross product along the first dimension of size 3, or a given one.
///
/// # Errors
/// `Runtime` where no dimension has size 3.
pub fn cross(self_: &Tensor, other: &Tensor, dim: Option<i64>) -> Result<Tensor> {
    if let Some(dim) = dim {
        return op::linalg_cross(self_, other, dim);
    }
    corten_core::warn(
        "Using torch.cross without specifying the dim arg is deprecated.\nPlease either pass the \
         dim explicitly or simply use torch.linalg.cross.\nThe default value of dim will change to \
         agree with that of linalg.cross in a future release.",
    );
    match self_.sizes().iter().position(|&size| size == 3) {
        Some(dim) => op::linalg_cross(self_, other, dim as i64),
        None => bail!(Runtime, "no dimension of size 3 in input"),
    }
}

/// The powers of numbers along a new last dimension.
///
/// # Errors
/// `Runtime` for fewer than two powers, `NotImplemented` for bool.
pub fn linalg_vander(x: &Tensor, n: Option<i64>) -> Result<Tensor> {
    ensure!(
        x.dtype() != DType::Bool,
        NotImplemented,
        "linalg.vander supports floating point, complex, and integer tensors, but got {}",
        x.dtype().type_name()
    );
    let count = n.unwrap_or_else(|| x.sizes().last().copied().unwrap_or(1));
    ensure!(count > 1, Runtime, "N must be greater than 1.");
    let column = op::unsqueeze(&if x.dim() == 0 { op::unsqueeze(x, 0)? } else { x.clone() }, -1)?;
    let mut shape = column.sizes();
    if let Some(last) = shape.last_mut() {
        *last = count - 1;
    }
    let powers = op::cumprod(&op::expand(&column, &shape, false)?, -1, None)?;
    let ones = op::ones_like(&column, None, None, None, None, None)?;
    op::cat(&[ones, powers], -1)
}

/// The powers of a vector's elements in columns, falling or increasing.
///
/// # Errors
/// `Runtime` for other than a vector and a negative number of columns.
pub fn vander(x: &Tensor, n: Option<i64>, increasing: bool) -> Result<Tensor> {
    ensure!(x.dim() == 1, Runtime, "x must be a one-dimensional tensor.");
    let count = n.unwrap_or_else(|| x.numel());
    ensure!(count >= 0, Runtime, "N must be non-negative.");
    let dtype = if x.dtype().is_integral(true) { DType::Int64 } else { x.dtype() };
    let shape = [x.numel(), count];
    let result = op::ones(&shape, Some(dtype), None, Some(x.device()), None)?;
    if count <= 1 {
        return Ok(result);
    }
    let x = op::to_dtype(x, dtype, false, false, None)?;
    let column = op::expand(&op::unsqueeze(&x, -1)?, &[shape[0], count - 1], false)?;
    let powers = op::cumprod(&column, -1, None)?;
    let first = op::slice_tensor(&result, 1, Some(0), Some(1), 1)?;
    let rising = op::cat(&[first, powers], 1)?;
    if increasing { Ok(rising) } else { op::flip(&rising, &[1]) }
}

/// Indices that are within bounds wherever the mask holds, clamped elsewhere.
fn guarded(self_: &Tensor, indices: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
    indices
        .iter()
        .enumerate()
        .map(|(i, index)| {
            let Some(index) = index.as_ref().filter(|index| index.defined()) else {
                return Ok(None);
            };
            let size = self_.sizes().get(i).copied().unwrap_or(1);
            let (low, high) = (Scalar::Int(-size), Scalar::Int(size - 1));
            op::clamp(index, Some(low), Some(high)).map(Some)
        })
        .collect()
}

/// Elements by index where a mask holds, a number elsewhere.
///
/// # Errors
/// Those of indexing.
pub fn unsafe_masked_index(
    self_: &Tensor,
    mask: &Tensor,
    indices: &[Option<Tensor>],
    fill: Scalar,
) -> Result<Tensor> {
    if self_.numel() == 0 {
        let dtypes = op::where_scalarself(
            mask,
            fill,
            &op::new_zeros(self_, &mask.sizes(), None, None, None, None)?,
        )?;
        return op::full_like(&dtypes, fill, Some(self_.dtype()), None, None, None, None);
    }
    let found = op::index_tensor(self_, &guarded(self_, indices)?)?;
    op::masked_fill_scalar(&found, &op::logical_not(mask)?, fill)
}

/// The tensor with values added by index where a mask holds.
///
/// # Errors
/// Those of indexing.
pub fn unsafe_masked_index_put_accumulate(
    self_: &Tensor,
    mask: &Tensor,
    indices: &[Option<Tensor>],
    values: &Tensor,
) -> Result<Tensor> {
    if self_.numel() == 0 {
        return op::clone(self_, None);
    }
    let values = op::masked_fill_scalar(values, &op::logical_not(mask)?, Scalar::Int(0))?;
    op::index_put(self_, &guarded(self_, indices)?, &values, true)
}

/// The gradient of `trace`.
///
/// # Errors
/// `Runtime` for other than a matrix's sizes.
pub fn trace_backward(grad: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    ensure!(sizes.len() == 2, Runtime, "expected matrix input");
    let zeros = op::new_zeros(grad, sizes, None, None, None, None)?;
    let length = sizes[0].min(sizes[1]);
    op::diagonal_scatter(&zeros, &op::expand(grad, &[length], false)?, 0, 0, 1)
}
