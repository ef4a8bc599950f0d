//! Words of a text, as the regular expressions of byte-level tokenizers cut them.

use unicode_properties::{GeneralCategoryGroup, UnicodeGeneralCategory};

/// The expressions that are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Splitter {
    /// GPT-2: a blank before letters, digits or other characters belongs to them.
    Gpt2,
    /// The same, with digits one by one.
    SingleDigits,
    /// Llama 3: groups of up to three digits; one other character before letters belongs to them; ends of lines belong
    /// to what is before them.
    Llama3,
    /// Qwen 2: as Llama 3, with digits one by one.
    Qwen2,
}

fn is_letter(c: char) -> bool {
    c.general_category_group() == GeneralCategoryGroup::Letter
}

fn is_end_of_line(c: char) -> bool {
    c == '\r' || c == '\n'
}

fn is_other(c: char) -> bool {
    !c.is_whitespace() && !is_letter(c) && !c.is_numeric()
}

impl Splitter {
    /// The words of a text, which together are the text.
    pub(super) fn words(self, text: &str) -> Vec<&str> {
        let characters: Vec<char> = text.chars().collect();
        let (mut words, mut at, mut start) = (Vec::new(), 0, 0);
        while at < characters.len() {
            let count = self.length(&characters[at..]).max(1);
            let len: usize = characters[at..at + count].iter().map(|c| c.len_utf8()).sum();
            words.push(&text[start..start + len]);
            (at, start) = (at + count, start + len);
        }
        words
    }

    /// The characters of the first word.
    fn length(self, text: &[char]) -> usize {
        let is_modern = matches!(self, Self::Llama3 | Self::Qwen2);
        if let Some(count) = contraction(text, is_modern) {
            return count;
        }
        let run = |from: usize, of: fn(char) -> bool| {
            text[from.min(text.len())..].iter().take_while(|&&c| of(c)).count()
        };
        let first = text[0];
        let lead = usize::from(match is_modern {
            true => !is_end_of_line(first) && !is_letter(first) && !first.is_numeric(),
            false => first == ' ',
        });
        for lead in [lead, 0] {
            let letters = run(lead, is_letter);
            if letters > 0 {
                return lead + letters;
            }
        }
        let blank = usize::from(first == ' ');
        let digits =
            run(if is_modern || self == Self::SingleDigits { 0 } else { blank }, char::is_numeric);
        if digits > 0 {
            return match self {
                Self::Gpt2 => blank + digits,
                Self::Llama3 => digits.min(3),
                Self::Qwen2 | Self::SingleDigits => 1,
            };
        }
        let others = run(blank, is_other);
        if others > 0 {
            let end = blank + others;
            return end + if is_modern { run(end, is_end_of_line) } else { 0 };
        }
        self.blanks(text, run(0, char::is_whitespace), is_modern)
    }

    /// The characters of a word that begins with `count` blanks.
    fn blanks(self, text: &[char], count: usize, is_modern: bool) -> usize {
        if is_modern && let Some(last) = text[..count].iter().rposition(|&c| is_end_of_line(c)) {
            return last + 1;
        }
        // The last blank belongs to the next word, unless that is a digit which is cut before.
        let belongs =
            text.get(count).is_some_and(|c| self != Self::SingleDigits || !c.is_numeric());
        if belongs && count > 1 { count - 1 } else { count }
    }
}

/// The characters of `'s`, `'re` and the like at the beginning.
fn contraction(text: &[char], ignores_case: bool) -> Option<usize> {
    if text.first() != Some(&'\'') {
        return None;
    }
    let end = |known: &str| {
        let mut behind = text[1..].iter();
        known.chars().all(|c| {
            behind
                .next()
                .is_some_and(|&found| found == c || (ignores_case && found.to_lowercase().eq([c])))
        })
    };
    ["s", "t", "re", "ve", "m", "ll", "d"]
        .iter()
        .find(|known| end(known))
        .map(|known| known.len() + 1)
}
