//! Shapes of sorting and of selecting by order.

use super::Reduce;
use crate::composite::support::tensor_type_name;
use crate::iter::allocate;
use crate::{Tensor, derived, op};
use corten_core::{DType, Result, Scalar, ensure, geometry};

fn pair(self_: &Tensor, shape: &[i64]) -> Result<(Tensor, Tensor)> {
    let device = self_.device();
    Ok((
        allocate(shape, None, self_.dtype(), device)?,
        allocate(shape, None, DType::Int64, device)?,
    ))
}

/// `sort`.
///
/// # Errors
/// As for [`sort_stable`].
pub fn sort(self_: &Tensor, dim: i64, descending: bool) -> Result<(Tensor, Tensor)> {
    sort_stable(self_, None, dim, descending)
}

/// `sort.stable`: both results are laid out as the input is.
///
/// # Errors
/// `Index` for a dimension out of range, `Type` for complex numbers.
pub fn sort_stable(
    self_: &Tensor,
    _stable: Option<bool>,
    dim: i64,
    _descending: bool,
) -> Result<(Tensor, Tensor)> {
    geometry::wrap_dim(dim, self_.dim())?;
    let complex = self_.dtype().is_complex();
    ensure!(!complex, Type, " Sort does not support complex dtypes on CPU");
    let like = |dtype| op::empty_like(self_, Some(dtype), None, None, None, None);
    Ok((like(self_.dtype())?, like(DType::Int64)?))
}

/// `topk`.
///
/// # Errors
/// `Index` for a dimension out of range, `Runtime` for a `k` out of range, `Type` for complex
/// numbers.
pub fn topk(
    self_: &Tensor,
    k: i64,
    dim: i64,
    _largest: bool,
    _sorted: bool,
) -> Result<(Tensor, Tensor)> {
    let dim = geometry::wrap_dim(dim, self_.dim())?;
    let mut shape = self_.sizes();
    let size = shape.get(dim).copied().unwrap_or(1);
    ensure!(0 <= k && k <= size, Runtime, "selected index k out of range");
    let dtype = self_.dtype();
    ensure!(!dtype.is_complex(), Type, " topk does not support complex dtypes on CPU");
    let bool = dtype == DType::Bool;
    ensure!(!bool, NotImplemented, "topk does not support bool dtypes on CPU");
    if let Some(size) = shape.get_mut(dim) {
        *size = k;
    }
    pair(self_, &shape)
}

/// The shapes of operators that select one element of each line.
fn one_of_each(self_: &Tensor, dim: i64, keepdim: bool, name: &str) -> Result<(Tensor, Tensor)> {
    let reduce = Reduce::over(self_, Some(&[dim]), keepdim)?;
    reduce.check_not_empty(name)?;
    pair(self_, &reduce.shape())
}

/// `kthvalue`.
///
/// # Errors
/// `Index` for a dimension out of range or empty, `Runtime` for a `k` out of range.
pub fn kthvalue(self_: &Tensor, k: i64, dim: i64, keepdim: bool) -> Result<(Tensor, Tensor)> {
    let outputs = one_of_each(self_, dim, keepdim, "kthvalue()")?;
    let dim = geometry::wrap_dim(dim, self_.dim())?;
    let size = self_.sizes().get(dim).copied().unwrap_or(1);
    ensure!(
        1 <= k && k <= size,
        Runtime,
        "kthvalue(): selected number k out of range for dimension {dim}"
    );
    Ok(outputs)
}

/// `median.dim` and `nanmedian.dim`.
///
/// # Errors
/// `Index` for a dimension out of range or empty.
pub fn median_dim(self_: &Tensor, dim: i64, keepdim: bool) -> Result<(Tensor, Tensor)> {
    one_of_each(self_, dim, keepdim, "median()")
}

/// `mode`.
///
/// # Errors
/// `Index` for a dimension out of range or empty.
pub fn mode(self_: &Tensor, dim: i64, keepdim: bool) -> Result<(Tensor, Tensor)> {
    one_of_each(self_, dim, keepdim, "mode()")
}

/// `searchsorted.Tensor`: checks, and the places without their values.
///
/// # Errors
/// `Runtime` for shapes, sides and sorters that do not fit.
pub fn searchsorted(
    sorted_sequence: &Tensor,
    self_: &Tensor,
    out_int32: bool,
    right: bool,
    side: Option<&str>,
    sorter: Option<&Tensor>,
) -> Result<Tensor> {
    if let Some(side) = side {
        ensure!(
            side == "left" || side == "right",
            Runtime,
            "torch.searchsorted(): side can only be 'left' or 'right' but got {side}"
        );
        ensure!(
            !(right && side == "left"),
            Runtime,
            "torch.searchsorted(): side and right can't be set to opposites, got side of left \
             while right was True"
        );
    }
    if let Some(sorter) = sorter.filter(|sorter| sorter.defined()) {
        check_sorter(sorted_sequence, sorter)?;
    }
    check_places(sorted_sequence, self_)?;
    let dtype = if out_int32 { DType::Int32 } else { DType::Int64 };
    allocate(&self_.sizes(), None, dtype, self_.device())
}

fn check_sorter(sequence: &Tensor, sorter: &Tensor) -> Result<()> {
    ensure!(
        sorter.sizes() == sequence.sizes(),
        Runtime,
        "torch.searchsorted(): boundary and sorter must have the same size, but got boundary \
         tensor {:?}and got sorter tensor {:?}",
        sequence.sizes().as_slice(),
        sorter.sizes().as_slice()
    );
    ensure!(
        sorter.dtype() == DType::Int64,
        Runtime,
        "torch.searchsorted(): sorter must be a tensor of long dtype but got dtype {}",
        sorter.dtype().type_name()
    );
    Ok(())
}

fn check_places(sequence: &Tensor, values: &Tensor) -> Result<()> {
    let (rank, sizes) = (sequence.dim(), values.sizes());
    ensure!(
        values.dim() > 0 || rank == 1 && values.numel() == 1 || rank == 0,
        Runtime,
        "torch.searchsorted(): input value can be a scalar only when boundaries tensor dimension \
         is 1, but we got boundaries tensor dim({rank}) and input value's dim({}) numel({})",
        values.dim(),
        values.numel()
    );
    ensure!(
        rank != 0,
        Runtime,
        "torch.searchsorted(): boundaries tensor should have positive dimension, but got 0 \
         dimension"
    );
    let shape = sequence.sizes();
    let same = rank == sizes.len() && shape[..rank - 1] == sizes[..rank - 1];
    ensure!(
        rank == 1 || same,
        Runtime,
        "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 \
         dimensions of boundaries tensor and input value tensor must match, but we got boundaries \
         tensor {:?} and input value tensor {:?}",
        shape.as_slice(),
        sizes.as_slice()
    );
    Ok(())
}

/// The shapes of `bucketize.Tensor`.
///
/// # Errors
/// As for [`check_boundaries`].
pub fn bucketize(
    self_: &Tensor,
    boundaries: &Tensor,
    out_int32: bool,
    right: bool,
) -> Result<Tensor> {
    check_boundaries(boundaries)?;
    searchsorted(boundaries, self_, out_int32, right, None, None)
}

/// # Errors
/// `Runtime` for boundaries that are no vector.
pub fn check_boundaries(boundaries: &Tensor) -> Result<()> {
    let rank = boundaries.dim();
    ensure!(rank == 1, Runtime, "boundaries tensor must be 1 dimension, but got dim({rank})");
    Ok(())
}

/// # Errors
/// `Runtime` for an output that cannot hold the places as asked.
pub fn check_places_out(out: &Tensor, out_int32: bool) -> Result<()> {
    let wanted = if out_int32 { DType::Int32 } else { DType::Int64 };
    ensure!(
        out.dtype() == wanted,
        Runtime,
        "torch.searchsorted(): output tensor's dtype is wrong, it can only be Int(int32) or \
         Long(int64) depending on whether out_int32 flag is True, but we got output tensor's dtype \
         {} and out_int32 flag is {}",
        out.dtype().type_name(),
        if out_int32 { "True" } else { "False" }
    );
    Ok(())
}

/// # Errors
/// `NotImplemented` for dtypes that `isin` does not take.
pub fn check_members(tensors: &[&Tensor]) -> Result<()> {
    for tensor in tensors {
        let dtype = tensor.dtype();
        ensure!(
            dtype != DType::Bool && !dtype.is_complex(),
            NotImplemented,
            "Unsupported input type encountered for isin(): {}",
            dtype.type_name()
        );
    }
    Ok(())
}

/// `isin.Tensor_Tensor`.
///
/// # Errors
/// As for [`check_members`].
pub fn isin(
    elements: &Tensor,
    test_elements: &Tensor,
    _assume_unique: bool,
    _invert: bool,
) -> Result<Tensor> {
    check_members(&[elements, test_elements])?;
    allocate(&elements.sizes(), None, DType::Bool, elements.device())
}

/// `histc`.
///
/// # Errors
/// `Runtime` for a number of bins that is not positive.
pub fn histc(self_: &Tensor, bins: i64, _min: Scalar, _max: Scalar) -> Result<Tensor> {
    crate::composite::histogram::check_bins(bins, 0)?;
    allocate(&[bins], None, self_.dtype(), self_.device())
}

/// `searchsorted.Scalar`: the place of one number.
///
/// # Errors
/// As for [`searchsorted`].
pub fn searchsorted_scalar(
    sorted_sequence: &Tensor,
    _self: Scalar,
    out_int32: bool,
    right: bool,
    side: Option<&str>,
    sorter: Option<&Tensor>,
) -> Result<Tensor> {
    let number = allocate(&[], None, sorted_sequence.dtype(), sorted_sequence.device())?;
    searchsorted(sorted_sequence, &number, out_int32, right, side, sorter)
}

/// `bucketize.Scalar`.
///
/// # Errors
/// As for [`bucketize`].
pub fn bucketize_scalar(
    self_: Scalar,
    boundaries: &Tensor,
    out_int32: bool,
    right: bool,
) -> Result<Tensor> {
    check_boundaries(boundaries)?;
    searchsorted_scalar(boundaries, self_, out_int32, right, None, None)
}

/// `isin.Tensor_Scalar`.
///
/// # Errors
/// As for [`check_members`].
pub fn isin_test_scalar(
    elements: &Tensor,
    _test_element: Scalar,
    _assume_unique: bool,
    _invert: bool,
) -> Result<Tensor> {
    check_members(&[elements])?;
    allocate(&elements.sizes(), None, DType::Bool, elements.device())
}

/// `isin.Scalar_Tensor`.
///
/// # Errors
/// As for [`check_members`].
pub fn isin_scalar(
    _element: Scalar,
    test_elements: &Tensor,
    _assume_unique: bool,
    _invert: bool,
) -> Result<Tensor> {
    check_members(&[test_elements])?;
    allocate(&[], None, DType::Bool, test_elements.device())
}

/// The outputs of `kthvalue`.
///
/// # Errors
/// `Runtime` for outputs of another dtype, and for values that share memory with the input.
pub fn check_kthvalue_outputs(self_: &Tensor, values: &Tensor, indices: &Tensor) -> Result<()> {
    let same = values.dtype() == self_.dtype();
    ensure!(same, Runtime, "output values must be of same type as input");
    let long = indices.dtype() == DType::Int64;
    ensure!(long, Runtime, "output indices must be of scalar type Long");
    geometry::assert_no_overlap(values, self_)
}

/// The outputs of `median` and `nanmedian` along a dimension.
///
/// # Errors
/// `Runtime` for outputs of another dtype.
pub fn check_median_outputs(self_: &Tensor, values: &Tensor, indices: &Tensor) -> Result<()> {
    ensure!(
        values.dtype() == self_.dtype(),
        Runtime,
        "Expected tensor for 'values' to have the same type as tensor for argument #2 'self'; but \
         type {} does not equal {} (while checking arguments for median)",
        tensor_type_name(values.dtype()),
        tensor_type_name(self_.dtype())
    );
    ensure!(
        indices.dtype() == DType::Int64,
        Runtime,
        "Expected tensor for argument #1 'indices' to have scalar type Long; but got {} instead \
         (while checking arguments for median)",
        tensor_type_name(indices.dtype())
    );
    Ok(())
}

/// The outputs of `mode`.
///
/// # Errors
/// `Runtime` for outputs of another dtype.
pub fn check_mode_outputs(self_: &Tensor, values: &Tensor, indices: &Tensor) -> Result<()> {
    for (out, dtype, name) in
        [(values, self_.dtype(), "values"), (indices, DType::Int64, "indices")]
    {
        ensure!(
            out.dtype() == dtype,
            Runtime,
            "expected scalar type '{}' but got '{}' for {name} output",
            dtype.type_name(),
            out.dtype().type_name()
        );
    }
    Ok(())
}

/// Writes both results of a selection into outputs.
///
/// # Errors
/// Those of writing.
pub fn write_selection(
    (values, indices): (&Tensor, &Tensor),
    results: (Tensor, Tensor),
) -> Result<(Tensor, Tensor)> {
    Ok((derived::write_out(values, &results.0)?, derived::write_out(indices, &results.1)?))
}
