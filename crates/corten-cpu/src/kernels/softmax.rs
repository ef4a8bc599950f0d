//! Softmax along one dimension and its gradient.

use super::support::{contiguous, empty, expect_dtype, is_shape_only};
use crate::lines::Lines;
use crate::rows::{Wide, match_float};
use corten_core::geometry::wrap_dim;
use corten_core::{Access, AccessSet, DType, Result, ensure};
use corten_ops::Tensor;

/// Exponentials divided by their sum along `dim`.
///
/// # Errors
/// `Index` for a dimension out of range, `NotImplemented` for a dtype that is not floating-point.
pub fn softmax(self_: &Tensor, dim: i64, half_to_float: bool) -> Result<Tensor> {
    let dim = check(self_, dim, half_to_float, "softmax")?;
    let name = name_of(self_, dim, ["softmax_lastdim_kernel_impl", "softmax_kernel_impl"]);
    forward(self_, dim, name, Kind::Softmax)
}

/// The logarithm of [`softmax`].
///
/// # Errors
/// As for `softmax`.
pub fn log_softmax(self_: &Tensor, dim: i64, half_to_float: bool) -> Result<Tensor> {
    let dim = check(self_, dim, half_to_float, "log_softmax")?;
    let name = name_of(self_, dim, ["log_softmax_lastdim_kernel_impl", "log_softmax_kernel_impl"]);
    forward(self_, dim, name, Kind::LogSoftmax)
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
    backward(grad_output, output, dim, input_dtype, Kind::Softmax)
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
    backward(grad_output, output, dim, input_dtype, Kind::LogSoftmax)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Softmax,
    LogSoftmax,
}

fn forward(self_: &Tensor, dim: usize, name: &'static str, kind: Kind) -> Result<Tensor> {
    let input = contiguous(self_)?;
    let out = empty(&input.sizes(), &input)?;
    if out.numel() == 0 || is_shape_only(&out) {
        return Ok(out);
    }
    let lines = Lines::of(&input.sizes(), dim);
    match_float!(input.dtype(), name, T => {
        let access = AccessSet::acquire(&[(&out, Access::Write), (&input, Access::Read)])?;
        let (values, result) = (access.read::<T>(1)?, access.write::<T>(0)?);
        match kind {
            Kind::Softmax => lines.map(result, [values], |out, [row]| softmax_row(out, row)),
            Kind::LogSoftmax => lines.map(result, [values], |out, [row]| log_softmax_row(out, row)),
        }
    })?;
    Ok(out)
}

pub(crate) fn softmax_row<W: Wide>(out: &mut [W], row: &[W]) {
    let sum = W::exp_minus(out, row, W::max_of(row));
    W::scale(out, W::ONE / sum);
}

fn log_softmax_row<W: Wide>(out: &mut [W], row: &[W]) {
    let max = W::max_of(row);
    let log_sum = W::sum_exp_minus(row, max).ln();
    // Subtracting twice keeps the digits that max + log_sum would round away.
    for (out, &value) in out.iter_mut().zip(row) {
        *out = value - max - log_sum;
    }
}

fn backward(
    grad_output: &Tensor,
    output: &Tensor,
    dim: i64,
    input_dtype: DType,
    kind: Kind,
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
    let lines = Lines::of(&grad.sizes(), dim);
    match_float!(grad.dtype(), "softmax_backward", T => {
        let access = AccessSet::acquire(
            &[(&out, Access::Write), (&grad, Access::Read), (&result, Access::Read)])?;
        let inputs = [access.read::<T>(1)?, access.read::<T>(2)?];
        let out = access.write::<T>(0)?;
        match kind {
            Kind::Softmax => lines.map(out, inputs, |out, [g, y]| softmax_grad_row(out, g, y)),
            Kind::LogSoftmax => lines.map(out, inputs, |out, [g, y]| log_grad_row(out, g, y)),
        }
    })?;
    Ok(out)
}

fn softmax_grad_row<W: Wide>(out: &mut [W], grad: &[W], result: &[W]) {
    let sum = W::dot(grad, result);
    for ((out, &g), &y) in out.iter_mut().zip(grad).zip(result) {
        *out = (g - sum) * y;
    }
}

fn log_grad_row<W: Wide>(out: &mut [W], grad: &[W], result: &[W]) {
    let sum = W::sum_of(grad);
    W::exp_minus(out, result, W::ZERO);
    for (out, &g) in out.iter_mut().zip(grad) {
        *out = g - *out * sum;
    }
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
