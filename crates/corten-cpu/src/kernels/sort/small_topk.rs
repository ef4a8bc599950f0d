//! The first few places of a line in one pass, without ranks for all of it.

use super::keys::{Key, flip_of, narrow};
use super::rank::Ranked;
use crate::rows::loops::{RowKernel, Vectorised};
use crate::vec::{Lanes, Level, level};

/// Most places that are found in this way.
const MOST: usize = 32;

/// Elements that are looked at together: one of each group. As there are more groups than places
/// wanted, that many of the groups' first elements bound the elements wanted.
const GROUPS: usize = 64;

/// Of longer lines up to this length so many places, with one more to compare with, are found one after the
/// other, if ranks are narrow.
const NEAR: usize = 128;
const SUCCESSIVE: usize = 17;

/// Lines so short are sorted whole.
const SHORT: usize = 32;

/// Of lines up to this length so many places, with one more to compare with, are found by insertion.
const MIDDLING: usize = 512;
const INSERTED: usize = 9;

/// Room for the keys of elements within the bound.
const ROOM: usize = 8 * GROUPS;

/// Writes where the elements are that come first, equal ones by place. Returns whether that was
/// done: `out` must have room for few, of narrow ranks, and not too many others may equal the last
/// of them. With `distinct` it is not done either where two of them are equal, or the last one and
/// one that is left out.
pub(super) fn few_first_places<T: Ranked>(
    line: &[T],
    descending: bool,
    distinct: bool,
    out: &mut [i64],
) -> bool {
    if out.is_empty() || out.len() > MOST {
        return false;
    }
    match line.len() {
        length if length > SHORT && length <= NEAR && successive::<T>(out.len()) => {
            let kept = looked_at(line, out, distinct);
            f32::run(Successive { line, flip: flip_of(descending) as u32, kept, distinct, out })
        }
        9..=MIDDLING if out.len() < INSERTED.min(line.len() / 2) => {
            let (kept, flip) = (looked_at(line, out, distinct), flip_of(descending));
            let order = f32::run(Inserted { line, flip, kept });
            take(line, &order[..kept], distinct, out)
        }
        ..=SHORT => {
            let order = order_of(line, flip_of(descending));
            take(line, &order[..looked_at(line, out, distinct)], distinct, out)
        }
        _ => long_first_places(line, descending, distinct, out),
    }
}

/// Whether so many places are found one after the other; very few by insertion, unless vectors are so long
/// that they hold a line in a few.
fn successive<T: Ranked>(count: usize) -> bool {
    let counts = if level() == Level::Avx512 { 1..SUCCESSIVE } else { INSERTED..SUCCESSIVE };
    !T::WIDE && counts.contains(&count)
}

/// How many of the first ones show whether those wanted, or one of them and the next, are equal.
fn looked_at<T>(line: &[T], out: &[i64], distinct: bool) -> usize {
    (out.len() + usize::from(distinct)).min(line.len())
}

/// [`few_first_places`] of a line of more than [`SHORT`] elements. Its room is not for others to pay.
#[inline(never)]
fn long_first_places<T: Ranked>(
    line: &[T],
    descending: bool,
    distinct: bool,
    out: &mut [i64],
) -> bool {
    if !narrow::<T>(line.len()) {
        return false;
    }
    let kept = looked_at(line, out, distinct);
    let mut room = [0; ROOM];
    let flip = flip_of(descending) as u32;
    let within = Within { line, flip, kept, room: &mut room };
    let Some(found) = f32::run(within) else { return false };
    let first = &mut room[..found];
    first.sort_unstable();
    let rank = |key: u64| key >> u32::BITS;
    if distinct && first[..kept].windows(2).any(|pair| rank(pair[0]) == rank(pair[1])) {
        return false;
    }
    out.iter_mut().zip(first).for_each(|(out, key)| *out = i64::from(*key as u32));
    true
}

/// The places of a line of at most [`SHORT`] elements in their order, equal ones by place.
fn order_of<T: Ranked>(line: &[T], flip: u64) -> [u32; SHORT] {
    if T::WIDE { order_by::<T, u128>(line, flip) } else { order_by::<T, u64>(line, flip) }
}

fn order_by<T: Ranked, K: Key>(line: &[T], flip: u64) -> [u32; SHORT] {
    let (mut order, count) = ([0; SHORT], line.len().min(SHORT));
    let mut keys = [K::new(u64::MAX, usize::MAX); SHORT];
    for (place, (key, x)) in keys.iter_mut().zip(line).enumerate() {
        *key = K::new(x.rank() ^ flip, place);
    }
    sort_short(&mut keys, count);
    order.iter_mut().zip(&keys[..count]).for_each(|(place, key)| *place = key.place() as u32);
    order
}

/// Sorts the first `count` keys, behind which are others that no key is behind. Up to eight are sorted
/// without branches, by K. E. Batcher's odd-even merge sort ("Sorting networks and their applications",
/// 1968).
fn sort_short<K: Ord + Copy>(keys: &mut [K; SHORT], count: usize) {
    macro_rules! in_order {
        ($keys:ident: $($low:literal $high:literal),+) => {$(
            let (a, b) = ($keys[$low], $keys[$high]);
            // Both are written whether they change places or not: no processor foresees which do.
            ($keys[$low], $keys[$high]) = if b < a { (b, a) } else { (a, b) };
        )+};
    }
    match count {
        0..=4 => {
            in_order!(keys: 0 1, 2 3, 0 2, 1 3, 1 2);
        }
        5..=8 => {
            in_order!(keys: 0 1, 2 3, 4 5, 6 7, 0 2, 1 3, 4 6, 5 7, 1 2, 5 6);
            in_order!(keys: 0 4, 1 5, 2 6, 3 7, 2 4, 3 5, 1 2, 3 4, 5 6);
        }
        _ => keys[..count.min(SHORT)].sort_unstable(),
    }
}

/// Writes the first places, unless some that must be distinct are not.
fn take<T: Ranked>(line: &[T], first: &[u32], distinct: bool, out: &mut [i64]) -> bool {
    let rank = |place: u32| line[place as usize].rank();
    if distinct && first.windows(2).any(|pair| rank(pair[0]) == rank(pair[1])) {
        return false;
    }
    out.iter_mut().zip(first).for_each(|(out, &place)| *out = i64::from(place));
    true
}

/// Writes the first places of a line of at most [`NEAR`] elements, of which it looks at `kept`, one after the
/// other: each time the least of what is greater than the last one. Returns whether it did: if they are to be
/// distinct, not where one equals the next.
struct Successive<'a, T> {
    line: &'a [T],
    flip: u32,
    kept: usize,
    distinct: bool,
    out: &'a mut [i64],
}

impl<T: Ranked> RowKernel<f32> for Successive<'_, T> {
    type Out = bool;

    #[inline(always)]
    fn run<V: Lanes<Elem = f32>>(self) -> bool {
        const LANES: usize = 16;
        let Self { line, flip, kept, distinct, out } = self;
        // Ranks as signed numbers, which more processors compare, with the place below them: from one on, so
        // that every key is greater than the least number.
        let mut keys = [i64::MAX; NEAR];
        for ((key, x), place) in keys.iter_mut().zip(line).zip(1i64..) {
            let rank = x.rank() as u32 ^ flip ^ 1 << (u32::BITS - 1);
            *key = i64::from(rank as i32) << u32::BITS | place;
        }
        let keys = &keys[..line.len().next_multiple_of(LANES)];
        let mut last = i64::MIN;
        for i in 0..kept {
            let mut least = [i64::MAX; LANES];
            for block in keys.chunks_exact(LANES) {
                for (least, &key) in least.iter_mut().zip(block) {
                    *least = (*least).min(if key > last { key } else { i64::MAX });
                }
            }
            let next = least.into_iter().fold(i64::MAX, i64::min);
            if distinct && i > 0 && next >> u32::BITS == last >> u32::BITS {
                return false;
            }
            if let Some(out) = out.get_mut(i) {
                *out = i64::from(next as u32) - 1;
            }
            last = next;
        }
        true
    }
}

/// The first `kept` places of a line, at most [`INSERTED`] and no more than it has, each put among
/// those before it.
struct Inserted<'a, T> {
    line: &'a [T],
    flip: u64,
    kept: usize,
}

impl<T: Ranked> RowKernel<f32> for Inserted<'_, T> {
    type Out = [u32; INSERTED];

    #[inline(always)]
    fn run<V: Lanes<Elem = f32>>(self) -> [u32; INSERTED] {
        const BLOCK: usize = 16;
        let Self { line, flip, kept } = self;
        let (mut ranks, mut places) = ([0; INSERTED], [0; INSERTED]);
        let mut insert = |count: usize, rank: u64, place: usize| {
            let mut i = count - 1;
            while i > 0 && rank < ranks[i - 1] {
                (ranks[i], places[i]) = (ranks[i - 1], places[i - 1]);
                i -= 1;
            }
            (ranks[i], places[i]) = (rank, place as u32);
            ranks[count - 1]
        };
        let mut bound = 0;
        for (place, x) in line[..kept].iter().enumerate() {
            bound = insert(place + 1, x.rank() ^ flip, place);
        }
        for (block, first) in line[kept..].chunks(BLOCK).zip((kept..).step_by(BLOCK)) {
            let (mut here, mut any) = ([u64::MAX; BLOCK], false);
            for (slot, x) in here.iter_mut().zip(block) {
                *slot = x.rank() ^ flip;
                any |= *slot < bound;
            }
            if any {
                for (&rank, place) in here.iter().zip(first..first + block.len()) {
                    if rank < bound {
                        bound = insert(kept, rank, place);
                    }
                }
            }
        }
        places
    }
}

/// Fills the room with keys of a line among which the `kept` least are. Returns how many; nothing
/// if there is no room.
struct Within<'a, T> {
    line: &'a [T],
    flip: u32,
    kept: usize,
    room: &'a mut [u64; ROOM],
}

impl<T: Ranked> RowKernel<f32> for Within<'_, T> {
    type Out = Option<usize>;

    #[inline(always)]
    fn run<V: Lanes<Elem = f32>>(self) -> Option<usize> {
        let Within { line, flip, kept, room } = self;
        let rank = |x: &T| x.rank() as u32 ^ flip;
        let mut least = [u32::MAX; GROUPS];
        for block in line.chunks(GROUPS) {
            for (least, x) in least.iter_mut().zip(block) {
                *least = (*least).min(rank(x));
            }
        }
        let bound = least_but(&least, kept - 1);
        let (mut found, mut place) = (0, 0);
        for block in line.chunks(GROUPS) {
            // All ranks of the block at once: one by one they would take a branch each.
            let (mut ranks, mut any) = ([0; GROUPS], false);
            for (slot, x) in ranks.iter_mut().zip(block) {
                *slot = rank(x);
                any |= *slot <= bound;
            }
            if any {
                let room = room.get_mut(found..found + GROUPS)?;
                let mut here = 0;
                for (i, &rank) in ranks[..block.len()].iter().enumerate() {
                    // Written whether it stays or not, as no processor foresees which do.
                    room[here] = u64::from(rank) << u32::BITS | (place + i) as u64;
                    here += usize::from(rank <= bound);
                }
                found += here;
            }
            place += block.len();
        }
        Some(found)
    }
}

/// The least number but `skipped`.
#[inline(always)]
fn least_but(numbers: &[u32; GROUPS], skipped: usize) -> u32 {
    let mut bound = 0;
    for &one in numbers {
        let mut before = 0;
        for &other in numbers {
            before += u32::from(other < one);
        }
        if before as usize <= skipped {
            bound = bound.max(one);
        }
    }
    bound
}

#[cfg(test)]
mod tests {
    use super::super::rank::first_places;
    use super::*;

    #[test]
    fn they_are_the_front_of_the_sorted_line() {
        let shuffled = |i: u32| (i.wrapping_mul(2_654_435_761) >> 8) as f32 - 8e6;
        for length in [1, 2, 7, 10, 31, 32, 33, 64, 65, 500, 3001] {
            let mut line: Vec<f32> = (0..length).map(shuffled).collect();
            if let [_, nan, .., zero] = &mut line[..] {
                (*nan, *zero) = (f32::NAN, -0.0);
            }
            for (count, descending) in [(1, true), (10, false), (10, true), (32, true)] {
                let mut wanted = vec![0; count.min(length as usize)];
                first_places(&line, descending, &mut wanted);
                for distinct in [false, true] {
                    let mut found = vec![0; wanted.len()];
                    assert!(few_first_places(&line, descending, distinct, &mut found));
                    assert_eq!(found, wanted, "{count} of {length}");
                }
            }
        }
    }

    #[test]
    fn short_lines_are_sorted_in_every_order() {
        // What sorts all zeros and ones sorts everything.
        for (length, bits) in
            (0..=8).flat_map(|length| (0..1u32 << length).map(move |x| (length, x)))
        {
            let line: Vec<u8> = (0..length).map(|i| (bits >> i & 1) as u8).collect();
            let wide: Vec<i64> = line.iter().map(|&x| -i64::from(x)).collect();
            let mut expected: Vec<u32> = (0..length).collect();
            expected.sort_by_key(|&place| line[place as usize]);
            assert_eq!(order_of(&line, 0)[..length as usize], expected);
            assert_eq!(order_of(&wide, u64::MAX)[..length as usize], expected);
        }
        let line: Vec<i64> = (0..32).map(|i| i * 7 % 13).collect();
        let mut expected: Vec<u32> = (0..32).collect();
        expected.sort_by_key(|&place| line[place as usize]);
        assert_eq!(order_of(&line, 0)[..], expected);
    }

    #[test]
    fn equal_elements_come_by_place_or_are_refused() {
        let line = [5u8, 7, 5, 9, 7, 5];
        let mut out = [0; 3];
        assert!(few_first_places(&line, true, false, &mut out));
        assert_eq!(out, [3, 1, 4]);
        assert!(!few_first_places(&line, true, true, &mut out));
        assert!(!few_first_places(&line, true, true, &mut out[..2]), "7 is there once more");
        assert!(few_first_places(&line, true, true, &mut out[..1]));
        assert!(!few_first_places(&line, true, false, &mut []));
        assert!(!few_first_places(&[1i64; 40], true, false, &mut [0; 9]), "ranks are wide");
        assert!(few_first_places(&[5i64, 7, 5, 9, 7, 5], true, false, &mut out));
        assert_eq!(out, [3, 1, 4]);
        assert!(!few_first_places(&[1u8; 40], true, false, &mut [0; 33]), "they are many");
        for length in [20, 40, 128] {
            let line: Vec<u8> = (0..length).map(|i| (i * 7 % 13) as u8).collect();
            let mut wanted: Vec<i64> = (0..length).collect();
            wanted.sort_by_key(|&place| line[place as usize]);
            let mut found = [0; 16];
            assert!(few_first_places(&line, false, false, &mut found));
            assert_eq!(found, wanted[..16]);
            assert!(!few_first_places(&line, false, true, &mut found));
        }
    }
}
