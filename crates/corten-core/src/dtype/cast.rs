//! Conversion between element types.
//!
//! Note [Casts]: integers keep their low bits. Floats go to integers by truncation; what does not
//! fit becomes the minimum of `i32` (for targets below 32 bits, of which the low bits are kept) or
//! of `i64`, as the x86 instructions do; the unsigned 32- and 64-bit targets reach their upper half
//! by moving it down and back. Rust's `as` saturates instead, so it is guarded here, on every
//! architecture alike. Complex goes to real by dropping the imaginary part.

use super::Element;
use crate::{Complex, F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ, F8E8M0FNU, bf16, f16};

/// Converts one element. See Note [Casts].
#[inline(always)]
pub fn cast<A: Element, B: Element>(a: A) -> B {
    a.cast_into()
}

/// One constructor per kind of source, and the choice among them. Sealed: elements are a closed set.
///
/// ```
/// use corten_core::cast;
///
/// assert_eq!(cast::<f64, i32>(2.9), 2);
/// assert!(cast::<i64, bool>(-1));
/// ```
pub trait CastFrom: Sized {
    #[doc(hidden)]
    fn from_int(value: i64) -> Self;
    #[doc(hidden)]
    fn from_uint(value: u64) -> Self;
    #[doc(hidden)]
    fn from_single(value: f32) -> Self;
    #[doc(hidden)]
    fn from_double(value: f64) -> Self;
    #[doc(hidden)]
    fn from_complex_single(value: Complex<f32>) -> Self;
    #[doc(hidden)]
    fn from_complex_double(value: Complex<f64>) -> Self;
    #[doc(hidden)]
    fn cast_into<B: CastFrom>(self) -> B;
}

// Targets: how each type is made from the six kinds of source.

macro_rules! from_complex_by_real_part {
    () => {
        #[inline(always)]
        fn from_complex_single(value: Complex<f32>) -> Self {
            Self::from_single(value.re)
        }
        #[inline(always)]
        fn from_complex_double(value: Complex<f64>) -> Self {
            Self::from_double(value.re)
        }
    };
}

macro_rules! integer {
    ($($rust:ty: $from_f32:ident $from_f64:ident $into:ident;)*) => {$(
        impl CastFrom for $rust {
            #[inline(always)]
            fn from_int(value: i64) -> Self { value as Self }
            #[inline(always)]
            fn from_uint(value: u64) -> Self { value as Self }
            #[inline(always)]
            fn from_single(value: f32) -> Self { $from_f32(value) as Self }
            #[inline(always)]
            fn from_double(value: f64) -> Self { $from_f64(value) as Self }
            from_complex_by_real_part!();
            #[inline(always)]
            fn cast_into<B: CastFrom>(self) -> B { B::$into(self.into()) }
        }
    )*};
}

integer! {
    u8: f32_to_i32 f64_to_i32 from_int;
    i8: f32_to_i32 f64_to_i32 from_int;
    i16: f32_to_i32 f64_to_i32 from_int;
    u16: f32_to_i32 f64_to_i32 from_int;
    i32: f32_to_i32 f64_to_i32 from_int;
    u32: f32_to_u32 f64_to_u32 from_int;
    i64: f32_to_i64 f64_to_i64 from_int;
    u64: f32_to_u64 f64_to_u64 from_uint;
}

impl CastFrom for bool {
    #[inline(always)]
    fn from_int(value: i64) -> Self {
        value != 0
    }
    #[inline(always)]
    fn from_uint(value: u64) -> Self {
        value != 0
    }
    #[inline(always)]
    fn from_single(value: f32) -> Self {
        value != 0.0
    }
    #[inline(always)]
    fn from_double(value: f64) -> Self {
        value != 0.0
    }
    #[inline(always)]
    fn from_complex_single(value: Complex<f32>) -> Self {
        value.re != 0.0 || value.im != 0.0
    }
    #[inline(always)]
    fn from_complex_double(value: Complex<f64>) -> Self {
        value.re != 0.0 || value.im != 0.0
    }
    #[inline(always)]
    fn cast_into<B: CastFrom>(self) -> B {
        B::from_int(i64::from(self))
    }
}

macro_rules! native_float {
    ($($rust:ty: $into:ident;)*) => {$(
        impl CastFrom for $rust {
            #[inline(always)]
            fn from_int(value: i64) -> Self { value as Self }
            #[inline(always)]
            fn from_uint(value: u64) -> Self { value as Self }
            #[inline(always)]
            fn from_single(value: f32) -> Self { value as Self }
            #[inline(always)]
            fn from_double(value: f64) -> Self { value as Self }
            from_complex_by_real_part!();
            #[inline(always)]
            fn cast_into<B: CastFrom>(self) -> B { B::$into(self) }
        }
    )*};
}

native_float! {
    f32: from_single;
    f64: from_double;
}

// The narrow formats are always reached through `f32`, which rounds a second time for wide sources.
macro_rules! narrow_float {
    ($($rust:ty: $from_f32:path;)*) => {$(
        impl CastFrom for $rust {
            #[inline(always)]
            fn from_int(value: i64) -> Self { $from_f32(value as f32) }
            #[inline(always)]
            fn from_uint(value: u64) -> Self { $from_f32(value as f32) }
            #[inline(always)]
            fn from_single(value: f32) -> Self { $from_f32(value) }
            #[inline(always)]
            fn from_double(value: f64) -> Self { $from_f32(value as f32) }
            from_complex_by_real_part!();
            #[inline(always)]
            fn cast_into<B: CastFrom>(self) -> B { B::from_single(self.to_f32()) }
        }
    )*};
}

narrow_float! {
    f16: f16::from_f32;
    bf16: bf16_from_f32;
    F8E5M2: F8E5M2::from_f32;
    F8E4M3FN: F8E4M3FN::from_f32;
    F8E5M2FNUZ: F8E5M2FNUZ::from_f32;
    F8E4M3FNUZ: F8E4M3FNUZ::from_f32;
    F8E8M0FNU: F8E8M0FNU::from_f32;
}

macro_rules! complex {
    ($($part:ty: $into:ident $wide:ty;)*) => {$(
        impl CastFrom for Complex<$part> {
            #[inline(always)]
            fn from_int(value: i64) -> Self {
                Complex::new(<$part>::from_int(value), <$part>::from_int(0))
            }
            #[inline(always)]
            fn from_uint(value: u64) -> Self {
                Complex::new(<$part>::from_uint(value), <$part>::from_int(0))
            }
            #[inline(always)]
            fn from_single(value: f32) -> Self {
                Complex::new(<$part>::from_single(value), <$part>::from_int(0))
            }
            #[inline(always)]
            fn from_double(value: f64) -> Self {
                Complex::new(<$part>::from_double(value), <$part>::from_int(0))
            }
            #[inline(always)]
            fn from_complex_single(value: Complex<f32>) -> Self {
                Complex::new(<$part>::from_single(value.re), <$part>::from_single(value.im))
            }
            #[inline(always)]
            fn from_complex_double(value: Complex<f64>) -> Self {
                Complex::new(<$part>::from_double(value.re), <$part>::from_double(value.im))
            }
            #[inline(always)]
            fn cast_into<B: CastFrom>(self) -> B {
                B::$into(Complex::new(
                    self.re.cast_into::<$wide>(),
                    self.im.cast_into::<$wide>(),
                ))
            }
        }
    )*};
}

complex! {
    f16: from_complex_single f32;
    bf16: from_complex_single f32;
    f32: from_complex_single f32;
    f64: from_complex_double f64;
}

const TWO_31: f64 = 2_147_483_648.0;
const TWO_63: f64 = 9_223_372_036_854_775_808.0;

#[inline(always)]
fn f32_to_i32(value: f32) -> i32 {
    let fits = value >= -(TWO_31 as f32) && value < TWO_31 as f32;
    if fits { value as i32 } else { i32::MIN }
}

#[inline(always)]
fn f64_to_i32(value: f64) -> i32 {
    let fits = value > -TWO_31 - 1.0 && value < TWO_31;
    if fits { value as i32 } else { i32::MIN }
}

#[inline(always)]
fn f32_to_u32(value: f32) -> u32 {
    f64_to_u32(f64::from(value))
}

#[inline(always)]
fn f64_to_u32(value: f64) -> u32 {
    if value >= TWO_31 {
        (f64_to_i32(value - TWO_31) as u32) ^ (1 << 31)
    } else {
        f64_to_i32(value) as u32
    }
}

#[inline(always)]
fn f32_to_i64(value: f32) -> i64 {
    f64_to_i64(f64::from(value))
}

#[inline(always)]
fn f64_to_i64(value: f64) -> i64 {
    let fits = (-TWO_63..TWO_63).contains(&value);
    if fits { value as i64 } else { i64::MIN }
}

#[inline(always)]
fn f32_to_u64(value: f32) -> u64 {
    f64_to_u64(f64::from(value))
}

#[inline(always)]
fn f64_to_u64(value: f64) -> u64 {
    if value >= TWO_63 {
        (f64_to_i64(value - TWO_63) as u64) ^ (1 << 63)
    } else {
        f64_to_i64(value) as u64
    }
}

/// Rounds to nearest even; every NaN becomes the canonical quiet one.
#[inline(always)]
fn bf16_from_f32(value: f32) -> bf16 {
    let bits = value.to_bits();
    let rounded = bits.wrapping_add(0x7FFF + ((bits >> 16) & 1)) >> 16;
    bf16::from_bits(if value.is_nan() { 0x7FC0 } else { rounded as u16 })
}
