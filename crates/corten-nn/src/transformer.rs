//! Transformers.

use crate::attention::{MultiheadAttention, MultiheadAttentionOptions};
use crate::container::ModuleList;
use crate::dropout::Dropout;
use crate::linear::Linear;
use crate::module::{Module, ModuleExt};
use crate::norm::LayerNorm;
use crate::parts;
use corten_core::Result;
use corten_ops::{Tensor, op};

/// Options of [`TransformerEncoderLayer`].
#[derive(Clone, Copy, Debug)]
pub struct TransformerLayerOptions {
    /// Width of the feed-forward network.
    pub feedforward: i64,
    /// Probability of dropout.
    pub dropout: f64,
    /// GELU instead of a rectifier.
    pub gelu: bool,
    /// Inputs are (batch, length, width).
    pub batch_first: bool,
    /// Normalise before each block instead of after it.
    pub norm_first: bool,
}

impl Default for TransformerLayerOptions {
    fn default() -> Self {
        Self { feedforward: 2048, dropout: 0.1, gelu: false, batch_first: false, norm_first: false }
    }
}

/// Self-attention and a feed-forward network, each with residual and normalisation.
pub struct TransformerEncoderLayer {
    self_attn: MultiheadAttention,
    linear1: Linear,
    dropout: Dropout,
    linear2: Linear,
    norm1: LayerNorm,
    norm2: LayerNorm,
    dropout1: Dropout,
    dropout2: Dropout,
    options: TransformerLayerOptions,
}

impl TransformerEncoderLayer {
    /// A layer over vectors of `width` elements.
    ///
    /// # Errors
    /// `Value` when the heads do not divide the width.
    pub fn new(width: i64, heads: i64, options: TransformerLayerOptions) -> Result<Self> {
        let TransformerLayerOptions { feedforward, dropout, batch_first, .. } = options;
        let attention = MultiheadAttentionOptions { dropout, batch_first, bias: true };
        Ok(Self {
            self_attn: MultiheadAttention::new(width, heads, attention)?,
            linear1: Linear::new(width, feedforward)?,
            dropout: Dropout::new(dropout)?,
            linear2: Linear::new(feedforward, width)?,
            norm1: LayerNorm::new(&[width])?,
            norm2: LayerNorm::new(&[width])?,
            dropout1: Dropout::new(dropout)?,
            dropout2: Dropout::new(dropout)?,
            options,
        })
    }

    /// The layer under a mask; see [`MultiheadAttention::attend`].
    ///
    /// # Errors
    /// Those of the operators.
    pub fn forward_masked(
        &self,
        x: &Tensor,
        mask: Option<&Tensor>,
        causal: bool,
    ) -> Result<Tensor> {
        if self.options.norm_first {
            let x = (x + self.attend(&self.norm1.forward(x)?, mask, causal)?)?;
            let wide = self.feed(&self.norm2.forward(&x)?)?;
            return x + wide;
        }
        let x = self.norm1.forward(&(x + self.attend(x, mask, causal)?)?)?;
        let wide = self.feed(&x)?;
        self.norm2.forward(&(x + wide)?)
    }

    fn attend(&self, x: &Tensor, mask: Option<&Tensor>, causal: bool) -> Result<Tensor> {
        self.dropout1.forward(&self.self_attn.attend(x, x, x, mask, causal)?)
    }

    fn feed(&self, x: &Tensor) -> Result<Tensor> {
        let wide = self.linear1.forward(x)?;
        let wide = if self.options.gelu { op::gelu(&wide, "none")? } else { op::relu(&wide)? };
        self.dropout2.forward(&self.linear2.forward(&self.dropout.forward(&wide)?)?)
    }
}

impl Module for TransformerEncoderLayer {
    parts!(self_attn, linear1, dropout, linear2, norm1, norm2, dropout1, dropout2);

    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        self.forward_masked(input, None, false)
    }
}

/// A stack of encoder layers that begin with equal weights, as PyTorch's copies do.
pub struct TransformerEncoder {
    layers: ModuleList<TransformerEncoderLayer>,
    norm: Option<LayerNorm>,
}

impl TransformerEncoder {
    /// `count` layers, each made by `layer`; the first one's weights are copied to the others.
    ///
    /// # Errors
    /// Those of `layer`.
    pub fn new(
        count: usize,
        layer: impl Fn() -> Result<TransformerEncoderLayer>,
        norm: Option<LayerNorm>,
    ) -> Result<Self> {
        let first = layer()?;
        let state = first.state_dict()?;
        let generator = corten_core::default_cpu_generator();
        let mut layers = vec![first];
        for _ in 1..count {
            // A copy draws no random numbers.
            let before = generator.get_state();
            let copy = layer()?;
            generator.set_state(&before)?;
            copy.load_state_dict(state.clone(), true)?;
            layers.push(copy);
        }
        Ok(Self { layers: layers.into_iter().take(count).collect(), norm })
    }

    /// The stack under a mask; see [`MultiheadAttention::attend`].
    ///
    /// # Errors
    /// Those of the operators.
    pub fn forward_masked(
        &self,
        x: &Tensor,
        mask: Option<&Tensor>,
        causal: bool,
    ) -> Result<Tensor> {
        let output = self
            .layers
            .iter()
            .try_fold(x.clone(), |x, layer| layer.forward_masked(&x, mask, causal))?;
        self.norm.as_ref().map_or(Ok(output.clone()), |norm| norm.forward(&output))
    }
}

impl Module for TransformerEncoder {
    parts!(layers, norm);

    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        self.forward_masked(input, None, false)
    }
}
