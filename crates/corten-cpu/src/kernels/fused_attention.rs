//! Attention by a kernel of GPUs: here are the shapes of its results, and the refusal of CPU tensors.

use super::support::{empty, empty_as, is_shape_only};
use corten_core::{DType, Result, bail, ensure};
use corten_ops::{Tensor, op};

fn refuse(name: &str) -> Result<()> {
    bail!(
        NotImplemented,
        "Could not run 'aten::{name}' with arguments from the 'CPU' backend. 'aten::{name}' is only available \
         for these backends: [CUDA, Meta]."
    )
}

/// The shapes of the results of attention.
///
/// # Errors
/// `NotImplemented` for CPU tensors, `Runtime` for shapes that do not fit.
pub fn efficient_attention(
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    _attn_bias: Option<&Tensor>,
    _compute_log_sumexp: bool,
    _dropout_p: f64,
    _is_causal: bool,
    _scale: Option<f64>,
) -> Result<(Tensor, Tensor, Tensor, Tensor)> {
    if !is_shape_only(query) {
        refuse("_scaled_dot_product_efficient_attention")?;
    }
    let (q, k, v) = (query.sizes(), key.sizes(), value.sizes());
    ensure!(
        q.len() == 4 && k.len() == 4 && v.len() == 4,
        Runtime,
        "_scaled_dot_product_efficient_attention: expected tensors of 4 dimensions, but got sizes {:?}, {:?} and \
         {:?}",
        q.as_slice(),
        k.as_slice(),
        v.as_slice()
    );
    let wide = if query.dtype() == DType::Float64 { DType::Float64 } else { DType::Float32 };
    let out = empty(&[q[0], q[2], q[1], v[3]], query)?;
    let logs = empty_as(&[q[0], q[1], q[2]], query, wide)?;
    let [seed, offset] = [0, 1].map(|_| empty_as(&[], query, DType::Int64));
    Ok((op::transpose_int(&out, 1, 2)?, logs, seed?, offset?))
}

/// The shapes of the gradients of attention.
///
/// # Errors
/// `NotImplemented` for CPU tensors.
pub fn efficient_attention_backward(
    _grad_out_: &Tensor,
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    attn_bias: &Tensor,
    _out: &Tensor,
    _logsumexp: &Tensor,
    _philox_seed: &Tensor,
    _philox_offset: &Tensor,
    _dropout_p: f64,
    grad_input_mask: &[bool],
    _is_causal: bool,
    _scale: Option<f64>,
) -> Result<(Tensor, Tensor, Tensor, Tensor)> {
    if !is_shape_only(query) {
        refuse("_scaled_dot_product_efficient_attention_backward")?;
    }
    let wanted = attn_bias.defined() && grad_input_mask.get(3) == Some(&true);
    let bias = if wanted { empty(&attn_bias.sizes(), query)? } else { Tensor::undefined() };
    let [dq, dk, dv] = [query, key, value].map(|tensor| empty(&tensor.sizes(), query));
    Ok((dq?, dk?, dv?, bias))
}
