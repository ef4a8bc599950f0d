//! Quads of bytes, which one instruction multiplies and adds up.

use crate::types::strided_rows::StridedRows;
use crate::types::vnni::Vnni4;
use std::arch::x86_64::*;

/// A register of a quad.
#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn splat(quad: Vnni4) -> __m512 {
    _mm512_castsi512_ps(_mm512_set1_epi32(i32::from_ne_bytes(quad.0)))
}

/// `sum` and the products of four bytes without signs and four with.
#[inline]
#[target_feature(enable = "avx512f,avx512vnni")]
pub(crate) fn dpbusd(unsigned: __m512, signed: __m512, sum: __m512) -> __m512 {
    let [unsigned, signed] = [_mm512_castps_si512(unsigned), _mm512_castps_si512(signed)];
    _mm512_castsi512_ps(_mm512_dpbusd_epi32(_mm512_castps_si512(sum), unsigned, signed))
}

/// `sum` and the products of four bytes with signs and four without.
#[inline]
#[target_feature(enable = "avx512f,avx512vnni")]
pub(crate) fn dpbusd_swapped(signed: __m512, unsigned: __m512, sum: __m512) -> __m512 {
    dpbusd(unsigned, signed, sum)
}

/// Flips the sign bit of every byte.
#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn flip_signs(quads: __m512) -> __m512 {
    let signs = _mm512_set1_epi32(0x8080_8080_u32 as i32);
    _mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(quads), signs))
}

/// Quads of a byte of each of four lines.
///
/// # Safety
/// Every line must be readable for 16 bytes.
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
    let strided = _mm512_inserti32x4::<3>(_mm512_inserti32x4::<2>(ab, c), d);
    // Four columns of all lines side by side, and then the lines of every column.
    let columns = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    let quads = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    let fours = _mm512_permutexvar_epi32(columns, strided);
    _mm512_castsi512_ps(_mm512_shuffle_epi8(fours, _mm512_broadcast_i32x4(quads)))
}

/// Columns of a register of bytes.
pub(crate) const COLUMNS_PER_VECTOR: usize = 64;

/// Quads of up to 64 columns of up to four lines: of 16 columns in each register. What is not there is
/// zero.
///
/// # Safety
/// Every line must be readable for so many columns.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(crate) unsafe fn interleave_4_rows(
    first: *const u8,
    stride: isize,
    strided: usize,
    columns: usize,
) -> [__m512; 4] {
    // Interleaving works within quarters of registers: those get every fourth four columns.
    let fours = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    let mask = u64::MAX >> (COLUMNS_PER_VECTOR - columns);
    let mut rows = [_mm512_setzero_si512(); 4];
    for (i, row) in rows.iter_mut().enumerate() {
        let mask = if i < strided { mask } else { 0 };
        // SAFETY: the caller's, for the columns of the mask.
        let line = unsafe {
            _mm512_maskz_loadu_epi8(mask, first.wrapping_offset(i as isize * stride).cast())
        };
        *row = _mm512_permutexvar_epi32(fours, line);
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

/// Copies lines of bytes to lines of quads of their columns `width` apart.
///
/// # Safety
/// The lines must be readable, and `to` writable for a fourth as many lines of `width`, a multiple of
/// the lanes that no line is longer than.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
pub(crate) unsafe fn interleave_rows<const FLIP_SIGNS: bool>(
    from: StridedRows<*const u8>,
    to: *mut Vnni4,
    width: usize,
) {
    for line in (0..from.count).step_by(4) {
        let place = from.first.wrapping_offset(line as isize * from.stride);
        for at in (0..from.len).step_by(COLUMNS_PER_VECTOR) {
            let (strided, columns) =
                ((from.count - line).min(4), (from.len - at).min(COLUMNS_PER_VECTOR));
            // SAFETY: the caller's; registers have 16 lanes.
            unsafe {
                let quads =
                    interleave_4_rows(place.wrapping_add(at), from.stride, strided, columns);
                let to = to.add(line / 4 * width + at);
                for (i, quads) in quads.into_iter().enumerate().take((width - at) / 16) {
                    let quads = if FLIP_SIGNS { flip_signs(quads) } else { quads };
                    _mm512_storeu_ps(to.add(16 * i).cast(), quads);
                }
            }
        }
    }
}
