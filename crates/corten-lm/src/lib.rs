//! Language models: transformers whose weights are in GGUF files or Hugging Face folders.
//!
//! A [`LanguageModel`] computes logits for tokens behind those that a [`Cache`] holds. A [`Tokenizer`] makes tokens of
//! text and text of tokens, a [`Sampler`] chooses among logits, and [`Generation`] puts them together.
//!
//! ```
//! use corten_lm::{Generation, LanguageModel, Sampling, Tokenizer};
//!
//! # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/goldens/language_models/gemma3.gguf");
//! let file = corten::io::gguf::Opened::new(path)?;
//! let (model, tokenizer) = (LanguageModel::from_gguf(&file)?, Tokenizer::from_gguf(&file)?);
//! let mut text = String::new();
//! for piece in Generation::of(&model, &tokenizer, "ab", Sampling::greedy())?.take(4) {
//!     text += &piece?.text;
//! }
//! # Ok::<(), corten::Error>(())
//! ```
//!
//! The architectures are those of Llama, Qwen 2 and 3, and Gemma 2 and 3. Weights in GGML's block formats are
//! multiplied as they are; docs/language_models.md has figures.

mod cache;
mod config;
mod generate;
mod layers;
mod model;
mod rope;
mod sample;
mod tokenizer;
mod weights;

pub use cache::{Cache, CacheOptions};
pub use config::{Activation, Architecture, Config};
pub use generate::{Generation, Piece};
pub use model::{LanguageModel, LoadOptions};
pub use rope::{Llama3, Rope, RopeScaling, Yarn};
pub use sample::{Sampler, Sampling};
pub use tokenizer::{TextStream, Tokenizer};

/// The examples of the documents, so that they are run with the tests.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../../../docs/language_models.md")]
    struct LanguageModels;
}
