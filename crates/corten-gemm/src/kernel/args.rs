//! The interface of micro-kernels.

use crate::pack::packing::Packing;
use crate::types::accumulate::Accumulate;
use crate::types::strided_rows::StridedRows;

/// The arguments of a micro-kernel: micro-panels of `a` and `b`, and a tile of `c`.
#[derive(Clone, Copy)]
pub(crate) struct MicroKernelArgs<E> {
    /// The steps of a segment.
    pub depth: usize,
    /// The number of segments, which are consecutive in `b`.
    pub segments: usize,
    /// The distance of two segments of a row of `a`.
    pub segment_stride: isize,
    /// The first element of `a`.
    pub a: *const E,
    /// The leading dimension of `a`: the distance of rows, or of steps; the other one is 1.
    pub lda: isize,
    /// The first element of `b`, whose rows are contiguous.
    pub b: *const E,
    /// The leading dimension of `b`: the distance of steps.
    pub ldb: isize,
    /// The first element of the tile of `c`, whose rows are contiguous.
    pub c: *mut E,
    /// The leading dimension of `c`: the distance of rows.
    pub ldc: isize,
    /// Where rows of `b` are packed to, by kernels that do.
    pub b_packed: *mut E,
    /// What is prefetched for later.
    pub prefetch: StridedRows<*const E>,
    /// What the product is added to: biases from the first row or column on, or the result with a
    /// `beta` of one.
    pub accumulate: Accumulate<E>,
}

/// A micro-kernel for some number of rows and vectors of columns.
///
/// # Safety
/// `a` must be readable for the rows and the depth, and `b` for the depth and the columns; `c` readable
/// and writable for the rows and columns, `b_packed` writable for as much as `b` has, for kernels that
/// pack, and biases readable for every row or column. The processor must have the instruction set.
pub(crate) type MicroKernel<E> = unsafe fn(&MicroKernelArgs<E>);

/// The micro-kernels of an instruction set.
pub struct MicroKernels<E: 'static> {
    pub(crate) packing: Packing<E>,
    /// By the vectors of a row, and by the rows: 1, 2, 3 ... each. The steps of a row of `a` are
    /// contiguous.
    pub(crate) row_major: &'static [&'static [MicroKernel<E>]],
    /// As [`Self::row_major`], where the rows of a step of `a` are contiguous. None of AMX, which
    /// does not pack `a` so.
    pub(crate) col_major: &'static [&'static [MicroKernel<E>]],
    /// The widest of [`Self::row_major`], which pack `b` while they read it. None of AMX, whose `b`
    /// is packed before.
    pub(crate) fused_packing: &'static [MicroKernel<E>],
}
