//! Group normalisation: groups of channels of every sample.

use super::super::support::{
    contiguous, contiguous_in, defined, empty, empty_as, expect_dtype, is_shape_only,
};
use super::{InputGradient, MeanRstd, if_asked, map_pair, parameter_dtype, tensor_of};
use super::{unfilled_gradients, values_of};
use crate::parallel::chunks::{for_each_chunk, for_each_chunk3, grain_of};
use crate::rows::{Float, Wide};
use corten_core::{
    Access, AccessSet, MemoryFormat, Result, ensure, match_dtype, try_collect, try_vec,
};
use corten_ops::Tensor;

/// The normalised input, and the mean and inverse standard deviation of every group.
///
/// # Errors
/// `Runtime` when shapes or dtypes do not fit.
pub fn native_group_norm(
    input: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    n: i64,
    c: i64,
    hxw: i64,
    group: i64,
    eps: f64,
) -> Result<(Tensor, Tensor, Tensor)> {
    let shape = Shape::of(input, weight, bias, [n, c, hxw, group])?;
    if !input.dtype().is_floating_point() {
        return Err(corten_core::not_implemented_for("GroupNormKernelImpl", input.dtype()));
    }
    let dtype = parameter_dtype(input, &[weight, bias])?;
    let values = contiguous(input)?;
    let out = empty(&input.sizes(), input)?;
    let sizes = [n, group];
    if is_shape_only(&out) {
        let statistics = || empty_as(&sizes, input, dtype);
        return Ok((in_format_of(out, input)?, statistics()?, statistics()?));
    }
    let (mean, rstd) = match_dtype!(input.dtype(), "GroupNormKernelImpl", Float, T => {
        let (weight, bias) = (values_of(weight)?, values_of(bias)?);
        let statistics = {
            let access = AccessSet::acquire(&[(&out, Access::Write), (&values, Access::Read)])?;
            let (out, values) = (access.write::<T>(0)?, access.read::<T>(1)?);
            forward(out, values, &shape, &weight, &bias, eps)?
        };
        let mean = tensor_of(&statistics.0, &sizes, input, dtype)?;
        let rstd = tensor_of(&statistics.1, &sizes, input, dtype)?;
        Ok((mean, rstd))
    })?;
    Ok((in_format_of(out, input)?, mean, rstd))
}

/// Kernels compute on contiguous tensors; a channels-last input asks for such an output.
fn in_format_of(out: Tensor, input: &Tensor) -> Result<Tensor> {
    match input.suggest_memory_format() {
        MemoryFormat::Contiguous => Ok(out),
        format => contiguous_in(&out, format),
    }
}

fn forward<T: Float>(
    out: &mut [T],
    values: &[T],
    shape: &Shape,
    weight: &Option<Vec<T::Wide>>,
    bias: &Option<Vec<T::Wide>>,
    eps: f64,
) -> Result<MeanRstd<T>> {
    let groups = shape.samples * shape.groups;
    let (mut means, mut rstds) = (try_vec(T::Wide::ZERO, groups)?, try_vec(T::Wide::ZERO, groups)?);
    let len = shape.channels_per_group() * shape.plane;
    let grain = grain_of(len);
    for_each_chunk3((out, len), (&mut means, 1), (&mut rstds, 1), grain, |i, out, mean, rstd| {
        let mut buffer = Vec::new();
        let row = T::wide_row(&values[i * len..][..len], &mut buffer);
        let moments = T::Wide::moments(row);
        mean[0] = T::Wide::of(moments.mean);
        rstd[0] = T::Wide::of(1.0 / (moments.variance() + eps).sqrt());
        T::fill(out, &mut Vec::new(), |out| {
            if weight.is_none() && bias.is_none() {
                return T::Wide::affine(out, row, rstd[0], -(mean[0] * rstd[0]));
            }
            let planes = out.chunks_exact_mut(shape.plane).zip(row.chunks_exact(shape.plane));
            for (offset, (out, row)) in planes.enumerate() {
                let channel = i % shape.groups * shape.channels_per_group() + offset;
                let factor = weight.as_ref().map_or(rstd[0], |weight| weight[channel] * rstd[0]);
                let shift = bias.as_ref().map_or(T::Wide::ZERO, |bias| bias[channel]);
                T::Wide::affine(out, row, factor, shift - mean[0] * factor);
            }
        });
        Ok(())
    })?;
    Ok((means, rstds))
}

/// Gradients with respect to input, weight and bias.
///
/// # Errors
/// `Runtime` when shapes or dtypes do not fit.
pub fn native_group_norm_backward(
    grad_out: &Tensor,
    input: &Tensor,
    mean: &Tensor,
    rstd: &Tensor,
    weight: Option<&Tensor>,
    n: i64,
    c: i64,
    hxw: i64,
    group: i64,
    output_mask: &[bool],
) -> Result<(Tensor, Tensor, Tensor)> {
    let shape = Shape::of(input, weight, None, [n, c, hxw, group])?;
    expect_dtype(grad_out, input.dtype())?;
    ensure!(
        grad_out.numel() == input.numel() && mean.numel() == n * group && rstd.numel() == n * group,
        Runtime,
        "group_norm: expected a gradient of the input's size {:?} and {} statistics",
        input.sizes().as_slice(),
        n * group
    );
    let dtype = defined(weight).map_or(mean.dtype(), |weight| weight.dtype());
    if is_shape_only(input) {
        let new = || in_format_of(empty(&input.sizes(), input)?, input);
        return unfilled_gradients(new, |_| empty_as(&[c], input, dtype), output_mask);
    }
    let (grad, values) = (contiguous(grad_out)?, contiguous(input)?);
    match_dtype!(input.dtype(), "GroupNormBackwardKernelImpl", Float, T => {
        let weights: Option<Vec<f64>> = values_of(weight)?;
        let means: Vec<f64> = values_of(Some(mean))?.unwrap_or_default();
        let rstds: Vec<f64> = values_of(Some(rstd))?.unwrap_or_default();
        let sums = plane_sums::<T>(&grad, &values, &shape, &means)?;
        let grad_input = if_asked(output_mask[0], || {
            let out = empty(&input.sizes(), input)?;
            spread::<T>(&out, &grad, &values, &shape, (&means, &rstds), (&sums, &weights))?;
            in_format_of(out, input)
        })?;
        // Over the samples: (sum of g * (x - mean)) * rstd, and the sum of g.
        let over_samples = |value: &dyn Fn(usize, usize) -> f64| {
            let sum = |channel| (0..shape.samples).map(|sample| value(sample, channel)).sum();
            try_collect::<f64>((0..shape.channels).map(sum))
        };
        let plane = |sample: usize, channel: usize| sample * shape.channels + channel;
        let grad_weight = if_asked(output_mask[1], || {
            let values = over_samples(&|sample: usize, channel: usize| {
                let group = sample * shape.groups + channel / shape.channels_per_group();
                sums[plane(sample, channel)].1 * rstds[group]
            })?;
            tensor_of(&values, &[c], input, dtype)
        })?;
        let grad_bias = if_asked(output_mask[2], || {
            let values = over_samples(&|sample, channel| sums[plane(sample, channel)].0)?;
            tensor_of(&values, &[c], input, dtype)
        })?;
        Ok((grad_input, grad_weight, grad_bias))
    })
}

/// Per sample and channel the sums of `grad` and of `grad * (x - mean)`.
fn plane_sums<T: Float>(
    grad: &Tensor,
    values: &Tensor,
    shape: &Shape,
    means: &[f64],
) -> Result<Vec<(f64, f64)>> {
    let mut sums = try_vec((0.0, 0.0), shape.samples * shape.channels)?;
    let access = AccessSet::acquire(&[(grad, Access::Read), (values, Access::Read)])?;
    let (grad, values) = (access.read::<T>(0)?, access.read::<T>(1)?);
    for_each_chunk(&mut sums, 1, grain_of(shape.plane), |i, sum| {
        let mean = T::Wide::of(means[i / shape.channels_per_group()]);
        let (mut buffers, start) = ((Vec::new(), Vec::new()), i * shape.plane);
        let grad = T::wide_row(&grad[start..][..shape.plane], &mut buffers.0);
        let row = T::wide_row(&values[start..][..shape.plane], &mut buffers.1);
        sum[0] = T::Wide::gradient_sums(grad, row, mean);
        Ok(())
    })?;
    Ok(sums)
}

/// dx = rstd * (weight * g - average - (x - mean) * along), with the sums over the group.
fn spread<T: Float>(
    out: &Tensor,
    grad: &Tensor,
    values: &Tensor,
    shape: &Shape,
    (means, rstds): (&[f64], &[f64]),
    (sums, weight): (&[(f64, f64)], &Option<Vec<f64>>),
) -> Result<()> {
    let access =
        AccessSet::acquire(&[(out, Access::Write), (grad, Access::Read), (values, Access::Read)])?;
    let (out, grad, values) = (access.write::<T>(0)?, access.read::<T>(1)?, access.read::<T>(2)?);
    let per_group = shape.channels_per_group();
    let count = (per_group * shape.plane) as f64;
    let weight_of = |plane: usize| weight.as_ref().map_or(1.0, |w| w[plane % shape.channels]);
    for_each_chunk(out, shape.plane, grain_of(shape.plane), |i, out| {
        let group = i / per_group;
        let planes = group * per_group..(group + 1) * per_group;
        let average: f64 = planes.clone().map(|plane| sums[plane].0 * weight_of(plane)).sum();
        let along: f64 = planes.map(|plane| sums[plane].1 * weight_of(plane)).sum();
        let rstd = rstds[group];
        let [average, along, mean, weight, factor] =
            [average / count, along * rstd * rstd / count, means[group], weight_of(i), rstd]
                .map(T::Wide::of);
        let gradient = InputGradient { weight, mean, average, along, factor };
        let [grad, row] = [grad, values].map(|line| &line[i * shape.plane..][..shape.plane]);
        map_pair(out, grad, row, gradient);
        Ok(())
    })
}

/// Sizes, as counts of elements.
struct Shape {
    samples: usize,
    channels: usize,
    plane: usize,
    groups: usize,
}

impl Shape {
    fn of(
        input: &Tensor,
        weight: Option<&Tensor>,
        bias: Option<&Tensor>,
        [n, c, hxw, group]: [i64; 4],
    ) -> Result<Self> {
        corten_ops::composite::norm::check_groups(&input.sizes(), weight, bias, c, group)?;
        ensure!(hxw > 0, Runtime, "Expected HxW to be greater than 0, got {hxw}");
        ensure!(
            input.numel() == n * c * hxw,
            Runtime,
            "Expected an input of {n} x {c} x {hxw} elements, but got input of shape {:?}",
            input.sizes().as_slice()
        );
        let [samples, channels, plane, groups] = [n, c, hxw, group].map(|size| size as usize);
        Ok(Self { samples, channels, plane, groups })
    }

    fn channels_per_group(&self) -> usize {
        self.channels / self.groups
    }
}
