//! Rows in memory.

/// Lines of elements that lie side by side.
#[derive(Clone, Copy)]
pub(crate) struct StridedRows<P> {
    /// The first element.
    pub first: P,
    /// From one line to the next.
    pub stride: isize,
    /// How many there are.
    pub count: usize,
    /// The elements of each.
    pub len: usize,
}

impl<E> StridedRows<*const E> {
    /// No lines.
    pub(crate) const EMPTY: Self = Self { first: std::ptr::null(), stride: 0, count: 0, len: 0 };

    /// Takes the first lines, as many of them as there are.
    #[inline(always)]
    pub(crate) fn take(&mut self, most: usize) -> Self {
        let count = most.min(self.count);
        let taken = Self { count, ..*self };
        self.first = self.first.wrapping_offset(self.stride.wrapping_mul(count as isize));
        self.count -= count;
        taken
    }
}
