//! Transformers.

use crate::attention::{AttentionMasks, MultiheadAttention, MultiheadAttentionOptions};
use crate::container::ModuleList;
use crate::dropout::Dropout;
use crate::ext::ModuleExt;
use crate::hooks::Hooks;
use crate::init;
use crate::linear::Linear;
use crate::module::{Forward, Module};
use crate::norm::{LayerNorm, LayerNormOptions};
use corten_core::{DType, Result, Scalar, ensure};
use corten_ops::{Tensor, op};

/// The nonlinearity of a feed-forward network.
///
/// ```
/// assert_eq!(corten::nn::FeedForwardActivation::default(), corten::nn::FeedForwardActivation::Relu);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FeedForwardActivation {
    /// Rectifier.
    #[default]
    Relu,
    /// GELU.
    Gelu,
}

impl FeedForwardActivation {
    fn of(self, x: &Tensor) -> Result<Tensor> {
        match self {
            Self::Relu => op::relu(x),
            Self::Gelu => op::gelu(x, "none"),
        }
    }
}

/// Options of the layers of transformers.
///
/// ```
/// assert_eq!(corten::nn::TransformerLayerOptions::default().dim_feedforward, 2048);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TransformerLayerOptions {
    /// Width of the feed-forward network.
    pub dim_feedforward: i64,
    /// Probability of dropout.
    pub dropout: f64,
    /// The nonlinearity of the feed-forward network.
    pub activation: FeedForwardActivation,
    /// Added to the variances of normalisations.
    pub layer_norm_eps: f64,
    /// Whether inputs are (batch, length, width).
    pub batch_first: bool,
    /// Whether to normalise before each block instead of after it.
    pub norm_first: bool,
    /// Whether there are biases.
    pub bias: bool,
}

impl Default for TransformerLayerOptions {
    fn default() -> Self {
        Self {
            dim_feedforward: 2048,
            dropout: 0.1,
            activation: FeedForwardActivation::Relu,
            layer_norm_eps: 1e-5,
            batch_first: false,
            norm_first: false,
            bias: true,
        }
    }
}

impl TransformerLayerOptions {
    fn attention(&self, d_model: i64, nhead: i64) -> Result<MultiheadAttention> {
        let Self { dropout, batch_first, bias, .. } = *self;
        let options =
            MultiheadAttentionOptions { dropout, batch_first, bias, ..Default::default() };
        MultiheadAttention::with(d_model, nhead, options)
    }

    fn norm(&self, d_model: i64) -> Result<LayerNorm> {
        let (eps, bias) = (self.layer_norm_eps, self.bias);
        LayerNorm::with(&[d_model], LayerNormOptions { eps, bias, ..Default::default() })
    }
}

/// Self-attention and a feed-forward network, each with residual and normalisation.
#[doc = example!("let layer = TransformerEncoderLayer::new(8, 2)?;
let x = op::randn(&[5, 1, 8], None, None, None, None)?;
assert_eq!(layer.forward(&x)?.sizes(), x.sizes());")]
#[derive(Module)]
pub struct TransformerEncoderLayer {
    self_attn: MultiheadAttention,
    linear1: Linear,
    dropout: Dropout,
    linear2: Linear,
    norm1: LayerNorm,
    norm2: LayerNorm,
    dropout1: Dropout,
    dropout2: Dropout,
    #[module(skip)]
    options: TransformerLayerOptions,
    hooks: Hooks,
}

impl TransformerEncoderLayer {
    /// A layer over vectors of `d_model` elements.
    ///
    /// # Errors
    /// `Value` when the heads do not divide the width.
    pub fn new(d_model: i64, nhead: i64) -> Result<Self> {
        Self::with(d_model, nhead, TransformerLayerOptions::default())
    }

    /// With options.
    ///
    /// # Errors
    /// `Value` when the heads do not divide the width.
    pub fn with(d_model: i64, nhead: i64, options: TransformerLayerOptions) -> Result<Self> {
        let TransformerLayerOptions { dim_feedforward, dropout, bias, .. } = options;
        Ok(Self {
            self_attn: options.attention(d_model, nhead)?,
            linear1: Linear::with_bias(d_model, dim_feedforward, bias)?,
            dropout: Dropout::new(dropout)?,
            linear2: Linear::with_bias(dim_feedforward, d_model, bias)?,
            norm1: options.norm(d_model)?,
            norm2: options.norm(d_model)?,
            dropout1: Dropout::new(dropout)?,
            dropout2: Dropout::new(dropout)?,
            options,
            hooks: Hooks::default(),
        })
    }

    /// The layer under masks.
    ///
    /// # Errors
    /// For shapes that do not fit.
    pub fn forward_masked(&self, src: &Tensor, masks: AttentionMasks<'_>) -> Result<Tensor> {
        if self.options.norm_first {
            let x = (src + self.attend(&self.norm1.call(src)?, masks)?)?;
            let wide = self.feed(&self.norm2.call(&x)?)?;
            return x + wide;
        }
        let x = self.norm1.call(&(src + self.attend(src, masks)?)?)?;
        let wide = self.feed(&x)?;
        self.norm2.call(&(x + wide)?)
    }

    fn attend(&self, x: &Tensor, masks: AttentionMasks<'_>) -> Result<Tensor> {
        self.dropout1.call(&self.self_attn.attend(x, x, x, masks)?)
    }

    fn feed(&self, x: &Tensor) -> Result<Tensor> {
        let wide = self.options.activation.of(&self.linear1.call(x)?)?;
        self.dropout2.call(&self.linear2.call(&self.dropout.call(&wide)?)?)
    }
}

impl Forward for TransformerEncoderLayer {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        self.forward_masked(input, AttentionMasks::default())
    }
}

/// Self-attention, attention to the encoder's output and a feed-forward network.
#[doc = example!("let layer = TransformerDecoderLayer::new(8, 2)?;
let x = op::randn(&[5, 1, 8], None, None, None, None)?;
let memory = op::randn(&[7, 1, 8], None, None, None, None)?;
let y = layer.forward(&x, &memory, AttentionMasks::default(), AttentionMasks::default())?;
assert_eq!(y.sizes(), x.sizes());")]
#[derive(Module)]
pub struct TransformerDecoderLayer {
    self_attn: MultiheadAttention,
    multihead_attn: MultiheadAttention,
    linear1: Linear,
    dropout: Dropout,
    linear2: Linear,
    norm1: LayerNorm,
    norm2: LayerNorm,
    norm3: LayerNorm,
    dropout1: Dropout,
    dropout2: Dropout,
    dropout3: Dropout,
    #[module(skip)]
    options: TransformerLayerOptions,
}

impl TransformerDecoderLayer {
    /// A layer over vectors of `d_model` elements.
    ///
    /// # Errors
    /// `Value` when the heads do not divide the width.
    pub fn new(d_model: i64, nhead: i64) -> Result<Self> {
        Self::with(d_model, nhead, TransformerLayerOptions::default())
    }

    /// With options.
    ///
    /// # Errors
    /// `Value` when the heads do not divide the width.
    pub fn with(d_model: i64, nhead: i64, options: TransformerLayerOptions) -> Result<Self> {
        let TransformerLayerOptions { dim_feedforward, dropout, bias, .. } = options;
        Ok(Self {
            self_attn: options.attention(d_model, nhead)?,
            multihead_attn: options.attention(d_model, nhead)?,
            linear1: Linear::with_bias(d_model, dim_feedforward, bias)?,
            dropout: Dropout::new(dropout)?,
            linear2: Linear::with_bias(dim_feedforward, d_model, bias)?,
            norm1: options.norm(d_model)?,
            norm2: options.norm(d_model)?,
            norm3: options.norm(d_model)?,
            dropout1: Dropout::new(dropout)?,
            dropout2: Dropout::new(dropout)?,
            dropout3: Dropout::new(dropout)?,
            options,
        })
    }

    /// The layer over targets and the encoder's output, each under its masks.
    ///
    /// # Errors
    /// For shapes that do not fit.
    pub fn forward(
        &self,
        tgt: &Tensor,
        memory: &Tensor,
        tgt_masks: AttentionMasks<'_>,
        memory_masks: AttentionMasks<'_>,
    ) -> Result<Tensor> {
        if self.options.norm_first {
            let x = (tgt + self.attend(&self.norm1.call(tgt)?, tgt_masks)?)?;
            let seen = self.look(&self.norm2.call(&x)?, memory, memory_masks)?;
            let x = (x + seen)?;
            let wide = self.feed(&self.norm3.call(&x)?)?;
            return x + wide;
        }
        let x = self.norm1.call(&(tgt + self.attend(tgt, tgt_masks)?)?)?;
        let seen = self.look(&x, memory, memory_masks)?;
        let x = self.norm2.call(&(x + seen)?)?;
        let wide = self.feed(&x)?;
        self.norm3.call(&(x + wide)?)
    }

    fn attend(&self, x: &Tensor, masks: AttentionMasks<'_>) -> Result<Tensor> {
        self.dropout1.call(&self.self_attn.attend(x, x, x, masks)?)
    }

    fn look(&self, x: &Tensor, memory: &Tensor, masks: AttentionMasks<'_>) -> Result<Tensor> {
        self.dropout2.call(&self.multihead_attn.attend(x, memory, memory, masks)?)
    }

    fn feed(&self, x: &Tensor) -> Result<Tensor> {
        let wide = self.options.activation.of(&self.linear1.call(x)?)?;
        self.dropout3.call(&self.linear2.call(&self.dropout.call(&wide)?)?)
    }
}

/// Copies of a layer, which draw no random numbers.
fn copies<M: Module>(layer: &M, count: usize) -> Result<ModuleList<M>> {
    (0..count).map(|_| layer.deep_clone()).collect()
}

/// A stack of copies of one encoder layer.
#[doc = example!("let layer = TransformerEncoderLayer::new(8, 2)?;
let encoder = TransformerEncoder::new(&layer, 2, Some(LayerNorm::new(&[8])?))?;
let x = op::randn(&[5, 1, 8], None, None, None, None)?;
assert_eq!(encoder.forward(&x)?.sizes(), x.sizes());")]
#[derive(Module)]
pub struct TransformerEncoder {
    layers: ModuleList<TransformerEncoderLayer>,
    norm: Option<LayerNorm>,
    hooks: Hooks,
}

impl TransformerEncoder {
    /// Copies of a layer, and a normalisation of what they give.
    ///
    /// # Errors
    /// Those of the copies.
    pub fn new(
        layer: &TransformerEncoderLayer,
        num_layers: usize,
        norm: Option<LayerNorm>,
    ) -> Result<Self> {
        Ok(Self { layers: copies(layer, num_layers)?, norm, hooks: Hooks::default() })
    }

    /// The stack under masks. Rows of padding are computed as all others; PyTorch sets them to
    /// zero where it evaluates without gradients.
    ///
    /// # Errors
    /// For shapes that do not fit.
    pub fn forward_masked(&self, src: &Tensor, masks: AttentionMasks<'_>) -> Result<Tensor> {
        let output = self.layers.iter().try_fold(src.clone(), |x, layer| {
            // As `call`, with masks.
            match layer.hooks.present() {
                None => layer.forward_masked(&x, masks),
                Some(hooks) => hooks.around(&x, |x| layer.forward_masked(x, masks)),
            }
        })?;
        self.norm.as_ref().map_or(Ok(output.clone()), |norm| norm.call(&output))
    }
}

impl Forward for TransformerEncoder {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let output = self.layers.forward(input)?;
        self.norm.as_ref().map_or(Ok(output.clone()), |norm| norm.call(&output))
    }
}

/// A stack of copies of one decoder layer.
#[doc = example!("let layer = TransformerDecoderLayer::new(8, 2)?;
let decoder = TransformerDecoder::new(&layer, 2, None)?;
let x = op::randn(&[5, 1, 8], None, None, None, None)?;
let causal = AttentionMasks { is_causal: true, ..Default::default() };
let y = decoder.forward(&x, &x, causal, AttentionMasks::default())?;
assert_eq!(y.sizes(), x.sizes());")]
#[derive(Module)]
pub struct TransformerDecoder {
    layers: ModuleList<TransformerDecoderLayer>,
    norm: Option<LayerNorm>,
}

impl TransformerDecoder {
    /// Copies of a layer, and a normalisation of what they give.
    ///
    /// # Errors
    /// Those of the copies.
    pub fn new(
        layer: &TransformerDecoderLayer,
        num_layers: usize,
        norm: Option<LayerNorm>,
    ) -> Result<Self> {
        Ok(Self { layers: copies(layer, num_layers)?, norm })
    }

    /// The stack over targets and the encoder's output, each under its masks.
    ///
    /// # Errors
    /// For shapes that do not fit.
    pub fn forward(
        &self,
        tgt: &Tensor,
        memory: &Tensor,
        tgt_masks: AttentionMasks<'_>,
        memory_masks: AttentionMasks<'_>,
    ) -> Result<Tensor> {
        let output = self
            .layers
            .iter()
            .try_fold(tgt.clone(), |x, layer| layer.forward(&x, memory, tgt_masks, memory_masks))?;
        self.norm.as_ref().map_or(Ok(output.clone()), |norm| norm.call(&output))
    }
}

/// Options of [`Transformer`].
///
/// ```
/// assert_eq!(corten::nn::TransformerOptions::default().num_encoder_layers, 6);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TransformerOptions {
    /// Layers of the encoder.
    pub num_encoder_layers: usize,
    /// Layers of the decoder.
    pub num_decoder_layers: usize,
    /// Options of the layers.
    pub layer: TransformerLayerOptions,
}

impl Default for TransformerOptions {
    fn default() -> Self {
        let layer = TransformerLayerOptions::default();
        Self { num_encoder_layers: 6, num_decoder_layers: 6, layer }
    }
}

/// The masks of a [`Transformer`]: of its sources, its targets, and of the encoder's output.
///
/// ```
/// assert!(!corten::nn::TransformerMasks::default().tgt.is_causal);
/// ```
#[derive(Clone, Copy, Default)]
pub struct TransformerMasks<'a> {
    /// Among the sources.
    pub src: AttentionMasks<'a>,
    /// Among the targets.
    pub tgt: AttentionMasks<'a>,
    /// From the targets to the encoder's output.
    pub memory: AttentionMasks<'a>,
}

/// Encoder and decoder of "Attention Is All You Need".
#[doc = example!("let layer = TransformerLayerOptions { dim_feedforward: 16, ..Default::default() };
let options = TransformerOptions { num_encoder_layers: 1, num_decoder_layers: 1, layer };
let model = Transformer::with(8, 2, options)?;
let x = op::randn(&[5, 1, 8], None, None, None, None)?;
assert_eq!(model.forward(&x, &x, TransformerMasks::default())?.sizes(), x.sizes());")]
#[derive(Module)]
pub struct Transformer {
    encoder: TransformerEncoder,
    decoder: TransformerDecoder,
    d_model: i64,
    batch_first: bool,
}

impl Transformer {
    /// Six layers of 8 heads over vectors of 512 elements on either side.
    ///
    /// # Errors
    /// Those of the operators.
    pub fn new() -> Result<Self> {
        Self::with(512, 8, TransformerOptions::default())
    }

    /// With options.
    ///
    /// # Errors
    /// `Value` when the heads do not divide the width.
    pub fn with(d_model: i64, nhead: i64, options: TransformerOptions) -> Result<Self> {
        let TransformerOptions { num_encoder_layers, num_decoder_layers, layer } = options;
        let encoder_layer = TransformerEncoderLayer::with(d_model, nhead, layer)?;
        let norm = Some(layer.norm(d_model)?);
        let encoder = TransformerEncoder::new(&encoder_layer, num_encoder_layers, norm)?;
        let decoder_layer = TransformerDecoderLayer::with(d_model, nhead, layer)?;
        let norm = Some(layer.norm(d_model)?);
        let decoder = TransformerDecoder::new(&decoder_layer, num_decoder_layers, norm)?;
        let made = Self { encoder, decoder, d_model, batch_first: layer.batch_first };
        for parameter in made.parameters() {
            if parameter.dim() > 1 {
                init::xavier_uniform_(&parameter, 1.0)?;
            }
        }
        Ok(made)
    }

    /// What the decoder makes of targets and of what the encoder makes of sources.
    ///
    /// # Errors
    /// `Runtime` for shapes that do not fit.
    pub fn forward(
        &self,
        src: &Tensor,
        tgt: &Tensor,
        masks: TransformerMasks<'_>,
    ) -> Result<Tensor> {
        let batch = if self.batch_first { 0 } else { 1 };
        ensure!(
            src.dim() != 3 || src.size(batch)? == tgt.size(batch)?,
            Runtime,
            "the batch number of src and tgt must be equal"
        );
        ensure!(
            src.size(-1)? == self.d_model && tgt.size(-1)? == self.d_model,
            Runtime,
            "the feature number of src and tgt must be equal to d_model"
        );
        let memory = self.encoder.forward_masked(src, masks.src)?;
        self.decoder.forward(tgt, &memory, masks.tgt, masks.memory)
    }

    /// A mask under which each place sees those before it: −∞ above the diagonal.
    ///
    /// # Errors
    /// Those of the operators.
    pub fn generate_square_subsequent_mask(size: i64, dtype: Option<DType>) -> Result<Tensor> {
        let infinite = Scalar::Float(f64::NEG_INFINITY);
        op::triu(&op::full(&[size, size], infinite, dtype, None, None, None)?, 1)
    }
}
