//! Elements as numbers that are ordered as the elements are.

use crate::row_loops::{Job, Vectorised};
use crate::vec::Lanes;
use corten_core::{Element, bf16, f16};

/// An element type with an order in which NaN is the greatest and both zeros are equal.
pub(super) trait Ranked: Element {
    /// Whether ranks take 64 bits, not 32.
    const WIDE: bool = false;
    /// The rank of NaN.
    const NAN: Option<u64> = None;

    /// A number that is ordered as the elements are.
    fn rank(self) -> u64;
}

/// The elements of a line as ranks.
pub(super) struct Line {
    pub(super) ranks: Vec<u64>,
    pub(super) nan: Option<u64>,
    wide: bool,
}

impl Line {
    pub(super) fn of<T: Ranked>(line: &[T]) -> Self {
        let ranks = line.iter().map(|x| x.rank()).collect();
        Self { ranks, nan: T::NAN, wide: T::WIDE }
    }

    /// Where the elements are in their order, equal ones by place: the first `out.len()` of them.
    pub(super) fn first_places(&self, descending: bool, out: &mut [i64]) {
        let count = out.len();
        if self.narrow() {
            let digits = |key: u64, low| (key >> (32 + low)) as usize;
            let front = front_by_digits(self.narrow_keys(descending), count, (LONG, 32), digits);
            front.into_iter().zip(out).for_each(|(key, out)| *out = i64::from(key as u32));
        } else {
            let digits = |key: u128, low| (key >> (64 + low)) as usize;
            let keys = self.wide_keys(descending);
            let front = front_by_digits(keys, count, (LONG_WIDE, 64), digits);
            front.into_iter().zip(out).for_each(|(key, out)| *out = key as i64);
        }
    }

    /// Whether neighbours among sorted places have equal elements.
    pub(super) fn has_ties(&self, places: &[i64]) -> bool {
        places.windows(2).any(|pair| self.ranks[pair[0] as usize] == self.ranks[pair[1] as usize])
    }

    /// Where the element of rank `k` is, equal ones ranked by place.
    pub(super) fn place_of(&self, k: usize) -> usize {
        match self.narrow() {
            true => *self.narrow_keys(false).select_nth_unstable(k).1 as u32 as usize,
            false => *self.wide_keys(false).select_nth_unstable(k).1 as u64 as usize,
        }
    }

    fn narrow(&self) -> bool {
        !self.wide && u32::try_from(self.ranks.len()).is_ok()
    }

    /// A rank and a place in one word, which compares as the pair does.
    fn narrow_keys(&self, descending: bool) -> Vec<u64> {
        let flip = if descending { u64::from(u32::MAX) } else { 0 };
        let pairs = self.ranks.iter().zip(0u64..);
        pairs.map(|(rank, place)| (rank ^ flip) << 32 | place).collect()
    }

    fn wide_keys(&self, descending: bool) -> Vec<u128> {
        let flip = if descending { u64::MAX } else { 0 };
        let pairs = self.ranks.iter().zip(0u128..);
        pairs.map(|(rank, place)| u128::from(rank ^ flip) << 64 | place).collect()
    }
}

/// [`Line::first_places`] of a few places of a line, without ranks for all of it.
pub(super) fn first_places<T: Ranked>(line: &[T], descending: bool, out: &mut [i64]) {
    if T::WIDE || u32::try_from(line.len()).is_err() {
        let flip = if descending { u64::MAX } else { 0 };
        let key = |x: T, place: usize| u128::from(x.rank() ^ flip) << 64 | place as u128;
        let front = sorted_front(early_keys(line, out.len(), key), out.len());
        front.into_iter().zip(out).for_each(|(key, out)| *out = key as i64);
    } else {
        let flip = if descending { u64::from(u32::MAX) } else { 0 };
        let key = |x: T, place: usize| (x.rank() ^ flip) << 32 | place as u64;
        let front = sorted_front(early_keys(line, out.len(), key), out.len());
        front.into_iter().zip(out).for_each(|(key, out)| *out = i64::from(key as u32));
    }
}

/// Elements that are compared with the last one so far at a time.
const BLOCK: usize = 4096;

/// Keys among which the first `count` of the line are.
#[inline(always)]
fn early_keys<T: Ranked, K: Ord + Copy>(
    line: &[T],
    count: usize,
    key: impl Fn(T, usize) -> K,
) -> Vec<K> {
    let (sample, rest) = line.split_at(line.len().min(4 * count.max(16)));
    let mut early = Vec::with_capacity(sample.len() + rest.len().min(BLOCK));
    early.extend(sample.iter().enumerate().map(|(place, &x)| key(x, place)));
    if count == 0 || rest.is_empty() {
        return early;
    }
    let mut limit = keep_first(&mut early, count);
    for (i, block) in rest.chunks(BLOCK).enumerate() {
        let first = sample.len() + i * BLOCK;
        // The places play no part, as those of the first so far are all before these.
        let before = |x: T| key(x, first) < limit;
        if i > 0 && !f32::run(AnyBefore { block, before }) {
            continue;
        }
        let mut kept = early.len();
        early.resize(kept + block.len(), limit);
        for (place, &x) in (first..).zip(block) {
            let key = key(x, place);
            // Written whether it stays or not, as no processor foresees which do.
            early[kept] = key;
            kept += usize::from(key < limit);
        }
        early.truncate(kept);
        if kept >= sample.len() {
            limit = keep_first(&mut early, count);
        }
    }
    early
}

/// Whether an element of a block comes before a key.
struct AnyBefore<'a, T, F> {
    block: &'a [T],
    before: F,
}

impl<T: Copy, F: Fn(T) -> bool> Job<f32> for AnyBefore<'_, T, F> {
    type Out = bool;

    #[inline(always)]
    fn run<V: Lanes<Elem = f32>>(self) -> bool {
        self.block.iter().fold(false, |any, &x| any | (self.before)(x))
    }
}

/// Leaves the first `count` keys, in any order, and returns the last of them.
fn keep_first<K: Ord + Copy>(keys: &mut Vec<K>, count: usize) -> K {
    let last = *keys.select_nth_unstable(count - 1).1;
    keys.truncate(count);
    last
}

/// From these lengths on digits are sorted by, which does not compare.
const LONG: usize = 512;
const LONG_WIDE: usize = 4096;

/// Bits of a digit, and how many values it has.
const DIGIT: u32 = 8;
const DIGITS: usize = 1 << DIGIT;

/// Sorts keys by so many `bits` of theirs, digit by digit from the lowest; as the keys come in the
/// order of the rest, that is the order of the whole keys. `from` gives the bits from one on.
fn sort_by_digits<K: Copy + Default>(keys: &mut Vec<K>, bits: u32, from: impl Fn(K, u32) -> usize) {
    let passes: Vec<u32> = (0..bits).step_by(DIGIT as usize).collect();
    let mut counts = vec![[0usize; DIGITS]; passes.len()];
    for &key in &*keys {
        for (counts, &low) in counts.iter_mut().zip(&passes) {
            counts[from(key, low) % DIGITS] += 1;
        }
    }
    let mut sorted = vec![K::default(); keys.len()];
    for (counts, &low) in counts.iter_mut().zip(&passes) {
        // A digit that all keys share orders nothing.
        if counts.contains(&keys.len()) {
            continue;
        }
        let mut start = 0;
        for count in counts.iter_mut() {
            (*count, start) = (start, start + *count);
        }
        for &key in &*keys {
            let place = &mut counts[from(key, low) % DIGITS];
            sorted[*place] = key;
            *place += 1;
        }
        std::mem::swap(keys, &mut sorted);
    }
}

/// [`sorted_front`], by digits if all keys are wanted and they are at least so many.
fn front_by_digits<K: Ord + Copy + Default>(
    mut keys: Vec<K>,
    count: usize,
    (long, bits): (usize, u32),
    from: impl Fn(K, u32) -> usize,
) -> Vec<K> {
    if count < keys.len() || keys.len() < long {
        return sorted_front(keys, count);
    }
    sort_by_digits(&mut keys, bits, from);
    keys
}

/// The first `count` keys in order.
fn sorted_front<K: Ord + Copy>(mut keys: Vec<K>, count: usize) -> Vec<K> {
    drop_late(&mut keys, count);
    if 0 < count && count < keys.len() {
        keys.select_nth_unstable(count - 1);
        keys.truncate(count);
    }
    keys.sort_unstable();
    keys
}

/// Drops most of the keys behind the first `count`: those behind as many of a sample.
fn drop_late<K: Ord + Copy>(keys: &mut Vec<K>, count: usize) {
    let sample = 4 * count.max(16);
    if count == 0 || keys.len() < 2 * sample {
        return;
    }
    let limit = *keys[..sample].select_nth_unstable(count - 1).1;
    let mut kept = count;
    for i in sample..keys.len() {
        let key = keys[i];
        // Written whether it stays or not, as no processor foresees which do.
        keys[kept] = key;
        kept += usize::from(key < limit);
    }
    keys.truncate(kept);
}

macro_rules! ranked_integers {
    ($($t:ty: $wide:literal, $flip:expr;)*) => {$(
        impl Ranked for $t {
            const WIDE: bool = $wide;

            #[inline]
            fn rank(self) -> u64 {
                let flip: u64 = $flip;
                // Negative numbers come first once the sign is turned around.
                if $wide { self as u64 ^ flip } else { u64::from(self as u32) ^ flip }
            }
        }
    )*};
}

ranked_integers! {
    bool: false, 0;
    u8: false, 0;
    u16: false, 0;
    u32: false, 0;
    u64: true, 0;
    i8: false, 1 << 31;
    i16: false, 1 << 31;
    i32: false, 1 << 31;
    i64: true, 1 << 63;
}

impl Ranked for f64 {
    const WIDE: bool = true;
    const NAN: Option<u64> = Some(u64::MAX);

    #[inline]
    fn rank(self) -> u64 {
        let bits = (self + 0.0).to_bits();
        match (self.is_nan(), bits >> 63) {
            (true, _) => u64::MAX,
            (_, 1) => !bits,
            _ => bits | 1 << 63,
        }
    }
}

impl Ranked for f32 {
    const NAN: Option<u64> = Some(u32::MAX as u64);

    #[inline]
    fn rank(self) -> u64 {
        let bits = (self + 0.0).to_bits();
        u64::from(match (self.is_nan(), bits >> 31) {
            (true, _) => u32::MAX,
            (_, 1) => !bits,
            _ => bits | 1 << 31,
        })
    }
}

macro_rules! ranked_halves {
    ($($t:ty)*) => {$(
        impl Ranked for $t {
            const NAN: Option<u64> = <f32 as Ranked>::NAN;

            #[inline]
            fn rank(self) -> u64 {
                self.to_f32().rank()
            }
        }
    )*};
}

ranked_halves! { f16 bf16 }

#[cfg(test)]
mod tests {
    use super::*;

    fn places<T: Ranked>(line: &[T], descending: bool) -> Vec<i64> {
        let mut out = vec![0; line.len()];
        Line::of(line).first_places(descending, &mut out);
        out
    }

    #[test]
    fn equal_elements_keep_their_order_and_nan_is_greatest() {
        let line = [f64::NAN, 1.0, -0.0, 0.0, f64::NEG_INFINITY, f64::INFINITY, -f64::NAN];
        assert_eq!(places(&line, false), [4, 2, 3, 1, 5, 0, 6]);
        assert_eq!(places(&line, true), [0, 6, 5, 1, 2, 3, 4]);
        assert_eq!(places(&line.map(|x| x as f32), true), [0, 6, 5, 1, 2, 3, 4]);
        assert_eq!(places(&[3i8, -128, 127, -1], false), [1, 3, 0, 2]);
        assert_eq!(places(&[3i64, i64::MIN, i64::MAX, -1], true), [2, 0, 3, 1]);
        assert_eq!(places(&[u64::MAX, 0, 7], false), [1, 2, 0]);
    }

    #[test]
    fn the_front_of_a_line_is_that_of_the_sorted_line() {
        let shuffled: Vec<u32> =
            (0..2000u32).map(|i| i.wrapping_mul(2_654_435_761) >> 20).collect();
        let falling: Vec<u32> = (0..2000).rev().collect();
        for line in [shuffled, falling] {
            let (mut all, mut front) = (vec![0; line.len()], vec![0; 400]);
            Line::of(&line).first_places(true, &mut all);
            for count in [0, 1, 2, 15, 16, 17, 100, 249, 250, 251, 400] {
                Line::of(&line).first_places(true, &mut front[..count]);
                assert_eq!(front[..count], all[..count]);
                first_places(&line, true, &mut front[..count]);
                assert_eq!(front[..count], all[..count]);
            }
        }
    }

    #[test]
    fn long_lines_are_sorted_as_short_ones_are() {
        let mut state = 7u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            // Few values, so that many elements are equal.
            (state >> 24) as f32 - 100.0
        };
        for length in [LONG - 1, LONG, 3 * LONG + 5, LONG_WIDE] {
            let mut values: Vec<f32> = (0..length).map(|_| next()).collect();
            (values[1], values[5], values[9]) = (f32::NAN, -0.0, f32::INFINITY);
            for descending in [false, true] {
                let line = Line::of(&values);
                let mut places = vec![0; length];
                line.first_places(descending, &mut places);
                let mut wanted: Vec<i64> = (0..length as i64).collect();
                wanted.sort_by_key(|&place| {
                    let rank = line.ranks[place as usize] as u32;
                    if descending { !rank } else { rank }
                });
                assert_eq!(places, wanted);
                let wide: Vec<f64> = values.iter().copied().map(f64::from).collect();
                Line::of(&wide).first_places(descending, &mut places);
                assert_eq!(places, wanted);
            }
        }
    }
}
