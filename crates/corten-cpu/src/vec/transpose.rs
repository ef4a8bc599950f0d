//! Tiles of matrices, turned in registers.

#[cfg(target_arch = "x86_64")]
use super::avx2::{F32, F64};
#[cfg(target_arch = "x86_64")]
use super::level::{Level, level};

/// Rows and columns of a tile.
pub(crate) const SIDE: usize = 8;

/// Turns a tile: from one address to another, whose rows lie so many bytes apart.
pub(crate) type Turn = unsafe fn(from: *const u8, apart: i64, to: *mut u8, to_apart: i64);

/// The function for elements of so many bytes on this processor, if it is faster than one element after
/// the other.
pub(crate) fn turn(size: usize) -> Option<Turn> {
    #[cfg(target_arch = "x86_64")]
    if level() >= Level::Avx2 {
        return match size {
            2 => Some(turn_16_bits),
            4 => Some(turn_32_bits),
            8 => Some(turn_64_bits),
            _ => None,
        };
    }
    _ = size;
    None
}

/// # Safety
/// `SIDE` elements must be readable and writable in each of `SIDE` rows, the two tiles must not
/// overlap, and the processor must have AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn turn_16_bits(from: *const u8, apart: i64, to: *mut u8, to_apart: i64) {
    use core::arch::x86_64::*;
    let row = |i: i64| from.wrapping_offset((apart * i) as isize).cast();
    let mut rows = [_mm_setzero_si128(); SIDE];
    for (slot, i) in rows.iter_mut().zip(0..) {
        // SAFETY: the caller vouches for the rows.
        *slot = unsafe { _mm_loadu_si128(row(i)) };
    }
    // Pairs of rows, then fours, then all eight.
    let (mut pairs, mut fours) = (rows, rows);
    for i in [0, 2, 4, 6] {
        pairs[i] = _mm_unpacklo_epi16(rows[i], rows[i + 1]);
        pairs[i + 1] = _mm_unpackhi_epi16(rows[i], rows[i + 1]);
    }
    for i in [0, 1, 4, 5] {
        let at = i / 4 * 4 + i % 2 * 2;
        fours[at] = _mm_unpacklo_epi32(pairs[i], pairs[i + 2]);
        fours[at + 1] = _mm_unpackhi_epi32(pairs[i], pairs[i + 2]);
    }
    for i in 0..SIDE / 2 {
        let first = _mm_unpacklo_epi64(fours[i], fours[i + 4]);
        let second = _mm_unpackhi_epi64(fours[i], fours[i + 4]);
        let place = to.wrapping_offset((to_apart * 2 * i as i64) as isize);
        // SAFETY: the caller's.
        unsafe {
            _mm_storeu_si128(place.cast(), first);
            _mm_storeu_si128(place.wrapping_offset(to_apart as isize).cast(), second);
        }
    }
}

/// # Safety
/// As for [`turn_16_bits`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn turn_32_bits(from: *const u8, apart: i64, to: *mut u8, to_apart: i64) {
    use core::arch::x86_64::*;
    let row = |i: i64| from.wrapping_offset((apart * i) as isize).cast();
    let mut rows = [F32(_mm256_setzero_ps()); SIDE];
    for (slot, i) in rows.iter_mut().zip(0..) {
        // SAFETY: the caller vouches for the rows.
        *slot = F32(unsafe { _mm256_loadu_ps(row(i)) });
    }
    for (column, i) in F32::turned(rows).iter().zip(0..) {
        let place = to.wrapping_offset((to_apart * i) as isize);
        // SAFETY: the caller's.
        unsafe { _mm256_storeu_ps(place.cast(), column.0) };
    }
}

/// # Safety
/// As for [`turn_16_bits`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn turn_64_bits(from: *const u8, apart: i64, to: *mut u8, to_apart: i64) {
    use core::arch::x86_64::*;
    // A quarter of the tile at a time.
    for (row, column) in [(0, 0), (0, 4), (4, 0), (4, 4)] {
        let mut rows = [F64(_mm256_setzero_pd()); 4];
        for (slot, i) in rows.iter_mut().zip(row..) {
            let place = from.wrapping_offset((apart * i + 8 * column) as isize);
            // SAFETY: the caller vouches for the rows.
            *slot = F64(unsafe { _mm256_loadu_pd(place.cast()) });
        }
        for (turned, i) in F64::turned(rows).iter().zip(column..) {
            let place = to.wrapping_offset((to_apart * i + 8 * row) as isize);
            // SAFETY: the caller's.
            unsafe { _mm256_storeu_pd(place.cast(), turned.0) };
        }
    }
}

#[cfg(target_arch = "x86_64")]
impl F32 {
    /// The columns of a matrix of rows. Without closures, into which no instruction is inlined.
    #[inline(always)]
    pub(crate) fn turned(rows: [Self; 8]) -> [Self; 8] {
        use core::arch::x86_64::*;
        // SAFETY: AVX2 is there where its vectors are.
        unsafe {
            // Pairs of rows, then fours, then all eight.
            let mut pairs = rows;
            for i in [0, 2, 4, 6] {
                let (a, b) = (rows[i].0, rows[i + 1].0);
                pairs[i] = Self(_mm256_unpacklo_ps(a, b));
                pairs[i + 1] = Self(_mm256_unpackhi_ps(a, b));
            }
            let mut fours = pairs;
            for i in [0, 1, 4, 5] {
                let (a, b) = (pairs[i].0, pairs[i + 2].0);
                let at = i / 4 * 4 + i % 2 * 2;
                fours[at] = Self(_mm256_shuffle_ps::<0x44>(a, b));
                fours[at + 1] = Self(_mm256_shuffle_ps::<0xee>(a, b));
            }
            let mut columns = fours;
            for i in 0..4 {
                let (a, b) = (fours[i].0, fours[i + 4].0);
                columns[i] = Self(_mm256_permute2f128_ps::<0x20>(a, b));
                columns[i + 4] = Self(_mm256_permute2f128_ps::<0x31>(a, b));
            }
            columns
        }
    }
}

#[cfg(target_arch = "x86_64")]
impl F64 {
    /// The columns of a matrix of rows.
    #[inline(always)]
    pub(crate) fn turned([a, b, c, d]: [Self; 4]) -> [Self; 4] {
        use core::arch::x86_64::*;
        // SAFETY: AVX2 is there where its vectors are.
        unsafe {
            let low = [_mm256_unpacklo_pd(a.0, b.0), _mm256_unpackhi_pd(a.0, b.0)];
            let high = [_mm256_unpacklo_pd(c.0, d.0), _mm256_unpackhi_pd(c.0, d.0)];
            [
                Self(_mm256_permute2f128_pd::<0x20>(low[0], high[0])),
                Self(_mm256_permute2f128_pd::<0x20>(low[1], high[1])),
                Self(_mm256_permute2f128_pd::<0x31>(low[0], high[0])),
                Self(_mm256_permute2f128_pd::<0x31>(low[1], high[1])),
            ]
        }
    }
}
