//! What a model is made of: sizes, and how its architecture differs from others.

mod gguf;
mod hugging_face;

use crate::rope::Rope;
use corten::{Result, core::ensure};

pub(crate) use hugging_face::read_json;

/// A family of transformers.
///
/// ```
/// use corten_lm::Architecture;
///
/// assert_eq!(Architecture::of_name("qwen3"), Some(Architecture::Qwen3));
/// assert_eq!(Architecture::of_name("gemma3_text"), Some(Architecture::Gemma3));
/// assert_eq!(Architecture::of_name("bert"), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// Llama 1 to 3, Mistral, SmolLM.
    Llama,
    /// Qwen 2 and 2.5: biases of queries, keys and values.
    Qwen2,
    /// Qwen 3: normalised queries and keys.
    Qwen3,
    /// Gemma 2: soft caps, windows in every other layer, norms behind attention and feed-forward layers.
    Gemma2,
    /// Gemma 3: normalised queries and keys, windows in five of six layers.
    Gemma3,
}

impl Architecture {
    /// The architecture of a name in GGUF files or in `config.json`.
    pub fn of_name(name: &str) -> Option<Self> {
        Some(match name {
            "llama" | "mistral" | "smollm" => Self::Llama,
            "qwen2" => Self::Qwen2,
            "qwen3" => Self::Qwen3,
            "gemma2" => Self::Gemma2,
            "gemma3" | "gemma3_text" => Self::Gemma3,
            _ => return None,
        })
    }

    pub(crate) fn is_gemma(self) -> bool {
        matches!(self, Self::Gemma2 | Self::Gemma3)
    }
}

/// The function between the two halves of a feed-forward layer.
///
/// ```
/// let activation = corten_lm::Activation::Silu;
/// assert_ne!(activation, corten_lm::Activation::GeluTanh);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// SwiGLU.
    Silu,
    /// GeGLU, by the approximation of the tanh.
    GeluTanh,
}

/// The sizes and settings of a model.
///
/// ```
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/goldens/language_models/gemma3.gguf");
/// let file = corten::io::gguf::Opened::new(path)?;
/// let config = corten_lm::Config::from_gguf(&file)?;
/// assert_eq!(config.architecture, corten_lm::Architecture::Gemma3);
/// assert!(config.windowed[0]);
/// # Ok::<(), corten::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The architecture.
    pub architecture: Architecture,
    /// Elements of the hidden state.
    pub width: i64,
    /// Layers.
    pub layers: usize,
    /// Heads of queries.
    pub heads: i64,
    /// Heads of keys and values.
    pub kv_heads: i64,
    /// Elements of a head.
    pub head_width: i64,
    /// Tokens that the model was trained for.
    pub context: i64,
    /// What is added to mean squares.
    pub eps: f64,
    /// Rotary positions of layers that see all tokens.
    pub rope: Rope,
    /// Rotary positions of layers with a window.
    pub local_rope: Rope,
    /// Whether pairs that are turned are neighbours, as in GGUF files of Llama.
    pub interleaved: bool,
    /// Tokens that a windowed layer sees; 0 without windows.
    pub window: i64,
    /// Which layers have the window.
    pub windowed: Vec<bool>,
    /// What products of queries and keys are multiplied with.
    pub attention_scale: f64,
    /// The soft cap of scores; 0 for none.
    pub attention_soft_cap: f64,
    /// The soft cap of logits; 0 for none.
    pub logit_soft_cap: f64,
    /// What embeddings are multiplied with.
    pub embedding_scale: f64,
    /// The activation of feed-forward layers.
    pub activation: Activation,
}

impl Config {
    /// Refuses sizes that no model has, before they are divided by.
    fn checked(self) -> Result<Self> {
        let sizes = [self.width, self.heads, self.kv_heads, self.head_width, self.layers as i64];
        ensure!(
            sizes.iter().all(|size| (1..1 << 24).contains(size))
                && self.heads % self.kv_heads == 0
                && self.head_width % 2 == 0
                && self.window >= 0
                && self.rope.dims.is_multiple_of(2)
                && (2..=self.head_width as usize).contains(&self.rope.dims)
                && self.context > 0
                && self.windowed.len() == self.layers,
            Runtime,
            "the configuration is of no language model: {self:?}"
        );
        Ok(self)
    }

    /// The window of a layer; 0 where it sees all tokens.
    pub fn window_of(&self, layer: usize) -> i64 {
        if self.windowed.get(layer) == Some(&true) { self.window } else { 0 }
    }
}

/// Which layers have a window: the last of every `period` has none.
fn windowed_by(layers: usize, period: usize) -> Vec<bool> {
    (0..layers).map(|layer| (layer + 1) % period.max(1) != 0).collect()
}

/// Gemma's largest models divide scores by the root of the width per head, which is not the head's width.
fn scale_of(architecture: Architecture, layers: usize, width: i64, heads: i64, head: i64) -> f64 {
    let by_width = match architecture {
        Architecture::Gemma2 => layers == 46,
        Architecture::Gemma3 => layers == 62,
        _ => false,
    };
    let divisor = if by_width { width / heads.max(1) } else { head };
    1.0 / (divisor as f64).sqrt()
}
