//! Element types: the numbers that kernels multiply and add, and plain data that buffers hold.

use std::num::Wrapping;
use std::ops::{Add, Mul};

/// Plain data: every bit pattern is a value.
///
/// # Safety
/// It must be so, and the alignment may not exceed a cache line.
pub unsafe trait Pod: Copy {}

// SAFETY: every bit pattern is a number or NaN; so below.
unsafe impl Pod for f32 {}
// SAFETY: as above.
unsafe impl Pod for f64 {}
// SAFETY: every bit pattern is an integer; so below.
unsafe impl Pod for Wrapping<i32> {}
// SAFETY: as above.
unsafe impl Pod for Wrapping<i64> {}
// SAFETY: as above.
unsafe impl Pod for i8 {}
// SAFETY: as above.
unsafe impl Pod for u8 {}
// SAFETY: as above.
unsafe impl Pod for i16 {}

/// The numbers of micro-kernels: element types, and the accumulators of VNNI layouts.
pub trait Scalar: Pod + PartialEq + Add<Output = Self> + Mul<Output = Self> + 'static {
    /// Zero.
    const ZERO: Self;
    /// One.
    const ONE: Self;

    /// `self * factor + sum`, rounded once.
    fn fma(self, factor: Self, sum: Self) -> Self {
        self * factor + sum
    }
}

macro_rules! float {
    ($($element:ty),+) => {$(
        impl Scalar for $element {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;

            #[inline(always)]
            fn fma(self, factor: Self, sum: Self) -> Self {
                self.mul_add(factor, sum)
            }
        }
    )+};
}

float!(f32, f64);

macro_rules! integer {
    ($($element:ty),+) => {$(
        impl Scalar for Wrapping<$element> {
            const ZERO: Self = Wrapping(0);
            const ONE: Self = Wrapping(1);
        }
    )+};
}

integer!(i32, i64);
