//! Blocks of eight groups of 32.

use super::vector::{Dot, Sums};
use super::{Kernel, Operand};
use crate::k_quants::scales_of_q3k;
use crate::table::{UNEQUAL, scales_of_iq4xs};
use std::arch::x86_64::__m256;

pub(super) struct Q2K;
pub(super) struct Q3K;
pub(super) struct Q4K;
pub(super) struct Q5K;
pub(super) struct Q6K;
pub(super) struct Iq4Xs;

/// A part of a block; blocks have as many bytes as their format says.
#[inline(always)]
fn part<const N: usize>(bytes: &[u8], start: usize) -> &[u8; N] {
    match bytes[start..].first_chunk() {
        Some(found) => found,
        None => &[0; N],
    }
}

#[inline(always)]
fn word(bytes: &[u8], start: usize) -> u64 {
    u64::from_le_bytes(*part(bytes, start))
}

#[inline(always)]
fn eight(floats: &[f32], start: usize) -> &[f32; 8] {
    match floats[start..].first_chunk() {
        Some(found) => found,
        None => &[0.0; 8],
    }
}

/// The scales and minimums of 6 bits of `Q4_K` and `Q5_K`, a byte to each.
#[inline(always)]
fn scales_and_minimums(bytes: &[u8]) -> (u64, u64) {
    let at = |start| u32::from_le_bytes(*part(bytes, start));
    let (first, second, shared) = (at(4), at(8), at(12));
    let high = |low: u32, of: u32| u64::from(low & 0x0f0f_0f0f | of >> 2 & 0x3030_3030) << 32;
    (
        u64::from(first & 0x3f3f_3f3f) | high(shared, first),
        u64::from(second & 0x3f3f_3f3f) | high(shared >> 4, second),
    )
}

/// Scales of the groups of a block with minimums, which are taken away.
#[inline(always)]
fn scales<const DOT: u8>(v: Dot<DOT>, bytes: &[u8], x: Operand<'_>, sums: &mut Sums) -> __m256 {
    let (of_scales, of_minimums) = scales_and_minimums(bytes);
    let minimums = v.scaled(of_minimums, v.half(*part(bytes, 2)));
    v.add_minimums(sums, minimums, v.load_floats(eight(x.totals, 0)));
    let scales = v.scaled(of_scales, v.half(*part(bytes, 0)));
    v.times(scales, v.load_floats(eight(x.scales, 0)))
}

impl Kernel for Q4K {
    const NBYTES: usize = 144;
    const GROUPS: usize = 8;

    #[inline(always)]
    fn block<const DOT: u8>(v: Dot<DOT>, bytes: &[u8], x: Operand<'_>, sums: &mut Sums) {
        let scales = scales(v, bytes, x, sums);
        for pair in 0..4 {
            let both = v.load(part(bytes, 16 + 32 * pair));
            let low = v.dot(v.bits::<0>(both, 15), &x.integers[2 * pair]);
            v.add(sums, 0, low, v.lane(scales, 2 * pair));
            let high = v.dot(v.bits::<4>(both, 15), &x.integers[2 * pair + 1]);
            v.add(sums, 1, high, v.lane(scales, 2 * pair + 1));
        }
    }
}

impl Kernel for Q5K {
    const NBYTES: usize = 176;
    const GROUPS: usize = 8;

    #[inline(always)]
    fn block<const DOT: u8>(v: Dot<DOT>, bytes: &[u8], x: Operand<'_>, sums: &mut Sums) {
        let scales = scales(v, bytes, x, sums);
        let fifth = v.load(part(bytes, 16));
        for pair in 0..4 {
            let both = v.load(part(bytes, 48 + 32 * pair));
            let low = v.or(v.bits::<0>(both, 15), v.where_set(fifth, 1 << (2 * pair), 16));
            v.add(sums, 0, v.dot(low, &x.integers[2 * pair]), v.lane(scales, 2 * pair));
            let high = v.or(v.bits::<4>(both, 15), v.where_set(fifth, 2 << (2 * pair), 16));
            v.add(sums, 1, v.dot(high, &x.integers[2 * pair + 1]), v.lane(scales, 2 * pair + 1));
        }
    }
}

/// Adds the products of a group that has a scale for each half.
#[inline(always)]
fn add_halves<const DOT: u8>(
    v: Dot<DOT>,
    sums: &mut Sums,
    products: std::arch::x86_64::__m256i,
    scales: [__m256; 2],
    x: Operand<'_>,
    group: usize,
) {
    let halves = v.pair(scales[group / 4], 2 * (group % 4));
    v.add(sums, group, products, v.times(halves, v.splat(x.scales[group])));
}

/// The four pairs of bits of each of 32 bytes.
macro_rules! for_pairs {
    ($v:ident, $bytes:expr, |$shift:ident, $levels:ident| $body:block) => {{
        let bytes = $v.load($bytes);
        for_pairs!(@each $v, bytes, 0, $shift, $levels, $body);
        for_pairs!(@each $v, bytes, 2, $shift, $levels, $body);
        for_pairs!(@each $v, bytes, 4, $shift, $levels, $body);
        for_pairs!(@each $v, bytes, 6, $shift, $levels, $body);
    }};
    (@each $v:ident, $loaded:ident, $bits:literal, $shift:ident, $levels:ident, $body:block) => {{
        let ($shift, $levels) = ($bits / 2, $v.bits::<$bits>($loaded, 3));
        $body
    }};
}

impl Kernel for Q2K {
    const NBYTES: usize = 84;
    const GROUPS: usize = 8;

    #[inline(always)]
    fn block<const DOT: u8>(v: Dot<DOT>, bytes: &[u8], x: Operand<'_>, sums: &mut Sums) {
        const LOW: u64 = 0x0f0f_0f0f_0f0f_0f0f;
        let (first, second) = (word(bytes, 0), word(bytes, 8));
        let (scale, minimum) = (v.half(*part(bytes, 80)), v.half(*part(bytes, 82)));
        let totals = v.load_floats(eight(x.halves, 0));
        v.add_minimums(sums, v.scaled(first >> 4 & LOW, minimum), totals);
        let totals = v.load_floats(eight(x.halves, 8));
        v.add_minimums(sums, v.scaled(second >> 4 & LOW, minimum), totals);
        let scales = [v.scaled(first & LOW, scale), v.scaled(second & LOW, scale)];
        for half in 0..2 {
            for_pairs!(v, part(bytes, 16 + 32 * half), |shift, levels| {
                let group = 4 * half + shift;
                let products = v.dot(levels, &x.integers[group]);
                add_halves(v, sums, products, scales, x, group);
            });
        }
    }
}

impl Kernel for Q3K {
    const NBYTES: usize = 110;
    const GROUPS: usize = 8;

    #[inline(always)]
    fn block<const DOT: u8>(v: Dot<DOT>, bytes: &[u8], x: Operand<'_>, sums: &mut Sums) {
        let multiples = scales_of_q3k(part(bytes, 96));
        let scale = v.half(*part(bytes, 108));
        let (first, second) = (word(&multiples, 0), word(&multiples, 8));
        let scales = [v.scaled_signed(first, scale), v.scaled_signed(second, scale)];
        let high = v.load(part(bytes, 0));
        for half in 0..2 {
            for_pairs!(v, part(bytes, 32 + 32 * half), |shift, levels| {
                let group = 4 * half + shift;
                let levels = v.or(levels, v.where_set(high, 1 << group, 4));
                let products = v.dot_above::<2>(levels, &x.integers[group], &x.sums[group]);
                add_halves(v, sums, products, scales, x, group);
            });
        }
    }
}

impl Kernel for Q6K {
    const NBYTES: usize = 210;
    const GROUPS: usize = 8;

    #[inline(always)]
    fn block<const DOT: u8>(v: Dot<DOT>, bytes: &[u8], x: Operand<'_>, sums: &mut Sums) {
        let scale = v.half(*part(bytes, 208));
        let (first, second) = (word(bytes, 192), word(bytes, 200));
        let scales = [v.scaled_signed(first, scale), v.scaled_signed(second, scale)];
        for half in 0..2 {
            let low = [v.load(part(bytes, 64 * half)), v.load(part(bytes, 64 * half + 32))];
            let high = v.load(part(bytes, 128 + 32 * half));
            let levels = [
                v.or(v.bits::<0>(low[0], 15), v.bits::<0>(v.left::<4>(high), 0x30)),
                v.or(v.bits::<0>(low[1], 15), v.bits::<0>(v.left::<2>(high), 0x30)),
                v.or(v.bits::<4>(low[0], 15), v.bits::<0>(high, 0x30)),
                v.or(v.bits::<4>(low[1], 15), v.bits::<2>(high, 0x30)),
            ];
            for (place, levels) in levels.into_iter().enumerate() {
                let group = 4 * half + place;
                let products = v.dot_above::<5>(levels, &x.integers[group], &x.sums[group]);
                add_halves(v, sums, products, scales, x, group);
            }
        }
    }
}

impl Kernel for Iq4Xs {
    const NBYTES: usize = 136;
    const GROUPS: usize = 8;

    #[inline(always)]
    fn block<const DOT: u8>(v: Dot<DOT>, bytes: &[u8], x: Operand<'_>, sums: &mut Sums) {
        let multiples = scales_of_iq4xs(part(bytes, 2));
        let scales = v.scaled_signed(u64::from_le_bytes(multiples), v.half(*part(bytes, 0)));
        let scales = v.times(scales, v.load_floats(eight(x.scales, 0)));
        for group in 0..8 {
            let weights = v.look_up(&UNEQUAL, v.nibbles(part(bytes, 8 + 16 * group)));
            let products = v.dot_signed(weights, &x.integers[group], &x.sums[group]);
            v.add(sums, group, products, v.lane(scales, group));
        }
    }
}
