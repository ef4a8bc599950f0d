//! Fused attention under the names of the CPU's kernel.

use super::fused_attention::{Call, Rule};
use crate::operands::{like_planned, on_meta, on_meta_opt};
use corten_core::Result;
use corten_ops::{Tensor, op};

fn rule(is_causal: bool, scale: Option<f64>) -> Rule {
    Rule { is_causal, scale, dropout_p: 0.0, seed: 0, offset: 0 }
}

/// Attention and the logarithms of its softmax sums.
///
/// # Errors
/// Those of the CPU's checks; `Runtime` for heads of more than 256 numbers.
pub fn flash_attention(
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    dropout_p: f64,
    is_causal: bool,
    attn_mask: Option<&Tensor>,
    scale: Option<f64>,
) -> Result<(Tensor, Tensor)> {
    let (out, logs) = op::_scaled_dot_product_flash_attention_for_cpu(
        &on_meta(query)?,
        &on_meta(key)?,
        &on_meta(value)?,
        dropout_p,
        is_causal,
        on_meta_opt(attn_mask)?.as_ref(),
        scale,
    )?;
    let (out, logs) = (like_planned(&out, query)?, like_planned(&logs, query)?);
    Call::of([query, key, value], attn_mask, &rule(is_causal, scale))?.forward(&out, &logs)?;
    Ok((out, logs))
}

/// Gradients of [`flash_attention`] with respect to query, key and value.
///
/// # Errors
/// As for [`flash_attention`].
pub fn flash_attention_backward(
    grad_out: &Tensor,
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    out: &Tensor,
    logsumexp: &Tensor,
    dropout_p: f64,
    is_causal: bool,
    attn_mask: Option<&Tensor>,
    scale: Option<f64>,
) -> Result<(Tensor, Tensor, Tensor)> {
    let [grad, q, k, v, o] = [grad_out, query, key, value, out].map(on_meta);
    op::_scaled_dot_product_flash_attention_for_cpu_backward(
        &grad?,
        &q?,
        &k?,
        &v?,
        &o?,
        &on_meta(logsumexp)?,
        dropout_p,
        is_causal,
        on_meta_opt(attn_mask)?.as_ref(),
        scale,
    )?;
    let call = Call::of([query, key, value], attn_mask, &rule(is_causal, scale))?;
    let [dq, dk, dv, _] = call.backward(grad_out, out, logsumexp, false)?;
    Ok((dq, dk, dv))
}
