//! Byte pair encoding: neighbours are merged, the best pair first.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::ops::Range;

/// The rank of a pair of tokens, and what they become.
pub(super) type Merges = HashMap<(u32, u32), (u32, u32)>;

/// A piece of a word, and its token if it is one.
pub(super) type Symbol = (Range<usize>, Option<u32>);

/// Merges by the scores of what pairs become, largest first.
pub(super) fn by_scores(word: &str, ids: &HashMap<String, u32>, scores: &[f32]) -> Vec<Symbol> {
    merged(word, ids, |left, right| {
        let id = *ids.get(&word[left.0.start..right.0.end])?;
        let score = scores.get(id as usize).copied().unwrap_or(0.0);
        Some((-sortable(score), id))
    })
}

/// Merges by ranks, smallest first.
pub(super) fn by_ranks(word: &str, ids: &HashMap<String, u32>, merges: &Merges) -> Vec<Symbol> {
    merged(word, ids, |left, right| {
        let (rank, id) = merges.get(&(left.1?, right.1?))?;
        Some((i64::from(*rank), *id))
    })
}

/// An integer with the order of a number.
fn sortable(score: f32) -> i64 {
    let bits = score.to_bits() as i32;
    i64::from(if bits < 0 { i32::MIN.wrapping_sub(bits) } else { bits })
}

/// A symbol in the list of those of a word.
struct Link {
    symbol: Symbol,
    before: Option<usize>,
    behind: Option<usize>,
}

/// Merges neighbours while `pair` knows what they become, in the order of the first number that it gives.
fn merged(
    word: &str,
    ids: &HashMap<String, u32>,
    pair: impl Fn(&Symbol, &Symbol) -> Option<(i64, u32)>,
) -> Vec<Symbol> {
    let mut links: Vec<Link> = Vec::new();
    for (start, character) in word.char_indices() {
        let range = start..start + character.len_utf8();
        let id = ids.get(&word[range.clone()]).copied();
        let number = links.len();
        if let Some(last) = links.last_mut() {
            last.behind = Some(number);
        }
        let before = number.checked_sub(1);
        links.push(Link { symbol: (range, id), before, behind: None });
    }
    let mut queue = BinaryHeap::new();
    // The pair is known again by its ends, as either may have been merged with another before.
    let offer = |links: &[Link], queue: &mut BinaryHeap<_>, left: usize, right: usize| {
        let (a, b) = (&links[left].symbol, &links[right].symbol);
        if let Some((order, id)) = pair(a, b) {
            queue.push(Reverse((order, left, right, a.0.start, b.0.end, id)));
        }
    };
    for right in 1..links.len() {
        offer(&links, &mut queue, right - 1, right);
    }
    while let Some(Reverse((_, left, right, start, end, id))) = queue.pop() {
        let stands = links[left].behind == Some(right)
            && links[left].symbol.0.start == start
            && links[right].symbol.0.end == end
            && !links[left].symbol.0.is_empty()
            && !links[right].symbol.0.is_empty();
        if !stands {
            continue;
        }
        links[left].symbol = (start..end, Some(id));
        links[right].symbol = (end..end, None);
        links[left].behind = links[right].behind;
        if let Some(behind) = links[left].behind {
            links[behind].before = Some(left);
            offer(&links, &mut queue, left, behind);
        }
        if let Some(before) = links[left].before {
            offer(&links, &mut queue, before, left);
        }
    }
    links.into_iter().map(|link| link.symbol).filter(|symbol| !symbol.0.is_empty()).collect()
}
