//! Blocks of 256 elements whose groups have quantised scales: `Q2_K` to `Q6_K`.

use crate::group32::largest;
use crate::search;
use crate::unpacked::{MOST, Packing, Unpacked, half_at, inverse, put_half};

pub(crate) struct Q2K;
pub(crate) struct Q3K;
pub(crate) struct Q4K;
pub(crate) struct Q5K;
pub(crate) struct Q6K;

/// Elements of a block.
const ELEMENTS: usize = 256;

/// Scales and minimums of groups as multiples of a scale each, and what those of the block are.
struct Multiples<const N: usize> {
    scales: [u8; N],
    minimums: [u8; N],
    scale: f32,
    minimum: f32,
}

impl<const N: usize> Multiples<N> {
    /// The best scale and minimum of each group, in `most` steps.
    fn fit(weights: &[f32], levels: f32, most: f32) -> Self {
        let (mut scales, mut minimums) = ([0.0f32; N], [0.0f32; N]);
        for (group, weights) in weights.chunks_exact(ELEMENTS / N).enumerate() {
            (scales[group], minimums[group]) = search::affine(weights, levels);
        }
        let round = |value: f32| half::f16::from_f32(value).to_f32();
        let (scale, minimum) = (round(largest(&scales) / most), round(largest(&minimums) / most));
        let multiple = |value: f32, of: f32| (value * inverse(of)).round().clamp(0.0, most) as u8;
        let scales = scales.map(|value| multiple(value, scale));
        let minimums = minimums.map(|value| multiple(value, minimum));
        Self { scales, minimums, scale, minimum }
    }

    /// The level of each weight, from 0 to `most`.
    fn levels(&self, weights: &[f32], most: f32) -> [u8; ELEMENTS] {
        let mut levels = [0; ELEMENTS];
        for (i, (to, weight)) in levels.iter_mut().zip(weights).enumerate() {
            let group = i / (ELEMENTS / N);
            let scale = self.scale * f32::from(self.scales[group]);
            let minimum = self.minimum * f32::from(self.minimums[group]);
            *to = ((weight + minimum) * inverse(scale)).round().clamp(0.0, most) as u8;
        }
        levels
    }
}

/// The best scales of groups as multiples of one scale between `-bound` and `bound - 1`, and the levels of the
/// weights, from `-middle` to `middle - 1`.
fn symmetric(weights: &[f32], middle: f32, bound: f32) -> (f32, [i8; 16], [i8; ELEMENTS]) {
    let mut wanted = [0.0f32; 16];
    for (to, weights) in wanted.iter_mut().zip(weights.chunks_exact(16)) {
        *to = search::symmetric(weights, middle);
    }
    let scale = half::f16::from_f32(largest(&wanted) / -bound).to_f32();
    let multiples =
        wanted.map(|value| (value * inverse(scale)).round().clamp(-bound, bound - 1.0) as i8);
    let mut levels = [0; ELEMENTS];
    for (i, (to, weight)) in levels.iter_mut().zip(weights).enumerate() {
        let factor = inverse(scale * f32::from(multiples[i / 16]));
        *to = (weight * factor).round().clamp(-middle, middle - 1.0) as i8;
    }
    (scale, multiples, levels)
}

/// Two bits of each of 128 elements in 32 bytes: element `32 j + i` is bits `2 j` of byte `i`.
fn pairs(bytes: &[u8], mut put: impl FnMut(usize, u8)) {
    for (half, bytes) in bytes.chunks_exact(32).enumerate() {
        for shift in 0..4 {
            for (i, byte) in bytes.iter().enumerate() {
                put(128 * half + 32 * shift + i, byte >> (2 * shift) & 3);
            }
        }
    }
}

fn put_pairs(level: impl Fn(usize) -> u8, to: &mut [u8]) {
    for (half, to) in to.chunks_exact_mut(32).enumerate() {
        for (i, to) in to.iter_mut().enumerate() {
            *to = (0..4)
                .fold(0, |byte, shift| byte | level(128 * half + 32 * shift + i) << (2 * shift));
        }
    }
}

impl Packing for Q2K {
    const GROUP: usize = 16;
    const HAS_MINIMUMS: bool = true;

    fn scales(bytes: &[u8], to: &mut Unpacked) {
        let (scale, minimum) = (half_at(bytes, 80), half_at(bytes, 82));
        for (group, &byte) in bytes[..16].iter().enumerate() {
            to.scales[group] = scale * f32::from(byte & 15);
            to.minimums[group] = minimum * f32::from(byte >> 4);
        }
    }

    fn integers(bytes: &[u8], to: &mut [i8; MOST]) {
        pairs(&bytes[16..80], |i, level| to[i] = level as i8);
    }

    fn pack(weights: &[f32], to: &mut [u8]) {
        let fitted = Multiples::<16>::fit(weights, 3.0, 15.0);
        for (group, to) in to[..16].iter_mut().enumerate() {
            *to = fitted.scales[group] | fitted.minimums[group] << 4;
        }
        let levels = fitted.levels(weights, 3.0);
        put_pairs(|i| levels[i], &mut to[16..80]);
        put_half(to, 80, fitted.scale);
        put_half(to, 82, fitted.minimum);
    }
}

/// Sixteen scales of 6 bits, as signed bytes: their low four bits in eight bytes, then the high two bits of each.
#[inline]
pub(crate) fn scales_of_q3k(bytes: &[u8; 12]) -> [u8; 16] {
    let mut multiples = [0; 16];
    for (group, to) in multiples.iter_mut().enumerate() {
        let low = bytes[group % 8] >> (group / 8 * 4) & 15;
        let high = bytes[8 + group % 4] >> (group / 4 * 2) & 3;
        *to = (low | high << 4).wrapping_sub(32);
    }
    multiples
}

impl Packing for Q3K {
    const GROUP: usize = 16;

    fn scales(bytes: &[u8], to: &mut Unpacked) {
        let (scales, scale) = (&bytes[96..108], half_at(bytes, 108));
        let mut packed = [0; 12];
        packed.copy_from_slice(scales);
        for (to, multiple) in to.scales.iter_mut().zip(scales_of_q3k(&packed)) {
            *to = scale * f32::from(multiple as i8);
        }
    }

    fn integers(bytes: &[u8], to: &mut [i8; MOST]) {
        let high = &bytes[..32];
        pairs(&bytes[32..96], |i, level| {
            // A bit that is not set stands for the four levels below zero.
            let is_set = high[i % 32] >> (i / 32) & 1;
            to[i] = level as i8 - if is_set == 1 { 0 } else { 4 };
        });
    }

    fn pack(weights: &[f32], to: &mut [u8]) {
        let (scale, multiples, levels) = symmetric(weights, 4.0, 32.0);
        to.fill(0);
        for (group, &multiple) in multiples.iter().enumerate() {
            let stored = (multiple + 32) as u8;
            to[96 + group % 8] |= (stored & 15) << (group / 8 * 4);
            to[104 + group % 4] |= (stored >> 4) << (group / 4 * 2);
        }
        for (i, &level) in levels.iter().enumerate() {
            to[i % 32] |= u8::from(level >= 0) << (i / 32);
        }
        put_pairs(|i| (levels[i] + 4) as u8 & 3, &mut to[32..96]);
        put_half(to, 108, scale);
    }
}

/// Eight scales and eight minimums of 6 bits in 12 bytes: the low bits of four in bytes of their own, the others' low
/// four bits in shared bytes, and their two high bits above those of the first.
fn scale_and_minimum(bytes: &[u8], group: usize) -> (u8, u8) {
    if group < 4 {
        return (bytes[group] & 63, bytes[group + 4] & 63);
    }
    let shared = bytes[group + 4];
    let (scale, minimum) = (bytes[group - 4] >> 6, bytes[group] >> 6);
    (shared & 15 | scale << 4, shared >> 4 | minimum << 4)
}

fn put_scales_and_minimums(fitted: &Multiples<8>, to: &mut [u8]) {
    for group in 0..4 {
        to[group] = fitted.scales[group] | fitted.scales[group + 4] >> 4 << 6;
        to[group + 4] = fitted.minimums[group] | fitted.minimums[group + 4] >> 4 << 6;
        to[group + 8] = fitted.scales[group + 4] & 15 | (fitted.minimums[group + 4] & 15) << 4;
    }
}

/// Four bits of each of 64 elements in 32 bytes: the first 32 low, the others high.
fn nibbles(bytes: &[u8], mut put: impl FnMut(usize, u8)) {
    for (pair, bytes) in bytes.chunks_exact(32).enumerate() {
        crate::group32::nibbles(bytes, |i, level| put(64 * pair + i, level));
    }
}

fn put_nibbles(levels: &[u8; ELEMENTS], to: &mut [u8]) {
    for (pair, to) in to.chunks_exact_mut(32).enumerate() {
        for (i, to) in to.iter_mut().enumerate() {
            *to = levels[64 * pair + i] & 15 | levels[64 * pair + 32 + i] << 4;
        }
    }
}

fn unpack_scales(bytes: &[u8], to: &mut Unpacked) {
    let (scale, minimum) = (half_at(bytes, 0), half_at(bytes, 2));
    for group in 0..8 {
        let (of_scale, of_minimum) = scale_and_minimum(&bytes[4..16], group);
        to.scales[group] = scale * f32::from(of_scale);
        to.minimums[group] = minimum * f32::from(of_minimum);
    }
}

fn pack_scales(fitted: &Multiples<8>, to: &mut [u8]) {
    put_half(to, 0, fitted.scale);
    put_half(to, 2, fitted.minimum);
    put_scales_and_minimums(fitted, &mut to[4..16]);
}

impl Packing for Q4K {
    const GROUP: usize = 32;
    const HAS_MINIMUMS: bool = true;

    fn scales(bytes: &[u8], to: &mut Unpacked) {
        unpack_scales(bytes, to);
    }

    fn integers(bytes: &[u8], to: &mut [i8; MOST]) {
        nibbles(&bytes[16..], |i, level| to[i] = level as i8);
    }

    fn pack(weights: &[f32], to: &mut [u8]) {
        let fitted = Multiples::<8>::fit(weights, 15.0, 63.0);
        pack_scales(&fitted, to);
        put_nibbles(&fitted.levels(weights, 15.0), &mut to[16..]);
    }
}

impl Packing for Q5K {
    const GROUP: usize = 32;
    const HAS_MINIMUMS: bool = true;

    fn scales(bytes: &[u8], to: &mut Unpacked) {
        unpack_scales(bytes, to);
    }

    fn integers(bytes: &[u8], to: &mut [i8; MOST]) {
        let high = &bytes[16..48];
        nibbles(&bytes[48..], |i, level| {
            to[i] = (level | (high[i % 32] >> (i / 32) & 1) << 4) as i8;
        });
    }

    fn pack(weights: &[f32], to: &mut [u8]) {
        let fitted = Multiples::<8>::fit(weights, 31.0, 63.0);
        pack_scales(&fitted, to);
        let levels = fitted.levels(weights, 31.0);
        to[16..48].fill(0);
        for (i, level) in levels.iter().enumerate() {
            to[16 + i % 32] |= (level >> 4) << (i / 32);
        }
        put_nibbles(&levels, &mut to[48..]);
    }
}

/// Where the low bits of an element of `Q6_K` are: the byte and the shift. Of 128 elements, those of 64 apart share a
/// byte.
fn low_place(i: usize) -> (usize, usize) {
    (i / 128 * 64 + i % 64, i % 128 / 64 * 4)
}

impl Packing for Q6K {
    const GROUP: usize = 16;

    fn scales(bytes: &[u8], to: &mut Unpacked) {
        let scale = half_at(bytes, 208);
        for (to, &factor) in to.scales.iter_mut().zip(&bytes[192..208]) {
            *to = scale * f32::from(factor as i8);
        }
    }

    fn integers(bytes: &[u8], to: &mut [i8; MOST]) {
        pairs(&bytes[128..192], |i, high| {
            let (at, shift) = low_place(i);
            to[i] = (bytes[at] >> shift & 15 | high << 4) as i8 - 32;
        });
    }

    fn pack(weights: &[f32], to: &mut [u8]) {
        let (scale, multiples, levels) = symmetric(weights, 32.0, 128.0);
        to[..128].fill(0);
        for (i, &level) in levels.iter().enumerate() {
            let (at, shift) = low_place(i);
            to[at] |= ((level + 32) as u8 & 15) << shift;
        }
        put_pairs(|i| (levels[i] + 32) as u8 >> 4, &mut to[128..192]);
        for (to, multiple) in to[192..208].iter_mut().zip(multiples) {
            *to = multiple as u8;
        }
        put_half(to, 208, scale);
    }
}
