//! Results that are written with non-temporal stores.

use super::level::{Level, level};
use corten_core::{Element, Scalar, unwinding};
use std::ops::Range;
use std::sync::OnceLock;

// Note [Streaming]
// A store brings its line of memory into the cache before it changes it, so that a sum of two
// tensors moves four tensors' worth of memory and not three. A result that the last cache cannot
// hold gains nothing by lying there. Stores of whole lines write it without reading it first.
// Results that take the place of an operand gain nothing: their lines have been read anyway.
//
// With AVX-512 a result is computed a few lines at a time into a buffer and copied from there: a sum
// takes 0.8 of the time. Rejected: such stores in the loops themselves, each of which would be there
// twice, for a twentieth of the time.
//
// With AVX2 a line takes two stores, copies and conversions two thirds of the time, and buffers cost
// what they save: broadcast sums took half as long again. There operators that are over soon have a
// second loop for such results, whose stores are these (a sum takes four fifths of the time); others,
// which compute for as long as memory takes, stay in the caches.

/// The bytes that are written to memory at once.
const LINE: usize = 64;

/// What is copied with non-temporal stores right after it was written: vectors that lie in two lines each would
/// wait for their stores.
#[repr(align(64))]
pub(crate) struct CacheAligned<T>(pub(crate) T);

/// The size of the last cache where the system does not tell.
const USUAL: usize = 32 << 20;

/// Results smaller than this lie in any last cache.
const SMALL: usize = if cfg!(test) { 1 << 12 } else { 1 << 20 };

/// Whether a result of so many bytes is better written with non-temporal stores, once it is there.
pub(crate) fn streams(nbytes: usize) -> bool {
    static LEAST: OnceLock<usize> = OnceLock::new();
    // Tests have a small cache.
    let least = || if cfg!(test) { SMALL } else { last_cache() / 4 * 3 };
    nbytes >= SMALL && level() >= Level::Avx2 && nbytes >= *LEAST.get_or_init(least)
}

/// The size in bytes of the last cache that a processor has to itself or shares. The C library's
/// answer would be that of all processors together.
fn last_cache() -> usize {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/cpu0/cache/index3/size");
    let kilobytes = text.ok().and_then(|text| text.trim().strip_suffix('K')?.parse().ok());
    kilobytes.map_or(USUAL, |kilobytes: usize| kilobytes << 10)
}

/// Bytes that are computed before they are written.
const PART: usize = 1 << 12;

/// Runs of fewer bytes are not worth it: what lies at their ends within a line is written twice.
pub(crate) const SHORTEST_RUN: usize = 1 << 10;

/// Lets `body` fill a part of a result of `written` bytes: `body(elements, values)`, for as many
/// units of `unit` elements at a time as suits. What it finds there is not specified.
pub(crate) fn fill<T: Element>(
    written: usize,
    out: &mut [T],
    unit: usize,
    mut body: impl FnMut(Range<usize>, &mut [T]),
) {
    let Some(stream) = Stream::of_computed(written) else { return body(0..out.len(), out) };
    let unit = unit.max(1);
    let length = (PART / size_of::<T>()).max(unit) / unit * unit;
    let mut buffer = unwinding::vec(T::from_scalar(Scalar::Int(0)), length.min(out.len()));
    let mut start = 0;
    for part in out.chunks_mut(length) {
        let buffer = &mut buffer[..part.len()];
        body(start..start + part.len(), buffer);
        // SAFETY: both have the bytes of the part, which is not accessed before the end.
        unsafe { stream.copy(buffer.as_ptr().cast(), part.as_mut_ptr().cast(), size_of_val(part)) };
        start += part.len();
    }
}

/// Copies by non-temporal stores. They are complete, also for other threads, when it is dropped.
pub(crate) struct Stream(());

impl Stream {
    /// Copies for a result of so many bytes, if it [`streams`].
    pub(crate) fn of(nbytes: usize) -> Option<Self> {
        streams(nbytes).then_some(Self(()))
    }

    /// As [`of`](Self::of), for results that are computed into a buffer in order to be copied.
    pub(crate) fn of_computed(nbytes: usize) -> Option<Self> {
        Self::of(nbytes).filter(|_| level() == Level::Avx512)
    }

    /// Cuts `n` elements of `size` bytes in those before the first whole line, those of whole lines,
    /// and the rest. Elements that are not aligned to their size fill no line.
    pub(crate) fn cut(to: *const u8, size: usize, n: usize) -> [Range<usize>; 3] {
        let before = to.align_offset(LINE);
        let head = if before.is_multiple_of(size) { (before / size).min(n) } else { n };
        let whole = head + (n - head) / (LINE / size) * (LINE / size);
        [0..head, head..whole, whole..n]
    }

    /// Copies `n` bytes.
    ///
    /// # Safety
    /// `from` must be readable and `to` writable for `n` bytes, and they must not overlap. Nothing
    /// may access the target before this is dropped.
    pub(crate) unsafe fn copy(&self, from: *const u8, to: *mut u8, n: usize) {
        let [head, whole, rest] = Self::cut(to, 1, n);
        // SAFETY: the three parts are the caller's `n` bytes, and `of` found AVX2 at least.
        unsafe {
            std::ptr::copy_nonoverlapping(from, to, head.len());
            let (lines, place) = (from.add(whole.start), to.add(whole.start));
            #[cfg(target_arch = "x86_64")]
            match level() {
                Level::Avx512 => copy_lines(lines, place, whole.len()),
                _ => copy_half_lines(lines, place, whole.len()),
            }
            #[cfg(not(target_arch = "x86_64"))]
            std::ptr::copy_nonoverlapping(lines, place, whole.len());
            std::ptr::copy_nonoverlapping(from.add(rest.start), to.add(rest.start), rest.len());
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: every processor of this kind has the instruction.
        unsafe {
            core::arch::x86_64::_mm_sfence();
        }
    }
}

/// # Safety
/// As for [`Stream::copy`], for whole lines of the target, with AVX-512.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn copy_lines(from: *const u8, to: *mut u8, n: usize) {
    use core::arch::x86_64::{_mm512_loadu_si512, _mm512_stream_si512};
    for at in (0..n).step_by(LINE) {
        // SAFETY: the caller's.
        unsafe { _mm512_stream_si512(to.add(at).cast(), _mm512_loadu_si512(from.add(at).cast())) };
    }
}

/// # Safety
/// As for [`Stream::copy`], for whole lines of the target, with AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn copy_half_lines(from: *const u8, to: *mut u8, n: usize) {
    use core::arch::x86_64::{_mm256_loadu_si256, _mm256_stream_si256};
    for at in (0..n).step_by(LINE) {
        // SAFETY: the caller's.
        unsafe {
            let (from, to) = (from.add(at), to.add(at));
            let first = _mm256_loadu_si256(from.cast());
            let second = _mm256_loadu_si256(from.add(LINE / 2).cast());
            _mm256_stream_si256(to.cast(), first);
            _mm256_stream_si256(to.add(LINE / 2).cast(), second);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_at_any_place_are_copied_once() {
        let from: Vec<u8> = (0..600u32).map(|i| (i * 7 % 251) as u8).collect();
        for (start, length) in [(0, 0), (0, 64), (1, 63), (3, 64), (5, 500), (63, 130), (64, 511)] {
            let mut to = vec![255; 700];
            let Some(stream) = Stream::of(1 << 12) else { return };
            // SAFETY: both vectors have that many bytes at that place.
            unsafe { stream.copy(from.as_ptr().add(9), to.as_mut_ptr().add(start), length) };
            drop(stream);
            assert_eq!(to[start..][..length], from[9..][..length]);
            assert!(to[..start].iter().chain(&to[start + length..]).all(|&byte| byte == 255));
        }
    }
}
