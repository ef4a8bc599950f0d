//! Pooling to a given output size.

use super::super::support::expect_dtype;
use super::average::{self, Divisor};
use super::{Shape, max, window};
use corten_core::{Result, ensure};
use corten_ops::Tensor;

/// Means of nearly equal windows of images.
///
/// # Errors
/// `Runtime` for geometry that does not fit.
pub fn adaptive_avg_pool2d(self_: &Tensor, output_size: &[i64]) -> Result<Tensor> {
    let shape = average_shape(self_, output_size, "adaptive_avg_pool2d", 2)?;
    // Means of nothing are computed of every dtype.
    if self_.numel() == 0 {
        return shape.new_output(self_, self_.dtype());
    }
    ensure_float(self_, "adaptive_avg_pool2d")?;
    average::forward(self_, &shape, Divisor::Inside, "adaptive_avg_pool2d")
}

/// Means of nearly equal windows of volumes.
///
/// # Errors
/// `Runtime` for geometry that does not fit.
pub fn adaptive_avg_pool3d(self_: &Tensor, output_size: &[i64]) -> Result<Tensor> {
    let shape = average_shape(self_, output_size, "adaptive_avg_pool3d", 3)?.contiguous();
    if self_.numel() == 0 {
        return shape.new_output(self_, self_.dtype());
    }
    ensure_float(self_, "adaptive_avg_pool3d_cpu")?;
    average::forward(self_, &shape, Divisor::Inside, "adaptive_avg_pool3d_cpu")
}

/// Gradient of [`adaptive_avg_pool2d`].
///
/// # Errors
/// `Runtime` for geometry or dtypes that do not fit.
pub fn adaptive_avg_pool2d_backward(grad_output: &Tensor, self_: &Tensor) -> Result<Tensor> {
    let name = "adaptive_avg_pool2d_backward";
    let shape = gradient_shape(grad_output, self_, name, 2)?;
    average::backward(grad_output, self_, &shape, Divisor::Inside, name)
}

/// Gradient of [`adaptive_avg_pool3d`].
///
/// # Errors
/// `Runtime` for geometry or dtypes that do not fit.
pub fn adaptive_avg_pool3d_backward(grad_output: &Tensor, self_: &Tensor) -> Result<Tensor> {
    let name = "adaptive_avg_pool3d_backward";
    let shape = gradient_shape(grad_output, self_, name, 3)?.contiguous();
    average::backward(grad_output, self_, &shape, Divisor::Inside, name)
}

/// Maxima of nearly equal windows of images and their positions.
///
/// # Errors
/// `Runtime` for geometry that does not fit.
pub fn adaptive_max_pool2d(self_: &Tensor, output_size: &[i64]) -> Result<(Tensor, Tensor)> {
    let shape = max_shape(self_, output_size, "adaptive_max_pool2d", 2)?;
    ensure_float(self_, "adaptive_max_pool2d")?;
    max::forward(self_, &shape, "adaptive_max_pool2d")
}

/// Maxima of nearly equal windows of volumes and their positions.
///
/// # Errors
/// `Runtime` for geometry that does not fit.
pub fn adaptive_max_pool3d(self_: &Tensor, output_size: &[i64]) -> Result<(Tensor, Tensor)> {
    let shape = max_shape(self_, output_size, "adaptive_max_pool3d", 3)?.contiguous();
    ensure_float(self_, "adaptive_max_pool3d_cpu")?;
    max::forward(self_, &shape, "adaptive_max_pool3d_cpu")
}

/// Gradient of [`adaptive_max_pool2d`].
///
/// # Errors
/// `Runtime` for geometry or dtypes that do not fit.
pub fn adaptive_max_pool2d_backward(
    grad_output: &Tensor,
    self_: &Tensor,
    indices: &Tensor,
) -> Result<Tensor> {
    let name = "adaptive_max_pool2d_backward";
    let shape = gradient_shape(grad_output, self_, name, 2)?;
    max::backward(grad_output, self_, indices, &shape, name)
}

/// Gradient of [`adaptive_max_pool3d`].
///
/// # Errors
/// `Runtime` for geometry or dtypes that do not fit.
pub fn adaptive_max_pool3d_backward(
    grad_output: &Tensor,
    self_: &Tensor,
    indices: &Tensor,
) -> Result<Tensor> {
    let name = "adaptive_max_pool3d_backward";
    let shape = gradient_shape(grad_output, self_, name, 3)?.contiguous();
    max::backward(grad_output, self_, indices, &shape, name)
}

fn average_shape(self_: &Tensor, output_size: &[i64], name: &str, rank: usize) -> Result<Shape> {
    ensure!(output_size.len() == rank, Runtime, "{name}: output_size must be {rank}");
    let listed = match output_size {
        [a, b] => format!("{{{a}, {b}}}"),
        [a, b, c] => format!("{{{a}, {b},{c}}}"),
        _ => String::new(),
    };
    ensure!(
        output_size.iter().all(|&size| size >= 0),
        Runtime,
        "{name}: elements of output_size must be greater than or equal to 0 but received {listed}"
    );
    check_input(self_, name, rank, "", if rank == 2 { 2 } else { 1 })?;
    shape_of(self_, output_size)
}

fn max_shape(self_: &Tensor, output_size: &[i64], name: &str, rank: usize) -> Result<Shape> {
    check_input(self_, name, rank, ":", 1)?;
    ensure!(
        output_size.len() == rank,
        Runtime,
        "{name}(): internal error: output_size.size() must be {rank}"
    );
    ensure!(
        output_size.iter().all(|&size| size >= 0),
        Runtime,
        "{name}: elements of output_size must be greater than or equal to 0"
    );
    shape_of(self_, output_size)
}

fn gradient_shape(grad_output: &Tensor, self_: &Tensor, name: &str, rank: usize) -> Result<Shape> {
    check_not_empty(&grad_output.sizes(), name, "grad_output", 1)?;
    check_input(self_, name, rank, "", if rank == 2 { 2 } else { 1 })?;
    let (grad, input) = (grad_output.sizes(), self_.sizes());
    ensure!(
        grad.len() == input.len() && grad[..grad.len() - rank] == input[..input.len() - rank],
        Runtime,
        "{name}(): Expected grad_output of the batch and channels of the input, but got {:?} for {:?}",
        grad.as_slice(),
        input.as_slice()
    );
    expect_dtype(grad_output, self_.dtype())?;
    shape_of(self_, &grad[grad.len() - rank..])
}

fn shape_of(self_: &Tensor, output_size: &[i64]) -> Result<Shape> {
    let sizes = self_.sizes();
    let spatial = &sizes[sizes.len() - output_size.len()..];
    let axes = spatial.iter().zip(output_size);
    let axes = axes.map(|(&input, &output)| window::adaptive_axis(input, output));
    Ok(Shape::new(self_, axes.collect::<Result<_>>()?))
}

/// Dimensions from `first` on must not be empty.
fn check_input(
    self_: &Tensor,
    name: &str,
    rank: usize,
    separator: &str,
    first: usize,
) -> Result<()> {
    let sizes = self_.sizes();
    let ranks = if rank == 2 { "3D or 4D" } else { "4D or 5D" };
    ensure!(
        sizes.len() == rank + 1 || sizes.len() == rank + 2,
        Runtime,
        "{name}(): Expected {ranks} tensor, but got{separator} {:?}",
        sizes.as_slice()
    );
    // Of images to average only the spatial sizes count.
    let first = if first == 2 { sizes.len() - rank } else { first };
    check_not_empty(&sizes, name, "input", first)
}

fn check_not_empty(sizes: &[i64], name: &str, what: &str, first: usize) -> Result<()> {
    for (dim, &size) in sizes.iter().enumerate().skip(first) {
        ensure!(
            size > 0,
            Runtime,
            "{name}(): Expected {what} to have non-zero size for non-batch dimensions, but {what} \
             has sizes {sizes:?} with dimension {dim} being empty"
        );
    }
    Ok(())
}

fn ensure_float(self_: &Tensor, name: &'static str) -> Result<()> {
    match self_.dtype().is_floating_point() {
        true => Ok(()),
        false => Err(corten_core::not_implemented_for(name, self_.dtype())),
    }
}
