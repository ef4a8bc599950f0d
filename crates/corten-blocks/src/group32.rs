//! Blocks of 32 elements with one scale: `Q4_0`, `Q4_1`, `Q5_0`, `Q5_1`, `Q8_0`.

use crate::unpacked::{MOST, Packing, Unpacked, half_at, inverse, put_half};

/// Elements of a block.
const ELEMENTS: usize = 32;
/// Where the second half of the elements is: in the high nibbles.
const HALF: usize = 16;

pub(crate) struct Q4_0;
pub(crate) struct Q4_1;
pub(crate) struct Q5_0;
pub(crate) struct Q5_1;
pub(crate) struct Q8_0;

/// The element of the largest magnitude, the first of equal ones.
pub(crate) fn largest(weights: &[f32]) -> f32 {
    weights
        .iter()
        .fold(0.0, |most: f32, &weight| if weight.abs() > most.abs() { weight } else { most })
}

/// The least and the greatest element.
fn bounds(weights: &[f32]) -> (f32, f32) {
    let least = weights.iter().copied().fold(f32::INFINITY, f32::min);
    (least, weights.iter().copied().fold(f32::NEG_INFINITY, f32::max))
}

/// A whole number from 0 to `most`, rounded to the nearest.
fn level(value: f32, most: u8) -> u8 {
    // The conversion saturates, and gives 0 for what is not a number.
    (value as u8).min(most)
}

/// Elements 0 to 15 are the low nibbles, 16 to 31 the high ones.
pub(crate) fn nibbles(bytes: &[u8], mut put: impl FnMut(usize, u8)) {
    for (i, &byte) in bytes.iter().enumerate() {
        put(i, byte & 15);
        put(i + bytes.len(), byte >> 4);
    }
}

fn put_nibbles(levels: &[u8; ELEMENTS], to: &mut [u8]) {
    for (i, to) in to.iter_mut().enumerate() {
        *to = levels[i] & 15 | levels[i + HALF] << 4;
    }
}

/// The fifth bits: bit `i` of a little-endian word is that of element `i`.
fn fifth_bits(bytes: &[u8]) -> u32 {
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

fn put_fifth_bits(levels: &[u8; ELEMENTS], to: &mut [u8]) {
    let bits =
        levels.iter().enumerate().fold(0u32, |bits, (i, level)| bits | u32::from(level >> 4) << i);
    to.copy_from_slice(&bits.to_le_bytes());
}

/// Levels around a middle: the scale is that of the element of the largest magnitude, which gets the lowest level.
fn symmetric(weights: &[f32], middle: f32, most: u8) -> (f32, [u8; ELEMENTS]) {
    let scale = largest(weights) / -middle;
    let factor = inverse(scale);
    let mut levels = [0; ELEMENTS];
    for (to, &weight) in levels.iter_mut().zip(weights) {
        *to = level(weight * factor + (middle + 0.5), most);
    }
    (scale, levels)
}

/// Levels above the least element: the scale, the least element, the levels.
fn affine(weights: &[f32], most: u8) -> (f32, f32, [u8; ELEMENTS]) {
    let (least, greatest) = bounds(weights);
    let scale = (greatest - least) / f32::from(most);
    let factor = inverse(scale);
    let mut levels = [0; ELEMENTS];
    for (to, &weight) in levels.iter_mut().zip(weights) {
        *to = level((weight - least) * factor + 0.5, most);
    }
    (scale, least, levels)
}

impl Packing for Q4_0 {
    const GROUP: usize = ELEMENTS;

    fn scales(bytes: &[u8], to: &mut Unpacked) {
        to.scales[0] = half_at(bytes, 0);
    }

    fn integers(bytes: &[u8], to: &mut [i8; MOST]) {
        nibbles(&bytes[2..], |i, level| to[i] = level as i8 - 8);
    }

    fn pack(weights: &[f32], to: &mut [u8]) {
        let (scale, levels) = symmetric(weights, 8.0, 15);
        put_half(to, 0, scale);
        put_nibbles(&levels, &mut to[2..]);
    }
}

impl Packing for Q4_1 {
    const GROUP: usize = ELEMENTS;
    const HAS_MINIMUMS: bool = true;

    fn scales(bytes: &[u8], to: &mut Unpacked) {
        // The file has what is added: the negative of what is subtracted.
        (to.scales[0], to.minimums[0]) = (half_at(bytes, 0), -half_at(bytes, 2));
    }

    fn integers(bytes: &[u8], to: &mut [i8; MOST]) {
        nibbles(&bytes[4..], |i, level| to[i] = level as i8);
    }

    fn pack(weights: &[f32], to: &mut [u8]) {
        let (scale, least, levels) = affine(weights, 15);
        put_half(to, 0, scale);
        put_half(to, 2, least);
        put_nibbles(&levels, &mut to[4..]);
    }
}

impl Packing for Q5_0 {
    const GROUP: usize = ELEMENTS;

    fn scales(bytes: &[u8], to: &mut Unpacked) {
        to.scales[0] = half_at(bytes, 0);
    }

    fn integers(bytes: &[u8], to: &mut [i8; MOST]) {
        let fifth = fifth_bits(&bytes[2..6]);
        nibbles(&bytes[6..], |i, level| {
            to[i] = (level | ((fifth >> i & 1) as u8) << 4) as i8 - 16;
        });
    }

    fn pack(weights: &[f32], to: &mut [u8]) {
        let (scale, levels) = symmetric(weights, 16.0, 31);
        put_half(to, 0, scale);
        put_fifth_bits(&levels, &mut to[2..6]);
        put_nibbles(&levels, &mut to[6..]);
    }
}

impl Packing for Q5_1 {
    const GROUP: usize = ELEMENTS;
    const HAS_MINIMUMS: bool = true;

    fn scales(bytes: &[u8], to: &mut Unpacked) {
        (to.scales[0], to.minimums[0]) = (half_at(bytes, 0), -half_at(bytes, 2));
    }

    fn integers(bytes: &[u8], to: &mut [i8; MOST]) {
        let fifth = fifth_bits(&bytes[4..8]);
        nibbles(&bytes[8..], |i, level| {
            to[i] = (level | ((fifth >> i & 1) as u8) << 4) as i8;
        });
    }

    fn pack(weights: &[f32], to: &mut [u8]) {
        let (scale, least, levels) = affine(weights, 31);
        put_half(to, 0, scale);
        put_half(to, 2, least);
        put_fifth_bits(&levels, &mut to[4..8]);
        put_nibbles(&levels, &mut to[8..]);
    }
}

impl Packing for Q8_0 {
    const GROUP: usize = ELEMENTS;

    fn scales(bytes: &[u8], to: &mut Unpacked) {
        to.scales[0] = half_at(bytes, 0);
    }

    fn integers(bytes: &[u8], to: &mut [i8; MOST]) {
        for (to, &byte) in to.iter_mut().zip(&bytes[2..]) {
            *to = byte as i8;
        }
    }

    fn pack(weights: &[f32], to: &mut [u8]) {
        let scale = largest(weights).abs() / 127.0;
        let factor = inverse(scale);
        put_half(to, 0, scale);
        for (to, &weight) in to[2..].iter_mut().zip(weights) {
            // Halves are rounded away from zero.
            *to = (weight * factor).round() as i8 as u8;
        }
    }
}
