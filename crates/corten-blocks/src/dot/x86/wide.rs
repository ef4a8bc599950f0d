//! Vectors over the rows of a panel: an integer or a float for each row.

use super::vector::{AVX_VNNI, AVX512_VNNI, Dot, MADDUBS};
use std::arch::x86_64::*;

/// The vectors of an instruction set.
pub(super) trait Wide: Copy {
    /// Rows of a panel.
    const ROWS: usize;
    type Ints: Copy;
    type Floats: Copy;

    fn splat_int(self, value: i32) -> Self::Ints;
    fn no_floats(self) -> Self::Floats;
    /// `ROWS` floats from a place on.
    fn load_rows(self, floats: &[f32]) -> Self::Floats;
    fn store_rows(self, values: Self::Floats, to: &mut [f32]);
    /// Four levels of each row.
    fn load_levels(self, bytes: &[u8]) -> Self::Ints;
    /// Adds the products of four levels of each row with four activations; with `SIGNED` levels are signed bytes.
    fn dot_rows<const SIGNED: bool>(
        self,
        sums: Self::Ints,
        levels: Self::Ints,
        four: i32,
    ) -> Self::Ints;
    /// `sums + ints * scales * scale`.
    fn add_rows(
        self,
        sums: Self::Floats,
        ints: Self::Ints,
        scales: Self::Floats,
        scale: f32,
    ) -> Self::Floats;
    /// `sums - values * value`.
    fn take_rows(self, sums: Self::Floats, values: Self::Floats, value: f32) -> Self::Floats;
}

/// The vectors of eight rows.
macro_rules! eight_rows {
    ($dot:ident, $instruction:expr) => {
        impl Wide for Dot<$dot> {
            const ROWS: usize = 8;
            type Ints = __m256i;
            type Floats = __m256;

            #[inline(always)]
            fn splat_int(self, value: i32) -> __m256i {
                // SAFETY: see Note [Proof of instructions].
                unsafe { _mm256_set1_epi32(value) }
            }

            #[inline(always)]
            fn no_floats(self) -> __m256 {
                // SAFETY: see Note [Proof of instructions].
                unsafe { _mm256_setzero_ps() }
            }

            #[inline(always)]
            fn load_rows(self, floats: &[f32]) -> __m256 {
                let floats = &floats[..8];
                // SAFETY: see Note [Proof of instructions]; the floats are there.
                unsafe { _mm256_loadu_ps(floats.as_ptr()) }
            }

            #[inline(always)]
            fn store_rows(self, values: __m256, to: &mut [f32]) {
                let to = &mut to[..8];
                // SAFETY: see Note [Proof of instructions]; the floats are there.
                unsafe { _mm256_storeu_ps(to.as_mut_ptr(), values) }
            }

            #[inline(always)]
            fn load_levels(self, bytes: &[u8]) -> __m256i {
                let bytes = &bytes[..32];
                // SAFETY: see Note [Proof of instructions]; the bytes are there.
                unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
            }

            #[inline(always)]
            fn dot_rows<const SIGNED: bool>(
                self,
                sums: __m256i,
                levels: __m256i,
                four: i32,
            ) -> __m256i {
                // SAFETY: see Note [Proof of instructions]. In 16 bits two products of at most 63 or 128, and 127,
                // fit: levels above 63 come signed.
                unsafe { $instruction(SIGNED, sums, levels, _mm256_set1_epi32(four)) }
            }

            #[inline(always)]
            fn add_rows(self, sums: __m256, ints: __m256i, scales: __m256, scale: f32) -> __m256 {
                // SAFETY: see Note [Proof of instructions].
                unsafe {
                    let scales = _mm256_mul_ps(scales, _mm256_set1_ps(scale));
                    _mm256_fmadd_ps(_mm256_cvtepi32_ps(ints), scales, sums)
                }
            }

            #[inline(always)]
            fn take_rows(self, sums: __m256, values: __m256, value: f32) -> __m256 {
                // SAFETY: see Note [Proof of instructions].
                unsafe { _mm256_fnmadd_ps(values, _mm256_set1_ps(value), sums) }
            }
        }
    };
}

eight_rows!(AVX_VNNI, by_vnni);
eight_rows!(MADDUBS, by_pairs);

/// # Safety
/// The processor has AVX-VNNI.
#[inline(always)]
unsafe fn by_vnni(_: bool, sums: __m256i, levels: __m256i, four: __m256i) -> __m256i {
    // SAFETY: the caller's.
    unsafe { _mm256_dpbusd_avx_epi32(sums, levels, four) }
}

/// # Safety
/// The processor has AVX2.
#[inline(always)]
unsafe fn by_pairs(is_signed: bool, sums: __m256i, levels: __m256i, four: __m256i) -> __m256i {
    // SAFETY: the caller's.
    unsafe {
        let pairs = if is_signed {
            _mm256_maddubs_epi16(_mm256_abs_epi8(levels), _mm256_sign_epi8(four, levels))
        } else {
            _mm256_maddubs_epi16(levels, four)
        };
        _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)))
    }
}

impl Wide for Dot<AVX512_VNNI> {
    const ROWS: usize = 16;
    type Ints = __m512i;
    type Floats = __m512;

    #[inline(always)]
    fn splat_int(self, value: i32) -> __m512i {
        // SAFETY: see Note [Proof of instructions].
        unsafe { _mm512_set1_epi32(value) }
    }

    #[inline(always)]
    fn no_floats(self) -> __m512 {
        // SAFETY: see Note [Proof of instructions].
        unsafe { _mm512_setzero_ps() }
    }

    #[inline(always)]
    fn load_rows(self, floats: &[f32]) -> __m512 {
        let floats = &floats[..16];
        // SAFETY: see Note [Proof of instructions]; the floats are there.
        unsafe { _mm512_loadu_ps(floats.as_ptr()) }
    }

    #[inline(always)]
    fn store_rows(self, values: __m512, to: &mut [f32]) {
        let to = &mut to[..16];
        // SAFETY: see Note [Proof of instructions]; the floats are there.
        unsafe { _mm512_storeu_ps(to.as_mut_ptr(), values) }
    }

    #[inline(always)]
    fn load_levels(self, bytes: &[u8]) -> __m512i {
        let bytes = &bytes[..64];
        // SAFETY: see Note [Proof of instructions]; the bytes are there.
        unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
    }

    #[inline(always)]
    fn dot_rows<const SIGNED: bool>(self, sums: __m512i, levels: __m512i, four: i32) -> __m512i {
        // SAFETY: see Note [Proof of instructions].
        unsafe { _mm512_dpbusd_epi32(sums, levels, _mm512_set1_epi32(four)) }
    }

    #[inline(always)]
    fn add_rows(self, sums: __m512, ints: __m512i, scales: __m512, scale: f32) -> __m512 {
        // SAFETY: see Note [Proof of instructions].
        unsafe {
            let scales = _mm512_mul_ps(scales, _mm512_set1_ps(scale));
            _mm512_fmadd_ps(_mm512_cvtepi32_ps(ints), scales, sums)
        }
    }

    #[inline(always)]
    fn take_rows(self, sums: __m512, values: __m512, value: f32) -> __m512 {
        // SAFETY: see Note [Proof of instructions].
        unsafe { _mm512_fnmadd_ps(values, _mm512_set1_ps(value), sums) }
    }
}
