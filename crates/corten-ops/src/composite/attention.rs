//! Attention from matrix products and a softmax, and the choice of the fused kernel.

use super::support::{defined, requires_grad, type_id_name};
use crate::{Tensor, op};
use corten_core::{DType, Dims, Result, Scalar, ensure};
use std::sync::atomic::{AtomicU8, Ordering};

/// A way to compute attention, which programs can forbid.
///
/// ```
/// use corten::ops::composite::attention::{Backend, allow, allows};
///
/// allow(Backend::Flash, false);
/// assert!(!allows(Backend::Flash));
/// allow(Backend::Flash, true);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Backend {
    /// Matrix products and a softmax.
    Math = 1,
    /// The fused kernel, where there is no mask.
    Flash = 2,
    /// The fused kernel of GPUs, masks included.
    Efficient = 4,
    /// cuDNN.
    Cudnn = 8,
}

static ALLOWED: AtomicU8 = AtomicU8::new(15);

/// Whether a program allows a way to compute attention.
pub fn allows(backend: Backend) -> bool {
    ALLOWED.load(Ordering::Relaxed) & backend as u8 != 0
}

/// Allows or forbids a way to compute attention, in all threads.
pub fn allow(backend: Backend, allowed: bool) {
    if allowed {
        ALLOWED.fetch_or(backend as u8, Ordering::Relaxed);
    } else {
        ALLOWED.fetch_and(!(backend as u8), Ordering::Relaxed);
    }
}

/// Attention, by the fused kernel where it applies.
///
/// # Errors
/// `Runtime` when ranks, shapes or dtypes do not fit.
pub fn scaled_dot_product_attention(
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    attn_mask: Option<&Tensor>,
    dropout_p: f64,
    is_causal: bool,
    scale: Option<f64>,
    enable_gqa: bool,
) -> Result<Tensor> {
    let attn_mask = defined(attn_mask);
    check(query, key, value, attn_mask, is_causal)?;
    let bias = attn_mask.map(|mask| as_bias(mask, query)).transpose()?;
    let attn_mask = bias.as_ref();
    let half = query.dtype().is_reduced_float() && attn_mask.is_none();
    let allowed = allows(Backend::Efficient) || allows(Backend::Flash) && half;
    if allowed && efficient_applies(query, key, value, attn_mask, enable_gqa) {
        return efficient(query, key, value, attn_mask, dropout_p, is_causal, scale);
    }
    let fused = fused_applies(query, key, value, attn_mask, dropout_p, enable_gqa);
    if fused && allows(Backend::Flash) {
        return self::fused(query, key, value, attn_mask, is_causal, scale);
    }
    check_allowed(query)?;
    let (out, _) = op::_scaled_dot_product_attention_math(
        query, key, value, attn_mask, dropout_p, is_causal, None, scale, enable_gqa,
    )?;
    Ok(out)
}

/// Without a fused kernel, the formula must be allowed.
fn check_allowed(query: &Tensor) -> Result<()> {
    let device = query.device();
    ensure!(
        allows(Backend::Math) || allows(Backend::Flash) || !device.is_cpu(),
        Runtime,
        "No viable backend for scaled_dot_product_attention was found. This is likely due to turning off both \
         the math kernel and the fused kernels."
    );
    ensure!(
        allows(Backend::Math) || !device.is_cpu() && !device.is_cuda(),
        Runtime,
        "No available kernel.  Aborting execution."
    );
    Ok(())
}

fn check(
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    attn_mask: Option<&Tensor>,
    is_causal: bool,
) -> Result<()> {
    let (q, k, v) = (query.dtype(), key.dtype(), value.dtype());
    ensure!(
        q == k && k == v,
        Runtime,
        "Expected query, key, and value to have the same dtype, but got query.dtype: {} key.dtype: \
         {} and value.dtype: {} instead.",
        type_id_name(q),
        type_id_name(k),
        type_id_name(v)
    );
    ensure!(
        query.device() == key.device() && key.device() == value.device(),
        Runtime,
        "Expected query, key, and value to have the same device type, but got query.device: {} \
         key.device: {} and value.device: {} instead.",
        query.device(),
        key.device(),
        value.device()
    );
    let (a, b, c) = (query.dim(), key.dim(), value.dim());
    ensure!(
        a >= 2 && b >= 2 && c >= 2,
        Runtime,
        "Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: {a} \
         key.dim: {b} and value.dim: {c} instead."
    );
    if let Some(mask) = attn_mask {
        let m = mask.dtype();
        ensure!(
            m == DType::Bool || m == DType::Float32 || m == q,
            Runtime,
            "Expected attn_mask dtype to be bool or float or to match query dtype, but got \
             attn_mask.dtype: {} and  query.dtype: {} instead.",
            type_id_name(m),
            type_id_name(q)
        );
        ensure!(
            !is_causal,
            Runtime,
            "_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True"
        );
    }
    Ok(())
}

/// The fused kernel wants batches of heads of one width, and keeps no gradient of the mask.
fn fused_applies(
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    attn_mask: Option<&Tensor>,
    dropout_p: f64,
    enable_gqa: bool,
) -> bool {
    let (q, k, v) = (query.sizes(), key.sizes(), value.sizes());
    let rank = q.len();
    if !(3..=4).contains(&rank) || k.len() != rank || v.len() != rank || enable_gqa {
        return false;
    }
    let same_batch = q[..rank - 2] == k[..rank - 2] && k[..rank - 2] == v[..rank - 2];
    let same_width = q[rank - 1] == k[rank - 1] && k[rank - 1] == v[rank - 1];
    let not_empty = query.numel() > 0 && key.numel() > 0 && k[rank - 2] == v[rank - 2];
    let mask_fits = attn_mask.is_none_or(|mask| {
        !requires_grad(mask) && mask.dim() >= 2 && mask.dim() <= rank && broadcasts(mask, &q, &k)
    });
    let dense = [query, key, value].iter().all(|tensor| tensor.strides()[rank - 1] == 1);
    query.dtype().is_floating_point()
        && dense
        && query.device().is_cpu()
        && dropout_p == 0.0
        && same_batch
        && same_width
        && not_empty
        && mask_fits
}

fn broadcasts(mask: &Tensor, query: &Dims, key: &Dims) -> bool {
    let rank = query.len();
    let mut scores = query.clone();
    scores[rank - 1] = key[rank - 2];
    let sizes = mask.sizes();
    let tail = &scores[rank - sizes.len()..];
    sizes.iter().zip(tail).all(|(&mask, &score)| mask == score || mask == 1)
}

fn fused(
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    attn_mask: Option<&Tensor>,
    is_causal: bool,
    scale: Option<f64>,
) -> Result<Tensor> {
    let unbatched = query.dim() == 3;
    let batch =
        |tensor: &Tensor| if unbatched { op::unsqueeze(tensor, 0) } else { Ok(tensor.clone()) };
    let (out, _) = op::_scaled_dot_product_flash_attention_for_cpu(
        &batch(query)?,
        &batch(key)?,
        &batch(value)?,
        0.0,
        is_causal,
        attn_mask,
        scale,
    )?;
    if unbatched { op::squeeze_dim(&out, 0) } else { Ok(out) }
}

/// The bytes of the largest row of a head of the fused kernel of GPUs.
const MOST_BYTES: i64 = 1024;
/// Its most numbers.
const MOST_WIDTH: i64 = 256;

/// The fused kernel of GPUs takes dropout, a gradient of the mask, and heads of the keys that several heads
/// of the queries share.
fn efficient_applies(
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    attn_mask: Option<&Tensor>,
    enable_gqa: bool,
) -> bool {
    let (q, k, v) = (query.sizes(), key.sizes(), value.sizes());
    let rank = q.len();
    if !query.device().is_cuda() || !(3..=4).contains(&rank) || k.len() != rank || v.len() != rank {
        return false;
    }
    let heads_fit = match enable_gqa {
        true => rank == 4 && q[0] == k[0] && k[1] > 0 && q[1] % k[1] == 0,
        false => q[..rank - 2] == k[..rank - 2],
    };
    let widest = q[rank - 1].max(v[rank - 1]);
    let widths = q[rank - 1] == k[rank - 1]
        && widest <= MOST_WIDTH
        && widest * query.itemsize() as i64 <= MOST_BYTES;
    query.dtype().is_floating_point()
        && query.itemsize() > 1
        && heads_fit
        && k[..rank - 1] == v[..rank - 1]
        && widths
        && query.numel() > 0
        && key.numel() > 0
        && value.numel() > 0
        && attn_mask.is_none_or(|mask| mask.dim() <= rank && broadcasts(mask, &q, &k))
}

fn efficient(
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    attn_mask: Option<&Tensor>,
    dropout_p: f64,
    is_causal: bool,
    scale: Option<f64>,
) -> Result<Tensor> {
    // Without heads, every matrix of the batch has one.
    let single = query.dim() == 3;
    let heads =
        |tensor: &Tensor| if single { op::unsqueeze(tensor, 1) } else { Ok(tensor.clone()) };
    let mut scores = query.sizes();
    scores[query.dim() - 1] = key.size(-2)?;
    let bias = attn_mask.map(|mask| heads(&op::expand(mask, &scores, false)?)).transpose()?;
    let (query, key, value) = (heads(query)?, heads(key)?, heads(value)?);
    let tensors = [Some(&query), Some(&key), Some(&value), bias.as_ref()];
    let records =
        corten_core::grad_mode_enabled() && tensors.into_iter().flatten().any(requires_grad);
    let (out, ..) = op::_scaled_dot_product_efficient_attention(
        &query,
        &key,
        &value,
        bias.as_ref(),
        records,
        dropout_p,
        is_causal,
        scale,
    )?;
    if single { op::squeeze_dim(&out, 1) } else { Ok(out) }
}

/// A boolean mask as zeros where it keeps and minus infinity elsewhere.
fn as_bias(mask: &Tensor, query: &Tensor) -> Result<Tensor> {
    if mask.dtype() != DType::Bool {
        return Ok(mask.clone());
    }
    let bias = op::zeros_like(mask, Some(query.dtype()), None, None, None, None)?;
    let dropped = op::logical_not(mask)?;
    op::masked_fill__scalar(&bias, &dropped, Scalar::from(f64::NEG_INFINITY))
}

/// Attention and its weights, from matrix products and a softmax.
///
/// # Errors
/// `Runtime` when ranks, shapes or dtypes do not fit.
pub fn _scaled_dot_product_attention_math(
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    attn_mask: Option<&Tensor>,
    dropout_p: f64,
    is_causal: bool,
    dropout_mask: Option<&Tensor>,
    scale: Option<f64>,
    enable_gqa: bool,
) -> Result<(Tensor, Tensor)> {
    let (attn_mask, dropout_mask) = (defined(attn_mask), defined(dropout_mask));
    let half = query.dtype().is_reduced_float();
    let wide = |tensor: &Tensor| match half && tensor.dtype() != DType::Bool {
        true => op::to_dtype(tensor, DType::Float32, false, false, None),
        false => Ok(tensor.clone()),
    };
    let (key, value) = repeated_heads(query, key, value, enable_gqa)?;
    let (q, k, v) = (wide(query)?, wide(&key)?, wide(&value)?);
    // Each side takes half of the scale, which keeps the scores in range.
    let width = query.size(-1)?;
    let scale = scale.unwrap_or_else(|| 1.0 / (width as f64).sqrt());
    let root = Scalar::from(scale.abs().sqrt());
    let q = op::mul_scalar(&q, root)?;
    let k = op::mul_scalar(&k, Scalar::from(scale.abs().sqrt().copysign(scale)))?;
    let mut scores = op::matmul(&q, &op::transpose_int(&k, -2, -1)?)?;
    if let Some(bias) = score_bias(query, &key, attn_mask, is_causal)? {
        scores = op::add_tensor(&scores, &wide(&bias)?, Scalar::Int(1))?;
    }
    let mut weights = op::_safe_softmax(&scores, -1, None)?;
    if dropout_p > 0.0 {
        if let Some(mask) = dropout_mask {
            let kept = op::masked_fill_scalar(&weights, &op::logical_not(mask)?, Scalar::Int(0))?;
            let scaled = op::mul_scalar(&v, Scalar::from(1.0 / (1.0 - dropout_p)))?;
            let out = op::matmul(&kept, &scaled)?;
            return Ok((narrowed(out, query)?, narrowed(kept, query)?));
        }
        weights = op::dropout(&weights, dropout_p, true)?;
    }
    let out = op::matmul(&weights, &v)?;
    Ok((narrowed(out, query)?, narrowed(weights, query)?))
}

fn narrowed(tensor: Tensor, like: &Tensor) -> Result<Tensor> {
    match tensor.dtype() == like.dtype() {
        true => Ok(tensor),
        false => op::to_dtype(&tensor, like.dtype(), false, false, None),
    }
}

/// What is added to the scores: the mask, or minus infinity above the diagonal.
fn score_bias(
    query: &Tensor,
    key: &Tensor,
    attn_mask: Option<&Tensor>,
    is_causal: bool,
) -> Result<Option<Tensor>> {
    if !is_causal {
        return Ok(attn_mask.cloned());
    }
    ensure!(
        attn_mask.is_none(),
        Runtime,
        "_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True"
    );
    let sizes = [query.size(-2)?, key.size(-2)?];
    let ones = op::ones(&sizes, Some(DType::Bool), None, Some(query.device()), None)?;
    as_bias(&op::tril(&ones, 0)?, query).map(Some)
}

/// Keys and values with every head repeated for the queries that share it.
fn repeated_heads(
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    enable_gqa: bool,
) -> Result<(Tensor, Tensor)> {
    if !enable_gqa {
        return Ok((key.clone(), value.clone()));
    }
    let (heads, of_key, of_value) = (query.size(-3)?, key.size(-3)?, value.size(-3)?);
    ensure!(
        of_key > 0 && of_value > 0 && heads % of_key == 0 && heads % of_value == 0,
        Runtime,
        "Number of heads in key and value must divide the number of heads in query"
    );
    let repeat = |tensor: &Tensor, count: i64| match count {
        1 => Ok(tensor.clone()),
        _ => op::repeat_interleave_self_int(tensor, count, Some(-3), None),
    };
    Ok((repeat(key, heads / of_key)?, repeat(value, heads / of_value)?))
}
