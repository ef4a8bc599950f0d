//! Formats whose levels are looked up in a table: `IQ4_NL`, `IQ4_XS`, `MXFP4`.

use crate::group32::{largest, nibbles};
use crate::search::nearest;
use crate::unpacked::{MOST, Packing, Unpacked, half_at, inverse, put_half};

/// The levels of `IQ4_NL`.
pub(crate) const UNEQUAL: [i8; 16] =
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];
/// Twice the numbers of e2m1: one bit for the sign, two for the exponent, one for the fraction.
pub(crate) const E2M1: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

pub(crate) struct Iq4Nl;
pub(crate) struct Iq4Xs;
pub(crate) struct Mxfp4;

/// The scale with the least squared error among those that put the largest element on one of the outer levels.
fn fit_unequal(weights: &[f32]) -> (f32, [u8; 32]) {
    let most = largest(weights);
    let mut best = (f32::INFINITY, 0.0, [0; 32]);
    for step in -8i8..=8 {
        let scale = most / (-127.0 + f32::from(step) * 2.0);
        for scale in [scale, most / (113.0 + f32::from(step) * 2.0)] {
            let scale = half::f16::from_f32(scale).to_f32();
            let levels = nearest_all(weights, scale, &UNEQUAL);
            let error = squared_error(weights, scale, &levels, &UNEQUAL);
            if error < best.0 {
                best = (error, scale, levels);
            }
        }
    }
    (best.1, best.2)
}

fn nearest_all(weights: &[f32], scale: f32, table: &[i8; 16]) -> [u8; 32] {
    let factor = inverse(scale);
    let mut levels = [0; 32];
    for (to, &weight) in levels.iter_mut().zip(weights) {
        *to = nearest(weight * factor, table);
    }
    levels
}

fn squared_error(weights: &[f32], scale: f32, levels: &[u8; 32], table: &[i8; 16]) -> f32 {
    let errors = weights.iter().zip(levels);
    errors
        .map(|(weight, &level)| (scale * f32::from(table[usize::from(level)]) - weight).powi(2))
        .sum()
}

fn put_levels(levels: &[u8; 32], to: &mut [u8]) {
    for (i, to) in to.iter_mut().enumerate() {
        *to = levels[i] | levels[i + 16] << 4;
    }
}

impl Packing for Iq4Nl {
    const GROUP: usize = 32;

    fn scales(bytes: &[u8], to: &mut Unpacked) {
        to.scales[0] = half_at(bytes, 0);
    }

    fn integers(bytes: &[u8], to: &mut [i8; MOST]) {
        nibbles(&bytes[2..], |i, level| to[i] = UNEQUAL[usize::from(level)]);
    }

    fn pack(weights: &[f32], to: &mut [u8]) {
        let (scale, levels) = fit_unequal(weights);
        put_half(to, 0, scale);
        put_levels(&levels, &mut to[2..]);
    }
}

/// Eight scales of 6 bits, as signed bytes: two high bits of each in the first two bytes, then their low four bits.
#[inline]
pub(crate) fn scales_of_iq4xs(bytes: &[u8; 6]) -> [u8; 8] {
    let high = u16::from_le_bytes([bytes[0], bytes[1]]);
    let mut multiples = [0; 8];
    for (group, to) in multiples.iter_mut().enumerate() {
        let low = bytes[2 + group / 2] >> (group % 2 * 4) & 15;
        *to = (low | ((high >> (2 * group) & 3) as u8) << 4).wrapping_sub(32);
    }
    multiples
}

impl Packing for Iq4Xs {
    const GROUP: usize = 32;

    fn scales(bytes: &[u8], to: &mut Unpacked) {
        let scale = half_at(bytes, 0);
        let packed = [bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7]];
        for (to, multiple) in to.scales.iter_mut().zip(scales_of_iq4xs(&packed)) {
            *to = scale * f32::from(multiple as i8);
        }
    }

    fn integers(bytes: &[u8], to: &mut [i8; MOST]) {
        for (group, levels) in bytes[8..].chunks_exact(16).enumerate() {
            nibbles(levels, |i, level| to[32 * group + i] = UNEQUAL[usize::from(level)]);
        }
    }

    fn pack(weights: &[f32], to: &mut [u8]) {
        let mut wanted = [0.0; 8];
        for (to, weights) in wanted.iter_mut().zip(weights.chunks_exact(32)) {
            *to = fit_unequal(weights).0;
        }
        put_half(to, 0, largest(&wanted) / -32.0);
        let scale = half_at(to, 0);
        let (mut high, factor) = (0u16, inverse(scale));
        to[4..8].fill(0);
        for (group, weights) in weights.chunks_exact(32).enumerate() {
            let multiple = (wanted[group] * factor).round().clamp(-32.0, 31.0) as i8;
            let stored = (multiple + 32) as u8;
            to[4 + group / 2] |= (stored & 15) << (group % 2 * 4);
            high |= u16::from(stored >> 4) << (2 * group);
            let levels = nearest_all(weights, scale * f32::from(multiple), &UNEQUAL);
            put_levels(&levels, &mut to[8 + 16 * group..24 + 16 * group]);
        }
        to[2..4].copy_from_slice(&high.to_le_bytes());
    }
}

/// Half of the power of two that a byte of exponents stands for: the levels of the table are doubled.
pub(crate) fn half_of_power(exponent: u8) -> f32 {
    match exponent {
        0 | 1 => f32::from_bits(0x0020_0000 << exponent),
        _ => f32::from_bits(u32::from(exponent - 1) << 23),
    }
}

impl Packing for Mxfp4 {
    const GROUP: usize = 32;

    fn scales(bytes: &[u8], to: &mut Unpacked) {
        to.scales[0] = half_of_power(bytes[0]);
    }

    fn integers(bytes: &[u8], to: &mut [i8; MOST]) {
        nibbles(&bytes[1..], |i, level| to[i] = E2M1[usize::from(level)]);
    }

    fn pack(weights: &[f32], to: &mut [u8]) {
        let most = largest(weights).abs();
        // The largest number of e2m1 is 6, of exponent 2.
        let exponent = if most > 0.0 { most.log2().floor() - 2.0 + 127.0 } else { 0.0 };
        to[0] = exponent as u8;
        let scale = half_of_power(to[0]);
        let mut levels = [0; 32];
        for (to, &weight) in levels.iter_mut().zip(weights) {
            *to = least_error(weight, scale);
        }
        put_levels(&levels, &mut to[1..]);
    }
}

/// The level with the least error, the first of equal ones.
fn least_error(weight: f32, scale: f32) -> u8 {
    let error = |level: usize| (scale * f32::from(E2M1[level]) - weight).abs();
    (1..16).fold(0, |best, level| if error(level) < error(best) { level } else { best }) as u8
}
