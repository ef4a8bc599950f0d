//! Strided rows: the operand of packing, prefetching and storing.

/// Rows of contiguous elements, at a fixed distance.
#[derive(Clone, Copy)]
pub(crate) struct StridedRows<P> {
    /// The first element.
    pub first: P,
    /// The distance of two rows, in elements.
    pub stride: isize,
    /// The number of rows.
    pub count: usize,
    /// The elements of each.
    pub len: usize,
}

impl<E> StridedRows<*const E> {
    /// No rows.
    pub(crate) const EMPTY: Self = Self { first: std::ptr::null(), stride: 0, count: 0, len: 0 };

    /// Removes and returns up to `most` first rows.
    #[inline(always)]
    pub(crate) fn take(&mut self, most: usize) -> Self {
        let count = most.min(self.count);
        let taken = Self { count, ..*self };
        self.first = self.first.wrapping_offset(self.stride.wrapping_mul(count as isize));
        self.count -= count;
        taken
    }
}
