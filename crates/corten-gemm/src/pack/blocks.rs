//! Blocks of both factors in the order in which tiles read them. A factor is copied only where
//! reading it as it lies would cost more.

use crate::kernel::micro_kernel::{MicroKernelArgs, MicroKernels, Number};
use crate::pack::pack_kernels::PackKernels;
use crate::pack::prepacked::PrepackedB;
use crate::types::accumulate::Accumulate;
use crate::types::element::Scalar;
use crate::types::isa::Isa;
use crate::types::params::{L1_ALIAS_STRIDE, MR, TLB_REACH};
use crate::types::partition::Partition;
use crate::types::strided_rows::StridedRows;
use crate::types::view::{MatrixRef, stride_bytes};
use crate::types::workspace::Buffer;
use std::ops::Range;

/// Copies of panels that take no more bytes than this stay in the second-level cache of a processor with
/// AVX-512, or come from the next one soon enough.
const L2_BYTES: usize = 1 << 20;

/// A strip that up to so many panels use is read as it lies.
pub(crate) const MAX_UNPACKED_PANELS: usize = 2;

/// [`MAX_UNPACKED_PANELS`] of rows at a multiple of [`L1_ALIAS_STRIDE`] on processors with 64-byte registers: the lines of
/// as many rows as a tile has find room in most of their first-level caches, where no copy is worth while
/// for a few panels.
const MAX_UNPACKED_PANELS_WIDE: usize = 8;

/// Whether a product with so many columns copies rows of its first factor that lie at a multiple of
/// [`L1_ALIAS_STRIDE`].
#[must_use]
pub fn packs_aliasing_rows<E: Number>(isa: Isa, cols: usize) -> bool {
    let kernels = E::micro_kernels(isa);
    cols.div_ceil(kernels.cols()) > max_unpacked_panels(kernels)
}

/// Up to so many panels use rows at a multiple of [`L1_ALIAS_STRIDE`] as they lie.
fn max_unpacked_panels<E>(kernels: &MicroKernels<E>) -> usize {
    if kernels.is_wide() { MAX_UNPACKED_PANELS_WIDE } else { MAX_UNPACKED_PANELS }
}

/// Whether rows whose steps lie side by side are copied for so many panels.
pub(crate) fn packs_aliasing_a<E: Copy>(
    kernels: &MicroKernels<E>,
    a: &MatrixRef<'_, E>,
    panels: usize,
) -> bool {
    panels > max_unpacked_panels(kernels)
        && stride_bytes::<E>(a.strides()[0]).is_multiple_of(L1_ALIAS_STRIDE)
}

/// Elements that [`ImplicitOperand::fill`] may write behind its last line.
pub const PACK_PADDING: usize = 16;

/// A factor that is made as it is needed, a few columns at a time.
pub trait ImplicitOperand<E> {
    /// Writes the element of row `rows.start + i` and column `cols.start + j` to place `j` of line
    /// `i`, for both ranges. Lines are `width` apart; what is left of them may hold anything, and
    /// so may [`PACK_PADDING`] elements behind the last one.
    fn pack(&self, rows: Range<usize>, cols: Range<usize>, to: &mut [E], width: usize);
}

/// A factor of a product.
#[derive(Clone, Copy)]
pub enum Operand<'a, E: 'static> {
    /// One that lies in memory.
    Matrix(MatrixRef<'a, E>),
    /// One that is made as it is needed. The lines of a first factor are its rows, and the steps of
    /// the depth lie side by side; those of a second factor are the steps, and its columns do.
    Implicit(&'a dyn ImplicitOperand<E>),
    /// A second factor whose panels were made before, from a column on that begins a panel.
    Prepacked(&'a PrepackedB<E>, usize),
    /// A first factor in pieces.
    Segments(Segments<'a, E>),
}

/// A first factor whose rows consist of as many pieces, one after the other at the same distance.
/// The steps of a piece lie side by side.
#[derive(Clone, Copy)]
pub struct Segments<'a, E> {
    first: MatrixRef<'a, E>,
    count: usize,
    distance: isize,
}

impl<'a, E: Copy> Segments<'a, E> {
    /// So many pieces, given the first one of every row, and how far the next one lies from it.
    ///
    /// # Safety
    /// All pieces must be readable, and unchanged, for `'a`.
    ///
    /// # Panics
    /// When the steps of a piece do not lie side by side.
    pub unsafe fn new(first: MatrixRef<'a, E>, count: usize, distance: isize) -> Self {
        assert!(first.strides()[1] == 1, "the chunks lie side by side");
        Self { first, count, distance }
    }
}

impl<E: Copy> Operand<'_, E> {
    /// Whether it may have this shape.
    pub(crate) fn fits(&self, [rows, cols]: [usize; 2]) -> bool {
        match self {
            Self::Matrix(matrix) => matrix.shape() == [rows, cols],
            Self::Implicit(_) => true,
            Self::Prepacked(packed, start) => packed.has(rows, *start..start + cols),
            Self::Segments(segments) => {
                let [strided, chunks] = segments.first.shape();
                strided == rows && chunks * segments.count == cols
            }
        }
    }
}

/// A block of the second factor, one panel as wide as a tile after the other.
pub(crate) struct PackedB<'a, E: 'static> {
    b: Operand<'a, E>,
    depth: Range<usize>,
    /// The steps of the block that follows, if its panels are the next ones.
    next_depth: Option<Range<usize>>,
    cols: Range<usize>,
    kernels: &'static MicroKernels<E>,
    groups: Partition,
    unpacked: bool,
    /// Whether every copied panel has a place of its own, for more than one use.
    reused: bool,
    buffer: &'a mut [E],
}

/// A panel as a tile reads it.
pub(crate) struct PanelB<E> {
    pub first: *const E,
    pub stride: isize,
    /// Which columns of the factor it holds.
    pub cols: Range<usize>,
    /// How many registers they fill.
    pub registers: usize,
    /// Where the first tile copies it to.
    pub copy: Option<*mut E>,
}

impl<E> PanelB<E> {
    /// The panel once it has been copied.
    fn set_packed(&mut self, width: usize) {
        if let Some(copy) = self.copy.take() {
            (self.first, self.stride) = (copy, width as isize);
        }
    }
}

impl<'a, E: Scalar> PackedB<'a, E> {
    pub(crate) fn of(
        b: Operand<'a, E>,
        [depth, cols]: [Range<usize>; 2],
        rows: usize,
        reused: bool,
        kernels: &'static MicroKernels<E>,
        buffer: &'a mut Buffer,
    ) -> Self {
        let unpacked = match b {
            Operand::Matrix(b) => b.strides()[1] == 1 && !packing_pays(&b, depth.len(), rows),
            Operand::Implicit(_) | Operand::Segments(_) => false,
            Operand::Prepacked(..) => true,
        };
        let width =
            if reused { cols.len().next_multiple_of(kernels.lanes) } else { kernels.cols() };
        let packed =
            if let Operand::Prepacked(..) = b { 0 } else { width * depth.len() + PACK_PADDING };
        let buffer = buffer.as_mut_slice::<E>(packed);
        let groups = match b {
            Operand::Prepacked(..) => {
                Partition::whole(cols.len().div_ceil(kernels.lanes), kernels.registers())
            }
            _ => Partition::of(cols.len().div_ceil(kernels.lanes), kernels.registers()),
        };
        Self { b, depth, next_depth: None, cols, kernels, groups, unpacked, reused, buffer }
    }

    /// With steps whose panels are used after these.
    pub(crate) fn next_depth(self, next_depth: Option<Range<usize>>) -> Self {
        Self { next_depth, ..self }
    }

    pub(crate) fn count(&self) -> usize {
        self.groups.count
    }

    /// Which columns a panel holds, and which of the registers that they all fill.
    fn cols(&self, index: usize) -> (Range<usize>, Range<usize>) {
        let (lanes, registers) = (self.kernels.lanes, self.groups.get(index));
        let end = (registers.end * lanes).min(self.cols.len());
        (self.cols.start + registers.start * lanes..self.cols.start + end, registers)
    }

    /// Where the copy of a panel begins, given its registers.
    fn offset(&self, registers: &Range<usize>) -> usize {
        if self.reused { registers.start * self.kernels.lanes * self.depth.len() } else { 0 }
    }

    /// What the next panel is copied from, or its copy, to be brought near in so many parts while this
    /// one is used.
    pub(crate) fn prefetch_next(
        &self,
        next: usize,
        first_time: bool,
        parts: usize,
    ) -> PrefetchQueue<E> {
        let strided = match self.next_depth.clone() {
            _ if next < self.count() => self.strided(next, first_time),
            Some(depth) if !self.unpacked => self.matrix_rows(depth, self.cols(0).0),
            _ => None,
        };
        PrefetchQueue::of(strided.unwrap_or(StridedRows::EMPTY), parts)
    }

    /// What a panel is copied from, or its copy where that may be far.
    fn strided(&self, index: usize, first_time: bool) -> Option<StridedRows<*const E>> {
        let (cols, registers) = self.cols(index);
        let chunks = self.depth.len();
        if self.unpacked {
            return None;
        }
        if self.reused && !first_time {
            if size_of_val(&*self.buffer) <= L2_BYTES {
                return None;
            }
            let first = self.buffer[self.offset(&registers)..].as_ptr();
            let stride = (registers.len() * self.kernels.lanes) as isize;
            return Some(StridedRows { first, stride, count: chunks, len: 0 });
        }
        self.matrix_rows(self.depth.clone(), cols)
    }

    /// Part of the factor, if its columns lie side by side.
    fn matrix_rows(
        &self,
        depth: Range<usize>,
        cols: Range<usize>,
    ) -> Option<StridedRows<*const E>> {
        match self.b {
            Operand::Matrix(b) if b.strides()[1] == 1 => {
                let (count, b) = (depth.len(), b.part(depth, cols));
                Some(StridedRows { first: b.first(), stride: b.strides()[0], count, len: 0 })
            }
            _ => None,
        }
    }

    /// A panel, which is copied if this is the first time, or if no copies are kept. One that is
    /// not whole is copied always, since a tile reads all of its columns.
    pub(crate) fn get(&mut self, index: usize, first_time: bool, row_major: bool) -> PanelB<E> {
        let lanes = self.kernels.lanes;
        let (cols, range) = self.cols(index);
        let (registers, width) = (range.len(), range.len() * lanes);
        if let Operand::Prepacked(packed, start) = self.b {
            let first = packed.panel(&self.depth, start + cols.start);
            return PanelB { first, stride: width as isize, cols, registers, copy: None };
        }
        let offset = self.offset(&range);
        let to = &mut self.buffer[offset..][..width * self.depth.len() + PACK_PADDING];
        let copy = first_time || !self.reused;
        let mut panel =
            PanelB { first: to.as_ptr(), stride: width as isize, cols, registers, copy: None };
        match self.b {
            Operand::Matrix(b) => {
                let b = b.part(self.depth.clone(), panel.cols.clone());
                let whole = panel.cols.len() == width && b.strides()[1] == 1;
                let fused = row_major && registers == self.kernels.row_major.len();
                if whole && (self.unpacked || copy && fused) {
                    (panel.first, panel.stride) = (b.first(), b.strides()[0]);
                    panel.copy = (!self.unpacked).then_some(to.as_mut_ptr());
                } else if copy {
                    pack_panel(&self.kernels.pack, to, b, width);
                }
            }
            Operand::Implicit(columns) if copy => {
                columns.pack(self.depth.clone(), panel.cols.clone(), to, width);
            }
            Operand::Implicit(_) | Operand::Prepacked(..) => {}
            Operand::Segments(_) => unreachable!("a second factor has panels, not segments"),
        }
        panel
    }
}

/// Whether a second factor with columns side by side is copied for so many rows.
pub(crate) fn packing_pays<E: Scalar>(b: &MatrixRef<'_, E>, depth: usize, rows: usize) -> bool {
    let batch_stride = stride_bytes::<E>(b.strides()[0]);
    let far = batch_stride.is_multiple_of(L1_ALIAS_STRIDE)
        || batch_stride.saturating_mul(depth) > TLB_REACH;
    rows > if far { 2 * MR } else { 8 * MR }
}

/// Copies a matrix to lines `width` apart.
pub(crate) fn pack_panel<E: Scalar>(
    pack: &PackKernels<E>,
    to: &mut [E],
    from: MatrixRef<'_, E>,
    width: usize,
) {
    let ([rows, cols], [row, col]) = (from.shape(), from.strides());
    assert!(cols <= width && width.is_multiple_of(pack.lanes) && rows * width <= to.len());
    let strided = |stride, count, len| StridedRows { first: from.first(), stride, count, len };
    if col == 1 {
        // SAFETY: the matrix is readable, `to` holds all lines, and the moves are of the level in
        // use.
        unsafe { (pack.copy)(strided(row, rows, cols), to.as_mut_ptr(), width) }
    } else if row == 1 {
        // SAFETY: as above.
        unsafe { (pack.transpose)(strided(col, cols, rows), to.as_mut_ptr(), width) }
    } else {
        for (i, line) in to.chunks_exact_mut(width).enumerate().take(rows) {
            line.fill(E::ZERO);
            (0..cols).for_each(|j| line[j] = from.at([i, j]));
        }
    }
}

/// Copies groups of rows to places one after the other, the rows of a step side by side and steps `width`
/// apart.
fn pack_panels_a<E: Scalar>(
    pack: &PackKernels<E>,
    to: &mut [E],
    from: MatrixRef<'_, E>,
    groups: Partition,
    width: usize,
) {
    let ([rows, depth], [row, step]) = (from.shape(), from.strides());
    let offset = width * depth;
    assert!(groups.length == rows && groups.get(0).len() <= width, "groups of the rows");
    assert!(width.is_multiple_of(pack.lanes) && to.len() == groups.count * offset);
    if row == 1 {
        let strided = StridedRows { first: from.first(), stride: step, count: depth, len: rows };
        // SAFETY: the matrix is readable, `to` holds all lines of every group, and the moves are of
        // the level in use.
        return unsafe { (pack.pack_panels)(strided, groups, to.as_mut_ptr(), width) };
    }
    for (to, rows) in to.chunks_exact_mut(offset).zip(groups.all()) {
        pack_panel(pack, to, from.rows(rows).t(), width);
    }
}

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

/// Where the sums of a tile go.
pub(crate) struct TileOutput<E> {
    pub c: *mut E,
    pub ldc: isize,
    pub accumulate: Accumulate<E>,
    /// What is to be brought near meanwhile.
    pub prefetch: StridedRows<*const E>,
}

/// A block of the first factor, one strip as high as a tile after the other.
pub(crate) struct PackedA<'a, E: 'static> {
    /// Where it lies, if it is not copied.
    first: *const E,
    strides: [isize; 2],
    depth: usize,
    /// How many pieces the depth consists of, how many steps a piece has, and how far it lies from the
    /// next.
    segments: (usize, usize, isize),
    kernels: &'static MicroKernels<E>,
    groups: Partition,
    order: PanelLayout,
    packed: &'a [E],
}

/// Some rows of a block, as many as a tile has.
pub(crate) struct PanelA {
    index: usize,
    pub rows: Range<usize>,
}

/// What lies side by side in a strip.
enum PanelLayout {
    /// The steps of a row; the rows are so far apart.
    RowMajor(isize),
    /// The rows of a step; the steps are so far apart.
    ColMajor(isize),
    /// As [`Self::RowMajor`], copied.
    PackedRowMajor(usize),
    /// As [`Self::ColMajor`], copied.
    PackedColMajor(usize),
}

impl<'a, E: Scalar> PackedA<'a, E> {
    pub(crate) fn of(
        a: Operand<'a, E>,
        [rows, depth]: [Range<usize>; 2],
        panels: usize,
        kernels: &'static MicroKernels<E>,
        buffer: &'a mut Buffer,
    ) -> Self {
        match a {
            Operand::Matrix(a) => Self::of_matrix(a.part(rows, depth), panels, kernels, buffer),
            Operand::Prepacked(..) => unreachable!("a first factor has packed_a, not panels"),
            Operand::Segments(Segments { first, count, distance }) => {
                assert!(depth == (0..count * first.shape()[1]), "a block has all segments");
                let first = first.rows(rows);
                Self {
                    first: first.first(),
                    strides: first.strides(),
                    depth: depth.len(),
                    segments: (count, first.shape()[1], distance),
                    kernels,
                    groups: Partition::of(first.shape()[0], kernels.rows()),
                    order: PanelLayout::RowMajor(first.strides()[0]),
                    packed: &[],
                }
            }
            Operand::Implicit(made) => {
                let width = depth.len().next_multiple_of(kernels.lanes);
                let buffer = buffer.as_mut_slice::<E>(rows.len() * width + PACK_PADDING);
                made.pack(rows.clone(), depth.clone(), buffer, width);
                Self {
                    first: std::ptr::null(),
                    strides: [0, 0],
                    depth: depth.len(),
                    segments: (1, depth.len(), 0),
                    kernels,
                    groups: Partition::of(rows.len(), kernels.rows()),
                    order: PanelLayout::PackedRowMajor(width),
                    packed: buffer,
                }
            }
        }
    }

    /// Steps that lie side by side are read as they lie, if not too far apart, and so is what is
    /// seldom read.
    fn of_matrix(
        a: MatrixRef<'a, E>,
        panels: usize,
        kernels: &'static MicroKernels<E>,
        buffer: &'a mut Buffer,
    ) -> Self {
        let (strides, [rows, depth]) = (a.strides(), a.shape());
        let groups = Partition::of(rows, kernels.rows());
        let rarely_reused = panels <= MAX_UNPACKED_PANELS;
        let order = match strides {
            [row, 1] if !packs_aliasing_a(kernels, &a, panels) => PanelLayout::RowMajor(row),
            [_, 1] => PanelLayout::PackedRowMajor(depth.next_multiple_of(kernels.lanes)),
            [1, step] if rarely_reused => PanelLayout::ColMajor(step),
            _ => PanelLayout::PackedColMajor(kernels.rows().next_multiple_of(kernels.pack_a.lanes)),
        };
        let packed: &[E] = match order {
            PanelLayout::RowMajor(_) | PanelLayout::ColMajor(_) => &[],
            PanelLayout::PackedRowMajor(width) => {
                let buffer = buffer.as_mut_slice::<E>(rows * width);
                pack_panel(&kernels.pack, buffer, a, width);
                buffer
            }
            PanelLayout::PackedColMajor(width) => {
                let buffer = buffer.as_mut_slice::<E>(groups.count * width * depth);
                pack_panels_a(&kernels.pack_a, buffer, a, groups, width);
                buffer
            }
        };
        Self {
            first: a.first(),
            strides,
            depth,
            segments: (1, depth, 0),
            kernels,
            groups,
            order,
            packed,
        }
    }

    /// How many strips there are.
    pub(crate) fn count(&self) -> usize {
        self.groups.count
    }

    /// The rows of all strips.
    pub(crate) fn height(&self) -> usize {
        self.groups.length
    }

    /// A strip.
    #[inline]
    pub(crate) fn get(&self, index: usize) -> PanelA {
        PanelA { index, rows: self.groups.get(index) }
    }

    /// Whether the steps of a row lie side by side.
    pub(crate) fn row_major(&self) -> bool {
        matches!(self.order, PanelLayout::RowMajor(_) | PanelLayout::PackedRowMajor(_))
    }

    /// The sums of a strip and a panel, which is copied after that.
    ///
    /// # Safety
    /// The result must be writable, and what is added to readable, for the rows and all columns of the
    /// panel's registers.
    #[inline]
    pub(crate) unsafe fn run_micro_kernel(
        &self,
        panel_a: &PanelA,
        panel: &mut PanelB<E>,
        sums: TileOutput<E>,
    ) {
        let (a, lda) = self.offset(panel_a);
        let (segments, depth, segment_stride) = self.segments;
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
            if self.row_major() { self.kernels.row_major } else { self.kernels.col_major };
        let kernels = match panel.copy {
            Some(_) => self.kernels.packing,
            None => kernels[panel.registers - 1],
        };
        // SAFETY: strips and panels are whole, the caller owes the result, and the tile is of the
        // level in use.
        unsafe { kernels[panel_a.rows.len() - 1](&args) };
        panel.set_packed(panel.registers * self.kernels.lanes);
    }

    /// The first element of a strip, and the distance of its rows or of its steps.
    #[inline]
    fn offset(&self, PanelA { index, rows }: &PanelA) -> (*const E, isize) {
        match self.order {
            PanelLayout::RowMajor(stride) | PanelLayout::ColMajor(stride) => {
                (self.first.wrapping_offset(rows.start as isize * self.strides[0]), stride)
            }
            PanelLayout::PackedRowMajor(width) => {
                (self.packed[rows.start * width..].as_ptr(), width as isize)
            }
            PanelLayout::PackedColMajor(width) => {
                (self.packed[index * width * self.depth..].as_ptr(), width as isize)
            }
        }
    }
}
