//! Moving rows between strided and dense memory, by the size of the element.

use crate::copy::transpose::copy_block;
use crate::rows::loops::{RowKernel, Vectorised};
use crate::vec::Lanes;
#[cfg(target_arch = "x86_64")]
use crate::vec::{Level, level};

/// The address of a row's first element, and the strides to the next element and the next row.
#[derive(Clone, Copy)]
pub(crate) struct Rows {
    pub(crate) at: *mut u8,
    pub(crate) inner: i64,
    pub(crate) outer: i64,
}

impl Rows {
    /// Row number `i` as the first one.
    pub(crate) fn row(self, i: i64) -> Self {
        Self { at: self.at.wrapping_offset((self.outer * i) as isize), ..self }
    }

    /// Element number `i` of each row as the first one.
    pub(crate) fn element(self, i: usize) -> Self {
        Self { at: self.at.wrapping_offset((self.inner * i as i64) as isize), ..self }
    }
}

/// Copies `n1` rows of `n0` elements into dense memory.
///
/// # Safety
/// The rows must be readable and `to` writable for that many elements of `size` bytes, which is
/// 1, 2, 4, 8 or 16.
pub(crate) unsafe fn gather(size: usize, rows: Rows, to: *mut u8, n0: usize, n1: usize) {
    let dense = Rows { at: to, inner: size as i64, outer: (size * n0) as i64 };
    if rows.outer != 0 || n1 < 2 {
        // SAFETY: the caller's.
        return unsafe { copy_block(size, rows, dense, n0, n1) };
    }
    // The same row again and again: what is there already is copied behind itself.
    let (row, total) = (size * n0, size * n0 * n1);
    // SAFETY: the caller's; every copy ends within `total`, behind what it is made of.
    unsafe {
        copy_rows(size, rows, dense, n0, 1);
        let mut done = row;
        while done < total {
            let count = done.min(total - done);
            std::ptr::copy_nonoverlapping(to, to.add(done), count);
            done += count;
        }
    }
}

/// Copies dense memory into `n1` rows of `n0` elements.
///
/// # Safety
/// As for [`gather`], with the rows writable and `from` readable.
pub(crate) unsafe fn scatter(size: usize, from: *const u8, rows: Rows, n0: usize, n1: usize) {
    let dense = Rows { at: from.cast_mut(), inner: size as i64, outer: (size * n0) as i64 };
    // SAFETY: the caller's.
    unsafe { copy_rows(size, dense, rows, n0, n1) }
}

/// Copies `n1` rows of `n0` elements, one after the other, also where source and target overlap.
///
/// # Safety
/// The rows of `from` must be readable and those of `to` writable for that many elements of
/// `size` bytes, which is 1, 2, 4, 8 or 16.
pub(crate) unsafe fn copy_rows(size: usize, from: Rows, to: Rows, n0: usize, n1: usize) {
    let dense = from.inner == size as i64 && to.inner == size as i64;
    let bytes = n0 * size;
    if dense && (SHORTEST..=SHORT).contains(&bytes) && rows_are_apart(from, to, bytes, n1) {
        // SAFETY: the caller's, and no row overlaps its target.
        return unsafe { copy_short_rows(from, to, bytes, n1) };
    }
    for row in 0..n1 as i64 {
        let source = from.at.wrapping_offset((from.outer * row) as isize);
        let target = to.at.wrapping_offset((to.outer * row) as isize);
        // SAFETY: the caller's.
        unsafe {
            match size {
                _ if dense && source.addr().abs_diff(target.addr()) >= bytes => {
                    copy_bytes(source, target, bytes);
                }
                1 => copy_row::<u8>(source, from.inner, target, to.inner, n0),
                2 => copy_row::<u16>(source, from.inner, target, to.inner, n0),
                4 => copy_row::<u32>(source, from.inner, target, to.inner, n0),
                8 => copy_row::<u64>(source, from.inner, target, to.inner, n0),
                _ => copy_row::<[u64; 2]>(source, from.inner, target, to.inner, n0),
            }
        }
    }
}

/// Bytes of a row for which a call of `memcpy` takes longer than the copy.
const SHORT: usize = 512;

/// Bytes of a row that are moved by more than one load.
const SHORTEST: usize = 8;

/// Whether each row of the source is apart from that of the target. How far they are apart grows
/// or falls from row to row, so that the first and the last decide.
fn rows_are_apart(from: Rows, to: Rows, bytes: usize, n1: usize) -> bool {
    let apart = |row: i64| {
        let (from, to) = (from.row(row).at.addr() as i64, to.row(row).at.addr() as i64);
        from.wrapping_sub(to)
    };
    let (first, last) = (apart(0), apart(n1.max(1) as i64 - 1));
    let far = |distance: i64| distance.unsigned_abs() >= bytes as u64;
    far(first) && far(last) && (first < 0) == (last < 0)
}

/// # Safety
/// As for [`copy_rows`], with dense rows of this many bytes, at least [`SHORTEST`], and none of which
/// overlaps its target.
unsafe fn copy_short_rows(from: Rows, to: Rows, bytes: usize, n1: usize) {
    // SAFETY: the caller's, with no more bytes at a time than a row has; AVX2 was detected.
    unsafe {
        match bytes {
            #[cfg(target_arch = "x86_64")]
            32.. if level() >= Level::Avx2 => copy_short_rows_avx2(from, to, bytes, n1),
            16.. => copy_short_rows_by::<16>(from, to, bytes, n1),
            _ => copy_short_rows_by::<8>(from, to, bytes, n1),
        }
    }
}

/// # Safety
/// As for [`copy_short_rows`] with rows of at least 32 bytes, and the processor must have AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn copy_short_rows_avx2(from: Rows, to: Rows, bytes: usize, n1: usize) {
    // SAFETY: the caller's.
    unsafe { copy_short_rows_by::<32>(from, to, bytes, n1) }
}

/// Copies `WIDTH` bytes at a time, the last of which may be some of those before, too.
///
/// # Safety
/// As for [`copy_short_rows`] with rows of at least `WIDTH` bytes.
#[inline(always)]
unsafe fn copy_short_rows_by<const WIDTH: usize>(from: Rows, to: Rows, bytes: usize, n1: usize) {
    let last = bytes - WIDTH;
    for row in 0..n1 as i64 {
        let (source, target) = (from.row(row).at, to.row(row).at);
        // SAFETY: the caller's; every piece ends within the row.
        let piece = |start: usize| unsafe {
            std::ptr::copy_nonoverlapping(source.add(start), target.add(start), WIDTH);
        };
        (0..last).step_by(WIDTH).for_each(piece);
        piece(last);
    }
}

/// Copies `n` bytes between places that do not overlap.
///
/// # Safety
/// `from` must be readable and `to` writable for `n` bytes, and they must not overlap.
#[inline(always)]
pub(crate) unsafe fn copy_bytes(from: *const u8, to: *mut u8, n: usize) {
    // The string instructions behind `memcpy` take two to ten times as long for some distances
    // between source and target; vectors are never slower.
    let by_vectors = cfg!(target_arch = "x86_64") && n > SHORT;
    let done = if by_vectors { f32::run(CopyVectors { from, to, n }) } else { 0 };
    // SAFETY: the caller's.
    unsafe { std::ptr::copy_nonoverlapping(from.add(done), to.add(done), n - done) };
}

/// Copies bytes by vectors, and tells how many they are: all but a few. The places do not overlap.
struct CopyVectors {
    from: *const u8,
    to: *mut u8,
    n: usize,
}

impl RowKernel<f32> for CopyVectors {
    type Out = usize;

    #[inline(always)]
    fn run<V: Lanes<Elem = f32>>(self) -> usize {
        let Self { from, to, n } = self;
        let width = size_of::<V>();
        let whole = n / (4 * width) * (4 * width);
        for at in (0..whole).step_by(4 * width) {
            // All are read first: a load waits for a store just before it to the same place of
            // another page.
            // SAFETY: `copy_bytes` was given places of `n` bytes; registers are read from any
            // alignment, and their bits are what was read.
            unsafe {
                let load = |i: usize| V::load(from.add(at + i * width).cast());
                let vectors = [load(0), load(1), load(2), load(3)];
                vectors[0].store(to.add(at).cast());
                vectors[1].store(to.add(at + width).cast());
                vectors[2].store(to.add(at + 2 * width).cast());
                vectors[3].store(to.add(at + 3 * width).cast());
            }
        }
        whole
    }
}

/// # Safety
/// Both rows must have `n` elements of type `T`, at any alignment.
#[inline(always)]
unsafe fn copy_row<T: Copy>(
    from: *const u8,
    from_stride: i64,
    to: *mut u8,
    to_stride: i64,
    n: usize,
) {
    if from_stride == 0 && to_stride == size_of::<T>() as i64 && n > 0 {
        // SAFETY: the caller's. Strides that the compiler knows become stores of vectors.
        unsafe {
            let value = from.cast::<T>().read_unaligned();
            (0..n).for_each(|i| to.cast::<T>().add(i).write_unaligned(value));
        }
        return;
    }
    let size = size_of::<T>() as i64;
    if to_stride == size && n >= LONG && (from_stride == 2 * size || from_stride == 3 * size) {
        // SAFETY: the caller's, for the strides at hand.
        return unsafe {
            match from_stride == 2 * size {
                true => copy_every::<T, 2>(from, to, n),
                false => copy_every::<T, 3>(from, to, n),
            }
        };
    }
    if to_stride == size && from_stride == -size {
        // SAFETY: the caller's, for the strides at hand.
        return unsafe { copy_backwards::<T>(from, to, n) };
    }
    for i in 0..n as i64 {
        let source = from.wrapping_offset((from_stride * i) as isize).cast::<T>();
        let target = to.wrapping_offset((to_stride * i) as isize).cast::<T>();
        // SAFETY: the caller's.
        unsafe { target.write_unaligned(source.read_unaligned()) };
    }
}

/// Rows shorter than this have no loops for frequent strides.
const LONG: usize = 16;

/// Copies every `STEP`-th element, which the compiler makes loads and shuffles of vectors of.
///
/// # Safety
/// As for [`copy_row`] with these strides.
unsafe fn copy_every<T: Copy, const STEP: usize>(from: *const u8, to: *mut u8, n: usize) {
    let (from, to) = (from.cast::<T>(), to.cast::<T>());
    for i in 0..n {
        // SAFETY: the caller's.
        unsafe { to.add(i).write_unaligned(from.add(i * STEP).read_unaligned()) };
    }
}

/// Copies elements that lie one before the other, of which the compiler makes vectors.
///
/// # Safety
/// As for [`copy_row`] with these strides.
unsafe fn copy_backwards<T: Copy>(from: *const u8, to: *mut u8, n: usize) {
    let (from, to) = (from.cast::<T>(), to.cast::<T>());
    for i in 0..n {
        // SAFETY: the caller's.
        unsafe { to.add(i).write_unaligned(from.sub(i).read_unaligned()) };
    }
}
