//! Whole models.

use crate::cache::Cache;
use crate::config::Config;
use crate::layers::{Layer, Matrix, Norm, Turns, quantised};
use crate::rope::Angles;
use crate::weights::{Folder, Weights};
use corten::blocks::Format;
use corten::core::{Scalar, ensure};
use corten::io::gguf;
use corten::{DType, Result, Tensor, inference_mode, op};
use std::path::Path;

/// How weights are loaded.
///
/// ```
/// use corten::blocks::Format;
/// use corten_lm::LoadOptions;
///
/// let options = LoadOptions { quantize: Some(Format::Q8_0) };
/// assert_ne!(options.quantize, LoadOptions::default().quantize);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct LoadOptions {
    /// The block format that weights in floating-point numbers are quantised to; as they are without.
    pub quantize: Option<Format>,
}

/// Tokens of a prompt that are computed at once: more would not be faster, and take memory.
const CHUNK: usize = 512;

/// A transformer that computes the logits of the next token.
///
/// ```
/// use corten_lm::{Cache, CacheOptions, LanguageModel};
///
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/goldens/language_models/gemma3.gguf");
/// let model = LanguageModel::from_gguf(&corten::io::gguf::Opened::new(path)?)?;
/// let mut cache = Cache::new(model.config(), CacheOptions::default())?;
/// let logits = model.forward(&[5, 7, 9], &mut cache)?;
/// assert_eq!(logits.sizes().to_vec(), [1, model.vocabulary()? as i64]);
/// # Ok::<(), corten::Error>(())
/// ```
pub struct LanguageModel {
    config: Config,
    embedding: Tensor,
    layers: Vec<Layer>,
    norm: Norm,
    head: Matrix,
    /// Of layers that see all tokens, and of windowed ones.
    angles: [Angles; 2],
}

impl LanguageModel {
    /// A model over the weights of a GGUF file, which stay where they are.
    ///
    /// # Errors
    /// Those of [`Config::from_gguf`], and `Runtime` where weights are missing.
    pub fn from_gguf(file: &gguf::Opened) -> Result<Self> {
        Self::load(Config::from_gguf(file)?, file, &LoadOptions::default())
    }

    /// A model of a folder of Hugging Face: `config.json` and safetensors.
    ///
    /// # Errors
    /// Those of [`Config::from_hugging_face`], and `Runtime` where weights are missing.
    pub fn from_hugging_face(folder: impl AsRef<Path>, options: &LoadOptions) -> Result<Self> {
        let config = Config::from_hugging_face(&folder)?;
        let weights = Folder::open(folder.as_ref(), config.architecture)?;
        Self::load(config, &weights, options)
    }

    fn load(config: Config, weights: &dyn Weights, options: &LoadOptions) -> Result<Self> {
        let embedding = quantised(weights.get("token_embd.weight")?, options)?;
        ensure!(
            embedding.dim() == 2 && embedding.size(1)? == config.width,
            Runtime,
            "the embeddings are of size {:?}, but the model's width is {}",
            embedding.sizes().as_slice(),
            config.width
        );
        let head = match weights.find("output.weight")? {
            Some(_) => Matrix::load(weights, "output", options)?,
            None => Matrix::of(embedding.clone()),
        };
        let layers = (0..config.layers).map(|layer| Layer::load(weights, layer, &config, options));
        Ok(Self {
            layers: layers.collect::<Result<_>>()?,
            norm: Norm::load(weights, "output_norm", &config)?,
            angles: [config.rope.angles(), config.local_rope.angles()],
            config,
            embedding,
            head,
        })
    }

    /// The sizes and settings.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// How many tokens there are.
    ///
    /// # Errors
    /// None for a model that was loaded.
    pub fn vocabulary(&self) -> Result<usize> {
        Ok(self.head.features()? as usize)
    }

    /// The logits behind the last of some tokens, which follow those of the first sequence of a cache: a tensor of
    /// shape (1, vocabulary). Many tokens are computed in chunks.
    ///
    /// # Errors
    /// `Value` for no tokens, `Index` for tokens that are none of the vocabulary, or where the cache has no room.
    pub fn forward(&self, tokens: &[u32], cache: &mut Cache) -> Result<Tensor> {
        ensure!(!tokens.is_empty(), Value, "a model is given at least one token");
        let room = cache.room(0);
        ensure!(
            tokens.len() <= room,
            Index,
            "{} tokens do not fit into the cache, which has room for {room}",
            tokens.len()
        );
        inference_mode(|| {
            let last = (tokens.len() - 1) / CHUNK * CHUNK;
            for chunk in tokens[..last].chunks(CHUNK) {
                self.hidden(chunk, cache, &[0])?;
            }
            let hidden = self.hidden(&tokens[last..], cache, &[0])?;
            self.logits(&op::narrow(&hidden, 0, hidden.size(0)? - 1, 1)?)
        })
    }

    /// The logits behind every one of some tokens: a tensor of shape (tokens, vocabulary).
    ///
    /// # Errors
    /// As [`forward`](Self::forward).
    pub fn forward_all(&self, tokens: &[u32], cache: &mut Cache) -> Result<Tensor> {
        ensure!(!tokens.is_empty(), Value, "a model is given at least one token");
        inference_mode(|| self.logits(&self.hidden(tokens, cache, &[0])?))
    }

    /// The logits behind one new token of each of some sequences: a tensor of shape (sequences, vocabulary).
    ///
    /// # Errors
    /// `Value` for lists of different lengths, and where a cache without pages is used by sequences that do not follow
    /// each other; `Index` as for [`forward`](Self::forward).
    pub fn decode(&self, sequences: &[usize], tokens: &[u32], cache: &mut Cache) -> Result<Tensor> {
        ensure!(
            !tokens.is_empty() && sequences.len() == tokens.len(),
            Value,
            "{} tokens cannot be given to {} sequences one by one",
            tokens.len(),
            sequences.len()
        );
        inference_mode(|| self.logits(&self.hidden(tokens, cache, sequences)?))
    }

    /// The hidden states behind new tokens, the same number for each sequence: (tokens, width).
    fn hidden(&self, tokens: &[u32], cache: &mut Cache, sequences: &[usize]) -> Result<Tensor> {
        let ids: Vec<i64> = tokens.iter().map(|&token| i64::from(token)).collect();
        let rows = self.embedding.size(0)?;
        if let Some(id) = ids.iter().find(|&&id| id >= rows) {
            corten::core::bail!(Index, "token {id} is none of a vocabulary of {rows}")
        }
        let ids = Tensor::from_vec(ids, &[tokens.len() as i64])?;
        let count = (tokens.len() / sequences.len()) as i64;
        let slots = cache.slots(sequences, count)?;
        let mut x = op::embedding(&self.embedding, &ids, -1, false, false)?.to(DType::Float32)?;
        if self.config.embedding_scale != 1.0 {
            x = op::mul_scalar(&x, Scalar::from(self.config.embedding_scale))?;
        }
        let [global, local] = &self.angles;
        let interleaved = self.config.interleaved;
        let turns =
            [Turns::of(global, &slots, interleaved)?, Turns::of(local, &slots, interleaved)?];
        for (number, layer) in self.layers.iter().enumerate() {
            let turns = &turns[usize::from(self.config.window_of(number) > 0)];
            x = layer.forward(&x, number, &slots, turns)?;
        }
        cache.advance(sequences, count);
        Ok(x)
    }

    fn logits(&self, hidden: &Tensor) -> Result<Tensor> {
        let logits = self.head.forward(&self.norm.forward(hidden)?)?;
        let cap = self.config.logit_soft_cap;
        if cap == 0.0 {
            return Ok(logits);
        }
        let capped = op::tanh(&op::mul_scalar(&logits, Scalar::from(1.0 / cap))?)?;
        op::mul_scalar(&capped, Scalar::from(cap))
    }
}
