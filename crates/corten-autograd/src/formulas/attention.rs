//! Gradients of fused attention.

use corten_core::{Result, Scalar, grad_mode_enabled};
use corten_ops::{Tensor, op};

/// Gradients with respect to query, key and value: by the fused kernel, or from ordinary
/// operators when they are to be differentiated again. See Note [Gradients of normalisation].
///
/// # Errors
/// Those of the operators.
pub fn flash_attention_grads(
    needs: &[bool],
    grad: &Tensor,
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    out: &Tensor,
    logsumexp: &Tensor,
    dropout_p: f64,
    is_causal: bool,
    attn_mask: Option<&Tensor>,
    scale: Option<f64>,
) -> Result<Vec<Tensor>> {
    if grad_mode_enabled() {
        return differentiable(needs, grad, query, key, value, is_causal, attn_mask, scale);
    }
    let (dq, dk, dv) = op::_scaled_dot_product_flash_attention_for_cpu_backward(
        grad, query, key, value, out, logsumexp, dropout_p, is_causal, attn_mask, scale,
    )?;
    Ok(vec![dq, dk, dv])
}

fn differentiable(
    needs: &[bool],
    grad: &Tensor,
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    is_causal: bool,
    attn_mask: Option<&Tensor>,
    scale: Option<f64>,
) -> Result<Vec<Tensor>> {
    let scale = scale.unwrap_or_else(|| 1.0 / (query.sizes()[query.dim() - 1] as f64).sqrt());
    let (_, weights) = op::_scaled_dot_product_attention_math(
        query,
        key,
        value,
        attn_mask,
        0.0,
        is_causal,
        None,
        Some(scale),
        false,
    )?;
    let turned = |tensor: &Tensor| op::transpose_int(tensor, -2, -1);
    let mut out = vec![Tensor::undefined(); 3];
    if needs[2] {
        out[2] = op::matmul(&turned(&weights)?, grad)?;
    }
    if needs[0] || needs[1] {
        let slopes = op::matmul(grad, &turned(value)?)?;
        let inner = op::sum_dim_intlist(&(&slopes * &weights)?, Some(&[-1]), true, None)?;
        let slopes = op::mul_scalar(&(weights * (slopes - inner)?)?, Scalar::from(scale))?;
        if needs[0] {
            out[0] = op::matmul(&slopes, key)?;
        }
        if needs[1] {
            out[1] = op::matmul(&turned(&slopes)?, query)?;
        }
    }
    Ok(out)
}

/// As [`flash_attention_grads`] for the kernel of GPUs, with respect to the bias too. With dropout there is no
/// second derivative.
///
/// # Errors
/// Those of the operators.
pub fn efficient_attention_grads(
    needs: &[bool],
    grad: &Tensor,
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    attn_bias: Option<&Tensor>,
    out: &Tensor,
    logsumexp: &Tensor,
    philox_seed: &Tensor,
    philox_offset: &Tensor,
    dropout_p: f64,
    is_causal: bool,
    scale: Option<f64>,
) -> Result<Vec<Tensor>> {
    let shared_heads = query.sizes()[1] != key.sizes()[1];
    if grad_mode_enabled() && dropout_p == 0.0 && !shared_heads && !needs[3] {
        let mut grads =
            differentiable(needs, grad, query, key, value, is_causal, attn_bias, scale)?;
        grads.push(Tensor::undefined());
        return Ok(grads);
    }
    let none = Tensor::undefined();
    let (dq, dk, dv, dbias) = op::_scaled_dot_product_efficient_attention_backward(
        grad,
        query,
        key,
        value,
        attn_bias.unwrap_or(&none),
        out,
        logsumexp,
        philox_seed,
        philox_offset,
        dropout_p,
        needs,
        is_causal,
        scale,
    )?;
    Ok(vec![dq, dk, dv, dbias])
}
