//! Attention of several heads.

use crate::linear::NonDynamicallyQuantizableLinear;
use crate::module::{Forward, Mode, Module, Parameter};
use crate::{empty, init};
use corten_core::{DType, MemoryFormat, Result, Scalar, ensure};
use corten_ops::{Tensor, op};

/// Options of [`MultiheadAttention`].
///
/// ```
/// assert!(corten::nn::MultiheadAttentionOptions::default().bias);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct MultiheadAttentionOptions {
    /// Probability of dropping a weight of attention in training.
    pub dropout: f64,
    /// Whether the projections have biases.
    pub bias: bool,
    /// Whether a learned key and value are appended.
    pub add_bias_kv: bool,
    /// Whether a key and a value of zeros are appended.
    pub add_zero_attn: bool,
    /// Width of the keys, if it is not that of the queries.
    pub kdim: Option<i64>,
    /// Width of the values, if it is not that of the queries.
    pub vdim: Option<i64>,
    /// Whether inputs are (batch, length, width) rather than (length, batch, width).
    pub batch_first: bool,
}

impl Default for MultiheadAttentionOptions {
    fn default() -> Self {
        Self {
            dropout: 0.0,
            bias: true,
            add_bias_kv: false,
            add_zero_attn: false,
            kdim: None,
            vdim: None,
            batch_first: false,
        }
    }
}

/// Where a query may not look. Masks are true there, or are added to the scores.
///
/// ```
/// let masks = corten::nn::AttentionMasks { is_causal: true, ..Default::default() };
/// assert!(masks.mask.is_none());
/// ```
#[derive(Clone, Copy, Default)]
pub struct AttentionMasks<'a> {
    /// For each query and key: (target, source) or (batch * heads, target, source).
    pub mask: Option<&'a Tensor>,
    /// For each key of each sample: (batch, source).
    pub key_padding: Option<&'a Tensor>,
    /// Whether a query sees the keys at its own place and before alone. A mask that is given
    /// must say the same.
    pub is_causal: bool,
}

/// Which weights of attention are returned.
///
/// ```
/// assert_eq!(corten::nn::AttentionWeights::default(), corten::nn::AttentionWeights::None);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AttentionWeights {
    /// None, which is faster.
    #[default]
    None,
    /// Their mean over the heads.
    Average,
    /// Those of each head.
    PerHead,
}

/// The projections of queries, keys and values: one matrix if they have one width.
#[derive(Module)]
struct Projections {
    in_proj_weight: Option<Parameter>,
    q_proj_weight: Option<Parameter>,
    k_proj_weight: Option<Parameter>,
    v_proj_weight: Option<Parameter>,
}

/// Attention of several heads with learned projections.
#[doc = example!("let attention = MultiheadAttention::new(8, 2)?;
let x = op::randn(&[5, 1, 8], None, None, None, None)?;
let (y, weights) =
    attention.forward(&x, &x, &x, AttentionMasks::default(), AttentionWeights::Average)?;
assert_eq!(y.sizes(), x.sizes());
assert_eq!(weights.unwrap().sizes().as_slice(), [1, 5, 5]);")]
#[derive(Module)]
pub struct MultiheadAttention {
    #[module(flatten)]
    projections: Projections,
    /// The biases of queries, keys and values, one below the other.
    pub in_proj_bias: Option<Parameter>,
    /// The learned key.
    pub bias_k: Option<Parameter>,
    /// The learned value.
    pub bias_v: Option<Parameter>,
    /// The projection of the joined heads.
    pub out_proj: NonDynamicallyQuantizableLinear,
    embed_dim: i64,
    num_heads: i64,
    #[module(skip)]
    options: MultiheadAttentionOptions,
    training: Mode,
}

impl MultiheadAttention {
    /// `num_heads` heads over vectors of `embed_dim` elements.
    ///
    /// # Errors
    /// `Value` when the heads do not divide the width.
    pub fn new(embed_dim: i64, num_heads: i64) -> Result<Self> {
        Self::with(embed_dim, num_heads, MultiheadAttentionOptions::default())
    }

    /// With options.
    ///
    /// # Errors
    /// `Value` when the heads do not divide the width.
    pub fn with(
        embed_dim: i64,
        num_heads: i64,
        options: MultiheadAttentionOptions,
    ) -> Result<Self> {
        ensure!(
            embed_dim > 0 && num_heads > 0,
            Value,
            "embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and num_heads={num_heads} instead"
        );
        ensure!(embed_dim % num_heads == 0, Value, "embed_dim must be divisible by num_heads");
        let MultiheadAttentionOptions { bias, add_bias_kv, kdim, vdim, .. } = options;
        let parameter = |is_wanted: bool, shape: &[i64]| {
            is_wanted.then(|| Parameter::new(empty(shape)?)).transpose()
        };
        let (k, v) = (kdim.unwrap_or(embed_dim), vdim.unwrap_or(embed_dim));
        let is_one = k == embed_dim && v == embed_dim;
        let projections = Projections {
            in_proj_weight: parameter(is_one, &[3 * embed_dim, embed_dim])?,
            q_proj_weight: parameter(!is_one, &[embed_dim, embed_dim])?,
            k_proj_weight: parameter(!is_one, &[embed_dim, k])?,
            v_proj_weight: parameter(!is_one, &[embed_dim, v])?,
        };
        let in_proj_bias = parameter(bias, &[3 * embed_dim])?;
        let out_proj = NonDynamicallyQuantizableLinear::with_bias(embed_dim, embed_dim, bias)?;
        let bias_k = parameter(add_bias_kv, &[1, 1, embed_dim])?;
        let bias_v = parameter(add_bias_kv, &[1, 1, embed_dim])?;
        let training = Mode::default();
        let made = Self {
            projections,
            in_proj_bias,
            bias_k,
            bias_v,
            out_proj,
            embed_dim,
            num_heads,
            options,
            training,
        };
        made.fill()?;
        Ok(made)
    }

    fn fill(&self) -> Result<()> {
        let Projections { in_proj_weight, q_proj_weight, k_proj_weight, v_proj_weight } =
            &self.projections;
        let weights = [in_proj_weight, q_proj_weight, k_proj_weight, v_proj_weight];
        weights.into_iter().flatten().try_for_each(|weight| init::xavier_uniform_(weight, 1.0))?;
        if let (Some(inner), Some(outer)) = (&self.in_proj_bias, &self.out_proj.bias) {
            init::constant_(inner, 0.0)?;
            init::constant_(outer, 0.0)?;
        }
        let mut appended = [&self.bias_k, &self.bias_v].into_iter().flatten();
        appended.try_for_each(|bias| init::xavier_normal_(bias, 1.0))
    }

    /// What each query gets from the values, and the weights of attention if they are wanted.
    /// Inputs without a batch have one dimension less.
    ///
    /// # Errors
    /// For shapes that do not fit.
    pub fn forward(
        &self,
        query: &Tensor,
        key: &Tensor,
        value: &Tensor,
        masks: AttentionMasks<'_>,
        weights: AttentionWeights,
    ) -> Result<(Tensor, Option<Tensor>)> {
        check(query, key, value, &masks)?;
        let is_batch = query.dim() == 3;
        let arranged = |x: &Tensor| match (is_batch, self.options.batch_first) {
            (false, _) => op::unsqueeze(x, 1),
            (true, true) => op::transpose_int(x, 0, 1),
            (true, false) => Ok(x.clone()),
        };
        let padding = match masks.key_padding {
            Some(padding) if !is_batch => Some(op::unsqueeze(padding, 0)?),
            padding => padding.cloned(),
        };
        let masks = AttentionMasks { key_padding: padding.as_ref(), ..masks };
        let inputs = [arranged(query)?, arranged(key)?, arranged(value)?];
        let is_self = query.is_same(key) && key.is_same(value);
        let (output, seen) = self.batched(&inputs, is_self, &masks, weights)?;
        let output = match (is_batch, self.options.batch_first) {
            (false, _) => op::squeeze_dim(&output, 1)?,
            (true, true) => op::transpose_int(&output, 0, 1)?,
            (true, false) => output,
        };
        let seen =
            if is_batch { seen } else { seen.map(|s| op::squeeze_dim(&s, 0)).transpose()? };
        Ok((output, seen))
    }

    /// The output of [`forward`](Self::forward) alone.
    ///
    /// # Errors
    /// For shapes that do not fit.
    pub fn attend(
        &self,
        query: &Tensor,
        key: &Tensor,
        value: &Tensor,
        masks: AttentionMasks<'_>,
    ) -> Result<Tensor> {
        Ok(self.forward(query, key, value, masks, AttentionWeights::None)?.0)
    }

    /// Attention over (length, batch, width).
    fn batched(
        &self,
        inputs: &[Tensor; 3],
        is_self: bool,
        masks: &AttentionMasks<'_>,
        weights: AttentionWeights,
    ) -> Result<(Tensor, Option<Tensor>)> {
        let sizes = inputs[0].sizes();
        let (target, batch) = (sizes[0], sizes[1]);
        let [q, mut k, mut v] = self.project(inputs, is_self)?;
        let source = k.size(0)?;
        if let (Some(bias_k), Some(bias_v)) = (&self.bias_k, &self.bias_v) {
            k = op::cat(&[k, op::repeat(bias_k, &[1, batch, 1])?], 0)?;
            v = op::cat(&[v, op::repeat(bias_v, &[1, batch, 1])?], 0)?;
        }
        let (q, mut k, mut v) = (self.heads(&q)?, self.heads(&k)?, self.heads(&v)?);
        if self.options.add_zero_attn {
            let shape = [batch, self.num_heads, 1, self.embed_dim / self.num_heads];
            let zero = op::new_zeros(&k, &shape, None, None, None, None)?;
            k = op::cat(&[k, zero.clone()], 2)?;
            v = op::cat(&[v, zero], 2)?;
        }
        let shape = MaskShape { batch, heads: self.num_heads, target, source };
        let appended = k.size(2)? - source;
        let needs_mask = weights != AttentionWeights::None
            || masks.key_padding.is_some()
            || appended > 0
            || !masks.is_causal;
        let mask = if needs_mask { shape.merged(masks, appended, &q)? } else { None };
        let p = if self.training.training() { self.options.dropout } else { 0.0 };
        let (joined, seen) = if weights == AttentionWeights::None {
            let (mask, causal) = (mask.as_ref(), !needs_mask);
            let joined =
                op::scaled_dot_product_attention(&q, &k, &v, mask, p, causal, None, false)?;
            (joined, None)
        } else {
            let (joined, seen) = attend_with_weights(&q, &k, &v, mask.as_ref(), p)?;
            let is_average = weights == AttentionWeights::Average;
            let seen =
                if is_average { op::mean_dim(&seen, Some(&[1]), false, None)? } else { seen };
            (joined, Some(seen))
        };
        let joined = op::flatten_using_ints(&op::permute(&joined, &[2, 0, 1, 3])?, 2, 3)?;
        Ok((self.out_proj.forward(&joined)?, seen))
    }

    fn project(&self, inputs: &[Tensor; 3], is_self: bool) -> Result<[Tensor; 3]> {
        let Projections { in_proj_weight, q_proj_weight, k_proj_weight, v_proj_weight } =
            &self.projections;
        if let (Some(weight), true) = (in_proj_weight, is_self) {
            let joined = op::linear(&inputs[0], weight, self.in_proj_bias.as_deref())?;
            return three(op::chunk(&joined, 3, -1)?);
        }
        let weights = match in_proj_weight {
            Some(weight) => op::chunk(weight, 3, 0)?,
            None => [q_proj_weight, k_proj_weight, v_proj_weight]
                .into_iter()
                .flatten()
                .map(|weight| (**weight).clone())
                .collect(),
        };
        let biases = match &self.in_proj_bias {
            Some(bias) => op::chunk(bias, 3, 0)?.into_iter().map(Some).collect(),
            None => vec![None; 3],
        };
        let parts = inputs.iter().zip(&weights).zip(&biases);
        let parts = parts.map(|((input, weight), bias)| op::linear(input, weight, bias.as_ref()));
        three(parts.collect::<Result<_>>()?)
    }

    /// (length, batch, width) as (batch, heads, length, width of a head).
    fn heads(&self, x: &Tensor) -> Result<Tensor> {
        let split = op::unflatten_int(x, -1, &[self.num_heads, self.embed_dim / self.num_heads])?;
        op::permute(&split, &[1, 2, 0, 3])
    }
}

fn three(parts: Vec<Tensor>) -> Result<[Tensor; 3]> {
    match parts.try_into() {
        Ok(parts) => Ok(parts),
        Err(_) => corten_core::bug!("attention without three projections"),
    }
}

/// Attention step by step, for those who want to see the weights.
fn attend_with_weights(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    mask: Option<&Tensor>,
    p: f64,
) -> Result<(Tensor, Tensor)> {
    let width = q.size(-1)? as f64;
    let scores = op::matmul(&(q * (1.0 / width).sqrt())?, &op::transpose_int(k, -2, -1)?)?;
    let scores = mask.map_or(Ok(scores.clone()), |mask| scores + mask)?;
    let mut seen = op::softmax_int(&scores, -1, None)?;
    if p > 0.0 {
        seen = op::dropout(&seen, p, true)?;
    }
    Ok((op::matmul(&seen, v)?, op::contiguous(&seen, MemoryFormat::Contiguous)?))
}

/// A mask that is added: −∞ where a boolean one is true.
fn additive(mask: &Tensor, dtype: DType) -> Result<Tensor> {
    if mask.dtype() != DType::Bool {
        return Ok(mask.clone());
    }
    let zeros = op::zeros_like(mask, Some(dtype), None, None, None, None)?;
    op::masked_fill_scalar(&zeros, mask, Scalar::Float(f64::NEG_INFINITY))
}

/// −∞ above the diagonal, 0 elsewhere: under this mask each place sees those before it.
///
/// # Errors
/// Those of the operators.
fn causal_mask(target: i64, source: i64, like: &Tensor) -> Result<Tensor> {
    let infinite = Scalar::Float(f64::NEG_INFINITY);
    let full = op::new_full(like, &[target, source], infinite, None, None, None, None)?;
    op::triu(&full, 1)
}

struct MaskShape {
    batch: i64,
    heads: i64,
    target: i64,
    source: i64,
}

impl MaskShape {
    /// All masks as one that broadcasts to (batch, heads, target, source), with places for what is
    /// appended to the keys.
    fn merged(
        &self,
        masks: &AttentionMasks<'_>,
        appended: i64,
        q: &Tensor,
    ) -> Result<Option<Tensor>> {
        let widened = |mask: Tensor| {
            if appended == 0 {
                return Ok(mask);
            }
            op::constant_pad_nd(&mask, &[0, appended], Scalar::Float(0.0))
        };
        let own = match masks.mask {
            Some(mask) => Some(widened(self.arranged(&additive(mask, q.dtype())?)?)?),
            None if masks.is_causal => Some(widened(causal_mask(self.target, self.source, q)?)?),
            None => None,
        };
        let Some(padding) = masks.key_padding else { return Ok(own) };
        ensure!(
            padding.sizes()[..] == [self.batch, self.source],
            Runtime,
            "expecting key_padding_mask shape of {:?}, but got torch.Size({:?})",
            (self.batch, self.source),
            padding.sizes().as_slice()
        );
        let padding = op::view(&additive(padding, q.dtype())?, &[self.batch, 1, 1, self.source])?;
        let padding = widened(padding)?;
        Ok(Some(own.map_or(Ok(padding.clone()), |own| own + padding)?))
    }

    fn arranged(&self, mask: &Tensor) -> Result<Tensor> {
        let Self { batch, heads, target, source } = *self;
        let is_flat = mask.dim() == 2;
        let expected =
            if is_flat { vec![target, source] } else { vec![batch * heads, target, source] };
        ensure!(
            mask.sizes()[..] == expected[..],
            Runtime,
            "The shape of the {}D attn_mask is torch.Size({:?}), but should be {expected:?}.",
            mask.dim(),
            mask.sizes().as_slice()
        );
        if is_flat { Ok(mask.clone()) } else { op::view(mask, &[batch, heads, target, source]) }
    }
}

fn check(q: &Tensor, k: &Tensor, v: &Tensor, masks: &AttentionMasks<'_>) -> Result<()> {
    let rank = q.dim();
    ensure!(
        rank == 2 || rank == 3,
        Runtime,
        "query should be unbatched 2D or batched 3D tensor but received {rank}-D query tensor"
    );
    let kind = if rank == 3 { "batched" } else { "unbatched" };
    ensure!(
        k.dim() == rank && v.dim() == rank,
        Runtime,
        "For {kind} ({rank}-D) `query`, expected `key` and `value` to be {rank}-D but found {}-D and {}-D tensors respectively",
        k.dim(),
        v.dim()
    );
    if let Some(padding) = masks.key_padding {
        ensure!(
            padding.dim() == rank - 1,
            Runtime,
            "For {kind} ({rank}-D) `query`, expected `key_padding_mask` to be `None` or {}-D but found {}-D tensor instead",
            rank - 1,
            padding.dim()
        );
    }
    if let Some(mask) = masks.mask {
        ensure!(
            mask.dim() == 2 || mask.dim() == 3,
            Runtime,
            "For {kind} ({rank}-D) `query`, expected `attn_mask` to be `None`, 2-D or 3-D but found {}-D tensor instead",
            mask.dim()
        );
    }
    Ok(())
}
