//! Softmax along one dimension and its gradient.

use super::support::{contiguous, empty, expect_dtype, is_shape_only};
use crate::kernels::along_dim::{ColumnLanes, DimKernel, DimView};
use crate::parallel::chunks::{for_each_chunk, grain_of};
use crate::rows::loops::{
    RowKernel, fold_columns, folded_with, map, map_and_fold_with, map_in_place, map_in_place_with,
    map_with, row_folds, row_functions,
};
use crate::rows::{ExpMinus, Float, Largest, Powers, Products, Sum, Times, Wide};
use crate::vec::Lanes;
use corten_core::geometry::wrap_dim;
use corten_core::{Access, AccessSet, DType, Result, ensure, match_dtype, unwinding};
use corten_ops::Tensor;

/// Exponentials divided by their sum along `dim`.
///
/// # Errors
/// `Index` for a dimension out of range, `NotImplemented` for a dtype that is not floating-point.
pub fn softmax(self_: &Tensor, dim: i64, half_to_float: bool) -> Result<Tensor> {
    let dim = check(self_, dim, half_to_float, "softmax")?;
    let name = name_of(self_, dim, ["softmax_lastdim_kernel_impl", "softmax_kernel_impl"]);
    forward(self_, dim, name, Normaliser::Softmax)
}

/// The logarithm of [`softmax`].
///
/// # Errors
/// As for `softmax`.
pub fn log_softmax(self_: &Tensor, dim: i64, half_to_float: bool) -> Result<Tensor> {
    let dim = check(self_, dim, half_to_float, "log_softmax")?;
    let name = name_of(self_, dim, ["log_softmax_lastdim_kernel_impl", "log_softmax_kernel_impl"]);
    forward(self_, dim, name, Normaliser::LogSoftmax)
}

/// The logarithm of the sum of exponentials: of rows in one pass, of all else as on other devices.
///
/// # Errors
/// Those of the operators that it is made of elsewhere.
pub fn logsumexp(self_: &Tensor, dim: &[i64], keepdim: bool) -> Result<Tensor> {
    let last = self_.dim() as i64 - 1;
    let rows = last >= 0 && matches!(dim, [dim] if *dim == last || *dim == -1);
    let plain = self_.dtype().is_floating_point() && self_.dtype().itemsize() > 1;
    if !rows || !plain || self_.numel() == 0 || !self_.is_contiguous() || is_shape_only(self_) {
        return corten_ops::any::reduce::logsumexp(self_, dim, keepdim);
    }
    let mut sizes = self_.sizes();
    let len = sizes[last as usize] as usize;
    sizes[last as usize] = 1;
    let out = empty(if keepdim { &sizes } else { &sizes[..last as usize] }, self_)?;
    match_dtype!(self_.dtype(), "logsumexp", Float, T => {
        let access = AccessSet::acquire(&[(&out, Access::Write), (self_, Access::Read)])?;
        let values = access.read::<T>(1)?;
        let out = access.write::<T>(0)?;
        if len <= SHORT {
            let lines = DimView { outer: out.len(), len, inner: 1 };
            lines.fold_short_rows(out, values, log_sum_exp_columns)
        } else {
            for_each_chunk(out, 1, grain_of(len), |i, out| {
                let mut buffer = Vec::new();
                let row = T::wide_row(&values[i * len..][..len], &mut buffer);
                out[0] = T::narrow(log_sum_exp(row));
                Ok(())
            })
        }
    })?;
    Ok(out)
}

fn log_sum_exp<W: Wide>(row: &[W]) -> W {
    let max = W::max_of(row);
    // An infinite maximum would turn infinities into NaN.
    let shift = if max.as_f64().is_infinite() { W::ZERO } else { max };
    W::sum_exp_minus(row, shift).ln() + shift
}

/// The same for the columns of a matrix, as many as `out` has elements.
fn log_sum_exp_columns<W: Wide>(out: &mut [W], matrix: &[W]) {
    let mut max = unwinding::vec(W::NEG_INFINITY, out.len());
    let rows = matrix.chunks_exact(out.len());
    rows.clone().for_each(|row| fold_columns([&mut max], [row], Largest));
    for max in &mut max {
        *max = if max.as_f64().is_infinite() { W::ZERO } else { *max };
    }
    let mut sum = unwinding::vec(W::ZERO, out.len());
    rows.for_each(|row| fold_columns([&mut sum], [row, &max], PowersOfDistances));
    map(out, [&sum, &max], LogAndSum);
}

/// The gradient of [`softmax`] from its output.
///
/// # Errors
/// `Runtime` when shapes or dtypes differ.
pub fn softmax_backward(
    grad_output: &Tensor,
    output: &Tensor,
    dim: i64,
    input_dtype: DType,
) -> Result<Tensor> {
    backward(grad_output, output, dim, input_dtype, Normaliser::Softmax)
}

/// The gradient of [`log_softmax`] from its output.
///
/// # Errors
/// `Runtime` when shapes or dtypes differ.
pub fn log_softmax_backward(
    grad_output: &Tensor,
    output: &Tensor,
    dim: i64,
    input_dtype: DType,
) -> Result<Tensor> {
    backward(grad_output, output, dim, input_dtype, Normaliser::LogSoftmax)
}

/// The longest rows that are computed as columns.
const SHORT: usize = 64;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Normaliser {
    Softmax,
    LogSoftmax,
}

fn forward(
    self_: &Tensor,
    dim: usize,
    name: &'static str,
    normaliser: Normaliser,
) -> Result<Tensor> {
    let input = contiguous(self_)?;
    let out = empty(&input.sizes(), &input)?;
    if out.numel() == 0 || is_shape_only(&out) {
        return Ok(out);
    }
    let lines = DimView::of(&input.sizes(), dim);
    match_dtype!(input.dtype(), name, Float, T => {
        let access = AccessSet::acquire(&[(&out, Access::Write), (&input, Access::Read)])?;
        let (values, result) = (access.read::<T>(1)?, access.write::<T>(0)?);
        lines.map(result, [values], &Forward(normaliser))
    })?;
    Ok(out)
}

struct Forward(Normaliser);

impl DimKernel<1> for Forward {
    const SHORT: usize = SHORT;

    fn row<W: Wide>(&self, out: &mut [W], [row]: [&[W]; 1]) {
        W::run(Row { out, row, normaliser: self.0 });
    }
    fn columns<T: Float>(&self, block: ColumnLanes<'_, '_, T, 1>) {
        forward_columns(block, self.0);
    }
}

struct Backward(Normaliser);

impl DimKernel<2> for Backward {
    const SHORT: usize = 32;

    fn row<W: Wide>(&self, out: &mut [W], [grad, result]: [&[W]; 2]) {
        match self.0 {
            Normaliser::Softmax => softmax_grad_row(out, grad, result),
            Normaliser::LogSoftmax => log_grad_row(out, grad, result),
        }
    }
    fn columns<T: Float>(&self, block: ColumnLanes<'_, '_, T, 2>) {
        backward_columns(block, self.0);
    }
}

/// A row, from its largest element on in one go.
struct Row<'a, W> {
    out: &'a mut [W],
    row: &'a [W],
    normaliser: Normaliser,
}

impl<W: Wide> RowKernel<W> for Row<'_, W> {
    type Out = ();

    #[inline(always)]
    fn run<V: Lanes<Elem = W>>(self) {
        let Self { out, row, normaliser } = self;
        let [shift] = folded_with::<V, 1, 1>([row], Largest);
        match normaliser {
            Normaliser::Softmax => {
                let sum = map_and_fold_with::<V, 1>(out, [row], ExpMinus { shift }, Sum);
                map_in_place_with::<V>(out, Times { factor: W::ONE / sum });
            }
            Normaliser::LogSoftmax => {
                let [sum] = folded_with::<V, 1, 1>([row], Powers { shift });
                let log_sum = sum.ln();
                map_with::<V, 1>(out, [row], LogOfShare { max: shift, log_sum });
            }
        }
    }
}

/// The same for lines that are columns, all of them step by step.
fn forward_columns<T: Float>(mut block: ColumnLanes<'_, '_, T, 1>, normaliser: Normaliser) {
    let mut max = unwinding::vec(T::Wide::NEG_INFINITY, block.width);
    let mut sum = unwinding::vec(T::Wide::ZERO, block.width);
    block.read(|[row]| fold_columns([&mut max], [row], Largest));
    block.read(|[row]| fold_columns([&mut sum], [row, &max], PowersOfDistances));
    match normaliser {
        Normaliser::Softmax => {
            sum.iter_mut().for_each(|sum| *sum = T::Wide::ONE / *sum);
            block.write(|out, [row]| map(out, [row, &max, &sum], SharesOfColumns));
        }
        Normaliser::LogSoftmax => {
            map_in_place(&mut sum, Log);
            block.write(|out, [row]| map(out, [row, &max, &sum], LogsOfColumns));
        }
    }
}

fn backward_columns<T: Float>(mut block: ColumnLanes<'_, '_, T, 2>, normaliser: Normaliser) {
    let mut sum = unwinding::vec(T::Wide::ZERO, block.width);
    match normaliser {
        Normaliser::Softmax => {
            block.read(|[g, y]| fold_columns([&mut sum], [g, y], Products));
            block.write(|out, [g, y]| map(out, [g, y, &sum], SoftmaxGradOfColumns));
        }
        Normaliser::LogSoftmax => {
            block.read(|[g, _]| fold_columns([&mut sum], [g], Sum));
            block.write(|out, [g, y]| map(out, [g, y, &sum], LogSoftmaxGradOfColumns));
        }
    }
}

fn backward(
    grad_output: &Tensor,
    output: &Tensor,
    dim: i64,
    input_dtype: DType,
    normaliser: Normaliser,
) -> Result<Tensor> {
    let dim = wrap_dim(dim, output.dim())?;
    ensure!(
        grad_output.sizes() == output.sizes(),
        Runtime,
        "Expected tensor for argument #1 'grad' to have same size as tensor for argument #2 \
         'output'; but {:?} does not equal {:?} (while checking arguments for softmax_backward)",
        grad_output.sizes().as_slice(),
        output.sizes().as_slice()
    );
    expect_dtype(output, grad_output.dtype())?;
    ensure!(
        input_dtype == grad_output.dtype(),
        Runtime,
        "expected scalar type {} but found {}",
        grad_output.dtype().type_name(),
        input_dtype.type_name()
    );
    let (grad, result) = (contiguous(grad_output)?, contiguous(output)?);
    let out = empty(&grad.sizes(), &grad)?;
    if is_shape_only(&out) {
        return Ok(out);
    }
    let lines = DimView::of(&grad.sizes(), dim);
    match_dtype!(grad.dtype(), "softmax_backward", Float, T => {
        let access = AccessSet::acquire(
            &[(&out, Access::Write), (&grad, Access::Read), (&result, Access::Read)])?;
        let inputs = [access.read::<T>(1)?, access.read::<T>(2)?];
        let out = access.write::<T>(0)?;
        lines.map(out, inputs, &Backward(normaliser))
    })?;
    Ok(out)
}

fn softmax_grad_row<W: Wide>(out: &mut [W], grad: &[W], result: &[W]) {
    let sum = W::dot(grad, result);
    map(out, [grad, result], SoftmaxGrad { sum });
}

fn log_grad_row<W: Wide>(out: &mut [W], grad: &[W], result: &[W]) {
    let sum = W::sum_of(grad);
    map(out, [grad, result], LogSoftmaxGrad { sum });
}

row_functions! {
    // Subtracting twice keeps the digits that max + log_sum would round away.
    LogOfShare { max, log_sum }: 1 |x| x - max - log_sum;
    SoftmaxGrad { sum }: 2 |g, y| (g - sum) * y;
    LogSoftmaxGrad { sum }: 2 |g, y| g - y.exp() * sum;
    Log: 1 |x| x.log();
    LogAndSum: 2 |x, y| x.log() + y;
    SharesOfColumns: 3 |x, max, share| (x - max).exp() * share;
    LogsOfColumns: 3 |x, max, log_sum| x - max - log_sum;
    SoftmaxGradOfColumns: 3 |g, y, sum| (g - sum) * y;
    LogSoftmaxGradOfColumns: 3 |g, y, sum| g - y.exp() * sum;
}

row_folds! {
    PowersOfDistances: 2 to 1 |sum; x, max| sum + (x - max).exp();
}

fn check(self_: &Tensor, dim: i64, half_to_float: bool, name: &str) -> Result<usize> {
    ensure!(
        !half_to_float,
        Runtime,
        "{name} with half to float conversion is not supported on CPU"
    );
    wrap_dim(dim, self_.dim())
}

/// The name in the error for a dtype, which depends on whether lines are rows.
fn name_of(self_: &Tensor, dim: usize, [rows, columns]: [&'static str; 2]) -> &'static str {
    if dim + 1 >= self_.dim() { rows } else { columns }
}
