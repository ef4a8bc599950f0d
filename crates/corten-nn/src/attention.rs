//! Attention of several heads.

use crate::dropout::Dropout;
use crate::linear::Linear;
use crate::module::{Module, Parameter};
use crate::{empty, init, parts};
use corten_core::{Result, ensure};
use corten_ops::{Tensor, op};

/// Options of [`MultiheadAttention`].
#[derive(Clone, Copy, Debug)]
pub struct MultiheadAttentionOptions {
    /// Probability of dropping a weight of attention in training.
    pub dropout: f64,
    /// Whether the projections have biases.
    pub bias: bool,
    /// Whether inputs are (batch, length, width) rather than (length, batch, width).
    pub batch_first: bool,
}

impl Default for MultiheadAttentionOptions {
    fn default() -> Self {
        Self { dropout: 0.0, bias: true, batch_first: false }
    }
}

/// Attention of several heads with learned projections.
pub struct MultiheadAttention {
    /// Projections of queries, keys and values, one below the other.
    pub in_proj_weight: Parameter,
    /// Their biases.
    pub in_proj_bias: Option<Parameter>,
    /// The projection of the joined heads.
    pub out_proj: Linear,
    heads: i64,
    batch_first: bool,
    dropout: Dropout,
}

impl MultiheadAttention {
    /// `heads` heads over vectors of `width` elements.
    ///
    /// # Errors
    /// `Value` when the heads do not divide the width.
    pub fn new(width: i64, heads: i64, options: MultiheadAttentionOptions) -> Result<Self> {
        ensure!(
            width > 0 && heads > 0 && width % heads == 0,
            Value,
            "embed_dim must be divisible by num_heads"
        );
        let in_proj_weight = Parameter::new(empty(&[3 * width, width])?)?;
        let in_proj_bias =
            options.bias.then(|| Parameter::new(empty(&[3 * width])?)).transpose()?;
        let out_proj = Linear::with_bias(width, width, options.bias)?;
        init::xavier_uniform_(&in_proj_weight, 1.0)?;
        if let (Some(inner), Some(outer)) = (&in_proj_bias, &out_proj.bias) {
            init::constant_(inner, 0.0)?;
            init::constant_(outer, 0.0)?;
        }
        let dropout = Dropout::new(options.dropout)?;
        let batch_first = options.batch_first;
        Ok(Self { in_proj_weight, in_proj_bias, out_proj, heads, batch_first, dropout })
    }

    /// What each query gets from the values; `mask` is added to the scores, or is true where a
    /// query may *not* look.
    ///
    /// # Errors
    /// Those of the operators.
    pub fn attend(
        &self,
        query: &Tensor,
        key: &Tensor,
        value: &Tensor,
        mask: Option<&Tensor>,
        causal: bool,
    ) -> Result<Tensor> {
        let weights = op::chunk(&self.in_proj_weight, 3, 0)?;
        let biases = match &self.in_proj_bias {
            Some(bias) => op::chunk(bias, 3, 0)?.into_iter().map(Some).collect(),
            None => vec![None; 3],
        };
        let mut split = Vec::with_capacity(3);
        for ((input, weight), bias) in [query, key, value].into_iter().zip(&weights).zip(&biases) {
            split.push(self.split_heads(&op::linear(input, weight, bias.as_ref())?)?);
        }
        let mask = mask.map(keep_mask).transpose()?;
        let p = self.dropout.now();
        let joined = op::scaled_dot_product_attention(
            &split[0],
            &split[1],
            &split[2],
            mask.as_ref(),
            p,
            causal,
            None,
            false,
        )?;
        self.out_proj.forward(&self.join_heads(&joined)?)
    }

    /// To (batch, heads, length, width of a head).
    fn split_heads(&self, x: &Tensor) -> Result<Tensor> {
        let sizes = x.sizes();
        let split = op::unflatten_int(x, -1, &[self.heads, sizes[2] / self.heads])?;
        op::permute(&split, if self.batch_first { &[0, 2, 1, 3] } else { &[1, 2, 0, 3] })
    }

    /// Back from there.
    fn join_heads(&self, x: &Tensor) -> Result<Tensor> {
        let order: &[i64] = if self.batch_first { &[0, 2, 1, 3] } else { &[2, 0, 1, 3] };
        op::flatten_using_ints(&op::permute(x, order)?, 2, 3)
    }
}

/// The operator's boolean masks say where a query *may* look.
fn keep_mask(mask: &Tensor) -> Result<Tensor> {
    if mask.dtype() == corten_core::DType::Bool { op::logical_not(mask) } else { Ok(mask.clone()) }
}

impl Module for MultiheadAttention {
    parts!(in_proj_weight, in_proj_bias, out_proj, dropout);

    /// Self-attention.
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        self.attend(input, input, input, None, false)
    }
}
