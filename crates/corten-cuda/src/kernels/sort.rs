//! Sorting along a dimension, and the elements that sorting would put at some place.

use crate::failure;
use crate::kernel::{Argument, Template, parameters};
use crate::launch::Shape;
use crate::operands::{Operands, contiguous, empty, on_meta, zeros};
use crate::stream::Stream;
use crate::text;
use corten_core::geometry::wrap_dim;
use corten_core::{Access, DType, Result, ResultTypeState, Scalar, ensure, not_implemented_for};
use corten_ops::meta::sort as shapes;
use corten_ops::{Tensor, derived, op};

use crate::sorting::*;
use crate::unique_rows::{runs_from, slices};

static SEARCH: Template = Template { name: "search", text: &[text::SORT] };

/// One element along `dim`, into outputs as planned.
fn select(
    self_: &Tensor,
    dim: i64,
    planned: (Tensor, Tensor),
    keepdim: bool,
    chosen: Chosen,
    name: &'static str,
) -> Result<(Tensor, Tensor)> {
    let outputs = (as_planned(&planned.0, self_)?, as_planned(&planned.1, self_)?);
    if outputs.0.numel() == 0 {
        return Ok(outputs);
    }
    let dim = wrap_dim(dim, self_.dim())?;
    let sorted = sorted(self_, dim, false, name)?;
    let mut sizes = sorted.input.sizes();
    sizes.pop();
    let raw = (empty(&sizes, self_.dtype(), self_)?, empty(&sizes, DType::Int64, self_)?);
    one(&sorted, (&raw.0, &raw.1), chosen)?;
    let place = |raw: &Tensor, out: &Tensor| -> Result<()> {
        if self_.dim() == 0 {
            return op::copy_(out, raw, false).map(drop);
        }
        let moved = op::transpose_int(&op::unsqueeze(raw, -1)?, dim as i64, -1)?;
        let moved = if keepdim { moved } else { op::squeeze_dim(&moved, dim as i64)? };
        op::copy_(out, &moved, false).map(drop)
    };
    place(&raw.0, &outputs.0)?;
    place(&raw.1, &outputs.1)?;
    Ok(outputs)
}

/// Sorts along `dim`: the elements in order, and their positions.
///
/// # Errors
/// Those of the CPU's checks; for the functions below likewise.
pub fn sort(self_: &Tensor, dim: i64, descending: bool) -> Result<(Tensor, Tensor)> {
    sort_stable(self_, None, dim, descending)
}

/// As [`sort`]; it is stable in any case.
pub fn sort_stable(
    self_: &Tensor,
    stable: Option<bool>,
    dim: i64,
    descending: bool,
) -> Result<(Tensor, Tensor)> {
    let planned = op::sort_stable(&on_meta(self_)?, stable, dim, descending)?;
    let outputs = (as_planned(&planned.0, self_)?, as_planned(&planned.1, self_)?);
    if self_.numel() > 0 {
        let dim = wrap_dim(dim, self_.dim())?;
        let sorted = sorted(self_, dim, descending, "sort_cuda")?;
        first(&sorted, (&outputs.0, &outputs.1), dim)?;
    }
    Ok(outputs)
}

fn check_selectable(dtype: DType, name: &'static str) -> Result<()> {
    let stored_only = dtype.is_barebones_unsigned() || dtype == DType::Bool;
    if stored_only { Err(not_implemented_for(name, dtype)) } else { Ok(()) }
}

/// The `k` largest or smallest elements along `dim`, and their positions.
pub fn topk(
    self_: &Tensor,
    k: i64,
    dim: i64,
    largest: bool,
    sorted_: bool,
) -> Result<(Tensor, Tensor)> {
    let planned = op::topk(&on_meta(self_)?, k, dim, largest, sorted_)?;
    let outputs = (as_planned(&planned.0, self_)?, as_planned(&planned.1, self_)?);
    if outputs.0.numel() == 0 {
        return Ok(outputs);
    }
    if self_.dim() > 0 {
        check_selectable(self_.dtype(), "topk_cuda")?;
    }
    let dim = wrap_dim(dim, self_.dim())?;
    let sorted = sorted(self_, dim, largest, "topk_cuda")?;
    first(&sorted, (&outputs.0, &outputs.1), dim)?;
    Ok(outputs)
}

/// The element that sorting along `dim` puts at place `k`, counted from 1.
pub fn kthvalue(self_: &Tensor, k: i64, dim: i64, keepdim: bool) -> Result<(Tensor, Tensor)> {
    let planned = op::kthvalue(&on_meta(self_)?, k, dim, keepdim)?;
    if self_.dim() > 0 {
        check_selectable(self_.dtype(), "kthvalue_cuda")?;
    }
    select(self_, dim, planned, keepdim, Chosen::Kth(k), "kthvalue_cuda")
}

fn medians(self_: &Tensor, dim: i64, keepdim: bool, ignore_nan: bool) -> Result<(Tensor, Tensor)> {
    let planned = op::median_dim(&on_meta(self_)?, dim, keepdim)?;
    check_selectable(self_.dtype(), "median_out")?;
    select(self_, dim, planned, keepdim, Chosen::Median { ignore_nan }, "median_out")
}

/// The lower median along `dim`; NaN where there is one.
pub fn median_dim(self_: &Tensor, dim: i64, keepdim: bool) -> Result<(Tensor, Tensor)> {
    medians(self_, dim, keepdim, false)
}

/// The lower median along `dim` of the elements that are no NaN.
pub fn nanmedian_dim(self_: &Tensor, dim: i64, keepdim: bool) -> Result<(Tensor, Tensor)> {
    medians(self_, dim, keepdim, true)
}

fn median_of_all(self_: &Tensor, ignore_nan: bool) -> Result<Tensor> {
    check_selectable(self_.dtype(), "median_cuda")?;
    if self_.numel() == 0 {
        let out = empty(&[], self_.dtype(), self_)?;
        return op::fill__scalar(&out, Scalar::Float(f64::NAN));
    }
    let flat = op::reshape(self_, &[-1])?;
    Ok(medians(&flat, 0, false, ignore_nan)?.0)
}

/// The lower median of all elements.
pub fn median(self_: &Tensor) -> Result<Tensor> {
    median_of_all(self_, false)
}

/// The lower median of all elements that are no NaN.
pub fn nanmedian(self_: &Tensor) -> Result<Tensor> {
    median_of_all(self_, true)
}

/// The most frequent element along `dim`, of several the smallest, and the last of its positions.
pub fn mode(self_: &Tensor, dim: i64, keepdim: bool) -> Result<(Tensor, Tensor)> {
    let planned = op::mode(&on_meta(self_)?, dim, keepdim)?;
    if self_.dtype().is_barebones_unsigned() {
        return Err(not_implemented_for("mode_cuda", self_.dtype()));
    }
    select(self_, dim, planned, keepdim, Chosen::Mode, "mode_cuda")
}

/// [`kthvalue`] into outputs.
pub fn kthvalue_out(
    self_: &Tensor,
    k: i64,
    dim: i64,
    keepdim: bool,
    values: &Tensor,
    indices: &Tensor,
) -> Result<(Tensor, Tensor)> {
    let results = kthvalue(self_, k, dim, keepdim)?;
    shapes::check_kthvalue_outputs(self_, values, indices)?;
    shapes::write_selection((values, indices), results)
}

/// [`median_dim`] into outputs.
pub fn median_dim_out(
    self_: &Tensor,
    dim: i64,
    keepdim: bool,
    values: &Tensor,
    indices: &Tensor,
) -> Result<(Tensor, Tensor)> {
    shapes::check_median_outputs(self_, values, indices)?;
    shapes::write_selection((values, indices), median_dim(self_, dim, keepdim)?)
}

/// [`nanmedian_dim`] into outputs.
pub fn nanmedian_dim_out(
    self_: &Tensor,
    dim: i64,
    keepdim: bool,
    values: &Tensor,
    indices: &Tensor,
) -> Result<(Tensor, Tensor)> {
    shapes::check_median_outputs(self_, values, indices)?;
    shapes::write_selection((values, indices), nanmedian_dim(self_, dim, keepdim)?)
}

/// [`mode`] into outputs.
pub fn mode_out(
    self_: &Tensor,
    dim: i64,
    keepdim: bool,
    values: &Tensor,
    indices: &Tensor,
) -> Result<(Tensor, Tensor)> {
    shapes::check_mode_outputs(self_, values, indices)?;
    shapes::write_selection((values, indices), mode(self_, dim, keepdim)?)
}

fn common_dtype(a: &Tensor, b: &Tensor) -> Result<DType> {
    let mut state = ResultTypeState::new();
    for tensor in [a, b] {
        state.push_tensor(tensor.dtype(), tensor.dim(), tensor.is_wrapped_number())?;
    }
    state.finish()
}

/// Places in sorted lines where values would keep them sorted.
pub fn searchsorted(
    sorted_sequence: &Tensor,
    self_: &Tensor,
    out_int32: bool,
    right: bool,
    side: Option<&str>,
    sorter: Option<&Tensor>,
) -> Result<Tensor> {
    let sorter = sorter.filter(|sorter| sorter.defined());
    let planned = {
        let own = sorter.map(on_meta).transpose()?;
        let (lines, values) = (on_meta(sorted_sequence)?, on_meta(self_)?);
        op::searchsorted_tensor(&lines, &values, out_int32, right, side, own.as_ref())?
    };
    let dtype = if out_int32 { DType::Int32 } else { DType::Int64 };
    let out = empty(&planned.sizes(), dtype, sorted_sequence)?;
    if out.numel() == 0 {
        return Ok(out);
    }
    let common = common_dtype(sorted_sequence, self_)?;
    if common.is_complex() || common.itemsize() == 1 && common.is_floating_point() {
        return Err(not_implemented_for("searchsorted_out_cuda", common));
    }
    let ready = |tensor: &Tensor, dtype: DType| -> Result<Tensor> {
        contiguous(&op::to_device(tensor, sorted_sequence.device(), dtype, false, false, None)?)
    };
    let (lines, values) = (ready(sorted_sequence, common)?, ready(self_, common)?);
    let order = sorter.map(|sorter| ready(sorter, DType::Int64)).transpose()?;
    search(&lines, order.as_ref(), &values, right || side == Some("right"), &out)?;
    Ok(out)
}

fn search(
    lines: &Tensor,
    order: Option<&Tensor>,
    values: &Tensor,
    right: bool,
    out: &Tensor,
) -> Result<()> {
    let undefined = Tensor::default();
    let held = Operands::hold(&[
        (lines, Access::Read),
        (order.unwrap_or(&undefined), Access::Read),
        (values, Access::Read),
        (out, Access::Write),
    ])?;
    let (mut from, mut sorter, mut wanted) = (held.at(0), held.at(1), held.at(2));
    let (mut n, mut to) = (values.numel() as u64, held.at(3));
    let mut length = lines.sizes().last().copied().unwrap_or(1) as u64;
    // A sequence of one dimension is for all values.
    let mut per_line = match lines.dim() > 1 {
        true => values.sizes().last().copied().unwrap_or(1) as u64,
        false => 0,
    };
    let stream = Stream::current(lines.device().index);
    let mut report = failure::address(stream.device())?;
    let of = [
        Argument::Storage(lines.dtype()),
        Argument::Storage(out.dtype()),
        Argument::Number(u32::from(right)),
    ];
    let parameters = parameters!(n, from, sorter, wanted, to, length, per_line, report);
    // SAFETY: the tensors are contiguous and held; a sorter's positions are looked at before they are
    // followed.
    unsafe { SEARCH.launch(&of, Shape::over(values.numel()), stream, parameters)? };
    drop(held);
    Ok(())
}

/// A number as a tensor beside another.
fn number_on(number: Scalar, like: &Tensor) -> Result<Tensor> {
    let number = derived::wrapped(number)?;
    let moved = op::to_device(&number, like.device(), number.dtype(), false, false, None)?;
    moved.set_wrapped_number(true);
    Ok(moved)
}

/// As [`searchsorted`], of one number.
pub fn searchsorted_scalar(
    sorted_sequence: &Tensor,
    self_: Scalar,
    out_int32: bool,
    right: bool,
    side: Option<&str>,
    sorter: Option<&Tensor>,
) -> Result<Tensor> {
    let value = number_on(self_, sorted_sequence)?;
    searchsorted(sorted_sequence, &value, out_int32, right, side, sorter)
}

/// Which of the ranges between boundaries values lie in.
pub fn bucketize(
    self_: &Tensor,
    boundaries: &Tensor,
    out_int32: bool,
    right: bool,
) -> Result<Tensor> {
    shapes::check_boundaries(boundaries)?;
    searchsorted(boundaries, self_, out_int32, right, None, None)
}

/// As [`bucketize`], of one number.
pub fn bucketize_scalar(
    self_: Scalar,
    boundaries: &Tensor,
    out_int32: bool,
    right: bool,
) -> Result<Tensor> {
    bucketize(&number_on(self_, boundaries)?, boundaries, out_int32, right)
}

/// [`searchsorted`] into `out`.
pub fn searchsorted_out(
    sorted_sequence: &Tensor,
    self_: &Tensor,
    out_int32: bool,
    right: bool,
    side: Option<&str>,
    sorter: Option<&Tensor>,
    out: &Tensor,
) -> Result<Tensor> {
    shapes::check_places_out(out, out_int32)?;
    let found = searchsorted(sorted_sequence, self_, out_int32, right, side, sorter)?;
    derived::write_out(out, &found)
}

/// [`searchsorted_scalar`] into `out`.
pub fn searchsorted_scalar_out(
    sorted_sequence: &Tensor,
    self_: Scalar,
    out_int32: bool,
    right: bool,
    side: Option<&str>,
    sorter: Option<&Tensor>,
    out: &Tensor,
) -> Result<Tensor> {
    let value = number_on(self_, sorted_sequence)?;
    searchsorted_out(sorted_sequence, &value, out_int32, right, side, sorter, out)
}

/// [`bucketize`] into `out`.
pub fn bucketize_out(
    self_: &Tensor,
    boundaries: &Tensor,
    out_int32: bool,
    right: bool,
    out: &Tensor,
) -> Result<Tensor> {
    shapes::check_boundaries(boundaries)?;
    searchsorted_out(boundaries, self_, out_int32, right, None, None, out)
}

/// Elements where each is the first of its run, by comparison with the one before.
fn begins(values: &Tensor) -> Result<Tensor> {
    let (count, device) = (values.numel(), values.device());
    let one = op::full(&[1], Scalar::Bool(true), Some(DType::Bool), None, Some(device), None)?;
    let (now, before) =
        (op::narrow(values, 0, 1, count - 1)?, op::narrow(values, 0, 0, count - 1)?);
    op::cat(&[one, op::ne_tensor(&now, &before)?], 0)
}

/// The first element of each run, the run of each element, and the lengths of the runs.
fn runs(values: &Tensor) -> Result<(Tensor, Tensor, Tensor)> {
    let begins = begins(values)?;
    let (starts, which, counts) = runs_from(&begins)?;
    Ok((op::index_select(values, 0, &starts)?, which, counts))
}

/// The different elements in order; with the place of each element among them and their numbers.
pub fn unique2(
    self_: &Tensor,
    _sorted: bool,
    return_inverse: bool,
    return_counts: bool,
) -> Result<(Tensor, Tensor, Tensor)> {
    let nothing = || empty(&[0], DType::Int64, self_);
    if self_.numel() == 0 {
        let inverse =
            if return_inverse { empty(&self_.sizes(), DType::Int64, self_)? } else { nothing()? };
        return Ok((empty(&[0], self_.dtype(), self_)?, inverse, nothing()?));
    }
    let (values, order) = sort_stable(&op::reshape(self_, &[-1])?, Some(true), 0, false)?;
    let (unique, which, counts) = runs(&values)?;
    let inverse = match return_inverse {
        true => {
            let places = op::empty_like(&order, None, None, None, None, None)?;
            op::view(&op::scatter__src(&places, 0, &order, &which)?, &self_.sizes())?
        }
        false => nothing()?,
    };
    Ok((unique, inverse, if return_counts { counts } else { nothing()? }))
}

/// [`unique2`] without counts.
pub fn unique(self_: &Tensor, sorted: bool, return_inverse: bool) -> Result<(Tensor, Tensor)> {
    let (values, inverse, _) = unique2(self_, sorted, return_inverse, false)?;
    Ok((values, inverse))
}

/// One element of every run of equal ones, of a tensor as a vector, or one slice along a dimension.
pub fn unique_consecutive(
    self_: &Tensor,
    return_inverse: bool,
    return_counts: bool,
    dim: Option<i64>,
) -> Result<(Tensor, Tensor, Tensor)> {
    if let Some(dim) = dim {
        return slices(self_, dim, false);
    }
    if self_.dtype().is_complex() {
        return Err(not_implemented_for("unique_consecutive", self_.dtype()));
    }
    let nothing = || empty(&[0], DType::Int64, self_);
    if self_.numel() == 0 {
        let inverse =
            if return_inverse { empty(&self_.sizes(), DType::Int64, self_)? } else { nothing()? };
        return Ok((empty(&[0], self_.dtype(), self_)?, inverse, nothing()?));
    }
    let (values, which, counts) = runs(&op::reshape(self_, &[-1])?)?;
    let inverse = if return_inverse { op::view(&which, &self_.sizes())? } else { nothing()? };
    Ok((values, inverse, if return_counts { counts } else { nothing()? }))
}

/// The different slices along a dimension, in order; inverse and counts whether asked for or not.
pub fn unique_dim(
    self_: &Tensor,
    dim: i64,
    _sorted: bool,
    _return_inverse: bool,
    _return_counts: bool,
) -> Result<(Tensor, Tensor, Tensor)> {
    slices(self_, dim, true)
}

/// One slice of every run of equal ones along a dimension.
pub fn unique_dim_consecutive(
    self_: &Tensor,
    dim: i64,
    _return_inverse: bool,
    _return_counts: bool,
) -> Result<(Tensor, Tensor, Tensor)> {
    slices(self_, dim, false)
}

/// How often each number occurs, or the sum of the weights of its places.
pub fn bincount(self_: &Tensor, weights: Option<&Tensor>, minlength: i64) -> Result<Tensor> {
    ensure!(minlength >= 0, Runtime, "minlength should be >= 0");
    let dtype = self_.dtype();
    if !dtype.is_integral(false) || dtype.is_barebones_unsigned() {
        return Err(not_implemented_for("bincount_cuda", dtype));
    }
    if self_.dim() == 1 && self_.numel() == 0 {
        return zeros(&[minlength], DType::Int64, self_);
    }
    let shape = "bincount only supports 1-d non-negative integral inputs.";
    ensure!(self_.dim() == 1, Runtime, "{shape}");
    let (least, most) = op::aminmax(self_, None, false)?;
    ensure!(op::item(&least)?.to_i64() >= 0, Runtime, "{shape}");
    let weights = weights.filter(|weights| weights.defined());
    if let Some(weights) = weights {
        ensure!(
            weights.dim() == 1 && weights.numel() == self_.numel(),
            Runtime,
            "weights should be 1-d and have the same length as input"
        );
    }
    let bins = op::item(&most)?.to_i64().saturating_add(1).max(minlength);
    let wide = match weights {
        None => DType::Int64,
        Some(weights) if weights.dtype() == DType::Float32 => DType::Float32,
        Some(_) => DType::Float64,
    };
    let index = op::to_dtype(self_, DType::Int64, false, false, None)?;
    let values = match weights {
        Some(weights) => op::to_dtype(weights, wide, false, false, None)?,
        None => op::ones_like(&index, None, None, None, None, None)?,
    };
    op::scatter_add_(&zeros(&[bins], wide, self_)?, 0, &index, &values)
}

/// Which elements are among others.
pub fn isin(
    elements: &Tensor,
    test_elements: &Tensor,
    _assume_unique: bool,
    invert: bool,
) -> Result<Tensor> {
    shapes::check_members(&[elements, test_elements])?;
    let dtype = common_dtype(elements, test_elements)?;
    let cast = |tensor: &Tensor| op::to_dtype(tensor, dtype, false, false, None);
    let (elements, tests) = (cast(elements)?, op::reshape(&cast(test_elements)?, &[-1])?);
    if tests.numel() == 0 || elements.numel() == 0 {
        let out = empty(&elements.sizes(), DType::Bool, &elements)?;
        return op::fill__scalar(&out, Scalar::Bool(invert));
    }
    let known = sort_stable(&tests, Some(true), 0, false)?.0;
    let places = searchsorted(&known, &elements, false, false, None, None)?;
    let within = op::clamp_max(&places, Scalar::Int(known.numel() - 1))?;
    let found = op::take(&known, &within)?;
    if invert { op::ne_tensor(&found, &elements) } else { op::eq_tensor(&found, &elements) }
}

/// Which elements are a number.
pub fn isin_test_scalar(
    elements: &Tensor,
    test_element: Scalar,
    assume_unique: bool,
    invert: bool,
) -> Result<Tensor> {
    isin(elements, &number_on(test_element, elements)?, assume_unique, invert)
}

/// Whether a number is among elements.
pub fn isin_scalar(
    element: Scalar,
    test_elements: &Tensor,
    assume_unique: bool,
    invert: bool,
) -> Result<Tensor> {
    isin(&number_on(element, test_elements)?, test_elements, assume_unique, invert)
}
