//! Text as tokens, and tokens as text.
//!
//! Tokens that stand for themselves are found in a text first. What is between them is cut into words where the model's
//! tokenizer does so, and a word becomes tokens by merging neighbours (byte pair encoding, by ranks or by scores) or by
//! the most likely segmentation (unigram).

mod byte_level;
mod gguf;
mod hugging_face;
mod merge;
mod split;
mod unigram;

use corten::Result;
use corten::core::ensure;
use merge::Merges;
use split::Splitter;
use std::collections::HashMap;

/// How words become tokens.
enum Algorithm {
    /// Neighbours are merged in the order of the scores of what they become: SentencePiece.
    Scores(Vec<f32>),
    /// Neighbours are merged in the order of a list.
    Ranks(Merges),
    /// The segmentation with the largest sum of scores.
    Unigram(Vec<f32>),
}

/// What is done to text before it is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spelling {
    /// Bytes become characters, as in GPT-2; words are cut by the splitter.
    Bytes(Splitter),
    /// Blanks become `▁`.
    Blanks,
}

/// What a token is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Text,
    /// Steers the model and has no text.
    Control,
    /// A byte of a character that has no token.
    Byte(u8),
}

/// Makes tokens of text and text of tokens.
///
/// ```
/// use corten_lm::Tokenizer;
///
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/goldens/language_models/gemma3.gguf");
/// let tokenizer = Tokenizer::from_gguf(&corten::io::gguf::Opened::new(path)?)?;
/// let tokens = tokenizer.encode("ab é", false);
/// assert_eq!(tokenizer.decode(&tokens), "ab é");
/// # Ok::<(), corten::Error>(())
/// ```
pub struct Tokenizer {
    texts: Vec<String>,
    ids: HashMap<String, u32>,
    purposes: Vec<Purpose>,
    algorithm: Algorithm,
    spelling: Spelling,
    /// Tokens that stand for themselves in a text, longest first, by their first byte.
    added: HashMap<u8, Vec<(String, u32)>>,
    /// The tokens of single bytes.
    bytes: Vec<Option<u32>>,
    unknown: Option<u32>,
    adds_blank: bool,
    /// Words that are tokens are not cut, whatever the merges are.
    takes_whole_words: bool,
    begin: Option<u32>,
    end: Option<u32>,
    adds_begin: bool,
    adds_end: bool,
    ends: Vec<u32>,
}

/// Tokens that end a turn or a text, by the names they have in the models that are known.
const ENDS: [&str; 8] = [
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "<|eom_id|>",
    "</s>",
    "<eos>",
];

impl Tokenizer {
    /// A tokenizer over a vocabulary, before its settings are known.
    fn over(texts: Vec<String>, algorithm: Algorithm, spelling: Spelling) -> Result<Self> {
        ensure!(
            u32::try_from(texts.len()).is_ok(),
            Runtime,
            "a vocabulary of {} tokens is too large",
            texts.len()
        );
        let mut ids = HashMap::with_capacity(texts.len());
        for (id, text) in texts.iter().enumerate() {
            ids.entry(text.clone()).or_insert(id as u32);
        }
        let ends = ENDS.iter().filter_map(|name| ids.get(*name).copied()).collect();
        Ok(Self {
            purposes: vec![Purpose::Text; texts.len()],
            texts,
            ids,
            algorithm,
            spelling,
            added: HashMap::new(),
            bytes: vec![None; 256],
            unknown: None,
            adds_blank: false,
            takes_whole_words: false,
            begin: None,
            end: None,
            adds_begin: false,
            adds_end: false,
            ends,
        })
    }

    /// Declares what a token is for.
    fn set_purpose(&mut self, id: u32, purpose: Purpose) {
        if let Some(known) = self.purposes.get_mut(id as usize) {
            *known = purpose;
            if let Purpose::Byte(byte) = purpose {
                self.bytes[usize::from(byte)] = Some(id);
            }
        }
    }

    /// Lets a token stand for itself in texts.
    fn add(&mut self, text: &str, id: u32) {
        if let Some(&first) = text.as_bytes().first() {
            self.added.entry(first).or_default().push((text.to_owned(), id));
        }
    }

    /// Puts longer texts first, when all are added.
    fn finish(mut self) -> Self {
        for added in self.added.values_mut() {
            added.sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
        }
        self.ends.extend(self.end);
        self.ends.sort_unstable();
        self.ends.dedup();
        self
    }

    /// The token that begins texts.
    pub fn begin(&self) -> Option<u32> {
        self.begin
    }

    /// The token that ends texts.
    pub fn end(&self) -> Option<u32> {
        self.end
    }

    /// Whether a token ends a text or a turn.
    pub fn ends_text(&self, token: u32) -> bool {
        self.ends.contains(&token)
    }

    /// How many tokens there are.
    pub fn len(&self) -> usize {
        self.texts.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// The token of a text that is one.
    pub fn token(&self, text: &str) -> Option<u32> {
        self.ids.get(text).copied()
    }

    /// The tokens of a text; with those that the model expects around it where `with_special` is true. Tokens that
    /// stand for themselves, `<start_of_turn>` and the like, are taken as such.
    pub fn encode(&self, text: &str, with_special: bool) -> Vec<u32> {
        let mut tokens = Vec::new();
        if with_special && self.adds_begin {
            tokens.extend(self.begin);
        }
        let (mut start, mut at, mut is_first) = (0, 0, true);
        while at < text.len() {
            match self.added_at(&text[at..]) {
                Some((len, id)) => {
                    self.encode_part(&text[start..at], is_first, &mut tokens);
                    tokens.push(id);
                    (at, is_first) = (at + len, true);
                    start = at;
                }
                None => at += text[at..].chars().next().map_or(1, char::len_utf8),
            }
        }
        self.encode_part(&text[start..], is_first, &mut tokens);
        if with_special && self.adds_end {
            tokens.extend(self.end);
        }
        tokens
    }

    /// The token that stands for itself at the beginning of a text.
    fn added_at(&self, text: &str) -> Option<(usize, u32)> {
        let added = self.added.get(text.as_bytes().first()?)?;
        let found = added.iter().find(|(known, _)| text.starts_with(known.as_str()));
        found.map(|(known, id)| (known.len(), *id))
    }

    /// The tokens of text without tokens that stand for themselves.
    fn encode_part(&self, text: &str, follows_special: bool, tokens: &mut Vec<u32>) {
        if text.is_empty() {
            return;
        }
        match self.spelling {
            Spelling::Bytes(splitter) => {
                for word in splitter.words(text) {
                    self.encode_word(&byte_level::spelled(word), tokens);
                }
            }
            Spelling::Blanks => {
                let mut spelled = text.replace(' ', "▁");
                if self.adds_blank && follows_special {
                    spelled.insert(0, '▁');
                }
                self.encode_word(&spelled, tokens);
            }
        }
    }

    fn encode_word(&self, word: &str, tokens: &mut Vec<u32>) {
        if self.takes_whole_words
            && let Some(&id) = self.ids.get(word)
        {
            tokens.push(id);
            return;
        }
        let symbols = match &self.algorithm {
            Algorithm::Scores(scores) => merge::by_scores(word, &self.ids, scores),
            Algorithm::Ranks(merges) => merge::by_ranks(word, &self.ids, merges),
            Algorithm::Unigram(scores) => unigram::best(word, &self.ids, scores),
        };
        for (range, id) in symbols {
            match id {
                Some(id) => tokens.push(id),
                None => self.encode_bytes(&word[range], tokens),
            }
        }
    }

    /// Tokens of the bytes of text that has no token, or the unknown token.
    fn encode_bytes(&self, text: &str, tokens: &mut Vec<u32>) {
        let bytes = text.bytes().map(|byte| self.bytes[usize::from(byte)]);
        match bytes.collect::<Option<Vec<u32>>>() {
            Some(bytes) => tokens.extend(bytes),
            None => tokens.extend(self.unknown),
        }
    }

    /// The bytes of a token's text: none of a token that steers the model, or that is not known.
    pub fn bytes_of(&self, token: u32) -> Vec<u8> {
        let Some(text) = self.texts.get(token as usize) else { return Vec::new() };
        match (self.purposes[token as usize], self.spelling) {
            (Purpose::Control, _) => Vec::new(),
            (Purpose::Byte(byte), _) => vec![byte],
            (Purpose::Text, Spelling::Bytes(_)) => byte_level::bytes(text),
            (Purpose::Text, Spelling::Blanks) => text.replace('▁', " ").into_bytes(),
        }
    }

    /// The text of tokens. Bytes that are no text become `�`.
    pub fn decode(&self, tokens: &[u32]) -> String {
        let bytes: Vec<u8> = tokens.iter().flat_map(|&token| self.bytes_of(token)).collect();
        let text = String::from_utf8_lossy(&bytes);
        // The blank that was put before the text.
        match self.adds_blank {
            true => text.strip_prefix(' ').unwrap_or(&text).to_owned(),
            false => text.into_owned(),
        }
    }
}

/// The text of tokens that come one by one: characters are given when they are complete.
///
/// ```
/// use corten_lm::{TextStream, Tokenizer};
///
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/goldens/language_models/gemma3.gguf");
/// let tokenizer = Tokenizer::from_gguf(&corten::io::gguf::Opened::new(path)?)?;
/// let mut stream = TextStream::new(&tokenizer);
/// let text: String = tokenizer.encode("é", false).into_iter().map(|t| stream.push(t)).collect();
/// assert_eq!(text, "é");
/// # Ok::<(), corten::Error>(())
/// ```
pub struct TextStream<'a> {
    tokenizer: &'a Tokenizer,
    pending: Vec<u8>,
}

impl<'a> TextStream<'a> {
    /// A stream at its beginning.
    pub fn new(tokenizer: &'a Tokenizer) -> Self {
        Self { tokenizer, pending: Vec::new() }
    }

    /// The text that is complete with another token.
    pub fn push(&mut self, token: u32) -> String {
        self.pending.extend(self.tokenizer.bytes_of(token));
        let mut text = String::new();
        loop {
            match std::str::from_utf8(&self.pending) {
                Ok(complete) => {
                    text += complete;
                    self.pending.clear();
                    return text;
                }
                Err(error) => {
                    let valid = error.valid_up_to();
                    text += &String::from_utf8_lossy(&self.pending[..valid]);
                    self.pending.drain(..valid);
                    // What may become a character waits; what cannot is replaced.
                    let Some(wrong) = error.error_len() else { return text };
                    text.push('�');
                    self.pending.drain(..wrong);
                }
            }
        }
    }
}
