//! Times of prompts and of tokens one by one.

use crate::arguments::Arguments;
use crate::{cache, rate};
use corten::Result;
use corten_lm::LanguageModel;
use std::time::Instant;

/// Times of each that are taken; the best counts.
const ROUNDS: usize = 5;

/// Prints how many tokens of a prompt, and behind it, are computed in a second.
pub(crate) fn run(model: &LanguageModel, arguments: &Arguments, prompt: usize) -> Result<()> {
    let count = model.vocabulary()? as u32;
    let tokens: Vec<u32> = (0..prompt.max(1) as u32).map(|i| (i * 7919 + 13) % count).collect();
    let (mut prefill, mut decode) = (0.0f64, 0.0f64);
    for _ in 0..ROUNDS {
        let mut cache = cache(model, arguments, tokens.len())?;
        let start = Instant::now();
        model.forward(&tokens, &mut cache)?;
        prefill = prefill.max(rate(tokens.len(), start.elapsed()));
        let start = Instant::now();
        for token in 0..arguments.max_tokens as u32 {
            model.forward(&[token % count], &mut cache)?;
        }
        decode = decode.max(rate(arguments.max_tokens, start.elapsed()));
    }
    println!(
        "{} threads: prompt of {} tokens {prefill:.1} tokens/s, {} tokens behind it {decode:.1} tokens/s",
        corten::ops::parallel::num_threads(),
        tokens.len(),
        arguments.max_tokens
    );
    Ok(())
}
