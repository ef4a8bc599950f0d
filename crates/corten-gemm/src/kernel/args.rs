//! The interface of micro-kernels.

use crate::pack::packing::Packing;
use crate::types::accumulate::Accumulate;
use crate::types::strided_rows::StridedRows;

/// What a tile is made of, and where its sums go.
#[derive(Clone, Copy)]
pub(crate) struct MicroKernelArgs<E> {
    /// The steps of a piece.
    pub depth: usize,
    /// How many pieces there are, one after the other in `b`.
    pub segments: usize,
    /// From a piece of a row of `a` to the next.
    pub segment_stride: isize,
    /// The first element of the rows of `a`.
    pub a: *const E,
    /// From one row of `a` to the next, or from one step to the next: the other is 1.
    pub lda: isize,
    /// The first row of `b`; the elements of a row lie side by side.
    pub b: *const E,
    /// From one step to the next.
    pub ldb: isize,
    /// The first element of the result, whose rows' elements lie side by side.
    pub c: *mut E,
    /// From one row of the result to the next.
    pub ldc: isize,
    /// Where the rows of `b` are copied to, by tiles that do so.
    pub b_packed: *mut E,
    /// What is to be brought near for later.
    pub prefetch: StridedRows<*const E>,
    /// What the sums are added to: values from the first row, or column, on, or what the result holds,
    /// whose factor is one.
    pub accumulate: Accumulate<E>,
}

/// The loop for some number of rows.
///
/// # Safety
/// `a` must be readable for the rows and the depth, and `b` for the depth and the columns; `c`
/// readable and writable for the rows and columns, `b_packed` writable for as much as `b` has, for
/// tiles that copy, and `start` readable for every row, or column. The processor must have the loop's
/// instructions.
pub(crate) type MicroKernel<E> = unsafe fn(&MicroKernelArgs<E>);

/// The micro-kernels of an instruction set.
pub struct MicroKernels<E: 'static> {
    pub(crate) packing: Packing<E>,
    /// By the vectors of a row, and of these by the rows: 1, 2, 3 ... each. The steps of a row of `a` are
    /// contiguous.
    pub(crate) row_major: &'static [&'static [MicroKernel<E>]],
    /// As [`Self::row_major`], where the rows of a step of `a` are contiguous. None of AMX, which never
    /// packs `a` so.
    pub(crate) col_major: &'static [&'static [MicroKernel<E>]],
    /// The widest of [`Self::row_major`], which pack `b` as they read it. None of AMX, whose `b` is always
    /// packed before.
    pub(crate) fused_packing: &'static [MicroKernel<E>],
}
