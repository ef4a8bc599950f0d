//! Choosing, gathering and scattering.

use crate::indexing::{
    Combine, Scattered, along, apart, fit_values, gather_into, index_into, index_on, index_plan,
    put_at, scatter_into,
};
use crate::operands::{contiguous, empty, on_meta};
use crate::pointwise::{Expression, run_as};
use crate::selection::{coordinates, true_places};
use corten_core::geometry::{
    assert_no_internal_overlap, assert_no_overlap, infer_broadcast, wrap_dim,
};
use corten_core::{DType, MemoryFormat, Result, Scalar, bail, ensure};
use corten_ops::iter::resize_output;
use corten_ops::meta::{Domain, check_fill_value, check_out_dtype, index as shapes};
use corten_ops::{Tensor, TensorIterator, derived, op};

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

/// The elements where `mask` is true, in row-major order.
pub fn masked_select(self_: &Tensor, mask: &Tensor) -> Result<Tensor> {
    ensure!(mask.dtype() == DType::Bool, Runtime, "masked_select: expected BoolTensor for mask");
    let shape = infer_broadcast(&self_.sizes(), &mask.sizes())?;
    let places = true_places(&op::expand(mask, &shape, false)?)?;
    let source = op::reshape(&contiguous(&op::expand(self_, &shape, false)?)?, &[-1])?;
    let out = empty(&places.sizes(), self_.dtype(), self_)?;
    gather_into(&out, &source, 0, &places)?;
    Ok(out)
}

/// The positions of the elements that are not zero, one row each, in row-major order.
pub fn nonzero(self_: &Tensor) -> Result<Tensor> {
    let places = true_places(&op::to_dtype(self_, DType::Bool, false, false, None)?)?;
    let (count, rank) = (places.numel(), self_.dim() as i64);
    let rows = coordinates(&places, &self_.sizes())?;
    Ok(rows.as_view_of(&[count, rank], &[1, count], 0)?.into())
}

/// Writes the elements of `source` in order where `mask` is true.
pub fn masked_scatter_(self_: &Tensor, mask: &Tensor, source: &Tensor) -> Result<Tensor> {
    op::masked_scatter_(&on_meta(self_)?, &on_meta(mask)?, &on_meta(source)?)?;
    let places = true_places(&op::expand(mask, &self_.sizes(), false)?)?;
    ensure!(
        places.numel() <= source.numel(),
        Runtime,
        "Number of elements of source < number of ones in mask"
    );
    let values = op::reshape(&apart(source, self_)?, &[-1])?;
    let values = op::narrow(&values, 0, 0, places.numel())?;
    put_flat(self_, &places, &values, Combine::Assign)
}

/// The functional form of [`masked_scatter_`], on the broadcast shape of tensor and mask.
pub fn masked_scatter(self_: &Tensor, mask: &Tensor, source: &Tensor) -> Result<Tensor> {
    let shape = infer_broadcast(&self_.sizes(), &mask.sizes())?;
    masked_scatter_(&copied(&op::expand(self_, &shape, false)?)?, mask, source)
}

/// Combines values with elements of the flattened tensor.
fn put_flat(self_: &Tensor, index: &Tensor, values: &Tensor, how: Combine) -> Result<Tensor> {
    let dense = contiguous(self_)?;
    let flat = op::view(&dense, &[-1])?;
    scatter_into(&flat, 0, index, values, &Scattered::by(how))?;
    if !self_.is_contiguous() {
        op::copy_(self_, &dense, false)?;
    }
    Ok(self_.clone())
}

/// Writes or adds elements of the flattened tensor by index.
pub fn put_(self_: &Tensor, index: &Tensor, source: &Tensor, accumulate: bool) -> Result<Tensor> {
    op::put_(&on_meta(self_)?, &on_meta(index)?, &on_meta(source)?, accumulate)?;
    let index = op::reshape(&index_on(self_, index)?, &[-1])?;
    let values = op::reshape(&apart(source, self_)?, &[-1])?;
    put_flat(self_, &index, &values, if accumulate { Combine::Add } else { Combine::Assign })
}

/// The functional form of [`put_`].
pub fn put(self_: &Tensor, index: &Tensor, source: &Tensor, accumulate: bool) -> Result<Tensor> {
    put_(&copied(self_)?, index, source, accumulate)
}

/// How a reduction combines, and the number that changes nothing.
fn reduction_of(reduce: &str, dtype: DType) -> Result<(Combine, Scalar)> {
    let extreme = |largest: bool| match dtype {
        DType::Bool => Scalar::Bool(largest),
        DType::Int64 => Scalar::Int(if largest { i64::MAX } else { i64::MIN }),
        _ if dtype.is_integral(false) && !largest => Scalar::from(dtype.lowest()),
        _ if dtype.is_integral(false) => {
            let bits = 8 * dtype.itemsize() as u32 - u32::from(dtype.lowest() < 0.0);
            Scalar::Int(((1_u128 << bits) - 1) as i64)
        }
        _ => Scalar::Float(if largest { f64::INFINITY } else { f64::NEG_INFINITY }),
    };
    Ok(match reduce {
        "sum" | "mean" => (Combine::Add, Scalar::Int(0)),
        "prod" => (Combine::Multiply, Scalar::Int(1)),
        "amax" | "max" => (Combine::Larger, extreme(false)),
        "amin" | "min" => (Combine::Smaller, extreme(true)),
        _ => bail!(
            Runtime,
            "reduce argument must be either sum, prod, mean, amax or amin, got {reduce}"
        ),
    })
}

/// Divides sums by how many numbers they are of; `counts` are those.
fn divide_by(self_: &Tensor, counts: &Tensor) -> Result<()> {
    let nothing = op::eq_scalar(counts, Scalar::Int(0))?;
    op::masked_fill__scalar(counts, &nothing, Scalar::Int(1))?;
    let rounding = if self_.dtype().is_integral(true) { Some("floor") } else { None };
    op::div__tensor_mode(self_, counts, rounding).map(drop)
}

/// Combines as a reduction says, by a function that combines numbers with a tensor at the places of the
/// call; without numbers it is one number for all places.
fn reduce_into(
    self_: &Tensor,
    reduce: &str,
    include_self: bool,
    place: impl Fn(&Tensor, Option<Scalar>, &Scattered) -> Result<Tensor>,
) -> Result<Tensor> {
    let (how, identity) = reduction_of(reduce, self_.dtype())?;
    if !include_self {
        place(self_, Some(identity), &Scattered::by(Combine::Assign))?;
    }
    place(self_, None, &Scattered::by(how))?;
    if reduce == "mean" {
        let start = Scalar::Int(i64::from(include_self));
        let counts = op::full_like(self_, start, None, None, None, None, None)?;
        place(&counts, Some(Scalar::Int(1)), &Scattered::by(Combine::Add))?;
        divide_by(self_, &counts)?;
    }
    Ok(self_.clone())
}

/// Combines the elements of `src` into those along `dim` that `index` names.
pub fn scatter_reduce_two_(
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    src: &Tensor,
    reduce: &str,
    include_self: bool,
) -> Result<Tensor> {
    let (target, which) = (on_meta(self_)?, on_meta(index)?);
    op::scatter_reduce__two(&target, dim, &which, &on_meta(src)?, reduce, include_self)?;
    reduce_into(self_, reduce, include_self, |target, number, scattered| {
        let number = number.map(|number| number_like(target, index, number)).transpose()?;
        scatter(target, dim, index, number.as_ref().unwrap_or(src), scattered)
    })
}

/// The functional form of [`scatter_reduce_two_`].
pub fn scatter_reduce_two(
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    src: &Tensor,
    reduce: &str,
    include_self: bool,
) -> Result<Tensor> {
    scatter_reduce_two_(&copied(self_)?, dim, index, src, reduce, include_self)
}

/// Combines the slices of `source` into those along `dim` that `index` names.
pub fn index_reduce_(
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    source: &Tensor,
    reduce: &str,
    include_self: bool,
) -> Result<Tensor> {
    let (target, which) = (on_meta(self_)?, on_meta(index)?);
    op::index_reduce_(&target, dim, &which, &on_meta(source)?, reduce, include_self)?;
    reduce_into(self_, reduce, include_self, |target, number, scattered| {
        let filled =
            |value| op::full(&[], value, Some(self_.dtype()), None, Some(self_.device()), None);
        let number = number.map(filled).transpose()?;
        slices(target, dim, index, number.as_ref().unwrap_or(source), scattered)
    })
}

/// The functional form of [`index_reduce_`].
pub fn index_reduce(
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    source: &Tensor,
    reduce: &str,
    include_self: bool,
) -> Result<Tensor> {
    index_reduce_(&copied(self_)?, dim, index, source, reduce, include_self)
}

/// Writes what was picked into `out`, which may not share memory with what it was picked from.
fn write_picked(out: &Tensor, picked: &Tensor, inputs: &[&Tensor]) -> Result<Tensor> {
    assert_no_internal_overlap(out)?;
    resize_output(out, &picked.sizes())?;
    for input in inputs.iter().filter(|input| input.device() == out.device()) {
        assert_no_overlap(out, input)?;
    }
    derived::write_out(out, picked)
}

/// [`gather`] into `out`.
pub fn gather_out(
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    sparse_grad: bool,
    out: &Tensor,
) -> Result<Tensor> {
    check_out_dtype(Some(out), self_.dtype())?;
    write_picked(out, &gather(self_, dim, index, sparse_grad)?, &[self_, index])
}

/// [`index_select`] into `out`.
pub fn index_select_out(self_: &Tensor, dim: i64, index: &Tensor, out: &Tensor) -> Result<Tensor> {
    shapes::check_picked_out("index_select", self_, out)?;
    write_picked(out, &index_select(self_, dim, index)?, &[self_, index])
}

/// [`take`] into `out`.
pub fn take_out(self_: &Tensor, index: &Tensor, out: &Tensor) -> Result<Tensor> {
    shapes::check_take_out(self_, out)?;
    write_picked(out, &take(self_, index)?, &[self_, index])
}

/// [`masked_select`] into `out`.
pub fn masked_select_out(self_: &Tensor, mask: &Tensor, out: &Tensor) -> Result<Tensor> {
    shapes::check_picked_out("masked_select", self_, out)?;
    write_picked(out, &masked_select(self_, mask)?, &[self_, mask])
}

/// [`nonzero`] into `out`.
pub fn nonzero_out(self_: &Tensor, out: &Tensor) -> Result<Tensor> {
    shapes::check_nonzero_out(out)?;
    write_picked(out, &nonzero(self_)?, &[self_])
}

/// `self[:, index] = value`, a tensor of one number.
pub fn index_fill_tensor_(
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    value: &Tensor,
) -> Result<Tensor> {
    check_fill_value("index_fill_", value)?;
    let number = op::to_device(value, self_.device(), self_.dtype(), false, false, None)?;
    op::index_fill__int_scalar(&on_meta(self_)?, dim, &on_meta(index)?, Scalar::Int(0))?;
    slices(self_, dim, index, &number, &Scattered::by(Combine::Assign))
}

/// As [`index_fill_tensor_`], of a copy.
pub fn index_fill_tensor(
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    value: &Tensor,
) -> Result<Tensor> {
    index_fill_tensor_(&copied(self_)?, dim, index, value)
}

/// [`index`] into `out`.
pub fn index_out(self_: &Tensor, indices: &[Option<Tensor>], out: &Tensor) -> Result<Tensor> {
    shapes::check_index_out(self_, out)?;
    let mut inputs: Vec<&Tensor> =
        indices.iter().flatten().filter(|index| index.defined()).collect();
    inputs.push(self_);
    write_picked(out, &index(self_, indices)?, &inputs)
}
