//! Narrow elements: floats of 16 bits, integers of 8 and 16.

use crate::kernel::micro_kernel::Number;
use crate::types::workspace::Plain;
use std::num::Wrapping;

/// A float with the exponent of `f32` and 8 bits of precision, by its bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Bf16(pub u16);

/// A float of IEEE 754's 16 bits, by its bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct F16(pub u16);

/// What products are computed of in a wider type.
pub trait Narrow: Plain + PartialEq + 'static {
    /// The wider type.
    type Wide: Number;

    /// The same value.
    fn wide(self) -> Self::Wide;
    /// The nearest float, of two the even one; the low bits of an integer.
    fn rounded(value: Self::Wide) -> Self;
}

macro_rules! integers {
    ($($element:ty),+) => {$(
        impl Narrow for $element {
            type Wide = Wrapping<i32>;

            #[inline(always)]
            fn wide(self) -> Wrapping<i32> {
                Wrapping(i32::from(self))
            }

            #[inline(always)]
            fn rounded(value: Wrapping<i32>) -> Self {
                value.0 as Self
            }
        }
    )+};
}

integers!(i8, u8, i16);

impl Narrow for Bf16 {
    type Wide = f32;

    #[inline(always)]
    fn wide(self) -> f32 {
        f32::from_bits(u32::from(self.0) << 16)
    }

    #[inline(always)]
    fn rounded(value: f32) -> Self {
        let bits = value.to_bits();
        let up = 0x7fff + ((bits >> 16) & 1);
        let nearest = (bits.wrapping_add(up) >> 16) as u16;
        // Rounding could make an infinity of what is no number.
        Self(if value.is_nan() { (bits >> 16) as u16 | 0x40 } else { nearest })
    }
}

impl Narrow for F16 {
    type Wide = f32;

    #[inline(always)]
    fn wide(self) -> f32 {
        let (sign, rest) = (u32::from(self.0 & 0x8000) << 16, u32::from(self.0 & 0x7fff));
        let magnitude = match rest >> 10 {
            // So many of the smallest steps.
            0 => (rest as f32 * (1.0 / 16_777_216.0)).to_bits(),
            31 => 0x7f80_0000 | (rest & 0x3ff) << 13,
            _ => (rest << 13) + (112 << 23),
        };
        f32::from_bits(sign | magnitude)
    }

    #[inline(always)]
    fn rounded(value: f32) -> Self {
        let (sign, bits) = ((value.to_bits() >> 16) as u16 & 0x8000, value.to_bits() & 0x7fff_ffff);
        let magnitude = match bits {
            0x7f80_0001.. => 0x7e00 | (bits >> 13) & 0x3ff,
            // From half a step beyond the largest number on.
            0x477f_f000.. => 0x7c00,
            // The last bit of one half and more is the smallest step.
            ..0x3880_0000 => (f32::from_bits(bits) + 0.5).to_bits() - 0.5f32.to_bits(),
            _ => (bits + 0xfff + ((bits >> 13) & 1) - (112 << 23)) >> 13,
        };
        Self(sign | magnitude as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::{Bf16, F16, Narrow};

    /// Every value is itself, half a step beside it is the even one, and more is the next one.
    fn check<H: Narrow<Wide = f32> + std::fmt::Debug>(of: fn(u16) -> H, infinity: u16) {
        for bits in 0..infinity {
            let (value, next) = (of(bits).wide(), of(bits + 1).wide());
            assert_eq!(H::rounded(value), of(bits));
            assert_eq!(H::rounded(-value), of(bits | 0x8000));
            // The infinity stands where the next number would.
            let next = if next.is_finite() { next } else { 2.0 * value - of(bits - 1).wide() };
            let middle = value + (next - value) / 2.0;
            if !middle.is_finite() {
                continue;
            }
            assert_eq!(H::rounded(middle), of(bits + (bits & 1)));
            assert_eq!(H::rounded(middle.next_up()), of(bits + 1));
            assert_eq!(H::rounded(middle.next_down()), of(bits));
        }
        assert_eq!(of(infinity).wide(), f32::INFINITY);
        assert_eq!(H::rounded(f32::INFINITY), of(infinity));
        assert_eq!(H::rounded(f32::MAX), of(infinity));
        assert!(of(infinity + 1).wide().is_nan());
        assert!(H::rounded(f32::from_bits(0x7fff_ffff)).wide().is_nan());
        assert!(H::rounded(f32::from_bits(0xff80_0001)).wide().is_nan());
    }

    #[test]
    fn the_nearest_value_is_taken() {
        check(Bf16, 0x7f80);
        check(F16, 0x7c00);
        assert_eq!(F16(0x3555).wide(), 0.333_251_95);
        assert_eq!(F16(1).wide(), 2.0f32.powi(-24));
        assert_eq!(F16::rounded(2.0f32.powi(-26)), F16(0));
    }
}
