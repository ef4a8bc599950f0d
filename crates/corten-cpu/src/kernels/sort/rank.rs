//! Elements as numbers that are ordered as the elements are.

use super::keys::{Key, flip_of, keys_of, narrow};
use crate::rows::loops::{RowKernel, Vectorised};
use crate::vec::Lanes;
use corten_core::{DType, Element, bf16, f16, unwinding};

/// An element type with an order in which NaN is the greatest and both zeros are equal.
pub(super) trait Ranked: Element {
    /// Whether ranks take 64 bits, not 32.
    const WIDE: bool = false;
    /// The rank of NaN.
    const NAN: Option<u64> = None;

    /// A number that is ordered as the elements are.
    fn rank(self) -> u64;

    /// The element of a rank, if there is but one.
    fn of_rank(rank: u64) -> Option<Self>;
}

/// The elements of a line as ranks.
pub(super) struct Line {
    pub(super) ranks: Vec<u64>,
    pub(super) nan: Option<u64>,
    narrow: bool,
}

impl Line {
    pub(super) fn of<T: Ranked>(line: &[T]) -> Self {
        let ranks = unwinding::collect(line.iter().map(|x| x.rank()));
        Self { ranks, nan: T::NAN, narrow: narrow::<T>(line.len()) }
    }

    /// Where the element of rank `k` is, equal ones ranked by place.
    pub(super) fn place_of(&self, k: usize) -> usize {
        match self.narrow {
            true => self.place_among::<u64>(k),
            false => self.place_among::<u128>(k),
        }
    }

    fn place_among<K: Key>(&self, k: usize) -> usize {
        let mut keys: Vec<K> = keys_of(self.ranks.iter().copied(), 0);
        keys.select_nth_unstable(k).1.place()
    }
}

/// Where the elements are that come first, equal ones by place, without ranks for the whole line.
pub(super) fn first_places<T: Ranked>(line: &[T], descending: bool, out: &mut [i64]) {
    match narrow::<T>(line.len()) {
        true => first_among::<T, u64>(line, flip_of(descending), out),
        false => first_among::<T, u128>(line, flip_of(descending), out),
    }
}

fn first_among<T: Ranked, K: Key>(line: &[T], flip: u64, out: &mut [i64]) {
    let mut front = early_keys(line, out.len(), |x, place| K::new(x.rank() ^ flip, place));
    if !out.is_empty() && out.len() < front.len() {
        keep_first(&mut front, out.len());
    }
    front.sort_unstable();
    front.into_iter().zip(out).for_each(|(key, out)| *out = key.place() as i64);
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
    let mut early = unwinding::with_capacity(sample.len() + rest.len().min(BLOCK));
    early.extend(sample.iter().enumerate().map(|(place, &x)| key(x, place)));
    if count == 0 || rest.is_empty() {
        return early;
    }
    let mut limit = keep_first(&mut early, count);
    for (i, block) in rest.chunks(BLOCK).enumerate() {
        let first = sample.len() + i * BLOCK;
        // The places play no part, as those of the first so far are all before these.
        let before = |x: T| key(x, first) < limit;
        let rows = AnyBefore { block, before };
        let any = match T::DTYPE {
            _ if i == 0 => true,
            DType::Float32 => f32::run(rows),
            _ => f32::run_narrow(rows),
        };
        if !any {
            continue;
        }
        let mut kept = early.len();
        unwinding::resize(&mut early, kept + block.len(), limit);
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

impl<T: Copy, F: Fn(T) -> bool> RowKernel<f32> for AnyBefore<'_, T, F> {
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

            #[inline]
            fn of_rank(rank: u64) -> Option<Self> {
                let flip: u64 = $flip;
                Some((rank ^ flip) as $t)
            }
        }
    )*};
}

ranked_integers! {
    u8: false, 0;
    u16: false, 0;
    u32: false, 0;
    u64: true, 0;
    i8: false, 1 << 31;
    i16: false, 1 << 31;
    i32: false, 1 << 31;
    i64: true, 1 << 63;
}

impl Ranked for bool {
    #[inline]
    fn rank(self) -> u64 {
        u64::from(self)
    }

    #[inline]
    fn of_rank(rank: u64) -> Option<Self> {
        Some(rank != 0)
    }
}

macro_rules! ranked_floats {
    ($($t:ty: $bits:ty, $wide:literal;)+) => {$(
        impl Ranked for $t {
            const WIDE: bool = $wide;
            const NAN: Option<u64> = Some(<$bits>::MAX as u64);

            #[inline]
            fn rank(self) -> u64 {
                const SIGN: $bits = 1 << (<$bits>::BITS - 1);
                // Chosen without branches, so that loops become vectors.
                let bits = self.to_bits();
                let bits = if bits == SIGN { 0 } else { bits };
                let negative = (bits & SIGN != 0) as $bits;
                let rank = bits ^ (negative.wrapping_neg() | SIGN);
                let nan = bits & !SIGN > Self::INFINITY.to_bits();
                u64::from(if nan { <$bits>::MAX } else { rank })
            }

            #[inline]
            fn of_rank(rank: u64) -> Option<Self> {
                const SIGN: $bits = 1 << (<$bits>::BITS - 1);
                let bits = match rank as $bits {
                    // NaN of any kind, and zero of any sign.
                    <$bits>::MAX | SIGN => return None,
                    rank if rank & SIGN != 0 => rank ^ SIGN,
                    rank => !rank,
                };
                Some(Self::from_bits(bits))
            }
        }
    )+};
}

ranked_floats! {
    f16: u16, false;
    bf16: u16, false;
    f32: u32, false;
    f64: u64, true;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places<T: Ranked>(line: &[T], descending: bool) -> Vec<i64> {
        let mut out = vec![0; line.len()];
        first_places(line, descending, &mut out);
        out
    }

    #[test]
    fn equal_elements_keep_their_order_and_nan_is_greatest() {
        let line = [f64::NAN, 1.0, -0.0, 0.0, f64::NEG_INFINITY, f64::INFINITY, -f64::NAN];
        assert_eq!(places(&line, false), [4, 2, 3, 1, 5, 0, 6]);
        assert_eq!(places(&line, true), [0, 6, 5, 1, 2, 3, 4]);
        assert_eq!(places(&line.map(|x| x as f32), true), [0, 6, 5, 1, 2, 3, 4]);
        assert_eq!(places(&line.map(f16::from_f64), true), [0, 6, 5, 1, 2, 3, 4]);
        assert_eq!(places(&line.map(bf16::from_f64), false), [4, 2, 3, 1, 5, 0, 6]);
        assert_eq!(places(&[3i8, -128, 127, -1], false), [1, 3, 0, 2]);
        assert_eq!(places(&[3i64, i64::MIN, i64::MAX, -1], true), [2, 0, 3, 1]);
        assert_eq!(places(&[u64::MAX, 0, 7], false), [1, 2, 0]);
        assert_eq!(places(&[true, false, true], false), [1, 0, 2]);
    }

    fn back<T: Ranked + PartialEq + std::fmt::Debug>(elements: &[T]) {
        for &x in elements {
            assert_eq!(T::of_rank(x.rank()), Some(x));
        }
    }

    #[test]
    fn ranks_lead_back_to_what_they_are_of() {
        back(&[i8::MIN, -1, 0, i8::MAX]);
        back(&[i16::MIN, -1, 0, i16::MAX]);
        back(&[i32::MIN, -1, 0, i32::MAX]);
        back(&[i64::MIN, -1, 0, i64::MAX]);
        back(&[0, u8::MAX]);
        back(&[0, u16::MAX]);
        back(&[0, u32::MAX]);
        back(&[0, u64::MAX]);
        back(&[false, true]);
        let floats = [f64::NEG_INFINITY, -1.5, -5e-324, 5e-324, 2.0, f64::INFINITY];
        back(&floats);
        back(&[-f32::MAX, -f32::from_bits(1), f32::from_bits(1), f32::INFINITY]);
        back(&[f16::MIN, -f16::MIN_POSITIVE_SUBNORMAL, f16::ONE, f16::INFINITY]);
        back(&[bf16::MIN, -bf16::MIN_POSITIVE_SUBNORMAL, bf16::ONE, bf16::INFINITY]);
        for several in [0.0, -0.0, f64::NAN, -f64::NAN] {
            assert_eq!(f64::of_rank(several.rank()), None);
        }
    }

    #[test]
    fn the_front_of_a_line_is_that_of_the_sorted_line() {
        let shuffled: Vec<u32> =
            (0..2000u32).map(|i| i.wrapping_mul(2_654_435_761) >> 20).collect();
        let falling: Vec<u32> = (0..2000).rev().collect();
        for line in [shuffled, falling] {
            let (mut all, mut front) = (vec![0; line.len()], vec![0; 400]);
            first_places(&line, true, &mut all);
            for count in [0, 1, 2, 15, 16, 17, 100, 249, 250, 251, 400] {
                first_places(&line, true, &mut front[..count]);
                assert_eq!(front[..count], all[..count]);
            }
        }
    }
}
