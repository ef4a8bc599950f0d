//! Prefetching of what is packed or used next.

use crate::types::strided_rows::StridedRows;

/// Rows to be prefetched, a few with every micro-kernel.
pub(crate) struct PrefetchQueue<E> {
    rows: StridedRows<*const E>,
    per_call: usize,
}

impl<E> PrefetchQueue<E> {
    /// All rows, in so many parts.
    pub(crate) fn of(rows: StridedRows<*const E>, parts: usize) -> Self {
        Self { rows, per_call: rows.count.div_ceil(parts) }
    }

    /// The next part.
    #[inline]
    pub(crate) fn part(&mut self) -> StridedRows<*const E> {
        self.rows.take(self.per_call)
    }
}
