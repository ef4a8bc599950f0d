//! Products whose operands micro-kernels read in place: for small ones, the choice of blocks takes
//! longer than the product.

use crate::kernel::args::{MicroKernelArgs, MicroKernels};
use crate::pack::packing::{packing_pays, packs_aliasing_a};
use crate::types::accumulate::Accumulate;
use crate::types::element::Scalar;
use crate::types::params::KC;
use crate::types::params::Params;
use crate::types::partition::Partition;
use crate::types::strided_rows::StridedRows;
use crate::types::view::{MatrixRef, View, stride_bytes};

/// A product without packing.
pub(crate) struct UnpackedGemm<'a, E: 'static> {
    c: View<*mut E>,
    a: MatrixRef<'a, E>,
    b: MatrixRef<'a, E>,
    accumulate: Accumulate<E>,
    kernels: &'static MicroKernels<E>,
    /// The vectors of every micro-panel.
    panels: Partition,
}

impl<'a, E: Scalar> UnpackedGemm<'a, E> {
    /// The product, if it is such a one: rows are contiguous, columns fill whole vectors, and `b` is
    /// small or used too rarely for packing to pay.
    pub(crate) fn of(
        kernels: &'static MicroKernels<E>,
        c: View<*mut E>,
        a: MatrixRef<'a, E>,
        b: MatrixRef<'a, E>,
        accumulate: Accumulate<E>,
    ) -> Option<Self> {
        let ([rows, cols], depth) = (c.shape, a.shape()[1]);
        let contiguous = [c.strides[1], a.strides()[1], b.strides()[1]] == [1; 3];
        let accumulates = !matches!(accumulate, Accumulate::Beta(beta) if beta != E::ONE);
        let whole = depth <= KC && cols.is_multiple_of(kernels.packing.lanes);
        if !contiguous || !accumulates || !whole {
            return None;
        }
        let reach = stride_bytes::<E>(b.strides()[0]).saturating_mul(depth);
        if packing_pays(&b, depth, rows)
            && reach > Params::get(kernels.packing.isa).unpacked_b_bytes
        {
            return None;
        }
        let panels = Partition::of(cols / kernels.packing.lanes, kernels.packing.nr_vectors);
        (!packs_aliasing_a(&kernels.packing, &a, panels.count)).then_some(Self {
            c,
            a,
            b,
            accumulate,
            kernels,
            panels,
        })
    }

    /// # Safety
    /// The result must be readable and writable, and biases readable, over its shape, and the
    /// processor must have the instruction set of the micro-kernels.
    pub(crate) unsafe fn run(&self) {
        let packed_a = Partition::of(self.c.shape[0], self.kernels.packing.mr);
        let ([a_row, _], [b_row, _], [c_row, _]) =
            (self.a.strides(), self.b.strides(), self.c.strides);
        for registers in self.panels.all() {
            let (kernels, col) = (
                self.kernels.row_major[registers.len() - 1],
                registers.start * self.kernels.packing.lanes,
            );
            for panel_a in packed_a.all() {
                let row = panel_a.start as isize;
                let args = MicroKernelArgs {
                    depth: self.a.shape()[1],
                    segments: 1,
                    segment_stride: 0,
                    a: self.a.first().wrapping_offset(row * a_row),
                    lda: a_row,
                    b: self.b.first().wrapping_add(col),
                    ldb: b_row,
                    b_packed: std::ptr::null_mut(),
                    prefetch: StridedRows::EMPTY,
                    c: self.c.data.wrapping_offset(row * c_row).wrapping_add(col),
                    ldc: c_row,
                    accumulate: self.accumulate.at([panel_a.start, col]),
                };
                // SAFETY: all micro-panels lie in the matrices; the caller's.
                unsafe { kernels[panel_a.len() - 1](&args) };
            }
        }
    }
}
