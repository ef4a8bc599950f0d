//! The layers of a transformer. Hidden states are in single precision; products are in the precision of weights.

use crate::cache::Slots;
use crate::config::{Activation, Config};
use crate::model::LoadOptions;
use crate::rope::Angles;
use crate::weights::Weights;
use corten::core::Scalar;
use corten::ops::blocks;
use corten::{DType, Result, Tensor, op};

/// A weight that rows are multiplied by, and a bias.
pub(crate) struct Matrix {
    weight: Tensor,
    bias: Option<Tensor>,
}

impl Matrix {
    pub(crate) fn of(weight: Tensor) -> Self {
        Self { weight, bias: None }
    }

    pub(crate) fn load(weights: &dyn Weights, name: &str, options: &LoadOptions) -> Result<Self> {
        let weight = quantised(weights.get(&format!("{name}.weight"))?, options)?;
        let bias = weights.find(&format!("{name}.bias"))?;
        let bias = bias.map(|bias| bias.to(DType::Float32)).transpose()?;
        Ok(Self { weight, bias })
    }

    pub(crate) fn features(&self) -> Result<i64> {
        self.weight.size(0)
    }

    /// The products with rows in single precision, in single precision.
    pub(crate) fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let dtype = self.weight.dtype();
        if dtype == DType::Float32 {
            return op::linear(x, &self.weight, self.bias.as_ref());
        }
        let made = op::linear(&x.to(dtype)?, &self.weight, None)?.to(DType::Float32)?;
        match &self.bias {
            Some(bias) => op::add_tensor(&made, bias, Scalar::Int(1)),
            None => Ok(made),
        }
    }
}

/// The weight in the format of the options, where it has none.
pub(crate) fn quantised(weight: Tensor, options: &LoadOptions) -> Result<Tensor> {
    match options.quantize {
        Some(format) if blocks::of(&weight).is_none() => {
            let columns = usize::try_from(weight.size(-1)?).unwrap_or(0);
            match format.row_bytes(columns) {
                Some(_) => blocks::quantize(&weight, format),
                None => Ok(weight),
            }
        }
        _ => Ok(weight),
    }
}

/// RMS normalisation by a weight.
pub(crate) struct Norm {
    weight: Tensor,
    eps: f64,
}

impl Norm {
    pub(crate) fn load(weights: &dyn Weights, name: &str, config: &Config) -> Result<Self> {
        let weight = weights.get(&format!("{name}.weight"))?.to(DType::Float32)?;
        Ok(Self { weight, eps: config.eps })
    }

    fn find(weights: &dyn Weights, name: &str, config: &Config) -> Result<Option<Self>> {
        let weight = weights.find(&format!("{name}.weight"))?;
        let weight = weight.map(|weight| weight.to(DType::Float32)).transpose()?;
        Ok(weight.map(|weight| Self { weight, eps: config.eps }))
    }

    pub(crate) fn forward(&self, x: &Tensor) -> Result<Tensor> {
        op::fused_rms_norm(x, Some(&self.weight), self.eps, None)
    }

    /// What is normalised added to a residual.
    fn add_to(&self, residual: &Tensor, x: &Tensor) -> Result<Tensor> {
        op::fused_rms_norm(x, Some(&self.weight), self.eps, Some(residual))
    }
}

/// `residual + x`, with `x` normalised where there is a norm.
fn joined(norm: Option<&Norm>, residual: &Tensor, x: &Tensor) -> Result<Tensor> {
    match norm {
        Some(norm) => norm.add_to(residual, x),
        None => op::add_tensor(residual, x, Scalar::Int(1)),
    }
}

/// Cosines and sines for the tokens of a call, and how pairs lie.
pub(crate) struct Turns {
    pub(crate) tables: [Tensor; 2],
    pub(crate) interleaved: bool,
}

impl Turns {
    pub(crate) fn of(angles: &Angles, slots: &Slots<'_>, interleaved: bool) -> Result<Self> {
        let leading = [slots.batch, slots.tokens, 1];
        Ok(Self { tables: angles.at(&slots.positions(), &leading)?, interleaved })
    }

    fn apply(&self, x: &Tensor) -> Result<Tensor> {
        let [cos, sin] = &self.tables;
        op::rotary_embedding(x, cos, sin, self.interleaved)
    }
}

/// Attention over a cache.
pub(crate) struct Attention {
    query: Matrix,
    key: Matrix,
    value: Matrix,
    out: Matrix,
    query_norm: Option<Norm>,
    key_norm: Option<Norm>,
    window: i64,
    scale: f64,
    soft_cap: f64,
    head_width: i64,
}

impl Attention {
    fn load(
        weights: &dyn Weights,
        layer: usize,
        config: &Config,
        options: &LoadOptions,
    ) -> Result<Self> {
        let matrix = |name| Matrix::load(weights, &format!("blk.{layer}.attn_{name}"), options);
        let norm = |name| Norm::find(weights, &format!("blk.{layer}.attn_{name}"), config);
        Ok(Self {
            query: matrix("q")?,
            key: matrix("k")?,
            value: matrix("v")?,
            out: matrix("output")?,
            query_norm: norm("q_norm")?,
            key_norm: norm("k_norm")?,
            window: config.window_of(layer),
            scale: config.attention_scale,
            soft_cap: config.attention_soft_cap,
            head_width: config.head_width,
        })
    }

    fn forward(
        &self,
        x: &Tensor,
        layer: usize,
        slots: &Slots<'_>,
        turns: &Turns,
    ) -> Result<Tensor> {
        let heads = |x: Tensor| op::view(&x, &[slots.batch, slots.tokens, -1, self.head_width]);
        let normed = |norm: &Option<Norm>, x: Tensor| match norm {
            Some(norm) => norm.forward(&x),
            None => Ok(x),
        };
        let by_head = |x: Tensor| op::transpose_int(&x, 1, 2);
        let query = normed(&self.query_norm, heads(self.query.forward(x)?)?)?;
        let key = normed(&self.key_norm, heads(self.key.forward(x)?)?)?;
        let value = heads(self.value.forward(x)?)?;
        slots.write(layer, &by_head(turns.apply(&key)?)?, &by_head(value)?)?;
        let query = by_head(turns.apply(&query)?)?;
        let seen = slots.attend(layer, &query, self.scale, self.window, self.soft_cap)?;
        let seen = op::reshape(&by_head(seen)?, &[slots.batch * slots.tokens, -1])?;
        self.out.forward(&seen)
    }
}

/// A gated feed-forward layer.
pub(crate) struct FeedForward {
    gate: Matrix,
    up: Matrix,
    down: Matrix,
    activation: Activation,
}

impl FeedForward {
    fn load(
        weights: &dyn Weights,
        layer: usize,
        config: &Config,
        options: &LoadOptions,
    ) -> Result<Self> {
        let matrix = |name| Matrix::load(weights, &format!("blk.{layer}.ffn_{name}"), options);
        let (gate, up, down) = (matrix("gate")?, matrix("up")?, matrix("down")?);
        Ok(Self { gate, up, down, activation: config.activation })
    }

    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let (gate, up) = (self.gate.forward(x)?, self.up.forward(x)?);
        let wide = match self.activation {
            Activation::Silu => op::swiglu(&gate, &up)?,
            Activation::GeluTanh => op::geglu(&gate, &up)?,
        };
        self.down.forward(&wide)
    }
}

/// A layer of a transformer.
pub(crate) struct Layer {
    attention_norm: Norm,
    attention: Attention,
    post_attention_norm: Option<Norm>,
    feed_forward_norm: Norm,
    feed_forward: FeedForward,
    post_feed_forward_norm: Option<Norm>,
}

impl Layer {
    pub(crate) fn load(
        weights: &dyn Weights,
        layer: usize,
        config: &Config,
        options: &LoadOptions,
    ) -> Result<Self> {
        let name = |part: &str| format!("blk.{layer}.{part}");
        Ok(Self {
            attention_norm: Norm::load(weights, &name("attn_norm"), config)?,
            attention: Attention::load(weights, layer, config, options)?,
            post_attention_norm: Norm::find(weights, &name("post_attention_norm"), config)?,
            feed_forward_norm: Norm::load(weights, &name("ffn_norm"), config)?,
            feed_forward: FeedForward::load(weights, layer, config, options)?,
            post_feed_forward_norm: Norm::find(weights, &name("post_ffw_norm"), config)?,
        })
    }

    pub(crate) fn forward(
        &self,
        x: &Tensor,
        layer: usize,
        slots: &Slots<'_>,
        turns: &Turns,
    ) -> Result<Tensor> {
        let seen = self.attention.forward(&self.attention_norm.forward(x)?, layer, slots, turns)?;
        let x = joined(self.post_attention_norm.as_ref(), x, &seen)?;
        let made = self.feed_forward.forward(&self.feed_forward_norm.forward(&x)?)?;
        joined(self.post_feed_forward_norm.as_ref(), &x, &made)
    }
}
