//! Elements as they are combined.

use std::ops;

use corten_core::{
    Complex, Element, F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ, Scalar, bf16, cast, f16,
};
use half::slice::HalfFloatSliceExt;

/// A type of elements, and the one in which they are combined.
pub(crate) trait Reduced: Element {
    /// What arithmetic is done in.
    type Wide: Number;

    /// Elements as those that are combined; both slices are of one length.
    fn widen(from: &[Self], into: &mut [Self::Wide]) {
        for (wide, &narrow) in into.iter_mut().zip(from) {
            *wide = cast(narrow);
        }
    }

    /// Elements that were combined, rounded; both slices are of one length.
    fn narrow(from: &[Self::Wide], into: &mut [Self]) {
        for (narrow, &wide) in into.iter_mut().zip(from) {
            *narrow = cast(wide);
        }
    }
}

macro_rules! reduced {
    ($($narrow:ty => $wide:ty;)*) => {$(
        impl Reduced for $narrow {
            type Wide = $wide;
        }
    )*};
}

reduced! {
    u8 => u8;
    i8 => i8;
    i16 => i16;
    i32 => i32;
    i64 => i64;
    u16 => u16;
    u32 => u32;
    u64 => u64;
    f32 => f32;
    f64 => f64;
    F8E5M2 => f32;
    F8E4M3FN => f32;
    F8E5M2FNUZ => f32;
    F8E4M3FNUZ => f32;
    Complex<f16> => Complex<f32>;
    Complex<bf16> => Complex<f32>;
    Complex<f32> => Complex<f32>;
    Complex<f64> => Complex<f64>;
}

macro_rules! halves {
    ($($half:ty)*) => {$(
        impl Reduced for $half {
            type Wide = f32;

            // With the conversions of the processor.
            fn widen(from: &[Self], into: &mut [f32]) {
                from.convert_to_f32_slice(into);
            }

            fn narrow(from: &[f32], into: &mut [Self]) {
                into.convert_from_f32_slice(from);
            }
        }
    )*};
}
halves! { f16 bf16 }

/// What sums and products need.
pub(crate) trait Number: Element {
    /// The sum. Integers wrap around.
    fn plus(self, other: Self) -> Self;

    /// The product. Integers wrap around.
    fn times(self, other: Self) -> Self;

    /// Divided by the number of ranks. Integers are rounded toward zero.
    fn divided(self, ranks: usize) -> Self;
}

/// Numbers that have an order, but for NaN.
pub(crate) trait Ordered: Number + PartialOrd {
    /// Whether it has no place in the order.
    fn is_unordered(self) -> bool;
}

/// Numbers whose bits are combined.
pub(crate) trait Bits:
    Number + ops::BitAnd<Output = Self> + ops::BitOr<Output = Self> + ops::BitXor<Output = Self>
{
}

macro_rules! integers {
    ($($t:ty)*) => {$(
        impl Number for $t {
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn times(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            #[inline(always)]
            fn divided(self, ranks: usize) -> Self {
                // A divisor that the type cannot hold is larger than every element.
                Self::try_from(ranks).ok().and_then(|ranks| self.checked_div(ranks)).unwrap_or(0)
            }
        }
        impl Ordered for $t {
            #[inline(always)]
            fn is_unordered(self) -> bool {
                false
            }
        }
        impl Bits for $t {}
    )*};
}
integers! { u8 i8 i16 i32 i64 u16 u32 u64 }

macro_rules! numbers {
    ($($t:ty)*) => {$(
        impl Number for $t {
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self + other
            }
            #[inline(always)]
            fn times(self, other: Self) -> Self {
                self * other
            }
            #[inline(always)]
            fn divided(self, ranks: usize) -> Self {
                self / Self::from_scalar(Scalar::Int(ranks as i64))
            }
        }
    )*};
}
numbers! { f32 f64 Complex<f32> Complex<f64> }

impl Ordered for f32 {
    #[inline(always)]
    fn is_unordered(self) -> bool {
        self.is_nan()
    }
}

impl Ordered for f64 {
    #[inline(always)]
    fn is_unordered(self) -> bool {
        self.is_nan()
    }
}

/// How two elements become one; commutes.
pub(crate) trait Combine<T>: 'static {
    fn combine(a: T, b: T) -> T;
}

macro_rules! combine {
    ($($name:ident: $bound:ident, |$a:ident, $b:ident| $body:expr;)*) => {$(
        pub(crate) struct $name;

        impl<T: $bound> Combine<T> for $name {
            #[inline(always)]
            fn combine($a: T, $b: T) -> T {
                $body
            }
        }
    )*};
}

combine! {
    Sum: Number, |a, b| a.plus(b);
    Product: Number, |a, b| a.times(b);
    Min: Ordered, |a, b| if a < b || a.is_unordered() { a } else { b };
    Max: Ordered, |a, b| if a > b || a.is_unordered() { a } else { b };
    BitAnd: Bits, |a, b| a & b;
    BitOr: Bits, |a, b| a | b;
    BitXor: Bits, |a, b| a ^ b;
}
