//! The options of the command line.

use corten::DType;
use corten::blocks::Format;
use corten_lm::Sampling;

const USAGE: &str = "\
llama MODEL -p PROMPT [options]

MODEL                  a GGUF file, or a folder of Hugging Face
-p, --prompt TEXT      what is continued
--max-tokens N         tokens behind the prompt (128)
--temperature T        what logits are divided by; 0 takes the most likely token (0)
--top-k N, --top-p P, --min-p P
                       leave out the less likely tokens
--repetition-penalty R what logits of tokens that were seen are divided by (1)
--seed N               of the random numbers (0)
--threads N            threads of kernels
--cache DTYPE          f32, f16, bf16 or int8: the cache of keys and values (f16)
--quantize FORMAT      weights of a folder are quantised to a block format, such as Q8_0
--tokens               prints the numbers of tokens
--bench N              times a prompt of N tokens and --max-tokens behind it";

/// What the command line says.
pub(crate) struct Arguments {
    pub(crate) model: String,
    pub(crate) prompt: String,
    pub(crate) max_tokens: usize,
    pub(crate) sampling: Sampling,
    pub(crate) threads: Option<usize>,
    pub(crate) cache: DType,
    pub(crate) quantize: Option<Format>,
    pub(crate) prints_tokens: bool,
    pub(crate) bench: Option<usize>,
}

impl Arguments {
    /// Reads the command line; the error is what to print.
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut made = Self {
            model: String::new(),
            prompt: String::new(),
            max_tokens: 128,
            sampling: Sampling::greedy(),
            threads: None,
            cache: DType::Float16,
            quantize: None,
            prints_tokens: false,
            bench: None,
        };
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("{word} takes a value\n\n{USAGE}"));
            match word.as_str() {
                "-h" | "--help" => return Err(USAGE.to_owned()),
                "-p" | "--prompt" => made.prompt = value()?,
                "--max-tokens" => made.max_tokens = number(&value()?)?,
                "--temperature" => made.sampling.temperature = number(&value()?)?,
                "--top-k" => made.sampling.top_k = number(&value()?)?,
                "--top-p" => made.sampling.top_p = number(&value()?)?,
                "--min-p" => made.sampling.min_p = number(&value()?)?,
                "--repetition-penalty" => made.sampling.repetition_penalty = number(&value()?)?,
                "--seed" => made.sampling.seed = number(&value()?)?,
                "--threads" => made.threads = Some(number(&value()?)?),
                "--cache" => made.cache = dtype(&value()?)?,
                "--quantize" => {
                    let name = value()?;
                    let format = Format::of_name(&name);
                    made.quantize = Some(format.ok_or(format!("there is no format {name:?}"))?);
                }
                "--tokens" => made.prints_tokens = true,
                "--bench" => made.bench = Some(number(&value()?)?),
                _ if word.starts_with('-') || !made.model.is_empty() => {
                    return Err(format!("unknown argument {word:?}\n\n{USAGE}"));
                }
                _ => made.model = word,
            }
        }
        if made.model.is_empty() {
            return Err(USAGE.to_owned());
        }
        Ok(made)
    }
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text:?} is no number that fits\n\n{USAGE}"))
}

fn dtype(name: &str) -> Result<DType, String> {
    Ok(match name {
        "f32" => DType::Float32,
        "f16" => DType::Float16,
        "bf16" => DType::BFloat16,
        "int8" => DType::Int8,
        _ => return Err(format!("there is no cache of {name:?}\n\n{USAGE}")),
    })
}
