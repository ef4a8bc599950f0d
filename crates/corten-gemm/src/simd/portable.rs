//! Vectors that any processor has: arrays which the compiler keeps in registers.

use crate::simd::vector::{MAX_LANES, Vector};
use crate::types::element::Scalar;
use std::num::Wrapping;

/// A vector in portable code: an array that the compiler keeps in registers.
#[derive(Clone, Copy)]
pub(crate) struct Portable<E, const N: usize>(pub(crate) [E; N]);

macro_rules! portable {
    ($($element:ty),+) => {$(
        impl<const N: usize> Vector for Portable<$element, N> {
            type Elem = $element;
            const LANES: usize = N;

            #[inline(always)]
            fn splat(value: $element) -> Self {
                Self([value; N])
            }
            #[inline(always)]
            unsafe fn load(from: *const $element) -> Self {
                // SAFETY: the caller's; an array needs no more alignment than its elements.
                Self(unsafe { from.cast::<[$element; N]>().read() })
            }
            #[inline(always)]
            unsafe fn store(self, to: *mut $element) {
                // SAFETY: as for `load`.
                unsafe { to.cast::<[$element; N]>().write(self.0) }
            }
            #[inline(always)]
            unsafe fn load_partial(from: *const $element, n: usize) -> Self {
                // SAFETY: the caller's, for the first `n`.
                let lane = |i: usize| if i < n { unsafe { *from.add(i) } } else { Scalar::ZERO };
                Self(std::array::from_fn(lane))
            }
            #[inline(always)]
            unsafe fn store_partial(self, to: *mut $element, n: usize) {
                for (i, &lane) in self.0.iter().enumerate().take(n) {
                    // SAFETY: the caller's, for the first `n`.
                    unsafe { *to.add(i) = lane };
                }
            }
            #[inline(always)]
            fn transpose(rows: [Self; MAX_LANES]) -> [Self; MAX_LANES] {
                let column = |i: usize| Self(std::array::from_fn(|row| rows[row].0[i.min(N - 1)]));
                std::array::from_fn(column)
            }
            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                Self(std::array::from_fn(|i| self.0[i] * other.0[i]))
            }
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                Self(std::array::from_fn(|i| self.0[i] + other.0[i]))
            }
            #[inline(always)]
            fn mul_add(self, factor: Self, sum: Self) -> Self {
                Self(std::array::from_fn(|i| self.0[i] * factor.0[i] + sum.0[i]))
            }
        }
    )+};
}

portable!(f32, f64, Wrapping<i32>, Wrapping<i64>);
