//! The first few places of a line in one pass, without ranks for all of it.

use super::rank::Ranked;
use crate::row_loops::{Job, Vectorised};
use crate::vec::Lanes;

/// Most places that are found in this way.
const MOST: usize = 32;

/// Elements that are looked at together: one of each group. As there are more groups than places
/// wanted, that many of the groups' first elements bound the elements wanted.
const GROUPS: usize = 64;

/// Lines so short are sorted whole, each element going where as many are before it.
const SHORT: usize = 32;

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
    // One more shows whether the last one has an equal.
    let kept = (out.len() + usize::from(distinct)).min(line.len());
    let few = 0 < kept && out.len() <= MOST && u32::try_from(line.len()).is_ok();
    if T::WIDE || !few {
        return false;
    }
    let mut room = [0; ROOM];
    let flip = if descending { u32::MAX } else { 0 };
    let first = if line.len() <= SHORT {
        f32::run(Sorted { line, flip, room: &mut room });
        &room[..line.len()]
    } else {
        let within = Within { line, flip, kept, room: &mut room };
        let Some(found) = f32::run(within) else { return false };
        room[..found].sort_unstable();
        &room[..found]
    };
    let rank = |key: u64| key >> u32::BITS;
    if distinct && first[..kept].windows(2).any(|pair| rank(pair[0]) == rank(pair[1])) {
        return false;
    }
    out.iter_mut().zip(first).for_each(|(out, key)| *out = i64::from(*key as u32));
    true
}

/// Fills the room with the keys of a short line, in their order: ranks with the places below them,
/// which compare as the pairs do.
struct Sorted<'a, T> {
    line: &'a [T],
    flip: u32,
    room: &'a mut [u64; ROOM],
}

impl<T: Ranked> Job<f32> for Sorted<'_, T> {
    type Out = ();

    #[inline(always)]
    fn run<V: Lanes<Elem = f32>>(self) {
        let mut keys = [u64::MAX; SHORT];
        for ((key, x), place) in keys.iter_mut().zip(self.line).zip(0u64..) {
            *key = u64::from(x.rank() as u32 ^ self.flip) << u32::BITS | place;
        }
        let whole = self.line.len().next_multiple_of(8).min(SHORT);
        let mut before = [0u64; SHORT];
        for &other in &keys[..self.line.len()] {
            for (before, &key) in before[..whole].iter_mut().zip(&keys) {
                *before += u64::from(other < key);
            }
        }
        for (&key, before) in keys.iter().zip(before).take(self.line.len()) {
            self.room[before as usize] = key;
        }
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

impl<T: Ranked> Job<f32> for Within<'_, T> {
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
    fn equal_elements_come_by_place_or_are_refused() {
        let line = [5u8, 7, 5, 9, 7, 5];
        let mut out = [0; 3];
        assert!(few_first_places(&line, true, false, &mut out));
        assert_eq!(out, [3, 1, 4]);
        assert!(!few_first_places(&line, true, true, &mut out));
        assert!(!few_first_places(&line, true, true, &mut out[..2]), "7 is there once more");
        assert!(few_first_places(&line, true, true, &mut out[..1]));
        assert!(!few_first_places(&line, true, false, &mut []));
        assert!(!few_first_places(&[1i64, 2], true, false, &mut out[..1]), "ranks are wide");
        assert!(!few_first_places(&[1u8; 40], true, false, &mut [0; 33]), "they are many");
    }
}
