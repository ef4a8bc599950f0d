//! A language model continues a prompt: `llama MODEL -p PROMPT [options]`.
//!
//! `MODEL` is a GGUF file or a folder of Hugging Face. [`arguments`] has the options.
#![allow(clippy::print_stdout)]

mod arguments;
mod bench;

use arguments::Arguments;
use corten::Result;
use corten::io::gguf;
use corten_lm::{Cache, CacheOptions, Generation, LanguageModel, LoadOptions, Tokenizer};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

fn main() -> ExitCode {
    let arguments = match Arguments::parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::from(2);
        }
    };
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    if let Some(threads) = arguments.threads {
        corten::ops::parallel::set_num_threads(threads);
    }
    let (model, tokenizer) = load(arguments)?;
    if let Some(tokens) = arguments.bench {
        return bench::run(&model, arguments, tokens);
    }
    generate(&model, &tokenizer, arguments)
}

fn load(arguments: &Arguments) -> Result<(LanguageModel, Tokenizer)> {
    let path = Path::new(&arguments.model);
    if path.is_dir() {
        let options = LoadOptions { quantize: arguments.quantize };
        let model = LanguageModel::from_hugging_face(path, &options)?;
        return Ok((model, Tokenizer::from_hugging_face(path)?));
    }
    let file = gguf::Opened::new(path)?;
    Ok((LanguageModel::from_gguf(&file)?, Tokenizer::from_gguf(&file)?))
}

/// A cache for a prompt of so many tokens and what is put behind it.
fn cache(model: &LanguageModel, arguments: &Arguments, prompt: usize) -> Result<Cache> {
    let capacity = prompt + arguments.max_tokens + 1;
    let options = CacheOptions { dtype: arguments.cache, capacity, ..CacheOptions::default() };
    Cache::new(model.config(), options)
}

fn generate(model: &LanguageModel, tokenizer: &Tokenizer, arguments: &Arguments) -> Result<()> {
    let tokens = tokenizer.encode(&arguments.prompt, true);
    let (prompt, cache) = (tokens.len(), cache(model, arguments, tokens.len())?);
    let generation = Generation::behind(model, tokenizer, tokens, arguments.sampling, cache)?;
    let start = Instant::now();
    let (mut first, mut chosen) = (None, Vec::new());
    for piece in generation.take(arguments.max_tokens) {
        let piece = piece?;
        first.get_or_insert_with(|| start.elapsed());
        chosen.push(piece.token);
        if !arguments.prints_tokens {
            print!("{}", piece.text);
            std::io::stdout().flush().ok();
        }
    }
    if arguments.prints_tokens {
        print!("{chosen:?}");
    }
    println!();
    let first = first.unwrap_or_default();
    eprintln!(
        "{prompt} tokens of the prompt: {:.1} tokens/s; {} tokens behind it: {:.1} tokens/s",
        rate(prompt, first),
        chosen.len(),
        rate(chosen.len().saturating_sub(1), start.elapsed().saturating_sub(first)),
    );
    Ok(())
}

/// How many in a second.
fn rate(count: usize, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64().max(1e-9)
}
