//! Sorting where the order of equal elements is that of an algorithm.
//!
//! Which of several equal elements is found follows from the steps of the algorithm. They are those
//! of PyTorch, so that gradients flow to the same elements.

use super::split::split;
use corten_core::unwinding;

/// Puts the element of rank `k` at place `k`, with no greater ones before it, by the algorithm of
/// libstdc++'s `std::nth_element`; `before` is the order.
pub(super) fn nth_element<T: Copy>(items: &mut [T], k: usize, before: impl Fn(&T, &T) -> bool) {
    let (mut first, mut last) = (0, items.len());
    if k >= last {
        return;
    }
    let mut depth = 2 * items.len().ilog2();
    while last - first > 3 {
        if depth == 0 {
            // Bad pivots: the rest is sorted as a whole.
            let order = |a: &T, b: &T| before(b, a).cmp(&before(a, b));
            items[first..last].sort_by(order);
            return;
        }
        depth -= 1;
        let cut = first + split(&mut items[first..last], |a, b| before(&a, &b));
        if cut <= k {
            first = cut;
        } else {
            last = cut;
        }
    }
    for i in first + 1..last {
        let mut j = i;
        while j > first && before(&items[j], &items[j - 1]) {
            items.swap(j, j - 1);
            j -= 1;
        }
    }
}

/// Below this many items `std::sort` inserts one after the other.
pub(super) const FEW: usize = 16;

/// Sorts a few items by the algorithm of libstdc++'s `std::sort`, which shows where NaN makes
/// `before` no order.
pub(super) fn sort_few<T>(items: &mut [T], before: impl Fn(&T, &T) -> bool) {
    for i in 1..items.len() {
        let mut place = i;
        if before(&items[i], &items[0]) {
            place = 0;
        } else {
            while place > 0 && before(&items[i], &items[place - 1]) {
                place -= 1;
            }
        }
        items[place..=i].rotate_right(1);
    }
}

/// Sorts by the algorithm of libstdc++'s `std::sort`.
pub(super) fn sort_unstably<T: Copy>(items: &mut [T], before: impl Fn(&T, &T) -> bool) {
    let depth = 2 * items.len().checked_ilog2().unwrap_or(0);
    sort_coarsely(items, (0, items.len()), depth, &before);
    // No element is more than a piece away from its place.
    for i in 1..items.len() {
        let mut j = i;
        while j > 0 && before(&items[j], &items[j - 1]) {
            items.swap(j, j - 1);
            j -= 1;
        }
    }
}

/// Sorts down to pieces of 16, whose elements keep their order where they are equal.
fn sort_coarsely<T: Copy>(
    items: &mut [T],
    (first, mut last): (usize, usize),
    mut depth: u32,
    before: &impl Fn(&T, &T) -> bool,
) {
    while last - first > FEW {
        if depth == 0 {
            // Bad pivots: the rest is sorted as a whole.
            items[first..last].sort_by(|a, b| before(b, a).cmp(&before(a, b)));
            return;
        }
        depth -= 1;
        let cut = first + split(&mut items[first..last], |a, b| before(&a, &b));
        sort_coarsely(items, (cut, last), depth, before);
        last = cut;
    }
}

/// The place in `ranks` of the element of rank `k`, by PyTorch's quickselect.
pub(super) fn quick_select(ranks: &[u64], k: usize) -> usize {
    let mut items: Vec<(u64, usize)> = unwinding::collect(ranks.iter().copied().zip(0..));
    let (mut left, mut right) = (0, items.len() as isize - 1);
    while right > left {
        let (l, r) = (left as usize, right as usize);
        if r == l + 1 {
            order(&mut items, l, r);
            break;
        }
        items.swap(l + (r - l) / 2, l + 1);
        order(&mut items, l + 1, r);
        order(&mut items, l, r);
        order(&mut items, l + 1, l);
        let (mut i, mut j, pivot) = (l + 1, r, items[l].0);
        loop {
            i += 1;
            while items[i].0 < pivot {
                i += 1;
            }
            j -= 1;
            while items[j].0 > pivot {
                j -= 1;
            }
            if j < i {
                break;
            }
            items.swap(i, j);
        }
        items.swap(l, j);
        if j <= k {
            left = i as isize;
        }
        if j >= k {
            right = j as isize - 1;
        }
    }
    items[k].1
}

/// Swaps two elements where the first is greater.
fn order(items: &mut [(u64, usize)], first: usize, second: usize) {
    if items[first].0 > items[second].0 {
        items.swap(first, second);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_element_at_a_place_is_that_of_the_sorted_line() {
        let mut state = 1u64;
        for length in 1..200usize {
            let line: Vec<u64> = (0..length)
                .map(|_| {
                    state =
                        state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    (state >> 33) % (length as u64)
                })
                .collect();
            let mut sorted = line.clone();
            sorted.sort_unstable();
            for k in [0, length / 3, length - 1] {
                assert_eq!(line[quick_select(&line, k)], sorted[k]);
                let mut items = line.clone();
                nth_element(&mut items, k, |a, b| a < b);
                assert_eq!(items[k], sorted[k]);
                assert!(items[..k].iter().all(|item| *item <= sorted[k]));
            }
        }
    }
}
