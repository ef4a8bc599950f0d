//! Conversions between memory and vectors: low-precision elements to accumulators and back, and VNNI
//! operands.

use crate::simd::portable::Portable;
use crate::simd::vector::{MAX_LANES, Vector};
#[cfg(target_arch = "x86_64")]
use crate::simd::x86::{
    Avx2F32, Avx2F64, Avx2I32, Avx2I64, Avx512F32, Avx512F64, Avx512I32, Avx512I64, Avx512Vnni2,
    Avx512Vnni4Signed, Avx512Vnni4Unsigned,
};
use crate::types::element::Scalar;
use crate::types::low_precision::{Bf16, F16, LowPrecision};
#[cfg(target_arch = "x86_64")]
use crate::types::vnni::{Vnni2, Vnni4Operand};
use std::num::Wrapping;

/// Vectors that are loaded from elements of another type.
pub(crate) trait ConvertLoad<S: Copy>: Vector {
    /// # Safety
    /// `from` must be readable for `LANES` elements.
    unsafe fn load_convert(from: *const S) -> Self;

    /// Loads `n` elements; the other lanes are zero.
    ///
    /// # Safety
    /// `from` must be readable for `n < LANES` elements.
    unsafe fn load_convert_partial(from: *const S, n: usize) -> Self;
}

/// Vectors that are stored to elements of another type.
pub(crate) trait ConvertStore<S: Copy>: Vector {
    /// Stores the nearest values.
    ///
    /// # Safety
    /// `to` must be writable for `LANES` elements.
    unsafe fn store_convert(self, to: *mut S);
}

macro_rules! plain_load {
    ($([$($parameter:tt)*] $vector:ty: $element:ty;)+) => {$(
        impl<$($parameter)*> ConvertLoad<$element> for $vector {
            #[inline(always)]
            unsafe fn load_convert(from: *const $element) -> Self {
                // SAFETY: the caller's.
                unsafe { Self::load(from) }
            }
            #[inline(always)]
            unsafe fn load_convert_partial(from: *const $element, n: usize) -> Self {
                // SAFETY: the caller's.
                unsafe { Self::load_partial(from, n) }
            }
        }
    )+};
}

plain_load! {
    [const N: usize] Portable<f32, N>: f32;
    [const N: usize] Portable<f64, N>: f64;
    [const N: usize] Portable<Wrapping<i32>, N>: Wrapping<i32>;
    [const N: usize] Portable<Wrapping<i64>, N>: Wrapping<i64>;
}

#[cfg(target_arch = "x86_64")]
plain_load! {
    [] Avx2F32: f32;
    [] Avx2F64: f64;
    [] Avx512F32: f32;
    [] Avx512F64: f64;
    [] Avx2I32: Wrapping<i32>;
    [] Avx2I64: Wrapping<i64>;
    [] Avx512I32: Wrapping<i32>;
    [] Avx512I64: Wrapping<i64>;
    [] Avx512Vnni2: Vnni2;
}

/// VNNI4 operands, with sign bits flipped or not.
#[cfg(target_arch = "x86_64")]
macro_rules! vnni4_load {
    ($($register:ident: $signed:literal;)+) => {$(
        impl<const FLIP_SIGNS: bool> ConvertLoad<Vnni4Operand<$signed, FLIP_SIGNS>> for $register {
            #[inline(always)]
            unsafe fn load_convert(from: *const Vnni4Operand<$signed, FLIP_SIGNS>) -> Self {
                // SAFETY: the caller's.
                let groups = unsafe { Self::load(from.cast()) };
                if FLIP_SIGNS { groups.flip_signs() } else { groups }
            }
            #[inline(always)]
            unsafe fn load_convert_partial(from: *const Vnni4Operand<$signed, FLIP_SIGNS>, n: usize) -> Self {
                // SAFETY: the caller's.
                let groups = unsafe { Self::load_partial(from.cast(), n) };
                if FLIP_SIGNS { groups.flip_signs() } else { groups }
            }
        }
    )+};
}

#[cfg(target_arch = "x86_64")]
vnni4_load! {
    Avx512Vnni4Unsigned: false;
    Avx512Vnni4Signed: true;
}

/// Loads part of a vector by way of an array of a whole vector.
#[inline(always)]
unsafe fn load_via_array<V: ConvertLoad<H>, H: LowPrecision>(from: *const H, n: usize) -> V {
    let mut some = [H::from_accum(H::Accum::ZERO); MAX_LANES];
    // SAFETY: the caller's: `n` elements are readable, and `some` has more.
    unsafe {
        std::ptr::copy_nonoverlapping(from, some.as_mut_ptr(), n);
        V::load_convert(some.as_ptr())
    }
}

macro_rules! low_precision {
    ([$($parameter:tt)*] $vector:ty: $narrow:ty;
        |$from:ident| $widen:expr, |$value:ident, $to:ident| $round:expr) => {
        impl<$($parameter)*> ConvertLoad<$narrow> for $vector {
            #[inline(always)]
            unsafe fn load_convert($from: *const $narrow) -> Self {
                // SAFETY: the caller's; the features as for every vector.
                unsafe { $widen }
            }
            #[inline(always)]
            unsafe fn load_convert_partial(from: *const $narrow, n: usize) -> Self {
                // SAFETY: the caller's.
                unsafe { load_via_array::<Self, $narrow>(from, n) }
            }
        }

        impl<$($parameter)*> ConvertStore<$narrow> for $vector {
            #[inline(always)]
            unsafe fn store_convert(self, $to: *mut $narrow) {
                let $value = self;
                // SAFETY: the caller's; the features as for every vector.
                unsafe { $round }
            }
        }
    };
}

macro_rules! portable {
    ($($narrow:ty),+) => {$(
        low_precision! { [const N: usize] Portable<<$narrow as LowPrecision>::Accum, N>: $narrow;
            |from| Self(std::array::from_fn(|i| (*from.add(i)).to_accum())),
            |value, to| value.0.iter().enumerate().for_each(|(i, &x)| *to.add(i) = <$narrow>::from_accum(x))
        }
    )+};
}

portable!(Bf16, F16, i8, u8, i16);

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{
        Avx2F32, Avx2I32, Avx512F32, Avx512I32, Bf16, ConvertLoad, ConvertStore, F16,
        load_via_array,
    };
    use std::arch::x86_64::*;

    low_precision! { [] Avx2F32: F16;
        |from| Self(_mm256_cvtph_ps(_mm_loadu_si128(from.cast()))),
        |value, to| _mm_storeu_si128(to.cast(), _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(value.0))
    }
    low_precision! { [] Avx512F32: F16;
        |from| Self(_mm512_cvtph_ps(_mm256_loadu_si256(from.cast()))),
        |value, to| _mm256_storeu_si256(to.cast(), _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(value.0))
    }
    low_precision! { [] Avx2F32: Bf16;
        |from| {
            let to_accum = _mm256_cvtepu16_epi32(_mm_loadu_si128(from.cast()));
            Self(_mm256_castsi256_ps(_mm256_slli_epi32::<16>(to_accum)))
        },
        |value, to| {
            let bits = _mm256_castps_si256(value.0);
            let odd = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
            let up = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
            let quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x40_0000));
            let no_number = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_UNORD_Q>(value.0, value.0));
            let nearest = _mm256_blendv_epi8(_mm256_add_epi32(bits, up), quiet, no_number);
            let halves = _mm256_srli_epi32::<16>(nearest);
            let halves = _mm256_permute4x64_epi64::<0x88>(_mm256_packus_epi32(halves, halves));
            _mm_storeu_si128(to.cast(), _mm256_castsi256_si128(halves));
        }
    }
    low_precision! { [] Avx512F32: Bf16;
        |from| {
            let to_accum = _mm512_cvtepu16_epi32(_mm256_loadu_si256(from.cast()));
            Self(_mm512_castsi512_ps(_mm512_slli_epi32::<16>(to_accum)))
        },
        |value, to| {
            let bits = _mm512_castps_si512(value.0);
            let odd = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), _mm512_set1_epi32(1));
            let up = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff));
            let quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x40_0000));
            let no_number = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(value.0, value.0);
            let nearest = _mm512_mask_mov_epi32(_mm512_add_epi32(bits, up), no_number, quiet);
            let halves = _mm512_cvtepi32_epi16(_mm512_srli_epi32::<16>(nearest));
            _mm256_storeu_si256(to.cast(), halves);
        }
    }

    macro_rules! integers {
        ($($element:ty: $load:ident, $wide:ident, $wider:ident, $narrow:ident;)+) => {$(
            low_precision! { [] Avx2I32: $element;
                |from| Self(_mm256_castsi256_ps($wide($load(from.cast())))),
                |value, to| {
                    let mut lanes = [0i32; 8];
                    _mm256_storeu_ps(lanes.as_mut_ptr().cast(), value.0);
                    for (i, lane) in lanes.into_iter().enumerate() {
                        *to.add(i) = lane as $element;
                    }
                }
            }
            low_precision! { [] Avx512I32: $element;
                |from| Self(_mm512_castsi512_ps($wider(std::ptr::read_unaligned(from.cast())))),
                |value, to| {
                    let narrow = $narrow(_mm512_castps_si512(value.0));
                    std::ptr::write_unaligned(to.cast(), narrow);
                }
            }
        )+};
    }

    integers! {
        i8: _mm_loadl_epi64, _mm256_cvtepi8_epi32, _mm512_cvtepi8_epi32, _mm512_cvtepi32_epi8;
        u8: _mm_loadl_epi64, _mm256_cvtepu8_epi32, _mm512_cvtepu8_epi32, _mm512_cvtepi32_epi8;
        i16: _mm_loadu_si128, _mm256_cvtepi16_epi32, _mm512_cvtepi16_epi32, _mm512_cvtepi32_epi16;
    }
}
