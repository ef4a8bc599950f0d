//! The macro-kernel: the five loops around the micro-kernel of Goto & van de Geijn, "Anatomy of
//! High-Performance Matrix Multiplication" (2008), in the order of BLIS (Van Zee & van de Geijn 2015).
//! Columns are partitioned by NC, the depth by KC and rows by MC, so that a block of `b` stays in the
//! last-level cache, one of `a` in the second-level cache, and a micro-panel of `b` in the first.

use crate::driver::epilogue::Epilogue;
use crate::kernel::args::{MicroKernelArgs, MicroKernels};
use crate::pack::operand::Operand;
use crate::pack::packed_a::{PackedA, PanelA};
use crate::pack::packed_b::{PackedB, PanelB};
use crate::pack::prefetch::PrefetchQueue;
use crate::types::accumulate::Accumulate;
use crate::types::element::Scalar;
use crate::types::params::KC;
use crate::types::params::Params;
use crate::types::partition::{Partition, chunks};
use crate::types::strided_rows::StridedRows;
use crate::types::workspace::{Buffer, Workspace};
use std::ops::Range;

/// Micro-panels of `a` whose tiles are buffered at a time, where they are not stored directly: enough
/// for whole cache lines of a transposed result.
const BUFFERED_PANELS: usize = 8;

/// A product by the blocked algorithm.
pub(crate) fn gemm_blocked<E: Scalar>(
    kernels: &'static MicroKernels<E>,
    epilogue: Epilogue<'_, E>,
    depth: usize,
    a: Operand<'_, E>,
    b: Operand<'_, E>,
    workspace: &mut Workspace,
) {
    MacroKernel { epilogue, a, b, depth, kernels }.run(workspace);
}

/// Whether this is the first block of the depth, and the first block of rows that uses a block of `b`.
struct FirstPass {
    depth_block: bool,
    packed_b: bool,
}

/// A product in progress.
struct MacroKernel<'a, E: 'static> {
    epilogue: Epilogue<'a, E>,
    a: Operand<'a, E>,
    b: Operand<'a, E>,
    depth: usize,
    kernels: &'static MicroKernels<E>,
}

impl<E: Scalar> MacroKernel<'_, E> {
    fn run(&self, workspace: &mut Workspace) {
        let ([rows, cols], depth) = (self.epilogue.shape(), self.depth);
        // Segments are not partitioned.
        let kc = if let Operand::Segments(_) = self.a { depth } else { KC };
        let k_bytes = kc.min(depth) * size_of::<E>();
        let params = Params::get(self.kernels.packing.isa);
        let most_bytes = match rows * k_bytes <= params.single_mc_bytes {
            true => params.single_mc_bytes,
            false => params.mc_bytes,
        };
        let mc = most_bytes.div_ceil(k_bytes).next_multiple_of(self.kernels.packing.mr);
        let reused = rows > mc;
        let max_nc = params.nc_bytes.div_ceil(k_bytes).next_multiple_of(self.kernels.packing.nr());
        let nc = if reused { max_nc } else { cols };
        let depths = Partition::of(depth, kc);
        assert!(self.epilogue.is_direct() || depths.count == 1, "the epilogue runs once");
        // Rows whose sums stay cached from one block of the depth to the next.
        let blocks = if depths.count > 1 { params.blocks_per_group } else { usize::MAX };
        let row_groups = Partition::of(rows.div_ceil(mc), blocks);
        for cols in chunks(cols, nc) {
            for group in row_groups.all() {
                let rows = group.start * mc..(group.end * mc).min(rows);
                for index in 0..depths.count {
                    let part = [rows.clone(), cols.clone()];
                    // Micro-panels that are kept are used for other rows first.
                    let next_depth =
                        (!reused && index + 1 < depths.count).then(|| depths.get(index + 1));
                    self.depth(part, (depths.get(index), next_depth), mc, reused, workspace);
                }
            }
        }
    }

    /// A block of the depth for a part of the result, and the next block if it uses the next
    /// micro-panels.
    fn depth(
        &self,
        [rows, cols]: [Range<usize>; 2],
        (depth, next_depth): (Range<usize>, Option<Range<usize>>),
        mc: usize,
        reused: bool,
        workspace: &mut Workspace,
    ) {
        let part = [depth.clone(), cols.clone()];
        let panels =
            PackedB::of(self.b, part, rows.len(), reused, &self.kernels.packing, &mut workspace.b);
        let mut panels = panels.next_depth(next_depth);
        for start in rows.clone().step_by(mc) {
            let part = [start..(start + mc).min(rows.end), depth.clone()];
            let packed_a =
                PackedA::of(self.a, part, panels.count(), &self.kernels.packing, &mut workspace.a);
            let first_pass =
                FirstPass { depth_block: depth.start == 0, packed_b: start == rows.start };
            self.block(&mut panels, &packed_a, [start, cols.start], first_pass, &mut workspace.c);
        }
    }

    /// Every micro-panel of a block of `b` with every micro-panel of a block of `a`.
    fn block(
        &self,
        panels: &mut PackedB<'_, E>,
        packed_a: &PackedA<'_, E>,
        start: [usize; 2],
        FirstPass { depth_block: first, packed_b: first_time }: FirstPass,
        buffer: &mut Buffer,
    ) {
        for index in 0..panels.count() {
            let panel = panels.get(index, first_time, packed_a.row_major());
            let prefetch = panels.prefetch_next(index + 1, first_time, packed_a.count());
            // Whether micro-kernels store to the result itself.
            let direct = self.epilogue.is_direct()
                && self.epilogue.strides()[1] == 1
                && panel.cols.len() == panel.vectors * self.kernels.packing.lanes
                && self.epilogue.is_one_matrix(&panel.cols)
                && self.epilogue.alpha == E::ONE
                && !(first
                    && matches!(self.epilogue.accumulate, Accumulate::Beta(beta) if beta != E::ONE));
            let pass = PanelPass { packed_a, panel, prefetch, row: start[0], first };
            if direct { self.direct(pass) } else { self.buffered(buffer, pass) }
        }
    }

    /// The accumulation from a row and column on: that of the product for the first block of the depth,
    /// the result for the others.
    fn accumulate(&self, origin: [usize; 2], first: bool) -> Accumulate<E> {
        if first { self.epilogue.accumulate.at(origin) } else { Accumulate::Beta(E::ONE) }
    }

    /// A micro-panel of `b` with all of `a`, stored to the result.
    fn direct(
        &self,
        PanelPass { packed_a, mut panel, mut prefetch, row, first }: PanelPass<'_, '_, E>,
    ) {
        let origin = [row, panel.cols.start];
        let accumulate = self.accumulate(origin, first);
        let (c, ldc) = (self.epilogue.ptr_at(origin), self.epilogue.strides()[0]);
        assert!(
            row + packed_a.height() <= self.epilogue.shape()[0],
            "the block lies in the result"
        );
        for index in 0..packed_a.count() {
            let panel_a = packed_a.get(index);
            let above = panel_a.rows.start;
            let c = c.wrapping_offset(above as isize * ldc);
            let sums = TileOutput {
                c,
                ldc,
                accumulate: accumulate.at([above, 0]),
                prefetch: prefetch.part(),
            };
            // SAFETY: the result has the rows of the block and the columns of the
            // micro-panel, all of them in one matrix, and there are biases for them.
            unsafe { self.run_micro_kernel(packed_a, &panel_a, &mut panel, sums) };
        }
    }

    /// A micro-panel of `b` with all of `a`, stored by way of a buffer.
    fn buffered(
        &self,
        buffer: &mut Buffer,
        PanelPass { packed_a, mut panel, mut prefetch, row, first }: PanelPass<'_, '_, E>,
    ) {
        let width = panel.vectors * self.kernels.packing.lanes;
        for group in chunks(packed_a.count(), BUFFERED_PANELS) {
            let rows = packed_a.get(group.start).rows.start..packed_a.get(group.end - 1).rows.end;
            let origin = [row + rows.start, panel.cols.start];
            let size = [rows.len(), panel.cols.len()];
            let base = self.accumulate(origin, first);
            // Micro-kernels add row biases whatever columns they have.
            let by_kernel = matches!(base, Accumulate::RowBias(_)) && self.epilogue.alpha == E::ONE;
            let beta = match first {
                true if by_kernel => None,
                true => self.epilogue.init_tile(origin, size),
                false => Some(E::ONE),
            };
            let sums = buffer.as_mut_slice::<E>(rows.len() * width);
            for index in group {
                let panel_a = packed_a.get(index);
                let above = panel_a.rows.start - rows.start;
                let (c, ldc) = (sums[above * width..].as_mut_ptr(), width as isize);
                let accumulate =
                    if by_kernel { base.at([above, 0]) } else { Accumulate::Overwrite };
                let sums = TileOutput { c, ldc, accumulate, prefetch: prefetch.part() };
                // SAFETY: there is room for all rows and all columns of the micro-panel.
                unsafe { self.run_micro_kernel(packed_a, &panel_a, &mut panel, sums) };
            }
            self.epilogue.store_tile(sums, width, origin, size, beta);
        }
    }

    /// Calls the micro-kernel of two micro-panels, which may pack that of `b`.
    ///
    /// # Safety
    /// The result must be writable, and what is added to readable, for the rows and all vectors of
    /// the micro-panels.
    #[inline]
    unsafe fn run_micro_kernel(
        &self,
        packed_a: &PackedA<'_, E>,
        panel_a: &PanelA,
        panel: &mut PanelB<E>,
        sums: TileOutput<E>,
    ) {
        let (a, lda) = packed_a.panel(panel_a);
        let (segments, depth, segment_stride) = packed_a.segments;
        let args = MicroKernelArgs {
            depth,
            segments,
            segment_stride,
            a,
            lda,
            b: panel.first,
            ldb: panel.stride,
            b_packed: panel.copy.unwrap_or(std::ptr::null_mut()),
            prefetch: sums.prefetch,
            c: sums.c,
            ldc: sums.ldc,
            accumulate: sums.accumulate,
        };
        let kernels =
            if packed_a.row_major() { self.kernels.row_major } else { self.kernels.col_major };
        let kernels = match panel.copy {
            Some(_) => self.kernels.fused_packing,
            None => kernels[panel.vectors - 1],
        };
        // SAFETY: micro-panels are whole, the caller owes the result, and the micro-kernel is of
        // the instruction set in use.
        unsafe { kernels[panel_a.rows.len() - 1](&args) };
        panel.set_packed(panel.vectors * self.kernels.packing.lanes);
    }
}

/// A micro-panel of `b` that is multiplied with all of a block of `a`.
struct PanelPass<'a, 'b, E: 'static> {
    packed_a: &'a PackedA<'b, E>,
    panel: PanelB<E>,
    prefetch: PrefetchQueue<E>,
    /// The first row of the block.
    row: usize,
    /// Whether this is the first block of the depth.
    first: bool,
}

/// The tile of the result of a micro-kernel.
struct TileOutput<E> {
    pub c: *mut E,
    pub ldc: isize,
    pub accumulate: Accumulate<E>,
    /// What is prefetched meanwhile.
    pub prefetch: StridedRows<*const E>,
}
