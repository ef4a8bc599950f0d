//! Vectors of AVX2 and AVX-512.

use crate::simd::vector::{MAX_LANES, Vector};
use crate::simd::vnni4;
use crate::types::low_precision::Bf16;
use crate::types::vnni::{Vnni2, Vnni4};
use std::arch::x86_64::*;
use std::num::Wrapping;

/// Calls an intrinsic.
macro_rules! isa {
    ($call:expr) => {
        // SAFETY: vectors are used only in kernels that were selected because the processor has
        // the features.
        unsafe { $call }
    };
}

macro_rules! register {
    (
        $name:ident($register:ty): [$element:ty; $lanes:literal];
        $splat:path, $load:ident, $store:ident, $mul:ident, $add:ident, $fused:path;
        some |$n:ident| $mask:expr, $load_some:ident, $store_some:ident;
        transpose by $transpose:ident
    ) => {
        #[derive(Clone, Copy)]
        pub(crate) struct $name(pub(crate) $register);

        impl Vector for $name {
            type Elem = $element;
            const LANES: usize = $lanes;

            #[inline(always)]
            fn splat(value: $element) -> Self {
                Self(isa!($splat(value)))
            }
            #[inline(always)]
            unsafe fn load(from: *const $element) -> Self {
                // SAFETY: the caller's; the features as everywhere here.
                Self(unsafe { $load(from.cast()) })
            }
            #[inline(always)]
            unsafe fn store(self, to: *mut $element) {
                // SAFETY: the caller's; the features as everywhere here.
                unsafe { $store(to.cast(), self.0) }
            }
            #[inline(always)]
            unsafe fn load_partial(from: *const $element, $n: usize) -> Self {
                // SAFETY: the mask has the first `n` lanes; the features as everywhere here.
                Self(unsafe { $load_some!(from.cast(), $mask) })
            }
            #[inline(always)]
            unsafe fn store_partial(self, to: *mut $element, $n: usize) {
                // SAFETY: as for `load_partial`.
                unsafe { $store_some!(to.cast(), $mask, self.0) }
            }
            #[inline(always)]
            fn transpose(rows: [Self; MAX_LANES]) -> [Self; MAX_LANES] {
                $transpose!(rows)
            }
            #[inline(always)]
            fn prefetch(address: *const $element) {
                isa!(_mm_prefetch::<_MM_HINT_T0>(address.cast()));
            }
            #[inline(always)]
            fn prefetch_l2(address: *const $element) {
                isa!(_mm_prefetch::<_MM_HINT_T1>(address.cast()));
            }
            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                Self(isa!($mul(self.0, other.0)))
            }
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                Self(isa!($add(self.0, other.0)))
            }
            #[inline(always)]
            fn mul_add(self, factor: Self, sum: Self) -> Self {
                Self(isa!($fused(self.0, factor.0, sum.0)))
            }
        }
    };
}

/// A mask of the first `n` of eight lanes begins at `8 - n`.
static MASK32: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];
static MASK64: [i64; 8] = [-1, -1, -1, -1, 0, 0, 0, 0];

macro_rules! avx2_load_f32 {
    ($from:expr, $mask:expr) => {
        _mm256_maskload_ps($from, _mm256_loadu_si256($mask.cast()))
    };
}
macro_rules! avx2_store_f32 {
    ($to:expr, $mask:expr, $value:expr) => {
        _mm256_maskstore_ps($to, _mm256_loadu_si256($mask.cast()), $value)
    };
}
macro_rules! avx2_load_f64 {
    ($from:expr, $mask:expr) => {
        _mm256_maskload_pd($from, _mm256_loadu_si256($mask.cast()))
    };
}
macro_rules! avx2_store_f64 {
    ($to:expr, $mask:expr, $value:expr) => {
        _mm256_maskstore_pd($to, _mm256_loadu_si256($mask.cast()), $value)
    };
}
macro_rules! avx512_load_f32 {
    ($from:expr, $mask:expr) => {
        _mm512_maskz_loadu_ps($mask, $from)
    };
}
macro_rules! avx512_store_f32 {
    ($to:expr, $mask:expr, $value:expr) => {
        _mm512_mask_storeu_ps($to, $mask, $value)
    };
}
macro_rules! avx512_load_f64 {
    ($from:expr, $mask:expr) => {
        _mm512_maskz_loadu_pd($mask, $from)
    };
}
macro_rules! avx512_store_f64 {
    ($to:expr, $mask:expr, $value:expr) => {
        _mm512_mask_storeu_pd($to, $mask, $value)
    };
}

// Transposes: unpacking makes neighbours of the elements of neighbouring rows within lanes of 128 bits
// (or half vectors, for AVX2), and whole lanes are exchanged after that.

/// Interleaves pairs of rows.
macro_rules! unpack2 {
    ($rows:ident, $low:ident, $high:ident, $lanes:literal) => {{
        let mut bits = $rows;
        for i in 0..$lanes / 2 {
            let (a, b) = ($rows[2 * i].0, $rows[2 * i + 1].0);
            bits[2 * i] = Self(isa!($low(a, b)));
            bits[2 * i + 1] = Self(isa!($high(a, b)));
        }
        bits
    }};
}
/// Interleaves pairs of interleaved rows.
macro_rules! unpack4 {
    ($pairs:ident, $low:ident, $high:ident, $double:ident, $single:ident, $lanes:literal) => {{
        let mut fours = $pairs;
        for i in 0..$lanes / 4 {
            for j in 0..2 {
                let a = isa!($double($pairs[4 * i + j].0));
                let b = isa!($double($pairs[4 * i + j + 2].0));
                fours[4 * i + 2 * j] = Self(isa!($single($low(a, b))));
                fours[4 * i + 2 * j + 1] = Self(isa!($single($high(a, b))));
            }
        }
        fours
    }};
}
/// Moves 128-bit lane `i` of vector `n * j + k` to lane `j` of vector `n * i + k`.
macro_rules! shuffle_lanes {
    ($from:ident, $shuffle:ident, $n:literal) => {{
        let mut to = $from;
        for k in 0..$n {
            let [a, b, c, d] =
                [$from[k].0, $from[$n + k].0, $from[2 * $n + k].0, $from[3 * $n + k].0];
            let (even, odd) = (isa!($shuffle::<0x88>(a, b)), isa!($shuffle::<0xdd>(a, b)));
            let (even2, odd2) = (isa!($shuffle::<0x88>(c, d)), isa!($shuffle::<0xdd>(c, d)));
            to[k] = Self(isa!($shuffle::<0x88>(even, even2)));
            to[$n + k] = Self(isa!($shuffle::<0x88>(odd, odd2)));
            to[2 * $n + k] = Self(isa!($shuffle::<0xdd>(even, even2)));
            to[3 * $n + k] = Self(isa!($shuffle::<0xdd>(odd, odd2)));
        }
        to
    }};
}
macro_rules! swap_halves {
    ($from:ident, $permute:ident, $n:literal) => {{
        let mut to = $from;
        for k in 0..$n {
            let (a, b) = ($from[k].0, $from[$n + k].0);
            to[k] = Self(isa!($permute::<0x20>(a, b)));
            to[$n + k] = Self(isa!($permute::<0x31>(a, b)));
        }
        to
    }};
}
macro_rules! transpose_avx512_f32 {
    ($rows:ident) => {{
        let bits = unpack2!($rows, _mm512_unpacklo_ps, _mm512_unpackhi_ps, 16);
        let fours = unpack4!(
            bits,
            _mm512_unpacklo_pd,
            _mm512_unpackhi_pd,
            _mm512_castps_pd,
            _mm512_castpd_ps,
            16
        );
        shuffle_lanes!(fours, _mm512_shuffle_f32x4, 4)
    }};
}
macro_rules! transpose_avx512_f64 {
    ($rows:ident) => {{
        let bits = unpack2!($rows, _mm512_unpacklo_pd, _mm512_unpackhi_pd, 8);
        shuffle_lanes!(bits, _mm512_shuffle_f64x2, 2)
    }};
}
macro_rules! transpose_avx2_f32 {
    ($rows:ident) => {{
        let bits = unpack2!($rows, _mm256_unpacklo_ps, _mm256_unpackhi_ps, 8);
        let fours = unpack4!(
            bits,
            _mm256_unpacklo_pd,
            _mm256_unpackhi_pd,
            _mm256_castps_pd,
            _mm256_castpd_ps,
            8
        );
        swap_halves!(fours, _mm256_permute2f128_ps, 4)
    }};
}
macro_rules! transpose_avx2_f64 {
    ($rows:ident) => {{
        let bits = unpack2!($rows, _mm256_unpacklo_pd, _mm256_unpackhi_pd, 4);
        swap_halves!(bits, _mm256_permute2f128_pd, 2)
    }};
}

register! {
    Avx2F32(__m256): [f32; 8];
    _mm256_set1_ps, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_mul_ps, _mm256_add_ps, _mm256_fmadd_ps;
    some |n| MASK32[8 - n.min(8)..].as_ptr(), avx2_load_f32, avx2_store_f32;
    transpose by transpose_avx2_f32
}
register! {
    Avx2F64(__m256d): [f64; 4];
    _mm256_set1_pd, _mm256_loadu_pd, _mm256_storeu_pd, _mm256_mul_pd, _mm256_add_pd, _mm256_fmadd_pd;
    some |n| MASK64[4 - n.min(4)..].as_ptr(), avx2_load_f64, avx2_store_f64;
    transpose by transpose_avx2_f64
}
register! {
    Avx512F32(__m512): [f32; 16];
    _mm512_set1_ps, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_mul_ps, _mm512_add_ps, _mm512_fmadd_ps;
    some |n| (1u16 << n) - 1, avx512_load_f32, avx512_store_f32;
    transpose by transpose_avx512_f32
}
register! {
    Avx512F64(__m512d): [f64; 8];
    _mm512_set1_pd, _mm512_loadu_pd, _mm512_storeu_pd, _mm512_mul_pd, _mm512_add_pd, _mm512_fmadd_pd;
    some |n| (1u8 << n) - 1, avx512_load_f64, avx512_store_f64;
    transpose by transpose_avx512_f64
}

#[inline]
#[target_feature(enable = "avx512f")]
fn splat_vnni2(value: Vnni2) -> __m512 {
    _mm512_castsi512_ps(_mm512_set1_epi32(value.0 as i32))
}

/// `sum` plus the dot products of two `bf16`: `vdpbf16ps`.
#[inline]
#[target_feature(enable = "avx512f,avx512bf16")]
fn dpbf16(a: __m512, b: __m512, sum: __m512) -> __m512 {
    // SAFETY: vectors of the same size.
    let [a, b] = [a, b].map(|bits| unsafe { std::mem::transmute::<__m512, __m512bh>(bits) });
    _mm512_dpbf16_ps(sum, a, b)
}

// Accumulators are `f32`, operands VNNI2, both in 32 bits.
register! {
    Avx512Vnni2(__m512): [Vnni2; 16];
    splat_vnni2, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_mul_ps, _mm512_add_ps, dpbf16;
    some |n| (1u16 << n) - 1, avx512_load_f32, avx512_store_f32;
    transpose by transpose_avx512_f32
}

/// Integer operations on vectors that are typed as floats, as the instructions are that move them.
macro_rules! integers {
    (
        $features:literal, $register:ty as $bits:ty: $to:ident, $from:ident, [$element:ty];
        $splat:ident by $set:ident, $mul:ident by $multiply:ident, $add:ident by $sum:ident,
        $fused:ident
    ) => {
        #[inline]
        #[target_feature(enable = $features)]
        fn $splat(value: Wrapping<$element>) -> $register {
            $to($set(value.0))
        }
        #[inline]
        #[target_feature(enable = $features)]
        fn $mul(a: $register, b: $register) -> $register {
            $to($multiply($from(a), $from(b)))
        }
        #[inline]
        #[target_feature(enable = $features)]
        fn $add(a: $register, b: $register) -> $register {
            $to($sum($from(a), $from(b)))
        }
        #[inline]
        #[target_feature(enable = $features)]
        fn $fused(a: $register, b: $register, c: $register) -> $register {
            $add($mul(a, b), c)
        }
    };
}

/// The low halves of 64-bit products, from 32-bit ones: AVX2 has no others.
#[inline]
#[target_feature(enable = "avx2")]
fn mullo_epi64_avx2(a: __m256i, b: __m256i) -> __m256i {
    let crossed = _mm256_mullo_epi32(a, _mm256_shuffle_epi32::<0xb1>(b));
    let high = _mm256_add_epi32(crossed, _mm256_srli_epi64::<32>(crossed));
    _mm256_add_epi64(_mm256_mul_epu32(a, b), _mm256_slli_epi64::<32>(high))
}

integers! {
    "avx2", __m256 as __m256i: _mm256_castsi256_ps, _mm256_castps_si256, [i32];
    splat_i32_avx2 by _mm256_set1_epi32, mul_i32_avx2 by _mm256_mullo_epi32,
    add_i32_avx2 by _mm256_add_epi32, fused_i32_avx2
}
integers! {
    "avx2", __m256d as __m256i: _mm256_castsi256_pd, _mm256_castpd_si256, [i64];
    splat_i64_avx2 by _mm256_set1_epi64x, mul_i64_avx2 by mullo_epi64_avx2,
    add_i64_avx2 by _mm256_add_epi64, fused_i64_avx2
}
integers! {
    "avx512f", __m512 as __m512i: _mm512_castsi512_ps, _mm512_castps_si512, [i32];
    splat_i32 by _mm512_set1_epi32, mul_i32 by _mm512_mullo_epi32,
    add_i32 by _mm512_add_epi32, fused_i32
}
integers! {
    "avx512f,avx512dq", __m512d as __m512i: _mm512_castsi512_pd, _mm512_castpd_si512, [i64];
    splat_i64 by _mm512_set1_epi64, mul_i64 by _mm512_mullo_epi64,
    add_i64 by _mm512_add_epi64, fused_i64
}

register! {
    Avx2I32(__m256): [Wrapping<i32>; 8];
    splat_i32_avx2, _mm256_loadu_ps, _mm256_storeu_ps, mul_i32_avx2, add_i32_avx2, fused_i32_avx2;
    some |n| MASK32[8 - n.min(8)..].as_ptr(), avx2_load_f32, avx2_store_f32;
    transpose by transpose_avx2_f32
}
register! {
    Avx2I64(__m256d): [Wrapping<i64>; 4];
    splat_i64_avx2, _mm256_loadu_pd, _mm256_storeu_pd, mul_i64_avx2, add_i64_avx2, fused_i64_avx2;
    some |n| MASK64[4 - n.min(4)..].as_ptr(), avx2_load_f64, avx2_store_f64;
    transpose by transpose_avx2_f64
}
register! {
    Avx512I32(__m512): [Wrapping<i32>; 16];
    splat_i32, _mm512_loadu_ps, _mm512_storeu_ps, mul_i32, add_i32, fused_i32;
    some |n| (1u16 << n) - 1, avx512_load_f32, avx512_store_f32;
    transpose by transpose_avx512_f32
}
register! {
    Avx512I64(__m512d): [Wrapping<i64>; 8];
    splat_i64, _mm512_loadu_pd, _mm512_storeu_pd, mul_i64, add_i64, fused_i64;
    some |n| (1u8 << n) - 1, avx512_load_f64, avx512_store_f64;
    transpose by transpose_avx512_f64
}

// Accumulators are `i32`, operands VNNI4. One operand is signed and the other unsigned: the name tells
// which one `mul_add` is called on.
register! {
    Avx512Vnni4Unsigned(__m512): [Vnni4; 16];
    vnni4::splat, _mm512_loadu_ps, _mm512_storeu_ps, mul_i32, add_i32, vnni4::dpbusd;
    some |n| (1u16 << n) - 1, avx512_load_f32, avx512_store_f32;
    transpose by transpose_avx512_f32
}
register! {
    Avx512Vnni4Signed(__m512): [Vnni4; 16];
    vnni4::splat, _mm512_loadu_ps, _mm512_storeu_ps, mul_i32, add_i32, vnni4::dpbusd_swapped;
    some |n| (1u16 << n) - 1, avx512_load_f32, avx512_store_f32;
    transpose by transpose_avx512_f32
}

register! {
    AvxVnni4Unsigned(__m256): [Vnni4; 8];
    vnni4::splat_avx2, _mm256_loadu_ps, _mm256_storeu_ps, mul_i32_avx2, add_i32_avx2, vnni4::dpbusd_avx;
    some |n| MASK32[8 - n.min(8)..].as_ptr(), avx2_load_f32, avx2_store_f32;
    transpose by transpose_avx2_f32
}
register! {
    Avx2Vnni4Unsigned(__m256): [Vnni4; 8];
    vnni4::splat_avx2, _mm256_loadu_ps, _mm256_storeu_ps, mul_i32_avx2, add_i32_avx2, vnni4::dpbusd_avx2;
    some |n| MASK32[8 - n.min(8)..].as_ptr(), avx2_load_f32, avx2_store_f32;
    transpose by transpose_avx2_f32
}

impl From<__m512> for Avx512Vnni4Unsigned {
    #[inline(always)]
    fn from(bits: __m512) -> Self {
        Self(bits)
    }
}

impl From<__m512> for Avx512Vnni4Signed {
    #[inline(always)]
    fn from(bits: __m512) -> Self {
        Self(bits)
    }
}

impl Avx512Vnni4Signed {
    /// With the sign bit of every byte flipped: unsigned bytes are 128 more than signed ones.
    #[inline(always)]
    pub(crate) fn flip_signs(self) -> Self {
        Self(isa!(vnni4::flip_signs(self.0)))
    }

    /// VNNI4 of four rows.
    ///
    /// # Safety
    /// Every row must be readable for as many bytes as there are lanes.
    #[inline(always)]
    pub(crate) unsafe fn load_strided(first: *const u8, stride: isize) -> Self {
        // SAFETY: the caller's; the features as everywhere here.
        Self(unsafe { vnni4::load_strided(first, stride) })
    }
}

impl Avx512Vnni4Unsigned {
    /// As for [`Avx512Vnni4Signed::flip_signs`].
    #[inline(always)]
    pub(crate) fn flip_signs(self) -> Self {
        Self(isa!(vnni4::flip_signs(self.0)))
    }
}

impl Avx512Vnni2 {
    /// VNNI2 of two rows.
    ///
    /// # Safety
    /// Both must be readable for as many elements as there are lanes.
    #[inline(always)]
    pub(crate) unsafe fn load_strided(first: *const Bf16, second: *const Bf16) -> Self {
        // SAFETY: the caller's; the features as everywhere here.
        unsafe {
            let first = _mm512_cvtepu16_epi32(_mm256_loadu_si256(first.cast()));
            let second = _mm512_cvtepu16_epi32(_mm256_loadu_si256(second.cast()));
            let bits = _mm512_or_si512(first, _mm512_slli_epi32::<16>(second));
            Self(_mm512_castsi512_ps(bits))
        }
    }
}
