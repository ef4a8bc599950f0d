//! Gradients of convolutions, which are convolutions.

use corten_core::Result;
use corten_ops::{Tensor, op};

/// Gradients of a convolution with respect to input, weight and bias.
///
/// # Errors
/// Those of the operators.
pub fn convolution_grads(
    needs: &[bool],
    grad: &Tensor,
    input: &Tensor,
    weight: &Tensor,
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    transposed: bool,
    output_padding: &[i64],
    groups: i64,
) -> Result<Vec<Tensor>> {
    let needs_bias = needs.get(2).copied().unwrap_or(false);
    let (a, b, c) = op::convolution_backward(
        grad,
        input,
        weight,
        None,
        stride,
        padding,
        dilation,
        transposed,
        output_padding,
        groups,
        &[needs[0], needs[1], needs_bias],
    )?;
    Ok(vec![a, b, c])
}

/// Gradients of `convolution_backward` with respect to the gradient, the input and the weight.
/// All three of its outputs are bilinear, so the gradients are convolutions again.
///
/// # Errors
/// Those of the operators.
pub fn convolution_double_grads(
    needs: &[bool],
    grads: &[Tensor],
    grad_output: &Tensor,
    input: &Tensor,
    weight: &Tensor,
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    transposed: bool,
    output_padding: &[i64],
    groups: i64,
) -> Result<Vec<Tensor>> {
    let convolve = |input: &Tensor, weight: &Tensor| {
        op::convolution(
            input,
            weight,
            None,
            stride,
            padding,
            dilation,
            transposed,
            output_padding,
            groups,
        )
    };
    let gradient = |input: &Tensor, weight: &Tensor, mask: [bool; 3]| {
        op::convolution_backward(
            grad_output,
            input,
            weight,
            None,
            stride,
            padding,
            dilation,
            transposed,
            output_padding,
            groups,
            &mask,
        )
    };
    let [of_input, of_weight, of_bias] = [0, 1, 2].map(|i| grads[i].as_defined());
    let mut out = vec![Tensor::undefined(); 3];
    if needs[0] {
        if let Some(of_input) = of_input {
            out[0] = convolve(of_input, weight)?;
        }
        if let Some(of_weight) = of_weight {
            out[0] = sum(&out[0], convolve(input, of_weight)?)?;
        }
        if let Some(of_bias) = of_bias {
            let mut shape = vec![1; grad_output.dim()];
            shape[1] = -1;
            let spread = op::expand(&op::view(of_bias, &shape)?, &grad_output.sizes(), false)?;
            out[0] = sum(&out[0], spread)?;
        }
    }
    if let (true, Some(of_weight)) = (needs[1], of_weight) {
        out[1] = gradient(input, of_weight, [true, false, false])?.0;
    }
    if let (true, Some(of_input)) = (needs[2], of_input) {
        out[2] = gradient(of_input, weight, [false, true, false])?.1;
    }
    Ok(out)
}

fn sum(total: &Tensor, term: Tensor) -> Result<Tensor> {
    if total.defined() { total + term } else { Ok(term) }
}

/// The adjoint of `im2col`.
///
/// # Errors
/// Those of the operators.
pub fn im2col_grad(
    grad: &Tensor,
    sizes: &[i64],
    kernel_size: &[i64],
    dilation: &[i64],
    padding: &[i64],
    stride: &[i64],
) -> Result<Tensor> {
    op::col2im(grad, &sizes[sizes.len() - 2..], kernel_size, dilation, padding, stride)
}
