//! Layer normalisation: every row by its own mean and variance.

use super::super::support::{contiguous, defined, empty, empty_as, expect_dtype, is_shape_only};
use super::{MeanRstd, if_asked, parameter_dtype, tensor_of, unfilled_gradients, values_of};
use crate::parallel::chunks::{for_each_chunk, for_each_chunk3, for_each_row_block2, grain_of};
use crate::rows::loops::{fold_columns, map, row_folds, row_functions};
use crate::rows::{Float, Wide};
use corten_core::{Access, AccessSet, Dims, Result, ensure, match_dtype, try_vec};
use corten_ops::Tensor;
use corten_ops::parallel::num_threads;

/// The fewest and the most columns whose parameter gradients one thread sums at a time.
const COLUMNS: (usize, usize) = (64, 1024);

/// Rows that are summed before the sum is added to the total, so that long sums stay exact.
const BLOCK: usize = 128;

/// The normalised input, and the mean and inverse standard deviation of every row.
///
/// # Errors
/// `Runtime` when shapes or dtypes do not fit.
pub fn native_layer_norm(
    input: &Tensor,
    normalized_shape: &[i64],
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    eps: f64,
) -> Result<(Tensor, Tensor, Tensor)> {
    let (rows, len) = check(input, normalized_shape, weight, bias)?;
    if !input.dtype().is_floating_point() {
        return Err(corten_core::not_implemented_for("LayerNormKernelImpl", input.dtype()));
    }
    let dtype = parameter_dtype(input, &[weight, bias])?;
    let values = contiguous(input)?;
    let out = empty(&input.sizes(), input)?;
    let mut sizes: Dims = input.sizes();
    let kept = sizes.len() - normalized_shape.len();
    sizes[kept..].fill(1);
    if is_shape_only(&out) {
        return Ok((out, empty_as(&sizes, input, dtype)?, empty_as(&sizes, input, dtype)?));
    }
    match_dtype!(input.dtype(), "LayerNormKernelImpl", Float, T => {
        // Neutral parameters change nothing; in a sum that is -0.
        let weight = values_of(weight)?.map_or_else(|| try_vec(<T as Float>::Wide::ONE, len), Ok)?;
        let bias = values_of(bias)?.map_or_else(|| try_vec(-<T as Float>::Wide::ZERO, len), Ok)?;
        let statistics = {
            let access = AccessSet::acquire(&[(&out, Access::Write), (&values, Access::Read)])?;
            let (out, values) = (access.write::<T>(0)?, access.read::<T>(1)?);
            forward(out, values, rows, &weight, &bias, eps)?
        };
        let mean = tensor_of(&statistics.0, &sizes, input, dtype)?;
        let rstd = tensor_of(&statistics.1, &sizes, input, dtype)?;
        Ok((out, mean, rstd))
    })
}

fn forward<T: Float>(
    out: &mut [T],
    values: &[T],
    rows: usize,
    weight: &[T::Wide],
    bias: &[T::Wide],
    eps: f64,
) -> Result<MeanRstd<T>> {
    let len = weight.len();
    if len == 0 {
        return Ok((try_vec(T::Wide::ZERO, rows)?, try_vec(T::Wide::of(f64::NAN), rows)?));
    }
    let (mut means, mut rstds) = (try_vec(T::Wide::ZERO, rows)?, try_vec(T::Wide::ZERO, rows)?);
    let grain = grain_of(len);
    for_each_chunk3((out, len), (&mut means, 1), (&mut rstds, 1), grain, |i, out, mean, rstd| {
        let mut buffer = Vec::new();
        let row = T::wide_row(&values[i * len..][..len], &mut buffer);
        let moments = T::Wide::moments(row);
        mean[0] = T::Wide::of(moments.mean);
        rstd[0] = T::Wide::of(1.0 / (moments.variance() + eps).sqrt());
        let normal = Normalised { mean: mean[0], rstd: rstd[0] };
        T::fill(out, &mut Vec::new(), |out| map(out, [row, weight, bias], normal));
        Ok(())
    })?;
    Ok((means, rstds))
}

row_functions! {
    Normalised { mean, rstd }: 3 |x, weight, bias| ((x - mean) * rstd).mul_add(weight, bias);
    /// As [`super::InputGradient`], with a weight per element.
    WeightedGradient { mean, average, along, factor }: 3 |g, weight, x|
        (x - mean).mul_add(-along, g.mul_add(weight, -average)) * factor;
}

/// Gradients with respect to input, weight and bias.
///
/// # Errors
/// `Runtime` when shapes or dtypes do not fit.
pub fn native_layer_norm_backward(
    grad_out: &Tensor,
    input: &Tensor,
    normalized_shape: &[i64],
    mean: &Tensor,
    rstd: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    output_mask: &[bool],
) -> Result<(Tensor, Tensor, Tensor)> {
    let (rows, len) = check(input, normalized_shape, weight, bias)?;
    expect_dtype(grad_out, input.dtype())?;
    ensure!(
        grad_out.sizes() == input.sizes()
            && mean.numel() == rows as i64
            && rstd.numel() == rows as i64,
        Runtime,
        "layer_norm: expected a gradient of the input's shape {:?} and {rows} statistics",
        input.sizes().as_slice()
    );
    let dtype_of = |like: Option<&Tensor>| {
        defined(like).or(defined(weight)).map_or(mean.dtype(), |parameter| parameter.dtype())
    };
    if is_shape_only(input) {
        let parameter = |place| {
            let like = if place == 1 { weight } else { bias };
            empty_as(normalized_shape, input, dtype_of(like))
        };
        return unfilled_gradients(|| empty(&input.sizes(), input), parameter, output_mask);
    }
    let (grad, values) = (contiguous(grad_out)?, contiguous(input)?);
    match_dtype!(input.dtype(), "LayerNormBackwardKernelImpl", Float, T => {
        let weights = values_of(weight)?.map_or_else(|| try_vec(<T as Float>::Wide::ONE, len), Ok)?;
        let statistics = Statistics {
            mean: values_of(Some(mean))?.unwrap_or_default(),
            rstd: values_of(Some(rstd))?.unwrap_or_default(),
        };
        let grad_input = if_asked(output_mask[0], || {
            let out = empty(&input.sizes(), input)?;
            let access = AccessSet::acquire(
                &[(&out, Access::Write), (&grad, Access::Read), (&values, Access::Read)])?;
            let (g, x) = (access.read::<T>(1)?, access.read::<T>(2)?);
            backward_rows(access.write::<T>(0)?, g, x, &statistics, &weights)?;
            drop(access);
            Ok(out)
        })?;
        let asked = [output_mask[1], output_mask[2]];
        let sums = {
            let access = AccessSet::acquire(&[(&grad, Access::Read), (&values, Access::Read)])?;
            let (g, x) = (access.read::<T>(0)?, access.read::<T>(1)?);
            parameter_gradients(g, x, len, &statistics, asked.contains(&true))?
        };
        let gradient = |asked, sums: &[f64], like: Option<&Tensor>| if_asked(asked, || {
            tensor_of(sums, normalized_shape, input, dtype_of(like))
        });
        Ok((grad_input, gradient(asked[0], &sums.0, weight)?, gradient(asked[1], &sums.1, bias)?))
    })
}

/// What forward found out about the rows.
struct Statistics<W> {
    mean: Vec<W>,
    rstd: Vec<W>,
}

fn backward_rows<T: Float>(
    out: &mut [T],
    grad: &[T],
    values: &[T],
    statistics: &Statistics<T::Wide>,
    weight: &[T::Wide],
) -> Result<()> {
    let len = weight.len();
    let count = len as f64;
    for_each_chunk(out, len, grain_of(2 * len), |i, out| {
        let mut buffers = (Vec::new(), Vec::new());
        let grad = T::wide_row(&grad[i * len..][..len], &mut buffers.0);
        let row = T::wide_row(&values[i * len..][..len], &mut buffers.1);
        let (mean, factor) = (statistics.mean[i], statistics.rstd[i]);
        let (plain, along) = T::Wide::weighted_gradient_sums(grad, weight, row, mean);
        let variance = factor.as_f64() * factor.as_f64();
        let [average, along] = [plain / count, along * variance / count].map(T::Wide::of);
        let gradient = WeightedGradient { mean, average, along, factor };
        T::fill(out, &mut Vec::new(), |out| map(out, [grad, weight, row], gradient));
        Ok(())
    })
}

/// Sums over the rows of `grad * normalised` and of `grad`.
fn parameter_gradients<T: Float>(
    grad: &[T],
    values: &[T],
    len: usize,
    statistics: &Statistics<T::Wide>,
    asked: bool,
) -> Result<(Vec<f64>, Vec<f64>)> {
    let (mut weights, mut biases) = (try_vec(0.0f64, len)?, try_vec(0.0f64, len)?);
    if !asked || len == 0 {
        return Ok((weights, biases));
    }
    let rows = statistics.mean.len();
    let width = len.div_ceil(num_threads() as usize).clamp(COLUMNS.0, COLUMNS.1);
    let (blocks, grain) = ([1, len, width], grain_of(rows * width));
    let totals = ((&mut weights[..], 1), (&mut biases[..], 1));
    for_each_row_block2(totals.0, totals.1, blocks, grain, |_, columns, weights, biases| {
        let mut sums = (try_vec(T::Wide::ZERO, width)?, try_vec(T::Wide::ZERO, width)?);
        let mut buffers = (Vec::new(), Vec::new());
        for row in 0..rows {
            let line = row * len + columns.start..row * len + columns.end;
            let grad = T::wide_row(&grad[line.clone()], &mut buffers.0);
            let values = T::wide_row(&values[line], &mut buffers.1);
            let normal = ParameterSums { mean: statistics.mean[row], rstd: statistics.rstd[row] };
            fold_columns([&mut sums.0, &mut sums.1], [grad, values], normal);
            if row % BLOCK == BLOCK - 1 || row + 1 == rows {
                take_over(weights, &mut sums.0);
                take_over(biases, &mut sums.1);
            }
        }
        Ok(())
    })?;
    Ok((weights, biases))
}

row_folds! {
    ParameterSums { mean, rstd }: 2 to 2 |weights, biases; g, x|
        g.mul_add((x - mean) * rstd, weights), biases + g;
}

/// Adds sums to the totals and starts them anew.
fn take_over<W: Wide>(totals: &mut [f64], sums: &mut [W]) {
    for (total, sum) in totals.iter_mut().zip(sums) {
        *total += std::mem::take(sum).as_f64();
    }
}

/// The number of rows and their length.
fn check(
    input: &Tensor,
    normalized_shape: &[i64],
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
) -> Result<(usize, usize)> {
    let sizes = input.sizes();
    corten_ops::composite::norm::check_normalized_shape(&sizes, normalized_shape, weight, bias)?;
    let (rows, row) = sizes.split_at(sizes.len() - normalized_shape.len());
    Ok((rows.iter().product::<i64>() as usize, row.iter().product::<i64>() as usize))
}
