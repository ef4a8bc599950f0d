//! The vector operations that kernels are written in.

use crate::types::element::Scalar;

/// The lanes of the longest vector.
pub(crate) const MAX_LANES: usize = 16;

/// Repeats a statement for each of up to eight rows. The compiler does not unroll loops over so many
/// vectors, and an array that is indexed in a loop is not kept in registers.
macro_rules! unroll_rows {
    ($rows:ident, |$row:ident| $body:block) => {
        unroll_rows!(@each $rows, $row, $body, 0 1 2 3 4 5 6 7)
    };
    (@each $rows:ident, $row:ident, $body:block, $($index:literal)+) => {
        $(if $index < $rows {
            const $row: usize = $index;
            $body
        })+
    };
}

pub(crate) use unroll_rows;

/// A vector register of an instruction set.
pub(crate) trait Vector: Copy {
    type Elem: Scalar;
    const LANES: usize;

    fn splat(value: Self::Elem) -> Self;
    /// # Safety
    /// `from` must be readable for `LANES` elements.
    unsafe fn load(from: *const Self::Elem) -> Self;
    /// # Safety
    /// `to` must be writable for `LANES` elements.
    unsafe fn store(self, to: *mut Self::Elem);
    /// Loads `n` elements; the other lanes are zero.
    /// # Safety
    /// `from` must be readable for `n < LANES` elements.
    unsafe fn load_partial(from: *const Self::Elem, n: usize) -> Self;
    /// # Safety
    /// `to` must be writable for `n < LANES` elements.
    unsafe fn store_partial(self, to: *mut Self::Elem, n: usize);
    /// The transpose of the first `LANES` rows.
    fn transpose(rows: [Self; MAX_LANES]) -> [Self; MAX_LANES];
    /// Prefetches a cache line to the first-level cache. The address need not be readable.
    #[inline(always)]
    fn prefetch(_: *const Self::Elem) {}
    /// Prefetches a cache line to the second-level cache.
    #[inline(always)]
    fn prefetch_l2(_: *const Self::Elem) {}
    /// `self * other`.
    fn mul(self, other: Self) -> Self;
    /// `self + other`.
    fn add(self, other: Self) -> Self;
    /// `self * factor + sum`, fused where the instruction set has it.
    fn mul_add(self, factor: Self, sum: Self) -> Self;
}
