//! Blocks of eight groups of 32.

use super::group32::part;
use super::vector::{Dot, Sums};
use super::{Kernel, Operand};
use crate::k_quants::scales_of_q3k;
use crate::table::{UNEQUAL, scales_of_iq4xs};
use std::arch::x86_64::{__m256, __m256i};

pub(super) struct Q2K;
pub(super) struct Q3K;
pub(super) struct Q4K;
pub(super) struct Q5K;
pub(super) struct Q6K;
pub(super) struct Iq4Xs;

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
pub(super) fn scales_and_minimums(bytes: &[u8]) -> (u64, u64) {
    let first = u32::from_le_bytes(*part(bytes, 4));
    let second = u32::from_le_bytes(*part(bytes, 8));
    let shared = u32::from_le_bytes(*part(bytes, 12));
    let scales = shared & 0x0f0f_0f0f | first >> 2 & 0x3030_3030;
    let minimums = shared >> 4 & 0x0f0f_0f0f | second >> 2 & 0x3030_3030;
    (
        u64::from(first & 0x3f3f_3f3f) | u64::from(scales) << 32,
        u64::from(second & 0x3f3f_3f3f) | u64::from(minimums) << 32,
    )
}

/// Adds the products of a block whose groups have a scale each.
#[inline(always)]
fn add_groups<K: Kernel, const DOT: u8>(
    v: Dot<DOT>,
    bytes: &[u8],
    scales: __m256,
    x: Operand<'_>,
    sums: &mut Sums,
) {
    let scales = v.times(scales, v.load_floats(eight(x.scales, 0)));
    for group in 0..8 {
        let levels = K::levels(v, bytes, group);
        let products = v.dot_above(K::ZERO, levels, &x.integers[group], &x.sums[group]);
        v.add(sums, group, products, v.lane(scales, group));
    }
}

/// Adds the products of a block whose groups have a scale for each half.
#[inline(always)]
fn add_halves<K: Kernel, const DOT: u8>(
    v: Dot<DOT>,
    bytes: &[u8],
    scales: [__m256; 2],
    x: Operand<'_>,
    sums: &mut Sums,
) {
    for group in 0..8 {
        let levels = K::levels(v, bytes, group);
        let products = v.dot_above(K::ZERO, levels, &x.integers[group], &x.sums[group]);
        let halves = v.pair(scales[group / 4], 2 * (group % 4));
        v.add(sums, group, products, v.times(halves, v.splat(x.scales[group])));
    }
}

/// The sums of `Q4_K` and `Q5_K`.
#[inline(always)]
fn affine<K: Kernel, const DOT: u8>(v: Dot<DOT>, bytes: &[u8], x: Operand<'_>, sums: &mut Sums) {
    let (of_scales, of_minimums) = scales_and_minimums(bytes);
    let minimums = v.scaled(of_minimums, v.half(*part(bytes, 2)));
    v.add_minimums(sums, minimums, v.load_floats(eight(x.totals, 0)));
    add_groups::<K, DOT>(v, bytes, v.scaled(of_scales, v.half(*part(bytes, 0))), x, sums);
}

/// Half of the bits of 32 bytes: the low nibbles for even groups, the high ones for odd ones.
#[inline(always)]
fn nibbles<const DOT: u8>(v: Dot<DOT>, bytes: &[u8; 32], group: usize) -> __m256i {
    let both = v.load(bytes);
    if group.is_multiple_of(2) { v.bits::<0>(both, 15) } else { v.bits::<4>(both, 15) }
}

/// Two bits of each of 32 bytes, of which four groups share the bits.
#[inline(always)]
fn pairs<const DOT: u8>(v: Dot<DOT>, bytes: &[u8; 32], group: usize) -> __m256i {
    let four = v.load(bytes);
    match group % 4 {
        0 => v.bits::<0>(four, 3),
        1 => v.bits::<2>(four, 3),
        2 => v.bits::<4>(four, 3),
        _ => v.bits::<6>(four, 3),
    }
}

impl Kernel for Q4K {
    type Packing = crate::k_quants::Q4K;
    const NBYTES: usize = 144;
    const GROUPS: usize = 8;
    const ZERO: u8 = 0;

    #[inline(always)]
    fn levels<const DOT: u8>(v: Dot<DOT>, bytes: &[u8], group: usize) -> __m256i {
        nibbles(v, part(bytes, 16 + 32 * (group / 2)), group)
    }

    #[inline(always)]
    fn block<const DOT: u8>(v: Dot<DOT>, bytes: &[u8], x: Operand<'_>, sums: &mut Sums) {
        affine::<Self, DOT>(v, bytes, x, sums);
    }
}

impl Kernel for Q5K {
    type Packing = crate::k_quants::Q5K;
    const NBYTES: usize = 176;
    const GROUPS: usize = 8;
    const ZERO: u8 = 0;

    #[inline(always)]
    fn levels<const DOT: u8>(v: Dot<DOT>, bytes: &[u8], group: usize) -> __m256i {
        let fifth = v.where_set(v.load(part(bytes, 16)), 1 << group, 16);
        v.or(nibbles(v, part(bytes, 48 + 32 * (group / 2)), group), fifth)
    }

    #[inline(always)]
    fn block<const DOT: u8>(v: Dot<DOT>, bytes: &[u8], x: Operand<'_>, sums: &mut Sums) {
        affine::<Self, DOT>(v, bytes, x, sums);
    }
}

impl Kernel for Q2K {
    type Packing = crate::k_quants::Q2K;
    const NBYTES: usize = 84;
    const GROUPS: usize = 8;
    const ZERO: u8 = 0;

    #[inline(always)]
    fn levels<const DOT: u8>(v: Dot<DOT>, bytes: &[u8], group: usize) -> __m256i {
        pairs(v, part(bytes, 16 + 32 * (group / 4)), group)
    }

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
        add_halves::<Self, DOT>(v, bytes, scales, x, sums);
    }
}

impl Kernel for Q3K {
    type Packing = crate::k_quants::Q3K;
    const NBYTES: usize = 110;
    const GROUPS: usize = 8;
    const ZERO: u8 = 4;

    #[inline(always)]
    fn levels<const DOT: u8>(v: Dot<DOT>, bytes: &[u8], group: usize) -> __m256i {
        let high = v.where_set(v.load(part(bytes, 0)), 1 << group, 4);
        v.or(pairs(v, part(bytes, 32 + 32 * (group / 4)), group), high)
    }

    #[inline(always)]
    fn block<const DOT: u8>(v: Dot<DOT>, bytes: &[u8], x: Operand<'_>, sums: &mut Sums) {
        let multiples = scales_of_q3k(part(bytes, 96));
        let scale = v.half(*part(bytes, 108));
        let (first, second) = (word(&multiples, 0), word(&multiples, 8));
        let scales = [v.scaled_signed(first, scale), v.scaled_signed(second, scale)];
        add_halves::<Self, DOT>(v, bytes, scales, x, sums);
    }
}

impl Kernel for Q6K {
    type Packing = crate::k_quants::Q6K;
    const NBYTES: usize = 210;
    const GROUPS: usize = 8;
    const ZERO: u8 = 32;

    #[inline(always)]
    fn levels<const DOT: u8>(v: Dot<DOT>, bytes: &[u8], group: usize) -> __m256i {
        let (half, place) = (group / 4, group % 4);
        let low = v.load(part(bytes, 64 * half + 32 * (place % 2)));
        let high = v.load(part(bytes, 128 + 32 * half));
        match place {
            0 => v.or(v.bits::<0>(low, 15), v.bits::<0>(v.left::<4>(high), 0x30)),
            1 => v.or(v.bits::<0>(low, 15), v.bits::<0>(v.left::<2>(high), 0x30)),
            2 => v.or(v.bits::<4>(low, 15), v.bits::<0>(high, 0x30)),
            _ => v.or(v.bits::<4>(low, 15), v.bits::<2>(high, 0x30)),
        }
    }

    #[inline(always)]
    fn block<const DOT: u8>(v: Dot<DOT>, bytes: &[u8], x: Operand<'_>, sums: &mut Sums) {
        let scale = v.half(*part(bytes, 208));
        let (first, second) = (word(bytes, 192), word(bytes, 200));
        let scales = [v.scaled_signed(first, scale), v.scaled_signed(second, scale)];
        add_halves::<Self, DOT>(v, bytes, scales, x, sums);
    }
}

impl Kernel for Iq4Xs {
    type Packing = crate::table::Iq4Xs;
    const NBYTES: usize = 136;
    const GROUPS: usize = 8;
    const ZERO: u8 = 128;

    #[inline(always)]
    fn levels<const DOT: u8>(v: Dot<DOT>, bytes: &[u8], group: usize) -> __m256i {
        v.flip_signs(v.look_up(&UNEQUAL, v.nibbles(part(bytes, 8 + 16 * group))))
    }

    #[inline(always)]
    fn block<const DOT: u8>(v: Dot<DOT>, bytes: &[u8], x: Operand<'_>, sums: &mut Sums) {
        let multiples = scales_of_iq4xs(part(bytes, 2));
        let scales = v.scaled_signed(u64::from_le_bytes(multiples), v.half(*part(bytes, 0)));
        add_groups::<Self, DOT>(v, bytes, scales, x, sums);
    }
}
