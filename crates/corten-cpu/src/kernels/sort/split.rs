//! Splitting around a pivot by the steps of libstdc++'s `std::sort`.
//!
//! Elements are compared many at a time, as no processor foresees how a comparison with a pivot ends.

use crate::rows::loops::{RowKernel, Vectorised};
use crate::vec::Lanes;

/// Puts the median of three items in front, splits the others around it, and returns where; `before`
/// is the order. There are at least four items.
pub(super) fn split<T: Copy>(items: &mut [T], before: impl Fn(T, T) -> bool) -> usize {
    median_first(items, &before);
    f32::run(Split { items, before })
}

fn median_first<T: Copy>(items: &mut [T], before: impl Fn(T, T) -> bool) {
    let [a, b, c] = [1, items.len() / 2, items.len() - 1];
    let less = |i: usize, j: usize| before(items[i], items[j]);
    let median = match (less(a, b), less(b, c), less(a, c)) {
        (true, true, _) | (false, false, false) => b,
        (true, false, true) | (false, true, false) => c,
        (true, false, false) | (false, _, true) => a,
    };
    items.swap(0, median);
}

/// Splits all items but the first around that: swaps the first from below that does not belong there
/// with the first from above, until they meet, and returns where.
struct Split<'a, T, F> {
    items: &'a mut [T],
    before: F,
}

impl<T: Copy, F: Fn(T, T) -> bool> RowKernel<f32> for Split<'_, T, F> {
    type Out = usize;

    #[inline(always)]
    fn run<V: Lanes<Elem = f32>>(mut self) -> usize {
        let (mut low, mut high) = (1, self.items.len());
        while high - low >= 128 {
            (low, high) = self.swap_blocks::<64>(low, high);
        }
        while high - low > 64 {
            (low, high) = self.swap_blocks::<32>(low, high);
        }
        self.swap_rest(low, high)
    }
}

impl<T: Copy, F: Fn(T, T) -> bool> Split<'_, T, F> {
    /// Swaps as many of the first and of the last `N` items of `low..high` as both have; returns what is
    /// left to look at, which is some of either in part once more.
    #[inline(always)]
    fn swap_blocks<const N: usize>(&mut self, low: usize, high: usize) -> (usize, usize) {
        let Self { items, before } = self;
        let pivot = items[0];
        let mut left = which::<T, N>(&items[low..], |item| !before(item, pivot));
        let right = which::<T, N>(&items[high - N..], |item| !before(pivot, item));
        let mut right = right.reverse_bits() >> (64 - N);
        while left != 0 && right != 0 {
            let (i, j) = (left.trailing_zeros() as usize, right.trailing_zeros() as usize);
            items.swap(low + i, high - 1 - j);
            left &= left - 1;
            right &= right - 1;
        }
        let passed = |word: u64| N.min(word.trailing_zeros() as usize);
        (low + passed(left), high - passed(right))
    }

    /// Splits the last 64 items at most.
    #[inline(always)]
    fn swap_rest(&mut self, low: usize, high: usize) -> usize {
        let Self { items, before } = self;
        let (pivot, rest) = (items[0], &mut items[low..high]);
        let mut left = which_of(rest, |item| !before(item, pivot));
        let mut right = which_of(rest, |item| !before(pivot, item));
        let mut last = rest.len();
        loop {
            let first = last.min(left.trailing_zeros() as usize);
            // What is above those swapped is not to be below, and what is below not above.
            let above = right.checked_ilog2().map_or(0, |bit| bit as usize);
            if first >= above {
                return low + first;
            }
            rest.swap(first, above);
            left &= left - 1;
            right ^= 1 << above;
            last = above;
        }
    }
}

/// A bit for each of the first `N` items that is wrong.
#[inline(always)]
fn which<T: Copy, const N: usize>(items: &[T], wrong: impl Fn(T) -> bool) -> u64 {
    let (mut bits, items) = (0, &items[..N]);
    for (i, &item) in items.iter().enumerate() {
        bits |= u64::from(wrong(item)) << i;
    }
    bits
}

/// A bit for each of at most 64 items that is wrong.
#[inline(always)]
fn which_of<T: Copy>(items: &[T], wrong: impl Fn(T) -> bool) -> u64 {
    const GROUP: usize = 8;
    let Some(last) = items.len().checked_sub(GROUP) else {
        let bits = items.iter().enumerate();
        return bits.fold(0, |bits, (i, &item)| bits | u64::from(wrong(item)) << i);
    };
    // The last group takes some of the one before in again.
    let group = |first: usize| which::<T, GROUP>(&items[first..], &wrong) << first;
    (0..last).step_by(GROUP).fold(group(last), |bits, first| bits | group(first))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The steps of `std::sort`, one by one.
    fn partition(items: &mut [u64], before: impl Fn(u64, u64) -> bool) -> usize {
        let (pivot, mut low, mut high) = (items[0], 1, items.len());
        loop {
            while before(items[low], pivot) {
                low += 1;
            }
            high -= 1;
            while before(pivot, items[high]) {
                high -= 1;
            }
            if low >= high {
                return low;
            }
            items.swap(low, high);
            low += 1;
        }
    }

    #[test]
    fn many_are_split_as_one_by_one() {
        let mut state = 5u32;
        let mut next = |values: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) % values
        };
        for length in (4..300).chain([1000, 4321]) {
            for values in [1, 2, 3, 9, 1 << 20] {
                // The place below, to see which of several equal items is where.
                let items: Vec<u64> =
                    (0..length).map(|i| u64::from(next(values)) << 32 | i).collect();
                let rising = (0..length).map(|i| (i * u64::from(values) / length) << 32 | i);
                for items in [items, rising.clone().collect(), rising.rev().collect()] {
                    let before = |a: u64, b: u64| a >> 32 < b >> 32;
                    let (mut whole, mut single) = (items.clone(), items);
                    median_first(&mut single, before);
                    let cut = partition(&mut single, before);
                    assert_eq!(split(&mut whole, before), cut);
                    assert_eq!(whole, single);
                }
            }
        }
    }
}
