//! The macro-kernel of AMX. Operands pass through the tile vectors faster than a second-level cache
//! delivers them: a step of the micro-kernel reads 64 cache lines and multiplies for 64 cycles, in which
//! that cache delivers some 44 lines. So the loops are those of Goto & van de Geijn (2008) with one more
//! for the first-level cache: a piece of a micro-panel of `b` stays there while micro-panels of `a`
//! pass, and so do the accumulators of these until all of the depth is summed.

use crate::driver::epilogue::{Epilogue, StoreTile, SumsTo};
use crate::driver::vnni2::{as_vnni2, store_vnni2};
use crate::kernel::amx::TileRegisters;
use crate::kernel::args::{MicroKernelArgs, MicroKernels};
use crate::kernel::select::vnni2_kernels;
use crate::pack::interleave::{Interleaved, Vnni2Layout};
use crate::pack::operand::ImplicitOperand;
use crate::pack::pack_kernels::prefetch_rows;
use crate::pack::packing::MAX_UNPACKED_PANELS;
use crate::pack::prefetch::PrefetchQueue;
use crate::pack::prepacked::PrepackedB;
use crate::simd::x86::Avx512Vnni2;
use crate::types::accumulate::{Accumulate, Scale};
use crate::types::element::Scalar;
use crate::types::isa::Isa;
use crate::types::low_precision::Bf16;
use crate::types::params::Params;
use crate::types::params::{CACHE_LINE, KC};
use crate::types::partition::{Partition, chunks};
use crate::types::strided_rows::StridedRows;
use crate::types::view::{MatrixRef, View, stride_bytes};
use crate::types::vnni::Vnni2;
use crate::types::workspace::{Buffer, Workspace};
use std::ops::Range;

/// Steps of a piece of a micro-panel: 16 KiB.
const K_PIECE: usize = 128;

/// Rows that a micro-panel of `b` meets at a time: their accumulators are 8 KiB.
const ROWS: usize = 64;

/// The most columns that are packed at a time: the fewer they are, the more often `a` is read.
const COLS: usize = 512;

/// Steps that are packed at a time, so that cache lines of several micro-panels are read together.
const STEPS: usize = 32;

/// Blocks of the depth that are accumulated before the epilogue: with more, the block of `b` would have
/// too few columns.
pub(crate) const BLOCKS: usize = 2;

/// The operand `b`.
#[derive(Clone, Copy)]
pub(crate) enum AmxB<'a> {
    /// Interleaved while it is packed.
    Interleaved(&'a Interleaved<'a, Vnni2Layout>),
    /// Prepacked, from a column on that begins a micro-panel.
    Prepacked(&'a PrepackedB<Vnni2>, usize),
}

/// A product of VNNI2 in tile vectors.
pub(crate) struct AmxGemm<'a> {
    pub a: MatrixRef<'a, Bf16>,
    pub b: AmxB<'a>,
    pub cols: usize,
    /// Whether the product is that of the transposes, whose transpose is stored.
    pub transposed: bool,
}

impl AmxGemm<'_> {
    /// Computes the product. It may be stored through an epilogue if the depth has no more than
    /// [`BLOCKS`] blocks.
    ///
    /// # Safety
    /// The program must have the permission to use AMX. A buffer of sums must be readable and
    /// writable.
    pub(crate) unsafe fn run(&self, sums: SumsTo<'_, Bf16>, workspace: &mut Workspace) {
        let _registers = TileRegisters::take();
        let count = self.blocks().count;
        match sums {
            SumsTo::Buffer(view) => {
                for blocks in Partition::of(count, BLOCKS).all() {
                    let first = blocks.start == 0;
                    let start =
                        if first { Accumulate::Overwrite } else { Accumulate::Beta(Vnni2::ONE) };
                    let epilogue =
                        Epilogue::of(view.cast(), Vnni2::ONE, start, &kernels().packing.pack_b);
                    let store = |sums: &[Vnni2], width, origin, size| {
                        epilogue.store(sums, width, origin, size)
                    };
                    // SAFETY: the caller's.
                    unsafe { self.chunk(blocks, &store, None, workspace) };
                }
            }
            SumsTo::Epilogue(c, store) => {
                assert!(count <= BLOCKS, "the epilogue runs once");
                let c = if self.transposed { c.t() } else { c };
                // SAFETY: the caller's.
                unsafe { self.chunk(0..count, &store_vnni2(store), Some(c), workspace) };
            }
        }
    }

    /// The blocks of the depth, which are those of a prepacked operand.
    fn blocks(&self) -> Partition {
        Partition::of(self.a.shape()[1].div_ceil(2), KC)
    }

    /// Accumulates some blocks of the depth.
    ///
    /// # Safety
    /// The program must have the permission to use AMX.
    unsafe fn chunk(
        &self,
        blocks: Range<usize>,
        store: &StoreTile<'_, Vnni2>,
        c: Option<View<*mut Bf16>>,
        workspace: &mut Workspace,
    ) {
        // SAFETY: processors with AMX have AVX-512.
        let interleaved = unsafe { Interleaved::<Vnni2Layout>::new(self.a, false) };
        let a = AmxA { in_place: as_vnni2(self.a), interleaved };
        let depth_blocks = self.blocks();
        let depth = depth_blocks.get(blocks.start).start..depth_blocks.get(blocks.end - 1).end;
        let most = Params::get(Isa::Amx).amx_b_bytes / (depth.len() * size_of::<Vnni2>());
        let cols_per_block = most.min(COLS).next_multiple_of(kernels().packing.nr());
        let sums = workspace.c.as_mut_slice(2 * ROWS * kernels().packing.nr());
        let (sums, buffer) = sums.split_at_mut(ROWS * kernels().packing.nr());
        for cols in chunks(self.cols, cols_per_block) {
            let panels = AmxBlockB::of(self, cols.clone(), blocks.clone(), &mut workspace.b);
            for rows in chunks(self.a.shape()[0], ROWS) {
                let part = [rows.clone(), depth.clone()];
                let packed_a = AmxBlockA::of(&a, part, panels.panels.count, &mut workspace.a);
                for index in 0..panels.panels.count {
                    let (chunk, width) = panels.cols(index);
                    let sums = &mut sums[..rows.len() * width];
                    let origin = [rows.start, cols.start + chunk.start];
                    let size = [rows.len(), chunk.len()];
                    let prefetch = c.map_or(StridedRows::EMPTY, |c| tile_rows(c, origin, size));
                    // SAFETY: the caller's.
                    unsafe { panels.multiply(index, &packed_a, prefetch, sums) };
                    match self.transposed {
                        true => store_transposed(store, sums, width, origin, size, buffer),
                        false => store(sums, width, origin, size),
                    }
                }
            }
        }
    }
}

/// The rows of a tile of the result whose elements are contiguous.
fn tile_rows(
    c: View<*mut Bf16>,
    origin: [usize; 2],
    [rows, cols]: [usize; 2],
) -> StridedRows<*const Bf16> {
    let first = c.ptr_at(origin).cast_const();
    match c.strides {
        [stride, 1] => StridedRows { first, stride, count: rows, len: cols },
        [1, stride] => StridedRows { first, stride, count: cols, len: rows },
        _ => StridedRows::EMPTY,
    }
}

fn kernels() -> &'static MicroKernels<Vnni2> {
    vnni2_kernels(Isa::Amx)
}

/// Stores the transpose of a tile, by way of a buffer.
fn store_transposed(
    store: &StoreTile<'_, Vnni2>,
    sums: &[Vnni2],
    width: usize,
    [row, col]: [usize; 2],
    [rows, cols]: [usize; 2],
    buffer: &mut [Vnni2],
) {
    assert!(rows <= ROWS && rows * width <= sums.len() && cols <= width);
    assert!(cols * ROWS <= buffer.len());
    let from = StridedRows { first: sums.as_ptr(), stride: width as isize, count: rows, len: cols };
    let to =
        StridedRows { first: buffer.as_mut_ptr(), stride: ROWS as isize, count: cols, len: rows };
    let scale = Scale { alpha: Vnni2::ONE, beta: None };
    // SAFETY: both have their rows, and processors with AMX have AVX-512.
    unsafe { (kernels().packing.pack_b.store_tile_transposed)(from, to, scale) }
    store(buffer, ROWS, [col, row], [cols, rows]);
}

/// The operand `a`.
struct AmxA<'a> {
    /// VNNI2 in place, where the steps of a row are contiguous.
    in_place: Option<MatrixRef<'a, Vnni2>>,
    interleaved: Interleaved<'a, Vnni2Layout>,
}

/// Rows of `a`.
struct AmxBlockA {
    first: *const Vnni2,
    stride: isize,
    panels: Partition,
}

impl AmxBlockA {
    /// Rows that are not read in place are packed with a leading dimension of an odd number of cache
    /// lines, so that the rows of a micro-panel map to different sets of the first-level cache.
    fn of(
        a: &AmxA<'_>,
        [rows, depth]: [Range<usize>; 2],
        panels_of_b: usize,
        buffer: &mut Buffer,
    ) -> Self {
        let panels = Partition::of(rows.len(), kernels().packing.mr);
        let in_place = a.in_place.map(|a| a.part(rows.clone(), depth.clone()));
        if let Some(a) = in_place.filter(|a| panels_of_b <= MAX_UNPACKED_PANELS || is_aligned(a)) {
            return Self { first: a.first(), stride: a.strides()[0], panels };
        }
        let width = depth.len().next_multiple_of(kernels().packing.lanes) | kernels().packing.lanes;
        let to = buffer.as_mut_slice(rows.len() * width);
        a.interleaved.pack(rows, depth, to, width);
        Self { first: to.as_ptr(), stride: width as isize, panels }
    }
}

/// Whether every row of a tile register is one cache line.
fn is_aligned(a: &MatrixRef<'_, Vnni2>) -> bool {
    let row_bytes = stride_bytes::<Vnni2>(a.strides()[0]);
    a.first().addr().is_multiple_of(CACHE_LINE) && row_bytes.is_multiple_of(CACHE_LINE)
}

/// The micro-panels of some columns, for some blocks of the depth.
struct AmxBlockB<'a> {
    b: AmxB<'a>,
    blocks: Range<usize>,
    depth_blocks: Partition,
    cols: Range<usize>,
    /// The vectors of every micro-panel.
    panels: Partition,
    /// Those that are packed here, block by block.
    packed: &'a [Vnni2],
}

impl<'a> AmxBlockB<'a> {
    fn of(
        gemm: &AmxGemm<'a>,
        cols: Range<usize>,
        blocks: Range<usize>,
        buffer: &'a mut Buffer,
    ) -> Self {
        let vectors = cols.len().div_ceil(kernels().packing.lanes);
        let panels = Partition::whole(vectors, kernels().packing.nr_vectors);
        let (b, depth_blocks) = (gemm.b, gemm.blocks());
        let mut this = Self { b, blocks, depth_blocks, cols, panels, packed: &[] };
        if let AmxB::Interleaved(interleaved) = b {
            let depth = this.steps(this.blocks.end - 1).end - this.start();
            let buffer = buffer.as_mut_slice(depth * vectors * kernels().packing.lanes);
            this.pack(interleaved, buffer);
            this.packed = buffer;
        }
        this
    }

    fn pack(&self, interleaved: &Interleaved<'_, Vnni2Layout>, buffer: &mut [Vnni2]) {
        for block in self.blocks.clone() {
            let block = self.steps(block);
            for chunk in chunks(block.len(), STEPS) {
                for index in 0..self.panels.count {
                    let (cols, width) = self.cols(index);
                    let to = self.offset(&block, index) + chunk.start * width;
                    let rows = block.start + chunk.start..block.start + chunk.end;
                    let cols = self.cols.start + cols.start..self.cols.start + cols.end;
                    let next = rows.end..(rows.end + STEPS).min(block.end);
                    if !next.is_empty() {
                        prefetch_columns(interleaved.part(next, cols.clone()));
                    }
                    interleaved.pack(rows, cols, &mut buffer[to..][..chunk.len() * width], width);
                }
            }
        }
    }

    /// The steps of a block.
    fn steps(&self, block: usize) -> Range<usize> {
        self.depth_blocks.get(block)
    }

    /// The first step.
    fn start(&self) -> usize {
        self.steps(self.blocks.start).start
    }

    /// The columns of a micro-panel, and the length of its rows.
    fn cols(&self, index: usize) -> (Range<usize>, usize) {
        let (lanes, vectors) = (kernels().packing.lanes, self.panels.get(index));
        let end = (vectors.end * lanes).min(self.cols.len());
        (vectors.start * lanes..end, vectors.len() * lanes)
    }

    /// The offset of a micro-panel that is packed here.
    fn offset(&self, block: &Range<usize>, index: usize) -> usize {
        let lanes = kernels().packing.lanes;
        let width = self.cols.len().next_multiple_of(lanes);
        let before = self.panels.get(index).start * lanes;
        (block.start - self.start()) * width + before * block.len()
    }

    /// A micro-panel of a block.
    fn panel(&self, block: &Range<usize>, index: usize) -> *const Vnni2 {
        match self.b {
            AmxB::Prepacked(packed, start) => {
                packed.panel(block, start + self.cols.start + self.cols(index).0.start)
            }
            AmxB::Interleaved(_) => self.packed[self.offset(block, index)..].as_ptr(),
        }
    }

    /// The product of a micro-panel of `b` and all of `a`, in rows as long as the micro-panel's.
    ///
    /// # Safety
    /// The program must have the permission to use AMX, and `a` must have steps for all blocks.
    unsafe fn multiply(
        &self,
        index: usize,
        packed_a: &AmxBlockA,
        prefetch: StridedRows<*const Bf16>,
        sums: &mut [Vnni2],
    ) {
        let (_, width) = self.cols(index);
        assert!(sums.len() == packed_a.panels.length * width);
        let kernels = kernels().row_major[width / kernels().packing.lanes - 1];
        let mut start = Accumulate::Overwrite;
        let segments = self.blocks.clone().map(|block| self.steps(block).len().div_ceil(K_PIECE));
        let mut prefetch =
            PrefetchQueue::of(prefetch, segments.sum::<usize>() * packed_a.panels.count);
        for block in self.blocks.clone() {
            let block = self.steps(block);
            let panel = self.panel(&block, index);
            for piece in chunks(block.len(), K_PIECE) {
                let step = (block.start - self.start() + piece.start) as isize;
                for panel_a in packed_a.panels.all() {
                    let row = panel_a.start as isize * packed_a.stride;
                    let args = MicroKernelArgs {
                        depth: piece.len(),
                        segments: 1,
                        segment_stride: 0,
                        a: packed_a.first.wrapping_offset(row + step),
                        lda: packed_a.stride,
                        b: panel.wrapping_add(piece.start * width),
                        ldb: width as isize,
                        b_packed: std::ptr::null_mut(),
                        prefetch: StridedRows::EMPTY,
                        c: sums[panel_a.start * width..].as_mut_ptr(),
                        ldc: width as isize,
                        accumulate: start,
                    };
                    // The result is rarely in a cache.
                    prefetch_rows::<Avx512Vnni2, _>(prefetch.part());
                    // SAFETY: micro-panels and accumulators are whole; the caller's.
                    unsafe { kernels[panel_a.len() - 1](&args) };
                }
                start = Accumulate::Beta(Vnni2::ONE);
            }
        }
    }
}

/// Prefetches what is packed next, since weights are rarely in a cache. Where rows are contiguous the
/// hardware prefetcher does it.
fn prefetch_columns(next: MatrixRef<'_, Bf16>) {
    let ([rows, cols], [row, col]) = (next.shape(), next.strides());
    if row == 1 {
        let rows = StridedRows { first: next.first(), stride: col, count: cols, len: rows };
        prefetch_rows::<Avx512Vnni2, _>(rows);
    }
}
