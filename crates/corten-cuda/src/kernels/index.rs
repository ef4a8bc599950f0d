//! Choosing, gathering and scattering.

use crate::indexing::{
    Combine, Scattered, along, apart, fit_values, gather_into, index_into, index_on, index_plan,
    put_at, scatter_into,
};
use crate::operands::{contiguous, empty, on_meta};
use crate::pointwise::{Expression, run_as};
use corten_core::geometry::wrap_dim;
use corten_core::{MemoryFormat, Result, Scalar, bail, ensure};
use corten_ops::meta::Domain;
use corten_ops::{Tensor, TensorIterator, op};

static WHERE: Expression = Expression {
    name: "where_cuda",
    operator: "Where",
    text: "",
    inputs: 3,
    domain: Domain::Every,
};

/// The second input where the first is true, the third elsewhere.
///
/// # Errors
/// Those of the driver; for the functions below those of their arguments' checks, which are the CPU's.
pub fn where_self(iter: &mut TensorIterator, _scalars: &[Scalar]) -> Result<()> {
    let dtype = iter.dtype(0);
    run_as(&WHERE, iter, &[], dtype)
}

/// A copy to scatter into.
fn copied(self_: &Tensor) -> Result<Tensor> {
    op::clone(self_, Some(MemoryFormat::Contiguous))
}

/// A tensor of at least one dimension.
fn vector(tensor: &Tensor) -> Result<Tensor> {
    if tensor.dim() == 0 { op::unsqueeze(tensor, 0) } else { Ok(tensor.clone()) }
}

/// The part of a source that an index has positions for.
fn narrowed(source: &Tensor, index: &Tensor) -> Result<Tensor> {
    let mut narrowed = vector(source)?;
    for (dim, &size) in vector(index)?.sizes().iter().enumerate() {
        narrowed = op::narrow(&narrowed, dim as i64, 0, size)?;
    }
    Ok(narrowed)
}

/// `out[p] = self[p with index[p] at dim]`.
pub fn gather(self_: &Tensor, dim: i64, index: &Tensor, sparse_grad: bool) -> Result<Tensor> {
    let planned = op::gather(&on_meta(self_)?, dim, &on_meta(index)?, sparse_grad)?;
    let out = empty(&planned.sizes(), self_.dtype(), self_)?;
    let dim = wrap_dim(dim, self_.dim())?;
    let index = index_on(self_, &vector(index)?)?;
    gather_into(&vector(&out)?, &vector(self_)?, dim, &index)?;
    Ok(out)
}

/// The elements of `self` along `dim` that a vector of indices names.
pub fn index_select(self_: &Tensor, dim: i64, index: &Tensor) -> Result<Tensor> {
    let planned = op::index_select(&on_meta(self_)?, dim, &on_meta(index)?)?;
    let out = empty(&planned.sizes(), self_.dtype(), self_)?;
    let (source, dim) = (vector(self_)?, wrap_dim(dim, self_.dim())?);
    let index = along(&index_on(self_, index)?, &source.sizes(), dim)?;
    gather_into(&vector(&out)?, &source, dim, &index)?;
    Ok(out)
}

fn scatter(
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    source: &Tensor,
    scattered: &Scattered,
) -> Result<Tensor> {
    let (target, dim) = (vector(self_)?, wrap_dim(dim, self_.dim())?);
    let index = index_on(self_, &vector(index)?)?;
    let source = apart(&narrowed(source, &index)?, self_)?;
    scatter_into(&target, dim, &index, &source, scattered)?;
    Ok(self_.clone())
}

/// `self[p with index[p] at dim] = src[p]`.
pub fn scatter_src_(self_: &Tensor, dim: i64, index: &Tensor, src: &Tensor) -> Result<Tensor> {
    op::scatter__src(&on_meta(self_)?, dim, &on_meta(index)?, &on_meta(src)?)?;
    scatter(self_, dim, index, src, &Scattered::by(Combine::Assign))
}

/// As [`scatter_src_`], of a copy.
pub fn scatter_src(self_: &Tensor, dim: i64, index: &Tensor, src: &Tensor) -> Result<Tensor> {
    scatter_src_(&copied(self_)?, dim, index, src)
}

/// One number in an index's shape.
fn number_like(self_: &Tensor, index: &Tensor, value: Scalar) -> Result<Tensor> {
    let number = op::full(&[], value, Some(self_.dtype()), None, Some(self_.device()), None)?;
    op::expand(&number, &vector(index)?.sizes(), false)
}

/// `self[p with index[p] at dim] = value`.
pub fn scatter_value_(self_: &Tensor, dim: i64, index: &Tensor, value: Scalar) -> Result<Tensor> {
    op::scatter__value(&on_meta(self_)?, dim, &on_meta(index)?, value)?;
    let source = number_like(self_, index, value)?;
    scatter(self_, dim, index, &source, &Scattered::by(Combine::Assign))
}

/// As [`scatter_value_`], of a copy.
pub fn scatter_value(self_: &Tensor, dim: i64, index: &Tensor, value: Scalar) -> Result<Tensor> {
    scatter_value_(&copied(self_)?, dim, index, value)
}

/// `self[p with index[p] at dim] += src[p]`.
pub fn scatter_add_(self_: &Tensor, dim: i64, index: &Tensor, src: &Tensor) -> Result<Tensor> {
    op::scatter_add_(&on_meta(self_)?, dim, &on_meta(index)?, &on_meta(src)?)?;
    scatter(self_, dim, index, src, &Scattered::by(Combine::Add))
}

/// As [`scatter_add_`], of a copy.
pub fn scatter_add(self_: &Tensor, dim: i64, index: &Tensor, src: &Tensor) -> Result<Tensor> {
    scatter_add_(&copied(self_)?, dim, index, src)
}

fn combine_named(reduce: &str) -> Result<Combine> {
    Ok(match reduce {
        "add" => Combine::Add,
        "multiply" => Combine::Multiply,
        _ => bail!(Runtime, "reduce argument must be either add or multiply."),
    })
}

/// `scatter` with a reduction.
pub fn scatter_reduce_src_(
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    src: &Tensor,
    reduce: &str,
) -> Result<Tensor> {
    op::scatter__reduce(&on_meta(self_)?, dim, &on_meta(index)?, &on_meta(src)?, reduce)?;
    scatter(self_, dim, index, src, &Scattered::by(combine_named(reduce)?))
}

/// As [`scatter_reduce_src_`], of a copy.
pub fn scatter_reduce_src(
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    src: &Tensor,
    reduce: &str,
) -> Result<Tensor> {
    scatter_reduce_src_(&copied(self_)?, dim, index, src, reduce)
}

/// `scatter` of one number with a reduction.
pub fn scatter_reduce_value_(
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    value: Scalar,
    reduce: &str,
) -> Result<Tensor> {
    op::scatter__value_reduce(&on_meta(self_)?, dim, &on_meta(index)?, value, reduce)?;
    let source = number_like(self_, index, value)?;
    scatter(self_, dim, index, &source, &Scattered::by(combine_named(reduce)?))
}

/// As [`scatter_reduce_value_`], of a copy.
pub fn scatter_reduce_value(
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    value: Scalar,
    reduce: &str,
) -> Result<Tensor> {
    scatter_reduce_value_(&copied(self_)?, dim, index, value, reduce)
}

/// Combines the slices of `source` with those of `self` that a vector of indices names.
fn slices(
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    source: &Tensor,
    scattered: &Scattered,
) -> Result<Tensor> {
    let (target, dim) = (vector(self_)?, wrap_dim(dim, self_.dim())?);
    let index = along(&index_on(self_, index)?, &target.sizes(), dim)?;
    let source = op::expand(&apart(&vector(source)?, self_)?, &index.sizes(), false)?;
    scatter_into(&target, dim, &index, &source, scattered)?;
    Ok(self_.clone())
}

/// `self[:, index] += alpha * source`.
pub fn index_add_(
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    source: &Tensor,
    alpha: Scalar,
) -> Result<Tensor> {
    op::index_add_(&on_meta(self_)?, dim, &on_meta(index)?, &on_meta(source)?, alpha)?;
    slices(self_, dim, index, source, &Scattered { alpha, ..Scattered::by(Combine::Add) })
}

/// As [`index_add_`], of a copy.
pub fn index_add(
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    source: &Tensor,
    alpha: Scalar,
) -> Result<Tensor> {
    index_add_(&copied(self_)?, dim, index, source, alpha)
}

/// `self[:, index] = source`.
pub fn index_copy_(self_: &Tensor, dim: i64, index: &Tensor, source: &Tensor) -> Result<Tensor> {
    op::index_copy_(&on_meta(self_)?, dim, &on_meta(index)?, &on_meta(source)?)?;
    slices(self_, dim, index, source, &Scattered::by(Combine::Assign))
}

/// As [`index_copy_`], of a copy.
pub fn index_copy(self_: &Tensor, dim: i64, index: &Tensor, source: &Tensor) -> Result<Tensor> {
    index_copy_(&copied(self_)?, dim, index, source)
}

/// `self[:, index] = value`.
pub fn index_fill_scalar_(
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    value: Scalar,
) -> Result<Tensor> {
    op::index_fill__int_scalar(&on_meta(self_)?, dim, &on_meta(index)?, value)?;
    let number = op::full(&[], value, Some(self_.dtype()), None, Some(self_.device()), None)?;
    slices(self_, dim, index, &number, &Scattered::by(Combine::Assign))
}

/// As [`index_fill_scalar_`], of a copy.
pub fn index_fill_scalar(
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    value: Scalar,
) -> Result<Tensor> {
    index_fill_scalar_(&copied(self_)?, dim, index, value)
}

/// The elements that index tensors select.
pub fn index(self_: &Tensor, indices: &[Option<Tensor>]) -> Result<Tensor> {
    let plan = index_plan(self_, indices)?;
    let out = empty(&plan.shape, self_.dtype(), self_)?;
    index_into(&plan, &out)?;
    Ok(out)
}

/// Writes or adds values at the elements that index tensors select.
pub fn index_put_(
    self_: &Tensor,
    indices: &[Option<Tensor>],
    values: &Tensor,
    accumulate: bool,
) -> Result<Tensor> {
    ensure!(
        self_.dtype() == values.dtype(),
        Runtime,
        "Index put requires the source and destination dtypes match, got {} for the destination and {} for \
         the source.",
        self_.dtype().type_name(),
        values.dtype().type_name()
    );
    let plan = index_plan(self_, indices)?;
    let values = match values.device() == self_.device() {
        true => values.clone(),
        false => op::to_device(values, self_.device(), values.dtype(), false, false, None)?,
    };
    let values = apart(&fit_values(&plan, &values)?, self_)?;
    put_at(&plan, &values, if accumulate { Combine::Add } else { Combine::Assign })?;
    Ok(self_.clone())
}

/// The functional form of [`index_put_`].
pub fn index_put(
    self_: &Tensor,
    indices: &[Option<Tensor>],
    values: &Tensor,
    accumulate: bool,
) -> Result<Tensor> {
    index_put_(&copied(self_)?, indices, values, accumulate)
}

/// The elements of the flattened tensor at some positions.
pub fn take(self_: &Tensor, index: &Tensor) -> Result<Tensor> {
    let planned = op::take(&on_meta(self_)?, &on_meta(index)?)?;
    let flat = op::reshape(&contiguous(self_)?, &[-1])?;
    let out = empty(&planned.sizes(), self_.dtype(), self_)?;
    let index = op::reshape(&index_on(self_, index)?, &[-1])?;
    gather_into(&op::view(&out, &[-1])?, &flat, 0, &index)?;
    Ok(out)
}
