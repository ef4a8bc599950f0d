//! Dimensions exchanged, added, removed and joined.

use super::entries;
use super::reduce::rows_of;
use crate::any::view::selected;
use crate::sparse::Coo;
use crate::{Tensor, op};
use corten_core::{DType, Dims, Result, Scalar, bail, ensure, geometry::wrap_dim};

/// Two dimensions exchanged that indices count, or two of the values.
///
/// # Errors
/// `Runtime` for one of each; `Index` for a dimension that there is not.
pub fn transpose(self_: &Tensor, dim0: i64, dim1: i64) -> Result<Tensor> {
    let (parts, mut sizes) = (Coo::expect(self_, "transpose")?, self_.sizes());
    let (dim0, dim1) = (wrap_dim(dim0, sizes.len())?, wrap_dim(dim1, sizes.len())?);
    if dim0 == dim1 {
        return op::alias(self_);
    }
    let count = parts.sparse_dim() as usize;
    ensure!(
        (dim0 < count) == (dim1 < count),
        Runtime,
        "transpose(): transpose between sparse and dense dimensions is not supported"
    );
    sizes.swap(dim0, dim1);
    if dim0 >= count {
        let (a, b) = (dim0 - count + 1, dim1 - count + 1);
        let values = op::transpose_int(&parts.values, a as i64, b as i64)?;
        return Coo { values, ..parts }.tensor(&sizes);
    }
    let mut order: Vec<usize> = (0..count).collect();
    order.swap(dim0, dim1);
    let coalesced = parts.nnz() < 2;
    Coo { indices: rows_of(&parts.indices, &order)?, coalesced, ..parts }.tensor(&sizes)
}

/// A matrix transposed; a vector as it is.
///
/// # Errors
/// `Runtime` for more than two dimensions or dense ones.
pub fn t(self_: &Tensor) -> Result<Tensor> {
    let parts = Coo::expect(self_, "t")?;
    let (sparse, dense) = (parts.sparse_dim(), parts.dense_dim());
    ensure!(
        sparse <= 2 && dense == 0,
        Runtime,
        "t() expects a tensor with <= 2 sparse and 0 dense dimensions, but got {sparse} sparse and \
         {dense} dense dimensions"
    );
    if sparse < 2 { op::alias(self_) } else { transpose(self_, 0, 1) }
}

/// Dimensions in another order.
///
/// # Errors
/// `Runtime` where dimensions are missing, or those of indices and values mix.
pub fn permute(self_: &Tensor, dims: &[i64]) -> Result<Tensor> {
    let (parts, sizes) = (Coo::expect(self_, "permute")?, self_.sizes());
    ensure!(
        dims.len() == sizes.len(),
        Runtime,
        "permute(sparse_coo): number of dimensions in the tensor input does not match the length of \
         the desired ordering of dimensions i.e. input.dim() = {} is not equal to len(dims) = {}",
        sizes.len(),
        dims.len()
    );
    let wanted = dims.iter().map(|&dim| wrap_dim(dim, sizes.len())).collect::<Result<Vec<_>>>()?;
    let mut seen = wanted.clone();
    seen.sort_unstable();
    seen.dedup();
    ensure!(seen.len() == wanted.len(), Runtime, "permute(): duplicate dims are not allowed.");
    let count = parts.sparse_dim() as usize;
    ensure!(
        wanted.iter().enumerate().all(|(place, &dim)| (place < count) == (dim < count)),
        Runtime,
        "permute(sparse_coo): transpositions between sparse and dense dimensions are not allowed.Only \
         transpositions within sparse and dense dimensions are supported."
    );
    let mut order = vec![0];
    order.extend(wanted[count..].iter().map(|&dim| (dim - count + 1) as i64));
    let values = op::permute(&parts.values, &order)?;
    let ordered = wanted[..count].iter().enumerate().all(|(place, &dim)| place == dim);
    let indices =
        if ordered { parts.indices.clone() } else { rows_of(&parts.indices, &wanted[..count])? };
    let left: Dims = wanted.iter().map(|&dim| sizes[dim]).collect();
    let made = Coo { indices, values, coalesced: parts.coalesced && ordered || parts.nnz() < 2 };
    // Entries stay coalesced where the caller names the first dimension 0: then they are ordered anew.
    if parts.coalesced && dims.first() == Some(&0) {
        return entries::coalesced(&made, &left)?.tensor(&left);
    }
    made.tensor(&left)
}

/// A new dimension of size 1.
///
/// # Errors
/// `Index` for a dimension that cannot be.
pub fn unsqueeze(self_: &Tensor, dim: i64) -> Result<Tensor> {
    let (parts, mut sizes) = (Coo::expect(self_, "unsqueeze")?, self_.sizes());
    let dim = wrap_dim(dim, sizes.len() + 1)?;
    sizes.insert(dim, 1);
    let count = parts.sparse_dim() as usize;
    if dim > count {
        let values = op::unsqueeze(&parts.values, (dim - count + 1) as i64)?;
        return Coo { values, ..parts }.tensor(&sizes);
    }
    let device = Some(parts.indices.device());
    let row = op::zeros(&[1, parts.nnz()], Some(DType::Int64), None, device, None)?;
    let before = op::narrow(&parts.indices, 0, 0, dim as i64)?;
    let after = op::narrow(&parts.indices, 0, dim as i64, (count - dim) as i64)?;
    let coalesced = parts.nnz() < 2;
    Coo { indices: op::cat(&[before, row, after], 0)?, coalesced, ..parts }.tensor(&sizes)
}

/// A dimension of size 1 removed; a tensor whose dimension has another size as it is.
///
/// # Errors
/// `Index` for a dimension that there is not.
pub fn squeeze_dim(self_: &Tensor, dim: i64) -> Result<Tensor> {
    let (parts, mut sizes) = (Coo::expect(self_, "squeeze")?, self_.sizes());
    let dim = wrap_dim(dim, sizes.len())?;
    if sizes.get(dim) != Some(&1) {
        return op::alias(self_);
    }
    sizes.remove(dim);
    let count = parts.sparse_dim() as usize;
    if dim >= count {
        let values = op::squeeze_dim(&parts.values, (dim - count + 1) as i64)?;
        return Coo { values, ..parts }.tensor(&sizes);
    }
    let before = op::narrow(&parts.indices, 0, 0, dim as i64)?;
    let after = op::narrow(&parts.indices, 0, dim as i64 + 1, (count - dim - 1) as i64)?;
    Coo { indices: op::cat(&[before, after], 0)?, ..parts }.tensor(&sizes)
}

/// One slice along a dimension; dense where no dimension is left that indices count.
///
/// # Errors
/// `Index` for an index that there is not.
pub fn select(self_: &Tensor, dim: i64, index: i64) -> Result<Tensor> {
    let (parts, mut sizes) = (Coo::expect(self_, "select")?, self_.sizes());
    ensure!(!sizes.is_empty(), Index, "select() cannot be applied to a 0-dim tensor.");
    let at = wrap_dim(dim, sizes.len())?;
    let index = selected(&sizes, at, dim, index)?;
    sizes.remove(at);
    let count = parts.sparse_dim() as usize;
    if at >= count {
        let values = op::select_int(&parts.values, (at - count + 1) as i64, index)?;
        return Coo { values, ..parts }.tensor(&sizes);
    }
    let row = op::select_int(&parts.indices, 0, at as i64)?;
    let kept = positions(&op::eq_scalar(&row, Scalar::Int(index))?)?;
    let values = op::index_select(&parts.values, 0, &kept)?;
    if count == 1 {
        let dtype = values.dtype();
        return op::sum_dim_intlist(&values, Some(&[0]), false, Some(dtype));
    }
    let rest: Vec<usize> = (0..count).filter(|&dim| dim != at).collect();
    let indices = op::index_select(&rows_of(&parts.indices, &rest)?, 1, &kept)?;
    let coalesced = parts.coalesced || kept.size(0)? < 2;
    Coo { indices, values, coalesced }.tensor(&sizes)
}

/// A slice put back where it was selected, with zeros around it.
///
/// # Errors
/// `Index` for a dimension that there is not.
pub fn select_backward(
    grad_output: &Tensor,
    input_sizes: &[i64],
    dim: i64,
    index: i64,
) -> Result<Tensor> {
    let parts = Coo::expect(grad_output, "select_backward")?;
    let at = wrap_dim(dim, input_sizes.len())?;
    let index = index.rem_euclid(input_sizes[at].max(1));
    let count = parts.sparse_dim() as usize;
    if at > count {
        let values = &parts.values;
        let mut shape = values.sizes();
        shape.insert(at - count + 1, input_sizes[at]);
        let (dtype, device) = (Some(values.dtype()), Some(values.device()));
        let wide = op::zeros(&shape, dtype, None, device, None)?;
        op::copy_(&op::select_int(&wide, (at - count + 1) as i64, index)?, values, false)?;
        return Coo { values: wide, ..parts }.tensor(input_sizes);
    }
    let (dtype, device) = (Some(DType::Int64), Some(parts.indices.device()));
    let row = op::full(&[1, parts.nnz()], Scalar::Int(index), dtype, None, device, None)?;
    let before = op::narrow(&parts.indices, 0, 0, at as i64)?;
    let after = op::narrow(&parts.indices, 0, at as i64, (count - at) as i64)?;
    let indices = op::cat(&[before, row, after], 0)?;
    Coo { indices, ..parts }.tensor(input_sizes)
}

/// Where truth values are true.
///
/// # Errors
/// Those of counting.
pub(crate) fn positions(mask: &Tensor) -> Result<Tensor> {
    op::flatten_using_ints(&op::nonzero(mask)?, 0, -1)
}

/// The slices of some indices along a dimension, which may come up several times.
///
/// # Errors
/// `Index` for an index that there is not.
pub fn index_select(self_: &Tensor, dim: i64, index: &Tensor) -> Result<Tensor> {
    let (parts, mut sizes) = (Coo::expect(self_, "index_select")?, self_.sizes());
    ensure!(index.dim() <= 1, Index, "index_select(): Index is supposed to be a vector");
    ensure!(
        matches!(index.dtype(), DType::Int64 | DType::Int32),
        Runtime,
        "index_select(): Expected dtype int32/int64 for index"
    );
    let at = wrap_dim(dim, sizes.len())?;
    let size = sizes[at];
    let index = op::reshape(&op::to_dtype(index, DType::Int64, false, false, None)?, &[-1])?;
    check_index(&index, size, &sizes, at)?;
    let index = op::remainder_scalar(&index, Scalar::Int(size.max(1)))?;
    sizes[at] = index.size(0)?;
    let count = parts.sparse_dim() as usize;
    if at >= count {
        let values = op::index_select(&parts.values, (at - count + 1) as i64, &index)?;
        return Coo { values, ..parts }.tensor(&sizes);
    }
    let row = op::select_int(&parts.indices, 0, at as i64)?;
    let (held, order) = op::sort_stable(&row, Some(true), 0, false)?;
    let (target, found) = super::products::matches(&held, &index)?;
    let entry = op::index_select(&order, 0, &found)?;
    let indices = op::index_select(&parts.indices, 1, &entry)?;
    op::copy_(&op::select_int(&indices, 0, at as i64)?, &target, false)?;
    let coalesced = entry.size(0)? < 2;
    Coo { indices, values: op::index_select(&parts.values, 0, &entry)?, coalesced }.tensor(&sizes)
}

fn check_index(index: &Tensor, size: i64, sizes: &[i64], at: usize) -> Result<()> {
    let outside = op::logical_or(
        &op::lt_scalar(index, Scalar::Int(-size))?,
        &op::ge_scalar(index, Scalar::Int(size))?,
    )?;
    if index.numel() == 0 || !op::is_nonzero(&op::any(&outside)?)? {
        return Ok(());
    }
    let first = op::select_int(&op::index_select(index, 0, &positions(&outside)?)?, 0, 0)?;
    bail!(
        Index,
        "index_select(): index contains {} that is out of range for tensor of size {sizes:?} at \
         dimension {at}",
        op::item(&first)?.to_i64()
    )
}

/// Tensors one behind the other.
///
/// # Errors
/// `Runtime` where sizes differ elsewhere, or a tensor is dense.
pub fn cat(tensors: &[Tensor], dim: i64) -> Result<Tensor> {
    let Some(first) = tensors.first() else {
        bail!(Runtime, "cat: expected a non-empty list of Tensors")
    };
    let at = wrap_dim(dim, first.dim())?;
    let all = checked_parts(tensors, at)?;
    let count = all[0].sparse_dim() as usize;
    let mut sizes = first.sizes();
    sizes[at] = tensors.iter().map(|tensor| tensor.sizes()[at]).sum();
    let (mut indices, mut values, mut start) = (Vec::new(), Vec::new(), 0);
    for (parts, tensor) in all.iter().zip(tensors) {
        let size = tensor.sizes()[at];
        if at < count {
            let moved = op::clone(&parts.indices, None)?;
            let row = op::select_int(&moved, 0, at as i64)?;
            op::add__scalar(&row, Scalar::Int(start), Scalar::Int(1))?;
            indices.push(moved);
            values.push(parts.values.clone());
        } else {
            indices.push(parts.indices.clone());
            values.push(padded(&parts.values, at - count + 1, start, sizes[at])?);
        }
        start += size;
    }
    let indices = op::cat(&indices, 1)?;
    let coalesced = indices.size(1)? < 2;
    Coo { indices, values: op::cat(&values, 0)?, coalesced }.tensor(&sizes)
}

/// Values with zeros before and behind them along a dimension.
fn padded(values: &Tensor, dim: usize, start: i64, size: i64) -> Result<Tensor> {
    let mut shape = values.sizes();
    let own = std::mem::replace(&mut shape[dim], size);
    let dtype = Some(values.dtype());
    let wide = op::zeros(&shape, dtype, None, Some(values.device()), None)?;
    op::copy_(&op::narrow(&wide, dim as i64, start, own)?, values, false)?;
    Ok(wide)
}

fn checked_parts(tensors: &[Tensor], at: usize) -> Result<Vec<Coo>> {
    let rest = |tensor: &Tensor| {
        let mut sizes = tensor.sizes();
        if at < sizes.len() {
            sizes.remove(at);
        }
        sizes
    };
    let mut all: Vec<Coo> = Vec::new();
    for (position, tensor) in tensors.iter().enumerate() {
        let Some(parts) = Coo::of(tensor) else {
            bail!(
                Runtime,
                "Concatenating sparse tensors, but a dense tensor was found at position {position}."
            )
        };
        ensure!(
            tensor.dim() == tensors[0].dim() && rest(tensor) == rest(&tensors[0]),
            Runtime,
            "All tensors must have the same shape: {:?} (except in the concatenating dimension), but \
             found shape: {:?} at position {position}.",
            tensors[0].sizes().as_slice(),
            tensor.sizes().as_slice()
        );
        if let Some(first) = all.first() {
            ensure!(
                parts.sparse_dim() == first.sparse_dim(),
                Runtime,
                "All tensors must have the same sparse_dim and dense_dim: {}, {}, but tensor at \
                 position {position} has {}, {}.",
                first.sparse_dim(),
                first.dense_dim(),
                parts.sparse_dim(),
                parts.dense_dim()
            );
        }
        all.push(parts);
    }
    Ok(all)
}

/// Tensors side by side along a new dimension.
///
/// # Errors
/// As [`cat`].
pub fn stack(tensors: &[Tensor], dim: i64) -> Result<Tensor> {
    let wide: Result<Vec<_>> = tensors.iter().map(|tensor| op::unsqueeze(tensor, dim)).collect();
    let wide = wide?;
    let rank = wide.first().map_or(1, |tensor| tensor.dim());
    op::cat(&wide, wrap_dim(dim, rank)? as i64)
}

/// All slices along a dimension.
///
/// # Errors
/// `Index` for a dimension that there is not.
pub fn unbind(self_: &Tensor, dim: i64) -> Result<Vec<Tensor>> {
    let at = wrap_dim(dim, self_.dim())?;
    (0..self_.sizes()[at]).map(|index| op::select_int(self_, at as i64, index)).collect()
}

/// Complex values as pairs of real ones, in a new last dimension.
///
/// # Errors
/// `Runtime` for real values.
pub fn view_as_real(self_: &Tensor) -> Result<Tensor> {
    let (parts, mut sizes) = (Coo::expect(self_, "view_as_real")?, self_.sizes());
    sizes.push(2);
    Coo { values: op::view_as_real(&parts.values)?, ..parts }.tensor(&sizes)
}
