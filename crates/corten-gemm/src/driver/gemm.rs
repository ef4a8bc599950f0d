//! Products of matrices, block by block.
//!
//! The outer loops cut the columns of the result, the depth, and the rows so that the blocks in use
//! stay in the caches; [`pack`](crate::pack::blocks) puts them in order and [`tile`](crate::kernel::micro_kernel) does the
//! rest.

use crate::driver::epilogue::{Apart, Output, Start};
use crate::driver::plan::{Algorithm, Plan};
use crate::driver::small_gemm::SmallGemm;
use crate::driver::unpacked::Lying;
use crate::kernel::micro_kernel::{Instructions, MicroKernels, Number, Sealed};
use crate::kernel::skinny::{GemvForm, Skinny, SmallMatrix};
use crate::pack::blocks::{
    L1_ALIAS_STRIDE, MAX_UNPACKED_PANELS, Operand, PackedA, PackedB, PanelB, Partition,
    PrefetchQueue, TLB_REACH, TileOutput,
};
use crate::pack::pack_kernels::PAGE_BYTES;
use crate::pack::prepacked::PrepackedB;
use crate::types::view::{Source, View, bytes_apart};
use crate::types::workspace::{Room, Scratch};
use std::ops::Range;

/// Most steps of the depth at a time: the more there are, the less often the result is read and
/// written. A panel of `b` of so many fills an eighth of a second-level cache of 1 MiB, from which it
/// comes as fast as it is used.
pub(crate) const DEPTH: usize = 512;

/// The blocks of a product.
struct Blocks {
    /// Bytes of a block of `a`, which is used with one panel of `b` after the other: it stays in the
    /// second-level cache, beside a panel.
    bytes_of_a: usize,
    /// Bytes of a block of `b` that more than one block of `a` uses: it stays in the last cache, and
    /// `a` is copied for fewer of them.
    bytes_of_b: usize,
    /// Blocks of `a` that all of the depth is done for before the next ones: the more there are, the
    /// less often `b` is copied, and the fewer, the nearer are the sums.
    together: usize,
}

impl Blocks {
    /// Those of processors with 64-byte registers, whose second-level caches have 1 MiB and more.
    const WIDE: Self = Self { bytes_of_a: MOST_BYTES_OF_A, bytes_of_b: 4 << 20, together: 8 };

    /// Those of others, which may have as little as 256 KiB.
    const NARROW: Self = Self { bytes_of_a: 128 << 10, bytes_of_b: 2 << 20, together: 24 };

    /// Those of the level that a set of tiles is of.
    fn of<E>(kernels: &MicroKernels<E>) -> &'static Self {
        if kernels.is_wide() { &Self::WIDE } else { &Self::NARROW }
    }

    /// How many rows of so many bytes are a block. All of them are one where that is not much: then
    /// every panel of `b` is used at once and only once, and needs no place of its own.
    fn rows(&self, rows: usize, bytes: usize) -> usize {
        let most = if rows * bytes <= MOST_BYTES_OF_A { MOST_BYTES_OF_A } else { self.bytes_of_a };
        most.div_ceil(bytes)
    }
}

/// Bytes of `a` that are one block on any processor.
const MOST_BYTES_OF_A: usize = 384 << 10;

/// Strips whose sums go to a place apart at a time, if they do: when they are turned, enough of them
/// for whole cache lines of the result.
const STRIPS_APART: usize = 8;

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
pub unsafe fn product<E: Number>(
    plan: Plan,
    instructions: Instructions,
    c: View<*mut E>,
    a: View<*const E>,
    b: View<*const E>,
    alpha: E,
    start: Start<E>,
) {
    assert!(b.shape == [a.shape[1], c.shape[1]], "the shapes do not fit");
    assert!(a.shape == [c.shape[0], b.shape[0]], "the shapes do not fit");
    assert!(a.shape[1] > 0, "there is no depth");
    if c.shape.contains(&0) {
        return;
    }
    let kernels = E::micro_kernels(instructions);
    // SAFETY: the caller's.
    let (left, right) = unsafe { (Source::new(a), Source::new(b)) };
    if plan.0 == Algorithm::Blocked
        && alpha == E::ONE
        && let Some(lying) = Lying::of(kernels, c, left, right, start)
    {
        // SAFETY: the caller's: the result and the values of `start` have its shape.
        return unsafe { lying.run() };
    }
    // The transpose of the product is the product of the transposes, in the other order.
    let transposed = match plan.0 {
        Algorithm::Blocked => cost(kernels, c.t(), b.t(), a.t()) < cost(kernels, c, a, b),
        Algorithm::Skinny { transposed, .. } => transposed,
        Algorithm::Naive => false,
    };
    let (c, a, b, start) = match transposed {
        true => (c.t(), right.t(), left.t(), start.t()),
        false => (c, left, right, start),
    };
    if let Algorithm::Skinny { form: GemvForm::Dot, .. } = plan.0
        && alpha == E::ONE
        && let Some(small) = SmallGemm::of(a, b, instructions, start)
    {
        // SAFETY: the caller's: the result and the values of `start` have its shape.
        return unsafe { small.run(c, start) };
    }
    if plan.0 == Algorithm::Naive {
        // SAFETY: the caller's.
        return unsafe { tiny(c, a, b, alpha, start) };
    }
    let output = Output::of(c, alpha, start, &kernels.pack);
    let mut scratch = Scratch::take();
    if let Algorithm::Skinny { form, .. } = plan.0 {
        let bring = |sums: &[E], width, place, size| output.bring(sums, width, place, size);
        let a = SmallMatrix { source: a, instructions };
        Skinny { a: &a, b, instructions, form, bring: &bring }.run(&mut scratch);
    } else {
        let depth = a.shape()[1];
        walk(kernels, output, depth, Operand::Matrix(a), Operand::Matrix(b), &mut scratch);
    }
    scratch.give_back();
}

/// Element by element.
///
/// # Safety
/// As for [`product`].
unsafe fn tiny<E: Number>(
    c: View<*mut E>,
    a: Source<'_, E>,
    b: Source<'_, E>,
    alpha: E,
    start: Start<E>,
) {
    for row in 0..c.shape[0] {
        for col in 0..c.shape[1] {
            let terms = (0..a.shape()[1]).map(|step| a.at([row, step]) * b.at([step, col]));
            let sum = terms.fold(E::ZERO, |sum, term| sum + term);
            // SAFETY: the caller's; the place lies in the result.
            unsafe { start.meet(&[alpha * sum], [row, col], c) };
        }
    }
}

/// [`product`] of factors that may be made as they are needed, tile by tile, over so many steps. The
/// columns of the result may lie apart.
///
/// # Safety
/// As for [`product`], of every matrix of the result; rows and columns of factors in memory are those
/// of the result, and their depth is the one given.
///
/// # Panics
/// When the shapes do not fit or there is no depth.
pub unsafe fn product_of_factors<E: Number>(
    instructions: Instructions,
    (c, apart): (View<*mut E>, Option<Apart>),
    depth: usize,
    [a, b]: [Operand<'_, E>; 2],
    start: Start<E>,
) {
    assert!(a.fits([c.shape[0], depth]) && b.fits([depth, c.shape[1]]), "the shapes do not fit");
    assert!(apart.is_none_or(|apart| apart.columns > 0), "the matrices have no columns");
    assert!(depth > 0, "there is no depth");
    if c.shape.contains(&0) {
        return;
    }
    let kernels = E::micro_kernels(instructions);
    if let (Operand::Matrix(a), Operand::Matrix(b), None) = (a, b, apart)
        && let Some(lying) = Lying::of(kernels, c, a, b, start)
    {
        // SAFETY: the caller's, for all that there is.
        return unsafe { lying.run() };
    }
    let output = Output::of(c, E::ONE, start, &kernels.pack).apart(apart);
    let mut scratch = Scratch::take();
    walk(kernels, output, depth, a, b, &mut scratch);
    scratch.give_back();
}

/// [`product`] with some columns of a factor whose panels were made before; the first one begins a
/// panel.
///
/// # Safety
/// As for [`product`], of `c`, `a` and `start`.
///
/// # Panics
/// When the shapes do not fit, there is no depth, or the columns do not begin with a panel.
pub unsafe fn product_of_packed<E: Number>(
    c: View<*mut E>,
    a: View<*const E>,
    (b, cols): (&PrepackedB<E>, Range<usize>),
    start: Start<E>,
) {
    assert!(a.shape[0] == c.shape[0] && cols.len() == c.shape[1], "the shapes do not fit");
    assert!(b.has(a.shape[1], cols.clone()), "the shapes do not fit");
    assert!(a.shape[1] > 0, "there is no depth");
    if c.shape.contains(&0) {
        return;
    }
    // SAFETY: the caller's.
    let a = unsafe { Source::new(a) };
    let output = Output::of(c, E::ONE, start, &b.kernels().pack);
    let mut scratch = Scratch::take();
    let depth = a.shape()[1];
    let b_factor = Operand::Prepacked(b, cols.start);
    walk(b.kernels(), output, depth, Operand::Matrix(a), b_factor, &mut scratch);
    scratch.give_back();
}

/// Tile by tile.
pub(crate) fn walk<E: Sealed>(
    kernels: &'static MicroKernels<E>,
    output: Output<'_, E>,
    depth: usize,
    a: Operand<'_, E>,
    b: Operand<'_, E>,
    scratch: &mut Scratch,
) {
    Walk { output, a, b, depth, kernels }.run(scratch);
}

/// About how many cycles a product takes: multiplications; what it takes to read `a` where the steps of
/// its rows do not lie side by side; copies of `b`, which are slower where its columns do not, or where
/// every row lies on a page of its own; and those of the result where its columns do not, for every block
/// of the depth. Where a step takes half the cycles, what is waited for weighs more; but pages less, as
/// panels are wider and brought near while the ones before are used.
fn cost<E: Sealed>(
    kernels: &MicroKernels<E>,
    c: View<*mut E>,
    a: View<*const E>,
    b: View<*const E>,
) -> usize {
    let ([rows, cols], depth) = (c.shape, a.shape[1]);
    let wide = kernels.is_wide();
    let pages = if wide { 5 } else { 8 };
    // A step multiplies twice in a cycle, and loads one row of `b` and an element of `a` per row.
    let panels = Partition::of(cols.div_ceil(kernels.lanes), kernels.registers());
    let of_step: usize = panels.widths().map(|(count, w)| count * (3 * w).max(6 + w)).sum();
    // Saturated: expanded factors have more elements than there are bytes.
    let times = |a: usize, b: usize| a.saturating_mul(b);
    let of_tiles = times(times(rows, depth), of_step) / 6;
    let apart = bytes_apart::<E>(a.strides[1]);
    let quarters = match panels.count {
        _ if a.strides[1] == 1 => 0,
        // Strips are copied in pieces of a few elements.
        count if count > MAX_UNPACKED_PANELS => 4,
        _ if apart.is_multiple_of(L1_ALIAS_STRIDE) => 4,
        _ if apart.saturating_mul(depth.min(DEPTH)) <= TLB_REACH => 0,
        _ if wide && apart >= PAGE_BYTES => 3,
        _ => 1,
    };
    let of_a = times(times(rows, depth), quarters) / 4;
    let of_b = match b.strides {
        [row, 1] if bytes_apart::<E>(row) >= PAGE_BYTES => times(times(depth, cols), pages) / 8,
        [_, 1] => times(depth, cols) / 8,
        _ => times(depth, cols) / 4,
    };
    let of_c =
        if c.strides[1] == 1 { 0 } else { times(times(rows, cols), depth.div_ceil(DEPTH)) / 2 };
    of_tiles.saturating_add(of_a).saturating_add(of_b).saturating_add(of_c)
}

pub(crate) fn steps(length: usize, step: usize) -> impl Iterator<Item = Range<usize>> {
    (0..length).step_by(step).map(move |start| start..(start + step).min(length))
}

/// Whether a block is the first one that adds to its sums, and the first one with its panels.
struct Times {
    of_sums: bool,
    of_panels: bool,
}

/// A product under way.
struct Walk<'a, E: 'static> {
    output: Output<'a, E>,
    a: Operand<'a, E>,
    b: Operand<'a, E>,
    depth: usize,
    kernels: &'static MicroKernels<E>,
}

impl<E: Sealed> Walk<'_, E> {
    fn run(&self, scratch: &mut Scratch) {
        let ([rows, cols], depth) = (self.output.shape(), self.depth);
        // Pieces are not divided.
        let most = if let Operand::Segments(_) = self.a { depth } else { DEPTH };
        let per_call = most.min(depth) * size_of::<E>();
        let sizes = Blocks::of(self.kernels);
        let rows_at_once = sizes.rows(rows, per_call).next_multiple_of(self.kernels.rows());
        let reused = rows > rows_at_once;
        let most_cols = sizes.bytes_of_b.div_ceil(per_call).next_multiple_of(self.kernels.cols());
        let cols_at_once = if reused { most_cols } else { cols };
        let depths = Partition::of(depth, most);
        assert!(self.output.is_here() || depths.count == 1, "sums are taken elsewhere once");
        // Rows whose sums stay near from one block of the depth to the next.
        let blocks = if depths.count > 1 { sizes.together } else { usize::MAX };
        let groups = Partition::of(rows.div_ceil(rows_at_once), blocks);
        for cols in steps(cols, cols_at_once) {
            for group in groups.all() {
                let rows = group.start * rows_at_once..(group.end * rows_at_once).min(rows);
                for index in 0..depths.count {
                    let place = [rows.clone(), cols.clone()];
                    // Panels that are kept are used for other rows first.
                    let next_depth =
                        (!reused && index + 1 < depths.count).then(|| depths.get(index + 1));
                    self.depth(
                        place,
                        (depths.get(index), next_depth),
                        rows_at_once,
                        reused,
                        scratch,
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
        rows_at_once: usize,
        reused: bool,
        scratch: &mut Scratch,
    ) {
        let part = [depth.clone(), cols.clone()];
        let panels = PackedB::of(self.b, part, rows.len(), reused, self.kernels, &mut scratch.b);
        let mut panels = panels.next_depth(next_depth);
        for start in rows.clone().step_by(rows_at_once) {
            let part = [start..(start + rows_at_once).min(rows.end), depth.clone()];
            let packed_a = PackedA::of(self.a, part, panels.count(), self.kernels, &mut scratch.a);
            let times = Times { of_sums: depth.start == 0, of_panels: start == rows.start };
            self.block(&mut panels, &packed_a, [start, cols.start], times, &mut scratch.c);
        }
    }

    /// Every panel of a block of `b` with every strip of a block of `a`. The place of the block is
    /// given.
    fn block(
        &self,
        panels: &mut PackedB<'_, E>,
        packed_a: &PackedA<'_, E>,
        start: [usize; 2],
        Times { of_sums: first, of_panels: first_time }: Times,
        room: &mut Room,
    ) {
        for index in 0..panels.count() {
            let panel = panels.get(index, first_time, packed_a.row_major());
            let ahead = panels.ahead(index + 1, first_time, packed_a.count());
            // Whether tiles write to the result itself.
            let direct = self.output.is_here()
                && self.output.strides()[1] == 1
                && panel.cols.len() == panel.registers * self.kernels.lanes
                && self.output.is_together(&panel.cols)
                && self.output.alpha == E::ONE
                && !(first && matches!(self.output.start, Start::Scaled(beta) if beta != E::ONE));
            let pass = Pass { packed_a, panel, ahead, row: start[0], first };
            if direct { self.to_result(pass) } else { self.by_way_of(room, pass) }
        }
    }

    /// What the sums from a place on are added to: by the first block of the depth what the product
    /// starts from, by the others what is there.
    fn start(&self, place: [usize; 2], first: bool) -> Start<E> {
        if first { self.output.start.at(place) } else { Start::Scaled(E::ONE) }
    }

    /// A panel with every strip, whose sums go to the result.
    fn to_result(&self, Pass { packed_a, mut panel, mut ahead, row, first }: Pass<'_, '_, E>) {
        let place = [row, panel.cols.start];
        let start = self.start(place, first);
        let (c, ldc) = (self.output.place(place), self.output.strides()[0]);
        assert!(row + packed_a.height() <= self.output.shape()[0], "the block lies in the result");
        for index in 0..packed_a.count() {
            let panel_a = packed_a.get(index);
            let above = panel_a.rows.start;
            let c = c.wrapping_offset(above as isize * ldc);
            let sums = TileOutput { c, ldc, start: start.at([above, 0]), prefetch: ahead.part() };
            // SAFETY: the result has the rows of the block and the columns of the panel, all of them
            // in one matrix, and there are values for them.
            unsafe { packed_a.run_micro_kernel(&panel_a, &mut panel, sums) };
        }
    }

    /// A panel with every strip, whose sums go to the room and from there to the result.
    fn by_way_of(
        &self,
        room: &mut Room,
        Pass { packed_a, mut panel, mut ahead, row, first }: Pass<'_, '_, E>,
    ) {
        let width = panel.registers * self.kernels.lanes;
        for group in steps(packed_a.count(), STRIPS_APART) {
            let rows = packed_a.get(group.start).rows.start..packed_a.get(group.end - 1).rows.end;
            let place = [row + rows.start, panel.cols.start];
            let size = [rows.len(), panel.cols.len()];
            let base = self.start(place, first);
            // Tiles add values per row whatever columns they have.
            let by_tiles = matches!(base, Start::PerRow(_)) && self.output.alpha == E::ONE;
            let beta = match first {
                true if by_tiles => None,
                true => self.output.begin(place, size),
                false => Some(E::ONE),
            };
            let sums = room.elements::<E>(rows.len() * width);
            for index in group {
                let panel_a = packed_a.get(index);
                let above = panel_a.rows.start - rows.start;
                let (c, ldc) = (sums[above * width..].as_mut_ptr(), width as isize);
                let start = if by_tiles { base.at([above, 0]) } else { Start::Nothing };
                let sums = TileOutput { c, ldc, start, prefetch: ahead.part() };
                // SAFETY: there is room for all rows and all columns of the panel.
                unsafe { packed_a.run_micro_kernel(&panel_a, &mut panel, sums) };
            }
            self.output.store_tile(sums, width, place, size, beta);
        }
    }
}

/// A panel that is multiplied with every strip of a block.
struct Pass<'a, 'b, E: 'static> {
    packed_a: &'a PackedA<'b, E>,
    panel: PanelB<E>,
    ahead: PrefetchQueue<E>,
    /// The first row of the block.
    row: usize,
    /// Whether this is the first block that adds to its sums.
    first: bool,
}
