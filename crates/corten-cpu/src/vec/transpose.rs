//! Tiles of matrices, turned in registers.

#[cfg(target_arch = "x86_64")]
use super::level::{Level, level};

/// Rows and columns of a tile.
pub(crate) const SIDE: usize = 8;

/// Turns a tile of elements of 32 bits: from one address to another, whose rows lie so many bytes
/// apart.
pub(crate) type Turn = unsafe fn(from: *const u8, apart: i64, to: *mut u8, to_apart: i64);

/// The function for this processor, if it is faster than one element after the other.
pub(crate) fn turn() -> Option<Turn> {
    #[cfg(target_arch = "x86_64")]
    if level() >= Level::Avx2 {
        return Some(turn_avx2);
    }
    None
}

/// # Safety
/// `SIDE` elements must be readable and writable in each of `SIDE` rows, the two tiles must not
/// overlap, and the processor must have AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn turn_avx2(from: *const u8, apart: i64, to: *mut u8, to_apart: i64) {
    use core::arch::x86_64::*;
    // SAFETY: the caller vouches for the rows.
    let row =
        |i: i64| unsafe { _mm256_loadu_ps(from.wrapping_offset((apart * i) as isize).cast()) };
    // Pairs of rows, then fours, then all eight.
    let pair = |i: i64| {
        let (a, b) = (row(i), row(i + 1));
        [_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b)]
    };
    let four = |i: i64| {
        let ([a, c], [b, d]) = (pair(i), pair(i + 2));
        [
            _mm256_shuffle_ps::<0x44>(a, b),
            _mm256_shuffle_ps::<0xee>(a, b),
            _mm256_shuffle_ps::<0x44>(c, d),
            _mm256_shuffle_ps::<0xee>(c, d),
        ]
    };
    let (low, high) = (four(0), four(4));
    for i in 0..4 {
        let place = |i: usize| to.wrapping_offset((to_apart * i as i64) as isize).cast();
        let first = _mm256_permute2f128_ps::<0x20>(low[i], high[i]);
        let second = _mm256_permute2f128_ps::<0x31>(low[i], high[i]);
        // SAFETY: the caller's.
        unsafe {
            _mm256_storeu_ps(place(i), first);
            _mm256_storeu_ps(place(i + 4), second);
        }
    }
}
