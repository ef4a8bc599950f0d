//! The tokenizer of a GGUF file.

use super::merge::Merges;
use super::split::Splitter;
use super::{Algorithm, Purpose, Spelling, Tokenizer};
use corten::Result;
use corten::core::{bail, ensure, err};
use corten::io::{Value, gguf::Opened};
use std::collections::HashMap;

/// Kinds of tokens in the metadata.
const CONTROL: i64 = 3;
const USER_DEFINED: i64 = 4;
const BYTE: i64 = 6;

fn list<'a>(file: &'a Opened, key: &str) -> Option<&'a [Value]> {
    match file.get(&format!("tokenizer.ggml.{key}")) {
        Some(Value::List(values)) => Some(values),
        _ => None,
    }
}

fn number(file: &Opened, key: &str) -> Option<f64> {
    file.get(&format!("tokenizer.ggml.{key}")).and_then(Value::number)
}

fn text<'a>(file: &'a Opened, key: &str) -> Option<&'a str> {
    match file.get(&format!("tokenizer.ggml.{key}")) {
        Some(Value::Text(text)) => Some(text),
        _ => None,
    }
}

impl Tokenizer {
    /// The tokenizer in the metadata of a GGUF file: `llama` (SentencePiece), `gpt2` (byte-level) or `t5` (unigram).
    ///
    /// # Errors
    /// `Runtime` where metadata are missing, `NotImplemented` for other kinds of tokenizers.
    pub fn from_gguf(file: &Opened) -> Result<Self> {
        let texts = list(file, "tokens");
        let texts = texts.ok_or_else(|| err!(Runtime, "the file has no vocabulary"))?;
        let texts = texts.iter().map(|text| match text {
            Value::Text(text) => Ok(text.clone()),
            other => Err(err!(Runtime, "the vocabulary has the token {other:?}")),
        });
        let texts = texts.collect::<Result<Vec<String>>>()?;
        let scores = || -> Vec<f32> {
            let scores = list(file, "scores").unwrap_or(&[]);
            scores.iter().map(|score| score.number().unwrap_or(0.0) as f32).collect()
        };
        let kind = text(file, "model").unwrap_or("llama");
        let (algorithm, spelling) = match kind {
            "llama" => (Algorithm::Scores(scores()), Spelling::Blanks),
            "t5" => (Algorithm::Unigram(scores()), Spelling::Blanks),
            "gpt2" => {
                let splitter = splitter_of(text(file, "pre").unwrap_or("default"))?;
                (Algorithm::Ranks(merges_of(file, &texts)?), Spelling::Bytes(splitter))
            }
            other => bail!(NotImplemented, "tokenizers of the kind {other:?} are not known"),
        };
        let is_sentence_piece = spelling == Spelling::Blanks;
        let mut made = Self::over(texts, algorithm, spelling)?;
        made.takes_whole_words = made.spelling == Spelling::Bytes(Splitter::Llama3);
        made.set_settings(file, is_sentence_piece);
        made.set_purposes(file);
        Ok(made.finish())
    }

    fn set_settings(&mut self, file: &Opened, is_sentence_piece: bool) {
        let id = |key| number(file, key).map(|id| id as u32);
        let flag = |key, default| number(file, key).map_or(default, |flag| flag != 0.0);
        self.begin = id("bos_token_id").or(is_sentence_piece.then_some(1));
        self.end = id("eos_token_id").or(is_sentence_piece.then_some(2));
        self.unknown = id("unknown_token_id").or(is_sentence_piece.then_some(0));
        self.ends.extend(id("eot_token_id"));
        self.adds_blank = flag("add_space_prefix", is_sentence_piece) && is_sentence_piece;
        self.adds_begin = flag("add_bos_token", is_sentence_piece || self.takes_whole_words);
        self.adds_end = flag("add_eos_token", false);
    }

    fn set_purposes(&mut self, file: &Opened) {
        let kinds = list(file, "token_type").unwrap_or(&[]);
        for (id, kind) in kinds.iter().enumerate().take(self.texts.len()) {
            let (id, text) = (id as u32, self.texts[id].clone());
            match kind.number().unwrap_or(1.0) as i64 {
                CONTROL => {
                    self.set_purpose(id, Purpose::Control);
                    self.add(&text, id);
                }
                USER_DEFINED => self.add(&text, id),
                BYTE => {
                    let byte = text.strip_prefix("<0x").and_then(|text| text.strip_suffix('>'));
                    let byte = byte.and_then(|byte| u8::from_str_radix(byte, 16).ok());
                    if let Some(byte) = byte {
                        self.set_purpose(id, Purpose::Byte(byte));
                    }
                }
                _ => {}
            }
        }
    }
}

fn splitter_of(name: &str) -> Result<Splitter> {
    Ok(match name {
        "gpt-2" | "phi-2" | "gpt2" | "mpt" | "olmo" | "jais" | "roberta-bpe" => Splitter::Gpt2,
        "smollm" | "refact" | "starcoder" | "command-r" | "codeshell" => Splitter::SingleDigits,
        "llama-bpe" | "llama3" | "llama-v3" | "falcon3" | "pixtral" | "dbrx" | "smaug-bpe" => {
            Splitter::Llama3
        }
        "qwen2" | "deepseek-r1-qwen" | "stablelm2" | "hunyuan" | "megrez" => Splitter::Qwen2,
        other => bail!(NotImplemented, "texts are cut into words by unknown rules: {other:?}"),
    })
}

fn merges_of(file: &Opened, texts: &[String]) -> Result<Merges> {
    let ids: HashMap<&str, u32> =
        texts.iter().enumerate().map(|(id, text)| (text.as_str(), id as u32)).collect();
    let merges = list(file, "merges").unwrap_or(&[]);
    ensure!(!merges.is_empty(), Runtime, "the file has no merges of tokens");
    let mut made = Merges::with_capacity(merges.len());
    for (rank, merge) in merges.iter().enumerate() {
        let Value::Text(merge) = merge else { continue };
        // The first character is no separator: it may be a blank that is spelled as one.
        let Some((left, right)) = merge.split_once(' ') else { continue };
        insert(&mut made, &|text| ids.get(text).copied(), [left, right], rank);
    }
    Ok(made)
}

/// Adds a merge whose parts and whole are tokens.
pub(super) fn insert(
    merges: &mut Merges,
    id: &dyn Fn(&str) -> Option<u32>,
    [left, right]: [&str; 2],
    rank: usize,
) {
    let whole = id(&format!("{left}{right}"));
    if let (Some(left), Some(right), Some(whole)) = (id(left), id(right), whole) {
        merges.entry((left, right)).or_insert((rank as u32, whole));
    }
}
