//! Unigram models: the segmentation of a word whose tokens have the largest sum of scores.

use super::merge::Symbol;
use std::collections::HashMap;

/// What a character without a token is worth less than the worst token.
const UNKNOWN: f32 = 10.0;

/// The best segmentation; characters that no token covers have none.
pub(super) fn best(word: &str, ids: &HashMap<String, u32>, scores: &[f32]) -> Vec<Symbol> {
    let longest = ids.keys().map(String::len).max().unwrap_or(0);
    let worst = scores.iter().copied().fold(0.0, f32::min) - UNKNOWN;
    // The best segmentation up to each place: its score, where its last token begins, and the token.
    let mut table: Vec<Option<(f32, usize, Option<u32>)>> = vec![None; word.len() + 1];
    table[0] = Some((0.0, 0, None));
    for (start, character) in word.char_indices() {
        let Some((before, ..)) = table[start] else { continue };
        let mut offer = |end: usize, score: f32, id: Option<u32>| {
            let is_better = table[end].is_none_or(|(best, ..)| before + score > best);
            if is_better {
                table[end] = Some((before + score, start, id));
            }
        };
        let first = start + character.len_utf8();
        offer(first, worst, None);
        for end in
            (first..=word.len().min(start + longest)).filter(|&end| word.is_char_boundary(end))
        {
            if let Some(&id) = ids.get(&word[start..end]) {
                offer(end, scores.get(id as usize).copied().unwrap_or(0.0), Some(id));
            }
        }
    }
    let (mut symbols, mut end) = (Vec::new(), word.len());
    while end > 0 {
        let Some((_, start, id)) = table[end] else { break };
        symbols.push((start..end, id));
        end = start;
    }
    symbols.reverse();
    symbols
}
