//! Vectors as arrays, for processors without a file of their own: 4 lanes of `f32`, 2 of `f64`, as SSE2 has.
//! The compiler makes vectors of them where the target has some, as WebAssembly with `simd128`.

use super::real::{MaskBits, Real, Single};
use std::array::from_fn;
use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Sub};

/// A truth value for each lane.
#[derive(Clone, Copy)]
pub(crate) struct Mask<const LANES: usize>([bool; LANES]);

impl<const LANES: usize> MaskBits for Mask<LANES> {
    #[inline(always)]
    fn bits(self) -> u32 {
        let mut bits = 0;
        for (lane, value) in self.0.into_iter().enumerate() {
            bits |= u32::from(value) << lane;
        }
        bits
    }

    #[inline(always)]
    fn splat(value: bool) -> Self {
        Self([value; LANES])
    }
}

impl<const LANES: usize> Not for Mask<LANES> {
    type Output = Self;
    #[inline(always)]
    fn not(self) -> Self {
        Self(from_fn(|lane| !self.0[lane]))
    }
}

/// Operators that work lane by lane.
macro_rules! operators {
    ($name:ty: $($trait:ident $method:ident),+) => {
        operators!(@impl [] $name: $($trait $method),+);
    };
    ([const $lanes:ident] $name:ty: $($trait:ident $method:ident),+) => {
        operators!(@impl [<const $lanes: usize>] $name: $($trait $method),+);
    };
    (@impl [$($generic:tt)*] $name:ty: $($trait:ident $method:ident),+) => {
        operators!(@each [$($generic)*] $name: $($trait $method),+);
    };
    (@each $generic:tt $name:ty: $($trait:ident $method:ident),+) => {
        $(operators!(@one $generic $name: $trait $method);)+
    };
    (@one [$($generic:tt)*] $name:ty: $trait:ident $method:ident) => {
        impl $($generic)* $trait for $name {
            type Output = Self;
            #[inline(always)]
            fn $method(self, other: Self) -> Self {
                Self(from_fn(|lane| self.0[lane].$method(other.0[lane])))
            }
        }
    };
}

operators!([const LANES] Mask<LANES>: BitAnd bitand, BitOr bitor, BitXor bitxor);

/// Implements [`Real`] for an array.
macro_rules! vector {
    ($name:ident, $elem:ty, $lanes:literal, $bits:ty, $mantissa:literal, $bias:literal) => {
        /// One vector.
        #[derive(Clone, Copy)]
        pub(crate) struct $name([$elem; $lanes]);

        operators!($name: Add add, Sub sub, Mul mul, Div div);

        impl Neg for $name {
            type Output = Self;
            #[inline(always)]
            fn neg(self) -> Self {
                self.map(|lane| -lane)
            }
        }

        impl $name {
            #[inline(always)]
            fn with_bits(self, f: impl Fn($bits) -> $bits) -> Self {
                self.map(|lane| <$elem>::from_bits(f(lane.to_bits())))
            }

            #[inline(always)]
            fn with_bits_of(self, other: Self, f: impl Fn($bits, $bits) -> $bits) -> Self {
                self.zip(other, |a, b| <$elem>::from_bits(f(a.to_bits(), b.to_bits())))
            }

            #[inline(always)]
            fn compare(self, other: Self, f: impl Fn(&$elem, &$elem) -> bool) -> Mask<$lanes> {
                Mask(from_fn(|lane| f(&self.0[lane], &other.0[lane])))
            }
        }

        impl Real for $name {
            type Elem = $elem;
            type Mask = Mask<$lanes>;
            const LANES: usize = $lanes;
            const MANTISSA: u32 = $mantissa;
            const BIAS: f64 = $bias;
            const FUSED: bool = false;

            #[inline(always)]
            fn splat(value: $elem) -> Self {
                Self([value; $lanes])
            }
            #[inline(always)]
            fn of(value: f64) -> Self {
                Self::splat(value as $elem)
            }
            #[inline(always)]
            fn of_bits(bits: u64) -> Self {
                Self::splat(<$elem>::from_bits(bits as $bits))
            }
            #[inline(always)]
            unsafe fn load(from: *const $elem) -> Self {
                // SAFETY: the caller vouches for the memory, which may lie anywhere.
                Self(unsafe { from.cast::<[$elem; $lanes]>().read_unaligned() })
            }
            #[inline(always)]
            unsafe fn store(self, to: *mut $elem) {
                // SAFETY: the caller vouches for the memory, which may lie anywhere.
                unsafe { to.cast::<[$elem; $lanes]>().write_unaligned(self.0) }
            }
            #[inline(always)]
            unsafe fn load_partial(from: *const $elem, n: usize) -> Self {
                let mut lanes = [0.0; $lanes];
                for (at, lane) in lanes.iter_mut().enumerate().take(n) {
                    // SAFETY: the caller vouches for `n` elements, which may lie anywhere.
                    *lane = unsafe { from.add(at).read_unaligned() };
                }
                Self(lanes)
            }
            #[inline(always)]
            unsafe fn store_partial(self, to: *mut $elem, n: usize) {
                for (at, lane) in self.0.into_iter().enumerate().take(n) {
                    // SAFETY: the caller vouches for `n` elements, which may lie anywhere.
                    unsafe { to.add(at).write_unaligned(lane) };
                }
            }
            #[inline(always)]
            fn sqrt(self) -> Self {
                self.map(<$elem>::sqrt)
            }
            #[inline(always)]
            fn min(self, other: Self) -> Self {
                self.zip(other, |a, b| if a < b { a } else { b })
            }
            #[inline(always)]
            fn max(self, other: Self) -> Self {
                self.zip(other, |a, b| if a > b { a } else { b })
            }
            #[inline(always)]
            fn mul_add(self, a: Self, b: Self) -> Self {
                self * a + b
            }
            #[inline(always)]
            fn neg_mul_add(self, a: Self, b: Self) -> Self {
                b - self * a
            }
            #[inline(always)]
            fn lt(self, other: Self) -> Self::Mask {
                self.compare(other, <$elem>::lt)
            }
            #[inline(always)]
            fn le(self, other: Self) -> Self::Mask {
                self.compare(other, <$elem>::le)
            }
            #[inline(always)]
            fn eq(self, other: Self) -> Self::Mask {
                self.compare(other, <$elem>::eq)
            }
            #[inline(always)]
            fn ne(self, other: Self) -> Self::Mask {
                self.compare(other, <$elem>::ne)
            }
            #[inline(always)]
            fn select(mask: Self::Mask, yes: Self, no: Self) -> Self {
                Self(from_fn(|lane| if mask.0[lane] { yes.0[lane] } else { no.0[lane] }))
            }
            #[inline(always)]
            fn bit_and(self, other: Self) -> Self {
                self.with_bits_of(other, |a, b| a & b)
            }
            #[inline(always)]
            fn bit_or(self, other: Self) -> Self {
                self.with_bits_of(other, |a, b| a | b)
            }
            #[inline(always)]
            fn bit_xor(self, other: Self) -> Self {
                self.with_bits_of(other, |a, b| a ^ b)
            }
            #[inline(always)]
            fn bits_to_exponent(self) -> Self {
                self.with_bits(|bits| bits << $mantissa)
            }
            #[inline(always)]
            fn exponent_to_bits(self) -> Self {
                self.with_bits(|bits| bits >> $mantissa)
            }
            #[inline(always)]
            fn add_bits(self, other: Self) -> Self {
                self.with_bits_of(other, <$bits>::wrapping_add)
            }
            #[inline(always)]
            fn sign_bit(self) -> Self::Mask {
                Mask(self.0.map(<$elem>::is_sign_negative))
            }
            #[inline(always)]
            fn round(self) -> Self {
                self.map(<$elem>::round_ties_even)
            }
            #[inline(always)]
            fn floor(self) -> Self {
                self.map(<$elem>::floor)
            }
            #[inline(always)]
            fn trunc(self) -> Self {
                self.map(<$elem>::trunc)
            }
            #[inline(always)]
            fn exchanged(self, distance: usize) -> Self {
                Self(from_fn(|lane| self.0[(lane ^ distance) % $lanes]))
            }
            #[inline(always)]
            fn map(self, f: impl Fn($elem) -> $elem) -> Self {
                Self(self.0.map(f))
            }
            #[inline(always)]
            fn zip(self, other: Self, f: impl Fn($elem, $elem) -> $elem) -> Self {
                Self(from_fn(|lane| f(self.0[lane], other.0[lane])))
            }
        }
    };
}

vector!(F32, f32, 4, u32, 23, 127.0);
vector!(F64, f64, 2, u64, 52, 1023.0);

impl Single for F32 {
    type Double = F64;

    #[inline(always)]
    fn widen(self) -> [F64; 2] {
        let [a, b, c, d] = self.0.map(f64::from);
        [F64([a, b]), F64([c, d])]
    }

    #[inline(always)]
    fn narrow([low, high]: [F64; 2]) -> Self {
        let ([a, b], [c, d]) = (low.0, high.0);
        Self([a, b, c, d].map(|lane| lane as f32))
    }
}
