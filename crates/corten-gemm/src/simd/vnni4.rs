//! AVX-512 VNNI: dot products of int8, and interleaving into the VNNI4 layout.

use crate::types::strided_rows::StridedRows;
use crate::types::vnni::Vnni4;
use std::arch::x86_64::*;

/// Broadcasts an operand.
#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn splat(value: Vnni4) -> __m512 {
    _mm512_castsi512_ps(_mm512_set1_epi32(i32::from_ne_bytes(value.0)))
}

/// `sum` plus the dot products of four unsigned and four signed bytes: `vpdpbusd`.
#[inline]
#[target_feature(enable = "avx512f,avx512vnni")]
pub(crate) fn dpbusd(unsigned: __m512, signed: __m512, sum: __m512) -> __m512 {
    let [unsigned, signed] = [_mm512_castps_si512(unsigned), _mm512_castps_si512(signed)];
    _mm512_castsi512_ps(_mm512_dpbusd_epi32(_mm512_castps_si512(sum), unsigned, signed))
}

/// [`dpbusd`] with the signed operand first.
#[inline]
#[target_feature(enable = "avx512f,avx512vnni")]
pub(crate) fn dpbusd_swapped(signed: __m512, unsigned: __m512, sum: __m512) -> __m512 {
    dpbusd(unsigned, signed, sum)
}

/// Broadcasts an operand to eight lanes.
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn splat_avx2(value: Vnni4) -> __m256 {
    _mm256_castsi256_ps(_mm256_set1_epi32(i32::from_ne_bytes(value.0)))
}

/// [`dpbusd`] of AVX-VNNI.
#[inline]
#[target_feature(enable = "avx2,avxvnni")]
pub(crate) fn dpbusd_avx(unsigned: __m256, signed: __m256, sum: __m256) -> __m256 {
    let [unsigned, signed] = [_mm256_castps_si256(unsigned), _mm256_castps_si256(signed)];
    _mm256_castsi256_ps(_mm256_dpbusd_avx_epi32(_mm256_castps_si256(sum), unsigned, signed))
}

/// [`dpbusd`] of AVX2. `vpmaddubsw` would saturate sums of two products, so that even and odd bytes are
/// widened and multiplied by `vpmaddwd`, which does not.
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn dpbusd_avx2(unsigned: __m256, signed: __m256, sum: __m256) -> __m256 {
    let [unsigned, signed] = [_mm256_castps_si256(unsigned), _mm256_castps_si256(signed)];
    let even = [
        _mm256_and_si256(unsigned, _mm256_set1_epi16(0xff)),
        _mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(signed)),
    ];
    let odd = [_mm256_srli_epi16::<8>(unsigned), _mm256_srai_epi16::<8>(signed)];
    let sum = _mm256_add_epi32(_mm256_castps_si256(sum), _mm256_madd_epi16(even[0], even[1]));
    _mm256_castsi256_ps(_mm256_add_epi32(sum, _mm256_madd_epi16(odd[0], odd[1])))
}

/// Flips the sign bit of every byte, which adds or subtracts 128.
#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn flip_signs(groups: __m512) -> __m512 {
    let signs = _mm512_set1_epi32(0x8080_8080_u32 as i32);
    _mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(groups), signs))
}

/// VNNI4 of four rows, of 16 columns.
///
/// # Safety
/// Every row must be readable for 16 bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(crate) unsafe fn load_strided(first: *const u8, stride: isize) -> __m512 {
    // SAFETY: the caller's.
    let [a, b, c, d] = unsafe {
        [
            _mm_loadu_si128(first.cast()),
            _mm_loadu_si128(first.wrapping_offset(stride).cast()),
            _mm_loadu_si128(first.wrapping_offset(2 * stride).cast()),
            _mm_loadu_si128(first.wrapping_offset(3 * stride).cast()),
        ]
    };
    let ab = _mm512_inserti32x4::<1>(_mm512_castsi128_si512(a), b);
    let rows = _mm512_inserti32x4::<3>(_mm512_inserti32x4::<2>(ab, c), d);
    // Four columns of all rows become neighbours, and then the rows of every column.
    let columns = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    let groups = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    let by_fours = _mm512_permutexvar_epi32(columns, rows);
    _mm512_castsi512_ps(_mm512_shuffle_epi8(by_fours, _mm512_broadcast_i32x4(groups)))
}

/// Bytes of a vector.
pub(crate) const COLUMNS_PER_VECTOR: usize = 64;

/// VNNI4 of up to four rows and 64 columns, 16 columns a vector. Missing rows and columns are zero.
///
/// # Safety
/// Every row must be readable for the columns.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(crate) unsafe fn interleave_4_rows(
    first: *const u8,
    stride: isize,
    row_count: usize,
    columns: usize,
) -> [__m512; 4] {
    // Unpacking works within lanes of 128 bits: each of these gets every fourth group of four
    // columns.
    let by_fours = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    let mask = u64::MAX >> (COLUMNS_PER_VECTOR - columns);
    let mut rows = [_mm512_setzero_si512(); 4];
    for (i, row) in rows.iter_mut().enumerate() {
        let mask = if i < row_count { mask } else { 0 };
        // SAFETY: the caller's, for the columns of the mask.
        let bytes = unsafe {
            _mm512_maskz_loadu_epi8(mask, first.wrapping_offset(i as isize * stride).cast())
        };
        *row = _mm512_permutexvar_epi32(by_fours, bytes);
    }
    let [a, b, c, d] = rows;
    let [ab, cd] = [_mm512_unpacklo_epi8(a, b), _mm512_unpacklo_epi8(c, d)];
    let [ab2, cd2] = [_mm512_unpackhi_epi8(a, b), _mm512_unpackhi_epi8(c, d)];
    [
        _mm512_castsi512_ps(_mm512_unpacklo_epi16(ab, cd)),
        _mm512_castsi512_ps(_mm512_unpackhi_epi16(ab, cd)),
        _mm512_castsi512_ps(_mm512_unpacklo_epi16(ab2, cd2)),
        _mm512_castsi512_ps(_mm512_unpackhi_epi16(ab2, cd2)),
    ]
}

/// Interleaves rows of bytes into rows of VNNI4 `width` apart.
///
/// # Safety
/// The rows must be readable, and `to` writable for a fourth as many rows of `width`, a multiple of the
/// lanes that no row is longer than.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
pub(crate) unsafe fn interleave_rows<const FLIP_SIGNS: bool>(
    from: StridedRows<*const u8>,
    to: *mut Vnni4,
    width: usize,
) {
    for row in (0..from.count).step_by(4) {
        let first = from.first.wrapping_offset(row as isize * from.stride);
        for at in (0..from.len).step_by(COLUMNS_PER_VECTOR) {
            let (row_count, columns) =
                ((from.count - row).min(4), (from.len - at).min(COLUMNS_PER_VECTOR));
            // SAFETY: the caller's; vectors have 16 lanes.
            unsafe {
                let groups =
                    interleave_4_rows(first.wrapping_add(at), from.stride, row_count, columns);
                let to = to.add(row / 4 * width + at);
                for (i, groups) in groups.into_iter().enumerate().take((width - at) / 16) {
                    let groups = if FLIP_SIGNS { flip_signs(groups) } else { groups };
                    _mm512_storeu_ps(to.add(16 * i).cast(), groups);
                }
            }
        }
    }
}
