//! Ranks and places in one word each, and sorting these by rank without comparing.

use super::rank::Ranked;
use crate::rows::loops::compiled;
use corten_core::unwinding;

/// A rank above a place: a word that compares as the pair does.
pub(super) trait Key: Copy + Ord + Default + Send {
    /// How many bits a rank has.
    const RANK_BITS: u32;
    /// What moving one by a digit takes, in comparisons of two.
    const MOVE: usize;

    /// The key of a rank and a place, which must fit.
    fn new(rank: u64, place: usize) -> Self;
    /// The rank.
    fn rank_part(self) -> u64;
    /// The place.
    fn place(self) -> usize;
}

macro_rules! keys {
    ($($t:ty: $rank:ty, $moved:literal;)+) => {$(
        impl Key for $t {
            const RANK_BITS: u32 = <$rank>::BITS;
            const MOVE: usize = $moved;

            #[inline(always)]
            fn new(rank: u64, place: usize) -> Self {
                <$t>::from(rank as $rank) << <$rank>::BITS | <$t>::from(place as $rank)
            }

            #[inline(always)]
            fn rank_part(self) -> u64 {
                u64::from((self >> <$rank>::BITS) as $rank)
            }

            #[inline(always)]
            fn place(self) -> usize {
                self as $rank as usize
            }
        }
    )+};
}

keys! {
    u32: u16, 1;
    u64: u32, 1;
    u128: u64, 2;
}

/// Whether ranks of the type and places of a line of so many elements fit a `u64`.
pub(super) fn narrow<T: Ranked>(length: usize) -> bool {
    !T::WIDE && u32::try_from(length).is_ok()
}

/// What turns the order of ranks around.
pub(super) fn flip_of(descending: bool) -> u64 {
    if descending { u64::MAX } else { 0 }
}

/// The keys of some elements by their ranks; `flip` is that of [`flip_of`].
pub(super) fn keys_of<K: Key>(ranks: impl Iterator<Item = u64>, flip: u64) -> Vec<K> {
    unwinding::collect(ranks.enumerate().map(|(place, rank)| K::new(rank ^ flip, place)))
}

/// Sorts keys that come in the order of their places by rank, equal ones by place.
pub(super) fn sort_stably<K: Key>(keys: &mut [K], room: &mut Vec<K>) {
    if keys.len() < FEWEST || u32::try_from(keys.len()).is_err() {
        keys.sort_unstable();
    } else if keys.len() < MANY {
        sort_by_digits::<K, 8>(keys, room);
    } else {
        sort_by_digits::<K, 11>(keys, room);
    }
}

/// So few keys are always compared.
const FEWEST: usize = 64;

/// From so many keys on digits are longer.
const MANY: usize = 4096;

/// By digits of so many bits, where that takes less than comparing keys.
fn sort_by_digits<K: Key, const BITS: u32>(keys: &mut [K], room: &mut Vec<K>) {
    let least = compiled(|| keys.iter().fold(u64::MAX, |least, key| least.min(key.rank_part())));
    let above = compiled(|| keys.iter().fold(0, |bits, key| bits | (key.rank_part() - least)));
    // Digits that are 0 everywhere order nothing.
    let passes = (u64::BITS - above.leading_zeros()).div_ceil(BITS);
    let moves = passes as usize * (keys.len() + (1 << BITS)) * K::MOVE;
    if moves > keys.len() * keys.len().ilog2() as usize {
        keys.sort_unstable();
        return;
    }
    unwinding::resize(room, keys.len(), K::default());
    match passes {
        0 => {}
        1 => sort_by::<K, BITS, 1>(keys, room, least),
        2 => sort_by::<K, BITS, 2>(keys, room, least),
        3 => sort_by::<K, BITS, 3>(keys, room, least),
        4 => sort_by::<K, BITS, 4>(keys, room, least),
        5 => sort_by::<K, BITS, 5>(keys, room, least),
        6 => sort_by::<K, BITS, 6>(keys, room, least),
        7 => sort_by::<K, BITS, 7>(keys, room, least),
        _ => sort_by::<K, BITS, 8>(keys, room, least),
    }
}

/// Sorts by the digits of what ranks have above the least one, from the lowest on: each pass keeps the
/// order of those before.
fn sort_by<K: Key, const BITS: u32, const PASSES: usize>(
    keys: &mut [K],
    room: &mut [K],
    least: u64,
) {
    let values = 1 << BITS;
    let digit = |key: K, pass: usize| {
        (key.rank_part() - least).unbounded_shr(pass as u32 * BITS) as usize % values
    };
    let mut counts = unwinding::vec(0u32, PASSES * values);
    for &key in &*keys {
        for pass in 0..PASSES {
            counts[pass * values + digit(key, pass)] += 1;
        }
    }
    let (mut from, mut to) = (&mut *keys, &mut *room);
    for (pass, counts) in counts.chunks_exact_mut(values).enumerate() {
        let mut start = 0;
        for count in counts.iter_mut() {
            (*count, start) = (start, start + *count);
        }
        for &key in &*from {
            let place = &mut counts[digit(key, pass)];
            to[*place as usize] = key;
            *place += 1;
        }
        std::mem::swap(&mut from, &mut to);
    }
    if PASSES % 2 == 1 {
        to.copy_from_slice(from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted<K: Key>(ranks: &[u64], flip: u64) -> Vec<usize> {
        let mut keys: Vec<K> = keys_of(ranks.iter().copied(), flip);
        sort_stably(&mut keys, &mut Vec::new());
        keys.iter().map(|key| key.place()).collect()
    }

    #[test]
    fn equal_ranks_keep_their_order() {
        let mut state = 7u64;
        let mut next = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            state >> 32
        };
        // Of all bits, some in the middle, one, none.
        let masks = [u64::from(u32::MAX), 0x000f_ff00, 0x8000_0000, 0];
        for length in [0, 1, 2, 511, 512, 1023, 1024, 4095, 4096, 20_000] {
            for mask in masks {
                let ranks: Vec<u64> = (0..length).map(|_| next() & mask).collect();
                for flip in [0, flip_of(true)] {
                    let mut wanted: Vec<usize> = (0..length).collect();
                    wanted.sort_by_key(|&place| ranks[place] ^ flip);
                    assert_eq!(sorted::<u64>(&ranks, flip), wanted);
                    let wide: Vec<u64> = ranks.iter().map(|rank| rank << 32 | rank).collect();
                    assert_eq!(sorted::<u128>(&wide, flip), wanted);
                }
            }
        }
    }
}
