//! Times of prompts and of tokens one by one, and where they go.

use crate::arguments::Arguments;
use crate::{cache, rate};
use corten::Result;
use corten::ops::profiler;
use corten_lm::LanguageModel;
use std::collections::BTreeMap;
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
    shares(model, arguments, &tokens)
}

/// Prints the shares of operators in the time of tokens one by one. What operators call counts as theirs.
fn shares(model: &LanguageModel, arguments: &Arguments, tokens: &[u32]) -> Result<()> {
    let mut cache = cache(model, arguments, tokens.len())?;
    model.forward(tokens, &mut cache)?;
    profiler::start(profiler::Options::default())?;
    let start = Instant::now();
    for token in 0..arguments.max_tokens as u32 {
        model.forward(&[token % tokens.len() as u32], &mut cache)?;
    }
    let all = start.elapsed().as_nanos() as f64;
    let mut shares: BTreeMap<String, (usize, f64)> = BTreeMap::new();
    for event in profiler::stop()?.events.into_iter().filter(|event| event.parent.is_none()) {
        let share = shares.entry(event.name).or_default();
        *share = (share.0 + 1, share.1 + (event.end - event.start) as f64 / all);
    }
    let known: f64 = shares.values().map(|share| share.1).sum();
    shares.insert("between operators".to_owned(), (0, 1.0 - known));
    let mut shares: Vec<(String, (usize, f64))> = shares.into_iter().collect();
    shares.sort_by(|a, b| b.1.1.total_cmp(&a.1.1));
    for (name, (count, share)) in shares {
        let count = count / arguments.max_tokens.max(1);
        println!("{:6.2} %  {count:4} times  {name}", share * 100.0);
    }
    Ok(())
}
