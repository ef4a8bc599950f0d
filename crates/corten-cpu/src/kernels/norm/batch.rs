//! Batch normalisation: every channel by the mean and variance of the batch.

use super::super::support::{
    contiguous_in, defined, empty_as, empty_in, expect_dtype, is_shape_only,
};
use super::columns::{self, SubMatrix};
use super::values_of;
use super::{InputGradient, if_asked, map_pair, parameter_dtype, tensor_of, unfilled_gradients};
use crate::copy::strided::{Rows, gather, scatter};
use crate::parallel::chunks::{for_each_chunk, grain_of};
use crate::pointwise::steps::Step;
use crate::rows::loops::{map, row_folds, row_functions};
use crate::rows::{Float, Moments, Wide};
use crate::vec::stream;
use corten_core::{
    Access, AccessSet, MemoryFormat, Result, ensure, match_dtype, try_collect, try_vec,
    try_with_capacity, unwinding,
};
use corten_ops::{Tensor, op};

/// The normalised input, and the mean and inverse standard deviation of every channel (empty
/// unless `training`). Running statistics are updated in place when `training`.
///
/// # Errors
/// `Runtime` when shapes or dtypes do not fit.
pub fn native_batch_norm(
    input: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    running_mean: Option<&Tensor>,
    running_var: Option<&Tensor>,
    training: bool,
    momentum: f64,
    eps: f64,
) -> Result<(Tensor, Tensor, Tensor)> {
    let layout = Layout::of(input)?;
    ensure!(
        !training || input.numel() > 0,
        Runtime,
        "input tensor must have at least one element, but got input_sizes = {:?}",
        input.sizes().as_slice()
    );
    if !input.dtype().is_floating_point() {
        return Err(corten_core::not_implemented_for("batch_norm", input.dtype()));
    }
    let dtype = parameter_dtype(input, &[weight, bias, running_mean, running_var])?;
    let parameters = [
        ("running_mean", running_mean),
        ("running_var", running_var),
        ("weight", weight),
        ("bias", bias),
    ];
    layout.check_lengths(&parameters)?;
    let values = contiguous_in(input, layout.format)?;
    let out = empty_in(&input.sizes(), input, input.dtype(), layout.format)?;
    if is_shape_only(&out) {
        let sizes = [if training { layout.channels as i64 } else { 0 }];
        return Ok((out, empty_as(&sizes, input, dtype)?, empty_as(&sizes, input, dtype)?));
    }
    match_dtype!(input.dtype(), "batch_norm", Float, T => {
        let statistics = if training {
            let moments = batch_moments::<T>(&values, &layout)?;
            update_running(&moments, running_mean, running_var, momentum)?;
            Statistics::of_batch(&moments, eps)
        } else {
            Statistics::of_running(running_mean, running_var, eps)?
        };
        let (weight, bias) = (values_of(weight)?, values_of(bias)?);
        normalise::<T>(&out, &values, &layout, &statistics, &weight, &bias)?;
        let saved = |values: &[f64]| {
            let values = if training { values } else { &[] };
            tensor_of(values, &[values.len() as i64], input, dtype)
        };
        Ok((out, saved(&statistics.mean)?, saved(&statistics.rstd)?))
    })
}

/// What [`native_batch_norm`] multiplies every channel by in evaluation mode, and what it adds then, for inputs of
/// `f32`. Compiled programs do both with [`AffineStep`], among what else they do to an element.
///
/// # Errors
/// `Runtime` for parameters of different lengths, and where statistics are missing.
pub fn affine_of_running(
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    running_mean: Option<&Tensor>,
    running_var: Option<&Tensor>,
    eps: f64,
) -> Result<[Vec<f32>; 2]> {
    let statistics = Statistics::of_running(running_mean, running_var, eps)?;
    let (weight, bias) = (values_of(weight)?, values_of(bias)?);
    let channels = statistics.rstd.len();
    let fits = |list: &Option<Vec<f64>>| list.as_ref().is_none_or(|list| list.len() == channels);
    let alike = fits(&weight) && fits(&bias) && statistics.mean.len() == channels;
    ensure!(alike, Runtime, "batch_norm: the parameters have different lengths");
    statistics.affine(&weight, &bias)
}

/// The loop of [`native_batch_norm`] over `f32`: output, input, factors, shifts.
pub struct AffineStep;

impl Step for AffineStep {
    unsafe fn run(&self, at: &[*mut u8], strides: &[i64], n0: usize, n1: usize) -> Result<()> {
        const SIZE: i64 = size_of::<f32>() as i64;
        /// Elements that are brought side by side at a time.
        const PART: usize = 256;

        for row in 0..n1 as i64 {
            let start = |i: usize| at[i].wrapping_offset((strides[4 + i] * row) as isize);
            let rows: [Rows; 4] =
                std::array::from_fn(|i| Rows { at: start(i), inner: strides[i], outer: 0 });
            let aligned = rows.iter().all(|row| row.at.cast::<f32>().is_aligned());
            if aligned && strides[..2] == [SIZE, SIZE] && strides[2..4] == [0, 0] {
                // SAFETY: the caller's: dense rows, which share no element, and one element of each parameter.
                unsafe {
                    let out = std::slice::from_raw_parts_mut(rows[0].at.cast::<f32>(), n0);
                    let from = std::slice::from_raw_parts(rows[1].at.cast::<f32>(), n0);
                    let [factor, shift] = [rows[2], rows[3]].map(|one| one.at.cast::<f32>().read());
                    f32::affine(out, from, factor, shift);
                }
                continue;
            }
            let mut parts = [[0_f32; PART]; 4];
            for first in (0..n0).step_by(PART) {
                let length = PART.min(n0 - first);
                let [out, inputs @ ..] = &mut parts;
                // SAFETY: the caller's, of a part of the row; a part of the buffers is as long.
                unsafe {
                    for (part, row) in inputs.iter_mut().zip(&rows[1..]) {
                        let part = part.as_mut_ptr().cast();
                        gather(SIZE as usize, row.element(first), part, length, 1);
                    }
                    let [x, factor, shift] = inputs.each_ref().map(|part| &part[..length]);
                    map(&mut out[..length], [x, factor, shift], Affine);
                    let to = rows[0].element(first);
                    scatter(SIZE as usize, out.as_ptr().cast(), to, length, 1);
                }
            }
        }
        Ok(())
    }

    fn runs_in_place(&self) -> bool {
        false
    }
}

/// Gradients with respect to input, weight and bias.
///
/// # Errors
/// `Runtime` when shapes or dtypes do not fit.
pub fn native_batch_norm_backward(
    grad_out: &Tensor,
    input: &Tensor,
    weight: Option<&Tensor>,
    running_mean: Option<&Tensor>,
    running_var: Option<&Tensor>,
    save_mean: Option<&Tensor>,
    save_invstd: Option<&Tensor>,
    train: bool,
    eps: f64,
    output_mask: &[bool],
) -> Result<(Tensor, Tensor, Tensor)> {
    let layout = Layout::of(input)?;
    expect_dtype(grad_out, input.dtype())?;
    ensure!(
        grad_out.sizes() == input.sizes(),
        Runtime,
        "batch_norm: expected a gradient of size {:?} but got {:?}",
        input.sizes().as_slice(),
        grad_out.sizes().as_slice()
    );
    let parameters = [weight, running_mean, running_var, save_mean, save_invstd];
    let dtype = parameters.iter().find_map(|p| defined(*p)).map_or(input.dtype(), |p| p.dtype());
    layout.check_lengths(&[
        ("running_mean", running_mean),
        ("running_var", running_var),
        ("weight", weight),
        ("save_mean", save_mean.filter(|_| train)),
        ("save_invstd", save_invstd.filter(|_| train)),
    ])?;
    let sizes = [layout.channels as i64];
    let new = || empty_in(&input.sizes(), input, input.dtype(), layout.format);
    if is_shape_only(input) {
        return unfilled_gradients(new, |_| empty_as(&sizes, input, dtype), output_mask);
    }
    let (grad, values) =
        (contiguous_in(grad_out, layout.format)?, contiguous_in(input, layout.format)?);
    match_dtype!(input.dtype(), "batch_norm_backward_cpu", Float, T => {
        let statistics = match (train, values_of(save_mean)?, values_of(save_invstd)?) {
            (true, Some(mean), Some(rstd)) => Statistics { mean, rstd },
            _ => Statistics::of_running(running_mean, running_var, eps)?,
        };
        let sums = gradient_sums::<T>(&grad, &values, &layout, &statistics)?;
        let weights: Option<Vec<f64>> = values_of(weight)?;
        let grad_input = if_asked(output_mask[0], || {
            let out = new()?;
            let parts = Parts::of(&sums, &statistics, &weights, layout.count(), train);
            spread::<T>(&out, &grad, &values, &layout, &parts)?;
            Ok(out)
        })?;
        let grad_weight = if_asked(output_mask[1], || {
            let scaled = sums.iter().zip(&statistics.rstd).map(|(sum, rstd)| sum.1 * rstd);
            tensor_of(&try_collect(scaled)?, &sizes, input, dtype)
        })?;
        let grad_bias = if_asked(output_mask[2], || {
            let plain: Vec<f64> = try_collect(sums.iter().map(|sum| sum.0))?;
            tensor_of(&plain, &sizes, input, dtype)
        })?;
        Ok((grad_input, grad_weight, grad_bias))
    })
}

/// Where the elements of a channel lie.
struct Layout {
    format: MemoryFormat,
    batch: usize,
    channels: usize,
    /// Elements per sample and channel that lie side by side; 1 where channels come last.
    plane: usize,
    /// Pixels per sample where channels come last, else 1.
    pixels: usize,
}

impl Layout {
    /// Parameters have an element for every channel.
    fn check_lengths(&self, parameters: &[(&str, Option<&Tensor>)]) -> Result<()> {
        for (name, parameter) in parameters {
            let count = defined(*parameter).map(|parameter| parameter.numel());
            ensure!(
                count.is_none_or(|count| count == self.channels as i64),
                Runtime,
                "{name} should contain {} elements not {}",
                self.channels,
                count.unwrap_or(0)
            );
        }
        Ok(())
    }

    fn of(input: &Tensor) -> Result<Self> {
        input.size(1)?;
        let sizes = input.sizes();
        let format = input.suggest_memory_format();
        let spatial = sizes[2..].iter().product::<i64>() as usize;
        let last = format != MemoryFormat::Contiguous || spatial == 1;
        Ok(Self {
            format,
            batch: sizes[0] as usize,
            channels: sizes[1] as usize,
            plane: if last { 1 } else { spatial },
            pixels: if last { spatial } else { 1 },
        })
    }

    fn channels_last(&self) -> bool {
        self.plane == 1
    }

    /// Elements per channel.
    fn count(&self) -> f64 {
        (self.batch * self.plane * self.pixels) as f64
    }
}

/// Mean and inverse standard deviation per channel.
struct Statistics {
    mean: Vec<f64>,
    rstd: Vec<f64>,
}

impl Statistics {
    fn of_batch(moments: &[Moments], eps: f64) -> Self {
        Self {
            mean: unwinding::collect(moments.iter().map(|channel| channel.mean)),
            rstd: unwinding::collect(moments.iter().map(|c| 1.0 / (c.variance() + eps).sqrt())),
        }
    }

    fn of_running(mean: Option<&Tensor>, var: Option<&Tensor>, eps: f64) -> Result<Self> {
        let (mean, var) = (values_of::<f64>(mean)?, values_of::<f64>(var)?);
        let (Some(mean), Some(var)) = (mean, var) else {
            corten_core::bail!(Runtime, "running_mean must be defined in evaluation mode")
        };
        let rstd = try_collect(var.iter().map(|var| 1.0 / (var + eps).sqrt()))?;
        Ok(Self { mean, rstd })
    }

    /// What every channel is multiplied by, and what is added then.
    fn affine<W: Wide>(
        &self,
        weight: &Option<Vec<f64>>,
        bias: &Option<Vec<f64>>,
    ) -> Result<[Vec<W>; 2]> {
        let of = |list: &Option<Vec<f64>>, channel: usize, default: f64| {
            list.as_ref().map_or(default, |list| list[channel])
        };
        let channels = self.rstd.len();
        let mut factors: Vec<W> = try_with_capacity(channels)?;
        let mut shifts: Vec<W> = try_with_capacity(channels)?;
        for c in 0..channels {
            let factor = self.rstd[c] * of(weight, c, 1.0);
            factors.push(W::of(factor));
            shifts.push(W::of(of(bias, c, 0.0) - self.mean[c] * factor));
        }
        Ok([factors, shifts])
    }
}

fn batch_moments<T: Float>(values: &Tensor, layout: &Layout) -> Result<Vec<Moments>> {
    let flat = in_memory_order(values)?;
    let access = AccessSet::acquire(&[(&flat, Access::Read)])?;
    let values = access.read::<T>(0)?;
    if layout.channels_last() {
        let rows = layout.batch * layout.pixels;
        let add =
            |block: SubMatrix, moments: &mut [Moments]| block_moments(&block, values, moments);
        return columns::over_rows(rows, layout.channels, add, Moments::merge);
    }
    let mut moments = try_vec(Moments::default(), layout.channels)?;
    let grain = grain_of(layout.batch * layout.plane);
    for_each_chunk(&mut moments, 1, grain, |channel, moments| {
        let mut buffer = Vec::new();
        for sample in 0..layout.batch {
            let start = (sample * layout.channels + channel) * layout.plane;
            let plane = T::wide_row(&values[start..][..layout.plane], &mut buffer);
            moments[0].merge(T::Wide::moments(plane));
        }
        Ok(())
    })?;
    Ok(moments)
}

row_folds! {
    Sums: 1 to 1 |sum; x| sum + x;
    /// Squared distances from the mean, and the distances, which correct for its rounding.
    Distances: 2 to 2 |squares, errors; x, mean|
        (x - mean).mul_add(x - mean, squares), errors + (x - mean);
    /// Of `g` and of `g (x - mean)`.
    GradientSums: 3 to 2 |plain, along; g, x, mean| plain + g, g.mul_add(x - mean, along);
}

row_functions! {
    Affine: 3 |x, factor, shift| x.mul_add(factor, shift);
    /// As [`InputGradient`], with numbers for every channel.
    InputGradients: 6 |g, x, mean, average, along, factor|
        (x - mean).mul_add(-along, g - average) * factor;
}

/// Takes a block of pixels into the moments of its channels.
fn block_moments<T: Float>(block: &SubMatrix, values: &[T], moments: &mut [Moments]) {
    let count = block.rows.len() as f64;
    let [sums] = block.fold([values], &[], Sums);
    let means: Vec<T::Wide> = unwinding::collect(sums.iter().map(|sum| T::Wide::of(sum / count)));
    let [squares, errors] = block.fold([values], &[&means], Distances);
    for (i, all) in moments.iter_mut().enumerate() {
        let error = errors[i];
        all.merge(Moments {
            count,
            mean: means[i].as_f64() + error / count,
            squares: (squares[i] - error * error / count).max(0.0),
        });
    }
}

/// new = (1 - momentum) * old + momentum * batch, with the unbiased variance.
fn update_running(
    moments: &[Moments],
    mean: Option<&Tensor>,
    var: Option<&Tensor>,
    momentum: f64,
) -> Result<()> {
    let update = |running: Option<&Tensor>, value: &dyn Fn(&Moments) -> f64| {
        let Some(running) = defined(running) else { return Ok(()) };
        let old: Vec<f64> = values_of(Some(running))?.unwrap_or_default();
        let new = old.iter().zip(moments);
        let new: Vec<f64> = try_collect(
            new.map(|(old, channel)| (1.0 - momentum) * old + momentum * value(channel)),
        )?;
        let new = tensor_of(&new, &[moments.len() as i64], running, running.dtype())?;
        op::copy_(running, &new, false).map(drop)
    };
    update(mean, &|channel| channel.mean)?;
    update(var, &|channel| channel.squares / (channel.count - 1.0))
}

/// A flat view of a tensor that is dense in its format.
fn in_memory_order(tensor: &Tensor) -> Result<Tensor> {
    Ok(tensor.as_view_of(&[tensor.numel()], &[1], tensor.storage_offset())?.into())
}

/// `out = (x - mean) * rstd * weight + bias`, per channel.
fn normalise<T: Float>(
    out: &Tensor,
    values: &Tensor,
    layout: &Layout,
    statistics: &Statistics,
    weight: &Option<Vec<f64>>,
    bias: &Option<Vec<f64>>,
) -> Result<()> {
    let [factors, shifts] = statistics.affine::<T::Wide>(weight, bias)?;
    let (out, values) = (in_memory_order(out)?, in_memory_order(values)?);
    let access = AccessSet::acquire(&[(&out, Access::Write), (&values, Access::Read)])?;
    let (out, values) = (access.write::<T>(0)?, access.read::<T>(1)?);
    if layout.channels_last() {
        return columns::map_columns(out, [values], &[&factors, &shifts], Affine);
    }
    let written = size_of_val(out);
    for_each_chunk(out, layout.plane, grain_of(layout.plane), |i, out| {
        let channel = i % layout.channels;
        let (values, mut buffers) = (&values[i * layout.plane..], (Vec::new(), Vec::new()));
        stream::fill(written, out, 1, |range, out| {
            let row = T::wide_row(&values[range], &mut buffers.0);
            T::fill(out, &mut buffers.1, |out| {
                T::Wide::affine(out, row, factors[channel], shifts[channel]);
            });
        });
        Ok(())
    })
}

/// Per channel the sums of `grad` and of `grad * (x - mean)`.
fn gradient_sums<T: Float>(
    grad: &Tensor,
    values: &Tensor,
    layout: &Layout,
    statistics: &Statistics,
) -> Result<Vec<(f64, f64)>> {
    let means: Vec<T::Wide> = try_collect(statistics.mean.iter().map(|&mean| T::Wide::of(mean)))?;
    let (grad, values) = (in_memory_order(grad)?, in_memory_order(values)?);
    let access = AccessSet::acquire(&[(&grad, Access::Read), (&values, Access::Read)])?;
    let (grad, values) = (access.read::<T>(0)?, access.read::<T>(1)?);
    let merge = |all: &mut (f64, f64), part: (f64, f64)| {
        all.0 += part.0;
        all.1 += part.1;
    };
    if layout.channels_last() {
        let add = |block: SubMatrix, sums: &mut [(f64, f64)]| {
            let means = &means[block.columns.clone()];
            let [plain, along] = block.fold([grad, values], &[means], GradientSums);
            sums.iter_mut().zip(plain.into_iter().zip(along)).for_each(|(all, part)| {
                merge(all, part);
            });
        };
        return columns::over_rows(layout.batch * layout.pixels, layout.channels, add, merge);
    }
    let mut sums = try_vec((0.0, 0.0), layout.channels)?;
    let grain = grain_of(layout.batch * layout.plane);
    for_each_chunk(&mut sums, 1, grain, |channel, sums| {
        let mut buffers = (Vec::new(), Vec::new());
        for sample in 0..layout.batch {
            let start = (sample * layout.channels + channel) * layout.plane;
            let grad = T::wide_row(&grad[start..][..layout.plane], &mut buffers.0);
            let row = T::wide_row(&values[start..][..layout.plane], &mut buffers.1);
            merge(&mut sums[0], T::Wide::gradient_sums(grad, row, means[channel]));
        }
        Ok(())
    })?;
    Ok(sums)
}

/// dx = (g - average - (x - mean) * along) * factor, per channel.
struct Parts<W> {
    average: Vec<W>,
    mean: Vec<W>,
    along: Vec<W>,
    factor: Vec<W>,
}

impl<W: Wide> Parts<W> {
    fn of(
        sums: &[(f64, f64)],
        statistics: &Statistics,
        weight: &Option<Vec<f64>>,
        count: f64,
        train: bool,
    ) -> Self {
        let each = |value: &dyn Fn(usize) -> f64| {
            unwinding::collect((0..sums.len()).map(|c| W::of(value(c))))
        };
        // The running statistics do not depend on the input.
        let share = if train { 1.0 / count } else { 0.0 };
        let rstd = &statistics.rstd;
        Self {
            average: each(&|c| sums[c].0 * share),
            mean: each(&|c| statistics.mean[c]),
            along: each(&|c| sums[c].1 * rstd[c] * rstd[c] * share),
            factor: each(&|c| rstd[c] * weight.as_ref().map_or(1.0, |weight| weight[c])),
        }
    }
}

fn spread<T: Float>(
    out: &Tensor,
    grad: &Tensor,
    values: &Tensor,
    layout: &Layout,
    parts: &Parts<T::Wide>,
) -> Result<()> {
    let (out, grad, values) =
        (in_memory_order(out)?, in_memory_order(grad)?, in_memory_order(values)?);
    let access = AccessSet::acquire(&[
        (&out, Access::Write),
        (&grad, Access::Read),
        (&values, Access::Read),
    ])?;
    let (out, grad, values) = (access.write::<T>(0)?, access.read::<T>(1)?, access.read::<T>(2)?);
    if layout.channels_last() {
        let tables = [&parts.mean[..], &parts.average, &parts.along, &parts.factor];
        return columns::map_columns(out, [grad, values], &tables, InputGradients);
    }
    let (plane, written) = (layout.plane, size_of_val(out));
    for_each_chunk(out, plane, grain_of(plane), |i, out| {
        let c = i % layout.channels;
        let gradient = InputGradient {
            weight: T::Wide::ONE,
            mean: parts.mean[c],
            average: parts.average[c],
            along: parts.along[c],
            factor: parts.factor[c],
        };
        let (grad, values) = (&grad[i * plane..], &values[i * plane..]);
        stream::fill(written, out, 1, |range, out| {
            map_pair(out, &grad[range.clone()], &values[range], gradient);
        });
        Ok(())
    })
}
