//! Moving rows between strided and dense memory, by the size of the element.

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
        return unsafe { copy_rows(size, rows, dense, n0, n1) };
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
    for row in 0..n1 as i64 {
        let source = from.at.wrapping_offset((from.outer * row) as isize);
        let target = to.at.wrapping_offset((to.outer * row) as isize);
        // SAFETY: the caller's.
        unsafe {
            match size {
                _ if dense && source.addr().abs_diff(target.addr()) >= n0 * size => {
                    std::ptr::copy_nonoverlapping(source, target, n0 * size);
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
