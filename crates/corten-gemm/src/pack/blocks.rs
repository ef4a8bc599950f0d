//! Blocks of both factors in the order in which tiles read them. A factor is copied only where
//! reading it as it lies would cost more.

use crate::driver::epilogue::Start;
use crate::kernel::micro_kernel::{
    Instructions, MR, MicroKernelArgs, MicroKernels, Number, Sealed,
};
use crate::pack::pack_kernels::{Lines, Moves};
use crate::pack::prepacked::Packed;
use crate::types::view::{Source, bytes_apart};
use crate::types::workspace::Room;
use std::ops::Range;

/// Lines at multiples of this many bytes share their places in the first-level cache: where many tiles
/// read them, a product copies them first.
pub const CONFLICT: usize = 4096;

/// A block that reaches over more bytes than this lies on more pages than a processor remembers.
pub(crate) const FAR: usize = 256 << 10;

/// Copies of panels that take no more bytes than this stay in the second-level cache of a processor with
/// AVX-512, or come from the next one soon enough.
const NEAR: usize = 1 << 20;

/// A strip that up to so many panels use is read as it lies.
pub(crate) const FEW_PANELS: usize = 2;

/// [`FEW_PANELS`] of rows at a multiple of [`CONFLICT`] on processors with 64-byte registers: the lines of
/// as many rows as a tile has find room in most of their first-level caches, where no copy is worth while
/// for a few panels.
const FEW_WIDE_PANELS: usize = 8;

/// Whether a product with so many columns copies rows of its first factor that lie at a multiple of
/// [`CONFLICT`].
#[must_use]
pub fn copies_rows_in_conflict<E: Number>(instructions: Instructions, cols: usize) -> bool {
    let kernels = E::micro_kernels(instructions);
    cols.div_ceil(kernels.cols()) > panels_in_conflict(kernels)
}

/// Up to so many panels use rows at a multiple of [`CONFLICT`] as they lie.
fn panels_in_conflict<E>(kernels: &MicroKernels<E>) -> usize {
    if kernels.is_wide() { FEW_WIDE_PANELS } else { FEW_PANELS }
}

/// Whether rows whose steps lie side by side are copied for so many panels.
pub(crate) fn copies_rows<E: Copy>(
    kernels: &MicroKernels<E>,
    a: &Source<'_, E>,
    panels: usize,
) -> bool {
    panels > panels_in_conflict(kernels)
        && bytes_apart::<E>(a.strides()[0]).is_multiple_of(CONFLICT)
}

/// Elements that [`Columns::fill`] may write behind its last line.
pub const SLACK: usize = 16;

/// A factor that is made as it is needed, a few columns at a time.
pub trait Columns<E> {
    /// Writes the element of row `rows.start + i` and column `cols.start + j` to place `j` of line
    /// `i`, for both ranges. Lines are `width` apart; what is left of them may hold anything, and
    /// so may [`SLACK`] elements behind the last one.
    fn fill(&self, rows: Range<usize>, cols: Range<usize>, to: &mut [E], width: usize);
}

/// A factor of a product.
#[derive(Clone, Copy)]
pub enum Factor<'a, E: 'static> {
    /// One that lies in memory.
    Matrix(Source<'a, E>),
    /// One that is made as it is needed. The lines of a first factor are its rows, and the steps of
    /// the depth lie side by side; those of a second factor are the steps, and its columns do.
    Made(&'a dyn Columns<E>),
    /// A second factor whose panels were made before, from a column on that begins a panel.
    Packed(&'a Packed<E>, usize),
    /// A first factor in pieces.
    Pieces(Pieces<'a, E>),
}

/// A first factor whose rows consist of as many pieces, one after the other at the same distance.
/// The steps of a piece lie side by side.
#[derive(Clone, Copy)]
pub struct Pieces<'a, E> {
    first: Source<'a, E>,
    count: usize,
    distance: isize,
}

impl<'a, E: Copy> Pieces<'a, E> {
    /// So many pieces, given the first one of every row, and how far the next one lies from it.
    ///
    /// # Safety
    /// All pieces must be readable, and unchanged, for `'a`.
    ///
    /// # Panics
    /// When the steps of a piece do not lie side by side.
    pub unsafe fn new(first: Source<'a, E>, count: usize, distance: isize) -> Self {
        assert!(first.strides()[1] == 1, "the steps lie side by side");
        Self { first, count, distance }
    }
}

impl<E: Copy> Factor<'_, E> {
    /// Whether it may have this shape.
    pub(crate) fn fits(&self, [rows, cols]: [usize; 2]) -> bool {
        match self {
            Self::Matrix(matrix) => matrix.shape() == [rows, cols],
            Self::Made(_) => true,
            Self::Packed(packed, start) => packed.has(rows, *start..start + cols),
            Self::Pieces(segments) => {
                let [lines, steps] = segments.first.shape();
                lines == rows && steps * segments.count == cols
            }
        }
    }
}

/// A block of the second factor, one panel as wide as a tile after the other.
pub(crate) struct Panels<'a, E: 'static> {
    right: Factor<'a, E>,
    depth: Range<usize>,
    /// The steps of the block that follows, if its panels are the next ones.
    then: Option<Range<usize>>,
    cols: Range<usize>,
    kernels: &'static MicroKernels<E>,
    groups: Groups,
    in_place: bool,
    /// Whether every copied panel has a place of its own, for more than one use.
    kept: bool,
    room: &'a mut [E],
}

/// A panel as a tile reads it.
pub(crate) struct Panel<E> {
    pub first: *const E,
    pub stride: isize,
    /// Which columns of the factor it holds.
    pub cols: Range<usize>,
    /// How many registers they fill.
    pub registers: usize,
    /// Where the first tile copies it to.
    pub copy: Option<*mut E>,
}

impl<E> Panel<E> {
    /// The panel once it has been copied.
    fn copied(&mut self, width: usize) {
        if let Some(copy) = self.copy.take() {
            (self.first, self.stride) = (copy, width as isize);
        }
    }
}

impl<'a, E: Sealed> Panels<'a, E> {
    pub(crate) fn of(
        right: Factor<'a, E>,
        [depth, cols]: [Range<usize>; 2],
        rows: usize,
        kept: bool,
        kernels: &'static MicroKernels<E>,
        room: &'a mut Room,
    ) -> Self {
        let in_place = match right {
            Factor::Matrix(b) => b.strides()[1] == 1 && !is_used_often(&b, depth.len(), rows),
            Factor::Made(_) | Factor::Pieces(_) => false,
            Factor::Packed(..) => true,
        };
        let width = if kept { cols.len().next_multiple_of(kernels.lanes) } else { kernels.cols() };
        let copied = if let Factor::Packed(..) = right { 0 } else { width * depth.len() + SLACK };
        let room = room.elements::<E>(copied);
        let groups = match right {
            Factor::Packed(..) => {
                Groups::whole(cols.len().div_ceil(kernels.lanes), kernels.registers())
            }
            _ => Groups::of(cols.len().div_ceil(kernels.lanes), kernels.registers()),
        };
        Self { right, depth, then: None, cols, kernels, groups, in_place, kept, room }
    }

    /// With steps whose panels are used after these.
    pub(crate) fn then(self, then: Option<Range<usize>>) -> Self {
        Self { then, ..self }
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
    fn place(&self, registers: &Range<usize>) -> usize {
        if self.kept { registers.start * self.kernels.lanes * self.depth.len() } else { 0 }
    }

    /// What the next panel is copied from, or its copy, to be brought near in so many parts while this
    /// one is used.
    pub(crate) fn ahead(&self, next: usize, first_time: bool, parts: usize) -> Ahead<E> {
        let lines = match self.then.clone() {
            _ if next < self.count() => self.lines(next, first_time),
            Some(depth) if !self.in_place => self.lying(depth, self.cols(0).0),
            _ => None,
        };
        Ahead::of(lines.unwrap_or(Lines::NONE), parts)
    }

    /// What a panel is copied from, or its copy where that may be far.
    fn lines(&self, index: usize, first_time: bool) -> Option<Lines<*const E>> {
        let (cols, registers) = self.cols(index);
        let steps = self.depth.len();
        if self.in_place {
            return None;
        }
        if self.kept && !first_time {
            if size_of_val(&*self.room) <= NEAR {
                return None;
            }
            let first = self.room[self.place(&registers)..].as_ptr();
            let stride = (registers.len() * self.kernels.lanes) as isize;
            return Some(Lines { first, stride, count: steps, len: 0 });
        }
        self.lying(self.depth.clone(), cols)
    }

    /// Part of the factor, if its columns lie side by side.
    fn lying(&self, depth: Range<usize>, cols: Range<usize>) -> Option<Lines<*const E>> {
        match self.right {
            Factor::Matrix(b) if b.strides()[1] == 1 => {
                let (count, b) = (depth.len(), b.part(depth, cols));
                Some(Lines { first: b.first(), stride: b.strides()[0], count, len: 0 })
            }
            _ => None,
        }
    }

    /// A panel, which is copied if this is the first time, or if no copies are kept. One that is
    /// not whole is copied always, since a tile reads all of its columns.
    pub(crate) fn get(&mut self, index: usize, first_time: bool, row_major: bool) -> Panel<E> {
        let lanes = self.kernels.lanes;
        let (cols, range) = self.cols(index);
        let (registers, width) = (range.len(), range.len() * lanes);
        if let Factor::Packed(packed, start) = self.right {
            let first = packed.panel(&self.depth, start + cols.start);
            return Panel { first, stride: width as isize, cols, registers, copy: None };
        }
        let place = self.place(&range);
        let to = &mut self.room[place..][..width * self.depth.len() + SLACK];
        let copy = first_time || !self.kept;
        let mut panel =
            Panel { first: to.as_ptr(), stride: width as isize, cols, registers, copy: None };
        match self.right {
            Factor::Matrix(b) => {
                let b = b.part(self.depth.clone(), panel.cols.clone());
                let whole = panel.cols.len() == width && b.strides()[1] == 1;
                let fused = row_major && registers == self.kernels.row_major.len();
                if whole && (self.in_place || copy && fused) {
                    (panel.first, panel.stride) = (b.first(), b.strides()[0]);
                    panel.copy = (!self.in_place).then_some(to.as_mut_ptr());
                } else if copy {
                    copy_panel(&self.kernels.moves, to, b, width);
                }
            }
            Factor::Made(columns) if copy => {
                columns.fill(self.depth.clone(), panel.cols.clone(), to, width);
            }
            Factor::Made(_) | Factor::Packed(..) => {}
            Factor::Pieces(_) => unreachable!("a second factor has panels, not segments"),
        }
        panel
    }
}

/// Whether a second factor with columns side by side is copied for so many rows.
pub(crate) fn is_used_often<E: Sealed>(b: &Source<'_, E>, depth: usize, rows: usize) -> bool {
    let apart = bytes_apart::<E>(b.strides()[0]);
    let far = apart.is_multiple_of(CONFLICT) || apart.saturating_mul(depth) > FAR;
    rows > if far { 2 * MR } else { 8 * MR }
}

/// Copies a matrix to lines `width` apart.
pub(crate) fn copy_panel<E: Sealed>(
    moves: &Moves<E>,
    to: &mut [E],
    from: Source<'_, E>,
    width: usize,
) {
    let ([rows, cols], [row, col]) = (from.shape(), from.strides());
    assert!(cols <= width && width.is_multiple_of(moves.lanes) && rows * width <= to.len());
    let lines = |stride, count, len| Lines { first: from.first(), stride, count, len };
    if col == 1 {
        // SAFETY: the matrix is readable, `to` holds all lines, and the moves are of the level in
        // use.
        unsafe { (moves.copy)(lines(row, rows, cols), to.as_mut_ptr(), width) }
    } else if row == 1 {
        // SAFETY: as above.
        unsafe { (moves.turn)(lines(col, cols, rows), to.as_mut_ptr(), width) }
    } else {
        for (i, line) in to.chunks_exact_mut(width).enumerate().take(rows) {
            line.fill(E::ZERO);
            (0..cols).for_each(|j| line[j] = from.at([i, j]));
        }
    }
}

/// Copies groups of rows to places one after the other, the rows of a step side by side and steps `width`
/// apart.
fn copy_strips<E: Sealed>(
    moves: &Moves<E>,
    to: &mut [E],
    from: Source<'_, E>,
    groups: Groups,
    width: usize,
) {
    let ([rows, depth], [row, step]) = (from.shape(), from.strides());
    let place = width * depth;
    assert!(groups.length == rows && groups.get(0).len() <= width, "groups of the rows");
    assert!(width.is_multiple_of(moves.lanes) && to.len() == groups.count * place);
    if row == 1 {
        let lines = Lines { first: from.first(), stride: step, count: depth, len: rows };
        // SAFETY: the matrix is readable, `to` holds all lines of every group, and the moves are of
        // the level in use.
        return unsafe { (moves.strips)(lines, groups, to.as_mut_ptr(), width) };
    }
    for (to, rows) in to.chunks_exact_mut(place).zip(groups.all()) {
        copy_panel(moves, to, from.rows(rows).t(), width);
    }
}

/// Lines that are brought near before they are needed, some with every tile.
pub(crate) struct Ahead<E> {
    lines: Lines<*const E>,
    at_once: usize,
}

impl<E> Ahead<E> {
    /// All lines, in so many parts.
    pub(crate) fn of(lines: Lines<*const E>, parts: usize) -> Self {
        Self { lines, at_once: lines.count.div_ceil(parts) }
    }

    /// The next of them.
    #[inline]
    pub(crate) fn part(&mut self) -> Lines<*const E> {
        self.lines.take(self.at_once)
    }
}

/// Some things in groups.
#[derive(Clone, Copy)]
pub(crate) struct Groups {
    pub count: usize,
    /// The things in a group; in so many of the first groups there is one more.
    size: usize,
    longer: usize,
    pub length: usize,
}

impl Groups {
    /// Groups of at most `most`, as equal as can be.
    pub(crate) fn of(length: usize, most: usize) -> Self {
        if length <= most {
            return Self { count: length.min(1), size: length, longer: 0, length };
        }
        let count = length.div_ceil(most);
        Self { count, size: length / count, longer: length % count, length }
    }

    /// Groups of `size`; the last one has what is left.
    pub(crate) fn whole(length: usize, size: usize) -> Self {
        Self { count: length.div_ceil(size), size, longer: 0, length }
    }

    /// The things of a group.
    #[inline]
    pub(crate) fn get(self, index: usize) -> Range<usize> {
        let start = |i: usize| (i * self.size + i.min(self.longer)).min(self.length);
        start(index)..start(index + 1)
    }

    /// How many groups there are of each of the two sizes.
    pub(crate) fn widths(self) -> impl Iterator<Item = (usize, usize)> {
        [(self.longer, self.size + 1), (self.count - self.longer, self.size)].into_iter()
    }

    /// The things of all groups.
    pub(crate) fn all(self) -> impl Iterator<Item = Range<usize>> {
        (0..self.count).map(move |i| self.get(i))
    }
}

/// Where the sums of a tile go.
pub(crate) struct Sums<E> {
    pub c: *mut E,
    pub ldc: isize,
    pub start: Start<E>,
    /// What is to be brought near meanwhile.
    pub prefetch: Lines<*const E>,
}

/// A block of the first factor, one strip as high as a tile after the other.
pub(crate) struct Strips<'a, E: 'static> {
    /// Where it lies, if it is not copied.
    first: *const E,
    strides: [isize; 2],
    depth: usize,
    /// How many pieces the depth consists of, how many steps a piece has, and how far it lies from the
    /// next.
    segments: (usize, usize, isize),
    kernels: &'static MicroKernels<E>,
    groups: Groups,
    order: Order,
    copied: &'a [E],
}

/// Some rows of a block, as many as a tile has.
pub(crate) struct Strip {
    index: usize,
    pub rows: Range<usize>,
}

/// What lies side by side in a strip.
enum Order {
    /// The steps of a row; the rows are so far apart.
    Steps(isize),
    /// The rows of a step; the steps are so far apart.
    Rows(isize),
    /// As [`Self::Steps`], copied.
    CopiedSteps(usize),
    /// As [`Self::Rows`], copied.
    CopiedRows(usize),
}

impl<'a, E: Sealed> Strips<'a, E> {
    pub(crate) fn of(
        a: Factor<'a, E>,
        [rows, depth]: [Range<usize>; 2],
        panels: usize,
        kernels: &'static MicroKernels<E>,
        room: &'a mut Room,
    ) -> Self {
        match a {
            Factor::Matrix(a) => Self::of_matrix(a.part(rows, depth), panels, kernels, room),
            Factor::Packed(..) => unreachable!("a first factor has strips, not panels"),
            Factor::Pieces(Pieces { first, count, distance }) => {
                assert!(depth == (0..count * first.shape()[1]), "a block has all segments");
                let first = first.rows(rows);
                Self {
                    first: first.first(),
                    strides: first.strides(),
                    depth: depth.len(),
                    segments: (count, first.shape()[1], distance),
                    kernels,
                    groups: Groups::of(first.shape()[0], kernels.rows()),
                    order: Order::Steps(first.strides()[0]),
                    copied: &[],
                }
            }
            Factor::Made(made) => {
                let width = depth.len().next_multiple_of(kernels.lanes);
                let room = room.elements::<E>(rows.len() * width + SLACK);
                made.fill(rows.clone(), depth.clone(), room, width);
                Self {
                    first: std::ptr::null(),
                    strides: [0, 0],
                    depth: depth.len(),
                    segments: (1, depth.len(), 0),
                    kernels,
                    groups: Groups::of(rows.len(), kernels.rows()),
                    order: Order::CopiedSteps(width),
                    copied: room,
                }
            }
        }
    }

    /// Steps that lie side by side are read as they lie, if not too far apart, and so is what is
    /// seldom read.
    fn of_matrix(
        a: Source<'a, E>,
        panels: usize,
        kernels: &'static MicroKernels<E>,
        room: &'a mut Room,
    ) -> Self {
        let (strides, [rows, depth]) = (a.strides(), a.shape());
        let groups = Groups::of(rows, kernels.rows());
        let seldom = panels <= FEW_PANELS;
        let order = match strides {
            [row, 1] if !copies_rows(kernels, &a, panels) => Order::Steps(row),
            [_, 1] => Order::CopiedSteps(depth.next_multiple_of(kernels.lanes)),
            [1, step] if seldom => Order::Rows(step),
            _ => Order::CopiedRows(kernels.rows().next_multiple_of(kernels.strip_moves.lanes)),
        };
        let copied: &[E] = match order {
            Order::Steps(_) | Order::Rows(_) => &[],
            Order::CopiedSteps(width) => {
                let room = room.elements::<E>(rows * width);
                copy_panel(&kernels.moves, room, a, width);
                room
            }
            Order::CopiedRows(width) => {
                let room = room.elements::<E>(groups.count * width * depth);
                copy_strips(&kernels.strip_moves, room, a, groups, width);
                room
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
            copied,
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
    pub(crate) fn get(&self, index: usize) -> Strip {
        Strip { index, rows: self.groups.get(index) }
    }

    /// Whether the steps of a row lie side by side.
    pub(crate) fn row_major(&self) -> bool {
        matches!(self.order, Order::Steps(_) | Order::CopiedSteps(_))
    }

    /// The sums of a strip and a panel, which is copied after that.
    ///
    /// # Safety
    /// The result must be writable, and what is added to readable, for the rows and all columns of the
    /// panel's registers.
    #[inline]
    pub(crate) unsafe fn tile(&self, strip: &Strip, panel: &mut Panel<E>, sums: Sums<E>) {
        let (a, lda) = self.place(strip);
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
            start: sums.start,
        };
        let kernels =
            if self.row_major() { self.kernels.row_major } else { self.kernels.col_major };
        let kernels = match panel.copy {
            Some(_) => self.kernels.packing,
            None => kernels[panel.registers - 1],
        };
        // SAFETY: strips and panels are whole, the caller owes the result, and the tile is of the
        // level in use.
        unsafe { kernels[strip.rows.len() - 1](&args) };
        panel.copied(panel.registers * self.kernels.lanes);
    }

    /// The first element of a strip, and the distance of its rows or of its steps.
    #[inline]
    fn place(&self, Strip { index, rows }: &Strip) -> (*const E, isize) {
        match self.order {
            Order::Steps(stride) | Order::Rows(stride) => {
                (self.first.wrapping_offset(rows.start as isize * self.strides[0]), stride)
            }
            Order::CopiedSteps(width) => {
                (self.copied[rows.start * width..].as_ptr(), width as isize)
            }
            Order::CopiedRows(width) => {
                (self.copied[index * width * self.depth..].as_ptr(), width as isize)
            }
        }
    }
}
