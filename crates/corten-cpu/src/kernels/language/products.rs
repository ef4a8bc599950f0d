//! The products of attention over a stretch of a cache: queries with keys, and weights with values.

use crate::rows::loops::{RowKernel, for_each_vector, load, store};
use crate::vec::Lanes;

/// Tokens of a stretch.
pub(super) const STRETCH: usize = 256;

/// The products of keys with all queries: `scores[q * STRETCH + first + k]`.
pub(super) struct Scores<'a> {
    pub(super) queries: &'a [f32],
    pub(super) keys: &'a [f32],
    pub(super) width: usize,
    pub(super) first: usize,
    pub(super) scores: &'a mut [f32],
}

impl RowKernel<f32> for Scores<'_> {
    type Out = ();

    #[inline(always)]
    fn run<V: Lanes<Elem = f32>>(self) {
        let Self { queries, keys, width, first, scores } = self;
        if width == 0 {
            return scores.fill(0.0);
        }
        let (count, members) = (keys.len() / width, queries.len() / width);
        let mut key = 0;
        while key < count {
            let pair =
                [&keys[key * width..][..width], &keys[(key + 1).min(count - 1) * width..][..width]];
            let mut member = 0;
            while member < members {
                let at = |i: usize| &queries[(member + i).min(members - 1) * width..][..width];
                if members - member == 1 {
                    let [found] = dots::<V, 1>(pair, [at(0)]);
                    put(scores, member, first + key, count - key, found);
                    member += 1;
                } else {
                    let found = dots::<V, 4>(pair, [at(0), at(1), at(2), at(3)]);
                    let left = members - member;
                    for (i, found) in found.into_iter().enumerate().take(left) {
                        put(scores, member + i, first + key, count - key, found);
                    }
                    member += 4.min(left);
                }
            }
            key += 2;
        }
    }
}

/// Stores the products of one query with one or two keys.
#[inline(always)]
fn put(scores: &mut [f32], member: usize, key: usize, left: usize, found: [f32; 2]) {
    let scores = &mut scores[member * STRETCH + key..];
    scores[0] = found[0];
    if left > 1 {
        scores[1] = found[1];
    }
}

/// The products of `Q` queries with two keys, all of one length.
#[inline(always)]
fn dots<V: Lanes<Elem = f32>, const Q: usize>(
    keys: [&[f32]; 2],
    queries: [&[f32]; Q],
) -> [[f32; 2]; Q] {
    let mut sums = [[V::lit(0.0); 2]; Q];
    for_each_vector!(V, keys[0].len(), |at, n| {
        let pair = [load::<V>(keys[0], at, n), load::<V>(keys[1], at, n)];
        for (sums, query) in sums.iter_mut().zip(queries) {
            let query = load::<V>(query, at, n);
            for (sum, key) in sums.iter_mut().zip(pair) {
                *sum = query.mul_add(key, *sum);
            }
        }
    });
    let mut found = [[0.0; 2]; Q];
    for (found, sums) in found.iter_mut().zip(sums) {
        for (found, sum) in found.iter_mut().zip(sums) {
            *found = total(sum);
        }
    }
    found
}

/// The sum of the lanes.
#[inline(always)]
fn total<V: Lanes<Elem = f32>>(mut sum: V) -> f32 {
    for distance in [8, 4, 2, 1] {
        if distance < V::LANES {
            sum = sum + sum.exchanged(distance);
        }
    }
    let mut lanes = [0.0; 16];
    store(sum, &mut lanes, 0, V::LANES);
    lanes[0]
}

/// Adds values to the sums of all queries: `sums[q] += scores[q * STRETCH + first + k] * values[k]`.
pub(super) struct WeightedSums<'a> {
    pub(super) scores: &'a [f32],
    pub(super) first: usize,
    pub(super) values: &'a [f32],
    pub(super) width: usize,
    pub(super) sums: &'a mut [f32],
}

impl RowKernel<f32> for WeightedSums<'_> {
    type Out = ();

    #[inline(always)]
    fn run<V: Lanes<Elem = f32>>(self) {
        let Self { scores, first, values, width, sums } = self;
        if width == 0 {
            return;
        }
        let count = values.len() / width;
        for (number, sums) in sums.chunks_mut(4 * width).enumerate() {
            let weights = |i: usize| {
                let member = (number * 4 + i).min(scores.len() / STRETCH - 1);
                &scores[member * STRETCH + first..][..count]
            };
            let weights = [weights(0), weights(1), weights(2), weights(3)];
            let members = sums.len() / width;
            for_each_vector!(V, width, |at, n| {
                if members == 4 {
                    add::<V, 4>(sums, weights, values, [width, at, n]);
                } else {
                    for member in 0..members {
                        let sums = &mut sums[member * width..][..width];
                        add::<V, 1>(sums, [weights[member]], values, [width, at, n]);
                    }
                }
            });
        }
    }
}

#[inline(always)]
fn add<V: Lanes<Elem = f32>, const Q: usize>(
    sums: &mut [f32],
    weights: [&[f32]; Q],
    values: &[f32],
    [width, at, n]: [usize; 3],
) {
    let mut made = [V::lit(0.0); Q];
    for (member, made) in made.iter_mut().enumerate() {
        *made = load::<V>(sums, member * width + at, n);
    }
    for key in 0..weights[0].len() {
        let value = load::<V>(values, key * width + at, n);
        for (made, weights) in made.iter_mut().zip(weights) {
            *made = V::splat(weights[key]).mul_add(value, *made);
        }
    }
    for (member, made) in made.into_iter().enumerate() {
        store(made, sums, member * width + at, n);
    }
}
