//! Gradients of pooling.

use corten_core::{Result, TensorOptions};
use corten_ops::{Tensor, op};

/// Adds every gradient at the place of its maximum.
///
/// # Errors
/// Those of the operators.
pub fn max_pool2d_grad(
    grad: &Tensor,
    self_: &Tensor,
    kernel_size: &[i64],
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    ceil_mode: bool,
    indices: &Tensor,
) -> Result<Tensor> {
    op::max_pool2d_with_indices_backward(
        grad,
        self_,
        kernel_size,
        stride,
        padding,
        dilation,
        ceil_mode,
        indices,
    )
}

/// Adds every gradient at the place of its maximum.
///
/// # Errors
/// Those of the operators.
pub fn max_pool3d_grad(
    grad: &Tensor,
    self_: &Tensor,
    kernel_size: &[i64],
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    ceil_mode: bool,
    indices: &Tensor,
) -> Result<Tensor> {
    op::max_pool3d_with_indices_backward(
        grad,
        self_,
        kernel_size,
        stride,
        padding,
        dilation,
        ceil_mode,
        indices,
    )
}

/// Reads the second gradient where the maxima lie; `rank` dimensions are spatial.
///
/// # Errors
/// Those of the operators.
pub fn max_pool_grad_again(grad: &Tensor, indices: &Tensor, rank: i64) -> Result<Tensor> {
    let flat = |tensor: &Tensor| {
        let sizes = tensor.sizes();
        let (leading, spatial) = sizes.split_at(sizes.len() - rank as usize);
        let mut shape = leading.to_vec();
        shape.push(spatial.iter().product());
        op::reshape(tensor, &shape)
    };
    let picked = op::gather(&flat(grad)?, -1, &flat(indices)?, false)?;
    op::reshape(&picked, &indices.sizes())
}

/// No gradient, as a tensor.
///
/// # Errors
/// Those of the operators.
pub fn zeros_for(sizes: &[i64], options: TensorOptions) -> Result<Tensor> {
    op::zeros(sizes, options.dtype, options.layout, options.device, None)
}

/// Spreads every gradient over its window.
///
/// # Errors
/// Those of the operators.
pub fn avg_pool2d_grad(
    grad: &Tensor,
    self_: &Tensor,
    kernel_size: &[i64],
    stride: &[i64],
    padding: &[i64],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: Option<i64>,
) -> Result<Tensor> {
    op::avg_pool2d_backward(
        grad,
        self_,
        kernel_size,
        stride,
        padding,
        ceil_mode,
        count_include_pad,
        divisor_override,
    )
}

/// Spreads every gradient over its window.
///
/// # Errors
/// Those of the operators.
pub fn avg_pool3d_grad(
    grad: &Tensor,
    self_: &Tensor,
    kernel_size: &[i64],
    stride: &[i64],
    padding: &[i64],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: Option<i64>,
) -> Result<Tensor> {
    op::avg_pool3d_backward(
        grad,
        self_,
        kernel_size,
        stride,
        padding,
        ceil_mode,
        count_include_pad,
        divisor_override,
    )
}

/// Averages the second gradient over the same windows.
///
/// # Errors
/// Those of the operators.
pub fn adaptive_avg_pool2d_grad_again(grad: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    op::_adaptive_avg_pool2d(grad, &sizes[sizes.len() - 2..])
}

/// Averages the second gradient over the same windows.
///
/// # Errors
/// Those of the operators.
pub fn adaptive_avg_pool3d_grad_again(grad: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    op::_adaptive_avg_pool3d(grad, &sizes[sizes.len() - 3..])
}
