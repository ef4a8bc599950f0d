//! Low-precision elements: 16-bit floats, and integers of 8 and 16 bits.

use crate::types::element::{Pod, Scalar};
use std::num::Wrapping;

/// A bfloat16: the exponent of `f32` and 8 bits of precision, by its bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Bf16(pub u16);

/// A binary16 of IEEE 754, by its bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct F16(pub u16);

// SAFETY: every bit pattern is a number or NaN.
unsafe impl Pod for Bf16 {}
// SAFETY: as above.
unsafe impl Pod for F16 {}

/// Elements whose products are accumulated in a wider type.
pub trait LowPrecision: Pod + PartialEq + 'static {
    /// The type of the accumulator.
    type Accum: Scalar;

    /// The same value.
    fn to_accum(self) -> Self::Accum;
    /// The nearest float, ties to even; the low bits of an integer.
    fn from_accum(value: Self::Accum) -> Self;
}

macro_rules! integers {
    ($($element:ty),+) => {$(
        impl LowPrecision for $element {
            type Accum = Wrapping<i32>;

            #[inline(always)]
            fn to_accum(self) -> Wrapping<i32> {
                Wrapping(i32::from(self))
            }

            #[inline(always)]
            fn from_accum(value: Wrapping<i32>) -> Self {
                value.0 as Self
            }
        }
    )+};
}

integers!(i8, u8, i16);

impl LowPrecision for Bf16 {
    type Accum = f32;

    #[inline(always)]
    fn to_accum(self) -> f32 {
        f32::from_bits(u32::from(self.0) << 16)
    }

    #[inline(always)]
    fn from_accum(value: f32) -> Self {
        let bits = value.to_bits();
        let up = 0x7fff + ((bits >> 16) & 1);
        let nearest = (bits.wrapping_add(up) >> 16) as u16;
        // Rounding could turn a NaN into an infinity.
        Self(if value.is_nan() { (bits >> 16) as u16 | 0x40 } else { nearest })
    }
}

impl LowPrecision for F16 {
    type Accum = f32;

    #[inline(always)]
    fn to_accum(self) -> f32 {
        let (sign, rest) = (u32::from(self.0 & 0x8000) << 16, u32::from(self.0 & 0x7fff));
        let magnitude = match rest >> 10 {
            // Subnormal numbers are multiples of the smallest one.
            0 => (rest as f32 * (1.0 / 16_777_216.0)).to_bits(),
            31 => 0x7f80_0000 | (rest & 0x3ff) << 13,
            _ => (rest << 13) + (112 << 23),
        };
        f32::from_bits(sign | magnitude)
    }

    #[inline(always)]
    fn from_accum(value: f32) -> Self {
        let (sign, bits) = ((value.to_bits() >> 16) as u16 & 0x8000, value.to_bits() & 0x7fff_ffff);
        let magnitude = match bits {
            0x7f80_0001.. => 0x7e00 | (bits >> 13) & 0x3ff,
            // Halfway beyond the largest number and more overflow.
            0x477f_f000.. => 0x7c00,
            // Adding one half rounds to a multiple of the smallest subnormal number.
            ..0x3880_0000 => (f32::from_bits(bits) + 0.5).to_bits() - 0.5f32.to_bits(),
            _ => (bits + 0xfff + ((bits >> 13) & 1) - (112 << 23)) >> 13,
        };
        Self(sign | magnitude as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::{Bf16, F16, LowPrecision};

    /// Every value converts to itself, and halfway cases go to the even neighbour.
    fn check<H: LowPrecision<Accum = f32> + std::fmt::Debug>(of: fn(u16) -> H, infinity: u16) {
        for bits in 0..infinity {
            let (value, next) = (of(bits).to_accum(), of(bits + 1).to_accum());
            assert_eq!(H::from_accum(value), of(bits));
            assert_eq!(H::from_accum(-value), of(bits | 0x8000));
            // The infinity stands where the next number would.
            let next = if next.is_finite() { next } else { 2.0 * value - of(bits - 1).to_accum() };
            let middle = value + (next - value) / 2.0;
            if !middle.is_finite() {
                continue;
            }
            assert_eq!(H::from_accum(middle), of(bits + (bits & 1)));
            assert_eq!(H::from_accum(middle.next_up()), of(bits + 1));
            assert_eq!(H::from_accum(middle.next_down()), of(bits));
        }
        assert_eq!(of(infinity).to_accum(), f32::INFINITY);
        assert_eq!(H::from_accum(f32::INFINITY), of(infinity));
        assert_eq!(H::from_accum(f32::MAX), of(infinity));
        assert!(of(infinity + 1).to_accum().is_nan());
        assert!(H::from_accum(f32::from_bits(0x7fff_ffff)).to_accum().is_nan());
        assert!(H::from_accum(f32::from_bits(0xff80_0001)).to_accum().is_nan());
    }

    #[test]
    fn the_nearest_value_is_taken() {
        check(Bf16, 0x7f80);
        check(F16, 0x7c00);
        assert_eq!(F16(0x3555).to_accum(), 0.333_251_95);
        assert_eq!(F16(1).to_accum(), 2.0f32.powi(-24));
        assert_eq!(F16::from_accum(2.0f32.powi(-26)), F16(0));
    }
}
