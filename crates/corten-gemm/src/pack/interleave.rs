//! Factors of which neighbours along the depth become groups that one instruction multiplies and
//! adds up: pairs or quads.

use crate::kernel::skinny::SmallOperand;
use crate::pack::blocks::{Columns, SLACK};
use crate::pack::pack_kernels::Lines;
use crate::simd::vector::{Avx512Pairs, Avx512SignedQuads, MOST_LANES, Register};
use crate::simd::vnni4::{self, Quad};
use crate::types::low_precision::Bf16;
use crate::types::view::Source;
use crate::types::vnni::Pair;
use crate::types::workspace::{Plain, Room};
use std::ops::Range;

/// The most elements of a group.
const MOST: usize = 4;

/// How single elements become groups.
pub(crate) trait Grouping {
    /// An element.
    type Single: Plain;
    /// A register of groups.
    type Register: Register;
    /// The elements of a group.
    const SIZE: usize;
    /// What is multiplied by zero, and by anything to zero.
    const ZERO: Self::Single;

    /// The group of the first elements.
    fn group(singles: [Self::Single; MOST]) -> <Self::Register as Register>::Elem;

    /// Groups of neighbours.
    ///
    /// # Safety
    /// `from` must be readable for a register of groups.
    unsafe fn along(from: *const Self::Single) -> Self::Register;

    /// Groups of an element of each of some lines, so far apart.
    ///
    /// # Safety
    /// Every line of a group must be readable for as many elements as there are lanes.
    unsafe fn across(first: *const Self::Single, stride: isize) -> Self::Register;

    /// Copies lines of elements to lines of groups of their columns `width` apart.
    ///
    /// # Safety
    /// As for `Moves::copy`, for lines of groups.
    unsafe fn copy_across(from: Lines<*const Self::Single>, to: *mut Group<Self>, width: usize)
    where
        Self: Sized,
    {
        // SAFETY: the caller's.
        unsafe { copy_across::<Self>(from, to, width) }
    }
}

/// The groups of a factor.
type Group<G> = <<G as Grouping>::Register as Register>::Elem;

/// Two neighbours.
pub(crate) struct Pairs;

impl Grouping for Pairs {
    type Single = Bf16;
    type Register = Avx512Pairs;
    const SIZE: usize = 2;
    const ZERO: Bf16 = Bf16(0);

    fn group([first, second, ..]: [Bf16; MOST]) -> Pair {
        Pair::of(first, second)
    }

    #[inline(always)]
    unsafe fn along(from: *const Bf16) -> Avx512Pairs {
        // SAFETY: the caller's.
        unsafe { Avx512Pairs::load(from.cast()) }
    }

    #[inline(always)]
    unsafe fn across(first: *const Bf16, stride: isize) -> Avx512Pairs {
        // SAFETY: the caller's.
        unsafe { Avx512Pairs::across(first, first.wrapping_offset(stride)) }
    }
}

/// Four neighbours, with their sign bits flipped or not. The signs of what multiplies them do not
/// matter here.
pub(crate) struct Quads<const FLIPPED: bool>;

impl<const FLIPPED: bool> Grouping for Quads<FLIPPED> {
    type Single = u8;
    type Register = Avx512SignedQuads;
    const SIZE: usize = 4;
    const ZERO: u8 = 0;

    fn group(singles: [u8; MOST]) -> Quad {
        Quad(if FLIPPED { singles.map(|byte| byte ^ 0x80) } else { singles })
    }

    #[inline(always)]
    unsafe fn along(from: *const u8) -> Avx512SignedQuads {
        // SAFETY: the caller's.
        let quads = unsafe { Avx512SignedQuads::load(from.cast()) };
        if FLIPPED { quads.flipped() } else { quads }
    }

    #[inline(always)]
    unsafe fn across(first: *const u8, stride: isize) -> Avx512SignedQuads {
        // SAFETY: the caller's.
        let quads = unsafe { Avx512SignedQuads::across(first, stride) };
        if FLIPPED { quads.flipped() } else { quads }
    }

    unsafe fn copy_across(from: Lines<*const u8>, to: *mut Quad, width: usize) {
        // SAFETY: the caller's.
        unsafe { vnni4::copy_across::<FLIPPED>(from, to, width) }
    }
}

/// A matrix of which neighbours along the depth become groups. What a last group lacks counts as zero.
pub(crate) struct Grouped<'a, G: Grouping> {
    source: Source<'a, G::Single>,
    /// Whether the depth is along the rows, as for a second factor.
    row_major: bool,
}

impl<'a, G: Grouping> Grouped<'a, G> {
    /// # Safety
    /// The processor must have AVX-512 F, BW, DQ and VL.
    pub(crate) unsafe fn new(source: Source<'a, G::Single>, row_major: bool) -> Self {
        Self { source, row_major }
    }

    /// The rows and columns of groups.
    pub(crate) fn size(&self) -> [usize; 2] {
        let [rows, cols] = self.source.shape();
        if self.row_major { [rows.div_ceil(G::SIZE), cols] } else { [rows, cols.div_ceil(G::SIZE)] }
    }

    /// What groups of some rows and columns are made of.
    pub(crate) fn part(&self, rows: Range<usize>, cols: Range<usize>) -> Source<'a, G::Single> {
        let all = self.source.shape();
        let singles = |groups: Range<usize>, all: usize| {
            G::SIZE * groups.start..(G::SIZE * groups.end).min(all)
        };
        match self.row_major {
            true => self.source.part(singles(rows, all[0]), cols),
            false => self.source.part(rows, singles(cols, all[1])),
        }
    }

    fn group(&self, from: &Source<'_, G::Single>, [i, j]: [usize; 2]) -> Group<G> {
        let [rows, cols] = from.shape();
        let mut singles = [G::ZERO; MOST];
        for (at, single) in singles.iter_mut().enumerate().take(G::SIZE) {
            let place = if self.row_major { [G::SIZE * i + at, j] } else { [i, G::SIZE * j + at] };
            if place[0] < rows && place[1] < cols {
                *single = from.at(place);
            }
        }
        G::group(singles)
    }
}

impl<G: Grouping> Columns<Group<G>> for Grouped<'_, G> {
    fn fill(&self, rows: Range<usize>, cols: Range<usize>, to: &mut [Group<G>], width: usize) {
        let size = [rows.len(), cols.len()];
        assert!(size[1] <= width && width.is_multiple_of(G::Register::LANES));
        assert!(size[0] * width <= to.len());
        let from = self.part(rows, cols);
        let ([rows, cols], [row, col]) = (from.shape(), from.strides());
        let lines = |stride, count, len| Lines { first: from.first(), stride, count, len };
        let place = to.as_mut_ptr();
        // SAFETY: the matrix is readable, `to` holds all lines, and the constructor's caller owes
        // the instructions.
        unsafe {
            match (self.row_major, [row, col]) {
                (true, [_, 1]) => G::copy_across(lines(row, rows, cols), place, width),
                (true, [1, _]) => turn_along::<G>(lines(col, cols, rows), place, width),
                (false, [_, 1]) => copy_along::<G>(lines(row, rows, cols), place, width),
                (false, [1, _]) => turn_across::<G>(lines(col, cols, rows), place, width),
                _ => {
                    for (i, line) in to.chunks_exact_mut(width).enumerate().take(size[0]) {
                        (0..size[1]).for_each(|j| line[j] = self.group(&from, [i, j]));
                    }
                }
            }
        }
    }
}

impl<G: Grouping> SmallOperand<Group<G>> for Grouped<'_, G> {
    fn shape(&self) -> [usize; 2] {
        self.size()
    }

    fn contiguous<'r>(&'r self, room: &'r mut Room) -> (*const Group<G>, isize) {
        let [rows, depth] = self.size();
        let width = depth.next_multiple_of(G::Register::LANES);
        let room = room.elements::<Group<G>>(rows * width + SLACK);
        self.fill(0..rows, 0..depth, room, width);
        (room.as_ptr(), width as isize)
    }
}

/// Groups of neighbours in a line.
///
/// # Safety
/// The lines must be readable.
#[inline(always)]
unsafe fn along<G: Grouping>(from: Lines<*const G::Single>, line: usize, at: usize) -> G::Register {
    let all = G::SIZE * G::Register::LANES;
    let place = from.first.wrapping_offset(line as isize * from.stride).wrapping_add(G::SIZE * at);
    let left = from.len - G::SIZE * at;
    // SAFETY: the caller's, for what is left of the line.
    unsafe {
        if left >= all {
            return G::along(place);
        }
        let mut some = [G::ZERO; MOST * MOST_LANES];
        std::ptr::copy_nonoverlapping(place, some.as_mut_ptr(), left);
        G::along(some.as_ptr())
    }
}

/// Groups of an element of each of some lines.
///
/// # Safety
/// The lines must be readable, for `n` elements from `at` on.
#[inline(always)]
unsafe fn across<G: Grouping>(
    from: Lines<*const G::Single>,
    line: usize,
    at: usize,
    n: usize,
) -> G::Register {
    let first = G::SIZE * line;
    let place = from.first.wrapping_offset(first as isize * from.stride).wrapping_add(at);
    if n == G::Register::LANES && first + G::SIZE <= from.count {
        // SAFETY: the caller's.
        return unsafe { G::across(place, from.stride) };
    }
    let mut some = [G::ZERO; MOST * MOST_LANES];
    // SAFETY: the caller's; a register of groups has so many elements.
    unsafe {
        for i in 0..G::SIZE.min(from.count - first) {
            let to = some[i * G::Register::LANES..].as_mut_ptr();
            std::ptr::copy_nonoverlapping(place.wrapping_offset(i as isize * from.stride), to, n);
        }
        G::across(some.as_ptr(), G::Register::LANES as isize)
    }
}

/// Moves from lines of singles. What is said of `Moves` holds for lines of groups.
macro_rules! moves {
    ($($name:ident: $arrange:ident |$from:ident, $line:ident, $at:ident, $n:ident|
        $load:expr, $size:expr;)+) => {$(
        /// # Safety
        /// The lines must be readable, `to` writable, and the processor must have the
        /// instructions.
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
        unsafe fn $name<G: Grouping>(
            $from: Lines<*const G::Single>,
            to: *mut Group<G>,
            width: usize,
        ) {
            // SAFETY: the caller's.
            unsafe {
                crate::pack::convert_pack::$arrange($size, |$line, $at, $n| $load, to, width);
            }
        }
    )+};
}

moves! {
    copy_along: arrange |from, line, at, _n|
        along::<G>(from, line, at), [from.count, from.len.div_ceil(G::SIZE)];
    turn_along: arrange_turned |from, line, at, _n|
        along::<G>(from, line, at), [from.count, from.len.div_ceil(G::SIZE)];
    copy_across: arrange |from, line, at, n|
        across::<G>(from, line, at, n), [from.count.div_ceil(G::SIZE), from.len];
    turn_across: arrange_turned |from, line, at, n|
        across::<G>(from, line, at, n), [from.count.div_ceil(G::SIZE), from.len];
}
