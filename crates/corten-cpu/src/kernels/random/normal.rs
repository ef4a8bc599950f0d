//! The normal distribution.
//!
//! Contiguous tensors of at least 16 elements are filled in blocks of 16: eight pairs of uniform
//! numbers become eight pairs of normal ones by the Box-Muller transform. The f32 form evaluates
//! logarithm, sine and cosine by the Cephes polynomials with fused multiply-add, as an AVX2
//! machine does; the last 16 elements are drawn anew where the length is not a multiple of 16.

use super::distributions::{fill_uniform24, fill_uniform53, uniform53};
use super::fill::{draws_nothing, fill, with_generator};
use crate::vec::box_muller::{self, BLOCK};
use corten_core::{
    DType, Element, Generator, GeneratorGuard, Result, Writer, bail, bf16, cast, ensure, f16,
};
use corten_ops::{Tensor, op};

/// Fills with numbers from the normal distribution.
///
/// # Errors
/// `Runtime` when `std` is negative.
pub fn normal_(
    self_: &Tensor,
    mean: f64,
    std: f64,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    ensure!(std >= 0.0, Runtime, "normal expects std >= 0.0, but found std {std}");
    if self_.dtype().is_complex() {
        // Real and imaginary part each have half of the variance.
        normal_(&op::view_as_real(self_)?, mean, std / std::f64::consts::SQRT_2, generator)?;
        return Ok(self_.clone());
    }
    if draws_nothing(self_) {
        return Ok(self_.clone());
    }
    with_generator(generator, |rng| match self_.dtype() {
        DType::Float32 => normal::<f32>(self_, mean, std, rng),
        DType::Float64 => normal::<f64>(self_, mean, std, rng),
        DType::Float16 => normal::<f16>(self_, mean, std, rng),
        DType::BFloat16 => normal::<bf16>(self_, mean, std, rng),
        other => {
            bail!(
                NotImplemented,
                "\"normal_kernel_cpu\" not implemented for '{}'",
                other.type_name()
            )
        }
    })?;
    Ok(self_.clone())
}

fn normal<T: BlockFill>(
    self_: &Tensor,
    mean: f64,
    std: f64,
    rng: &mut GeneratorGuard<'_>,
) -> Result<()> {
    if self_.numel() < BLOCK as i64 || !self_.is_contiguous() || self_.device().is_meta() {
        return fill(self_, || cast::<f64, T>(normal_pair(rng) * std + mean));
    }
    let mut writer = Writer::<T>::new(self_)?;
    T::fill(&mut writer, mean, std, rng);
    Ok(())
}

/// One standard normal number; every second call returns the other half of a pair.
pub(super) fn normal_pair(rng: &mut GeneratorGuard<'_>) -> f64 {
    if let Some(cached) = rng.take_f64_normal() {
        return cached;
    }
    let u1 = uniform53(rng);
    let u2 = uniform53(rng);
    let radius = (-2.0 * (-u2).ln_1p()).sqrt();
    let angle = 2.0 * std::f64::consts::PI * u1;
    rng.set_f64_normal(Some(radius * angle.sin()));
    radius * angle.cos()
}

/// A dtype that is filled in blocks of 16.
trait BlockFill: Element {
    fn fill(data: &mut [Self], mean: f64, std: f64, rng: &mut GeneratorGuard<'_>);
}

impl BlockFill for f64 {
    fn fill(data: &mut [Self], mean: f64, std: f64, rng: &mut GeneratorGuard<'_>) {
        let transform = |blocks: &mut [[f64; BLOCK]]| {
            blocks.iter_mut().for_each(|block| block_f64(block, mean, std));
        };
        in_blocks(data, transform, |out| fill_uniform53(out, rng));
    }
}

impl BlockFill for f32 {
    fn fill(data: &mut [Self], mean: f64, std: f64, rng: &mut GeneratorGuard<'_>) {
        let transform = |blocks: &mut [[f32; BLOCK]]| blocks_f32(blocks, mean as f32, std as f32);
        in_blocks(data, transform, |out| fill_uniform24(out, rng));
    }
}

/// Blocks that are drawn and transformed at a time, so that they are still in the cache.
const AT_ONCE: usize = 256;

/// Draws and transforms whole blocks; where elements are left over, the last block is drawn anew.
/// Numbers are drawn in the order of the elements, and for all of them before the last block.
fn in_blocks<T: Copy>(
    data: &mut [T],
    transform: impl Fn(&mut [[T; BLOCK]]),
    mut uniform: impl FnMut(&mut [T]),
) {
    let whole = data.len() - data.len() % BLOCK;
    let (blocks, rest) = data.as_chunks_mut::<BLOCK>();
    for blocks in blocks.chunks_mut(AT_ONCE) {
        uniform(blocks.as_flattened_mut());
        transform(blocks);
    }
    if rest.is_empty() {
        return;
    }
    uniform(rest);
    let last = whole + rest.len() - BLOCK;
    let last = data[last..].as_chunks_mut::<BLOCK>().0;
    uniform(last.as_flattened_mut());
    transform(last);
}

macro_rules! block_fill_reduced {
    ($($type:ty),+) => {$(
        impl BlockFill for $type {
            fn fill(data: &mut [Self], mean: f64, std: f64, rng: &mut GeneratorGuard<'_>) {
                let mut one = |block: &mut [Self]| {
                    let mut wide = [[0f32; BLOCK]];
                    fill_uniform24(&mut wide[0], rng);
                    blocks_f32(&mut wide, mean as f32, std as f32);
                    for (slot, value) in block.iter_mut().zip(wide[0]) {
                        *slot = <$type>::from_f32(value);
                    }
                };
                data.chunks_exact_mut(BLOCK).for_each(&mut one);
                if data.len() % BLOCK != 0 {
                    let tail = data.len() - BLOCK;
                    one(&mut data[tail..]);
                }
            }
        }
    )+};
}

block_fill_reduced!(f16, bf16);

fn block_f64(block: &mut [f64; BLOCK], mean: f64, std: f64) {
    let (first, second) = block.split_at_mut(BLOCK / 2);
    for (a, b) in first.iter_mut().zip(second) {
        let radius = (-2.0 * (1.0 - *a).ln()).sqrt();
        let angle = 2.0 * std::f64::consts::PI * *b;
        *a = radius * angle.cos() * std + mean;
        *b = radius * angle.sin() * std + mean;
    }
}

fn blocks_f32(blocks: &mut [[f32; BLOCK]], mean: f32, std: f32) {
    if !box_muller::transform(blocks, mean, std) {
        blocks.iter_mut().for_each(|block| block_f32(block, mean, std));
    }
}

/// The form that the vectors of `box_muller` repeat.
fn block_f32(block: &mut [f32; BLOCK], mean: f32, std: f32) {
    let (first, second) = block.split_at_mut(BLOCK / 2);
    for (a, b) in first.iter_mut().zip(second) {
        let radius = (-2.0 * ln(1.0 - *a)).sqrt();
        let (sin, cos) = sin_cos(std::f32::consts::TAU * *b);
        *a = (radius * cos).mul_add(std, mean);
        *b = (radius * sin).mul_add(std, mean);
    }
}

/// The natural logarithm on `(0, 1]`: Cephes `logf`, every step fused.
fn ln(x: f32) -> f32 {
    let bits = x.to_bits();
    let mut exponent = ((bits >> 23) as i32 - 127 + 1) as f32;
    let mantissa = f32::from_bits((bits & 0x007F_FFFF) | 0x3F00_0000);
    let m = if mantissa < std::f32::consts::FRAC_1_SQRT_2 {
        exponent -= 1.0;
        (mantissa - 1.0) + mantissa
    } else {
        mantissa - 1.0
    };
    let z = m * m;
    let mut y = box_muller::LOG[1..].iter().fold(box_muller::LOG[0], |y, p| y.mul_add(m, *p));
    y *= m;
    y = y.mul_add(z, exponent * -2.121_944_4e-4);
    y = (-z).mul_add(0.5, y);
    exponent.mul_add(0.693_359_4, m + y)
}

/// Sine and cosine of a non-negative angle: Cephes `sinf`/`cosf`, every step fused.
fn sin_cos(angle: f32) -> (f32, f32) {
    let j = ((angle * 1.273_239_5) as i32 + 1) & !1;
    let f = j as f32;
    let x = f.mul_add(-0.785_156_25, angle);
    let x = f.mul_add(-2.418_756_5e-4, x);
    let x = f.mul_add(-3.774_895e-8, x);
    let z = x * x;
    let mut c = 2.443_315_7e-5_f32.mul_add(z, -1.388_731_6e-3);
    c = c.mul_add(z, 4.166_664_6e-2);
    c *= z;
    c = c.mul_add(z, -(z * 0.5)) + 1.0;
    let mut s = (-1.951_529_6e-4_f32).mul_add(z, 8.332_161e-3);
    s = s.mul_add(z, -1.666_665_5e-1);
    s *= z;
    s = s.mul_add(x, x);
    let (sin, cos) = if j & 2 == 0 { (s, c) } else { (c, s) };
    let sin = if j & 4 != 0 { -sin } else { sin };
    let cos = if (j - 2) & 4 == 0 { -cos } else { cos };
    (sin, cos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_give_the_bits_of_the_form_for_one_element() {
        let mut state = 1u32;
        let mut uniform = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / 16_777_216.0
        };
        let mut blocks = vec![[0f32; BLOCK]; 20_000];
        blocks.as_flattened_mut().iter_mut().for_each(|slot| *slot = uniform());
        // Both ends of the range and the borders of the octants.
        let ends = [0.0, 1.0 - f32::EPSILON / 2.0, 0.25, 0.5, 0.75, 0.125, 0.375, 0.875];
        for (block, first) in blocks.iter_mut().zip(ends) {
            block[..BLOCK / 2].fill(first);
            block[BLOCK / 2..].copy_from_slice(&ends);
        }
        let (mut vectors, mut single) = (blocks.clone(), blocks);
        if box_muller::transform(&mut vectors, 0.5, 3.0) {
            single.iter_mut().for_each(|block| block_f32(block, 0.5, 3.0));
            let bits = |blocks: &[[f32; BLOCK]]| -> Vec<u32> {
                blocks.as_flattened().iter().map(|x| x.to_bits()).collect()
            };
            assert_eq!(bits(&vectors), bits(&single));
        }
    }
}
