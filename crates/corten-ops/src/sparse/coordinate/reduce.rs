//! Sums, norms and comparisons.

use super::entries;
use crate::sparse::{Coo, cast};
use crate::{Tensor, op};
use corten_core::{DType, Result, Scalar, bail, ensure, geometry::wrap_dim};

/// The sum of all entries, dense.
///
/// # Errors
/// Those of adding.
pub fn sum(self_: &Tensor, dtype: Option<DType>) -> Result<Tensor> {
    op::sum(&Coo::expect(self_, "sum")?.values, dtype)
}

/// The sum over dimensions: sparse where a dimension that indices count is left.
///
/// # Errors
/// `Index` for a dimension that there is not.
pub fn sum_dim(
    self_: &Tensor,
    dim: Option<&[i64]>,
    keepdim: bool,
    dtype: Option<DType>,
) -> Result<Tensor> {
    let Some(dim) = dim.filter(|dim| !dim.is_empty()) else { return sum(self_, dtype) };
    let dtype = dtype.unwrap_or(match self_.dtype() {
        integral if integral.is_integral(true) => DType::Int64,
        other => other,
    });
    let dims = checked_dims(dim, self_.dim())?;
    let mut result = sum_over(self_, &dims, dtype)?;
    if keepdim {
        for &dim in &dims {
            result = op::unsqueeze(&result, dim as i64)?;
        }
    }
    Ok(result)
}

/// Dimensions in order, each once.
fn checked_dims(dim: &[i64], rank: usize) -> Result<Vec<usize>> {
    let mut dims = dim.iter().map(|&dim| wrap_dim(dim, rank)).collect::<Result<Vec<_>>>()?;
    dims.sort_unstable();
    for pair in dims.windows(2) {
        ensure!(
            pair[0] != pair[1],
            Runtime,
            "dim {} appears multiple times in the list of dims",
            pair[0]
        );
    }
    Ok(dims)
}

fn sum_over(self_: &Tensor, dims: &[usize], dtype: DType) -> Result<Tensor> {
    let (parts, sizes) = (Coo::expect(self_, "sum")?, self_.sizes());
    let count = parts.sparse_dim() as usize;
    let sums = entries::dtype_of_sums(dtype);
    let mut values = cast(&parts.values, sums)?;
    let dense: Vec<i64> =
        dims.iter().filter(|&&dim| dim >= count).map(|&dim| (dim - count + 1) as i64).collect();
    if !dense.is_empty() {
        values = op::sum_dim_intlist(&values, Some(&dense), false, Some(sums))?;
    }
    let kept: Vec<usize> = (0..count).filter(|dim| !dims.contains(dim)).collect();
    if kept.is_empty() {
        return cast(&op::sum_dim_intlist(&values, Some(&[0]), false, Some(sums))?, dtype);
    }
    let left: Vec<i64> =
        (0..sizes.len()).filter(|dim| !dims.contains(dim)).map(|dim| sizes[dim]).collect();
    let (indices, coalesced) = if kept.len() == count {
        (parts.indices.clone(), parts.coalesced)
    } else {
        (rows_of(&parts.indices, &kept)?, false)
    };
    let summed = entries::coalesced(&Coo { indices, values, coalesced }, &left)?;
    Coo { values: cast(&summed.values, dtype)?, ..summed }.tensor(&left)
}

/// Some rows of indices.
///
/// # Errors
/// Those of joining.
pub(crate) fn rows_of(indices: &Tensor, dims: &[usize]) -> Result<Tensor> {
    let rows: Result<Vec<_>> =
        dims.iter().map(|&dim| op::select_int(indices, 0, dim as i64)).collect();
    op::stack(&rows?, 0)
}

/// `_sparse_sum.dim`: the dtype stays that of the values.
///
/// # Errors
/// `Index` for a dimension that there is not.
pub fn sparse_sum(self_: &Tensor, dim: &[i64]) -> Result<Tensor> {
    ensure!(!dim.is_empty(), Runtime, "Expected dim to be specified");
    sum_over(self_, &checked_dims(dim, self_.dim())?, self_.dtype())
}

/// The gradient of [`sparse_sum`]: what arrives at each place of the result, for each entry.
///
/// # Errors
/// Those of indexing.
pub fn sparse_sum_backward(grad: &Tensor, self_: &Tensor, dim: &[i64]) -> Result<Tensor> {
    let (parts, sizes) = (Coo::expect(self_, "_sparse_sum_backward")?, self_.sizes());
    let dims = checked_dims(dim, sizes.len())?;
    let count = parts.sparse_dim() as usize;
    let kept: Vec<usize> = (0..count).filter(|dim| !dims.contains(dim)).collect();
    let mut wide = if kept.is_empty() {
        op::unsqueeze(&op::to_dense(grad, None, None)?, 0)?
    } else {
        let places = rows_of(&parts.indices, &kept)?;
        match Coo::of(grad) {
            None => entries::dense_at(grad, &places)?,
            Some(given) => {
                let given = entries::coalesced(&given, &grad.sizes())?;
                entries::entries_at(&given, &grad.sizes(), &places)?
            }
        }
    };
    for &dim in dims.iter().filter(|&&dim| dim >= count) {
        wide = op::unsqueeze(&wide, (dim - count + 1) as i64)?;
    }
    let values = op::clone(&op::expand(&wide, &parts.values.sizes(), false)?, None)?;
    Coo { values, ..parts }.tensor(&sizes)
}

/// Whether any element is not zero.
///
/// # Errors
/// Those of adding.
pub fn any(self_: &Tensor) -> Result<Tensor> {
    op::any(&entries::coalesced(&Coo::expect(self_, "any")?, &self_.sizes())?.values)
}

fn check_all(dim: &[i64], rank: usize) -> Result<()> {
    ensure!(
        dim.is_empty() || checked_dims(dim, rank)?.len() == rank,
        Runtime,
        "norm_sparse currently only supports full reductions, so 'dim' must either be empty or contain \
         all dimensions of the input"
    );
    Ok(())
}

/// The norm of all elements as of a vector.
///
/// # Errors
/// `Runtime` for anything but all dimensions.
pub fn vector_norm(
    self_: &Tensor,
    ord: Scalar,
    dim: Option<&[i64]>,
    keepdim: bool,
    dtype: Option<DType>,
) -> Result<Tensor> {
    ensure!(!keepdim, Runtime, "norm_sparse currently does not support keepdim=True");
    check_all(dim.unwrap_or(&[]), self_.dim())?;
    let values = entries::coalesced(&Coo::expect(self_, "norm")?, &self_.sizes())?.values;
    op::linalg_vector_norm(&values, ord, None, false, dtype)
}

/// Whether both have the same entries, once those of one place are added up.
///
/// # Errors
/// `Runtime` for a tensor in another layout.
pub fn equal(self_: &Tensor, other: &Tensor) -> Result<bool> {
    if self_.sizes() != other.sizes() {
        return Ok(false);
    }
    let (Some(a), Some(b)) = (Coo::of(self_), Coo::of(other)) else {
        bail!(
            Runtime,
            "equal: expected two tensors of one layout, but got {} and {}",
            self_.layout(),
            other.layout()
        );
    };
    if a.sparse_dim() != b.sparse_dim() {
        return Ok(false);
    }
    let sizes = self_.sizes();
    let (a, b) = (entries::coalesced(&a, &sizes)?, entries::coalesced(&b, &sizes)?);
    Ok(op::equal(&a.indices, &b.indices)? && op::equal(&a.values, &b.values)?)
}
