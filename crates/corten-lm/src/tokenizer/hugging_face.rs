//! The tokenizer of a folder of Hugging Face: `tokenizer.json`, with the settings of `tokenizer_config.json` and
//! `generation_config.json`.

use super::gguf::insert;
use super::merge::Merges;
use super::split::Splitter;
use super::{Algorithm, Purpose, Spelling, Tokenizer};
use crate::config::read_json;
use corten::Result;
use corten::core::{bail, ensure, err};
use serde_json::Value;
use std::path::Path;

impl Tokenizer {
    /// The tokenizer of a folder of Hugging Face: byte pair encoding or unigram, over bytes as in GPT-2 or over
    /// characters as in SentencePiece.
    ///
    /// # Errors
    /// `Runtime` where files are missing or damaged, `NotImplemented` for other kinds of tokenizers.
    pub fn from_hugging_face(folder: impl AsRef<Path>) -> Result<Self> {
        let folder = folder.as_ref();
        let json = read_json(&folder.join("tokenizer.json"))?;
        let model = json.get("model").unwrap_or(&Value::Null);
        let added = json.get("added_tokens").and_then(Value::as_array);
        let added = added.map(Vec::as_slice).unwrap_or(&[]);
        let spelling = spelling_of(&json)?;
        let (texts, algorithm) = match model.get("type").and_then(Value::as_str) {
            Some("Unigram") => unigram_of(model, added)?,
            Some("BPE") | None => bpe_of(model, added)?,
            Some(other) => bail!(NotImplemented, "tokenizers of the kind {other:?} are not known"),
        };
        let mut made = Self::over(texts, algorithm, spelling)?;
        made.takes_whole_words = model.get("ignore_merges").and_then(Value::as_bool) == Some(true);
        made.adds_blank = adds_blank(&json);
        if model.get("byte_fallback").and_then(Value::as_bool) == Some(true) {
            for byte in 0..=255 {
                if let Some(id) = made.token(&format!("<0x{byte:02X}>")) {
                    made.set_purpose(id, Purpose::Byte(byte));
                }
            }
        }
        let unknown = model.get("unk_token").and_then(Value::as_str);
        let unknown_id = model.get("unk_id").and_then(Value::as_u64).map(|id| id as u32);
        made.unknown = unknown.and_then(|text| made.token(text)).or(unknown_id);
        for token in added {
            let (text, id) = (token.get("content").and_then(Value::as_str), id_of(token));
            let (Some(text), Some(id)) = (text, id) else { continue };
            if token.get("special").and_then(Value::as_bool) == Some(true) {
                made.set_purpose(id, Purpose::Control);
            }
            made.add(text, id);
        }
        made.set_ends(folder, &json);
        Ok(made.finish())
    }

    /// Which tokens stand around texts.
    fn set_ends(&mut self, folder: &Path, json: &Value) {
        let config = read_json(&folder.join("tokenizer_config.json")).unwrap_or(Value::Null);
        let named = |key: &str| {
            let token = config.get(key)?;
            self.token(token.as_str().or_else(|| token.get("content")?.as_str())?)
        };
        let (begin, end) = (named("bos_token"), named("eos_token"));
        let flag = |key: &str| config.get(key).and_then(Value::as_bool);
        let template = |token: Option<u32>| {
            let text = token.and_then(|token| self.texts.get(token as usize));
            text.is_some_and(|text| single_template(json).contains(text))
        };
        let adds_begin = template(begin) || (flag("add_bos_token") == Some(true));
        let adds_end = template(end) || (flag("add_eos_token") == Some(true));
        let generation = read_json(&folder.join("generation_config.json")).unwrap_or(Value::Null);
        let ends = match generation.get("eos_token_id") {
            Some(Value::Array(ids)) => ids.iter().filter_map(Value::as_u64).collect(),
            Some(id) => id.as_u64().into_iter().collect(),
            None => Vec::new(),
        };
        (self.begin, self.end) = (begin, end);
        (self.adds_begin, self.adds_end) = (adds_begin, adds_end);
        self.ends.extend(ends.into_iter().map(|id| id as u32));
    }
}

fn id_of(token: &Value) -> Option<u32> {
    token.get("id").and_then(Value::as_u64).and_then(|id| u32::try_from(id).ok())
}

/// The special tokens that the post-processor puts around a single text.
fn single_template(json: &Value) -> Vec<String> {
    let Some(processor) = json.get("post_processor") else { return Vec::new() };
    let several = processor.get("processors").and_then(Value::as_array);
    let all = several.map_or_else(|| vec![processor], |several| several.iter().collect());
    let parts = all.into_iter().filter_map(|one| one.get("single")?.as_array());
    let names = parts.flatten().filter_map(|part| part.get("SpecialToken")?.get("id")?.as_str());
    names.map(str::to_owned).collect()
}

/// The parts of a sequence of normalizers or pre-tokenizers, or the only one.
fn parts<'a>(json: &'a Value, key: &str, list: &str) -> Vec<&'a Value> {
    match json.get(key) {
        None | Some(Value::Null) => Vec::new(),
        Some(one) => match one.get(list).and_then(Value::as_array) {
            Some(several) => several.iter().collect(),
            None => vec![one],
        },
    }
}

fn type_of(part: &Value) -> &str {
    part.get("type").and_then(Value::as_str).unwrap_or("")
}

fn adds_blank(json: &Value) -> bool {
    let prepends = |part: &&Value| match type_of(part) {
        "Prepend" => true,
        "Metaspace" => {
            let scheme = part.get("prepend_scheme").and_then(Value::as_str);
            let flag = part.get("add_prefix_space").and_then(Value::as_bool);
            scheme.map_or(flag != Some(false), |scheme| scheme != "never")
        }
        _ => false,
    };
    parts(json, "normalizer", "normalizers").iter().any(prepends)
        || parts(json, "pre_tokenizer", "pretokenizers").iter().any(prepends)
}

/// How text is spelled, from the pre-tokenizers.
fn spelling_of(json: &Value) -> Result<Spelling> {
    let cutters = parts(json, "pre_tokenizer", "pretokenizers");
    let Some(bytes) = cutters.iter().find(|part| type_of(part) == "ByteLevel") else {
        return Ok(Spelling::Blanks);
    };
    let pattern = cutters.iter().find_map(|part| part.get("pattern")?.get("Regex")?.as_str());
    let single_digits = cutters.iter().any(|part| {
        type_of(part) == "Digits" && part.get("individual_digits") == Some(&Value::Bool(true))
    });
    let by_itself = bytes.get("use_regex").and_then(Value::as_bool) != Some(false);
    Ok(Spelling::Bytes(match pattern {
        Some(pattern) if pattern.contains(r"\p{N}{1,3}") && pattern.contains("(?i:") => {
            Splitter::Llama3
        }
        Some(pattern) if pattern.contains(r"|\p{N}|") && pattern.contains("(?i:") => {
            Splitter::Qwen2
        }
        None if by_itself && single_digits => Splitter::SingleDigits,
        None if by_itself => Splitter::Gpt2,
        other => bail!(NotImplemented, "texts are cut into words by unknown rules: {other:?}"),
    }))
}

/// Texts by their numbers; gaps are empty.
fn by_number(entries: impl Iterator<Item = (String, u32)>, added: &[Value]) -> Result<Vec<String>> {
    let mut texts: Vec<String> = Vec::new();
    let own = added
        .iter()
        .filter_map(|token| Some((token.get("content")?.as_str()?.to_owned(), id_of(token)?)));
    for (text, id) in entries.chain(own) {
        ensure!(id < 1 << 24, Runtime, "the vocabulary has a token of the number {id}");
        let id = id as usize;
        if id >= texts.len() {
            texts.resize(id + 1, String::new());
        }
        texts[id] = text;
    }
    Ok(texts)
}

fn bpe_of(model: &Value, added: &[Value]) -> Result<(Vec<String>, Algorithm)> {
    let vocabulary = model.get("vocab").and_then(Value::as_object);
    let vocabulary = vocabulary.ok_or_else(|| err!(Runtime, "the tokenizer has no vocabulary"))?;
    let id = |text: &str| vocabulary.get(text).and_then(Value::as_u64).map(|id| id as u32);
    let entries =
        vocabulary.iter().filter_map(|(text, id)| Some((text.clone(), id.as_u64()? as u32)));
    let texts = by_number(entries, added)?;
    let merges = model.get("merges").and_then(Value::as_array).map(Vec::as_slice).unwrap_or(&[]);
    let mut made = Merges::with_capacity(merges.len());
    for (rank, merge) in merges.iter().enumerate() {
        // Older files have both parts in one text.
        let pair = match merge {
            Value::String(both) => both.split_once(' '),
            Value::Array(pair) => {
                pair.first().and_then(Value::as_str).zip(pair.get(1).and_then(Value::as_str))
            }
            _ => None,
        };
        if let Some((left, right)) = pair {
            insert(&mut made, &id, [left, right], rank);
        }
    }
    Ok((texts, Algorithm::Ranks(made)))
}

fn unigram_of(model: &Value, added: &[Value]) -> Result<(Vec<String>, Algorithm)> {
    let vocabulary = model.get("vocab").and_then(Value::as_array);
    let vocabulary = vocabulary.ok_or_else(|| err!(Runtime, "the tokenizer has no vocabulary"))?;
    let entry =
        |pair: &Value| Some((pair.get(0)?.as_str()?.to_owned(), pair.get(1)?.as_f64()? as f32));
    let known: Vec<(String, f32)> = vocabulary.iter().filter_map(entry).collect();
    ensure!(known.len() == vocabulary.len(), Runtime, "the vocabulary has entries without a score");
    let (texts, scores): (Vec<String>, Vec<f32>) = known.into_iter().unzip();
    let entries = texts.into_iter().enumerate().map(|(id, text)| (text, id as u32));
    Ok((by_number(entries, added)?, Algorithm::Unigram(scores)))
}
