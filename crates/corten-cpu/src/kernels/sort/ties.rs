//! The order in which an unstable algorithm leaves equal elements, of a line whose order is known.
//!
//! The steps are those of libstdc++'s `std::sort`, as in [`super::select`]. Parts of the line without
//! equal elements are not followed: what they end as is known. Elements are compared many at a time,
//! for no processor foresees how a comparison with a pivot ends.

use super::select::{FEW, median_first, partition};

/// Elements that are compared with a pivot at a time.
const BLOCK: usize = 128;

/// Brings equal elements of a sorted line, given by their places, from the order of their places into
/// that in which the algorithm leaves them. Places fit 32 bits.
pub(super) fn order_ties(ranks: &[u64], sorted: &mut [i64]) {
    let mut walk = Walk::of(ranks, sorted);
    let depth = 2 * sorted.len().checked_ilog2().unwrap_or(0);
    walk.sort((0, sorted.len()), depth, sorted);
}

/// The line as the algorithm has ordered it so far.
struct Walk {
    /// Where the first equal element stands in the sorted line, and the place, in a word each.
    items: Vec<u64>,
    /// How many of the elements before each one of the sorted line equal the element before them.
    ties: Vec<u32>,
}

/// By which items are compared.
fn key(item: u64) -> u64 {
    item >> u32::BITS
}

impl Walk {
    fn of(ranks: &[u64], sorted: &[i64]) -> Self {
        let mut items = vec![0; ranks.len()];
        let mut ties = Vec::with_capacity(sorted.len() + 2);
        let (mut first, mut count, mut last) = (0, 0, None);
        for (i, &place) in (0u64..).zip(sorted) {
            let rank = Some(ranks[place as usize]);
            ties.push(count);
            match rank == last {
                true => count += 1,
                false => (first, last) = (i, rank),
            }
            items[place as usize] = first << u32::BITS | place as u64;
        }
        // No element follows the last one, so none equals it.
        ties.extend([count, count]);
        Self { items, ties }
    }

    /// Whether the elements that belong to `first..last` equal none but themselves.
    fn settled(&self, first: usize, last: usize) -> bool {
        self.ties[first] == self.ties[last + 1]
    }

    fn sort(&mut self, (first, mut last): (usize, usize), mut depth: u32, sorted: &mut [i64]) {
        while last - first > FEW && depth > 0 {
            if self.settled(first, last) {
                return;
            }
            depth -= 1;
            let cut = self.split(first, last);
            self.sort((cut, last), depth, sorted);
            last = cut;
        }
        if !self.settled(first, last) {
            let items = &mut self.items[first..last];
            items.sort_by_key(|&item| key(item));
            let sorted = &mut sorted[first..last];
            sorted.iter_mut().zip(items).for_each(|(out, item)| *out = i64::from(*item as u32));
        }
    }

    /// Splits `first..last` around the median of three of its elements, and returns where.
    fn split(&mut self, first: usize, last: usize) -> usize {
        let before = |a: &u64, b: &u64| key(*a) < key(*b);
        median_first(&mut self.items, first, last, &before);
        let pivot = key(self.items[first]);
        let left = swap_blocks(&mut self.items, pivot, (first + 1, last));
        partition(&mut self.items, first, left, &before)
    }
}

/// Swaps elements that are on the wrong side of a pivot, the first of the one side with the first of
/// the other, as long as both sides have a block; returns what is left to look at.
fn swap_blocks(
    items: &mut [u64],
    pivot: u64,
    (mut low, mut high): (usize, usize),
) -> (usize, usize) {
    let (mut left, mut right) = (Wrong::default(), Wrong::default());
    while high - low >= 2 * BLOCK {
        if left.done() {
            left.look(|i| key(items[low + i]) >= pivot);
        }
        if right.done() {
            right.look(|i| key(items[high - 1 - i]) <= pivot);
        }
        let count = (left.count - left.next).min(right.count - right.next);
        for i in 0..count {
            let from = low + usize::from(left.offsets[left.next + i]);
            items.swap(from, high - 1 - usize::from(right.offsets[right.next + i]));
        }
        left.next += count;
        right.next += count;
        if left.done() {
            low += BLOCK;
        }
        if right.done() {
            high -= BLOCK;
        }
    }
    // What was looked at and not swapped is looked at again.
    let rest = |wrong: &Wrong| match wrong.done() {
        true => 0,
        false => usize::from(wrong.offsets[wrong.next]),
    };
    (low + rest(&left), high - rest(&right))
}

/// Elements of a block that are on the wrong side.
struct Wrong {
    offsets: [u8; BLOCK],
    count: usize,
    /// Those before are swapped.
    next: usize,
}

impl Default for Wrong {
    fn default() -> Self {
        Self { offsets: [0; BLOCK], count: 0, next: 0 }
    }
}

impl Wrong {
    fn done(&self) -> bool {
        self.next == self.count
    }

    #[inline(always)]
    fn look(&mut self, wrong: impl Fn(usize) -> bool) {
        (self.count, self.next) = (0, 0);
        for i in 0..BLOCK {
            self.offsets[self.count] = i as u8;
            self.count += usize::from(wrong(i));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::select::sort_unstably;
    use super::*;

    #[test]
    fn equal_elements_are_left_where_all_steps_leave_them() {
        let mut state = 3u64;
        let mut next = |values: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % values
        };
        for length in [0, 1, 16, 17, 100, 255, 256, 257, 300, 1000, 5000, 40_000] {
            for values in [1, 2, 10, 1000, 100_000, 10_000_000] {
                let mut lines = vec![(0..length).map(|_| next(values)).collect::<Vec<u64>>()];
                lines.push((0..length).map(|i| i * values / length).collect());
                lines.push((0..length).map(|i| (length - i) * values / length).collect());
                for ranks in lines {
                    let mut items: Vec<(u64, i64)> = ranks.iter().copied().zip(0..).collect();
                    let mut sorted: Vec<i64> = (0..length as i64).collect();
                    sorted.sort_by_key(|&place| ranks[place as usize]);
                    sort_unstably(&mut items, |a, b| a.0 < b.0);
                    order_ties(&ranks, &mut sorted);
                    assert!(items.iter().map(|item| item.1).eq(sorted));
                }
            }
        }
    }
}
