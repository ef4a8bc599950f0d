//! Layer normalisation: every row by its own mean and variance.

use super::super::support::{contiguous, defined, empty, empty_as, expect_dtype, is_shape_only};
use super::{Moments, if_asked, parameter_dtype, tensor_of, unfilled_gradients, values_of};
use crate::chunks::{for_each_chunk, for_each_chunk2, for_each_chunk3, grain_of};
use crate::row_loops::compiled;
use crate::rows::{Float, Wide, match_float};
use corten_core::{Access, AccessSet, Dims, Result, ensure};
use corten_ops::Tensor;

/// Columns whose parameter gradients one thread sums at a time.
const COLUMNS: usize = 64;

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
    match_float!(input.dtype(), "LayerNormKernelImpl", T => {
        let (weight, bias) = (values_of(weight)?, values_of(bias)?);
        let statistics = {
            let access = AccessSet::acquire(&[(&out, Access::Write), (&values, Access::Read)])?;
            let (out, values) = (access.write::<T>(0)?, access.read::<T>(1)?);
            forward(out, values, rows, len, &weight, &bias, eps)?
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
    len: usize,
    weight: &Option<Vec<T::Wide>>,
    bias: &Option<Vec<T::Wide>>,
    eps: f64,
) -> Result<Moments<T>> {
    if len == 0 {
        return Ok((vec![T::Wide::ZERO; rows], vec![T::Wide::of(f64::NAN); rows]));
    }
    let (mut means, mut rstds) = (vec![T::Wide::ZERO; rows], vec![T::Wide::ZERO; rows]);
    let grain = grain_of(len);
    for_each_chunk3((out, len), (&mut means, 1), (&mut rstds, 1), grain, |i, out, mean, rstd| {
        let mut buffer = Vec::new();
        let row = T::wide_row(&values[i * len..][..len], &mut buffer);
        let moments = T::Wide::moments(row);
        mean[0] = T::Wide::of(moments.mean);
        rstd[0] = T::Wide::of(1.0 / (moments.variance() + eps).sqrt());
        T::fill(out, &mut Vec::new(), |out| {
            let (mean, rstd) = (mean[0], rstd[0]);
            let (weight, bias) = (weight.as_deref(), bias.as_deref());
            compiled(|| normalise(out, row, mean, rstd, weight, bias));
        });
        Ok(())
    })?;
    Ok((means, rstds))
}

/// `out = (row - mean) * rstd * weight + bias`, the last two where they are given.
#[inline(always)]
fn normalise<W: Wide>(
    out: &mut [W],
    row: &[W],
    mean: W,
    rstd: W,
    weight: Option<&[W]>,
    bias: Option<&[W]>,
) {
    let normal = |value: W| (value - mean) * rstd;
    let values = out.iter_mut().zip(row);
    match (weight, bias) {
        (Some(weight), Some(bias)) => {
            let parameters = weight.iter().zip(bias);
            values.zip(parameters).for_each(|((out, &x), (&w, &b))| *out = normal(x) * w + b);
        }
        (Some(weight), None) => {
            values.zip(weight).for_each(|((out, &x), &w)| *out = normal(x) * w);
        }
        (None, Some(bias)) => values.zip(bias).for_each(|((out, &x), &b)| *out = normal(x) + b),
        (None, None) => values.for_each(|(out, &x)| *out = normal(x)),
    }
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
    match_float!(input.dtype(), "LayerNormBackwardKernelImpl", T => {
        let weights = values_of(weight)?;
        let statistics = Statistics {
            mean: values_of(Some(mean))?.unwrap_or_default(),
            rstd: values_of(Some(rstd))?.unwrap_or_default(),
        };
        let grad_input = if_asked(output_mask[0], || {
            let out = empty(&input.sizes(), input)?;
            let access = AccessSet::acquire(
                &[(&out, Access::Write), (&grad, Access::Read), (&values, Access::Read)])?;
            let (g, x) = (access.read::<T>(1)?, access.read::<T>(2)?);
            backward_rows(access.write::<T>(0)?, g, x, len, &statistics, &weights)?;
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
    len: usize,
    statistics: &Statistics<T::Wide>,
    weight: &Option<Vec<T::Wide>>,
) -> Result<()> {
    for_each_chunk(out, len, grain_of(2 * len), |i, out| {
        let mut buffers = (Vec::new(), Vec::new());
        let grad = T::wide_row(&grad[i * len..][..len], &mut buffers.0);
        let row = T::wide_row(&values[i * len..][..len], &mut buffers.1);
        let (mean, rstd) = (statistics.mean[i], statistics.rstd[i]);
        let mut weighted = grad.to_vec();
        if let Some(weight) = weight {
            weighted.iter_mut().zip(weight).for_each(|(g, &w)| *g = *g * w);
        }
        T::fill(out, &mut Vec::new(), |out| {
            // `out` holds the normalised row while the sums are formed.
            compiled(|| normalise(out, row, mean, rstd, None, None));
            let count = T::Wide::of(len as f64);
            let along = T::Wide::dot(&weighted, out) / count;
            let average = T::Wide::sum_of(&weighted) / count;
            compiled(|| {
                for (out, &g) in out.iter_mut().zip(&weighted) {
                    *out = (g - average - *out * along) * rstd;
                }
            });
        });
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
    let (mut weights, mut biases) = (vec![0.0f64; len], vec![0.0f64; len]);
    if !asked || len == 0 {
        return Ok((weights, biases));
    }
    let rows = statistics.mean.len();
    // A last chunk that is not whole is done as one of a single column each.
    let whole = len / COLUMNS * COLUMNS;
    let add = |first: usize, weights: &mut [f64], biases: &mut [f64]| {
        let width = weights.len();
        let mut block = vec![T::Wide::ZERO; 2 * width];
        for row in 0..rows {
            let (mean, rstd) = (statistics.mean[row], statistics.rstd[row]);
            let start = row * len + first;
            let (for_weight, for_bias) = block.split_at_mut(width);
            let lines = grad[start..][..width].iter().zip(&values[start..][..width]);
            for ((g, x), (w, b)) in lines.zip(for_weight.iter_mut().zip(for_bias.iter_mut())) {
                *w += g.widen() * ((x.widen() - mean) * rstd);
                *b += g.widen();
            }
            if row % BLOCK == BLOCK - 1 || row + 1 == rows {
                for (total, part) in weights.iter_mut().zip(for_weight.iter()) {
                    *total += part.as_f64();
                }
                for (total, part) in biases.iter_mut().zip(for_bias.iter()) {
                    *total += part.as_f64();
                }
                block.fill(T::Wide::ZERO);
            }
        }
    };
    let sum = |first: usize, weights: &mut [f64], biases: &mut [f64]| {
        compiled(|| add(first, weights, biases));
    };
    let grain = grain_of(rows * COLUMNS);
    for_each_chunk2(
        (&mut weights[..whole], COLUMNS),
        (&mut biases[..whole], COLUMNS),
        grain,
        |i, weights, biases| {
            sum(i * COLUMNS, weights, biases);
            Ok(())
        },
    )?;
    sum(whole, &mut weights[whole..], &mut biases[whole..]);
    Ok((weights, biases))
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
