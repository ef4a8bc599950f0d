//! The 8-bit floating point formats, one byte each, converted through `f32`.

use std::fmt;

/// What a finite value above the largest one becomes.
#[derive(Clone, Copy)]
enum Overflow {
    /// This code, with the sign of the value.
    Signed(u8),
    /// This code, whatever the sign.
    Unsigned(u8),
}

/// A sign, exponent and mantissa format of 8 bits.
struct Format {
    mantissa: u32,
    bias: i32,
    max: u32,
    overflow: Overflow,
    nan: u8,
    /// Infinity, if the format has one, is what follows `max`.
    infinity: bool,
    /// Whether 0x80 is negative zero (else it is NaN).
    negative_zero: bool,
}

impl Format {
    /// Rounds to nearest, ties to even.
    #[inline]
    fn encode(&self, value: f32) -> u8 {
        let bits = value.to_bits();
        let sign = ((bits >> 24) & 0x80) as u8;
        if value.is_nan() {
            return self.nan;
        }
        let exponent = ((bits >> 23) & 0xFF) as i32 - 127;
        let significand = (bits & 0x7F_FFFF) | 0x80_0000;
        // Below the smallest normal exponent the spacing of the codes stays the same.
        let scale = exponent.max(1 - self.bias);
        let shift = (23 - self.mantissa as i32 + scale - exponent) as u32;
        if shift > 25 {
            return if self.negative_zero { sign } else { 0 };
        }
        let half = 1 << (shift - 1);
        let odd = (significand >> shift) & 1;
        let rounded = (significand + half - 1 + odd) >> shift;
        let code = (((scale + self.bias - 1) as u32) << self.mantissa) + rounded;
        match self.overflow {
            Overflow::Signed(limit) if code > self.max => sign | limit,
            Overflow::Unsigned(limit) if code > self.max => limit,
            _ if code == 0 && !self.negative_zero => 0,
            _ => sign | code as u8,
        }
    }

    #[inline]
    fn decode(&self, code: u8) -> f32 {
        let magnitude = u32::from(code & 0x7F);
        let sign = (u32::from(code) & 0x80) << 24;
        if !self.negative_zero && code == 0x80 {
            return f32::NAN;
        }
        if magnitude > self.max {
            let infinite = self.infinity && magnitude == self.max + 1;
            return f32::from_bits(sign | if infinite { 0x7F80_0000 } else { 0x7FC0_0000 });
        }
        let field = (magnitude >> self.mantissa) as i32;
        let fraction = magnitude & ((1 << self.mantissa) - 1);
        if field == 0 {
            let unit = f32::from_bits(((1 - self.bias - self.mantissa as i32 + 127) as u32) << 23);
            return f32::from_bits(sign | (fraction as f32 * unit).to_bits());
        }
        let exponent = ((field - self.bias + 127) as u32) << 23;
        f32::from_bits(sign | exponent | (fraction << (23 - self.mantissa)))
    }
}

macro_rules! float8 {
    ($($(#[$doc:meta])* $name:ident = $format:expr;)*) => {$(
        $(#[$doc])*
        #[repr(transparent)]
        #[derive(Clone, Copy, Default)]
        pub struct $name(pub u8);

        impl $name {
            const FORMAT: Format = $format;

            /// Rounds to nearest, ties to even.
            #[inline]
            pub fn from_f32(value: f32) -> Self {
                Self(Self::FORMAT.encode(value))
            }

            /// The exact value.
            #[inline]
            pub fn to_f32(self) -> f32 {
                Self::FORMAT.decode(self.0)
            }
        }
        float8_traits!($name);
    )*};
}

macro_rules! float8_traits {
    ($name:ident) => {
        impl PartialEq for $name {
            fn eq(&self, other: &Self) -> bool {
                self.to_f32() == other.to_f32()
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.to_f32(), f)
            }
        }
    };
}

float8! {
    /// 5 exponent bits, 2 mantissa bits, with infinities.
    F8E5M2 = Format {
        mantissa: 2, bias: 15, max: 0x7B, overflow: Overflow::Signed(0x7C),
        nan: 0x7F, infinity: true, negative_zero: true,
    };
    /// 4 exponent bits, 3 mantissa bits; values that are too large become the largest one.
    F8E4M3FN = Format {
        mantissa: 3, bias: 7, max: 0x7E, overflow: Overflow::Signed(0x7E),
        nan: 0x7F, infinity: false, negative_zero: true,
    };
    /// 5 exponent bits, 2 mantissa bits, one NaN and no infinity.
    F8E5M2FNUZ = Format {
        mantissa: 2, bias: 16, max: 0x7F, overflow: Overflow::Unsigned(0x80),
        nan: 0x80, infinity: false, negative_zero: false,
    };
    /// 4 exponent bits, 3 mantissa bits, one NaN and no infinity.
    F8E4M3FNUZ = Format {
        mantissa: 3, bias: 8, max: 0x7F, overflow: Overflow::Unsigned(0x80),
        nan: 0x80, infinity: false, negative_zero: false,
    };
}

/// 8 exponent bits and nothing else: the powers of two from 2^-127 to 2^127, and NaN.
///
/// ```
/// use corten_core::F8E8M0FNU;
///
/// assert_eq!(F8E8M0FNU::from_f32(4.0).to_f32(), 4.0);
/// ```
#[repr(transparent)]
#[derive(Clone, Copy, Default)]
pub struct F8E8M0FNU(pub u8);

impl F8E8M0FNU {
    /// The nearest power of two of the magnitude, ties upwards; zero becomes 2^-127.
    #[inline]
    pub fn from_f32(value: f32) -> Self {
        let bits = value.to_bits() & 0x7FFF_FFFF;
        let exponent = bits >> 23;
        if exponent == 0xFF {
            return Self(0xFF);
        }
        let up = if exponent == 0 { bits > 0x40_0000 } else { bits & 0x40_0000 != 0 };
        Self((exponent + u32::from(up)) as u8)
    }

    /// The exact value.
    #[inline]
    pub fn to_f32(self) -> f32 {
        match self.0 {
            0 => f32::from_bits(0x40_0000),
            0xFF => f32::NAN,
            exponent => f32::from_bits(u32::from(exponent) << 23),
        }
    }
}

float8_traits!(F8E8M0FNU);
