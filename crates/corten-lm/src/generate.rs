//! Text that a model continues, token by token.

use crate::cache::{Cache, CacheOptions};
use crate::model::LanguageModel;
use crate::sample::{Sampler, Sampling};
use crate::tokenizer::{TextStream, Tokenizer};
use corten::Result;
use corten::core::ensure;

/// A token that was chosen, and the text that became complete by it.
///
/// ```
/// let piece = corten_lm::Piece { token: 3, text: " and".to_owned() };
/// assert_eq!(piece.text.trim(), "and");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The token.
    pub token: u32,
    /// Its text; empty while a character is not complete.
    pub text: String,
}

/// An iterator over the tokens that a model puts behind a prompt. It ends with a token that ends texts, or where the
/// cache is full.
///
/// ```
/// use corten_lm::{Generation, LanguageModel, Sampling, Tokenizer};
///
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/goldens/language_models/gemma3.gguf");
/// let file = corten::io::gguf::Opened::new(path)?;
/// let (model, tokenizer) = (LanguageModel::from_gguf(&file)?, Tokenizer::from_gguf(&file)?);
/// let generation = Generation::of(&model, &tokenizer, "ab", Sampling::greedy())?;
/// assert!(generation.take(3).all(|piece| piece.is_ok()));
/// # Ok::<(), corten::Error>(())
/// ```
pub struct Generation<'a> {
    model: &'a LanguageModel,
    tokenizer: &'a Tokenizer,
    cache: Cache,
    sampler: Sampler,
    stream: TextStream<'a>,
    /// The prompt and what was chosen.
    tokens: Vec<u32>,
    /// Of these the model has seen so many.
    seen: usize,
    has_ended: bool,
}

impl<'a> Generation<'a> {
    /// A continuation of a prompt, with a cache in half precision for as many tokens as the model was trained for, of
    /// which 4096 at most.
    ///
    /// # Errors
    /// `Value` for a prompt without tokens, or one that is longer than the cache.
    pub fn of(
        model: &'a LanguageModel,
        tokenizer: &'a Tokenizer,
        prompt: &str,
        sampling: Sampling,
    ) -> Result<Self> {
        let capacity = model.config().context.clamp(1, 4096) as usize;
        let options = CacheOptions { capacity, ..CacheOptions::default() };
        let cache = Cache::new(model.config(), options)?;
        Self::behind(model, tokenizer, tokenizer.encode(prompt, true), sampling, cache)
    }

    /// A continuation of tokens, with a cache that has the first of them: as many as its first sequence.
    ///
    /// # Errors
    /// `Value` for no tokens, or where the cache has all of them or no room for them.
    pub fn behind(
        model: &'a LanguageModel,
        tokenizer: &'a Tokenizer,
        tokens: Vec<u32>,
        sampling: Sampling,
        cache: Cache,
    ) -> Result<Self> {
        let seen = cache.len(0);
        ensure!(
            tokens.len() > seen && tokens.len() - seen <= cache.room(0),
            Value,
            "a prompt of {} tokens does not fit behind the {seen} of a cache with room for {}",
            tokens.len(),
            cache.room(0)
        );
        let (sampler, stream) = (Sampler::new(sampling), TextStream::new(tokenizer));
        Ok(Self { model, tokenizer, cache, sampler, stream, tokens, seen, has_ended: false })
    }

    /// The tokens of the prompt and those that were chosen.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// The cache, to continue later.
    pub fn into_cache(self) -> Cache {
        self.cache
    }

    fn step(&mut self) -> Result<u32> {
        let logits = self.model.forward(&self.tokens[self.seen..], &mut self.cache)?;
        self.seen = self.tokens.len();
        let token = self.sampler.pick(&logits, &self.tokens)?;
        self.tokens.push(token);
        Ok(token)
    }
}

impl Iterator for Generation<'_> {
    type Item = Result<Piece>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_ended || self.cache.room(0) < self.tokens.len() - self.seen {
            return None;
        }
        let token = match self.step() {
            Ok(token) => token,
            Err(error) => {
                self.has_ended = true;
                return Some(Err(error));
            }
        };
        if self.tokenizer.ends_text(token) {
            self.has_ended = true;
            return None;
        }
        Some(Ok(Piece { token, text: self.stream.push(token) }))
    }
}
