//! Sums and products of the entries of compressed tensors.

use super::Matrices;
use super::convert::{Arrangement, Coordinates};
use super::dense::{floor_div, modulo, to, zeros};
use crate::{Tensor, op};
use corten_core::{DType, Layout, Result, Scalar, ensure, geometry};

/// The dtype that entries are summed in.
fn summed_in(x: &Tensor, dtype: Option<DType>) -> DType {
    let widened = x.dtype().is_floating_point() || x.dtype().is_complex();
    dtype.unwrap_or(if widened { x.dtype() } else { DType::Int64 })
}

/// The sum of all entries.
///
/// # Errors
/// Those of summing.
pub fn sum(self_: &Tensor, dtype: Option<DType>) -> Result<Tensor> {
    let x = Matrices::expect(self_, "sum")?;
    op::sum(&x.parts.values, Some(summed_in(self_, dtype)))
}

/// The sums of rows or columns of a CSR matrix, or of both, compressed by rows again.
///
/// # Errors
/// `Runtime` for other layouts, batches, and where dimensions are not kept.
pub fn sum_dim(
    self_: &Tensor,
    dim: Option<&[i64]>,
    keepdim: bool,
    dtype: Option<DType>,
) -> Result<Tensor> {
    match dim.filter(|dim| !dim.is_empty()) {
        None => sum(self_, dtype),
        Some(dim) => csr_sum(self_, dim, keepdim, dtype),
    }
}

/// The sums of rows or columns of a CSR matrix, or of both, compressed by rows again.
///
/// # Errors
/// As [`sum_dim`].
pub fn csr_sum(self_: &Tensor, dim: &[i64], keepdim: bool, dtype: Option<DType>) -> Result<Tensor> {
    over_lines("sum", self_, dim, keepdim, Some(summed_in(self_, dtype)))
}

/// The products of the entries of rows or columns of a CSR matrix, or of all, compressed by rows again.
///
/// # Errors
/// As [`sum_dim`].
pub fn csr_prod(
    self_: &Tensor,
    dim: &[i64],
    keepdim: bool,
    dtype: Option<DType>,
) -> Result<Tensor> {
    over_lines("prod", self_, dim, keepdim, Some(summed_in(self_, dtype)))
}

fn over_lines(
    reduce: &str,
    self_: &Tensor,
    dim: &[i64],
    keepdim: bool,
    dtype: Option<DType>,
) -> Result<Tensor> {
    ensure!(
        self_.layout() == Layout::SparseCsr,
        Runtime,
        "Currently the only compressed sparse format supported for {reduce}.dim_IntList is CSR, but \
         got layout {}",
        self_.layout()
    );
    ensure!(
        keepdim,
        Runtime,
        "reduction operations on CSR tensors with keepdim=False is unsupported"
    );
    let x = Matrices::expect(self_, reduce)?;
    ensure!(x.sizes.len() == 2, Runtime, "{reduce}s of CSR tensors are for matrices");
    let mut reduced = [false; 2];
    for &dim in dim {
        reduced[geometry::wrap_dim(dim, 2)?] = true;
    }
    let mut values = x.parts.values.clone();
    if let Some(dtype) = dtype {
        values = to(&values, dtype)?;
    }
    reduced_lines(reduce, &x, &values, reduced)
}

/// Values gathered in the first row or column of the dimensions that are reduced.
fn reduced_lines(
    reduce: &str,
    x: &Matrices,
    values: &Tensor,
    reduced: [bool; 2],
) -> Result<Tensor> {
    let places = Coordinates::of(x)?;
    let line = |place: Tensor, reduced: bool| {
        if reduced { op::mul_scalar(&place, Scalar::Int(0)) } else { Ok(place) }
    };
    let places = Coordinates {
        batch: places.batch,
        row: line(places.row, reduced[0])?,
        column: line(places.column, reduced[1])?,
    };
    let size = |d: usize| if reduced[d] { 1 } else { x.sizes[d] };
    let sizes = [size(0), size(1)];
    let mut goal = Arrangement {
        sizes: &sizes,
        layout: Layout::SparseCsr,
        start: 0,
        dtype: x.parts.compressed_indices.dtype(),
        sums: true,
    };
    if reduce == "sum" {
        return goal.of(&places, values)?.tensor();
    }
    goal.sums = false;
    let flat = places.flat(sizes)?;
    let (found, inverse, _) = op::_unique2(&flat, true, true, false)?;
    let start = zeros(&found.sizes(), values)?;
    let products = op::scatter_reduce_two(&start, 0, &inverse, values, "prod", false)?;
    let places = Coordinates {
        batch: zeros(&found.sizes(), &found)?,
        row: floor_div(&found, sizes[1])?,
        column: modulo(&found, sizes[1])?,
    };
    goal.of(&places, &products)?.tensor()
}
