//! Windows, means and other sizes of quantised images.

use super::arith::{centred, from_steps, on_own_scale};
use super::{integers, of_integers, of_tensor};
use crate::{Tensor, op};
use corten_core::{DType, MemoryFormat, Result, Scalar, ensure};

/// The largest element of each window.
///
/// # Errors
/// Those of `max_pool2d`.
pub fn max_pool2d(
    self_: &Tensor,
    kernel_size: &[i64],
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    ceil_mode: bool,
) -> Result<Tensor> {
    ensure!(
        matches!(kernel_size.len(), 1 | 2),
        Runtime,
        "Expected 1d or 2d kernel size, got {}",
        kernel_size.len()
    );
    ensure!(
        matches!(stride.len(), 0..=2),
        Runtime,
        "Expected no strides or 1d or 2d strides, got {}",
        stride.len()
    );
    through_floats(self_, |x| op::max_pool2d(x, kernel_size, stride, padding, dilation, ceil_mode))
}

/// [`max_pool2d`] of signals.
///
/// # Errors
/// Those of `max_pool1d`.
pub fn max_pool1d(
    self_: &Tensor,
    kernel_size: &[i64],
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    ceil_mode: bool,
) -> Result<Tensor> {
    let images = op::unsqueeze(self_, -2)?;
    let of = |list: &[i64], filler: i64| match list {
        [] => vec![],
        [one, ..] => vec![filler, *one],
    };
    let (stride, padding) = (of(stride, 1), of(padding, 0));
    let pooled =
        max_pool2d(&images, &of(kernel_size, 1), &stride, &padding, &of(dilation, 1), ceil_mode)?;
    op::squeeze_dim(&pooled, -2)
}

/// [`max_pool2d`] of volumes.
///
/// # Errors
/// Those of `max_pool3d`.
pub fn max_pool3d(
    self_: &Tensor,
    kernel_size: &[i64],
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    ceil_mode: bool,
) -> Result<Tensor> {
    through_floats(self_, |x| op::max_pool3d(x, kernel_size, stride, padding, dilation, ceil_mode))
}

fn floats(ints: &Tensor) -> Result<Tensor> {
    op::to_dtype(ints, DType::Float32, false, false, None)
}

/// The integers nearest to means of integers. PyTorch rounds them with their zero point where channels do
/// not come last, and without it where they do.
fn means(
    x: &Tensor,
    channels_last: bool,
    pool: impl FnOnce(&Tensor) -> Result<Tensor>,
) -> Result<Tensor> {
    let (scale, zero) = of_tensor(x)?;
    let steps = pool(&floats(&centred(x)?)?)?;
    if channels_last {
        return from_steps(&steps, x.dtype(), (scale, zero));
    }
    let whole = op::add_scalar(&steps, Scalar::from(zero), 1.into())?;
    let whole = op::sub_scalar(&op::round(&whole)?, Scalar::from(zero), 1.into())?;
    from_steps(&whole, x.dtype(), (scale, zero))
}

fn is_channels_last(x: &Tensor) -> bool {
    x.dim() == 4 && x.is_contiguous_for(MemoryFormat::ChannelsLast)
}

/// The mean of each window.
///
/// # Errors
/// Those of `avg_pool2d`.
pub fn avg_pool2d(
    self_: &Tensor,
    kernel_size: &[i64],
    stride: &[i64],
    padding: &[i64],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: Option<i64>,
) -> Result<Tensor> {
    means(self_, is_channels_last(self_), |x| {
        op::avg_pool2d(
            x,
            kernel_size,
            stride,
            padding,
            ceil_mode,
            count_include_pad,
            divisor_override,
        )
    })
}

/// The mean of each window of volumes, channels last.
///
/// # Errors
/// Those of `avg_pool3d`.
pub fn avg_pool3d(
    self_: &Tensor,
    kernel_size: &[i64],
    stride: &[i64],
    padding: &[i64],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: Option<i64>,
) -> Result<Tensor> {
    means(self_, true, |x| {
        let pooled = op::avg_pool3d(
            x,
            kernel_size,
            stride,
            padding,
            ceil_mode,
            count_include_pad,
            divisor_override,
        )?;
        let is_batch = pooled.dim() == 5;
        let format = if is_batch { MemoryFormat::ChannelsLast3d } else { MemoryFormat::Contiguous };
        op::contiguous(&pooled, format)
    })
}

/// Means over as many windows as asked for.
///
/// # Errors
/// Those of `adaptive_avg_pool2d`.
pub fn adaptive_avg_pool2d(self_: &Tensor, output_size: &[i64]) -> Result<Tensor> {
    means(self_, is_channels_last(self_), |x| op::adaptive_avg_pool2d(x, output_size))
}

/// [`adaptive_avg_pool2d`] of volumes.
///
/// # Errors
/// Those of `adaptive_avg_pool3d`.
pub fn adaptive_avg_pool3d(self_: &Tensor, output_size: &[i64]) -> Result<Tensor> {
    let last = self_.dim() == 5 && self_.is_contiguous_for(MemoryFormat::ChannelsLast3d);
    means(self_, last, |x| op::adaptive_avg_pool3d(x, output_size))
}

/// Means over dimensions.
///
/// # Errors
/// Those of `mean`; `Runtime` for another dtype of the result.
pub fn mean_dim(
    self_: &Tensor,
    dim: Option<&[i64]>,
    keepdim: bool,
    dtype: Option<DType>,
) -> Result<Tensor> {
    ensure!(
        dtype.is_none_or(|dtype| dtype == self_.dtype()),
        Runtime,
        "mean of a quantized tensor has its dtype {}",
        self_.dtype().name()
    );
    on_own_scale(self_, |x| op::mean_dim(x, dim, keepdim, None))
}

/// [`mean_dim`] over all dimensions.
///
/// # Errors
/// As there.
pub fn mean(self_: &Tensor, dtype: Option<DType>) -> Result<Tensor> {
    mean_dim(self_, None, false, dtype)
}

/// Standard deviations over dimensions.
///
/// # Errors
/// Those of `std`.
pub fn std(
    self_: &Tensor,
    dim: Option<&[i64]>,
    correction: Option<Scalar>,
    keepdim: bool,
) -> Result<Tensor> {
    on_own_scale(self_, |x| op::std_correction(x, dim, correction, keepdim))
}

/// Nearest pixels.
///
/// # Errors
/// Those of `upsample_nearest2d`.
pub fn upsample_nearest2d(
    self_: &Tensor,
    output_size: &[i64],
    scales_h: Option<f64>,
    scales_w: Option<f64>,
) -> Result<Tensor> {
    through_floats(self_, |x| op::upsample_nearest2d(x, output_size, scales_h, scales_w))
}

/// Nearest pixels, of pixel centres.
///
/// # Errors
/// Those of `_upsample_nearest_exact2d`.
pub fn upsample_nearest_exact2d(
    self_: &Tensor,
    output_size: &[i64],
    scales_h: Option<f64>,
    scales_w: Option<f64>,
) -> Result<Tensor> {
    through_floats(self_, |x| op::_upsample_nearest_exact2d(x, output_size, scales_h, scales_w))
}

/// Nearest voxels.
///
/// # Errors
/// Those of `upsample_nearest3d`.
pub fn upsample_nearest3d(
    self_: &Tensor,
    output_size: &[i64],
    scales_d: Option<f64>,
    scales_h: Option<f64>,
    scales_w: Option<f64>,
) -> Result<Tensor> {
    through_floats(self_, |x| op::upsample_nearest3d(x, output_size, scales_d, scales_h, scales_w))
}

/// Nearest voxels, of voxel centres.
///
/// # Errors
/// Those of `_upsample_nearest_exact3d`.
pub fn upsample_nearest_exact3d(
    self_: &Tensor,
    output_size: &[i64],
    scales_d: Option<f64>,
    scales_h: Option<f64>,
    scales_w: Option<f64>,
) -> Result<Tensor> {
    through_floats(self_, |x| {
        op::_upsample_nearest_exact3d(x, output_size, scales_d, scales_h, scales_w)
    })
}

/// Integers that `f` moves about, by way of floats that hold them.
fn through_floats(x: &Tensor, f: impl FnOnce(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
    let dtype = if x.dtype() == DType::QInt32 { DType::Float64 } else { DType::Float32 };
    of_integers(x, |ints| {
        let numbers = f(&op::to_dtype(ints, dtype, false, false, None)?)?;
        op::to_dtype(&numbers, ints.dtype(), false, false, None)
    })
}

/// An index and the weight of its neighbour for each pixel of a dimension.
fn taps(out: i64, from: i64, align: bool, scale: Option<f64>) -> (Vec<i64>, Vec<i64>, Vec<f32>) {
    let ratio = match (align, scale) {
        (true, _) if out > 1 => (from - 1) as f32 / (out - 1) as f32,
        (true, _) => 0.0,
        (false, Some(scale)) if scale > 0.0 => (1.0 / scale) as f32,
        (false, _) => from as f32 / out as f32,
    };
    let (mut first, mut second, mut weight) = (vec![], vec![], vec![]);
    for i in 0..out {
        let at = if align { ratio * i as f32 } else { (ratio * (i as f32 + 0.5) - 0.5).max(0.0) };
        let index = (at as i64).min(from - 1);
        first.push(index);
        second.push((index + 1).min(from - 1));
        weight.push(at - index as f32);
    }
    (first, second, weight)
}

/// Pixels between two others along a dimension: `(1 - w) * a + w * b`.
fn between(x: &Tensor, dim: i64, taps: (Vec<i64>, Vec<i64>, Vec<f32>)) -> Result<Tensor> {
    let count = taps.0.len() as i64;
    let mut shape = vec![1; x.dim()];
    shape[dim as usize] = count;
    let rest = Tensor::from_vec(taps.2.iter().map(|w| 1.0 - w).collect(), &shape)?;
    let weight = Tensor::from_vec(taps.2, &shape)?;
    let pick = |indices: Vec<i64>| {
        let indices = Tensor::from_vec(indices, &[count])?;
        op::index_select(x, dim, &indices)
    };
    let (a, b) = (pick(taps.0)?, pick(taps.1)?);
    op::add_tensor(&op::mul_tensor(&rest, &a)?, &op::mul_tensor(&weight, &b)?, 1.into())
}

/// Pixels between four others.
///
/// # Errors
/// Those of `upsample_bilinear2d`.
pub fn upsample_bilinear2d(
    self_: &Tensor,
    output_size: &[i64],
    align_corners: bool,
    scales_h: Option<f64>,
    scales_w: Option<f64>,
) -> Result<Tensor> {
    let (scale, zero) = of_tensor(self_)?;
    let sizes = self_.sizes();
    ensure!(
        sizes.len() == 4 && output_size.len() == 2 && sizes[1..].iter().all(|&size| size > 0),
        Runtime,
        "Non-empty 4D data tensor expected but got a tensor with sizes {:?}",
        sizes.as_slice()
    );
    ensure!(
        output_size.iter().all(|&size| size > 0),
        Runtime,
        "Input and output sizes should be greater than 0, but got output size {output_size:?}"
    );
    let numbers = floats(&integers(self_)?)?;
    let width = taps(output_size[1], sizes[3], align_corners, scales_w);
    let height = taps(output_size[0], sizes[2], align_corners, scales_h);
    let found = between(&between(&numbers, 3, width)?, 2, height)?;
    let steps = op::sub_scalar(&found, Scalar::from(zero), 1.into())?;
    let format =
        if is_channels_last(self_) { MemoryFormat::ChannelsLast } else { MemoryFormat::Contiguous };
    from_steps(&op::contiguous(&steps, format)?, self_.dtype(), (scale, zero))
}

/// Reflections at both ends of the last dimension.
///
/// # Errors
/// Those of `reflection_pad1d`.
pub fn reflection_pad1d(self_: &Tensor, padding: &[i64]) -> Result<Tensor> {
    of_integers(self_, |x| op::reflection_pad1d(x, padding))
}

/// Reflections at the borders of the last two dimensions.
///
/// # Errors
/// Those of `reflection_pad2d`.
pub fn reflection_pad2d(self_: &Tensor, padding: &[i64]) -> Result<Tensor> {
    of_integers(self_, |x| op::reflection_pad2d(x, padding))
}

/// A number around the elements.
///
/// # Errors
/// Those of `constant_pad_nd`.
pub fn constant_pad_nd(self_: &Tensor, pad: &[i64], value: Scalar) -> Result<Tensor> {
    let value = super::activation::integer(self_, value.to_f64())?;
    of_integers(self_, |x| op::constant_pad_nd(x, pad, Scalar::from(value)))
}

/// Pixels at places of a grid.
///
/// # Errors
/// Those of `grid_sampler_2d`.
pub fn grid_sampler_2d(
    input: &Tensor,
    grid: &Tensor,
    interpolation_mode: i64,
    padding_mode: i64,
    align_corners: bool,
) -> Result<Tensor> {
    on_own_scale(input, |x| {
        op::grid_sampler_2d(x, grid, interpolation_mode, padding_mode, align_corners)
    })
}
