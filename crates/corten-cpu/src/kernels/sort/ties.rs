//! The order in which an unstable algorithm leaves equal elements.
//!
//! The steps are those of libstdc++'s `std::sort`, as in [`super::select`]. They are followed to where
//! a part of the line fits a cache. There the order but for equal elements is found by digits, and only
//! parts with equal elements are followed further.

use super::keys::{Key, sort_stably};
use super::select::FEW;
use super::split::split;
use corten_core::unwinding;

/// A part of a line that is sorted by itself, and where its elements go.
pub(super) struct Piece<'a, T, K> {
    keys: &'a mut [K],
    values: &'a mut [T],
    indices: &'a mut [i64],
    /// How often the algorithm may split it before it takes to another one, which is not followed; 0 for
    /// a stable order.
    depth: u32,
    /// Whether it is a whole line, whose keys come in the order of their places.
    whole: bool,
}

/// Pieces of at most so many elements are sorted by themselves: a second-level cache holds what
/// [`Rooms`] have of them.
const PIECE: usize = 1 << 13;

const _: () = assert!(PIECE <= 1 << u16::BITS, "places in a piece have 16 bits");

impl<'a, T, K: Key> Piece<'a, T, K> {
    /// A whole line, whose equal elements are sorted by place or as the algorithm does.
    pub(super) fn of_line(
        keys: &'a mut [K],
        values: &'a mut [T],
        indices: &'a mut [i64],
        by_place: bool,
    ) -> Self {
        let splits = 2 * keys.len().checked_ilog2().unwrap_or(0);
        let depth = if by_place { 0 } else { splits };
        Self { keys, values, indices, depth, whole: true }
    }

    /// Splits it into pieces that are small, or stable.
    pub(super) fn cut(mut self, pieces: &mut Vec<Self>) {
        while self.keys.len() > PIECE && self.depth > 0 {
            let depth = self.depth - 1;
            let cut = split(self.keys, |a, b| a.rank_part() < b.rank_part());
            let (low, high) = self.keys.split_at_mut(cut);
            let (low_values, high_values) = self.values.split_at_mut(cut);
            let (low_indices, high_indices) = self.indices.split_at_mut(cut);
            let part = |keys, values, indices| Piece { keys, values, indices, depth, whole: false };
            part(high, high_values, high_indices).cut(pieces);
            self = part(low, low_values, low_indices);
        }
        pieces.push(self);
    }

    /// Sorts it, and writes its elements; `value` gives that of a key.
    pub(super) fn finish(&mut self, rooms: &mut Rooms<K>, value: impl Fn(K) -> T) {
        let Self { keys, values, indices, depth, whole } = self;
        let places = values.iter_mut().zip(&mut **indices);
        let write = |((out, index), key): ((&mut T, &mut i64), K)| {
            (*out, *index) = (value(key), key.place() as i64);
        };
        if *whole {
            rooms.sort(keys, *depth);
            places.zip(keys.iter().copied()).for_each(write);
        } else {
            let order = rooms.order(keys, *depth);
            places.zip(order.iter().map(|key| keys[key.place()])).for_each(write);
            rooms.order = order;
        }
    }
}

/// What sorting a piece takes, kept from one to the next.
#[derive(Default)]
pub(super) struct Rooms<K> {
    order: Vec<K>,
    other: Vec<K>,
    walk: TieOrder,
}

impl<K: Key> Rooms<K> {
    /// The order of a piece, as keys of the places in it.
    fn order(&mut self, keys: &[K], depth: u32) -> Vec<K> {
        let mut order = std::mem::take(&mut self.order);
        order.clear();
        unwinding::extend(
            &mut order,
            keys.iter().enumerate().map(|(i, key)| K::new(key.rank_part(), i)),
        );
        self.sort(&mut order, depth);
        order
    }

    /// Sorts keys that come in the order of their places, which count from 0.
    fn sort(&mut self, keys: &mut [K], depth: u32) {
        sort_stably(keys, &mut self.other);
        let tie = |pair: &[K]| pair[0].rank_part() == pair[1].rank_part();
        if depth > 0 && keys.len() > FEW && keys.windows(2).any(tie) {
            self.walk.order_ties(keys, depth);
        }
    }
}

/// A sorted piece, whose equal elements are brought into the order in which the algorithm leaves them.
#[derive(Default)]
struct TieOrder {
    /// The elements as the algorithm has ordered them so far: where the first equal one stands in the
    /// sorted piece, and the place, in a word each.
    items: Vec<u32>,
    /// How many of the elements before each one of the sorted piece equal the element before them.
    ties: Vec<u16>,
    /// Where the next one of equal elements goes, by where the first one does.
    next: Vec<u16>,
    /// The places in their order.
    places: Vec<u16>,
}

impl TieOrder {
    fn order_ties<K: Key>(&mut self, sorted: &mut [K], depth: u32) {
        self.start(sorted);
        let mut items = std::mem::take(&mut self.items);
        self.sort(&mut items, 0, depth);
        self.items = items;
        for (key, &place) in sorted.iter_mut().zip(&self.places) {
            *key = K::new(key.rank_part(), usize::from(place));
        }
    }

    fn start<K: Key>(&mut self, sorted: &[K]) {
        self.items.resize(sorted.len(), 0);
        self.ties.clear();
        let (mut first, mut count, mut last) = (0, 0, None);
        for (i, key) in (0u64..).zip(sorted) {
            self.ties.push(count);
            match Some(key.rank_part()) == last {
                true => count += 1,
                false => (first, last) = (i, Some(key.rank_part())),
            }
            self.items[key.place()] = Key::new(first, key.place());
        }
        // No element follows the last one, so none equals it.
        self.ties.extend([count, count]);
        self.next.clear();
        self.next.extend((0..=u16::MAX).take(sorted.len()));
        self.places.clear();
        self.places.extend(sorted.iter().map(|key| key.place() as u16));
    }

    /// Sorts the items that belong at `first` and behind.
    fn sort(&mut self, mut items: &mut [u32], first: usize, mut depth: u32) {
        while items.len() > FEW && depth > 0 {
            if self.settled(first, items.len()) {
                return;
            }
            depth -= 1;
            let cut = split(items, |a, b| a.rank_part() < b.rank_part());
            let (low, high) = items.split_at_mut(cut);
            self.sort(high, first + cut, depth);
            items = low;
        }
        if !self.settled(first, items.len()) {
            // Equal elements keep their order from here on.
            for item in items {
                let next = &mut self.next[(item.rank_part() as usize).max(first)];
                self.places[usize::from(*next)] = item.place() as u16;
                *next += 1;
            }
        }
    }

    /// Whether so many elements that belong at `first` and behind equal none but themselves.
    fn settled(&self, first: usize, count: usize) -> bool {
        self.ties[first] == self.ties[first + count + 1]
    }
}

#[cfg(test)]
mod tests {
    use super::super::keys::keys_of;
    use super::super::select::sort_unstably;
    use super::*;

    fn order<K: Key>(ranks: &[u64]) -> Vec<i64> {
        let mut keys: Vec<K> = keys_of(ranks.iter().copied(), 0);
        let (mut values, mut indices) = (vec![(); ranks.len()], vec![0; ranks.len()]);
        let (mut rooms, mut pieces) = (Rooms::default(), Vec::new());
        Piece::of_line(&mut keys, &mut values, &mut indices, false).cut(&mut pieces);
        pieces.iter_mut().for_each(|piece| piece.finish(&mut rooms, |_| ()));
        indices
    }

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
                    sort_unstably(&mut items, |a, b| a.0 < b.0);
                    let places: Vec<i64> = items.iter().map(|item| item.1).collect();
                    assert_eq!(order::<u64>(&ranks), places);
                    assert_eq!(order::<u128>(&ranks), places);
                }
            }
        }
    }
}
