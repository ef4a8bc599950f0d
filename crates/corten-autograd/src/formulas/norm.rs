//! Gradients of normalisation.
//!
//! See Note [Gradients of normalisation].

use crate::formulas::any::zeros_like;
use corten_core::{DType, Result, Scalar, grad_mode_enabled};
use corten_ops::{Tensor, op};

// Note [Gradients of normalisation]
// The gradients are single kernels, which use the statistics that forward has saved. These are no
// differentiable outputs, so when the gradient itself is to be differentiated (grad mode is on in
// backward), it is computed from ordinary operators instead, statistics included. The rejected
// alternative is a hand-written second derivative per norm: long, rarely used, and good for one
// more order only.

const ONE: Scalar = Scalar::Int(1);

/// Gradients of layer normalisation with respect to input, weight and bias.
///
/// # Errors
/// Those of the operators.
pub fn layer_norm_grads(
    needs: &[bool],
    grad: &Tensor,
    input: &Tensor,
    normalized_shape: &[i64],
    mean: &Tensor,
    rstd: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    eps: f64,
) -> Result<Vec<Tensor>> {
    let mask = [needs[0], needs[1], needs[2]];
    if !grad_mode_enabled() {
        let (a, b, c) = op::native_layer_norm_backward(
            grad,
            input,
            normalized_shape,
            mean,
            rstd,
            weight,
            bias,
            &mask,
        )?;
        return Ok(vec![a, b, c]);
    }
    let (rank, len) = (input.dim(), normalized_shape.len());
    let inner: Vec<i64> = (rank - len..rank).map(|d| d as i64).collect();
    let outer: Vec<i64> = (0..rank - len).map(|d| d as i64).collect();
    differentiable(mask, grad, input, weight, &inner, &outer, eps, &Spread::Trailing)
}

/// As [`batch_norm_grads`], where the running statistics are always there.
///
/// # Errors
/// Those of the operators.
pub fn functional_batch_norm_grads(
    needs: &[bool],
    grad: &Tensor,
    input: &Tensor,
    weight: Option<&Tensor>,
    running_mean: &Tensor,
    running_var: &Tensor,
    save_mean: &Tensor,
    save_invstd: &Tensor,
    training: bool,
    eps: f64,
) -> Result<Vec<Tensor>> {
    let (mean, var) = (Some(running_mean), Some(running_var));
    batch_norm_grads(needs, grad, input, weight, mean, var, save_mean, save_invstd, training, eps)
}

/// Gradients of batch normalisation with respect to input, weight and bias.
///
/// # Errors
/// Those of the operators.
pub fn batch_norm_grads(
    needs: &[bool],
    grad: &Tensor,
    input: &Tensor,
    weight: Option<&Tensor>,
    running_mean: Option<&Tensor>,
    running_var: Option<&Tensor>,
    save_mean: &Tensor,
    save_invstd: &Tensor,
    training: bool,
    eps: f64,
) -> Result<Vec<Tensor>> {
    let mask = [needs[0], needs[1], needs[2]];
    if !grad_mode_enabled() {
        let (a, b, c) = op::native_batch_norm_backward(
            grad,
            input,
            weight,
            running_mean,
            running_var,
            Some(save_mean),
            Some(save_invstd),
            training,
            eps,
            &mask,
        )?;
        return Ok(vec![a, b, c]);
    }
    let dims: Vec<i64> = (0..input.dim() as i64).filter(|&d| d != 1).collect();
    match (training, running_mean, running_var) {
        (false, Some(mean), Some(var)) => {
            with_fixed_statistics(mask, grad, input, weight, (mean, var), &dims, eps)
        }
        _ => differentiable(mask, grad, input, weight, &dims, &dims, eps, &Spread::Channels),
    }
}

/// Gradients of group normalisation with respect to input, weight and bias.
///
/// # Errors
/// Those of the operators.
pub fn group_norm_grads(
    needs: &[bool],
    grad: &Tensor,
    grad_mean: &Tensor,
    grad_rstd: &Tensor,
    input: &Tensor,
    weight: Option<&Tensor>,
    mean: &Tensor,
    rstd: &Tensor,
    n: i64,
    c: i64,
    hxw: i64,
    group: i64,
    eps: f64,
) -> Result<Vec<Tensor>> {
    let mask = [needs[0], needs[1], needs[2]];
    let statistics = grad_mean.defined() || grad_rstd.defined();
    if !grad_mode_enabled() && grad.defined() && !statistics {
        let (a, b, c) = op::native_group_norm_backward(
            grad, input, mean, rstd, weight, n, c, hxw, group, &mask,
        )?;
        return Ok(vec![a, b, c]);
    }
    // (samples, groups, channels of the group, pixels), normalised over the last two.
    let split = [n, group, c / group, hxw];
    let input4 = op::reshape(input, &split)?;
    let grad4 = match grad.defined() {
        true => op::reshape(grad, &split)?,
        false => zeros_like(&input4)?,
    };
    let weight4 = weight.map(|weight| op::reshape(weight, &[group, c / group, 1])).transpose()?;
    let spread = Spread::Trailing;
    let weight4 = weight4.as_ref();
    let mut out = if mask[0] {
        differentiable(mask, &grad4, &input4, weight4, &[2, 3], &[0, 3], eps, &spread)?
    } else {
        // As in PyTorch, the statistics are results: with a history, even where it leads nowhere.
        let of_group = |tensor: &Tensor| op::reshape(&wide(tensor)?, &[n, group, 1, 1]);
        let normal = ((wide(&input4)? - of_group(mean)?)? * of_group(rstd)?)?;
        parameters(mask, &wide(&grad4)?, &normal, &[0, 3])?
    };
    if mask[0] && statistics {
        out[0] = (&out[0] + through_statistics(grad_mean, grad_rstd, &input4, eps)?)?;
    }
    let shaped = |tensor: &Tensor, sizes: &[i64]| match tensor.defined() {
        true => op::reshape(tensor, sizes),
        false => Ok(tensor.clone()),
    };
    Ok(vec![shaped(&out[0], &input.sizes())?, shaped(&out[1], &[c])?, shaped(&out[2], &[c])?])
}

/// The gradient of an input (samples, groups, channels, pixels) by way of the mean and of the
/// reciprocal standard deviation: `(grad_mean - grad_rstd · rstd³ · (x - mean)) / count`.
fn through_statistics(
    grad_mean: &Tensor,
    grad_rstd: &Tensor,
    input: &Tensor,
    eps: f64,
) -> Result<Tensor> {
    let input = wide(input)?;
    let sizes = input.sizes();
    let count = (sizes[2] * sizes[3]) as f64;
    let spread = |grad: &Tensor| op::reshape(&wide(grad)?, &[sizes[0], sizes[1], 1, 1]);
    let mut total = zeros_like(&input)?;
    if grad_mean.defined() {
        total = (total + spread(grad_mean)?)?;
    }
    if grad_rstd.defined() {
        let centred = (&input - mean_over(&input, &[2, 3])?)?;
        let variance = mean_over(&(&centred * &centred)?, &[2, 3])?;
        let rstd = op::rsqrt(&op::add_scalar(&variance, Scalar::from(eps), ONE)?)?;
        let cube = (&(&rstd * &rstd)? * &rstd)?;
        total = (total - ((spread(grad_rstd)? * cube)? * centred)?)?;
    }
    total / count
}

/// Where the dimensions of a weight stand in the input.
enum Spread {
    /// They are the last ones.
    Trailing,
    /// It is one per channel, dimension 1.
    Channels,
}

impl Spread {
    fn apply(&self, weight: &Tensor, rank: usize) -> Result<Tensor> {
        match self {
            Self::Trailing => Ok(weight.clone()),
            Self::Channels => {
                let mut shape = vec![1; rank];
                shape[1] = -1;
                op::reshape(weight, &shape)
            }
        }
    }
}

/// Half precisions are differentiated in `f32`.
fn wide(tensor: &Tensor) -> Result<Tensor> {
    match tensor.dtype().is_reduced_float() {
        true => op::to_dtype(tensor, DType::Float32, false, false, None),
        false => Ok(tensor.clone()),
    }
}

fn mean_over(tensor: &Tensor, dims: &[i64]) -> Result<Tensor> {
    op::mean_dim(tensor, Some(dims), true, None)
}

fn sum_over(tensor: &Tensor, dims: &[i64]) -> Result<Tensor> {
    match dims.is_empty() {
        // No dimension would mean all of them.
        true => Ok(tensor.clone()),
        false => op::sum_dim_intlist(tensor, Some(dims), false, None),
    }
}

/// The gradients from ordinary operators; statistics over `inner`, parameters summed over `outer`.
fn differentiable(
    mask: [bool; 3],
    grad: &Tensor,
    input: &Tensor,
    weight: Option<&Tensor>,
    inner: &[i64],
    outer: &[i64],
    eps: f64,
    spread: &Spread,
) -> Result<Vec<Tensor>> {
    let (grad, input) = (wide(grad)?, wide(input)?);
    let centred = (&input - mean_over(&input, inner)?)?;
    let variance = mean_over(&(&centred * &centred)?, inner)?;
    let rstd = op::rsqrt(&op::add_scalar(&variance, Scalar::from(eps), ONE)?)?;
    let normal = (&centred * &rstd)?;
    let mut out = parameters(mask, &grad, &normal, outer)?;
    if mask[0] {
        let weighted = match weight {
            Some(weight) => (&grad * spread.apply(&wide(weight)?, input.dim())?)?,
            None => grad,
        };
        let along = mean_over(&(&weighted * &normal)?, inner)?;
        let average = mean_over(&weighted, inner)?;
        out[0] = (((weighted - average)? - (normal * along)?)? * rstd)?;
    }
    Ok(out)
}

/// Batch normalisation by running statistics is a linear map.
fn with_fixed_statistics(
    mask: [bool; 3],
    grad: &Tensor,
    input: &Tensor,
    weight: Option<&Tensor>,
    (mean, var): (&Tensor, &Tensor),
    dims: &[i64],
    eps: f64,
) -> Result<Vec<Tensor>> {
    let (grad, input, rank) = (wide(grad)?, wide(input)?, input.dim());
    let channels = |tensor: &Tensor| Spread::Channels.apply(&wide(tensor)?, rank);
    let rstd = op::rsqrt(&op::add_scalar(&channels(var)?, Scalar::from(eps), ONE)?)?;
    let normal = ((input - channels(mean)?)? * &rstd)?;
    let mut out = parameters(mask, &grad, &normal, dims)?;
    if mask[0] {
        let scaled = (grad * rstd)?;
        out[0] = match weight {
            Some(weight) => (scaled * channels(weight)?)?,
            None => scaled,
        };
    }
    Ok(out)
}

/// Room for the input's gradient, and those of weight and bias.
fn parameters(
    mask: [bool; 3],
    grad: &Tensor,
    normal: &Tensor,
    outer: &[i64],
) -> Result<Vec<Tensor>> {
    let mut out = vec![Tensor::undefined(); 3];
    if mask[1] {
        out[1] = sum_over(&(grad * normal)?, outer)?;
    }
    if mask[2] {
        // It does not depend on the input, but it is an output of the same node as those that do:
        // it takes part in the graph, with a gradient of zero.
        let never = op::zeros(&[], Some(DType::Bool), None, Some(grad.device()), None)?;
        out[2] = sum_over(&op::where_self(&never, normal, grad)?, outer)?;
    }
    Ok(out)
}
