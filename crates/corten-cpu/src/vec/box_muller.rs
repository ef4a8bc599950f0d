//! Pairs of normal numbers from pairs of uniform ones, in `f32`.
//!
//! Every step is that of the one-element form in `kernels::random::normal`, bit for bit: what a
//! seed gives must not depend on the machine.
#![cfg_attr(
    not(target_arch = "x86_64"),
    allow(dead_code, reason = "processors without fused operations take one element at a time")
)]

use super::real::Real;
#[cfg(target_arch = "x86_64")]
use super::{Level, avx2, level};

/// A block: as many first as second numbers of pairs.
pub(crate) const BLOCK: usize = 16;

/// Transforms whole blocks of uniform numbers, the first half of each holding the first numbers of
/// its pairs. Returns whether it did: a processor that cannot multiply and add in one rounding
/// leaves them.
pub(crate) fn transform(blocks: &mut [[f32; BLOCK]], mean: f32, std: f32) -> bool {
    #[cfg(target_arch = "x86_64")]
    if level() >= Level::Avx2 {
        // SAFETY: AVX2 and FMA were detected.
        unsafe { transform_avx2(blocks, mean, std) };
        return true;
    }
    _ = (blocks, mean, std);
    false
}

/// # Safety
/// The processor must have AVX2 and FMA.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn transform_avx2(blocks: &mut [[f32; BLOCK]], mean: f32, std: f32) {
    for block in blocks {
        pairs::<avx2::F32>(block, mean, std);
    }
}

#[inline(always)]
fn pairs<V: Real<Elem = f32>>(block: &mut [f32; BLOCK], mean: f32, std: f32) {
    const { assert!(2 * V::LANES == BLOCK) };
    let at = block.as_mut_ptr();
    // SAFETY: the block has two vectors.
    let (first, second) = unsafe { (V::load(at), V::load(at.add(V::LANES))) };
    let radius = (V::of(-2.0) * log(V::of(1.0) - first)).sqrt();
    let (sin, cos) = sin_cos(V::splat(std::f32::consts::TAU) * second);
    let (mean, std) = (V::splat(mean), V::splat(std));
    // SAFETY: as above.
    unsafe {
        (radius * cos).mul_add(std, mean).store(at);
        (radius * sin).mul_add(std, mean).store(at.add(V::LANES));
    }
}

/// A constant of single precision.
#[inline(always)]
fn c<V: Real<Elem = f32>>(value: f32) -> V {
    V::splat(value)
}

/// The polynomial of the logarithm, its highest power first: that of Cephes' `logf`, each number with digits
/// enough to be the one that Cephes' longer decimals are rounded to.
pub(crate) const LOG: [f32; 9] = [
    7.037_683_6e-2,
    -1.151_461e-1,
    1.167_699_84e-1,
    -1.242_014_1e-1,
    1.424_932_3e-1,
    -1.666_805_8e-1,
    2.000_071_4e-1,
    -2.499_999_4e-1,
    0.333_333_3,
];

/// The natural logarithm on (0, 1].
#[inline(always)]
fn log<V: Real<Elem = f32>>(x: V) -> V {
    let one = c::<V>(1.0);
    // The numbers are multiples of 2⁻²⁴, so that none is denormal.
    let (mantissa, exponent) = x.split_normal();
    let m = mantissa - one;
    let z = m * m;
    let mut y = c::<V>(LOG[0]);
    for p in &LOG[1..] {
        y = y.mul_add(m, c(*p));
    }
    let y = (y * m).mul_add(z, exponent * c(-2.121_944_4e-4));
    let y = (-z).mul_add(c(0.5), y);
    exponent.mul_add(c(0.693_359_4), m + y)
}

/// Sine and cosine of an angle in [0, 2π].
#[inline(always)]
fn sin_cos<V: Real<Elem = f32>>(angle: V) -> (V, V) {
    // The even octant: 0, 2, 4, 6 or 8.
    let octant = (angle * c(1.273_239_5)).trunc() + c(1.0);
    let octant = (octant * c(0.5)).floor() * c(2.0);
    let x = octant.mul_add(c(-0.785_156_25), angle);
    let x = octant.mul_add(c(-2.418_756_5e-4), x);
    let x = octant.mul_add(c(-3.774_895e-8), x);
    let z = x * x;
    let cos = c::<V>(2.443_315_7e-5).mul_add(z, c(-1.388_731_6e-3));
    let cos = cos.mul_add(z, c(4.166_664_6e-2)) * z;
    let cos = cos.mul_add(z, -(z * c(0.5))) + c(1.0);
    let sin = c::<V>(-1.951_529_6e-4).mul_add(z, c(8.332_161e-3));
    let sin = sin.mul_add(z, c(-1.666_665_5e-1)) * z;
    let sin = sin.mul_add(x, x);
    let [two, four, six] = [2.0, 4.0, 6.0].map(|n| octant.eq(c(n)));
    let crossed = two | six;
    let (s, k) = (V::select(crossed, cos, sin), V::select(crossed, sin, cos));
    (V::select(four | six, -s, s), V::select(two | four, -k, k))
}
