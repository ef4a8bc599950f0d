//! Gradients of the Fourier transforms.

use corten_core::{Result, Scalar};
use corten_ops::{Tensor, op};

/// The real part of the inverse transform of the gradient, with zeros for the frequencies that
/// were left out.
///
/// # Errors
/// Those of the operators.
pub fn fft_r2c_backward(
    grad: &Tensor,
    dim: &[i64],
    normalization: i64,
    onesided: bool,
    sizes: &[i64],
) -> Result<Tensor> {
    let mut grad = grad.clone();
    let last = last_place(dim, sizes.len());
    let missing = sizes[last] - grad.size(last as i64)?;
    if onesided && missing > 0 {
        let mut pad = vec![0; 2 * (sizes.len() - last)];
        if let Some(end) = pad.last_mut() {
            *end = missing;
        }
        grad = op::constant_pad_nd(&grad, &pad, Scalar::Int(0))?;
    }
    op::real(&op::_fft_c2c(&grad, dim, normalization, false)?)
}

/// The transform of the gradient, with the frequencies doubled that stand for two.
///
/// # Errors
/// Those of the operators.
pub fn fft_c2r_backward(grad: &Tensor, dim: &[i64], normalization: i64) -> Result<Tensor> {
    let whole = op::_fft_r2c(grad, dim, normalization, true)?;
    let last = last_place(dim, grad.dim()) as i64;
    let doubled = grad.size(last)? - whole.size(last)?;
    if doubled <= 0 {
        return Ok(whole);
    }
    let length = whole.size(last)?;
    let real = Some(grad.dtype());
    let places = op::arange(Scalar::Int(length), real, None, Some(grad.device()), None)?;
    let inside = op::logical_and(
        &op::ge_scalar(&places, Scalar::Int(1))?,
        &op::le_scalar(&places, Scalar::Int(doubled))?,
    )?;
    let weights = (op::to_dtype(&inside, grad.dtype(), false, false, None)? + 1)?;
    let mut shape = vec![1; grad.dim()];
    shape[last as usize] = length;
    &whole * &op::reshape(&weights, &shape)?
}

fn last_place(dim: &[i64], rank: usize) -> usize {
    let last = dim.last().copied().unwrap_or(-1);
    (if last < 0 { last + rank as i64 } else { last }) as usize
}
