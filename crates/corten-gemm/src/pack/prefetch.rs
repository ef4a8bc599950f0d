//! Prefetching of what is packed or used next.

use crate::types::strided_rows::StridedRows;

/// Lines that are brought near before they are needed, some with every tile.
pub(crate) struct PrefetchQueue<E> {
    strided: StridedRows<*const E>,
    per_call: usize,
}

impl<E> PrefetchQueue<E> {
    /// All lines, in so many parts.
    pub(crate) fn of(strided: StridedRows<*const E>, parts: usize) -> Self {
        Self { strided, per_call: strided.count.div_ceil(parts) }
    }

    /// The next of them.
    #[inline]
    pub(crate) fn part(&mut self) -> StridedRows<*const E> {
        self.strided.take(self.per_call)
    }
}
