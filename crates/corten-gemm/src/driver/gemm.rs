//! Products of matrices, block by block.
//!
//! The outer loops cut the columns of the result, the depth, and the rows so that the blocks in use
//! stay in the caches; [`pack`](crate::pack::blocks) puts them in order and [`tile`](crate::kernel::micro_kernel) does the
//! rest.

use crate::driver::epilogue::{BatchStride, Epilogue};
use crate::driver::plan::{Algorithm, Plan};
use crate::driver::small_gemm::SmallGemm;
use crate::driver::unpacked::UnpackedGemm;
use crate::kernel::micro_kernel::{MicroKernels, Number};
use crate::kernel::skinny::{GemvForm, Skinny, SmallMatrix};
use crate::pack::blocks::{
    MAX_UNPACKED_PANELS, Operand, PackedA, PackedB, PanelB, PrefetchQueue, TileOutput,
};
use crate::pack::prepacked::PrepackedB;
use crate::types::accumulate::Accumulate;
use crate::types::element::Scalar;
use crate::types::isa::Isa;
use crate::types::params::{KC, L1_ALIAS_STRIDE, PAGE_BYTES, TLB_REACH};
use crate::types::partition::{Partition, chunks};
use crate::types::view::{MatrixRef, View, stride_bytes};
use crate::types::workspace::{Buffer, Workspace};
use std::ops::Range;

/// The blocks of a product.
struct BlockSizes {
    /// Bytes of a block of `a`, which is used with one panel of `b` after the other: it stays in the
    /// second-level cache, beside a panel.
    a_bytes: usize,
    /// Bytes of a block of `b` that more than one block of `a` uses: it stays in the last cache, and
    /// `a` is copied for fewer of them.
    b_bytes: usize,
    /// Blocks of `a` that all of the depth is done for before the next ones: the more there are, the
    /// less often `b` is copied, and the fewer, the nearer are the sums.
    blocks_per_group: usize,
}

impl BlockSizes {
    /// Those of processors with 64-byte registers, whose second-level caches have 1 MiB and more.
    const WIDE: Self = Self { a_bytes: MAX_A_BYTES, b_bytes: 4 << 20, blocks_per_group: 8 };

    /// Those of others, which may have as little as 256 KiB.
    const NARROW: Self = Self { a_bytes: 128 << 10, b_bytes: 2 << 20, blocks_per_group: 24 };

    /// Those of the level that a set of tiles is of.
    fn of<E>(kernels: &MicroKernels<E>) -> &'static Self {
        if kernels.is_wide() { &Self::WIDE } else { &Self::NARROW }
    }

    /// How many rows of so many bytes are a block. All of them are one where that is not much: then
    /// every panel of `b` is used at once and only once, and needs no place of its own.
    fn rows(&self, rows: usize, bytes: usize) -> usize {
        let most = if rows * bytes <= MAX_A_BYTES { MAX_A_BYTES } else { self.a_bytes };
        most.div_ceil(bytes)
    }
}

/// Bytes of `a` that are one block on any processor.
const MAX_A_BYTES: usize = 384 << 10;

/// Strips whose sums go to a place apart at a time, if they do: when they are turned, enough of them
/// for whole cache lines of the result.
const BUFFERED_PANELS: usize = 8;

/// `c = start + alpha * a @ b` on this thread. The way is that of the factors, or of larger ones that
/// they are parts of: some of the rows of the first, and some of the columns of the second.
///
/// # Safety
/// The factors and the values of `start` must be readable and `c` readable and writable over their
/// shapes, `c` must share no element with them and none of its own places with each other, and the
/// processor must have the instructions.
///
/// # Panics
/// When the shapes do not fit or there is no depth.
pub unsafe fn gemm<E: Number>(
    plan: Plan,
    isa: Isa,
    c: View<*mut E>,
    a: View<*const E>,
    b: View<*const E>,
    alpha: E,
    accumulate: Accumulate<E>,
) {
    assert!(b.shape == [a.shape[1], c.shape[1]], "the shapes do not fit");
    assert!(a.shape == [c.shape[0], b.shape[0]], "the shapes do not fit");
    assert!(a.shape[1] > 0, "there is no depth");
    if c.shape.contains(&0) {
        return;
    }
    let kernels = E::micro_kernels(isa);
    // SAFETY: the caller's.
    let (left, right) = unsafe { (MatrixRef::new(a), MatrixRef::new(b)) };
    if plan.0 == Algorithm::Blocked
        && alpha == E::ONE
        && let Some(unpacked) = UnpackedGemm::of(kernels, c, left, right, accumulate)
    {
        // SAFETY: the caller's: the result and the values of `start` have its shape.
        return unsafe { unpacked.run() };
    }
    // The transpose of the product is the product of the transposes, in the other order.
    let transposed = match plan.0 {
        Algorithm::Blocked => cost(kernels, c.t(), b.t(), a.t()) < cost(kernels, c, a, b),
        Algorithm::Skinny { transposed, .. } => transposed,
        Algorithm::Naive => false,
    };
    let (c, a, b, accumulate) = match transposed {
        true => (c.t(), right.t(), left.t(), accumulate.t()),
        false => (c, left, right, accumulate),
    };
    if let Algorithm::Skinny { form: GemvForm::Dot, .. } = plan.0
        && alpha == E::ONE
        && let Some(small) = SmallGemm::of(a, b, isa, accumulate)
    {
        // SAFETY: the caller's: the result and the values of `start` have its shape.
        return unsafe { small.run(c, accumulate) };
    }
    if plan.0 == Algorithm::Naive {
        // SAFETY: the caller's.
        return unsafe { naive(c, a, b, alpha, accumulate) };
    }
    let epilogue = Epilogue::of(c, alpha, accumulate, &kernels.pack);
    let mut workspace = Workspace::acquire();
    if let Algorithm::Skinny { form, .. } = plan.0 {
        let store = |sums: &[E], width, place, size| epilogue.store(sums, width, place, size);
        let a = SmallMatrix { source: a, isa };
        Skinny { a: &a, b, isa, form, store: &store }.run(&mut workspace);
    } else {
        let depth = a.shape()[1];
        gemm_blocked(
            kernels,
            epilogue,
            depth,
            Operand::Matrix(a),
            Operand::Matrix(b),
            &mut workspace,
        );
    }
    workspace.release();
}

/// Element by element.
///
/// # Safety
/// As for [`gemm`].
unsafe fn naive<E: Number>(
    c: View<*mut E>,
    a: MatrixRef<'_, E>,
    b: MatrixRef<'_, E>,
    alpha: E,
    accumulate: Accumulate<E>,
) {
    for row in 0..c.shape[0] {
        for col in 0..c.shape[1] {
            let terms = (0..a.shape()[1]).map(|step| a.at([row, step]) * b.at([step, col]));
            let sum = terms.fold(E::ZERO, |sum, term| sum + term);
            // SAFETY: the caller's; the place lies in the result.
            unsafe { accumulate.store_row(&[alpha * sum], [row, col], c) };
        }
    }
}

/// [`gemm`] of factors that may be made as they are needed, tile by tile, over so many steps. The
/// columns of the result may lie apart.
///
/// # Safety
/// As for [`gemm`], of every matrix of the result; rows and columns of factors in memory are those
/// of the result, and their depth is the one given.
///
/// # Panics
/// When the shapes do not fit or there is no depth.
pub unsafe fn gemm_operands<E: Number>(
    isa: Isa,
    (c, batch_stride): (View<*mut E>, Option<BatchStride>),
    depth: usize,
    [a, b]: [Operand<'_, E>; 2],
    accumulate: Accumulate<E>,
) {
    assert!(a.fits([c.shape[0], depth]) && b.fits([depth, c.shape[1]]), "the shapes do not fit");
    assert!(
        batch_stride.is_none_or(|batch_stride| batch_stride.columns > 0),
        "the matrices have no columns"
    );
    assert!(depth > 0, "there is no depth");
    if c.shape.contains(&0) {
        return;
    }
    let kernels = E::micro_kernels(isa);
    if let (Operand::Matrix(a), Operand::Matrix(b), None) = (a, b, batch_stride)
        && let Some(unpacked) = UnpackedGemm::of(kernels, c, a, b, accumulate)
    {
        // SAFETY: the caller's, for all that there is.
        return unsafe { unpacked.run() };
    }
    let epilogue = Epilogue::of(c, E::ONE, accumulate, &kernels.pack).batch_stride(batch_stride);
    let mut workspace = Workspace::acquire();
    gemm_blocked(kernels, epilogue, depth, a, b, &mut workspace);
    workspace.release();
}

/// [`gemm`] with some columns of a factor whose panels were made before; the first one begins a
/// panel.
///
/// # Safety
/// As for [`gemm`], of `c`, `a` and `start`.
///
/// # Panics
/// When the shapes do not fit, there is no depth, or the columns do not begin with a panel.
pub unsafe fn gemm_prepacked<E: Number>(
    c: View<*mut E>,
    a: View<*const E>,
    (b, cols): (&PrepackedB<E>, Range<usize>),
    accumulate: Accumulate<E>,
) {
    assert!(a.shape[0] == c.shape[0] && cols.len() == c.shape[1], "the shapes do not fit");
    assert!(b.has(a.shape[1], cols.clone()), "the shapes do not fit");
    assert!(a.shape[1] > 0, "there is no depth");
    if c.shape.contains(&0) {
        return;
    }
    // SAFETY: the caller's.
    let a = unsafe { MatrixRef::new(a) };
    let epilogue = Epilogue::of(c, E::ONE, accumulate, &b.kernels().pack);
    let mut workspace = Workspace::acquire();
    let depth = a.shape()[1];
    let b_operand = Operand::Prepacked(b, cols.start);
    gemm_blocked(b.kernels(), epilogue, depth, Operand::Matrix(a), b_operand, &mut workspace);
    workspace.release();
}

/// Tile by tile.
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

/// About how many cycles a product takes: multiplications; what it takes to read `a` where the steps of
/// its rows do not lie side by side; copies of `b`, which are slower where its columns do not, or where
/// every row lies on a page of its own; and those of the result where its columns do not, for every block
/// of the depth. Where a step takes half the cycles, what is waited for weighs more; but pages less, as
/// panels are wider and brought near while the ones before are used.
fn cost<E: Scalar>(
    kernels: &MicroKernels<E>,
    c: View<*mut E>,
    a: View<*const E>,
    b: View<*const E>,
) -> usize {
    let ([rows, cols], depth) = (c.shape, a.shape[1]);
    let to_accum = kernels.is_wide();
    let pages = if to_accum { 5 } else { 8 };
    // A step multiplies twice in a cycle, and loads one row of `b` and an element of `a` per row.
    let panels = Partition::of(cols.div_ceil(kernels.lanes), kernels.registers());
    let of_step: usize = panels.widths().map(|(count, w)| count * (3 * w).max(6 + w)).sum();
    // Saturated: expanded factors have more elements than there are bytes.
    let first_pass = |a: usize, b: usize| a.saturating_mul(b);
    let of_tiles = first_pass(first_pass(rows, depth), of_step) / 6;
    let batch_stride = stride_bytes::<E>(a.strides[1]);
    let quarters = match panels.count {
        _ if a.strides[1] == 1 => 0,
        // Strips are copied in pieces of a few elements.
        count if count > MAX_UNPACKED_PANELS => 4,
        _ if batch_stride.is_multiple_of(L1_ALIAS_STRIDE) => 4,
        _ if batch_stride.saturating_mul(depth.min(KC)) <= TLB_REACH => 0,
        _ if to_accum && batch_stride >= PAGE_BYTES => 3,
        _ => 1,
    };
    let of_a = first_pass(first_pass(rows, depth), quarters) / 4;
    let of_b = match b.strides {
        [row, 1] if stride_bytes::<E>(row) >= PAGE_BYTES => {
            first_pass(first_pass(depth, cols), pages) / 8
        }
        [_, 1] => first_pass(depth, cols) / 8,
        _ => first_pass(depth, cols) / 4,
    };
    let of_c = if c.strides[1] == 1 {
        0
    } else {
        first_pass(first_pass(rows, cols), depth.div_ceil(KC)) / 2
    };
    of_tiles.saturating_add(of_a).saturating_add(of_b).saturating_add(of_c)
}

/// Whether a block is the first one that adds to its sums, and the first one with its panels.
struct FirstPass {
    depth_block: bool,
    packed_b: bool,
}

/// A product under way.
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
        // Pieces are not divided.
        let most = if let Operand::Segments(_) = self.a { depth } else { KC };
        let k_bytes = most.min(depth) * size_of::<E>();
        let sizes = BlockSizes::of(self.kernels);
        let rows_per_block = sizes.rows(rows, k_bytes).next_multiple_of(self.kernels.rows());
        let reused = rows > rows_per_block;
        let most_cols = sizes.b_bytes.div_ceil(k_bytes).next_multiple_of(self.kernels.cols());
        let cols_per_block = if reused { most_cols } else { cols };
        let depths = Partition::of(depth, most);
        assert!(self.epilogue.is_direct() || depths.count == 1, "sums are taken through once");
        // Rows whose sums stay near from one block of the depth to the next.
        let blocks = if depths.count > 1 { sizes.blocks_per_group } else { usize::MAX };
        let row_groups = Partition::of(rows.div_ceil(rows_per_block), blocks);
        for cols in chunks(cols, cols_per_block) {
            for group in row_groups.all() {
                let rows = group.start * rows_per_block..(group.end * rows_per_block).min(rows);
                for index in 0..depths.count {
                    let place = [rows.clone(), cols.clone()];
                    // Panels that are kept are used for other rows first.
                    let next_depth =
                        (!reused && index + 1 < depths.count).then(|| depths.get(index + 1));
                    self.depth(
                        place,
                        (depths.get(index), next_depth),
                        rows_per_block,
                        reused,
                        workspace,
                    );
                }
            }
        }
    }

    /// A block of the depth for a part of the result, and the block that follows if it uses the next panels.
    fn depth(
        &self,
        [rows, cols]: [Range<usize>; 2],
        (depth, next_depth): (Range<usize>, Option<Range<usize>>),
        rows_per_block: usize,
        reused: bool,
        workspace: &mut Workspace,
    ) {
        let part = [depth.clone(), cols.clone()];
        let panels = PackedB::of(self.b, part, rows.len(), reused, self.kernels, &mut workspace.b);
        let mut panels = panels.next_depth(next_depth);
        for start in rows.clone().step_by(rows_per_block) {
            let part = [start..(start + rows_per_block).min(rows.end), depth.clone()];
            let packed_a =
                PackedA::of(self.a, part, panels.count(), self.kernels, &mut workspace.a);
            let first_pass =
                FirstPass { depth_block: depth.start == 0, packed_b: start == rows.start };
            self.block(&mut panels, &packed_a, [start, cols.start], first_pass, &mut workspace.c);
        }
    }

    /// Every panel of a block of `b` with every strip of a block of `a`. The place of the block is
    /// given.
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
            // Whether tiles write to the result itself.
            let direct = self.epilogue.is_direct()
                && self.epilogue.strides()[1] == 1
                && panel.cols.len() == panel.registers * self.kernels.lanes
                && self.epilogue.is_one_matrix(&panel.cols)
                && self.epilogue.alpha == E::ONE
                && !(first
                    && matches!(self.epilogue.accumulate, Accumulate::Beta(beta) if beta != E::ONE));
            let pass = PanelPass { packed_a, panel, prefetch, row: start[0], first };
            if direct { self.direct(pass) } else { self.buffered(buffer, pass) }
        }
    }

    /// What the sums from a place on are added to: by the first block of the depth what the product
    /// starts from, by the others what is there.
    fn start(&self, place: [usize; 2], first: bool) -> Accumulate<E> {
        if first { self.epilogue.accumulate.at(place) } else { Accumulate::Beta(E::ONE) }
    }

    /// A panel with every strip, whose sums go to the result.
    fn direct(
        &self,
        PanelPass { packed_a, mut panel, mut prefetch, row, first }: PanelPass<'_, '_, E>,
    ) {
        let place = [row, panel.cols.start];
        let start = self.start(place, first);
        let (c, ldc) = (self.epilogue.place(place), self.epilogue.strides()[0]);
        assert!(
            row + packed_a.height() <= self.epilogue.shape()[0],
            "the block lies in the result"
        );
        for index in 0..packed_a.count() {
            let panel_a = packed_a.get(index);
            let above = panel_a.rows.start;
            let c = c.wrapping_offset(above as isize * ldc);
            let sums =
                TileOutput { c, ldc, accumulate: start.at([above, 0]), prefetch: prefetch.part() };
            // SAFETY: the result has the rows of the block and the columns of the panel, all of them
            // in one matrix, and there are values for them.
            unsafe { packed_a.run_micro_kernel(&panel_a, &mut panel, sums) };
        }
    }

    /// A panel with every strip, whose sums go to the room and from there to the result.
    fn buffered(
        &self,
        buffer: &mut Buffer,
        PanelPass { packed_a, mut panel, mut prefetch, row, first }: PanelPass<'_, '_, E>,
    ) {
        let width = panel.registers * self.kernels.lanes;
        for group in chunks(packed_a.count(), BUFFERED_PANELS) {
            let rows = packed_a.get(group.start).rows.start..packed_a.get(group.end - 1).rows.end;
            let place = [row + rows.start, panel.cols.start];
            let size = [rows.len(), panel.cols.len()];
            let base = self.start(place, first);
            // Tiles add values per row whatever columns they have.
            let by_tiles = matches!(base, Accumulate::RowBias(_)) && self.epilogue.alpha == E::ONE;
            let beta = match first {
                true if by_tiles => None,
                true => self.epilogue.init_tile(place, size),
                false => Some(E::ONE),
            };
            let sums = buffer.as_mut_slice::<E>(rows.len() * width);
            for index in group {
                let panel_a = packed_a.get(index);
                let above = panel_a.rows.start - rows.start;
                let (c, ldc) = (sums[above * width..].as_mut_ptr(), width as isize);
                let start = if by_tiles { base.at([above, 0]) } else { Accumulate::Overwrite };
                let sums = TileOutput { c, ldc, accumulate: start, prefetch: prefetch.part() };
                // SAFETY: there is room for all rows and all columns of the panel.
                unsafe { packed_a.run_micro_kernel(&panel_a, &mut panel, sums) };
            }
            self.epilogue.store_tile(sums, width, place, size, beta);
        }
    }
}

/// A panel that is multiplied with every strip of a block.
struct PanelPass<'a, 'b, E: 'static> {
    packed_a: &'a PackedA<'b, E>,
    panel: PanelB<E>,
    prefetch: PrefetchQueue<E>,
    /// The first row of the block.
    row: usize,
    /// Whether this is the first block that adds to its sums.
    first: bool,
}
