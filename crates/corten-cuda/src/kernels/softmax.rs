//! Softmax along one dimension and its gradient.

use crate::kernel::{Argument, Template, parameters};
use crate::launch::Shape;
use crate::operands::{Operands, contiguous, empty};
use crate::stream::Stream;
use crate::text;
use corten_core::geometry::wrap_dim;
use corten_core::{Access, DType, Result, ensure, not_implemented_for};
use corten_ops::Tensor;

static SOFTMAX: Template = Template { name: "softmax", text: &[text::SOFTMAX] };
static BACKWARD: Template = Template { name: "softmax_backward", text: &[text::SOFTMAX] };

/// Exponentials divided by their sum along `dim`.
///
/// # Errors
/// `Index` for a dimension out of range, `NotImplemented` for a dtype that is not floating-point.
pub fn softmax(self_: &Tensor, dim: i64, half_to_float: bool) -> Result<Tensor> {
    forward(self_, dim, half_to_float, 0, "softmax_kernel_impl")
}

/// The logarithm of [`softmax`].
///
/// # Errors
/// As for `softmax`.
pub fn log_softmax(self_: &Tensor, dim: i64, half_to_float: bool) -> Result<Tensor> {
    forward(self_, dim, half_to_float, 1, "log_softmax_kernel_impl")
}

/// The number of rows, their length, the distance of their elements, and the threads for one.
fn rows(tensor: &Tensor, dim: i64) -> Result<(u64, u64, u64, Shape)> {
    let sizes = tensor.sizes();
    let dim = wrap_dim(dim, sizes.len())?;
    let len = sizes.get(dim).copied().unwrap_or(1);
    let inner: i64 = sizes.iter().skip(dim + 1).product();
    let rows = tensor.numel() / len.max(1);
    let threads = (len.max(1) as u64).next_power_of_two().clamp(32, 256) as u32;
    ensure!(
        rows <= i64::from(i32::MAX),
        Runtime,
        "softmax: {rows} rows are too many for one launch"
    );
    let shape =
        Shape { grid: [rows.max(1) as u32, 1, 1], block: [threads, 1, 1], shared: threads * 8 };
    Ok((rows as u64, len as u64, inner as u64, shape))
}

fn forward(
    self_: &Tensor,
    dim: i64,
    half_to_float: bool,
    log: u32,
    name: &'static str,
) -> Result<Tensor> {
    let dtype = self_.dtype();
    let (count, mut len, mut inner, shape) = rows(self_, dim)?;
    if !dtype.is_floating_point() || dtype.itemsize() == 1 {
        return Err(not_implemented_for(name, dtype));
    }
    ensure!(
        !half_to_float || dtype == DType::Float16,
        Runtime,
        "conversion is supported for Half type only"
    );
    let result = if half_to_float { DType::Float32 } else { dtype };
    let input = contiguous(self_)?;
    let out = empty(&self_.sizes(), result, self_)?;
    if count == 0 || out.numel() == 0 {
        return Ok(out);
    }
    let held = Operands::hold(&[(&out, Access::Write), (&input, Access::Read)])?;
    let (mut to, mut from) = (held.at(0), held.at(1));
    let stream = Stream::current(self_.device().index);
    // SAFETY: both tensors are contiguous, of the same sizes, and held.
    unsafe {
        let parameters = parameters!(to, from, len, inner);
        SOFTMAX.launch(&arguments(result, dtype, log), shape, stream, parameters)?;
    }
    drop(held);
    Ok(out)
}

fn arguments(out: DType, input: DType, log: u32) -> [Argument; 4] {
    [
        Argument::Storage(out),
        Argument::Storage(input),
        Argument::Value(input),
        Argument::Number(log),
    ]
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
    backward(grad_output, output, dim, input_dtype, 0)
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
    backward(grad_output, output, dim, input_dtype, 1)
}

fn backward(
    grad_output: &Tensor,
    output: &Tensor,
    dim: i64,
    input_dtype: DType,
    log: u32,
) -> Result<Tensor> {
    ensure!(
        grad_output.sizes() == output.sizes() && grad_output.dtype() == output.dtype(),
        Runtime,
        "softmax backward: the gradient and the output must have one shape and dtype"
    );
    let dtype = output.dtype();
    let (count, mut len, mut inner, shape) = rows(output, dim)?;
    let (grad, output) = (contiguous(grad_output)?, contiguous(output)?);
    let out = empty(&output.sizes(), input_dtype, &output)?;
    if count == 0 || out.numel() == 0 {
        return Ok(out);
    }
    let wanted = [(&out, Access::Write), (&grad, Access::Read), (&output, Access::Read)];
    let held = Operands::hold(&wanted)?;
    let (mut to, mut grad_at, mut output_at) = (held.at(0), held.at(1), held.at(2));
    let stream = Stream::current(output.device().index);
    // SAFETY: the tensors are contiguous, of the same sizes, and held.
    unsafe {
        let parameters = parameters!(to, grad_at, output_at, len, inner);
        BACKWARD.launch(&arguments(input_dtype, dtype, log), shape, stream, parameters)?;
    }
    drop(held);
    Ok(out)
}
