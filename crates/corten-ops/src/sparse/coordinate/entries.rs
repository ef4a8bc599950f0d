//! Places of entries as numbers, and what lies at them.

use crate::composite::support::along;
use crate::sparse::Coo;
use crate::{Tensor, op};
use corten_core::{DType, Result, Scalar};

/// One number for each place: its position in the dimensions that the indices count, in row-major
/// order.
///
/// # Errors
/// Those of making a tensor.
pub fn flat_places(indices: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    let dims = indices.size(0)?;
    if dims == 1 {
        return op::select_int(indices, 0, 0);
    }
    let mut flat =
        op::zeros(&[indices.size(1)?], Some(DType::Int64), None, Some(indices.device()), None)?;
    for (dim, size) in (0..dims).zip(sizes) {
        let row = op::select_int(indices, 0, dim)?;
        flat = op::add_tensor(&row, &flat, Scalar::Int(*size))?;
    }
    Ok(flat)
}

/// The indices of places that [`flat_places`] numbered.
///
/// # Errors
/// Those of making a tensor.
pub fn places_of_flat(flat: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    if sizes.is_empty() {
        return op::zeros(&[0, flat.size(0)?], Some(DType::Int64), None, Some(flat.device()), None);
    }
    let mut rows = Vec::new();
    let mut rest = flat.clone();
    for size in sizes.iter().skip(1).rev() {
        let size = Scalar::Int((*size).max(1));
        rows.push(op::remainder_scalar(&rest, size)?);
        rest = op::div_scalar_mode(&rest, size, Some("floor"))?;
    }
    rows.push(rest);
    rows.reverse();
    op::stack(&rows, 0)
}

/// The dtype in which many values add up: sums of half precision soon stop growing.
pub(crate) fn dtype_of_sums(dtype: DType) -> DType {
    match dtype {
        DType::Float16 | DType::BFloat16 => DType::Float32,
        other => other,
    }
}

/// Entries whose places differ and are in order: values at the same place are added up.
///
/// # Errors
/// Those of sorting and adding.
pub fn coalesced(parts: &Coo, sizes: &[i64]) -> Result<Coo> {
    if parts.coalesced {
        return Ok(parts.clone());
    }
    let (sparse_dim, nnz) = (parts.sparse_dim(), parts.nnz());
    if nnz < 2 {
        return Ok(Coo { coalesced: true, ..parts.clone() });
    }
    let counted = &sizes[..sparse_dim as usize];
    let flat = flat_places(&parts.indices, counted)?;
    let (flat, order) = op::sort(&flat, 0, false)?;
    let (places, inverse, _) = op::unique_consecutive(&flat, true, false, None)?;
    let indices = places_of_flat(&places, counted)?;
    let dtype = parts.values.dtype();
    let values = op::index_select(&parts.values, 0, &order)?;
    let values = if places.size(0)? == nnz {
        values
    } else {
        let values = op::to_dtype(&values, dtype_of_sums(dtype), false, false, None)?;
        let mut shape = values.sizes();
        shape[0] = places.size(0)?;
        let zeros = op::zeros(&shape, Some(values.dtype()), None, Some(values.device()), None)?;
        let summed = op::index_add(&zeros, 0, &inverse, &values, Scalar::Int(1))?;
        op::to_dtype(&summed, dtype, false, false, None)?
    };
    Ok(Coo { indices, values, coalesced: true })
}

/// The rows of a dense tensor at places, one for each.
///
/// # Errors
/// Those of indexing.
pub fn dense_at(dense: &Tensor, indices: &Tensor) -> Result<Tensor> {
    let dims = indices.size(0)?;
    let sizes = dense.sizes();
    let (counted, rest) = sizes.split_at(dims as usize);
    let mut shape = vec![counted.iter().product()];
    shape.extend_from_slice(rest);
    op::index_select(&op::reshape(dense, &shape)?, 0, &flat_places(indices, counted)?)
}

/// Where in ordered flat places others are: the position, and whether there is an entry.
///
/// # Errors
/// Those of searching.
pub fn find(ordered: &Tensor, wanted: &Tensor) -> Result<(Tensor, Tensor)> {
    let count = ordered.size(0)?;
    if count == 0 {
        let none = op::zeros_like(wanted, None, None, None, None, None)?;
        let found = op::zeros_like(wanted, Some(DType::Bool), None, None, None, None)?;
        return Ok((none, found));
    }
    let at = op::searchsorted_tensor(ordered, wanted, false, false, None, None)?;
    let at = op::clamp(&at, None, Some(Scalar::Int(count - 1)))?;
    let found = op::eq_tensor(&op::index_select(ordered, 0, &at)?, wanted)?;
    Ok((at, found))
}

/// The values of coalesced entries at places: zero where there is no entry.
///
/// # Errors
/// Those of searching.
pub fn entries_at(parts: &Coo, sizes: &[i64], indices: &Tensor) -> Result<Tensor> {
    let counted = &sizes[..parts.sparse_dim() as usize];
    let ordered = flat_places(&parts.indices, counted)?;
    let wanted = flat_places(indices, counted)?;
    chosen(&parts.values, &find(&ordered, &wanted)?)
}

/// Rows of values at positions that [`find`] gave: zero where nothing was found.
///
/// # Errors
/// Those of indexing.
pub fn chosen(values: &Tensor, (at, found): &(Tensor, Tensor)) -> Result<Tensor> {
    if values.size(0)? == 0 {
        let mut shape = values.sizes();
        shape[0] = at.size(0)?;
        return op::zeros(&shape, Some(values.dtype()), None, Some(values.device()), None);
    }
    let rows = op::index_select(values, 0, at)?;
    let missing = along(&op::logical_not(found)?, rows.dim(), 0)?;
    op::masked_fill_scalar(&rows, &missing, Scalar::Int(0))
}
