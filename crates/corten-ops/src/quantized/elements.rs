//! Elements of quantised tensors with one scale: chosen, replaced and ordered by their integers.

use super::{check_uniform, integers, of_integers, of_tensor};
use crate::meta::check_fill_value;
use crate::{Tensor, op};
use corten_core::{BelowADInplaceOrViewGuard, DType, Result, Scalar, ensure};

/// The elements at indices.
///
/// # Errors
/// `Runtime` where there are several scales.
pub fn index(self_: &Tensor, indices: &[Option<Tensor>]) -> Result<Tensor> {
    let message = "index for quantized tensors is only supported for per tensor quantized tensors";
    check_uniform(self_, "index_cpu", message)?;
    of_integers(self_, |ints| op::index_tensor(ints, indices))
}

const SELECTS: &str = "Only per_tensor quantized quantized tensors are supported by index_select.";

/// The positions of a dimension at indices.
///
/// # Errors
/// `Runtime` where there are several scales.
pub fn index_select(self_: &Tensor, dim: i64, index: &Tensor) -> Result<Tensor> {
    check_uniform(self_, "index_select", SELECTS)?;
    of_integers(self_, |ints| op::index_select(ints, dim, index))
}

/// [`index_select`] into a tensor of the same scale.
///
/// # Errors
/// `Runtime` where scales differ.
pub fn index_select_out(self_: &Tensor, dim: i64, index: &Tensor, out: &Tensor) -> Result<Tensor> {
    check_uniform(self_, "index_select", SELECTS)?;
    check_uniform(out, "index_select", SELECTS)?;
    ensure!(
        of_tensor(self_)? == of_tensor(out)? && self_.dtype() == out.dtype(),
        Runtime,
        "index_select: the output must have the dtype, scale and zero point of the input"
    );
    let chosen = index_select(self_, dim, index)?;
    if chosen.sizes() != out.sizes() {
        out.resize(&chosen.sizes(), None)?;
    }
    let _below = BelowADInplaceOrViewGuard::new();
    op::copy_(&integers(out)?, &integers(&chosen)?, false)?;
    Ok(out.clone())
}

/// The integers nearest to numbers, in the tensor's own scale.
fn quantized_like(self_: &Tensor, values: &Tensor) -> Result<Tensor> {
    let (scale, zero_point) = of_tensor(self_)?;
    if values.is_quantized() {
        let same = of_tensor(values)? == (scale, zero_point) && values.dtype() == self_.dtype();
        return match same {
            true => integers(values),
            false => quantized_like(self_, &op::dequantize_self(values)?),
        };
    }
    let values = op::to_dtype(values, DType::Float32, false, false, None)?;
    let values = op::detach(&values)?;
    integers(&op::quantize_per_tensor(&values, scale, zero_point, self_.dtype())?)
}

fn number(value: Scalar) -> Result<Tensor> {
    op::full(&[], value, Some(DType::Float32), None, None, None)
}

const PUTS: &str =
    "index_put for quantized tensors is currently only supported for per tensor quantized tensors";

/// Replaces the elements at indices.
///
/// # Errors
/// `Runtime` where there are several scales, or the elements should be added.
pub fn index_put_(
    self_: &Tensor,
    indices: &[Option<Tensor>],
    values: &Tensor,
    accumulate: bool,
) -> Result<Tensor> {
    check_uniform(self_, "index_put", PUTS)?;
    ensure!(
        !accumulate,
        Runtime,
        "index_put for quantized tensors is currently only supported for accumulate=False"
    );
    let values = quantized_like(self_, values)?;
    let _below = BelowADInplaceOrViewGuard::new();
    op::index_put_(&integers(self_)?, indices, &values, false)?;
    Ok(self_.clone())
}

/// [`index_put_`] of a copy.
///
/// # Errors
/// As there.
pub fn index_put(
    self_: &Tensor,
    indices: &[Option<Tensor>],
    values: &Tensor,
    accumulate: bool,
) -> Result<Tensor> {
    index_put_(&op::clone(self_, None)?, indices, values, accumulate)
}

const MASKS: &str = "masked_fill__quantized_cpu for quantized tensors is currently only supported for per tensor \
                     quantized tensors";

/// The integer nearest to a number where a mask is true.
///
/// # Errors
/// `Runtime` where there are several scales.
pub fn masked_fill_scalar_(self_: &Tensor, mask: &Tensor, value: Scalar) -> Result<Tensor> {
    check_uniform(self_, "masked_fill", MASKS)?;
    let value = op::item(&quantized_like(self_, &number(value)?)?)?;
    let _below = BelowADInplaceOrViewGuard::new();
    op::masked_fill__scalar(&integers(self_)?, mask, value)?;
    Ok(self_.clone())
}

/// [`masked_fill_scalar_`] with the number in a tensor.
///
/// # Errors
/// As there.
pub fn masked_fill_tensor_(self_: &Tensor, mask: &Tensor, value: &Tensor) -> Result<Tensor> {
    check_fill_value("masked_fill_", value)?;
    masked_fill_scalar_(self_, mask, op::item(value)?)
}

/// [`masked_fill_scalar_`] of a copy.
///
/// # Errors
/// As there.
pub fn masked_fill_scalar(self_: &Tensor, mask: &Tensor, value: Scalar) -> Result<Tensor> {
    masked_fill_scalar_(&op::clone(self_, None)?, mask, value)
}

/// [`masked_fill_tensor_`] of a copy.
///
/// # Errors
/// As there.
pub fn masked_fill_tensor(self_: &Tensor, mask: &Tensor, value: &Tensor) -> Result<Tensor> {
    masked_fill_tensor_(&op::clone(self_, None)?, mask, value)
}

/// The elements of dimensions in reverse order.
///
/// # Errors
/// `Runtime` where there are several scales.
pub fn flip(self_: &Tensor, dims: &[i64]) -> Result<Tensor> {
    let message = "Setting strides is possible only on uniformly quantized tensor";
    check_uniform(self_, "flip_cpu", message)?;
    of_integers(self_, |ints| op::flip(ints, dims))
}

/// A quarter turn of two dimensions, `k` times.
///
/// # Errors
/// `Runtime` where there are several scales.
pub fn rot90(self_: &Tensor, k: i64, dims: &[i64]) -> Result<Tensor> {
    let message = "Setting strides is possible only on uniformly quantized tensor";
    check_uniform(self_, "flip_cpu", message)?;
    of_integers(self_, |ints| op::rot90(ints, k, dims))
}

const FILLS: &str = "index_fill for quantized tensors needs one scale";

/// The integer nearest to a number at positions of a dimension.
///
/// # Errors
/// `Runtime` where there are several scales.
pub fn index_fill_scalar_(
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    value: Scalar,
) -> Result<Tensor> {
    check_uniform(self_, "index_fill", FILLS)?;
    let value = op::item(&quantized_like(self_, &number(value)?)?)?;
    let _below = BelowADInplaceOrViewGuard::new();
    op::index_fill__int_scalar(&integers(self_)?, dim, index, value)?;
    Ok(self_.clone())
}

/// [`index_fill_scalar_`] of a copy.
///
/// # Errors
/// As there.
pub fn index_fill_scalar(
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    value: Scalar,
) -> Result<Tensor> {
    index_fill_scalar_(&op::clone(self_, None)?, dim, index, value)
}

/// [`index_fill_scalar_`] with the number in a tensor.
///
/// # Errors
/// As there.
pub fn index_fill_tensor_(
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    value: &Tensor,
) -> Result<Tensor> {
    check_fill_value("index_fill_", value)?;
    index_fill_scalar_(self_, dim, index, op::item(value)?)
}

/// [`index_fill_tensor_`] of a copy.
///
/// # Errors
/// As there.
pub fn index_fill_tensor(
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    value: &Tensor,
) -> Result<Tensor> {
    index_fill_tensor_(&op::clone(self_, None)?, dim, index, value)
}

const MAXIMA: &str = "Max operator for quantized tensors only works for per tensor quantized tensors. Please open \
                      an issue on https://github.com/pytorch/pytorch/issues if you need per channel quantized \
                      tensor support.";
const MINIMA: &str = "Min operator for quantized tensors only works for per tensor quantized tensors. Please open \
                      an issue on https://github.com/pytorch/pytorch/issues if you need per channel quantized \
                      tensor support.";
const SORTS: &str = "Expected quantizer->qscheme() == kPerTensorAffine to be true, but got false.";
const TOPS: &str = "Top-K is only supported on per-tensor quantization";

/// What `f` makes of the integers: some of them and their positions.
fn pair(
    self_: &Tensor,
    (operator, message): (&str, &str),
    f: impl FnOnce(&Tensor) -> Result<(Tensor, Tensor)>,
) -> Result<(Tensor, Tensor)> {
    check_uniform(self_, operator, message)?;
    let (values, indices) = f(&integers(self_)?)?;
    Ok((super::over(&values, self_.dtype(), self_.quantizer())?, indices))
}

/// The largest element.
///
/// # Errors
/// `Runtime` where there are several scales.
pub fn max(self_: &Tensor) -> Result<Tensor> {
    check_uniform(self_, "max", MAXIMA)?;
    of_integers(self_, op::max)
}

/// The least element.
///
/// # Errors
/// `Runtime` where there are several scales.
pub fn min(self_: &Tensor) -> Result<Tensor> {
    check_uniform(self_, "min", MINIMA)?;
    of_integers(self_, op::min)
}

/// The largest elements of a dimension and their positions.
///
/// # Errors
/// `Runtime` where there are several scales.
pub fn max_dim(self_: &Tensor, dim: i64, keepdim: bool) -> Result<(Tensor, Tensor)> {
    pair(self_, ("max", MAXIMA), |ints| op::max_dim(ints, dim, keepdim))
}

/// The least elements of a dimension and their positions.
///
/// # Errors
/// `Runtime` where there are several scales.
pub fn min_dim(self_: &Tensor, dim: i64, keepdim: bool) -> Result<(Tensor, Tensor)> {
    pair(self_, ("min", MINIMA), |ints| op::min_dim(ints, dim, keepdim))
}

/// The elements of a dimension in order, and their positions.
///
/// # Errors
/// `Runtime` where there are several scales.
pub fn sort(self_: &Tensor, dim: i64, descending: bool) -> Result<(Tensor, Tensor)> {
    pair(self_, ("sort", SORTS), |ints| op::sort(ints, dim, descending))
}

/// [`sort`] that keeps the order of equal elements.
///
/// # Errors
/// As there.
pub fn sort_stable(
    self_: &Tensor,
    stable: Option<bool>,
    dim: i64,
    descending: bool,
) -> Result<(Tensor, Tensor)> {
    pair(self_, ("sort", SORTS), |ints| op::sort_stable(ints, stable, dim, descending))
}

/// The `k` largest or least elements of a dimension, and their positions.
///
/// # Errors
/// `Runtime` where there are several scales.
pub fn topk(
    self_: &Tensor,
    k: i64,
    dim: i64,
    largest: bool,
    sorted: bool,
) -> Result<(Tensor, Tensor)> {
    pair(self_, ("topk", TOPS), |ints| op::topk(ints, k, dim, largest, sorted))
}
