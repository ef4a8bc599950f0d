//! The tokenizer of BERT for text without regard to case: words, then their pieces.

use corten::core::err;
use corten::prelude::*;
use std::collections::HashMap;
use std::path::Path;
use unicode_normalization::UnicodeNormalization;
use unicode_properties::{GeneralCategory, GeneralCategoryGroup, UnicodeGeneralCategory};

/// Longer words are unknown.
const LONGEST_WORD: usize = 100;

/// WordPiece behind BERT's basic tokenizer: control characters are dropped, CJK characters stand alone,
/// letters are lower case without accents, punctuation is apart, and each word is cut into the longest known
/// pieces.
pub(crate) struct WordPiece {
    numbers: HashMap<String, i64>,
}

impl WordPiece {
    /// The tokenizer of a file with a piece in each line.
    pub(crate) fn new(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| err!(Value, "{}: {error}", path.display()))?;
        Ok(Self { numbers: text.lines().map(str::to_owned).zip(0..).collect() })
    }

    /// How many pieces there are.
    pub(crate) fn size(&self) -> usize {
        self.numbers.len()
    }

    fn number(&self, piece: &str) -> i64 {
        self.numbers.get(piece).copied().unwrap_or(100)
    }

    fn pieces(&self, word: &[char], found: &mut Vec<i64>) {
        if word.len() > LONGEST_WORD {
            return found.push(self.number("[UNK]"));
        }
        let (mut start, first) = (0, found.len());
        while start < word.len() {
            let known = (start + 1..=word.len()).rev().find_map(|end| {
                let mark = if start > 0 { "##" } else { "" };
                let piece: String = mark.chars().chain(word[start..end].iter().copied()).collect();
                self.numbers.get(&piece).map(|number| (*number, end))
            });
            let Some((number, end)) = known else {
                found.truncate(first);
                return found.push(self.number("[UNK]"));
            };
            found.push(number);
            start = end;
        }
    }

    /// The numbers of the tokens, at most 512, between those of the beginning and of the end.
    pub(crate) fn encode(&self, text: &str) -> Vec<i64> {
        let mut found = vec![self.number("[CLS]")];
        for word in words(text) {
            self.pieces(&word, &mut found);
        }
        found.truncate(511);
        found.push(self.number("[SEP]"));
        found
    }

    /// Sentences as rows of one length, padded with 0.
    pub(crate) fn batch(&self, sentences: &[String]) -> Result<Tensor> {
        let rows: Vec<Vec<i64>> = sentences.iter().map(|text| self.encode(text)).collect();
        let longest = rows.iter().map(Vec::len).max().unwrap_or(0);
        let mut tokens = Vec::new();
        for mut row in rows {
            row.resize(longest, 0);
            tokens.extend(row);
        }
        Tensor::from_vec(tokens, &[sentences.len() as i64, longest as i64])
    }
}

/// The words of a text as BERT's basic tokenizer finds them.
pub(crate) fn words(text: &str) -> Vec<Vec<char>> {
    let (mut words, mut word) = (Vec::new(), Vec::new());
    let kept = text.chars().filter(|&c| !is_dropped(c));
    let plain = kept.nfd().filter(|c| c.general_category() != GeneralCategory::NonspacingMark);
    for c in plain.flat_map(char::to_lowercase) {
        let alone = is_punctuation(c) || is_cjk(c);
        if alone || c.is_whitespace() {
            words.push(std::mem::take(&mut word));
        }
        match alone {
            true => words.push(vec![c]),
            false if !c.is_whitespace() => word.push(c),
            false => {}
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}

/// Whether a character is no text: control and format characters, private ones and those of broken text.
fn is_dropped(c: char) -> bool {
    let control = c.general_category_group() == GeneralCategoryGroup::Other;
    c == '\u{fffd}' || control && !matches!(c, '\t' | '\n' | '\r')
}

/// All ASCII characters that are neither letters, digits nor blanks count, as BERT has it.
fn is_punctuation(c: char) -> bool {
    c.is_ascii_punctuation() || c.general_category_group() == GeneralCategoryGroup::Punctuation
}

/// Whether a character is of a script without blanks between words: the blocks of CJK ideographs.
fn is_cjk(c: char) -> bool {
    matches!(c, '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{2a6df}' | '\u{2a700}'..='\u{2ceaf}' | '\u{2f800}'..='\u{2fa1f}')
}
